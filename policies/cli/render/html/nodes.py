"""The drawing of nodes as cells that are filled with the requests of their Pods."""

from __future__ import annotations

import base64
from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forewarn.policies.base.findings import duration
from forewarn.policies.cli.render.html.elements import display_text, element, template
from forewarn.policies.questions.whatif.node_bands import Band, Frame, NodeBands, zone_of
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.occupancy import BEFORE, PodInterval

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.questions.whatif.answer import Preemption


MAX_NODES: Final = 20_000
"""Maximum number of nodes in the picture; with more, those with the first changes."""
_FRAME_BYTES: Final = 450_000
_POD_BYTES: Final = 650_000
_MAX_FRAMES: Final = 16
_MAX_GROUPS: Final = 8_000
_MAX_NAME_LENGTH: Final = 100
_MAX_TITLES: Final = 60
"""Maximum number of groups of nodes by pool and zone; if there are more, nodes are grouped only by zone."""


def node_data(bands: NodeBands, preemptions: Sequence[Preemption], *, between: bool = True) -> dict[str, Any]:
    """Return names, pools, zones and bands of nodes, and `frames`: differences to the first state (`start`).

    `bands`: the nodes with shares by PriorityClass. `between`: include frames between the first and the last state.
    """
    first, last = bands.frame(BEFORE), bands.frame(inf)
    drawn = _drawn(first, last)
    groups = _node_groups([bands.nodes[place] for place in drawn])
    drawn.sort(key=lambda place: (groups[bands.nodes[place].name], place))
    titles = sorted(set(groups.values()))
    numbers = {title: number for number, title in enumerate(titles)}
    return {
        "names": [_short(bands.nodes[place].name) for place in drawn],
        "titles": [" · ".join(filter(None, title)) for title in titles],
        "title": [numbers[groups[bands.nodes[place].name]] for place in drawn],
        "notDrawn": len(bands.nodes) - len(drawn),
        "bands": [_label(band) for band in bands.bands],
        "colors": _colors(bands.bands),
        "start": _whole(first, drawn),
        "frames": _frames(bands, first, last, drawn, (_MAX_FRAMES, 8, 4, 2, 0) if between else (0,)),
        "pushes": _preemptions(bands, drawn, preemptions),
        **_pods(bands, drawn),
    }


def _node_groups(nodes: Sequence[Node]) -> dict[str, tuple[str, str]]:
    """Return, by node name, (title of its pool, title of its zone).

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


def _colors(bands: Sequence[Band]) -> list[str]:
    """Return the names of the bands' colours in the style sheet. Placeholder Pods and Pods without a class have colours
    outside the scale of the others.
    """
    others = sum(band.least > 0 for band in bands)
    scale = [f"b{round(place * 7 / (others - 1)) if others > 1 else 5}" for place in range(others)]
    return [*("zero" if band.highest == 0 else "negative" for band in bands if band.least <= 0), *scale]


def _label(band: Band) -> str:
    """Return the label of a band of PriorityClasses, for example `gold · 100000`."""
    numbers = f"{band.least}" if band.least == band.highest else f"{band.least} to {band.highest}"
    named = ", ".join(display_text(name) if name else "no class" for name in band.classes)
    return f"{named} · {numbers}"


def _short(name: str) -> str:
    return display_text(name)[:_MAX_NAME_LENGTH]


def _drawn(first: Frame, last: Frame) -> list[int]:
    """Return the positions of the nodes to draw: all, or only nodes that change if there are more than MAX_NODES."""
    changed = np.any(first.shares != last.shares, axis=(1, 2, 3)) | (first.states != last.states)
    return sorted(np.argsort(~changed, kind="stable")[:MAX_NODES].tolist())


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


def nodes(drawn: dict[str, object]) -> Element:
    """The controls, and an empty list that the script fills with nodes."""
    shown = template("nodes.html")
    if missing := drawn["notDrawn"]:
        more = f"{missing} nodes with fewer changes are not drawn (limit {MAX_NODES})."
        shown.append(element("p", more, class_="dim"))
    return shown
