"""Runs helm and kustomize on directories: in parallel, with limits of time and output, without plugins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from threading import Event
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.commands.forks import cores
from forewarn.policies.findings import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECONDS: Final = 60.0
"""Maximum seconds of a tool for one directory."""
MAX: Final = 64 << 20
"""Maximum bytes of a tool's output."""
MAX_PARALLEL: Final = 1 << 30
"""Maximum bytes of all tools' output together."""
_PAUSE: Final = 0.02
_ENVIRONMENT: Final = {"HELM_NO_PLUGINS": "1", "GIT_TERMINAL_PROMPT": "0"}


class Job(NamedTuple):
    """A command that renders a directory."""

    directory: str
    program: str
    arguments: tuple[str, ...]

    @property
    def called(self) -> str:
        """The name of the tool in errors, for example `helm template`."""
        return f"{self.program} {self.arguments[0]}"


class Failure(NamedTuple):
    """The reason why a directory could not be rendered."""

    why: str


def missing(jobs: Sequence[Job]) -> list[str]:
    """The programs of these jobs that are not installed."""
    return [program for program in dict.fromkeys(job.program for job in jobs) if shutil.which(program) is None]


def run(jobs: Sequence[Job]) -> Iterator[tuple[Job, bytes | Failure]]:
    """Yield the output or failure of each job in order, running one per core at a time."""
    if not jobs:
        return
    stop, left, to_do = Event(), MAX_PARALLEL, iter(jobs)
    with ThreadPoolExecutor(cores()) as pool:
        started = deque((job, pool.submit(_run, job, stop)) for job in islice(to_do, 2 * cores()))
        try:
            while started:
                job, future = started.popleft()
                found = future.result()
                if (following := next(to_do, None)) is not None:
                    started.append((following, pool.submit(_run, following, stop)))
                if isinstance(found, bytes):
                    left -= len(found)
                yield job, found if left >= 0 else Failure(f"more than {MAX_PARALLEL >> 20} MiB of rendered output")
        finally:
            stop.set()


def _run(job: Job, stop: Event) -> bytes | Failure:
    """The output of a tool, or its failure, within limits of time and size."""
    command = [shutil.which(job.program) or job.program, *job.arguments]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaint:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaint,
                start_new_session=True,
                env={**os.environ, **_ENVIRONMENT},
            )
        except (OSError, ValueError) as fault:
            return Failure(f"{job.called}: {one_line(str(fault))}")
        try:
            why = _watched(process, stop, output, complaint)
        finally:
            _end(process)
        if why:
            return Failure(f"{job.called} {why}")
        if process.returncode:
            complaint.seek(0)
            error_text = one_line(cut(complaint.read(2_000).decode("utf-8", "replace").strip(), 500))
            return Failure(f"{job.called}: exit status {process.returncode}: {error_text}")
        output.seek(0)
        return output.read(MAX + 1)


def _watched(process: subprocess.Popen[bytes], stop: Event, *files: IO[bytes]) -> str:
    """Wait for the end of a tool; returns the exceeded limit, or ""."""
    until = time.monotonic() + SECONDS
    while process.poll() is None:
        if time.monotonic() > until:
            return f"takes more than {SECONDS:.0f} s"
        if stop.is_set() or any(os.fstat(file.fileno()).st_size > MAX for file in files):
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
    if any(os.fstat(file.fileno()).st_size > MAX for file in files):
        return f"prints more than {MAX >> 20} MiB"
    return "was stopped" if stop.is_set() and process.poll() is None else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool and all processes that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
