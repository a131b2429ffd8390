"""Which pods that wait in the end would make an autoscaler bring a node.

The scheduler preempts before any autoscaler looks, so who is pushed out is right whether there is one or not; what is
different is what becomes of those who wait. Sources: cluster-autoscaler core/utils `FilterOutExpendablePods`,
utils/kubernetes `ArrangePodsBySchedulability`, core/podlistprocessor (daemon sets), before 1.36 core/utils
`FilterOutExpendableAndSplit`; Karpenter pkg/utils/pod `IsProvisionable`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.objects.pod import Pod
    from policies.scheduling.schedule_one import Prediction
    from policies.scheduling.snapshot import Snapshot
    from policies.simulation.simulation import Simulation

_DAEMON: Final = "of a DaemonSet"
_NOT_TRIED: Final = "not marked Unschedulable"
_NOMINATED: Final = "nominated to a node"


class Autoscaling(NamedTuple):
    """How a cluster is scaled. `cutoff`: cluster-autoscaler's --expendable-pods-priority-cutoff."""

    cutoff: int = Options().autoscaler_cutoff


class Waiting(NamedTuple):
    """A pod without a node. `tried`: the scheduler has marked it Unschedulable."""

    pod: Pod
    tried: bool = True


class Counted(NamedTuple):
    """Of the `pending` pods, how many an autoscaler would count, and why not the others (reason -> pods)."""

    pending: int
    counts: int
    others: Mapping[str, int]


class Autoscalers(NamedTuple):
    """What either would make of the pods that wait in the end."""

    cluster_autoscaler: Counted
    karpenter: Counted


def after_simulation(simulation: Simulation, autoscaling: Autoscaling) -> Autoscalers:
    """Of a simulation that has run."""
    return autoscalers(_waiting_in(simulation), simulation.cache.snapshot(), autoscaling)


def after_predictions(predictions: Iterable[Prediction], snapshot: Snapshot, autoscaling: Autoscaling) -> Autoscalers:
    """Of pods that have been predicted: those that stay pending wait."""
    return autoscalers([Waiting(p.pod) for p in predictions if p.outcome == "pending"], snapshot, autoscaling)


def autoscalers(waiting: Iterable[Waiting], snapshot: Snapshot, autoscaling: Autoscaling) -> Autoscalers:
    """Of pods that wait in the cluster that the snapshot is of."""
    waiting = list(waiting)
    of_ca = Counter(_why_not_cluster_autoscaler(each, snapshot, autoscaling.cutoff) for each in waiting)
    of_karpenter = Counter(map(_why_not_karpenter, waiting))
    return Autoscalers(*(_counted(found, len(waiting)) for found in (of_ca, of_karpenter)))


def _waiting_in(simulation: Simulation) -> Iterator[Waiting]:
    tried = {event.pod for event in simulation.timeline.events if event.event == "unschedulable"}
    for state in simulation.api.pods.values():
        if state.active and not state.pod.node_name:
            yield Waiting(state.pod, state.pod.key in tried)


def _counted(found: Counter[str], pending: int) -> Counted:
    others = {why: count for why, count in sorted(found.items()) if why}
    return Counted(pending, found[""], others)


def _why_not_cluster_autoscaler(waiting: Waiting, snapshot: Snapshot, cutoff: int) -> str:
    """Empty where it counts."""
    pod = waiting.pod
    if not waiting.tried:
        return _NOT_TRIED
    if pod.priority is not None and pod.priority < cutoff:
        return f"below its cutoff {cutoff}"
    nominated = pod.nominated_node_name
    if nominated and (nominated in snapshot.rows or snapshot.semantics.every_nominated_pod_is_passed_over):
        return _NOMINATED
    return _DAEMON if _is_daemon(pod) else ""


def _why_not_karpenter(waiting: Waiting) -> str:
    """Empty where it counts."""
    if not waiting.tried:
        return _NOT_TRIED
    if waiting.pod.nominated_node_name:
        return _NOMINATED
    return _DAEMON if _is_daemon(waiting.pod) else ""


def _is_daemon(pod: Pod) -> bool:
    return pod.owner is not None and (pod.owner.api_version, pod.owner.kind) == ("apps/v1", "DaemonSet")


def as_dict(found: Autoscalers) -> dict[str, Any]:
    """For programs."""
    names = (("clusterAutoscaler", found.cluster_autoscaler), ("karpenter", found.karpenter))
    return {name: {"counts": each.counts, "passesOver": dict(each.others)} for name, each in names}
