"""Findings in deprecated charts and archives, and removed versions and rejected values in files for tests: notes.
Classes that several charts create.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Action, Finding, Severity, cut
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.values import first_value
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.inputs.sources.git import upwards, work_trees
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import at, group_kind, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

if TYPE_CHECKING:
    from forewarn.policies.linting.lint.input import Input

CHART: Final = "Chart.yaml"
_OF_TESTS: Final = ("evictions-blocked", "removed-api-version", "scheduler-configuration")
"""Rules whose findings are notes in files for tests, which may be old, or block evictions, on purpose."""
_WRONG_ON_PURPOSE: Final = ("parse-error", "unknown-field", "value-rejected")
_NAMELESS: Final = "name or generateName is required"
"""A program completes such a manifest."""
_FIXTURES: Final = later(r"(?:^|/)(?:testdata|fixtures?|golden|src/test|tests?/(?:data|generated|snapshots?))/")
"""Directories whose files may have rejected values on purpose, or as the output of a test."""
_TESTS: Final = later(r"(?:^|/)(?:e2e|tests?|testing|testdata|fixtures?)/")
_ARCHIVES: Final = later(
    r"(?:^|/)(?:[._]archive|[._]?(?:archived|attic|deprecated|obsolete|old|te?mp|unused)|invalid[\w-]*)/"
)
"""Directories of manifests that are never deployed, or are invalid on purpose."""
_TEMPLATES: Final = f"{os.sep}templates{os.sep}"
_SHOWN: Final = 63


def lowered(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in order, those in deprecated charts and archives and of some rules in tests as notes."""
    says_deprecated = cache(_says_deprecated)  # each chart is read once
    return sorted((_lowered(finding, says_deprecated) for finding in findings), key=lambda finding: finding.order)


def _lowered(finding: Finding, says_deprecated: Callable[[str], bool]) -> Finding:
    if finding.severity is Severity.NOTE or not finding.line:
        return finding
    top = next(work_trees(os.path.dirname(finding.file)), None)
    path = os.path.relpath(os.path.realpath(finding.file), top) if top else finding.file
    is_old = (finding.rule in _OF_TESTS or _NAMELESS in finding.message) and _TESTS.search(path)
    is_meant = finding.rule in _WRONG_ON_PURPOSE and _FIXTURES.search(finding.file)
    is_inside = top is not None or not os.path.isabs(path)  # a directory above the checkout says nothing about it
    is_archived = is_inside and _ARCHIVES.search(path)
    if is_old or is_meant or is_archived or any(map(says_deprecated, upwards(os.path.dirname(finding.file)))):
        return finding._replace(severity=Severity.NOTE, action=Action.AUDIT)
    return finding


def repeated_classes(files: Input) -> Iterator[FileDiagnostic]:
    """Yield the PriorityClasses that several charts create in every release: helm installs only one of the charts."""
    first = dict[str, Sequence[str]]()
    classes = (member for member in files.members if group_kind(member.subject.object) == PRIORITY_CLASS)
    for member in sorted(classes, key=lambda member: member.file):
        subject = member.subject
        is_whole = member.reported and not subject.is_partial and not subject.within
        if is_whole and _TEMPLATES in member.file and member.file not in files.engines:
            charts = [*_charts_of(member.file)]
            others = first.setdefault(subject.ref.name, charts)
            if others and set(charts).isdisjoint(others):
                other, place = cut(others[-1], _SHOWN), subject.locate(("metadata", "name"))
                message = f"chart {other} also creates this class: helm installs only one of both charts"
                fix = "create it in one chart, or use another name"
                yield FileDiagnostic("class-in-hook", message, place, fix, subject.ref, Severity.NOTE)


def _charts_of(file: str) -> Iterator[str]:
    """Yield the name of the chart of a file, and of the charts that have it as a subchart."""
    for directory in upwards(os.path.dirname(file)):
        path = os.path.join(directory, CHART)
        if os.path.isfile(path):
            yield text_at(first_value(readable(File(path, directory)), path), "name")


def _says_deprecated(directory: str) -> bool:
    path = os.path.join(directory, CHART)
    data = readable(File(path, directory)) if os.path.isfile(path) else b""
    return b"deprecated" in data and at(first_value(data, path), "deprecated") is True
