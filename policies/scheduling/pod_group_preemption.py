"""Preemption for a PodGroup: victims in the whole cluster, so that all Pods of the PodGroup fit at once.

Source: kubernetes `pkg/scheduler/framework/preemption/podgrouppreemption.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forewarn.policies.metering import charge
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.scheduling.framework import CycleState
from forewarn.policies.scheduling.node_info import NodeInfo
from forewarn.policies.scheduling.preemption import NEVER, Assignment, Domain
from forewarn.policies.scheduling.responsible import framework_of
from forewarn.policies.scheduling.victim import MissingNode, terminating_victims, victims_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.status import Code
    from forewarn.policies.scheduling.victim import Victim

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
ONGOING: Final = "ongoing preemption on nominated nodes"


class Placed(Protocol):
    """The result of the scheduling algorithm for a PodGroup on the cluster without the potential victims."""

    code: Code | None
    placed: list[tuple[Pod, str, Snapshot]]

    @property
    def message(self) -> str:
        """The reason why the PodGroup does not fit even without the potential victims."""


class GroupPreemption(NamedTuple):
    """The result of preemption for a PodGroup.

    `nominations`: Pod identity -> node, for all Pods that get a nomination or already have one; None if preemption does
    not help. `victims`: most important first. `is_final`: no other plugin can help. `is_error`: the cycle fails.
    """

    message: str
    nominations: Mapping[str, str] | None = None
    victims: Sequence[Victim] = ()
    num_pdb_violations: int = 0
    is_final: bool = False
    is_error: bool = False

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for victim in self.victims for pod in victim.pods)


def preempt_for_group(
    snapshot: Snapshot,
    group: PodGroup,
    pods: Sequence[Pod],
    run_algorithm: Callable[[Snapshot], Placed],
    order: Sequence[str] = (),
) -> GroupPreemption:
    """Find the victims of preemption for the PodGroup. Source: upstream `Preempt`.

    `pods`: the queued Pods of the PodGroup. `run_algorithm`: schedules `pods` on a Snapshot. `order`: the names of all
    nodes in kube-scheduler's order, which decides between equally important victims.
    """
    infos = [snapshot.node_infos[snapshot.rows[name]] for name in order] or snapshot.node_infos
    try:
        lower = victims_below(group.priority, infos, snapshot)
    except MissingNode as fault:
        return GroupPreemption(f"failed to create domain: {fault}", is_error=True)
    if _policy(snapshot, group, pods) == PREEMPT_NEVER:
        return GroupPreemption(NEVER)
    nominated = {pod.nominated_node_name for pod in pods} & snapshot.rows.keys()
    if any(terminating_victims(group.priority, snapshot.node_infos[snapshot.rows[n]], snapshot) for n in nominated):
        return GroupPreemption(ONGOING, {pod.identity: pod.nominated_node_name for pod in pods})
    if not lower:
        return GroupPreemption(NO_VICTIMS, is_final=True)
    emptied = without_victims(snapshot, lower)
    run = run_algorithm(emptied)
    if run.code is not None:
        return GroupPreemption(run.message)
    nodes = {node: emptied.node_infos[emptied.rows[node]].clone() for _, node, _ in run.placed}
    domain = Domain(emptied, nodes, [_assignment(pod, node, seen) for pod, node, seen in run.placed])
    victims, num_violating = domain.reprieve(lower)
    count = sum(len(victim.pods) for victim in victims)
    return GroupPreemption(
        f"found a placement for podgroup, preempting {count} victims",
        {pod.identity: node for pod, node, _ in run.placed},
        victims,
        num_violating,
    )


def _policy(snapshot: Snapshot, group: PodGroup, pods: Iterable[Pod]) -> str:
    """Return the effective preemption policy of the PodGroup. Source: upstream `resolvePreemptionPolicy`."""
    if snapshot.semantics.pod_groups_have_preemption_policies:
        return group.preemption_policy
    return PREEMPT_NEVER if any(pod.preemption_policy == PREEMPT_NEVER for pod in pods) else ""


def without_victims(snapshot: Snapshot, victims: Iterable[Victim]) -> Snapshot:
    """Return the Snapshot without the Pods of these victims. PDBs and nominations do not change."""
    victim_ids = {id(pod) for victim in victims for pod in victim.pods}
    charge(len(victim_ids))
    changed = {
        info.name: NodeInfo(info.node, (pod for pod in info.pods if id(pod) not in victim_ids), info.semantics)
        for info in snapshot.node_infos
        if any(id(pod) in victim_ids for pod in info.pods)
    }
    return snapshot.with_node_states(changed, snapshot.objects.nominated, {})


def _assignment(pod: Pod, node: str, snapshot: Snapshot) -> Assignment:
    """Return the assignment of a Pod to its node, with the state after PreFilter."""
    framework, state = framework_of(snapshot, pod), CycleState()
    framework.run_pre_filter_plugins(state, pod)
    return Assignment(pod, node, state, framework)
