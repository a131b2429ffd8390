"""Which connection takes the next expensive step, and how many bytes of a client TLS reads in one turn."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from forewarn.webhook.http.asgi import Limits
from forewarn.webhook.http.wire import AT_ONCE, BURST, RATE, Connection, Connections, Rank, Turns, Wire, group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MANY = 100


class Client:
    """A connection that waits. `steps`: the networks that took a step before, with the turn."""

    def __init__(self, network: str, steps: list[tuple[int, str]], turn: Callable[[], int]) -> None:
        self.network, self._steps, self._turn = network, steps, turn

    def proceed(self) -> None:
        self._steps.append((self._turn(), self.network))


def steps_of(
    networks: Sequence[str],
    turns: int,
    callers: Sequence[str] = (),
    clock: Callable[[int], float] = lambda _: 0.0,
    leaves: Sequence[int] = (),
) -> list[tuple[int, str]]:
    """The steps within so many turns of connections that wait from the start. `clock`: the time in a turn."""
    turn, steps = 0, list[tuple[int, str]]()

    async def run() -> list[tuple[int, str]]:
        nonlocal turn
        loop = asyncio.get_running_loop()
        loop.call_later = lambda _seconds, step, *_: loop.call_soon(step)  # type: ignore[method-assign,assignment]
        queue = Turns(lambda network: network in callers, lambda: clock(turn))
        clients = [Client(network, steps, lambda: turn) for network in networks]
        for client in clients:
            queue.wait(client)
        for number in leaves:
            queue.leave(clients[number])
        for turn in range(turns):  # noqa: B007  (the clients read it)
            await asyncio.sleep(0)
        return steps[:]  # asyncio.run has more turns

    return asyncio.run(run())


def test_one_connection_takes_its_step_in_a_turn() -> None:
    steps = steps_of(["192.0.2.1"] * MANY, 50)
    assert [turn for turn, _ in steps] == sorted({turn for turn, _ in steps})
    assert 48 <= len(steps) <= 50


@pytest.mark.parametrize("other", ["198.51.100.1", "192.0.2.7", "2001:db8::/64"])
def test_another_address_does_not_wait_behind_a_flood(other: str) -> None:
    flood = ["192.0.2.1"] * MANY
    assert [network for _, network in steps_of([*flood, other], 10)].index(other) <= 1


def test_many_addresses_of_a_network_are_one_group() -> None:
    flood = [f"192.0.2.{number}" for number in range(MANY)]
    others = ["198.51.100.1"] * 5
    taken = [network for _, network in steps_of([*flood, *others], 11)]
    assert sum(network in others for network in taken) >= 5


def test_a_group_has_a_limit_per_second_and_others_do_not_wait_for_it() -> None:
    def clock(turn: int) -> float:
        return 0.0 if turn < 2 * BURST else 1.0

    flood, other = ["192.0.2.1"] * 3 * BURST, ["198.51.100.1"] * 3
    steps = steps_of([*flood, *other], 4 * BURST, clock=clock)
    before = [network for turn, network in steps if turn < 2 * BURST]
    assert before.count("192.0.2.1") == BURST
    assert before.count("198.51.100.1") == 3
    assert len(steps) == BURST + 3 + RATE


def test_api_servers_have_no_limit_per_second() -> None:
    assert len(steps_of(["192.0.2.1"] * 2 * BURST, 3 * BURST, callers=["192.0.2.1"])) == 2 * BURST


def test_an_api_server_does_not_wait_for_its_neighbours() -> None:
    flood, caller = [f"192.0.2.{number}" for number in range(100)] * 3, "192.0.2.200"
    steps = steps_of([*flood, caller], len(flood), callers=[caller])
    assert steps[0][1] == caller
    assert len(steps) == BURST + 1


def test_api_servers_have_every_second_step_whatever_the_number_of_other_networks() -> None:
    flood, callers = [f"192.0.{number}.1" for number in range(100)], ["198.51.100.1"] * 9 + ["203.0.113.1"]
    taken = [network for _, network in steps_of([*flood, *callers], 20, callers=callers)]
    assert [network in callers for network in taken] == [True, False] * (len(taken) // 2) + [True] * (len(taken) % 2)
    assert "203.0.113.1" in taken[:3]


def test_a_closed_connection_takes_no_step() -> None:
    steps = steps_of(["192.0.2.1", "192.0.2.2", "192.0.2.1"], 10, leaves=[0, 1, 1])
    assert [network for _, network in steps] == ["192.0.2.1"]


def test_groups_are_networks_of_class_c_and_of_ipv6_hosts() -> None:
    assert group_of("192.0.2.77") == "192.0.2.0/24"
    assert group_of("2001:db8::/64") == "2001:db8::/64"


def test_a_network_has_a_caller_once_an_api_server_has_sent_a_request() -> None:
    connections = Connections(10)
    for network, rank in (("192.0.2.1", Rank.CALLER), ("192.0.2.2", Rank.RECEIVING)):
        connection = connections.enter(network)
        assert connection
        assert not connections.has_caller(network)
        connections.place(connection, rank)
        assert connections.has_caller(network)
        connections.leave(connection)
        assert connections.has_caller(network)


class Ends:
    """TLS and the TCP transport of a Wire, and the queue of steps."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.read: list[int] = []
        self.is_reading = True
        self.waiting: list[Any] = []
        self.connection = Connection("192.0.2.1", 0)
        limits_of_tls = SimpleNamespace(set_read_buffer_limits=lambda *_: None)
        tls = SimpleNamespace(
            get_buffer=lambda _: memoryview(bytearray(1 << 18)),
            buffer_updated=self.read.append,
            connection_made=lambda _: self.read.append(0),
            _get_app_transport=lambda: limits_of_tls,
        )
        transport: Any = SimpleNamespace(
            pause_reading=lambda: setattr(self, "is_reading", False),
            resume_reading=lambda: setattr(self, "is_reading", True),
            is_closing=lambda: False,
            abort=lambda: None,
            write=lambda _: None,
        )
        queue: Any = SimpleNamespace(wait=self.waiting.append)
        nothing: Any = None
        self.wire = Wire(lambda: nothing, nothing, Limits(), self.connection, queue, lambda _: None)
        self.wire.connection_made(transport)
        with patch("forewarn.webhook.http.wire.SSLProtocol", lambda *_, **__: tls):
            self.arrive(512)
            self.wire.proceed()
        self.connection.is_open = is_open

    def arrive(self, *lengths: int) -> None:
        """Records of these lengths arrive, as one part."""
        sent = b"".join(b"\x17\3\3" + length.to_bytes(2) + bytes(length) for length in lengths)
        self.wire.get_buffer(0)[: len(sent)] = sent
        self.wire.buffer_updated(len(sent))


