"""The HTML page of `forewarn whatif` and `forewarn whatif events`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.render import autoscalers, whatif
from forewarn.policies.render.drain import emptied
from forewarn.policies.render.headroom import cpu, memory
from forewarn.policies.render.html.elements import (
    Amount,
    Page,
    chart,
    data,
    display_text,
    element,
    page_header,
    section,
    table,
)
from forewarn.policies.render.html.node_data import node_data
from forewarn.policies.render.html.nodes import cascade, nodes, preemption_section
from forewarn.policies.render.simulation import missing, violated
from forewarn.policies.scheduling.reasons import in_short
from forewarn.policies.simulation.summary import timeline_lines
from forewarn.policies.whatif.node_bands import NodeBands, requests_by_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from xml.etree.ElementTree import Element

    from forewarn.policies.whatif.answer import Answer
    from forewarn.policies.whatif.class_change import ClassChange

_MAX_NOTES: Final = 100
_OPEN_PDBS: Final = 3
_OPEN_LINES: Final = 6
_MAX_OPEN: Final = 40
"""The most events of a timeline that is shown unfolded."""


def report(answer: Answer, change: ClassChange | None = None, notes: Iterable[str] = ()) -> Page:
    """Return the page. `answer` must have `occupancy`. `notes`: about ignored objects."""
    assert answer.occupancy is not None
    bands = NodeBands(answer.occupancy, answer.preempted)
    drawn, end = node_data(bands, answer.preempted), answer.of_upgrade
    if end is not answer or whatif.on_new_nodes(answer):
        numbers = "" if end is not answer else "numbers, "
        notes = [*notes, f"{numbers}nodes, preemptions and timeline on this page are those without new nodes"]
    parts = [
        _header(end, whatif.verdict(answer, change)),
        *_change(change),
        *_listed("Upgrade" if end.upgrade else "Drain", "drained", [*emptied(end)], _OPEN_LINES),
        *_upgrades(answer),
        *_listed("PodDisruptionBudgets", "pdbs", _pdbs(end), _OPEN_PDBS),
        *_workloads(end),
        *_other_facts(end, notes),
        nodes(drawn),
        *_classes(answer),
        *preemption_section(answer.preempted),
        *_autoscalers(answer),
        *_timeline(answer),
    ]
    parts.append(data("nodes-data", drawn))
    skip = element("a", "skip to the workloads", href="#workloads", class_="skip")
    return Page(answer.title, parts, skip)


def _header(answer: Answer, title: str) -> Element:
    others = [standing for standing in answer.workloads if standing.workload not in answer.placeholders]
    pending = sum(standing.pending for standing in others)
    before = sum(standing.pending_before for standing in others)
    preempted, _, lost, broken, placeholders = whatif.row(answer)
    failed, upgrade = sum(bool(standing.failure) for standing in answer.workloads), answer.upgrade
    depth, running = answer.summary.cascade_depth, (answer.running_before, answer.running_after)
    tiles = [
        *([("upgraded", f"{len(upgrade.done)} of {len(upgrade.steps)}", not upgrade.complete)] if upgrade else ()),
        *([("nodes not drained", f"{len(answer.not_drained)}", True)] if answer.not_drained else ()),
        ("replicas lost", lost, bool(lost)),
        ("preempted", preempted, bool(preempted)),
        ("Pending", f"{before} → {pending}" if before else pending, pending > before),
        ("PDB violations", broken, bool(broken)),
        *([("Jobs failed", failed, True)] if failed else ()),
        ("running", " → ".join(map(str, running)), running[1] < running[0]),
        *([("placeholders preempted", placeholders, False)] if placeholders else ()),
        *([("cascade depth", depth, True)] if depth > 1 else ()),
    ]
    tiles.sort(key=lambda each: (not each[2], each[1] == 0))
    return page_header(
        title.removesuffix("."), tiles, f"{answer.title}. {whatif.times(answer)}", whatif.without_it(answer)
    )


def _change(change: ClassChange | None) -> Iterator[Element]:
    if change is not None:
        lines = [element("li", display_text(line.strip())) for line in whatif.class_change(change)]
        yield section("PriorityClass", "class-title", element("ul", *lines, class_="plain"))


def _classes(answer: Answer) -> Iterator[Element]:
    """Yield the table of running Pods and their resource requests by PriorityClass, before and after."""
    assert answer.occupancy is not None
    preempted = Counter((preemption.priority, preemption.priority_class) for preemption in answer.preempted)
    requests = requests_by_class(answer.occupancy.intervals)
    rows = (
        (
            name or "-",
            priority,
            before.pods,
            after.pods,
            Amount(cpu(before.milli_cpu), before.milli_cpu),
            Amount(cpu(after.milli_cpu), after.milli_cpu),
            Amount(memory(before.memory), before.memory),
            Amount(memory(after.memory), after.memory),
            preempted[priority, name],
        )
        for (priority, name), (before, after) in sorted(requests.items(), reverse=True)
    )
    heads = ("class", "priority", "Pods before", "after", "cpu before", "after", "memory before", "after", "preempted")
    yield section("Requests by PriorityClass", "classes", table("PriorityClasses", heads, rows, len(requests)))


def _upgrades(answer: Answer) -> Iterator[Element]:
    for each in whatif.with_and_without_new_nodes(answer):
        shown = table("Upgrade", each.heads, each.rows, len(each.rows))
        yield section("With and without new nodes", "upgrades", shown)


def _workloads(answer: Answer) -> Iterator[Element]:
    standings = answer.workloads
    rows = (
        (s.workload, s.priority_class or "-", s.priority, *s.running, s.pending, in_short(s.message or s.failure))
        for s in standings
    )
    heads = ("workload", "class", "priority", "before", "after", "Pending", "reason")
    shown = element("p", "No workload changes.")
    if standings:
        shown = table("Changed workloads", heads, rows, len(standings))
    yield section("Workloads", "workloads", shown)


def _autoscalers(answer: Answer) -> Iterator[Element]:
    lines = [element("li", display_text(line.strip())) for line in autoscalers.lines_of(answer)]
    arrived = autoscalers.arrived_table(answer)
    if arrived is not None:
        lines.append(element("li", display_text(arrived.title)))
    rows = table("With new nodes", arrived.heads, arrived.rows, len(arrived.rows)) if arrived and arrived.rows else None
    if lines:
        yield section("Autoscalers", "autoscalers-title", element("ul", *lines, class_="plain"), rows)


def _timeline(answer: Answer) -> Iterator[Element]:
    lines = [_moment(line) for line in timeline_lines(answer.simulation)]
    if lines:
        drawn = chart("Preemptions over time, chart", cascade(answer.preempted)) if answer.preempted else None
        events = element("ol", *lines, class_="timeline")
        if len(lines) > _MAX_OPEN:
            events = element("details", element("summary", f"{len(lines)} events"), events)
        yield section("Timeline", "timeline-title", drawn, events)


def _moment(line: str) -> Element:
    seconds, _, event = line.lstrip().partition("  ")
    return element("li", element("time", seconds), element("span", display_text(event)))


def _other_facts(answer: Answer, notes: Iterable[str]) -> Iterator[Element]:
    lines = [
        *missing(answer.summary),
        *whatif.fix_of_failures(answer),
        *whatif.new_node_lines(answer),
        *whatif.affected(answer.pod_losses),
    ]
    lines += [*(f"not simulated: {problem}" for problem in answer.not_simulated), *answer.not_modelled]
    yield from _listed("Notes", "also-title", [*lines, *notes])


def _pdbs(answer: Answer) -> list[str]:
    lines = [violated(name, count) for name, count in sorted(answer.summary.violated_pdbs.items())]
    return lines + [whatif.too_few_healthy(n, h, d) for n, (h, d) in sorted(answer.pdbs.items())]


def _listed(title: str, name: str, lines: list[str], unfolded: int = _MAX_NOTES + 1) -> Iterator[Element]:
    """Yield the section with the lines, if there are any; those after `unfolded` are folded."""
    items = [element("li", display_text(line)) for line in lines[:_MAX_NOTES]]
    more = f"and {len(lines) - _MAX_NOTES} more; use -o json for all"
    items += [element("li", more)] if len(lines) > _MAX_NOTES else []
    if not items:
        return
    others = None
    if items[unfolded:]:
        rest = element("ul", *items[unfolded:], class_="plain")
        others = element("details", element("summary", f"{len(lines) - unfolded} more"), rest)
    yield section(title, name, element("ul", *items[:unfolded], class_="plain"), others)
