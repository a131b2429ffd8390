"""Parts of reports on findings that several formats share, and the report as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from forewarn.policies.base.documents import json_of, to_dict
from forewarn.policies.base.findings import Finding, Severity, no_command_in_json, plural
from forewarn.policies.questions.application.findings import Report, counts

ENTRIES: Final = ["\0"]
"""The placeholder in a JSON document for a list that is written entry by entry."""


def uri(file: str) -> str:
    """The path of a file as a URI, relative to the working directory; absolute if the file is outside."""
    from urllib.parse import quote

    path = os.path.relpath(file) if os.path.isabs(file) else os.path.normpath(file)
    path = os.path.abspath(path) if path.startswith(os.pardir) else path
    return quote(os.fsencode(path.replace(os.sep, "/")))


def findings_text(findings: Sequence[Finding], suppressed: int = 0) -> str:
    """The numbers of findings as a phrase."""
    by_severity = counts(findings)
    numbers = [plural(by_severity[severity], str(severity)) for severity in Severity if by_severity[severity]]
    nothing_bad = "no errors or warnings, " if by_severity[Severity.NOTE] and len(numbers) == 1 else ""
    return f"{nothing_bad}{', '.join(numbers) or 'no findings'}{f' ({suppressed} suppressed)' if suppressed else ''}"


def json_parts(document: object, entries: Iterable[Any], indent: int) -> Iterator[str]:
    """Yield the JSON of a document in parts, with `entries` in place of ENTRIES. Only one entry is in memory at a
    time.
    """
    import json

    before, after = no_command_in_json(json.dumps(document, indent=indent)).split(json.dumps(ENTRIES[0]))
    deeper, behind = "\n" + before.rpartition("\n")[2], after[: len(after) - len(after.lstrip())]
    separator = before
    for entry in entries:
        yield separator + no_command_in_json(json.dumps(entry, indent=indent)).replace("\n", deeper)
        separator = "," + deeper
    if separator is before:
        yield before.rstrip() + after.removeprefix(behind)
    else:
        yield after


def as_json(report: Report) -> Iterator[str]:
    """Yield the report as indented JSON, in parts. docs/reference/json.md documents its keys."""
    empty = to_dict(report._replace(findings=()))
    document = {**empty, "findings": ENTRIES, "summary": json_of(report.summary)}
    return json_parts(document, map(json_of, report.entries()), 2)
