"""Files and directories: which are read, in which order, and their bytes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from policies.manifests import MAX_FILE
from policies.sources.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MANIFESTS: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"


def find_files(paths: Iterable[str], suffixes: tuple[str, ...] = MANIFESTS) -> Iterator[str]:
    """The files among these paths: one that is named as it is, `-` too; of a directory those with a suffix, sorted.

    Hidden directories inside of a directory are left out; links are followed. Every file comes once, however many
    paths lead to it. What cannot be looked into is named all the same, so that reading it says why.
    """
    seen: set[str] = set()
    for path in paths:
        is_directory = path != STDIN and os.path.isdir(path)
        for file in _walk(path, suffixes, set()) if is_directory else (path,):
            real = file if file == STDIN else os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield file


def _walk(directory: str, suffixes: tuple[str, ...], seen: set[tuple[int, int]]) -> Iterator[str]:
    """Depth first, by name. `seen`: the directories on the way and before, so that links make no loop."""
    try:
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(directory) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        yield directory
        return
    for entry in children:
        if _is_directory(entry):
            if not entry.name.startswith("."):
                yield from _walk(entry.path, suffixes, seen)
        elif entry.name.lower().endswith(suffixes) and not _never_ends(entry):
            yield entry.path


def _never_ends(entry: os.DirEntry[str]) -> bool:
    """Whether it is a pipe, a socket or a device: somebody left it there, and reading it could wait for ever."""
    return not entry.is_file() and not entry.is_symlink()


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_file(path: str) -> bytes:
    """The bytes of a file of manifests, of standard input where the path is `-`. Raises SourceError.

    Of a file that `manifests.read` would refuse for its length only so much is read that it does.
    """
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(MAX_FILE + 1)
        with open(path, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_size <= MAX_FILE else file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise SourceError(path, reason(error)) from None


def reason(error: Exception) -> str:
    """What went wrong, in the system's words, without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error)
