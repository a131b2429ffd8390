"""Certificates of the TLS port, requirements for clients, and the TLS contexts that follow both."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from forewarn.webhook.x509 import Certificate, NoCertificate, certificates_in, validity_of

if TYPE_CHECKING:
    from pathlib import Path


class TlsError(ValueError):
    """The error for a certificate or key that is not usable."""


@dataclass(frozen=True, slots=True)
class Demands:
    """Requirements for clients: the minimum TLS version, and the CAs (PEM) of client certificates; if these are empty,
    no client certificate is needed.
    """

    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    client_ca: bytes = b""


TLS_1_3: Final = Demands()


def read_certificate(chain: Path, key: Path) -> Certificate:
    """Read a certificate and its key. Raises TlsError with the file's name."""
    texts = [_read(path) for path in (chain, key)]
    try:
        certificate = Certificate(texts[0], texts[1], b"", validity_of(texts[0]).not_after)
    except NoCertificate as error:
        raise TlsError(f"{chain}: {error}") from None
    try:
        server_context(certificate)
    except ssl.SSLError as error:
        raise TlsError(f"{key}: does not match the certificate {chain}: {error.reason or error}") from None
    return certificate


def distrust(why: str) -> str:
    """Return the reason why a replica is not ready. `why`: the reason why API servers reject its certificate."""
    return why and f"API servers do not trust the certificate: {why}"


def read_authorities(path: Path) -> bytes:
    """Read the CAs of client certificates. Raises TlsError with the name of the file."""
    pem = _read(path)
    try:
        authorities = certificates_in(pem)
    except NoCertificate as error:
        raise TlsError(f"{path}: {error}") from None
    if not authorities:
        raise TlsError(f"{path}: no PEM certificate: the file is empty")
    return b"".join(authorities)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from error


def server_context(certificate: Certificate, demands: Demands = TLS_1_3) -> ssl.SSLContext:
    """Return an SSL context with this certificate.

    Raises ssl.SSLError if key and chain do not match, and TlsError without a file descriptor.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = demands.minimum
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")  # of TLS 1.2; the ciphers of TLS 1.3 are all good
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # API servers do not resume sessions
    context.set_ecdh_curve("prime256v1")  # supported by every client; ffdhe8192 would cost 120 ms of CPU time
    if demands.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=demands.client_ca.decode("ascii"))
    try:
        with _file(certificate.chain) as chain, _file(certificate.key) as key:
            context.load_cert_chain(chain, key, password="")  # otherwise OpenSSL asks for one if the key is encrypted
    except ssl.SSLError:
        raise
    except OSError as error:
        raise TlsError(f"cannot load the certificate and key: {error.strerror}") from error
    return context


@contextmanager
def _file(pem: bytes) -> Iterator[str]:
    """Yield the path of a file with this PEM text, because the module ssl reads keys only from files. On Linux, the
    file is in memory, and thus independent of full disks and read-only file systems.
    """
    in_memory = sys.platform == "linux"
    with open(os.memfd_create("pem"), "wb") if in_memory else NamedTemporaryFile(suffix=".pem") as file:
        file.write(pem)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if in_memory else file.name


class SwappingContext:
    """The TLS context of the listening socket: each new connection uses the current certificate and client CAs.

    An SSL context never changes: `swap` creates a new one. `rejection`: why API servers reject a certificate, or "".
    """

    def __init__(self, certificate: Certificate, demands: Demands = TLS_1_3) -> None:
        self.rejection: Callable[[Certificate], str] = lambda some: validity_of(some.chain).fault(datetime.now(UTC))
        self.certificate, self.demands, self._lock = certificate, demands, Lock()
        self.listening = server_context(certificate, demands)
        self._current = self.listening
        self.listening.sni_callback = self._hand_over

    def swap(self, certificate: Certificate | None = None, demands: Demands | None = None) -> None:
        """Use another certificate or other client CAs from the next handshake on. Raises ssl.SSLError.

        The minimum TLS version, and whether clients need a certificate, do not change: OpenSSL reads them from the
        listening context.
        """
        with self._lock:
            certificate, demands = certificate or self.certificate, demands or self.demands
            self._current = server_context(certificate, demands)
            self.certificate, self.demands = certificate, demands

    def worse(self, new: Certificate) -> str:
        """Return why a new certificate must not replace the current one; "" if it may."""
        why = self.rejection(new)
        is_worse = why and not self.rejection(self.certificate)
        return f"{why}; the current certificate is valid and stays in use" if is_worse else ""

    def _hand_over(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def client_names(peer: Mapping[str, Any]) -> frozenset[str]:
    """Return the common names, DNS names and URIs in a client's certificate, as `getpeercert()` returns it."""
    common = {value for part in peer.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for kind, value in peer.get("subjectAltName", ()) if kind in _KINDS})


_KINDS: Final = frozenset({"DNS", "URI"})
