"""Parts of several pages: the nodes as cells, and the preemptions."""

from __future__ import annotations

import base64
from collections import Counter
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forewarn.policies.base.findings import cut, duration, one_line, plural
from forewarn.policies.cli.render.html.elements import chart, display_text, element, section, table, template
from forewarn.policies.cli.render.simulation import pair
from forewarn.policies.questions.whatif.answer import Preemption, pairs
from forewarn.policies.questions.whatif.node_bands import Band, Frame, NodeBands, zone_of
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.occupancy import BEFORE, PodInterval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from forewarn.policies.kubernetes.objects.node import Node


MAX_NODES: Final = 20_000
"""Maximum nodes in the picture; with more, those with the first changes."""
_FRAME_BYTES: Final = 450_000
_POD_BYTES: Final = 650_000
_MAX_FRAMES: Final = 16
_MAX_GROUPS: Final = 8_000
_LONGEST_NAME: Final = 100
_MAX_TITLES: Final = 60
"""The most groups of nodes by pool and zone; if there are more, nodes are grouped by zone only."""


def node_data(bands: NodeBands, preemptions: Sequence[Preemption], *, between: bool = True) -> dict[str, Any]:
    """Return names, pools, zones and bands of nodes, and `frames`: differences to the first state (`start`).

    `bands`: the nodes with shares by PriorityClass. `between`: include frames between the first and the last state.
    """
    first, last = bands.frame(BEFORE), bands.frame(inf)
    drawn = drawn_nodes(first, last, MAX_NODES)
    groups = _node_groups([bands.nodes[place] for place in drawn])
    drawn.sort(key=lambda place: (groups[bands.nodes[place].name], place))
    titles = sorted(set(groups.values()))
    numbers = {title: number for number, title in enumerate(titles)}
    return {
        "names": [_short(bands.nodes[place].name) for place in drawn],
        "titles": [" · ".join(filter(None, title)) for title in titles],
        "title": [numbers[groups[bands.nodes[place].name]] for place in drawn],
        "notDrawn": len(bands.nodes) - len(drawn),
        "bands": [band_label(band) for band in bands.bands],
        "start": _whole(first, drawn),
        "frames": _frames(bands, first, last, drawn, (_MAX_FRAMES, 8, 4, 2, 0) if between else (0,)),
        "pushes": _preemptions(bands, drawn, preemptions),
        **_pods(bands, drawn),
    }


def _node_groups(nodes: Sequence[Node]) -> dict[str, tuple[str, str]]:
    """Return node name -> (title of its pool, title of its zone).

    The zone title is "" if no node has a zone; the pool title is "" for a single pool, and for more than _MAX_TITLES
    pairs of pool and zone.
    """
    pools = {pool_of(node) for node in nodes}
    zones = {zone_of(node) for node in nodes}
    by_pool = len(pools) > 1 and len(pools) * len(zones) <= _MAX_TITLES
    return {
        node.name: (
            _titled("pool", pool_of(node)) if by_pool else "",
            _titled("zone", zone_of(node)) if len(zones) > 1 or zones != {""} else "",
        )
        for node in nodes
    }


def _titled(kind: str, name: str) -> str:
    return f"{kind} {_short(name)}" if name else f"no {kind}"


def band_label(band: Band) -> str:
    """Return the label of a band of PriorityClasses, for example `gold · 100000`."""
    numbers = f"{band.least}" if band.least == band.highest else f"{band.least} to {band.highest}"
    named = ", ".join(display_text(name) if name else "no class" for name in band.classes)
    return f"{named} · {numbers}"


def _short(name: str) -> str:
    return display_text(name)[:_LONGEST_NAME]


def drawn_nodes(first: Frame, last: Frame, limit: int) -> list[int]:
    """The positions of the nodes in a picture: with more than `limit` nodes, those that change."""
    changed = np.any(first.shares != last.shares, axis=(1, 2, 3)) | (first.states != last.states)
    return sorted(np.argsort(~changed, kind="stable")[:limit].tolist())


def _bytes(*arrays: Any) -> str:
    return base64.b64encode(b"".join(array.tobytes() for array in arrays)).decode()


def _whole(frame: Frame, drawn: Sequence[int]) -> dict[str, str]:
    return {"shares": _bytes(frame.shares[drawn]), "states": _bytes(frame.states[drawn])}


def _frames(
    bands: NodeBands, first: Frame, last: Frame, drawn: Sequence[int], counts: Sequence[int]
) -> list[dict[str, Any]]:
    """Return as many frames as fit into the size limit. `counts`: the numbers of frames to try; the last is 0."""
    frames: list[dict[str, Any]] = []
    for most in counts:
        between = [bands.frame(t) for t in bands.moments(most)] if most else []
        frames, before = [], first
        for frame in (*between, last):
            step = _step(before, frame, drawn)
            if step is not None or frame is last:
                frames.append({"label": "after" if frame is last else duration(frame.t), **(step or _NO_STEP)})
            before = frame
        if most == 0 or sum(len(step["shares"]) + len(step["where"]) for step in frames) <= _FRAME_BYTES:
            break
    return frames


