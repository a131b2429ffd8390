"""DefaultPreemption: who may preempt, the dry run on every potential node, and the node that is picked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.policies.scheduling.reference.framework import CannotAnswer, Cycle
from tests.policies.scheduling.reference.node_info import NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import (
    SUCCESS,
    Obj,
    Status,
    labels,
    meta,
    name,
    namespace,
    spec,
    status,
)
from tests.policies.scheduling.reference.objects import unresolvable as unresolvable_status
from tests.policies.scheduling.reference.selectors import InvalidSelector, label_selector

if TYPE_CHECKING:
    from collections.abc import Callable

# Stands for time.Now(), which is later than every start time (they are RFC 3339 in UTC, so they compare as text).
NOW = "9999"


@dataclass
class Candidate:
    """extenderv1.Victims of one node."""

    victims: list[PodInfo]
    violations: int


def start_time(pod: PodInfo) -> str:
    """GetPodStartTime: a pod that has not started counts as starting now."""
    return str(status(pod.pod).get("startTime") or NOW)


def more_important(one: PodInfo, other: PodInfo) -> bool:
    """util.MoreImportantPod. Of two that have not started the first is asked for its time first, so it is older."""
    if one.priority != other.priority:
        return one.priority > other.priority
    if start_time(one) == start_time(other) == NOW:
        return True
    return start_time(one) < start_time(other)


def sort_slice(pods: list[PodInfo]) -> None:
    """sort.Slice by importance: insertion up to 12 pods. Above, upstream's order of equals is taken to be stable."""
    if len(pods) > 12:
        pods.sort(key=lambda pod: (-pod.priority, start_time(pod)))
        return
    for i in range(1, len(pods)):
        j = i
        while j > 0 and more_important(pods[j], pods[j - 1]):
            pods[j], pods[j - 1] = pods[j - 1], pods[j]
            j -= 1


def why_not_eligible(cycle: Cycle, nominated_status: Status) -> str | None:
    """PodEligibleToPreemptOthers: None where the pod may preempt."""
    pod = cycle.pod
    if spec(pod.pod).get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = status(pod.pod).get("nominatedNodeName") or ""
    if not nominated or nominated_status.code == "UnschedulableAndUnresolvable":
        return None
    there = [p for node in cycle.cluster.nodes if node.name == nominated for p in node.pods]
    if any(p.priority < pod.priority and terminating_by_preemption(p.pod) for p in there):
        return "not eligible due to a terminating pod on the nominated node."
    return None


def terminating_by_preemption(pod: Obj) -> bool:
    if meta(pod).get("deletionTimestamp") is None:
        return False
    for condition in status(pod).get("conditions") or []:
        if condition.get("type") == "DisruptionTarget":
            return (condition.get("status"), condition.get("reason")) == ("True", "PreemptionByScheduler")
    return False


def dry_run(cycle: Cycle, potential: list[NodeInfo]) -> tuple[dict[str, Candidate], dict[str, Status]]:
    """DryRunPreemption on every potential node, without the limit on candidates."""
    candidates: dict[str, Candidate] = {}
    dropped: dict[str, Status] = {}
    for node in potential:
        victims, violations, why = select_victims_on_node(cycle.clone(), node.clone())
        if why.ok and victims:
            candidates[node.name] = Candidate(victims, violations)
        elif why.ok:
            dropped[node.name] = Status("Error", (f'expected at least one victim pod on node "{node.name}"',))
        else:
            dropped[node.name] = why
    if not candidates and any(why.code == "Error" for why in dropped.values()):
        raise CannotAnswer(f"dry run: {dropped}")
    return candidates, dropped


def select_victims_on_node(cycle: Cycle, node: NodeInfo) -> tuple[list[PodInfo], int, Status]:
    """SelectVictimsOnNode: the victims, how many of them break a budget, and why there are none."""

    def remove(pod: PodInfo) -> None:
        node.remove_pod(pod)
        cycle.update(pod, node, -1)

    potential = [pod for pod in node.pods if pod.priority < cycle.pod.priority]
    for pod in potential:
        remove(pod)
    if not potential:
        return [], 0, unresolvable_status("No preemption victims found for incoming pod")
    why = cycle.run_filter_with_nominated_pods(node)
    if not why.ok:
        return [], 0, why

    victims: list[PodInfo] = []
    sort_slice(potential)
    violating, others = filter_pods_with_pdb_violation(potential, cycle.cluster.pdbs)

    def reprieve(pod: PodInfo) -> bool:
        node.add_pod(pod)
        cycle.update(pod, node, 1)
        fits = cycle.run_filter_with_nominated_pods(node).ok
        if not fits:
            remove(pod)
            victims.append(pod)
        return fits

    violations = sum([not reprieve(pod) for pod in violating])
    for pod in others:
        reprieve(pod)
    if violating and others:
        sort_slice(victims)
    return victims, violations, SUCCESS


def filter_pods_with_pdb_violation(pods: list[PodInfo], pdbs: list[Obj]) -> tuple[list[PodInfo], list[PodInfo]]:
    """filterPodsWithPDBViolation: every matching budget is charged, for pods in the order they are given."""
    allowed = [status(pdb).get("disruptionsAllowed") or 0 for pdb in pdbs]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        violated = False
        for i, pdb in enumerate(pdbs if labels(pod.pod) else []):
            if namespace(pdb) != namespace(pod.pod) or not _selects(pdb, pod.pod):
                continue
            if name(pod.pod) in (status(pdb).get("disruptedPods") or {}):
                continue
            allowed[i] -= 1
            violated = violated or allowed[i] < 0
        (violating if violated else others).append(pod)
    return violating, others


def _selects(pdb: Obj, pod: Obj) -> bool:
    """An empty selector selects nothing here, and so does one that does not parse."""
    try:
        selector = label_selector(spec(pdb).get("selector"))
    except InvalidSelector:
        return False
    return not selector.empty and selector.matches(labels(pod))


def earliest_start_time(victims: list[PodInfo]) -> str:
    """GetEarliestPodStartTime: of those with the highest priority."""
    highest = max(pod.priority for pod in victims)
    return min(start_time(pod) for pod in victims if pod.priority == highest)


def pick_one_node(candidates: dict[str, Candidate]) -> list[str]:
    """pickOneNodeForPreemption: all nodes that the iteration order of a Go map may put first."""
    rules: list[Callable[[Candidate], int]] = [
        lambda c: c.violations,
        lambda c: c.victims[0].priority,
        lambda c: sum(pod.priority + 2**31 for pod in c.victims),
        lambda c: len(c.victims),
    ]
    left = dict(candidates)
    for rule in rules:
        best = min((rule(c) for c in left.values()), default=0)
        left = {node: c for node, c in left.items() if rule(c) == best}
    latest = max((earliest_start_time(c.victims) for c in left.values()), default="")
    return sorted(node for node, c in left.items() if earliest_start_time(c.victims) == latest)
