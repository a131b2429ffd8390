"""What is looked after in a cluster: the election of a writer, certificates, registration, the global default."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from webhook.api import ApiError
from webhook.authority import BadSecret, Keeper
from webhook.certificates import NAMES
from webhook.global_defaults import GlobalDefaults
from webhook.lease import RENEWAL_SECONDS, Election, lease_path
from webhook.logs import LOGGER, say
from webhook.registration import Registration
from webhook.reservation import LOOK_SECONDS, Reservations

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cluster import ClusterSnapshot
    from webhook.api import Api
    from webhook.metrics import Metrics
    from webhook.tls import SwappingContext

CERTIFICATE_SECONDS: Final = 60.0
"""Between two looks at the certificates. Their ends are read off the wall clock: a machine that slept sees at once."""
_PENDING_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where this replica runs: its namespace, and its own name among the replicas."""

    namespace: str
    identity: str

    @property
    def secret(self) -> str:
        """Path of the Secret with the CAs."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/forewarn-ca"

    def lease(self, name: str) -> str:
        """Path of one of the Leases."""
        return lease_path(self.namespace, f"forewarn-{name}")

    @property
    def names(self) -> tuple[str, ...]:
        """Whom the certificate is for."""
        service = f"forewarn.{self.namespace}.svc"
        return tuple(dict.fromkeys((*NAMES, service, f"{service}.cluster.local")))


class Upkeep:
    """Does what is due, again and again, on a thread of its own.

    `contexts`: None where somebody else cares for certificates and registration.
    """

    def __init__(
        self,
        api: Api,
        place: Place,
        metrics: Metrics,
        contexts: SwappingContext | None,
        cluster: Callable[[], ClusterSnapshot | None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._metrics, self._cluster, self._clock = metrics, cluster, clock
        self._election = Election(api, place.lease("writer"), place.identity, clock)
        self._registration = Registration(api)
        self._keeper = Keeper(api, place.secret, place.names, contexts, metrics) if contexts else None
        self._defaults = GlobalDefaults(api, metrics)
        self.reservations = Reservations(api, place.lease("global-default"), metrics, clock)
        self._trusted = contexts is None
        self._why = "not looked yet"
        self._due: dict[str, float] = {}
        self._stop = Event()
        metrics.writer.set_function(lambda: float(self._election.won))

    def fault(self) -> str:
        """Why no request may be sent here yet: API servers do not trust the certificate. Empty once they do."""
        return "" if self._trusted else f"API servers do not trust the certificate yet: {self._why}"

    def start(self) -> Callable[[], None]:
        """Begin; returns what ends it."""
        thread = Thread(target=self._run, name="upkeep", daemon=True)
        thread.start()

        def end() -> None:
            self._stop.set()
            self.reservations.wake.set()
            thread.join(2 * LOOK_SECONDS)

        return end

    def look(self) -> None:
        """Do everything that is due. Raises nothing."""
        self._try("election", RENEWAL_SECONDS, self._elect)
        if self._keeper:
            self._try("certificates", CERTIFICATE_SECONDS if self._trusted else 0, self._certificates)
            self._try("renewal", CERTIFICATE_SECONDS, self._keeper.renew)  # even while no API server answers
        self._try("global default", 0, self.reservations.look)
        self._try("count of defaults", LOOK_SECONDS, self._count_defaults)

    def _run(self) -> None:
        wake = self.reservations.wake
        while not self._stop.is_set():
            wake.clear()
            self.look()
            wake.wait(_PENDING_SECONDS if self.reservations.pending or not self._trusted else LOOK_SECONDS)
        self._try("resignation", 0, self._election.resign)

    def _try(self, task: str, seconds: float, run: Callable[[], object]) -> None:
        """Do a task if it is due. One that fails is due again at the next look."""
        now = self._clock()
        if now < self._due.get(task, now):
            return
        try:
            run()
            self._due[task] = now + seconds
        except (ApiError, BadSecret) as error:
            self._failed(task, str(error))
            say("upkeep failed", {"task": task, "why": str(error)}, logging.WARNING)
        except Exception as error:
            self._failed(task, f"{type(error).__name__}, see the log")
            LOGGER.exception("upkeep failed")

    def _failed(self, task: str, why: str) -> None:
        self._metrics.count(self._metrics.upkeep_failures, task)
        if task == "certificates":
            self._why = why

    def _elect(self) -> None:
        before = self._election.won
        if self._election.look() is not before:
            say("election", {"writer": not before})
            self._due.pop("certificates", None)

    def _certificates(self) -> None:
        """Announce the CAs, then let a coming one sign, then say whether API servers trust ours."""
        assert self._keeper is not None
        writer = self._election.won
        announced = self._registration.look() or frozenset()
        self._keeper.look(writer=writer, announced=announced)
        authorities = self._keeper.authorities
        trusted = self._registration.look(authorities.bundle() if writer and authorities.current else None)
        current = authorities.current
        if current is not None and (trusted is None or current.certificate in trusted):
            self._trusted = True
        else:
            self._why = "the writer has not written its CA into the webhook configurations"

    def _count_defaults(self) -> None:
        cluster = self._cluster()
        if cluster is not None:
            self._defaults.look(cluster.priority_classes, writer=self._election.won)
