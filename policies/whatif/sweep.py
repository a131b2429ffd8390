"""Ask one question for each node or zone of a cluster, and sort the answers by effect."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.simulation.summary import Levels, Names
from forewarn.policies.whatif import EVERY
from forewarn.policies.whatif.autoscalers import after_simulation
from forewarn.policies.whatif.comparison import Losses, pdbs_below_desired, touched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.whatif.autoscalers import Autoscaling
    from forewarn.policies.whatif.questions import Question


class Needs(NamedTuple):
    """The number of nodes by node group that Pending Pods need, and the number of Pods that no group helps.

    `cut`: true if the work exceeded its limit, so that the numbers are incomplete.
    """

    nodes: Mapping[str, int]
    not_helped: int
    cut: bool = False


class Row(NamedTuple):
    """The result of one question, as numbers.

    - `case`: such as `node a-1`, as an argument of `forewarn whatif`.
    - `fewer`: number of replicas that no longer run at the end, without DaemonSet Pods on deleted nodes. `pending`:
      number of Pending Pods at the end. `preempted`: number of preempted Pods.
    - `pdbs`: number of PodDisruptionBudgets that preemption violates, or that have too few healthy Pods at the end and
      had enough before.
    - `settled_at`: seconds until a steady state, or of the whole simulation if `settled` is false.
    - `needs`: the nodes that cluster-autoscaler would add; None without node groups.
    """

    case: str
    fewer: int
    pending: int
    preempted: int
    pdbs: int
    settled_at: float
    settled: bool
    needs: Needs | None = None


class Sweep(NamedTuple):
    """The results of one question for each node or zone, the worst first.

    `kind`: a key of EVERY. `running`, `pending`: numbers of Pods at time 0. `without_event`: the outcome without an
    event, if the cluster is not in a steady state. `notes`: objects that are not simulated.
    """

    kind: str
    running: int
    pending: int
    rows: Sequence[Row]
    without_event: Row | None = None
    notes: Sequence[str] = ()


class Tally:
    """Counts the differences between the start of a simulation and the end of other simulations of the same cluster."""

    def __init__(self, simulation: Simulation, autoscaling: Autoscaling) -> None:
        """Count the Pods at the start. `autoscaling`: the settings for nodes that may be added for Pending Pods."""
        self._autoscaling = autoscaling
        self._losses, self._pdbs = Losses(simulation), pdbs_below_desired(simulation).keys()
        self._waiting = {name for name in _names(simulation) if _is_pending(name, simulation)}
        self.pending = len(self._waiting)
        self.running = self._losses.running

    def of(self, simulation: Simulation, question: Question) -> dict[str, Any]:
        """Return the counts of a Row, from a completed simulation of the question in the same cluster; visits only
        objects that have changed.

        With node groups, raises InvalidObject for a DaemonSet with an invalid template.
        """
        levels, changed = Levels(), touched(simulation)
        waiting = sum(_is_pending(name, simulation) for name in changed)
        short = pdbs_below_desired(simulation).keys() - self._pdbs
        return {
            "fewer": sum(self._losses.of(simulation).values()),
            "pending": self.pending + waiting - len(self._waiting & changed),
            "preempted": sum(levels.next(event) is not None for event in simulation.timeline.events),
            "pdbs": len(short | simulation.scheduler.violated_pdbs.counts.keys()),
            "settled_at": max(round(simulation.timeline.last, 4), 0.0),
            "settled": simulation.settled,
            "not_modelled": simulation.storage.not_modelled,
            **(
                {"needs": _needs(simulation, self._autoscaling.after(question.lost))}
                if self._autoscaling.groups
                else {}
            ),
        }


def _needs(simulation: Simulation, autoscaling: Autoscaling) -> dict[str, Any]:
    """Return the nodes that Pending Pods need after a simulation, as a JSON object."""
    plan = after_simulation(simulation, autoscaling, Names()).plan  # counts alone are told
    nodes = Counter[str]()
    for each in plan.scale_ups if plan else ():
        nodes[each.option.group] += each.option.nodes
    not_helped = sum(each.pods for each in plan.not_helped) if plan else 0
    return {"nodes": dict(nodes), "notHelped": not_helped, "cut": plan is not None and plan.cut}


def row_of(case: str, counts: Mapping[str, Any]) -> Row:
    """Return the Row of the question `case` from the counts of `Tally.of`, also if converted to JSON and back."""
    needs = counts.get("needs")
    values = {name: value for name, value in counts.items() if name in Row._fields and name != "needs"}
    return Row(case, **values, needs=needs and Needs(needs["nodes"], needs["notHelped"], needs["cut"]))


def _names(simulation: Simulation) -> Iterable[str]:
    return (state.pod.key for state in simulation.api.pods.values())


def _is_pending(name: str, simulation: Simulation) -> bool:
    namespace, _, own = name.partition("/")
    state = simulation.api.pods.get((namespace, own))
    return state is not None and not (state.terminating or state.pod.terminal or state.pod.node_name)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, worst first.

    Compares lost replicas, Pending Pods, PodDisruptionBudgets, preempted Pods, then time and name.
    """
    return sorted(
        rows,
        key=lambda row: (
            -row.fewer,
            -row.pending,
            -row.pdbs,
            -row.preempted,
            row.settled,
            -int(row.settled_at),
            row.case,
        ),
    )


