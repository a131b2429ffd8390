"""Plan the order in which to change PriorityClasses, and simulate each step after the previous one.

Running Pods keep their priority, so a change takes effect Pod by Pod. Workloads whose priority decreases are first,
because their new Pods can preempt fewer Pods than before. The other workloads follow by descending new priority, so
that no workload preempts Pods that will get a higher priority. If this order preempts Pods, new classes get
preemptionPolicy Never until the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.cluster.admission import admitted, admitted_group
from forewarn.policies.findings import listed
from forewarn.policies.kinds.registry import DEPLOYMENT, POD_TEMPLATE_PATHS
from forewarn.policies.kube_apiserver.priority import Classes, default_priority_class
from forewarn.policies.objects.fields import InvalidInput, at, group_kind, mapping, ref_of, text
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.rules.support.restarts import restarted
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.simulation.summary import summarize
from forewarn.policies.whatif.class_change import Change, changed_class, is_rolled_out, ranked
from forewarn.policies.whatif.comparison import preemptions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.controllers.view import Key, PodState
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.simulation.summary import Summary
    from forewarn.policies.whatif.answer import Preemption
    from forewarn.policies.whatif.class_change import Ranked

_POLL_SECONDS: Final = 5.0
"""Seconds between two checks of a rollout."""
_PATIENCE: Final = 600.0
"""Seconds without progress after which a rollout counts as unfinished. Source: progressDeadlineSeconds."""
_PAUSE: Final = 30.0
"""Seconds between two steps, so that replacements of preempted Pods can start."""
_AFTERWARDS: Final = 660.0
"""Seconds of simulation after the last step, because CronJobs never reach a steady state."""


class Wanted(NamedTuple):
    """The requested change: all PriorityClasses after the change, by name, and the workloads that get another class, by
    key.

    `ignored`: the other objects of the files, which have no effect.
    """

    classes: Mapping[str, PriorityClass]
    workloads: Mapping[Key, ApiObject]
    ignored: Sequence[str] = ()


class Step(NamedTuple):
    """One step: PriorityClasses to create, change, recreate or delete, or workloads to roll out one after the other.

    `action`: "create", "default" (sets `globalDefault`), "recreate", "delete", "restart" or "apply". `classes`: their
    state after the step (for "delete", before the step). `priority`: the priority of the workloads' new Pods.
    """

    action: str
    classes: Sequence[PriorityClass] = ()
    workloads: Sequence[ApiObject] = ()
    priority: int = 0


class Result(NamedTuple):
    """A simulated step, with its start and end in seconds.

    `replaced`: number of new Pods. `pending`: number of Pending Pods at the end of the step. `unfinished`: workloads
    whose rollout made no progress for 10 minutes.
    """

    step: Step
    started: float
    finished_at: float
    replaced: int
    pending: int
    unfinished: Sequence[str]
    preemptions: Sequence[Preemption] = ()


class Alternative(NamedTuple):
    """The order of the steps that was not chosen. `careful`: true if new classes first get preemptionPolicy Never."""

    careful: bool
    preempted: int
    unfinished: Sequence[str]


class Plan(NamedTuple):
    """The simulated steps in order.

    `other`: the order that was not chosen; None if there was no need to simulate a second one. `kept`: workloads that
    cannot be rolled out, so that their running Pods keep their priority. `rejected`: workloads whose class does not
    exist after the change. `pending_before`: number of Pending Pods before the first step. `preempted_before`: number
    of Pods that Pending Pods preempt before the first step, which `results` does not contain.
    """

    results: Sequence[Result]
    other: Alternative | None
    kept: Sequence[Ranked]
    rejected: Sequence[Ranked]
    pending_before: int
    preempted_before: int
    summary: Summary
    not_modelled: Sequence[str]
    ignored: Sequence[str]

    @property
    def preempted(self) -> int:
        """The number of Pods that all steps preempt."""
        return sum(len(result.preemptions) for result in self.results)

    @property
    def is_complete(self) -> bool:
        """True if all rollouts finish and no workload uses a deleted class."""
        return not self.summary.stopped and not self.rejected and not any(r.unfinished for r in self.results)


def wanted(
    cluster: ClusterSnapshot, classes: Iterable[PriorityClass], objects: Iterable[ApiObject], deleted: Iterable[str]
) -> Wanted:
    """Return the change that these files (`classes` and `objects`) and the names of `deleted` classes request.

    Raises InvalidInput if the API server rejects the change.
    """
    after, given = dict(cluster.priority_classes), set[str]()
    for new in classes:
        if new.name in given:
            raise InvalidInput(f"PriorityClass {new.name} is given twice")
        given.add(new.name)
        if cluster.priority_classes.get(new.name) != new:
            changed_class(cluster, Change(new.name, new.value, new.global_default, new.preemption_policy))
        after[new.name] = new
    defaults = sorted(name for name in given if after[name].global_default)
    if len(defaults) > 1:
        raise InvalidInput(f"several global defaults: {listed(defaults)}. Fix: set globalDefault: false in all but one")
    for name, old in cluster.priority_classes.items():
        if defaults and old.global_default and name not in defaults:
            after[name] = after[name]._replace(global_default=False)
    for name in deleted:
        changed_class(cluster, Change(name, delete=True))
        if name in given:
            raise InvalidInput(f"PriorityClass {name} is in the files and to be deleted")
        after.pop(name, None)
    workloads, ignored = dict[tuple[str, str, str], "ApiObject"](), list[str]()
    for obj in objects:
        ref, kind = ref_of(obj, "default"), group_kind(obj)
        found = cluster.workloads.get((kind, ref.namespace, ref.name))
        if found is None:
            ignored.append(str(ref))
        elif (changed := _with_class_of(found.object, obj)) is not None:
            workloads[kind, ref.namespace, ref.name] = changed
    return Wanted(after, workloads, ignored)


def _with_class_of(old: ApiObject, new: ApiObject) -> ApiObject | None:
    """Return the cluster's workload `old` with the PriorityClass of `new`, its version in a file; None if the
    class is the same.
    """
    template = pod_template_of(new, POD_TEMPLATE_PATHS)
    current = pod_template_of(old, POD_TEMPLATE_PATHS)
    name = "" if template is None else text(template.spec, "priorityClassName")
    if current is None or name == text(current.spec, "priorityClassName"):
        return None
    path = (*POD_TEMPLATE_PATHS[group_kind(old)], "spec")
    spec = {key: value for key, value in mapping(old, *path).items() if key not in ("priority", "preemptionPolicy")}
    return _replaced(old, path, {**spec, "priorityClassName": name})


def _replaced(obj: ApiObject, path: Sequence[str], value: ApiObject) -> ApiObject:
    if not path:
        return value
    return {**obj, path[0]: _replaced(mapping(obj, path[0]), path[1:], value)}


def plan(
    cluster: ClusterSnapshot,
    world: World,
    change: Wanted,
    progress: Callable[[float, int], None] | None = None,
) -> Plan:
    """Return the simulated steps of a change, in the better of two orders: complete, if possible, and with fewer
    preempted Pods.

    `world`: the cluster without arrivals. `progress`: called with the simulated seconds and a count during the
    simulation. Raises NotPredicted.
    """
    after = _with_classes(cluster, change.classes)
    affected = [each for each in ranked(cluster, after, change.workloads) if each.differs and each.object]
    found = _simulated(cluster, world, change, affected, progress, careful=False)
    if not found.preempted or not any(map(_can_preempt, _new(cluster, change))):
        return found
    careful = _simulated(cluster, world, change, affected, progress, careful=True)
    if _badness(careful) < _badness(found):
        return careful._replace(other=_alternative(found, careful=False))
    return found._replace(other=_alternative(careful, careful=True))


def _alternative(found: Plan, *, careful: bool) -> Alternative:
    return Alternative(careful, found.preempted, [name for result in found.results for name in result.unfinished])


def _badness(found: Plan) -> tuple[bool, int, int]:
    """Return the sort key of a plan among alternative orders; the best plan has the smallest."""
    return not found.is_complete, found.preempted, sum(result.pending for result in found.results[-1:])


def _can_preempt(new: PriorityClass) -> bool:
    return new.preemption_policy != PREEMPT_NEVER


def _new(cluster: ClusterSnapshot, change: Wanted) -> list[PriorityClass]:
    """Return the PriorityClasses that are created or recreated, by name."""
    old = cluster.priority_classes
    return [c for _, c in sorted(change.classes.items()) if c.name not in old or _is_recreated(old[c.name], c)]


def _is_recreated(old: PriorityClass, new: PriorityClass) -> bool:
    return (old.value, old.preemption_policy) != (new.value, new.preemption_policy)


# The order


class _Unit(NamedTuple):
    """Steps that change PriorityClasses (or none), and the workloads that get another priority through these steps."""

    steps: Sequence[Step]
    affected: list[Ranked]

    @property
    def sort_key(self) -> tuple[bool, int]:
        """The sort key of a unit: lowered priorities first, then by descending new priority, then changes without
        restarts.
        """
        if not self.affected:
            return True, 0
        return any(map(_is_raised, self.affected)), min(-(2**31) - _after(each) for each in self.affected)


def steps_of(cluster: ClusterSnapshot, change: Wanted, affected: Sequence[Ranked], *, careful: bool) -> Iterator[Step]:
    """Yield the steps of a change in order.

    `affected`: the workloads with another class or priority. `careful`: new classes get preemptionPolicy Never first,
    and the requested policy at the end.
    """
    old = cluster.priority_classes
    first = {_class_of(each) for each in affected} if careful else set[str]()
    new = {c.name: c._replace(preemption_policy=PREEMPT_NEVER) if c.name in first else c for c in _new(cluster, change)}
    created = [c._replace(global_default=False) for name, c in new.items() if name not in old]
    if created:
        yield Step("create", created)
    current = {**old, **{c.name: c for c in created}}
    for unit in sorted(_units(cluster, change, affected, new), key=lambda unit: unit.sort_key):
        for step in unit.steps:
            current.update((c.name, _changed(current[c.name], c, step.action)) for c in step.classes)
            yield step._replace(classes=[current[c.name] for c in step.classes])
        yield from _rollouts(unit.affected, change)
    final = [change.classes[name] for name, each in new.items() if each != change.classes[name]]
    if final:
        yield Step("recreate", final)
    gone = [c for name, c in sorted(old.items()) if name not in change.classes]
    if gone:
        yield Step("delete", gone)


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
    old, left = cluster.priority_classes, [each for each in affected if each.after is not None]
    recreated = {name: Step("recreate", [c]) for name, c in new.items() if name in old}
    if moved := _moved_defaults(change, old, new):
        default = default_priority_class(change.classes.values())
        unit = _default_unit(default.name if default else "", moved, left, recreated, change)
        left = [each for each in left if each not in unit.affected]
        yield unit
    for name, step in recreated.items():
        yield _Unit([step], [each for each in left if _class_of(each) == name])
    left = [each for each in left if _class_of(each) not in recreated]
    for priority in {_after(each) for each in left}:
        yield _Unit((), [each for each in left if _after(each) == priority])


def _default_unit(
    name: str, moved: list[PriorityClass], left: Sequence[Ranked], recreated: dict[str, Step], change: Wanted
) -> _Unit:
    """The unit that moves the default to the class `name`; takes the class's step out of `recreated`."""
    first = [recreated.pop(name)] if name in recreated else []
    mine = [each for each in left if _has_default(each, name, change) or (first and _class_of(each) == name)]
    return _Unit([*first, Step("default", moved)], mine)


