"""The paths that git tracks: the names in the index of a work tree.

The index is not trusted: its size and its unpacked size are bounded. No other file of `.git` is used. Source: git's
Documentation/gitformat-index.adoc.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

MAX_INDEX: Final = 64 << 20
_MAX_NAMES: Final = 128 << 20
"""Maximum bytes of all names: in version 4, a name only stores the difference from the previous one."""
_MAX_NAME: Final = 1 << 14
_MAX_GITDIR: Final = 1 << 14
_HEAD: Final = 12
_TIMES_AND_MODE: Final = 40
_HASHES: Final = (20, 32)
"""Lengths of object ids in bytes: SHA-1, SHA-256."""
_EXTENDED: Final = 0x4000
_LONG: Final = 0xFFF
_SPARSE: Final = b"sdir"


class WorkTree:
    """A git work tree, identified by its top directory, a real path. Reads git's index on demand."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._names: list[bytes] | None = None
        self.is_readable = True
        """Whether the index could be read; known after the first lookup."""

    def tracks(self, directory: str, name: str) -> bool:
        """True if the index has an entry `name` in a directory (a real path): a file, link or submodule."""
        return self._contains(directory, name, b"")

    def tracks_below(self, directory: str, name: str) -> bool:
        """True if the index has entries below `name` in a directory (a real path)."""
        return self._contains(directory, name, b"/")

    def _contains(self, directory: str, name: str, suffix: bytes) -> bool:
        top = self._top.rstrip(os.sep) + os.sep
        inside = os.path.join(directory, name)
        if not inside.startswith(top):
            return False
        wanted = os.fsencode(inside[len(top) :]) + suffix
        names = self._all()
        at = bisect_left(names, wanted)
        return at < len(names) and (names[at].startswith(wanted) if suffix else names[at] == wanted)

    def _all(self) -> list[bytes]:
        if self._names is None:
            try:
                data = contents(os.path.join(_git_directory(self._top), "index"), MAX_INDEX)
            except FileNotFoundError:
                self._names = []
                return self._names
            except OSError:
                data = b""
            names = tracked_names(data) if len(data) <= MAX_INDEX else None
            self._names, self.is_readable = names or [], names is not None
        return self._names


def contents(path: str, most: int) -> bytes:
    """Read a regular file, up to `most` bytes and one more. Raises OSError, also for a link.

    Uses few system calls, because a tree may have thousands of small files.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:  # not a file object: made of a directory it fails and leaves the descriptor open
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path}: no file")
        return os.read(handle, min(status.st_size, most + 1))
    finally:
        os.close(handle)


def _git_directory(top: str) -> str:
    """The git directory: `.git`, or the directory that the file `.git` names (submodules, linked work trees).

    Raises OSError.
    """
    own = os.path.join(top, ".git")
    if os.path.isdir(own):
        return own
    line = contents(own, _MAX_GITDIR).partition(b"\n")[0]
    if not line.startswith(b"gitdir: ") or b"\0" in line:
        raise OSError(f"{own}: no gitdir")
    return os.path.join(top, os.fsdecode(line.removeprefix(b"gitdir: ").rstrip(b"\r")))


def tracked_names(data: bytes) -> list[bytes] | None:
    """Return the sorted names in an index; None if it is damaged, too large or unsupported (a split index)."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:_HEAD], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4) or count > len(data) // _TIMES_AND_MODE:
        return None
    for size in _HASHES:
        try:
            return sorted(_names(data, version, count, size))
        except (ValueError, IndexError):
            continue
    return None


def _names(data: bytes, version: int, count: int, size: int) -> Iterator[bytes]:
    """Yield the names of an index with hashes of `size` bytes. Raises ValueError or IndexError for another length."""
    at, total, name = _HEAD, 0, b""
    for _ in range(count):
        start, at = at, at + _TIMES_AND_MODE + size
        flags = data[at] << 8 | data[at + 1]
        at += 4 if flags & _EXTENDED and version > 2 else 2
        kept = 0
        if version == 4:
            cut, at = _number(data, at)
            kept = len(name) - cut
        end = data.index(b"\0", at)
        if kept < 0 or kept + end - at > _MAX_NAME:
            raise ValueError("no name of a file")
        name = name[:kept] + data[at:end]
        total += len(name)
        if min(len(name), _LONG) != flags & _LONG or total > _MAX_NAMES:
            raise ValueError("not what an entry looks like")
        yield name
        at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
    while at < len(data) - size:
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        if not kind[:1].isupper() and kind != _SPARSE:
            raise ValueError("an extension that changes what the index says")
        at += 8 + length
    if at != len(data) - size:
        raise ValueError("the end is not where it should be")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and its end position. Source: git's varint.c, decode_varint."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | (byte & 0x7F)
        if value > _MAX_NAME:
            raise ValueError("too large")
    return value, at + 1
