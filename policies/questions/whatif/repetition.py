"""Repeated runs of a simulation whose outcome depends on chance: on equal nodes and Pods, and on races.

`repeat` measures what chance decides, in clusters of up to MAX_REPEATED. Its result includes what `races` derives from
a single run, which is all that larger clusters and sweeps have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from forewarn.policies.base.documents.answer import Range
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.controllers.view import Key, PodState, controller_of
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.fields import at, mapping
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome, explore, random_of
from forewarn.policies.questions.whatif import comparison
from forewarn.policies.questions.whatif.answer import Answer, Ending, Runs, WithoutChange
from forewarn.policies.questions.whatif.comparison import (
    Start,
    answer_after,
    compared_without,
    outcome_without_change,
    prepare,
)
from forewarn.policies.questions.whatif.effects import effects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from random import Random

    from forewarn.policies.prediction.simulation.scenario import World
    from forewarn.policies.questions.whatif.questions import Question

K = TypeVar("K")

RUNS: Final = 24
"""Number of runs if chance decides between different consequences."""
_ROUNDS: Final = 2
"""Number of rounds in which nodes, workloads and Pods get each other's fields for comparisons."""
_CONTENTION: Final = frozenset({"unschedulable", "preempted", "refused"})
"""Events after which it matters which Pod, node or workload comes first."""


class Counting(Protocol):
    """Measures a simulation; created from a simulation of the same cluster before it runs."""

    def measure(self, simulation: Simulation, question: Question) -> Any:
        """Run the simulation of the question, and return the measured values."""


class Repeated(NamedTuple):
    """The outcomes of several runs, in the order of their frequency. `random`: decides as in the first outcome.
    `without_change`: what happens without the change, as in the first outcome if chance allows it.

    `rivals`, `equal_victims`, `pending`: workloads that lose more replicas, or have more preempted or Pending Pods, in
    other runs than in the first outcome. `alike`: number of runs in which the same happens to each workload.
    """

    outcomes: Sequence[Ending]
    random: Random | None
    without_change: WithoutChange | None
    runs: Runs
    rivals: Sequence[str]
    equal_victims: Sequence[str]
    pending: Sequence[str]
    alike: int

    def is_like_first(self, answer: Answer) -> bool:
        """Report whether an answer has the first outcome: the same counters, and the same for each workload."""
        ending = Ending(Outcome(answer.after.simulation), answer.after.summary, effects_of(answer))
        return _outcome(ending) == _outcome(self.outcomes[0])

    def described(self, answer: Answer) -> Answer:
        """Return the answer of the first outcome, completed with the effects that depend on chance."""
        after, runs = answer.after, self.runs
        rivals = sorted({*after.rivals, *self.rivals})
        victims = sorted({*after.equal_victims, *self.equal_victims})
        differs = runs.alike < runs.total or runs.counters
        pending = [name for name in self.pending if name not in rivals]
        after = after._replace(rivals=rivals, equal_victims=victims, may_stay_pending=pending, has_more_rivals=False)
        return answer._replace(after=after, typical_of=runs if differs else None)


def is_contended(answer: Answer) -> bool:
    """Report whether it matters which Pod, node or workload comes first, because not all Pods fit at once, in a
    simulation that is small enough to be repeated. Upgrades are not repeated.
    """
    simulation = answer.after.simulation
    events = simulation.timeline.events
    size = len(simulation.world.pods) + len(simulation.world.nodes) + len(events)
    return answer.after.upgrade is None and size <= comparison.MAX_REPEATED and has_contention(simulation)


def has_contention(simulation: Simulation) -> bool:
    """Report whether any Pod was unschedulable, preempted or rejected by a quota at some time."""
    return any(event.event in _CONTENTION for event in simulation.timeline.events)


def depends_on_chance(question: Question, world: World) -> bool:
    """Report whether other draws may change the outcome. `world`: from `without_names`."""
    simulation = Simulation(world, random_of(0, 1))
    prepare(simulation, question)
    simulation.run()
    return has_draws(simulation)


def has_draws(simulation: Simulation) -> bool:
    """Report whether kube-scheduler chose between nodes, victims or Pods that differ, or retried a Pod late, or quotas
    chose between workloads.
    """
    scheduler = simulation.scheduler
    rejections = {event.message for event in simulation.timeline.events if event.event == "refused"}
    return bool(scheduler.late or scheduler.algorithm.is_drawn) or len(rejections) > 1


