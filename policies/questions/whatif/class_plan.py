"""Simulate a change of PriorityClasses step by step, in the better of two orders.

Running Pods keep their priority, so a change takes effect Pod by Pod. Workloads whose priority decreases are first,
because their new Pods can preempt fewer Pods than before. The other workloads follow by descending new priority, so
that no workload preempts Pods that will get a higher priority. If the usual order preempts Pods, new classes get
preemptionPolicy Never until the end.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json, optional_in_json
from forewarn.policies.base.findings import described, listed, plural, quote
from forewarn.policies.inputs.manifests.deploy_order import is_recreated
from forewarn.policies.kubernetes.cluster.admission import admitted, admitted_group
from forewarn.policies.kubernetes.controllers.view import Key, PodState, workload_key
from forewarn.policies.kubernetes.kinds.registry import JOB, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.kube_apiserver.priority import Classes, default_priority_class
from forewarn.policies.kubernetes.kube_apiserver.validation.workload import check_workload_update
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidInput, group_kind, ref_of, text
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER, PriorityClass
from forewarn.policies.kubernetes.objects.workload import DEFAULT_DEADLINE, pod_template_of
from forewarn.policies.linting.rules.support.predictions import restarted
from forewarn.policies.prediction.simulation.scenario import Arrival, World
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import names_in
from forewarn.policies.questions.whatif.answer import Answer, Preemption, PreemptionPod
from forewarn.policies.questions.whatif.class_change import (
    Change,
    Ranked,
    changed_class,
    is_replaced_by_restart,
    is_rolled_out,
    ranked,
    with_class,
)
from forewarn.policies.questions.whatif.comparison import Start, answer_after, outcome_without_change, prepare
from forewarn.policies.questions.whatif.questions import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.prediction.simulation.clock import Steps


class Wanted(NamedTuple):
    """The requested change: all PriorityClasses after the change, by name, and the workloads that get another class, by
    key.

    `ignored`: the other objects of the files, which have no effect.
    """

    classes: Mapping[str, PriorityClass]
    workloads: Mapping[Key, ApiObject]
    ignored: Sequence[str] = ()


class WorkloadReference(NamedTuple):
    """A workload. `kind`: `group/Kind`."""

    kind: str
    namespace: str
    name: str


class Step(NamedTuple):
    """One step: PriorityClasses to create, change, recreate or delete, or workloads to roll out one after the other.

    `action`: "default" changes `globalDefault`; "apply" and "restart" roll out workloads; "recreate" is also for Jobs.
    `classes`: the PriorityClasses after the step (for "delete", before the step). `priority`: of the new Pods of
    `workloads`.
    """

    action: Literal["create", "default", "recreate", "delete", "apply", "restart"]
    classes: Sequence[PriorityClass]
    objects: Hidden[Sequence[ApiObject]] = ()
    priority: int | None = None

    @in_json
    def workloads(self) -> list[WorkloadReference]:
        return [WorkloadReference(*workload_key(obj)) for obj in self.objects]


def wanted(
    cluster: ClusterSnapshot, classes: Iterable[PriorityClass], objects: Iterable[ApiObject], deleted: Iterable[str]
) -> Wanted:
    """Return the change that these files (`classes` and `objects`) and the names of `deleted` classes request.

    Raises InvalidInput or InvalidObject if the API server rejects the change.
    """
    after, given = dict(cluster.priority_classes), set[str]()
    for new in classes:
        if new.name in given:
            raise InvalidInput(f"PriorityClass {quote(new.name)} is given twice")
        given.add(new.name)
        if cluster.priority_classes.get(new.name) != new:
            changed_class(cluster, Change(new.name, new.value, new.global_default, new.preemption_policy))
        after[new.name] = new
    defaults = sorted(name for name in given if after[name].global_default)
    if len(defaults) > 1:
        fix = "set globalDefault: false in all but one"
        raise InvalidInput(f"several global defaults: {listed(defaults)}", fix=fix)
    for name, old in cluster.priority_classes.items():
        if defaults and old.global_default and name not in defaults:
            after[name] = after[name]._replace(global_default=False)
    for name in deleted:
        changed_class(cluster, Change(name, delete=True))
        if name in given:
            raise InvalidInput(f"PriorityClass {quote(name)} is in the files and to be deleted")
        after.pop(name, None)
    workloads, ignored = dict[tuple[str, str, str], "ApiObject"](), list[str]()
    for obj in objects:
        ref, kind = ref_of(obj, "default"), group_kind(obj)
        workload = cluster.workloads.get((kind, ref.namespace, ref.name))
        if workload is None:
            ignored.append(str(ref))
        elif (changed := _with_class_of(cluster, workload.object, obj)) is not None:
            workloads[kind, ref.namespace, ref.name] = changed
    return Wanted(after, workloads, ignored)


def _with_class_of(cluster: ClusterSnapshot, old: ApiObject, new: ApiObject) -> ApiObject | None:
    """Return the cluster's workload `old` with the PriorityClass of `new`, its version in a file; None if the
    class is the same; `new` for a Job that a tool deletes and recreates. Raises InvalidObject for other Jobs.
    """
    template = pod_template_of(new, POD_TEMPLATE_PATHS)
    current = pod_template_of(old, POD_TEMPLATE_PATHS)
    name = "" if template is None else text(template.spec, "priorityClassName")
    if current is None or name == text(current.spec, "priorityClassName"):
        return None
    changed = with_class(old, name)
    if group_kind(old) == JOB:
        if is_recreated(new):
            return new
        check_workload_update(changed, old, ref_of(new, "default"), cluster.semantics)
    return changed


def new_classes(cluster: ClusterSnapshot, change: Wanted) -> list[PriorityClass]:
    """Return the PriorityClasses that are created or recreated, sorted by name."""
    kept = {(c.name, c.value, c.preemption_policy) for c in cluster.priority_classes.values()}
    return [c for _, c in sorted(change.classes.items()) if (c.name, c.value, c.preemption_policy) not in kept]


class _Unit(NamedTuple):
    """Steps that change PriorityClasses (or none), and the workloads that get another priority or class after these."""

    steps: Sequence[Step]
    affected: list[Ranked]

    @property
    def sort_key(self) -> tuple[bool, int]:
        """The sort key of a unit: lowered priorities first, then by descending new priority, then changes without
        restarts.
        """
        if not self.affected:
            return True, 0
        return any(map(_is_raised, self.affected)), min(-(2**31) - _value_after(workload) for workload in self.affected)


def steps_of(cluster: ClusterSnapshot, change: Wanted, affected: Sequence[Ranked], *, careful: bool) -> Iterator[Step]:
    """Yield the steps of a change in order.

    `affected`: the workloads with another class or priority. `careful`: new classes get preemptionPolicy Never first,
    and the requested policy at the end.
    """
    old = cluster.priority_classes
    first = {_class_of(workload) for workload in affected} if careful else set[str]()
    new = {
        c.name: c._replace(preemption_policy=PREEMPT_NEVER) if c.name in first else c
        for c in new_classes(cluster, change)
    }
    created = [c._replace(global_default=False) for name, c in new.items() if name not in old]
    if created:
        yield Step("create", created)
    current = {**old, **{c.name: c for c in created}}
    for unit in sorted(_units(cluster, change, affected, new), key=lambda unit: unit.sort_key):
        for step in unit.steps:
            current.update((c.name, _changed(current[c.name], c, step.action)) for c in step.classes)
            yield step._replace(classes=[current[c.name] for c in step.classes])
        yield from _rollouts(unit.affected, change)
    final = [change.classes[name] for name, value in new.items() if value != change.classes[name]]
    if final:
        yield Step("recreate", final)
    deleted = [c for name, c in sorted(old.items()) if name not in change.classes]
    if deleted:
        yield Step("delete", deleted)


def _changed(current: PriorityClass, new: PriorityClass, action: str) -> PriorityClass:
    """Return the PriorityClass after a step.

    The action "default" changes only `globalDefault`; other actions change all other fields.
    """
    if action == "default":
        return current._replace(global_default=new.global_default)
    return new._replace(global_default=current.global_default)


def _units(
    cluster: ClusterSnapshot, change: Wanted, affected: Sequence[Ranked], new: Mapping[str, PriorityClass]
) -> Iterator[_Unit]:
    """The units of a plan. `new`: created and recreated classes."""
    old, left = cluster.priority_classes, [workload for workload in affected if workload.after is not None]
    recreated = {name: Step("recreate", [c]) for name, c in new.items() if name in old}
    if moved := _moved_defaults(change, old, new):
        default = default_priority_class(change.classes.values())
        unit = _default_unit(default.name if default else "", moved, left, recreated, change)
        left = [workload for workload in left if workload not in unit.affected]
        yield unit
    for name, step in recreated.items():
        yield _Unit([step], [workload for workload in left if _class_of(workload) == name])
    left = [workload for workload in left if _class_of(workload) not in recreated]
    for priority in {_value_after(workload) for workload in left}:
        yield _Unit((), [workload for workload in left if _value_after(workload) == priority])


def _default_unit(
    name: str, moved: list[PriorityClass], ranked: Sequence[Ranked], recreated: dict[str, Step], change: Wanted
) -> _Unit:
    """The unit that moves the default to the class `name`; takes the class's step out of `recreated`."""
    first = [recreated.pop(name)] if name in recreated else []
    mine = [
        workload
        for workload in ranked
        if _has_default(workload, name, change) or (first and _class_of(workload) == name)
    ]
    return _Unit([*first, Step("default", moved)], mine)


