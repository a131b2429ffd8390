"""Findings as text for grep: one line for each, with the source line, a caret below the value, and the fix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from forewarn.policies.base.findings import Finding, one_line, plural, printable
from forewarn.policies.cli.render import Painter, plain
from forewarn.policies.kubernetes.objects.fields import NOTHING
from forewarn.policies.questions.application.findings import one_line_finding


def render(
    findings: Sequence[Finding], line_of: Callable[[str, int], str | None], paint: Painter = plain, limit: int = 0
) -> Iterator[str]:
    """The report as text lines.

    `line_of(file, line)`: returns a source line, or None. `paint(text, style)`: returns the text in colour; styles are
    the severities, `bold` and `dim`. `limit`: maximum findings of one rule (0: all); a line counts the others.
    """
    shown, left = Counter[str](), Counter[str]()
    files = defaultdict[str, set[str]](set)
    for finding in findings:
        if limit and shown[finding.rule] == limit:
            left[finding.rule] += 1
            files[finding.rule].add(finding.location.file)
            continue
        shown[finding.rule] += 1
        place = finding.location
        where = f"{printable(place.file)}:{place.line}:{place.column}"
        head = f"{paint(where, 'bold')}: " if place.file else ""
        severity, rule = str(finding.severity), paint(f"[{finding.rule}]", "dim")
        yield f"{head}{paint(severity, severity)}: {one_line_finding(finding)} {rule}"
        yield from _excerpt(finding, line_of(place.file, place.line) if place.line else None, paint)
    for rule, count in left.items():
        yield f"and {count} more of {rule} in {plural(len(files[rule]), 'file')}: --max-per-rule 0 shows all"


_MAX_REPLACED: Final = 3
"""Maximum invalid bytes in a source line that is shown; with more of them, it is no text."""


def _excerpt(finding: Finding, line: str | None, paint: Painter) -> Iterator[str]:
    """The source line with its caret, cut to the width of a screen around the value."""
    place = finding.location
    gutter = " " * len(str(place.line))
    if line is not None and line.count("\ufffd") <= _MAX_REPLACED:
        start = max(0, place.column - 80)
        shown = "".join(" " if c in "\t\r" or not c.isprintable() else c for c in line[start : start + 160]).rstrip()
        width = max(1, min(place.end_column, start + 161) - place.column)
        caret = " " * (place.column - 1 - start) + "^" * width
        yield f"  {place.line} | {shown}"
        yield f"  {gutter} | {paint(caret, str(finding.severity))}"
    if finding.remediation:
        yield f"  {gutter} = Fix: {one_line(finding.remediation)}"


def checked_text(files: int, objects: int, skipped: Mapping[str, int], omitted: Mapping[str, int] = NOTHING) -> str:
    """The numbers of files and objects read, and of skipped objects, as a phrase."""
    left = f", {plural(sum(skipped.values()), 'object')} of other kinds skipped" if skipped else ""
    out = ", ".join(f"{what} ({count:,})" for what, count in sorted(omitted.items()))
    return f"{plural(files, 'file')}, {plural(objects, 'object')} checked{left}{out and f', left out: {out}'}"
