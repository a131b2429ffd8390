"""Finds the assertions of tests of Chainsaw and kuttl: partial objects that no tool applies.

Only in the own directory of a test: names and tests elsewhere say nothing about a file. Sources: Chainsaw
(kyverno.github.io/chainsaw), kuttl (kuttl.dev).
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.groups import KUSTOMIZATIONS
from forewarn.policies.inputs.manifests.values import scalars_in, values
from forewarn.policies.inputs.sources.files import File, readable

ASSERTION: Final = "test assertion"
_STEP: Final = later(r"\d+-(?:assert|errors?)(?:-[^.]*)?\.ya?ml", re.IGNORECASE)
_NAMED: Final = later(r"(?:.*[-_.])?assert(?:s|ions?)?(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_OF_STEP: Final = later(r"\d+-.+\.ya?ml", re.IGNORECASE)
"""Names of steps of kuttl, and of their assertions."""
_TEST: Final = later(r"chainsaw-test\.ya?ml", re.IGNORECASE)
_MARK: Final = later(r"assert|error|chainsaw-test", re.IGNORECASE)
"""What names of assertions and Chainsaw tests contain."""
_MAX_PATTERNS: Final = 100
_MAX_STEPS: Final = 100_000
"""Maximum values of one test that are read."""


def assertion_files(files: Iterable[File]) -> set[str]:
    """Return the normalized paths of the assertion files of tests: files in the directory of a test of Chainsaw or
    kuttl with such a name, or that the Chainsaw test names.
    """
    directories, marked = defaultdict[str, list[str]](list), defaultdict[str, dict[str, File]](dict)
    for file in files:
        if file.tree:
            directory, name = os.path.split(os.path.normpath(file.path))
            directories[directory].append(name)
            if _MARK.search(name):
                marked[directory][name] = file
    paths = set[str]()
    for directory, own in marked.items():
        names, tests = directories[directory], [file for name, file in own.items() if _TEST.fullmatch(name)]
        found = {name for name in own if _STEP.fullmatch(name) or _NAMED.fullmatch(name)}
        has_steps = any(_OF_STEP.fullmatch(name) and not _STEP.fullmatch(name) for name in names)
        found = found if tests or has_steps else set()
        given = {name for test in tests for name in _named_by(test)}
        found |= given.intersection(names)
        for pattern in islice((name for name in sorted(given) if "*" in name), _MAX_PATTERNS):
            found.update(fnmatch.filter(names, pattern))
        paths |= {os.path.join(directory, name) for name in found - {*KUSTOMIZATIONS}}
    return paths


def _named_by(test: File) -> Iterator[str]:
    """Yield the names and patterns of assertion files in the directory of a Chainsaw test; none if the test is
    unreadable, which is reported elsewhere.
    """
    try:
        read = [item.value for item in values(readable(test), test.path)]
    except Fault:
        return
    for path, value in scalars_in(read, _MAX_STEPS):
        if path[-2:] in (("assert", "file"), ("error", "file")) and isinstance(value, str):
            directory, name = os.path.split(os.path.normpath(value))
            if not directory:
                yield name
