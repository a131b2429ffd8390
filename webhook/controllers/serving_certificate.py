"""The certificate that every replica serves, from the Secret that the CA injector writes."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.webhook.http.tls import SwappingContext, server_context
from forewarn.webhook.logs import log_event
from forewarn.webhook.x509 import Certificate, NoCertificate, validity_of

if TYPE_CHECKING:
    from forewarn.webhook.apiserver.typed_client import ObjectApi
    from forewarn.webhook.metrics import Metrics

_KEY: Final = re.compile("[0-9a-f]{64}")


class BadSecret(ValueError):
    """The error for a Secret with invalid contents. The message names the key and the fix."""


@dataclass(frozen=True, slots=True)
class Served:
    """The contents of the Secret, with the keys of cert-manager (tls.crt, tls.key, ca.crt); empty in the manifests.

    `token_key`: the key from which tokens in the webhook configurations are derived, to restore removed tokens.
    """

    certificate: Certificate | None = None
    token_key: str = ""

    @classmethod
    def from_secret(cls, secret: ApiObject) -> Served:
        """Parse the Secret of the serving certificate. Raises BadSecret."""
        data, token_key = at(secret, "data") or {}, token_key_of(secret)
        chain, key, ca = (decoded(data, name) for name in ("tls.crt", "tls.key", "ca.crt"))
        if not (chain or key or ca):
            return cls(token_key=token_key)
        try:
            certificate = Certificate(chain, key, ca, validity_of(chain).not_after)
            server_context(certificate)
            validity_of(ca)
        except (NoCertificate, ssl.SSLError) as error:
            raise bad("tls.crt, tls.key and ca.crt", error) from None
        return cls(certificate, token_key)

    def to_data(self) -> dict[str, str]:
        """Return the Secret's `data`."""
        certificate = self.certificate
        texts = (
            {"tls.crt": certificate.chain, "tls.key": certificate.key, "ca.crt": certificate.ca} if certificate else {}
        )
        if self.token_key:
            texts["token-key"] = self.token_key.encode()
        return {key: base64.b64encode(text).decode() for key, text in texts.items()}


def token_key_of(secret: ApiObject) -> str:
    """Return the token key in the Secret; "" if it is missing or invalid. Raises BadSecret."""
    text = decoded(at(secret, "data") or {}, "token-key").decode("ascii", "replace")
    return text if _KEY.fullmatch(text) else ""


class ServingCertificate:
    """Serves the certificate in the Secret. Not thread-safe."""

    def __init__(self, api: ObjectApi, path: str, contexts: SwappingContext, metrics: Metrics) -> None:
        self._api, self._path, self._contexts = api, path, contexts
        self.served = Served()
        metrics.ca_expiry.set_function(self._expiry)

    def read(self) -> Served:
        """Read the Secret. Raises ObjectApiError, BadSecret."""
        return Served.from_secret(self._api.get(self._path))

    def use(self, served: Served) -> None:
        """Serve the certificate, if there is one, from the next handshake on. Raises BadSecret if API servers reject
        it, unless they also reject the served one.
        """
        new, current = served.certificate, self.served.certificate
        if new is None or new == current:
            return
        if why := self._contexts.worse(new) if current else self._contexts.rejection(new):
            raise BadSecret(f"the Secret's tls.crt: {why}. Fix: check the log of forewarn-ca-injector, which renews it")
        self._contexts.swap(new)
        self.served = served
        log_event("serving certificate loaded", {"not_after": new.not_after.isoformat()})

    def _expiry(self) -> float:
        served = self.served.certificate
        return validity_of(served.ca).not_after.timestamp() if served else 0.0


def decoded(data: Mapping[str, str], key: str) -> bytes:
    """Return the decoded value of a key in a Secret; b"" if it is missing. Raises BadSecret."""
    try:
        return base64.b64decode(data.get(key) or "", validate=True)
    except ValueError as error:
        raise bad(key, error) from None


def bad(key: str, why: object) -> BadSecret:
    """Return the error for an invalid Secret, with its fix."""
    return BadSecret(
        f"the Secret's {key}: {why}. Fix: remove all of the Secret's data; forewarn-ca-injector fills it again"
    )
