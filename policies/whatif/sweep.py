"""Ask one question for each node or zone of a cluster, and sort the answers by effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from forewarn.policies.cluster.cache import AnswerHead, Result
from forewarn.policies.documents import Shard, fields_of
from forewarn.policies.findings import cut, described, plural
from forewarn.policies.simulation.summary import (
    Levels,
    is_incomplete,
    missing,
    of_other_schedulers,
    pods_left_out,
    touched,
)
from forewarn.policies.whatif import EVERY
from forewarn.policies.whatif.answer import Causes, rank_of_loss
from forewarn.policies.whatif.arrivals import Branch
from forewarn.policies.whatif.comparison import Losses, failed_jobs, failures_in, pdbs_below_desired, prepare
from forewarn.policies.whatif.interruptions import AtStart, Interruption, interruptions
from forewarn.policies.whatif.races import equal_victims, rivals_by_loser

if TYPE_CHECKING:
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.whatif.autoscalers import Autoscaling
    from forewarn.policies.whatif.questions import Question


class Needs(NamedTuple):
    """Nodes that autoscalers would add. `nodes`: by node group or NodePool.

    - `noScaleUp`: number of Pods that no node group helps. `truncated`: true if the work exceeded its limit, so that
      the numbers are incomplete.
    - `fewer`, `pending`: as in the row, but after the nodes have arrived; absent if no nodes arrive. `backAt`: seconds
      until the last Pod was scheduled; absent if no nodes arrive.
    """

    nodes: Mapping[str, int]
    no_scale_up: int
    truncated: bool = False
    fewer: int | None = None
    pending: int | None = None
    back_at: float | None = None


class PlaceholderPods(NamedTuple):
    """Placeholder Pods, which only reserve capacity. `pending`: number of Pods more than before."""

    fewer: int
    pending: int
    preempted: int


class Row(NamedTuple):
    """The effect of one case.

    - `case`: such as `node a-1`, as arguments of `forewarn whatif lose`.
    - `fewer`: number of lost replicas at the end, without DaemonSet Pods on deleted nodes. `pending`:
      number of Pending Pods at the end. `preempted`: number of preempted Pods.
    - `violatedPDBs`: number of PodDisruptionBudgets that preemption violates, or that have too few healthy Pods at the
      end and had enough before. `unhealthyPDBs`: those of them that preemption does not violate.
    - `settled`: whether the cluster reached a steady state. `settledAt`: seconds until the last event.
    - `nodeGroups`: the nodes that autoscalers would add; absent if no autoscaler is simulated.
    - `placeholders`: how many of these Pods are placeholder Pods; absent if none is.
    - `workloads`: the other workloads that lose replicas, those of the highest priority first. `victims`: the other
      workloads with preempted Pods, likewise.
    - `causes`: why replicas are lost. `rejected` in it also counts Pods that were rejected before.
    - `notSimulated`: number of new Pods that another scheduler may bind; absent if there is none.
    - `priority`: the highest priority of the lost replicas that are no placeholder Pods; absent if there are none.
    - `interruptions`: the workloads without placeholder Pods that have fewer running Pods for a time.
    - `rivals`: workloads that may lose replicas instead: chance decides which of equal Pods are preempted or stay
      Pending. `equalVictims`: workloads whose Pods may be preempted instead.
    - `incomplete`: true if a limit of the simulation may have changed the result.
    """

    case: str
    fewer: int
    pending: int
    preempted: int
    violated_pdbs: int
    settled_at: float
    settled: bool
    node_groups: Needs | None = None
    placeholders: PlaceholderPods | None = None
    workloads: Sequence[str] = ()
    victims: Sequence[str] = ()
    causes: Causes | None = None
    not_simulated: int | None = None
    unhealthy_pdbs: Sequence[str] = ()
    priority: int | None = None
    interruptions: Sequence[Interruption] = ()
    rivals: Sequence[str] = ()
    equal_victims: Sequence[str] = ()
    incomplete: bool | None = None

    @property
    def down(self) -> int:
        """Number of replicas that are down for a time."""
        return sum(each.down for each in self.interruptions)

    @property
    def others(self) -> tuple[int, int, int]:
        """`fewer`, `pending` and `preempted` without placeholder Pods."""
        fewer, pending, preempted = self.placeholders or (0, 0, 0)
        return self.fewer - fewer, self.pending - pending, self.preempted - preempted

    @property
    def harm(self) -> Sequence[int]:
        """What makes a case worse, the most important number first: the highest priority of lost replicas; the numbers
        of these, also with new nodes, of replicas that are down for a time, of Pending Pods, PDBs and preempted Pods,
        without placeholder Pods; then of all preempted Pods.
        """
        fewer, pending, preempted = self.others
        counts = self.end[0], self.down, pending, self.violated_pdbs, preempted, self.preempted
        return *rank_of_loss(fewer, self.priority), *counts, int(not self.settled)

    @property
    def name(self) -> str:
        """The name of the node or zone."""
        return self.case.partition(" ")[2]

    @property
    def end(self) -> tuple[int, int]:
        """`fewer` and `pending` at the end, with the nodes of autoscalers if any arrive."""
        needs = self.node_groups
        if needs is None or needs.fewer is None or needs.pending is None:
            return self.fewer, self.pending
        return needs.fewer, needs.pending


class RunningAndPending(NamedTuple):
    """Numbers of Pods."""

    running: int
    pending: int


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """The effect of each case, the worst first. `sweep`: `node` or `zone`. `before`: at time 0.

    `withoutChange`: what happens without a loss, unless nothing happens. `notes`: what is not simulated. `shard`: of a
    part of a divided run.
    """

    version: Literal[1] = field(default=1, kw_only=True)
    sweep: str
    before: RunningAndPending
    rows: Sequence[Row]
    without_change: Row | None = None
    notes: Sequence[str] = ()
    shard: Shard | None = None

    def __repr__(self) -> str:
        cases = plural(len(self.rows), self.sweep)
        if not self.rows:
            return described(self, cases)
        worst = self.rows[0]
        counts = f"{worst.fewer} fewer Pods, {worst.pending} Pending, {worst.preempted} preempted"
        return described(self, f"{cases}; worst: {worst.case}: {counts}")


class Tallied(NamedTuple):
    """The effect of one case, and what the simulation does not contain."""

    row: Row
    not_modelled: Sequence[str]


class Tally:
    """Counts the differences between the start of a simulation and the end of other simulations of the same cluster."""

    def __init__(self, simulation: Simulation, autoscaling: Autoscaling, placeholders: set[tuple[str, str]]) -> None:
        """Count the Pods at the start. `autoscaling`: the settings for nodes that may be added for Pending Pods.
        `placeholders`: workloads of placeholder Pods.
        """
        self._autoscaling, self._placeholders = autoscaling, placeholders
        origins = simulation.timeline.origins
        existing = (origins[state.pod.key] for state in simulation.api.pods.values())
        self._origins = {origin.workload: origin for origin in existing}
        self._losses, self._pdbs = Losses(simulation), pdbs_below_desired(simulation).keys()
        self._failed, self._at_start = failed_jobs(simulation), AtStart(simulation)
        self._waiting = {p.pod.key for p in simulation.api.pods.values() if _is_pending(p.pod.key, simulation)}
        self.pending = len(self._waiting)
        self.running = self._losses.running

    def of(self, simulation: Simulation, question: Question) -> Tallied:
        """Run the simulation of the question, and return the counts; visits only objects that have changed.

        With node groups, raises InvalidObject for a DaemonSet with an invalid template.
        """
        prepare(simulation, question)
        autoscaling = self._autoscaling.after(question.lost)
        with Branch(question, autoscaling, self._end) as branch:
            branch.run(simulation)
            return self._counts(simulation, question.title, _needs(branch))

    def _end(self, simulation: Simulation) -> tuple[int, int, float]:
        last = max((event.t for event in simulation.timeline.events if event.event == "scheduled"), default=0.0)
        return sum(self._losses.of(simulation).values()), self._pending(simulation), round(last, 4)

    def _pending(self, simulation: Simulation) -> int:
        changed = touched(simulation)
        return self.pending + sum(_is_pending(name, simulation) for name in changed) - len(self._waiting & changed)

    def _counts(self, simulation: Simulation, case: str, needs: Needs | None) -> Tallied:
        levels = Levels()
        evictions = [evicted for event in simulation.timeline.events if (evicted := levels.next(event)) is not None]
        preempted, names = [evicted.victim for evicted in evictions], self._losses.names
        victims = {evicted.origin.workload: evicted.origin.priority for evicted in evictions}
        lost, changed = self._losses.by_workload(simulation), touched(simulation)
        more = {name for name in changed if _is_pending(name, simulation)} - self._waiting
        reserving = PlaceholderPods(
            sum(count for workload, count in lost.items() if workload in self._placeholders),
            sum(self._reserves(name, simulation) for name in more),
            sum(self._reserves(name, simulation) for name in preempted),
        )
        others = sorted(lost.keys() - self._placeholders, key=lambda e: (-self._origins[e].priority, -lost[e], e))
        violated_pdbs = simulation.scheduler.violated_pdbs.counts.keys()
        unhealthy = pdbs_below_desired(simulation).keys() - self._pdbs - violated_pdbs
        left, reserved = of_other_schedulers(simulation, names), {*map(names.of, self._placeholders)}
        interrupted = interruptions(simulation, names, self._origins.values(), self._at_start)
        rivals, equal = rivals_by_loser(simulation, names, others), equal_victims(simulation, names)
        cut = pods_left_out(simulation)
        row = Row(
            case=case,
            fewer=lost.total(),
            pending=self._pending(simulation),
            preempted=len(preempted),
            violated_pdbs=len(unhealthy) + len(violated_pdbs),
            settled_at=max(round(simulation.timeline.last, 4), 0.0),
            settled=simulation.settled,
            node_groups=needs,
            placeholders=reserving if any(reserving) else None,
            workloads=[names.of(workload) for workload in others],
            victims=[
                *map(names.of, sorted(victims.keys() - self._placeholders, key=lambda each: (-victims[each], each)))
            ],
            causes=self._causes(simulation, {each: lost[each] for each in others}),
            not_simulated=left.total() or None,
            unhealthy_pdbs=sorted(unhealthy),
            priority=self._origins[others[0]].priority if others else None,
            interruptions=[each for each in interrupted if each.workload not in reserved],
            rivals=sorted(set[str]().union(*rivals.values()) - reserved),
            equal_victims=sorted(set[str]().union(*equal.values()) - reserved),
            incomplete=is_incomplete(simulation, cut) or None,
        )
        return Tallied(row, [*simulation.storage.not_modelled, *(f"not simulated: {pods}" for pods in (*left, *cut))])

    def _causes(self, simulation: Simulation, lost: Mapping[tuple[str, str], int]) -> Causes | None:
        """Return why these replicas are lost; None if the simulation shows no cause."""
        more, origins = Counter[tuple[str, str]](), simulation.timeline.origins
        for name in touched(simulation):
            more[origins[name].workload] += _is_pending(name, simulation) - (name in self._waiting)
        pending = sum(min(count, max(more[workload], 0)) for workload, count in lost.items())
        failed = [lost[workload] for workload in failures_in(simulation, self._failed) if workload in lost]
        rejected = sum(
            min(lost.get(workload, 0), each.pods) for workload, each in missing(simulation, self._losses.names).items()
        )
        causes = Causes(pending, sum(failed), len(failed), rejected)
        return causes if any(causes) else None

    def _reserves(self, name: str, simulation: Simulation) -> bool:
        return simulation.timeline.origins[name].workload in self._placeholders


def _needs(branch: Branch) -> Needs | None:
    """Return the nodes that Pending Pods need after a simulation; None without node groups."""
    growth = branch.grown()
    if growth is None:
        return None
    reaction, end = growth.reaction, growth.result
    plan, nodes = reaction.node_groups, Counter[str]()
    for scale_up in plan.scale_ups if plan else ():
        nodes.update(dict(scale_up.added))
    nodes.update(arrival.group for arrival in (reaction.node_pools.arrivals if reaction.node_pools else ()))
    not_helped = sum(item.pods for item in plan.no_scale_up) if plan else 0
    needs = Needs(nodes, not_helped, plan is not None and plan.truncated)
    return needs if end is None else needs._replace(fewer=end[0], pending=end[1], back_at=end[2])


def _is_pending(name: str, simulation: Simulation) -> bool:
    namespace, _, own = name.partition("/")
    state = simulation.api.pods.get((namespace, own))
    is_waiting = state is not None and state.active and not state.pod.node_name
    return state is not None and is_waiting and not simulation.scheduler.leaves(state.pod)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, worst first: by `Row.harm`, then by time and name."""
    return sorted(rows, key=lambda row: ([-each for each in row.harm], -int(row.settled_at), row.case))