def _moved_defaults(
    change: Wanted, old: Mapping[str, PriorityClass], new: Mapping[str, PriorityClass]
) -> list[PriorityClass]:
    """The classes, also deleted ones, whose `globalDefault` changes; classes that lose it come first."""
    deleted = [c._replace(global_default=False) for name, c in sorted(old.items()) if name not in change.classes]
    stay = [c for _, c in sorted(change.classes.items())]
    were = {name for name, c in old.items() if c.global_default}
    moved = [new.get(c.name, c) for c in (*stay, *deleted) if c.global_default != (c.name in were)]
    return sorted(moved, key=lambda c: c.global_default)


def _class_of(ranked: Ranked) -> str:
    return ranked.after.priority_class_name if ranked.after else ""


def _has_default(ranked: Ranked, name: str, change: Wanted) -> bool:
    """Return whether the workload's new Pods get the global default class of this name ("" if no class is the
    default).
    """
    template = pod_template_of(change.workloads.get(workload_key(ranked.object), ranked.object), POD_TEMPLATE_PATHS)
    named = text(template.spec, "priorityClassName") if template else ""
    return not named and _class_of(ranked) == name


def _rollouts(affected: Sequence[Ranked], change: Wanted) -> Iterator[Step]:
    """Yield one step for each kind of rollout and new priority: lowered priorities first, then by descending
    priority.
    """
    groups: dict[tuple[bool, int, Literal["restart", "recreate", "apply"]], list[ApiObject]] = {}
    for workload in affected:
        changed = change.workloads.get(workload_key(workload.object))
        if changed is not None or (is_replaced_by_restart(workload.object) and needs_restart(workload)):
            key = _is_raised(workload), -_value_after(workload)
            if changed is None:
                groups.setdefault((*key, "restart"), []).append(restarted(workload.object).object)
            else:
                groups.setdefault((*key, "recreate" if group_kind(changed) == JOB else "apply"), []).append(changed)
    for (_, priority, action), objects in sorted(groups.items(), key=lambda item: item[0]):
        yield Step(action, (), sorted(objects, key=workload_key), -priority)


