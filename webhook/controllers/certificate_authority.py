"""forewarn's own certificate authority: CAs in a Secret that only the CA injector reads, and the serving certificate
in another Secret for the replicas.

The webhook configurations contain a CA before the CA signs, and until it expires, so every API server trusts the
certificate of every replica. The order of a CA: successor (announced), current (signs), retired (trusted).

Each webhook has its own token in its path, because an API server shows the path of a webhook with failurePolicy Fail to
requesters.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from queue import Empty, SimpleQueue
from secrets import token_hex
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at, text_at
from forewarn.webhook import x509
from forewarn.webhook.admission.review import EVERYTHING, Grant
from forewarn.webhook.apiserver.typed_client import Conflict, Forbidden, NotFound, ObjectApi, ObjectApiError
from forewarn.webhook.controllers.leases import RENEWAL_SECONDS, Election, Tasks, lease_path
from forewarn.webhook.controllers.serving_certificate import BadSecret, Served, bad, decoded, token_key_of
from forewarn.webhook.health import start_loop
from forewarn.webhook.logs import log_event

if TYPE_CHECKING:
    from forewarn.webhook.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Installation:
    """The namespace of forewarn, and the name of this process among the replicas."""

    namespace: str
    identity: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def authorities(self) -> str:
        """API path of the Secret with the CAs and their keys; only the CA injector reads it."""
        return f"{self.path}/secrets/forewarn-ca"

    @property
    def serving(self) -> str:
        return f"{self.path}/secrets/forewarn-serving-cert"

    @property
    def election(self) -> str:
        return lease_path(self.namespace, "forewarn-ca-injector")

    @property
    def default(self) -> str:
        return lease_path(self.namespace, "forewarn-global-default")

    @property
    def audit(self) -> str:
        """API path of the Lease that elects the replica that runs the audit."""
        return lease_path(self.namespace, "forewarn-audit")

    @property
    def names(self) -> tuple[str, ...]:
        """The subject names of the certificate."""
        service = f"forewarn.{self.namespace}.svc"
        return tuple(dict.fromkeys((*x509.NAMES, service, f"{service}.cluster.local")))


NAME: Final = "forewarn"
_PATHS: Final = ("/mutate", "/validate")
_TOKEN: Final = re.compile("/[0-9a-f]{64}$")
_ENDED_SECONDS, _FAILED_SECONDS = 1.0, 10.0
"""Seconds until the next watch after the API server has ended one, and after one has failed."""
_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses", "")
PATHS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
)


class Registration:
    """Reads both webhook configurations, and writes CAs, paths and the owner into them. Thread-safe."""

    def __init__(self, api: ObjectApi) -> None:
        self._api, self._lock = api, Lock()
        self.grants: Mapping[str, Grant] = {}
        """Token -> the requests that it permits, from the last read; empty unless every webhook has a token."""
        self._callers: frozenset[x509.Caller] = frozenset()

    def reconcile(self, bundle: bytes | None = None, key: str = "") -> frozenset[bytes] | None:
        """Write the CAs and paths if necessary, and return the CAs that every webhook of every configuration trusts.

        `bundle`: the CAs to write; None writes nothing. `key`: derives the token at the end of each path. Returns
        None if there is no configuration. Raises ObjectApiError.
        """
        with self._lock:  # an earlier read must not replace a later one
            webhooks = list(self._webhooks(bundle, key))
            self.grants, self._callers = grants_of(webhooks), frozenset(map(_caller, webhooks))
        return frozenset.intersection(*map(_trusted, webhooks)) if webhooks else None

    def rejection(self, certificate: x509.Certificate, now: datetime) -> str:
        """Return why API servers reject a certificate, by the configurations of the last read; "" if none does.

        A certificate from files may be for a proxy's backend, or signed by a CA that the system trusts. Then a URL or
        an empty caBundle proves nothing.
        """
        try:
            why = x509.validity_of(certificate.chain).fault(now)
            for caller in self._callers if not why else ():
                if certificate.ca and not caller.bundle:
                    return "the webhook configurations do not contain its CA"
                if certificate.ca or caller.name:
                    why = why or next(x509.rejections(certificate.chain, caller, now), "")
        except x509.NoCertificate as error:
            return str(error)
        return why

    def own(self, namespace: ApiObject) -> None:
        """Make the namespace the owner of both configurations, so that both are deleted with the namespace. Raises
        ObjectApiError.

        The garbage collector deletes an object whose owner has another uid, so a namespace without uid is no owner.
        """
        uid, name = (text_at(namespace, "metadata", key) for key in ("uid", "name"))
        if not uid:
            return
        owner = {"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid}
        for path in PATHS:
            with suppress(NotFound, Conflict):  # deleted on purpose, or just changed: the next run retries
                configuration = self._api.get(path)
                metadata = configuration.get("metadata") or {}
                given = metadata.get("ownerReferences") or []
                others = [other for other in given if (other.get("kind"), other.get("name")) != ("Namespace", name)]
                if owner not in given:
                    metadata = {**metadata, "ownerReferences": [*others, owner]}
                    self._api.replace(path, {**configuration, "metadata": metadata})

    def _webhooks(self, bundle: bytes | None, key: str) -> Iterator[ApiObject]:
        for path, own in zip(PATHS, _PATHS, strict=True):
            try:
                configuration = self._api.get(path)
                if bundle is not None:
                    configuration = self._written(path, configuration, bundle, key, own)
            except NotFound:
                continue  # deleted on purpose: no API server calls it
            yield from configuration.get("webhooks") or ()

    def _written(self, path: str, configuration: dict[str, Any], bundle: bytes, key: str, own: str) -> dict[str, Any]:
        text = base64.b64encode(bundle).decode()
        webhooks = configuration.get("webhooks") or []
        changed = [_called(webhook, text, key, own) for webhook in webhooks]
        if changed == webhooks:
            return configuration
        try:
            written = self._api.replace(path, {**configuration, "webhooks": changed})
        except Conflict:
            return configuration  # another writer has changed it: the next run reads it again
        log_event("webhook configuration updated", {"configuration": path.rpartition("/v1/")[2]})
        return written


def watch(api: ObjectApi, changed: Callable[[], object], stop: Event) -> None:
    """Call `changed` after each change of a webhook configuration, on threads that end some time after `stop`."""
    for path in PATHS:
        start_loop("configuration watch", partial(_watch, api, path, changed, stop), stop)


def _watch(api: ObjectApi, path: str, changed: Callable[[], object], stop: Event) -> None:
    reported = ""
    while not stop.is_set():
        try:
            for _ in api.watch(path):
                changed()
            why = ""
        except ObjectApiError as error:
            why = str(error)
        if why and why != reported:
            log_event("cannot watch a webhook configuration", {"reason": why}, logging.WARNING)
        reported = why
        stop.wait(_FAILED_SECONDS if why else _ENDED_SECONDS)


def _called(webhook: ApiObject, bundle: str, key: str, own: str) -> dict[str, Any]:
    """Return the webhook with the CAs, and with a token in its path.

    `key`: derives the token; "" leaves the path unchanged. `own`: the path of a webhook without one.
    """
    client = {**(webhook.get("clientConfig") or {}), "caBundle": bundle}
    service = client.get("service")
    path = _TOKEN.sub("", at(webhook, "clientConfig", "service", "path") or own)
    if service and path in _PATHS:
        written = f"{path}/{token_of(key, path, str(webhook.get('name')))}" if key else service.get("path") or path
        client["service"] = {**service, "path": written}
    return {**webhook, "clientConfig": client}


def token_of(key: str, path: str, webhook: str) -> str:
    """Return the token for a webhook's path and name. It discloses neither the key nor other tokens."""
    return hmac.new(key.encode(), f"{path}/{webhook}".encode(), "sha256").hexdigest()