def as_dict(sweep: Sweep) -> dict[str, Any]:
    """Return the sweep as a JSON object."""
    document: dict[str, Any] = {
        "version": 1,
        "sweep": sweep.kind,
        "before": {"running": sweep.running, "pending": sweep.pending},
        "rows": [_row_as_dict(row) for row in sweep.rows],
    }
    document |= {} if sweep.without_event is None else {"withoutChange": _row_as_dict(sweep.without_event)}
    return document | ({"notes": list(sweep.notes)} if sweep.notes else {})


_FIELDS: Final = {
    "case": "case",
    "fewer": "fewer",
    "pending": "pending",
    "preempted": "preempted",
    "pdbs": "violatedPDBs",
    "settled_at": "settledAt",
    "settled": "settled",
}


def _row_as_dict(row: Row) -> dict[str, Any]:
    needs = row.needs
    groups = (
        {} if needs is None else {"nodes": dict(needs.nodes), "noScaleUp": needs.not_helped, "truncated": needs.cut}
    )
    return {key: getattr(row, name) for name, key in _FIELDS.items()} | ({"nodeGroups": groups} if groups else {})


def from_dict(document: Mapping[str, Any]) -> Sweep:
    """Return the sweep from the output of `as_dict`. Raises ValueError for other input."""
    try:
        before, without_event = document["before"], document.get("withoutChange")
        if document["version"] != 1 or document["sweep"] not in EVERY:
            raise ValueError("written by another version of forewarn")
        rows, notes = [_row(each) for each in document["rows"]], document.get("notes", [])
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise ValueError("notes must be a list of strings")
        return Sweep(
            document["sweep"],
            _integer(before["running"]),
            _integer(before["pending"]),
            rows,
            None if without_event is None else _row(without_event),
            notes,
        )
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not the JSON of a sweep: {type(fault).__name__} {fault}") from None


def _row(document: Mapping[str, Any]) -> Row:
    values = {name: document[key] for name, key in _FIELDS.items()}
    for name in ("fewer", "pending", "preempted", "pdbs"):
        _integer(values[name])
    seconds = values["settled_at"]
    if not isinstance(values["case"], str) or not isinstance(values["settled"], bool):
        raise ValueError("a row of a sweep must have case and settled")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
        raise ValueError("a row of a sweep must have seconds")
    return Row(**values, needs=_needs_of(document["nodeGroups"]) if "nodeGroups" in document else None)


def _needs_of(document: Mapping[str, Any]) -> Needs:
    nodes = {str(group): _integer(count) for group, count in document["nodes"].items()}
    if not isinstance(document["truncated"], bool):
        raise ValueError("a row of a sweep must have truncated for its node groups")
    return Needs(nodes, _integer(document["noScaleUp"]), document["truncated"])


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError("counts of a sweep must be whole numbers")
    return value
