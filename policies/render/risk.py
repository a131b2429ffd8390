"""The risks of workloads (loss of nodes and zones, preemption, eviction) as text and Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import cut, duration, equal_to, first_line, grouped, listed, one_line, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import left_out, limited, markdown_table, page_table, text_of
from forewarn.policies.render.whatif import or_others
from forewarn.policies.simulation.summary import unsettled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from forewarn.policies.whatif.risk import AfterNewNodes, Preemptor, Risks, WorkloadRisk

MAX_WORKLOADS: Final = 20
_MAX_LOSSES: Final = 5
_GIB: Final = 2**30
_LONGEST: Final = 400
_LONGEST_NAME: Final = 60


_ONE_POD: Final = "ONE POD LOST"
_WITH_NODES: Final = "WITH NEW NODES"
_SUMMARY_HEADS: Final = (
    *("WORKLOAD", "CLASS", "PRIORITY", "PODS", "WORST LOSS", _WITH_NODES, "EVICTED FIRST", "PREEMPTED BY", _ONE_POD),
)


def render_summary(risks: Risks, paint: Painter = plain, width: int = 0) -> Iterator[str]:
    """One page: the number of workloads with each risk, and a table of the first of them, which lose replicas.

    `width`: as in `page_table`.
    """
    shown = risks.workloads[:MAX_WORKLOADS]
    hidden = {_WITH_NODES: not has_new_nodes(risks), _ONE_POD: not any(risk.pod_losses for risk in shown)}
    columns = [place for place, head in enumerate(_SUMMARY_HEADS) if not hidden.get(head)]
    rows = [[cells[place] for place in columns] for cells in map(_summary_row, shown)]
    lines = list(page_table([_SUMMARY_HEADS[place] for place in columns], rows, width))
    yield _verdict(risks, paint)
    yield paint(lines[0], "bold")
    yield from lines[1:]
    yield from left_out(len(risks.workloads), MAX_WORKLOADS, "workload")
    yield from (paint(note, "warning") for note in notes(risks))


def _verdict(risks: Risks, paint: Painter) -> str:
    return paint(verdict(risks), "warning" if any(risk.loses_replicas_with for risk in risks.workloads) else "good")


def _summary_row(risk: WorkloadRisk) -> list[str | int]:
    losses = risk.loses_replicas_with
    others = f" and {len(losses) - 1} more" if len(losses) > 1 else ""
    others += ", by quota" if risk.refused_by_quota else ""
    worst = max(losses, key=losses.__getitem__, default="")
    loss = f"{losses[worst]} of {risk.pods}: {worst}{others}" if worst else "-"
    now = [preemptor.class_ for preemptor in risk.may_be_preempted_by if _size(preemptor)]
    later = f"{risk.may_be_preempted_by[0].class_} if full" if risk.may_be_preempted_by else "-"
    evicted_first, nodes = risk.evicted_first_on
    first = f"{evicted_first} of {plural(nodes, 'node')}" if evicted_first else "-"
    one_pod = f"{risk.pod_losses[0].loss} {risk.pod_losses[0].kind}" if risk.pod_losses else "-"
    own = risk.workload, risk.priority_class or "-", risk.priority, risk.pods
    return [*own, loss, _left(risk), first, listed(now, 2) or later, one_pod]


def worst_loss(risk: WorkloadRisk, others: Iterable[WorkloadRisk] = ()) -> str:
    """Return the largest loss of a workload that has some: `shop/web loses 2 of 3 with zone a (equal: zone b)`.

    `others`: workloads, of which it names those with as many Pods and the same loss, unless chance decides which loses.
    """
    losses, rivals = risk.loses_replicas_with, risk.rivals or {}
    worst, *further = sorted((what for what in losses if losses[what] == max(losses.values())), key=rivals.__contains__)
    equal = [what for what in further if rivals.get(what) == rivals.get(worst)]

    def loss_of(each: WorkloadRisk) -> tuple[object, ...]:
        return each.damage, each.pods, each.loses_replicas_with.get(worst)

    alike = [one_line(each.workload) for each in others if loss_of(each) == loss_of(risk)]
    rival = or_others(rivals.get(worst, ())) or equal_to(alike, "workload")
    name = f"{cut(one_line(risk.workload), _LONGEST_NAME)}{rival}"
    return f"{name} loses {losses[worst]} of {risk.pods} with {worst}{equal_to(equal, 'loss')}"


def verdict(risks: Risks) -> str:
    """A sentence with the number of workloads that lose replicas, the worst loss, and how many may be preempted."""
    total = plural(len(risks.workloads), "workload")
    if not any(risks.simulated):
        return first_line(f"{total}; no loss simulated", *_ends(risks))
    counts = [
        (_losing(risks, what), what if some == all_ else f"{what} ({some} of {all_} simulated)")
        for what, some, all_ in zip(("zone", "node"), risks.simulated, risks.total, strict=True)
        if some
    ]
    loses = "loses" if counts[0][0] in ("1", "up to 1") or len(risks.workloads) == 1 else "lose"
    lose = f"{counts[0][0]} of {total} {loses} replicas with a lost {counts[0][1]}"
    node = "".join(f", {count} with a lost {what}" for count, what in counts[1:])
    losing = [risk for risk in risks.workloads if risk.loses_replicas_with]
    worst = f"; highest priority: {worst_loss(losing[0], losing[1:])}" if losing else ""
    unread = len({problem.partition(": ")[0] for problem in risks.not_predicted})
    unknown = f", {plural(unread, 'workload')} not predicted" if unread else ""
    return first_line(f"{lose}{node}{unknown}{worst}{_with_new_nodes(risks)}", *_ends(risks))


def _ends(risks: Risks) -> list[str]:
    """The ends of the sentence, each shorter: failing, exposed and Pending Pods."""
    failing = sum(any(loss.fails for loss in risk.pod_losses) for risk in risks.workloads)
    fail = f"{failing} {'fails' if failing == 1 else 'fail'} if one Pod is preempted or evicted" if failing else ""
    pending = f"{plural(risks.pending, 'Pod')} Pending now" if risks.pending else ""
    parts = ([part for part in (fail, exposed, pending) if part] for exposed in (*_exposed(risks), ""))
    return ["; " * bool(each) + ", ".join(each) for each in parts]


def _exposed(risks: Risks) -> list[str]:
    """Phrases with the number of workloads that classes may preempt: by the lowest classes, and in all; none without
    any.
    """
    preemptors = (next(filter(_size, risk.may_be_preempted_by), None) for risk in risks.workloads)
    lowest = Counter((each.priority, cut(one_line(each.class_), _LONGEST_NAME)) for each in preemptors if each)
    first, others = sorted(lowest.items())[:2], sorted(lowest.items())[2:]
    shown = [f"{count} by {name} or higher" for (_, name), count in first]
    shown += [f"{sum(count for _, count in others)} by higher classes"] if others else []
    verb = " may be preempted next"
    return [listed(shown).replace(" by ", f"{verb} by ", 1), f"{lowest.total()}{verb}"] if shown else []


def has_new_nodes(risks: Risks) -> bool:
    """Report whether node groups are known."""
    return any(risk.with_new_nodes is not None for risk in risks.workloads)


def _with_new_nodes(risks: Risks) -> str:
    """A phrase with the workloads that lose replicas even with new nodes; "" without losses or groups."""
    after = [each for risk in risks.workloads for each in (risk.with_new_nodes or {}).values()]
    if not after:
        return ""
    lasting = sum(bool(risk.lasting_losses) for risk in risks.workloads)
    if not lasting:
        return f"; with new nodes, all lost replicas run again within {duration(_last(after))}"
    return f"; with new nodes, {plural(lasting, 'workload')} still {'loses' if lasting == 1 else 'lose'} replicas"


def _last(after: Iterable[AfterNewNodes]) -> float:
    return max((each.back_at or 0.0 for each in after), default=0.0)


def _left(risk: WorkloadRisk) -> str:
    """Return the largest loss after new nodes have arrived: `2 of 4: zone a`, or `all run after 4 min 15 s`."""
    after = risk.with_new_nodes or {}
    if short := risk.lasting_losses:
        worst = max(short, key=short.__getitem__)
        others = f" and {len(short) - 1} more" if len(short) > 1 else ""
        return f"{short[worst]} of {risk.pods}: {worst}{others}"
    return f"all run after {duration(_last(after.values()))}" if after else "-"


def _losing(risks: Risks, what: str) -> str:
    """The number of workloads that lose replicas with a lost zone or node; the highest one if chance decides."""
    start = f"{what} "
    losing = {risk.workload for risk in risks.workloads for loss in risk.loses_replicas_with if loss.startswith(start)}
    by_loss = (each for risk in risks.workloads for each in (risk.rivals or {}).items())
    rivals = {name for loss, names in by_loss if loss.startswith(start) for name in names}
    rivals &= {risk.workload for risk in risks.workloads}  # with -n, only those of the namespace
    return f"up to {len(losing | rivals)}" if rivals - losing else f"{len(losing)}"


def render(risks: Risks, paint: Painter = plain) -> Iterator[str]:
    """The risks as text lines by workload."""
    yield _verdict(risks, paint)
    for risk in risks.workloads[:MAX_WORKLOADS]:
        named = f"class {risk.priority_class}, " if risk.priority_class else ""
        title = f"{risk.workload} ({named}priority {risk.priority})"
        yield f"{paint(title, 'bold')}: {plural(risk.pods, 'Pod')} on {plural(risk.evicted_first_on.of, 'node')}"
        yield from (f"  {line}" for line in _of_workload(risk, risks, paint))
    yield from left_out(len(risks.workloads), MAX_WORKLOADS, "workload")
    yield from (paint(note, "warning") for note in notes(risks))


def _cut_off(risks: Risks) -> Iterator[str]:
    """Yield lines about simulations of losses that did not reach a steady state, with the reasons."""
    by_why = grouped((unsettled(*simulation), loss) for loss, simulation in risks.unfinished.items())
    for (what, fix), losses in by_why.items():
        named = listed(losses, _MAX_LOSSES)
        yield f"{plural(len(losses), 'simulation')} {what} ({named}); results are as of then. Fix: {fix}"


def _of_workload(risk: WorkloadRisk, risks: Risks, paint: Painter) -> Iterator[str]:
    preemptors = preempted_by(risk)
    if preemptors:
        yield f"may be preempted by {preemptors}"
    elif risk.classes_above:
        yield "Pods of higher classes fit without preempting it, by cpu and memory; other constraints are not compared"
    else:
        yield "no PriorityClass can preempt it, except system classes"
    yield from (
        f"PodGroup {pod_group.pod_group} (priority {pod_group.priority}): preempting one Pod preempts all "
        f"{plural(pod_group.preempted_pods, 'Pod')} on {plural(pod_group.nodes, 'node')}"
        for pod_group in risk.pod_groups
    )
    for loss in risk.pod_losses[:_MAX_LOSSES]:
        yield paint(f"losing Pod {loss.pod.rpartition('/')[2]} {loss.sentence}", "warning")
    yield from left_out(len(risk.pod_losses), _MAX_LOSSES)
    if risk.loses_replicas_with:
        yield paint(f"loses replicas with the loss of {_counted(risk.loses_replicas_with)}{_rejected(risk)}", "warning")
    elif any(risks.simulated):
        yield paint(f"loses no replicas with the loss of {_simulated(risks)}", "good")
    if risk.with_new_nodes:
        yield f"with new nodes: {_left_with(risk)}"
    if risk.evicted_first_on.nodes:
        where = plural(risk.evicted_first_on.nodes, "node")
        yield f"lowest priority on {where}: evicted first under node pressure unless usage decides"


def _simulated(risks: Risks) -> str:
    """A phrase with the simulated losses: `any of 2 zones and 4 nodes`, or `1 of 2 zones or 1 of 4 nodes`."""
    counts = [(s, t, what) for s, t, what in zip(risks.simulated, risks.total, ("zone", "node"), strict=True) if t]
    if all(simulated == total for simulated, total, _ in counts):
        shown = f"any single {' or '.join(what for _, _, what in counts)}"
        tried = ", ".join(plural(total, what) for _, total, what in counts)
    else:
        shown, tried = "a simulated zone or node", ", ".join(f"{s} of {plural(t, what)}" for s, t, what in counts)
    cut_off = f", {len(risks.unfinished)} not simulated to the end" if risks.unfinished else ""
    return f"{shown} ({tried}{cut_off})"


def preempted_by(risk: WorkloadRisk) -> str:
    """A phrase with the classes that may preempt a workload, and the size of their Pods; "" if there are none."""
    preemptors = [preemptor for preemptor in risk.may_be_preempted_by if _size(preemptor)]
    if not preemptors:
        return ""
    others = [preemptor.class_ for preemptor in preemptors[1:]]
    more = f" (and {listed(others)})" if others else ""
    first = f"class {preemptors[0].class_} ({preemptors[0].priority}){more}"
    return f"{first}: a Pod that requests {_size(preemptors[0])}"


HEADS: Final = (
    *("workload", "class", "priority", "pods", "loses replicas with", "may be preempted by"),
    *("lowest priority on nodes", "loss of one Pod"),
)


def heads_of(risks: Risks) -> list[str]:
    """The column heads: HEADS, and with node groups what remains after new nodes have arrived."""
    return [*HEADS, *([_WITH_NODES.lower()] if has_new_nodes(risks) else [])]


def _left_with(risk: WorkloadRisk) -> str:
    """Return a phrase with the losses that cost replicas after new nodes have arrived."""
    after = risk.with_new_nodes or {}
    left = _counted(risk.lasting_losses)
    again = [each for each in after.values() if not each.replicas]
    when = f"all run again within {duration(_last(again))}" if again else ""
    if not left:
        return when
    return f"still loses replicas with {left}" + (f"; after other losses, {when}" if when else "")


def cells(risk: WorkloadRisk) -> list[str | int]:
    """The cells of a workload's row, in the order of `heads_of`."""
    losses = _counted(risk.loses_replicas_with) + _rejected(risk)
    preemptors = preempted_by(risk) or "-"
    effects = listed([loss.sentence for loss in risk.pod_losses], 1) or "-"
    named, nodes = risk.priority_class or "-", risk.evicted_first_on.nodes
    left = [] if risk.with_new_nodes is None else [_left_with(risk) or "-"]
    return [risk.workload, named, risk.priority, risk.pods, losses or "-", preemptors, nodes, effects, *left]


