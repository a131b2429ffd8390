"""The effects of many losses, and risks of workloads: the cluster is loaded once, each loss is simulated in a fork.

Loading a cluster of 150,000 Pods takes longer than the simulation of one lost node. A fork has the complete state
immediately, and changes stay in the fork, so each result equals a separate simulation. The events before a loss, and
the first syncs of controllers, happen before the forks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from forewarn.policies.application.cluster import Cluster, Progress, autoscaling_for, counted_results
from forewarn.policies.application.simulated import DEFAULT_UNTIL, world_with
from forewarn.policies.cluster.answer_head import head_of
from forewarn.policies.findings import quote
from forewarn.policies.kinds.registry import NODE, POD
from forewarn.policies.objects.fields import InvalidInput, check_numbers
from forewarn.policies.process_pool import mapped
from forewarn.policies.rules.support.names import suggested
from forewarn.policies.scheduling.bulk import prepare_for_all
from forewarn.policies.scheduling.caveats import assumptions
from forewarn.policies.simulation.dump import not_simulated, unknown_owners
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.whatif.comparison import at_rest, placeholder_workloads
from forewarn.policies.whatif.questions import (
    Question,
    each_node_lost,
    each_zone_lost,
    namespace_not_found,
    nothing_to_lose,
)
from forewarn.policies.whatif.risk import Risks, Tried, risks
from forewarn.policies.whatif.sweep import RunningAndPending, Sweep, Tally, row_of, worst_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.autoscalers import Autoscaling

    Kind = Literal["node", "zone"]


class Counting(Protocol):
    """Measures a simulation; created from a simulation of the same cluster before it runs."""

    def of(self, simulation: Simulation, question: Question) -> dict[str, Any]:
        """Run the simulation of the question, and return the measured values as JSON data."""


def counted(
    world: World,
    asked: Sequence[Question],
    counting: Callable[[Simulation], Counting],
    report: Callable[..., None] | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield the values of `counting` after the simulation of each question, in order.

    `world`: the cluster without arrivals. Runs one simulation per core at a time. `report`: called now and then.
    """
    if not asked:
        return
    simulation = Simulation(world)
    losses = counting(simulation)
    simulation.begin()
    ahead = at_rest(world) and all(map(_is_loss, asked)) and _would_be_quiet(simulation, report)
    if ahead:
        simulation.run_first_syncs()
    if report is not None:
        report()
    prepare_for_all(simulation.cache.snapshot())  # which those after a loss go on from

    def in_shared_simulation(question: Question) -> Mapping[str, Any]:
        simulation.expect(question.arrivals)
        values = losses.of(simulation, question)
        if ahead and not simulation.is_as_if_new:
            raise ValueError("a new simulation has to tell")
        return values

    def in_new_simulation(question: Question) -> Mapping[str, Any]:
        return losses.of(Simulation(world._replace(arrivals=question.arrivals), progress=report), question)

    yield from mapped(asked, in_shared_simulation, in_new_simulation, report)


def _is_loss(question: Question) -> bool:
    return all(arrival.op == "lost" for arrival in question.arrivals)


def _would_be_quiet(simulation: Simulation, report: Callable[..., None] | None) -> bool:
    """Report whether the first syncs of controllers cause no events; tested in a fork, because events cannot be
    undone.
    """
    (quiet,) = mapped([simulation], Simulation.run_first_syncs, lambda _: False, report)
    return bool(quiet)


_NOTHING: Final = "nothing"
"""The name of the question about the outcome without a change."""
_MAX_NOTES: Final = 10