def _value_after(ranked: Ranked) -> int:
    return ranked.after.priority if ranked.after else 0


def _is_raised(ranked: Ranked) -> bool:
    return _value_after(ranked) > min(ranked.running, default=ranked.before.priority if ranked.before else 0)


def needs_restart(ranked: Ranked) -> bool:
    """Report whether a running Pod of the workload has another priority than its new Pods."""
    return any(value != _value_after(ranked) for value in ranked.running)


_CHANGE: Final = Question("change of PriorityClasses")
_POLL_SECONDS: Final = 5.0
"""Seconds between two checks of a rollout."""
_PAUSE: Final = 30.0
"""Seconds between two steps, so that replacements of preempted Pods can start."""
_MAX_PAUSES: Final = 40
"""Maximum number of pauses before the first step, because CronJobs create Pods again and again."""
_AFTERWARDS: Final = 660.0
"""Seconds of simulation after the last step, because CronJobs never reach a steady state."""


class StepPreemption(NamedTuple):
    """A preemption in a step."""

    by: PreemptionPod
    victim: PreemptionPod


class SimulatedStep(NamedTuple):
    """A step of a change of PriorityClasses, with its start and end in seconds.

    `newPods`: number of new Pods. `pending`: number of Pending Pods after the step. `unfinished`: workloads whose
    rollout made no progress for 10 minutes. `waiting`: the Pending Pods by workload.
    """

    step: Inlined[Step]
    started_at: float
    ended_at: float
    new_pods: int
    pending: int
    unfinished: Sequence[str]
    preemptions: Hidden[Sequence[Preemption]] = ()
    waiting: Hidden[Mapping[str, int]] = MappingProxyType({})

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
    answer: Hidden[Answer]
    """The cluster after the steps, compared with that before the first one."""
    ignored: Sequence[str]
    not_modelled: Sequence[str]
    affected: Hidden[Sequence[Ranked]]

    @property
    def still_named(self) -> dict[str, list[str]]:
        """The deleted PriorityClasses that Pods of unfinished rollouts name -> their workloads."""
        unfinished = {name for step in self.steps for name in step.unfinished}
        old = [(each.before, each.workload) for each in self.affected if each.workload in unfinished]
        deleted = [c.name for each in self.steps if each.step.action == "delete" for c in each.step.classes]
        found = {name: [workload for before, workload in old if before and before[0] == name] for name in deleted}
        return {name: workloads for name, workloads in found.items() if workloads}

    def __repr__(self) -> str:
        state = "complete" if self.complete else "incomplete"
        return described(self, f"{plural(len(self.steps), 'step')}, {plural(self.preempted, 'Pod')} preempted; {state}")

    @in_json
    def preempted(self) -> int:
        """Number of preempted Pods in all steps."""
        return len(self.answer.after.preempted)

    @in_json
    def lost(self) -> Mapping[str, int]:
        """The numbers of replicas that no longer run after the steps, by workload."""
        return {each.workload: each.lost for each in self.answer.after.workloads if each.lost}

    @in_json
    def complete(self) -> bool:
        """Whether all rollouts finish, and `rejected` is empty."""
        return (
            not self.answer.after.summary.stopped
            and not self.rejected
            and not any(step.unfinished for step in self.steps)
        )

    @in_json
    def steady(self) -> bool:
        """Whether the cluster reached a steady state."""
        return self.answer.after.summary.steady

    @optional_in_json
    def stopped(self) -> str | None:
        """Why the simulation was stopped before its end."""
        return self.answer.after.summary.stopped or None

    @in_json
    def violated_pdbs(self) -> Mapping[str, int]:
        """Number of preemptions beyond the allowed disruptions of each PDB, also before the first step."""
        return self.answer.after.summary.violated_pdbs


