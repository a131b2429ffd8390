"""A drawing (SVG) of the nodes before and after a simulation. Equal simulations give equal bytes."""

from __future__ import annotations

from importlib.resources import files
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree.ElementTree import Element, tostring

from forewarn.policies.base.findings import cut, no_command_in_markup, one_line, plural
from forewarn.policies.cli.render.html.elements import element
from forewarn.policies.cli.render.html.nodes import band_label, drawn_nodes
from forewarn.policies.cli.render.simulation import settled
from forewarn.policies.questions.whatif.node_bands import CPU, DOOMED, LASTS, WHOLE, Frame, NodeBands, zone_of
from forewarn.policies.questions.whatif.occupancy import BEFORE, CORDONED, REMOVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.questions.whatif.answer import Answer

MAX_NODES: Final = 240
"""Maximum nodes in the drawing; with more, those with the first changes."""
MAX_ZONES: Final = 12
_WIDTH: Final = 800
_SIDE: Final = 360
_MARGIN: Final = 28
_AFTER: Final = _WIDTH - _MARGIN - _SIDE
_HEAD: Final = 124
_FEW: Final = 24


class _Cell(NamedTuple):
    """The size of a drawn node in pixels. `named`: draw the names of nodes, too."""

    width: int
    height: int
    gap: int
    named: bool


