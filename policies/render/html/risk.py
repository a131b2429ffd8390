"""The HTML page of `forewarn risk`: figures, and one sortable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.render.html.elements import Page, display_text, element, section, table, tile
from forewarn.policies.render.risk import cells, heads_of, notes, preempted_by, verdict

if TYPE_CHECKING:
    from forewarn.policies.whatif.risk import Risks

_TITLE = "Risks by workload"


def report(risks: Risks) -> Page:
    """Return the page."""
    losing = sum(bool(risk.loses_replicas_with) for risk in risks.workloads)
    exposed = sum(bool(preempted_by(risk)) for risk in risks.workloads)
    figures = element(
        "dl",
        tile("workloads", f"{len(risks.workloads)}", bad=False),
        tile("lose replicas with one node or zone", f"{losing}", bad=losing > 0),
        tile("may be preempted", f"{exposed}", bad=False),
        tile("zones and nodes simulated", f"{sum(risks.simulated)} of {sum(risks.total)}", bad=False),
        class_="tiles",
    )
    header = element(
        "header", element("p", "forewarn", class_="brand"), element("h1", display_text(verdict(risks))), figures
    )
    rows = table(_TITLE, heads_of(risks), map(cells, risks.workloads), len(risks.workloads))
    parts = [header, section("Workloads, largest loss first", "rows", rows)]
    items = [element("li", display_text(note)) for note in notes(risks)]
    if items:
        parts.append(section("Notes", "also", element("ul", *items, class_="plain")))
    return Page(_TITLE, parts, scripts=("tables.js",))
