"""The owners of files that a CODEOWNERS file names.

Sources: docs.github.com, about-code-owners; docs.gitlab.com, user/project/codeowners/reference. The last matching line
decides, in GitLab that of each section.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from forewarn.policies.sources.git import Pattern, contents, matches, pattern_of

PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_LARGEST: Final = 3 << 20
"""Bytes that GitHub reads."""
_MAX_LINES: Final = 2_000
_SECTION: Final = re.compile(r"\^?\[([^]]*)\](?:\[\d+\])?(.*)")
_OWNER: Final = re.compile(r"@{1,2}[\w./-]+|[\w.+-]+@[\w.-]+")


class _Line(NamedTuple):
    section: str
    pattern: Pattern
    owners: Sequence[str]


class CodeOwners:
    """The lines of a CODEOWNERS file."""

    def __init__(self, top: str) -> None:
        """Read the file of a repository; no lines if there is none. `top`: the directory of the repository."""
        path = next((path for place in PLACES if os.path.isfile(path := os.path.join(top, place))), "")
        self._lines = list(_lines(path))[::-1] if path else []

    def of(self, path: str) -> list[str]:
        """Return the owners of a file or directory. `path`: relative to the repository."""
        owners: dict[str, Sequence[str]] = {}
        steps = tuple(os.path.normpath(path).split(os.sep))
        for line in self._lines:
            if line.section not in owners and _owns(line.pattern, steps):
                owners[line.section] = line.owners
        return list(dict.fromkeys(owner for several in owners.values() for owner in several))


def _owns(pattern: Pattern, steps: tuple[str, ...]) -> bool:
    """Report whether a pattern matches a path or a directory above it; `docs/*` matches no path below `docs/a`."""
    if matches(pattern.steps, steps):
        return not pattern.directories_only
    is_flat = len(pattern.steps) > 1 and pattern.steps[-1] == "*"
    return not is_flat and any(matches(pattern.steps, steps[:end]) for end in range(1, len(steps)))


def _lines(path: str) -> Iterator[_Line]:
    try:
        text = contents(path, _LARGEST)[:_LARGEST].decode("utf-8", "replace")
    except OSError:
        return
    section, of_section = "", list[str]()
    for line in text.split("\n")[:_MAX_LINES]:
        given = line.partition(" #")[0].strip()
        if match := _SECTION.fullmatch(given):
            section, of_section = match[1].casefold(), _OWNER.findall(match[2])
        elif given and not given.startswith(("#", "!")):
            pattern, *owners = re.split(r"(?<!\\)\s+", given)
            if (rule := pattern_of(pattern)) is not None:
                yield _Line(section, rule, [owner for owner in owners if _OWNER.fullmatch(owner)] or of_section)
