"""The reaction of autoscalers as tables: new nodes, Pods that no new node helps, and removed nodes."""

from __future__ import annotations

import re
from collections import Counter as Tally
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.documents.answer import Rows, Table
from forewarn.policies.base.findings import duration, grouped, listed
from forewarn.policies.kubernetes.scheduling.reasons import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from forewarn.policies.questions.whatif.answer import WithNewNodes
    from forewarn.policies.questions.whatif.autoscalers import Autoscalers, ScaleDowns, ScaleUp


_INSTEAD: Final = "placeholder Pods of a Deployment instead"
_LARGER: Final = "larger nodes, or a node selector of the DaemonSet"
_REQUIREMENTS: Final = re.compile(r", requirements=[^=]*?, resources=(\{[^}]*\})")
"""The part of a Karpenter message that repeats the requirements of the NodePool."""


def tables_of(reaction: Autoscalers, arrived: WithNewNodes | None = None) -> Iterator[Table]:
    """Yield the tables of a reaction; none without Pending Pods and scale-down. `arrived`: the end with new nodes."""
    yield from _new_nodes(reaction)
    yield from _not_helped(reaction)
    if arrived is not None:
        yield from _with_new_nodes(arrived)
    if reaction.scale_down is not None:
        yield from _removed(reaction.scale_down)


def warnings_of(
    reaction: Autoscalers, arrived: WithNewNodes | None = None, placeholders: Collection[str] = ()
) -> Iterator[str]:
    """Yield why Pods are Pending despite new nodes, and what is unknown about new and removed nodes.

    `arrived`: the end with new nodes. `placeholders`: the workloads that only reserve capacity.
    """
    pending = Tally[str]()
    for each in arrived.workloads if arrived is not None else ():
        first = shorten(each.message).partition("; ")[0]
        why = (first.partition(" nodes: ")[2] or first).partition(" (")[0]
        pending[why] += each.pending if each.workload not in placeholders else 0
    if causes := [f"{pods:,} {why}" for why, pods in pending.most_common() if pods]:
        yield f"Pending despite new nodes: {listed(causes, 2)}"
    yield from _overhead(reaction)
    plan, launches, down = reaction.node_groups, reaction.node_pools, reaction.scale_down
    if plan is not None and plan.truncated:
        yield "new nodes: the estimate reached its limit, more nodes may be needed"
    for name, why in (
        ("new nodes of cluster-autoscaler", plan.not_predicted if plan else ""),
        ("new nodes of Karpenter", launches.not_predicted if launches else ""),
        ("scale-down", down.not_predicted if down else ""),
    ):
        if why:
            yield f"{name} not predicted: {why}"


def _overhead(reaction: Autoscalers) -> Iterator[str]:
    """Yield the DaemonSets that are the reason why Pods get no new node."""
    for each in reaction.overhead:
        names = [f"{d.daemon_set} ({', '.join(d.requests)}, priority {d.priority:,})" for d in each.daemon_sets]
        which = f"DaemonSet{'s' if names[1:] else ''} {listed(names)}"
        fix = _INSTEAD if all(d.priority < 0 for d in each.daemon_sets) else _LARGER
        yield f"no new node for {each.workload} ({', '.join(each.requests)}) beside {which}. Fix: {fix}"


def _new_nodes(reaction: Autoscalers) -> Iterator[Table]:
    plan, launches = reaction.node_groups, reaction.node_pools
    rows: Rows = []
    for scale_up, times in Tally(map(_key, plan.scale_ups if plan else ())).items():
        group, nodes, pods, why = scale_up
        rows.append([group, nodes * times, pods * times, why])
    for launch in launches.launches if launches else ():
        pods = sum(each.pods for each in launch.workloads)
        rows.append([launch.node_pool, launch.nodes, pods, launch.instance_type])
    yield Table(("NEW NODES OF", "NODES", "PODS", "CHOICE"), rows)


def _key(scale_up: ScaleUp) -> tuple[str, int, int, str]:
    """The key of equal scale-ups: the chosen groups, their nodes and Pods, and why the expander chose these groups."""
    groups = [group for group, _ in scale_up.added]
    others = [f"{other.nodes} of {other.group}" for other in scale_up.options if other.group not in groups]
    ties = "; random choice among equals" if scale_up.ties else ""
    idle = f" {scale_up.waste / 2:.1%} idle," if "least-waste" in scale_up.expander else ""
    choice = f"{scale_up.expander}:{idle} instead of {listed(others)}{ties}" if others else ""
    return listed(groups), sum(nodes for _, nodes in scale_up.added), scale_up.pods, choice


def _not_helped(reaction: Autoscalers) -> Iterator[Table]:
    """Yield the Pending Pods for which no node is added, by cause."""
    plan, launches, considered = reaction.node_groups, reaction.node_pools, reaction.cluster_autoscaler
    pods, first = Tally[str](), dict[str, list[str]]()
    for left in plan.no_scale_up if plan else ():
        by_reason = grouped((reason, group) for group, reason in left.reasons.items())
        why = listed([f"{reason} ({listed(groups)})" for reason, groups in by_reason.items()])
        pods[why] += left.pods
        first.setdefault(why, []).append(left.workload)
    for none in launches.no_launch if launches else ():
        why = _REQUIREMENTS.sub(r" (\1)", none.reason)
        pods[why] += none.pods
        first.setdefault(why, []).append(none.workload)
    if not reaction.are_off:
        pods.update({why: number for why, number in considered.ignored.items() if number})
        pods.update({"fits on a node": plan.fit_existing_nodes} if plan and plan.fit_existing_nodes else {})
    rows: Rows = [[why, number, listed(first.get(why, []), 1)] for why, number in pods.most_common()]
    yield Table(("NO NEW NODE BECAUSE", "PODS", "SUCH AS"), rows, detail=1)


def _with_new_nodes(arrived: WithNewNodes) -> Iterator[Table]:
    rows: Rows = []
    for row in arrived.workloads:
        if row.without_new_nodes == row.after and not (row.pending or row.pending_without_new_nodes):
            continue
        back = shorten(row.message) or ("" if row.at is None else f"after {duration(row.at)}")
        rows.append([row.workload, row.before, row.worst, row.without_new_nodes, row.after, row.pending, back])
    heads = ("WITH NEW NODES", "BEFORE", "AT WORST", "WITHOUT THEM", "AT THE END", "PENDING", "COMPLETE")
    yield Table(heads, rows, detail=1)


def _removed(down: ScaleDowns) -> Iterator[Table]:
    by_group = grouped((removed.group, removed) for removed in down.removed)
    rows: Rows = [
        [group, len(nodes), sum(node.evicted for node in nodes), f"from {duration(nodes[0].at)} on"]
        for group, nodes in by_group.items()
    ]
    yield Table(("REMOVED NODES OF", "NODES", "PODS EVICTED", "WHEN"), rows, detail=1)
    kept: Rows = [[why, number] for why, number in sorted(down.kept.items(), key=lambda item: (-item[1], item[0]))]
    kept += [[f"{node}: {why}", 1] for node, why in down.failed.items()]
    yield Table(("NODES NOT REMOVED BECAUSE", "NODES"), kept, detail=1)