def whatif_each(
    cluster: Cluster,
    kind: Kind,
    *,
    until: float = DEFAULT_UNTIL,
    autoscaling: Autoscaling | None = None,
    part: Callable[[Sequence[str]], Sequence[str]] = lambda names: names,
    progress: Progress | None = None,
) -> Sweep:
    """Simulate the loss of each node or each zone separately, on all CPUs; the worst case is the first row.

    `until`: simulated seconds. `autoscaling`: settings of autoscalers (default: those of the cluster). `part`: selects
    cases by name, to save time. Raises SourceError, InvalidInput, and InvalidObject for a cluster without cases.
    """
    autoscaling = autoscaling_for(cluster, autoscaling)
    cluster.require(NODE, POD, has_groups=bool(autoscaling.groups))
    cache = cluster.cache
    questions = _losses(cluster, kind)
    if not questions:
        raise nothing_to_lose(kind)
    names, tallies, world = part([*questions]), list[Tally](), world_with(cache, [], until)

    def counting(simulation: Simulation) -> Tally:
        pods = cluster.snapshot.pods.values()
        tallies.append(Tally(simulation, autoscaling, placeholder_workloads(simulation, pods, cluster.config.options)))
        return tallies[0]

    asked, unchanged = [Question(_NOTHING), *(questions[name] for name in names)], list["Mapping[str, Any]"]()

    def results(report: Callable[..., None]) -> Iterator[Mapping[str, Any]]:
        values = counted(world, asked, counting, report)
        unchanged.append(next(values))
        yield from values

    counts = list(counted_results(results, len(names), progress))
    without_change = row_of(_NOTHING, unchanged[0])
    rows = worst_first(row_of(name, tallied) for name, tallied in zip(names, counts, strict=True))
    limits = list(dict.fromkeys(note for tallied in counts for note in tallied["not_modelled"]))[:_MAX_NOTES]
    nothing_else = at_rest(world) and not (without_change.fewer or without_change.preempted or without_change.pending)
    snapshot, victims = cache.snapshot(), any(row.preempted or row.violated_pdbs for row in rows)
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    assumed = assumptions(snapshot.objects, running, victims=victims, created=True)
    head = head_of(snapshot, (*assumed, *autoscaling.assumes))
    (tally,) = tallies
    before, without = RunningAndPending(tally.running, tally.pending), None if nothing_else else without_change
    return Sweep(head, kind, before, rows, without, [*not_simulated(cache), *limits])


def names_of(cluster: Cluster, kind: Kind) -> list[str]:
    """The names of all cases, for example `node a-1`."""
    return [*_losses(cluster, kind)]


def _losses(cluster: Cluster, kind: Kind) -> dict[str, Question]:
    loss = {"node": each_node_lost, "zone": each_zone_lost}.get(kind)
    if loss is None:
        raise InvalidInput(f"{quote(kind)}: not a kind of cases; known: node, zone")
    return {question.title: question for question in loss(cluster.snapshot)}


@dataclass(frozen=True)
class Workloads:
    """The workloads of a namespace and of a PriorityClass. None: all. `priority_class`: "" for Pods without a class."""

    namespace: str | None = None
    priority_class: str | None = None

    def __str__(self) -> str:
        """A phrase, for example ` of class gold in namespace shop`."""
        name = self.priority_class
        of_class = "" if name is None else f" of class {name}" if name else " without a class"
        return of_class if self.namespace is None else f"{of_class} in namespace {self.namespace}"

    def has(self, namespace: str, priority_class: str) -> bool:
        """Report whether a workload is one of these."""
        return self.namespace in (None, namespace) and self.priority_class in (None, priority_class)

    def require(self, cluster: ClusterSnapshot) -> None:
        """Raise InvalidInput for an unknown namespace or class."""
        unknown = namespace_not_found(cluster, self.namespace) if self.namespace is not None else ""
        if (name := self.priority_class) and name not in cluster.priority_classes:
            unknown += f"; PriorityClass {quote(name)} not found{suggested(name, cluster.priority_classes)}"
        if unknown:
            raise InvalidInput(unknown.removeprefix("; "))


_ALL: Final = Workloads()


def risk(
    cluster: Cluster,
    workloads: Workloads = _ALL,
    *,
    most: int = 100,
    until: float = DEFAULT_UNTIL,
    autoscaling: Autoscaling | None = None,
    progress: Progress | None = None,
) -> Risks:
    """List for each workload the PriorityClasses that can preempt it, and the zones and nodes whose loss costs
    replicas.

    `most`: maximum number of simulated zones, and of nodes. `until`: simulated seconds. `autoscaling`: settings of
    autoscalers (default: those of the cluster). Raises SourceError, and InvalidInput for unknown names.
    """
    check_numbers(0, most=most)
    autoscaling = autoscaling_for(cluster, autoscaling)

    def lose(world: World, questions: Sequence[Question]) -> Iterator[Mapping[str, Any]]:
        tried = partial(Tried, autoscaling=autoscaling)
        return counted_results(partial(counted, world, questions, tried), len(questions), progress)

    cluster.require(NODE, POD)
    snapshot = cluster.snapshot
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    if not any(workloads.has(pod.namespace, pod.priority_class_name) for pod in running):
        workloads.require(snapshot)
        most = 0
    options = cluster.config.options
    answer = risks(snapshot, world_with(cluster.cache, [], until), most, lose, options, autoscaling)
    selected = [entry for entry in answer.workloads if workloads.has(entry.namespace, entry.priority_class)]
    head = head_of(snapshot, (*answer.head.assumes, *unknown_owners(cluster.cache)))
    return replace(answer, workloads=selected, head=head)