def _moved_defaults(
    change: Wanted, old: Mapping[str, PriorityClass], new: Mapping[str, PriorityClass]
) -> list[PriorityClass]:
    """The classes, also deleted ones, with another `globalDefault` afterwards; those that lose it first."""
    deleted = [c._replace(global_default=False) for name, c in sorted(old.items()) if name not in change.classes]
    stay = [c for _, c in sorted(change.classes.items())]
    moved = [new.get(c.name, c) for c in (*stay, *deleted) if c.global_default != _was(c, old)]
    return sorted(moved, key=lambda c: c.global_default)


def _was(new: PriorityClass, old: Mapping[str, PriorityClass]) -> bool:
    """Return whether the PriorityClass was the global default before the change.

    `old`: the PriorityClasses before, by name.
    """
    return new.name in old and old[new.name].global_default


def _class_of(each: Ranked) -> str:
    return each.after.priority_class_name if each.after else ""


def _has_default(each: Ranked, name: str, change: Wanted) -> bool:
    """Return whether the workload's new Pods get the global default class of this name ("" if no class is the
    default).
    """
    template = pod_template_of(change.workloads.get(_key(each.object), each.object), POD_TEMPLATE_PATHS)
    named = text(template.spec, "priorityClassName") if template else ""
    return not named and _class_of(each) == name


