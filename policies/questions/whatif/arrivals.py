"""Nodes arrive: the rounds of autoscalers are part of the simulation, and their nodes arrive after a fixed delay.

Preemption does not change: kube-scheduler does not wait for nodes.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from forewarn.policies.base.findings import one_line
from forewarn.policies.base.forks import forked
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import SCAN_INTERVAL
from forewarn.policies.prediction.forecast.impact import NewNodes
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Names, names_in
from forewarn.policies.questions.whatif.answer import WithNewNodes
from forewarn.policies.questions.whatif.autoscalers import (
    Autoscalers,
    PendingPods,
    ScaleUps,
    Scans,
    WorkloadBack,
    WorstMoment,
    autoscalers,
    not_predicted,
    seen_by_cluster_autoscaler,
    waiting_pods,
    with_overhead,
)
from forewarn.policies.questions.whatif.comparison import prepare
from forewarn.policies.questions.whatif.interruptions import RunningPods
from forewarn.policies.questions.whatif.new_nodes import Rounds
from forewarn.policies.questions.whatif.scale_down import Removals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.controllers.view import PodState
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.simulation.api_server import Change
    from forewarn.policies.questions.whatif.answer import Answer, EndState
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling, ScaleDowns
    from forewarn.policies.questions.whatif.comparison import Ended
    from forewarn.policies.questions.whatif.new_nodes import NewNode
    from forewarn.policies.questions.whatif.questions import Question

    Workload = tuple[str, str]

_NEW: Final = 2.0
"""Seconds for which cluster-autoscaler waits for more Pods. Source: unschedulablePodTimeBuffer."""
_IRRELEVANT: Final = ("Workload", "Status", "PodGroup")
"""Kinds of changes that cannot make a Pod need another node."""
_MIN_STEP: Final = 1e-6
"""Minimum seconds of a step of the simulation before the first node arrives."""


class Worst(NamedTuple):
    """The lowest number of running Pods at any time: of all workloads, and of each workload."""

    moment: WorstMoment
    by_workload: Mapping[Workload, int]

    @classmethod
    def from_simulation(cls, simulation: Simulation) -> Worst:
        """Return the lowest numbers of running Pods in a simulation up to the current time."""
        pods = RunningPods(simulation, simulation.timeline.events)
        running, lowest, total = pods.start, Counter(pods.start), pods.start.total()
        worst, at = total, 0.0
        for seconds, workload, change in pods.changes():
            running[workload] += change
            total += change
            if change < 0:
                lowest[workload] = min(lowest[workload], running[workload])
            if total < worst:
                worst, at = total, seconds
        return cls(WorstMoment(worst, at), lowest)


def last_scheduled(simulation: Simulation) -> dict[Workload, float]:
    """Return the time of the last scheduled Pod by workload."""
    events = (event for event in simulation.timeline.events if event.event == "scheduled")
    return {event.origin.workload: event.t for event in events if event.origin is not None}


class ClusterAutoscalerRounds(Rounds):
    """Scans of cluster-autoscaler follow each other every --scan-interval, from this time after the first Pod that
    kube-scheduler marks Unschedulable; with scale-down, from this time after the start at the latest.

    Scans in which nothing has changed are left out. In a cluster, a scan may follow at once; here, it follows a
    scale-up after 10 seconds at the latest. Source: loop/trigger.go.
    """

    autoscaler = "node_groups"

    def __init__(self, simulation: Simulation, autoscaling: Autoscaling, delay: float) -> None:
        self._autoscaling, self._scans = autoscaling, Scans(autoscaling.groups, autoscaling.settings)
        self._groups = {group.name: group for group in autoscaling.groups}
        self._interval = autoscaling.settings.scan_interval
        self._next: float | None = None
        self._seen = set[str]()
        """Identities of the Pods that were Unschedulable at the last scan."""
        self._expected = False
        self._groups_of_new: dict[str, str] = {}
        """New node -> its group."""
        self._removals = Removals(simulation, autoscaling, self._groups_of_new) if autoscaling.removes_nodes else None
        self._has_changed, self._last_scale_up, self._last_scan = True, -inf, -inf
        super().__init__(simulation, delay)

    def deliver(self) -> None:
        """Start to deliver nodes to the simulation, and to remove nodes from it."""
        super().deliver()
        if self._removals is not None:
            clock = self._simulation.clock
            clock.schedule(max(clock.now, 0.0) + self._interval, self._wake)

    def result(self, names: Names, pending: Collection[str]) -> ScaleUps | None:
        """The scale-ups of all scans, and the Pods that they do not help; None without any scan."""
        origins = self._simulation.timeline.origins
        if not self._scans.has_begun:
            return None
        return self._scans.result(lambda pod: names.name_of(origins[pod.key].workload), pending)

    def _handle(self, change: Change) -> None:
        super()._handle(change)
        self._has_changed = self._has_changed or change.new is not change.old
        removes = self._removals is not None and self._delivers and self._next is not None
        if not self._expected and (self._waiting or removes):
            self._trigger("")

    def _matters(self, change: Change) -> bool:
        """Report whether a scan may add nodes after this change: a node or volume changes, a Pod loses its nomination,
        or a Pod that the last scan did not see is bound. Removed Pods only leave more room.
        """
        if change.kind != "Pod":
            return change.kind not in _IRRELEVANT
        if change.new is None or change.old is None:
            return False
        old, new = change.old.pod, change.new.pod
        if old.node_name != new.node_name:
            return new.uid not in self._seen
        return bool(old.nominated_node_name and not new.nominated_node_name)

    def _trigger(self, _: str) -> None:
        """Schedule the next scan, unless it is scheduled already."""
        if self._expected or self._stopped:
            return
        clock, self._expected = self._simulation.clock, True
        late = 1.0 if self._next is None else max(ceil((clock.now - self._next) / self._interval), 0)
        self._next = (clock.now if self._next is None else self._next) + late * self._interval
        clock.schedule(self._next, partial(self._scan, self._next))

    def _scan(self, time: float) -> None:
        self._expected, self._next, self._last_scan = False, time + self._interval, time
        states, api = self._pending(), self._simulation.api
        are_new = bool(states) and all(state.created + _NEW > api.seconds for state in states)
        if states and self._changed and not self._stopped:
            if are_new:
                self._trigger("")
            else:
                self._changed, self._seen = False, {state.pod.uid for state in states}
                arrivals = self._scans.scan(*seen, self._on_their_way()) if (seen := self._seen_in(states))[0] else []
                self._launch((each.group, self._new_node(each.group), each) for each in arrivals)
                if self._scans.has_ended:
                    self.omitted = self._scans.omitted
                    self._give_up(self._scans.not_predicted)
                elif arrivals:
                    self._last_scale_up = self._simulation.clock.now
                    self._next = self._last_scan + self._autoscaling.settings.next_scan
                    self._trigger("")
        if self._removals is not None and self._delivers and not self._removals.not_predicted:
            self._scale_down(self._removals, states, are_new=are_new)

    def _seen_in(self, states: Sequence[PodState]) -> tuple[list[Pod], Snapshot, list[ApiObject]]:
        """Return the Pods that cluster-autoscaler considers, the cluster as it sees it, and the DaemonSets."""
        api, cutoff = self._simulation.api, self._autoscaling.cutoff
        pods, snapshot = seen_by_cluster_autoscaler(
            [state.pod for state in states], self._simulation.cache.snapshot(), cutoff
        )
        return pods, snapshot, [api.workloads[key].object for key in api.keys_of(DAEMON_SET)]

    def _on_their_way(self) -> Counter[str]:
        return Counter(arrival.group for arrival in self._upcoming())

    def _scale_down(self, removals: Removals, states: Sequence[PodState], *, are_new: bool) -> None:
        """Scan for nodes to remove, unless nothing has changed and no relevant time has passed."""
        clock, due = self._simulation.clock, removals.next_scan()
        if self._has_changed or removals.is_limited or (due is not None and clock.now >= due):
            self._has_changed = False
            if self._stopped:
                removals.not_predicted = "further removals (further new nodes are unknown)"
                return
            upcoming = self._on_their_way()
            snapshot = self._scans.packed(*self._seen_in(states), upcoming)
            removals.scan(snapshot, upcoming, self._last_scale_up, paused=are_new)
            due = removals.next_scan()
        if removals.is_limited:
            self._trigger("")
        elif due is not None and self._next is not None:
            time = self._next + max(ceil((due - self._next) / self._interval), 0) * self._interval
            clock.schedule(time, self._wake)
            self._simulation.await_time(time)

    def _wake(self) -> None:
        """Scan now, unless a scan is already scheduled."""
        now = self._simulation.clock.now
        if not self._expected and self._last_scan < now:
            self._scan(now)

    def scale_down(self) -> ScaleDowns | None:
        """The removed nodes; None if scale-down is not simulated."""
        return self._removals.result() if self._removals is not None else None

    def _new_node(self, group: str) -> Node:
        node = self._groups[group].real_node(self._name_of(group))
        self._groups_of_new[node.name] = group
        return node


class Grown(NamedTuple):
    """The result of a simulation with new nodes, and the nodes of all rounds. `reaction`: at its end.

    `omitted`: number of nodes that did not arrive because of a limit. `end`: with the nodes.
    """

    result: Any
    nodes: Sequence[NewNode]
    omitted: int
    reaction: Autoscalers
    end: EndState | None = None


class Branch:
    """Runs a simulation without new nodes, and a fork with new nodes, so that what both have in common is simulated
    once.

    The fork is made when the first node arrives, or at the start if nodes may be removed. `measure`: returns the result
    of the fork. `autoscaling`: what is left to react at the end of the simulation: not the autoscalers whose rounds are
    simulated.
    """

    def __init__(self, question: Question, autoscaling: Autoscaling, measure: Callable[[Simulation], Any]) -> None:
        self._grows = autoscaling if autoscaling.grows and autoscaling.node_delay is not None else None
        self.autoscaling = replace(autoscaling, groups=(), karpenter=None) if self._grows else autoscaling
        self._removes_nodes = self._grows is not None and self._grows.removes_nodes
        self._question, self._measure = question, measure
        self._ran: Simulation | None = None
        self._answer_of: Ended | None = None
        self._rounds: list[Rounds] = []
        self._fork: tuple[int, int] | None = None
        """Process, and pipe of the result."""

    def __enter__(self) -> Self:
        """End the fork at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self._grown_fork()

    def run(self, simulation: Simulation, answer_of: Ended | None = None) -> None:
        """Run a simulation to its end. `answer_of`: returns the answer of the fork. Raises NotPredicted."""
        self._ran, self._rounds, self._answer_of = simulation, self._started(simulation), answer_of
        if self._removes_nodes or (self._rounds and self._runs_to_first_node(simulation)):
            self._fork = forked(lambda result: _send(result, self._grown(simulation, self._rounds, self._question)))
            for rounds in self._rounds:
                rounds.stop()
        simulation.run()

    def _started(self, simulation: Simulation) -> list[Rounds]:
        """Add the autoscalers to a simulation, and return them."""
        found: list[Rounds] = []
        if self._grows is not None and (delay := self._grows.node_delay) is not None:
            if self._grows.groups:
                found.append(ClusterAutoscalerRounds(simulation, self._grows, delay))
            if self._grows.karpenter is not None:
                from forewarn.policies.questions.whatif.karpenter import KarpenterRounds

                found.append(KarpenterRounds(simulation, self._grows.karpenter, delay))
        return found

    def _runs_to_first_node(self, simulation: Simulation) -> bool:
        """Run up to the time at which the first node arrives, or to the end; return whether a node is launched."""
        delay = self._grows.node_delay if self._grows else None
        clock, ended, step = simulation.clock, False, min(max(delay or 0.0, _MIN_STEP), SCAN_INTERVAL)
        while not ended and not any(rounds.launched for rounds in self._rounds):
            ended = simulation.run(max(clock.now, clock.next_time or 0.0) + step)
        launched = [at for rounds in self._rounds for (_, _, at), _ in rounds.launched]
        if launched and not ended:
            simulation.run(min(launched))
        return bool(launched)

    def grown(self) -> Grown | None:
        """Return the end with new nodes, of a new simulation if there is no fork; None if no autoscaler is simulated.

        If no node arrives, its result is None.
        """
        if not self._rounds or self._ran is None:
            return None
        if not self._removes_nodes and not any(rounds.launched for rounds in self._rounds):
            return Grown(None, [], 0, self._reaction(self._ran, self._rounds))
        if (grown := self._grown_fork()) is not None:
            return grown
        question = self._question._replace(upgrade=copy(self._question.upgrade))
        simulation = Simulation(self._ran.world)
        prepare(simulation, question)
        return self._grown(simulation, self._started(simulation), question)

    def _grown_fork(self) -> Grown | None:
        if self._fork is None:
            return None
        (process, result), self._fork = self._fork, None
        try:
            grown: Grown | None = _received(result)
            return grown
        finally:
            os.close(result)
            os.waitpid(process, 0)

    def _grown(self, simulation: Simulation, every: Sequence[Rounds], question: Question) -> Grown:
        """Run a simulation in which nodes arrive to its end."""
        simulation.silence()
        for rounds in every:
            rounds.deliver()
        simulation.run()
        nodes = [node for rounds in every for node, _ in rounds.launched if node[2] <= simulation.clock.now]
        omitted = sum(rounds.omitted for rounds in every)
        end = self._answer_of(simulation, question).after if self._answer_of else None
        return Grown(self._measure(simulation), nodes, omitted, self._reaction(simulation, every), end)

    def _reaction(self, simulation: Simulation, every: Sequence[Rounds]) -> Autoscalers:
        """Return the reaction of autoscalers until the end of a simulation."""
        names, pending = names_in(simulation), {item.pod.key for item in waiting_pods(simulation)}
        helped = {rounds.autoscaler: len(rounds.helped() - pending) for rounds in every}
        total = len(set[str]().union(*(rounds.helped() for rounds in every)) - pending)
        after = PendingPods.from_simulation(simulation, names)
        end = autoscalers(after, self.autoscaling)
        results = {rounds.autoscaler: rounds.result(names, pending) for rounds in every}
        down = next((each for rounds in every if (each := rounds.scale_down()) is not None), None)
        plan, considered = results.get("node_groups"), end.cluster_autoscaler.considered
        if plan is not None:  # `end` also counts Pods that fit in place of Pods below the cutoff
            left = considered - sum(item.pods for item in plan.no_scale_up)
            plan = plan._replace(fit_existing_nodes=min(plan.fit_existing_nodes, max(left, 0)))
            known = plan.scale_ups or considered or plan.not_predicted or plan.truncated
            results["node_groups"] = plan if known else None
        reaction = Autoscalers(
            end.cluster_autoscaler.count_helped(helped.get("node_groups", total), total),
            end.karpenter.count_helped(helped.get("node_pools", total), total),
            **results,
            scale_down=down,
        )
        return with_overhead(reaction, after, self._grows) if self._grows else reaction


