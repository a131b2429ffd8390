"""Nodes arrive: the simulation continues with the nodes that autoscalers add for Pending Pods.

Assumes that a scan of cluster-autoscaler follows SCAN seconds after the first failed scheduling attempt of the Pods
that stay Pending, one scan for each scale-up, and that nodes are ready after a fixed delay. Not simulated: scale-ups
for Pods that are Pending only for a while. Preemption does not change: kube-scheduler does not wait
for nodes. If new Pods are Pending when the nodes are there, for example the next Pods of a StatefulSet,
cluster-autoscaler adds nodes again. The rounds of Karpenter's provisioner are simulated (`KarpenterRounds`).
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from forewarn.policies.findings import one_line
from forewarn.policies.forks import forked
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.rules.support.details import NewNodes
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.simulation.summary import Names, names_in, waiting_in
from forewarn.policies.whatif.answer import WorkloadCount
from forewarn.policies.whatif.autoscalers import (
    SCAN,
    WithNewNodes,
    WorkloadBack,
    WorstMoment,
    after_predictions,
    after_simulation,
    first_failures,
    first_reaction,
    not_predicted,
    waiting_pods,
)
from forewarn.policies.whatif.comparison import count_by_workload
from forewarn.policies.whatif.new_nodes import MAX_NODES, MAX_ROUNDS, arrivals_of, namer

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.scheduling.schedule_one import Prediction
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.answer import Answer
    from forewarn.policies.whatif.autoscalers import Autoscalers, Autoscaling
    from forewarn.policies.whatif.karpenter import KarpenterRounds
    from forewarn.policies.whatif.new_nodes import NewNode
    from forewarn.policies.whatif.questions import Question

    Workload = tuple[str, str]

_REMOVED: Final = ("deleted", "preempted", "succeeded", "gone")
"""The events after which a Pod does not run."""


class Worst(NamedTuple):
    """The lowest number of running Pods at any time: of all workloads, and of each workload."""

    moment: WorstMoment
    by_workload: Mapping[Workload, int]

    @classmethod
    def of(cls, simulation: Simulation) -> Worst:
        """The worst moments of a simulation until now."""
        nodes: dict[str, dict[str, Workload]] = {node.name: {} for node in simulation.world.nodes}
        origins, where = simulation.timeline.origins, dict[str, str]()
        running: Counter[Workload] = Counter()
        for pod in (state.pod for state in simulation.world.pods if not state.terminating):
            if pod.node_name in nodes and not pod.terminal:
                where[pod.key] = pod.node_name
                nodes[pod.node_name][pod.key] = origins[pod.key].workload
                running[origins[pod.key].workload] += 1
        total, lowest = running.total(), Counter(running)
        worst, at = total, 0.0
        for event in simulation.timeline.events:
            lost: Iterable[Workload] = ()
            if event.event == "nodeAdded":
                nodes.setdefault(event.node, {})
            elif event.event == "nodeRemoved":
                lost = nodes.pop(event.node, {}).values()
            elif event.event == "scheduled" and event.node in nodes and event.origin is not None:
                where[event.pod] = event.node
                nodes[event.node][event.pod] = event.origin.workload
                running[event.origin.workload] += 1
                total += 1
            elif event.event in _REMOVED and (node := nodes.get(where.pop(event.pod, ""))) and event.pod in node:
                lost = [node.pop(event.pod)]
            for workload in lost:
                running[workload] -= 1
                total -= 1
                lowest[workload] = min(lowest[workload], running[workload])
            if total < worst:
                worst, at = total, event.t
        return cls(WorstMoment(worst, at), lowest)


class End(NamedTuple):
    """The end of a simulation with new nodes: Pods and the time of the last scheduled Pod by workload.

    `messages`: why Pods are Pending, by displayed workload.
    """

    counts: Mapping[Workload, tuple[int, int]]
    last: Mapping[Workload, float]
    worst: Worst
    messages: Mapping[str, str]
    settled_at: float

    @classmethod
    def of(cls, simulation: Simulation) -> End:
        """The end of a completed simulation."""
        counts = {workload: (each.running, each.pending) for workload, each in count_by_workload(simulation).items()}
        messages = {each.group: each.message for each in waiting_in(simulation, names_in(simulation))}
        last, settled_at = last_scheduled(simulation), max(simulation.timeline.last, 0.0)
        return cls(counts, last, Worst.of(simulation), messages, settled_at)


def last_scheduled(simulation: Simulation) -> dict[Workload, float]:
    """Return the time of the last scheduled Pod by workload."""
    events = (event for event in simulation.timeline.events if event.event == "scheduled")
    return {event.origin.workload: event.t for event in events if event.origin is not None}


class Grown(NamedTuple):
    """The result of a simulation with new nodes, and the nodes of all rounds with the reactions after the first one.

    `omitted`: number of nodes that did not arrive because of a limit. `at_end`: with Karpenter, the reaction at the end
    with the nodes of all its rounds.
    """

    result: Any
    nodes: Sequence[NewNode]
    later: Sequence[Autoscalers]
    omitted: int
    at_end: Autoscalers | None = None


class Branch:
    """Runs a simulation, and continues a fork of it with new nodes, so that what both have in common is simulated once.

    The fork is made at the earliest time at which a node can arrive. `measure`: returns the result of the fork.
    """

    def __init__(self, question: Question, autoscaling: Autoscaling, measure: Callable[[Simulation], Any]) -> None:
        may_grow = autoscaling.grows and question.upgrade is None
        self._delay = autoscaling.node_delay if may_grow else None
        self._karpenter = autoscaling.karpenter if self._delay is not None else None
        self.autoscaling = autoscaling._replace(karpenter=None) if self._karpenter else autoscaling
        """What is left to react at the end of the simulation: not Karpenter, whose rounds are simulated."""
        self._measure = measure
        self._world: World | None = None
        self._ran: Simulation | None = None
        self._rounds: KarpenterRounds | None = None
        self._fork: tuple[int, int, int] | None = None
        """Process, pipe of the result, pipe of the nodes."""

    def __enter__(self) -> Self:
        """End the fork at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self._of_fork(None)

    def run(self, simulation: Simulation) -> None:
        """Run a simulation to its end. Raises NotPredicted."""
        self._world, self._ran = simulation.world, simulation
        self._rounds = self._start_rounds(simulation)
        if self._delay is not None and self._pauses(simulation, self._delay):
            nodes, nodes_of_fork = os.pipe()
            started = forked(lambda result: self._continue(simulation, nodes, result))
            os.close(nodes)
            if started is None:
                os.close(nodes_of_fork)
            else:
                self._fork = (*started, nodes_of_fork)
        if self._rounds is not None and self._rounds.launched:
            self._rounds.stop()
        simulation.run()

    def _start_rounds(self, simulation: Simulation) -> KarpenterRounds | None:
        if self._karpenter is None or self._delay is None:
            return None
        from forewarn.policies.whatif.karpenter import KarpenterRounds

        return KarpenterRounds(simulation, self._karpenter, self._delay)

    def _pauses(self, simulation: Simulation, delay: float) -> bool:
        if self._rounds is not None and not self.autoscaling.groups:
            return self._rounds.run_to_first_node()
        if self._rounds is None:
            return _pauses(simulation, SCAN, SCAN + delay)
        lead = self._rounds.lead  # Karpenter's nodes may be the first
        return _pauses(simulation, min(lead, SCAN), lead)

    def _continue(self, simulation: Simulation, nodes: int, result: int) -> None:
        added = _received(nodes)
        if added is not None:
            simulation.silence()
            _send(result, self._grown(simulation, self._rounds, added))

    def with_nodes(self, nodes: Sequence[NewNode]) -> Grown | None:
        """Return the result with these nodes of cluster-autoscaler and those of Karpenter, of a new simulation if there
        is no fork; None without nodes.
        """
        nodes, omitted = nodes[:MAX_NODES], len(nodes[MAX_NODES:])
        is_alone = not nodes and self._fork is None and not (self._rounds and self._rounds.launched)
        grown = None if is_alone else self._of_fork(nodes)
        if grown is None and self._world is not None and not is_alone:
            simulation = Simulation(self._world)
            grown = self._grown(simulation, self._start_rounds(simulation), nodes)
        return grown and grown._replace(omitted=max(grown.omitted, omitted))  # a further round asks for them again

    def _of_fork(self, nodes: Sequence[NewNode] | None) -> Grown | None:
        if self._fork is None:
            return None
        (process, result, pipe), self._fork = self._fork, None
        try:
            with suppress(OSError):
                _send(pipe, nodes and list(nodes))
            os.close(pipe)
            grown: Grown | None = _received(result)
            return grown
        finally:
            os.close(result)
            os.waitpid(process, 0)

    def _grown(self, simulation: Simulation, rounds: KarpenterRounds | None, nodes: Sequence[NewNode]) -> Grown:
        """Run a simulation in which these nodes arrive to its end, with the nodes of further rounds."""
        simulation.add(arrivals_of(nodes))
        if rounds is not None:
            rounds.deliver()
        added, last, omitted, hopeless = [*nodes], nodes[-1][2] if nodes else 0.0, 0, set[str]()
        later: list[Autoscalers] = []
        while nodes and _next_failure(simulation, last, hopeless):
            autoscaling = self.autoscaling.after_growth(Counter(group for group, _, _ in added))
            reaction = after_simulation(simulation, autoscaling, names_in(simulation))
            hopeless.update(_unschedulable(simulation))
            more = arriving(simulation, reaction, autoscaling, last)
            if len(later) == MAX_ROUNDS or len(added) + len(more) > MAX_NODES:
                omitted = len(more)
                later.append(reaction.cut_short())
                break
            later.append(reaction)  # even without nodes it has the reasons
            if more:
                simulation.add(arrivals_of(more))
                added += more
                last = more[-1][2]
        simulation.run()
        if rounds is None:
            return Grown(self._measure(simulation), added, later, omitted)
        names = names_in(simulation)
        added += [node for node, _ in rounds.launched]
        end = after_simulation(simulation, self.autoscaling._replace(groups=()), names).after(rounds.helped())
        at_end = end._replace(node_pools=rounds.result(names))
        return Grown(self._measure(simulation), added, later, omitted + rounds.omitted, at_end)

    def after(self, simulation: Simulation, reaction: Autoscalers, grown: Grown | None) -> Autoscalers:
        """Return the reaction with the nodes of all rounds. `reaction`: at the end of this simulation, without them."""
        with_later = reaction.followed_by(grown.later) if grown else reaction
        if grown is not None and grown.at_end is not None:
            end = grown.at_end
            return end._replace(
                cluster_autoscaler=with_later.cluster_autoscaler if self.autoscaling.groups else end.cluster_autoscaler,
                node_groups=with_later.node_groups,
            )
        if self._rounds is None or not reaction.karpenter.considered:
            return with_later
        if simulation is not self._ran:  # another of several runs, without rounds
            alone = self.autoscaling._replace(karpenter=self._karpenter, groups=())
            return with_later._replace(node_pools=after_simulation(simulation, alone, names_in(simulation)).node_pools)
        return with_later._replace(node_pools=self._rounds.result(names_in(simulation)))