def notes(risks: Risks) -> Iterator[str]:
    """Lines about losses that were not simulated, or not completely."""
    for what, tried, existing in zip(("zone", "node"), risks.simulated, risks.total, strict=True):
        if tried < existing:
            yield f"simulated the loss of {tried} of {plural(existing, what)}; use --most N for more"
    yield from _without_loss(risks)
    yield from _cut_off(risks)
    unread = [f"not predicted: replacement Pods of {problem}" for problem in risks.not_predicted]
    yield from limited(unread, "workload not predicted", "workloads not predicted", "")
    yield from limited(risks.not_modelled, "part not modelled", "parts not modelled", "")


def _without_loss(risks: Risks) -> Iterator[str]:
    anyway = {risk.workload: (risks.without_loss or {}).get(risk.workload, 0) for risk in risks.workloads}
    losing = sum(map(bool, anyway.values()))
    if losing:
        most = max(anyway, key=anyway.__getitem__)
        lose = f"{plural(losing, 'workload')} {'loses' if losing == 1 else 'lose'} replicas"
        yield f"without any loss, {lose} to Pending Pods ({most} {anyway[most]}); the numbers above include these"


def markdown(risks: Risks) -> str:
    """The risks as Markdown."""
    lines = [f"### Risks: {text_of(verdict(risks))}", ""]
    lines += markdown_table(heads_of(risks), map(cells, risks.workloads[:MAX_WORKLOADS]), longest=_LONGEST)
    left = len(risks.workloads) - MAX_WORKLOADS
    lines += ["", f"and {plural(left, 'more workload')}"] if left > 0 else []
    bullets = [f"- {text_of(note)}" for note in notes(risks)]
    return "\n".join([*lines, *(["", *bullets] if bullets else [])]) + "\n"


def _counted(losses: Mapping[str, int]) -> str:
    return listed([f"{what} ({replicas})" for what, replicas in losses.items()], _MAX_LOSSES)


def _rejected(risk: WorkloadRisk) -> str:
    """A phrase such as `; a ResourceQuota rejects the replacements`, with the affected losses; "" if there are none."""
    if not risk.refused_by_quota:
        return ""
    if risk.refused_by_quota == risk.loses_replicas_with:
        return "; a ResourceQuota rejects the replacements"
    return f"; a ResourceQuota rejects replacements with {_counted(risk.refused_by_quota)}"


def _size(preemptor: Preemptor) -> str:
    """Return a phrase with the requests of Pods of this class that would preempt the workload; "" if there are none."""
    parts, free, capacity = [], preemptor.more_than, preemptor.up_to
    if capacity.milli_cpu > free.milli_cpu:
        parts.append(f"more than {free.milli_cpu / 1000:g} and up to {capacity.milli_cpu / 1000:g} cpu")
    if capacity.memory > free.memory:
        parts.append(f"more than {free.memory / _GIB:.3g}Gi and up to {capacity.memory / _GIB:.3g}Gi memory")
    return ", or ".join(parts)