def plan(
    cluster: ClusterSnapshot, world: World, change: Wanted, progress: Callable[[float, int], object] | None = None
) -> Plan:
    """Return the simulated steps of a change, in the better of two orders: complete, if possible, and with fewer
    preempted Pods.

    `world`: the cluster without arrivals. `progress`: called with the simulated seconds and a count during the
    simulation. Raises NotPredicted.
    """
    after = _with_classes(cluster, change.classes)
    every = (each for each in ranked(cluster, after, change.workloads) if each.object)
    affected = [each for each in every if each.differs or workload_key(each.object) in change.workloads]
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
    prepare(simulation, _CHANGE)
    simulation.run()
    answer = answer_after(simulation, _CHANGE, run.start)
    if answer.after.rejected_by_quota:
        answer = answer._replace(without_change=outcome_without_change(world))
    preemptions, starts = answer.after.preempted, [step.started_at for step in run.results]
    steps = [
        step._replace(preemptions=[preemption for preemption in preemptions if step.started_at <= preemption.t < end])
        for step, end in zip(run.results, [*starts[1:], float("inf")], strict=False)
    ]
    of_steps = [preemption for step in steps for preemption in step.preemptions]
    jobs = {key for key in change.workloads if key[0] == JOB}
    kept = [
        workload
        for workload in affected
        if workload.after and not is_replaced_by_restart(workload.object) and workload_key(workload.object) not in jobs
    ]
    return Plan(
        pending_before=run.pending_before,
        preempted_before=len(preemptions) - len(of_steps) if starts else 0,
        alternative=None,
        steps=steps,
        keep_priority=[_running(workload) for workload in kept if needs_restart(workload)],
        rejected=[_running(workload) for workload in affected if workload.after is None],
        answer=answer._replace(after=answer.after._replace(preempted=of_steps)),
        not_modelled=[*answer.after.not_modelled, *sorted(map(str, simulation.controllers.unreadable.values()))],
        ignored=change.ignored,
        affected=affected,
    )


