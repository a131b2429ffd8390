"""ReplicaSets and ReplicationControllers. Source: pkg/controller/replicaset/replica_set.go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key, partial
from math import inf, log2
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.controllers.templates import pod_of_template, template_of
from forewarn.policies.kubernetes.controllers.view import Action, CreatePod, DeletePod, Requeue, SetStatus
from forewarn.policies.kubernetes.objects.fields import INT32, NOTHING, ApiObject, int32, mapping

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import PodCounts, PodState, View, WorkloadState

BURST_REPLICAS: Final = 500
"""Maximum number of Pods that one sync creates or deletes."""


class ReplicaSetStatus(NamedTuple):
    """The status of a ReplicaSet: numbers of its active Pods.

    `observed`: the spec that the status describes (upstream `observedGeneration`).
    """

    replicas: int = 0
    ready: int = 0
    available: int = 0
    observed: Mapping[str, object] = NOTHING


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:
    """Return one sync's writes, also of a ReplicationController. Raises InvalidObject. Upstream `syncReplicaSet`."""
    counts, replicas = view.counts(state.key), spec_replicas(state.object)
    if counts is not None and counts.active <= replicas and not min_ready_seconds(state):
        return _count_actions(view, state, counts, replicas)
    active = [pod for pod in view.pods_of(state.key) if pod.active]
    actions = _manage_replicas(view, state, active, now)
    status, seconds = calculate_status(state, active, now), min_ready_seconds(state)
    if status != state.status:
        actions.append(SetStatus(state.key, status))
    if seconds and status.ready != status.available:
        due = [pod.ready + seconds for pod in active if pod.ready is not None and pod.ready + seconds > now]
        actions.append(Requeue(state.key, min(due, default=now + seconds)))
    return actions


def _count_actions(view: View, state: WorkloadState, counts: PodCounts, replicas: int) -> list[Action]:
    """Return the writes of a sync that deletes no Pods; such a sync needs only the numbers of Pods."""
    actions = _create(view, state, replicas - counts.active)
    status = ReplicaSetStatus(counts.active, counts.ready, counts.ready, mapping(state.object, "spec"))
    return actions if status == state.status else [*actions, SetStatus(state.key, status)]


def spec_replicas(obj: ApiObject) -> int:
    """Return `spec.replicas`, 1 if unset. Raises InvalidObject."""
    number = int32(obj, "spec", "replicas")
    return 1 if number is None else max(number, 0)


def min_ready_seconds(state: WorkloadState) -> int:
    """Return `spec.minReadySeconds`, 0 if unset. Raises InvalidObject."""
    return int32(state.object, "spec", "minReadySeconds") or 0


def calculate_status(state: WorkloadState, active: Sequence[PodState], now: float) -> ReplicaSetStatus:
    """Return the status with the numbers of `active` Pods, before this sync's writes. Upstream `calculateStatus`."""
    seconds = min_ready_seconds(state)
    ready = [pod for pod in active if pod.ready is not None]
    available = sum(pod.available(seconds, now) for pod in ready)
    return ReplicaSetStatus(len(active), len(ready), available, mapping(state.object, "spec"))


def _manage_replicas(view: View, state: WorkloadState, active: Sequence[PodState], now: float) -> list[Action]:
    """Return the writes that create or delete Pods, given the active Pods. Upstream `manageReplicas`."""
    difference = len(active) - spec_replicas(state.object)
    if difference <= 0:
        return _create(view, state, -difference)
    doomed = pods_to_delete(active, _related_pods(view, state), min(difference, BURST_REPLICAS), now)
    return [DeletePod(pod.pod.namespace, pod.pod.name, state.key) for pod in doomed]


def _create(view: View, state: WorkloadState, count: int) -> list[Action]:
    if count == 0:
        return []
    template = template_of(state.object)
    pod = pod_of_template(view, state.key, state.object, template)
    return [CreatePod(state.key, pod, template, f"{state.key[2]}-")] * min(count, BURST_REPLICAS)


