"""`forewarn info node-groups`: show the node groups that cluster-autoscaler may scale up, and where they are from."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.autoscaling.cluster_autoscaler.discovery import NO_TEMPLATE, Discovery, GroupCache, Pool
from forewarn.policies.autoscaling.karpenter.requirements import NODE_POOL
from forewarn.policies.commands import cluster_command
from forewarn.policies.commands.autoscaling import reject_node_templates
from forewarn.policies.commands.parser import Parser, print_lines
from forewarn.policies.documents import info, to_dict
from forewarn.policies.findings import cut, one_line, plural
from forewarn.policies.objects.fields import int32, mapping, text
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import table
from forewarn.policies.sources.cluster import objects_of
from forewarn.policies.terminal import as_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import Settings
    from forewarn.policies.commands.cluster_command import Run
    from forewarn.policies.scheduling.snapshot import Snapshot

HEADS = ("group", "nodes", "size", "min", "max", "zones", "found by", "sizes from", "template", "not used")
NODE_POOL_HEADS = ("NodePool", "nodes", "weight", "limits")
NO_MAXIMUM = "maximum unknown"
_LONGEST = 100
"""Maximum characters of a NodePool's limits."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    _, run = cluster_command.options_with_cluster(_parser(), arguments)
    return cluster_command.answered("info node-groups", run.output, lambda: _answer(run))


def _answer(run: Run) -> int:
    cache = GroupCache()
    snapshot = cluster_command.loaded(run, cache).snapshot().scheduling
    for obj in (obj for source in run.cluster for obj in objects_of(source, "node_groups")):
        cache.add(obj)
    groups = groups_of(cache.discovery, snapshot)
    if run.output.form == "json":
        sys.stdout.write(as_json(as_dict(groups)))
    else:
        print_lines(run.output, lambda paint: lines(groups, paint))
    return 0


class Groups(NamedTuple):
    """What may add nodes to a cluster: `pools` are the node groups of cluster-autoscaler."""

    pools: Sequence[Pool]
    node_pools: Sequence[info.NodePool]
    discovery: Discovery


def groups_of(discovery: Discovery, snapshot: Snapshot) -> Groups:
    """Raises InvalidObject."""
    return Groups(discovery.pools(snapshot), list(_node_pools(discovery, snapshot)), discovery)


def why_not_used(pool: Pool) -> str:
    """Return why simulations do not use a group, or ""."""
    if pool.sizes.max_size is None:
        return NO_MAXIMUM
    return NO_TEMPLATE if pool.group is None else pool.sizes.state


def _node_pools(discovery: Discovery, snapshot: Snapshot) -> Iterator[info.NodePool]:
    """Raises InvalidObject."""
    nodes = Counter(node.labels.get(NODE_POOL) for node in snapshot.objects.nodes.values())
    for obj in discovery.node_pools:
        name = text(obj, "metadata", "name")
        limits = ", ".join(f"{resource} {limit}" for resource, limit in mapping(obj, "spec", "limits").items())
        weight = int32(obj, "spec", "weight") or 0
        yield info.NodePool(name, nodes[name], weight, cut(one_line(limits), _LONGEST))


def lines(groups: Groups, paint: Painter = plain) -> Iterator[str]:
    """The groups as text: the counts first."""
    pools, node_pools, discovery = groups
    usable = sum(not why_not_used(pool) for pool in pools)
    counts = [f"{plural(len(pools), 'node group')}, {usable} of them may grow"] if pools else []
    nodes = plural(sum(pool.nodes for pool in node_pools), "node")
    counts += [f"{plural(len(node_pools), 'NodePool')} of Karpenter with {nodes}"] if node_pools else []
    yield paint("; ".join(counts) or "no node groups found: simulations add no nodes", "bold")
    if pools or not node_pools:
        yield _settings(discovery.settings, found=discovery.has_flags)
    if discovery.problem:
        yield f"note: {discovery.problem}"
    if pools:
        yield from table(HEADS, list(map(_row, pools)), paint, texts=("group", *HEADS[5:]))
    if node_pools:
        rows = [tuple(map(str, pool)) for pool in node_pools]
        yield from table(NODE_POOL_HEADS, rows, paint, texts=("NodePool", "limits"))
        yield "Fix: to simulate new nodes of NodePools, pass --instance-types FILE to whatif, risk and audit"
    if usable < len(pools) or not (pools or node_pools):
        what = "groups that are not used" if pools else "the groups"
        commands = "whatif, risk, audit, headroom and predict"
        yield f"Fix: describe {what} in a file, and pass --node-templates FILE to {commands}"


def _row(pool: Pool) -> tuple[str, ...]:
    sizes = pool.sizes
    most = "" if sizes.max_size is None else str(sizes.max_size)
    numbers = (str(pool.nodes), str(sizes.size), str(sizes.min_size), most)
    texts = (" ".join(pool.zones), pool.source, pool.limits, pool.template, why_not_used(pool))
    return (pool.name, *numbers, *texts)


def _settings(settings: Settings, *, found: bool) -> str:
    parts = [] if found else ["default flags (its Deployment is not in the cluster state)"]
    parts += [f"expander {','.join(settings.expanders)}"]
    parts += ["similar groups balanced"] if settings.balance_similar else []
    parts += [f"at most {settings.max_nodes_total} nodes"] if settings.max_nodes_total else []
    parts += [f"at most {limit} {'cores' if name == 'cpu' else 'bytes'}" for name, limit in settings.limits.items()]
    parts += [f"not modelled: {' '.join(f'--{flag}' for flag in settings.unmodelled)}"] if settings.unmodelled else []
    return f"cluster-autoscaler: {', '.join(parts)}"


def as_dict(groups: Groups) -> dict[str, Any]:
    """The JSON document of `-o json`."""
    pools, node_pools, discovery = groups
    settings, found = discovery.settings, list[info.NodeGroup]()
    for pool in pools:
        sizes, texts = pool.sizes, (pool.limits, pool.template, why_not_used(pool))
        of_group = pool.name, pool.source, pool.nodes, pool.zones
        found.append(info.NodeGroup(*of_group, sizes.size, sizes.min_size, sizes.max_size, *texts))
    flags = settings.expanders, settings.balance_similar, settings.max_nodes_total, settings.limits
    read = discovery.has_flags, [f"--{flag}" for flag in settings.unmodelled]
    return to_dict(info.NodeGroups(found, node_pools, info.NodeGroupSettings(*flags, *read), discovery.problem))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn info node-groups",
        description="Show the node groups of a cluster: their sizes and zones, the templates of new nodes, and some "
        "flags of cluster-autoscaler.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("info node-groups --cluster cluster.json.gz", "info node-groups -o json"),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add)
    reject_node_templates(add, "this command shows the groups of the cluster; whatif, risk and predict use your FILE")
    cluster_command.add_printing_options(add, ("text", "json"))
    return parser
