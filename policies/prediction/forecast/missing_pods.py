"""Pods that a stored workload wants and that do not exist, and why its controller cannot create them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.controllers.job import only_replaces_failed
from forewarn.policies.kubernetes.controllers.new_pods import needed
from forewarn.policies.kubernetes.controllers.own_pods import owned_pods_of, pods_of
from forewarn.policies.kubernetes.controllers.stateful_set import blocking_ordinal, ordinal_of, requested_ordinals
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    PRIORITY_CLASS,
    REPLICA_SET,
    STATEFUL_SET,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, group_kind, ref_of, text_at
from forewarn.policies.kubernetes.objects.workload import replica_failure
from forewarn.policies.prediction.forecast.placement import ChargedQuotas, new_pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.workload import Workload

_KINDS: Final = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, "/ReplicationController", JOB)


class MissingPods(NamedTuple):
    """The Pods of a workload that do not exist: `missing` of `wanted`.

    `why`: the reason, such as kube-apiserver's message; "" if unknown. `waits_for`: the Pod for which a StatefulSet
    waits.
    """

    wanted: int
    missing: int
    why: str = ""
    waits_for: Pod | None = None


def missing_pods(
    cluster: ClusterSnapshot, obj: ApiObject, existing: int | None = None, reported: str = ""
) -> MissingPods | None:
    """Return the Pods of a workload that do not exist; of a CronJob without running Pods, those that kube-apiserver
    would reject if the next Job started now. None for other CronJobs, for kinds that want no number of Pods, and for
    unreadable workloads, which parse-error reports.

    `existing`: number of its Pods that the controller counts (default: by the cluster state). `reported`: the message
    of an Event about a rejected Pod.
    """
    kind = group_kind(obj)
    if kind not in (*_KINDS, CRON_JOB) or at(obj, "metadata", "deletionTimestamp"):
        return None
    try:
        return _of_next_job(cluster, obj) if kind == CRON_JOB else _missing_pods(cluster, obj, existing, reported)
    except InvalidObject:
        return None


def all_missing(cluster: ClusterSnapshot) -> Iterator[tuple[Workload, MissingPods]]:
    """Yield the workloads without controller of their own whose Pods are not created, and why, by kind and name."""
    for key, workload in sorted(cluster.workloads.items()):
        if (workload.controller[0], key[1], workload.controller[1]) in cluster.workloads:
            continue  # a ReplicaSet of a Deployment, or a Job of a CronJob
        found = missing_pods(cluster, workload.object)
        if found is not None and found.why:
            yield workload, found


def _of_next_job(cluster: ClusterSnapshot, obj: ApiObject) -> MissingPods | None:
    wanted = needed(obj, obj)
    created, why = (wanted, "") if not wanted or pods_of(cluster, obj) else _rejection(cluster, obj)
    return MissingPods(wanted, wanted - created, why) if why else None


def _missing_pods(cluster: ClusterSnapshot, obj: ApiObject, existing: int | None, reported: str) -> MissingPods:
    wanted = needed(obj, obj)
    if not wanted:
        return MissingPods(0, 0)
    own = [pod for pod in owned_pods_of(cluster, obj) if not pod.terminal] or pods_of(cluster, obj)
    if existing is None:
        existing = sum(not pod.terminating or counts_terminating(obj) for pod in own)
    missing = max(wanted - existing, 0)
    if not missing:
        return MissingPods(wanted, 0)
    waits_for = _waits_for(obj, own)
    if waits_for is not None:
        return MissingPods(wanted, missing, _waiting(waits_for), waits_for)
    why = text_at(replica_failure(obj) or {}, "message") or reported or next_rejection(cluster, obj)
    return MissingPods(wanted, missing, rejection_in(why))


def rejection_in(message: str) -> str:
    """Return why kube-apiserver rejects a Pod, from the message of a controller."""
    return message.rpartition(" is forbidden: ")[2]


def counts_terminating(obj: ApiObject) -> bool:
    """Report whether the controller replaces a terminating Pod only after the Pod no longer exists.

    Source: `IsPodActive` in pkg/controller/controller_utils.go; pkg/controller/statefulset, `processReplica`.
    """
    return group_kind(obj) == STATEFUL_SET or (group_kind(obj) == JOB and only_replaces_failed(obj))


def _waits_for(obj: ApiObject, own: Sequence[Pod]) -> Pod | None:
    """Return the Pod for which a StatefulSet waits before it creates further Pods. Source: `processReplica`."""
    if group_kind(obj) != STATEFUL_SET:
        return None
    pods = {ordinal_of(pod.name, ref_of(obj).name): pod for pod in own}
    first = next((number for number in requested_ordinals(obj) if number not in pods), 0)
    blocking = blocking_ordinal(obj, (number for number, pod in pods.items() if not (pod.healthy and pod.node_name)))
    return pods[blocking] if blocking is not None and blocking < first else None


def _waiting(pod: Pod) -> str:
    is_pending = not pod.node_name or pod.phase == "Pending"
    state = "terminating" if pod.terminating else "Pending" if is_pending else "not ready"
    return f"podManagementPolicy OrderedReady waits for {pod.name}, which is {state}"


def next_rejection(cluster: ClusterSnapshot, obj: ApiObject) -> str:
    """Return why kube-apiserver would reject the next Pod; "" if it would not."""
    created, why = _rejection(cluster, obj)
    return "" if created else why


def _rejection(cluster: ClusterSnapshot, obj: ApiObject) -> tuple[int, str]:
    """Return how many of the next Pods kube-apiserver would create, and why it would reject the one after these; ""
    if it would not.
    """
    try:
        return ChargedQuotas(cluster).admit(obj, new_pods_of(cluster, obj)[0].pods)
    except InvalidObject as fault:
        is_unknown = fault.path[-1:] == ("priorityClassName",) and PRIORITY_CLASS in cluster.objects.unlisted
        return 0, "" if is_unknown else fault.problem.partition(". Fix: ")[0]
