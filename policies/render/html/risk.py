"""The HTML page of `forewarn risk`: figures, and one sortable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.render.html.elements import Page, notes_section, page_header, section, table
from forewarn.policies.render.risk import cells, heads_of, notes, preempted_by, verdict

if TYPE_CHECKING:
    from forewarn.policies.whatif.risk import Risks

_TITLE = "Risks by workload"


def report(risks: Risks) -> Page:
    """Return the page."""
    losing = sum(bool(risk.loses_replicas_with) for risk in risks.workloads)
    exposed = sum(bool(preempted_by(risk)) for risk in risks.workloads)
    tiles = (
        ("workloads", len(risks.workloads), False),
        ("lose replicas with one node or zone", losing, losing > 0),
        ("may be preempted", exposed, False),
        ("zones and nodes simulated", f"{sum(risks.simulated)} of {sum(risks.total)}", False),
    )
    rows = table(_TITLE, heads_of(risks), map(cells, risks.workloads), len(risks.workloads))
    shown = section("Workloads with lost replicas first, by priority", "rows", rows)
    parts = [page_header(verdict(risks), tiles), shown, *notes_section("also", notes(risks))]
    return Page(_TITLE, parts, scripts=("tables.js",))
