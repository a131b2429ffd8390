"""Findings in formats of CI systems: GitLab's Code Quality, reviewdog, GitHub's log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from forewarn.policies.base.findings import Finding, Severity, no_command, one_line
from forewarn.policies.cli.render.report import ENTRIES, json_parts
from forewarn.policies.linting.evaluation.suppressions import path_of
from forewarn.policies.questions.application.findings import Report, fingerprints, one_line_finding, worst_first

_GITLAB: Final = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}
_RDJSON: Final = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "INFO"}
_GITHUB: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
MAX_ANNOTATIONS: Final = 10
"""Maximum number of annotations of each severity that GitHub shows for a step."""


def gitlab(report: Report) -> Iterator[str]:
    """Yield a Code Quality report. GitLab merges equal fingerprints, and shows only the description."""
    marks = fingerprints(report.findings)
    entries = (
        {
            "description": f"{finding.rule}: {one_line_finding(finding)}",
            "check_name": finding.rule,
            "fingerprint": mark,
            "severity": _GITLAB[finding.severity],
            "location": {"path": path_of(finding.location.file), "lines": {"begin": max(finding.location.line, 1)}},
        }
        for finding, mark in zip(report.findings, marks, strict=True)
    )
    return json_parts(ENTRIES, entries, 1)


def rdjson(report: Report) -> Iterator[str]:
    """A report for reviewdog: end positions are exclusive, and columns count bytes of UTF-8."""
    return json_parts({"source": {"name": "forewarn"}, "diagnostics": ENTRIES}, _diagnostics(report), 1)


def _diagnostics(report: Report) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        place = finding.location
        line = report.line_of(place.file, place.line) or ""
        start, end = (_bytes(line, column) for column in (place.column, place.end_column))
        span = {"start": {"line": place.line, "column": start}, "end": {"line": place.line, "column": end}}
        where = {"path": path_of(place.file)} | ({"range": span} if place.line else {})
        fix = f"\nFix: {finding.remediation}" if finding.remediation else ""
        yield {
            "message": one_line_finding(finding) + fix,
            "location": where,
            "severity": _RDJSON[finding.severity],
            "code": {"value": finding.rule},
        }


def _bytes(line: str, column: int) -> int:
    """The column in bytes for a column in characters, both from 1."""
    return len(line[: column - 1].encode("utf-8", "replace")) + max(column - 1 - len(line), 0) + 1


def github(findings: Sequence[Finding]) -> tuple[list[str], list[Finding]]:
    """Return GitHub workflow commands, the most severe first; and the findings beyond GitHub's limit."""
    lines: list[str] = []
    rest: list[Finding] = []
    shown: dict[Severity, int] = defaultdict(int)
    for finding in worst_first(findings):
        if shown[finding.severity] == MAX_ANNOTATIONS:
            rest.append(finding)
            continue
        shown[finding.severity] += 1
        lines.append(_command(finding))
    return lines, rest


def _command(finding: Finding) -> str:
    place = finding.location
    properties = {
        "file": path_of(place.file),
        "line": str(max(place.line, 1)),
        "col": str(max(place.column, 1)),
        "endColumn": str(max(place.end_column, place.column, 1)),
        "title": finding.rule,
    }
    fix = f"\nFix: {one_line(finding.remediation)}" if finding.remediation else ""
    escaped = {name: _escaped(no_command(value)) for name, value in properties.items()}
    given = ",".join(f"{name}={text.replace(':', '%3A').replace(',', '%2C')}" for name, text in escaped.items())
    return f"::{_GITHUB[finding.severity]} {given}::{_escaped(no_command(one_line_finding(finding) + fix))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
