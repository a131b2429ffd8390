"""The summary of a simulation run (victims, preemptors, cascade depth, Pending Pods), and its timeline as text."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import Document, Hidden, in_json, optional_in_json
from forewarn.policies.base.findings import duration, grouped, listed, plural, quote
from forewarn.policies.kubernetes.controllers.daemon_set import DaemonSetStatus
from forewarn.policies.kubernetes.controllers.own_pods import replicas_of
from forewarn.policies.kubernetes.controllers.view import PodState, WorkloadState, controller_of
from forewarn.policies.kubernetes.kinds.registry import REPLICA_SET
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import cause_of_volumes
from forewarn.policies.kubernetes.scheduling.reasons import FitError
from forewarn.policies.prediction.simulation.clock import BY_WORKLOAD, Event, Origin, Timeline

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.simulation.simulation import Simulation

NO_CLASS: Final = "none"
_MIN_BACKOFF: Final = 1.0
"""Minimum seconds between two attempts of a Pod."""
_MAX_LINES: Final = 60
_TEXTS: Final = {
    "created": "{group}: {pods} created (priority {priority})",
    "scheduled": "{group}: {pods} bound to {nodes}",
    "scheduled instead": "{group}: {pods} bound to {nodes} instead of {other}, which is full",
    "moved": "{group}: {pods} nominated to {nodes} instead of {other}",
    "deleted": "{group}: {pods} deleted ({other})",
    "succeeded": "{group}: {pods} completed on {nodes}",
    "nodeAdded": "node {group} added",
    "nodeUpdated": "node {group} {other}",
    "nodeRemoved": "node {group} removed",
    "jobFailed": "Job failed: {group}",
    "refused": "a ResourceQuota rejects a Pod of {group}",
    "retried": "{group}",
}
"""Kind of a line in the timeline -> its text; preemptions are not included."""
_OF_NODES: Final = ("nodeAdded", "nodeUpdated", "nodeRemoved")
_WITH_MESSAGE: Final = ("jobFailed", "refused", "retried")


class Names:
    """The display names of workloads: `namespace/name`, or `Kind namespace/name` if several kinds share the name."""

    def __init__(self, workloads: Iterable[tuple[str, str]] = ()) -> None:
        """Collect the kinds of each name. `workloads`: (`group/Kind` or "" for a Pod alone, `namespace/name`)."""
        kinds = grouped((group, kind) for kind, group in {*workloads})
        several = {group: _kind_names_of(value) for group, value in kinds.items() if len(value) > 1}
        self._display_names = {
            (kind, group): f"{value[kind]} {group}" for group, value in several.items() for kind in value
        }
        self._groups = {name: group for (_, group), name in self._display_names.items()}

    def name_of(self, workload: tuple[str, str]) -> str:
        """Return the display name of (`group/Kind`, `namespace/name`); only `namespace/name` for an unknown one."""
        return self._display_names.get(workload, workload[1])

    def group(self, name: str) -> str:
        """Return the `namespace/name` that a display name contains."""
        return self._groups.get(name, name)


def _kind_names_of(kinds: Iterable[str]) -> dict[str, str]:
    """Return `group/Kind` -> `Kind`, or `Kind.group` (as upstream) if several groups have this kind."""
    split = {kind: kind.rpartition("/")[::2] if kind else ("", "Pod") for kind in kinds}
    often = Counter(name for _, name in split.values())
    return {kind: f"{name}.{group}" if group and often[name] > 1 else name for kind, (group, name) in split.items()}


def names_in(simulation: Simulation) -> Names:
    """Return the display names of all workloads that have or had Pods so far, or whose Pods a quota rejected."""
    rejected = (workload for workload, _ in simulation.controllers.rejections.rejected_workloads())
    return Names({*(origin.workload for origin in simulation.timeline.origins.values()), *rejected})


_PLAIN: Final = Names()


class Eviction(NamedTuple):
    """The preemption of a Pod, `t` seconds after the start.

    `by`: the preemptor. `level`: cascade depth, 1 for a victim of an arriving Pod, 2 for a victim of the replacement of
    such a victim, and so on. `origin`: that of the victim.
    """

    t: float
    victim: str
    by: str
    node: str
    level: int
    origin: Origin
    """The origin of the victim."""


class Waiting(NamedTuple):
    """The Pods of one workload that are Pending at the end. `group`: display name of the workload.

    `message`: kube-scheduler's reason. `before`: how many of these Pods existed at time 0.
    """

    group: str
    pods: int
    priority: int
    message: str
    before: int


class Missing(NamedTuple):
    """The number of Pods of a workload that a quota rejects. `group`: display name. `message`: the quota's reason."""

    group: str
    pods: int
    message: str


