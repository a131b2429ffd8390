"""Suppressions of findings: by comments, annotations, entries of the configuration, and baselines.

A suppression names a rule and a reason, and may have an end date. A finding reports a malformed, expired or unused
suppression.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import (
    NO_LOCATION,
    NO_OBJECT,
    Finding,
    Location,
    ObjectRef,
    Severity,
    Text,
    cut,
    grouped,
    printable,
    sort_findings,
)
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.kubernetes.objects.fields import text_at
from forewarn.policies.kubernetes.selectors import one_of
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.file import invalid_suppression, unused_suppression
from forewarn.policies.linting.rules.support.context import Rule, linter_severity
from forewarn.policies.linting.rules.support.names import nearest

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.documents import Comment
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.options import Ignored

ANNOTATION: Final = "forewarn.dev/ignore"
_NOT_EVALUATED: Final = "not evaluated"
_RULES: Final = {rule.ID for rule in RULES}
_IGNORE: Final = later(r"ignore\[([^\]]*)\](.*)", re.DOTALL)
_UNTIL: Final = later(r"\s*\buntil=(\S*)")
_COMPARE_WITH_STORED: Final = frozenset(("immutable-field-changed", "priority-field-changed"))
"""Rules that compare with the stored object, which the linter knows only with a cluster."""
_SILENT_WITHOUT_RELEASE: Final = frozenset(("unknown-field", "removed-api-version"))
_SILENT_WITHOUT_CLUSTER: Final = _COMPARE_WITH_STORED | {rule.ID for rule in RULES if rule.DEPENDS_ON.stored}
_SILENT_WITH_CLUSTER: Final = frozenset(("priority-class-not-checked",))
"""Rules whose suppressions are never reported as unused in a run with a cluster."""


class Suppression(NamedTuple):
    """Suppresses findings of these rules: in lines of a file, on an object, or by patterns of paths and objects."""

    rules: tuple[str, ...]
    reason: str
    location: Location
    until: str = ""
    lines: tuple[int, int] | None = None
    object: ObjectRef | None = None
    paths: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()

    @property
    def is_of_configuration(self) -> bool:
        return self.lines is None and self.object is None

    def covers(self, finding: Finding) -> bool:
        """True if the suppression applies to this finding."""
        if finding.rule not in self.rules:
            return False
        if self.lines is not None:
            place = finding.location
            return place.file == self.location.file and self.lines[0] <= place.line <= self.lines[1]
        if self.object is not None:
            return finding.object == self.object and finding.location.file == self.location.file
        file, about = finding.location.file.removeprefix("./"), str(finding.object)
        return (not self.paths or one_of(self.paths, file)) and (not self.objects or one_of(self.objects, about))


def comment_suppressions(comments: Iterable[Comment]) -> Iterator[Suppression]:
    """The suppressions in comments. `rules` is empty for a malformed comment."""
    for comment in comments:
        match = _IGNORE.fullmatch(comment.text)
        rules = _names(match[1]) if match else ()
        reason, until = _reason(match[2] if match else comment.text)
        yield Suppression(rules, reason, comment.location, until, (comment.first, comment.last))


def annotation_suppressions(subjects: Iterable[ReviewedObject]) -> Iterator[Suppression]:
    """The suppressions in annotations of objects: `rule[,rule] reason [until=DATE]`, several separated by `;`."""
    for subject in subjects:
        text = text_at(subject.object, "metadata", "annotations", ANNOTATION)
        for part in text.split(";") if text else ():
            names, _, rest = part.strip().partition(" ")
            reason, until = _reason(rest)
            where = subject.locate(("metadata", "annotations", ANNOTATION))
            yield Suppression(_names(names), reason, where, until, object=subject.ref)


def configuration_suppressions(entries: Iterable[Ignored]) -> Iterator[Suppression]:
    """The suppressions in the configuration."""
    for entry in entries:
        place = Location(entry.file, entry.line, 1, 2)
        paths = tuple(path.removeprefix("./") for path in entry.paths)
        yield Suppression(entry.rules, entry.reason, place, entry.until, paths=paths, objects=entry.objects)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _reason(text: str) -> tuple[str, str]:
    """The reason and the end date ("" for none) in the text of a suppression."""
    until = _UNTIL.search(text)
    return (_UNTIL.sub("", text).strip(), until[1]) if until else (text.strip(), "")


def suppress(
    findings: Sequence[Finding],
    suppressions: Sequence[Suppression],
    severity: Callable[[Rule], Severity | None],
    today: date,
    *,
    with_cluster: bool = False,
    with_release: bool = False,
    read: Collection[str] = (),
) -> tuple[list[Finding], int]:
    """Return the findings that are not suppressed, with findings about invalid or unused suppressions, in report
    order; and the number of suppressed ones.

    `severity`: returns a rule's severity in the linter. `with_cluster`, `with_release`: the run had a cluster, the
    release is known. `read`: the names of the files that were read: unused entries of the configuration for other
    files are not reported.
    """
    faults = {id(s): fault for s in suppressions if (fault := _fault(s, today))}
    valid = [s for s in suppressions if id(s) not in faults]
    unsuppressed: list[Finding] = []
    used: set[tuple[int, str]] = set()
    by_place = _index_by_place(valid)
    for finding in findings:
        near = (s for file in (finding.location.file, None) for s in by_place.get((file, finding.rule), ()))
        covering = [s for s in near if s.covers(finding)]
        used.update((id(s), finding.rule) for s in covering)
        if not covering:
            unsuppressed.append(finding)
    count = len(findings) - len(unsuppressed)
    invalid = ((s, faults[id(s)]) for s in suppressions if id(s) in faults)
    unsuppressed += _reported(invalid_suppression, invalid, severity)
    off = {rule.ID for rule in RULES if severity(rule) is None and linter_severity(rule) is not None}
    silent = off | _silent(with_cluster=with_cluster, with_release=with_release)
    unused = ((s, _UNUSED.format(", ".join(idle))) for s in valid if (idle := _idle(s, used, silent, read)))
    unsuppressed += _reported(unused_suppression, unused, severity)
    return sort_findings(unsuppressed), count


def _silent(*, with_cluster: bool, with_release: bool) -> frozenset[str]:
    silent = _SILENT_WITH_CLUSTER if with_cluster else _SILENT_WITHOUT_CLUSTER
    return silent if with_release else silent | _SILENT_WITHOUT_RELEASE


_UNUSED: Final = "suppresses nothing: no finding of {} here"


def _index_by_place(suppressions: Iterable[Suppression]) -> dict[tuple[str | None, str], list[Suppression]]:
    """Return (file, rule) -> suppressions, so that each finding is compared with few; None: for all files."""
    return grouped(
        ((None if s.is_of_configuration else s.location.file, rule), s)
        for s in suppressions
        for rule in dict.fromkeys(s.rules)
    )


def _fault(suppression: Suppression, today: date) -> str:
    """The error in a suppression; "" if there is none."""
    if not suppression.rules:
        return "malformed suppression: no rule and reason"
    for rule in suppression.rules:
        if rule not in _RULES and "." not in rule:  # ids of rules of other packages contain a dot
            return f'no rule "{cut(rule, _MAX_LENGTH)}"{nearest(rule, _RULES)}'
    if not suppression.reason:
        return f"suppression of {suppression.rules[0]} has no reason"
    if suppression.until:
        try:
            end = date.fromisoformat(suppression.until)
        except ValueError:
            return f'"{cut(suppression.until, _MAX_LENGTH)}" is not a date such as until=2027-01-31'
        if end < today:
            return f"suppression expired on {end}: {cut(suppression.reason, _MAX_LENGTH)}"
    return ""


def _idle(s: Suppression, used: set[tuple[int, str]], silent: Collection[str], read: Collection[str]) -> list[str]:
    """Return the rules for which a suppression is unused: only rules that ran, with their files read."""
    if s.is_of_configuration and not any(one_of(s.paths, f.removeprefix("./")) for f in read):
        return []
    return [r for r in s.rules if (id(s), r) not in used and r not in silent]


def _reported(
    rule: Rule, faults: Iterable[tuple[Suppression, str]], severity: Callable[[Rule], Severity | None]
) -> Iterator[Finding]:
    level = severity(rule)
    if level is None:
        return
    for suppression, message in faults:
        about = suppression.object or NO_OBJECT
        yield Finding(suppression.location or NO_LOCATION, level, rule.ID, about, Text(message, _FIXES[rule.ID]))


_FIXES: Final = {
    invalid_suppression.ID: "write `# forewarn: ignore[rule] reason until=2027-01-31`",
    unused_suppression.ID: "remove it",
}
_MAX_LENGTH: Final = 60


def path_of(file: str) -> str:
    """The printable path of a file, relative to the working directory; absolute if the file is outside."""
    path = os.path.relpath(file) if os.path.isabs(file) else os.path.normpath(file)
    return printable(os.path.abspath(path) if path.startswith(os.pardir) else path)


_KEYS: Final = ("rule", "file", "kind", "namespace", "name", "field")
"""The keys of a baseline's entry for the parts of `identity`."""