def repeat(
    question: Question,
    world: World,
    runs: int,
    seed: int,
    completed: Callable[[Answer], Answer],
    progress: Callable[[float, int], None] | None = None,
    first: int = 0,
) -> Repeated:
    """Return the outcomes of a simulation that is run several times. `completed`: adds what effects depend on. `first`:
    number of the first run; run 0 has fixed choices, which depend on names.
    """
    starts = dict[Simulation, Start]()

    def begun(random: Random | None) -> Simulation:
        simulation = Simulation(world, random, progress=progress)
        starts[simulation] = Start.from_simulation(simulation, question)
        prepare(simulation, question)
        return simulation

    fixed, answers, endings = outcome_without_change(world), dict[int, Answer](), list[Ending]()
    draws = [] if fixed.is_quiet else [random_of(seed, run) for run in range(first, first + runs)]
    alone = [outcome_without_change(world, random) for random in draws] or [fixed]
    effects = [each.effects for each in alone]
    usual = alone[effects.index(max(effects, key=effects.count))]
    for outcome in explore(begun, runs, seed, first=first):
        answer = answer_after(outcome.simulation, question, starts[outcome.simulation])
        answer = compared_without(answer, question, world, usual)
        same = (answer._replace(without_change=each) for each in alone)
        answers[outcome.run] = completed(next((each for each in same if each.is_as_without), answer))
        endings.append(Ending(outcome, answers[outcome.run].after.summary, effects_of(answers[outcome.run])))
    groups = group_by_frequency(endings)
    return _repeated(groups, answers, seed)


def random_runs(
    asked: Sequence[Question], world: World, counting: Callable[[Simulation], Counting], runs: int = RUNS
) -> Generator[Any]:
    """Yield the values of `counting` in random runs of these questions in turn; none in clusters so large that `whatif`
    shows one run. `world`: the cluster without arrivals.
    """
    if not asked or not comparison.is_repeated(world.pods, world.nodes):
        return

    def run(number: int) -> Any:
        question = asked[number % len(asked)]
        simulation = Simulation(world._replace(arrivals=question.arrivals), random_of(0, number))
        return counting(simulation).measure(simulation, question)

    yield from mapped(range(1, 1 + runs), run)


def without_names(world: World) -> World:
    """Return a world in an order that does not depend on names, because random draws depend on this order.

    Pods are compared with their nodes and workloads, and these with their Pods. Equal Pods are in the order of their
    nodes, and equal workloads in the order of their Pods.
    """
    nodes: Mapping[str, object] = {each.name: (each.allocatable, each.unschedulable) for each in world.nodes}
    workloads: dict[Key | None, object] = {
        state.key: (state.key[0], at(state.object, "spec", "replicas")) for state in world.workloads
    }
    pods: Mapping[str, object] = {state.pod.key: _fields_of(state) for state in world.pods}
    for _ in range(_ROUNDS):
        nodes = _with_parts(nodes, ((state.pod.node_name, pods[state.pod.key]) for state in world.pods))
        workloads = _with_parts(workloads, ((controller_of(state.pod), pods[state.pod.key]) for state in world.pods))
        workloads = _with_parts(workloads, ((state.controller, workloads[state.key]) for state in world.workloads))
        pods = {
            state.pod.key: (
                pods[state.pod.key],
                nodes.get(state.pod.node_name),
                workloads.get(controller_of(state.pod)),
            )
            for state in world.pods
        }
    for state in world.workloads:
        if state.key[0] == DISRUPTION_BUDGET:
            pdb, spec = PodDisruptionBudget.from_api(state.object), mapping(state.object, "spec")
            own = (pods[each.pod.key] for each in world.pods if pdb.matches(each.pod.namespace, each.pod.labels))
            limits = spec.get("minAvailable"), spec.get("maxUnavailable")
            workloads[state.key] = _digest_of((limits, sorted(map(repr, own))))
    in_order = sorted(world.nodes, key=lambda node: repr(nodes[node.name]))
    place = {node.name: number for number, node in enumerate(in_order)}
    own_pods = sorted(
        world.pods,
        key=lambda state: (state.created, repr(pods[state.pod.key]), place.get(state.pod.node_name, -1)),
    )
    parents = {state.key: state.controller for state in world.workloads}
    first_pods: dict[Key, int] = {}
    for number, pod_state in enumerate(own_pods):
        key = controller_of(pod_state.pod)
        while key is not None and key not in first_pods:
            first_pods[key] = number
            key = parents.get(key)
    return world._replace(
        nodes=in_order,
        workloads=sorted(
            world.workloads,
            key=lambda state: (repr(workloads[state.key]), first_pods.get(state.key, len(own_pods))),
        ),
        pods=own_pods,
    )