class LeftOut(NamedTuple):
    """A workload with more Pods than a simulation creates (see `PodLimit`). `kind`: `group/Kind`. `simulated`: how many
    of its `pods` it got. `pending`: whether some of these are Pending at the end, as all others would be.
    """

    kind: str
    workload: str
    pods: int
    simulated: int
    pending: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.workload

    @property
    def left_out(self) -> int:
        """The number of Pods that are left out."""
        return self.pods - self.simulated

    def __str__(self) -> str:
        why = "they stay Pending like its others" if self.pending else "more than a simulation creates"
        name = f"{self.kind.rpartition('/')[2]} {self.workload}"
        return f"{name}: {self.left_out:,} of {self.pods:,} Pods ({why}). Fix: reduce their number"


Effects = tuple[frozenset[Any], ...]
_Owed = dict[tuple[str, str], deque[tuple[int, str]]]
"""Workload -> (cascade depth, name) of deleted Pods, the first deleted first."""


class Summary(NamedTuple):
    """The result of a run. `waiting`: Pending Pods at the end.

    `missing`: Pods that quotas reject. `names`: display names.
    """

    evictions: Hidden[Sequence[Eviction]]
    waiting: Hidden[Sequence[Waiting]]
    new_pods: int
    new_pods_running: int
    all_run_at: Hidden[float | None]
    """The time at which the last new Pod was bound; None if one is not bound."""
    violated_pdbs: Mapping[str, int]
    steady_at: float
    steady: bool
    """Whether nothing more would happen; False if the run was stopped or reached its horizon."""
    stopped: str = ""
    """The reason why the run was stopped, a limit of work; "" if it was not."""
    missing: Hidden[Sequence[Missing]] = ()
    names: Hidden[Names] = _PLAIN
    horizon: Hidden[float] = 0.0
    """The maximum duration of the simulation in seconds."""
    assumes: Hidden[Sequence[str]] = ()
    """Assumptions that lists missing from the cluster state are empty."""
    new_workloads: Hidden[Mapping[str, int]] = MappingProxyType({})
    """Display name of each workload that creates new Pods -> their number, the largest number first."""
    quotas: Hidden[Sequence[str]] = ()
    """ResourceQuotas that delay new Pods, such as `quota shop/q`."""
    new_pod_names: Hidden[frozenset[str]] = frozenset()
    """The new Pods, as `namespace/name`."""
    new_pods_ended: Hidden[int] = 0
    """Number of new Pods that were preempted or deleted later."""
    new_pods_preempted: Hidden[int] = 0
    """Number of those in `new_pods_ended` that were preempted."""
    new_pods_pending: Hidden[int] = 0
    """Number of new Pods that have no node at the end."""
    is_changing: Hidden[bool] = False
    """Whether the simulation ended while Pods changed, so that its numbers are not those of a steady state."""
    expects_more: Hidden[bool] = False
    """Whether events follow after the end of the simulation."""
    left_out: Hidden[Sequence[LeftOut]] = ()
    """The workloads whose Pods are not all simulated."""
    is_incomplete: Hidden[bool] = False
    """Whether a limit of the simulation may have changed the result."""
    in_vain: Hidden[Sequence[Eviction]] = ()
    """The evictions that help no Pod (see the function `in_vain`)."""

    @in_json
    def preempted(self) -> int:
        return len(self.evictions)

    @in_json
    def cascade_depth(self) -> int:
        """The highest `level` of all evictions; 0 without evictions."""
        return max((eviction.level for eviction in self.evictions), default=0)

    @property
    def ended_at(self) -> float:
        """The seconds after which the run ended: `steady_at` if it was stopped, otherwise the horizon."""
        return self.steady_at if self.stopped else self.horizon

    @property
    def is_cut_off(self) -> bool:
        """Whether Pods changed in the last quarter of a run that ended while Pods changed. If a run is shorter than the
        quiet time, nothing else indicates whether more follows.
        """
        return self.is_changing and self.ended_at - self.steady_at <= self.ended_at / 4

    @property
    def is_unfinished(self) -> bool:
        """Whether the run ended before a steady state, and more may follow."""
        return not self.steady and (self.expects_more or self.is_cut_off or not self.is_changing)

    @property
    def effects(self) -> Effects:
        """What happens to the Pods of each workload, without nodes and times."""
        waiting, missing = ([(row.group, row.pods) for row in rows] for rows in (self.waiting, self.missing))
        return tuple(map(frozenset, (self.by_workload.items(), waiting, missing, self.violated_pdbs)))

    @property
    def harm(self) -> tuple[int, int, int]:
        """How bad a run is, most important number first: of Pods without a node, of PDBs, of preempted Pods."""
        without_node = sum(row.pods for rows in (self.waiting, self.missing) for row in rows)
        return without_node, len(self.violated_pdbs), len(self.evictions)

    @in_json
    def by_workload(self) -> Counter[str]:
        return Counter(self.names.name_of(eviction.origin.workload) for eviction in self.evictions)

    @in_json
    def by_namespace(self) -> Counter[str]:
        return Counter(eviction.origin.namespace for eviction in self.evictions)

    @in_json
    def by_priority_class(self) -> Counter[str]:
        return Counter(eviction.origin.priority_class or NO_CLASS for eviction in self.evictions)

    @in_json
    def pending(self) -> dict[str, int]:
        return {waiting.group: waiting.pods for waiting in self.waiting}

    @optional_in_json
    def rejected_by_quota(self) -> dict[str, int] | None:
        return {item.group: item.pods for item in self.missing} or None


