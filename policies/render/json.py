"""Findings as one JSON object. docs/reference/json.md documents its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Severity, printable
from forewarn.policies.objects.fields import NOTHING
from forewarn.policies.render.head import headed
from forewarn.policies.render.report import ENTRIES, counts, fingerprints, in_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.findings import Finding
    from forewarn.policies.render.report import Report


VERSION: Final = 1
"""The version of the format.

Later releases may add keys; while the version stays, no key is removed or changes meaning.
"""


def render(report: Report, omitted: Mapping[str, int] = NOTHING, more: Mapping[str, Any] = NOTHING) -> Iterator[str]:
    """Yield the report as indented JSON, in parts; findings in report order. `omitted`: number of skipped files by
    reason. `more`: further keys.
    """
    found = counts(report.findings)
    marks = fingerprints(report.findings)
    document: dict[str, Any] = {
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
            "leftOut": dict(omitted),
        },
        **more,
    }
    if report.head is not None:
        document = headed(document, report.head)
    return in_parts(document, map(_finding, report.findings, marks), 2)


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
    """The name, with escapes if it contains unprintable characters."""
    return name if name.isprintable() else printable(name)
