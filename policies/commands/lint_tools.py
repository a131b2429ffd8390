"""Runs helm and kustomize on directories: in parallel, with limits of time and output, with a minimal environment and
without network.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice
from threading import Event
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.commands.render_files import Outside
from forewarn.policies.findings import one_line
from forewarn.policies.forks import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.policies.commands.render_files import Trees

SECONDS: Final = 60.0
"""Maximum seconds of a tool for one directory."""
MAX: Final = 64 << 20
"""Maximum bytes of a tool's output."""
MAX_PARALLEL: Final = 1 << 30
"""Maximum bytes of all tools' output together."""
MEMORY: Final = 2 << 30
"""Maximum bytes of a process's memory."""
_TAIL: Final = 4_000
"""Maximum bytes at the end of a tool's error output that are read."""
_LONGEST: Final = 140
"""Maximum characters of a tool's error in a finding."""
_LEAST: Final = 40
_PAUSE: Final = 0.02
_LOCALE: Final = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")
_ALWAYS: Final = {"HELM_NO_PLUGINS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https"}
_NOWHERE: Final = "http://127.0.0.1:1"
"""A proxy that does not exist."""
_NO_NETWORK: Final = {"GIT_ALLOW_PROTOCOL": "", "HTTP_PROXY": _NOWHERE, "HTTPS_PROXY": _NOWHERE}
_PROGRAMS: Final = ("git", "helm", "kubectl", "kustomize", "sh", "unshare")
_NAMESPACE: Final = ("unshare", "--user", "--net", "--")
"""Runs a program in a network namespace without interfaces, and for that in its own user namespace."""


class Job(NamedTuple):
    """A command that renders a directory. `arguments`: returns those after the command; called with an empty directory
    for files of the job. It raises Outside, OSError. `path`: $PATH of the tool. `variables`: names of other environment
    variables.
    """

    directory: str
    program: str
    command: str
    arguments: Callable[[str], Sequence[str]]
    program_path: str
    path: str
    variables: Sequence[str] = ()
    network: bool = False

    @property
    def called(self) -> str:
        """The name of the tool in errors, for example `helm template`."""
        return f"{self.program} {self.command}"


class Failure(NamedTuple):
    """The reason why a directory could not be rendered. `file`, `line`: its position, if known."""

    why: str
    file: str = ""
    line: int = 1


def safe_path(trees: Trees) -> str:
    """The directories of $PATH, without relative ones and those with programs of checked trees, which must not run."""

    def is_safe(directory: str) -> bool:
        programs = (directory, *(os.path.join(directory, name) for name in _PROGRAMS))
        return os.path.isabs(directory) and not any(map(trees.surround, programs))

    return os.pathsep.join(filter(is_safe, os.get_exec_path()))


def find_program(name: str, trees: Trees) -> str:
    """The path of a program outside of the checked trees; "" if there is none."""
    return shutil.which(name, path=safe_path(trees)) or ""


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
    with (
        tempfile.TemporaryDirectory(prefix="forewarn-", ignore_cleanup_errors=True) as private,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaint,
    ):
        home, temporary, files = (os.path.join(private, name) for name in ("home", "tmp", "files"))
        for directory in (home, temporary, files):
            os.mkdir(directory)
        try:
            command = [*_isolated(job), job.program_path, job.command, *job.arguments(files)]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaint,
                start_new_session=True,
                cwd=home,
                env=_environment(job, home, temporary),
            )
            _limit_memory(process.pid)
        except Outside as fault:
            return Failure(one_line(str(fault)))
        except OSError as fault:
            return Failure(one_line(f"{fault.filename or job.called}: {fault.strerror}"))
        except ValueError as fault:
            return Failure(f"{job.called}: {one_line(str(fault))}")
        try:
            why = _watched(process, stop, output, complaint)
        finally:
            _end(process)
        if why:
            return Failure(f"{job.called} {why}")
        if process.returncode:
            complaint.seek(max(os.fstat(complaint.fileno()).st_size - _TAIL, 0))
            said = complaint.read(_TAIL).decode("utf-8", "replace").replace(os.path.join(files, ""), "")
            return Failure(f"{job.called}: {end_of(said) or f'exit status {process.returncode}'}")
        output.seek(0)
        return output.read(MAX + 1)


def end_of(said: str) -> str:
    """The end of a tool's error, without warnings and hints: it names the cause."""
    lines = (line for line in said.strip().split("\n") if not line.startswith(("# Warning", "Use --debug flag")))
    text = one_line(" ".join(" ".join(lines).split())).replace(os.path.join(os.path.realpath(os.curdir), ""), "")
    text = text.removeprefix("Error: ")
    if len(text) <= _LONGEST:
        return text
    start = text.find(": ", len(text) - _LONGEST)
    return f"…{text[start + 2 :] if 0 < start < len(text) - _LEAST else text[1 - _LONGEST :]}"


def _environment(job: Job, home: str, temporary: str) -> dict[str, str]:
    given = {name: os.environ[name] for name in (*_LOCALE, *job.variables) if name in os.environ}
    limits = _ALWAYS if job.network else {**_ALWAYS, **_NO_NETWORK}
    return {"PATH": job.path, "HOME": home, "TMPDIR": temporary, **limits, **given}


def _isolated(job: Job) -> tuple[str, ...]:
    """The command that starts a tool without network, if the system allows it."""
    if job.network or os.path.basename(os.path.realpath(job.program_path)) == "snap":
        return ()
    return _NAMESPACE if _can_isolate(job.path) else ()


@cache
def _can_isolate(path: str) -> bool:
    try:
        done = subprocess.run((*_NAMESPACE, "true"), env={"PATH": path}, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _limit_memory(process: int) -> None:
    """Limit the memory of a process and of those that it starts, on Linux."""
    with suppress(AttributeError, OSError, ValueError):  # ValueError: its limit is lower
        resource.prlimit(process, resource.RLIMIT_DATA, (MEMORY, MEMORY))


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
