"""How many connections there are, and which of them gives way."""

from __future__ import annotations

from dataclasses import replace
from socket import create_connection
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from forewarn.webhook.http.connections import Connection, Connections
from tests.webhook.builders import body, deployment
from tests.webhook.running import JSON, QUICK, answer_of, running

if TYPE_CHECKING:
    from socket import socket


class Ended:
    def __init__(self) -> None:
        self.now, self.ended = 0.0, list[Connection]()
        self.connections = Connections(4, lambda: self.now)

    def enter(self, source: str) -> Connection | None:
        self.now += 1
        made = self.connections.enter(source)
        if made:
            made.end = lambda: self.ended.append(made)
        return made


def test_one_that_was_never_used_gives_way_before_one_that_was_and_the_longest_idle_first() -> None:
    there = Ended()
    first, second, third, fourth = (there.enter("a") for _ in range(4))
    assert first
    assert third
    assert fourth
    there.connections.rest(first)
    third.busy = fourth.busy = True
    fifth = there.enter("a")
    there.enter("a")
    assert there.ended == [second, fifth]  # which alone was neither used nor at work


def test_where_all_are_at_work_nobody_gives_way() -> None:
    there = Ended()
    for _ in range(4):
        made = there.enter("a")
        assert made
        made.busy = True
    assert there.enter("b") is None
    assert there.ended == []


def test_who_has_most_gives_way_and_gets_no_more() -> None:
    there = Ended()
    held = [there.enter(source) for source in ("crowd", "crowd", "crowd", "one")]
    assert there.enter("crowd") is None
    assert there.enter("other") is not None
    assert there.ended == held[:1]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["enter", "leave", "work", "rest"])), max_size=60))
def test_there_are_never_more_than_the_most_and_none_at_work_is_ended(steps: list[tuple[str, str]]) -> None:
    there, held = Ended(), list[Connection]()
    for source, step in steps:
        if step == "enter":
            before = len(there.ended)
            made = there.enter(source)
            for connection in there.ended[before:]:
                assert not connection.busy
                held.remove(connection)
            held += [made] if made else []
        elif mine := [connection for connection in held if connection.source == source]:
            if step == "leave":
                held.remove(mine[0])
                there.connections.leave(mine[0])
            elif step == "work":
                mine[0].busy = True
            else:
                there.connections.rest(mine[0])
        assert there.connections.count == len(held) <= 4


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
