"""A sweep (one simulation for each case) as text and Markdown: one table, the worst case first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import duration, equal_to, first_line, listed, plural
from forewarn.policies.render import Painter, plain, whatif
from forewarn.policies.render.table import left_out, markdown_table, table, text_of
from forewarn.policies.whatif import EVERY
from forewarn.policies.whatif.answer import NO_CAUSES
from forewarn.policies.whatif.sweep import Needs, PlaceholderPods, Row, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MAX_ROWS: Final = 40
_BASIS: Final = (
    "fewer: replicas that no longer run, without DaemonSet Pods of lost nodes; priority: the highest of these replicas"
)
_LONGEST: Final = 60
SETTLED: Final = "steady state after"
_NEEDED: Final = "nodes needed"
_WITH_NODES: Final = "with these nodes"
_TEXTS: Final = ("case", SETTLED, _NEEDED, _WITH_NODES)
"""Columns with text instead of counts."""


class _Column(NamedTuple):
    """`is_shown`: whether a row needs the column; None if every sweep has it."""

    head: str
    cell: Callable[[Row], str | int]
    is_shown: Callable[[Row], object] | None = None


def _columns(sweep: Sweep) -> list[_Column]:
    return [each for each in _COLUMNS if each.is_shown is None or any(map(each.is_shown, sweep.rows))]


def heads_of(sweep: Sweep) -> list[str]:
    """The column heads: case, counts, the priority of lost replicas, time of the steady state; with node groups, the
    needed nodes.
    """
    return [column.head for column in _columns(sweep)]


def cells_of(sweep: Sweep, row: Row) -> list[str | int]:
    """The cells of a row, in the order of `heads_of`."""
    return [column.cell(row) for column in _columns(sweep)]


def _reserving(row: Row) -> PlaceholderPods:
    return row.placeholders or PlaceholderPods(0, 0, 0)


def needs_text(needs: Needs | None) -> str:
    """The needed nodes as a phrase, for example `2 of spot-large, 1 of gpu; none for 3 Pods`."""
    if needs is None:
        return ""
    nodes = listed([f"{count} of {group}" for group, count in needs.nodes.items()])
    left = f"none for {plural(needs.no_scale_up, 'Pod')}" if needs.no_scale_up else ""
    return "; ".join(part for part in (nodes, left, "estimate incomplete" if needs.truncated else "") if part)


def with_nodes(row: Row) -> str:
    """The end with the new nodes, for example `0 fewer, 2 Pending after 4 min 15 s`; "" if no nodes arrive."""
    needs = row.node_groups
    if needs is None or needs.back_at is None:
        return ""
    counts = f"{needs.fewer} fewer, {needs.pending} Pending{' (with placeholder Pods)' if row.placeholders else ''}"
    return f"{counts} after {duration(needs.back_at)}"


_COLUMNS: Final = (
    _Column("case", lambda row: row.case),
    _Column("fewer", lambda row: row.others[0]),
    _Column(
        "priority", lambda row: "-" if row.priority is None else row.priority, lambda row: row.priority is not None
    ),
    _Column("down", lambda row: row.down, lambda row: row.interruptions),
    _Column("Pending", lambda row: row.others[1]),
    _Column("preempted", lambda row: row.others[2]),
    _Column("PDBs violated", lambda row: row.violated_pdbs),
    _Column("placeholders preempted", lambda row: _reserving(row).preempted, lambda row: row.placeholders),
    _Column(SETTLED, lambda row: f"{'' if row.settled else 'not within '}{duration(row.settled_at)}"),
    _Column(_NEEDED, lambda row: needs_text(row.node_groups), lambda row: row.node_groups is not None),
    _Column(_WITH_NODES, with_nodes, lambda row: row.node_groups is not None),
)


def _no_nodes(needs: Needs | None) -> str:
    is_known = needs is not None and needs.no_scale_up and not needs.nodes and not needs.truncated
    return "; no new nodes help" if is_known else ""


def harmful(sweep: Sweep) -> list[Row]:
    return [row for row in sweep.rows if _harms(row, sweep)]


def _harms(row: Row, sweep: Sweep) -> bool:
    fewer, pending, preempted = row.others
    return (
        bool(fewer or row.down or preempted or row.violated_pdbs) or pending > sweep.before.pending or not row.settled
    )


def _as_without(row: Row, sweep: Sweep) -> bool:
    """Whether the same happens without a change."""
    alone = sweep.without_change
    return alone is not None and (row.harm, row.workloads, row.victims) == (alone.harm, alone.workloads, alone.victims)


def before(sweep: Sweep) -> str:
    return f"{plural(sweep.before.running, 'Pod')} running, {sweep.before.pending} Pending"


def without(sweep: Sweep) -> str:
    """A sentence about the outcome without a change; "" if nothing would change."""
    row = sweep.without_change
    if row is None:
        return ""
    fewer = f", {plural(row.fewer, 'replica')} lost" if row.fewer else ""
    return f"without any change: {plural(row.preempted, 'Pod')} preempted, {row.pending} Pending at the end{fewer}"


def _nothing(sweep: Sweep) -> str:
    if any(_as_without(row, sweep) for row in harmful(sweep)):
        return "no more harm than without a change"
    if any(row.placeholders for row in sweep.rows):
        return "only placeholder Pods lost or preempted"
    if sweep.before.pending:
        return "no Pods lost or preempted, no more Pending Pods than before"
    return "no Pods lost, Pending or preempted"


def _lost(row: Row) -> str:
    """The lost replicas and their workloads as a subject."""
    fewer, names = row.others[0], row.workloads
    each = " each" if fewer == len(names) > 1 and not row.rivals else ""
    whose = f"{whatif.of_workloads(names)}{whatif.or_others(row.rivals, names)}"
    return f"{plural(1 if each else fewer, 'replica')}{each}{whose}"


def basis(sweep: Sweep) -> str:
    """A note that defines columns."""
    return (
        f"{_BASIS}; down: replicas that do not run for a time"
        if any(row.interruptions for row in sweep.rows)
        else _BASIS
    )


def verdict(sweep: Sweep, rows: list[Row]) -> str:
    """A phrase about the cases that do harm, the `rows`."""
    cases = plural(len(sweep.rows), sweep.sweep)
    left = max((row.not_simulated or 0 for row in sweep.rows), default=0)
    unread = f", {plural(left, 'new Pod')} of other schedulers not simulated" if left else ""
    rows = [row for row in rows if not _as_without(row, sweep)]
    if not rows:
        return f"{cases}: {_nothing(sweep)} if one is lost{unread}"
    worst = rows[0]
    (fewer, pending, preempted), reserving = worst.others, _reserving(worst)
    causes, anyway = worst.causes or NO_CAUSES, sweep.without_change and sweep.without_change.causes
    causes = causes._replace(rejected=max(causes.rejected - (anyway.rejected if anyway else 0), 0))
    more, violated = pending - sweep.before.pending - causes.pending, worst.violated_pdbs - len(worst.unhealthy_pdbs)
    equal_victims = whatif.or_others(worst.equal_victims, worst.victims)
    effects = [
        whatif.lost_replicas(fewer, _lost(worst), causes),
        whatif.too_few_healthy_pods(worst.unhealthy_pdbs),
        whatif.down(worst.interruptions, () if worst.rivals else worst.workloads),
        f"{plural(violated, 'PDB')} violated" if violated > 0 else "",
        whatif.preempted_pods(preempted, worst.victims, worst.workloads, equal_victims, is_brief=True),
        f"{plural(more, 'more Pod')} Pending" if more > 0 else "",
        "" if worst.settled else "no steady state",
        whatif.on_placeholders(reserving.preempted, reserving.pending, reserving.fewer),
    ]
    end, needs = with_nodes(worst), worst.node_groups
    grown = f"; with new nodes {end}" if end else _no_nodes(needs)
    cost = whatif.joined([effect for effect in effects if effect], 3, 1) + grown
    equal = [row.name for row in rows[1:] if (row.harm, row.end) == (worst.harm, worst.end)]
    harm = f"{len(rows)} of {cases} {'does' if len(rows) == 1 else 'do'} harm if lost"
    return first_line(f"{harm}; worst: {worst.case}{equal_to(equal, sweep.sweep)}: {cost}{unread}")


def render(sweep: Sweep, paint: Painter = plain) -> Iterator[str]:
    """The table as text lines."""
    harmed = harmful(sweep)
    yield paint(verdict(sweep, harmed), "bold")
    yield f"  before: {before(sweep)}"
    if without_event := without(sweep):
        yield f"  {without_event}"
    if harmed:
        rows = [cells_of(sweep, row) for row in harmed[:MAX_ROWS]]
        yield from table(heads_of(sweep), rows, paint, texts=_TEXTS, longest=_LONGEST)
        yield f"  {basis(sweep)}"
    yield from left_out(len(harmed), MAX_ROWS, indent="  ")
    harmless = len(sweep.rows) - len(harmed)
    if harmless:
        others = f"{harmless} others" if harmed else plural(harmless, "case")
        yield paint(f"  {others if harmless > 1 or not harmed else '1 other'}: {_nothing(sweep)}", "good")
    yield from (f"  note: {note}" for note in sweep.notes)


def markdown(sweep: Sweep) -> str:
    """The sweep as Markdown for a pull request."""
    harmed, heads = harmful(sweep), heads_of(sweep)
    lines = [f"### {text_of(verdict(sweep, harmed))}", "", f"What if {EVERY[sweep.sweep]}."]
    lines += ["", f"Before: {before(sweep)}" + (f"; {without(sweep)}" if sweep.without_change else "")]
    if harmed:
        rows = [cells_of(sweep, row) for row in harmed[:MAX_ROWS]]
        lines += ["", *markdown_table(heads, rows, longest=_LONGEST), "", basis(sweep)]
    if len(harmed) > MAX_ROWS:
        lines += ["", f"and {len(harmed) - MAX_ROWS} more"]
    harmless = len(sweep.rows) - len(harmed)
    if harmless:
        lines += ["", f"{plural(harmless, 'other case' if harmed else 'case')}: {_nothing(sweep)}."]
    lines += ["", *(f"- {text_of(note)}" for note in sweep.notes)] if sweep.notes else []
    return "\n".join(lines) + "\n"