def picture(answer: Answer) -> str:
    """Return the complete SVG file. `answer` must have `occupancy`."""
    assert answer.occupancy is not None
    bands = NodeBands(answer.occupancy, answer.preempted)
    before, after = bands.frame(BEFORE), bands.frame(inf)
    drawn = drawn_nodes(before, after, MAX_NODES)
    zones = _zones(bands.nodes, drawn)
    cell = _Cell(18, 24, 4, named=False)
    if len(drawn) <= _FEW:
        across = min(5, max(map(len, zones.values()), default=1))
        cell = _Cell((_SIDE - 14 * (across - 1)) // across, 62, 14, named=True)
    parts = [*_heads(answer)]
    top = _HEAD
    for zone, places in zones.items():
        label = f"zone {cut(one_line(zone), 40)}" if zone else "no zone"
        for left, frame in ((_MARGIN, before), (_AFTER, after)):
            parts.append(element("text", label, class_="dim", x=left, y=top + 4))
            for number, place in enumerate(places):
                parts.append(_node(bands.nodes[place], frame, place, cell, _place(left, top + 14, number, cell)))
        top = _place(0, top + 14, len(places) - 1, cell)[1] + cell.height + (44 if cell.named else 28)
    omitted = len(bands.nodes) - len(drawn)
    if omitted:
        parts.append(element("text", f"and {plural(omitted, 'node')} more", class_="dim", x=_MARGIN, y=top))
        top += 22
    keys, height = _legend(bands, top, bool(answer.preempted), bool((after.states == REMOVED).any()))
    return _file(answer.title, height + 22, [*parts, *keys])


def _file(title: str, height: int, parts: Sequence[Element]) -> str:
    hatch = element("path", d="M0 6L6 0", class_="hatch")
    pattern = element("pattern", hatch, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    card = element("rect", class_="card", x=0.5, y=0.5, width=_WIDTH - 1, height=height - 1, rx=12)
    heads = element("title", cut(one_line(title), 300)), element("style", _style())
    xmlns, box = "http://www.w3.org/2000/svg", f"0 0 {_WIDTH} {height}"
    size = {"width": _WIDTH, "height": height}
    drawing = element("svg", *heads, pattern, card, *parts, xmlns=xmlns, viewBox=box, **size, role="img")
    return no_command_in_markup(tostring(drawing, encoding="unicode")) + "\n"


def _style() -> str:
    return "".join(files("forewarn.policies.cli.render").joinpath("node_picture.css").read_text("utf-8").splitlines())


def _heads(answer: Answer) -> Iterator[Element]:
    pending = sum(standing.pending for standing in answer.workloads)
    counts = f"{answer.running_before} → {answer.running_after} running, {pending} Pending"
    text = f"{counts}, {len(answer.preempted)} preempted; {settled(answer.summary)}"
    yield element("text", cut(one_line(answer.title), 76), class_="title", x=_MARGIN, y=42)
    yield element("text", text, class_="dim", x=_MARGIN, y=66)
    for moment, left in (("before", _MARGIN), ("after", _AFTER)):
        yield element("text", f"{moment}: requested share of each node's cpu", class_="head", x=left, y=100)


def _zones(nodes: Sequence[Node], drawn: Sequence[int]) -> dict[str, list[int]]:
    """Return zone -> positions of nodes; zones above the maximum are merged into the last one."""
    zones: dict[str, list[int]] = {}
    for place in drawn:
        zone = zone_of(nodes[place])
        if zone not in zones and len(zones) == MAX_ZONES:
            zone = next(reversed(zones))
        zones.setdefault(zone, []).append(place)
    return zones


def _place(edge: int, top: int, number: int, cell: _Cell) -> tuple[int, int]:
    across = (_SIDE + cell.gap) // (cell.width + cell.gap)
    under = cell.height + (26 if cell.named else cell.gap)
    return edge + number % across * (cell.width + cell.gap), top + number // across * under


def _node(node: Node, frame: Frame, place: int, cell: _Cell, corner: tuple[int, int]) -> Element:
    x, y = corner
    state = frame.states[place]
    name = cut(one_line(node.name), 60)
    group = element("g", element("title", name))
    if cell.named:
        at = {"x": x + cell.width // 2, "y": y + cell.height + 15}
        group.append(element("text", cut(name, cell.width // 6), class_="dim", **at, text_anchor="middle"))
    box = {"x": x, "y": y, "width": cell.width, "height": cell.height, "rx": 4}
    if state == REMOVED:
        group.append(element("rect", class_="gone", **box))
        return group
    group.append(element("rect", class_="free", **box))
    group.extend(_fill(frame.shares[place], cell, x, y))
    if state == CORDONED:
        group.append(element("rect", class_="cordoned", **box))
    return group


def _fill(shares: Sequence[Sequence[Sequence[int]]], cell: _Cell, x: int, y: int) -> Iterator[Element]:
    """Yield the rectangles of a node's bands from the bottom up, starting with the highest priority."""
    used, bands = 0, len(shares)
    for band in range(bands - 1, -1, -1):
        for doomed in (LASTS, DOOMED):
            part = min(int(shares[band][doomed][CPU]), WHOLE - used)
            if part:
                used += part
                top = y + cell.height * (WHOLE - used) / WHOLE
                box = {"x": f"{x}", "y": f"{top:.1f}", "width": f"{cell.width}"}
                box["height"] = f"{cell.height * part / WHOLE:.1f}"
                yield element("rect", class_=_color(band, bands), **box)
                if doomed:
                    yield element("rect", fill="url(#hatch)", **box)


def _color(band: int, bands: int) -> str:
    return f"b{round(band * 7 / (bands - 1)) if bands > 1 else 5}"


def _legend(bands: NodeBands, top: int, victims: bool, removed: bool) -> tuple[list[Element], int]:
    """Return the elements of the legend, and its bottom position in pixels. `victims`, `removed`: include victims,
    removed nodes.
    """
    count = len(bands.bands)
    named = [(cut(band_label(band), 40), _color(place, count), "") for place, band in enumerate(bands.bands)][::-1]
    named.append(("free", "free", ""))
    named += [("to be preempted", "free", "url(#hatch)")] if victims else []
    named += [("removed", "gone", "")] if removed else []
    parts: list[Element] = []
    x, y = _MARGIN, top
    for label, kind, fill in named:
        wide = 34 + 7 * len(label)
        if x + wide > _WIDTH - _MARGIN:
            x, y = _MARGIN, y + 24
        parts.append(element("rect", class_=kind, x=x, y=y - 10, width=13, height=13, rx=3))
        if fill:
            parts.append(element("rect", fill=fill, x=x, y=y - 10, width=13, height=13, rx=3))
        parts.append(element("text", label, class_="dim", x=x + 20, y=y + 1))
        x += wide
    return parts, y
