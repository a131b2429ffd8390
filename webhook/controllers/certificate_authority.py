"""forewarn's own certificate authority: CAs in a Secret that only the CA injector reads, and the serving certificate
in another Secret for the replicas.

The webhook configurations contain a CA before the CA signs, and until it expires, so every API server trusts the
certificate of every replica. The order of a CA: successor (announced), current (signs), retired (trusted).
"""

from __future__ import annotations

import base64
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from secrets import token_hex
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.webhook.apiserver.typed_client import Conflict, Forbidden, ObjectApi
from forewarn.webhook.controllers.leases import RENEWAL_SECONDS, Election, Tasks
from forewarn.webhook.controllers.registration import Installation, Registration, watch
from forewarn.webhook.controllers.serving_certificate import BadSecret, Served, bad, decoded, token_key_of
from forewarn.webhook.logs import log_event
from forewarn.webhook.x509 import Authority, Caller, NoCertificate, certificates_in, names_of, rejections, validity_of

if TYPE_CHECKING:
    from forewarn.webhook.metrics import Metrics
    from forewarn.webhook.x509 import Certificate


RENEWED_AT: Final = 2 / 3
"""The share of its lifetime after which a certificate or CA is replaced."""
LEAF_LIFE: Final = timedelta(days=7)
"""Lifetime of a serving certificate. It is renewed after two thirds, so signing may fail for two days."""
ANNOUNCED_FOR: Final = timedelta(hours=1)
"""Time between the announcement of a CA in the webhook configurations and its first signature."""
HANDOVER: Final = timedelta(minutes=1)
"""Time for which API servers trust the CA of a replaced certificate. Replicas serve the new one after ten seconds."""


@dataclass(frozen=True, slots=True)
class CertificateAuthorities:
    """The CAs in the Secret; empty in the manifests. `retired`: certificates in PEM, newest first.

    `announced_at`: the time since when all webhook configurations contain the successor.
    """

    current: Authority | None = None
    successor: Authority | None = None
    retired: tuple[bytes, ...] = ()
    announced_at: datetime | None = None

    @classmethod
    def from_secret(cls, secret: ApiObject) -> CertificateAuthorities:
        """Parse the Secret of the certificate authorities. Raises BadSecret."""
        data = at(secret, "data") or {}
        try:
            retired = tuple(certificates_in(decoded(data, "former.crt")))
        except NoCertificate as error:
            raise bad("former.crt", error) from None
        return cls(_authority(data, "tls"), _authority(data, "next"), retired, _moment(data, "next.announced"))

    def to_data(self) -> dict[str, str]:
        """Return the Secret's `data`."""
        texts = {"former.crt": b"".join(self.retired)}
        for name, authority in (("tls", self.current), ("next", self.successor)):
            if authority:
                texts |= {f"{name}.crt": authority.certificate, f"{name}.key": authority.key}
        if self.announced_at:
            texts["next.announced"] = self.announced_at.isoformat().encode()
        return {key: base64.b64encode(text).decode() for key, text in texts.items() if text}

    @property
    def certificates(self) -> list[bytes]:
        """The certificates of all CAs, in PEM."""
        return [*(authority.certificate for authority in (self.current, self.successor) if authority), *self.retired]

    def advanced(self, now: datetime, announced: Collection[bytes]) -> CertificateAuthorities:
        """Return the CAs that the Secret should contain. `announced`: those in every webhook configuration."""
        retired = tuple(pem for pem in self.retired if validity_of(pem).not_after > now)
        current, successor = self.current, self.successor
        if successor and successor.validity.fault(now):
            successor = None
        if current is None or current.validity.fault(now):
            if current and now < current.validity.not_before:  # valid for API servers with correct clocks
                retired = (current.certificate, *retired)
            return CertificateAuthorities(successor or Authority.make(now), None, retired)
        if successor is None:
            due = now >= current.validity.part(RENEWED_AT)
            return CertificateAuthorities(current, Authority.make(now) if due else None, retired)
        if successor.certificate not in announced:
            return CertificateAuthorities(current, successor, retired)
        since = min(self.announced_at or now, now)
        if now - since >= ANNOUNCED_FOR:
            return CertificateAuthorities(successor, None, (current.certificate, *retired))
        return CertificateAuthorities(current, successor, retired, since)


