"""The risks of workloads (loss of nodes and zones, preemption, eviction) as text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import listed, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.lines import limited
from forewarn.policies.render.markdown import cell_of, text_of
from forewarn.policies.render.table import page_table
from forewarn.policies.simulation.summary import unsettled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.whatif.risk import Loss, Preemptor, Risk, Risks

MAX_WORKLOADS: Final = 20
_MAX_LOSSES: Final = 5
_GIB: Final = 2**30


_ONE_POD: Final = "ONE POD LOST"
_SUMMARY_HEADS: Final = ("WORKLOAD", "CLASS", "PRIORITY", "PODS", "WORST LOSS", "EVICTED FIRST", "PREEMPTED BY")


def render_summary(risks: Risks, paint: Painter = plain, width: int = 0) -> Iterator[str]:
    """One page: the number of workloads with each risk, and a table of those with the largest losses.

    `width`: as in `page_table`.
    """
    shown = risks.risks[:MAX_WORKLOADS]
    heads, rows = list(_SUMMARY_HEADS), [_summary_row(risk) for risk in shown]
    if any(risk.pod_losses for risk in shown):
        heads.append(_ONE_POD)
        rows = [[*row, _worst(risk)] for row, risk in zip(rows, shown, strict=True)]
    lines = list(page_table(heads, rows, width))
    yield _verdict(risks, paint)
    yield paint(lines[0], "bold")
    yield from lines[1:]
    left = len(risks.risks) - MAX_WORKLOADS
    if left > 0:
        yield f"and {plural(left, 'more workload')}; use -o json for all"
    yield from (paint(note, "warning") for note in notes(risks))


def _verdict(risks: Risks, paint: Painter) -> str:
    return paint(verdict(risks), "warning" if any(risk.losses for risk in risks.risks) else "good")


def _summary_row(risk: Risk) -> list[str | int]:
    worst = max(risk.losses, key=lambda loss: loss.replicas, default=None)
    others = f" (+{len(risk.losses) - 1})" if len(risk.losses) > 1 else ""
    others += ", by quota" if any(each.rejected for each in risk.losses) else ""
    loss = f"{worst.replicas} of {risk.pods}: {worst.what}{others}" if worst is not None else "-"
    preemptors = [preemptor.priority_class for preemptor in risk.preemptors if _size(preemptor)]
    first = f"{risk.first_on} of {plural(risk.nodes, 'node')}" if risk.first_on else "-"
    return [
        risk.workload,
        risk.priority_class or "-",
        risk.priority,
        risk.pods,
        loss,
        first,
        listed(preemptors, 2) or "-",
    ]


def worst_loss(risks: Sequence[Risk]) -> str:
    """Return the largest loss of these workloads: `shop/web loses 2 of 3 with zone a`; `-` without losses."""
    found = [(risk, loss) for risk in risks for loss in risk.losses]
    if not found:
        return "-"
    risk, loss = max(found, key=lambda each: each[1].replicas)
    return f"{risk.workload} loses {loss.replicas} of {risk.pods} with {loss.what}"


def _worst(risk: Risk) -> str:
    """Return the largest effect of losing one Pod, for example `fails SparkApplication`; `-` without effect."""
    return f"{risk.pod_losses[0].loss} {risk.pod_losses[0].kind}" if risk.pod_losses else "-"


def verdict(risks: Risks) -> str:
    """A sentence with the number of workloads that lose replicas."""
    total = plural(len(risks.risks), "workload")
    failing = sum(any(loss.fails for loss in risk.pod_losses) for risk in risks.risks)
    fail = f", {failing} {'fails' if failing == 1 else 'fail'} if one Pod is preempted or evicted" if failing else ""
    if not any(risks.tried):
        return f"{total}{fail}; no loss simulated"
    zone, node = (_losing(risks, what) for what in ("zone", "node"))
    return f"of {total}, {zone} with a lost zone, {node} with a lost node{fail}"


def _losing(risks: Risks, what: str) -> str:
    count = sum(any(loss.what.startswith(f"{what} ") for loss in risk.losses) for risk in risks.risks)
    return f"{count} {'loses' if count == 1 else 'lose'} replicas"


def render(risks: Risks, paint: Painter = plain) -> Iterator[str]:
    """The risks as text lines by workload, the largest losses first."""
    yield _verdict(risks, paint)
    for risk in risks.risks[:MAX_WORKLOADS]:
        named = f"class {risk.priority_class}, " if risk.priority_class else ""
        title = f"{risk.workload} ({named}priority {risk.priority})"
        yield f"{paint(title, 'bold')}: {plural(risk.pods, 'Pod')} on {plural(risk.nodes, 'node')}"
        yield from (f"  {line}" for line in _of_workload(risk, risks, paint))
    left = len(risks.risks) - MAX_WORKLOADS
    if left > 0:
        yield f"and {plural(left, 'more workload')}; use -o json for all"
    yield from (paint(note, "warning") for note in notes(risks))


def _cut_off(risks: Risks) -> Iterator[str]:
    """Yield lines about simulations of losses that did not reach a steady state, with the reasons."""
    by_why: dict[tuple[str, str], list[str]] = {}
    for each in risks.unended:
        by_why.setdefault(unsettled(each.stopped, each.at), []).append(each.what)
    for (what, fix), losses in by_why.items():
        named = listed(losses, _MAX_LOSSES)
        yield f"{plural(len(losses), 'simulation')} {what} ({named}); results are as of then. Fix: {fix}"


def _of_workload(risk: Risk, risks: Risks, paint: Painter) -> Iterator[str]:
    preemptors = preempted_by(risk)
    if preemptors:
        yield f"may be preempted by {preemptors}"
    elif risk.above:
        yield "Pods of higher classes fit without preempting it"
    else:
        yield "no class has a higher priority"
    yield from (
        f"PodGroup {each.pod_group} (priority {each.priority}): preempting one Pod preempts all "
        f"{plural(each.pods, 'Pod')} on {plural(each.nodes, 'node')}"
        for each in risk.pod_groups
    )
    for loss in risk.pod_losses[:_MAX_LOSSES]:
        yield paint(f"losing Pod {loss.pod.rpartition('/')[2]} {loss.sentence}", "warning")
    if len(risk.pod_losses) > _MAX_LOSSES:
        yield f"and {len(risk.pod_losses) - _MAX_LOSSES} more; use -o json for all"
    if risk.losses:
        losses = [f"{loss.what} ({loss.replicas})" for loss in risk.losses]
        yield paint(f"loses replicas with the loss of {listed(losses, _MAX_LOSSES)}{_rejected(risk.losses)}", "warning")
    elif any(risks.tried):
        tried = f"{plural(risks.tried[0], 'zone')}, {plural(risks.tried[1], 'node')}"
        cut_off = f", {len(risks.unended)} not simulated to the end" if risks.unended else ""
        yield paint(f"survives the loss of any single zone or node ({tried}{cut_off})", "good")
    if risk.first_on:
        where = plural(risk.first_on, "node")
        yield f"lowest priority on {where}: evicted first under node pressure unless usage decides"


def preempted_by(risk: Risk) -> str:
    """A phrase with the classes that may preempt a workload, and the size of their Pods; "" if there are none."""
    preemptors = [preemptor for preemptor in risk.preemptors if _size(preemptor)]
    if not preemptors:
        return ""
    others = [preemptor.priority_class for preemptor in preemptors[1:]]
    more = f" (and {listed(others)})" if others else ""
    first = f"class {preemptors[0].priority_class} ({preemptors[0].priority}){more}"
    return f"{first}: a Pod that requests {_size(preemptors[0])}"


HEADS: Final = (
    "workload",
    "class",
    "priority",
    "pods",
    "loses replicas with",
    "may be preempted by",
    "lowest priority on nodes",
    "loss of one Pod",
)


def cells(risk: Risk) -> list[str | int]:
    """The cells of a workload's row, in the order of HEADS."""
    losses = listed([f"{loss.what} ({loss.replicas})" for loss in risk.losses], _MAX_LOSSES) + _rejected(risk.losses)
    preemptors = preempted_by(risk) or "-"
    effects = listed([loss.sentence for loss in risk.pod_losses], 1) or "-"
    named = risk.priority_class or "-"
    return [risk.workload, named, risk.priority, risk.pods, losses or "-", preemptors, risk.first_on, effects]