def unsettled(stopped: str, at: float) -> tuple[str, str]:
    """Return (problem, fix) for a simulation without a steady state."""
    if stopped:
        return f"stopped {stopped}", "shorten the simulated time (until) or simulate fewer changes at once"
    return f"without a steady state after {duration(at)}", "increase the simulated time (until)"


def summarize(simulation: Simulation, others: Container[str] = ()) -> Summary:
    """Return the summary of a finished run. `others`: display names of workloads whose new Pods do not count."""
    levels = Levels()
    events = simulation.timeline.events
    evictions = [eviction for event in events if (eviction := levels.next(event)) is not None]
    names, origins, created = names_in(simulation), simulation.timeline.origins, _new_pods(simulation, levels)
    new = {pod: name for pod in created if (name := names.name_of(origins[pod].workload)) not in others}
    bound = {event.pod: event.t for event in events if event.event == "scheduled" and event.pod in new}
    states = _existing(simulation, new)
    completed = {event.pod for event in events if event.event == "succeeded"}
    ended = new.keys() - states.keys() - completed
    world, last = simulation.world, max(simulation.timeline.last, 0.0)
    cut = pods_left_out(simulation)
    new_workloads, delaying = dict(counted(new.values())), simulation.controllers.rejections.delaying
    return Summary(
        evictions=evictions,
        waiting=waiting_in(simulation, names),
        new_pods=len(new),
        new_pods_running=len(bound),
        all_run_at=max(bound.values(), default=None) if len(bound) == len(new) else None,
        violated_pdbs=simulation.scheduler.violated_pdbs.counts,
        steady_at=last,
        steady=simulation.steady,
        horizon=world.horizon,
        is_changing=not simulation.steady and (bool(simulation.stopped) or world.horizon - last < world.quiet),
        expects_more=simulation.expects_more,
        stopped=simulation.stopped,
        missing=list(missing(simulation, names).values()),
        names=names,
        assumes=_assumptions(simulation),
        new_workloads=new_workloads,
        quotas=sorted({quota for workload, quota in delaying.items() if names.name_of(workload) in new_workloads}),
        new_pod_names=frozenset(new),
        new_pods_ended=len(ended),
        new_pods_preempted=len(ended & {event.pod for event in events if event.event == "preempted"}),
        new_pods_pending=sum(not state.pod.node_name for state in states.values()),
        left_out=cut,
        is_incomplete=is_incomplete(simulation, cut),
        in_vain=in_vain(simulation.timeline, evictions),
    )


