"""The HTML page of a sweep: figures, and one sortable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.findings import duration
from forewarn.policies.render.html.elements import Page, display_text, element, table
from forewarn.policies.render.sweep import SETTLED, before, cells_of, harmful, heads_of, verdict, without
from forewarn.policies.whatif import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from forewarn.policies.whatif.sweep import Row, Sweep


def report(sweep: Sweep) -> Page:
    """Return the page."""
    title = f"What if {EVERY[sweep.sweep]}"
    lead = "; ".join(part for part in (f"Before: {before(sweep)}", without(sweep)) if part)
    header = element(
        "header",
        element("p", "forewarn", class_="brand"),
        element("h1", display_text(verdict(sweep, harmful(sweep)))),
        element("p", display_text(f"{title}. {lead}."), class_="lead"),
        element("dl", *_tiles(sweep), class_="tiles"),
    )
    rows = table(title, _heads(sweep), (_cells(sweep, row) for row in sweep.rows), len(sweep.rows))
    shown = element("section", element("h2", "Cases, worst first", id="rows"), rows, aria_labelledby="rows")
    parts = [header, shown]
    items = [element("li", display_text(note)) for note in sweep.notes]
    if items:
        also = element("h2", "Notes", id="also")
        parts.append(element("section", also, element("ul", *items, class_="plain"), aria_labelledby="also"))
    return Page(title, parts, scripts=("tables.js",))


def _heads(sweep: Sweep) -> list[str]:
    """Return the column heads for HTML, with the time until the steady state as a separate, sortable number."""
    heads = heads_of(sweep)
    place = heads.index(SETTLED)
    return [*heads[:place], *heads[place + 1 :], "seconds to steady state", "steady state"]


def _cells(sweep: Sweep, row: Row) -> list[str | int]:
    cells, place = cells_of(sweep, row), heads_of(sweep).index(SETTLED)
    return [*cells[:place], *cells[place + 1 :], int(row.settled_at), "yes" if row.settled else "no"]


def _tiles(sweep: Sweep) -> Iterable[Element]:
    bad = len(harmful(sweep))
    longest = max((row.settled_at for row in sweep.rows), default=0.0)
    figures = (
        ("cases", f"{len(sweep.rows)}", False),
        ("with an impact", f"{bad}", bad > 0),
        ("most replicas lost", f"{max((row.fewer for row in sweep.rows), default=0)}", False),
        ("most preempted", f"{max((row.preempted for row in sweep.rows), default=0)}", False),
        ("longest time to steady state", duration(longest), False),
    )
    for name, value, is_bad in figures:
        yield element("div", element("dt", name), element("dd", value), class_="tile bad" if is_bad else "tile")
