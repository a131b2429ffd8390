"""Changes since an earlier report: the option `--since` of `audit` and `risk`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.findings import fingerprints
from forewarn.policies.documents import json_of
from forewarn.policies.documents.findings import Change, Difference
from forewarn.policies.findings import cut, one_line, plural
from forewarn.policies.objects.fields import at
from forewarn.policies.render.report import one_line_finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.findings import Finding
    from forewarn.policies.whatif.risk import Risks

MAX_SHOWN: Final = 20
_LONG: Final = 200
_ORDER: Final = ("new", "worse", "changed", "better", "gone")


def of_findings(findings: Sequence[Finding], previous: Mapping[str, Any]) -> list[Change]:
    """Return new and fixed findings. `previous`: the report of `audit -o json`. Raises ValueError for an invalid
    report.
    """
    entries = _entries(previous, "findings", "audit")
    before = {str(at(each, "fingerprint")): each for each in entries}
    now = dict(zip(fingerprints(findings), findings, strict=True))
    new = [
        Change("new", f"{found.severity}: {one_line_finding(found)} [{found.rule}]")
        for mark, found in now.items()
        if mark not in before
    ]
    return [*new, *(Change("gone", _change_text(each)) for mark, each in before.items() if mark not in now)]


def _change_text(entry: Mapping[str, Any]) -> str:
    ref = [str(at(entry, "object", key) or "") for key in ("kind", "namespace", "name")]
    about = f"{ref[0]} {'/'.join(part for part in ref[1:] if part)}".strip()
    text = f"{at(entry, 'severity')}: {about and f'{about}: '}{at(entry, 'message')} [{at(entry, 'rule')}]"
    return cut(one_line(text[: 4 * _LONG]), _LONG)


def of_risks(risks: Risks, previous: Mapping[str, Any]) -> list[Change]:
    """Return workloads with changed risks. `previous`: the report of `risk -o json`. Raises ValueError for an invalid
    report.
    """
    before = {str(at(each, "workload")): each for each in _entries(previous, "workloads", "risk")}
    now = {each["workload"]: each for each in json_of(risks.workloads)}
    changes = [Change("new", name) for name in now if name not in before]
    changes += [Change("gone", cut(one_line(name), _LONG), "no running Pods") for name in before if name not in now]
    changes += [each for name in now if name in before for each in _of_workload(name, now[name], before[name])]
    return sorted(changes, key=lambda each: (_ORDER.index(each.change), each.what))


def _of_workload(name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Change]:
    losses, former = now["losesReplicasWith"], at(before, "losesReplicasWith")
    if isinstance(former, dict):
        for what in dict.fromkeys([*losses, *former]):
            more, less = losses.get(what, 0), former.get(what, 0)
            if isinstance(less, int) and more != less:
                why = f"loses {more} (was {less}) with {cut(one_line(str(what)), 80)}"
                yield Change("worse" if more > less else "better", name, why)
    classes, earlier = ({str(at(each, "class")) for each in _list(of)} for of in (now, before))
    differences: tuple[tuple[Difference, set[str], str], ...] = (
        ("worse", classes - earlier, "may now"),
        ("better", earlier - classes, "may no longer"),
    )
    for kind, names, verb in differences:
        if names:
            names_text = cut(one_line(", ".join(sorted(names))), 80)
            yield Change(kind, name, f"{verb} be preempted by {names_text}")
    if now["priority"] != at(before, "priority"):
        yield Change("changed", name, f"priority {now['priority']} (was {cut(str(at(before, 'priority')), 20)})")


def _list(workload: Mapping[str, Any]) -> list[Any]:
    found = workload.get("mayBePreemptedBy")
    return found if isinstance(found, list) else []


def _entries(previous: Mapping[str, Any], key: str, command: str) -> list[Mapping[str, Any]]:
    found = previous.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"not a report of `forewarn {command} -o json`: no list {key}")
    return found


def lines(changes: Sequence[Change], name: str) -> Iterator[str]:
    """Yield the changes as lines of text: a summary, and at most MAX_SHOWN changes."""
    counts = {kind: sum(each.change == kind for each in changes) for kind in _ORDER}
    by_kind = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    summary = f"{plural(len(changes), 'change')} ({by_kind})" if changes else "no changes"
    yield f"since {one_line(name)}: {summary}"
    for each in changes[:MAX_SHOWN]:
        yield f"  {each.change}  {each.what}{each.why and f': {each.why}'}"
    if len(changes) > MAX_SHOWN:
        yield f"  and {plural(len(changes) - MAX_SHOWN, 'more change')}; use -o json for all"
