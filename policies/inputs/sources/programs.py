"""Runs other programs, with limits of time, memory and output, and without the environment of this process.

An environment may contain tokens, and variables that make a program run another one: a program only gets the variables
that its caller names.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from threading import Event
from typing import IO, Final, NamedTuple

SECONDS: Final = 60
"""Maximum seconds of CPU time of a process, on Linux."""
WALL: Final = 300.0
"""Maximum seconds of a program, which may wait for a processor."""
MAX: Final = 64 << 20
"""Maximum bytes of a program's output."""
MEMORY: Final = 2 << 30
"""Maximum bytes of a process's memory."""
_TAIL: Final = 4_000
"""Maximum bytes at the end of a program's error output that are read."""
_PAUSE: Final = 0.02
LOCALE: Final = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")
NO_NETWORK: Final = ("unshare", "--user", "--net", "--")
"""Runs a program in a network namespace without interfaces, and for that in its own user namespace."""


class Exceeded(Exception):
    """A program exceeded a limit. The text continues a sentence that begins with its name."""


class Ended(NamedTuple):
    """What a program did. `complaint`: the end of its error output."""

    status: int
    output: bytes
    complaint: str


def inherited(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names from the environment of this process."""
    return {name: os.environ[name] for name in names if name in os.environ}


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    *,
    stdin: bytes = b"",
    limit: int = 0,
    stop: Event | None = None,
) -> Ended:
    """Run a program in a directory until it ends. Raises OSError, ValueError (a null byte in an argument), Exceeded.

    `environment`: all variables of the program. `stdin`: its standard input. `limit`: maximum bytes of output; 0: MAX.
    `stop`: ends the program early.
    """
    limit = limit or MAX
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaint:
        source.write(stdin)
        source.seek(0)
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=output,
            stderr=complaint,
            start_new_session=True,
            cwd=directory,
            env=dict(environment),
        )
        try:
            _limit(process.pid)
            _wait(process, stop or Event(), limit, output, complaint)
        finally:
            _end(process)
        if process.returncode == -signal.SIGKILL:
            raise Exceeded(f"was killed: more than {SECONDS} s of CPU time, or out of memory")
        output.seek(0)
        complaint.seek(max(os.fstat(complaint.fileno()).st_size - _TAIL, 0))
        return Ended(process.returncode, output.read(limit), complaint.read(_TAIL).decode("utf-8", "replace"))


@cache
def without_network(path: str) -> tuple[str, ...]:
    """Return the command that starts a program without network; () if the system does not allow it. `path`: $PATH."""
    with suppress(OSError, Exceeded):
        if run_program((*NO_NETWORK, "true"), {"PATH": path}, os.sep).status == 0:
            return NO_NETWORK
    return ()


def _limit(process: int) -> None:
    """Limit the memory and CPU time of a process and of those that it starts, on Linux."""
    for what, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        with suppress(AttributeError, OSError, ValueError):  # ValueError: its limit is lower
            resource.prlimit(process, what, (most, most))


def _wait(process: subprocess.Popen[bytes], stop: Event, limit: int, *files: IO[bytes]) -> None:
    """Wait for the end of a program. Raises Exceeded."""
    until = time.monotonic() + WALL
    while process.poll() is None:
        if time.monotonic() > until:
            raise Exceeded(f"takes more than {WALL:.0f} s")
        if stop.is_set():
            raise Exceeded("was stopped")
        if any(os.fstat(file.fileno()).st_size > limit for file in files):
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
    if any(os.fstat(file.fileno()).st_size > limit for file in files):
        raise Exceeded(f"prints more than {limit >> 20} MiB")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all processes that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
