"""The Pods for which cluster-autoscaler looks for nodes. Source: core/podlistprocessor, core/utils/expendable.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.autoscaling.cluster_autoscaler.estimator import group_by_scheduling_properties
from forewarn.policies.scheduling.responsible import not_predicted
from forewarn.policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot


def is_expendable(pod: Pod, cutoff: int) -> bool:
    """Report whether cluster-autoscaler ignores the Pod because of its priority. Source: `IsExpendablePod`."""
    return pod.priority is not None and pod.priority < cutoff


def without_expendable(snapshot: Snapshot, cutoff: int) -> Snapshot:
    """Return the Snapshot as cluster-autoscaler counts Pods: without Pods below the cutoff, with nominated Pods on
    their nodes.

    Source: core/static_autoscaler.go, `nonExpendableAllocatedPods`.
    """
    expendable = [pod for info in snapshot.node_infos for pod in info.pods if is_expendable(pod, cutoff)]
    nominated = [
        snapshot.bound(pod, node)
        for node, pods in snapshot.objects.nominated.items()
        if node in snapshot.rows
        for pod in pods
        if not is_expendable(pod, cutoff)
    ]
    return snapshot.with_pods(nominated, expendable) if expendable or nominated else snapshot


def filter_out_schedulable(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[Snapshot, list[Pod]]:
    """Return the cluster with the Pods that fit on existing nodes placed, and the Pods that do not fit.

    Tries the Pods with the highest priority first. If one Pod does not fit, equal ones are not tried. Each search
    starts after the node of the last Pod. Source: `filterOutSchedulableByPacking`, `NewLastIndexOrderMapping(1)`.
    """
    pods = sorted(pods, key=lambda pod: -pod.effective_priority)
    unschedulable: list[Pod] = []
    hopeless: set[int] = set()
    equal_to = {
        id(pod): id(equivalence_group)
        for equivalence_group in group_by_scheduling_properties(pods)
        for pod in equivalence_group.pods
    }
    last = 0
    for pod in pods:
        rows = [] if equal_to[id(pod)] in hopeless or not_predicted(pod, snapshot) else _feasible_rows(snapshot, pod)
        if not rows:
            hopeless.add(equal_to[id(pod)])
            unschedulable.append(pod)
            continue
        last = next((row for row in rows if row > last), rows[0])
        snapshot = snapshot.with_pods([snapshot.bound(pod, snapshot.node_infos[last].name)], ())
    return snapshot, unschedulable


def _feasible_rows(snapshot: Snapshot, pod: Pod) -> list[int]:
    rows = (snapshot.rows[name] for name in Prediction(snapshot, pod).feasible)
    return sorted(row for row in rows if not snapshot.node_infos[row].node.unschedulable)
