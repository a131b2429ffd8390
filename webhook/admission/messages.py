"""Findings as kubectl shows them: warnings within their limits, audit annotations, the text of a denial.

Warnings and denials have the texts for the requester (`Finding.as_shown`); the audit log has the full texts.

Sources: apiserver pkg/endpoints/filters/warning.go (a warning with a control character is dropped silently; past 4,096
runes in all, each is cut to 256), pkg/admission/attributes.go (keys of audit annotations).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Text, cut, joined, one_line, plural, with_full_stop
from forewarn.webhook.admission.review import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from forewarn.policies.findings import Finding

MAX_WARNINGS: Final = 3
MAX_WARNING: Final = 256
BEST: Final = 120
"""Characters of a warning before the id of the rule, as Kubernetes recommends."""
MAX_AUDIT_KEY: Final = 63
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: those that deny before those that warn, then by severity."""
    result = list(findings)
    if len(result) > 1:
        result.sort(key=lambda finding: (_RANKS[finding.action], finding.severity, finding.order))
    return result


_RANKS: Final = {action: rank for rank, action in enumerate(Action)}
"""Action -> its place among the actions, the worst first."""


def warnings_of(findings: Iterable[Finding], is_named: Callable[[Finding], bool] = lambda _: False) -> tuple[str, ...]:
    """Return at most three different warnings, the worst first; the last warning also counts the omitted ones.

    `is_named`: whether a warning begins with the object's name. kubectl prints equal warnings only once.
    """
    rules: dict[str, str] = {}
    for finding in worst_first(finding.as_shown for finding in findings if finding.is_shown):
        name = name_of(finding) if is_named(finding) else ""
        limit = MAX_WARNING - len(finding.rule) - _MAX_COUNT
        rules.setdefault(_fitted(_on_one_line(finding.text), limit, name), finding.rule)
    warnings = [f"{text} [{rule}]" for text, rule in [*rules.items()][:MAX_WARNINGS]]
    if more := len(rules) - len(warnings):
        warnings[-1] += f" (and {plural(more, 'more warning')})"
    return tuple(warnings)


_MAX_COUNT: Final = len(" [] (and 9999 more warnings)")


def name_of(finding: Finding) -> str:
    """The object as the start of a warning, `Deployment shop/web: `; the middle of a long name is omitted."""
    name = _without_middle(one_line(str(finding.object)), MAX_NAME)
    return f"{name}: " if name else ""


def _without_middle(name: str, most: int) -> str:
    return f"{name[: most // 2]}…{name[1 - most // 2 :]}" if len(name) > most else name


MAX_NAME: Final = 60
_SHORT_NAME: Final = 34


def _on_one_line(text: Text) -> Text:
    """Return the text with each part printable on one line, except `shorter`: `shortened` makes these versions
    printable.
    """
    more = tuple(map(one_line, text.more))
    return Text(one_line(text.problem), one_line(text.fix), more, text.shorter, tuple(map(one_line, text.caveats)))


