"""The two webhook configurations: which CAs API servers trust when they call the webhook."""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from policies.objects.fields import at
from webhook.apiserver.object_api import Conflict, NotFound
from webhook.logs import log_event
from webhook.x509 import NoCertificate, certificates_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.fields import ApiObject
    from webhook.apiserver.object_api import ObjectApi

NAME: Final = "forewarn"
_PATHS: Final = ("/mutate", "/validate")
PATHS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
)


class Registration:
    """Reads both configurations, and writes the CAs and the owner into them. One thread calls it."""

    def __init__(self, api: ObjectApi, paths: tuple[str, ...] = PATHS) -> None:
        self._api, self._paths = api, paths
        self.tokens: tuple[str, ...] = ()
        """What API servers are told to bring, as it was seen last; nothing unless all webhooks tell the same."""

    def reconcile(self, bundle: bytes | None = None, token: str = "") -> frozenset[bytes] | None:
        """The CAs that every webhook of every configuration trusts; None where there is no configuration.

        With a bundle, it is written first wherever something else stands, and so is the path where there is none, and
        `token`, if it is not empty, as the last part of each path that has none. Raises ApiError.
        """
        seen: list[str] = []
        found = list(self._bundles(bundle, token, seen))
        self.tokens = tuple({*seen}) if len({*seen}) == 1 and seen[0] else ()
        return frozenset.intersection(*found) if found else None

    def own(self, namespace: ApiObject) -> None:
        """Make the namespace the owner of both configurations, so that they are taken away with it. Raises ApiError."""
        uid, name = (at(namespace, "metadata", key) for key in ("uid", "name"))
        owner = {"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid}
        for path in self._paths:
            with suppress(NotFound, Conflict):  # taken away on purpose; or changed by somebody: the next look comes
                self._owned(path, owner)

    def _owned(self, path: str, owner: dict[str, str]) -> None:
        configuration = self._api.get(path)
        metadata = configuration.get("metadata") or {}
        given = metadata.get("ownerReferences") or []
        if owner in given:
            return
        others = [other for other in given if (other.get("kind"), other.get("name")) != (owner["kind"], owner["name"])]
        self._api.replace(path, {**configuration, "metadata": {**metadata, "ownerReferences": [*others, owner]}})

    def _bundles(self, bundle: bytes | None, token: str, seen: list[str]) -> Iterator[frozenset[bytes]]:
        for path in self._paths:
            try:
                configuration = self._api.get(path)
                if bundle is not None:
                    configuration = self._written(path, configuration, bundle, token)
            except NotFound:
                continue  # taken away on purpose: then nobody calls
            for webhook in configuration.get("webhooks") or ():
                seen.append(_token(webhook))
                yield _trusted(webhook)

    def _written(self, path: str, configuration: dict[str, Any], bundle: bytes, token: str) -> dict[str, Any]:
        text = base64.b64encode(bundle).decode()
        webhooks = configuration.get("webhooks") or []
        own = _PATHS[PATHS.index(path)] if path in PATHS else ""
        changed = [_called(webhook, text, token, own) for webhook in webhooks]
        if changed == webhooks:
            return configuration
        try:
            written = self._api.replace(path, {**configuration, "webhooks": changed})
        except Conflict:
            return configuration  # somebody else has changed it: the next look sees what is there now
        log_event("registration", {"configuration": path.rpartition("/v1/")[2]})
        return written


def _called(webhook: ApiObject, bundle: str, token: str, own: str) -> dict[str, Any]:
    """The webhook as it should be called; `own` is the path of one that names none."""
    client = {**(webhook.get("clientConfig") or {}), "caBundle": bundle}
    service = client.get("service")
    path = at(webhook, "clientConfig", "service", "path") or own
    if service and path in _PATHS:
        client["service"] = {**service, "path": f"{path}/{token}" if token else path}
    return {**webhook, "clientConfig": client}


def _token(webhook: ApiObject) -> str:
    """The last part of its path, where that has two."""
    base, _, token = str(at(webhook, "clientConfig", "service", "path") or "").rpartition("/")
    return token if base in _PATHS else ""


def _trusted(webhook: ApiObject) -> frozenset[bytes]:
    try:
        return frozenset(certificates_in(base64.b64decode(at(webhook, "clientConfig", "caBundle") or "")))
    except (binascii.Error, NoCertificate):
        return frozenset()
