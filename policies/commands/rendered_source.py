"""The original position of a field in a rendered object: the line of a template, patch or base."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.objects.fields import at, group_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.findings import Location, Path
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject, Source

    _Part = Callable[[str], str]
    _Numbers = Mapping[str, Sequence[int]]

_LONGEST: Final = 2_000
"""Maximum characters of a line that are compared."""


class TemplateLines:
    """Matches lines of helm's output with lines of its template: equal lines, or lines with the same key."""

    def __init__(self, template: str, rendered: bytes, file: str) -> None:
        self._template, self._rendered, self._file = template, rendered, file
        self._indexes: dict[_Part, tuple[_Numbers, _Numbers]] = {}

    def place(self, rendered: Location) -> Location:
        """Return the position in the template; if no unique line matches, the position in the rendered text."""
        lines = self._lines
        if not 0 < rendered.line <= len(lines):
            return rendered
        line = lines[rendered.line - 1][:_LONGEST]
        text = line.strip()
        number = self._same(text, rendered.line, _whole)
        if number is not None:
            shift = _indent(self._of_template[number - 1]) - _indent(line)
            return rendered._replace(
                file=self._file, line=number, column=rendered.column + shift, end_column=rendered.end_column + shift
            )
        number = self._same(text, rendered.line, _key) if _key(text) else None
        if number is None:
            return rendered
        found = self._of_template[number - 1].rstrip()
        start = len(found) - len(found.partition(":")[2].lstrip()) + 1
        return rendered._replace(file=self._file, line=number, column=start, end_column=max(len(found) + 1, start + 1))

    def _same(self, text: str, line: int, part: _Part) -> int | None:
        """Return the number of the template line for a rendered line; None if not unique.

        Equal lines are matched by their order; the only equal line of a template matches all rendered lines of a
        loop. `part`: the part of lines to compare.
        """
        ours, theirs = self._index(part)
        here, there = ours.get(part(text), []), theirs.get(part(text), [])
        if len(here) == len(there) and len(here) <= _FEW:
            return there[here.index(line)]
        is_loop = len(there) == 1 and _indent(self._of_template[there[0] - 1]) == _indent(self._lines[line - 1])
        return there[0] if is_loop else None

    def _index(self, part: _Part) -> tuple[_Numbers, _Numbers]:
        """Return part of a line -> line numbers, for the rendered text and for the template."""
        if part not in self._indexes:
            self._indexes[part] = _numbered(self._lines, part), _numbered(self._of_template, part)
        return self._indexes[part]

    @cached_property
    def _lines(self) -> list[str]:
        return self._rendered.decode("utf-8", "replace").split("\n")

    @cached_property
    def _of_template(self) -> list[str]:
        return self._template.split("\n")


_FEW: Final = 100


def _whole(text: str) -> str:
    return text


def _key(text: str) -> str:
    """The text before the colon, such as `- name`; "" for a line without a key."""
    head, colon, _ = text.partition(":")
    return head if colon and "{" not in head and "#" not in head else ""


def _numbered(lines: Sequence[str], part: _Part) -> _Numbers:
    found = defaultdict[str, list[int]](list)
    for number, line in enumerate(lines, 1):
        if text := part(line[:_LONGEST].strip()):
            found[text].append(number)
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class TemplateSource(NamedTuple):
    """The source of an object that helm rendered."""

    rendered: Source
    lines: TemplateLines

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The position in the template, or else in the rendered text."""
        return self.lines.place(self.rendered.locate(path, key=key))


class OverlaySource(NamedTuple):
    """The source of an object that kustomize built. `parts`: the objects from which it was built, patches first."""

    rendered: Source
    object: ApiObject
    parts: Sequence[ReviewedObject]

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The position in the first part with the same value, or else in the rendered text."""
        value = at(self.object, *path)
        for part in self.parts if path and value is not None else ():
            if at(part.object, *path) == value or path == _NAME:
                return part.source.locate(path, key=key)
        return self.rendered.locate(path, key=key)


_NAME: Final = ("metadata", "name")


class Origins:
    """The objects of kustomizations by kind, to find the parts from which an object was built."""

    def __init__(self, parts: Iterable[ReviewedObject]) -> None:
        self._by_kind: dict[str, list[ReviewedObject]] = defaultdict(list)
        for part in parts:
            if part.ref.name:
                self._by_kind[group_kind(part.object)].append(part)

    def of(self, built: ReviewedObject) -> Sequence[ReviewedObject]:
        """Return the objects from which an object may be built: those with the longest name that is part of its
        name.
        """
        name = built.ref.name
        found = [part for part in self._by_kind[group_kind(built.object)][:_MAX_PARTS] if part.ref.name in name]
        longest = max((len(part.ref.name) for part in found), default=0)
        return [part for part in found if len(part.ref.name) == longest]


_MAX_PARTS: Final = 1_000
