"""Processes of their own for predictions that take long: forked, so that they have the cluster state without a copy.

A forked process shares every page of memory with the one that answers until either writes to it (as Redis saves its
snapshots). It answers for the state that it was forked with, one question after the other, and ends as soon as there is
another state, or nobody has asked for a moment. One that does not answer in time is killed: whatever a request holds,
it costs no more than its own time, and memory up to a bound.

The fork is made by the thread that judges, between two requests: no other thread holds anything then that the new
process needs.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import warnings
from contextlib import suppress
from functools import cached_property
from threading import RLock, local
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from policies import WITHIN
from webhook.admission.lanes import Cost, Lane
from webhook.logs import silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

MORE_MEMORY: Final = 384 * 1024 * 1024
"""Bytes that a prediction may take beside what it shares."""
GRACE_SECONDS: Final = 0.03
"""Past its deadline a process that has not answered is killed."""
LINGER_SECONDS: Final = 0.5
"""How long a process waits for another question: /validate asks right after /mutate, and shares what was worked out."""
_FORK_SECONDS: Final = 1.0
_NICE: Final = 5
"""Who answers comes before who predicts."""
_LENGTH: Final = struct.Struct("!I")
_PAGE: Final = resource.getpagesize()


class Unanswered(Exception):
    """The process was killed, or has ended: why."""


class PredictionProcess:
    """One forked process. One thread asks it."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        """`run`: question -> answer, both of which can be pickled. Raises OSError where there is no process to have."""
        ours, theirs = socket.socketpair()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # other threads: see above
                self.pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if self.pid == 0:
            _serve(theirs, run)
        theirs.close()
        self._socket = ours

    def ask(self, question: object, until: float) -> Any:
        """The answer. `until`: on the monotonic clock. Raises Unanswered."""
        try:
            _send(self._socket, question)
            return _receive(self._socket, until + GRACE_SECONDS)
        except TimeoutError:
            raise Unanswered("timed out") from None
        except (OSError, EOFError) as error:
            raise Unanswered(f"the prediction process exited: {error}") from None

    def end(self) -> None:
        """Kill it."""
        self._socket.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Predictors:
    """Up to `processes` prediction processes at a time, for the state of the moment; `most` questions wait at most.

    `judging` is the lane whose thread forks. Safe from any thread.
    """

    def __init__(self, judging: Lane, processes: int = 1, most: int = 16) -> None:
        self._judging = judging
        self._local = local()
        self.lane = Lane("prediction", most, threads=processes, idle=self._end, idle_seconds=LINGER_SECONDS)
        """Where questions wait: what is submitted to it may call `ask`."""

    def ask(self, question: object, until: float, state: tuple[object, ...], run: Callable[[Any], Any]) -> Any:
        """The answer to a question about a state, by a process that was forked when that state was in force.

        States are compared by identity. Raises Unanswered. Called on the lane's threads alone.
        """
        process = self._process(state, run, until)
        try:
            return process.ask(question, until)
        except Unanswered:
            self._end()
            raise

    def stop(self) -> None:
        """Take no more questions."""
        self.lane.stop()

    def _process(self, state: tuple[object, ...], run: Callable[[Any], Any], until: float) -> PredictionProcess:
        current: PredictionProcess | None = getattr(self._local, "process", None)
        if current is not None:
            if all(a is b for a, b in zip(self._local.state, state, strict=True)):
                return current
            self._end()
        if monotonic() >= until:
            raise Unanswered("timed out in the queue")
        process = forked_by(self._judging, run)
        self._local.process, self._local.state = process, state
        return process

    def _end(self) -> None:
        process = getattr(self._local, "process", None)
        if process is not None:
            self._local.process = self._local.state = None
            process.end()


def forked_by(judging: Lane, run: Callable[[Any], Any], seconds: float = _FORK_SECONDS) -> PredictionProcess:
    """A process that the judging thread forks, between two requests, within so many seconds. Raises Unanswered."""
    forked: Future[PredictionProcess] | None = judging.submit(Cost.RULES, lambda: PredictionProcess(run))
    if forked is None:
        raise Unanswered("the queue is full")
    try:
        return forked.result(seconds)
    except Exception as error:
        forked.add_done_callback(_end_late)
        raise Unanswered(f"cannot fork a process: {error}") from error


def _end_late(forked: Future[PredictionProcess]) -> None:
    """End a process for which nobody waits any more."""
    if not forked.cancelled() and forked.exception() is None:
        forked.result().end()


def _serve(asked: socket.socket, run: Callable[[Any], Any]) -> None:
    """All that the forked process does. Never returns."""
    status = 1
    try:
        _become_a_process(asked.fileno())
        while True:
            question = _receive(asked, None)
            _send(asked, run(question))
    except EOFError:
        status = 0
    except BaseException:
        status = 1
    finally:
        os._exit(status)


def _become_a_process(kept: int) -> None:
    """Let go of what belongs to who answers: its connections above all, which must end when it ends them."""
    silence()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, _most_descriptors())
    gc.freeze()  # a look at what is shared would copy it
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    with suppress(OSError, ValueError), open("/proc/self/statm") as statm:
        most = int(statm.read().split()[0]) * _PAGE + MORE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for attribute in _cached_properties():
        if hasattr(attribute, "lock"):
            attribute.lock = RLock()  # Python 3.11 locks them, and a thread that is not here may have held one


def _most_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def _cached_properties() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith((f"{WITHIN}policies", f"{WITHIN}webhook")):
            for found in list(vars(module).values()):
                if isinstance(found, type) and found.__module__ == name:
                    yield from (value for value in vars(found).values() if isinstance(value, cached_property))


def _send(to: socket.socket, value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    to.settimeout(None)
    to.sendall(_LENGTH.pack(len(data)) + data)


def _receive(of: socket.socket, until: float | None) -> Any:
    """The next value. Raises EOFError at the end, TimeoutError past `until`."""
    (length,) = _LENGTH.unpack(_read(of, _LENGTH.size, until))
    return pickle.loads(_read(of, length, until))  # of our own making


def _read(of: socket.socket, size: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if until is not None:
            of.settimeout(max(0.001, until - monotonic()))
        part = of.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError("the process sent no more data")
        data += part
        if until is not None and monotonic() >= until and len(data) < size:
            raise TimeoutError
    return bytes(data)
