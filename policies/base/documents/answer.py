"""The form of every answer: a status, one clause, counters, reasons, tables, fixes and the input.

Commands, pages and the Python API fill an `AnswerDocument`; `render/answer.py` and `render/html/answer.py` print it.
No renderer computes a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from forewarn.policies.base.documents import Always, Hidden, in_json, key_of, optional_in_json

Cell = str | int
Rows = list[list[Cell]]
"""The rows of a table under construction."""


NO_EFFECT: Final = "no Pod preempted, newly Pending or lost"
"""The clause for a change without harmful effects."""
INCOMPLETE: Final = "a limit of the simulation was reached; the counters may be wrong"
"""The clause for a change whose simulation is incomplete."""


class AnswerStatus(StrEnum):
    """What an answer means for the reader, from the worst to the best."""

    NO_ANSWER = "NO ANSWER"
    REJECTED = "REJECTED"
    BLOCKED = "BLOCKED"
    HARM = "HARM"
    PENDING = "PENDING"
    WARN = "WARN"
    OK = "OK"

    @property
    def rank(self) -> int:
        """The position in the order of badness; 0 is the worst."""
        return [*AnswerStatus].index(self)


class Effects(NamedTuple):
    """The counters of a simulation or prediction. Placeholder Pods are only in `placeholders`.

    - `victims`: Pods that the new Pods themselves preempt. `preempted`: Pods that any Pod preempts.
    - `pending`: Pods that are Pending at the end, and were not before.
    - `lost`: replicas that no longer run at the end, without those that the change removes and DaemonSet Pods of
      removed nodes.
    - `down`: workloads that have too few replicas for a time. `downSeconds`: the longest time without a break in which
      one of them has too few.
    - `rejected`: Pods and objects that kube-apiserver rejects, also running Pods that it rejects when they are
      recreated, because of a PriorityClass (at least 1 for each workload). `jobsFailed`: Jobs that fail.
    - `pdbsViolated`: PodDisruptionBudgets with more disruptions than allowed. `pdbsShort`: those with too few healthy
      Pods at the end.
    - `blocked`: nodes that are not drained or upgraded, and rollouts that do not finish.
    - `placeholders`: placeholder Pods that are preempted.
    - `newNodes`, `removedNodes`: nodes that autoscalers add and remove.
    """

    victims: int = 0
    preempted: int = 0
    pending: int = 0
    lost: int = 0
    down: int = 0
    down_seconds: int = 0
    rejected: int = 0
    jobs_failed: int = 0
    pdbs_violated: int = 0
    pdbs_short: int = 0
    blocked: int = 0
    placeholders: int = 0
    new_nodes: int = 0
    removed_nodes: int = 0

    @property
    def harm(self) -> bool:
        """Whether there are effects other than PDBs with too few Pods, blocked nodes or rollouts, and placeholders."""
        return any(self[: self._fields.index("pdbs_short")])

    @property
    def in_order(self) -> Sequence[int]:
        """The counters as numbers for comparison, the most important first."""
        return self[: self._fields.index("new_nodes")]

    def conditions(self, with_new_nodes: Effects | None = None) -> frozenset[str]:
        """Return the conditions of `--fail-on` that are met: the names of the counters that are not 0, with hyphens.

        `with_new_nodes`: unless None, these effects decide about Pending Pods, lost replicas and workloads that are
        down.
        """
        end = with_new_nodes or self
        counters = self._replace(pending=end.pending, lost=end.lost, down=end.down)
        return frozenset(name for name in CONDITIONS if getattr(counters, name.replace("-", "_")))


CONDITIONS: Final = tuple(
    name.replace("_", "-") for name in Effects._fields if name not in ("down_seconds", "new_nodes", "removed_nodes")
)
"""Conditions of `--fail-on`."""
LABELS: Final = {
    "pending": "Pending",
    "jobs_failed": "Jobs failed",
    "pdbs_violated": "PDBs violated",
    "pdbs_short": "PDBs short",
    "new_nodes": "new nodes",
    "removed_nodes": "removed nodes",
}
"""Counters whose names in text differ from those of the fields."""
NO_CLASS: Final = "(no class)"
"""The cell for Pods without a PriorityClass."""
MAX_ROWS: Final = 10
"""Maximum number of rows of a table without -v (head and total not counted); a longer table is grouped."""
ALWAYS_SHOWN: Final = ("victims", "preempted", "pending", "lost")
"""Counters that are shown even if they are 0, unless an answer cannot have them."""


def label(name: str) -> str:
    """Return the name of a counter in text."""
    return LABELS.get(name, name.replace("_", " "))


class Range(NamedTuple):
    """The least and the highest value of a counter."""

    least: int
    most: int


class Counter(NamedTuple):
    """A counter as it is shown: `lost 1,592 of 7,610`, `Pending 273 → 25`, `preempted 79 (58 by new Pods)`.

    `of`: the total; None without one. `after`: the value with the nodes of autoscalers; None if these change nothing.
    `more`: text after the number. `range`: the range over several runs, if chance decides. `optional`: whether it is
    omitted if it is 0. `value`: None if it is not predicted.
    """

    name: str
    value: int | None
    of: int | None = None
    after: int | None = None
    more: str = ""
    range: Range | None = None
    optional: bool = False


class Cause(NamedTuple):
    """A row of reasons: `number`: how many of the counter it explains, or 0 if reasons are not counted; what kind of
    reason it is, and the reason.
    """

    number: int
    kind: str
    reason: str
    reason_first: Hidden[str] = ""
    """The reason before its object, for a table of several answers; "" if that is `reason`."""


class Why(NamedTuple):
    """The reasons of one counter; their counts add up to it. `heading`: such as `1,592 REPLICAS ARE LOST`."""

    counter: str
    number: int
    heading: Hidden[str]
    causes: Sequence[Cause]


def why_of(counter: str, number: int, one: str, many: str, causes: Iterable[Cause]) -> Why:
    """Return the reasons of a counter, most frequent first. `one`, `many`: the headings without the number."""
    ordered = sorted(causes, key=lambda cause: (-cause.number, cause.reason))
    return Why(counter, number, f"{number:,} {one if number == 1 else many}", ordered)


class Table(NamedTuple):
    """A table, the worst row first. A column with a number in any row is aligned to the right.

    `total`: the last row, shown below several rows. `detail`: 0 if every output has it, 1 with -v, 2 with -vv.
    `title`: a line above it, or "". `zeros`: a 0 is shown as such, and not like an empty cell; columns stay even if
    they are empty. `subheads`: number of first columns that stand in text once above the rows that have them in
    common.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: Sequence[Cell] = ()
    detail: int = 0
    title: str = ""
    zeros: bool = False
    subheads: int = 0

    def as_objects(self) -> list[dict[str, Cell]]:
        """Return the rows by their column heads, as JSON keys."""
        keys = [key_of(head.lower().replace(" ", "_")) for head in self.columns]
        return [dict(zip(keys, row, strict=True)) for row in self.rows]