def in_vain(timeline: Timeline, evictions: Iterable[Eviction]) -> list[Eviction]:
    """Return the evictions of cycles that help no Pod: no Pod of higher priority is bound to a node of the victims
    afterwards.
    """
    bound, cycles = dict[str, list[tuple[float, int]]](), list[list[Eviction]]()
    for event in timeline.events if evictions else ():
        if event.event == "scheduled":
            bound.setdefault(event.node, []).append((event.t, timeline.origins[event.pod].priority))
    for each in sorted(evictions, key=lambda each: (each.by, each.t)):
        if cycles and cycles[-1][-1].by == each.by and each.t < cycles[-1][-1].t + _MIN_BACKOFF:
            cycles[-1].append(each)
        else:
            cycles.append([each])

    def helps(eviction: Eviction) -> bool:
        t, priority = eviction.t, eviction.origin.priority
        return any(at > t and value > priority for at, value in bound.get(eviction.node, ()))

    return [each for cycle in cycles if not any(map(helps, cycle)) for each in cycle]


def in_vain_sentences(pods: int) -> Iterator[str]:
    """Yield a sentence about Pods that are preempted in vain, if any."""
    if pods:
        yield f"{plural(pods, 'Pod is', 'Pods are')} preempted in vain: no Pod of higher priority then runs there"


def is_incomplete(simulation: Simulation, cut: Iterable[LeftOut]) -> bool:
    """Report whether a limit of the simulation may have changed the result: a limit on Pods has not if all omitted Pods
    would stay Pending.
    """
    return bool(simulation.stopped) or not all(each.pending for each in cut)


def pods_left_out(simulation: Simulation) -> list[LeftOut]:
    """Return the workloads that have fewer Pods at the end of a run because of the limit on new Pods."""
    found, api = list[LeftOut](), simulation.api
    for (kind, *names), creators in simulation.controllers.limit.cut().items():
        wanted = sum(_wanted(api.workloads[key]) for key in creators if key in api.workloads)
        pods = [state for key in creators for state in api.by_controller.get(key, {}).values() if state.active]
        if wanted > len(pods):
            pending = any(map(simulation.scheduler.is_pending, pods))
            found.append(LeftOut(kind, "/".join(names), wanted, len(pods), pending))
    return found


def _wanted(state: WorkloadState) -> int:
    """Return the number of Pods that a workload's controller runs at the same time."""
    return state.status.desired if isinstance(state.status, DaemonSetStatus) else replicas_of(state.object)


def _new_pods(simulation: Simulation, levels: Levels) -> set[str]:
    """Return the new Pods, except for Pods that were replaced, that their workload deleted in a rollout or created from
    an older template, or that kube-scheduler ignores (they name their node or another scheduler).
    """
    new, origins = (levels.new | levels.rolled_out | levels.replacements) - levels.replaced, simulation.timeline.origins
    existing, rolled_out = _existing(simulation, origins), {origins[pod].workload for pod in levels.rolled_out}
    deleted = {pod for pod in levels.scaled_down - existing.keys() if origins[pod].workload in rolled_out}
    older, newer = _replaced_pods(simulation, existing.values())
    new = (new | newer) - older - deleted
    scheduled = {event.pod for event in simulation.timeline.events if event.event == "scheduled"}
    if not new <= scheduled:
        pods, leaves = (state.pod for state in simulation.api.pods.values()), simulation.scheduler.leaves
        new -= {pod.key for pod in pods if pod.node_name or leaves(pod)} - scheduled
    return new


def _replaced_pods(simulation: Simulation, states: Iterable[PodState]) -> tuple[set[str], set[str]]:
    """Return the Pods of ReplicaSets that Deployments replaced in the run, and those of the new ReplicaSets."""
    known, sets = {each.key for each in simulation.world.workloads}, simulation.api.workloads
    created = [own for key, own in sets.items() if key[0] == REPLICA_SET and key not in known]
    rolled_out = {own.controller for own in created if own.controller}
    older, newer = set[str](), set[str]()
    for state in states:
        key = controller_of(state.pod)
        if key in sets and sets[key].controller in rolled_out:
            (older if key in known else newer).add(state.pod.key)
    return older, newer


def _existing(simulation: Simulation, pods: Iterable[str]) -> dict[str, PodState]:
    found = ((pod, simulation.api.pods.get(_key_of(pod))) for pod in pods)
    return {pod: state for pod, state in found if state is not None and not state.terminating}


def _key_of(pod: str) -> tuple[str, str]:
    namespace, _, name = pod.partition("/")
    return namespace, name


