"""Mutual TLS: who may ask, and that asking for certificates loosens nothing else."""

from __future__ import annotations

import http.client
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from forewarn.webhook.http.tls import Demands, TlsError, client_names, read_authorities
from forewarn.webhook.x509 import Authority
from tests.webhook.builders import body, pod
from tests.webhook.certificates import write_client
from tests.webhook.running import JSON, Running, answer_of, is_status, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = frozenset({"kube-apiserver", "apiserver.example"})
DATA = body(pod("gold", 1000))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make(datetime.now(UTC))


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[Running]:
    with running(demands=Demands(client_ca=authority.certificate), client_names=NAMES) as server:
        yield server


def ask(server: Running, client: Path | None, context: ssl.SSLContext | None = None) -> int:
    context = context or server.client
    if client:
        context.load_cert_chain(client)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=10)
    try:
        connection.request("POST", "/validate", DATA, JSON)
        answer = answer_of(connection)
    finally:
        connection.close()
    if answer[0] != 200:
        is_status(answer, 403)
    return answer[0]


def test_a_client_with_the_right_name_is_answered(guarded: Running, authority: Authority, tmp_path: Path) -> None:
    assert ask(guarded, write_client(authority, tmp_path / "a", "kube-apiserver")) == 200
    assert ask(guarded, write_client(authority, tmp_path / "b", "x", "y.example", "apiserver.example")) == 200


def test_a_client_with_another_name_is_told_so(guarded: Running, authority: Authority, tmp_path: Path) -> None:
    assert ask(guarded, write_client(authority, tmp_path / "a", "somebody", "else.example")) == 403


def test_a_client_without_a_certificate_or_with_one_by_another_ca_is_refused(guarded: Running, tmp_path: Path) -> None:
    stranger = write_client(Authority.make(datetime.now(UTC)), tmp_path / "a", "kube-apiserver")
    for client in (None, stranger):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(guarded, client)


def test_the_least_tls_version_is_kept(guarded: Running, authority: Authority, tmp_path: Path) -> None:
    client, old = write_client(authority, tmp_path / "a", "kube-apiserver"), guarded.client
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        ask(guarded, client, old)
    guarded.contexts.swap(demands=guarded.contexts.demands)
    with pytest.raises(ssl.SSLError):
        ask(guarded, client, old)


def test_other_cas_are_trusted_from_the_next_handshake_on(authority: Authority, tmp_path: Path) -> None:
    other = Authority.make(datetime.now(UTC))
    one, two = (write_client(ca, tmp_path / str(i), "x") for i, ca in enumerate((authority, other)))
    with running(demands=Demands(client_ca=authority.certificate)) as server:
        assert ask(server, one) == 200
        server.contexts.swap(demands=Demands(client_ca=other.certificate))
        assert ask(server, two) == 200
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(server, one)


def test_names_are_common_names_dns_names_and_uris() -> None:
    peer = {
        "subject": ((("organizationName", "system:masters"),), (("commonName", "a"),)),
        "subjectAltName": (("DNS", "b"), ("URI", "spiffe://c"), ("IP Address", "10.0.0.1"), ("email", "d@e")),
    }
    assert client_names(peer) == {"a", "b", "spiffe://c"}
    assert client_names({}) == set()


def test_a_file_of_cas_that_holds_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    with pytest.raises(TlsError, match=r"ca.crt: No such file"):
        read_authorities(path)
    for wrong in (b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"):
        path.write_bytes(wrong)
        with pytest.raises(TlsError, match=r"ca.crt: no PEM certificate"):
            read_authorities(path)
