"""Writes files atomically, and never through a symbolic link of a working tree.

A checkout may be hostile: a link `report.json -> ~/.ssh/authorized_keys` would make a report overwrite the target.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

from forewarn.policies.light import later
from forewarn.policies.sources.errors import SourceError, reason

_OPEN_STREAM: Final = later(r"/dev/(?:(stdout)|(stderr)|fd/(\d{1,6}))|/proc/self/fd/(\d{1,6})")
_DIRECTORY: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
"""Maximum number of links to resolve. Source: Linux, MAXSYMLINKS."""
_FIXES: Final = {
    errno.ENOENT: "create its directory",
    errno.ENOTDIR: "pass a file in an existing directory",
    errno.EISDIR: "pass a file",
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "free space on that disk",
}


class _Link(Exception):
    """The path contains a symbolic link that is not followed; the message gives the fix."""


@contextmanager
def output_file(path: str, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Yield a stream to write to; when the block ends without an error, its content replaces the file. Raises
    SourceError.

    An existing file keeps its permissions, unless `mode` is given. Pipes, devices, and open descriptors such as
    /dev/stdout and /dev/fd/3 are written directly. Raises SourceError for a file that is a symbolic link, and for a
    directory of the path that is a symbolic link inside the working directory or a git work tree.
    """
    with _faults_named(path):
        handle = _descriptor_of(path)
        if handle is not None:
            with open(handle, "wb") as stream:
                yield stream
            return
        directory, name = _parent(path)
        try:
            with _replaced(directory, name, mode) as stream:
                yield stream
        finally:
            os.close(directory)


def write_file(path: str, data: bytes) -> None:
    """Replace the content of a file. Raises SourceError."""
    with output_file(path) as stream:
        stream.write(data)


def append_file(path: str, data: bytes) -> None:
    """Append to a file that other processes also write to. Raises SourceError."""
    with _faults_named(path), open(os.open(path, _FILE | os.O_APPEND | os.O_CREAT, 0o666), "ab") as stream:
        stream.write(data)


@contextmanager
def _faults_named(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        fix = _FIXES.get(fault.errno or 0, "pass a file that you can write to")
        raise SourceError(path or '""', f"{reason(fault)}. Fix: {fix}") from None
    except _Link as fault:
        raise SourceError(path, str(fault)) from None


def _descriptor_of(path: str) -> int | None:
    """A copy of the open descriptor that a path names; None for other paths."""
    match = _OPEN_STREAM.fullmatch(path)
    if match is None:
        return None
    if match[1]:
        sys.stdout.flush()  # what was printed before stays before
    return os.dup(1 if match[1] else 2 if match[2] else int(match[3] or match[4]))


@contextmanager
def _replaced(directory: int, name: str, mode: int | None) -> Iterator[IO[bytes]]:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        status = None
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise _Link("forewarn does not write through a symbolic link. Fix: remove the link, or pass its target")
    if status is not None and not stat.S_ISREG(status.st_mode):
        with open(os.open(name, _FILE, dir_fd=directory), "wb") as stream:
            yield stream
        return
    temporary = f".forewarn-{os.urandom(8).hex()}"
    handle = os.open(temporary, _FILE | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode, dir_fd=directory)
    try:
        with open(handle, "wb") as stream:
            if status is not None and mode is None:
                with suppress(PermissionError):
                    os.fchown(handle, status.st_uid, status.st_gid)
                os.fchmod(handle, stat.S_IMODE(status.st_mode) & 0o777)
            yield stream
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _parent(path: str) -> tuple[int, str]:
    """Open the directory of a file step by step; return its descriptor and the file's name. Raises OSError, _Link.

    No step follows a link implicitly: links are resolved only outside the working directory and git work trees.
    """
    parent, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    working = os.path.realpath(os.curdir)
    real = os.sep if os.path.isabs(path) else working
    directory = os.open(real, _DIRECTORY)
    steps, links = _steps(parent), 0
    try:
        while steps:
            step = steps.pop()
            target = _target(step, directory)
            if target is None:
                below = os.open(step, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                real = os.path.dirname(real) if step == os.pardir else os.path.join(real, step)
            else:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if _is_in_tree(real, working):
                    where = os.path.join(real, step)
                    raise _Link(f"directory {where} is a symbolic link in a working tree. Fix: pass its target")
                steps += _steps(target)
                if not os.path.isabs(target):
                    continue
                below, real = os.open(os.sep, _DIRECTORY), os.sep
            os.close(directory)
            directory = below
    except BaseException:
        os.close(directory)
        raise
    return directory, name


def _steps(path: str) -> list[str]:
    return [step for step in reversed(path.split(os.sep)) if step not in ("", os.curdir)]


def _target(step: str, directory: int) -> str | None:
    """The target of a link; None for other or missing files."""
    try:
        return os.readlink(step, dir_fd=directory)
    except OSError:
        return None


def _is_in_tree(directory: str, working: str) -> bool:
    """True if a directory (a real path) is in the working directory or in a git work tree."""
    if working != os.sep and f"{directory}{os.sep}".startswith(f"{working}{os.sep}"):
        return True
    while not os.path.lexists(os.path.join(directory, ".git")):
        above = os.path.dirname(directory)
        if above == directory:
            return False
        directory = above
    return True
