"""Findings for programs: one JSON object, its keys as docs/reference/json.md has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Severity, printable
from forewarn.policies.objects.fields import NOTHING
from forewarn.policies.render.report import ENTRIES, counts, fingerprints, in_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.findings import Finding
    from forewarn.policies.render.report import Report


VERSION: Final = 1
"""Of the format: keys may come, and none goes or changes its meaning, as long as this stays."""


def render(report: Report, left_out: Mapping[str, int] = NOTHING, more: Mapping[str, Any] = NOTHING) -> Iterator[str]:
    """The report as indented JSON, in parts, in the order of the findings. `more`: further keys."""
    found = counts(report.findings)
    marks = fingerprints(report.findings)
    told = {
        "version": VERSION,
        "findings": ENTRIES,
        "summary": {
            "files": len(report.names),
            "objects": report.objects,
            "errors": found[Severity.ERROR],
            "warnings": found[Severity.WARNING],
            "notes": found[Severity.NOTE],
            "skipped": sum(report.skipped.values()),
            "suppressed": report.suppressed,
            "leftOut": dict(left_out),
        },
        **more,
    }
    return in_parts(told, map(_finding, report.findings, marks), 2)


def _finding(finding: Finding, mark: str) -> dict[str, Any]:
    place, ref = finding.location, finding.object
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "message": finding.message,
        "remediation": finding.remediation,
        "file": _file(place.file),
        "line": place.line,
        "column": place.column,
        "endColumn": place.end_column,
        "field": finding.path,
        "fingerprint": mark,
        "object": {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name},
        **({"detail": dict(finding.detail)} if finding.detail else {}),
    }


def _file(name: str) -> str:
    """The name itself, or with escapes where it is no text."""
    return name if name.isprintable() else printable(name)