class Issuer:
    """Maintains the CAs in one Secret, and a certificate signed by the current CA in another. Not thread-safe.

    `cas`, `leaf`: API paths of the two Secrets.
    """

    def __init__(
        self,
        api: ObjectApi,
        cas: str,
        leaf: str,
        names: Sequence[str],
        metrics: Metrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._cas, self._leaf, self._names, self._now = api, cas, leaf, tuple(names), now
        self.authorities = CertificateAuthorities()
        self.token_key = ""
        """The key that is kept beside the certificate, as it was seen last."""
        self._served: dict[bytes, datetime] = {}
        """CA of a serving certificate -> when the certificate was last seen in the Secret."""
        metrics.ca_expiry.set_function(self._expiry)

    def reconcile(self, announced: Collection[bytes] = ()) -> None:
        """Read the CAs from the Secret, and write the Secret if CAs must change. Raises ObjectApiError, BadSecret."""
        secret = self._api.get(self._cas)
        try:
            bundles = wanted = CertificateAuthorities.from_secret(secret)
        except BadSecret:
            if not self.authorities.current:
                raise
            bundles = wanted = CertificateAuthorities()
        if bundles.current is None and self.authorities.current:
            wanted = self.authorities  # the Secret was emptied or is invalid: write back the known CAs
        else:
            wanted = bundles.advanced(self._now(), announced)
        if wanted != bundles:
            try:
                self._api.replace(self._cas, {**secret, "data": wanted.to_data()})
            except Conflict:
                return  # another writer was faster; the next run reads what it wrote
            log_event("CAs updated", {"certificates": len(wanted.certificates)})
        self.authorities = wanted

    def observe(self) -> None:
        """Read the token key, and the CA of the certificate that replicas may serve. Raises ObjectApiError, BadSecret.

        The CA may be another one than in the Secret of the CAs, if that was emptied or restored.
        """
        secret = self._api.get(self._leaf)
        self.token_key = self.token_key or token_key_of(secret)
        with suppress(BadSecret, NoCertificate):
            for ca in certificates_in(decoded(at(secret, "data") or {}, "ca.crt")):
                self._served[ca] = self._now()

    def bundle(self) -> bytes:
        """Return the CAs that API servers must trust, in PEM: also those of certificates that replicas may still
        serve.
        """
        now = self._now()
        self._served = {ca: seen for ca, seen in self._served.items() if abs(now - seen) < HANDOVER}
        return b"".join(dict.fromkeys((*self.authorities.certificates, *self._served)))

    def issue(self, token_key: str = "") -> None:
        """Sign a new certificate if due, and store it with the token key. Raises ObjectApiError."""
        current, now = self.authorities.current, self._now()
        if current is None:
            return
        secret = self._api.get(self._leaf)
        try:
            existing = Served.from_secret(secret)
        except BadSecret as fault:
            log_event("serving certificate replaced", {"reason": str(fault)}, logging.WARNING)
            existing = Served(token_key=token_key_of(secret))
        certificate, self.token_key = existing.certificate, token_key or existing.token_key
        if certificate is None or self._is_due(certificate, current, now):
            certificate = current.sign(now, self._names, LEAF_LIFE)
        issued = Served(certificate, self.token_key)
        if issued == existing:
            return
        try:
            self._api.replace(self._leaf, {**secret, "data": issued.to_data()})
        except Conflict:
            return
        log_event("serving certificate issued", {"not_after": certificate.not_after.isoformat()})

    def _is_due(self, certificate: Certificate, current: Authority, now: datetime) -> bool:
        """Report whether a new certificate is due, because the certificate is old, or API servers reject it."""
        chain = certificate.chain
        is_other = certificate.ca != current.certificate or not {*self._names} <= {*names_of(chain)}
        rejected = any(rejections(chain, Caller("", current.certificate), now))
        return is_other or rejected or now >= validity_of(chain).part(RENEWED_AT)

    def _expiry(self) -> float:
        current = self.authorities.current
        return current.validity.not_after.timestamp() if current else 0.0


def _authority(data: Mapping[str, str], name: str) -> Authority | None:
    certificate, key = decoded(data, f"{name}.crt"), decoded(data, f"{name}.key")
    if not certificate and not key:
        return None
    try:
        return Authority.read(certificate, key)
    except NoCertificate as error:
        raise bad(f"{name}.crt and {name}.key", error) from None


def _moment(data: Mapping[str, str], key: str) -> datetime | None:
    text = decoded(data, key).decode("utf-8", "replace")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        raise bad(key, f'"{text[:80]}" is not a date with time and time zone')
    return moment


CHECK_SECONDS: Final = 5.0
"""Seconds between two reads of the Secrets and webhook configurations by the elected replica, without a change of a
configuration.

Expiry uses the wall clock, so a resumed machine notices expired certificates immediately.
"""
_GATHER_SECONDS: Final = 0.1
"""Time to collect changes: an installer applies both configurations at once."""
MAX_REACTIONS: Final = 120
"""Maximum immediate reactions to changes in a minute: another program may revert each write of forewarn."""
_MINUTE: Final = 60.0
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
        self._stop = Event()
        self._changes = SimpleQueue[None]()
        """An entry for each change of a webhook configuration."""
        metrics.leader.set_function(lambda: float(self._election.is_leader))

    def fault(self) -> str:
        """Return the current errors of all tasks; "" without one, "not checked yet" before the first run."""
        if not self._checked:
            return "not checked yet"
        return "; ".join(f"{task}: {why}" for task, why in self._tasks.faults.items())

    def run(self) -> None:
        """Run the tasks until `stop` is called, then resign from the election."""
        watch(self._api, partial(self._changes.put, None), self._stop)
        reactions = deque[float](maxlen=MAX_REACTIONS)
        while not self._stop.is_set():
            self.reconcile()
            with suppress(Empty):
                self._changes.get(timeout=CHECK_SECONDS)
                now = self._clock()
                are_many = len(reactions) == MAX_REACTIONS and now - reactions[0] < _MINUTE
                reactions.append(now)
                self._stop.wait(CHECK_SECONDS if are_many else _GATHER_SECONDS)
                while True:
                    self._changes.get_nowait()
        self._attempt("resignation", 0, self._election.resign)

    def stop(self) -> None:
        """End `run` soon. For signal handlers, too."""
        self._stop.set()
        self._changes.put(None)

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
        """Make the namespace own the webhook configurations, so that the garbage collector deletes them with it."""
        namespace = self._api.get(self._installation.path)
        try:
            self._registration.own(namespace)
        except Forbidden as error:  # the plugin OwnerReferencesPermissionEnforcement requires more permissions
            log_event("cannot set the owner of the webhook configurations", {"reason": str(error)}, logging.WARNING)

    def _token_key(self, *, is_new: bool) -> str:
        """Return the key from which tokens for API servers are derived; "" if replicas of an older version may still
        run.

        An older version does not support paths with tokens, so forewarn waits until the upgrade is complete.
        `is_new`: no webhook configuration contains a CA yet.
        """
        if self._issuer.token_key:
            return self._issuer.token_key
        if is_new or self._clock() - self._started >= UPGRADE_SECONDS:
            return token_hex(_KEY_BYTES)
        return ""

    def _certificates(self) -> None:
        """Write CAs into webhook configurations, renew CAs, and issue a certificate once all trust its CA."""
        announced = self._registration.reconcile() or frozenset()
        self._issuer.reconcile(announced)
        authorities = self._issuer.authorities
        if authorities.current is None:
            return
        self._issuer.observe()
        key = self._token_key(is_new=not announced)
        trusted = self._registration.reconcile(self._issuer.bundle(), key)
        if trusted is None or authorities.current.certificate in trusted:
            self._issuer.issue(key)
