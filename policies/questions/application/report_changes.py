"""What changed since an earlier report of `audit` or `risk`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.documents import json_of
from forewarn.policies.base.documents.findings import Difference, ReportChange
from forewarn.policies.base.findings import Finding, cut, one_line
from forewarn.policies.kubernetes.objects.fields import at, list_at
from forewarn.policies.questions.application.findings import fingerprints, one_line_finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.questions.whatif.risk_answer import Risks

_LONG: Final = 200
_ORDER: Final = ("new", "worse", "changed", "better", "gone")


def of_findings(findings: Sequence[Finding], previous: Mapping[str, Any]) -> list[ReportChange]:
    """Return new, changed and fixed findings. `previous`: the report of `audit -o json`.

    Raises ValueError for an invalid report.
    """
    entries = _entries(previous, "findings", "audit")
    before = {str(at(each, "fingerprint")): each for each in entries}
    now = dict(zip(fingerprints(findings), findings, strict=True))
    texts = {mark: f"{each.severity}: {one_line_finding(each)} [{each.rule}]" for mark, each in now.items()}
    new = [ReportChange("new", text) for mark, text in texts.items() if mark not in before]
    for mark, text in texts.items():
        if mark in before and (was := str(at(before[mark], "message"))) != now[mark].message:
            new.append(ReportChange("changed", text, f"was: {cut(one_line(was[: 4 * _LONG]), _LONG)}"))
    return [*new, *(ReportChange("gone", _change_text(each)) for mark, each in before.items() if mark not in now)]


def _change_text(entry: Mapping[str, Any]) -> str:
    ref = [str(at(entry, "object", key) or "") for key in ("kind", "namespace", "name")]
    about = f"{ref[0]} {'/'.join(part for part in ref[1:] if part)}".strip()
    text = f"{at(entry, 'severity')}: {about and f'{about}: '}{at(entry, 'message')} [{at(entry, 'rule')}]"
    return cut(one_line(text[: 4 * _LONG]), _LONG)


def of_risks(risks: Risks, previous: Mapping[str, Any]) -> list[ReportChange]:
    """Return workloads with changed risks. `previous`: the report of `risk -o json`. Raises ValueError for an invalid
    report.
    """
    before = {str(at(each, "workload")): each for each in _entries(previous, "workloads", "risk")}
    now = {each["workload"]: each for each in json_of(risks.workloads)}
    changes = [ReportChange("new", name) for name in now if name not in before]
    changes += [
        ReportChange("gone", cut(one_line(name), _LONG), "no running Pods") for name in before if name not in now
    ]
    changes += [each for name in now if name in before for each in _of_workload(name, now[name], before[name])]
    grew, grows = (any("withNewNodes" in each for each in rows.values()) for rows in (before, now))
    if before and now and grew != grows:
        which = "this report" if grows else "the earlier report"
        why = f"only {which} simulates them, lasting losses not compared"
        changes.append(ReportChange("changed", "new nodes", why))
    return sorted(changes, key=lambda each: (_ORDER.index(each.change), each.what))


def _of_workload(name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[ReportChange]:
    yield from _of_losses(name, "loses", now["losesReplicasWith"], at(before, "losesReplicasWith"))
    after, earlier_after = now.get("withNewNodes"), at(before, "withNewNodes")
    if after is not None and isinstance(earlier_after, dict):
        left, former_left = ({what: at(each, "replicas") for what, each in of.items()} for of in (after, earlier_after))
        yield from _of_losses(name, "with new nodes, still loses", left, former_left)
    classes, earlier = ({str(at(each, "class")) for each in list_at(of, "mayBePreemptedBy")} for of in (now, before))
    differences: tuple[tuple[Difference, set[str], str], ...] = (
        ("worse", classes - earlier, "may now"),
        ("better", earlier - classes, "may no longer"),
    )
    for kind, names, verb in differences:
        if names:
            names_text = cut(one_line(", ".join(sorted(names))), 80)
            yield ReportChange(kind, name, f"{verb} be preempted by {names_text}")
    if now["priority"] != at(before, "priority"):
        yield ReportChange("changed", name, f"priority {now['priority']} (was {cut(str(at(before, 'priority')), 20)})")


def _of_losses(name: str, loses: str, losses: Mapping[str, int], former: Any) -> Iterator[ReportChange]:
    """Yield the losses after which a workload has more or fewer replicas than in the earlier report."""
    for what in dict.fromkeys([*losses, *former]) if isinstance(former, dict) else ():
        more, less = losses.get(what, 0), former.get(what, 0)
        if isinstance(less, int) and more != less:
            why = f"{loses} {more} (was {less}) with {cut(one_line(str(what)), 80)}"
            yield ReportChange("worse" if more > less else "better", name, why)


def _entries(previous: Mapping[str, Any], key: str, command: str) -> list[Mapping[str, Any]]:
    found = previous.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"not a report of `forewarn {command} -o json`: no list {key}")
    return found
