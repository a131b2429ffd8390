"""Finds the assertions of tests of Chainsaw and kuttl: partial objects that no tool applies.

Only in the own directory of a test: names and tests elsewhere say nothing about a file. Sources: Chainsaw
(kyverno.github.io/chainsaw), kuttl (kuttl.dev).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from forewarn.policies.light import later
from forewarn.policies.manifests import Fault, values
from forewarn.policies.manifests.groups import KUSTOMIZATIONS
from forewarn.policies.manifests.values import scalars_in
from forewarn.policies.sources.files import File, readable

ASSERTION: Final = "test assertion"
_STEP: Final = later(r"\d+-(?:assert|errors?)(?:-[^.]*)?\.ya?ml", re.IGNORECASE)
_NAMED: Final = later(r"(?:.*[-_.])?assert(?:s|ions?)?(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_OF_STEP: Final = later(r"\d+-.+\.ya?ml", re.IGNORECASE)
_TEST: Final = later(r"chainsaw-test\.ya?ml", re.IGNORECASE)
_MARK: Final = later(r"assert|error|chainsaw-test", re.IGNORECASE)
"""What names of assertions and Chainsaw tests contain."""
_MAX_PATTERNS: Final = 1_000
_MAX_STEPS: Final = 100_000
"""Maximum values of one test that are read."""


def assertion_files(files: Iterable[File]) -> set[str]:
    """Return the normalized paths of the assertion files of tests: files with such a name in the directory of a test of
    Chainsaw or kuttl, and files below the directory of a Chainsaw test that the test names.
    """
    directories, marked = defaultdict[str, list[str]](list), defaultdict[str, dict[str, File]](dict)
    for file in files:
        if file.tree:
            directory, name = os.path.split(os.path.normpath(file.path))
            directories[directory].append(name)
            if _MARK.search(name):
                marked[directory][name] = file
    paths, patterns = set[str](), set[str]()
    for directory, own in marked.items():
        tests = [file for name, file in own.items() if _TEST.fullmatch(name)]
        if tests or _has_steps(directories[directory]):
            named = (name for name in own if _STEP.fullmatch(name) or _NAMED.fullmatch(name))
            paths |= {os.path.join(directory, name) for name in named}
        for path in _below(directory, tests):
            (patterns if "*" in path else paths).add(path)
    paths |= _matching(directories, patterns)
    return {path for path in paths if os.path.basename(path) not in KUSTOMIZATIONS}


def _has_steps(names: Iterable[str]) -> bool:
    """Report whether a directory with these files has steps of kuttl besides assertions."""
    return any(_OF_STEP.fullmatch(name) and not _STEP.fullmatch(name) for name in names)


def _below(directory: str, tests: Iterable[File]) -> Iterator[str]:
    """Yield the files below a directory that its Chainsaw tests name as assertions."""
    for path in (os.path.normpath(os.path.join(directory, other)) for test in tests for other in _named_by(test)):
        if not os.path.relpath(path, directory or os.curdir).startswith(os.pardir):
            yield path


def _matching(directories: Mapping[str, Sequence[str]], patterns: Collection[str]) -> set[str]:
    """The paths that match a pattern with `*` in its last step. `directories`: the names in each directory."""
    result = set[str]()
    for directory, pattern in map(os.path.split, islice(patterns, _MAX_PATTERNS)):
        names = (name for name in directories.get(directory, ()) if fnmatchcase(name, pattern))
        result |= {os.path.join(directory, name) for name in names}
    return result


def _named_by(test: File) -> Iterator[str]:
    """Yield the assertion files of a Chainsaw test; none if unreadable, which is reported elsewhere."""
    try:
        read = [item.value for item in values(readable(test), test.path)]
    except Fault:
        return
    for path, value in scalars_in(read, _MAX_STEPS):
        if path[-2:] in (("assert", "file"), ("error", "file")) and isinstance(value, str):
            yield value
