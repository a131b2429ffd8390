"""How many connections there are, and which of them gives way."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from socket import create_connection
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.webhook.admission.review import Callers
from forewarn.webhook.http.wire import MAX_SPARED, Connection, Connections, Rank, network_of
from tests.hostile.floods import GET, TLS_PORT, Flood
from tests.webhook.builders import body, deployment, endpoint
from tests.webhook.running import JSON, QUICK, answer_of, begin, read_answer, running

if TYPE_CHECKING:
    from socket import socket


class Ended:
    def __init__(self) -> None:
        self.ended = list[Connection]()
        self.connections = Connections(4)

    def enter(self, source: str, rank: Rank = Rank.UNUSED) -> Connection:
        made = self.connections.enter(source)
        assert made
        made.end = lambda: self.ended.append(made)
        if rank:
            self.connections.place(made, rank)
        return made


def test_the_lowest_rank_gives_way_first_and_the_longest_idle_of_it() -> None:
    there = Ended()
    ranks = (Rank.CALLER, Rank.ASKING, Rank.USED, Rank.UNUSED)
    held = {rank: there.enter("a", rank) for rank in ranks}
    newest = [there.enter("b", Rank.RECEIVING) for _ in range(5)]
    assert there.ended == [held[rank] for rank in reversed(ranks)] + newest[:1]


def test_the_network_with_the_most_of_the_rank_gives_way() -> None:
    there = Ended()
    first, second, third, fourth = (there.enter(source) for source in ("one", "crowd", "crowd", "crowd"))
    there.enter("other")
    there.connections.place(first, Rank.USED)
    there.enter("crowd")  # has the most again
    assert there.ended == [second, third]
    assert there.connections.count == 4
    assert fourth.network == "crowd"


def test_a_new_connection_of_an_api_server_goes_after_those_of_all_strangers() -> None:
    there = Ended()
    kept = there.enter("a", Rank.CALLER)
    new = there.enter("a")
    strangers = [there.enter(f"stranger {number}", Rank.ASKING if number < 3 else Rank.UNUSED) for number in range(9)]
    assert set(there.ended) < set(strangers)
    there.connections.leave(kept)
    there.connections.leave(new)
    new = there.enter("a")  # its network is known after its last connection has ended
    assert new.is_spared
    assert not there.enter("b").is_spared


def test_an_address_that_floods_is_spared_no_more_although_an_api_server_has_it() -> None:
    connections = Connections(1000)
    for number in range(2 * MAX_SPARED):
        made = connections.enter("a")
        assert made
        assert made.is_spared == (0 < number <= MAX_SPARED)
        if number == 0:
            connections.place(made, Rank.CALLER)


def test_one_that_was_used_again_is_idle_for_less_time() -> None:
    there = Ended()
    held = [there.enter("a", Rank.CALLER) for _ in range(4)]
    there.connections.place(held[0], Rank.CALLER)
    there.enter("b")
    assert there.ended == [held[1]]


def test_where_all_are_at_work_nobody_gives_way() -> None:
    there = Ended()
    for _ in range(4):
        there.enter("a", Rank.CALLER).busy = True
    assert there.connections.enter("b") is None
    assert not there.connections.evict()
    assert there.ended == []
    assert there.connections.count == 4


def test_an_evicted_one_is_neither_placed_nor_left_again() -> None:
    there = Ended()
    held = there.enter("a")
    assert there.connections.evict()
    there.connections.place(held, Rank.CALLER)
    there.connections.leave(held)
    assert there.connections.count == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_a_host_has_an_ipv4_address_or_a_64_of_ipv6(address: str, network: str) -> None:
    assert network_of(address) == network


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["enter", "leave", "work", "place"]), st.sampled_from(Rank)),
        max_size=60,
    ),
    st.integers(1, 6),
)
def test_there_are_never_more_than_the_most_and_none_at_work_is_ended(
    steps: list[tuple[str, str, Rank]], most: int
) -> None:
    connections, held = Connections(most), list[Connection]()

    def end(connection: Connection) -> None:
        assert not connection.busy
        first = min((other.is_spared, other.rank) for other in held if not other.busy)
        assert (connection.is_spared, connection.rank) == first
        held.remove(connection)

    for source, step, rank in steps:
        if step == "enter":
            made = connections.enter(source)
            if made:
                made.end = lambda made=made: end(made)  # type: ignore[misc]
                held.append(made)
            else:
                assert all(connection.busy for connection in held)
        elif mine := [connection for connection in held if connection.network == source]:
            if step == "leave":
                held.remove(mine[0])
                connections.leave(mine[0])
            elif step == "work":
                mine[0].busy = True
            else:
                mine[0].busy = False
                connections.place(mine[0], rank)
        assert connections.count == len(held) <= most


def _opened(port: int, source: str, count: int) -> list[socket]:
    """Connections on which nothing is said, not even a hello."""
    return [create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0)) for _ in range(count)]


def test_idle_connections_take_a_bounded_number_of_places_and_requests_are_answered_all_the_same() -> None:
    """5,000 of them took 247 MB."""
    with running(limits=replace(QUICK, connections=40, header=10)) as served:
        idle = []
        for raw in _opened(served.port, "127.0.0.2", 120):
            try:
                idle.append(served.client.wrap_socket(raw, server_hostname="localhost"))
            except OSError:
                raw.close()
        assert served.server.connections.count <= 40
        for _ in range(60):
            with served.connect() as connection:
                connection.request("POST", "/validate", body(deployment()), JSON)
                assert answer_of(connection)[0] == 200
        assert served.server.connections.count <= 40
        for held in idle:
            held.close()


def test_handshakes_that_never_end_take_places_as_well() -> None:
    with running(limits=replace(QUICK, connections=20, handshake=30)) as served:
        silent = _opened(served.port, "127.0.0.3", 60)
        assert served.post("/validate", body(deployment()))[0] == 200
        assert served.server.connections.count <= 20
        for held in silent:
            held.close()


@pytest.mark.parametrize("name", ["slow request line", "slow header", "large header", "answered", "reviewed"])
def test_clients_without_a_request_in_work_give_way(name: str) -> None:
    limits = replace(QUICK, connections=20, header=30)
    with running(limits=limits) as served, Flood(served.port) as flood:
        flood.open(60, [TLS_PORT[name]], ["127.0.0.3", "127.0.0.4"])
        for _ in range(30):
            assert served.post("/validate", body(deployment()))[0] == 200
        assert served.server.connections.count <= 20


def test_a_slow_body_of_a_stranger_gives_way_before_one_of_an_api_server() -> None:
    token, data = "0123456789abcdef", body(deployment())
    callers, limits = Callers(required=lambda: (token,)), replace(QUICK, connections=8, body=30, discard=5)
    path = f"/validate/{token}"
    with (
        running(endpoint(callers=callers), limits) as served,
        served.tls() as trusted,
        Flood(served.port) as flood,
    ):
        begin(trusted, data, len(data), path)
        assert read_answer(trusted)[0] == 200
        begin(trusted, data, 10, path)
        flood.open(40, [TLS_PORT["no body"]], ["127.0.0.1"])
        assert served.post(path, data)[0] == 200
        trusted.sendall(data[10:])
        assert read_answer(trusted)[0] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (GET % b"/" * 4, 429),
        (GET % b"/" * 3, 404),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 257 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 256 + b"\r\n", 404),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 258, 431),
    ],
)
def test_what_takes_much_memory_on_a_connection_is_bounded(data: bytes, status: int) -> None:
    """One packet of 1,000s of requests took 36 MB."""
    with running() as served, served.tls() as client:
        client.sendall(data)
        told = b""
        while not told.endswith(b"}") and (more := client.recv(65_536)):
            told += more
        assert int(told.split(b" ", 2)[1]) == status


@pytest.mark.parametrize("is_crowded", [True, False])
def test_an_unused_connection_ends_soon_only_if_more_than_half_of_all_are_open(is_crowded: bool) -> None:
    """An API server may open one that it needs only later."""
    limits = replace(QUICK, connections=2 if is_crowded else 4, first=0.05, keep_alive=60)
    with running(limits=limits) as served, served.tls() as unused, served.tls():
        time.sleep(0.3)
        data = body(deployment())
        if is_crowded:
            assert unused.recv(1) == b""
        else:
            begin(unused, data, len(data))
            assert read_answer(unused)[0] == 200


def test_blank_lines_keep_no_connection_open() -> None:
    """The HTTP parser skips them before a request."""
    with running(limits=replace(QUICK, connections=4, keep_alive=1)) as served, served.tls() as client:
        data = body(deployment())
        begin(client, data, len(data))
        assert read_answer(client)[0] == 200
        started = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - started < 10:
                client.sendall(b"\r\n")
                time.sleep(0.2)
        assert time.monotonic() - started < 5