def from_dict(document: Mapping[str, Any], head: AnswerHead) -> Sweep:
    """Return the sweep from its JSON document. Raises ValueError for other input."""
    try:
        before, without_change = document["before"], document.get("withoutChange")
        if document["version"] != 1 or document["sweep"] not in EVERY:
            raise ValueError("written by another version of forewarn")
        rows, notes = [_row(row) for row in document["rows"]], _read(Sequence[str], document.get("notes", []))
        counts = _read(RunningAndPending, before)
        without_change = None if without_change is None else _row(without_change)
        return Sweep(head, document["sweep"], counts, rows, without_change, notes)
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not the JSON of a sweep: {type(fault).__name__} {fault}") from None


def _row(document: Mapping[str, Any]) -> Row:
    row: Row = _read(Row, document)
    if min(row.others) < 0:
        raise ValueError("a row of a sweep has more placeholder Pods than Pods")
    if (needs := row.node_groups) and needs.back_at is not None and None in (needs.fewer, needs.pending):
        raise ValueError("node groups of a sweep need fewer and pending with backAt")
    return row


def _read(of: Any, value: Any) -> Any:
    """Return a value of this type from its JSON. Raises KeyError, TypeError, AttributeError and ValueError."""
    kinds = get_args(of)
    if NoneType in kinds:
        return _read(kinds[0], value)
    if get_origin(of) is Sequence:
        return [_read(kinds[0], each) for each in _of_type(list, value)]
    if get_origin(of) is Mapping:
        return {str(name): _read(kinds[1], each) for name, each in value.items()}
    if not fields_of(of):
        return _NUMBERS[of](value) if of in _NUMBERS else _of_type(of, value)
    hints = get_type_hints(of)
    given = {each.name: value[each.key] for each in fields_of(of) if each.key in value or not each.optional}
    return of(**{name: _priority(it) if name == "priority" else _read(hints[name], it) for name, it in given.items()})


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError("a row of a sweep must have seconds")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError("counts of a sweep must be whole numbers")
    return value


def _priority(value: Any) -> int:
    _integer(abs(value) if type(value) is int else value)
    return int(value)


def _of_type(of: type, value: Any) -> Any:
    if not isinstance(value, of):
        raise ValueError(f"not the JSON of a sweep: {cut(repr(value), 40)} is not {of.__name__}")
    return value


_NUMBERS: Final[Mapping[type, Callable[[Any], float]]] = {int: _integer, float: _seconds}
"""Type of a number -> the function that reads and checks it in JSON."""
