"""The paths of a work tree that git tracks (the names in its index) and ignores (its .gitignore files), and the owners
that a CODEOWNERS file names.

forewarn does not run git: in an untrusted tree, the configuration of git could run any command. The index is not
trusted either: its size and its unpacked size are bounded. No other file of `.git` is used. Source: git's
Documentation/gitformat-index.adoc, gitignore.adoc.

CODEOWNERS: the last matching line decides, in GitLab that of each section. Sources: docs.github.com, about-code-owners;
docs.gitlab.com, user/project/codeowners/reference.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import islice
from typing import Final

from forewarn.policies.base.light import NamedTuple, later

MAX_INDEX: Final = 64 << 20
_MAX_NAMES: Final = 128 << 20
"""Maximum bytes of all names: in version 4, a name only stores the difference from the previous one."""
_MAX_NAME: Final = 1 << 14
_MAX_GITDIR: Final = 1 << 14
_HEAD: Final = 12
_TIMES_AND_MODE: Final = 40
_HASHES: Final = (20, 32)
"""Lengths of object ids in bytes: SHA-1, SHA-256."""
_EXTENDED: Final = 0x4000
_LONG: Final = 0xFFF
_SPARSE: Final = b"sdir"


class WorkTree:
    """A git work tree, identified by its top directory, a real path. Reads git's index on demand."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._names: list[bytes] | None = None
        self.is_readable = True
        """Whether the index could be read; known after the first lookup."""

    def tracks(self, directory: str, name: str, *, below: bool = False) -> bool:
        """True if the index has an entry `name` in a directory (a real path): a file, link or submodule; or, with
        `below`, entries below it.
        """
        top = self._top.rstrip(os.sep) + os.sep
        inside = os.path.join(directory, name)
        if not inside.startswith(top):
            return False
        wanted = os.fsencode(inside[len(top) :]) + b"/" * below
        names = self._all()
        at = bisect_left(names, wanted)
        return at < len(names) and (names[at].startswith(wanted) if below else names[at] == wanted)

    def _all(self) -> list[bytes]:
        if self._names is None:
            try:
                data = contents(os.path.join(git_directory(self._top), "index"), MAX_INDEX)
            except FileNotFoundError:
                self._names = []
                return self._names
            except OSError:
                data = b""
            names = tracked_names(data) if len(data) <= MAX_INDEX else None
            self._names, self.is_readable = names or [], names is not None
        return self._names


def upwards(path: str) -> Iterator[str]:
    """Yield a path and all directories above it."""
    yield path
    while (parent := os.path.dirname(path)) != path:
        yield (path := parent)


def work_trees(directory: str) -> Iterator[str]:
    """Yield the tops of the git work trees that contain a directory, the innermost first."""
    return (path for path in upwards(os.path.realpath(directory)) if os.path.lexists(os.path.join(path, ".git")))


def contents(path: str, limit: int) -> bytes:
    """Read a regular file, up to `limit` bytes and one more. Raises OSError, also for a link.

    Uses few system calls, because a tree may have thousands of small files.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:  # not a file object: creating one for a directory fails and leaves the descriptor open
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path}: no file")
        return os.read(handle, min(status.st_size, limit + 1))
    finally:
        os.close(handle)


def git_directory(top: str) -> str:
    """The git directory: `.git`, or the directory that the file `.git` names (submodules, linked work trees).

    Raises OSError.
    """
    own = os.path.join(top, ".git")
    if os.path.isdir(own):
        return own
    line = contents(own, _MAX_GITDIR).partition(b"\n")[0]
    if not line.startswith(b"gitdir: ") or b"\0" in line:
        raise OSError(f"{own}: no gitdir")
    return os.path.join(top, os.fsdecode(line.removeprefix(b"gitdir: ").rstrip(b"\r")))


def tracked_names(data: bytes) -> list[bytes] | None:
    """Return the sorted names in an index; None if it is damaged, too large or unsupported (a split index)."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:_HEAD], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4) or count > len(data) // _TIMES_AND_MODE:
        return None
    for size in _HASHES:
        try:
            return sorted(_names(data, version, count, size))
        except (ValueError, IndexError):
            continue
    return None


