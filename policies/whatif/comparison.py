"""The state of a cluster after something has happened and settled, against the state before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.controllers.disruption import BudgetStatus
from policies.controllers.job import JobStatus, backoff_limit
from policies.controllers.recreated import Again
from policies.kinds import DAEMON_SET
from policies.simulation.api_server import BUDGET, controller_of
from policies.simulation.controller_manager import JOB
from policies.simulation.drain import forbidden_by, left_on
from policies.simulation.simulation import Simulation
from policies.simulation.summary import Levels, names_in, summarize
from policies.whatif import autoscalers

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from policies.controllers.view import Key, PodState
    from policies.objects.fields import ApiObject
    from policies.simulation.scenario import World
    from policies.simulation.summary import Names, Summary
    from policies.simulation.timeline import Origin
    from policies.whatif.autoscalers import Autoscalers, Autoscaling
    from policies.whatif.occupancy import Occupancy
    from policies.whatif.questions import Question
    from policies.whatif.upgrade import Upgrade

NO_CLASS: Final = "none"
_USUAL: Final = autoscalers.Autoscaling()


class Standing(NamedTuple):
    """How a workload stands (or a pod that nothing makes again): its running pods `before` and `after`, those that wait
    for a node then and now, and upstream's words why. `workload`: as `Summary.names` has it."""

    workload: str
    namespace: str
    priority_class: str
    priority: int
    before: int
    after: int
    pending_before: int
    pending: int
    message: str = ""
    again: Again = Again.CONTROLLER
    """What creates its pods again."""
    kind: str = ""
    """`group/Kind` of what controls them; of a workload that is simulated, of the top one."""
    with_node: int = 0
    """Of a DaemonSet: pods that were on nodes which are gone in the end, and are not missed."""
    failure: str = ""
    """Why its Job fails, empty where it does not."""

    @property
    def lost(self) -> int:
        """How many fewer pods run in the end."""
        return max(self.before - self.after, 0)

    @property
    def missed(self) -> int:
        """How many of those are missed: a DaemonSet's pods go with their node."""
        return max(self.lost - self.with_node, 0)


class Push(NamedTuple):
    """A pod that was pushed out: by whom, at `t` seconds, on which level of the cascade."""

    t: float
    level: int
    node: str
    by: str
    by_workload: str
    by_namespace: str
    by_class: str
    by_priority: int
    victim: str
    workload: str
    namespace: str
    priority_class: str
    priority: int


class Bound(NamedTuple):
    """When the last pod of a workload was bound that got a node at all, in seconds."""

    workload: str
    namespace: str
    priority_class: str
    t: float


class Anyway(NamedTuple):
    """What would happen without the event. `fewer`: replicas that run no more in the end."""

    summary: Summary
    fewer: int