def _next_failure(simulation: Simulation, since: float, known: Container[str]) -> bool:
    """Run up to the scan after kube-scheduler finds no node for a Pod that is not known, or to the end; return whether
    there is such a Pod. `since`: the time of the first scan.
    """
    ended, time = simulation.run(since), since
    while not ended:
        time = max(time, simulation.clock.next_time or 0.0) + SCAN
        ended = simulation.run(time)
        if any(uid not in known for uid in _unschedulable(simulation)):
            return True
    return False


def _unschedulable(simulation: Simulation) -> Iterator[str]:
    """Yield the UIDs of Pods for which autoscalers may add nodes."""
    for item in waiting_pods(simulation):
        if item.tried and not item.pod.nominated_node_name:
            yield item.pod.uid


def _pauses(simulation: Simulation, step: float, lead: float) -> bool:
    """Run up to the earliest time at which a node can arrive, `lead` seconds after a Pod becomes unschedulable, or to
    the end; false if no Pod does. `step`: at most `lead`.
    """
    events, seen, ended, time = simulation.timeline.events, 0, False, step
    while not ended:
        ended = simulation.run(time)
        for event in islice(events, seen, None):
            if event.event == "unschedulable":
                if not ended:
                    simulation.run(event.t + lead)
                return True
        seen, time = len(events), max(time, simulation.clock.next_time or 0.0) + step
    return False