def _fitted(text: Text, limit: int, name: str) -> str:
    """Return the text in at most BEST characters if possible, and never more than `limit`.

    Caveats and the fix stay complete even above BEST; only `limit` can shorten them. Further sentences are removed
    first, starting with the last one. Then the problem is shortened, to no less than _SHORTEST characters.
    """
    if name:
        return _named(text, min(limit, BEST), name)
    fix, caveats = f"Fix: {text.fix}" if text.fix else "", joined(text.caveats)
    if len(fix) > (room := limit - _SHORTEST - len(caveats) - 3):
        fix = truncated_text(fix, min(room, limit // 2))
        fix = fix if len(fix) > _LEAST_FIX else ""
    most = min(limit, max(BEST, _SHORTEST + 1 + len(joined((caveats, fix)))))
    for count in range(len(text.more), -1, -1):
        kept = (s for index, s in enumerate(text.more) if index < count or s in text.caveats)
        others = joined((*kept, fix))
        room = most - len(others) - 2 if others else most
        if len(text.problem) <= room or not count:
            problem = shortened(text, max(room, _SHORTEST))
            break
    return cut(joined((problem, others)), limit)


def _named(text: Text, most: int, name: str) -> str:
    """Return the name and the text in at most `most` characters.

    What does not fit is omitted in this order: further sentences, the fix, the middle of the name, the problem.
    """
    names, versions = (name, _without_middle(name, _SHORT_NAME)), (text.problem, *map(one_line, text.shorter))
    caveats = joined(text.caveats)
    room = most - (len(caveats) + len(". ") if caveats else 0)
    fitting = ((shown, problem) for problem in versions for shown in names if len(shown + problem) <= room)
    shown, problem = next(fitting, (names[-1], ""))
    problem = problem or truncated_text(min(versions, key=len), room - len(names[-1]))
    fix = f"Fix: {text.fix}" if text.fix else ""
    for count in range(len(text.more), -1, -1):
        kept = joined((problem, *(s for index, s in enumerate(text.more) if index < count or s in text.caveats)))
        if len(line := shown + joined((kept, fix))) <= most:
            return line
    end = _clause_end(text.fix, most - len(shown + joined((kept, "Fix: …"))))
    return cut(shown + joined((kept, f"Fix: {text.fix[:end]}…" if end else "")), most)


def is_shortened(finding: Finding) -> bool:
    """Return true if the warning may omit a part of the finding's text."""
    text = finding.as_shown.text
    return len(one_line(joined((text.message, f"Fix: {text.fix}" if text.fix else "")))) > BEST


def shortened(text: Text, most: int) -> str:
    """Return the printable problem in at most `most` characters: the first version that fits, or the start of the
    shortest version.
    """
    if len(text.problem) <= most:
        return text.problem
    versions = (text.problem, *map(one_line, text.shorter))
    fitting = (version for version in versions if len(version) <= most)
    return next(fitting, None) or truncated_text(min(versions, key=len), most)


def truncated_text(text: str, most: int) -> str:
    """Return the text in at most `most` characters, cut after a clause or list item; after a word if a cut at a
    clause would remove more than half.
    """
    if len(text) <= most:
        return text
    end = _clause_end(text, most)
    if end < most // 2:
        blank = text.rfind(" ", 0, most)
        return f"{text[:blank].rstrip()}…" if blank >= most // 3 else cut(text, most)
    return f"{text[:end]}…" if end else ""


def _clause_end(text: str, most: int) -> int:
    """The end of the last clause that ends within `most` characters; 0 if there is none."""
    return max((match.start() for match in _AFTER_A_CLAUSE.finditer(text, 0, max(most + 1, 0))), default=0)


_SHORTEST: Final = 24
"""Minimum number of characters of a problem."""
_LEAST_FIX: Final = len("Fix: do it")
_AFTER_A_CLAUSE: Final = re.compile(r"; |, | \(|: |\. ")


def audit_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Audit annotations: one for each rule, with all its messages in full on one line."""
    annotations: dict[str, list[str]] = {}
    for finding in worst_first(findings):
        messages = annotations.setdefault(audit_key(finding.rule), [])
        where = f"{finding.path}: " if finding.path else ""
        if (text := one_line(where + finding.message)) not in messages:
            messages.append(text)
    return {key: "; ".join(messages) for key, messages in annotations.items()}


@lru_cache(maxsize=512)
def audit_key(text: str) -> str:
    """A valid key of an audit annotation: the API server drops invalid keys and everything past 63 characters."""
    return _NOT_IN_A_KEY.sub("-", text)[:MAX_AUDIT_KEY].strip("-_.") or "finding"


def denial_of(findings: Sequence[Finding]) -> tuple[str, tuple[Cause, ...]]:
    """Return the message of a denial (one problem for each field, with the ids of its rules), and the causes for
    programs.
    """
    ordered = worst_first(finding.as_shown for finding in findings)
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
    return f"{with_full_stop(finding.message)} Fix: {finding.remediation}" if finding.remediation else finding.message