def _running(workload: Ranked) -> RunningByPriority:
    return RunningByPriority(workload.workload, dict(sorted(workload.running.items())))


class _Run:
    """Runs the steps of a plan in one simulation, each after the previous one is complete."""

    def __init__(self, simulation: Simulation, cluster: ClusterSnapshot, steps: Sequence[Step]) -> None:
        self._simulation, self._cluster, self._steps = simulation, cluster, steps
        self._classes = dict(cluster.priority_classes)
        self.results: list[SimulatedStep] = []
        self.pending_before, self.start = _pending(simulation).total(), Start.from_simulation(simulation, _CHANGE)
        simulation.awaited += 1
        simulation.clock.schedule(0.0, lambda: simulation.clock.spawn(self._run()))

    def _run(self) -> Steps:
        simulation = self._simulation
        yield from self._settle()
        self.start = Start.from_simulation(simulation, _CHANGE)
        for step in self._steps:
            started, old = simulation.clock.now, {state.pod.uid for state in simulation.api.pods.values()}
            unfinished: list[str] = []
            if step.classes:
                self._change_classes(step)
            for workload in step.objects:
                yield from self._roll_out(workload, unfinished)
            ended = simulation.clock.now
            yield _PAUSE
            own = (state for obj in step.objects for state in self._pods_of(workload_key(obj)))
            new = sum(state.pod.uid not in old for state in own)  # without recreated victims
            waiting = _pending(simulation)
            numbers = started, ended, new, waiting.total()
            self.results.append(SimulatedStep(step, *numbers, unfinished, waiting=waiting))
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


def _pending(simulation: Simulation) -> Tally[str]:
    """Return the Pending Pods by workload."""
    names, origins = names_in(simulation), simulation.timeline.origins
    pending = filter(simulation.scheduler.is_pending, simulation.api.pods.values())
    return Tally(names.name_of(origins[state.pod.key].workload) for state in pending)