def _send(pipe: int, value: Any) -> None:
    data = pickle.dumps(value)
    with os.fdopen(os.dup(pipe), "wb") as file:
        file.write(len(data).to_bytes(8, "big") + data)


def _received(pipe: int) -> Any:
    """Return the value that `_send` wrote; None if the other process ended. Both processes are this program."""
    with os.fdopen(os.dup(pipe), "rb") as file:
        size = int.from_bytes(file.read(8), "big")  # other forks may hold the pipe open: there is no end of file
        data = file.read(size)
    return pickle.loads(data) if size and len(data) == size else None


def arriving(
    simulation: Simulation, reaction: Autoscalers, autoscaling: Autoscaling, since: float = 0.0
) -> list[NewNode]:
    """Return the nodes that cluster-autoscaler adds after a simulation, by time. `since`: when the nodes of the last
    round have arrived.
    """
    delay = autoscaling.node_delay
    if delay is None:
        return []
    first, names = min(first_failures(simulation, since).values(), default=since), namer(simulation.api.nodes)
    return sorted(_new_nodes(reaction, autoscaling, first + delay, names), key=lambda each: each[2])


def with_new_nodes(answer: Answer, autoscaling: Autoscaling, branch: Branch) -> Answer:
    """Return the answer with the end of the simulation in which the nodes arrive that autoscalers add, if any.

    `autoscaling`: after the loss of the question. `branch`: ran the simulation of the event. Raises ValueError.
    """
    if answer.upgrade is not None:
        return answer
    grown = branch.with_nodes(arriving(answer.simulation, answer.autoscalers, autoscaling))
    reaction = branch.after(answer.simulation, answer.autoscalers, grown)
    arrived = _with_new_nodes(answer, grown) if grown and grown.nodes else None
    return answer._replace(with_new_nodes=arrived, autoscalers=reaction)