def _names(data: bytes, version: int, count: int, size: int) -> Iterator[bytes]:
    """Yield the names of an index with hashes of `size` bytes. Raises ValueError or IndexError for a wrong length."""
    at, total, name = _HEAD, 0, b""
    for _ in range(count):
        start, at = at, at + _TIMES_AND_MODE + size
        flags = data[at] << 8 | data[at + 1]
        at += 4 if flags & _EXTENDED and version > 2 else 2
        kept = 0
        if version == 4:
            cut, at = _number(data, at)
            kept = len(name) - cut
        end = data.index(b"\0", at)
        if kept < 0 or kept + end - at > _MAX_NAME:
            raise ValueError("no name of a file")
        name = name[:kept] + data[at:end]
        total += len(name)
        if min(len(name), _LONG) != flags & _LONG or total > _MAX_NAMES:
            raise ValueError("not what an entry looks like")
        yield name
        at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
    while at < len(data) - size:
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        if not kind[:1].isupper() and kind != _SPARSE:
            raise ValueError("an extension that changes what the index says")
        at += 8 + length
    if at != len(data) - size:
        raise ValueError("the end is not where it should be")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and its end position. Source: git's varint.c, decode_varint."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | (byte & 0x7F)
        if value > _MAX_NAME:
            raise ValueError("too large")
    return value, at + 1


GITIGNORE: Final = ".gitignore"
_MAX_LENGTH: Final = 1 << 18
_MAX: Final = 1_000
"""Maximum number of patterns of one file; further ones are ignored."""
_DEEPEST: Final = 100
_ESCAPED: Final = later(r"\\(.)")
_ANY: Final = "**"
_WIDE: Final = (_ANY, "*")


class Pattern(NamedTuple):
    """One pattern of a .gitignore or CODEOWNERS file.

    `steps`: of the path from the file's directory; a single step matches a name at any depth. `begins`: matches
    the start of the first step, to reject most paths quickly; None if unknown.
    """

    steps: tuple[str, ...]
    negated: bool
    directories_only: bool
    begins: Callable[[str], object] | None


class _File(NamedTuple):
    """The patterns of the .gitignore file in the directory `base`, the last line first.

    `wide`: the patterns that end with `*`. `ends`: matches names that the last step of another pattern matches.
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
    def from_directory(cls, top: str) -> Ignores:
        """Return the rules for a directory that contains `.git`, without its own .gitignore."""
        return cls(WorkTree(os.path.realpath(top)))

    @classmethod
    def load_inherited(cls, directory: str, rules_inside: dict[str, Ignores]) -> Ignores | None:
        """The rules that a directory inherits; None outside of a git work tree.

        `rules_inside`: adds those in directories above, so that many directories of a tree read each .gitignore once.
        """
        inside = list[str]()
        for path in islice(upwards(os.path.realpath(directory)), _DEEPEST):
            rules = rules_inside.get(path)
            if rules is None and os.path.lexists(os.path.join(path, ".git")):
                rules = cls.from_directory(path)
                inside.append(path)
            if rules is not None:
                for above in reversed(inside[1:]):
                    rules = rules_inside[above] = rules.extended_by(above)
                return rules
            inside.append(path)
        return None

    def extended_by(self, directory: str) -> Ignores:
        """The rules together with those of a directory's own .gitignore."""
        patterns = () if self._everything else tuple(_patterns(os.path.join(directory, GITIGNORE)))
        if not patterns:
            return self
        wide = tuple(pattern for pattern in patterns if pattern.steps[-1] in _WIDE)
        ends = _step(*dict.fromkeys(p.steps[-1] for p in patterns if p.steps[-1] not in _WIDE))
        return Ignores(self.tree, (*self._files, _File(directory, patterns, wide, ends)))

    def inside(self) -> Ignores:
        return Ignores(self.tree, everything=True)

    def rules_for(self, path: str, *, is_directory: bool) -> Ignores | None:
        """Return the rules for the contents of a path; None if git ignores the path. Git ignores no tracked path."""
        if not self.ignore(path, is_directory=is_directory):
            return self
        directory, name = os.path.split(path)
        real = os.path.realpath(directory)
        if self.tree.tracks(real, name):
            return self
        return self.inside() if is_directory and self.tree.tracks(real, name, below=True) else None

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
        steps = ("", *steps)  # a leading slash: matches only in this directory
    begins = next(step for step in (*steps, _ANY) if step) if len(steps) > 1 else _ANY
    return Pattern(steps, negated, directories_only, None if begins == _ANY else _step(begins))


