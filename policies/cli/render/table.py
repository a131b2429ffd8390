"""Tables in text and Markdown, and findings in Markdown, for pull requests and job summaries."""

from __future__ import annotations

import re
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Finding, brief, cut, one_line, plural
from forewarn.policies.cli.render import fitting_prefix
from forewarn.policies.cli.render.report import findings_text
from forewarn.policies.linting.evaluation.suppressions import path_of
from forewarn.policies.questions.application.findings import worst_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Rows = Sequence[Sequence[str | int]]


def titles(heads: Iterable[str]) -> list[str]:
    """Column heads of a text table for Markdown."""
    return [_LOWERED.sub(lambda match: _AS_WRITTEN[match[0]], head.capitalize()) for head in heads]


_AS_WRITTEN: Final = {"Pdb": "PDB", "pdbs": "PDBs", "pods": "Pods", "pending": "Pending", "maxreplicas": "maxReplicas"}
_LOWERED: Final = re.compile("|".join(_AS_WRITTEN))


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(text_of(brief(str(cell), _MAX_CELL_LENGTH)) for cell in row)} |"


def left_out(count: int, limit: int, noun: str = "", indent: str = "", many: str = "") -> Iterator[str]:
    """A line with the number of items above `limit`, if there are more."""
    if (more := count - limit) > 0:
        what = plural(more, f"more {noun}", many and f"more {many}") if noun else f"{more} more"
        yield f"{indent}and {what}; use -o json for all"


def fitting(texts: Iterable[str], limit: int, noun: str) -> Iterator[str]:
    """Yield the texts that fit into `limit` bytes, and the number of the others."""
    size = more = 0
    for text in texts:
        grown = size + len(text.encode()) + 2
        if grown > limit:
            more += 1
        else:
            size = grown
            yield text
    yield from left_out(more, 0, noun)


def folded(summary: str, body: str) -> str:
    """Markdown that GitHub and GitLab show only after a click on the summary."""
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"


MAX_ROWS: Final = 100
_MAX_BYTES: Final = 900_000
"""Maximum bytes of a summary; GitHub accepts 1 MiB."""
_MAX_LENGTH: Final = 400
_MAX_CELL_LENGTH: Final = 200
_SPECIAL: Final = re.compile(
    r"([\\`*\[\]<>#|~$@&]|(?<![^\W_])_|_(?![^\W_])|^[-+=](?=[-+=\s])|:(?=//|\d+:\D|[\w+-]*[a-z+-][\w+-]*:))"
)
"""Characters with a meaning in Markdown or HTML; colons delimit emoji (`:name:`)."""
_WORDS: Final = re.compile(r"\s+|\S+")
_LINKED: Final = re.compile(
    r"www\.|://|\w@|@\w|#\d|\b(?:mailto|xmpp|gh-\d)|^[({\[]*(?=\d*[a-f])[0-9a-f]{7,40}(?![0-9a-z-])", re.IGNORECASE
)
"""Matches in words that GitHub turns into links even if escaped: addresses, e-mail, users, issues and commits."""


def markdown_findings(findings: Sequence[Finding]) -> str:
    """The report as Markdown: the most severe findings first, within GitHub's size limit."""
    lines = [f"### forewarn lint: {findings_text(findings)}", ""]
    if findings:
        lines += ["| | where | what | fix |", "|---|---|---|---|"]
        lines += map(_row, worst_first(findings)[:MAX_ROWS])
        if len(findings) > MAX_ROWS:
            lines += ["", f"and {len(findings) - MAX_ROWS} more"]
    return "\n".join(fitting_prefix(lines, _MAX_BYTES, lambda line: len(line.encode("utf-8", "replace")) + 1))


def _row(finding: Finding) -> str:
    place = finding.location
    where = f"{_code(path_of(place.file))}:{place.line}" if place.file else "the cluster"
    about = f"**{text_of(str(finding.object))}** " if str(finding.object) else ""
    what = f"{about}{text_of(cut(finding.message, _MAX_LENGTH))} ({_code(finding.rule)})"
    return f"| {finding.severity} | {where} | {what} | {text_of(cut(finding.remediation, _MAX_LENGTH))} |"


def text_of(text: str) -> str:
    """The text with special characters of Markdown and HTML escaped. Words that GitHub would turn into links become
    code.
    """
    parts = groupby(_WORDS.findall(one_line(text)), lambda word: _LINKED.search(word) is not None)
    return "".join(
        "".join(map(_code, words)) if are_linked else _SPECIAL.sub(r"\\\1", "".join(words))
        for are_linked, words in parts
    )


def _code(text: str) -> str:
    return "`" + one_line(text).replace("`", "'").replace("|", "\\|") + "`"