class Answer(NamedTuple):
    """What comes of a question. `standings`: of the workloads for which something differs, or that lack pods.

    `budgets`: disruption budget -> (healthy pods, pods that it wants to be healthy), of those that have too few in the
    end and had enough before. `anyway`: what would happen without it, where anything is under way. `stuck`: node
    that could not be emptied -> the pods left on it; `forbidden`: such a pod -> the budgets that forbid its eviction.
    `upgrade`: how far one got. `unread`: what its controllers cannot go on with, and why. `not_modelled`: what the
    answer leaves open.
    `autoscalers`: what they would make of the pods that wait in the end.
    """

    title: str
    running_before: int
    running_after: int
    standings: Sequence[Standing]
    pushes: Sequence[Push]
    budgets: Mapping[str, tuple[int, int]]
    stuck: Mapping[str, Sequence[str]]
    forbidden: Mapping[str, Sequence[str]]
    unread: Sequence[str]
    not_modelled: Sequence[str]
    bound: Sequence[Bound]
    simulation: Simulation
    summary: Summary
    anyway: Anyway | None
    autoscalers: Autoscalers
    occupancy: Occupancy | None = None
    upgrade: Upgrade | None = None
    drained: Sequence[str] = ()
    """The nodes of a drain that is no upgrade, in their order."""

    @property
    def fewer(self) -> int:
        """Replicas that no longer run, without those that go with their node: the figure of a sweep."""
        return sum(standing.missed for standing in self.standings)

    @property
    def with_nodes(self) -> int:
        """DaemonSet pods that go with their node."""
        return sum(standing.lost - standing.missed for standing in self.standings)

    @property
    def blocked(self) -> bool:
        """Whether a node that was to be drained or upgraded is not."""
        return bool(self.stuck) or (self.upgrade is not None and not self.upgrade.complete)

    def count_pending(self, what: str) -> list[tuple[str, int]]:
        """Pods that wait in the end by `priority_class`, `namespace` or `workload`, most first."""
        counted: Counter[str] = Counter()
        for standing in self.standings:
            if standing.pending:
                counted[getattr(standing, what) or NO_CLASS] += standing.pending
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def ask(
    question: Question,
    world: World,
    progress: Callable[[float, int], None] | None = None,
    watch: Callable[[Simulation], Occupancy] | None = None,
    autoscaling: Autoscaling = _USUAL,
    *,
    without: bool = True,
) -> Answer:
    """Run it. `world`: with the question's arrivals; `watch`: Occupancy, where the answer is to have one; `without`:
    whether it is to say what would happen anyway. Raises ValueError where that takes too long."""
    simulation = Simulation(world, progress=progress)
    occupancy = watch(simulation) if watch else None
    before, budgets, failed = _standing(simulation), short_budgets(simulation), _failed_jobs(simulation)
    if question.upgrade is not None:
        question.upgrade.start(simulation)
    simulation.run()
    after, summary = _standing(simulation), summarize(simulation)
    stuck = {name: left for name in question.drained if (left := _stuck(simulation, name))}
    messages = {waiting.group: waiting.message for waiting in summary.waiting}
    failures = _failures(simulation, failed)
    return Answer(
        title=question.title,
        running_before=sum(count.running for count in before.values()),
        running_after=sum(count.running for count in after.values()),
        standings=_compared(before, after, messages, failures, simulation.api.nodes, summary.names),
        pushes=_pushes(simulation, summary.names),
        budgets={name: counts for name, counts in short_budgets(simulation).items() if name not in budgets},
        stuck=stuck,
        forbidden=_forbidden(simulation, stuck),
        unread=sorted(simulation.controllers.unreadable.values()),
        not_modelled=simulation.storage.not_modelled,
        bound=_bound(simulation, summary.names),
        simulation=simulation,
        summary=summary,
        anyway=_without(world) if without else None,
        autoscalers=autoscalers.after_simulation(simulation, autoscaling, summary.names),
        occupancy=occupancy,
        upgrade=question.upgrade,
        drained=() if question.upgrade is not None else question.drained,
    )


class Losses:
    """How many replicas fewer run than did in this simulation, which has not run yet. A DaemonSet's pods go with their
    node: they are missed where they lose their place on one that is still there. `names`: of its workloads."""

    def __init__(self, simulation: Simulation) -> None:
        origins, api = simulation.timeline.origins, simulation.api
        running = (state.pod.key for state in api.pods.values() if _runs(state, simulation))
        self._workloads = {name: origins[name].workload for name in running}
        self._daemons = {state.pod.key: state.pod.node_name for state in api.pods.values() if _is_daemon(state)}
        self.names = names_in(simulation)
        self.running = len(self._workloads)

    def of(self, simulation: Simulation) -> dict[str, int]:
        """Workload -> how many fewer, of one of the same cluster, which has run; those that have lost some."""
        return {self.names.of(workload): count for workload, count in self.by_workload(simulation).items()}

    def by_workload(self, simulation: Simulation) -> dict[tuple[str, str], int]:
        """The same by (kind, `namespace/name`)."""
        api, origins = simulation.api, simulation.timeline.origins
        lost: Counter[tuple[str, str]] = Counter()
        for name in touched(simulation):
            went_with_node = name in self._daemons and self._daemons[name] not in api.nodes
            if name in self._workloads and not went_with_node:
                lost[self._workloads[name]] += 1
            namespace, _, own = name.partition("/")
            state = api.pods.get((namespace, own))
            if state is not None and _runs(state, simulation):
                lost[origins[name].workload] -= 1
        return {workload: lost[workload] for workload in sorted(lost, key=_by_name) if lost[workload] > 0}


def _by_name(workload: tuple[str, str]) -> tuple[str, str]:
    return workload[1], workload[0]


def touched(simulation: Simulation) -> set[str]:
    """The pods of which something may differ from time 0: all others are as they were."""
    found = {event.pod for event in simulation.timeline.events if event.pod}
    found.update(state.pod.key for state in simulation.api.strays())
    return found


def _is_daemon(state: PodState) -> bool:
    controller = controller_of(state.pod)
    return controller is not None and controller[0] == DAEMON_SET


def _runs(state: PodState, simulation: Simulation) -> bool:
    there = not state.terminating and not state.pod.terminal
    return there and state.pod.node_name in simulation.api.nodes


