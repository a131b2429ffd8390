"""Parts of several pages: the nodes as cells, and the preemptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.render.html.charts import MAX_PAIRS, flow
from forewarn.policies.render.html.elements import chart, element, section, table
from forewarn.policies.render.html.node_data import MAX_NODES
from forewarn.policies.whatif.answer import pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from forewarn.policies.whatif.answer import Preemption


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
    found = pairs(preemptions)
    more = f"The {MAX_PAIRS} largest of {len(found)} pairs." if len(found) > MAX_PAIRS else None
    rows = (
        (by, by_priority, victim, priority, len(each), _named(each))
        for (by, by_priority, victim, priority), each in found
    )
    heads = ("preemptor", "preemptor priority", "victim", "victim priority", "Pods", "names")
    yield section(
        "Preemptions",
        "pushes-title",
        chart("Preemptions, chart", flow(preemptions)),
        element("p", more, class_="dim") if more else None,
        table("Preemptions", heads, rows, len(found)),
    )


def _named(preemptions: Sequence[Preemption]) -> str:
    names = [preemption.victim.rpartition("/")[2] for preemption in preemptions[:6]]
    return ", ".join(names) + (f" and {len(preemptions) - 6} more" if len(preemptions) > 6 else "")