def _with_new_nodes(answer: Answer, grown: Grown) -> WithNewNodes:
    nodes, end = grown.nodes, grown.result
    milli_cpu = Counter[str]()
    for group, node, _ in nodes:
        milli_cpu[group] += node.allocatable.milli_cpu
    rows = list(_rows(answer, end))
    return WithNewNodes(
        nodes=dict(Counter(group for group, _, _ in nodes)),
        milli_cpu=milli_cpu.total(),
        milli_cpu_by_group=milli_cpu,
        first_node_at=min(at for _, _, at in nodes),
        worst=end.worst.moment,
        running=sum(running for running, _ in end.counts.values()),
        fewer=sum(missed for _, missed in rows),
        pending=sum(pending for _, pending in end.counts.values()),
        settled_at=end.settled_at,
        workloads=[back for back, _ in rows],
        nodes_not_simulated=grown.omitted,
    )


def _rows(answer: Answer, end: End) -> Iterator[tuple[WorkloadBack, int]]:
    """Yield the workloads of the answer, and those that miss Pods only with new nodes, with their missed replicas."""
    names = answer.summary.names
    workloads = {names.of(workload): workload for workload in {**end.worst.by_workload, **end.counts}}
    for standing in (*answer.workloads, *_only_with_nodes(answer, end)):
        workload = workloads.get(standing.workload, ("", standing.workload))
        running, pending = end.counts.get(workload, (0, 0))
        back = WorkloadBack(
            workload=standing.workload,
            before=standing.before,
            worst=end.worst.by_workload.get(workload, 0),
            after=running,
            without_new_nodes=standing.after,
            pending=pending,
            at=None if pending else end.last.get(workload),
            message=end.messages.get(standing.workload, "") if pending else "",
        )
        yield back, standing._replace(after=running, pending=pending).missed


def _only_with_nodes(answer: Answer, end: End) -> Iterator[WorkloadCount]:
    found = {standing.workload for standing in answer.workloads}
    for workload, count in count_by_workload(answer.simulation).items():
        name, (running, pending) = answer.summary.names.of(workload), end.counts.get(workload, (0, 0))
        if name not in found and (running < count.running or pending):
            about = count.origin.namespace, count.origin.priority_class, count.origin.priority
            yield WorkloadCount(name, *about, count.running, count.running, 0, 0, "")


def after_growth(simulation: Simulation, autoscaling: Autoscaling, branch: Branch) -> tuple[Autoscalers, Any] | None:
    """Return the autoscalers' reaction after a simulation, and the result of the branch with their nodes, which is None
    if no node arrives; None without node groups. Raises InvalidObject.
    """
    if not autoscaling.grows:
        return None
    reaction = first_reaction(simulation, branch.autoscaling, Names())  # callers only count
    grown = branch.with_nodes(arriving(simulation, reaction, autoscaling))
    return branch.after(simulation, reaction, grown), grown.result if grown and grown.nodes else None


def added_for(predictions: Sequence[Prediction], cluster: ClusterSnapshot, autoscaling: Autoscaling) -> NewNodes:
    """Return the nodes that autoscalers add for the Pending Pods of sequential predictions."""
    try:
        reaction = after_predictions(predictions, cluster, autoscaling)
    except InvalidObject as fault:
        return NewNodes(0, 0, 0.0, one_line(str(fault)))
    plan, launches = reaction.node_groups, reaction.node_pools
    scale_ups = plan.scale_ups if plan else ()
    nodes, pods = sum(number for each in scale_ups for _, number in each.added), plan.fit_existing_nodes if plan else 0
    pods += sum(each.pods for each in scale_ups)
    if launches is not None and not launches.not_predicted:
        nodes += len(launches.arrivals)
        pods += reaction.karpenter.considered - launches.left
    seconds = (autoscaling.node_delay or 0.0) + SCAN * max(len(scale_ups), 1)
    why = "" if nodes else next(not_predicted(reaction), "")
    return NewNodes(nodes, min(pods, reaction.cluster_autoscaler.pending), seconds, why)


def _new_nodes(
    reaction: Autoscalers, autoscaling: Autoscaling, ready: float, name_of: Callable[[str], str]
) -> Iterator[NewNode]:
    """Yield the nodes that cluster-autoscaler adds, those of one scan after those of the scan before."""
    plan, groups = reaction.node_groups, {group.name: group for group in autoscaling.groups}
    for scan, scale_up in enumerate(plan.scale_ups if plan else (), 1):
        for group, number in scale_up.added:
            for _ in range(number):
                yield group, groups[group].real_node(name_of(group)), ready + scan * SCAN
