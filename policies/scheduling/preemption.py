"""Preemption, dry: may the pod preempt, on which nodes would it help, whom would it cost, which node is best.

Source: kubernetes `pkg/scheduler/framework/preemption/preemption.go` and `plugins/defaultpreemption`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from policies.metering import meter
from policies.objects.priority_class import PREEMPT_NEVER
from policies.scheduling.framework import FILTERS, Code, failed, unresolvable
from policies.scheduling.pdb_violations import filter_pods_with_pdb_violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.framework import CycleState, Framework, NodeToStatus, Status
    from policies.scheduling.node_info import NodeInfo
    from policies.scheduling.plugin import PluginHandle
    from policies.scheduling.snapshot import Snapshot
    from policies.semantics import Semantics

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")
NOW: Final = 2**62
"""The start time of a pod that has none: upstream takes the present moment."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where preemption would help. `victims`: most important first."""

    node_name: str
    victims: tuple[Pod, ...]
    num_pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """What preemption comes to. `best_candidates`: those that the tie-breaks leave, by name; any may be nominated."""

    eligible: bool = True
    ineligible_reason: str = ""
    candidates: Sequence[Candidate] = ()
    statuses: Mapping[str, Status] = field(default_factory=dict)
    best_candidates: tuple[Candidate, ...] = ()
    potential_nodes: int = 0
    num_candidates: int = 0
    """So many candidates end the search."""


def pod_eligible_to_preempt_others(pod: Pod, statuses: NodeToStatus, snapshot: Snapshot) -> str:
    """Why the pod may not preempt, empty if it may. Source: upstream `PodEligibleToPreemptOthers`."""
    if pod.preemption_policy == PREEMPT_NEVER:
        return NEVER
    nominated = pod.nominated_node_name
    if not nominated or statuses.get(nominated).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    node_info = snapshot.get(nominated)
    if node_info is not None:
        for other in potential_victims(pod, node_info):
            if other.terminating and other.preempted:
                return TERMINATING
    return ""


def preempt(handle: PluginHandle, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Preemption:
    """A dry run on every node that pods stand in the way on. Source: upstream `Preempt`, `DryRunPreemption`.

    Upstream looks at a random part of more than 100 nodes; here all are looked at.
    """
    if state.in_columns is not None:
        told: Preemption = state.in_columns.preempt()
        return told
    snapshot = handle.snapshot
    looked_at: Sequence[NodeInfo] = snapshot.node_infos
    if statuses.absent.code is not Code.UNSCHEDULABLE:
        looked_at = [snapshot.node_infos[snapshot.rows[name]] for name in statuses.by_node]
    potential = statuses.nodes_with(Code.UNSCHEDULABLE, looked_at)
    candidates: list[Candidate] = []
    dropped: dict[str, Status] = {}
    work = meter()
    for node_info in potential:
        work.charge(FILTERS)
        found = select_victims_on_node(handle, state, pod, node_info)
        if isinstance(found, Candidate):
            candidates.append(found)
        else:
            dropped[node_info.name] = found
    return Preemption(
        candidates=tuple(candidates),
        statuses=dropped,
        best_candidates=pick_nodes_for_preemption(candidates),
        potential_nodes=len(potential),
    )


def potential_victims(pod: Pod, node_info: NodeInfo) -> list[Pod]:
    """Pods of lower priority, whoever made them and whatever they are doing. Source: upstream `isPreemptionAllowed`."""
    priority = pod.effective_priority
    return [other for other in node_info.pods if other.effective_priority < priority]


def select_victims_on_node(
    handle: PluginHandle, state: CycleState, pod: Pod, node_info: NodeInfo
) -> Candidate | Status:
    """The pods that must go from this node; a Status where that would not help. Source: `SelectVictimsOnNode`.

    All of lower priority go first; then each, most important first and those of violated budgets before all others,
    comes back if the pod still fits.
    """
    framework: Framework = handle.framework
    lower = potential_victims(pod, node_info)
    if not lower:
        return NO_VICTIMS
    work = meter()
    work.charge(10 + 3 * len(lower))
    node_info, state = node_info.clone(), state.clone()
    for other in lower:
        node_info.remove_pod(other)
        framework.run_remove_pod(state, pod, other, node_info)
    status = framework.run_filter_plugins_with_nominated_pods(state, pod, node_info)
    if status is not None:
        return status

    semantics = handle.snapshot.semantics
    violating, others = filter_pods_with_pdb_violation(
        by_importance(lower, semantics),
        handle.snapshot.budgets,
        first_ends_the_count=semantics.first_violated_budget_ends_the_count,
    )
    victims: list[Pod] = []

    def reprieve(other: Pod) -> bool:
        work.charge(FILTERS)
        node_info.add_pod(other)
        framework.run_add_pod(state, pod, other, node_info)
        if framework.run_filter_plugins_with_nominated_pods(state, pod, node_info) is None:
            return True
        node_info.remove_pod(other)
        framework.run_remove_pod(state, pod, other, node_info)
        victims.append(other)
        return False

    num_violating = sum(not reprieve(other) for other in violating)
    for other in others:
        reprieve(other)
    if not victims:
        return failed(f'expected at least one victim pod on node "{node_info.name}"')
    ordered = by_importance(victims, semantics) if violating and others else victims
    return Candidate(node_info.name, tuple(ordered), num_violating)


def by_importance(pods: Sequence[Pod], semantics: Semantics) -> list[Pod]:
    """Highest priority first, then the one that started first. Source: upstream `MoreImportantPod`.

    A pod that has not started is compared by the clock: read anew for each comparison, it puts the later of such pods
    first; read once for each of them, in their order, it keeps that.
    """
    if semantics.unstarted_victims_in_order or all(pod.start_time is not None for pod in pods):
        return sorted(pods, key=importance)
    return [
        pod
        for _, pod in sorted(
            enumerate(pods), key=lambda item: (*importance(item[1]), 0 if item[1].start_time is not None else -item[0])
        )
    ]


def importance(pod: Pod) -> tuple[int, int]:
    """Smaller is more important."""
    return -pod.effective_priority, start_time(pod)


def start_time(pod: Pod) -> int:
    """Seconds since 1970; NOW where it has not started."""
    return NOW if pod.start_time is None else pod.start_time


def pick_nodes_for_preemption(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The best candidates, by node name; upstream takes any of them. Source: upstream `pickOneNodeForPreemption`."""
    ranked = [(cost(candidate), candidate) for candidate in candidates]
    least = min((rank for rank, _ in ranked), default=None)
    return tuple(sorted((c for rank, c in ranked if rank == least), key=lambda c: c.node_name))


def cost(candidate: Candidate) -> tuple[int, int, int, int, int]:
    """What is compared, in this order; smaller is better: violations, the highest priority, the sum of priorities,
    the number of victims, how long the oldest of the most important ones has run."""
    priorities = [victim.effective_priority for victim in candidate.victims]
    highest = priorities[0]
    oldest = min(start_time(victim) for victim in candidate.victims if victim.effective_priority == highest)
    return candidate.num_pdb_violations, highest, sum(p + 2**31 for p in priorities), len(priorities), -oldest
