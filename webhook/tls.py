"""The serving certificate: from files, or made here; and TLS contexts that change it without closing a connection."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

NAMES: Final = ("localhost", "127.0.0.1", "::1", "forewarn.forewarn.svc")
"""Whom a certificate made here is for: this machine, and the service of the manifests."""
LIFE: Final = timedelta(days=365)
_BACKDATED: Final = timedelta(minutes=5)


class TlsError(ValueError):
    """A certificate or key that cannot be served."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is served, in PEM: the chain, its key, and the CA that clients must trust (empty where files were given)."""

    chain: bytes
    key: bytes
    ca: bytes
    not_after: datetime


def read_certificate(chain: Path, key: Path) -> Certificate:
    """Read a certificate and its key. Raises TlsError, naming the file."""
    texts = []
    for path in (chain, key):
        try:
            texts.append(path.read_bytes())
        except OSError as error:
            raise TlsError(f"{path}: {error.strerror}") from error
    try:
        leaf = x509.load_pem_x509_certificate(texts[0])
    except ValueError as error:
        raise TlsError(f"{chain}: no certificate in PEM: {error}") from None
    certificate = Certificate(texts[0], texts[1], b"", leaf.not_valid_after_utc)
    try:
        server_context(certificate)
    except ssl.SSLError as error:
        raise TlsError(f"{key}: not the key of {chain}: {error.reason or error}") from None
    return certificate


def self_signed(now: datetime, names: tuple[str, ...] = NAMES) -> Certificate:
    """A certificate for these names by a CA made for it alone, whose key is forgotten at once (P-256)."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forewarn embedded CA")])
    ca = _builder(ca_name, ca_name, ca_key.public_key(), ca_key.public_key(), now)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(_usage(sign=False, certificates=True), critical=True)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forewarn")])
    leaf = _builder(name, ca_name, key.public_key(), ca_key.public_key(), now)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_usage(sign=True, certificates=False), critical=True)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    leaf = leaf.add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False)
    pem = serialization.Encoding.PEM
    return Certificate(
        chain=leaf.sign(ca_key, hashes.SHA256()).public_bytes(pem),
        key=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        ca=ca.sign(ca_key, hashes.SHA256()).public_bytes(pem),
        not_after=(now + LIFE).astimezone(UTC),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, by: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), now - _BACKDATED, now + LIFE)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by), critical=False)


def _usage(*, sign: bool, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def server_context(certificate: Certificate, minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """A context that serves this certificate. Raises ssl.SSLError where key and chain do not belong together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")  # of TLS 1.2; those of 1.3 are all good
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # API servers do not resume
    with ExitStack() as stack:
        paths = []
        for pem in (certificate.chain, certificate.key):
            file = stack.enter_context(NamedTemporaryFile(suffix=".pem"))  # only its owner can read it
            file.write(pem)
            file.flush()
            paths.append(file.name)
        context.load_cert_chain(*paths)
    return context


class SwappingContext:
    """`listening` hands every new connection to the context that is in force: a live one is never changed."""

    def __init__(self, certificate: Certificate, minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self._minimum = minimum
        self.certificate = certificate
        self.listening = server_context(certificate, minimum)
        self._current = self.listening
        self.listening.sni_callback = self._hand_over

    def swap(self, certificate: Certificate) -> None:
        """Serve another certificate from the next handshake on. Raises ssl.SSLError."""
        self._current = server_context(certificate, self._minimum)
        self.certificate = certificate

    def _hand_over(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current
