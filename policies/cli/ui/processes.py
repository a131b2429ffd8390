"""Forked processes that answer the questions of pages, within a limit of time and memory.

A process without threads has the cluster, and forks for each question: the new process uses the cluster without a copy,
and may change it. A second process watches it, and kills it if the page disconnects or the time is over. To read the
cluster again, the process forks its successor.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import warnings
from contextlib import suppress
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from forewarn.policies.base.forks import limit_memory, without_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    PrintNotice = Callable[[str], None]
    Run = Callable[[dict[str, Any], PrintNotice], Any]
    """Question and a function that shows the progress -> the answer, as JSON data."""
    Load = Callable[[], tuple[Run, Any]]
    """Reads the cluster; returns the function for questions and what pages show of the cluster, as JSON data. Raises
    Unanswered."""

MORE_MEMORY: Final = 2 << 30
"""Maximum bytes of memory for a question, without the shared memory."""
MAX_BYTES: Final = 64 << 20
"""Maximum bytes of an answer."""
LOAD_SECONDS: Final = 600
"""Maximum seconds to read the cluster."""
BEAT: Final = 0.25
"""Seconds between two checks of the connection of a page."""
_LONG: Final = 30.0
_NICE: Final = 5
"""Niceness of questions with a limit longer than `_LONG` seconds."""
_SAID_EVERY: Final = 0.2
_ASK, _LOAD = b"?", b"L"


class Unanswered(Exception):
    """A question has no answer; the message is for the page."""


class Step(NamedTuple):
    """A message from a process: progress, or the answer at the end; neither if the process is still running."""

    progress: str = ""
    answer: Any = None


class Processes:
    """At most `limit` processes for long questions, and as many for short ones, which do not wait for long ones.

    Create it before the first thread of this process.
    """

    def __init__(self, run: Run, load: Load, limit: int = 2) -> None:
        self._long, self._short = BoundedSemaphore(limit), BoundedSemaphore(limit)
        self._lock = Lock()
        self._ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # numpy's threads hold no Python lock
            self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            _serve(theirs, run, load)
        theirs.close()

    def close(self) -> None:
        """End the process that forks. Questions in progress end at their time limits."""
        self._ours.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def load(self) -> Any:
        """Read the cluster again in a new process, which answers all later questions; returns what pages show of it.

        Raises Unanswered; the earlier cluster then stays.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._hand_over(_LOAD, theirs)
            *_, last = _steps(ours, monotonic() + LOAD_SECONDS)
        except (OSError, Unanswered) as fault:
            ours.close()
            raise fault if isinstance(fault, Unanswered) else Unanswered(_exited(fault)) from None
        ours.settimeout(None)
        with self._lock:
            before, self._ours = self._ours, ours
        before.close()
        return last.answer

    def ask(self, question: dict[str, Any], seconds: float) -> Generator[Step, None, None]:
        """Yield the steps of a question, at least one every BEAT seconds; the last one has the answer. Raises
        Unanswered. Closing the generator kills the process.
        """
        free = self._short if seconds <= _LONG else self._long
        while not free.acquire(timeout=BEAT):
            yield Step("waiting for other questions")
        try:
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    self._hand_over(_ASK, theirs)
                ours.sendall(json.dumps({"seconds": seconds, "question": question}).encode() + b"\n")
                yield Step("computing the answer")
                yield from _steps(ours, monotonic() + seconds)
        except OSError as error:
            raise Unanswered(_exited(error)) from None
        finally:
            free.release()

    def _hand_over(self, word: bytes, connection: socket.socket) -> None:
        with self._lock:
            socket.send_fds(self._ours, [word], [connection.fileno()])


def _exited(error: OSError) -> str:
    return f"the process exited: {error.strerror}"


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
            over = "the time limit is reached. Fix: copy the command, and run it in a terminal"
            why = over if monotonic() >= until else "too large, or out of memory"
            raise Unanswered(f"stopped: {why}")
        data += part
        *lines, rest = data.split(b"\n") if b"\n" in part else [data]
        data = bytearray(rest)
        for line in lines:
            message = json.loads(line)
            if "fault" in message:
                raise Unanswered(message["fault"])
            yield Step(message.get("progress", ""), message.get("answer"))
            if "answer" in message:
                return


def _serve(connections: socket.socket, run: Run, load: Load) -> NoReturn:
    """Fork a process for each connection that arrives, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which closes the connection
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _share_memory()
    status = 1
    try:
        while True:
            word, descriptors, _, _ = socket.recv_fds(connections, 1, 1)
            if not descriptors:
                status = 0
                break
            connection = socket.socket(fileno=descriptors[0])
            with suppress(OSError):
                if os.fork() == 0:
                    connections.close()
                    if word == _ASK:
                        _watch(connection, run)
                    connections, run = connection, _loaded(connection, load)
                    continue
            connection.close()
    finally:
        os._exit(status)


def _loaded(connection: socket.socket, load: Load) -> Run:
    """Return the function for questions about the current cluster. Exits this process if loading fails."""
    signal.alarm(LOAD_SECONDS)
    gc.unfreeze()
    try:
        run, about = load()
        _send(connection, {"answer": about})
    except (Unanswered, MemoryError) as fault:
        is_known = isinstance(fault, Unanswered)
        _send(connection, {"fault": str(fault) if is_known else "the cluster does not fit into the memory"})
        os._exit(0)
    signal.alarm(0)
    _share_memory()
    return run


def _share_memory() -> None:
    """Prevent the garbage collector of forked processes from changing memory pages that they share."""
    gc.collect()
    gc.freeze()


def _watch(connection: socket.socket, run: Run) -> NoReturn:
    """Answer one question in a child process; kill its process group if the page disconnects or the time is over."""
    try:
        os.setsid()
        with connection.makefile("rb") as sent:
            question = json.loads(sent.readline())  # fails if the page disconnects
        ended, alive = os.pipe()
        if os.fork() == 0:
            os.close(ended)
            if question["seconds"] > _LONG:
                os.nice(_NICE)
            limit_memory(MORE_MEMORY)
            _answer(connection, question["question"], run)
        os.close(alive)
        select.select([ended, connection.fileno()], [], [], question["seconds"])
    finally:
        os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _answer(connection: socket.socket, question: dict[str, Any], run: Run) -> NoReturn:
    sent = 0.0

    def print_notice(text: str) -> None:
        nonlocal sent
        if monotonic() - sent >= _SAID_EVERY:
            sent = monotonic()
            _send(connection, {"progress": text})

    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # this process can wait for its children
        without_streams()
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


def _send(connection: socket.socket, value: dict[str, Any]) -> None:
    connection.sendall(json.dumps(value).encode() + b"\n")
