"""A sweep for people: one table, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import cut, listed, plural
from policies.render.markdown import text_of
from policies.render.simulation import duration
from policies.whatif import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.whatif.sweep import Needs, Row, Sweep

MOST_ROWS: Final = 40
_LONGEST: Final = 60
SETTLED: Final = "steady state after"
_NEEDED: Final = "nodes needed"
_TEXTS: Final = ("case", SETTLED, _NEEDED)
"""Columns that are no counts."""


def _plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a painter)
    return text


def heads_of(sweep: Sweep) -> list[str]:
    """The columns: the question, counts, when all was settled, and the nodes needed where node groups are given."""
    refused = ["rejected"] if sweep.kind == "class" else []
    needed = [_NEEDED] if has_groups(sweep) else []
    return ["case", "fewer", *refused, "Pending", "preempted", "PDBs violated", SETTLED, *needed]


def has_groups(sweep: Sweep) -> bool:
    """Whether it was asked which nodes an autoscaler would bring."""
    return any(row.needs is not None for row in sweep.rows)


def cells_of(sweep: Sweep, row: Row) -> list[str | int]:
    """A row by these columns."""
    refused = [row.refused] if sweep.kind == "class" else []
    seconds = duration(row.settled_at)
    after = seconds if row.settled else f"not within {seconds}"
    needed = [needs_told(row.needs)] if has_groups(sweep) else []
    return [row.asked, row.fewer, *refused, row.pending, row.pushed_out, row.budgets, after, *needed]


def needs_told(needs: Needs | None) -> str:
    """`2 of spot-large, 1 of gpu; none for 3 Pods`."""
    if needs is None:
        return ""
    nodes = listed([f"{count} of {group}" for group, count in needs.nodes.items()])
    left = f"none for {plural(needs.not_helped, 'Pod')}" if needs.not_helped else ""
    return "; ".join(part for part in (nodes, left, "estimate incomplete" if needs.cut else "") if part)


def harmful(sweep: Sweep) -> list[Row]:
    """The rows that come to something that is counted."""
    return [row for row in sweep.rows if _harms(row, sweep)]


def _harms(row: Row, sweep: Sweep) -> bool:
    counts = row.fewer, row.refused, row.pushed_out, row.budgets
    return any(counts) or row.pending > sweep.pending or not row.settled


def before(sweep: Sweep) -> str:
    """The state at time 0, in words."""
    return f"{plural(sweep.running, 'Pod')} running, {sweep.pending} Pending"


def basis(sweep: Sweep) -> Iterator[str]:
    """What the column `fewer` counts, of a loss."""
    if sweep.kind != "class":
        yield "fewer: replicas that no longer run, without DaemonSet Pods of lost nodes"


def without(sweep: Sweep) -> str:
    """What happens anyway; empty where nothing is under way."""
    row = sweep.anyway
    if row is None:
        return ""
    fewer = f", {row.fewer} fewer running" if row.fewer else ""
    return f"without any change: {plural(row.pushed_out, 'Pod')} preempted, {row.pending} Pending at the end{fewer}"


def _nothing(sweep: Sweep) -> str:
    if sweep.pending:
        return "no Pods lost or preempted, no more Pending Pods than before"
    return "no Pods lost, Pending or preempted"


def render(sweep: Sweep, paint: Callable[[str, str], str] = _plain) -> Iterator[str]:
    """The table, line by line."""
    yield paint(f"what if {EVERY[sweep.kind]}: {plural(len(sweep.rows), 'case')}", "bold")
    yield f"  before: {before(sweep)}"
    if anyway := without(sweep):
        yield f"  {anyway}"
    found = harmful(sweep)
    if found:
        yield from _table(heads_of(sweep), [cells_of(sweep, row) for row in found[:MOST_ROWS]], paint)
        yield from (f"  {line}" for line in basis(sweep))
    if len(found) > MOST_ROWS:
        yield f"  and {len(found) - MOST_ROWS} more; use -o json for all"
    harmless = len(sweep.rows) - len(found)
    if harmless:
        others = f"{harmless} others" if found else plural(harmless, "case")
        yield paint(f"  {others if harmless > 1 or not found else '1 other'}: {_nothing(sweep)}", "good")
    yield from (f"  note: {note}" for note in sweep.notes)


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str | int]], paint: Callable[[str, str], str]
) -> Iterator[str]:
    texts = [[cut(f"{cell}", _LONGEST) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    for number, row in enumerate([heads, *texts]):
        fitted = (
            cell.ljust(width) if head in _TEXTS else cell.rjust(width)
            for cell, head, width in zip(row, heads, widths, strict=True)
        )
        line = "  ".join(fitted).rstrip()
        yield paint(f"  {line}", "dim") if number == 0 else f"  {line}"


def markdown(sweep: Sweep) -> str:
    """A comment on a pull request."""
    lines = [f"### What if {EVERY[sweep.kind]}", ""]
    lines.append(
        f"{plural(len(sweep.rows), 'case')}; before: {before(sweep)}" + (f"; {without(sweep)}" if sweep.anyway else "")
    )
    found, heads = harmful(sweep), heads_of(sweep)
    if found:
        lines += ["", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in found[:MOST_ROWS]:
            lines.append(f"| {' | '.join(text_of(cut(str(cell), _LONGEST)) for cell in cells_of(sweep, row))} |")
        lines += ["", *basis(sweep)] if sweep.kind != "class" else []
    if len(found) > MOST_ROWS:
        lines += ["", f"and {len(found) - MOST_ROWS} more"]
    harmless = len(sweep.rows) - len(found)
    if harmless:
        lines += ["", f"{plural(harmless, 'other case' if found else 'case')}: {_nothing(sweep)}."]
    lines += ["", *(f"- {text_of(note)}" for note in sweep.notes)] if sweep.notes else []
    return "\n".join(lines) + "\n"
