"""Findings as kubectl shows them: warnings within their budget, audit annotations, the text of a denial.

Warnings and denials are for who asked, and in the words for him (`Finding.as_told`); the audit log has it in full.

Sources: apiserver pkg/endpoints/filters/warning.go (a warning with a control character is dropped without a word; past
4,096 runes in all, each is cut to 256), pkg/admission/attributes.go (keys of audit annotations).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policies.findings import Action, cut, one_line, plural
from policies.rules.support.impact import BY_CHANCE, VICTIMS
from webhook.admission.review import Cause
from webhook.admission.stale_cache import CAVEATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.findings import Finding

MAX_WARNINGS: Final = 3
MAX_WARNING: Final = 256
MAX_FIRST_SENTENCE: Final = 120
MAX_AUDIT_KEY: Final = 63
LISTS: Final = (VICTIMS, BY_CHANCE)
"""How sentences begin that are a list of names."""
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_FULL_STOP: Final = re.compile(r"(?<=[.!?])\s")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """What the webhook would deny before what it would warn of, then by severity."""
    actions = list(Action)
    return sorted(findings, key=lambda finding: (actions.index(finding.action), finding.severity, finding.order))


def warnings_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """At most three warnings, worst first, each said once; the last one says how many more there are.

    What is too long loses the end of its list of victims, then its last sentences, before any of its remedy.
    """
    texts: dict[tuple[tuple[str, ...], str], str] = {}
    for finding in worst_first(finding.as_told for finding in findings if finding.is_shown):
        texts.setdefault((_sentences(finding), _remedy(finding)), finding.rule)
    more = len(texts) - MAX_WARNINGS
    shown = list(texts.items())[:MAX_WARNINGS]
    tails = [f" [{rule}]" for _, rule in shown]
    if more > 0:
        tails[-1] += f" (and {plural(more, 'more warning')})"
    return tuple(_fitted(*text, MAX_WARNING - len(tail)) + tail for (text, _), tail in zip(shown, tails, strict=True))


def _fitted(sentences: tuple[str, ...], remedy: str, room: int) -> str:
    """All within so many characters; what is left of each sentence ends where a clause, a list item or a word does.

    In this order: a list of names is shortened down to one name; what comes after it is left out, the last first, which
    makes room for names again; of other sentences clauses are left out, the last first, then the whole sentence, but
    neither the first one nor CAVEATS; the first one is shortened. The remedy stays whole where that leaves the message
    _SHORTEST.
    """
    if len(remedy) > room - _SHORTEST - 1:
        remedy = ended_early(remedy, room // 2)
    parts = [*sentences]
    while (over := len(_joined(parts, remedy)) - room) > 0:
        listed = next((index for index, part in enumerate(parts) if part.startswith(LISTS)), 0)
        least = _least(parts[listed])
        if listed and len(parts[listed]) > least:
            parts[listed] = _cut_list(parts[listed], max(least, len(parts[listed]) - over))
        elif listed and listed < len(parts) - 1:
            parts.pop()
            parts = [whole if whole.startswith(LISTS) else part for whole, part in zip(sentences, parts, strict=False)]
        elif listed:
            short = ended_early(parts[listed], max(_SHORTEST, len(parts[listed]) - over))
            parts[listed:] = [short] if short != parts[listed] else []
        elif last := next((index for index in range(len(parts) - 1, 0, -1) if parts[index] not in CAVEATS), 0):
            short = ended_early(parts[last], max(0, len(parts[last]) - over), by_word=False)
            parts[last : last + 1] = [short] if short else []
        else:
            short = ended_early(parts[0], max(_SHORTEST, len(parts[0]) - over))
            if short == parts[0]:
                return cut(_joined(parts, remedy), room)
            parts[0] = short
    return _joined(parts, remedy)


def ended_early(text: str, most: int, *, by_word: bool = True) -> str:
    """At most so many characters: up to the last clause or list item that is whole.

    `by_word`: up to a word, where less than half would be left; else empty where no list item is whole.
    """
    if len(text) <= most:
        return text
    end = max(
        (
            match.start()
            for match in (_AFTER_A_CLAUSE if by_word else _AFTER_AN_ITEM).finditer(text, 0, max(most + 1, 0))
        ),
        default=0,
    )
    if by_word and end < most // 2:
        blank = text.rfind(" ", 0, most)
        return f"{text[:blank].rstrip()}…" if blank >= most // 2 else cut(text, most)
    return f"{text[:end]}…" if end else ""


def _cut_list(sentence: str, most: int) -> str:
    """The list with as many whole names as so many characters hold, the last one without what is said of it; the first
    name is cut like any text."""
    short = cut(sentence, most)
    ends = [match.start() for match in _AFTER_A_NAME.finditer(sentence)]
    end = max((end for end in ends if end < len(short)), default=0)
    return f"{sentence[:end]}…" if end else short


def _joined(parts: Sequence[str], remedy: str) -> str:
    return " ".join([*parts, remedy] if remedy else parts)


def _least(sentence: str) -> int:
    """Characters that are left of a sentence as long as others can be shortened: of a list its first name."""
    if not sentence.startswith(LISTS):
        return _SHORTEST
    heading = next(heading for heading in LISTS if sentence.startswith(heading))
    name = _AFTER_A_NAME.split(sentence[len(heading) :], maxsplit=1)[0]
    return max(_SHORTEST, min(len(heading) + len(name) + 1, _LONGEST_NAMED))


_SHORTEST: Final = 24
"""Characters below which a sentence says nothing."""
_AFTER_AN_ITEM: Final = re.compile(r"; |, ")
_AFTER_A_CLAUSE: Final = re.compile(r"; |, | \(|: ")
_AFTER_A_NAME: Final = re.compile(r", | \(|(?<=\)) |(?<=\));")
_LONGEST_NAMED: Final = 90
"""Characters of a list with one name, which others are shortened for."""


def _sentences(finding: Finding) -> tuple[str, ...]:
    """The message, its first sentence short enough for every client; a full stop at its end where a remedy follows."""
    first, *rest = _FULL_STOP.split(one_line(finding.message), maxsplit=_MANY)
    *sentences, last = ended_early(first, MAX_FIRST_SENTENCE), *rest
    return (*map(_ended, sentences), _ended(last) if finding.remediation else last)


_MANY: Final = 5
"""Sentences that are told apart."""


def _remedy(finding: Finding) -> str:
    return f"Fix: {one_line(finding.remediation)}" if finding.remediation else ""


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def audit_of(findings: Iterable[Finding]) -> dict[str, str]:
    """One annotation a rule: its messages, in full and on one line."""
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
    """The message of a denial, one statement a field and every rule named, and its causes for programs."""
    ordered = worst_first(finding.as_told for finding in findings)
    by_field: dict[str, list[Finding]] = {}
    for finding in ordered:
        by_field.setdefault(finding.path or finding.message, []).append(finding)
    parts = [
        f"{one_line(_with_remedy(first))} [{', '.join(dict.fromkeys(f.rule for f in (first, *others)))}]"
        for first, *others in by_field.values()
    ]
    causes = tuple(Cause(finding.rule, one_line(finding.message), one_line(finding.path)) for finding in ordered)
    return "; ".join(parts), causes


def _with_remedy(finding: Finding) -> str:
    return f"{finding.message} ({finding.remediation})" if finding.remediation else finding.message
