"""The certificate that every replica serves, from the Secret that the CA injector writes."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from forewarn.policies.objects.fields import at
from forewarn.webhook.http.tls import server_context, untimely, worse
from forewarn.webhook.logs import log_event
from forewarn.webhook.x509 import Certificate, NoCertificate, validity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.http.tls import SwappingContext
    from forewarn.webhook.metrics import Metrics

RENEWED_AT: Final = 2 / 3
"""The share of its lifetime after which a certificate or CA is replaced."""


_KEY: Final = re.compile("[0-9a-f]{64}")


class BadSecret(ValueError):
    """A Secret has invalid contents. The message names the key and the fix."""


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
        data = at(secret, "data") or {}
        chain, key, ca = (decoded(data, name) for name in ("tls.crt", "tls.key", "ca.crt"))
        token_key = decoded(data, "token-key").decode("ascii", "replace")
        token_key = token_key if _KEY.fullmatch(token_key) else ""
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

    def is_due(self, now: datetime) -> bool:
        """Report whether a new certificate is due, because the certificate is missing, old, or not valid now."""
        if self.certificate is None:
            return True
        life = validity_of(self.certificate.chain)
        return not life.not_before <= now < life.part(RENEWED_AT)


class ServingCertificate:
    """Serves the certificate in the Secret. Not thread-safe."""

    def __init__(
        self,
        api: ObjectApi,
        path: str,
        contexts: SwappingContext,
        metrics: Metrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._path, self._contexts, self._now = api, path, contexts, now
        self.served = Served()
        metrics.ca_expiry.set_function(self._expiry)

    def reconcile(self) -> None:
        """Read the Secret, and serve its certificate from the next handshake on. Raises ObjectApiError, BadSecret.

        Ignores an empty Secret. Raises BadSecret for a certificate that is not valid now, unless the served one is not
        valid either.
        """
        served = Served.from_secret(self._api.get(self._path))
        if served.certificate is None or served.certificate == self.served.certificate:
            return
        ours, now = self.served.certificate, self._now()
        why = worse(ours, served.certificate, now) if ours else untimely(served.certificate, now)
        if why:
            raise bad("tls.crt", why)
        self._contexts.swap(served.certificate)
        self.served = served
        log_event("serving certificate loaded", {"not_after": served.certificate.not_after.isoformat()})

    def fault(self) -> str:
        """Return why the served certificate is not valid now; "" if it is, or if none is served yet."""
        certificate = self.served.certificate
        return untimely(certificate, self._now()) if certificate else ""

    def _expiry(self) -> float:
        served = self.served.certificate
        return validity_of(served.ca).not_after.timestamp() if served else 0.0


def decoded(data: Mapping[str, str], key: str) -> bytes:
    """The decoded value of a key in a Secret; b"" if it is missing. Raises BadSecret."""
    try:
        return base64.b64decode(data.get(key) or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad(key, error) from None


def bad(key: str, why: object) -> BadSecret:
    """The error for an invalid Secret, with its fix."""
    return BadSecret(
        f"the Secret's {key}: {why}. Fix: remove all of the Secret's data; forewarn-ca-injector fills it again"
    )
