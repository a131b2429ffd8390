"""Finds the assertions of tests of Chainsaw and kuttl: partial objects that no tool applies.

Only files in the directory of a test count; names alone, and tests in other directories, prove nothing about a file.
Sources: Chainsaw (kyverno.github.io/chainsaw), kuttl (kuttl.dev).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import grouped
from forewarn.policies.base.light import later

if TYPE_CHECKING:
    from forewarn.policies.inputs.sources.files import File

ASSERTION: Final = "test assertion"
_STEP: Final = later(r"\d+-(?:assert|errors?)(?:-[^.]*)?\.ya?ml", re.IGNORECASE)
_NAMED: Final = later(r"(?:.*[-_.])?assert(?:s|ions?)?(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_OF_STEP: Final = later(r"\d+-.+\.ya?ml", re.IGNORECASE)
"""File names of kuttl steps and of their assertions."""
_TEST: Final = later(r"chainsaw-test\.ya?ml", re.IGNORECASE)


def assertion_files(files: Iterable[File]) -> set[str]:
    """Return the normalized paths of assertion files: files with the name of one, in the directory of a Chainsaw or
    kuttl test.
    """
    paths = set[str]()
    for directory, names in grouped(os.path.split(os.path.normpath(file.path)) for file in files if file.tree).items():
        found = {name for name in names if _STEP.fullmatch(name) or _NAMED.fullmatch(name)}
        if found and any(_TEST.fullmatch(name) or _OF_STEP.fullmatch(name) for name in {*names} - found):
            paths |= {os.path.join(directory, name) for name in found}
    return paths
