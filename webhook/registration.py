"""The two webhook configurations: which CAs API servers trust when they call the webhook."""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from policies.objects.fields import at
from webhook.api import Conflict, NotFound
from webhook.certificates import NoCertificate, certificates_in
from webhook.logs import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.fields import ApiObject
    from webhook.api import Api

NAME: Final = "forewarn"
PATHS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
)


class Registration:
    """Reads both configurations, and writes the CAs and the owner into them. One thread calls it."""

    def __init__(self, api: Api, paths: tuple[str, ...] = PATHS) -> None:
        self._api, self._paths = api, paths

    def look(self, bundle: bytes | None = None) -> frozenset[bytes] | None:
        """The CAs that every webhook of every configuration trusts; None where there is no configuration.

        With a bundle, it is written first wherever something else stands. Raises ApiError.
        """
        found = list(self._bundles(bundle))
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

    def _bundles(self, bundle: bytes | None) -> Iterator[frozenset[bytes]]:
        for path in self._paths:
            try:
                configuration = self._api.get(path)
                if bundle is not None:
                    configuration = self._written(path, configuration, bundle)
            except NotFound:
                continue  # taken away on purpose: then nobody calls
            for webhook in configuration.get("webhooks") or ():
                yield _trusted(webhook)

    def _written(self, path: str, configuration: dict[str, Any], bundle: bytes) -> dict[str, Any]:
        text = base64.b64encode(bundle).decode()
        webhooks = configuration.get("webhooks") or []
        if all(at(webhook, "clientConfig", "caBundle") == text for webhook in webhooks):
            return configuration
        changed = [
            {**webhook, "clientConfig": {**(webhook.get("clientConfig") or {}), "caBundle": text}}
            for webhook in webhooks
        ]
        try:
            written = self._api.replace(path, {**configuration, "webhooks": changed})
        except Conflict:
            return configuration  # somebody else has changed it: the next look sees what is there now
        say("registration", {"configuration": path.rpartition("/v1/")[2]})
        return written


def _trusted(webhook: ApiObject) -> frozenset[bytes]:
    try:
        return frozenset(certificates_in(base64.b64decode(at(webhook, "clientConfig", "caBundle") or "")))
    except (binascii.Error, NoCertificate):
        return frozenset()
