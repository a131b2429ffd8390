"""Simulate a change of PriorityClasses step by step, in the better of two orders.

If the usual order preempts Pods, new classes get preemptionPolicy Never until the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.cluster.admission import admitted, admitted_group
from forewarn.policies.controllers.deployment import DEFAULT_DEADLINE
from forewarn.policies.documents import Hidden, Inlined, in_json, optional_in_json
from forewarn.policies.findings import described, plural
from forewarn.policies.kinds.registry import JOB
from forewarn.policies.kube_apiserver.priority import Classes
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.priority_class import PREEMPT_NEVER, PriorityClass
from forewarn.policies.simulation.scenario import Arrival
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.simulation.summary import Summary, summarize
from forewarn.policies.whatif.answer import Preemption, PreemptionPod
from forewarn.policies.whatif.class_change import Ranked, is_rolled_out, ranked, workload_key
from forewarn.policies.whatif.class_steps import (
    is_replaced_by_restart,
    needs_restart,
    new_classes,
    steps_of,
)
from forewarn.policies.whatif.comparison import preemptions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.controllers.view import Key, PodState
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.simulation.clock import Steps
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.class_steps import Step, Wanted

_POLL_SECONDS: Final = 5.0
"""Seconds between two checks of a rollout."""
_PAUSE: Final = 30.0
"""Seconds between two steps, so that replacements of preempted Pods can start."""
_MAX_PAUSES: Final = 40
"""Maximum pauses before the first step, because CronJobs create Pods again and again."""
_AFTERWARDS: Final = 660.0
"""Seconds of simulation after the last step, because CronJobs never reach a steady state."""


class StepPreemption(NamedTuple):
    """A preemption in a step."""

    by: PreemptionPod
    victim: PreemptionPod


class SimulatedStep(NamedTuple):
    """A step of a change of PriorityClasses, with its start and end in seconds.

    `newPods`: number of new Pods. `pending`: number of Pending Pods after the step. `unfinished`: workloads whose
    rollout made no progress for 10 minutes.
    """

    step: Inlined[Step]
    started_at: float
    ended_at: float
    new_pods: int
    pending: int
    unfinished: Sequence[str]
    preemptions: Hidden[Sequence[Preemption]] = ()

    @in_json
    def preempted(self) -> list[StepPreemption]:
        return [StepPreemption(p.by_, PreemptionPod(p.victim, p.workload, p.priority)) for p in self.preemptions]


class OtherOrder(NamedTuple):
    """The alternative order of the steps. `neverFirst`: whether new classes of changed workloads first get
    preemptionPolicy Never in this order.
    """

    never_first: bool
    preempted: int
    unfinished: Sequence[str]


class RunningByPriority(NamedTuple):
    """A workload with the number of its running Pods by priority."""

    workload: str
    running: Mapping[int, int]


class Plan(NamedTuple):
    """The simulated steps in order.

    `pendingBefore`: number of Pending Pods before the change. `preemptedBefore`: number of Pods that Pending Pods
    preempt before the first step, in addition to `steps`. `alternative`: the order that was not chosen; null if only
    one order was simulated. `keepPriority`: workloads whose Pods keep another priority, because no step replaces them.
    `rejected`: workloads whose new Pods admission rejects because of the change. `ignored`: objects of the files that
    are neither PriorityClasses nor workloads of the cluster. `notModelled`: what forewarn does not model.
    """

    pending_before: int
    preempted_before: int
    alternative: OtherOrder | None
    steps: Sequence[SimulatedStep]
    keep_priority: Sequence[RunningByPriority]
    rejected: Sequence[RunningByPriority]
    summary: Hidden[Summary]
    ignored: Sequence[str]
    not_modelled: Sequence[str]

    def __repr__(self) -> str:
        state = "complete" if self.complete else "incomplete"
        return described(self, f"{plural(len(self.steps), 'step')}, {plural(self.preempted, 'Pod')} preempted; {state}")

    @in_json
    def preempted(self) -> int:
        """Number of preempted Pods in all steps."""
        return sum(len(step.preemptions) for step in self.steps)

    @in_json
    def complete(self) -> bool:
        """Whether all rollouts finish, and `rejected` is empty."""
        return not self.summary.stopped and not self.rejected and not any(step.unfinished for step in self.steps)

    @in_json
    def settled(self) -> bool:
        """Whether the cluster reached a steady state."""
        return self.summary.settled

    @optional_in_json
    def stopped(self) -> str | None:
        """Why the simulation was stopped before its end."""
        return self.summary.stopped or None

    @in_json
    def violated_pdbs(self) -> Mapping[str, int]:
        """Number of preemptions beyond the allowed disruptions of each PDB, also before the first step."""
        return self.summary.violated_pdbs


def plan(
    cluster: ClusterSnapshot,
    world: World,
    change: Wanted,
    progress: Callable[[float, int], object] | None = None,
) -> Plan:
    """Return the simulated steps of a change, in the better of two orders: complete, if possible, and with fewer
    preempted Pods.

    `world`: the cluster without arrivals. `progress`: called with the simulated seconds and a count during the
    simulation. Raises NotPredicted.
    """
    after = _with_classes(cluster, change.classes)
    affected = [
        workload for workload in ranked(cluster, after, change.workloads) if workload.differs and workload.object
    ]
    result = _simulated(cluster, world, change, affected, progress, careful=False)
    if not result.preempted or not any(c.preemption_policy != PREEMPT_NEVER for c in new_classes(cluster, change)):
        return result
    careful = _simulated(cluster, world, change, affected, progress, careful=True)
    if _badness(careful) < _badness(result):
        return careful._replace(alternative=_alternative(result, never_first=False))
    return result._replace(alternative=_alternative(careful, never_first=True))


def _alternative(plan: Plan, *, never_first: bool) -> OtherOrder:
    return OtherOrder(never_first, plan.preempted, [name for step in plan.steps for name in step.unfinished])


def _badness(plan: Plan) -> tuple[bool, int, int]:
    """Return the sort key of a plan among alternative orders; the best plan has the smallest."""
    return not plan.complete, plan.preempted, sum(step.pending for step in plan.steps[-1:])


def _with_classes(cluster: ClusterSnapshot, classes: Mapping[str, PriorityClass]) -> ClusterSnapshot:
    return replace(cluster, priority_classes=Classes(classes))


def _simulated(
    cluster: ClusterSnapshot,
    world: World,
    change: Wanted,
    affected: Sequence[Ranked],
    progress: Callable[[float, int], object] | None,
    *,
    careful: bool,
) -> Plan:
    simulation = Simulation(world, progress=progress)
    run = _Run(simulation, cluster, [*steps_of(cluster, change, affected, careful=careful)])
    simulation.run()
    summary = summarize(simulation)
    preemptions = preemptions_of(simulation, summary.names)
    starts = [step.started_at for step in run.results]
    steps = [
        step._replace(preemptions=[preemption for preemption in preemptions if step.started_at <= preemption.t < end])
        for step, end in zip(run.results, [*starts[1:], float("inf")], strict=False)
    ]
    jobs = {key for key in change.workloads if key[0] == JOB}
    kept = [
        workload
        for workload in affected
        if workload.after and not is_replaced_by_restart(workload) and workload_key(workload.object) not in jobs
    ]
    return Plan(
        pending_before=run.pending_before,
        preempted_before=sum(preemption.t < starts[0] for preemption in preemptions) if starts else 0,
        alternative=None,
        steps=steps,
        keep_priority=[_running(workload) for workload in kept if needs_restart(workload)],
        rejected=[_running(workload) for workload in affected if workload.after is None],
        summary=summary,
        not_modelled=[*simulation.storage.not_modelled, *sorted(simulation.controllers.unreadable.values())],
        ignored=change.ignored,
    )


def _running(workload: Ranked) -> RunningByPriority:
    return RunningByPriority(workload.workload, dict(sorted(workload.running.items())))


class _Run:
    """Runs the steps of a plan in one simulation, each after the previous one is complete."""

    def __init__(self, simulation: Simulation, cluster: ClusterSnapshot, steps: Sequence[Step]) -> None:
        self._simulation, self._cluster, self._steps = simulation, cluster, steps
        self._classes = dict(cluster.priority_classes)
        self.results: list[SimulatedStep] = []
        self.pending_before = _pending(simulation)
        simulation.awaited += 1
        simulation.clock.at(0.0, lambda: void(simulation.clock.spawn(self._run())))

    def _run(self) -> Steps:
        simulation = self._simulation
        yield from self._settle()
        for step in self._steps:
            started, created = simulation.clock.now, simulation.api.created
            unfinished: list[str] = []
            if step.classes:
                self._change_classes(step)
            for workload in step.objects:
                yield from self._roll_out(workload, unfinished)
            ended = simulation.clock.now
            yield _PAUSE
            new = simulation.api.created - created
            self.results.append(SimulatedStep(step, started, ended, new, _pending(simulation), unfinished))
        simulation.awaited -= 1
        simulation.end_within(_AFTERWARDS)

    def _settle(self) -> Steps:
        """Wait for the preemptions of Pods that are Pending before the change: they do not count for the first step."""
        simulation = self._simulation
        for _ in range(_MAX_PAUSES if self.pending_before else 0):
            if simulation.clock.now > max(simulation.timeline.last, 0.0) + simulation.world.quiet:
                return
            yield _PAUSE

    def _change_classes(self, step: Step) -> None:
        for class_ in step.classes:
            if step.action == "delete":
                self._classes.pop(class_.name, None)
            else:
                self._classes[class_.name] = class_
        now = _with_classes(self._cluster, self._classes)
        self._simulation.admit_by(lambda obj: admitted(obj, now), lambda obj: admitted_group(obj, now))

    def _roll_out(self, workload: ApiObject, unfinished: list[str]) -> Steps:
        """Roll out a workload, or recreate a Job, and wait until no old Pod is left and all new Pods are ready; yield
        the seconds to wait.

        Adds the workload's name to `unfinished` if the rollout makes no progress.
        """
        api, clock, key = self._simulation.api, self._simulation.clock, workload_key(workload)
        stored = api.workloads.get(key)
        if stored is None:
            return
        old = {state.pod.uid for state in self._pods_of(key)}
        if group_kind(workload) == JOB:
            self._simulation.add([Arrival(clock.now, "delete", stored.object), Arrival(clock.now, "create", workload)])
        else:
            api.put_workload(replace(stored, object=workload))
            if not is_rolled_out(workload):
                return
        left, progressed = len(old) + 1, clock.now
        while left:
            yield _POLL_SECONDS
            now = sum(state.pod.uid in old or state.ready is None for state in self._pods_of(key))
            progressed = clock.now if now != left else progressed
            left = now
            if clock.now - progressed >= DEFAULT_DEADLINE:
                unfinished.append("/".join(key[1:]))
                return

    def _pods_of(self, key: Key) -> list[PodState]:
        api = self._simulation.api
        controllers = (key, *(owned.key for owned in api.owned(key)))
        states = (state for controller in controllers for state in api.by_controller.get(controller, {}).values())
        return [state for state in states if not state.pod.terminal]


def void(_: object) -> None:
    """Discard a value, so that a callback without a result can be a lambda."""


def _pending(simulation: Simulation) -> int:
    pods = (state.pod for state in simulation.api.pods.values() if state.active)
    return sum(not (pod.node_name or simulation.scheduler.leaves(pod)) for pod in pods)
