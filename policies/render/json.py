"""Findings for programs: one JSON object, its keys as docs/lint.md has them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from policies.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.findings import Finding


def render(findings: Sequence[Finding], *, files: int, objects: int, skipped: Mapping[str, int]) -> str:
    """The report as indented JSON, in the order of the findings."""
    counts = Counter(finding.severity for finding in findings)
    report = {
        "findings": [_finding(finding) for finding in findings],
        "summary": {
            "files": files,
            "objects": objects,
            "errors": counts[Severity.ERROR],
            "warnings": counts[Severity.WARNING],
            "notes": counts[Severity.NOTE],
            "skipped": sum(skipped.values()),
        },
    }
    return json.dumps(report, indent=2)


def _finding(finding: Finding) -> dict[str, Any]:
    place, ref = finding.location, finding.object
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "message": finding.message,
        "remediation": finding.remediation,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "endColumn": place.end_column,
        "object": {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name},
        **({"detail": dict(finding.detail)} if finding.detail else {}),
    }