def identity(finding: Finding) -> tuple[str, ...]:
    """Return the key of a finding that does not change when lines move: rule, file, object and field.

    Includes the message only for findings about a file, without object and field. Other messages may change from run to
    run: they contain numbers, nodes and other Pods. The finding that a rule was not evaluated does not count as a
    finding of the rule.
    """
    ref, file = finding.object, finding.location.file
    about = (ref.kind, ref.namespace, ref.name) if ref != NO_OBJECT else ("", "", "")
    field = finding.path or (finding.message if ref == NO_OBJECT and file else "")
    return finding.rule, path_of(file), *about, _NOT_EVALUATED if finding.not_evaluated else field


def baseline_of(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the contents of a baseline file: the number of findings by rule, file, object and field, without lines."""
    counted = Counter(map(identity, findings))
    entries = [{**dict(zip(_KEYS, key, strict=True)), "count": count} for key, count in sorted(counted.items())]
    return {"version": 1, "findings": entries}


def less_baseline(
    findings: Sequence[Finding], baseline: Mapping[str, Any], files: Iterable[str] = ()
) -> tuple[list[Finding], int, int]:
    """Compare findings with a baseline: the new findings, the number of known ones, and the number of fixed ones.

    `files`: the checked files. An entry about another file counts for a renamed file with the same object and field.
    Raises ValueError for an invalid baseline.
    """
    suppressed: Counter[tuple[str, ...]] = Counter()
    entries = baseline.get("findings")
    if baseline.get("version") != 1 or not isinstance(entries, list):
        raise ValueError("not a baseline of version 1")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("count", 1), int):
            raise ValueError("an entry is malformed. Fix: write the baseline again with --write-baseline")
        key = tuple(str(entry.get(k, "")) for k in _KEYS)
        suppressed[key] += entry.get("count", 1)
    new = _without_known(findings, suppressed, identity)
    present, of_renamed = set(map(path_of, files)), 0
    if present and new:
        renamed: Counter[tuple[str, ...]] = Counter()
        for key, count in suppressed.items():
            if count > 0 and key[1] not in present:
                renamed[_without_file(key)] += count
        before = len(new)
        new = _without_known(new, renamed, lambda finding: _without_file(identity(finding)))
        of_renamed = before - len(new)
    return new, len(findings) - len(new), max(suppressed.total() - of_renamed, 0)


def _without_known(
    findings: Iterable[Finding], expected: Counter[tuple[str, ...]], key_of: Callable[[Finding], tuple[str, ...]]
) -> list[Finding]:
    """Return the findings that `expected` does not contain. Decrements the number in `expected` for each match."""
    new = []
    for finding in findings:
        key = key_of(finding)
        if expected[key] > 0:
            expected[key] -= 1
        else:
            new.append(finding)
    return new


def _without_file(key: tuple[str, ...]) -> tuple[str, ...]:
    return (key[0], *key[2:])