def _text(file: str, limit: int = _MAX_LENGTH) -> str:
    """The contents of a file; "" for links (as in git) and pipes."""
    try:
        return contents(file, limit)[:limit].decode("utf-8", "replace")
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
    """True if a whole path matches a pattern. `**` may match no directory, except at the end of the pattern.

    Tracks the set of possible positions in the path after each part of the pattern.
    """
    at = {0}
    for number, wanted in enumerate(pattern, 1):
        if wanted == _ANY:
            at = set(range(min(at) + (number == len(pattern)), len(steps) + 1))
        else:
            at = {place + 1 for place in at if place < len(steps) and _step(wanted)(steps[place])}
        if not at:
            return False
    return len(steps) in at


@lru_cache(maxsize=4096)
def _step(*patterns: str) -> Callable[[str], object]:
    """A function that matches one step of a path against patterns, without backtracking for any number of stars."""
    return re.compile("|".join(translate(_ESCAPED.sub(_literal, pattern)) for pattern in patterns)).match


def _literal(escaped: re.Match[str]) -> str:
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]


PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_MAX_SIZE: Final = 3 << 20
"""Maximum bytes of a file that GitHub reads."""
_MAX_LINES: Final = 2_000
_SECTION: Final = r"\^?\[([^]]*)\](?:\[\d+\])?(.*)"
_OWNER: Final = r"@{1,2}[\w./-]+|[\w.+-]+@[\w.-]+"


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

    def owners_of(self, path: str) -> list[str]:
        """Return the owners of a file or directory. `path`: relative to the repository."""
        owners: dict[str, Sequence[str]] = {}
        steps = tuple(os.path.normpath(path).split(os.sep))
        for line in self._lines:
            if line.section not in owners and _owns(line.pattern, steps):
                owners[line.section] = line.owners
        return list(dict.fromkeys(owner for several in owners.values() for owner in several))


def _owns(pattern: Pattern, steps: tuple[str, ...]) -> bool:
    """Report whether a CODEOWNERS pattern matches a path or one of its parent directories.

    A pattern that ends with `/*` matches only direct children.
    """
    if matches(pattern.steps, steps):
        return not pattern.directories_only
    is_flat = len(pattern.steps) > 1 and pattern.steps[-1] == "*"
    return not is_flat and any(matches(pattern.steps, steps[:end]) for end in range(1, len(steps)))


def _lines(path: str) -> Iterator[_Line]:
    section, of_section = "", list[str]()
    for line in _text(path, _MAX_SIZE).split("\n")[:_MAX_LINES]:
        given = line.partition(" #")[0].strip()
        if match := re.fullmatch(_SECTION, given):
            section, of_section = match[1].casefold(), re.findall(_OWNER, match[2])
        elif given and not given.startswith(("#", "!")):
            pattern, *owners = re.split(r"(?<!\\)\s+", given)
            if (rule := pattern_of(pattern)) is not None:
                yield _Line(section, rule, [owner for owner in owners if re.fullmatch(_OWNER, owner)] or of_section)
