"""One scheduling cycle of a PodGroup: the Pods are scheduled one after the other, and bound together or not at all.

Source: kubernetes `pkg/scheduler/schedule_one_podgroup.go`, plugin GangScheduling (`PlacementFeasible`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER
from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import NOT_FOUND, Code, CycleState
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
from forewarn.policies.kubernetes.scheduling.not_predicted import not_scheduled
from forewarn.policies.kubernetes.scheduling.preemption import (
    NEVER,
    Assignment,
    Domain,
    MissingNode,
    Preemption,
    terminating_victims,
    victims_below,
)
from forewarn.policies.kubernetes.scheduling.reasons import NO_VICTIMS_IN_SHORT, Reason
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.scheduling.preemption import Victim
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
NO_NODES: Final = Reason("no nodes available to schedule pods", "the cluster has no nodes")
GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable"
_CLAIMS_RETURNED: Final = "deallocation and deletion of ResourceClaims completed"
_SHORTER: Final = {
    f", {_CLAIMS_RETURNED}": "",
    ", pod group preemption: ": "; preemption does not help: ",
    NO_VICTIMS: NO_VICTIMS_IN_SHORT,
}


class MemberStatus(NamedTuple):
    """The node of one Pod of a PodGroup, or the reason for the rejection of the Pod.

    `plugins`: the plugins that rejected the Pod. `nominated`: the node to set in the Pod's status; "": clear; None: no
    change. `ran_pre_filter`: whether all PreFilter plugins ran.
    """

    node: str = ""
    message: str = ""
    plugins: frozenset[str] = frozenset()
    error: bool = False
    nominated: str | None = None
    ran_pre_filter: bool = True


class NotModelled(Exception):
    """The error if the cycle of a PodGroup depends on something that forewarn does not model."""


class MemberCycle(Prediction):
    """The scheduling cycle of one Pod of a PodGroup: Filters and Scores, without preemption."""

    def __init__(self, snapshot: Snapshot, pod: Pod) -> None:
        super().__init__(snapshot, pod, reasons=True)

    @cached_property
    def _not_predicted(self) -> str:
        return not_scheduled(self.pod, self.snapshot)

    @cached_property
    def preemption(self) -> Preemption:
        return Preemption(eligible=False)


@dataclass(slots=True)
class Run:
    """The result of the scheduling algorithm for a PodGroup, without PostFilter. `code` None: success.

    `placed`: (Pod, node, Snapshot before the Pod) of each Pod that fits. `tried`: the status of each Pod that was
    tried, in order.
    """

    code: Code | None
    reasons: tuple[str, ...] = ()
    has_error: bool = False
    tried: list[MemberStatus] = field(default_factory=list)
    placed: list[tuple[Pod, str, Snapshot]] = field(default_factory=list)

    @property
    def message(self) -> str:
        """The message of the status that kube-scheduler reports. Source: upstream `Status.Message`."""
        return _reason(", ".join(((GROUP_UNSCHEDULABLE,) if self.has_error else ()) + self.reasons))


def place_member(
    snapshot: Snapshot, pod: Pod, host: Callable[[MemberCycle], str], message: Callable[[MemberCycle], str]
) -> MemberStatus:
    """Find a node for one Pod, without preemption. Raises NotModelled.

    `host`: returns the node of the Pod; "" if no node fits. `message`: returns the reasons why no node fits.
    """
    if not snapshot.node_infos:
        return MemberStatus(message=NO_NODES, nominated="", ran_pre_filter=False)
    cycle = MemberCycle(snapshot, pod)
    if cycle.not_predicted:
        raise NotModelled(cycle.not_predicted)
    node = host(cycle)
    if node:
        return MemberStatus(node)
    rejection = cycle.rejection
    if rejection.error:
        return MemberStatus(message=rejection.error, error=True, nominated="")
    ran = cycle.pre_filter is None or cycle.pre_filter.code is Code.UNSCHEDULABLE
    return MemberStatus(message=message(cycle), plugins=rejection.plugins, ran_pre_filter=ran)


def _first_place(snapshot: Snapshot, pod: Pod) -> MemberStatus:
    """Return the best node for one Pod, the first by name of several, or the reasons. Raises NotModelled."""
    return place_member(snapshot, pod, attrgetter("node"), _reasons)


def _reasons(cycle: MemberCycle) -> str:
    return ", ".join(sorted({reason for status in cycle.rejection.statuses for reason in status.reasons}))


def predict_pod_group(snapshot: Snapshot, group: PodGroup, pods: Sequence[Pod]) -> PodGroupResult:
    """Predict the scheduling cycle of a PodGroup whose queued Pods are `pods`. Raises NotModelled."""
    scheduled = snapshot.pods_of_groups.get((group.namespace, group.name), ())
    return schedule_pod_group(snapshot, group, pods, scheduled, _first_place)


def run_algorithm(
    snapshot: Snapshot,
    group: PodGroup,
    pods: Sequence[Pod],
    scheduled: int,
    place: Callable[[Snapshot, Pod], MemberStatus],
) -> Run:
    """Find nodes for the Pods of a PodGroup one after the other. Source: upstream `podGroupSchedulingDefaultAlgorithm`.

    `scheduled`: number of Pods of the PodGroup that are already on nodes. `place`: finds the node of one Pod.
    """
    least, remaining = group.pods_to_schedule, len(pods)
    run = Run(Code.UNSCHEDULABLE, has_error=True)
    if remaining + scheduled < least:
        run.reasons = (_cannot_be_satisfied(least, scheduled, remaining),)
        return run
    for pod in pods:
        status = place(snapshot, pod)
        run.tried.append(status)
        remaining -= 1
        if status.error:
            run.code, run.has_error = Code.ERROR, False
            run.reasons = (f"failed to schedule other pod from a pod group: {status.message}",)
            return run
        if status.node:
            scheduled += 1
            run.placed.append((pod, status.node, snapshot))
            snapshot = snapshot.with_pods([snapshot.bound(pod, status.node)], ())
        if remaining + scheduled < least:
            run.code, run.has_error = Code.UNSCHEDULABLE, False
            run.reasons = (_cannot_be_satisfied(least, scheduled, remaining),)
            return run
    if run.placed:
        run.code, run.has_error = None, False
    return run


def _cannot_be_satisfied(least: int, scheduled: int, remaining: int) -> str:
    """Return the message for a PodGroup with too few Pods. Source: GangScheduling `PlacementFeasible`."""
    return f"minCount ({least}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


class PodGroupResult(NamedTuple):
    """The result of a PodGroup's scheduling cycle.

    `code` None: success, and Pods with a node are bound. `members`: the status of each Pod, in order. `message`: the
    message of the PodGroup's condition. `preemption`: victims and nominations, if any. `tried_code`: the code of the
    algorithm without PostFilter, which determines the back-off.
    """

    code: Code | None
    members: Sequence[MemberStatus]
    message: str = ""
    preemption: GroupPreemption | None = None
    tried_code: Code | None = None


def schedule_pod_group(
    snapshot: Snapshot,
    group: PodGroup,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod],
    place: Callable[[Snapshot, Pod], MemberStatus],
    order: Sequence[str] = (),
) -> PodGroupResult:
    """Run the scheduling cycle of a PodGroup whose queued Pods are `pods`, including PostFilter.

    `scheduled`: Pods of the PodGroup on nodes. `place`: finds the node of one Pod. `order`: names of the nodes in
    kube-scheduler's order. Source: upstream `podGroupCycle`, `submitPodGroupAlgorithmResult`.
    """
    invalid = why_not_valid(group, pods, scheduled, snapshot)
    if invalid:
        return _all_fail(pods, invalid)
    snapshot = snapshot.without_nominations(pods)
    run = run_algorithm(snapshot, group, pods, len(scheduled), place)
    if run.code is None:
        return PodGroupResult(None, run.tried)
    if run.code is Code.ERROR:
        members = [s if s.error else MemberStatus(message=run.message, error=True, nominated="") for s in run.tried]
        rest = [MemberStatus(message=run.message, error=True, nominated="")] * (len(pods) - len(run.tried))
        return PodGroupResult(Code.ERROR, [*members, *rest], run.message, tried_code=Code.ERROR)

    def again(emptied: Snapshot) -> Run:
        return run_algorithm(emptied, group, pods, len(scheduled), place)

    post_filtered = _post_filter(snapshot, pods, run, lambda: preempt_for_group(snapshot, group, pods, again, order))
    if post_filtered.error:
        return _all_fail(pods, post_filtered.error)._replace(tried_code=Code.UNSCHEDULABLE)
    message = _reason(f"{run.message}, {post_filtered.message}")
    nominations = (post_filtered.preemption.nominations if post_filtered.preemption is not None else None) or {}
    members = list[MemberStatus]()
    for number, pod in enumerate(pods):
        status = run.tried[number] if number < len(run.tried) else MemberStatus(message=run.message)
        if not status.node:
            members.append(status._replace(nominated=nominations.get(pod.identity, status.nominated)))
        elif post_filtered.preemption is not None:
            members.append(MemberStatus(message=message, nominated=nominations.get(pod.identity)))
        else:
            members.append(MemberStatus(message=_reason(f"{GROUP_UNSCHEDULABLE}, {message}"), nominated=""))
    return PodGroupResult(Code.UNSCHEDULABLE, members, message, post_filtered.preemption, Code.UNSCHEDULABLE)


def _reason(text: str) -> Reason:
    short = text.removeprefix(f"{GROUP_UNSCHEDULABLE}, ")
    for upstream, own in _SHORTER.items():
        short = short.replace(upstream, own)
    return Reason(text, short)


def _all_fail(pods: Sequence[Pod], why: str) -> PodGroupResult:
    """Return the result of a cycle in which every Pod fails with the error `why`."""
    members = [MemberStatus(message=why, error=True, nominated="")] * len(pods)
    return PodGroupResult(Code.ERROR, members, why, tried_code=Code.ERROR)


_SAME: Final = "all pods in a single pod group should have the same"


def why_not_valid(group: PodGroup, pods: Iterable[Pod], scheduled: Iterable[Pod], snapshot: Snapshot) -> str:
    """Return why kube-scheduler does not try to schedule the PodGroup; "" if kube-scheduler tries. Source: upstream
    `validatePodGroup`.

    `pods`: queued Pods of the PodGroup, at least one. `scheduled`: Pods of the PodGroup on nodes.
    """
    pods = list(pods)
    has_policy = snapshot.semantics.pod_groups_have_preemption_policies
    name = pods[0].spec.scheduler_name or DEFAULT_SCHEDULER
    policy = group.preemption_policy if has_policy else pods[0].preemption_policy or PREEMPT_LOWER_PRIORITY
    for pod in (*pods, *scheduled):
        own = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        own_policy = pod.preemption_policy or PREEMPT_LOWER_PRIORITY
        if own != name:
            return f'{_SAME} .spec.schedulerName set, got: "{own}" and "{name}"'
        if pod.effective_priority != group.priority:
            return f"{_SAME} priority as the pod group's priority, got {pod.effective_priority} and {group.priority}"
        if own_policy != policy:
            whose = " as the pod group's preemption policy" if has_policy else ""
            return f"{_SAME} preemption policy{whose}, got {own_policy} and {policy}"
    if configuration_of(snapshot.semantics).profile(pods[0].spec.scheduler_name) is None:
        return f'profile not found for scheduler name "{name}"'
    return ""


class _PostFiltered(NamedTuple):
    """The result of PostFilter. `message`: appended to the PodGroup's message. `error`: why the cycle fails."""

    message: str = ""
    preemption: GroupPreemption | None = None
    error: str = ""


