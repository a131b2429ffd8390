"""Findings about a cluster as text: the most severe first, grouped by rule."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Location, Severity, one_line, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.report import one_line_finding
from forewarn.policies.render.table import page_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.findings import Finding, ObjectRef

MAX_PER_RULE: Final = 20
"""Maximum findings of one rule in the text; JSON contains all."""


def render(findings: Sequence[Finding], paint: Painter = plain) -> Iterator[str]:
    """The report as lines. `findings`: in the order of `audit`."""
    for (severity, rule), group in groupby(findings, key=lambda finding: (finding.severity, finding.rule)):
        found = list(group)
        for finding in found[:MAX_PER_RULE]:
            about = f"{finding.object}: " if str(finding.object) else ""
            message = one_line(about + finding.message)
            yield f"{paint(str(severity), str(severity))}: {message} {paint(f'[{rule}]', 'dim')}"
        if len(found) > MAX_PER_RULE:
            yield f"  and {len(found) - MAX_PER_RULE} more of {rule}; use -o json for all"
        for fix in dict.fromkeys(finding.remediation for finding in found if finding.remediation):
            yield f"  = Fix: {one_line(fix)}"


_HEADS: Final = ("SEVERITY", "RULE", "COUNT", "FIRST FINDING")


def render_summary(findings: Sequence[Finding], paint: Painter = plain, width: int = 0) -> Iterator[str]:
    """One page: a line for each rule, the most severe first, with its first finding; another for unevaluated ones.

    `width`: as in `page_table`.
    """

    def key(finding: Finding) -> tuple[Severity, str, bool]:
        return finding.severity, finding.rule, finding.not_evaluated

    groups = [list(group) for _, group in groupby(sorted(findings, key=key), key=key)]
    rows = [(str(group[0].severity), group[0].rule, len(group), one_line_finding(group[0])) for group in groups]
    for number, line in enumerate(page_table(_HEADS, rows, width) if rows else ()):
        yield line if number else paint(line, "bold")
    if rows:
        yield paint("use -v for every finding with its fix, -o json for all details", "dim")


def placed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with an artificial path for each object, because SARIF requires one:
    `cluster/shop/Deployment/web`.
    """
    return [finding._replace(location=Location(_path(finding.object), 1, 1, 1)) for finding in findings]


def _path(ref: ObjectRef) -> str:
    parts = [part for part in (ref.namespace, ref.kind, ref.name) if part and part not in (".", "..")]
    return "/".join(["cluster", *(part.replace("/", "_") for part in parts)])


def summary(pods: int, objects: int, findings: Sequence[Finding], suppressed: int) -> str:
    """One line with the numbers of checked objects and of findings."""
    counts = [(severity, sum(finding.severity is severity for finding in findings)) for severity in Severity]
    found = ", ".join(plural(count, str(severity)) for severity, count in counts if count) or "no findings"
    found += f" ({suppressed} suppressed)" if suppressed else ""
    return f"{found}: {plural(objects, 'object')} and {plural(pods, 'Pod')} checked"
