"""Forked processes for long predictions: they use the cluster state without copying it.

A forked process shares each page of memory with the webhook until one of them writes to the page. A process evaluates
requests on the state at the time of the fork, one after the other, and ends when a newer state exists, or after
LINGER_SECONDS without a request. forewarn kills a process that misses its deadline, so a request uses at most its own
time and a bounded amount of memory.

The evaluating thread forks between two evaluations: no other thread then holds a lock that the new process needs.
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

from forewarn.webhook.admission.lanes import Cost, Lane
from forewarn.webhook.logs import silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

MORE_MEMORY: Final = 384 * 1024 * 1024
"""Maximum bytes of memory for a prediction, without the shared memory."""
GRACE_SECONDS: Final = 0.03
"""Seconds after its deadline at which a process without an answer is killed."""
LINGER_SECONDS: Final = 0.5
"""Seconds that a process waits for another request: /validate follows /mutate, and reuses its results."""
_FORK_SECONDS: Final = 1.0
_NICE: Final = 5
"""The niceness of a prediction process: the webhook's own process gets the CPU first."""
_INSTANT: Final = 0.001
_LENGTH: Final = struct.Struct("!I")
_MAX_DESCRIPTOR: Final = 1 << 16
"""More than any open one, whatever the limit: an old kernel closes all of these one by one."""
_PAGE: Final = resource.getpagesize()


class Unanswered(Exception):
    """The prediction process gave no answer; the message contains the reason."""


class PredictionProcess:
    """One forked process, used by one thread."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        """Fork the process. Raises OSError if the fork fails.

        `run`: computes the answer to a question; both must be picklable.
        """
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
        """The process's answer to a question. `until`: deadline on the monotonic clock. Raises Unanswered."""
        try:
            _send(self._socket, question, until + GRACE_SECONDS)
            return _receive(self._socket, until + GRACE_SECONDS)
        except TimeoutError:
            raise Unanswered("timed out") from None
        except (OSError, EOFError) as error:
            raise Unanswered(f"the prediction process exited: {error}") from None

    def end(self) -> None:
        """Kill the process."""
        self._socket.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Predictors:
    """Prediction processes for the current state: at most `processes`, with at most `most` queued questions.
    Thread-safe.

    `evaluating`: the queue whose thread forks.
    """

    def __init__(self, evaluating: Lane, processes: int = 1, most: int = 16) -> None:
        self._evaluating = evaluating
        self._local = local()
        self.lane = Lane("prediction", most, threads=processes, idle=self._end, idle_seconds=LINGER_SECONDS)
        """The queue of questions; its functions may call `ask`."""

    def ask(self, question: object, until: float, state: tuple[object, ...], run: Callable[[Any], Any]) -> Any:
        """Return the answer to a question, from a process that was forked with this state. Raises Unanswered.

        Forks a process if necessary. States are compared by identity. Call only from the threads of `lane`.
        """
        process = self._process(state, run, until)
        try:
            return process.ask(question, until)
        except Unanswered:
            self._end()
            raise

    def stop(self) -> None:
        self.lane.stop()

    def _process(self, state: tuple[object, ...], run: Callable[[Any], Any], until: float) -> PredictionProcess:
        current: PredictionProcess | None = getattr(self._local, "process", None)
        if current is not None:
            if all(a is b for a, b in zip(self._local.state, state, strict=True)):
                return current
            self._end()
        if monotonic() >= until:
            raise Unanswered("timed out in the queue")
        process = forked_by(self._evaluating, run)
        self._local.process, self._local.state = process, state
        return process

    def _end(self) -> None:
        process = getattr(self._local, "process", None)
        if process is not None:
            self._local.process = self._local.state = None
            process.end()


def forked_by(evaluating: Lane, run: Callable[[Any], Any], seconds: float = _FORK_SECONDS) -> PredictionProcess:
    """A process that the evaluating thread forks between two requests. Raises Unanswered after `seconds`."""
    forked: Future[PredictionProcess] | None = evaluating.submit(Cost.RULES, lambda: PredictionProcess(run))
    if forked is None:
        raise Unanswered("the queue is full")
    try:
        return forked.result(seconds)
    except Exception as error:
        forked.add_done_callback(_end_unused)
        raise Unanswered(f"cannot fork a process: {error}") from error


def _end_unused(forked: Future[PredictionProcess]) -> None:
    """Kill a process that was forked too late for its caller."""
    if not forked.cancelled() and forked.exception() is None:
        forked.result().end()


def _serve(requests: socket.socket, run: Callable[[Any], Any]) -> None:
    """Answer questions until the webhook closes the socket: the forked process's main loop. Never returns."""
    status = 1
    try:
        _become_a_process(requests.fileno())
        while True:
            question = _receive(requests, None)
            _send(requests, run(question), None)
    except EOFError:
        status = 0
    except BaseException:
        status = 1
    finally:
        os._exit(status)


def _become_a_process(descriptor: int) -> None:
    """Make the forked process independent: no logs, default signals, and no file descriptor except `descriptor`.

    Otherwise the webhook's connections would stay open after the webhook closes them.
    """
    silence()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, _MAX_DESCRIPTOR)
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


def _cached_properties() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith("forewarn."):
            for classes in list(vars(module).values()):
                if isinstance(classes, type) and classes.__module__ == name:
                    yield from (value for value in vars(classes).values() if isinstance(value, cached_property))


def _send(to: socket.socket, value: object, until: float | None) -> None:
    """Send a value. Raises TimeoutError after `until`."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    to.settimeout(None if until is None else max(until - monotonic(), _INSTANT))
    to.sendall(_LENGTH.pack(len(data)) + data)


def _receive(of: socket.socket, until: float | None) -> Any:
    """The next value from a socket. Raises EOFError at the end, TimeoutError after `until`."""
    (length,) = _LENGTH.unpack(_read(of, _LENGTH.size, until))
    return pickle.loads(_read(of, length, until))  # of our own making


def _read(of: socket.socket, size: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if until is not None:
            of.settimeout(max(_INSTANT, until - monotonic()))
        part = of.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError("the process sent no more data")
        data += part
        if until is not None and monotonic() >= until and len(data) < size:
            raise TimeoutError
    return bytes(data)