def grants_of(webhooks: Iterable[ApiObject]) -> Mapping[str, Grant]:
    """Return token -> the requests that forewarn answers with it; empty unless every webhook has a token."""
    pairs = [(_token(webhook), _grant(webhook)) for webhook in webhooks]
    return dict(pairs) if all(token for token, _ in pairs) else {}


def _token(webhook: ApiObject) -> str:
    """Return the token in a webhook's path; "" without one."""
    base, _, token = str(at(webhook, "clientConfig", "service", "path") or "").rpartition("/")
    return token if base in _PATHS else ""


def _grant(webhook: ApiObject) -> Grant:
    """Return the requests for which forewarn answers with the token of this webhook.

    With failurePolicy Fail, the token is limited to the webhook's rules, because an API server includes the URL of such
    a webhook in errors to the requester (apiserver pkg/admission/plugin/webhook/validating/dispatcher.go).
    """
    if webhook.get("failurePolicy") == "Ignore":
        return EVERYTHING
    resources: set[tuple[str, str, str]] = set()
    for rule in webhook.get("rules") or ():
        for group, name in product(*(rule.get(field) or () for field in ("apiGroups", "resources"))):
            resource, _, subresource = str(name).partition("/")
            resources.add((str(group), resource, subresource))
    return Grant(frozenset(resources), resources != {_CLASSES})