def _assumptions(simulation: Simulation) -> Sequence[str]:
    """Return the assumptions on which the result for the Pods with events depends."""
    base, events = simulation.world.base, simulation.timeline.events
    if base is None:
        return ()
    changed = {event.pod for event in events if event.pod}
    states = (*simulation.world.pods, *simulation.api.pods.values())
    pods = [state.pod for state in states if state.pod.key in changed]
    drained = any(arrival.op == "drain" for arrival in simulation.world.arrivals)
    victims = drained or any(event.event == "preempted" for event in events)
    created = any(event.event in ("created", "refused") for event in events)
    return assumptions(base, pods, victims=victims, created=created)


def missing(simulation: Simulation, names: Names) -> dict[tuple[str, str], Missing]:
    """Return top-level workload -> the Pods that a quota rejects, together for all ReplicaSets of a Deployment."""
    counts: dict[tuple[str, str], Missing] = {}
    rejections = simulation.controllers.rejections.rejected_workloads()
    for workload, rejected in sorted(rejections, key=lambda item: (item[0][::-1], item[1])):
        pods = counts[workload].pods if workload in counts else 0
        counts[workload] = Missing(names.name_of(workload), pods + rejected.missing, rejected.message)
    for key, message in simulation.api.rejected.items():
        counts["/Pod", "/".join(key)] = Missing("/".join(key), 1, message)
    return counts


class Levels:
    """Computes the cascade depth of evictions. A replacement Pod has the depth of the eviction of the Pod it replaces.

    `new`: names of created Pods that replace no other Pod. `rolled_out`: names of those that replace a Pod that their
    workload deleted, as in a rollout. `replaced`: new Pods that others deleted or preempted, with their `replacements`.
    `scaled_down`: Pods that their workload deleted.
    """

    def __init__(self) -> None:
        self._owed: _Owed = {}
        """Workload -> its Pods that others deleted or preempted, and that it has not replaced yet."""
        self._deleted: _Owed = {}
        """Workload -> Pods that the workload itself deleted. It does not replace them if it scales down."""
        self._dying: set[str] = set()
        self._of: dict[str, int] = {}
        self.new: set[str] = set()
        self.rolled_out: set[str] = set()
        self.replaced: set[str] = set()
        self.replacements: set[str] = set()
        self.scaled_down: set[str] = set()

    def next(self, event: Event) -> Eviction | None:
        """Process the next event. Return an Eviction for the first preemption of a Pod, otherwise None."""
        if event.origin is None:
            return None
        if event.event == "created":
            self._add_arrival(event.pod, event.origin)
        elif event.event == "gone":
            self._dying.discard(event.pod)
        elif event.event == "deleted":
            is_own = event.change == BY_WORKLOAD
            self.scaled_down.update([event.pod] * is_own)
            _owe(self._deleted if is_own else self._owed, event, self._of.get(event.pod, 0))
        elif event.event == "preempted" and event.pod not in self._dying:
            self._dying.add(event.pod)
            level = self._of.get(event.by, 0) + 1
            _owe(self._owed, event, level)
            return Eviction(event.t, event.pod, event.by, event.node, level, event.origin)
        return None

    def _add_arrival(self, pod: str, origin: Origin) -> None:
        if owed := self._owed.get(origin.workload):
            self._of[pod], before = owed.popleft()
            if any(before in pods for pods in (self.new, self.rolled_out, self.replacements)):
                self.replacements.add(pod)
                self.replaced.add(before)
                self.replaced.discard(pod)
        elif deleted := self._deleted.get(origin.workload):
            self._of[pod], _ = deleted.popleft()
            self.rolled_out.add(pod)
        else:
            self.new.add(pod)


def _owe(owed: _Owed, event: Event, level: int) -> None:
    if event.origin is not None and event.origin.controlled:
        owed.setdefault(event.origin.workload, deque()).append((level, event.pod))


_GATED: Final = "kept out of the scheduling queue by scheduling gates"


def waiting_in(simulation: Simulation, names: Names) -> list[Waiting]:
    """Return the Pods that are Pending at the end of a run by workload, including those left out, without those of
    other schedulers.
    """
    more = {names.name_of(each.key): each.left_out for each in pods_left_out(simulation) if each.pending}
    origins, groups = simulation.timeline.origins, dict[str, list[str]]()
    pods = [state.pod for state in simulation.api.pods.values() if simulation.scheduler.is_pending(state)]
    messages = {pod.key: _GATED for pod in pods if is_gated(pod, simulation.world.semantics)}
    messages |= {event.pod: event.message for event in simulation.timeline.events if event.event == "unschedulable"}
    for pod in pods:
        groups.setdefault(names.name_of(origins[pod.key].workload), []).append(pod.key)
        messages |= {pod.key: why} if (why := _why_group_pending(simulation, pod)) else {}
    rows = [_waiting_group(simulation, group, keys, messages) for group, keys in sorted(groups.items())]
    return [row._replace(pods=row.pods + more.get(row.group, 0)) for row in rows]


