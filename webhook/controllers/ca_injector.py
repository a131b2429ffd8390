"""The tasks of the CA injector: CAs, the serving certificate of the replicas, caBundle, the owner reference."""

from __future__ import annotations

import logging
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.webhook.apiserver.object_api import Forbidden
from forewarn.webhook.controllers.certificate_authority import Issuer
from forewarn.webhook.controllers.leader import RENEWAL_SECONDS, Election
from forewarn.webhook.controllers.registration import Registration
from forewarn.webhook.controllers.tasks import Tasks
from forewarn.webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.controllers.installation import Installation
    from forewarn.webhook.metrics import Metrics

CHECK_SECONDS: Final = 5.0
"""Seconds between two reads of the Secrets and webhook configurations by the elected replica.

Expiry uses the wall clock, so a resumed machine notices expired certificates immediately.
"""
OWNER_SECONDS: Final = 60.0
UPGRADE_SECONDS: Final = 300.0
"""Seconds after which no replica of an older version runs any more, except in stuck rollouts."""
_KEY_BYTES: Final = 32


class CaInjector:
    """Runs its tasks whenever they are due. `beat` is called before each task, for the liveness probe."""

    def __init__(
        self,
        api: ObjectApi,
        installation: Installation,
        metrics: Metrics,
        beat: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._beat, self._api, self._installation = beat, api, installation
        self._tasks = Tasks(metrics, clock)
        self._election = Election(api, installation.election, installation.identity, clock)
        self._registration = Registration(api)
        self._issuer = Issuer(api, installation.authorities, installation.serving, installation.names, metrics)
        self._clock, self._started = clock, clock()
        self._checked = False
        metrics.leader.set_function(lambda: float(self._election.is_leader))

    def fault(self) -> str:
        """Return the current errors of all tasks; "" without one, "not checked yet" before the first run."""
        if not self._checked:
            return "not checked yet"
        return "; ".join(f"{task}: {why}" for task, why in self._tasks.faults.items())

    def run(self, stop: Event) -> None:
        """Run the tasks until the event is set, then resign from the election."""
        while not stop.is_set():
            self.reconcile()
            stop.wait(CHECK_SECONDS)
        self._attempt("resignation", 0, self._election.resign)

    def reconcile(self) -> None:
        """Run all tasks that are due. Raises nothing."""
        self._attempt("leader election", RENEWAL_SECONDS, self._elect)
        if self._election.is_leader:
            self._attempt("certificates", 0, self._certificates)
            self._attempt("owner", OWNER_SECONDS, self._own)
        self._checked = True

    def _attempt(self, task: str, seconds: float, run: Callable[[], object]) -> None:
        self._beat()
        self._tasks.attempt(task, seconds, run)

    def _elect(self) -> None:
        before = self._election.is_leader
        if self._election.reconcile() is not before:
            log_event("leader election", {"leader": not before})

    def _own(self) -> None:
        """Make the namespace the owner of the webhook configurations, so that the garbage collector deletes them with
        the namespace.
        """
        namespace = self._api.get(self._installation.path)
        try:
            self._registration.own(namespace)
        except Forbidden as error:  # by the plugin OwnerReferencesPermissionEnforcement, which wants more rights
            log_event("cannot set the owner of the webhook configurations", {"reason": str(error)}, logging.WARNING)

    def _token_key(self, *, is_new: bool) -> str:
        """Return the key from which tokens for API servers are derived; "" if replicas of an older version may still
        run.

        An older version does not support paths with tokens, so forewarn waits until the upgrade is complete.
        `is_new`: no webhook configuration contains a CA yet.
        """
        if key := self._issuer.token_key or self._issuer.stored_key():
            return key
        if is_new or self._clock() - self._started >= UPGRADE_SECONDS:
            return token_hex(_KEY_BYTES)
        return ""

    def _certificates(self) -> None:
        """Write CAs into the webhook configurations, create or renew CAs, and issue a certificate once all
        configurations trust its CA.
        """
        announced = self._registration.reconcile() or frozenset()
        self._issuer.reconcile(announced)
        authorities = self._issuer.authorities
        if authorities.current is None:
            return
        key = self._token_key(is_new=not announced)
        trusted = self._registration.reconcile(authorities.bundle(), key)
        if trusted is None or authorities.current.certificate in trusted:
            self._issuer.issue(key)
