"""Runs other programs in directories that they may read, with limits of time, memory and output, and without the
environment of this process.

An environment may contain tokens, and variables that make a program run another one: a program only gets the variables
that its caller names.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from threading import Event
from typing import IO, Final, NamedTuple

from forewarn.policies.inputs.sources.git import upwards, work_trees

REPOSITORY: Final = frozenset((".git", ".hg", ".svn"))
"""Directories with the configuration of a checkout, which may contain credentials."""
_PROGRAMS: Final = ("git", "helm", "kubectl", "kustomize", "sh", "unshare")


class Outside(ValueError):
    """A file that rendering must not read. The text names the file."""


class Trees(NamedTuple):
    """The real paths of the directories that rendering may read."""

    roots: tuple[str, ...]

    @classmethod
    def from_paths(cls, paths: Iterable[str]) -> Trees:
        """The checked directories, and the work trees of git that contain them, but not the home directory."""
        roots = dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isdir(path))
        home = _identities(os.path.expanduser("~"))
        tops = (next(work_trees(root), None) for root in tuple(roots))
        roots |= dict.fromkeys(top for top in tops if top and _identity(top) not in home)
        return cls(tuple(roots))

    def holds(self, path: str) -> bool:
        """True if the target of a path is in a tree, and not in a directory such as .git."""
        with suppress(ValueError):  # a null byte in the path
            steps = [_steps(os.path.realpath(path), root) for root in self.roots]
            return any(below is not None and not REPOSITORY.intersection(map(str.lower, below)) for below in steps)
        return False

    def surround(self, path: str) -> bool:
        """True if the target of a path is below a tree, even in a directory such as .git."""
        real = os.path.realpath(path)
        return any(_steps(real, root) is not None for root in self.roots)

    def resolved(self, path: str) -> str:
        """Return the real path of a file or directory in the trees. Raises Outside."""
        if not self.holds(path):
            is_link = os.path.realpath(path) != os.path.abspath(path)
            what = "link leaves the checked directories" if is_link else "outside of the checked directories"
            raise Outside(f"{os.path.normpath(path)}: {what}")
        return os.path.realpath(path)


def _steps(real: str, root: str) -> list[str] | None:
    """The names from a root to a path; None if the path is not below the root."""
    if real == root:
        return []
    prefix = os.path.join(root, "")
    return real[len(prefix) :].split(os.sep) if real.startswith(prefix) else None


def _identity(path: str) -> tuple[int, int]:
    """The device and number of a file; (0, 0) if there is none."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return 0, 0


def _identities(path: str) -> set[tuple[int, int]]:
    return {identity for identity in map(_identity, upwards(os.path.realpath(path))) if identity != (0, 0)}


def safe_path(trees: Trees) -> str:
    """Return $PATH without relative directories and those with programs of a checked tree, which must not run."""

    def is_safe(directory: str) -> bool:
        programs = (directory, *(os.path.join(directory, name) for name in _PROGRAMS))
        return os.path.isabs(directory) and not any(map(trees.surround, programs))

    return os.pathsep.join(filter(is_safe, os.get_exec_path()))


def find_program(name: str, trees: Trees) -> str:
    """The path of a program outside of the checked trees; "" if there is none."""
    return shutil.which(name, path=safe_path(trees)) or ""


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
"""Runs a program in a network namespace without interfaces; this requires a new user namespace, too."""


class Exceeded(Exception):
    """A program exceeded a limit. The text continues a sentence that begins with its name."""


class Ended(NamedTuple):
    """The result of a program. `complaint`: the end of its error output."""

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
    """Limit the memory and CPU time of a process and of its child processes, on Linux."""
    for what, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        with suppress(AttributeError, OSError, ValueError):  # ValueError: its limit is already lower
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