def test_each_step_of_a_handshake_waits_for_its_turn_and_the_next_bytes_for_it() -> None:
    async def run() -> None:
        ends = Ends(is_open=False)
        for number in range(2):
            ends.arrive(512)
            assert (ends.is_reading, len(ends.waiting), ends.read) == (False, number + 2, [0, *[517] * (number + 1)])
            ends.wire.resume_reading()  # TLS may say so at any time
            assert not ends.is_reading
            ends.wire.proceed()
            assert ends.is_reading
        assert ends.read == [0, 517, 517, 517]

    asyncio.run(run())


def test_many_small_records_wait_for_their_turn_and_others_do_not() -> None:
    async def run() -> None:
        ends = Ends()
        ends.arrive(300, 1_500, 22)
        assert (ends.read[2:], len(ends.waiting)) == ([5 + 300 + 5 + 1_500 + 5 + 22], 1)
        ends.arrive(22, 22, 22)
        assert (len(ends.read), len(ends.waiting), ends.is_reading) == (3, 2, False)

    asyncio.run(run())


def test_tls_reads_a_limited_number_of_bytes_at_once() -> None:
    async def run() -> None:
        ends = Ends()
        assert len(ends.wire.get_buffer(1 << 20)) == AT_ONCE
        ends.arrive(AT_ONCE // 4 - 5, AT_ONCE // 4 - 5)
        ends.wire.pause_reading()
        assert (ends.read[2:], ends.is_reading) == ([AT_ONCE // 2], False)

    asyncio.run(run())
