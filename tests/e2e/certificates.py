"""Certificates for a webhook on the loopback interface: an authority of our own, and leaves by it."""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

BACKDATED = timedelta(minutes=5)
LIFETIME = timedelta(hours=12)


class Authority:
    """A certificate authority."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"e2e {os.urandom(4).hex()}")])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        builder = _certificate(self._name, self._name, self._key).add_extension(basic, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """What clients have to trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, chain: Path, key: Path) -> None:
        """Write a new certificate for 127.0.0.1 and its key; each file is replaced in one step."""
        leaf_key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forewarn")])
        hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        builder = _certificate(name, self._name, leaf_key)
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        leaf = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        for path, content in ((key, leaf_key.private_bytes(*form)), (chain, leaf)):
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.rename(path)


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - BACKDATED).not_valid_after(now + LIFETIME)