def _send(pipe: int, grown: Grown) -> None:
    if grown.end:
        without: dict[str, Any] = {"simulation": None}
        grown = grown._replace(end=grown.end._replace(**without))
    with os.fdopen(os.dup(pipe), "wb") as file:
        pickle.dump(grown, file)


def _received(pipe: int) -> Any:
    """Return the value that `_send` wrote; None if the other process ended. Both processes are this program."""
    # Read one pickle, not to the end of the file: other forks may hold the pipe open.
    with os.fdopen(os.dup(pipe), "rb") as file, suppress(EOFError, pickle.UnpicklingError):
        return pickle.load(file)
    return None


def with_new_nodes(answer: Answer, branch: Branch) -> Answer:
    """Return the answer with the end of the simulation in which the nodes arrive that autoscalers add, if any.

    `branch`: ran the simulation of the event. Raises ValueError.
    """
    grown = branch.grown()
    if grown is None:
        return answer
    removed = grown.reaction.scale_down is not None and grown.reaction.scale_down.removed
    end = grown.end if grown.nodes or removed else None
    arrived = _with_new_nodes(answer.after, grown, end) if end else None
    return answer._replace(with_new_nodes=arrived, autoscalers=grown.reaction)


def _with_new_nodes(after: EndState, grown: Grown, end: EndState) -> WithNewNodes:
    """Return the outcome with new nodes, compared with the outcome without them. `after`: without new nodes. `end`:
    with them.
    """
    nodes, worst, run = grown.nodes, grown.result, end.upgrade
    return WithNewNodes(
        end=end,
        nodes=dict(Counter(group for group, _, _ in nodes)),
        first_node_at=min((at for _, _, at in nodes), default=None),
        worst=worst.moment,
        running=end.running_after,
        lost=end.lost,
        pending=sum(workload.pending for workload in end.workloads),
        steady_at=end.summary.steady_at,
        workloads=list(_rows(after, end, worst)),
        nodes_not_simulated=grown.omitted,
        upgraded=len(run.done) if run else None,
        upgraded_at=run.seconds if run and run.complete else None,
        preempted=len(end.preempted) if run else None,
    )


