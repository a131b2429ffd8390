"""The two webhook configurations: the CAs that API servers trust for the webhook, and the tokens in the paths.

Each webhook has its own token, because an API server shows the path of a webhook with failurePolicy Fail to requesters.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import product
from threading import Event, Lock
from typing import Any, Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at, text_at
from forewarn.webhook.admission.review import EVERYTHING, Grant
from forewarn.webhook.apiserver.typed_client import Conflict, NotFound, ObjectApi, ObjectApiError
from forewarn.webhook.controllers.leases import lease_path
from forewarn.webhook.health import start_loop
from forewarn.webhook.logs import log_event
from forewarn.webhook.x509 import NAMES, Caller, Certificate, NoCertificate, certificates_in, rejections, validity_of


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
        return tuple(dict.fromkeys((*NAMES, service, f"{service}.cluster.local")))


NAME: Final = "forewarn"
_PATHS: Final = ("/mutate", "/validate")
_TOKEN: Final = re.compile("/[0-9a-f]{64}$")
_ENDED_SECONDS, _FAILED_SECONDS = 1.0, 10.0
"""Seconds until the next watch, after the API server has ended one, and after a failure."""
_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses", "")
PATHS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
)


class Registration:
    """Reads both webhook configurations, and writes CAs, paths and the owner into them. Thread-safe."""

    def __init__(self, api: ObjectApi) -> None:
        self._api, self._lock = api, Lock()
        self.grants: Mapping[str, Grant] = {}
        """Token -> what it is good for, as it was seen last; empty unless every webhook has a token."""
        self._callers: frozenset[Caller] = frozenset()

    def reconcile(self, bundle: bytes | None = None, key: str = "") -> frozenset[bytes] | None:
        """Write the CAs and paths if necessary, and return the CAs that every webhook of every configuration trusts.

        `bundle`: the CAs to write; None writes nothing. `key`: derives the token at the end of each path. Returns
        None if there is no configuration. Raises ObjectApiError.
        """
        with self._lock:  # an earlier read must not replace a later one
            webhooks = list(self._webhooks(bundle, key))
            self.grants, self._callers = grants_of(webhooks), frozenset(map(_caller, webhooks))
        return frozenset.intersection(*map(_trusted, webhooks)) if webhooks else None

    def rejection(self, certificate: Certificate, now: datetime) -> str:
        """Return why API servers reject a certificate, by the configurations as they were seen last; "" if none does.

        A certificate from files may be for a proxy's backend, or signed by a CA that the system trusts: then a URL or
        an empty caBundle proves nothing.
        """
        try:
            why = validity_of(certificate.chain).fault(now)
            for caller in self._callers if not why else ():
                if certificate.ca and not caller.bundle:
                    return "the webhook configurations do not contain its CA"
                if certificate.ca or caller.name:
                    why = why or next(rejections(certificate.chain, caller, now), "")
        except NoCertificate as error:
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

    `key`: derives the token; "" leaves the path. `own`: the path of a webhook without one.
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
    """Return token -> requests that forewarn answers with it; empty unless every webhook has a token."""
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


def _caller(webhook: ApiObject) -> Caller:
    name, namespace = (at(webhook, "clientConfig", "service", key) for key in ("name", "namespace"))
    return Caller(f"{name}.{namespace}.svc" if name and namespace else "", _bundle(webhook))


def _trusted(webhook: ApiObject) -> frozenset[bytes]:
    with suppress(NoCertificate):
        return frozenset(certificates_in(_bundle(webhook)))
    return frozenset()


def _bundle(webhook: ApiObject) -> bytes:
    with suppress(ValueError):
        return base64.b64decode(at(webhook, "clientConfig", "caBundle") or "")
    return b""
