"""The HTML page of `forewarn audit`: numbers by rule, and one sortable table of findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.findings import counts
from forewarn.policies.findings import Finding, Severity, plural
from forewarn.policies.render.html.elements import MAX_ROWS, Page, element, page_header, section, table
from forewarn.policies.render.report import found

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element


_TITLE: Final = "Cluster audit"
_HEADS: Final = ("severity", "rule", "object", "message", "fix")
_NAMED_BY: Final = _HEADS.index("object")


def report(findings: Sequence[Finding], objects: int, pods: int, suppressed: int = 0, unknown: str = "") -> Page:
    """Return the page. `findings`: in the order of `audit`. `unknown`: why predictions are missing, or ""."""
    by_severity, shown = counts(findings), _listed_findings(findings)
    tiles = (
        ("errors", by_severity[Severity.ERROR], by_severity[Severity.ERROR] > 0),
        ("warnings", by_severity[Severity.WARNING], False),
        ("notes", by_severity[Severity.NOTE], False),
        ("suppressed", suppressed, False),
        ("objects checked", objects, False),
        ("Pods checked", pods, False),
    )
    header = page_header(found(findings, suppressed), tiles, f"No prediction: {unknown}" if unknown else "")
    parts = [_by_rule(findings, shown), _findings(findings, shown)]
    if not findings:
        parts = [section("Findings", "findings", element("p", "No findings."))]
    return Page(_TITLE, [header, *parts], scripts=("tables.js", "rows.js"))


def _listed_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings for the table, in order, at most MAX_ROWS: an equal share of each rule, then the most
    severe others.
    """
    share = MAX_ROWS // max(1, len({finding.rule for finding in findings}))
    seen: Counter[str] = Counter()
    beyond = []
    for finding in findings:
        seen[finding.rule] += 1
        beyond.append(seen[finding.rule] > share)
    chosen = sorted(range(len(findings)), key=beyond.__getitem__)[:MAX_ROWS]
    return [findings[place] for place in sorted(chosen)]


def _by_rule(findings: Sequence[Finding], shown: Sequence[Finding]) -> Element:
    omitted = len(findings) > len(shown)
    heads = ["rule", *(f"{severity}s" for severity in Severity), *(["not shown below"] if omitted else [])]
    rows = list(_counted(findings, shown, omitted))
    return section("By rule", "rules", table("Findings by rule and severity", heads, rows, len(rows)))


def _counted(findings: Sequence[Finding], shown: Sequence[Finding], omitted: bool) -> Iterator[list[str | int]]:
    """Yield the rows of the table of rules, in the order of the findings.

    `shown`: the findings in the table of findings. `omitted`: add a column with the number of omitted findings.
    """
    by_rule = Counter((finding.rule, finding.severity) for finding in findings)
    told_below = Counter(finding.rule for finding in shown)
    for rule in dict.fromkeys(finding.rule for finding in findings):
        of_severities = [by_rule[rule, severity] for severity in Severity]
        yield [rule, *of_severities, *([sum(of_severities) - told_below[rule]] if omitted else [])]


def _findings(findings: Sequence[Finding], shown: Sequence[Finding]) -> Element:
    rows = (
        (finding.severity, finding.rule, str(finding.object) or "the cluster", finding.message, finding.remediation)
        for finding in shown
    )
    left = len(findings) - len(shown)
    more = f"{len(shown)} shown, some of each rule; {plural(left, 'more finding')} not shown. Use -o json for all."
    note = element("p", more) if left else None
    shown_rows = table("Findings", _HEADS, rows, len(shown), _NAMED_BY)
    return section("Findings", "findings", note, _search(), shown_rows)


def _search() -> Element:
    """The search field, which the script shows and handles."""
    field = element("input", type="search", autocomplete="off", placeholder="rule, object or text")
    status = element("span", role="status", class_="dim")
    return element(
        "div", element("label", "Search", field, class_="field"), status, class_="tools of-rows", hidden=True
    )
