"""Findings about a cluster as text: the most severe first, grouped by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.findings import fingerprints
from forewarn.policies.documents import json_of
from forewarn.policies.documents.findings import Difference, ReportChange
from forewarn.policies.findings import Finding, Location, ObjectRef, Severity, cut, grouped, one_line, plural
from forewarn.policies.objects.fields import at, list_at
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.report import one_line_finding, with_worst, worst_first
from forewarn.policies.render.table import left_out, page_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.whatif.risk_answer import Risks


MAX_PER_RULE: Final = 20
"""Maximum findings of one rule in the text; JSON contains all."""


def render(findings: Sequence[Finding], paint: Painter = plain) -> Iterator[str]:
    """The report as lines: for each rule, the findings with a fix, then this fix."""
    for found in _by_rule(findings):
        severity, rule = found[0].severity, found[0].rule
        shown = found[:MAX_PER_RULE]
        for fix in dict.fromkeys(finding.remediation for finding in shown):
            for finding in (each for each in shown if each.remediation == fix):
                yield f"{paint(str(severity), str(severity))}: {one_line_finding(finding)} {paint(f'[{rule}]', 'dim')}"
            if fix:
                yield f"  = Fix: {one_line(fix)}"
        if len(found) > MAX_PER_RULE:
            yield f"  and {len(found) - MAX_PER_RULE} more of {rule}; use -o json for all"


def _by_rule(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings of each rule and severity, those with the worst one first; unevaluated ones apart."""
    return [*grouped(((each.severity, each.rule, each.not_evaluated), each) for each in worst_first(findings)).values()]


_HEADS: Final = ("SEVERITY", "RULE", "COUNT", "FIRST FINDING")


def render_summary(findings: Sequence[Finding], paint: Painter = plain, width: int = 0) -> Iterator[str]:
    """One page: a line for each rule, with its worst finding. `width`: as in `page_table`."""
    groups = _by_rule(findings)
    rows = [(str(group[0].severity), group[0].rule, len(group), one_line_finding(group[0])) for group in groups]
    for number, line in enumerate(page_table(_HEADS, rows, width) if rows else ()):
        yield line if number else paint(line, "bold")
    if rows:
        yield paint("use -v for up to 20 findings of each rule with their fixes, -o json for all", "dim")


def placed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with an artificial path for each object, because SARIF requires one:
    `cluster/shop/Deployment/web`.
    """
    return [finding._replace(location=Location(_path(finding.object), 1, 1, 1)) for finding in findings]


def _path(ref: ObjectRef) -> str:
    parts = [part for part in (ref.namespace, ref.kind, ref.name) if part and part not in (".", "..")]
    return "/".join(["cluster", *(part.replace("/", "_") for part in parts)])


def summary(pods: int, pending: int, others: int, objects: int, findings: Sequence[Finding], suppressed: int) -> str:
    """One line with the numbers of findings and of checked objects, and the worst finding. `others`: Pending Pods of
    other schedulers.
    """
    counts = [f"{pending} Pending"] if pending else []
    counts += [f"{others} Pending for other schedulers"] if others else []
    are_pending = f" ({', '.join(counts)})" if counts else ""
    checked = f"{plural(objects, 'object')} and {plural(pods, 'Pod')}{are_pending} checked{_on_new_nodes(findings)}"
    return f"{with_worst(findings, suppressed)}; {checked}"


def _on_new_nodes(findings: Sequence[Finding]) -> str:
    """A phrase with the restarts for whose Pending Pods new nodes suffice; "" without node groups."""
    blocked = [finding for finding in findings if "newNodes" in finding.detail]
    helped = sum(finding.severity is Severity.NOTE for finding in blocked)
    return f"; new nodes help {helped} of {plural(len(blocked), 'blocked restart')}" if blocked else ""


MAX_SHOWN: Final = 20
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


def lines(changes: Sequence[ReportChange], name: str) -> Iterator[str]:
    """Yield the changes as lines of text: a summary, and at most MAX_SHOWN changes."""
    counts = {kind: sum(each.change == kind for each in changes) for kind in _ORDER}
    by_kind = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    summary = f"{plural(len(changes), 'change')} ({by_kind})" if changes else "no changes"
    yield f"since {one_line(name)}: {summary}"
    for each in changes[:MAX_SHOWN]:
        yield f"  {each.change}  {each.what}{each.why and f': {each.why}'}"
    yield from left_out(len(changes), MAX_SHOWN, "change", "  ")
