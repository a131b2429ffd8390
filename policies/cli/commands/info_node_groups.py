"""`forewarn info node-groups`: show the node groups that cluster-autoscaler may scale up, and where they are from."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from forewarn.policies.base.documents import info, to_dict
from forewarn.policies.base.documents.answer import Table
from forewarn.policies.base.findings import brief, plural
from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.parser import Parser, print_lines
from forewarn.policies.cli.commands.simulated import reject_node_templates
from forewarn.policies.cli.render import Painter, plain
from forewarn.policies.cli.render.answer import table_lines
from forewarn.policies.cli.terminal import as_json
from forewarn.policies.inputs.sources.cluster import objects_of
from forewarn.policies.kubernetes.objects.fields import int32, mapping, text
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import NO_TEMPLATE, Discovery, GroupCache
from forewarn.policies.prediction.autoscaling.karpenter.requirements import NODE_POOL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.cli.commands.cluster_command import Run
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

HEADS = ("group", "nodes", "size", "min", "max", "zones", "found by", "sizes from", "template", "not used")
NODE_POOL_HEADS = ("NodePool", "nodes", "weight", "limits")
NO_MAXIMUM = "maximum unknown"
_MAX_LENGTH = 100
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
        sys.stdout.write(as_json(to_dict(groups)))
    else:
        print_lines(run.output, lambda paint: lines(groups, paint))
    return 0


def groups_of(discovery: Discovery, snapshot: Snapshot) -> info.NodeGroups:
    """The node groups of cluster-autoscaler, and the NodePools of Karpenter. Raises InvalidObject."""
    settings, found = discovery.settings, list[info.NodeGroup]()
    for pool in discovery.pools(snapshot):
        sizes = pool.sizes
        not_used = NO_MAXIMUM if sizes.max_size is None else NO_TEMPLATE if pool.group is None else sizes.state or ""
        of_group = pool.name, pool.source, pool.nodes, pool.zones, sizes.size, sizes.min_size, sizes.max_size
        found.append(info.NodeGroup(*of_group, pool.limits, pool.template, not_used))
    flags = settings.expanders, settings.balance_similar, settings.max_nodes_total, settings.limits
    read = discovery.has_flags, [f"--{flag}" for flag in settings.unmodelled]
    node_pools = list(_node_pools(discovery, snapshot))
    return info.NodeGroups(found, node_pools, info.NodeGroupSettings(*flags, *read), discovery.problem)


def _node_pools(discovery: Discovery, snapshot: Snapshot) -> Iterator[info.NodePool]:
    """Yield the NodePools, with their limits and numbers of nodes. Raises InvalidObject."""
    nodes = Counter(node.labels.get(NODE_POOL) for node in snapshot.objects.nodes.values())
    for obj in discovery.node_pools:
        name = text(obj, "metadata", "name")
        limits = ", ".join(f"{resource} {limit}" for resource, limit in mapping(obj, "spec", "limits").items())
        weight = int32(obj, "spec", "weight") or 0
        yield info.NodePool(name, nodes[name], weight, brief(limits, _MAX_LENGTH))


def lines(groups: info.NodeGroups, paint: Painter = plain) -> Iterator[str]:
    """The groups as text: the counts first."""
    pools, node_pools, settings, problem = groups
    usable = sum(not pool.not_used for pool in pools)
    counts = [f"{plural(len(pools), 'node group')}, {usable} of them may grow"] if pools else []
    nodes = plural(sum(pool.nodes for pool in node_pools), "node")
    counts += [f"{plural(len(node_pools), 'NodePool')} of Karpenter with {nodes}"] if node_pools else []
    yield paint("; ".join(counts) or "no node groups found: simulations add no nodes", "bold")
    if pools or not node_pools:
        yield _settings(settings)
    if problem:
        yield f"note: {problem}"
    if pools:
        yield from table_lines(Table(HEADS, [*map(_row, pools)], zeros=True), paint)
    if node_pools:
        yield from table_lines(Table(NODE_POOL_HEADS, node_pools, zeros=True), paint)
        yield "Fix: to simulate new nodes of NodePools, pass --instance-types FILE to whatif, risk and audit"
    if usable < len(pools) or not (pools or node_pools):
        what = "groups that are not used" if pools else "the groups"
        commands = "whatif, risk, audit, headroom and predict"
        yield f"Fix: describe {what} in a file, and pass --node-templates FILE to {commands}"


def _row(group: info.NodeGroup) -> tuple[str | int, ...]:
    sizes = ("" if size is None else size for size in (group.size, group.min_size, group.max_size))
    texts = " ".join(group.zones), group.source, group.limits, group.template, group.not_used
    return (group.name, group.nodes, *sizes, *texts)


def _settings(settings: info.NodeGroupSettings) -> str:
    parts = [] if settings.found else ["default flags (its Deployment is not in the cluster state)"]
    parts += [f"expander {','.join(settings.expanders)}"]
    parts += ["similar groups balanced"] if settings.balance_similar_node_groups else []
    parts += [f"at most {settings.max_nodes_total} nodes"] if settings.max_nodes_total else []
    parts += [f"at most {limit} {'cores' if name == 'cpu' else 'bytes'}" for name, limit in settings.limits.items()]
    parts += [f"not modelled: {' '.join(settings.not_modelled)}"] if settings.not_modelled else []
    return f"cluster-autoscaler: {', '.join(parts)}"


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
    cluster_command.add_output_option(add)
    cluster_command.add_color_option(add)
    return parser
