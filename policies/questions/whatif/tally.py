"""Count the effects of one case of a sweep, in a simulation that shares its start with those of other cases."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.base.documents.answer import Effects
from forewarn.policies.prediction.simulation.summary import (
    Levels,
    is_incomplete,
    missing,
    of_other_schedulers,
    pods_left_out,
    touched,
)
from forewarn.policies.questions.whatif.arrivals import Branch
from forewarn.policies.questions.whatif.comparison import Losses, failed_jobs, failures_in, pdbs_below_desired, prepare
from forewarn.policies.questions.whatif.interruptions import AtStart, Interruption, interruptions
from forewarn.policies.questions.whatif.races import equal_victims, rivals_by_loser
from forewarn.policies.questions.whatif.sweep import Needs, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.questions import Question

Workload = tuple[str, str]
"""The `group/Kind` and the `namespace/name` of a workload."""


class Tallied(NamedTuple):
    """The effect of one case, and what the simulation does not contain."""

    row: Row
    not_modelled: Sequence[str]


class _Counted(NamedTuple):
    """The counters at the end of a simulation, the lost replicas by workload, the priorities of the workloads with
    preempted Pods, the interruptions, and the seconds until the last Pod was scheduled.
    """

    effects: Effects
    lost: Mapping[Workload, int]
    victims: Mapping[Workload, int]
    outages: Sequence[Interruption]
    scheduled_at: float


class Tally:
    """Counts the differences between the start of a simulation and the end of other simulations of the same cluster."""

    def __init__(self, simulation: Simulation, autoscaling: Autoscaling, placeholders: set[Workload]) -> None:
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
        self._left_out = _left_out(simulation)
        self.running = self._losses.running

    def measure(self, simulation: Simulation, question: Question) -> Tallied:
        """Run the simulation of the question, and return the counts; visits only objects that have changed.

        With node groups, raises InvalidObject for a DaemonSet with an invalid template.
        """
        prepare(simulation, question)
        autoscaling = self._autoscaling.after(question.lost)
        with Branch(question, autoscaling, self._end) as branch:
            branch.run(simulation)
            return self._row(simulation, question.title, *_needs(branch))

    def _end(self, simulation: Simulation) -> tuple[Effects, float]:
        counted = self._counted(simulation)
        return counted.effects, counted.scheduled_at

    def _counted(self, simulation: Simulation) -> _Counted:
        levels, origins = Levels(), simulation.timeline.origins
        evictions = [found for event in simulation.timeline.events if (found := levels.next(event)) is not None]
        reserving = sum(each.origin.workload in self._placeholders for each in evictions)
        lost, more = self._losses.by_workload(simulation), Counter[Workload]()
        for name in touched(simulation):
            if origins[name].workload not in self._placeholders:
                more[origins[name].workload] += _is_pending(name, simulation) - (name in self._waiting)
        more.update(_left_out(simulation) - self._left_out)
        lost = Counter({each: pods for each, pods in lost.items() if each not in self._placeholders})
        outages = self._outages(simulation)
        effects = Effects(
            preempted=len(evictions) - reserving,
            pending=(+more).total(),
            lost=lost.total(),
            down=len(outages),
            down_seconds=max((each.longest for each in outages), default=0),
            jobs_failed=sum(map(len, failures_in(simulation, self._failed).values())),
            pdbs_violated=len(simulation.scheduler.violated_pdbs.counts),
            pdbs_short=len(pdbs_below_desired(simulation).keys() - self._pdbs),
            placeholders=reserving,
        )
        last = max((event.t for event in simulation.timeline.events if event.event == "scheduled"), default=0.0)
        victims = {each.origin.workload: each.origin.priority for each in evictions}
        return _Counted(effects, lost, victims, outages, round(last, 4))

    def _outages(self, simulation: Simulation) -> list[Interruption]:
        reserved = {*map(self._losses.names.name_of, self._placeholders)}
        found = interruptions(simulation, self._losses.names, self._origins.values(), self._at_start)
        return [each for each in found if each.workload not in reserved]

    def _row(self, simulation: Simulation, case: str, needs: Needs | None, grown: Effects | None) -> Tallied:
        counted, names = self._counted(simulation), self._losses.names
        losers = sorted(counted.lost, key=lambda e: (-self._origins[e].priority, -counted.lost[e], e))
        victims = counted.victims
        left, reserved = of_other_schedulers(simulation, names), {*map(names.name_of, self._placeholders)}
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
            priority=self._origins[losers[0]].priority if losers else None,
            rejections={each.group: each.pods for each in missing(simulation, names).values()},
            not_simulated=left.total() or None,
            interruptions=counted.outages,
            rivals=sorted(set[str]().union(*rivals.values()) - reserved),
            equal_victims=sorted(set[str]().union(*equal.values()) - reserved),
            incomplete=is_incomplete(simulation, cut) or None,
        )
        return Tallied(row, [*simulation.storage.not_modelled, *(f"not simulated: {pods}" for pods in (*left, *cut))])


def _needs(branch: Branch) -> tuple[Needs | None, Effects | None]:
    """Return the nodes that Pending Pods need after a simulation, and the counters with them; None without these."""
    growth = branch.grown()
    if growth is None:
        return None, None
    reaction, end = growth.reaction, growth.result
    plan, nodes = reaction.node_groups, Counter[str]()
    for scale_up in plan.scale_ups if plan else ():
        nodes.update(dict(scale_up.added))
    nodes.update(arrival.group for arrival in (reaction.node_pools.arrivals if reaction.node_pools else ()))
    not_helped = sum(item.pods for item in plan.no_scale_up) if plan else 0
    needs = Needs(nodes, not_helped, plan is not None and plan.truncated)
    if end is None:
        return needs, None
    effects, at = end
    return needs._replace(back_at=at), effects._replace(new_nodes=nodes.total())


def _is_pending(name: str, simulation: Simulation) -> bool:
    namespace, _, own = name.partition("/")
    state = simulation.api.pods.get((namespace, own))
    is_waiting = state is not None and state.active and not state.pod.node_name
    return state is not None and is_waiting and not simulation.scheduler.leaves(state.pod)


def _left_out(simulation: Simulation) -> Counter[Workload]:
    """Return the numbers of Pods beyond the limit that would stay Pending."""
    return Counter({each.key: each.left_out for each in pods_left_out(simulation) if each.pending})