def _related_pods(view: View, state: WorkloadState) -> list[PodState]:
    """Return the Pods of all ReplicaSets with the same controller (Deployment); none for a ReplicaSet without a
    controller.

    Source: `getIndirectlyRelatedPods`, `getReplicaSetsWithSameController`.
    """
    if state.controller is None:
        return []
    return [pod for other in view.owned(state.controller) for pod in view.pods_of(other.key)]


def pods_to_delete(pods: Sequence[PodState], related: Sequence[PodState], count: int, now: float) -> Sequence[PodState]:
    """Return the first `count` of the Pods in the order of deletion. Source: `getPodsToDelete`.

    `related`: Pods by which to count the Pods on each node. As in upstream, remaining ties are decided by UID.
    """
    if count >= len(pods):
        return pods
    on_node = Counter(pod.pod.node_name for pod in related if pod.active)
    return sort_by_rank([(pod, on_node[pod.pod.node_name]) for pod in pods], now)[:count]


def sort_by_rank(ranked: Iterable[tuple[PodState, int]], now: float) -> list[PodState]:
    """Sort Pods for deletion. `ranked`: (Pod, related Pods on its node). Source: `ActivePodsWithRanks`."""
    return [pod for pod, _ in sorted(ranked, key=cmp_to_key(partial(_compare, now=now)))]


POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def deletion_cost(annotation: object) -> int:
    """Return the annotation's value; 0 if it is not a 32-bit number. Source: `GetDeletionCostFromPodAnnotations`."""
    if not isinstance(annotation, str) or _COST.fullmatch(annotation) is None or len(annotation) > len(str(-(2**31))):
        return 0
    return int(annotation) if int(annotation) in INT32 else 0


_COST: Final = re.compile(r"0|[1-9][0-9]*|-[0-9]+", re.ASCII)


def ordered_for_deletion(pods: Sequence[PodState]) -> list[PodState]:
    """Return the Pods in the order of deletion without regard to their nodes, for Jobs.

    Source: pkg/controller `ActivePods`, which compares exact times, and not their order of magnitude.
    """
    return sorted(pods, key=_plain_order)


def _plain_order(pod: PodState) -> tuple[bool, int, bool, float, tuple[int, int], float]:
    assigned, phase = bool(pod.pod.node_name), _PHASES.get(pod.pod.phase, 0)
    regular, sidecar = pod.restarts
    return assigned, phase, pod.ready is not None, -(pod.ready or inf), (-regular, -sidecar), -(pod.created or inf)


_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def _compare(one: tuple[PodState, int], other: tuple[PodState, int], now: float) -> int:
    """Compare two (Pod, rank): negative if the first is deleted first. Source: `ActivePodsWithRanks.Less`."""
    (pod, rank), (pod2, rank2) = one, other
    first, second = _caveats(pod, rank), _caveats(pod2, rank2)
    if first != second:
        return -1 if first < second else 1
    if pod.ready is not None and pod2.ready is not None and pod.ready != pod2.ready:
        return _younger_first(pod.ready, pod2.ready, now) or _compare_uids(pod, pod2)
    if pod.restarts != pod2.restarts:
        return -1 if pod.restarts > pod2.restarts else 1
    if pod.created != pod2.created:
        return _younger_first(pod.created, pod2.created, now) or _compare_uids(pod, pod2)
    return 0


def _caveats(pod: PodState, rank: int) -> tuple[bool, int, bool, int, int]:
    """Return the part of the sort key that is compared before times. The Pod with the smaller key is deleted first."""
    assigned, phase = bool(pod.pod.node_name), _PHASES.get(pod.pod.phase, 0)
    return assigned, phase, pod.ready is not None, pod.deletion_cost, -rank


def _younger_first(one: float, other: float, now: float) -> int:
    """Compare ages on a logarithmic scale, younger first; 0: no time. Source: `logarithmicRankDiff`, `afterOrZero`."""
    if not one or not other:
        return -1 if not one else 1
    return _magnitude(now - one) - _magnitude(now - other)


def _magnitude(seconds: float) -> int:
    nanoseconds = round(seconds * 1e9)
    return int(log2(nanoseconds)) if nanoseconds > 0 else -1


def _compare_uids(one: PodState, other: PodState) -> int:
    return -1 if one.pod.uid < other.pod.uid else 1
