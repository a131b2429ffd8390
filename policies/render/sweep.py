"""A sweep for people: one table, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import cut, plural
from policies.render.markdown import text_of
from policies.render.simulation import duration
from policies.whatif import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.whatif.sweep import Row, Sweep

MOST_ROWS: Final = 40
_LONGEST: Final = 60
_NOTHING: Final = "nobody is lost, waits or is pushed out"


def _plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a painter)
    return text


def heads_of(sweep: Sweep) -> list[str]:
    """The columns, of which the first is text and the others are counts but the last."""
    refused = ["refused"] if sweep.kind == "every-class" else []
    return ["question", "fewer", *refused, "pending", "pushed out", "budgets broken", "settled after"]


def cells_of(sweep: Sweep, row: Row) -> list[str | int]:
    """A row by these columns."""
    refused = [row.refused] if sweep.kind == "every-class" else []
    seconds = duration(row.settled_at)
    after = seconds if row.settled else f"not after {seconds}"
    return [row.asked, row.fewer, *refused, row.pending, row.pushed_out, row.budgets, after]


def harmful(sweep: Sweep) -> list[Row]:
    """The rows that come to something that is counted."""
    return [row for row in sweep.rows if _harms(row, sweep)]


def _harms(row: Row, sweep: Sweep) -> bool:
    counts = row.fewer, row.refused, row.pushed_out, row.budgets
    return any(counts) or row.pending > sweep.pending or not row.settled


def before(sweep: Sweep) -> str:
    """The state at time 0, in words."""
    return f"{plural(sweep.running, 'pod')} running, {sweep.pending} pending"


def without(sweep: Sweep) -> str:
    """What happens anyway; empty where nothing is under way."""
    row = sweep.anyway
    if row is None:
        return ""
    return f"without any of it: {plural(row.pushed_out, 'pod')} pushed out, {row.pending} pending in the end"


def render(sweep: Sweep, paint: Callable[[str, str], str] = _plain) -> Iterator[str]:
    """The table, line by line."""
    yield paint(f"what if {EVERY[sweep.kind]}: {len(sweep.rows)} asked", "bold")
    yield f"  before: {before(sweep)}"
    if anyway := without(sweep):
        yield f"  {anyway}"
    found = harmful(sweep)
    if found:
        yield from _table(heads_of(sweep), [cells_of(sweep, row) for row in found[:MOST_ROWS]], paint)
    if len(found) > MOST_ROWS:
        yield f"  and {len(found) - MOST_ROWS} more: -o json has them all"
    harmless = len(sweep.rows) - len(found)
    if harmless:
        others = f"{harmless} others" if found else plural(harmless, "question")
        yield paint(f"  {others if harmless > 1 or not found else '1 other'}: {_NOTHING}", "good")
    yield from (f"  note: {note}" for note in sweep.notes)


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str | int]], paint: Callable[[str, str], str]
) -> Iterator[str]:
    texts = [[cut(f"{cell}", _LONGEST) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    for number, row in enumerate([heads, *texts]):
        first, *others = (_fitted(cell, place, widths) for place, cell in enumerate(row))
        line = "  ".join([first, *others]).rstrip()
        yield paint(f"  {line}", "dim") if number == 0 else f"  {line}"


def _fitted(cell: str, place: int, widths: Sequence[int]) -> str:
    return cell.ljust(widths[place]) if place in (0, len(widths) - 1) else cell.rjust(widths[place])


def markdown(sweep: Sweep) -> str:
    """A comment on a pull request."""
    lines = [f"### What if {EVERY[sweep.kind]}", ""]
    lines.append(f"{len(sweep.rows)} asked; before: {before(sweep)}" + (f"; {without(sweep)}" if sweep.anyway else ""))
    found, heads = harmful(sweep), heads_of(sweep)
    if found:
        lines += ["", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in found[:MOST_ROWS]:
            first, *others = cells_of(sweep, row)
            lines.append(f"| {text_of(cut(str(first), _LONGEST))} | {' | '.join(map(str, others))} |")
    if len(found) > MOST_ROWS:
        lines += ["", f"and {len(found) - MOST_ROWS} more"]
    harmless = len(sweep.rows) - len(found)
    if harmless:
        lines += ["", f"Of {harmless}{' others' if found else ''}, {_NOTHING}."]
    lines += ["", *(f"- {text_of(note)}" for note in sweep.notes)] if sweep.notes else []
    return "\n".join(lines) + "\n"
