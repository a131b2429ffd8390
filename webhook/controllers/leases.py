"""Leases (coordination.k8s.io): compare-and-swap by resourceVersion, leader election, and the reservation of the global
default. It ensures that only one class gets it, for any number of replicas and parallel requests.

Only the local clock counts, as in client-go tools/leaderelection: a lease has expired if this process has seen the
Lease unchanged for its duration. Times in the Lease are only for people.

The API server checks the uniqueness of the global default in its own cache, so it accepts parallel requests. Before its
response, forewarn reserves the global default by compare-and-swap on one Lease, and then reads from etcd whether a
default exists. At that time, the class of the previous holder is either visible or will never be stored: see
`Reservation.is_over` and STALE_SECONDS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.kube_apiserver.priority import already_default, default_priority_class
from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.webhook.admission.decide import DefaultCandidate, several
from forewarn.webhook.apiserver.typed_client import (
    Conflict,
    Forbidden,
    NotFound,
    ObjectApi,
    ObjectApiError,
    get_or_none,
)
from forewarn.webhook.controllers.serving_certificate import BadSecret
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
    from forewarn.webhook.metrics import Metrics


ELECTION_SECONDS: Final = 30
"""Seconds after which another replica replaces a leader that does not renew its Lease."""
RENEWAL_SECONDS: Final = 10.0


def lease_path(namespace: str, name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as read. Methods return changed objects to write; only one of several concurrent writes succeeds."""

    object: ApiObject

    @property
    def holder(self) -> str:
        """The Lease's holder identity; empty without a holder."""
        return at(self.object, "spec", "holderIdentity") or ""

    @property
    def version(self) -> str:
        return at(self.object, "metadata", "resourceVersion") or ""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the Lease, with further data of the holder."""
        return at(self.object, "metadata", "annotations") or {}

    def held_by(self, holder: str, seconds: int, now: datetime, annotations: Mapping[str, str]) -> ApiObject:
        """Return the Lease to write for this holder, renewed at `now` (UTC)."""
        spec = at(self.object, "spec") or {}
        time = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
        changes = spec.get("leaseTransitions") or 0
        new = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": time}
        if holder != self.holder:
            new |= {"acquireTime": time, "leaseTransitions": changes + 1}
        return self._create_lease({**spec, **new}, annotations)

    def freed(self) -> ApiObject:
        """Return the Lease to write so that it has no holder."""
        spec = at(self.object, "spec") or {}
        return self._create_lease({key: value for key, value in spec.items() if key == "leaseTransitions"}, {})

    def _create_lease(self, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> ApiObject:
        kept = {key: value for key, value in self.annotations.items() if not key.startswith("forewarn.dev/")}
        metadata = {**(at(self.object, "metadata") or {}), "annotations": {**kept, **annotations}}
        return {**self.object, "metadata": metadata, "spec": spec}


class LeaseMissing(ObjectApiError):
    """The error if the Lease does not exist, and forewarn may not create it."""


def read_lease(api: ObjectApi, path: str, holder: str, seconds: int) -> Lease:
    """Read a Lease; create a missing one, held by this holder for `seconds`. Raises ObjectApiError.

    An update creates a Lease, and RBAC can limit it to one name (kubernetes pkg/registry/coordination/lease).
    """
    try:
        return Lease(api.get(path))
    except NotFound:
        *_, namespace, _, name = path.split("/")
    metadata = {"name": name, "namespace": namespace}
    missing = Lease({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
    try:
        created = api.replace(path, missing.held_by(holder, seconds, datetime.now(UTC), {}))
    except Forbidden as error:
        raise LeaseMissing(
            f"the Lease {name} is missing, and forewarn may not create it. An administrator must apply forewarn's "
            "manifests again"
        ) from error
    except ObjectApiError:
        return Lease(api.get(path))  # another replica was quicker
    log_event("Lease created", {"lease": name}, logging.WARNING)
    return Lease(created)


class Observation:
    """Measures the time for which this process has seen a Lease unchanged."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._version, self._since = clock, "", 0.0

    def seconds(self, lease: Lease) -> float:
        """Return the seconds since this process first saw this version of the Lease; 0 for a new version."""
        if lease.version != self._version:
            self._version, self._since = lease.version, self._clock()
        return self._clock() - self._since