def _post_filter(
    snapshot: Snapshot, pods: Sequence[Pod], run: Run, preempt: Callable[[], GroupPreemption]
) -> _PostFiltered:
    """Run the PostFilter plugins for the PodGroup. Source: upstream `RunPodGroupPostFilterPlugins`."""
    reasons: list[str] = []
    for plugin in framework_of(snapshot, pods[0]).profile.plugins_at("postFilter"):
        if plugin == "DynamicResources" and snapshot.semantics.devices_are_allocated:
            if not any(status.ran_pre_filter for status in run.tried):
                return _PostFiltered(error=f'error in "{plugin}" PodGroupPostFilter plugins: {NOT_FOUND}')
            reasons.append(_CLAIMS_RETURNED)
        elif plugin == "DefaultPreemption":
            result = preempt()
            message = f"pod group preemption: {result.message}"
            if result.is_error:
                return _PostFiltered(error=f'error in "{plugin}" PodGroupPostFilter plugins: {message}')
            if result.nominations is not None or result.is_final:
                return _PostFiltered(message, result if result.nominations is not None else None)
            reasons.append(message)
    return _PostFiltered(", ".join(reasons))


ONGOING: Final = "ongoing preemption on nominated nodes"


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
    run_algorithm: Callable[[Snapshot], Run],
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
    holders = [group] if snapshot.semantics.pod_groups_have_preemption_policies else pods
    if any(each.preemption_policy == PREEMPT_NEVER for each in holders):  # upstream `resolvePreemptionPolicy`
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
