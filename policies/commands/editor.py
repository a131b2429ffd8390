"""The linter for editors: findings of unsaved text, descriptions of names, and fixes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.commands.lint import findings_on, unsuppressed
from forewarn.policies.commands.lint_fix import class_names
from forewarn.policies.commands.lint_input import Input, read_input, wanted_kinds
from forewarn.policies.commands.lint_schemas import with_schemas
from forewarn.policies.config import find_config
from forewarn.policies.config.model import Config
from forewarn.policies.evaluation.fixes import edits_of
from forewarn.policies.evaluation.foreign_rules import with_rules
from forewarn.policies.evaluation.suppressions import of_annotations, of_comments
from forewarn.policies.findings import cut, printable
from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.manifests import read
from forewarn.policies.manifests.groups import Member
from forewarn.policies.objects.fields import InvalidObject, group_kind
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES, PriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.evaluation.fixes import Edit
    from forewarn.policies.findings import Finding

NAMESPACE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]*")
_LONGEST_NAME: Final = 253
_LONGEST_LINE: Final = 10_000
_MAX_LISTED: Final = 3
"""Maximum definitions of one class in a description: a directory tree may have one for each environment."""


class Checked(NamedTuple):
    """A checked text, its findings, and the PriorityClasses that the text can name, each with the file that defines
    the class.
    """

    text: str
    findings: list[Finding]
    given: Input
    classes: list[tuple[PriorityClass, str]]

    @property
    def lines(self) -> list[str]:
        """The lines of the text, numbered as in findings."""
        return self.text.split("\n")


class Workspace:
    """A directory with its configuration and the definitions in its files. Root "": no directory, for a single file."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self.config = Config()
        self._files: Input | None = None
        self._real: dict[str, str] = {}

    def refresh(self) -> None:
        """Reload the configuration now, and the files at the next request. Raises ConfigError."""
        self._files = None
        self.config = Config()
        found = find_config(self._root) if self._root else None
        if found:
            from forewarn.policies.config.load import load_config

            self.config = with_rules(load_config(found))

    def check(self, path: str, text: str) -> Checked:
        """Check a file with this text, together with the definitions in other files.

        Raises only internal errors of rules, regardless of the text.
        """
        given = self._with(path, text)
        grouping = given.grouping(self.config)
        found, _ = findings_on(grouping, given, None, self.config)
        found, _ = unsuppressed(found, given, self.config, with_cluster=False)
        return Checked(text, [f for f in found if f.location.file == path], given, list(_classes(given)))

    def _with(self, path: str, text: str) -> Input:
        """Return the linter's input for the directory, with this text in place of the file."""
        files, own = self._read(), os.path.realpath(path)
        reading = read(text, path, wanted_kinds(self.config), namespace=NAMESPACE)
        mine = [Member.of(subject, path) for subject in reading.subjects]
        given, place = Input(), None
        for member in files.members:
            if self._real[member.file] == own:
                place = len(given.members) if place is None else place
            else:
                given.members.append(member._replace(reported=False))
        at = len(given.members) if place is None else place
        given.members[at:at] = mine
        given.kustomizations = files.kustomizations
        given.reported, given.objects = [path], reading.objects
        given.diagnostics = list(reading.diagnostics)
        given.suppressions = [*of_comments(reading.comments), *of_annotations(reading.subjects)]
        return given

    def _read(self) -> Input:
        if self._files is None:
            self._files = read_input([self._root], self.config, NAMESPACE) if self._root else Input()
            self.config = with_schemas(self.config, self._files)
            self._real = {file: os.path.realpath(file) for file in {m.file for m in self._files.members}}
        return self._files


def meaning(checked: Checked, line: int, column: int) -> str:
    """Return the hover text for a position (line and column from 1); "" if there is none."""
    found = [f for f in checked.findings if f.location.line == line and _covers(f, column)]
    messages = [f"{f.severity} [{f.rule}] {f.message}" + (f"\n{f.remediation}" if f.remediation else "") for f in found]
    name = _name_at(checked, line, column)
    if name:
        same = [(c, file) for c, file in checked.classes if c.name == name]
        messages = [*(_class_line(c, file) for c, file in same[:_MAX_LISTED]), *messages]
        if len(same) > _MAX_LISTED:
            messages.insert(_MAX_LISTED, f"and {len(same) - _MAX_LISTED} more definitions")
    if found:
        messages.append(f"forewarn explain {found[0].rule}")
    return "\n\n".join("\n".join(map(printable, each.split("\n"))) for each in messages)


def fixes_on(checked: Checked, first: int, last: int) -> list[tuple[Finding, Edit]]:
    """The fixes on these lines (from 1, inclusive), each with its finding."""
    found = []
    names = class_names(checked.given, None)
    data = checked.text.encode("utf-8", "surrogatepass")
    for finding in checked.findings:
        if first <= finding.location.line <= last:
            found += [(finding, edit) for edit in edits_of([finding], data, names)]
    return found


def _covers(finding: Finding, column: int) -> bool:
    return finding.location.column <= column <= max(finding.location.end_column, finding.location.column + 1)


def _name_at(checked: Checked, line: int, column: int) -> str:
    """Return the name at a position, if the line can contain a PriorityClass name; otherwise ""."""
    lines = checked.lines
    text = lines[line - 1][:_LONGEST_LINE] if 0 < line <= len(lines) else ""
    if not re.search(r"[cC]lass|name", text):
        return ""
    names = (m for m in _NAME.finditer(text) if m.start() < column <= m.end() + 1)
    return next((m[0] for m in names if len(m[0]) <= _LONGEST_NAME), "")


def _classes(given: Input) -> Iterator[tuple[PriorityClass, str]]:
    yield from ((known, "every cluster") for known in SYSTEM_CLASSES)
    for member in given.members:
        if group_kind(member.subject.object) == PRIORITY_CLASS:
            try:
                yield PriorityClass.from_api(member.subject.object), member.file
            except InvalidObject:
                continue  # a finding says so


def _class_line(known: PriorityClass, file: str) -> str:
    default = ", the default of pods without a class" if known.global_default else ""
    line = f"PriorityClass {known.name}: {known.value}, {known.preemption_policy}{default} ({cut(file, 200)})"
    return cut(line, 1_000)
