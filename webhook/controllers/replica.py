"""The background tasks of a serving replica in a cluster: its certificate, the global default, the audit."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.webhook.controllers.global_default.monitor import GlobalDefaults
from forewarn.webhook.controllers.global_default.reservation import RECONCILE_SECONDS, Reserver
from forewarn.webhook.controllers.leader import RENEWAL_SECONDS
from forewarn.webhook.controllers.registration import Registration
from forewarn.webhook.controllers.serving_certificate import ServingCertificate
from forewarn.webhook.controllers.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.webhook.admission.callers import Grant
    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.controllers.audit.auditor import Auditor
    from forewarn.webhook.controllers.installation import Installation
    from forewarn.webhook.http.tls import SwappingContext
    from forewarn.webhook.metrics import Metrics

CERTIFICATE_SECONDS: Final = 10.0
"""The interval between two checks of the certificate."""
_PENDING_SECONDS: Final = 1.0
_CERTIFICATE: Final = "certificate"


class ReplicaControllers:
    """Runs background tasks that are due, on its own thread.

    `contexts`: None if the certificate comes from files. `auditor`: None without the audit.
    """

    def __init__(
        self,
        api: ObjectApi,
        installation: Installation,
        metrics: Metrics,
        contexts: SwappingContext | None,
        cluster: Callable[[], ClusterSnapshot | None],
        clock: Callable[[], float] = monotonic,
        auditor: Auditor | None = None,
    ) -> None:
        self._cluster, self._auditor = cluster, auditor
        self._tasks = Tasks(metrics, clock)
        self._registration = Registration(api)
        self._serving = ServingCertificate(api, installation.serving, contexts, metrics) if contexts else None
        self._defaults = GlobalDefaults(metrics)
        self.reservations = Reserver(api, installation.default, metrics, clock)
        self._trusted = contexts is None
        self._why = "not checked yet"
        self._stop = Event()

    def fault(self) -> str:
        """Return why the replica is not ready: its certificate is not valid now, or API servers do not trust it."""
        why = self._tasks.faults.get(_CERTIFICATE, self._why)
        if not self._trusted:
            return f"API servers do not trust the certificate yet: {why}"
        untimely = self._serving.fault() if self._serving else ""
        return untimely and f"the certificate is {untimely}; wait for forewarn-ca-injector to renew it"

    def grants(self) -> Mapping[str, Grant]:
        """Return token -> scope from the last read of the webhook configurations; empty if there are no tokens."""
        return self._registration.grants

    def start(self) -> Callable[[], None]:
        """Start the thread; returns a function that stops it."""
        thread = Thread(target=self._run, name="upkeep", daemon=True)
        thread.start()
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
        if self._serving:
            seconds = 0 if self.fault() else CERTIFICATE_SECONDS
            self._tasks.attempt(_CERTIFICATE, seconds, self._certificate)
        self._tasks.attempt("global default reservation", 0, self.reservations.reconcile)
        self._tasks.attempt("count global defaults", RECONCILE_SECONDS, self._count_defaults)
        if self._auditor:
            self._tasks.attempt("audit leader election", RENEWAL_SECONDS, self._auditor.elect)

    def _run(self) -> None:
        wake = self.reservations.wake
        while not self._stop.is_set():
            wake.clear()
            self.reconcile()
            wake.wait(_PENDING_SECONDS if self.reservations.pending or self.fault() else RECONCILE_SECONDS)

    def _certificate(self) -> None:
        """Serve the certificate that the CA injector has issued, and check whether API servers trust its CA."""
        assert self._serving is not None
        self._serving.reconcile()
        served = self._serving.served.certificate
        if served is None:
            self._why = "the Secret forewarn-serving-cert is empty; wait for forewarn-ca-injector to fill it"
            return
        trusted = self._registration.reconcile()
        if self._trusted:
            return
        if trusted is None or served.ca in trusted:
            self._trusted = True
        else:
            self._why = "the webhook configurations do not contain its CA yet; wait for forewarn-ca-injector to add it"

    def _count_defaults(self) -> None:
        cluster = self._cluster()
        if cluster is not None:
            self._defaults.reconcile(cluster.priority_classes)
