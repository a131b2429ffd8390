"""Finds the changes since an earlier report of `audit` or `risk`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import json_of
from forewarn.policies.base.documents.info import Difference, ReportChange
from forewarn.policies.base.findings import Finding, ObjectRef, brief, cut
from forewarn.policies.kubernetes.objects.fields import at, list_at
from forewarn.policies.questions.application.findings import ReportedFinding, fingerprints

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.questions.whatif.risk_answer import Risks

UNEVALUATED: Final = "not evaluated"
_LONG: Final = 400
_ORDER: Final = ("new", "worse", "changed", "better", "gone", UNEVALUATED)
_OF_RESTARTS: Final = ("restart-preempts", "restart-stays-pending")


def finding_changes(findings: Sequence[Finding], previous: Mapping[str, Any]) -> list[ReportChange]:
    """Return new, changed and fixed findings, then those of subjects that only one of the reports evaluated.

    `previous`: the report of `audit -o json`. Raises ValueError for an invalid report.
    """
    marks = fingerprints(findings)
    reported = [ReportedFinding(each, each.location, mark) for each, mark in zip(findings, marks, strict=True)]
    now, not_now = _evaluated(json_of(reported))
    before, not_before = _evaluated(entries_of(previous, "findings", "audit"))
    changes = []
    for mark, each in now.items():
        if mark not in before:
            changes.append(_change("new", each, where="in the earlier report" if not_before.covers(each) else ""))
        elif (was := str(at(before[mark], "message"))) != each["message"]:
            where = "completely" if not_now.covers(each) or not_before.covers(each) else ""
            changes.append(_change("changed", each, f"was: {brief(was, _LONG)}", where=where))
    for mark, each in before.items():
        if mark not in now:
            changes.append(_change("gone", each, where="in this report" if not_now.covers(each) else ""))
    return sorted(changes, key=lambda each: _ORDER.index(each.change))


class _Unevaluated(NamedTuple):
    """The subjects that a report did not evaluate. `subjects`: (rule, object); "" as the object: some objects. `rules`:
    those that were not evaluated for unknown objects.
    """

    subjects: set[tuple[str, str]]
    rules: set[str]

    def covers(self, finding: Mapping[str, Any]) -> bool:
        """Return whether the report did not evaluate the subject of a finding, or not all subjects that it counts."""
        rule = str(at(finding, "rule"))
        return rule in self.rules or (rule, _ref(finding)) in self.subjects


def _evaluated(entries: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Mapping[str, Any]], _Unevaluated]:
    """Return the findings of a report by fingerprint, without those that only report what was not evaluated."""
    found: dict[str, Mapping[str, Any]] = {}
    unevaluated = _Unevaluated(set(), set())
    for each in entries:
        rule, ref, workloads = str(at(each, "rule")), _ref(each), at(each, "detail", "workloads")
        if at(each, "detail", "notPredicted"):
            unevaluated.subjects.update((of_restarts, ref) for of_restarts in _OF_RESTARTS)
        elif not at(each, "notEvaluated"):
            found[str(at(each, "fingerprint"))] = each
        elif ref or isinstance(workloads, list):
            unevaluated.subjects.update((rule, str(name)) for name in (ref, *(workloads or ())))
        else:
            unevaluated.rules.add(rule)
    return found, unevaluated


def _change(kind: Difference, entry: Mapping[str, Any], why: str = "", *, where: str) -> ReportChange:
    """Return the change of a finding. `where`: the report that did not evaluate its subject; empty for none."""
    severity, rule, ref = str(at(entry, "severity")), str(at(entry, "rule")), _ref(entry)
    text = f"{severity}: {ref and f'{ref}: '}{at(entry, 'message')} [{rule}]"
    change = ReportChange(kind, brief(text, _LONG), why, *(brief(each, _LONG) for each in (severity, rule, ref)))
    return change._replace(change=UNEVALUATED, why=f"{UNEVALUATED} {where}") if where else change


def _ref(entry: Mapping[str, Any]) -> str:
    return str(ref_in(entry))


def ref_in(entry: Mapping[str, Any]) -> ObjectRef:
    """Return the object of a finding in a report."""
    return ObjectRef(*(str(at(entry, "object", key) or "") for key in ("apiVersion", "kind", "namespace", "name")))


def risk_changes(risks: Risks, previous: Mapping[str, Any]) -> list[ReportChange]:
    """Return workloads with changed risks. `previous`: the report of `risk -o json`. Raises ValueError for an invalid
    report.
    """
    before = {str(at(each, "workload")): each for each in entries_of(previous, "workloads", "risk")}
    now = {each["workload"]: each for each in json_of(risks.workloads)}
    changes = [ReportChange("new", name) for name in now if name not in before]
    changes += [ReportChange("gone", brief(name, _LONG), "no running Pods") for name in before if name not in now]
    samples = _samples(risks, previous)
    changes += [
        each for name in now if name in before for each in _workload_changes(name, now[name], before[name], samples)
    ]
    grew, grows = (any("withNewNodes" in each for each in rows.values()) for rows in (before, now))
    if before and now and grew != grows:
        which = "this report" if grows else "the earlier report"
        why = f"only {which} simulates them, lasting losses not compared"
        changes.append(ReportChange("changed", "new nodes", why))
    return sorted(changes, key=lambda each: (_ORDER.index(each.change), each.what))


def _samples(risks: Risks, previous: Mapping[str, Any]) -> dict[str, Container[str]]:
    """Return the simulated losses of the reports that do not simulate all."""
    earlier = previous.get("losses")
    samples = {"this report": risks.losses, "the earlier report": earlier if isinstance(earlier, list) else None}
    return {which: {*map(str, losses)} for which, losses in samples.items() if losses is not None}


def _workload_changes(
    name: str, now: Mapping[str, Any], before: Mapping[str, Any], samples: Mapping[str, Container[str]]
) -> Iterator[ReportChange]:
    yield from _loss_changes(name, "loses", now["losesReplicasWith"], at(before, "losesReplicasWith"), samples)
    after, earlier_after = now.get("withNewNodes"), at(before, "withNewNodes")
    if after is not None and isinstance(earlier_after, dict):
        left, former_left = ({what: at(each, "replicas") for what, each in of.items()} for of in (after, earlier_after))
        yield from _loss_changes(name, "with new nodes, still loses", left, former_left, samples)
    classes, earlier = ({str(at(each, "class")) for each in list_at(of, "mayBePreemptedBy")} for of in (now, before))
    differences: tuple[tuple[Difference, set[str], str], ...] = (
        ("worse", classes - earlier, "may now"),
        ("better", earlier - classes, "may no longer"),
    )
    for kind, names, verb in differences:
        if names:
            names_text = brief(", ".join(sorted(names)), 80)
            yield ReportChange(kind, name, f"{verb} be preempted by {names_text}")
    if now["priority"] != at(before, "priority"):
        yield ReportChange("changed", name, f"priority {now['priority']} (was {cut(str(at(before, 'priority')), 20)})")


def _loss_changes(
    name: str, loses: str, losses: Mapping[str, int], former: Any, samples: Mapping[str, Container[str]]
) -> Iterator[ReportChange]:
    """Yield the losses after which a workload has more or fewer replicas than in the earlier report, and those that
    only one of the reports simulates.
    """
    for what in dict.fromkeys([*losses, *former]) if isinstance(former, dict) else ():
        more, less = losses.get(what, 0), former.get(what, 0)
        without = [which for which, simulated in samples.items() if what not in simulated]
        if without:
            yield ReportChange(UNEVALUATED, name, f"{brief(str(what), 80)} not simulated in {without[0]}")
        elif isinstance(less, int) and more != less:
            why = f"{loses} {more} (was {less}) with {brief(str(what), 80)}"
            yield ReportChange("worse" if more > less else "better", name, why)


def entries_of(previous: Mapping[str, Any], key: str, command: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of an earlier report. Raises ValueError for another document."""
    found = previous.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"not a report of `{' '.join(filter(None, ('forewarn', command)))} -o json`: no list {key}")
    return found
