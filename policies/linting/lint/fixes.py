"""The fixes of findings as edits, as fixed files, and as patches."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import Finding, Location, grouped
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.inputs.sources.files import readable, write_file
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.kube_apiserver.priority import is_recommended
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_NAMES, PriorityClass
from forewarn.policies.linting.lint.input import Input, wanted_kinds
from forewarn.policies.linting.rules.support.names import is_misspelt

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.linting.config.model import Config


_NUMBER: Final = re.compile(r"([ ]*)priority:[ \t]*-?[0-9]+[ \t]*(?:#.*)?\r?")
_PINNED: Final = ("pinned-priority", "priority-mismatch")
_REMOVE: Final = "remove priority"
_KEY: Final = re.compile(r"[A-Za-z]+")
_NEAR: Final = 99
"""Maximum number of lines before and after a finding that are read."""

FIXED: Final = {
    "unknown-priority-class": "can correct the name",
    **dict.fromkeys(_PINNED, "can remove `priority`"),
    "global-default-not-unique": "can write `globalDefault: false`",
}
"""Rule -> the effect of `lint --fix` on its findings."""


class Edit(NamedTuple):
    """A replacement of a range of one line; `new` None: remove the line. `is_safe`: `--fix` applies the edit."""

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
    if finding.rule in _PINNED and finding.fix == _REMOVE:
        return _without_number(finding, line, lines)
    if finding.rule == "global-default-not-unique" and text == "true":
        return Edit(where, text, "false", "set globalDefault: false")
    meant = finding.detail.get("meant")
    if finding.rule == "unknown-field" and isinstance(meant, str) and _KEY.fullmatch(text):
        return Edit(where, text, meant, f"write {meant}", is_safe=False)
    return None


def _renamed_class(finding: Finding, text: str, classes: Collection[str]) -> Edit | None:
    name = str(finding.detail.get("class", ""))
    meant = finding.detail.get("meant")
    near = [meant] if meant in SYSTEM_NAMES else [known for known in classes if is_misspelt(name, known)]
    mark = text[:1] if text[:1] in ("'", '"') else ""
    if near != [meant] or text != f"{mark}{name}{mark}":
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


def edits_of(findings: Iterable[Finding], data: bytes, classes: Collection[str]) -> list[tuple[Finding, Edit]]:
    """Return a file's edits, each with the finding that it fixes; none if not plain UTF-8. `data`: its contents."""
    lines = _lines(data)
    if lines is None:
        return []
    edits: dict[tuple[int, int], tuple[Finding, Edit]] = {}
    for finding in findings:
        number = finding.location.line
        if 0 < number <= len(lines):
            around = _first(reversed(lines[: number - 1][-_NEAR:])), _first(lines[number:][:_NEAR])
            edit = edit_of(finding, lines[number - 1], classes, around)
            if edit is not None:
                edits[number, 0 if edit.new is None else finding.location.column] = finding, edit
    return [edits[place] for place in sorted(edits)]


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
    with suppress(UnicodeDecodeError):
        return data.removeprefix(codecs.BOM_UTF8).decode().split("\n")
    return None


def _first(lines: Iterable[str]) -> str:
    """The first line that is not blank or a comment; "" if there is none."""
    return next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")


class FixedFile(NamedTuple):
    """A file before and after its fixes, and the fixed findings with their edits."""

    path: str
    before: bytes
    after: bytes
    edits: list[tuple[Finding, Edit]]


def class_names(files: Input, cluster: ClusterSnapshot | None) -> set[str]:
    """Return the names of the PriorityClasses that fixes may write."""
    classes = {**(cluster.priority_classes if cluster else {})}
    classes |= {defined.name: defined for defined, _ in defined_classes(files)}
    return {name for name, names in classes.items() if is_recommended(names)}


def defined_classes(files: Input) -> Iterator[tuple[PriorityClass, str]]:
    """The valid PriorityClasses of an input, each with its file."""
    for member in files.members:
        if group_kind(member.subject.object) == PRIORITY_CLASS:
            with suppress(InvalidObject):  # a finding reports the invalid class
                yield PriorityClass.from_api(member.subject.object), member.file


def fixed(
    findings: Sequence[Finding], files: Input, config: Config, cluster: ClusterSnapshot | None
) -> Iterator[FixedFile]:
    """Yield each file with safe fixes, and its text after them."""
    by_file = grouped((finding.location.file, finding) for finding in findings)
    names = class_names(files, cluster)
    for name, changes in by_file.items():
        file = files.sources.get(name)
        if file is None or file.is_stream:
            continue
        before = readable(file)
        edits = [(finding, edit) for finding, edit in edits_of(changes, before, names) if edit.is_safe]
        after = applied(before, [edit for _, edit in edits])
        if edits and _is_sound(before, after, name, config):
            yield FixedFile(file.path, before, after, edits)


def _is_sound(before: bytes, after: bytes, name: str, config: Config) -> bool:
    """Report whether the fixed text has the same numbers of objects and parse errors as the original."""
    readings = (read(data, name, wanted_kinds(config)) for data in (before, after))
    return len({(each.objects, len(each.subjects), len(each.diagnostics)) for each in readings}) == 1


def write(files: Sequence[FixedFile]) -> None:
    """Write the fixed files, each atomically. Raises SourceError."""
    for file in files:
        write_file(os.path.realpath(file.path), file.after)  # the target of a link was checked when the file was read


def patch_of(files: Iterable[FixedFile]) -> Iterator[str]:
    """Yield the lines of the fixes as a patch for `patch -p0`, without line feeds."""
    for file in files:
        before, after = (
            text.decode("utf-8", "replace").splitlines(keepends=True) for text in (file.before, file.after)
        )
        for line in unified_diff(before, after, file.path, file.path):
            yield line.rstrip("\r\n")
            if not line.endswith("\n"):
                yield "\\ No newline at end of file"
