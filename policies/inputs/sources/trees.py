"""Directories that helm, kustomize and git may read, and programs outside of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

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
        with suppress(ValueError):  # a zero byte
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
    """The directories of $PATH, without relative ones and those with programs of checked trees, which must not run."""

    def is_safe(directory: str) -> bool:
        programs = (directory, *(os.path.join(directory, name) for name in _PROGRAMS))
        return os.path.isabs(directory) and not any(map(trees.surround, programs))

    return os.pathsep.join(filter(is_safe, os.get_exec_path()))


def find_program(name: str, trees: Trees) -> str:
    """The path of a program outside of the checked trees; "" if there is none."""
    return shutil.which(name, path=safe_path(trees)) or ""
