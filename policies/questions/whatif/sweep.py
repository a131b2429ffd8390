"""Ask one question for each node or zone of a cluster, and sort the answers by effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from forewarn.policies.base.documents import Hidden, Shard, fields_of, inlined_in_json
from forewarn.policies.base.documents.answer import (
    INCOMPLETE,
    MAX_ROWS,
    NO_EFFECT,
    AnswerDocument,
    AnswerStatus,
    Cell,
    Effects,
    Rows,
    Table,
    counters_of,
)
from forewarn.policies.base.findings import cut, grouped, listed, plural
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Result
from forewarn.policies.kubernetes.scheduling.bulk import prepare_for_all
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import (
    Levels,
    Names,
    count_other_schedulers,
    is_incomplete,
    missing,
    names_in,
    pods_left_out,
)
from forewarn.policies.questions.whatif import EVERY
from forewarn.policies.questions.whatif.answer import rank_of_loss
from forewarn.policies.questions.whatif.arrivals import Branch, Grown, last_scheduled
from forewarn.policies.questions.whatif.autoscalers import Autoscaling, not_predicted
from forewarn.policies.questions.whatif.comparison import (
    MAX_REPEATED,
    count_by_workload,
    failed_jobs,
    failures_in,
    is_at_rest,
    lost_replicas,
    more_pending,
    pdbs_below_desired,
    prepare,
)
from forewarn.policies.questions.whatif.effects import consequences, joined
from forewarn.policies.questions.whatif.interruptions import AtStart, Interruption, interruptions
from forewarn.policies.questions.whatif.races import equal_victims, rivals_by_loser

if TYPE_CHECKING:
    from forewarn.policies.prediction.simulation.scenario import World
    from forewarn.policies.questions.whatif.questions import Question
    from forewarn.policies.questions.whatif.repetition import Counting


def counted(
    world: World,
    asked: Sequence[Question],
    counting: Callable[[Simulation], Counting],
    report: Callable[..., None] | None = None,
) -> Generator[Any]:
    """Yield the values of `counting` after the simulation of each question, in order.

    `world`: the cluster without arrivals. Runs one simulation per core at a time. `report`: called now and then.
    """
    if not asked:
        return
    simulation = Simulation(world)
    losses = counting(simulation)
    simulation.begin()
    loses = all(arrival.op == "lost" for question in asked for arrival in question.arrivals)
    ahead = is_at_rest(world) and loses and _would_be_quiet(simulation, report)
    if ahead:
        simulation.run_first_syncs()
    if report is not None:
        report()
    prepare_for_all(simulation.cache.snapshot())  # the simulations of losses start from it

    def share_simulation(question: Question) -> Any:
        simulation.expect(question.arrivals)
        values = losses.measure(simulation, question)
        if ahead and not simulation.is_as_if_new:
            raise ValueError("a new simulation has to tell")
        return values

    def start_simulation(question: Question) -> Any:
        return losses.measure(Simulation(world._replace(arrivals=question.arrivals), progress=report), question)

    yield from mapped(asked, share_simulation, start_simulation, report)


def _would_be_quiet(simulation: Simulation, report: Callable[..., None] | None) -> bool:
    """Report whether the first syncs of controllers cause no events; tested in a fork, because events cannot be
    undone.
    """
    (quiet,) = mapped([simulation], Simulation.run_first_syncs, lambda _: False, report)
    return bool(quiet)


Workload = tuple[str, str]
"""The `group/Kind` and the `namespace/name` of a workload."""


class AfterNewNodes(NamedTuple):
    """A workload after new nodes have arrived. `replicas`: number of lost replicas that still do not run.

    `backAt`: seconds until its last Pod was scheduled; absent if none was, or no nodes arrive.
    """

    replicas: int
    back_at: float | None = None


class Unfinished(NamedTuple):
    """A simulation that ended before a steady state, `at` seconds. `stopped`: why; empty if time was used up."""

    stopped: str
    at: float


class WorkloadLoss(NamedTuple):
    """The lost replicas of a workload. `rivals`: the workloads that may lose these instead."""

    priority_class: str
    replicas: int
    rivals: Sequence[str]


class Tallied(NamedTuple):
    """The effect of one case. `left_out`: objects that controllers cannot process, and workloads whose Pods are not all
    simulated. `end`: of the simulation, also in a steady state. `later`: the workloads that lose replicas, after new
    nodes have arrived; empty if no autoscaler is simulated.
    """

    row: Row
    not_modelled: Sequence[str]
    left_out: Sequence[str]
    end: Unfinished
    later: Mapping[str, AfterNewNodes]


class _Counted(NamedTuple):
    """The counters at the end of a simulation, the lost replicas by workload, the priorities of the workloads with
    preempted Pods, the interruptions, and the seconds until the last Pod of each workload was scheduled.
    """

    effects: Effects
    lost: Mapping[Workload, int]
    victims: Mapping[Workload, int]
    outages: Sequence[Interruption]
    scheduled_at: Mapping[Workload, float]


class Tally:
    """Counts the differences between the start of a simulation and the end of other simulations of the same cluster."""

    def __init__(
        self, simulation: Simulation, autoscaling: Autoscaling, placeholders: Collection[Workload] = ()
    ) -> None:
        """Count the Pods at the start. `autoscaling`: the settings for nodes that may be added for Pending Pods.
        `placeholders`: workloads of placeholder Pods, which are not counted.
        """
        self._autoscaling, self._placeholders = autoscaling, placeholders
        self._names, self._before = names_in(simulation), count_by_workload(simulation)
        self._pdbs, self._failed = pdbs_below_desired(simulation).keys(), failed_jobs(simulation)
        self._at_start = AtStart(simulation)
        self.running = sum(count.running for count in self._before.values())

    def measure(self, simulation: Simulation, question: Question) -> Tallied:
        """Run the simulation of the question, and return the counts.

        With node groups, raises InvalidObject for a DaemonSet with an invalid template.
        """
        prepare(simulation, question)
        autoscaling = self._autoscaling.after(question.lost)
        with Branch(question, autoscaling, self._counted) as branch:
            branch.run(simulation)
            return self._tallied(simulation, question.title, self._counted(simulation), branch.grown())

    def _counted(self, simulation: Simulation) -> _Counted:
        levels, after = Levels(), count_by_workload(simulation)
        evictions = [found for event in simulation.timeline.events if (found := levels.next(event)) is not None]
        reserving = sum(each.origin.workload in self._placeholders for each in evictions)
        lost, pending = (
            Counter({each: pods for each, pods in counts.items() if each not in self._placeholders})
            for counts in (lost_replicas(simulation, self._before, after), more_pending(self._before, after))
        )
        outages = self._outages(simulation)
        effects = Effects(
            preempted=len(evictions) - reserving,
            pending=pending.total(),
            lost=lost.total(),
            down=len(outages),
            down_seconds=max((each.longest for each in outages), default=0),
            jobs_failed=sum(map(len, failures_in(simulation, self._failed).values())),
            pdbs_violated=len(simulation.scheduler.violated_pdbs.counts),
            pdbs_short=len(pdbs_below_desired(simulation).keys() - self._pdbs),
            placeholders=reserving,
        )
        victims = {each.origin.workload: each.origin.priority for each in evictions}
        return _Counted(effects, lost, victims, outages, last_scheduled(simulation))

    def _outages(self, simulation: Simulation) -> list[Interruption]:
        reserved = {*map(self._names.name_of, self._placeholders)}
        origins = (count.origin for count in self._before.values())
        found = interruptions(simulation, self._names, origins, self._at_start)
        return [each for each in found if each.workload not in reserved]

    def _tallied(self, simulation: Simulation, case: str, counted: _Counted, growth: Grown | None) -> Tallied:
        names, (needs, grown) = self._names, _needs(growth)
        origins = {workload: self._before[workload].origin for workload in counted.lost}
        losers = sorted(origins, key=lambda e: (-origins[e].priority, -counted.lost[e], e))
        victims = counted.victims
        left, reserved = count_other_schedulers(simulation, names), {*map(names.name_of, self._placeholders)}
        rivals, equal = rivals_by_loser(simulation, names, losers), equal_victims(simulation, names)
        cut = pods_left_out(simulation)
        row = Row(
            case=case,
            counters=counted.effects,
            counters_with_new_nodes=grown,
            steady=simulation.steady,
            node_groups=needs,
            workloads=[names.name_of(workload) for workload in losers],
            victims=[
                *map(
                    names.name_of,
                    sorted(victims.keys() - self._placeholders, key=lambda each: (-victims[each], each)),
                )
            ],
            priority=origins[losers[0]].priority if losers else None,
            rejections={each.group: each.pods for each in missing(simulation, names).values()},
            not_simulated=left.total() or None,
            interruptions=counted.outages,
            rivals=sorted(set[str]().union(*rivals.values()) - reserved),
            equal_victims=sorted(set[str]().union(*equal.values()) - reserved),
            incomplete=is_incomplete(simulation, cut) or None,
            lost={
                name: WorkloadLoss(origins[each].priority_class, counted.lost[each], rivals.get(name, ()))
                for each in losers
                for name in (names.name_of(each),)
            },
        )
        return Tallied(
            row,
            [*simulation.storage.not_modelled, *(not_predicted(growth.reaction) if growth else ())],
            [*sorted(map(str, simulation.controllers.unreadable.values())), *map(str, (*left, *cut))],
            Unfinished(simulation.stopped, round(simulation.clock.now, 4)),
            dict(_later(counted, growth, names)) if growth else {},
        )


def _later(counted: _Counted, growth: Grown, names: Names) -> Iterator[tuple[str, AfterNewNodes]]:
    """Yield the workloads that lose replicas, by name, after new nodes have arrived."""
    end: _Counted | None = growth.result
    for workload in {**counted.lost, **(end.lost if end else {})}:
        at = end.scheduled_at.get(workload) if end else None
        left = end.lost.get(workload, 0) if end else counted.lost[workload]
        yield names.name_of(workload), AfterNewNodes(left, None if at is None else round(at, 4))


def _needs(growth: Grown | None) -> tuple[Needs | None, Effects | None]:
    """Return the nodes that Pending Pods need after a simulation, and the counters with them; None without these."""
    if growth is None:
        return None, None
    end: _Counted | None = growth.result
    reaction = growth.reaction
    plan, nodes = reaction.node_groups, reaction.added
    not_helped = sum(item.pods for item in plan.no_scale_up) if plan else 0
    needs = Needs(nodes, not_helped, plan is not None and plan.truncated)
    if end is None:
        return needs, None
    at = round(max(end.scheduled_at.values(), default=0.0), 4)
    return needs._replace(back_at=at), end.effects._replace(new_nodes=nodes.total())


class Needs(NamedTuple):
    """Nodes that autoscalers would add. `nodes`: by node group or NodePool.

    `noScaleUp`: number of Pods that no node group helps. `truncated`: true if the work exceeded its limit, so that the
    numbers are incomplete. `backAt`: seconds until the last Pod was scheduled; absent if no nodes arrive.
    """

    nodes: Mapping[str, int]
    no_scale_up: int
    truncated: bool = False
    back_at: float | None = None


class Row(NamedTuple):
    """The effect of one case.

    - `case`: such as `node a-1`, as arguments of `forewarn whatif lose`. `counters`: as of `forewarn whatif`.
    - `countersWithNewNodes`: those after autoscalers have added nodes; absent if none arrive.
    - `nodeGroups`: the nodes that autoscalers would add; absent if no autoscaler is simulated.
    - `steady`: whether the cluster reached a steady state.
    - `workloads`: the workloads that lose replicas, those of the highest priority first. `victims`: the workloads with
      preempted Pods, likewise. Both without placeholder Pods.
    - `priority`: the highest priority of the lost replicas; absent if there are none.
    - `rejections`: by workload, the Pods that ResourceQuotas reject at the end, even if they did before.
    - `notSimulated`: number of new Pods that another scheduler may bind; absent if there is none.
    - `interruptions`: the workloads that have fewer running Pods for a time.
    - `rivals`: workloads that may lose replicas instead: chance decides which of equal Pods are preempted or stay
      Pending. `equalVictims`: workloads whose Pods may be preempted instead.
    - `incomplete`: true if a limit of the simulation may have changed the result.
    """

    case: str
    counters: Effects
    steady: bool
    counters_with_new_nodes: Effects | None = None
    node_groups: Needs | None = None
    workloads: Sequence[str] = ()
    victims: Sequence[str] = ()
    priority: int | None = None
    rejections: Mapping[str, int] = MappingProxyType({})
    not_simulated: int | None = None
    interruptions: Sequence[Interruption] = ()
    rivals: Sequence[str] = ()
    equal_victims: Sequence[str] = ()
    incomplete: bool | None = None
    lost: Hidden[Mapping[str, WorkloadLoss]] = MappingProxyType({})

    @property
    def name(self) -> str:
        """The name of the node or zone."""
        return self.case.partition(" ")[2]

    @property
    def end(self) -> Effects:
        """The counters, with the nodes of autoscalers if any arrive."""
        return self.counters_with_new_nodes or self.counters

    @property
    def rank(self) -> Sequence[int]:
        """The sort key, larger for a worse case, the most important number first: the highest priority of lost
        replicas, then the counters at the end and without new nodes.
        """
        loss = rank_of_loss(self.counters.lost, self.priority)
        return *loss, *self.end.in_order, *self.counters.in_order, int(not self.steady)

    def without(self, rejections: Mapping[str, int]) -> Row:
        """Return the row without Pods that ResourceQuotas reject anyway."""
        rejected = Counter(self.rejections) - Counter(rejections)
        return self._replace(counters=self.counters._replace(rejected=rejected.total()))


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """The effect of each case, the worst first. `sweep`: `node` or `zone`. `running`: Pods at time 0.

    `withoutChange`: what happens without a loss, unless nothing happens. `notes`: what is not simulated. `shard`: of a
    part of a divided run.
    """

    version: Literal[2] = field(default=2, kw_only=True)
    sweep: str
    running: int
    cases: Sequence[Row]
    without_change: Row | None = None
    notes: Sequence[str] = ()
    shard: Shard | None = None

    @inlined_in_json
    def document(self) -> AnswerDocument:
        harmful = [row for row in self.cases if harms(row, self)]
        worst = harmful[0] if harmful else None
        effects = worst.counters if worst else Effects()
        of_worst = f" ({worst.name})" if worst and len(self.cases) > 1 else ""
        return AnswerDocument(
            status=_status(self, worst),
            question=f"each of {plural(len(self.cases), self.sweep)} lost alone",
            clause=_clause(self, harmful),
            counters=effects,
            shown=counters_of(effects, without=["victims"], preempted=of_worst),
            counters_with_new_nodes=worst.counters_with_new_nodes if worst else None,
            warnings=[*_warnings(self, worst)],
            tables=[*_tables(self, harmful)],
            priority=worst.priority if worst else None,
            more=(f"forewarn whatif lose {worst.case}", "-v every case that does harm") if worst else (),
        )

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of `--fail-on` that a case meets."""
        met = (row.counters.conditions(row.counters_with_new_nodes) for row in self.cases)
        return frozenset[str]().union(*met)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, worst first: by `Row.rank`, then by name."""
    return sorted(rows, key=lambda row: ([-each for each in row.rank], row.case))


def from_dict(document: Mapping[str, Any], head: AnswerHead) -> Sweep:
    """Return the sweep from its JSON document. Raises ValueError for other input."""
    try:
        if document["version"] != 2 or document["sweep"] not in EVERY:
            raise ValueError("written by another version of forewarn")
        rows, notes = _read(Sequence[Row], document["cases"]), _read(Sequence[str], document.get("notes", []))
        alone = document.get("withoutChange")
        without_change = None if alone is None else _read(Row, alone)
        return Sweep(head, document["sweep"], _integer(document["running"]), rows, without_change, notes)
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not the JSON of a sweep: {type(fault).__name__} {fault}") from None


def _read(kind: Any, value: Any) -> Any:
    """Convert a JSON value to the type `kind`. Raises KeyError, TypeError, AttributeError and ValueError."""
    kinds = get_args(kind)
    if NoneType in kinds:
        return _read(kinds[0], value)
    if get_origin(kind) is Sequence:
        return [_read(kinds[0], each) for each in _parse_type(list, value)]
    if get_origin(kind) is Mapping:
        return {str(name): _read(kinds[1], each) for name, each in value.items()}
    if not fields_of(kind):
        return _NUMBERS[kind](value) if kind in _NUMBERS else _parse_type(kind, value)
    hints = get_type_hints(kind)
    given = {each.name: value[each.key] for each in fields_of(kind) if each.key in value or not each.optional}
    return kind(**{name: _priority(it) if name == "priority" else _read(hints[name], it) for name, it in given.items()})


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


def _parse_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"not the JSON of a sweep: {cut(repr(value), 40)} is not {kind.__name__}")
    return value


_NUMBERS: Final[Mapping[type, Callable[[Any], float]]] = {int: _integer, float: _seconds}
"""Type of a number -> the function that reads and checks it in JSON."""


# The answer

_COLUMNS: Final = ("preempted", "pending", "lost", "down", "rejected", "jobs_failed", "pdbs_violated", "pdbs_short")


_ORDER: Final = "WORST FIRST: HIGHEST PRIORITY VALUE OF LOST REPLICAS, THEN MOST LOST"


def _status(sweep: Sweep, worst: Row | None) -> AnswerStatus:
    if any(row.incomplete for row in sweep.cases):
        return AnswerStatus.NO_ANSWER
    if worst:
        return AnswerStatus.HARM
    return AnswerStatus.WARN if any(row.counters.placeholders for row in sweep.cases) else AnswerStatus.OK


def harms(row: Row, sweep: Sweep) -> bool:
    """Report whether a case does more harm than happens without a loss."""
    alone = sweep.without_change
    is_same = alone is not None and (row.rank, row.workloads, row.victims) == (
        alone.rank,
        alone.workloads,
        alone.victims,
    )
    return (row.counters.harm or not row.steady) and not is_same


def _clause(sweep: Sweep, harmful: Sequence[Row]) -> str:
    if any(row.incomplete for row in sweep.cases):
        return INCOMPLETE
    if not harmful:
        return "no more harm than without a loss" if sweep.without_change else NO_EFFECT
    lost = harmful[0].counters.lost
    worst = plural(lost, "replica") + " lost" if lost else next(consequences(harmful[0].counters), "no steady state")
    return f"{len(harmful):,} {'does' if len(harmful) == 1 else 'do'} harm; worst {harmful[0].case}: {worst}"


def _warnings(sweep: Sweep, worst: Row | None) -> Iterator[str]:
    if (alone := sweep.without_change) is not None:
        yield f"without any loss: {joined([*consequences(alone.counters)][:2]) or NO_EFFECT}"
    if by_quota := sum(row.counters.lost == row.counters.rejected > 0 for row in sweep.cases):
        yield f"{plural(by_quota, sweep.sweep)}: ResourceQuotas reject the replacements of all lost replicas"
    if any(not row.steady for row in sweep.cases):
        unsettled = [row.name for row in sweep.cases if not row.steady]
        yield f"no steady state within the simulated time: {plural(len(unsettled), sweep.sweep)}"
    yield from sweep.notes
    if worst and worst.counters.pending and sweep.running <= MAX_REPEATED:
        most = f"`forewarn whatif lose {worst.case}` shows the most frequent of several runs"
        yield f"a row is one run: if chance decides between Pods, {most}, which may differ"


def _tables(sweep: Sweep, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield a row for each case; if there are many, a row for each distinct effect, and with -v each case."""
    table = _table(sweep, rows)
    if is_long := len(rows) > MAX_ROWS:
        alike = grouped((tuple(bool(getattr(row.counters, name)) for name in _COLUMNS), row) for row in rows)
        cells: Rows = [[len(own), own[0].name, *_ranges(own)] for own in alike.values()]
        columns = f"{sweep.sweep.upper()}S", "WORST", *map(_head, ("value", *_COLUMNS))
        yield Table(columns, cells, [len(rows), "total", *[""] * len(columns[2:])])
    yield table._replace(detail=int(is_long))


