"""Forked processes that answer the questions of pages, within a limit of time and memory.

A process without threads has the cluster, and forks for each question: the new process uses the cluster without a copy,
and may change it. A second process watches it, and kills it if the page disconnects or the time is over.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import warnings
from contextlib import suppress
from threading import BoundedSemaphore
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Say = Callable[[str], None]
    Run = Callable[[dict[str, Any], Say], Any]
    """Question and a function that shows the progress -> the answer, as JSON data."""

MORE_MEMORY: Final = 2 << 30
"""Maximum bytes of memory for a question, without the shared memory."""
MAX_BYTES: Final = 64 << 20
"""Of an answer."""
BEAT: Final = 0.25
"""Seconds between two looks at the connection of a page."""
_LONG: Final = 30.0
_NICE: Final = 5
"""Niceness of questions with a limit longer than `_LONG` seconds."""
_PAGE: Final = resource.getpagesize()
_SAID_EVERY: Final = 0.2


class Unanswered(Exception):
    """Why a question has no answer: a message for the page."""


class Step(NamedTuple):
    """What a process sends: its progress, or its answer at the end (both may be missing: it still runs)."""

    progress: str = ""
    answer: Any = None


class Processes:
    """At most `most` processes for long questions, and as many for short ones, which do not wait for long ones.

    Create it before the first thread of this process.
    """

    def __init__(self, run: Run, most: int = 2) -> None:
        self._long, self._short = BoundedSemaphore(most), BoundedSemaphore(most)
        self._ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy, which hold no lock of Python
            self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            _serve(theirs, run)
        theirs.close()

    def close(self) -> None:
        """End the process that forks; questions that run then end themselves at their time limits."""
        self._ours.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def ask(self, question: dict[str, Any], seconds: float) -> Generator[Step, None, None]:
        """The steps of a question, at least one each BEAT; the last one has the answer. Raises Unanswered.

        A generator that is closed kills the process.
        """
        free = self._short if seconds <= _LONG else self._long
        while not free.acquire(timeout=BEAT):
            yield Step("waiting for other questions")
        try:
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    self._hand_over(theirs)
                ours.sendall(json.dumps({"seconds": seconds, "question": question}).encode() + b"\n")
                yield from _steps(ours, monotonic() + seconds)
        except OSError as error:
            raise Unanswered(f"the process exited: {error.strerror}") from None
        finally:
            free.release()

    def _hand_over(self, connection: socket.socket) -> None:
        socket.send_fds(self._ours, [b"?"], [connection.fileno()])


def _steps(connection: socket.socket, until: float) -> Iterator[Step]:
    connection.settimeout(BEAT)
    data, size = bytearray(), 0
    while True:
        try:
            part = connection.recv(1 << 16)
        except TimeoutError:
            yield Step()
            continue
        size += len(part)
        if not part or size > MAX_BYTES:
            staleness = monotonic() >= until
            raise Unanswered(
                "stopped: the time limit is reached" if staleness else "stopped: too large, or out of memory"
            )
        data += part
        *lines, rest = data.split(b"\n") if b"\n" in part else [data]
        data = bytearray(rest)
        for line in lines:
            said = json.loads(line)
            if "fault" in said:
                raise Unanswered(said["fault"])
            yield Step(said.get("progress", ""), said.get("answer"))
            if "answer" in said:
                return


def _serve(asked: socket.socket, run: Run) -> NoReturn:
    """Fork for each connection that arrives, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which closes the connection
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    status = 1
    try:
        while True:
            _, found, _, _ = socket.recv_fds(asked, 1, 1)
            if not found:
                status = 0
                break
            connection = socket.socket(fileno=found[0])
            with suppress(OSError):
                if os.fork() == 0:
                    asked.close()
                    _watch(connection, run)
            connection.close()
    finally:
        os._exit(status)


def _watch(connection: socket.socket, run: Run) -> NoReturn:
    """Answer one question in another process, which is killed with its own if the page disconnects or time is over."""
    try:
        os.setsid()
        asked = json.loads(_line(connection))
        ended, alive = os.pipe()
        if os.fork() == 0:
            os.close(ended)
            if asked["seconds"] > _LONG:
                os.nice(_NICE)
            _answer(connection, asked["question"], run)
        os.close(alive)
        select.select([ended, connection.fileno()], [], [], asked["seconds"])
    finally:
        os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _answer(connection: socket.socket, question: dict[str, Any], run: Run) -> NoReturn:
    sent = monotonic()

    def print_notice(text: str) -> None:
        nonlocal sent
        if monotonic() - sent >= _SAID_EVERY:
            sent = monotonic()
            _send(connection, {"progress": text})

    try:
        _limit()
        try:
            _send(connection, {"answer": run(question, print_notice)})
        except Unanswered as fault:
            _send(connection, {"fault": str(fault)})
        except MemoryError:
            _send(connection, {"fault": "stopped: out of memory"})
        except Exception as fault:
            _send(connection, {"fault": f"internal error, please report it: {type(fault).__name__}"})
    finally:
        os._exit(0)


def _limit() -> None:
    """Bound the memory. Nothing is printed, and processes can be waited for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    with suppress(OSError, ValueError), open("/proc/self/statm") as statm:
        most = int(statm.read().split()[0]) * _PAGE + MORE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _line(connection: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n"):
        part = connection.recv(1 << 16)
        if not part:
            raise EOFError("the page disconnected")
        data += part
    return bytes(data)


def _send(connection: socket.socket, value: dict[str, Any]) -> None:
    connection.sendall(json.dumps(value).encode() + b"\n")