class OfOtherScheduler(NamedTuple):
    """New Pods of a workload that another scheduler may bind. Whether they run is not predicted."""

    workload: str
    scheduler: str

    def __str__(self) -> str:
        return f"new Pods of {self.workload} for another scheduler, {quote(self.scheduler)}"


def count_other_schedulers(simulation: Simulation, names: Names) -> Counter[OfOtherScheduler]:
    """Return the workloads that have new Pods of another scheduler, with the numbers of these Pods."""
    pods = Counter[OfOtherScheduler]()
    for key in sorted({event.pod for event in simulation.timeline.events if event.event == "created"}):
        state = simulation.api.pods.get(_key_of(key))
        if state is not None and is_left_to_another_scheduler(state, simulation):
            name = names.name_of(simulation.timeline.origins[key].workload)
            pods[OfOtherScheduler(name, state.pod.spec.scheduler_name)] += 1
    return pods


def is_left_to_another_scheduler(state: PodState, simulation: Simulation) -> bool:
    """Report whether a Pod is new and another scheduler decides whether it runs."""
    pod, is_waiting = state.pod, state.active and not state.pod.node_name
    return is_waiting and simulation.scheduler.leaves(pod) and not simulation.timeline.origins[pod.key].before


def _why_group_pending(simulation: Simulation, pod: Pod) -> str | None:
    """Return why kube-scheduler does not try to schedule a Pod: its PodGroup is missing, or has too few Pods.

    None if the PodGroup has enough Pods, or if the Pod has no PodGroup.
    """
    key = pod.namespace, pod.spec.pod_group
    if not key[1] or simulation.scheduler.queue.groups is None:
        return None
    group = simulation.api.pod_groups.get(key)
    if group is None:
        return f"PodGroup {key[1]} does not exist"
    missing = group.missing(simulation.cache.group_states.count(key))
    lacks = f"PodGroup {group.name} (minCount {group.min_count}) waits for {plural(missing, 'more Pod')}"
    return lacks if missing else None


def _waiting_group(simulation: Simulation, group: str, pods: Sequence[str], messages: Mapping[str, str]) -> Waiting:
    origins, first = simulation.timeline.origins, next((pod for pod in pods if pod in messages), "")
    message = _with_cause(simulation, first, messages[first]) if first else ""
    return Waiting(group, len(pods), origins[pods[0]].priority, message, sum(origins[pod].before for pod in pods))


def _with_cause(simulation: Simulation, key: str, message: str) -> str:
    """Return the message with the cause if no node suits the volumes of the Pod."""
    pod = simulation.api.pods[_key_of(key)].pod
    if not isinstance(message, FitError):
        return message
    cause = cause_of_volumes(framework_of(simulation.cache.snapshot(), pod), pod)
    return FitError(message, message.reasons, message.preemption, cause)