def _ranges(rows: Sequence[Row]) -> Iterator[Cell]:
    """Yield the highest priority value of these cases, and the least and the highest value of each counter."""
    yield "" if rows[0].priority is None else rows[0].priority
    for name in _COLUMNS:
        least, *others = sorted({getattr(row.counters, name) for row in rows})
        yield f"{least:,} to {others[-1]:,}" if others else least


def _head(name: str) -> str:
    return name.replace("_", " ").upper()


def _table(sweep: Sweep, rows: Sequence[Row]) -> Table:
    has_nodes = any(row.node_groups for row in rows)
    cells: Rows = []
    for row in rows:
        counts = [getattr(row.counters, name) for name in _COLUMNS]
        nodes = (
            [listed([f"{count} of {group}" for group, count in row.node_groups.nodes.items()]) or "none"]
            if row.node_groups
            else [""]
        )
        grown = row.counters_with_new_nodes
        after = [f"{grown.lost:,} lost, {grown.pending:,} Pending" if grown else ""]
        value = "" if row.priority is None else row.priority
        cells.append([row.name, value, *counts, *(nodes + after if has_nodes else [])])
    columns = (
        sweep.sweep.upper(),
        *map(_head, ("value", *_COLUMNS)),
        *(("NEW NODES", "WITH THEM") if has_nodes else ()),
    )
    is_ordered_by_value = any(row.priority is not None for row in rows[1:])
    return Table(columns, cells, title=_ORDER if is_ordered_by_value else "")
