"""Findings on a cluster for people: the worst first, those of one rule together."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from policies.findings import Severity, one_line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.findings import Finding

MOST_OF_A_RULE: Final = 20
"""Findings of one rule that are told one by one; programs get them all."""


def _plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a painter)
    return text


def render(findings: Sequence[Finding], paint: Callable[[str, str], str] = _plain) -> Iterator[str]:
    """The report, line by line; `findings` as `audit` orders them."""
    for (severity, rule), group in groupby(findings, key=lambda finding: (finding.severity, finding.rule)):
        found = list(group)
        for finding in found[:MOST_OF_A_RULE]:
            about = f"{finding.object}: " if str(finding.object) else ""
            said = one_line(about + finding.message)
            yield f"{paint(str(severity), str(severity))}: {said} {paint(f'[{rule}]', 'dim')}"
        if len(found) > MOST_OF_A_RULE:
            yield f"  and {len(found) - MOST_OF_A_RULE} more of {rule}; use -o json for all"
        for fix in dict.fromkeys(finding.remediation for finding in found if finding.remediation):
            yield f"  = Fix: {one_line(fix)}"


def summary(pods: int, objects: int, findings: Sequence[Finding], suppressed: int) -> str:
    """What was looked at and found, in one line."""
    counts = [(severity, sum(finding.severity is severity for finding in findings)) for severity in Severity]
    found = ", ".join(plural(count, str(severity)) for severity, count in counts if count) or "no findings"
    found += f" ({suppressed} suppressed)" if suppressed else ""
    return f"{plural(objects, 'object')} and {plural(pods, 'Pod')} checked: {found}"