def _rollouts(affected: Sequence[Ranked], change: Wanted) -> Iterator[Step]:
    """Yield one step for each kind of rollout and new priority: lowered priorities first, then by descending
    priority.
    """
    groups: dict[tuple[bool, int, str], list[ApiObject]] = {}
    for each in affected:
        changed = change.workloads.get(_key(each.object))
        if changed is not None or (_is_replaced_by_restart(each) and _needs_restart(each)):
            action, obj = ("restart", restarted(each.object).object) if changed is None else ("apply", changed)
            groups.setdefault((_is_raised(each), -_after(each), action), []).append(obj)
    for (_, priority, action), objects in sorted(groups.items(), key=lambda item: item[0]):
        yield Step(action, (), sorted(objects, key=_key), -priority)


def _after(each: Ranked) -> int:
    return each.after.priority if each.after else 0


def _is_raised(each: Ranked) -> bool:
    return _after(each) > min(each.running, default=each.before.priority if each.before else 0)


def _needs_restart(each: Ranked) -> bool:
    return any(value != _after(each) for value in each.running)


def _is_replaced_by_restart(each: Ranked) -> bool:
    """Return whether `kubectl rollout restart` replaces the workload's Pods."""
    if not is_rolled_out(each.object) or at(each.object, "spec", "updateStrategy", "type") == "OnDelete":
        return False
    return not (group_kind(each.object) == DEPLOYMENT and at(each.object, "spec", "paused"))


