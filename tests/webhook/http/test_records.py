"""What one connection may cost the event loop, whatever TLS records it has."""

from __future__ import annotations

import json
from struct import pack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.webhook.http.wire import MAX_DEBT, USELESS_COST, RecordDebt, UselessRecords
from tests.hostile.floods import GET, POST, REVIEW, trusting
from tests.hostile.records import USELESS, RecordClient
from tests.webhook.builders import body, pod
from tests.webhook.running import Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST = GET % b"/elsewhere"
OF_GO = [1_208, 1_208, 1_208, 560]
"""The records of Go's TLS for the 4 KiB that its HTTP client writes at once."""
FEW = MAX_DEBT // USELESS_COST


def record(length: int, kind: int = 23) -> bytes:
    return pack(">BHH", kind, 0x0303, length) + bytes(length)


@pytest.mark.parametrize(
    ("kind", "length", "most"),
    [
        pytest.param(23, 22, FEW, id="KeyUpdate"),
        pytest.param(23, 17, FEW, id="empty"),
        pytest.param(23, 18, FEW, id="one byte"),
        pytest.param(23, 64, 256, id="small"),
        pytest.param(23, 16_401, 15, id="padding"),
        pytest.param(21, 26, FEW, id="alert of TLS 1.2"),
        pytest.param(22, 300, FEW, id="renegotiation of TLS 1.2"),
        pytest.param(20, 1, FEW, id="ChangeCipherSpec"),
        pytest.param(22, 9_000, 1, id="large ClientHello"),
    ],
)
def test_a_connection_has_few_records_without_data(kind: int, length: int, most: int) -> None:
    records, one = RecordDebt(), memoryview(record(length, kind))
    for _ in range(most):
        records.charge(one)
    with pytest.raises(UselessRecords):
        records.charge(one)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", record(18_433), record(10, 24), b"\x80\x2e\x01\x03\x03"])
def test_other_bytes_than_records_end_the_connection(data: bytes) -> None:
    with pytest.raises(UselessRecords):
        RecordDebt().charge(memoryview(data))


@given(st.lists(st.sampled_from([1, 17, 22, 100, 1_500, 16_401]), max_size=10), st.data())
def test_the_parts_in_which_records_arrive_make_no_difference(lengths: list[int], draw: st.DataObject) -> None:
    stream, whole, parts = b"".join(map(record, lengths)), RecordDebt(), RecordDebt()
    try:
        expected = whole.charge(memoryview(stream))
    except UselessRecords:
        expected = -1
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    try:
        bounds = zip([0, *cuts], [*cuts, len(stream)], strict=True)
        found = sum(parts.charge(memoryview(stream[start:end])) for start, end in bounds)
    except UselessRecords:
        found = -1
    assert found == expected


def test_an_api_server_has_no_debt_at_the_end_of_a_large_body() -> None:
    """Also if a reader pauses: 128 KiB can wait in TLS until the data is delivered."""
    records, waiting = RecordDebt(), 0
    for number in range(1_000):
        for length in OF_GO:
            records.charge(memoryview(record(length)))
            waiting += length - 17
        if waiting > 128 << 10 or number == 999:
            records.pay(waiting)
            waiting = 0
    assert records.debt < USELESS_COST


def test_keystrokes_are_no_useless_records() -> None:
    records = RecordDebt()
    for _ in range(1_000):
        records.charge(memoryview(record(18)))
        records.pay(1)
    assert records.debt == 0


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.mark.parametrize("name", USELESS)
def test_a_connection_with_useless_records_ends_before_its_next_request(name: str, served: Running) -> None:
    with RecordClient(served.port, trusting()) as client, RecordClient(served.port, trusting()) as other:
        client.socket.sendall(b"".join(USELESS[name](client)) + client.record(LAST))
        assert client.answer() == b""
        other.socket.sendall(other.record(LAST))
        assert other.answer().startswith(b"HTTP/1.1 404")


def test_a_few_key_updates_are_answered(served: Running) -> None:
    with RecordClient(served.port, trusting()) as client:
        for _ in range(100):
            client.socket.sendall(client.key_update() + client.record(POST % len(REVIEW) + REVIEW))
            assert client.answer().startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sizes", [OF_GO, [16_401]], ids=["small records", "large records"])
def test_a_large_review_in_records_of_any_usual_size_is_answered(sizes: list[int], served: Running) -> None:
    review = body(pod("gold", 1000))
    review += b" " * (3_000_000 - len(review))
    sent = POST % len(review) + review
    with RecordClient(served.port, trusting()) as client:
        while sent:
            for size in sizes:
                client.socket.sendall(client.record(sent[: size - 17]) if sent else b"")
                sent = sent[size - 17 :]
        head, _, answer = client.answer().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(answer)["response"]["uid"]