def notes(risks: Risks) -> Iterator[str]:
    """Lines about losses that were not simulated, or not completely."""
    for what, tried, existing in zip(("zone", "node"), risks.tried, risks.existing, strict=True):
        if tried < existing:
            yield f"simulated the loss of {tried} of {plural(existing, what)}; use --most N for more"
    yield from _without_loss(risks)
    yield from _cut_off(risks)
    unread = (f"not predicted: replacement Pods of {problem}" for problem in risks.unread)
    yield from limited(unread, len(risks.unread), "workload not predicted", "workloads not predicted", "")
    yield from limited(risks.not_modelled, len(risks.not_modelled), "part not modelled", "parts not modelled", "")


def _without_loss(found: Risks) -> Iterator[str]:
    anyway = {risk.workload: found.without_loss.get(risk.workload, 0) for risk in found.risks}
    losing = sum(map(bool, anyway.values()))
    if losing:
        most = max(anyway, key=anyway.__getitem__)
        lose = f"{plural(losing, 'workload')} {'loses' if losing == 1 else 'lose'} replicas"
        yield f"without any loss, {lose} to Pending Pods ({most} {anyway[most]}); the numbers above include these"


def markdown(risks: Risks) -> str:
    """The risks as Markdown: a table with the largest losses first."""
    lines = [f"### Risks: {text_of(verdict(risks))}", "", f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    rows = (map(cell_of, cells(risk)) for risk in risks.risks[:MAX_WORKLOADS])
    lines += (f"| {' | '.join(row)} |" for row in rows)
    left = len(risks.risks) - MAX_WORKLOADS
    lines += ["", f"and {plural(left, 'more workload')}"] if left > 0 else []
    bullets = [f"- {text_of(note)}" for note in notes(risks)]
    return "\n".join([*lines, *(["", *bullets] if bullets else [])]) + "\n"


def _rejected(losses: Sequence[Loss]) -> str:
    """A phrase such as `; a ResourceQuota rejects the replacements`, with the affected losses; "" if there are none."""
    rejected = [loss for loss in losses if loss.rejected]
    if not rejected:
        return ""
    if all(loss.rejected == loss.replicas for loss in losses):
        return "; a ResourceQuota rejects the replacements"
    with_which = listed([f"{loss.what} ({loss.rejected})" for loss in rejected], _MAX_LOSSES)
    return f"; a ResourceQuota rejects replacements with {with_which}"


def _size(preemptor: Preemptor) -> str:
    """Return a phrase with the requests of Pods of this class that would preempt the workload; "" if there are none."""
    parts = []
    if preemptor.capacity[0] > preemptor.free[0]:
        parts.append(f"more than {preemptor.free[0] / 1000:g} and up to {preemptor.capacity[0] / 1000:g} cpu")
    if preemptor.capacity[1] > preemptor.free[1]:
        parts.append(
            f"more than {preemptor.free[1] / _GIB:.3g}Gi and up to {preemptor.capacity[1] / _GIB:.3g}Gi memory"
        )
    return ", or ".join(parts)
