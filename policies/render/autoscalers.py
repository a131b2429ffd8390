"""Text: the Pending Pods for which an autoscaler would scale up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import duration, grouped, listed, plural
from forewarn.policies.render.table import left_out, limited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import Option
    from forewarn.policies.whatif import autoscalers
    from forewarn.policies.whatif.answer import Answer

MAX_LINES: Final = 20
_NAMED: Final = 10
_ARRIVED: Final = ("workload", "before", "worst", "with new nodes", "last Pod scheduled")
_TEXTS: Final = (_ARRIVED[0], _ARRIVED[-1])


def lines(reaction: autoscalers.Autoscalers, *, over_time: bool = False) -> Iterator[str]:
    """The text lines; none without Pending Pods and scale-down. `over_time`: nodes have arrived, also for Pods that are
    not Pending at the end. An autoscaler without known groups is not mentioned beside one with.
    """
    if reaction.scale_down is not None:
        yield from _scaled_down(reaction.scale_down)
    of_ca, of_karpenter = reaction.cluster_autoscaler, reaction.karpenter
    if reaction.are_off or not of_ca.pending:
        return
    plan, launches = reaction.node_groups, reaction.node_pools
    if plan is not None or launches is not None:
        yield from [_as_planned(of_ca, plan, over_time=over_time)] if plan else []
        yield from [_as_launched(of_karpenter, launches, over_time=over_time)] if launches else []
        yield from _planned(plan) if plan else ()
        yield from _launched(launches) if launches else ()
    elif of_ca.considered == of_karpenter.considered == of_ca.pending:
        yield f"cluster-autoscaler or Karpenter would try to scale up for {_all(of_ca.pending)}"
    else:
        yield _considered("cluster-autoscaler", of_ca)
        yield _considered("Karpenter", of_karpenter)


def lines_of(answer: Answer) -> Iterator[str]:
    """The lines of a simulation."""
    reaction = answer.autoscalers
    yield from lines(reaction, over_time=answer.with_new_nodes is not None)
    has_nodes = reaction.are_off or reaction.node_groups or reaction.node_pools
    if answer.replicas and reaction.cluster_autoscaler.pending and not has_nodes:
        yield "needed nodes not predicted without node groups"


def _scaled_down(down: autoscalers.ScaleDowns) -> Iterator[str]:
    """Yield lines about the nodes that cluster-autoscaler removes, and about the others."""
    by_group = grouped((removed.group, removed) for removed in down.removed)
    for group, nodes in list(by_group.items())[:MAX_LINES]:
        names, evicted = listed([node.node for node in nodes], _NAMED), sum(node.evicted for node in nodes)
        times = dict.fromkeys((duration(nodes[0].at), duration(nodes[-1].at)))
        killed = sum(node.expendable for node in nodes)
        moved = f", {plural(evicted, 'Pod')} evicted" if evicted else ""
        moved += f", {plural(killed, 'expendable Pod')} deleted" if killed else ""
        yield f"scale-down: {plural(len(nodes), 'node')} of group {group} ({names}) at {' to '.join(times)}{moved}"
    if len(by_group) > MAX_LINES:
        yield f"and nodes of {len(by_group) - MAX_LINES} more groups"
    if down.deleting:
        yield f"nodes still being removed at the end: {listed([*down.deleting], _NAMED)}"
    for node, why in list(down.failed.items())[:MAX_LINES]:
        yield f"node {node} not removed: {why}"
    if down.kept:
        count = plural(sum(down.kept.values()), "other node")
        reasons = sorted(down.kept.items(), key=lambda item: (-item[1], item[0]))
        yield f"{count} of groups not removed: {listed([f'{why} ({number})' for why, number in reasons], _NAMED)}"
    if down.not_predicted:
        yield f"scale-down not predicted: {down.not_predicted}"


def _all(pending: int) -> str:
    return {1: "the Pending Pod", 2: "both Pending Pods"}.get(pending, f"all {pending} Pending Pods")


def _considered(name: str, counted: autoscalers.Considered) -> str:
    return f"{name} would try to scale up for {_some(counted.considered, counted.pending, counted.ignored)}"


def _as_planned(counted: autoscalers.Considered, plan: autoscalers.ScaleUps, *, over_time: bool) -> str:
    """The sentence about cluster-autoscaler, if the plan for its node groups is known."""
    if not plan.scale_ups and (plan.truncated or plan.not_predicted):
        return _considered("cluster-autoscaler", counted)
    left = sum(item.pods for item in plan.no_scale_up)
    others = {**counted.ignored, "fits on a node": plan.fit_existing_nodes, "no node group helps": left}
    return f"cluster-autoscaler would scale up for {_some(plan.pods, counted.pending, others, over_time=over_time)}"


def _as_launched(counted: autoscalers.Considered, launches: autoscalers.Launches, *, over_time: bool) -> str:
    """The sentence about Karpenter, if its NodePools and instance types are known."""
    if launches.not_predicted:
        return _considered("Karpenter", counted)
    others = {**counted.ignored, "no NodePool helps": launches.not_helped}
    helped = _some(counted.considered - launches.not_helped, counted.pending, others, over_time=over_time)
    return f"Karpenter would add nodes for {helped}"


def _launched(launches: autoscalers.Launches) -> Iterator[str]:
    """Yield lines about the nodes that Karpenter adds, and about Pods for which no NodePool helps."""
    for launch in launches.launches[:MAX_LINES]:
        which = listed([f"{workload} ({plural(pods, 'Pod')})" for workload, pods in launch.workloads])
        yield f"NodePool {launch.node_pool}: {plural(launch.nodes, 'node')} of {launch.instance_type} for {which}"
    yield from left_out(len(launches.launches), MAX_LINES, "kind of nodes", many="kinds of nodes")
    left = [f"no NodePool fits {each} ({plural(pods, 'Pod')}): {why}" for each, pods, why in launches.no_launch]
    yield from limited(left, "workload that no NodePool fits", "workloads that no NodePool fits", "")
    if launches.not_predicted:
        yield f"nodes of Karpenter not predicted: {launches.not_predicted}"


def _some(count: int, pending: int, others: Mapping[str, int], *, over_time: bool = False) -> str:
    if count == pending and not over_time:
        return _all(pending)
    beside = listed([f"{why}: {number}" for why, number in others.items() if number])
    which = plural(count, "Pod") if over_time else f"{count} of {plural(pending, 'Pending Pod')}"
    return which + (f" ({beside})" if beside else "")


def _planned(plan: autoscalers.ScaleUps) -> Iterator[str]:
    """Yield lines about the node groups that would be scaled up, and about Pods for which no node group helps."""
    repeated = Counter(map(_scaled_up, plan.scale_ups))
    texts = [f"scale-up{f', {times} times' if times > 1 else ''}: {text}" for text, times in repeated.items()]
    yield from limited(texts, "scale-up", indent="")
    if plan.lost and not plan.no_scale_up:
        yield f"node groups not used, because their nodes would be in what is lost: {listed([*plan.lost])}"
    by_why = grouped((_why_not(left), left) for left in plan.no_scale_up)
    for why, workloads in list(by_why.items())[:MAX_LINES]:
        which = listed([f"{left.workload} ({plural(left.pods, 'Pod')})" for left in workloads])
        yield f"no node group fits {which}: {why}"
    rest = list(by_why.values())[MAX_LINES:]
    if rest:
        yield f"and {sum(map(len, rest))} more workloads that no node group fits"
    if plan.not_predicted:
        yield f"new nodes not predicted: {plan.not_predicted}"
    if plan.truncated:
        yield "estimate incomplete (limit reached): more nodes may be needed"


def _scaled_up(scale_up: autoscalers.ScaleUp) -> str:
    """Return a phrase such as `2 nodes of group spot-large`, with the workloads and the reason for the choice of this
    group.
    """
    which = listed([f"{of.workload} ({plural(of.pods, 'Pod')})" for of in scale_up.workloads])
    nodes = [f"{plural(nodes, 'node')} of group {group}" for group, nodes in scale_up.added]
    line = f"{listed(nodes)} for {which}"
    grown = {group for group, _ in scale_up.added}
    by_waste = "least-waste" in scale_up.expander
    others = [
        f"{plural(other.nodes, 'node')} of {other.group} for {plural(other.pods, 'Pod')}"
        + (f" {_idle(other)}" if by_waste else "")
        for other in scale_up.options
        if other.group != scale_up.group and other.group not in grown
    ]
    how = [f"{_idle(scale_up)} idle"] if by_waste else []
    if grown != {scale_up.group}:
        line, how = f"{line}; similar groups balanced", [" ".join([scale_up.group, *how])]
    if not others:
        return line
    lots = "; random choice among equals" if scale_up.ties else ""
    return f"{line}; {scale_up.expander}: {', '.join([*how, f'instead of {listed(others)}'])}{lots}"


def _idle(option: Option | autoscalers.ScaleUp) -> str:
    return f"{option.waste / 2:.1%}"


def _why_not(not_helped: autoscalers.NoScaleUp) -> str:
    """Return the reasons with their node groups, for example `Insufficient memory (small, large)`."""
    by_reason = grouped((reason, group) for group, reason in not_helped.reasons.items())
    return listed([f"{reason} ({listed(groups)})" for reason, groups in by_reason.items()])
