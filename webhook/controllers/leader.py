"""Leases (coordination.k8s.io): compare-and-swap by resourceVersion, and leader election.

Only the local clock counts, as in client-go tools/leaderelection: a lease has expired if this process has seen the
Lease unchanged for its duration. Times in the Lease are only for people.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.webhook.apiserver.typed_client import Conflict, Forbidden, NotFound, ObjectApi, ObjectApiError
from forewarn.webhook.controllers.serving_certificate import BadSecret
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
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
        return self._with({**spec, **new}, annotations)

    def freed(self) -> ApiObject:
        """Return the Lease to write so that it has no holder."""
        spec = at(self.object, "spec") or {}
        return self._with({key: value for key, value in spec.items() if key == "leaseTransitions"}, {})

    def _with(self, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> ApiObject:
        kept = {key: value for key, value in self.annotations.items() if not key.startswith("forewarn.dev/")}
        metadata = {**(at(self.object, "metadata") or {}), "annotations": {**kept, **annotations}}
        return {**self.object, "metadata": metadata, "spec": spec}


class LeaseMissing(ObjectApiError):
    """The Lease does not exist, and forewarn may not create it."""


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
