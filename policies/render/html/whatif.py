"""The page of `forewarn whatif` and `forewarn simulate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import plural
from policies.render import simulation as timeline_text
from policies.render.html.charts import MOST_PAIRS, cascade, flow
from policies.render.html.elements import data, document, element, table, told
from policies.render.html.node_data import MOST_NODES, node_data
from policies.render.simulation import duration, settled
from policies.render.whatif import class_change
from policies.whatif.comparison import pairs
from policies.whatif.node_bands import NodeBands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from xml.etree.ElementTree import Element

    from policies.whatif.class_change import ClassChange
    from policies.whatif.comparison import Answer, Push

_MOST_NOTES: Final = 100


def page(answer: Answer, change: ClassChange | None = None, notes: Iterable[str] = ()) -> str:
    """The whole file. `answer`: with its occupancy; `notes`: what plays no part."""
    assert answer.occupancy is not None
    bands = NodeBands(answer.occupancy, answer.pushes)
    drawn = node_data(bands, answer.pushes)
    parts = [*_change(change), _nodes(drawn), *_pushed(answer), *_workloads(answer), *_timeline(answer)]
    parts += [*_odds_and_ends(answer, notes)]
    main = element("main", _header(answer), *parts)
    skip = element("a", "to the workloads", href="#workloads", class_="skip")
    return document(answer.title, [skip, main, data("nodes-data", drawn)])


def _header(answer: Answer) -> Element:
    pending = sum(standing.pending for standing in answer.standings)
    before = sum(standing.pending_before for standing in answer.standings)
    broken = sum(answer.summary.broken_budgets.values())
    tiles = [
        _tile(
            "running", f"{answer.running_before} → {answer.running_after}", answer.running_after < answer.running_before
        ),
        _tile("pending", f"{before} → {pending}" if before else f"{pending}", pending > before),
        _tile("pushed out", f"{len(answer.pushes)}", bool(answer.pushes)),
        _tile("levels of the cascade", f"{answer.summary.depth}", answer.summary.depth > 1),
        _tile("beyond disruption budgets", f"{broken}", bool(broken)),
        _tile("time to settle", duration(answer.summary.settled_at), not answer.summary.settled),
    ]
    figures = element("dl", *tiles, class_="tiles")
    return element(
        "header",
        element("p", "forewarn", class_="brand"),
        element("h1", told(answer.title)),
        element("p", settled(answer.summary)[:1].upper() + settled(answer.summary)[1:] + ".", class_="lead"),
        figures,
    )


def _tile(name: str, value: str, bad: bool) -> Element:
    return element("div", element("dt", name), element("dd", value), class_="tile bad" if bad else "tile")


def _section(title: str, name: str, *children: Element | str | None) -> Element:
    heading = element("h2", title, id=name)
    return element("section", heading, *children, aria_labelledby=name)


def _nodes(drawn: dict[str, object]) -> Element:
    """Controls and an empty list, which the script fills."""
    search = element("input", id="search", type="search", autocomplete="off", placeholder="node, zone or workload")
    tools = element(
        "div",
        element("label", "Search", search, class_="field"),
        element(
            "fieldset",
            element("legend", "Height"),
            element("label", element("input", type="radio", name="what", value="0", checked=True), "cpu"),
            element("label", element("input", type="radio", name="what", value="1"), "memory"),
        ),
        element(
            "div",
            element("label", "Moment", for_="moment"),
            element("button", "▶", id="play", type="button", aria_label="play"),
            element("input", id="moment", type="range", min=0, value=0, step=1),
            element("output", "before", id="moment-told", for_="moment"),
            class_="field time",
        ),
        class_="tools",
        id="tools",
        hidden=True,
    )
    legend = element("ul", id="legend", class_="legend", aria_label="what the colours mean")
    status = element("p", id="found", class_="dim", role="status")
    cells = element("div", id="nodes", role="listbox", aria_label="nodes", aria_describedby="nodes-hint", tabindex=0)
    details = element(
        "aside", element("p", "A node's pods are told here.", class_="dim"), id="details", aria_live="polite"
    )
    details.set("aria-label", "the node that is looked at")
    hint = element(
        "p",
        "Each node is filled from below with what its pods request, the highest priority at the bottom; hatched is what"
        " will be pushed out. Arrow keys go from node to node.",
        id="nodes-hint",
        class_="dim",
    )
    missing = drawn["notDrawn"]
    more = f"{missing} more nodes, on which less changes, are not drawn: {MOST_NODES} are." if missing else ""
    return _section(
        "Nodes",
        "nodes-title",
        hint,
        element("noscript", element("p", "The picture of the nodes needs JavaScript; the tables do not.")),
        tools,
        legend,
        status,
        element("div", cells, details, class_="map"),
        element("p", more, class_="dim") if more else None,
    )


def _change(change: ClassChange | None) -> Iterator[Element]:
    if change is not None:
        lines = [element("li", told(line.strip())) for line in class_change(change)]
        yield _section("The class", "class-title", element("ul", *lines, class_="plain"))


def _pushed(answer: Answer) -> Iterator[Element]:
    if not answer.pushes:
        yield _section("Who pushes out whom", "pushes-title", element("p", "Nobody is pushed out."))
        return
    found = pairs(answer.pushes)
    more = f"The {MOST_PAIRS} largest of {len(found)} pairs." if len(found) > MOST_PAIRS else None
    rows = (
        (by, by_priority, whom, priority, len(pushes), _named(pushes))
        for (by, by_priority, whom, priority), pushes in found
    )
    heads = ("by", "its priority", "pushed out", "priority", "pods", "which")
    yield _section(
        "Who pushes out whom",
        "pushes-title",
        element("div", flow(answer.pushes), class_="chart"),
        element("p", more, class_="dim") if more else None,
        table("Who pushes out whom", heads, rows, len(found)),
    )


def _named(pushes: Sequence[Push]) -> str:
    names = [push.victim.rpartition("/")[2] for push in pushes[:6]]
    return ", ".join(names) + (f" and {len(pushes) - 6} more" if len(pushes) > 6 else "")


def _workloads(answer: Answer) -> Iterator[Element]:
    standings = answer.standings
    rows = (
        (s.workload, s.priority_class or "-", s.priority, s.before, s.after, s.pending, s.message) for s in standings
    )
    heads = ("workload", "class", "priority", "before", "after", "pending", "why")
    shown = element("p", "For no workload anything differs.")
    if standings:
        shown = table("Workloads for which something differs", heads, rows, len(standings))
    yield _section("Workloads", "workloads", shown)


def _timeline(answer: Answer) -> Iterator[Element]:
    lines = [_moment(line) for line in timeline_text.timeline(answer.simulation)]
    if lines:
        drawn = element("div", cascade(answer.pushes), class_="chart") if answer.pushes else None
        yield _section("One after the other", "timeline-title", drawn, element("ol", *lines, class_="timeline"))


def _moment(line: str) -> Element:
    seconds, _, event = line.lstrip().partition("  ")
    return element("li", element("time", seconds), element("span", told(event)))


def _odds_and_ends(answer: Answer, notes: Iterable[str]) -> Iterator[Element]:
    lines = [
        f"disruption budget {name}: {plural(count, 'pod')} more than it allows were pushed out"
        for name, count in sorted(answer.summary.broken_budgets.items())
    ]
    lines += [
        f"disruption budget {n}: {h} healthy in the end, {d} wanted" for n, (h, d) in sorted(answer.budgets.items())
    ]
    lines += [f"{node} is not emptied: {plural(len(pods), 'pod')} left" for node, pods in sorted(answer.stuck.items())]
    lines += [f"made no more: {problem}" for problem in answer.unread]
    if answer.anyway is not None:
        pushed, waiting = len(answer.anyway.evictions), sum(each.pods for each in answer.anyway.waiting)
        lines.append(f"without it {plural(pushed, 'pod')} would be pushed out, and {plural(waiting, 'pod')} pending")
    lines += list(notes)
    if lines:
        items = [element("li", told(line)) for line in lines[:_MOST_NOTES]]
        more = f"and {len(lines) - _MOST_NOTES} more: -o json has them all"
        items += [element("li", more)] if len(lines) > _MOST_NOTES else []
        yield _section("Also", "also-title", element("ul", *items, class_="plain"))
