"""The background tasks of a serving replica in a cluster: its certificate, the global default, the audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.webhook.apiserver.typed_client import Forbidden, ObjectApi
from forewarn.webhook.controllers.leases import RECONCILE_SECONDS, RENEWAL_SECONDS, GlobalDefaults, Reserver, Tasks
from forewarn.webhook.controllers.registration import Installation, Registration
from forewarn.webhook.controllers.serving_certificate import ServingCertificate
from forewarn.webhook.health import start_loop
from forewarn.webhook.http.tls import SwappingContext, distrust
from forewarn.webhook.x509 import validity_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.webhook.admission.review import Grant
    from forewarn.webhook.controllers.audit import Auditor
    from forewarn.webhook.metrics import Metrics

CERTIFICATE_SECONDS: Final = 10.0
"""The interval between two checks of the certificate."""
DISTRUST_SECONDS: Final = 30.0
"""Seconds after which a replica that API servers trusted is not ready: the CA injector restores caBundle in 5 s."""
_PENDING_SECONDS: Final = 1.0
_CERTIFICATE: Final = "certificate"


class ReplicaControllers:
    """Runs background tasks that are due, on its own thread.

    `auditor`: None without the audit. `from_files`: the certificate is not in forewarn's Secret.
    """

    def __init__(
        self,
        api: ObjectApi,
        installation: Installation,
        metrics: Metrics,
        contexts: SwappingContext,
        cluster: Callable[[], ClusterSnapshot | None],
        clock: Callable[[], float] = monotonic,
        auditor: Auditor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        from_files: bool = False,
    ) -> None:
        self._cluster, self._auditor, self._contexts, self._now, self._clock = cluster, auditor, contexts, now, clock
        self._tasks = Tasks(metrics, clock)
        self._registration = Registration(api)
        self._serving = None if from_files else ServingCertificate(api, installation.serving, contexts, metrics)
        contexts.rejection = lambda certificate: self._registration.rejection(certificate, self._now())
        self._defaults = GlobalDefaults(metrics)
        self.reservations = Reserver(api, installation.default, metrics, clock)
        self._trusted: float | None = None
        self._why = "not checked yet"
        self._stop = Event()

    def fault(self) -> str:
        """Return why the replica is not ready: API servers do not trust its certificate."""
        if self._trusted is None:
            why = self._tasks.faults.get(_CERTIFICATE, self._why)
        elif self._why and self._clock() - self._trusted >= DISTRUST_SECONDS:
            why = self._why
        else:
            why = validity_of(self._contexts.certificate.chain).fault(self._now())
        return distrust(why)

    def grants(self) -> Mapping[str, Grant]:
        """Return token -> scope from the last read of the webhook configurations; empty if there are no tokens."""
        return self._registration.grants if self._serving else {}

    def read_again(self) -> None:
        """Read the webhook configurations now, because of a caller without a known token. Raises ObjectApiError."""
        self._registration.reconcile()

    def start(self) -> Callable[[], None]:
        """Start the thread; returns a function that stops it."""
        thread = start_loop("upkeep", self._run, self._stop)
        end_auditing = self._auditor.start() if self._auditor else None

        def end() -> None:
            self._stop.set()
            if end_auditing:
                end_auditing()
            self.reservations.wake.set()
            thread.join(2 * RECONCILE_SECONDS)

        return end

    def reconcile(self) -> None:
        """Run all tasks that are due. Raises nothing."""
        self._tasks.attempt(_CERTIFICATE, 0 if self._why else CERTIFICATE_SECONDS, self._certificate)
        self._tasks.attempt("global default reservation", 0, self.reservations.reconcile)
        self._tasks.attempt("count global defaults", RECONCILE_SECONDS, self._count_defaults)
        if self._auditor:
            self._tasks.attempt("audit leader election", RENEWAL_SECONDS, self._auditor.elect)

    def _run(self) -> None:
        wake = self.reservations.wake
        while not self._stop.is_set():
            wake.clear()
            self.reconcile()
            wake.wait(_PENDING_SECONDS if self.reservations.pending or self._why else RECONCILE_SECONDS)

    def _certificate(self) -> None:
        """Serve the certificate that the CA injector has issued, and check whether API servers trust the served one."""
        served = self._serving.read() if self._serving else None
        try:
            self._registration.reconcile()
        except Forbidden:
            if self._serving:
                raise  # with files, the permission is optional
        finally:
            if self._serving and served:
                self._serving.use(served)
        if self._serving and not self._serving.served.certificate:
            self._why = "the Secret forewarn-serving-cert is empty; wait for forewarn-ca-injector to fill it"
            return
        self._why = self._contexts.rejection(self._contexts.certificate)
        if not self._why:
            self._trusted = self._clock()

    def _count_defaults(self) -> None:
        cluster = self._cluster()
        if cluster is not None:
            self._defaults.reconcile(cluster.priority_classes)
