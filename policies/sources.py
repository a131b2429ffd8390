"""Where text and cluster state come from: files, directories, standard input, and what other packages add."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.cluster import Cache


class SourceError(Exception):
    """An input that cannot be read: names the file, the line where there is one, and what is wrong."""


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """The manifests among these paths: a file and `-` as they are, a directory's .yaml, .yml and .json files, sorted.

    Hidden directories are left out, symbolic links followed once. What cannot be read is named all the same, so that
    `read_file` says why.
    """
    for path in paths:
        if path != "-" and Path(path).is_dir():
            yield from sorted(str(p) for p in Path(path).rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def read_file(path: str) -> bytes:
    """The bytes of a file, of standard input where the path is `-`. Raises SourceError."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def load_cluster(*sources: str, progress: Callable[[int], None] | None = None) -> Cache:
    """The state of a cluster: dumps (file, directory, `-`; YAML, JSON, .gz) or sources by name, later over earlier.

    `progress` is told now and then how many objects were taken in. Raises SourceError.
    """
    raise NotImplementedError
