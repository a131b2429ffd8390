"""Certificates for clients: what an API server is given to show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.webhook.x509 import Authority


def write_client(authority: Authority, path: Path, common_name: str, *dns: str) -> Path:
    """Certificate and key of a client, in one file."""
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = x509.CertificateBuilder(
        issuer.subject, subject, key.public_key(), x509.random_serial_number(), now, now + timedelta(hours=1)
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in dns]), critical=False)
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(pem) + private)
    return path
