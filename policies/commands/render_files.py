"""The files that helm and kustomize may read: files of the checked trees, without links that leave these trees.

Imports only the standard library, because `helm_gate` starts for every chart of a kustomization.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import posixpath
import shutil
import stat
import tarfile
import time
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REPOSITORY: Final = frozenset((".git", ".hg", ".svn"))
"""Directories with the configuration of a checkout, which may contain credentials."""
_MAX_FILES: Final = 20_000
_MAX_BYTES: Final = 512 << 20
_MAX_SECONDS: Final = 60.0
_MAX_UNPACKED: Final = 100 << 20
"""Maximum bytes of a packed chart's files, as in helm."""
_MAX_NESTED: Final = 8
_SCHEMA: Final = "values.schema.json"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef", "$schema")
_BUILT_IN: Final = ("#", "http://json-schema.org/", "https://json-schema.org/")
_IDS: Final = ("$id", "id")


class Outside(ValueError):
    """A file that rendering must not read. The text names the file."""


class Trees(NamedTuple):
    """The real paths of the directories that rendering may read."""

    roots: tuple[str, ...]

    @classmethod
    def of(cls, paths: Iterable[str]) -> Trees:
        """The checked directories, and the work trees of git that contain them, but not the home directory."""
        roots = dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isdir(path))
        home = _identities(os.path.expanduser("~"))
        work_trees = (next(_work_trees(root), None) for root in tuple(roots))
        roots |= dict.fromkeys(top for top in work_trees if top and _identity(top) not in home)
        return cls(tuple(roots))

    def holds(self, path: str) -> bool:
        """True if the target of a path is in a tree, and not in a directory such as .git."""
        try:
            steps = [_steps(os.path.realpath(path), root) for root in self.roots]
        except ValueError:  # a zero byte
            return False
        return any(below is not None and not _REPOSITORY.intersection(map(str.lower, below)) for below in steps)

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


def is_of_checkout(file: str, paths: Iterable[str]) -> bool:
    """True if a change of a checked tree may change a file: the file or its target is in the working directory, in a
    checked directory, or in a repository that contains one of these.
    """
    directories = [path if os.path.isdir(path) else os.path.dirname(path) or os.curdir for path in paths]
    ours = set[tuple[int, int]]()
    for directory in map(os.path.realpath, (os.curdir, *directories)):
        ours |= {_identity(directory), *map(_identity, _work_trees(directory))}
    return any(not ours.isdisjoint(_identities(way)) for way in (os.path.dirname(os.path.abspath(file)), file))


def _steps(real: str, root: str) -> list[str] | None:
    """The names from a root to a path; None if the path is not below the root."""
    if real == root:
        return []
    prefix = os.path.join(root, "")
    return real[len(prefix) :].split(os.sep) if real.startswith(prefix) else None


def _above(path: str) -> Iterator[str]:
    """Yield the real path and all directories above it."""
    path = os.path.realpath(path)
    yield path
    while (parent := os.path.dirname(path)) != path:
        yield (path := parent)


def _work_trees(directory: str) -> Iterator[str]:
    return (path for path in _above(directory) if os.path.lexists(os.path.join(path, ".git")))