_NO_STEP: Final = {"where": "", "shares": "", "states": ""}


def _step(before: Frame, after: Frame, drawn: Sequence[int]) -> dict[str, str] | None:
    """Return the differences between two frames; None if they are equal."""
    shares, states = after.shares[drawn], after.states[drawn]
    differs = np.any(shares != before.shares[drawn], axis=(1, 2, 3)) | (states != before.states[drawn])
    where = np.flatnonzero(differs)
    if not len(where):
        return None
    return {"where": _bytes(where.astype("<u4")), "shares": _bytes(shares[where]), "states": _bytes(states[where])}


def _preemptions(bands: NodeBands, drawn: Sequence[int], preemptions: Sequence[Preemption]) -> dict[str, list[Any]]:
    """Return the preemptions of each node, by the node's position: a flat list of preemptor, victim and count."""
    places = {bands.nodes[place].name: number for number, place in enumerate(drawn)}
    rows: dict[int, Counter[tuple[str, str]]] = {}
    for preemption in preemptions:
        place = places.get(preemption.node)
        if place is not None:
            rows.setdefault(place, Counter())[preemption.by_workload, preemption.workload] += 1
    size, told_of = 0, {}
    for place, counts in sorted(rows.items()):
        flat = [part for (by, victim), n in counts.most_common(20) for part in (_short(by), _short(victim), n)]
        size += sum(len(str(part)) + 3 for part in flat)
        if size > _POD_BYTES // 3:
            break
        told_of[str(place)] = flat
    return told_of


def _pods(bands: NodeBands, drawn: Sequence[int]) -> dict[str, Any]:
    """Return the Pods of each node by workload before the simulation, and the differences at the end, within the size
    limit.
    """
    intervals = bands.intervals
    names = Counter(interval.group for interval in intervals)
    by_namespace = len(names) > _MAX_GROUPS
    if by_namespace:
        names = Counter(interval.namespace for interval in intervals)
    groups = {name: number for number, (name, _) in enumerate(names.most_common(_MAX_GROUPS))}
    here: dict[str, Counter[int]] = {}
    change: dict[str, Counter[int]] = {}
    for interval in intervals:
        group = groups.get(interval.namespace if by_namespace else interval.group)
        if group is not None:
            _count(interval, group, here, change)
    lists, size = [], 0
    for place in drawn:
        name = bands.nodes[place].name
        flat = [_flat(here.get(name)), _flat(change.get(name))]
        size += len(str(flat))
        if size > _POD_BYTES:
            break
        lists.append(flat)
    return {"groups": [_short(name) for name in groups], "pods": lists, "byNamespace": by_namespace}


def _count(interval: PodInterval, group: int, here: dict[str, Counter[int]], change: dict[str, Counter[int]]) -> None:
    was, is_now = interval.start == BEFORE, interval.end == inf
    if was:
        here.setdefault(interval.node, Counter())[group] += 1
    if was != is_now:
        change.setdefault(interval.node, Counter())[group] += 1 if is_now else -1


def _flat(counts: Counter[int] | None) -> list[int]:
    return [part for group, n in (counts or {}).items() if n for part in (group, n)]


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
        hint = element("title", display_text(pair((by, by_priority, victim, priority), item)))
        drawn.append(element("path", hint, d=_ribbon(ends, wide)))
    names = element("g", *_names(left, lefts, "end", _LEFT), *_names(right, rights, "start", _RIGHT))
    title = f"{plural(total, 'preempted Pod')} by preemptor; the table below has the numbers"
    heads = [
        element("text", "preemptor", x=_LEFT, y=12, text_anchor="end", class_="head"),
        element("text", "victim", x=_RIGHT, y=12, class_="head"),
    ]
    return _svg(title, height, [*heads, drawn, names], "flow")


def _svg(title: str, height: float, children: Sequence[Element], kind: str) -> Element:
    box = f"0 0 {_WIDTH} {height:.0f}"
    return element("svg", *children, role="img", aria_label=title, class_=kind, viewBox=box)


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
        y = f"{top + height / 2 + 4:.1f}"
        yield element("text", cut(one_line(name), 26), below, x=edge, y=y, text_anchor=anchor)


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
    shown = template("nodes.html")
    if missing := drawn["notDrawn"]:
        more = f"{missing} nodes with fewer changes are not drawn (limit {MAX_NODES})."
        shown.append(element("p", more, class_="dim"))
    return shown


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
