"""Findings as SARIF 2.1.0, with the fields that GitHub's code scanning requires.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0, and GitHub's "SARIF support for code scanning".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Finding, Location, ObjectRef, Severity, cut
from forewarn.policies.cli.render.report import ENTRIES, json_parts, uri
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.documentation import documentation_of
from forewarn.policies.questions.application.findings import Report, fingerprints, one_line_finding, worst_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.linting.lint.fixes import Edit
    from forewarn.policies.linting.rules.support.context import Rule

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_LENGTH: Final = 1024
_MAX_ERRORS: Final = 100
_BRACKETS: Final = re.compile(r"[\\\[\]]")
MAX_RESULTS: Final = 25_000
"""Maximum number of results that GitHub accepts; the most severe are included."""


def notices(report: Report) -> Iterator[str]:
    """Yield a line if the report has more findings than GitHub reads."""
    if len(report.findings) > MAX_RESULTS:
        yield f"sarif: the worst {MAX_RESULTS} of {len(report.findings)} findings (the limit of GitHub)"


def render(report: Report, version: str) -> Iterator[str]:
    """The report as SARIF, in parts, with one run. `version`: of forewarn."""
    return json_parts(_document(report, version, ENTRIES), _results(report), 1)


def document(report: Report, version: str) -> dict[str, Any]:
    return _document(report, version, list(_results(report)))


def placed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with an artificial path for each object, because SARIF requires one:
    `cluster/shop/Deployment/web`.
    """

    def placed_at(ref: ObjectRef) -> Location:
        parts = [part for part in (ref.namespace, ref.kind, ref.name) if part and part not in (".", "..")]
        return Location("/".join(["cluster", *(part.replace("/", "_") for part in parts)]), 1, 1, 1)

    return [finding._replace(location=placed_at(finding.object)) for finding in findings]


def _document(report: Report, version: str, results: list[Any]) -> dict[str, Any]:
    driver = {"name": "forewarn", "version": version, "semanticVersion": version, "rules": _rules(report)}
    head = {} if report.head is None else {"properties": report.head.to_dict()}
    is_complete = not report.errors and not any(finding.not_evaluated for finding in report.findings)
    notes = [{"level": "error", "message": {"text": cut(error, _MAX_LENGTH)}} for error in report.errors[:_MAX_ERRORS]]
    invocation = {"executionSuccessful": is_complete, "toolExecutionNotifications": notes}
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
        **head,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(report: Report) -> list[dict[str, Any]]:
    used = {finding.rule for finding in report.findings}
    others = sorted(used - {rule.ID for rule in RULES})  # rules of other packages
    return [*(_rule(rule) for rule in RULES if rule.ID in used), *({"id": name} for name in others)]


def _results(report: Report) -> Iterator[dict[str, Any]]:
    index = {rule["id"]: number for number, rule in enumerate(_rules(report))}
    marked = dict(zip(map(id, report.findings), fingerprints(report.findings), strict=True))
    edits = {id(finding): edit for finding, edit in report.edits()}
    for finding in worst_first(report.findings)[:MAX_RESULTS]:
        edit = edits.get(id(finding))
        fixes = {} if edit is None else {"fixes": [_fix(edit)]}
        yield _result(finding, index[finding.rule], marked[id(finding)]) | fixes


def _rule(rule: Rule) -> dict[str, Any]:
    documentation = documentation_of(rule)
    return {
        "id": rule.ID,
        "shortDescription": {"text": cut(documentation.what, _MAX_LENGTH)},
        "fullDescription": {"text": cut(documentation.why, _MAX_LENGTH)},
        "help": {"text": documentation.fix, "markdown": f"{documentation.why}\n\n**Fix:** {documentation.fix}"},
        "defaultConfiguration": {"level": str(rule.SEVERITY or Severity.WARNING)},
    }


def _result(finding: Finding, index: int, mark: str) -> dict[str, Any]:
    problem = one_line_finding(finding)
    if finding.remediation:
        problem += f"{'' if problem.endswith(('.', '?')) else '.'} Fix: {finding.remediation}"
    location = {"artifactLocation": {"uri": uri(finding.location.file)}, "region": _region(finding.location)}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": str(finding.severity),
        "message": {"text": without_links(problem)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"primaryLocationLineHash": f"{mark}:1"},
    }


def _region(place: Location) -> dict[str, int]:
    line, end = max(place.line, 1), max(place.end_column, place.column, 1)
    return {"startLine": line, "startColumn": max(place.column, 1), "endLine": line, "endColumn": end}


def _fix(edit: Edit) -> dict[str, Any]:
    region = _region(edit.location)
    if edit.new is None:  # the whole line
        region |= {"startColumn": 1, "endLine": edit.location.line + 1, "endColumn": 1}
    replacement = {"deletedRegion": region, "insertedContent": {"text": edit.new or ""}}
    changes = [{"artifactLocation": {"uri": uri(edit.location.file)}, "replacements": [replacement]}]
    return {"description": {"text": without_links(cut(edit.title, _MAX_LENGTH))}, "artifactChanges": changes}


def without_links(text: str) -> str:
    """A text without embedded links, such as `[name](https://example.com)`. Source: SARIF 3.11.6."""
    return _BRACKETS.sub(r"\\\g<0>", text) if "](" in text else text
