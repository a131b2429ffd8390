"""The addresses that the server listens on, and a signal before it does."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
from datetime import UTC, datetime
from socket import create_connection
from typing import TYPE_CHECKING, Any, cast

import pytest
import uvloop

from forewarn.webhook.health import Health
from forewarn.webhook.http.asgi import Limits, Routes
from forewarn.webhook.http.server import Server, TlsServer, bind
from forewarn.webhook.http.tls import SwappingContext
from forewarn.webhook.x509 import self_signed
from tests.webhook.builders import body, deployment, endpoint
from tests.webhook.running import QUICK, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.http.asgi import Application


def _reached(listening: socket.socket) -> list[str]:
    """Which loopback addresses lead to it."""
    found = []
    for address in ("127.0.0.1", "::1"):
        try:
            create_connection((address, listening.getsockname()[1]), 2).close()
        except OSError:
            continue
        found.append(address)
    return found


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("::", ["127.0.0.1", "::1"]),
        ("::0", ["127.0.0.1", "::1"]),
        ("::ffff:127.0.0.1", ["127.0.0.1"]),
        ("0.0.0.0", ["127.0.0.1"]),
        ("::1", ["::1"]),
        ("127.0.0.1", ["127.0.0.1"]),
    ],
)
def test_the_address_of_all_of_ipv6_is_that_of_ipv4_too(host: str, reached: list[str]) -> None:
    """Whatever net.ipv6.bindv6only says: a pod's addresses are of the one kind, the other, or both."""
    with bind(host, 0) as listening:
        assert _reached(listening) == reached


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
def test_a_review_is_answered_over_ipv6_with_a_certificate_for_the_address() -> None:
    with running(host="::1") as served:
        status, _, answer = served.post("/validate", body(deployment()))
    assert (status, json.loads(answer)["response"]["allowed"]) == (200, True)


@pytest.mark.parametrize("stage", ["socket", "bind"])
def test_without_ipv6_it_is_that_of_ipv4_alone(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutIpv6(socket.socket):
        def __init__(self, family: int, *more: Any) -> None:
            if family == socket.AF_INET6 and stage == "socket":
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *more)

        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
            super().bind(address)

    monkeypatch.setattr("forewarn.webhook.http.server.socket.socket", WithoutIpv6)
    with bind("::", 0) as listening:
        assert _reached(listening) == ["127.0.0.1"]
    with pytest.raises(OSError, match=r"not supported|Cannot assign"):
        bind("::1", 0)


def test_a_port_that_is_taken_stays_an_error() -> None:
    with bind("::", 0) as listening, pytest.raises(OSError, match="in use"):
        bind("::", listening.getsockname()[1])


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_ends_while_it_opens_is_forgotten(
    turns: int, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The server waited for it for 35 s when it stopped."""

    async def left() -> tuple[int, int]:
        server = Server(cast("Application", None), Limits(connections=1), has_bodies=False)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        with bind("127.0.0.1", 0) as listening:
            await server.startup([listening])
            with create_connection(listening.getsockname()):
                while not server.connections.count:
                    await asyncio.sleep(0)
                for _ in range(turns):
                    await asyncio.sleep(0)
                server.connections.evict()
                for _ in range(20):
                    await asyncio.sleep(0.001)
            asyncio.get_running_loop().remove_reader(listening)
        return len(server.server_state.connections), server.connections.count

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(left()) == (0, 0)


def test_a_signal_before_the_event_loop_is_there_drains_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was told of the port may send it at once; no handler that raises may get it then."""
    health, given = Health(), endpoint()
    context = SwappingContext(self_signed(datetime.now(UTC))).listening
    server = TlsServer(Routes(given, health, QUICK), context, given.gate, health, QUICK)
    # The last thing of uvicorn's before there is a loop; its older releases call it by another name.
    name = "get_loop_factory" if hasattr(server.config, "get_loop_factory") else "setup_event_loop"
    make_loop = getattr(server.config, name)

    def told() -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return make_loop()

    monkeypatch.setattr(server.config, name, told)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the handler of before was called"))
    try:
        with bind("127.0.0.1", 0) as listening:
            server.run([listening])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert health.draining