def _rows(after: EndState, end: EndState, worst: Worst) -> Iterator[WorkloadBack]:
    """Yield the workloads of the outcome without new nodes, and workloads that miss Pods only with new nodes."""
    names, last = end.summary.names, {bound.workload: bound.t for bound in end.bound}
    lowest = {names.name_of(workload): running for workload, running in worst.by_workload.items()}
    without, with_nodes = ({each.workload: each for each in one.workloads} for one in (after, end))
    for name in {**without, **with_nodes}:
        each = without.get(name) or with_nodes[name]
        other = with_nodes.get(name, each._replace(after=each.before, pending=0, message="", failure=""))
        if name not in without and not (each.lost or each.pending):
            continue
        yield WorkloadBack(
            workload=name,
            before=each.before,
            worst=lowest.get(name, 0),
            after=other.after,
            without_new_nodes=each.after if name in without else each.before,
            pending_without_new_nodes=each.pending if name in without else 0,
            pending=other.pending,
            at=None if other.pending or other.failure else last.get(name),
            message=other.failure or other.message,
        )


def added_for(predictions: Sequence[Prediction], cluster: ClusterSnapshot, autoscaling: Autoscaling) -> NewNodes:
    """Return the nodes that autoscalers add for the Pending Pods of sequential predictions."""
    try:
        reaction = autoscalers(PendingPods.from_predictions(predictions, cluster), autoscaling)
    except InvalidObject as fault:
        return NewNodes(0, 0, 0.0, one_line(str(fault)))
    plan, launches = reaction.node_groups, reaction.node_pools
    scale_ups = plan.scale_ups if plan else ()
    nodes, pods = sum(number for each in scale_ups for _, number in each.added), plan.fit_existing_nodes if plan else 0
    pods += plan.pods if plan else 0
    if launches is not None and not launches.not_predicted:
        nodes += len(launches.arrivals)
        pods += reaction.karpenter.considered - launches.not_helped
    first, further = autoscaling.settings.scan_interval, autoscaling.settings.next_scan * max(len(scale_ups) - 1, 0)
    seconds = (autoscaling.node_delay or 0.0) + first + further
    why = "" if nodes else next(not_predicted(reaction), "")
    return NewNodes(nodes, min(pods, reaction.cluster_autoscaler.pending), seconds, why)
