"""Certificates: made here, read from files, and changed under load."""

from __future__ import annotations

import errno
import ssl
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from forewarn.webhook.http.tls import Demands, TlsError, read_certificate, server_context
from forewarn.webhook.x509 import LIFE, NAMES, Certificate, self_signed
from tests.webhook.builders import body, pod
from tests.webhook.running import Running, client_context

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC)


def written(certificate: Certificate, directory: Path) -> tuple[Path, Path]:
    chain, key = directory / "tls.crt", directory / "tls.key"
    chain.write_bytes(certificate.chain)
    key.write_bytes(certificate.key)
    return chain, key


def test_a_certificate_made_here_is_for_this_machine_and_the_service() -> None:
    made = self_signed(NOW)
    leaf = x509.load_pem_x509_certificate(made.chain)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == set(NAMES)
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert abs(made.not_after - (NOW + LIFE)) < timedelta(seconds=1)


@pytest.mark.parametrize("name", NAMES)
def test_clients_that_trust_its_ca_accept_it_under_every_name(name: str, served: Running) -> None:
    context = served.client
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    from socket import create_connection

    with create_connection(("127.0.0.1", served.port), 5) as raw, context.wrap_socket(raw, server_hostname=name) as tls:
        assert tls.version() == "TLSv1.3"


@pytest.mark.parametrize("group", ["ffdhe2048", "ffdhe8192", "secp521r1", "X25519"])
def test_no_client_chooses_an_expensive_key_exchange(group: str, served: Running) -> None:
    from socket import create_connection

    context = served.client
    try:
        context.set_ecdh_curve(group)
    except ssl.SSLError:
        pytest.skip("early releases of Python 3.11 have no name for the group")
    with (
        create_connection(("127.0.0.1", served.port), 5) as raw,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(raw, server_hostname="localhost")


def test_a_client_that_trusts_another_ca_refuses_it(served: Running) -> None:
    from socket import create_connection

    other = client_context(self_signed(NOW).ca)
    with create_connection(("127.0.0.1", served.port), 5) as raw, pytest.raises(ssl.SSLCertVerificationError):
        other.wrap_socket(raw, server_hostname="localhost")


def test_tls_1_2_is_served_by_flag_alone() -> None:
    assert server_context(self_signed(NOW)).minimum_version is ssl.TLSVersion.TLSv1_3
    assert server_context(self_signed(NOW), Demands(ssl.TLSVersion.TLSv1_2)).minimum_version is ssl.TLSVersion.TLSv1_2


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = self_signed(NOW)
    read = read_certificate(*written(made, tmp_path))
    assert (read.chain, read.key, read.ca) == (made.chain, made.key, b"")
    assert abs(read.not_after - made.not_after) < timedelta(seconds=1)


def test_files_that_cannot_be_served_are_named(tmp_path: Path) -> None:
    chain, key = written(self_signed(NOW), tmp_path)
    with pytest.raises(TlsError, match=r"nowhere.crt: No such file"):
        read_certificate(tmp_path / "nowhere.crt", key)
    key.write_bytes(self_signed(NOW).key)
    with pytest.raises(TlsError, match=r"tls.key: does not match the certificate .*tls.crt"):
        read_certificate(chain, key)
    private, secret = ec.generate_private_key(ec.SECP256R1()), serialization.BestAvailableEncryption(b"x")
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(private.private_bytes(*pem, secret))
    with pytest.raises(TlsError, match=r"tls.key: "):  # OpenSSL asks a terminal for the password
        read_certificate(chain, key)
    chain.write_bytes(b"nonsense")
    with pytest.raises(TlsError, match=r"tls.crt: no PEM certificate"):
        read_certificate(chain, key)


def test_another_certificate_is_served_from_the_next_handshake_on_and_old_connections_stay(served: Running) -> None:
    data = body(pod("gold", 1000))
    with served.connect() as old:
        old.request("POST", "/validate", data)
        old.getresponse().read()
        before = served.contexts.certificate
        served.contexts.swap(self_signed(datetime.now(UTC)))
        old.request("POST", "/validate", data)
        assert old.getresponse().read()
        with served.tls() as new:  # trusts the new CA alone
            assert new.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
                served.contexts.certificate.chain.decode()
            )
        assert before != served.contexts.certificate


@pytest.mark.skipif(sys.platform != "linux", reason="memory file descriptors")
def test_a_certificate_is_loaded_without_a_writable_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert server_context(self_signed(NOW)).cert_store_stats()


def test_without_a_file_descriptor_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("forewarn.webhook.http.tls._file", none)
    with pytest.raises(TlsError, match="cannot load the certificate and key: Too many open files"):
        server_context(self_signed(NOW))
