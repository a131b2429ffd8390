"""X.509: certificate authorities, the certificates that they sign, and fields of PEM certificates (all keys are
P-256)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAMES: Final = ("localhost", "127.0.0.1", "::1", "forewarn.forewarn.svc")
"""The subject names of generated certificates: this machine, and the service of the manifests."""
LIFE: Final = timedelta(days=365)
"""Lifetime of a CA, and of a certificate whose CA key is not stored."""
BACKDATED: Final = timedelta(hours=2)
"""Certificates are valid from this time before their issue, because clocks differ, and may be set back."""


class NoCertificate(ValueError):
    """The error for a text without a certificate or key in PEM, or if certificate and key do not match."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The served certificate in PEM: the chain, its key, and the CA that clients must trust (empty if from files)."""

    chain: bytes
    key: bytes
    ca: bytes
    not_after: datetime


class Validity(NamedTuple):
    """The validity period of a certificate (UTC)."""

    not_before: datetime
    not_after: datetime

    def fault(self, now: datetime) -> str:
        """Return why the certificate is not valid at this time; "" if it is valid."""
        if now < self.not_before:
            return f"not valid before {self.not_before.isoformat()}"
        return f"expired at {self.not_after.isoformat()}" if now >= self.not_after else ""

    def part(self, share: float) -> datetime:
        """Return the time at which this share (0 to 1) of the validity period has passed."""
        return self.not_before + share * (self.not_after - self.not_before)


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: its certificate and its key, in PEM."""

    certificate: bytes
    key: bytes
    validity: Validity

    @classmethod
    def make(cls, now: datetime, life: timedelta = LIFE) -> Authority:
        """Create a new CA."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"forewarn CA {x509.random_serial_number():x}"[:40])
        builder = _builder(name, name, (key.public_key(), key.public_key()), (now, now + life), is_ca=True)
        pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return cls(pem, _private(key), validity_of(pem))

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> Authority:
        """Parse a stored CA. Raises NoCertificate."""
        public, validity = _load(certificate), validity_of(certificate)
        if public.public_key() != _load_key(key).public_key():
            raise NoCertificate("the key does not match the certificate")
        try:
            is_ca = public.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_ca = False
        if not is_ca:
            raise NoCertificate("the certificate is not a CA certificate")
        return cls(certificate, key, validity)

    def sign(self, now: datetime, names: Sequence[str] = NAMES, life: timedelta = LIFE) -> Certificate:
        """Sign a serving certificate for these names, which expires no later than the CA."""
        ca, ca_key, key = _load(self.certificate), _load_key(self.key), ec.generate_private_key(ec.SECP256R1())
        ends = min((now + life).astimezone(UTC), self.validity.not_after)
        keys = key.public_key(), ca_key.public_key()
        builder = _builder(_name("forewarn"), ca.subject, keys, (now, ends), is_ca=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        chain = builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return Certificate(chain, _private(key), self.certificate, ends)


def self_signed(now: datetime, names: Sequence[str] = NAMES) -> Certificate:
    """Return a serving certificate for these names, signed by a new CA whose key is discarded."""
    return Authority.make(now).sign(now, names)


def validity_of(pem: bytes) -> Validity:
    """Return the validity period of the first certificate in a PEM. Raises NoCertificate."""
    certificate = _load(pem)
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def certificates_in(pem: bytes) -> list[bytes]:
    """Return the certificates of a PEM bundle, one by one and normalized. Raises NoCertificate."""
    if not pem.strip():
        return []
    try:
        return [c.public_bytes(serialization.Encoding.PEM) for c in x509.load_pem_x509_certificates(pem)]
    except ValueError as error:
        raise NoCertificate(f"no PEM certificates: {error}") from None


def names_of(pem: bytes) -> tuple[str, ...]:
    """Return the DNS names and addresses of the first certificate; empty if there are none, or if unreadable."""
    try:
        names = _load(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


class Caller(NamedTuple):
    """How an API server verifies the certificate of a webhook: the name that it calls ("" if not known), and its
    caBundle (PEM; b"": not compared).
    """

    name: str
    bundle: bytes


def rejections(chain: bytes, caller: Caller, now: datetime) -> Iterator[str]:
    """Yield why an API server rejects the first certificate, as crypto/x509 does. Raises NoCertificate."""
    if why := validity_of(chain).fault(now):
        yield why
    names = names_of(chain)
    if caller.name and not any(name in names for name in (caller.name, f"*.{caller.name.partition('.')[2]}")):
        yield f"valid for {', '.join(names) or 'no name'}, not for {caller.name}, which API servers call"
    if caller.bundle and not _is_issued_by(chain, caller.bundle, now):
        yield "not signed by a CA of caBundle"


def _is_issued_by(chain: bytes, bundle: bytes, now: datetime) -> bool:
    """Report whether a valid CA of the bundle has signed the first certificate, directly or through intermediates."""
    served = [_load(pem) for pem in certificates_in(chain)]
    trusted = [_load(pem) for pem in certificates_in(bundle) if not validity_of(pem).fault(now)]
    current = _load(chain)
    for _ in served:
        if any(current == ca or _has_signed(ca, current) for ca in trusted):
            return True
        issuers = [issuer for issuer in served if issuer != current and _has_signed(issuer, current)]
        if not issuers:
            return False
        current = issuers[0]
    return False


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _load(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise NoCertificate(f"no PEM certificate: {error}") from None


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise NoCertificate(f"no PEM private key: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise NoCertificate("the private key is not an elliptic curve key")
    return key


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    keys: tuple[ec.EllipticCurvePublicKey, ec.EllipticCurvePublicKey],
    life: tuple[datetime, datetime],
    *,
    is_ca: bool,
) -> x509.CertificateBuilder:
    """Return a certificate builder. `keys`: public keys of the subject and of the issuer."""
    key, by = keys
    begins, ends = life
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), begins - BACKDATED, ends)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by), critical=False)
    constraints = x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None)
    usage = x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