def _identity(path: str) -> tuple[int, int]:
    """The device and number of a file; (0, 0) if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _identities(path: str) -> set[tuple[int, int]]:
    return {identity for identity in map(_identity, _above(path)) if identity != (0, 0)}


class Stage:
    """Copies charts and values files for helm to a private directory, in which no link leads elsewhere."""

    def __init__(self, trees: Trees, directory: str) -> None:
        self._trees, self._directory = trees, directory
        self._files = self._bytes = 0
        self._until = time.monotonic() + _MAX_SECONDS

    def chart(self, path: str) -> str:
        """Copy a chart; returns the path of the copy. Raises Outside, OSError."""
        directory = os.path.join(self._directory, "chart")
        os.mkdir(directory)
        return self._copied(path, os.path.join(directory, os.path.basename(os.path.abspath(path)) or "root"))

    def values(self, path: str) -> str:
        """Copy a values file under a name without commas, which separate files for helm. Raises Outside, OSError."""
        return self._copied(path, os.path.join(self._directory, f"values-{self._files}.yaml"))

    def _copied(self, path: str, target: str) -> str:
        to_do: list[tuple[str, str, str, tuple[str, ...]]] = [(path, self._trees.resolved(path), target, ())]
        while to_do:
            source, real, copy, above = to_do.pop()
            self._count(files=1)
            if not os.path.isdir(real):
                self._copy_file(source, real, copy)
                continue
            if real in above:
                raise Outside(f"{os.path.normpath(source)}: link leads to a directory above it")
            os.mkdir(copy)
            with os.scandir(real) as entries:
                for entry in entries:
                    if entry.name.lower() not in _REPOSITORY:
                        shown = os.path.join(source, entry.name)
                        inner = self._trees.resolved(shown) if entry.is_symlink() else os.path.join(real, entry.name)
                        to_do.append((shown, inner, os.path.join(copy, entry.name), (*above, real)))
        return target

    def _copy_file(self, source: str, real: str, copy: str) -> None:
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Outside(f"{os.path.normpath(source)}: not a file or directory")
            self._count(size=status.st_size)
            directory, name = os.path.split(copy)
            changed: IO[bytes] = stream
            if name.endswith(".tgz") and os.path.basename(directory) == "charts":
                try:
                    changed = io.BytesIO(self._repacked(stream.read()))
                except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as fault:
                    raise Outside(f"{os.path.normpath(source)}: {fault}") from None
            elif name == _SCHEMA:
                if _refers_elsewhere(schema := stream.read()):
                    return
                changed = io.BytesIO(schema)
            with open(copy, "xb") as target:
                shutil.copyfileobj(changed, target)

    def _repacked(self, archive: bytes, nested: int = 0) -> bytes:
        """A packed chart with only its files, as this program reads them, and without schemas that refer elsewhere.

        Raises TarError, OSError, EOFError, ValueError, zlib.error.
        """
        with gzip.open(io.BytesIO(archive)) as stream:
            unpacked = stream.read(_MAX_UNPACKED + 1)
        self._count(size=len(unpacked))
        if len(unpacked) > _MAX_UNPACKED or nested > _MAX_NESTED:
            raise Outside(f"more than {_MAX_UNPACKED >> 20} MiB, or than {_MAX_NESTED} charts in each other")
        packed = io.BytesIO()
        with (
            tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as source,
            tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as target,
        ):
            for member in source:
                if member.issparse():
                    raise Outside("a packed chart has a sparse file")
                stream_of = source.extractfile(member) if member.isreg() else None
                data = stream_of.read() if stream_of else b""
                member_name = posixpath.normpath(member.name.replace("\\", "/"))
                if not member_name.isprintable() or os.pardir in member_name.split("/"):
                    raise Outside("a packed chart has a file whose name helm would read differently")
                directory, name = posixpath.split(member_name)
                if stream_of is None or (name == _SCHEMA and _refers_elsewhere(data)):
                    continue
                if name.endswith(".tgz") and posixpath.basename(directory) == "charts":
                    data = self._repacked(data, nested + 1)
                entry = tarfile.TarInfo(member_name)
                entry.size = len(data)
                target.addfile(entry, io.BytesIO(data))
        return packed.getvalue()

    def _count(self, *, files: int = 0, size: int = 0) -> None:
        self._files, self._bytes = self._files + files, self._bytes + size
        if self._files > _MAX_FILES or self._bytes > _MAX_BYTES:
            raise Outside(f"a chart with more than {_MAX_FILES:,} files or {_MAX_BYTES >> 20} MiB")
        if time.monotonic() > self._until:
            raise Outside(f"copying the chart takes more than {_MAX_SECONDS:.0f} s")


def _refers_elsewhere(schema: bytes) -> bool:
    """True if helm would read other files or addresses for a schema of values; also for a schema that is not JSON."""
    elsewhere: list[Any] = []

    def visit(pairs: list[tuple[str, Any]]) -> None:
        elsewhere.extend(value for key, value in pairs if key in _REFERENCES and not str(value).startswith(_BUILT_IN))
        # Helm before 3.18.5 reads the file of an id with a fragment to resolve "#/definitions/x".
        ids = (value for key, value in pairs if key in _IDS and isinstance(value, str))
        elsewhere.extend(value for value in ids if "#" in value[1:-1])

    try:
        json.loads(schema, object_pairs_hook=visit)
    except (ValueError, RecursionError):
        return True
    return bool(elsewhere)
