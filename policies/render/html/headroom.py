"""The HTML page of `forewarn headroom`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import one_line
from forewarn.policies.render.headroom import answer_of, limits_text, size_of, stranded_text, with_limits
from forewarn.policies.render.html.elements import (
    Page,
    data,
    display_text,
    element,
    notes_section,
    page_header,
    section,
    table,
)
from forewarn.policies.render.html.node_data import node_data
from forewarn.policies.render.html.nodes import nodes
from forewarn.policies.scheduling.reasons import in_short
from forewarn.policies.whatif.node_bands import NodeBands
from forewarn.policies.whatif.occupancy import Placed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.render.html.elements import Cell
    from forewarn.policies.whatif.headroom import Count, Headroom, OfGroup

_MAX_DRAWN = 200_000
"""Maximum new Pods in the picture."""
_TILES: Final = ("more Pods fit", "more Pods with preemption")


def report(headroom: Headroom, cluster: ClusterSnapshot, clauses: Sequence[str] = ()) -> Page:
    """Return the page, with the nodes now and after adding Pods until no more fit without preemption.

    `clauses`: of the title, about objects that are left out.
    """
    drawn = node_data(NodeBands(Placed(cluster, _new_pods(headroom)), ()), (), between=False)
    below = *_why(headroom), *_classes(headroom), *_groups(headroom), *_where(headroom)
    notes = notes_section("also-title", headroom.notes)
    skip = element("a", "skip to what runs out", href="#why-title", class_="skip")
    parts = [_header(headroom, clauses), *below, *notes, nodes(drawn), data("nodes-data", drawn)]
    return Page(f"headroom: {headroom.name}", parts, skip)


def _new_pods(headroom: Headroom) -> Iterator[tuple[Pod, str, str]]:
    by_node = headroom.without.by_node or {}
    if headroom.without.pods > _MAX_DRAWN:
        return
    number = 0
    for node, count in by_node.items():
        for _ in range(count):
            number += 1
            pod = replace(headroom.pod, name=f"{headroom.pod.name}-{number}")
            yield pod, node, f"{headroom.name.rpartition(' ')[2]} (new)"


def _header(headroom: Headroom, clauses: Sequence[str]) -> Element:
    pod = headroom.pod
    named = f"class {pod.priority_class_name}, " if pod.priority_class_name else ""
    size = size_of(pod)
    first = " and ".join(headroom.stranded[0].insufficient) if headroom.stranded else "-"
    tiles = ((name, _number(count), not count.pods) for name, count in zip(_TILES, headroom.pods, strict=True))
    return page_header(
        "; ".join([f"{answer_of(headroom)}: {headroom.name}", *clauses]),
        (*tiles, ("runs out on most nodes", first, False)),
        f"{named}priority {pod.effective_priority}, {size}",
    )


def _number(count: Count) -> str:
    return f"{count.pods}" if count.is_exact else f"{count.pods} or more"


def _why(headroom: Headroom) -> Iterator[Element]:
    rows = [(in_short(reason), count) for reason, count in headroom.reasons]
    shown = table("Why no more Pods fit", ("reason", "nodes"), rows, len(rows))
    stranded = [(" and ".join(s.insufficient), s.nodes, stranded_text(s) or "-") for s in headroom.stranded]
    beside = table("Stranded capacity", ("insufficient", "nodes", "still free"), stranded, len(stranded))
    if headroom.quota is not None:
        limits = limits_text(headroom.without)
        text = f"{limits}. Then the quota rejects the next Pod: {one_line(headroom.quota.message)}"
        yield section("Quota", "quota-title", element("p", display_text(text)))
    parts = [shown] if rows else [element("p", "Too many Pods fit to determine what runs out first.")]
    yield section("What runs out", "why-title", *parts, beside if stranded else None)


def _of_group(group: OfGroup) -> Cell:
    return _number(group.more) if group.more.quota is None else with_limits(group.more)


def _groups(headroom: Headroom) -> Iterator[Element]:
    if headroom.node_groups:
        rows = [(group.group, group.nodes, group.reason or _of_group(group)) for group in headroom.node_groups]
        if (together := headroom.all_node_groups) is not None:
            rows.append(("all together", together.nodes, _of_group(together)))
        heads = ("node group", "maximum new nodes", "more Pods")
        yield section("With scale-up", "groups", table("By node group", heads, rows, len(rows)))


def _classes(headroom: Headroom) -> Iterator[Element]:
    if headroom.by_class:
        rows = [
            (row.class_, row.priority, "yes" if row.preempts else "never", with_limits(row.fitting))
            for row in headroom.by_class
        ]
        heads = ("class", "priority", "preempts", "fit with preemption")
        yield section("With another PriorityClass", "classes", table("By class", heads, rows, len(rows)))


def _where(headroom: Headroom) -> Iterator[Element]:
    by_node = sorted((headroom.without.by_node or {}).items(), key=lambda item: (-item[1], item[0]))
    rows = [(node, count) for node, count in by_node if count]
    if rows:
        yield section("Where", "where", table("By node", ("node", "more Pods"), rows, len(rows)))
