"""The HTML page of a sweep: figures, and one sortable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.findings import duration
from forewarn.policies.render.html.elements import Page, notes_section, page_header, section, table
from forewarn.policies.render.sweep import SETTLED, before, cells_of, harmful, heads_of, verdict, without
from forewarn.policies.whatif import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.whatif.sweep import Row, Sweep


def report(sweep: Sweep) -> Page:
    """Return the page."""
    title = f"What if {EVERY[sweep.sweep]}"
    lead = "; ".join(part for part in (f"Before: {before(sweep)}", without(sweep)) if part)
    header = page_header(verdict(sweep, harmful(sweep)), _tiles(sweep), f"{title}. {lead}.")
    rows = table(title, _heads(sweep), (_cells(sweep, row) for row in sweep.rows), len(sweep.rows))
    parts = [header, section("Cases, worst first", "rows", rows), *notes_section("also", sweep.notes)]
    return Page(title, parts, scripts=("tables.js",))


def _heads(sweep: Sweep) -> list[str]:
    """Return the column heads for HTML, with the time until the steady state as a separate, sortable number."""
    heads = heads_of(sweep)
    place = heads.index(SETTLED)
    return [*heads[:place], *heads[place + 1 :], "seconds to steady state", "steady state"]


def _cells(sweep: Sweep, row: Row) -> list[str | int]:
    cells, place = cells_of(sweep, row), heads_of(sweep).index(SETTLED)
    return [*cells[:place], *cells[place + 1 :], int(row.settled_at), "yes" if row.settled else "no"]


def _tiles(sweep: Sweep) -> Iterable[tuple[str, object, bool]]:
    bad = len(harmful(sweep))
    longest = max((row.settled_at for row in sweep.rows), default=0.0)
    return (
        ("cases", len(sweep.rows), False),
        ("with an impact", bad, bad > 0),
        ("most replicas lost", max((row.others[0] for row in sweep.rows), default=0), False),
        ("most preempted", max((row.others[2] for row in sweep.rows), default=0), False),
        ("longest time to steady state", duration(longest), False),
    )