def counted(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return (name, number of occurrences), the most frequent first."""
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))


class _Line(NamedTuple):
    """The events that one line of text reports: of one kind, between the same workloads, in the same second."""

    second: int
    kind: str
    group: str
    other: str
    depth: int = 0
    """The cascade depth of a preemption; preemptions of different depths have different lines."""


def timeline_rows(simulation: Simulation) -> Iterator[tuple[str, str]]:
    """Yield the time, aligned to the right, and the text of the important events, collapsed."""
    lines = list(_lines(simulation))
    width = max((len(duration(second)) for second, _ in lines), default=0)
    for second, text in lines[:_MAX_LINES]:
        yield duration(second).rjust(width), text
    if len(lines) > _MAX_LINES:
        yield "…".rjust(width), f"{len(lines) - _MAX_LINES} more lines; use -o json for every event"


def _lines(simulation: Simulation) -> Iterator[tuple[int, str]]:
    levels, names, nominated = Levels(), names_in(simulation), dict[str, str]()
    events = simulation.timeline.events
    lines = ((_line(event, levels.next(event), levels, names, nominated), event) for event in events)
    for line, alike in grouped((line, event) for line, event in lines if line is not None).items():
        yield line.second, _event_text(line, alike)


def _line(
    event: Event, eviction: Eviction | None, levels: Levels, names: Names, nominated: dict[str, str]
) -> _Line | None:
    """Return the line to which an event belongs; None if the text omits the event."""
    second, group = int(event.t), names.name_of(event.origin.workload) if event.origin else event.node
    if eviction is not None:
        by = names.name_of(event.by_origin.workload) if event.by_origin else ""
        return _Line(second, "preempted", by, group, eviction.level)
    if event.event == "created":
        return _Line(second, "created", group, "") if event.pod in levels.new else None
    if event.event == "nominated":
        before, nominated[event.pod] = nominated.get(event.pod, ""), event.node
        return _Line(second, "moved", group, before) if before not in ("", event.node) else None
    if event.event == "scheduled":
        before = nominated.pop(event.pod, "")
        instead = before not in ("", event.node)
        return _Line(second, "scheduled instead", group, before) if instead else _Line(second, "scheduled", group, "")
    if event.event in ("deleted", "succeeded"):
        return _Line(second, event.event, group, event.message)
    if event.event in _OF_NODES:
        return _Line(second, event.event, group, f"is {event.change}" if event.change else "updated")
    return _Line(second, event.event, event.message, "") if event.event in _WITH_MESSAGE else None


def _event_text(line: _Line, events: Sequence[Event]) -> str:
    nodes = listed([name for name, _ in counted(event.node for event in events if event.node)])
    pods, priority = plural(len(events), "Pod"), _priorities(event.origin for event in events)
    if line.kind == "preempted":
        most = max(event.origin.grace for event in events if event.origin)
        ends = f", grace period {duration(most)}" if most else ""
        victim = line.other if line.other == events[0].pod else f"{pods} of {line.other}"
        by = _priorities(event.by_origin for event in events)
        return f"{line.group} (priority {by}) preempts {victim} (priority {priority}) on {nodes}{ends}"
    return _TEXTS[line.kind].format(group=line.group, other=line.other, pods=pods, nodes=nodes, priority=priority)


def _priorities(origins: Iterable[Origin | None]) -> str:
    return listed([str(number) for number in sorted({origin.priority for origin in origins if origin})])


Signature = tuple[Any, ...]


@dataclass(eq=False)
class Outcome(Document):
    """The outcome of one or more runs. `count`: number of runs with this outcome. `run`: number of the first of them,
    see `random_of`.
    """

    simulation: Hidden[Simulation]
    count: int = 1
    run: Hidden[int] = 0

    @in_json
    def timeline(self) -> Sequence[Event]:
        return self.simulation.timeline.events

    @in_json
    def final(self) -> dict[str, Any]:
        return self.simulation.final()

    @in_json
    def pending(self) -> list[str]:
        return [name for name, entry in self.final.items() if not entry["node"]]

    @in_json
    def ended_at(self) -> float:
        return self.simulation.clock.now

    @optional_in_json
    def stopped(self) -> str | None:
        return self.simulation.stopped or None


def explore(make: Callable[[Random | None], Simulation], runs: int, seed: int = 0, *, first: int = 0) -> list[Outcome]:
    """Run a simulation `runs` times and return the distinct outcomes. `first`: number of the first run."""
    outcomes: dict[Signature, Outcome] = {}
    for run in range(first, first + max(runs, 1)):
        simulation = make(random_of(seed, run))
        simulation.run()
        outcome = outcomes.setdefault(signature(simulation), Outcome(simulation, run=run))
        outcome.count += outcome.simulation is not simulation
    return list(outcomes.values())


def random_of(seed: int, run: int) -> Random | None:
    """Return the random numbers that decide ties and races in a run; None for the first run."""
    return Random(f"{seed} {run}") if run else None


def signature(simulation: Simulation) -> Signature:
    """Return a key of outcomes: the final state, and each Pod's events with node, preemptor and whole second."""
    final = tuple((name, tuple(entry.items())) for name, entry in simulation.final().items())
    events = (event for event in simulation.timeline.events if event.pod and event.event != "unschedulable")
    by_pod = grouped((event.pod, (int(event.t), event.event, event.node, event.by)) for event in events)
    return final, tuple((pod, tuple(entries)) for pod, entries in sorted(by_pod.items()))