class _Count:
    """Of a workload's pods. `daemons`: node -> pods of a DaemonSet that run there."""

    def __init__(self, origin: Origin) -> None:
        self.origin, self.running, self.pending = origin, 0, 0
        self.daemons: Counter[str] = Counter()


def _standing(simulation: Simulation) -> dict[tuple[str, str], _Count]:
    found: dict[tuple[str, str], _Count] = {}
    nodes, origins = simulation.api.nodes, simulation.timeline.origins
    for state in simulation.api.pods.values():
        if state.terminating or state.pod.terminal:
            continue
        origin = origins[state.pod.key]
        count = found.get(origin.workload)
        if count is None:
            count = found[origin.workload] = _Count(origin)
        if not state.pod.node_name:
            count.pending += 1
        elif state.pod.node_name in nodes:
            count.running += 1
            if _is_daemon(state):
                count.daemons[state.pod.node_name] += 1
    return found


def _compared(
    before: Mapping[tuple[str, str], _Count],
    after: Mapping[tuple[str, str], _Count],
    messages: Mapping[str, str],
    failures: Mapping[tuple[str, str], str],
    nodes: Container[str],
    names: Names,
) -> list[Standing]:
    """Those that have lost most first. `nodes`: those that are there in the end."""
    found = []
    for workload in {**before, **after}:
        origin = (after.get(workload) or before[workload]).origin
        one, other = before.get(workload, _Count(origin)), after.get(workload, _Count(origin))
        counts = one.running, other.running, one.pending, other.pending
        if counts[0] != counts[1] or counts[2] or counts[3]:
            name = names.of(workload)
            about = name, origin.namespace, origin.priority_class, origin.priority
            message = messages.get(name, "") if counts[3] else ""
            with_node = sum(pods for node, pods in one.daemons.items() if node not in nodes)
            failure = failures.get(workload, "")
            found.append(Standing(*about, *counts, message, origin.again, origin.kind, with_node, failure))
    return sorted(found, key=lambda s: (-s.lost, -s.pending, s.workload))


def _failed_jobs(simulation: Simulation) -> dict[Key, JobStatus]:
    """The Jobs that have failed, or are about to."""
    states = (simulation.api.workloads[key] for key in simulation.api.keys_of(JOB))
    return {s.key: s.status for s in states if isinstance(s.status, JobStatus) and s.status.failure}


def _failures(simulation: Simulation, before: Container[Key]) -> dict[tuple[str, str], str]:
    """Workload -> why its Jobs fail, of those that had not failed before."""
    found: dict[tuple[str, str], list[str]] = {}
    for key, status in _failed_jobs(simulation).items():
        if key not in before:
            state = simulation.api.workloads[key]
            owner = state.controller if state.controller in simulation.api.workloads else None
            kind, namespace, name = owner or key
            found.setdefault((kind, f"{namespace}/{name}"), []).append(_why_failed(state.object, status))
    return {
        workload: f"the Job fails: {why[0]}" if len(why) == 1 else f"{len(why)} Jobs fail: {why[0]}"
        for workload, why in found.items()
    }


def _why_failed(job: ApiObject, status: JobStatus) -> str:
    if status.failure != "BackoffLimitExceeded":
        return status.failure
    return f"{status.failure}, more Pods failed than backoffLimit {backoff_limit(job)}"


def _pushes(simulation: Simulation, names: Names) -> list[Push]:
    levels, found = Levels(), []
    for event in simulation.timeline.events:
        eviction = levels.next(event)
        if eviction is not None:
            by, origin = event.by_origin, eviction.origin
            found.append(
                Push(
                    t=event.t,
                    level=eviction.level,
                    node=eviction.node,
                    by=eviction.by,
                    by_workload=names.of(by.workload) if by else eviction.by,
                    by_namespace=by.namespace if by else "",
                    by_class=by.priority_class if by else "",
                    by_priority=by.priority if by else 0,
                    victim=eviction.victim,
                    workload=names.of(origin.workload),
                    namespace=origin.namespace,
                    priority_class=origin.priority_class,
                    priority=origin.priority,
                )
            )
    return found


def _bound(simulation: Simulation, names: Names) -> list[Bound]:
    """By workload."""
    found: dict[str, Bound] = {}
    for event in simulation.timeline.events:
        if event.event == "scheduled" and event.origin is not None:
            origin, name = event.origin, names.of(event.origin.workload)
            found[name] = Bound(name, origin.namespace, origin.priority_class, event.t)
    return [found[name] for name in sorted(found)]


