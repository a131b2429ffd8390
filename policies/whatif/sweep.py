"""One question of every node, zone or class of a cluster: what each comes to, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.kinds import DAEMON_SET
from policies.simulation.summary import Levels
from policies.whatif import EVERY
from policies.whatif.comparison import Losses, short_budgets, touched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.simulation.simulation import Simulation


class Row(NamedTuple):
    """What one question comes to, in counts. `asked`: as `node a-1`, which `forewarn whatif` tells all of.

    `fewer`: replicas that run no more in the end, without those of DaemonSets, which go with their node; `pending`:
    pods that wait then; `pushed_out`: pods; `budgets`: disruption budgets that preemption broke, or that have too few
    healthy pods in the end and had enough; `refused`: running pods whose workload gets no new ones, as their class is
    gone. `settled_at`: seconds, and whether nothing more would happen then.
    """

    asked: str
    fewer: int
    pending: int
    pushed_out: int
    budgets: int
    settled_at: float
    settled: bool
    refused: int = 0


class Sweep(NamedTuple):
    """The answers, the worst first. `kind`: of EVERY; `running` and `pending`: pods at time 0; `anyway`: what comes of
    no event at all, where the cluster is not at rest; `notes`: what plays no part."""

    kind: str
    running: int
    pending: int
    rows: Sequence[Row]
    anyway: Row | None = None
    notes: Sequence[str] = ()


class Tally:
    """Counts what a simulation comes to against the state before; one that has not run yet is that state."""

    def __init__(self, simulation: Simulation) -> None:
        self._losses, self._budgets = Losses(simulation), short_budgets(simulation).keys()
        api = simulation.api
        self._daemons = {f"{namespace}/{name}" for _, namespace, name in api.keys_of(DAEMON_SET)}
        self._waiting = {name for name in _names(simulation) if _waits(name, simulation)}
        self.pending = len(self._waiting)
        self.running = self._losses.running

    def of(self, simulation: Simulation) -> dict[str, Any]:
        """The counts of a Row, of a simulation of the same cluster that has run. Looks at what has happened alone."""
        levels, changed = Levels(), touched(simulation)
        waiting = sum(_waits(name, simulation) for name in changed)
        short = short_budgets(simulation).keys() - self._budgets
        lost = self._losses.of(simulation)
        return {
            "fewer": sum(count for name, count in lost.items() if name not in self._daemons),
            "pending": self.pending + waiting - len(self._waiting & changed),
            "pushed_out": sum(levels.next(event) is not None for event in simulation.timeline.events),
            "budgets": len(short | simulation.scheduler.broken_budgets.keys()),
            "settled_at": max(round(simulation.timeline.last, 4), 0.0),
            "settled": simulation.settled,
        }


def _names(simulation: Simulation) -> Iterable[str]:
    return (state.pod.key for state in simulation.api.pods.values())


def _waits(name: str, simulation: Simulation) -> bool:
    namespace, _, own = name.partition("/")
    state = simulation.api.pods.get((namespace, own))
    return state is not None and not (state.terminating or state.pod.terminal or state.pod.node_name)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """By replicas that are lost, pods that get no successor or wait, budgets, pods pushed out, time; then by name."""
    return sorted(
        rows,
        key=lambda row: (
            -row.fewer,
            -row.refused,
            -row.pending,
            -row.budgets,
            -row.pushed_out,
            row.settled,
            -int(row.settled_at),
            row.asked,
        ),
    )


def as_dict(sweep: Sweep) -> dict[str, Any]:
    """For programs."""
    told: dict[str, Any] = {
        "version": 1,
        "sweep": sweep.kind,
        "before": {"running": sweep.running, "pending": sweep.pending},
        "rows": [_told(row) for row in sweep.rows],
    }
    told |= {} if sweep.anyway is None else {"withoutIt": _told(sweep.anyway)}
    return told | ({"notes": list(sweep.notes)} if sweep.notes else {})


_FIELDS: Final = {
    "asked": "question",
    "fewer": "fewer",
    "pending": "pending",
    "pushed_out": "pushedOut",
    "budgets": "budgetsBroken",
    "settled_at": "settledAt",
    "settled": "settled",
    "refused": "refused",
}


def _told(row: Row) -> dict[str, Any]:
    return {key: getattr(row, name) for name, key in _FIELDS.items()}


def from_dict(told: Mapping[str, Any]) -> Sweep:
    """What `as_dict` has told. Raises ValueError for anything else."""
    try:
        before, anyway = told["before"], told.get("withoutIt")
        if told["version"] != 1 or told["sweep"] not in EVERY:
            raise ValueError("not an answer of this version")
        rows, notes = [_row(each) for each in told["rows"]], told.get("notes", [])
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise ValueError("notes are a list of texts")
        return Sweep(
            told["sweep"],
            _whole(before["running"]),
            _whole(before["pending"]),
            rows,
            None if anyway is None else _row(anyway),
            notes,
        )
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not the answer of a sweep: {type(fault).__name__} {fault}") from None


def _row(told: Mapping[str, Any]) -> Row:
    values = {name: told[key] for name, key in _FIELDS.items()}
    for name in ("fewer", "pending", "pushed_out", "budgets", "refused"):
        _whole(values[name])
    seconds = values["settled_at"]
    if not isinstance(values["asked"], str) or not isinstance(values["settled"], bool):
        raise ValueError("a row of a sweep has a question and whether all was settled")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
        raise ValueError("a row of a sweep has seconds")
    return Row(**values)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError("counts of a sweep are whole numbers")
    return value
