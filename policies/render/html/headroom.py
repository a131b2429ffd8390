"""The HTML page of `forewarn headroom`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.render.headroom import count_text, size_of, stranded
from forewarn.policies.render.html.elements import data, display_text, document, element, section, table, tile
from forewarn.policies.render.html.node_data import node_data
from forewarn.policies.render.html.nodes import nodes
from forewarn.policies.whatif.node_bands import NodeBands
from forewarn.policies.whatif.placed import Placed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.whatif.headroom import Count, Headroom

_MAX_DRAWN = 200_000
"""Maximum new Pods in the picture."""


def page(found: Headroom, cluster: ClusterSnapshot) -> str:
    """Return the complete HTML file, with the nodes now and after adding Pods until no more fit without preemption."""
    drawn = node_data(NodeBands(Placed(cluster, _new_pods(found)), ()), (), between=False)
    below = *_why(found), *_classes(found), *_groups(found), *_where(found), *_notes(found)
    main = element("main", _header(found), nodes(drawn), *below)
    skip = element("a", "skip to what runs out", href="#why-title", class_="skip")
    return document(f"headroom: {found.name}", [skip, main, data("nodes-data", drawn)])


def _new_pods(found: Headroom) -> Iterator[tuple[Pod, str, str]]:
    by_node = found.without.by_node or {}
    if found.without.pods > _MAX_DRAWN:
        return
    number = 0
    for node, count in by_node.items():
        for _ in range(count):
            number += 1
            pod = replace(found.pod, name=f"{found.pod.name}-{number}")
            yield pod, node, f"{found.name.rpartition(' ')[2]} (new)"


def _header(found: Headroom) -> Element:
    pod = found.pod
    named = f"class {pod.priority_class_name}, " if pod.priority_class_name else ""
    size = size_of(pod)
    first = " and ".join(found.stranded[0].scarce) if found.stranded else "-"
    figures = element(
        "dl",
        tile("more Pods fit", _number(found.without), not found.without.pods),
        tile("more Pods with preemption", _number(found.preempting), not found.preempting.pods),
        tile("runs out on most nodes", first, bad=False),
        class_="tiles",
    )
    return element(
        "header",
        element("p", "forewarn", class_="brand"),
        element("h1", display_text(f"Headroom: {found.name}")),
        element("p", display_text(f"{named}priority {pod.effective_priority}, {size}"), class_="lead"),
        figures,
    )


def _number(count: Count) -> str:
    return f"{count.pods}" if count.is_exact else f"{count.pods} or more"


def _why(found: Headroom) -> Iterator[Element]:
    rows = [(reason, count) for reason, count in found.reasons]
    shown = table("Why no more Pods fit", ("reason", "nodes"), rows, len(rows))
    left = [(" and ".join(each.scarce), each.nodes, stranded(each) or "-") for each in found.stranded]
    beside = table("Stranded capacity", ("insufficient", "nodes", "still free"), left, len(left))
    parts = [shown] if rows else [element("p", "Too many Pods fit to determine what runs out first.")]
    yield section("What runs out", "why-title", *parts, beside if left else None)


def _groups(found: Headroom) -> Iterator[Element]:
    if found.groups:
        rows = [(each.name, each.nodes, each.why_not or _number(each.more)) for each in found.groups]
        heads = ("node group", "maximum new nodes", "more Pods")
        yield section("With scale-up", "groups", table("By node group", heads, rows, len(rows)))


def _classes(found: Headroom) -> Iterator[Element]:
    if found.by_class:
        rows = [
            (each.name, each.priority, "yes" if each.preempts else "never", count_text(each.fitting))
            for each in found.by_class
        ]
        heads = ("class", "priority", "preempts", "fit with preemption")
        yield section("With another PriorityClass", "classes", table("By class", heads, rows, len(rows)))


def _where(found: Headroom) -> Iterator[Element]:
    by_node = sorted((found.without.by_node or {}).items(), key=lambda item: (-item[1], item[0]))
    rows = [(node, count) for node, count in by_node if count]
    if rows:
        yield section("Where", "where", table("By node", ("node", "more Pods"), rows, len(rows)))


def _notes(found: Headroom) -> Iterator[Element]:
    if found.notes:
        lines = [element("li", display_text(note)) for note in found.notes]
        yield section("Notes", "also-title", element("ul", *lines, class_="plain"))
