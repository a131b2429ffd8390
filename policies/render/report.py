"""A report about an input: findings, counts, and fingerprints of findings."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.evaluation.suppressions import identity, path_of
from forewarn.policies.findings import Finding, Severity, no_command_in_json, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead


__all__ = [
    "ENTRIES",
    "Report",
    "counts",
    "fingerprints",
    "in_parts",
    "one_line_finding",
    "path_of",
    "uri",
    "worst_first",
]

ENTRIES: Final = ["\0"]
"""The placeholder in a JSON document for a list that is written entry by entry."""


class Report(NamedTuple):
    """One run of the linter. `line_of(file, line)`: returns a source line, or None. `names`: all files. `skipped`:
    number of skipped objects by kind. `head`: None without a cluster.
    """

    findings: Sequence[Finding]
    names: Sequence[str]
    objects: int
    skipped: Mapping[str, int]
    line_of: Callable[[str, int], str | None]
    suppressed: int = 0
    head: AnswerHead | None = None


def uri(file: str) -> str:
    """The path of a file as a URI, relative to the working directory; absolute if the file is outside."""
    from urllib.parse import quote

    path = os.path.relpath(file) if os.path.isabs(file) else os.path.normpath(file)
    path = os.path.abspath(path) if path.startswith(os.pardir) else path
    return quote(os.fsencode(path.replace(os.sep, "/")))


def one_line_finding(finding: Finding) -> str:
    """A finding in one line, `OBJECT: PROBLEM`, for example `Deployment shop/web: …`."""
    about = f"{finding.object}: " if str(finding.object) else ""
    return one_line(about + finding.message)


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """Return a unique fingerprint for each finding, equal in the next run. Findings with equal keys are numbered."""
    import hashlib

    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for finding in findings:
        key = identity(finding)
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        found.append(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32])
    return found


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings sorted by severity, the most severe first, otherwise in the same order."""
    return sorted(findings, key=lambda finding: finding.severity)


def in_parts(document: object, entries: Iterable[Any], indent: int) -> Iterator[str]:
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


def counts(findings: Sequence[Finding]) -> Mapping[Severity, int]:
    """The number of findings by severity."""
    return Counter(finding.severity for finding in findings)