def _key(obj: ApiObject) -> Key:
    ref = ref_of(obj, "default")
    return group_kind(obj), ref.namespace, ref.name


# The simulation


def _with_classes(cluster: ClusterSnapshot, classes: Mapping[str, PriorityClass]) -> ClusterSnapshot:
    return replace(cluster, priority_classes=Classes(classes))


def _simulated(
    cluster: ClusterSnapshot,
    world: World,
    change: Wanted,
    affected: Sequence[Ranked],
    progress: Callable[[float, int], None] | None,
    *,
    careful: bool,
) -> Plan:
    simulation = Simulation(world, progress=progress)
    run = _Run(simulation, cluster, [*steps_of(cluster, change, affected, careful=careful)])
    simulation.run()
    summary = summarize(simulation)
    preemptions = preemptions_of(simulation, summary.names)
    starts = [result.started for result in run.results]
    results = [
        result._replace(preemptions=[preemption for preemption in preemptions if result.started <= preemption.t < end])
        for result, end in zip(run.results, [*starts[1:], float("inf")], strict=False)
    ]
    kept = [each for each in affected if each.after is not None and not _is_replaced_by_restart(each)]
    return Plan(
        results=results,
        other=None,
        kept=[each for each in kept if _needs_restart(each)],
        rejected=[each for each in affected if each.after is None],
        pending_before=run.pending_before,
        preempted_before=sum(preemption.t < starts[0] for preemption in preemptions) if starts else 0,
        summary=summary,
        not_modelled=[*simulation.storage.not_modelled, *sorted(simulation.controllers.unreadable.values())],
        ignored=change.ignored,
    )


