"""Pods of recently admitted workloads that their controllers have not created yet.

`kubectl apply` sends the objects of one file one after the other. The prediction for the second object counts the Pods
of the first and their use of quotas, although the cluster state does not contain them yet.

An object in the cluster state counts for all requests. Until it is there, it counts only for the user who applied it:
another webhook may still deny it, and users must not change the predictions of others. Dry runs and rejected requests
do not count, nor do objects that another replica of the webhook has admitted.

Memory is bounded: the number of objects in total, by user and by namespace, the bytes of each object, and the time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import plural
from forewarn.policies.base.metering import CutShort, charge, metered
from forewarn.policies.kubernetes.cluster.admission import admitted as admitted_pod
from forewarn.policies.kubernetes.cluster.admission import counted_by_quotas
from forewarn.policies.kubernetes.controllers.changes import not_yet_created, not_yet_scheduled
from forewarn.policies.kubernetes.controllers.own_pods import creates_pods_later
from forewarn.policies.kubernetes.kinds.registry import POD
from forewarn.policies.kubernetes.kube_apiserver.quota import first_rejected
from forewarn.policies.kubernetes.objects.extent import check_quotas
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    has_controller,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

MAX_OBJECTS: Final = 32
MAX_OF_ONE: Final = 16
"""Maximum number of recorded objects of one user, and of one namespace."""
_RETAINED: Final = 8
"""Number of these objects that are kept when the maximum is exceeded. Most requests then only add to the objects that
the previous request counted, and need one more prediction.
"""
MAX_PODS: Final = 32
"""Maximum number of counted Pods, over all objects."""
MAX_WORK: Final = 50_000
"""Maximum units of work (`policies.base.metering`) to place the Pods."""
MAX_BYTES: Final = 64 * 1024
"""Maximum bytes of a recorded object."""
SECONDS: Final = 10.0
"""Seconds after which the Pods are in the cluster state, or the controller cannot create them."""
UNSEEN_SECONDS: Final = 2.0
"""Seconds after which an object that is not in the cluster state counts as not stored."""
AUDIT_KEY: Final = "pods-not-counted"
"""Key of the audit annotation on a prediction that omits some of these Pods."""
_CHARGING: Final = 50
"""Units of work to compare a Pod with a quota."""
_PLACED: Final = 4
"""Maximum number of cached cluster states with these Pods."""

Key = tuple[str, str, str]
"""`group/Kind`, namespace and name of an object."""


class Admitted(NamedTuple):
    """A recently admitted object. `pods`: the number of its Pods when all are created. `at`: time of admission."""

    number: int
    user: str
    key: Key
    object: ApiObject
    pods: int
    at: float


class Arriving(NamedTuple):
    """A cluster state that includes the Pods that admitted objects will create.

    `omitted`: number of objects for which some Pods are missing. `left`: how many more Pods may be placed.
    """

    cluster: ClusterSnapshot | None
    omitted: int = 0
    left: int = 0

    @property
    def not_counted(self) -> str:
        """A sentence about Pods that the prediction omits, for the audit log; "" if there are none."""
        return f"Pods of {plural(self.omitted, 'object')} just admitted" if self.omitted else ""


class AdmittedPods:
    """The recently admitted objects. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._admitted: OrderedDict[Key, Admitted] = OrderedDict()
        self._stored: set[int] = set()
        """Numbers of objects that have appeared in the cluster state."""
        self._numbers = 0
        self._placed: tuple[ClusterSnapshot | None, OrderedDict[tuple[int, ...], Arriving]] = None, OrderedDict()
        """A cluster state, and the states with additional Pods, by the numbers of the objects with these Pods."""

    def __len__(self) -> int:
        return len(self._admitted)

    def note(self, subject: ReviewedObject, user: str, pods: int, size: int) -> None:
        """Record an admitted object. `pods`: the number of its Pods when all are created. `size`: bytes of its
        review."""
        ref, obj = subject.ref, subject.object
        if not ref.name or size > MAX_BYTES or pods <= 0 or has_controller(obj):
            return  # Pods of a controller count with the object of the controller
        if creates_pods_later(obj):
            return
        if at(obj, "metadata", "generateName"):
            return  # /mutate does not know a generated name, and the name is never applied again
        key = key_of_object(subject)
        metadata = {**(at(obj, "metadata") or {}), "namespace": key[1]}
        with self._lock:
            self._forget(key)
            self._numbers += 1
            self._admitted[key] = Admitted(self._numbers, user, key, {**obj, "metadata": metadata}, pods, self._clock())
            every = list(self._admitted.values())
            self._limit([item for item in every if item.user == user])
            self._limit([item for item in every if item.key[1] == key[1]])
            while len(self._admitted) > MAX_OBJECTS:
                counts = Counter(admitted.user for admitted in self._admitted.values())
                most = max(counts.values())
                self._forget(next(a.key for a in self._admitted.values() if counts[a.user] == most))

    def deleted(self, key: Key) -> None:
        """Remove an object that was deleted before it appeared in the cluster state."""
        if key in self._admitted:
            with self._lock:
                self._forget(key)

    def admitted_for(self, user: str, key: Key, cluster: ClusterSnapshot) -> tuple[Admitted, ...]:
        """Return the admitted objects whose Pods count for this user's request about `key`: the user's own objects
        first.

        Excludes the object `key` itself. Also forgets objects that expired or were deleted.
        """
        if not self._admitted:
            return ()
        now, entries = self._clock(), list[Admitted]()
        with self._lock:
            for admitted in list(self._admitted.values()):
                is_stored = _is_stored(admitted, cluster)
                was_stored = admitted.number in self._stored
                if is_stored:
                    self._stored.add(admitted.number)
                limit = SECONDS if is_stored else UNSEEN_SECONDS
                if now - admitted.at > limit or (was_stored and not is_stored):
                    self._forget(admitted.key)
                elif admitted.key != key and (is_stored or admitted.user == user):
                    entries.append(admitted)
        entries.sort(key=lambda admitted: admitted.user != user)  # those of the user first, if not all can be counted
        return tuple(entries)

    def placed(
        self,
        cluster: ClusterSnapshot,
        admitted: Sequence[Admitted],
        paths: Mapping[str, tuple[str, ...]],
        expired: Callable[[], bool],
    ) -> Arriving:
        """Return the cluster state with these objects' Pods on the nodes that kube-scheduler would select.

        `paths`: Pod template paths of custom kinds. Results are cached until the cluster state changes: further objects
        are placed after those that a cached result includes.
        """
        if not admitted:
            return Arriving(cluster)
        state, cache = self._placed
        if state is not cluster:
            cache = OrderedDict()
            self._placed = cluster, cache
        numbers = tuple(entry.number for entry in admitted)
        count, start = 0, Arriving(cluster, left=MAX_PODS)
        for length in range(len(numbers), 0, -1):
            if (placed := cache.get(numbers[:length])) is not None:  # another thread may remove it
                count, start = length, placed
                break
        try:
            with metered(expired, MAX_WORK):
                for entry in admitted[count:]:
                    start = _with_pods_of(entry, start, cluster, paths)
        except CutShort:
            start = Arriving(cluster, len(admitted))
            if expired():
                return start
        cache[numbers] = start
        while len(cache) > _PLACED:
            cache.popitem(last=False)
        return start

    def _limit(self, of_one: Sequence[Admitted]) -> None:
        """Remove the oldest records if there are too many. `of_one`: those of one user or namespace, oldest first."""
        for admitted in of_one[:-_RETAINED] if len(of_one) > MAX_OF_ONE else ():
            self._forget(admitted.key)

    def _forget(self, key: Key) -> None:
        admitted = self._admitted.pop(key, None)
        if admitted is not None:
            self._stored.discard(admitted.number)


