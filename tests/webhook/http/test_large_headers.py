"""What comes around a body is bounded, however it comes: in one packet or many, behind another request, trailing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from forewarn.webhook.http.protocol import MAX_HEADER
from tests.webhook.builders import body, pod
from tests.webhook.running import answer_of, is_status, read_answer

if TYPE_CHECKING:
    from ssl import SSLSocket

    from tests.webhook.running import Running

BODY = body(pod("gold", 1000))
LARGE_BODY = BODY + b" " * 300_000


def head(fields: bytes, content: bytes = BODY, path: bytes = b"/validate") -> bytes:
    length = str(len(content)).encode()
    given = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return given + b"Content-Length: " + length + b"\r\n" + fields + b"\r\n"


def padding(size: int, fields: int = 1) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (number, b"x" * (size // fields)) for number in range(fields))


def sent(connection: SSLSocket, data: bytes, step: int) -> tuple[int, dict[str, str], bytes]:
    try:
        for at in range(0, len(data), step):
            connection.sendall(data[at : at + step])
    except OSError:
        pass  # refused before it was all sent
    return read_answer(connection)


@pytest.mark.parametrize("step", [1_000_000, 9_000], ids=["at once", "in pieces"])
@pytest.mark.parametrize("fields", [1, 200], ids=["one field", "many fields"])
@pytest.mark.parametrize("content", [BODY, LARGE_BODY], ids=["small body", "large body"])
def test_a_header_over_64_kib_is_refused_and_one_below_is_not(
    served: Running, step: int, fields: int, content: bytes
) -> None:
    for size, code in ((45_000, 200), (80_000, 431)):
        with served.tls() as connection:
            answer = sent(connection, head(padding(size, fields), content) + content, step)
            assert answer[0] == code
            if code == 431:
                assert f"larger than {MAX_HEADER} bytes" in is_status(answer, 431)["message"]


def test_a_path_over_64_kib_is_refused(served: Running) -> None:
    with served.tls() as connection:
        is_status(sent(connection, head(b"", path=b"/validate?" + b"x" * 80_000) + BODY, 1_000_000), 431)


@pytest.mark.parametrize(("size", "code"), [(45_000, 200), (80_000, 431)])
def test_a_request_behind_another_one_is_measured_by_itself(served: Running, size: int, code: int) -> None:
    first = head(b"", LARGE_BODY) + LARGE_BODY
    with served.tls() as connection:
        connection.sendall(first + head(padding(size)) + BODY)
        told = b""
        while told.count(b"HTTP/1.1 ") < 2 and (more := connection.recv(65_536)):
            told += more
        assert code in map(int, re.findall(rb"HTTP/1.1 (\d+)", told)[-1:])


def test_many_requests_on_one_connection_add_up_to_nothing(served: Running) -> None:
    with served.connect() as connection:
        for _ in range(5):
            connection.request("POST", "/validate", BODY, {"Content-Type": "application/json", "X": "x" * 40_000})
            assert answer_of(connection)[0] == 200


@pytest.mark.parametrize("step", [1_000_000, 9_000], ids=["at once", "in pieces"])
@pytest.mark.parametrize("fields", [1, 200], ids=["one field", "many fields"])
def test_a_trailer_counts_too(served: Running, step: int, fields: int) -> None:
    start = (
        b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"%x\r\n%s\r\n" % (len(BODY), BODY)
    with served.tls() as connection:
        status, _, _ = sent(connection, start + chunk + b"0\r\n" + padding(200_000, fields) + b"\r\n", step)
        assert status == 431 or (step > 9_000 and status == 200)  # all of it was there before it could be refused
    with served.tls() as connection:
        assert sent(connection, start + chunk + b"0\r\n\r\n", step)[0] == 200
    with served.connect() as connection_after:
        connection_after.request("POST", "/validate", BODY, {"Content-Type": "application/json"})
        assert answer_of(connection_after)[0] == 200
