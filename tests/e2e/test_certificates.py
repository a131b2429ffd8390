"""Certificates and their authorities change under a hundred requests a second, and no request fails."""

from __future__ import annotations

import hashlib
import socket
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from forewarn.webhook.x509 import Authority, certificates_in
from tests.e2e.api import identity
from tests.e2e.load import Load, creating, load
from tests.e2e.truth import wait_until
from tests.e2e.webhook import TRUSTING, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

SECRET = identity("Secret", "forewarn-ca", "forewarn")
MIN_PER_SECOND = 50
"""Requests a second of the hundred that are asked for, which a slow machine keeps too."""
LOOKS = 10
"""Seconds between two looks of a replica, or of the CA injector, at the Secrets."""


def shown(webhook: Webhook) -> set[bytes]:
    """Digests of the certificates that new connections get to see."""
    found = set()
    for replica in webhook.replicas:
        with socket.create_connection(("127.0.0.1", replica.port)) as raw, TRUSTING.wrap_socket(raw) as tls:
            found.add(hashlib.sha256(tls.getpeercert(binary_form=True) or b"").digest())
    return found


def no_request_failed(made: Load, when: str) -> None:
    """That all were answered, and came as fast as was asked for."""
    told = f"{made.done} requests {when}, {made.per_second:.0f} a second, p99 {made.quantile(0.99) * 1000:.0f} ms"
    print(f"\ne2e: {told}")
    assert made.faults == []
    assert made.per_second >= MIN_PER_SECOND, told


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "tls.crt", tmp_path / "tls.key"


def issue(authority: Authority, files: tuple[Path, Path]) -> None:
    """A new certificate in place of the old one, as a mounted Secret changes."""
    made = authority.sign(datetime.now(UTC))
    for path, content in zip(files, (made.chain, made.key), strict=True):
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").rename(path)


@pytest.fixture
def with_files(plane: ControlPlane, installed: Installation, api: Api, files: tuple[Path, Path]) -> Iterator[Webhook]:
    """Two replicas with a certificate that somebody else issues, as cert-manager does."""
    authority = Authority.make(datetime.now(UTC))
    issue(authority, files)
    flags = ("--drain", "0", "--tls-cert", str(files[0]), "--tls-key", str(files[1]))
    made = Webhook(plane, installed, 2, flags)
    made.authority = authority
    try:
        made.begin(api, failure_policy="Fail", bundle=authority.certificate)
        yield made
    finally:
        made.end(api)


def test_mounted_certificates_change(with_files: Webhook, api: Api, files: tuple[Path, Path]) -> None:
    assert with_files.authority
    with load(creating(api), per_second=100, threads=32) as made:
        for _ in range(3):
            before = shown(with_files)
            issue(with_files.authority, files)
            wait_until(lambda: not shown(with_files) & before, 30, "all replicas show the new one")  # noqa: B023
            time.sleep(1)
    no_request_failed(made, "during 3 changes of the certificate")


def _put(api: Api, data: dict[str, bytes]) -> None:
    """Write into forewarn's Secret."""
    api.patch(SECRET, {"data": {key: b64encode(value).decode() for key, value in data.items()}})


@pytest.fixture
def on_its_own(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    made = Webhook(plane, installed, 2)
    try:
        made.begin(api, failure_policy="Fail")
        yield made
    finally:
        made.end(api)


def test_its_own_authority_is_succeeded(on_its_own: Webhook, api: Api) -> None:
    """The next CA is in the Secret. Once it is announced, the Secret is made to say that it was two hours ago."""
    old_leaves, old_bundle = shown(on_its_own), certificates_in(on_its_own.bundle(api))
    coming = Authority.make(datetime.now(UTC))
    with load(creating(api), per_second=100, threads=32) as made:
        _put(api, {"next.crt": coming.certificate, "next.key": coming.key})
        announced = lambda: coming.certificate in certificates_in(on_its_own.bundle(api))  # noqa: E731
        wait_until(announced, 2 * LOOKS, "the coming CA is announced")
        assert certificates_in(on_its_own.bundle(api))[0] == old_bundle[0]
        noted = lambda: "next.announced" in api.get("Secret", "forewarn-ca", "forewarn")["data"]  # noqa: E731
        wait_until(noted, 2 * LOOKS, "the Secret says since when it is announced")
        assert shown(on_its_own) == old_leaves
        _put(api, {"next.announced": (datetime.now(UTC) - timedelta(hours=2)).isoformat().encode()})
        signs = lambda: not shown(on_its_own) & old_leaves  # noqa: E731
        wait_until(signs, 3 * LOOKS, "both replicas show a leaf of the new CA")
        time.sleep(3)
    no_request_failed(made, "while a CA was succeeded")
    bundle = certificates_in(on_its_own.bundle(api))
    assert bundle[0] == coming.certificate
    assert old_bundle[0] in bundle, "the former CA stays trusted"


def test_its_own_authority_is_replaced(on_its_own: Webhook, api: Api) -> None:
    """docs/guides/run-the-webhook.md: replace the CA, because its Secret has leaked."""
    old_leaves, old_bundle = shown(on_its_own), certificates_in(on_its_own.bundle(api))
    with load(creating(api), per_second=100, threads=32) as made:
        on_its_own.injector.stop()
        api.patch(SECRET, {"data": None})
        on_its_own.injector.start()
        replaced = lambda: not shown(on_its_own) & old_leaves  # noqa: E731
        wait_until(replaced, 4 * LOOKS, "both replicas show a leaf of another CA")
        time.sleep(3)
    no_request_failed(made, "while a CA was replaced")
    gone = lambda: not {*old_bundle} & {*certificates_in(on_its_own.bundle(api))}  # noqa: E731
    wait_until(gone, 120, "the former CA is no longer trusted")
