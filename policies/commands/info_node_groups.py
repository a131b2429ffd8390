"""`forewarn info node-groups`: show the node groups that cluster-autoscaler may scale up, and where they are from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from forewarn.policies.autoscaling.cluster_autoscaler.discovery import NO_TEMPLATE, GroupCache
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
)
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.printing import print_lines
from forewarn.policies.findings import plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import table
from forewarn.policies.sources.cluster import node_groups_of
from forewarn.policies.terminal import as_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.autoscaling.cluster_autoscaler.discovery import Discovery, Pool
    from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import Settings
    from forewarn.policies.commands.cluster_command import Run

HEADS = ("group", "nodes", "size", "min", "max", "zones", "found by", "sizes from", "template", "not used")
NO_MAXIMUM = "maximum unknown"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    _, run = options_with_cluster(parser, arguments)
    return answered("info node-groups", run.output, lambda: _answer(run))


def _answer(run: Run) -> int:
    cache = GroupCache()
    snapshot = loaded(run, cache).snapshot().scheduling
    for obj in (obj for source in run.cluster for obj in node_groups_of(source)):
        cache.add(obj)
    pools, discovery = cache.discovery.pools(snapshot), cache.discovery
    if run.output.form == "json":
        sys.stdout.write(as_json(as_dict(pools, discovery)))
    else:
        print_lines(run.output, lambda paint: lines(pools, discovery, paint))
    return 0


def why_not_used(pool: Pool) -> str:
    """Return why simulations do not use a group, or ""."""
    if pool.sizes.max_size is None:
        return NO_MAXIMUM
    return NO_TEMPLATE if pool.group is None else pool.sizes.state


def lines(pools: Sequence[Pool], discovery: Discovery, paint: Painter = plain) -> Iterator[str]:
    """The groups as text: the count first."""
    usable = sum(not why_not_used(pool) for pool in pools)
    found = f"{plural(len(pools), 'node group')}, {usable} of them may grow" if pools else "no node groups found"
    yield paint(found, "bold")
    yield _settings(discovery.settings)
    if discovery.problem:
        yield f"note: {discovery.problem}"
    if pools:
        yield from table(HEADS, list(map(_row, pools)), paint, texts=("group", *HEADS[5:]))
    if not pools or usable < len(pools):
        what = "groups that are not used" if pools else "the groups"
        yield f"Fix: describe {what} in a file, and pass --node-templates FILE to whatif and predict"


def _row(pool: Pool) -> tuple[str, ...]:
    sizes = pool.sizes
    most = "" if sizes.max_size is None else str(sizes.max_size)
    numbers = (str(pool.nodes), str(sizes.size), str(sizes.min_size), most)
    texts = (" ".join(pool.zones), pool.source, pool.limits, pool.template, why_not_used(pool))
    return (pool.name, *numbers, *texts)


def _settings(settings: Settings) -> str:
    parts = [f"expander {','.join(settings.expanders)}"]
    parts += ["similar groups balanced"] if settings.balance_similar else []
    parts += [f"at most {settings.max_nodes_total} nodes"] if settings.max_nodes_total else []
    parts += [f"at most {limit} {'cores' if name == 'cpu' else 'bytes'}" for name, limit in settings.limits.items()]
    return f"cluster-autoscaler: {', '.join(parts)}"


def as_dict(pools: Sequence[Pool], discovery: Discovery) -> dict[str, Any]:
    """The JSON document of `-o json`."""
    settings = discovery.settings
    return {
        "nodeGroups": [
            {
                "name": pool.name,
                "source": pool.source,
                "nodes": pool.nodes,
                "zones": list(pool.zones),
                "size": pool.sizes.size,
                "minSize": pool.sizes.min_size,
                "maxSize": pool.sizes.max_size,
                "limits": pool.limits,
                "template": pool.template,
                "notUsed": why_not_used(pool),
            }
            for pool in pools
        ],
        "settings": {
            "expanders": list(settings.expanders),
            "balanceSimilarNodeGroups": settings.balance_similar,
            "maxNodesTotal": settings.max_nodes_total,
            "limits": dict(settings.limits),
        },
        "problem": discovery.problem,
    }


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn info node-groups",
        description="Show the node groups of a cluster: their sizes and zones, the templates of new nodes, and the "
        "flags of cluster-autoscaler.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("info node-groups --cluster cluster.json.gz", "info node-groups -o json"),
    )
    add = parser.add_argument
    add_cluster_option(add)
    add_output_option(add, ("text", "json"))
    add_color_option(add)
    return parser