class Election:
    """Elects one of several replicas as leader.

    Two replicas may act as leader for a short time, so the leader's writes must tolerate another leader.
    """

    def __init__(self, api: ObjectApi, path: str, identity: str, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._path, self._identity, self._clock = api, path, identity, clock
        self._observation = Observation(clock)
        self._renewed: float | None = None

    @property
    def is_leader(self) -> bool:
        return self._renewed is not None and self._clock() - self._renewed < ELECTION_SECONDS

    def reconcile(self) -> bool:
        """Renew the Lease, or acquire one without a valid holder; return whether it is held. Raises ObjectApiError."""
        started = self._clock()
        lease = read_lease(self._api, self._path, self._identity, ELECTION_SECONDS)
        if lease.holder != self._identity:
            self._renewed = None
            if lease.holder and self._observation.seconds(lease) < ELECTION_SECONDS:
                return False
        try:
            self._api.replace(self._path, lease.held_by(self._identity, ELECTION_SECONDS, datetime.now(UTC), {}))
        except Conflict:
            return self.is_leader
        self._renewed = started
        return True

    def resign(self) -> None:
        """Release the Lease, so that another replica can become leader immediately. Raises ObjectApiError."""
        if self._renewed is None:
            return
        self._renewed = None
        lease = Lease(self._api.get(self._path))
        if lease.holder == self._identity:
            self._api.replace(self._path, lease.freed())


class Tasks:
    """Runs tasks by name. `faults`: task -> current error. Not thread-safe."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = monotonic) -> None:
        self._metrics, self._clock = metrics, clock
        self._due: dict[str, float] = {}
        self.faults: dict[str, str] = {}
        """Reasons of the last failures, by task."""

    def attempt(self, task: str, seconds: float, run: Callable[[], object]) -> None:
        """Run a task if it is due: after `seconds`, or at the next call after a failure. Raises nothing."""
        now = self._clock()
        if now < self._due.get(task, now):
            return
        try:
            run()
            self._due[task] = now + seconds
            self.faults.pop(task, None)
        except (ObjectApiError, BadSecret) as error:
            if self.faults.get(task) != str(error):
                log_event("background task failed", {"task": task, "reason": str(error)}, logging.WARNING)
            self._failed(task, str(error))
        except Exception as error:
            self._failed(task, f"{type(error).__name__}; see the log")
            LOGGER.exception("background task failed")

    def _failed(self, task: str, why: str) -> None:
        self._metrics.count(self._metrics.task_failures, task)
        self.faults[task] = why


CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
RECONCILE_SECONDS: Final = 5.0
"""Seconds between two reads of the Lease by each replica, so that all know the age of the reservation."""
STALE_SECONDS: Final = 35.0
"""Age in seconds at which a reservation's request is over.

The API server stores nothing later than 34 s after its request (apiserver pkg/endpoints/handlers/rest.go).
"""
LEASE_SECONDS: Final = 40
"""Seconds after which every replica may take an unused reservation: RECONCILE_SECONDS and STALE_SECONDS together."""
REQUEST: Final = "forewarn.dev/request"
"""Annotation of the Lease with the request that holds it.

Absent if several requests hold it, so that none of them can be confirmed.
"""
_ATTEMPTS: Final = 10
_RECREATED: Final = "forewarn/recreated"
"""The holder of a Lease that was missing; no PriorityClass has such a name."""
_REMEMBERED: Final = 256
"""Maximum number of remembered uids of created classes: a class may be deleted before the check."""


class Reservation(Lease):
    """The Lease that reserves the global default for its holder, a class."""

    __slots__ = ()

    @property
    def request(self) -> str:
        """The admission request that holds the reservation; "" for several requests."""
        return self.annotations.get(REQUEST, "")

    def is_over(self, stored: ApiObject | None, seen: Container[str] = ()) -> bool:
        """Report whether the holder's request can no longer store the class as global default.

        `stored`: the holder's class in etcd. `seen`: uids of classes that existed. A create request is over if the
        uid exists or existed. The API server stores an update only over the version that admission received: once
        that version is replaced, the update has been stored or will fail.
        """
        kind, _, rest = self.request.partition(" ")
        uid, _, version = rest.partition(" ")
        exists = stored is not None and at(stored, "metadata", "uid") == uid
        if kind == "create":
            return exists or uid in seen
        return kind == "update" and not (exists and at(stored or {}, "metadata", "resourceVersion") == version)


class Reserver:
    """Reserves the global default. Thread-safe."""

    def __init__(self, api: ObjectApi, path: str, metrics: Metrics, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._path, self._metrics, self._clock = api, path, metrics, clock
        self._observation, self._lock = Observation(clock), Lock()
        self.pending = ""
        """The class for which this replica may still have a reservation to release; "" for none."""
        self._seen: dict[str, None] = {}
        self.wake = Event()
        """Set when there is something to check."""

    def reserve(self, candidate: DefaultCandidate, seconds: float) -> str:
        """Reserve the global default for a class; return why that is impossible, or "". Raises ObjectApiError.

        `seconds`: the remaining time of the request.
        """
        until = self._clock() + seconds
        try:
            rejection, outcome = self._reserve(candidate, until)
        except ObjectApiError as error:
            self._metrics.count(self._metrics.reservations, "failed")
            if isinstance(error, LeaseMissing):
                return str(error)  # a retry of the API server would only delay the answer
            raise
        self._metrics.count(self._metrics.reservations, outcome)
        return rejection

    def _reserve(self, candidate: DefaultCandidate, until: float) -> tuple[str, str]:
        for _ in range(_ATTEMPTS):
            reservation = self._read()
            if reservation.holder and not self._is_free(reservation):
                if reservation.holder != candidate.name:
                    text = _LEASE_DELETED if reservation.holder == _RECREATED else _TAKEN
                    return text.format(reservation.holder), "taken"
                fresh, request = False, candidate.request if candidate.request == reservation.request else ""
            else:
                fresh, request = True, candidate.request
            written = self._write(reservation, candidate.name, request)
            if written is not None:
                return self._check(candidate, written, fresh)
            if self._clock() >= until:
                break
        raise ObjectApiError(f"{self._path}: too many concurrent changes")

    def _check(self, candidate: DefaultCandidate, written: Reservation, fresh: bool) -> tuple[str, str]:
        """Read from etcd whether another class is the global default, while the reservation keeps other classes from
        becoming it.

        Returns the reason for a rejection ("" if granted) and the outcome for metrics. Releases a `fresh` reservation
        on rejection.
        """
        other = next((name for name in self._defaults() if name != candidate.name), "")
        if not other:
            self.pending = candidate.name
            self.wake.set()
            return "", "granted"
        if fresh:
            self._release(written)
        return already_default(other), "rejected"

    def seen(self, obj: ApiObject) -> None:
        """Record a PriorityClass from the watch. Does not block; `reconcile` releases the reservation."""
        with self._lock:
            self._seen[str(at(obj, "metadata", "uid"))] = None
            while len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        if self.pending and at(obj, "metadata", "name") == self.pending:
            self.wake.set()

    def reconcile(self) -> None:
        """Release the reservation if the holder's request is over. Raises ObjectApiError."""
        reservation = self._read()
        if not reservation.holder:
            self.pending = ""
        elif (why := self._is_free(reservation)) and self._release(reservation):
            self.pending = ""
            self._metrics.count(self._metrics.reservations, why)
            log_event("global default reservation released", {"class": reservation.holder, "reason": why})

    def _is_free(self, reservation: Reservation) -> str | None:
        """Return why the reservation can be released (`confirmed`, `expired`); None if the request may be stored."""
        if reservation.request:
            stored = get_or_none(self._api, f"{CLASSES}/{reservation.holder}")
            if reservation.is_over(stored, self._seen):
                return "confirmed"
        with self._lock:
            age = self._observation.seconds(reservation)
        return "expired" if age >= STALE_SECONDS else None

    def _read(self) -> Reservation:
        """Read the Lease; create a missing one, reserved until the request of its last holder must be over."""
        reservation = Reservation(read_lease(self._api, self._path, _RECREATED, LEASE_SECONDS).object)
        with self._lock:
            self._observation.seconds(reservation)
        return reservation

    def _write(self, reservation: Reservation, name: str, request: str) -> Reservation | None:
        """Write the reservation, and return it; None if another replica has changed the Lease in the meantime."""
        annotations = {REQUEST: request} if request else {}
        held = reservation.held_by(name, LEASE_SECONDS, datetime.now(UTC), annotations)
        try:
            return Reservation(self._api.replace(self._path, held))
        except Conflict:
            return None

    def _release(self, reservation: Reservation) -> bool:
        """Release the reservation; return false if another replica has changed the Lease."""
        try:
            self._api.replace(self._path, reservation.freed())
        except Conflict:
            return False
        return True

    def _defaults(self) -> Iterator[str]:
        for item in self._api.get(CLASSES).get("items") or ():
            if item.get("globalDefault") is True:
                yield at(item, "metadata", "name")


_LEASE_DELETED: Final = (
    f"the Lease of the reservation was deleted; forewarn uses the new one after {LEASE_SECONDS} seconds"
)
_TAKEN: Final = (
    'another request is making PriorityClass "{}" the global default, and there can be only one. If that request '
    f"fails, the reservation ends within {LEASE_SECONDS} seconds"
)


class GlobalDefaults:
    """Counts the global default PriorityClasses, and logs each set of several once. For one thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reported: tuple[str, ...] = ()

    def reconcile(self, classes: Mapping[str, PriorityClass]) -> None:
        """Update the metric with the number of global defaults, and log their names if there are several."""
        names = tuple(sorted(defaults.name for defaults in classes.values() if defaults.global_default))
        counts, message = default_priority_class(classes.values()), several(classes.values())
        self._metrics.global_defaults.set(len(names))
        if counts is None or not message:
            self._reported = ()
        elif names != self._reported:
            log_event(
                "multiple global default PriorityClasses", {"classes": names, "effective": counts.name}, logging.ERROR
            )
            self._reported = names
