"""Findings as kubectl shows them: warnings within their limits, audit annotations, the text of a denial.

Warnings and denials have the texts for the requester (`Finding.as_told`); the audit log has the full ones.

Sources: apiserver pkg/endpoints/filters/warning.go (a warning with a control character is dropped silently; past 4,096
runes in all, each is cut to 256), pkg/admission/attributes.go (keys of audit annotations).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policies.findings import Action, cut, one_line, plural
from webhook.admission.review import Cause
from webhook.admission.stale_cache import CAVEATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.findings import Finding

MAX_WARNINGS: Final = 3
MAX_WARNING: Final = 256
MAX_FIRST_SENTENCE: Final = 120
MAX_AUDIT_KEY: Final = 63
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_FULL_STOP: Final = re.compile(r"(?<=[.!?])\s")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that deny before those that warn, then by severity."""
    actions = list(Action)
    return sorted(findings, key=lambda finding: (actions.index(finding.action), finding.severity, finding.order))


def warnings_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """At most three different warnings, the worst first; the last one says how many more there are."""
    texts: dict[tuple[tuple[str, ...], str], str] = {}
    for finding in worst_first(finding.as_told for finding in findings if finding.is_shown):
        texts.setdefault((_sentences(finding), _fix(finding)), finding.rule)
    more = len(texts) - MAX_WARNINGS
    shown = list(texts.items())[:MAX_WARNINGS]
    tails = [f" [{rule}]" for _, rule in shown]
    if more > 0:
        tails[-1] += f" (and {plural(more, 'more warning')})"
    return tuple(_fitted(*text, MAX_WARNING - len(tail)) + tail for (text, _), tail in zip(shown, tails, strict=True))


def _fitted(sentences: tuple[str, ...], fix: str, room: int) -> str:
    """The sentences and the fix in at most `room` characters.

    The fix stays whole if that leaves _SHORTEST characters of the message. The last sentences are removed first, but
    neither the first one nor CAVEATS; then the first one is shortened, to a whole clause or list item.
    """
    if len(fix) > room - _SHORTEST - 1:
        fix = ended_early(fix, room // 2)
    parts = [*sentences]
    while (over := len(_joined(parts, fix)) - room) > 0:
        if last := next((index for index in range(len(parts) - 1, 0, -1) if parts[index] not in CAVEATS), 0):
            del parts[last]
            continue
        short = ended_early(parts[0], max(_SHORTEST, len(parts[0]) - over))
        if short == parts[0]:
            return cut(_joined(parts, fix), room)
        parts[0] = short
    return _joined(parts, fix)


def ended_early(text: str, most: int) -> str:
    """At most `most` characters: up to the last whole clause or list item, or to a word if less than half is left."""
    if len(text) <= most:
        return text
    ends = (match.start() for match in _AFTER_A_CLAUSE.finditer(text, 0, max(most + 1, 0)))
    end = max(ends, default=0)
    if end < most // 2:
        blank = text.rfind(" ", 0, most)
        return f"{text[:blank].rstrip()}…" if blank >= most // 2 else cut(text, most)
    return f"{text[:end]}…" if end else ""


def _joined(parts: list[str], fix: str) -> str:
    return " ".join([*parts, fix] if fix else parts)


_SHORTEST: Final = 24
"""Characters below which a sentence says nothing."""
_AFTER_A_CLAUSE: Final = re.compile(r"; |, | \(|: ")


def _sentences(finding: Finding) -> tuple[str, ...]:
    """The message, its first sentence short enough for every client; a full stop at its end if a fix follows."""
    first, *rest = _FULL_STOP.split(one_line(finding.message), maxsplit=_MANY)
    *sentences, last = ended_early(first, MAX_FIRST_SENTENCE), *rest
    return (*map(_ended, sentences), _ended(last) if finding.remediation else last)


_MANY: Final = 5
"""Sentences that are kept apart."""


def _fix(finding: Finding) -> str:
    return f"Fix: {one_line(finding.remediation)}" if finding.remediation else ""


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def audit_of(findings: Iterable[Finding]) -> dict[str, str]:
    """One annotation for each rule: its messages, in full and on one line."""
    annotations: dict[str, list[str]] = {}
    for finding in worst_first(findings):
        messages = annotations.setdefault(audit_key(finding.rule), [])
        where = f"{finding.path}: " if finding.path else ""
        if (text := one_line(where + finding.message)) not in messages:
            messages.append(text)
    return {key: "; ".join(messages) for key, messages in annotations.items()}


def audit_key(text: str) -> str:
    """A valid key: the API server drops any other, and anything past 63 characters."""
    return _NOT_IN_A_KEY.sub("-", text)[:MAX_AUDIT_KEY].strip("-_.") or "finding"


def denial_of(findings: Sequence[Finding]) -> tuple[str, tuple[Cause, ...]]:
    """The message of a denial, one problem for each field with every rule named, and its causes for programs."""
    ordered = worst_first(finding.as_told for finding in findings)
    by_field: dict[str, list[Finding]] = {}
    for finding in ordered:
        by_field.setdefault(finding.path or finding.message, []).append(finding)
    parts = [
        f"{one_line(_with_fix(first))} [{', '.join(dict.fromkeys(f.rule for f in (first, *others)))}]"
        for first, *others in by_field.values()
    ]
    causes = tuple(Cause(finding.rule, one_line(finding.message), one_line(finding.path)) for finding in ordered)
    return "; ".join(parts), causes


def _with_fix(finding: Finding) -> str:
    return f"{_ended(finding.message)} Fix: {finding.remediation}" if finding.remediation else finding.message
