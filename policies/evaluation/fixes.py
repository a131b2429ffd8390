"""Safe fixes as edits of a file's text; all other bytes remain unchanged."""

from __future__ import annotations

import codecs
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from forewarn.policies.findings import Finding, Location

_LIKE: Final = 0.75
_NUMBER: Final = re.compile(r"([ ]*)priority:[ \t]*-?[0-9]+[ \t]*(?:#.*)?\r?")
_PINNED: Final = ("pinned-priority", "priority-mismatch")
_KEY: Final = re.compile(r"[A-Za-z]+")


class Edit(NamedTuple):
    """New text for a range of one line; `new` None: remove the line. `is_safe`: the option `--fix` applies the edit."""

    location: Location
    old: str
    new: str | None
    title: str
    is_safe: bool = True


def edit_of(finding: Finding, line: str, classes: Collection[str], lines: tuple[str, str] = ("", "")) -> Edit | None:
    """Return the fix of a finding as an edit; None if there is no edit for it.

    `line`: the line of the finding. `classes`: the names that may be recommended. `lines`: the nearest lines before
    and after `line` that are not blank.
    """
    where = finding.location
    text = line[where.column - 1 : where.end_column - 1]
    if finding.rule == "unknown-priority-class":
        return _renamed_class(finding, text, classes)
    if finding.rule in _PINNED and finding.path.endswith("priority"):
        return _without_number(finding, line, lines)
    if finding.rule == "global-default-not-unique" and text == "true":
        return Edit(where, text, "false", "set globalDefault: false")
    meant = finding.detail.get("meant")
    if finding.rule == "unknown-field" and isinstance(meant, str) and _KEY.fullmatch(text):
        return Edit(where, text, meant, f"write {meant}", is_safe=False)
    return None


def _renamed_class(finding: Finding, text: str, classes: Collection[str]) -> Edit | None:
    name = str(finding.detail.get("class", ""))
    near = get_close_matches(name[:253], sorted(classes), n=2, cutoff=_LIKE)
    mark = text[:1] if text[:1] in ("'", '"') else ""
    if near != [finding.detail.get("meant")] or text != f"{mark}{name}{mark}":
        return None
    return Edit(finding.location, text, f"{mark}{near[0]}{mark}", f"use class {near[0]}")


def _without_number(finding: Finding, line: str, around: tuple[str, str]) -> Edit | None:
    """Return the edit that removes a `priority` line; None if the mapping has no other key on a line next to it."""
    match = _NUMBER.fullmatch(line)
    if match is None or not any(_indent(other) == len(match[1]) for other in around):
        return None
    return Edit(finding.location, line, None, "remove priority")


def _indent(line: str) -> int:
    """The column of the first key in a line, after a list's dash if there is one; -1 for a blank line."""
    return len(line) - len(line.lstrip(" -")) if line.strip() else -1


def edits_of(findings: Iterable[Finding], data: bytes, classes: Collection[str]) -> list[Edit]:
    """Return the edits of one file for its findings; none if the file is not plain UTF-8. `data`: the file's
    contents.
    """
    lines = _lines(data)
    if lines is None:
        return []
    found: dict[tuple[int, int], Edit] = {}
    for finding in findings:
        number = finding.location.line
        if 0 < number <= len(lines):
            around = _near(lines, number - 1, -1), _near(lines, number - 1, 1)
            edit = edit_of(finding, lines[number - 1], classes, around)
            if edit is not None:
                found[number, 0 if edit.new is None else finding.location.column] = edit
    return [edit for _, edit in sorted(found.items())]


def applied(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with these edits applied."""
    lines = _lines(data)
    if lines is None:
        return data
    new_lines: list[str | None] = [*lines]
    for edit in sorted(edits, key=lambda edit: (edit.location.line, edit.location.column), reverse=True):
        at = edit.location.line - 1
        line = new_lines[at]
        if edit.new is None or line is None:
            new_lines[at] = None
        else:
            start, end = edit.location.column - 1, edit.location.end_column - 1
            new_lines[at] = line[:start] + edit.new + line[end:]
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return mark + "\n".join(line for line in new_lines if line is not None).encode()


def _lines(data: bytes) -> list[str] | None:
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode().split("\n")
    except UnicodeDecodeError:
        return None


def _near(lines: list[str], at: int, step: int) -> str:
    """Return the next line in the direction `step` (1, -1) that is not blank or a comment, within 100 lines; "" if
    there is none.
    """
    for index in range(at + step, max(-1, min(at + 100 * step, len(lines))) if step > 0 else max(-1, at - 100), step):
        if lines[index].strip() and not lines[index].lstrip().startswith("#"):
            return lines[index]
    return ""
