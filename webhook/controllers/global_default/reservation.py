"""Only one class becomes the global default, for any number of replicas and parallel requests.

The API server checks uniqueness in its own cache, so parallel requests pass. forewarn first reserves the global
default: by compare-and-swap on one Lease, before the response. The holder then reads from etcd whether there is a
default. The class of the previous holder is stored and visible by then, or never will be: see `Reservation.is_over` and
STALE_SECONDS.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import quote
from forewarn.policies.kube_apiserver.priority import already_default
from forewarn.policies.objects.fields import at
from forewarn.webhook.apiserver.object_api import Conflict, NotFound, ObjectApiError
from forewarn.webhook.controllers.leader import Lease, Observation
from forewarn.webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.admission.global_default import DefaultCandidate
    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.metrics import Metrics

CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
RECONCILE_SECONDS: Final = 5.0
"""Seconds between two reads of the Lease by each replica, so that all know the age of the reservation."""
STALE_SECONDS: Final = 35.0
"""The API server stores nothing later than 34 s after its request (apiserver pkg/endpoints/handlers/rest.go): an older
reservation belongs to a request that is over."""
LEASE_SECONDS: Final = 40
"""Seconds after which an unused reservation is free for every replica: the sum of the two values above."""
REQUEST: Final = "forewarn.dev/request"
"""Annotation of the Lease: which request holds it. Absent: several, so that none of them can be confirmed."""
_ATTEMPTS: Final = 10
_REMEMBERED: Final = 256
"""Maximum uids of created classes that are kept: a class may be deleted before the check."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The Lease, as a place that one class may hold."""

    lease: Lease

    @property
    def name(self) -> str:
        """The class that is to become the default; empty: none."""
        return self.lease.holder

    @property
    def request(self) -> str:
        """Which request that is of; empty: of several."""
        return self.lease.annotations.get(REQUEST, "")

    def is_over(self, stored: ApiObject | None, seen: Container[str] = ()) -> bool:
        """True if the request of the holder cannot change anything any more.

        `stored`: its class in etcd. `seen`: uids of classes that existed. A class was created if its uid is or was
        there. The API server stores an update only over the version that admission received: once that version is
        replaced, the update is stored or void, and needs a new request.
        """
        kind, _, rest = self.request.partition(" ")
        uid, _, version = rest.partition(" ")
        there = stored is not None and at(stored, "metadata", "uid") == uid
        if kind == "create":
            return there or uid in seen
        return kind == "update" and not (there and at(stored or {}, "metadata", "resourceVersion") == version)


class Reserver:
    """Reserves the place of the global default. Safe to use from any thread."""

    def __init__(self, api: ObjectApi, path: str, metrics: Metrics, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._path, self._metrics, self._clock = api, path, metrics, clock
        self._observation, self._lock = Observation(clock), Lock()
        self._pending = ""
        self._seen: dict[str, None] = {}
        self.wake = Event()
        """Set when there is something to check."""

    def reserve(self, candidate: DefaultCandidate, seconds: float) -> str:
        """Reserve the global default for a class; returns why that is impossible, or "". Raises ApiError."""
        until = self._clock() + seconds
        try:
            refusal, outcome = self._reserve(candidate, until)
        except ObjectApiError:
            self._metrics.count(self._metrics.reservations, "failed")
            raise
        self._metrics.count(self._metrics.reservations, outcome)
        return refusal

    def _reserve(self, candidate: DefaultCandidate, until: float) -> tuple[str, str]:
        for _ in range(_ATTEMPTS):
            reservation = self._read()
            same = reservation.name == candidate.name
            if reservation.name and not self._is_free(reservation):
                if not same:
                    return _taken(reservation.name), "taken"
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
        """Check etcd, after no other class can become the default."""
        other = next((name for name in self._defaults() if name != candidate.name), "")
        if not other:
            self._pending = candidate.name
            self.wake.set()
            return "", "granted"
        if fresh:
            self._release(written)
        return already_default(other), "rejected"

    def seen(self, obj: ApiObject) -> None:
        """Record a PriorityClass of the watch. Returns at once; `look` does the rest."""
        with self._lock:
            self._seen[str(at(obj, "metadata", "uid"))] = None
            while len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        if self._pending and at(obj, "metadata", "name") == self._pending:
            self.wake.set()

    @property
    def pending(self) -> bool:
        """True while a reservation of this replica is not known to be over."""
        return bool(self._pending)

    def reconcile(self) -> None:
        """Free the place if the request that holds it is over. Raises ApiError."""
        reservation = self._read()
        if not reservation.name:
            self._pending = ""
        elif (why := self._is_free(reservation)) and self._release(reservation):
            self._pending = ""
            self._metrics.count(self._metrics.reservations, why)
            log_event("global default reservation released", {"class": reservation.name, "reason": why})

    def _is_free(self, reservation: Reservation) -> str:
        """Why the holder's request is over, by its class or age; "" if it may not be."""
        if reservation.request and reservation.is_over(self._class(reservation.name), self._seen):
            return "confirmed"
        with self._lock:
            age = self._observation.seconds(reservation.lease)
        return "expired" if age >= STALE_SECONDS else ""

    def _read(self) -> Reservation:
        lease = Lease(self._api.get(self._path))
        with self._lock:
            self._observation.seconds(lease)
        return Reservation(lease)

    def _write(self, reservation: Reservation, name: str, request: str) -> Reservation | None:
        """Write the reservation; None if another replica has changed it."""
        annotations = {REQUEST: request} if request else {}
        held = reservation.lease.held(name, LEASE_SECONDS, datetime.now(UTC), annotations)
        try:
            return Reservation(Lease(self._api.replace(self._path, held)))
        except Conflict:
            return None

    def _release(self, reservation: Reservation) -> bool:
        """Delete the reservation, unless another replica has changed it."""
        try:
            self._api.replace(self._path, reservation.lease.freed())
        except Conflict:
            return False
        return True

    def _class(self, name: str) -> ApiObject | None:
        try:
            return self._api.get(f"{CLASSES}/{name}")
        except NotFound:
            return None

    def _defaults(self) -> Iterator[str]:
        for item in self._api.get(CLASSES).get("items") or ():
            if item.get("globalDefault") is True:
                yield at(item, "metadata", "name")


def _taken(name: str) -> str:
    return (
        f"another request is making PriorityClass {quote(name)} the global default, and there can be only one. If that "
        f"request fails, the reservation ends within {LEASE_SECONDS} seconds"
    )