def _with_parts(kinds: Mapping[K, object], parts: Iterable[tuple[K, object]]) -> dict[K, object]:
    """Add a digest of the fields of Pods or ReplicaSets to the fields of their node or workload."""
    by_key = grouped((key, repr(fields)) for key, fields in parts)
    return {key: _digest_of((fields, sorted(by_key.get(key, ())))) for key, fields in kinds.items()}


def _digest_of(fields: object) -> bytes:
    """Return the same bytes for equal fields."""
    return sha256(repr(fields).encode()).digest()


def _fields_of(state: PodState) -> tuple[object, ...]:
    """Return the fields of a Pod by which it is scheduled or preempted, without names."""
    pod = state.pod
    amounts = pod.occupies.resource
    owner, times = pod.owner_kind, (state.created, pod.start_time or 0, state.ready or 0, state.deleted or 0)
    return pod.effective_priority, amounts.milli_cpu, amounts.memory, owner, times, pod.terminating


def _repeated(groups: Sequence[Sequence[Ending]], answers: Mapping[int, Answer], seed: int) -> Repeated:
    first, endings = groups[0][0], [*chain(*groups)]
    alike = [each for each in endings if _counters(each) == _counters(first)]
    others = [each for each in endings if _counters(each) != _counters(first)]
    runs = Runs(count_runs(endings), count_runs(alike), _longest(alike), _longest(others), _ranges(endings))
    lost = _more_than(first, endings, _lost_by(answers))
    preempted = _more_than(first, endings, lambda each: each.summary.by_workload)
    pending = _more_than(first, endings, lambda each: Counter(each.summary.pending))
    random = random_of(seed, first.outcome.run)
    without = answers[first.outcome.run].without_change
    return Repeated(endings, random, without, runs, lost, preempted, pending, count_runs(groups[0]))


def group_by_frequency(endings: Iterable[Ending]) -> list[list[Ending]]:
    """Return the outcomes grouped by what happens to each workload: first those with the most frequent counters, of
    equally frequent ones the worst; in a group the most frequent outcome first.
    """
    in_order = sorted(endings, key=lambda each: (-each.outcome.count, each.outcome.run))
    of_counters = Counter[object]()
    for each in in_order:
        of_counters[_counters(each)] += each.outcome.count
    alike = grouped((_outcome(ending), ending) for ending in in_order)

    def rank(group: Sequence[Ending]) -> tuple[object, ...]:
        harm = [-each for each in group[0].summary.harm]
        return -of_counters[_counters(group[0])], -count_runs(group), harm

    return sorted(alike.values(), key=rank)


def count_runs(endings: Iterable[Ending]) -> int:
    """Return the number of runs with these outcomes."""
    return sum(ending.outcome.count for ending in endings)


def _outcome(ending: Ending) -> tuple[object, ...]:
    return _counters(ending), ending.summary.effects


def _counters(ending: Ending) -> tuple[object, ...]:
    """Return the counters without exact times: runs with equal ones have the same answer."""
    return ending.counters._replace(down_seconds=0, new_nodes=0, removed_nodes=0), bool(
        ending.outcome.simulation.scheduler.late
    )


def _longest(endings: Iterable[Ending]) -> float:
    return max((each.summary.steady_at for each in endings), default=0.0)


def _ranges(endings: Sequence[Ending]) -> dict[str, Range]:
    """Return the counters that differ between runs, without times."""
    values = {name: [getattr(each.counters, name) for each in endings] for name in endings[0].counters._fields}
    ranges = {name: Range(min(own), max(own)) for name, own in values.items() if name != "down_seconds"}
    return {name: own for name, own in ranges.items() if own.least < own.most}


def _lost_by(answers: Mapping[int, Answer]) -> Callable[[Ending], Counter[str]]:
    return lambda ending: Counter(
        {each.workload: each.lost for each in answers[ending.outcome.run].after.workloads if each.lost}
    )


def _more_than(first: Ending, endings: Iterable[Ending], amounts: Callable[[Ending], Counter[str]]) -> list[str]:
    """Return the workloads with a larger amount in another run than in the first outcome."""
    most = defaultdict[str, int](int)
    for ending in endings:
        for name, number in amounts(ending).items():
            most[name] = max(most[name], number)
    own = amounts(first)
    return sorted(name for name, number in most.items() if number > own[name])
