"""The answer to `audit` in the form of all answers: the findings by rule, the worst first."""

from __future__ import annotations

import re
from collections import Counter as Tally
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Counter, Rows, Table
from forewarn.policies.base.findings import Finding, Severity, grouped, listed, plural
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending
from forewarn.policies.questions.application.findings import counts, worst_first
from forewarn.policies.questions.whatif.risk_answer import changes_counter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.base.documents.findings import ReportChange
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

_STATUS: Final = {Severity.ERROR: AnswerStatus.HARM, Severity.WARNING: AnswerStatus.WARN}
_KINDS: Final = 2
"""Rules that the clause names."""
_EVICTIONS_BLOCKED: Final = "evictions-blocked"
_NAMED: Final = 5
"""PDBs of a namespace that a row names."""
_LONGEST_PLACE: Final = 33
_LONGEST_FIX: Final = 26
"""Characters in the first table, so that none is cut."""


class Audited(NamedTuple):
    """The findings on a cluster. `objects`: number of checked objects. `suppressed`: number of suppressed findings.
    `changes`: since an earlier report; None without one.
    """

    findings: Sequence[Finding]
    cluster: ClusterSnapshot
    objects: int
    suppressed: int
    changes: Sequence[ReportChange] | None = None


def document_of(audited: Audited) -> AnswerDocument:
    """Return the answer: how many findings of which rules there are, and where."""
    groups = _by_rule(audited.findings)
    evaluated = [group for group in groups if not group[0].not_evaluated]
    worst = evaluated[0][0].severity if evaluated else Severity.NOTE
    status = _STATUS.get(worst, AnswerStatus.OK)
    if (audited.cluster.semantics.unknown or len(evaluated) < len(groups)) and status is AnswerStatus.OK:
        status = AnswerStatus.WARN
    return AnswerDocument(
        status=status,
        question=f"audit of {plural(audited.objects, 'object')}",
        clause=_clause(evaluated, worst),
        shown=[*_counters(audited)],
        warnings=[*_warnings(audited)],
        tables=[*_tables(audited, groups, evaluated)],
        more=("-v findings", "forewarn explain RULE", "--ignore RULE") if groups else (),
    )


def _by_rule(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings of each rule and severity, the worst and most first; unevaluated ones apart."""
    groups = grouped(((each.severity, each.rule, each.not_evaluated), each) for each in worst_first(findings))
    severities = [*Severity]
    return sorted(groups.values(), key=lambda group: (severities.index(group[0].severity), -len(group)))


def _clause(groups: Sequence[Sequence[Finding]], worst: Severity) -> str:
    """The number of findings of the worst severity, and of the rules with most."""
    if not groups:
        return "no findings"
    own = [group for group in groups if group[0].severity is worst]
    total = plural(sum(map(len, own)), str(worst))
    if len(own) == 1:
        return f"{total}, {own[0][0].rule}"
    return f"{total}: {', '.join(f'{len(group):,} {group[0].rule}' for group in own[:_KINDS])}"


def _counters(audited: Audited) -> Iterator[Counter]:
    evaluated = [finding for finding in audited.findings if not finding.not_evaluated]
    found, waiting = counts(evaluated), [*audited.cluster.waiting_pods.values()]
    yield from (Counter(f"{severity}s", found[severity]) for severity in Severity)
    yield Counter("Pods", sum(not pod.terminal for pod in audited.cluster.pods.values()))
    pending = sum(is_pending(pod, audited.cluster.semantics.scheduler_names) for pod in waiting)
    optional = {
        "not evaluated": len(audited.findings) - len(evaluated),
        "suppressed": audited.suppressed,
        "Pods Pending now": pending,
        "Pending for other schedulers": len(waiting) - pending,
    }
    yield from (Counter(name, number) for name, number in optional.items() if number)
    if audited.changes is not None:
        yield changes_counter(audited.changes)
    restarts = [finding for finding in audited.findings if "newNodes" in finding.detail]
    if restarts:
        helped = sum(finding.severity is Severity.NOTE for finding in restarts)
        yield Counter("blocked restarts that new nodes help", helped, len(restarts))


def _warnings(audited: Audited) -> Iterator[str]:
    if audited.cluster.semantics.unknown:
        yield f"restarts are not predicted: {audited.cluster.semantics.unknown}"
    unevaluated = grouped(((each.message, each.fix), each.rule) for each in audited.findings if each.not_evaluated)
    for (reason, fix), rules in unevaluated.items():
        yield f"{reason} ({listed(sorted({*rules}))}). Fix: {fix}"


def _tables(
    audited: Audited, groups: Sequence[Sequence[Finding]], evaluated: Sequence[Sequence[Finding]]
) -> Iterator[Table]:
    if evaluated:
        rows: Rows = [
            [str(group[0].severity), group[0].rule, len(group), _where(group), _fix(group)] for group in evaluated
        ]
        yield Table(("SEVERITY", "FINDING", "COUNT", "WHERE", "FIX"), rows)
    if audited.changes:
        yield from _changes_tables(audited.changes)
    yield from (_by_namespace(group) for group in groups if group[0].rule == _EVICTIONS_BLOCKED and len(group) > 1)
    if groups:
        found: Rows = [
            [
                "not evaluated" if each.not_evaluated else str(each.severity),
                each.rule,
                each.remediation,
                str(each.object) or "the cluster",
                each.message,
            ]
            for group in groups
            for alike in grouped((each.remediation, each) for each in group).values()
            for each in alike
        ]
        yield Table(("SEVERITY", "RULE", "FIX", "OBJECT", "PROBLEM"), found, detail=1, subheads=3)


def _changes_tables(changes: Sequence[ReportChange]) -> Iterator[Table]:
    """What changed since an earlier report, by rule, and with -v each finding."""
    rules = grouped(((each.change, each.severity, each.rule), each.object or "the cluster") for each in changes)
    rows: Rows = [
        [*key, len(objects), f"{objects[0]}, {len(objects) - 1:,} more" if objects[1:] else objects[0]]
        for key, objects in rules.items()
    ]
    columns = ("CHANGE", "SEVERITY", "FINDING", "COUNT", "WHERE")
    yield Table(columns, rows, title="CHANGES SINCE THE EARLIER REPORT")
    every = [[each.change, f"{each.what}; {each.why}" if each.why else each.what] for each in changes]
    yield Table(("CHANGE", "WHAT"), every, detail=1)


def _by_namespace(group: Sequence[Finding]) -> Table:
    """The PDBs that block evictions by namespace, most first."""
    namespaces = grouped((each.object.namespace, each) for each in group)
    rows: Rows = [
        [namespace, len(own), listed([each.object.name for each in own], _NAMED)]
        for namespace, own in sorted(namespaces.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return Table(("NAMESPACE", "PDBS", "WHICH BLOCK DRAINS"), rows)


def _where(group: Sequence[Finding]) -> str:
    """The object of the first finding, with the start of its problem if it is the only one and short."""
    first, ref = group[0], group[0].object
    name = f"{ref.namespace}/{ref.name}" if ref.namespace else str(ref) or "the cluster"
    if len(group) > 1:
        return f"{name}, {len(group) - 1:,} more"
    named = f"{name}: {re.split('[:;,] ', first.text.problem)[0]}"
    return named if len(named) <= _LONGEST_PLACE else name


def _fix(group: Sequence[Finding]) -> str:
    """The first clause of the most frequent fix, if it is short."""
    fix, _ = Tally(finding.remediation for finding in group).most_common(1)[0]
    first = re.split("[;,] ", fix)[0]
    return first if len(first) <= _LONGEST_FIX else ""
