"""Parts of several pages: the nodes as cells, and the preemptions."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import cut, duration, one_line, plural
from forewarn.policies.render.html.elements import chart, display_text, element, section, table
from forewarn.policies.render.html.node_data import MAX_NODES
from forewarn.policies.render.whatif import pair
from forewarn.policies.whatif.answer import Preemption, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element


MAX_PAIRS: Final = 14
_WIDTH: Final = 760
_LEFT: Final = 250
_RIGHT: Final = 510
_TOP: Final = 26
_GAP: Final = 14
_LEAST: Final = 16
_TALL: Final = 260
"""Maximum height in pixels of all Pods together, without gaps; a fifth of it for one pair."""
_LEVELS: Final = 8
_BINS: Final = 48


def flow(preemptions: Sequence[Preemption]) -> Element:
    """A chart of preemptors (left) and victims (right), with bands as wide as their number of Pods; only the largest
    pairs.
    """
    rows = pairs(preemptions)[:MAX_PAIRS]
    total = sum(len(item) for _, item in rows)
    lefts, rights = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for (by, by_priority, victim, priority), item in rows:
        lefts[by, by_priority] += len(item)
        rights[victim, priority] += len(item)
    tall = min(_TALL, _TALL / 5 * len(rows)) / total
    left, right = _stacked(lefts, tall), _stacked(rights, tall)
    height = max(_bottom(left), _bottom(right)) + 10
    drawn = element("g", class_="links")
    used_left, used_right = dict.fromkeys(left, 0.0), dict.fromkeys(right, 0.0)
    for (by, by_priority, victim, priority), item in rows:
        one, other = (by, by_priority), (victim, priority)
        wide = left[one][1] * len(item) / lefts[one], right[other][1] * len(item) / rights[other]
        ends = left[one][0] + used_left[one], right[other][0] + used_right[other]
        used_left[one] += wide[0]
        used_right[other] += wide[1]
        link = element("path", element("title", display_text(pair((by, by_priority, victim, priority), item))))
        link.set("d", _ribbon(ends, wide))
        drawn.append(link)
    names = element("g", *_names(left, lefts, "end", _LEFT), *_names(right, rights, "start", _RIGHT))
    title = f"{plural(total, 'preempted Pod')} by preemptor; the table below has the numbers"
    heads = [
        element("text", "preemptor", x=_LEFT, y=12, text_anchor="end", class_="head"),
        element("text", "victim", x=_RIGHT, y=12, class_="head"),
    ]
    return _svg(title, height, [*heads, drawn, names], "flow")


def _svg(title: str, height: float, children: Sequence[Element], kind: str) -> Element:
    svg = element("svg", *children, role="img", aria_label=title, class_=kind)
    svg.set("viewBox", f"0 0 {_WIDTH} {height:.0f}")
    return svg


def _stacked(counts: Counter[tuple[str, int]], tall: float) -> dict[tuple[str, int], tuple[float, float]]:
    """Return (name, priority) -> (top, height) in pixels, the highest priority on top. `tall`: pixels per Pod."""
    placed, top = {}, float(_TOP)
    for key in sorted(counts, key=lambda key: (-key[1], -counts[key], key[0])):
        height = max(tall * counts[key], _LEAST)
        placed[key] = (top, height)
        top += height + _GAP
    return placed


def _bottom(placed: dict[tuple[str, int], tuple[float, float]]) -> float:
    return max((top + height for top, height in placed.values()), default=_TOP)


def _ribbon(tops: tuple[float, float], wide: tuple[float, float]) -> str:
    start, end, middle = _LEFT + 12, _RIGHT - 12, (_LEFT + _RIGHT) / 2
    upper = f"M{start} {tops[0]:.1f}C{middle} {tops[0]:.1f} {middle} {tops[1]:.1f} {end} {tops[1]:.1f}"
    low = tops[0] + wide[0], tops[1] + wide[1]
    return f"{upper}V{low[1]:.1f}C{middle} {low[1]:.1f} {middle} {low[0]:.1f} {start} {low[0]:.1f}Z"


def _names(
    placed: dict[tuple[str, int], tuple[float, float]], counts: Counter[tuple[str, int]], anchor: str, edge: int
) -> Iterator[Element]:
    for (name, priority), (top, height) in placed.items():
        box = _LEFT + 4 if anchor == "end" else _RIGHT - 12
        yield element("rect", x=box, y=f"{top:.1f}", width=8, height=f"{height:.1f}", rx=2)
        below = element("tspan", f" {priority} · {counts[name, priority]}", class_="dim")
        shown = element("text", cut(one_line(name), 26), below, x=edge, y=f"{top + height / 2 + 4:.1f}")
        shown.set("text-anchor", anchor)
        yield shown


def cascade(preemptions: Sequence[Preemption]) -> Element:
    """A chart of preemptions over time: one lane per cascade depth, larger dots for more Pods."""
    last = max(preemption.t for preemption in preemptions) or 1.0
    levels = min(max(preemption.cascade_depth for preemption in preemptions), _LEVELS)
    dots = Counter(
        (min(preemption.cascade_depth, _LEVELS), min(int(preemption.t / last * _BINS), _BINS - 1))
        for preemption in preemptions
    )
    most = max(dots.values())
    lanes = element("g")
    for level in range(1, levels + 1):
        y, more = 34 * level - 8, "+" if level == _LEVELS else ""
        lanes.append(element("line", x1=90, x2=_WIDTH - 20, y1=y, y2=y))
        lanes.append(element("text", f"depth {level}{more}", x=80, y=y + 4, text_anchor="end"))
    for (level, place), count in sorted(dots.items()):
        x, y = 100 + (_WIDTH - 140) * (place + 0.5) / _BINS, 34 * level - 8
        radius = 3.5 + 10 * sqrt(count / most)
        moment = duration(place * last / _BINS)
        hint = element("title", f"{plural(count, 'Pod')} after about {moment}, cascade depth {level}")
        lanes.append(element("circle", hint, cx=f"{x:.1f}", cy=y, r=f"{radius:.1f}"))
    y = 34 * levels + 24
    axis = [
        element("text", "0 s", x=100, y=y, class_="dim"),
        element("text", duration(last), x=_WIDTH - 40, y=y, text_anchor="end", class_="dim"),
    ]
    return _svg(f"time of preemption of {plural(len(preemptions), 'Pod')}", y + 8, [lanes, *axis], "cascade")


def nodes(drawn: dict[str, object]) -> Element:
    """The controls, and an empty list that the script fills with nodes."""
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
            "label", "Show", element("select", element("option", "all classes", value="-1"), id="band"), class_="field"
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
    legend = element("ul", id="legend", class_="legend", aria_label="legend")
    status = element("p", id="found", class_="dim", role="status")
    cells = element("div", id="nodes", role="listbox", aria_label="nodes", aria_describedby="nodes-hint", tabindex=0)
    empty = element("p", "Select a node to see its Pods.", class_="dim")
    details = element("div", empty, id="details", role="group", aria_live="polite")
    details.set("aria-label", "selected node")
    hint = element(
        "p",
        "Each node is filled from the bottom with the requests of its Pods, highest priority first; hatched: victims of"
        " preemption. Use the arrow keys to move between nodes.",
        id="nodes-hint",
        class_="dim",
    )
    missing = drawn["notDrawn"]
    more = f"{missing} nodes with fewer changes are not drawn (limit {MAX_NODES})." if missing else ""
    return section(
        "Nodes",
        "nodes-title",
        hint,
        element("noscript", element("p", "The node chart needs JavaScript; the tables do not.")),
        tools,
        legend,
        status,
        element("div", cells, details, class_="map"),
        element("p", more, class_="dim") if more else None,
    )


def preemption_section(preemptions: Sequence[Preemption]) -> Iterator[Element]:
    """The preemptions as a chart and a table."""
    if not preemptions:
        yield section("Preemptions", "pushes-title", element("p", "No Pods are preempted."))
        return
    arrows = pairs(preemptions)
    more = f"The {MAX_PAIRS} largest of {len(arrows)} pairs." if len(arrows) > MAX_PAIRS else None
    rows = (
        (by, by_priority, victim, priority, len(item), _named(item))
        for (by, by_priority, victim, priority), item in arrows
    )
    heads = ("preemptor", "preemptor priority", "victim", "victim priority", "Pods", "names")
    yield section(
        "Preemptions",
        "pushes-title",
        chart("Preemptions, chart", flow(preemptions)),
        element("p", more, class_="dim") if more else None,
        table("Preemptions", heads, rows, len(arrows)),
    )


def _named(preemptions: Sequence[Preemption]) -> str:
    names = [preemption.victim.rpartition("/")[2] for preemption in preemptions[:6]]
    return ", ".join(names) + (f" and {len(preemptions) - 6} more" if len(preemptions) > 6 else "")
