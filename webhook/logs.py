"""Structured logs: one JSON object per line on stderr, also for uvicorn. In a Pod, the process prints nothing else.

Requests do not wait for the reader of the log: lines go through a bounded queue to a separate thread. Lines that do not
fit are dropped and counted.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from threading import Event, Thread, current_thread
from time import monotonic, sleep, time
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from forewarn.policies.base.findings import one_line

T = TypeVar("T")
LOGGER: Final = logging.getLogger("forewarn")
MAX_WAITING: Final = 8192
"""Maximum number of queued lines."""
MAX_TEXT: Final = 1024
"""Maximum characters of one text in a line: names and user names come from requests."""
MAX_TRACEBACK: Final = 16_384
_GATHER_SECONDS: Final = 0.01
"""Seconds to collect lines for one write."""
_LAST_SECONDS: Final = 2.0
"""Seconds to wait for the last lines at exit."""
_WRITTEN: Final = 64 * 1024
_NOT_JSON: Final = orjson.OPT_NON_STR_KEYS


class _Line(NamedTuple):
    """A log line. `at`: seconds since 1970."""

    at: float
    level: int
    message: str
    fields: Mapping[str, object]
    traceback: str = ""


class LogWriter:
    """Writes lines to a file descriptor on a separate thread. `put` is thread-safe and never blocks.

    A blocked reader of the log blocks only that thread. Lines beyond `limit` are dropped and counted in `dropped`; a
    log line reports their number later.
    """

    def __init__(self, descriptor: int, limit: int = MAX_WAITING) -> None:
        self._descriptor, self._limit = descriptor, limit
        self._lines: deque[_Line] = deque()
        self._awake, self._stopping, self._done = Event(), Event(), Event()
        self.dropped = 0
        """Number of lines that were never written."""
        self.when_dropped: Callable[[], object] = lambda: None
        """Called for each line that is dropped."""
        self._logged = 0
        Thread(target=self._run, name="log", daemon=True).start()

    def put(self, line: _Line) -> None:
        """Queue one line, or drop the line if the queue is full; after `stop`, write the line immediately."""
        if self._done.is_set():
            with suppress(OSError):
                os.write(self._descriptor, encode(line))
            return
        if len(self._lines) >= self._limit:
            self.dropped += 1
            self.when_dropped()
            return
        self._lines.append(line)
        if not self._awake.is_set():
            self._awake.set()

    def stop(self, seconds: float = _LAST_SECONDS) -> bool:
        """Write the queued lines within `seconds`; return whether all lines were written."""
        self._stopping.set()
        self._awake.set()
        return self._done.wait(seconds)

    def _run(self) -> None:
        while not (self._stopping.is_set() and not self._lines):
            self._awake.wait()
            if not self._stopping.is_set():
                sleep(_GATHER_SECONDS)
            self._awake.clear()
            try:
                self._write()
            except OSError:
                self._lines.clear()  # there is no reader to report this to
        self._done.set()

    def _write(self) -> None:
        while self._lines:
            if self.dropped > self._logged:
                lost, self._logged = self.dropped - self._logged, self.dropped
                self._lines.appendleft(_Line(time(), logging.WARNING, "log lines dropped", {"lines": lost}))
            text = bytearray()
            while self._lines and len(text) < _WRITTEN:
                text += encode(self._lines.popleft())
            view = memoryview(text)
            while view:
                view = view[os.write(self._descriptor, view) :]


def encode(line: _Line) -> bytes:
    """Return the line as JSON with a line break, in ASCII, so that a terminal executes no control sequences."""
    fields: dict[str, Any] = {
        "time": f"{_second(int(line.at))}.{int(line.at % 1 * 1000):03d}+00:00",
        "level": logging.getLevelName(line.level).lower(),
        "message": _short(line.message),
        **{key: _short(value) for key, value in line.fields.items()},
    }
    if line.traceback:
        fields["traceback"] = line.traceback[-MAX_TRACEBACK:]
    try:
        text = orjson.dumps(fields, default=str, option=_NOT_JSON)
        if text.isascii() and b"\x7f" not in text:
            return text + b"\n"
    except TypeError:
        pass  # the text has lone surrogates, or numbers beyond 64 bits
    return json.dumps(fields, separators=(",", ":"), default=str).replace("\x7f", "\\u007f").encode() + b"\n"


@lru_cache(maxsize=1)
def _second(at: int) -> str:
    """Return a time in ISO 8601 (UTC). Cached, because most lines are of the same second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    return value


class _Handler(logging.Handler):
    """Puts records of the logging module (uvicorn, libraries, tracebacks) into the queue of the LogWriter."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record."""
        traceback = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        fields = getattr(record, "fields", {})
        self._writer.put(_Line(record.created, record.levelno, record.getMessage(), fields, traceback))


LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""Values of `--log-level`. Not debug, because debug lines of libraries can contain tokens."""
_writer: LogWriter | None = None


def is_in_a_pod(environment: Mapping[str, str]) -> bool:
    """Report whether this process runs in a Pod: the kubelet sets KUBERNETES_SERVICE_HOST in every container."""
    return "KUBERNETES_SERVICE_HOST" in environment


def log_to_stderr(environment: Mapping[str, str]) -> Callable[[], object]:
    """Send the logs of this process to stderr; return a function that writes the remaining lines.

    Each command calls this function once; in a Pod, before any other step. In a Pod (by `environment`), everything that
    the process prints becomes a log line: usage errors, Python warnings, tracebacks.
    """
    global _writer
    writer = _writer = LogWriter(sys.stderr.fileno())
    handler = _Handler(writer)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # forewarn logs invalid HTTP itself
    if is_in_a_pod(environment):
        _log_all_output(sys.stderr.fileno())

    def end() -> None:
        global _writer
        writer.stop()
        if not is_in_a_pod(environment):  # in a Pod, the process ends then, and its last error is also a JSON line
            logging.getLogger().removeHandler(handler)
            _writer = None

    return end


def with_logs(parse: Callable[[], T], run: Callable[[T], int]) -> int:
    """Run a command with its parsed options, and its logs on stderr: in a Pod from the start, otherwise once the
    options are parsed. Returns the exit status.
    """
    write_last_lines = log_to_stderr(os.environ) if is_in_a_pod(os.environ) else None
    try:
        options = parse()
        write_last_lines = write_last_lines or log_to_stderr(os.environ)
        return run(options)
    finally:
        if write_last_lines is not None:
            write_last_lines()


def use_level(name: str) -> None:
    """Set the minimum level of log lines (one of `LEVELS`)."""
    logging.getLogger().setLevel(LEVELS[name])


def _log_all_output(descriptor: int) -> None:
    logging.captureWarnings(True)
    sys.stdout, sys.stderr = _Output(descriptor, logging.INFO), _Output(descriptor, logging.ERROR)
    sys.excepthook = lambda _, error, __: _log_fault("unhandled exception, the process exits", error)
    sys.unraisablehook = lambda fault: _log_fault("unraisable exception ignored", fault.exc_value)
    threading.excepthook = lambda fault: _log_fault(
        f"unhandled exception, the thread exits: {(fault.thread or current_thread()).name}", fault.exc_value
    )


def _log_fault(what: str, error: BaseException | None) -> None:
    LOGGER.error(what, exc_info=error)


class _Output(io.TextIOBase):
    """Standard output or error of a process in a Pod: each printed line becomes a log line."""

    def __init__(self, descriptor: int, level: int) -> None:
        super().__init__()
        self._descriptor, self._level, self._rest = descriptor, level, ""

    def write(self, text: str) -> int:
        """Log all complete lines, and buffer the rest."""
        *lines, self._rest = f"{self._rest}{text}".split("\n")
        if len(self._rest) > MAX_TEXT:
            lines, self._rest = [*lines, self._rest], ""
        for line in lines:
            if line.strip() and logging.getLogger().isEnabledFor(self._level):
                self._log(line)
        return len(text)

    def fileno(self) -> int:
        return self._descriptor

    def _log(self, line: str) -> None:
        new_line = _Line(time(), self._level, line, {})
        if _writer is not None:
            _writer.put(new_line)
        else:  # in a forked process
            with suppress(OSError):
                os.write(self._descriptor, encode(new_line))


def count_dropped(count: Callable[[], object]) -> None:
    """Set the function to call for each dropped line."""
    if _writer is not None:
        _writer.when_dropped = count


def silence() -> None:
    """Stop logging in a forked process, which has no writer thread."""
    global _writer
    _writer = None
    logging.disable(logging.CRITICAL)


def log_event(message: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
    """Log one event with its fields."""
    if _writer is None:
        LOGGER.log(level, message, extra={"fields": fields})
    elif LOGGER.isEnabledFor(level):
        _writer.put(_Line(time(), level, message, fields))


def log_cannot_start(fault: object) -> None:
    """Log why the process ends before it serves."""
    log_event(f"cannot start: {one_line(str(fault))}", {}, logging.ERROR)


class RareEvents:
    """Logs events that any client can cause: at most `limit` per second, plus the number of unlogged events."""

    def __init__(self, limit: int = 10, clock: Callable[[], float] = monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._second, self._count = 0, 0

    def log(self, message: str, fields: Mapping[str, object], level: int = logging.WARNING) -> None:
        """Log one event, or count it as unlogged."""
        second = int(self._clock())
        omitted = 0
        if second != self._second:
            omitted = max(0, self._count - self._limit)
            self._second, self._count = second, 0
        self._count += 1
        if self._count <= self._limit:
            log_event(message, {**fields, "not_logged": omitted} if omitted else fields, level)
