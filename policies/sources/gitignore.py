"""The .gitignore files of a work tree. Source: git's Documentation/gitignore.adoc.

forewarn does not run git: in an untrusted tree, the configuration of git could run any command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from functools import lru_cache
from typing import Final

from forewarn.policies.light import NamedTuple
from forewarn.policies.sources.git_index import WorkTree, contents

NAME: Final = ".gitignore"
_LONGEST: Final = 1 << 18
_MAX: Final = 1_000
"""Maximum patterns of one file; further ones are ignored."""
_DEEPEST: Final = 100
_ESCAPED: Final = re.compile(r"\\(.)")
_ANY: Final = "**"
_WIDE: Final = (_ANY, "*")


class Pattern(NamedTuple):
    """One pattern of a .gitignore or CODEOWNERS file.

    `steps`: of the path from the file's directory; a single step matches a name at any depth. `begins`: matches a
    required prefix of the first step, None if unknown; rejects most paths fast.
    """

    steps: tuple[str, ...]
    negated: bool
    directories_only: bool
    begins: Callable[[str], object] | None


class _File(NamedTuple):
    """The patterns of the .gitignore file in the directory `base`, the last line first.

    `ends`: matches a name that the last step of a pattern matches, other than those of `wide`, which end with `*`.
    """

    base: str
    patterns: tuple[Pattern, ...]
    wide: tuple[Pattern, ...]
    ends: Callable[[str], object]


class Ignores:
    """The rules of the .gitignore files that apply to a directory, the outermost first.

    `everything`: the directory is ignored, so all its files are, except files that git tracks.
    """

    def __init__(self, tree: WorkTree, files: tuple[_File, ...] = (), *, everything: bool = False) -> None:
        self.tree = tree
        self._files, self._everything = files, everything

    @classmethod
    def of(cls, top: str) -> Ignores:
        """Return the rules for a directory that contains `.git`, without its own .gitignore."""
        return cls(WorkTree(os.path.realpath(top)))

    @classmethod
    def above(cls, directory: str) -> Ignores | None:
        """The rules that a directory inherits; None outside of a git work tree."""
        path, above = os.path.realpath(directory), list[str]()
        for _ in range(_DEEPEST):
            if os.path.lexists(os.path.join(path, ".git")):
                rules = cls.of(path)
                for parent in reversed(above):
                    rules = rules.within(parent)
                return rules
            parent = os.path.dirname(path)
            if parent == path:
                break
            path = parent
            above.append(path)
        return None

    def within(self, directory: str) -> Ignores:
        """The rules together with those of a directory's own .gitignore."""
        patterns = () if self._everything else tuple(_patterns(os.path.join(directory, NAME)))
        if not patterns:
            return self
        wide = tuple(pattern for pattern in patterns if pattern.steps[-1] in _WIDE)
        ends = _step(*dict.fromkeys(p.steps[-1] for p in patterns if p.steps[-1] not in _WIDE))
        return Ignores(self.tree, (*self._files, _File(directory, patterns, wide, ends)))

    def inside(self) -> Ignores:
        return Ignores(self.tree, everything=True)

    def ignore(self, path: str, *, is_directory: bool) -> bool:
        """Report whether the rules ignore a path: the last matching pattern of the innermost file decides.

        Does not consider that git never ignores tracked paths: see `tree`.
        """
        if self._everything:
            return True
        name = os.path.basename(path)
        for base, every, wide, ends in reversed(self._files):
            patterns = every if ends(name) else wide
            if not patterns:
                continue
            inside = path.startswith(base + os.sep)
            steps = tuple((path[len(base) + 1 :] if inside else os.path.relpath(path, base)).split(os.sep))
            for pattern in patterns:
                if pattern.begins is not None and pattern.begins(steps[0]) is None:
                    continue
                if (is_directory or not pattern.directories_only) and matches(pattern.steps, steps):
                    return not pattern.negated
        return False


def _patterns(file: str) -> Iterator[Pattern]:
    """The patterns of a file, the last line first; none if it is unreadable."""
    for line in reversed(_text(file).split("\n")[:_MAX]):
        text = line.rstrip("\r")
        if not text.endswith("\\ "):
            text = text.rstrip(" ")
        if text and not text.startswith("#") and (pattern := pattern_of(text)) is not None:
            yield pattern


def pattern_of(text: str) -> Pattern | None:
    """Return the pattern of a line; None if it matches no path."""
    negated = text.startswith("!")
    body = text.removeprefix("!")
    directories_only = body.endswith("/")
    body = body.rstrip("/")
    given = [step for step in body.split("/") if step]
    steps = tuple(step for step, before in zip(given, ["", *given], strict=False) if (step, before) != (_ANY, _ANY))
    if not steps:
        return None
    if "/" in body and len(steps) == 1:
        steps = ("", *steps)  # a leading slash: here, and no deeper
    begins = next(step for step in (*steps, _ANY) if step) if len(steps) > 1 else _ANY
    return Pattern(steps, negated, directories_only, None if begins == _ANY else _step(begins))


def _text(file: str) -> str:
    """The contents of a .gitignore file; "" for links (as in git) and pipes."""
    try:
        return contents(file, _LONGEST)[:_LONGEST].decode("utf-8", "replace")
    except OSError:
        return ""


def matches(pattern: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """Report whether the steps of a path match those of a pattern."""
    for wanted, step in zip(reversed(pattern), reversed(steps), strict=False):
        if wanted == _ANY:
            break
        if _step(wanted)(step) is None:
            return False
    return len(pattern) == 1 or _path_matches(tuple(step for step in pattern if step), steps)


def _path_matches(pattern: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """True if a whole path matches a pattern.

    Tracks the set of possible positions in the pattern after each step.
    """
    at = _skipped({0}, pattern)
    for step in steps:
        after = set()
        for place in at:
            if place < len(pattern):
                if pattern[place] == _ANY:
                    after.update({place, len(pattern)} if place == len(pattern) - 1 else {place})
                elif _step(pattern[place])(step):
                    after.add(place + 1)
        at = _skipped(after, pattern)
        if not at:
            return False
    return len(pattern) in at


def _skipped(places: set[int], pattern: tuple[str, ...]) -> set[int]:
    """Return the positions in the pattern that are reachable by skipping `**`, which may match no directory.

    At the end of the pattern, `**` must match.
    """
    result = set(places)
    for place in sorted(places):
        here = place
        while here < len(pattern) - 1 and pattern[here] == _ANY:
            here += 1
            result.add(here)
    return result


@lru_cache(maxsize=4096)
def _step(*patterns: str) -> Callable[[str], object]:
    """A function that matches a step of a path that matches a pattern, without backtracking for any number of stars."""
    return re.compile("|".join(translate(_ESCAPED.sub(_literal, pattern)) for pattern in patterns)).match


def _literal(escaped: re.Match[str]) -> str:
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]