def key_of_object(subject: ReviewedObject) -> Key:
    """Return the key of an object in the records: `group/Kind`, namespace and name."""
    return group_kind(subject.object or subject.old or NOTHING), subject.effective_namespace, subject.ref.name


def _is_stored(admitted: Admitted, cluster: ClusterSnapshot) -> bool:
    kind, namespace, name = admitted.key
    if kind == POD:
        return (namespace, name) in cluster.pods
    stored = cluster.workload(kind, namespace, name)
    return stored is not None and at(stored.object, "spec", "replicas") == at(admitted.object, "spec", "replicas")


def _with_pods_of(
    admitted: Admitted, so_far: Arriving, cluster: ClusterSnapshot, paths: Mapping[str, tuple[str, ...]]
) -> Arriving:
    """Place the Pods of one more object after those already placed. `cluster`: the state without any of them."""
    left = so_far.left
    assert so_far.cluster is not None
    try:
        pods = not_yet_scheduled(admitted.object, admitted.pods, cluster, paths)
        charged = _charged(admitted, so_far.cluster, cluster, paths)
    except InvalidObject:
        return so_far
    snapshot = so_far.cluster.scheduling
    omitted = so_far.omitted + (len(pods) > left)
    for pod in pods[:left]:
        left -= 1
        before, snapshot = snapshot, _add_pod(snapshot, pod)
        if before is snapshot:
            break  # the Pod stays Pending, and so do equal Pods
    return Arriving(charged.scheduled_as(snapshot), omitted, left)


def _charged(
    admitted: Admitted, so_far: ClusterSnapshot, cluster: ClusterSnapshot, paths: Mapping[str, tuple[str, ...]]
) -> ClusterSnapshot:
    """Return the cluster state `so_far`, with the use of quotas by the Pods of one more object that do not exist yet.

    `cluster`: the state without any of them. Raises InvalidObject.
    """
    namespace = admitted.key[1]
    quotas = so_far.quotas_of(namespace)
    pod, missing = not_yet_created(admitted.object, admitted.pods, cluster, paths) if quotas else (NOTHING, 0)
    if not missing:
        return so_far
    check_quotas(quotas)
    counted = counted_by_quotas(pod, admitted_pod(pod, cluster).priority_class_name, cluster)
    charge(_CHARGING * len(quotas))
    _, check = first_rejected(counted, quotas, replicas=missing)
    return replace(so_far, charged_quotas={**so_far.charged_quotas, namespace: check.quotas})


def _add_pod(snapshot: Snapshot, pod: Pod) -> Snapshot:
    """Return the snapshot with the Pod on its predicted node, if that is known. Raises CutShort."""
    # imports numpy, which the webhook loads at its start
    from forewarn.policies.kubernetes.scheduling.not_predicted import not_predicted
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    return snapshot if not_predicted(pod, snapshot) else Prediction(snapshot, pod).snapshot_after()