def _caller(webhook: ApiObject) -> x509.Caller:
    name, namespace = (at(webhook, "clientConfig", "service", key) for key in ("name", "namespace"))
    return x509.Caller(f"{name}.{namespace}.svc" if name and namespace else "", _bundle(webhook))


def _trusted(webhook: ApiObject) -> frozenset[bytes]:
    with suppress(x509.NoCertificate):
        return frozenset(x509.certificates_in(_bundle(webhook)))
    return frozenset()


def _bundle(webhook: ApiObject) -> bytes:
    with suppress(ValueError):
        return base64.b64decode(at(webhook, "clientConfig", "caBundle") or "")
    return b""


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

    `announced_at`: the time since which all webhook configurations contain the successor.
    """

    current: x509.Authority | None = None
    successor: x509.Authority | None = None
    retired: tuple[bytes, ...] = ()
    announced_at: datetime | None = None

    @classmethod
    def from_secret(cls, secret: ApiObject) -> CertificateAuthorities:
        """Parse the Secret of the certificate authorities. Raises BadSecret."""
        data = at(secret, "data") or {}
        try:
            retired = tuple(x509.certificates_in(decoded(data, "former.crt")))
        except x509.NoCertificate as error:
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
        retired = tuple(pem for pem in self.retired if x509.validity_of(pem).not_after > now)
        current, successor = self.current, self.successor
        if successor and successor.validity.fault(now):
            successor = None
        if current is None or current.validity.fault(now):
            if current and now < current.validity.not_before:  # valid for API servers with correct clocks
                retired = (current.certificate, *retired)
            return CertificateAuthorities(successor or x509.Authority.make(now), None, retired)
        if successor is None:
            due = now >= current.validity.part(RENEWED_AT)
            return CertificateAuthorities(current, x509.Authority.make(now) if due else None, retired)
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
        """The key that is stored beside the certificate, from the last read."""
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
                return  # another writer was faster; the next run reads the result
            log_event("CAs updated", {"certificates": len(wanted.certificates)})
        self.authorities = wanted

    def observe(self) -> None:
        """Read the token key, and the CA of the certificate that replicas may serve. Raises ObjectApiError, BadSecret.

        This CA may differ from those in the Secret of the CAs if that Secret was emptied or restored.
        """
        secret = self._api.get(self._leaf)
        self.token_key = self.token_key or token_key_of(secret)
        with suppress(BadSecret, x509.NoCertificate):
            for ca in x509.certificates_in(decoded(at(secret, "data") or {}, "ca.crt")):
                self._served[ca] = self._now()

    def bundle(self) -> bytes:
        """Return the CAs that API servers must trust, in PEM, including those of certificates that replicas may still
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

    def _is_due(self, certificate: x509.Certificate, current: x509.Authority, now: datetime) -> bool:
        """Report whether a new certificate is due, because the certificate is old, or API servers reject it."""
        chain = certificate.chain
        is_other = certificate.ca != current.certificate or not {*self._names} <= {*x509.names_of(chain)}
        rejected = any(x509.rejections(chain, x509.Caller("", current.certificate), now))
        return is_other or rejected or now >= x509.validity_of(chain).part(RENEWED_AT)

    def _expiry(self) -> float:
        current = self.authorities.current
        return current.validity.not_after.timestamp() if current else 0.0


def _authority(data: Mapping[str, str], name: str) -> x509.Authority | None:
    certificate, key = decoded(data, f"{name}.crt"), decoded(data, f"{name}.key")
    if not certificate and not key:
        return None
    try:
        return x509.Authority.read(certificate, key)
    except x509.NoCertificate as error:
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
"""Seconds between two reads of the Secrets and webhook configurations by the elected replica, if no configuration
changes.

Expiry uses the wall clock, so a resumed machine notices expired certificates immediately.
"""
_GATHER_SECONDS: Final = 0.1
"""Seconds to collect changes: an installer applies both configurations together."""
MAX_REACTIONS: Final = 120
"""Maximum number of immediate reactions to changes in a minute: another program may revert each write of forewarn."""
_MINUTE: Final = 60.0
OWNER_SECONDS: Final = 60.0
UPGRADE_SECONDS: Final = 300.0
"""Seconds after which no replica of an older version runs, except in stuck rollouts."""
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
        """End `run` soon. Signal handlers may call this."""
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
        """Write CAs into webhook configurations, renew CAs, and issue a certificate once all contain its CA."""
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