def short_budgets(simulation: Simulation) -> dict[str, tuple[int, int]]:
    """Budgets with fewer healthy pods than they want."""
    found = {}
    for key in simulation.api.keys_of(BUDGET):
        status = simulation.api.workloads[key].status
        if isinstance(status, BudgetStatus) and status.current_healthy < status.desired_healthy:
            found["/".join(key[1:])] = (status.current_healthy, status.desired_healthy)
    return found


def _stuck(simulation: Simulation, name: str) -> list[str]:
    """The pods on a node that was to be emptied and is not: of one that is in service again, none."""
    node = simulation.api.nodes.get(name)
    return left_on(simulation.api, name) if node is not None and node.unschedulable else []


def _forbidden(simulation: Simulation, stuck: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Pod that is left on a node -> the budgets that forbid its eviction."""
    states = (state for node in stuck for state in simulation.api.by_node.get(node, {}).values())
    found = {state.pod.key: forbidden_by(simulation.api, state) for state in states}
    return {pod: found[pod] for pods in stuck.values() for pod in pods if found.get(pod)}


def at_rest(world: World) -> bool:
    """Whether no pod waits for a node or ends at time 0."""
    return all(s.pod.terminal or (s.pod.node_name and not s.terminating) for s in world.pods)


def _without(world: World) -> Anyway | None:
    """What happens without it; None: nothing that anybody would blame the event for."""
    simulation = Simulation(world._replace(arrivals=()))
    losses = Losses(simulation)
    simulation.run()
    found = Anyway(summarize(simulation), sum(losses.of(simulation).values()))
    quiet = not (found.fewer or found.summary.evictions or found.summary.waiting or found.summary.missing)
    return None if quiet and at_rest(world) else found


def pairs(pushes: Iterable[Push]) -> list[tuple[tuple[str, int, str, int], list[Push]]]:
    """(who, priority, whom, priority) with the pushes, most first."""
    found: dict[tuple[str, int, str, int], list[Push]] = {}
    for push in pushes:
        found.setdefault((push.by_workload, push.by_priority, push.workload, push.priority), []).append(push)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def as_dict(answer: Answer) -> dict[str, Any]:
    """For programs."""
    told: dict[str, Any] = {
        "change": answer.title,
        "settled": answer.summary.settled,
        "settledAt": round(answer.summary.settled_at, 4),
        "running": {"before": answer.running_before, "after": answer.running_after},
        "fewer": answer.fewer,
        "daemonPodsOfLostNodes": answer.with_nodes,
        "workloads": [
            {
                "workload": s.workload,
                "namespace": s.namespace,
                "priorityClass": s.priority_class,
                "priority": s.priority,
                "running": {"before": s.before, "after": s.after},
                "pending": {"before": s.pending_before, "after": s.pending},
                "message": s.message,
                **({"failure": s.failure} if s.failure else {}),
                "replacedBy": str(s.again),
            }
            for s in answer.standings
        ],
        "pending": {
            name: dict(answer.count_pending(what))
            for name, what in (("byClass", "priority_class"), ("byNamespace", "namespace"), ("byWorkload", "workload"))
        },
        "autoscalers": autoscalers.as_dict(answer.autoscalers),
        "preempted": [
            {
                "t": round(p.t, 4),
                "cascadeDepth": p.level,
                "node": p.node,
                "by": {"pod": p.by, "workload": p.by_workload, "priority": p.by_priority},
                "victim": {
                    "pod": p.victim,
                    "workload": p.workload,
                    "namespace": p.namespace,
                    "priorityClass": p.priority_class,
                    "priority": p.priority,
                },
            }
            for p in answer.pushes
        ],
        "pdbs": {
            "violatedByPreemption": dict(answer.summary.broken_budgets),
            "tooFewHealthy": {name: {"healthy": h, "desired": d} for name, (h, d) in sorted(answer.budgets.items())},
        },
        "rejectedByQuota": {each.group: each.pods for each in answer.summary.missing},
        "notDrained": {name: list(pods) for name, pods in sorted(answer.stuck.items())},
        "evictionBlockedBy": {pod: list(budgets) for pod, budgets in sorted(answer.forbidden.items())},
        "notSimulated": list(answer.unread),
        **({"assumptions": list(answer.summary.assumes)} if answer.summary.assumes else {}),
        "notModelled": list(answer.not_modelled),
    }
    if answer.upgrade is not None:
        told["upgrade"] = answer.upgrade.to_dict()
    if answer.anyway is not None:
        told["withoutChange"] = answer.anyway.summary.to_dict() | {"fewer": answer.anyway.fewer}
    return told
