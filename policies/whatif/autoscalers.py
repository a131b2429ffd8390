"""Which pods that wait in the end would make an autoscaler bring a node.

The scheduler preempts before any autoscaler looks, so who is pushed out is right whether there is one or not; what is
different is what becomes of those who wait. Sources: cluster-autoscaler core/utils `FilterOutExpendableAndSplit`,
core/podlistprocessor (daemon sets), utils/kubernetes `UnschedulablePods`; Karpenter pkg/utils/pod `IsProvisionable`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.objects.pod import Pod
    from policies.simulation.simulation import Simulation

_DAEMON: Final = "of a DaemonSet"
_NOT_TRIED: Final = "not marked Unschedulable"
_NOMINATED: Final = "nominated to a node"


class Counted(NamedTuple):
    """Of the `pending` pods, how many an autoscaler would count, and why not the others (reason -> pods)."""

    pending: int
    counts: int
    others: Mapping[str, int]


class Autoscalers(NamedTuple):
    """What either would make of the pods that wait in the end."""

    cluster_autoscaler: Counted
    karpenter: Counted


def autoscalers(simulation: Simulation, cutoff: int = Options().autoscaler_cutoff) -> Autoscalers:
    """Of a simulation that has run. `cutoff`: cluster-autoscaler's --expendable-pods-priority-cutoff."""
    tried = {event.pod for event in simulation.timeline.events if event.event == "unschedulable"}
    states = simulation.api.pods.values()
    waiting = [state.pod for state in states if state.active and not state.pod.node_name]
    nodes = simulation.api.nodes
    of_ca = Counter(_why_not_cluster_autoscaler(pod, pod.key in tried, nodes, cutoff) for pod in waiting)
    of_karpenter = Counter(_why_not_karpenter(pod, pod.key in tried) for pod in waiting)
    return Autoscalers(*(_counted(found, len(waiting)) for found in (of_ca, of_karpenter)))


def _counted(found: Counter[str], pending: int) -> Counted:
    others = {why: count for why, count in sorted(found.items()) if why}
    return Counted(pending, found[""], others)


def _why_not_cluster_autoscaler(pod: Pod, tried: bool, nodes: Mapping[str, object], cutoff: int) -> str:
    """Empty where it counts."""
    if not tried:
        return _NOT_TRIED
    if pod.priority is not None and pod.priority < cutoff:
        return f"below its cutoff {cutoff}"
    if pod.nominated_node_name in nodes:
        return _NOMINATED
    return _DAEMON if _is_daemon(pod) else ""


def _why_not_karpenter(pod: Pod, tried: bool) -> str:
    """Empty where it counts."""
    if not tried:
        return _NOT_TRIED
    if pod.nominated_node_name:
        return _NOMINATED
    return _DAEMON if _is_daemon(pod) else ""


def _is_daemon(pod: Pod) -> bool:
    return pod.owner is not None and (pod.owner.api_version, pod.owner.kind) == ("apps/v1", "DaemonSet")


def as_dict(found: Autoscalers) -> dict[str, Any]:
    """For programs."""
    names = (("clusterAutoscaler", found.cluster_autoscaler), ("karpenter", found.karpenter))
    return {name: {"counts": each.counts, "passesOver": dict(each.others)} for name, each in names}