class Fix(NamedTuple):
    """An edit or a command, and the computed effect on a counter, such as `328 of the 347 preempted`."""

    action: str
    effect: str


@dataclass(frozen=True)
class AnswerDocument:
    """One answer, in the format that all questions have in common.

    `status`: what it means. `question`: what was asked. `clause`: the consequence. `counters`: all counters; absent if
    nothing changes. `counters_with_new_nodes`: those after autoscalers have added and removed nodes; absent if they do
    not. `counts`: other numbers that stand with the counters; absent if there are none. `warnings`: what makes the
    answer doubtful, and what was wrong before. `why`: the reasons of one counter. `fix`: edits and commands with their
    computed effect. `rows`: the rows of the first table. Tables without rows, and reasons without causes, are left out.
    `more`: flags and commands that lead on.
    """

    status: AnswerStatus
    question: str
    clause: str
    counters: Effects | None = None
    shown: Hidden[Sequence[Counter]] = ()
    counters_with_new_nodes: Effects | None = None
    warnings: Always[Sequence[str]] = ()
    why: Why | None = None
    tables: Hidden[Sequence[Table]] = ()
    fix: Always[Sequence[Fix]] = ()
    more: Hidden[Sequence[str]] = ()
    priority: Hidden[int | None] = None
    """The highest priority of the lost replicas."""

    def __post_init__(self) -> None:
        tables = [each if each.rows[1:] else each._replace(total=()) for each in self.tables if each.rows]
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "why", self.why if self.why and self.why.causes else None)
        object.__setattr__(self, "shown", [each for each in self.shown if each.value or not each.optional])

    @in_json
    def rows(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self.tables[0].as_objects()] if self.tables else []

    @optional_in_json
    def counts(self) -> dict[str, int | None] | None:
        own = [counter for counter in self.shown if counter.name not in Effects._fields]
        return {key_of(counter.name.lower().replace(" ", "_")): counter.value for counter in own} or None

    @property
    def effects(self) -> Effects:
        """The counters; zeros if nothing changes."""
        return self.counters or Effects()

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of `--fail-on` that are met."""
        return self.effects.conditions(self.counters_with_new_nodes)

    @property
    def headline(self) -> str:
        """The question and the consequence, for logs, titles and tables of several answers."""
        return f"{self.question}: {self.clause}"


def counters_of(
    effects: Effects,
    ranges: Mapping[str, Range] = {},
    after: Effects | None = None,
    *,
    without: Collection[str] = (),
    totals: Mapping[str, int | None] = {},
    **more: str,
) -> list[Counter]:
    """Return the counters that an answer shows: those of `ALWAYS_SHOWN`, and every other counter that is not 0, also by
    chance or with the nodes of autoscalers.

    `ranges`: those of counters that depend on chance. `after`: the effects with the nodes of autoscalers, if any.
    `without`: counters that the answer cannot have. `totals`: counter -> its total. `more`: counter -> the text after
    its number.
    """
    counters = []
    for name, value, later in zip(Effects._fields, effects, after or effects, strict=True):
        is_shown = name in ALWAYS_SHOWN or value or later or name in ranges
        if is_shown and name not in ("down_seconds", *without):
            before = later if name in ("new_nodes", "removed_nodes") else value
            counters.append(Counter(name, before, totals.get(name), later, more.get(name, ""), ranges.get(name)))
    return counters
