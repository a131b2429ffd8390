"""Detects files with assertions of Chainsaw and kuttl tests: parts of objects, or expressions, that are never
applied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.manifests import Fault, values
from forewarn.policies.sources import SourceError, read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from forewarn.policies.sources.files import File

ASSERTION: Final = "test assertion"
_STEP: Final = re.compile(r"\d+-(?:assert|errors?)(?:-[^.]*)?\.ya?ml", re.IGNORECASE)
_NAMED: Final = re.compile(r"(?:.*[-_.])?assert(?:s|ions?)?(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_TEST: Final = re.compile(r"chainsaw-test\.ya?ml", re.IGNORECASE)
_KEYS: Final = ("assert", "error")
_MAX_PATTERNS: Final = 1_000
_MAX_STEPS: Final = 10_000
"""Maximum mappings and lists of one test that are read."""


def assertion_files(files: Iterable[File]) -> set[str]:
    """Return the normalized paths of assertion files: recognized by their name, or named by a Chainsaw test."""
    found, patterns, paths = set[str](), set[str](), []
    for file in files:
        directory, name = os.path.split(file.path)
        if not file.tree:
            continue
        paths.append(os.path.normpath(file.path))
        if _STEP.fullmatch(name) or _NAMED.fullmatch(name):
            found.add(paths[-1])
        elif _TEST.fullmatch(name):
            for other in _referenced(file):
                (patterns if "*" in other else found).add(os.path.normpath(os.path.join(directory, other)))
    return found | _matching(paths, patterns)


def _matching(paths: Iterable[str], patterns: Collection[str]) -> set[str]:
    """The paths that match a pattern with `*` in its last step."""
    by_directory: dict[str, list[str]] = {}
    for pattern in islice(patterns, _MAX_PATTERNS):
        by_directory.setdefault(os.path.dirname(pattern), []).append(os.path.basename(pattern))
    found = set()
    for path in paths if patterns else ():
        directory, name = os.path.split(path)
        if any(fnmatchcase(name, pattern) for pattern in by_directory.get(directory, ())):
            found.add(path)
    return found


def _referenced(test: File) -> Iterator[str]:
    """Yield the assertion files that a Chainsaw test names; none if the test is unreadable, which the linter reports
    elsewhere.
    """
    try:
        read = [each.value for each in values(read_file(test), test.path)]
    except (Fault, SourceError):
        return
    to_do: list[Any] = read
    for _ in range(_MAX_STEPS):
        if not to_do:
            return
        value = to_do.pop()
        if isinstance(value, list):
            to_do += value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                file = inner.get("file") if key in _KEYS and isinstance(inner, Mapping) else None
                if isinstance(file, str):
                    yield file
                elif isinstance(inner, Mapping | list):
                    to_do.append(inner)