class _Run:
    """Runs the steps of a plan in one simulation, each after the previous one is complete."""

    def __init__(self, simulation: Simulation, cluster: ClusterSnapshot, steps: Sequence[Step]) -> None:
        self._simulation, self._cluster, self._steps = simulation, cluster, steps
        self._classes = dict(cluster.priority_classes)
        self.results: list[Result] = []
        self.pending_before = _pending(simulation)
        simulation.awaited += 1
        simulation.clock.at(0.0, lambda: void(simulation.clock.spawn(self._run())))

    def _run(self) -> Generator[float | None, None, None]:
        simulation = self._simulation
        for step in self._steps:
            started, created = simulation.clock.now, simulation.api.created
            unfinished: list[str] = []
            if step.classes:
                self._change_classes(step)
            for workload in step.workloads:
                yield from self._roll_out(workload, unfinished)
            ended = simulation.clock.now
            yield _PAUSE
            new = simulation.api.created - created
            self.results.append(Result(step, started, ended, new, _pending(simulation), unfinished))
        simulation.awaited -= 1
        simulation.end_within(_AFTERWARDS)

    def _change_classes(self, step: Step) -> None:
        for each in step.classes:
            if step.action == "delete":
                self._classes.pop(each.name, None)
            else:
                self._classes[each.name] = each
        now = _with_classes(self._cluster, self._classes)
        self._simulation.admit_by(lambda obj: admitted(obj, now), lambda obj: admitted_group(obj, now))

    def _roll_out(self, workload: ApiObject, unfinished: list[str]) -> Generator[float | None, None, None]:
        """Roll out a workload, and wait until no old Pod is left and all new Pods are ready; yield the seconds to wait.

        Adds the workload's name to `unfinished` if the rollout makes no progress.
        """
        api, clock, key = self._simulation.api, self._simulation.clock, _key(workload)
        stored = api.workloads.get(key)
        if stored is None:
            return
        old = {state.pod.uid for state in self._pods_of(key)}
        api.put_workload(replace(stored, object=workload))
        if not is_rolled_out(workload):
            return
        left, progressed = len(old) + 1, clock.now
        while left:
            yield _POLL_SECONDS
            now = sum(state.pod.uid in old or state.ready is None for state in self._pods_of(key))
            progressed = clock.now if now != left else progressed
            left = now
            if clock.now - progressed >= _PATIENCE:
                unfinished.append("/".join(key[1:]))
                return

    def _pods_of(self, key: Key) -> list[PodState]:
        api = self._simulation.api
        controllers = (key, *(owned.key for owned in api.owned(key)))
        states = (state for each in controllers for state in api.by_controller.get(each, {}).values())
        return [state for state in states if not state.pod.terminal]


def void(_: object) -> None:
    """Discard a value, so that a callback without a result can be a lambda."""


def _pending(simulation: Simulation) -> int:
    return sum(1 for s in simulation.api.pods.values() if not s.pod.node_name and s.active)


def as_dict(found: Plan) -> dict[str, Any]:
    """Return the plan as a JSON object."""
    return {
        "preempted": found.preempted,
        "complete": found.is_complete,
        "pendingBefore": found.pending_before,
        "preemptedBefore": found.preempted_before,
        "alternative": None
        if found.other is None
        else {
            "neverFirst": found.other.careful,
            "preempted": found.other.preempted,
            "unfinished": list(found.other.unfinished),
        },
        "steps": [_step_as_dict(result) for result in found.results],
        "keepPriority": [_ranked_as_dict(each) for each in found.kept],
        "rejected": [_ranked_as_dict(each) for each in found.rejected],
        "settled": found.summary.settled,
        **({"stopped": found.summary.stopped} if found.summary.stopped else {}),
        "violatedPDBs": dict(found.summary.violated_pdbs),
        "ignored": list(found.ignored),
        "notModelled": list(found.not_modelled),
        "assumptions": list(found.summary.assumes),
    }


def _step_as_dict(result: Result) -> dict[str, Any]:
    step = result.step
    workloads = [dict(zip(("kind", "namespace", "name"), _key(obj), strict=True)) for obj in step.workloads]
    return {
        "action": step.action,
        "classes": [c._asdict() for c in step.classes],
        "workloads": workloads,
        **({"priority": step.priority} if workloads else {}),
        "startedAt": round(result.started, 4),
        "endedAt": round(result.finished_at, 4),
        "newPods": result.replaced,
        "pending": result.pending,
        "unfinished": list(result.unfinished),
        "preempted": [
            {
                "by": {"pod": preemption.by, "workload": preemption.by_workload, "priority": preemption.by_priority},
                "victim": {"pod": preemption.victim, "workload": preemption.workload, "priority": preemption.priority},
            }
            for preemption in result.preemptions
        ],
    }


def _ranked_as_dict(each: Ranked) -> dict[str, Any]:
    return {"workload": each.workload, "running": {str(value): count for value, count in sorted(each.running.items())}}
