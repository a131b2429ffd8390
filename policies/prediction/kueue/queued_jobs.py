"""What Kueue does with new and suspended Jobs of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, seconds_of
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.prediction.kueue.forecast import QueueForecast, forecast
from forewarn.policies.prediction.kueue.job import workload_from_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.objects.kueue import Workload
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.kueue.manager import Objects


def forecast_jobs(
    cluster: ClusterSnapshot, objects: Objects, jobs: Sequence[ApiObject], *, is_reversed: bool = False
) -> list[QueueForecast | InvalidObject]:
    """Return what Kueue does with each Job of one apply, or why it creates no Workload for it.

    `is_reversed`: as for `Manager`.
    """
    charge(len(objects.workloads))
    now = time_of(cluster, objects)
    stored = {(each.namespace, each.owner): each for each in objects.workloads.values()}
    forecasts: dict[int, QueueForecast | InvalidObject] = {}
    workloads: dict[int, Workload] = {}
    for index, job in enumerate(jobs):
        try:
            workload = workload_from_job(job, cluster, now, index)
        except InvalidObject as fault:
            forecasts[index] = fault
            continue
        existing = stored.get((workload.namespace, workload.owner))
        if existing is None:
            workloads[index] = workload
        elif existing.has_quota:
            queue = existing.admission.cluster_queue if existing.admission else None
            forecasts[index] = QueueForecast(existing, queue, existing.admission)
        else:
            workloads[index] = replace(existing, priority=workload.priority, pod_sets=workload.pod_sets)
    forecasts |= dict(
        zip(workloads, forecast(objects, [*workloads.values()], now, is_reversed=is_reversed), strict=True)
    )
    return [forecasts[index] for index in range(len(jobs))]


def time_of(cluster: ClusterSnapshot, objects: Objects) -> int:
    """Return the time of a cluster state in seconds since 1970, after the creation of all Workloads."""
    newest = max((workload.created for workload in objects.workloads.values()), default=0)
    return max(int(seconds_of(cluster.origin)), newest + 1)


def pods_of(workload: Workload, cluster: ClusterSnapshot) -> Iterator[Pod]:
    """Yield the Pods of a Workload of a Job."""
    for pod in cluster.pods_of(workload.namespace).values():
        owner = None if pod.owner is None or pod.terminal else (pod.owner_kind, pod.owner.name)
        if owner is not None and owner == workload.owner and pod.node_name:
            yield pod


def count_pods(workload: Workload, cluster: ClusterSnapshot) -> int:
    """Return the number of Pods that a Workload has, or should have if they are not known."""
    if workload.owner is not None:
        return sum(1 for _ in pods_of(workload, cluster))
    return sum(pod_set.count for pod_set in workload.pod_sets)
