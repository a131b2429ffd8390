"""JUnit XML for Jenkins and GitLab: findings of the linter, and results of expectations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from forewarn.policies.base.findings import Finding, Severity, grouped, no_command_in_markup, one_line
from forewarn.policies.linting.evaluation.suppressions import path_of
from forewarn.policies.questions.application.findings import Report, one_line_finding

if TYPE_CHECKING:
    from forewarn.policies.questions.application.expectations import Tested

_MAX_CLEAN: Final = 10_000
_MAX_FAILURES: Final = 30
"""Maximum number of violations of one expectation."""


_Part = tuple[str, Sequence[str], Mapping[str, str]]
"""What a case reports: `failure`, `error` or `system-out`, the lines of its text, and attributes."""
_Case = tuple[str, str, Sequence[_Part]]
"""A class name, a name by which GitLab identifies the case, and what the case reports; () for a passed case."""


def finding_suite(report: Report) -> Iterator[str]:
    """Yield a suite: a failed case for each error, and passed ones for other findings and files without findings."""
    by_file = grouped((finding.location.file, finding) for finding in report.findings)
    clean = [name for name in report.names if name not in by_file][:_MAX_CLEAN]
    failures = sum(finding.severity is Severity.ERROR for finding in report.findings)
    counts = {"tests": len(report.findings) + len(clean), "failures": failures, "errors": 0}
    cases = (case for file, rows in by_file.items() for case in _cases(path_of(file), rows))
    passed = ((path_of(name), "lint", ()) for name in clean)
    head = {} if report.head is None else report.head.to_dict()
    texts = {name: "; ".join(value) if isinstance(value, list) else str(value) for name, value in head.items()}
    yield from _suite("forewarn lint", counts, (case for part in (cases, passed) for case in part), texts)


def _cases(file: str, findings: Iterable[Finding]) -> Iterator[_Case]:
    seen: Counter[str] = Counter()
    for finding in findings:
        place, message = finding.location, one_line_finding(finding)
        name = " ".join(filter(None, (finding.rule, str(finding.object), finding.path)))
        seen[name] += 1
        name += f" ({seen[name]})" if seen[name] > 1 else ""
        lines = [f"{file}:{place.line}:{place.column}: {finding.severity}: {message}"]
        lines += [f"Fix: {finding.remediation}"] if finding.remediation else []
        is_error = finding.severity is Severity.ERROR
        about = {"message": message, "type": str(finding.severity)} if is_error else {}
        yield file, name, [("failure" if is_error else "system-out", lines, about)]


def expectation_suite(results: Sequence[Tested]) -> Iterator[str]:
    """Yield a suite with a case for each expectation."""
    broken = sum(bool(result.failures) for result in results)
    unanswered = sum(bool(result.not_evaluated) for result in results)
    counts = {"tests": len(results), "failures": broken, "errors": unanswered}
    yield from _suite("forewarn test", counts, map(_case_of, results))
    yield "\n"


def _case_of(result: Tested) -> _Case:
    parts: list[_Part] = []
    if failures := result.failures:
        more = len(failures) - _MAX_FAILURES
        shown = [*failures[:_MAX_FAILURES], *([f"and {more} more"] if more > 0 else [])]
        events = (f"  {line}" for line in result.timeline or ())
        lines = [result.case, *(f"- {sentence}" for sentence in shown), *events]
        parts.append(("failure", lines, {"message": failures[0]}))
    if result.not_evaluated:
        text = "; ".join(result.not_evaluated)
        parts.append(("error", [text], {"message": text}))
    parts += [("system-out", ["; ".join(result.notes)], {})] if result.notes else []
    return "forewarn test", result.name, parts


def _suite(
    name: str, counts: Mapping[str, int], cases: Iterable[_Case], properties: Mapping[str, str] = {}
) -> Iterator[str]:
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites{_attributes(counts)}>\n'
    yield f"  <testsuite{_attributes({'name': name, **counts, 'skipped': 0})}>\n"
    shown = (f"      <property{_attributes({'name': key, 'value': properties[key]})}/>\n" for key in properties)
    yield no_command_in_markup(f"    <properties>\n{''.join(shown)}    </properties>\n") if properties else ""
    for classname, case, reported in cases:
        parts = "".join(
            f"      <{tag}{_attributes(attributes)}>{escape(chr(10).join(map(one_line, lines)))}</{tag}>\n"
            for tag, lines, attributes in reported
        )
        start = f"    <testcase{_attributes({'classname': classname, 'name': case})}>"
        yield no_command_in_markup(f"{start}\n{parts}    </testcase>\n")
    yield "  </testsuite>\n</testsuites>"


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(f" {name}={quoteattr(one_line(str(text)))}" for name, text in values.items())
