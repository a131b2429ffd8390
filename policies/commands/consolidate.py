"""`forewarn whatif consolidate`: show which nodes Karpenter removes next, and why it keeps the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.autoscaling.karpenter.disruption import UNDERUTILIZED
from forewarn.policies.commands import cluster_command
from forewarn.policies.commands.autoscaling import add_instance_types_option, instance_types_of
from forewarn.policies.commands.parser import Parser, answer_in
from forewarn.policies.commands.release import settle
from forewarn.policies.findings import listed, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import left_out, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.application.consolidate import AllowedDisruptions, Consolidation

_MAX_ROWS: Final = 50
_NAMED: Final = 5
_FAILS: Final = "the launch fails and nothing is removed: Karpenter requires a spot node, which no instance type offers"
_ANY: Final = "any"
_RANDOM: Final = "equal nodes, and NodePools, have a random order"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    types = instance_types_of(options.instance_types, parser)

    def answer() -> int:
        from forewarn.policies.application.consolidate import collected, consolidate
        from forewarn.policies.cluster.cache import Cache
        from forewarn.policies.releases.release import Release

        cache, objects = collected(run.cluster, lambda collect: cluster_command.loaded(run, Cache(collect=collect)))
        result = consolidate(settle(cache, Release()), objects, types, spot_to_spot=options.spot_to_spot)
        answer_in(run.output, result, lines).print()
        return 0

    return cluster_command.answered("whatif consolidate", run.output, answer)


def lines(result: Consolidation, paint: Painter = plain) -> Iterator[str]:
    """The answer as text: the removed nodes first."""
    yield paint(_verdict(result), "bold")
    for names in result.alternatives[:_NAMED]:
        yield f"  or it removes {listed(list(names), _NAMED) or 'none'}: {_RANDOM}"
    if result.arbitrary or len(result.alternatives) > _NAMED:
        yield f"  or it removes others: {_RANDOM}"
    if result.removed:
        titles = ("node to remove", "NodePool", "instance type", "price", "Pods")
        removed = [(*node[:3], f"{node.price:.4g}" if node.price else "", node.pods) for node in result.removed]
        yield from _rows(titles, removed, paint, titles[:3])
    for new in result.added:
        others = f", or {plural(new.instance_types - 1, 'other instance type')}" if new.instance_types > 1 else ""
        price = f", {new.price:.4g} per hour" if new.price else ""
        kind = f"NodePool {new.node_pool}, {new.instance_type}{price}{others}"
        yield f"  launch 1 node ({kind}): {plural(len(new.pods), 'Pod')}"
        yield from [f"  {_FAILS}"] if new.fails else ()
    if moves := Counter((move.from_node, move.to_node or "the new node") for move in result.moves):
        moved = [(*nodes, count) for nodes, count in moves.most_common()]
        yield from _rows(("from", "to", "Pods that move"), moved, paint, ("from", "to"))
    if result.kept:
        heads = ("node that stays", "NodePool", "why")
        yield from _rows(heads, result.kept, paint, heads)
    yield from _budgets(result.budgets, paint)
    if result.drifting:
        nodes = f"{plural(len(result.drifting), 'node')} ({listed(list(result.drifting), _NAMED)})"
        yield f"  note: Karpenter will mark {nodes} as drifted, because the NodePool changed"


def _verdict(result: Consolidation) -> str:
    if not result.removed:
        if result.not_predicted:
            return f"Karpenter removes no node, as far as predicted; not predicted: {result.not_predicted}"
        why = f": {result.waits}" if result.waits else ""
        return f"Karpenter removes none of its {plural(len(result.kept), 'node')} now{why}"
    names = listed([node.node for node in result.removed], _NAMED)
    parts = [f"Karpenter next removes {plural(len(result.removed), f'{result.reason.lower()} node')}"]
    fails = any(node.fails for node in result.added)
    parts += [f"launches {len(result.added)} first{' (fails)' if fails else ''}"] if result.added else []
    parts += [f"{plural(len(result.moves), 'Pod')} move{'s' * (len(result.moves) == 1)}"] if result.moves else []
    saved = sum(node.price for node in result.removed) - sum(node.price for node in result.added)
    is_cheaper = saved > 0 and result.reason == UNDERUTILIZED and not fails
    parts += [f"saves {saved:.4g} per hour (unit of the prices in --instance-types)"] if is_cheaper else []
    return f"{', '.join(parts)}: {names}"


def _rows(
    heads: Sequence[str], rows: Sequence[Sequence[str | int]], paint: Painter, texts: Sequence[str]
) -> Iterator[str]:
    yield from table(heads, rows[:_MAX_ROWS], paint, texts=texts, longest=300)
    yield from left_out(len(rows), _MAX_ROWS, indent="  ")


def _budgets(budgets: Sequence[AllowedDisruptions], paint: Painter) -> Iterator[str]:
    heads = ("NodePool", "nodes", "may remove empty", "drifted", "underutilized")
    rows = [[_ANY if cell is None else cell for cell in budget] for budget in budgets]
    yield from _rows(heads, rows, paint, ("NodePool",))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn whatif consolidate",
        description="Show which nodes Karpenter removes next (empty, drifted or underutilized), where their Pods go, "
        "and which annotations, PDBs and limits of NodePools keep the other nodes.",
        epilog="Exit status: 0: answered. 2: wrong usage. 3: no answer.",
        examples=(
            "whatif consolidate --instance-types types.yaml",
            "whatif consolidate --instance-types types.yaml --cluster cluster.json.gz -o json",
        ),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add)
    add_instance_types_option(add, "file with a list of instance types {name, capacity, offerings} and their prices")
    add("--spot-to-spot", action="store_true", help="assume that Karpenter's gate SpotToSpotConsolidation is on")
    cluster_command.add_printing_options(add)
    return parser
