"""Findings for a pull request: a Markdown table, and a chart of preemptions that GitHub and GitLab render."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.evaluation.suppressions import path_of
from forewarn.policies.findings import Finding, Severity, cut, one_line, plural
from forewarn.policies.render.report import found, worst_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.documents.findings import ReportChange

MAX_ROWS: Final = 100
_MAX_BYTES: Final = 900_000
_MAX_EDGES: Final = 40
_LONGEST: Final = 400
_SPECIAL: Final = re.compile(
    r"([\\`*\[\]<>#|~$@&]|(?<![^\W_])_|_(?![^\W_])|^[-+=](?=[-+=\s])|:(?=//|\d+:\D|[\w+-]*[a-z+-][\w+-]*:))"
)
"""What changes other text; a colon makes links (`://`) and emoji (`:name:`)."""
_SIGNS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(findings: Sequence[Finding], title: str = "forewarn lint", verdict: str = "") -> str:
    """The report as Markdown: the most severe findings first, within GitHub's size limit.

    `verdict`: for the heading (default: the numbers of findings).
    """
    lines = [f"### {title}: {text_of(verdict) or found(findings)}", ""]
    if findings:
        lines += ["| | where | what | fix |", "|---|---|---|---|"]
        lines += map(_row, worst_first(findings)[:MAX_ROWS])
        if len(findings) > MAX_ROWS:
            lines += ["", f"and {len(findings) - MAX_ROWS} more"]
        lines += _picture(findings)
    return _short(lines)


def changes(rows: Sequence[ReportChange], since: str) -> str:
    """The changes since an earlier report as a Markdown list."""
    shown = [f"- {item.change}: {text_of(': '.join(part for part in item[1:] if part))}" for item in rows[:MAX_ROWS]]
    more = [f"- and {len(rows) - MAX_ROWS} more"] if len(rows) > MAX_ROWS else []
    title = f"#### Since {text_of(since)}: {plural(len(rows), 'change') if rows else 'no changes'}"
    return "\n".join(["", "", title, "", *shown, *more])


def _short(lines: list[str]) -> str:
    """The lines that fit into GitHub's limit for a summary, as text."""
    size, kept = 0, []
    for line in lines:
        size += len(line.encode("utf-8", "replace")) + 1
        if size > _MAX_BYTES:
            break
        kept.append(line)
    return "\n".join(kept)


def _row(finding: Finding) -> str:
    place = finding.location
    where = f"{_code(path_of(place.file))}:{place.line}" if place.file else "the cluster"
    about = f"**{text_of(str(finding.object))}** " if str(finding.object) else ""
    what = f"{about}{text_of(cut(finding.message, _LONGEST))} ({_code(finding.rule)})"
    return f"| {_SIGNS[finding.severity]} | {where} | {what} | {text_of(cut(finding.remediation, _LONGEST))} |"


def text_of(text: str) -> str:
    """The text with special characters of Markdown and HTML escaped, without automatic links."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _code(text: str) -> str:
    return "`" + one_line(text).replace("`", "'").replace("|", "\\|") + "`"


def _picture(findings: Sequence[Finding]) -> Iterator[str]:
    """A Mermaid flowchart of the predicted preemptions."""
    edges = [edge for finding in findings if finding.rule == "preempts-running-pods" for edge in _edges(finding)]
    yield from flowchart(edges[:_MAX_EDGES]) if edges else ()


def flowchart(edges: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """A Mermaid flowchart of (preemptor, text, victim)."""
    names: dict[str, str] = {}
    yield from ("", "```mermaid", "flowchart LR")
    for preemptor, text, victim in edges:
        one, other = (names.setdefault(name, f"n{len(names)}") for name in (preemptor, victim))
        yield f'  {one}["{_label_of(preemptor)}"] -->|"{_label_of(text)}"| {other}["{_label_of(victim)}"]'
    yield "```"


def _edges(finding: Finding) -> Iterator[tuple[str, str, str]]:
    preemptions: Sequence[Mapping[str, Any]] = finding.detail.get("preemptions", ())
    for preemption in preemptions:
        for victim in preemption.get("victims", ()):
            yield (
                f"{finding.object} ({finding.detail.get('priority', 0)})",
                str(preemption.get("node", "")),
                str(victim),
            )


def _label_of(text: str) -> str:
    """The text as a Mermaid label, without Mermaid's special characters."""
    return re.sub(r'["#;<>\[\]{}|&`\\]', "'", cut(one_line(text), 120))
