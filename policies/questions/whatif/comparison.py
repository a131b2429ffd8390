"""Compare the cluster's steady state after an event with the state before the event."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import duration, listed, one_line
from forewarn.policies.kubernetes.controllers.changes import replaces_no_pods
from forewarn.policies.kubernetes.controllers.cron_job import fault_of_schedule, next_start
from forewarn.policies.kubernetes.controllers.deployment import is_paused
from forewarn.policies.kubernetes.controllers.disruption import SCALED, PdbStatus
from forewarn.policies.kubernetes.controllers.job import JobStatus, wanted_pods
from forewarn.policies.kubernetes.controllers.view import Key, PodState, workload_key
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.quota import is_exceeded_more
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    at,
    group_kind,
    int32,
    mapping,
    ref_of,
    string_map,
    text_at,
)
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.pod_loss import PodLoss, losses_of, named_loss
from forewarn.policies.kubernetes.objects.workload import backoff_limit
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import lacks_capacity
from forewarn.policies.kubernetes.scheduling.reasons import FitError
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.forecast.why_not import cause, lasting_constraint
from forewarn.policies.prediction.simulation.scenario import Arrival, World
from forewarn.policies.prediction.simulation.simulation import Simulation, forbidden_by, remaining_on
from forewarn.policies.prediction.simulation.summary import (
    Levels,
    Names,
    Summary,
    count_other_schedulers,
    is_left_to_another_scheduler,
    names_in,
    pods_left_out,
    summarize,
)
from forewarn.policies.questions.whatif import MAX_UNTIL, autoscalers, new_nodes
from forewarn.policies.questions.whatif.answer import (
    Answer,
    BeforeAfter,
    Blocks,
    Bound,
    EndState,
    NotRecreated,
    Preemption,
    WithoutChange,
    WorkloadCount,
)
from forewarn.policies.questions.whatif.interruptions import interruptions, surplus
from forewarn.policies.questions.whatif.races import equal_victims, rivals
from forewarn.policies.questions.whatif.upgrade import DrainBlocker, blockers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Sized
    from random import Random

    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.prediction.simulation.clock import Origin
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.occupancy import Occupancy
    from forewarn.policies.questions.whatif.questions import Question

    Ended = Callable[[Simulation, Question], Answer]

_MAX_CAUSES: Final = 20
"""Maximum number of workloads whose unmet constraints are evaluated."""
MAX_REPEATED: Final = 2_000
"""Maximum number of Pods, nodes and events of a simulation that is repeated: about 20 s of CPU time."""

_JOB_STARTS: Final = 5.0
"""Seconds after the time of a CronJob until its Pods exist. The run does not end before, and then the CronJob is
suspended, unless all its Jobs are simulated.
"""


def is_repeated(pods: Sized, nodes: Sized) -> bool:
    """Report whether the cluster is small enough to simulate it several times, which shows the effect of chance."""
    return len(pods) + len(nodes) <= MAX_REPEATED


def ask(
    question: Question,
    world: World,
    progress: Callable[[float, int], None] | None = None,
    watch: Callable[[Simulation], Occupancy] | None = None,
    autoscaling: Autoscaling = autoscalers.NO_GROUPS,
    *,
    without: bool = True,
    random: Random | None = None,
    run: Callable[[Simulation, Ended], object] | None = None,
) -> Answer:
    """Simulate a question, and return the answer. Raises ValueError if the simulation takes too long.

    `world`: the cluster with the arrivals (timed changes) of the question. `progress`: called with the simulated
    seconds and a count. `watch`: returns an Occupancy, which records the Pods on each node, for the given simulation.
    `without`: also simulate the cluster without the event. `random`: for ties and races. `run`: runs the simulation;
    its second argument returns the answer of another simulation of the question, after its end.
    """
    simulation = Simulation(world, random, progress=progress)
    occupancy = watch(simulation) if watch else None
    ended = partial(
        answer_after, start=Start.from_simulation(simulation, question), autoscaling=autoscaling.after(question.lost)
    )
    prepare(simulation, question)
    run(simulation, ended) if run else simulation.run()
    answer = ended(simulation, question)._replace(occupancy=occupancy)
    return compared_without(answer, question, world, outcome_without_change(world)) if without else answer


def compared_without(answer: Answer, question: Question, world: World, without: WithoutChange) -> Answer:
    """Add the outcome without the change, unless nothing changes. Of workloads that the question does not change, Pods
    that are created anyway are no new Pods.
    """
    summary = answer.after.summary
    changed = {"/".join(ref_of(arrival.object, registry.DEFAULT_NAMESPACE)[2:]) for arrival in question.arrivals}
    same = dict(summary.new_workloads.items() & without.summary.new_workloads.items())
    others = [name for name in same if summary.names.group(name) not in changed]
    shown = None if without.is_quiet and is_at_rest(world) else without
    summary = summarize(answer.after.simulation, others) if others else summary
    return answer._replace(without_change=shown, after=answer.after._replace(summary=summary))


class Start(NamedTuple):
    """The start of a simulation, which an answer compares with its end. `before`, `replicas`, `templates`: by workload.
    `pdbs`: those with too few Pods.
    """

    before: Mapping[tuple[str, str], Count]
    replicas: Counter[tuple[str, str]]
    pdbs: Mapping[str, tuple[int, int]]
    all_pdbs: frozenset[Key]
    failed: Mapping[Key, JobStatus]
    blocking: Sequence[DrainBlocker]
    templates: Mapping[tuple[str, str], ApiObject]
    over_quota: Mapping[str, str]

    @classmethod
    def from_simulation(cls, simulation: Simulation, question: Question) -> Start:
        before = count_by_workload(simulation)
        return cls(
            before,
            _replicas(simulation, question, before),
            pdbs_below_desired(simulation),
            frozenset(simulation.api.keys_of(registry.DISRUPTION_BUDGET)),
            failed_jobs(simulation),
            blockers_of(simulation, _with_evictions(simulation, question)),
            _templates(simulation, question),
            _pods_over_quota(simulation, question),
        )


def answer_after(
    simulation: Simulation, question: Question, start: Start, autoscaling: Autoscaling = autoscalers.NO_GROUPS
) -> Answer:
    """Return the answer after the end of a simulation."""
    after, summary = count_by_workload(simulation), summarize(simulation)
    drains = _drains(simulation)
    not_drained = {
        name: left for name in sorted({*drains, *_upgraded(question)}) if (left := _stuck(simulation, name, drains))
    }
    losses = losses_of(_lost_pods(simulation), lambda *_: None) + list(_failed_with_jobs(simulation, start.failed))
    pdbs = pdbs_below_desired(simulation, start.all_pdbs - _pdbs_of_removed(simulation, question, start))
    others = count_other_schedulers(simulation, summary.names)
    workloads = _compared(simulation, question, start, after, summary)
    losers = {each.workload for each in workloads if each.lost}
    racing, are_all = rivals(simulation, summary.names, losers) if losers else (set[str](), True)
    equal = equal_victims(simulation, summary.names)
    unread = simulation.controllers.unreadable.values()
    starved = new_nodes.starved_on(simulation, simulation.api.nodes, summary.names) if question.restarts else ()
    state = EndState(
        running_before=sum(count.running for count in start.before.values()),
        running_after=sum(count.running for count in after.values()),
        workloads=workloads,
        preempted=preemptions_of(simulation, summary.names),
        pdbs={name: counts for name, counts in pdbs.items() if name not in start.pdbs},
        not_drained=not_drained,
        eviction_blocked_by=_forbidden(simulation, not_drained),
        not_simulated=[
            *sorted(map(str, unread)),
            *map(str, summary.left_out),
            *_starting_later(question, simulation.world),
            *_on_named_nodes(question, simulation.timeline.origins),
            *map(str, others),
        ],
        not_modelled=[*_simulated_jobs(question, simulation.world), *simulation.storage.not_modelled],
        bound=_bound(simulation, summary.names),
        simulation=simulation,
        summary=summary,
        upgrade=question.upgrade,
        drains_blocked_by=[
            each for each in blockers_of(simulation, not_drained) if each.never or not summary.is_changing
        ],
        drained=[*drains],
        blocks=Blocks(
            _not_recreated(simulation, question, start, summary.names),
            _blockers(simulation, question, start, summary),
            _blocked_rollouts(start, _templates(simulation, question), summary),
        ),
        new_nodes=new_nodes.new_nodes_after(simulation, question.added, summary.names) if question.added else None,
        pending_daemon_sets=starved,
        pod_losses=losses,
        rivals=sorted(racing.union(*map(equal.__getitem__, losers))),
        equal_victims=sorted(set[str]().union(*equal.values())),
        by_timing=simulation.timeline.has_close_preemptions(),
        has_more_rivals=not are_all or simulation.scheduler.algorithm.has_more_equal,
        left=others,
        interruptions=interruptions(simulation, summary.names, (count.origin for count in start.before.values())),
    )
    return Answer(
        question.title,
        state,
        autoscalers.autoscalers(autoscalers.PendingPods.from_simulation(simulation, summary.names), autoscaling),
        replicas=question.replicas and BeforeAfter(*question.replicas),
        removal=question.removal,
    )


def prepare(simulation: Simulation, question: Question) -> None:
    """Prepare a simulation to record equal victims and draws, and add what the arrivals of a question do not contain:
    the steps of an upgrade, and the starts of CronJobs.
    """
    simulation.scheduler.algorithm.equal = []
    if is_repeated(simulation.world.pods, simulation.world.nodes):
        simulation.scheduler.watch_draws()
    if question.upgrade is not None:
        question.upgrade.start(simulation)
    horizon = simulation.world.horizon
    for obj, start in _first_starts(question, simulation.world):
        if question.every_job and start <= horizon:
            simulation.await_time(horizon)
        elif start <= horizon:
            suspended = {**obj, "spec": {**mapping(obj, "spec"), "suspend": True}}
            simulation.add([Arrival(start + _JOB_STARTS, "update", suspended)])


def _first_starts(question: Question, world: World) -> Iterator[tuple[ApiObject, float]]:
    """Yield the CronJobs of a question, with the second at which each creates its next Job."""
    for arrival in question.arrivals:
        if arrival.op in ("create", "update") and group_kind(arrival.object) == registry.CRON_JOB:
            start = next_start(arrival.object, world.epoch + arrival.at)
            if start is not None:
                yield arrival.object, start - world.epoch


def _on_named_nodes(question: Question, origins: Mapping[str, Origin]) -> Iterator[str]:
    """Yield a sentence for each new Pod that names its node, where the kubelet may reject it or preempt for it."""
    for obj in (arrival.object for arrival in question.arrivals if group_kind(arrival.object) == registry.POD):
        ref, node = ref_of(obj, registry.DEFAULT_NAMESPACE), at(obj, "spec", "nodeName")
        origin = origins.get(f"{ref.namespace}/{ref.name}")
        if node and origin is not None and not origin.before:
            fix = f"pass it to forewarn whatif pressure {one_line(str(node))} --admit"
            yield f"{ref}: spec.nodeName bypasses kube-scheduler, and the kubelet decides. Fix: {fix}"


def _starting_later(question: Question, world: World) -> Iterator[str]:
    """Yield which CronJobs of a question create no Job in the simulation, and why."""
    for obj in (arrival.object for arrival in question.arrivals if group_kind(arrival.object) == registry.CRON_JOB):
        if fault := fault_of_schedule(obj):
            name = "/".join(ref_of(obj, registry.DEFAULT_NAMESPACE)[2:])
            yield f"CronJob {name}: forewarn reads no such schedule: {fault}"
    for obj, start in _first_starts(question, world):
        if start > world.horizon:
            ref, until = ref_of(obj, registry.DEFAULT_NAMESPACE), duration(world.horizon)
            name = f"CronJob {ref.namespace}/{ref.name}"
            hours = math.ceil((start + _JOB_STARTS) / 3600)
            fix = f". Fix: --until {hours}h" if hours * 3600 <= MAX_UNTIL else ""
            yield f"{name}: next Job after {duration(start)}, the simulation ends after {until}{fix}"


def _simulated_jobs(question: Question, world: World) -> Iterator[str]:
    """Yield which Jobs of the CronJobs of a question are simulated, and how long their Pods run."""
    starts = _first_starts(question, world)
    names = ["/".join(ref_of(obj, "default")[2:]) for obj, start in starts if start <= world.horizon]
    if names:
        until = duration(world.horizon)
        which = f"all Jobs due in {until} are" if question.every_job else "only the first Job (all: --until) is"
        yield f"CronJob {listed(names, 2)}: {which} simulated, and Pods of Jobs are assumed not to end"


def placeholder_workloads(simulation: Simulation, pods: Iterable[Pod], options: Options) -> set[tuple[str, str]]:
    """Return the (kind, `namespace/name`) of the workloads of placeholder Pods. `pods`: all Pods at the start."""
    origins = simulation.timeline.origins
    return {origins[pod.key].workload for pod in pods if is_placeholder(pod, options) and pod.key in origins}


def placeholders_of(answer: Answer, pods: Iterable[Pod], options: Options) -> list[str]:
    """Return the workloads of placeholder Pods that have fewer Pods after the change, or may lose some.

    `pods`: all Pods at the start.
    """
    names, workloads = names_in(answer.after.simulation), placeholder_workloads(answer.after.simulation, pods, options)
    found = {each.workload for one in (answer, answer.end) for each in one.after.preempted}
    found |= {
        each.workload for one in (answer, answer.end) for each in one.after.workloads if each.lost or each.scaled_down
    }
    found |= {name for one in (answer, answer.end) for name in (*one.after.rivals, *one.after.equal_victims)}
    return sorted({*map(names.name_of, workloads)} & found)


def _runs(state: PodState, simulation: Simulation) -> bool:
    exists = not state.terminating and not state.pod.terminal
    return exists and state.pod.node_name in simulation.api.nodes


class Count:
    """The number of Pods of one workload, running and Pending. `daemons`: number of running DaemonSet Pods by node.
    `left`: number of new Pods that kube-scheduler leaves to another scheduler.
    """

    def __init__(self, origin: Origin) -> None:
        self.origin, self.running, self.pending, self.left = origin, 0, 0, 0
        self.daemons: Counter[str] = Counter()

    def daemons_of_lost(self, nodes: Container[str]) -> int:
        """Return the number of DaemonSet Pods on lost nodes. `nodes`: the nodes that still exist."""
        return sum(pods for node, pods in self.daemons.items() if node not in nodes)


def count_by_workload(simulation: Simulation) -> dict[tuple[str, str], Count]:
    """Return the numbers of Pods by (`group/Kind`, `namespace/name`) of their workload, also of those left out; without
    Pending Pods of other schedulers.
    """
    found: dict[tuple[str, str], Count] = {}
    nodes, origins = simulation.api.nodes, simulation.timeline.origins
    for state in simulation.api.pods.values():
        if state.terminating or state.pod.terminal:
            continue
        origin = origins[state.pod.key]
        count = found.get(origin.workload)
        if count is None:
            count = found[origin.workload] = Count(origin)
        if not state.pod.node_name:
            if is_pending := simulation.scheduler.is_pending(state):
                count.origin = origin  # an update may give new Pods another class
            count.pending += is_pending
            count.left += is_left_to_another_scheduler(state, simulation)
        elif state.pod.node_name in nodes:
            count.running += 1
            if state.pod.owner_kind == registry.DAEMON_SET:
                count.daemons[state.pod.node_name] += 1
    for each in pods_left_out(simulation):
        if each.pending:
            found[each.key].pending += each.left_out
    return found


def more_pending(
    before: Mapping[tuple[str, str], Count], after: Mapping[tuple[str, str], Count]
) -> Counter[tuple[str, str]]:
    """Return how many more Pods are Pending at the end, by workload, without zeros."""
    one, other = (Counter({workload: count.pending for workload, count in each.items()}) for each in (before, after))
    return other - one


def lost_replicas(
    simulation: Simulation, before: Mapping[tuple[str, str], Count], after: Mapping[tuple[str, str], Count]
) -> Counter[tuple[str, str]]:
    """Return the number of replicas that no longer run, by workload as in `count_by_workload`, without zeros.

    Ignores DaemonSet Pods on deleted nodes, Pods that a workload has beyond its replicas, and lost Pods whose
    replacements another scheduler may bind. `before`, `after`: at the start and at the end of the simulation.
    """
    more = surplus(simulation, {workload: count.running for workload, count in before.items()})
    lost = Counter[tuple[str, str]]()
    for workload, count in sorted(before.items(), key=lambda item: item[0][::-1]):
        end = after.get(workload, Count(count.origin))
        unwanted = more[workload] + count.daemons_of_lost(simulation.api.nodes)
        lost[workload] = max(count.running - end.running - end.left - unwanted, 0)
    return +lost


def _replicas(
    simulation: Simulation, question: Question, before: Mapping[tuple[str, str], Count]
) -> Counter[tuple[str, str]]:
    """Return the desired Pods of the workloads that a question changes, by (`group/Kind`, `namespace/name`).

    For an existing DaemonSet or Job, these are the Pods that run before the event; for a Job with a known run time, the
    Pods that it still needs.
    """
    found = Counter[tuple[str, str]]()
    for arrival in question.arrivals:
        key = workload_key(arrival.object)
        state, workload = simulation.api.workloads.get(key), (key[0], "/".join(key[1:]))
        if state is not None and arrival.op == "run":
            top = state.controller if state.controller in simulation.api.workloads else state.key
            status = state.status if isinstance(state.status, JobStatus) else JobStatus()
            found[top[0], "/".join(top[1:])] += wanted_pods(state.object, status)
        elif state is not None and key[0] in SCALED:
            count = int32(state.object, "spec", "replicas")
            found[workload] = 1 if count is None else count
        elif state is not None and workload in before:
            found[workload] = before[workload].running
    return found


def _templates(simulation: Simulation, question: Question) -> dict[tuple[str, str], ApiObject]:
    """Return the Pod templates that a question may roll out, by (`group/Kind`, `namespace/name`)."""
    keys = {workload_key(arrival.object) for arrival in question.arrivals}
    states = {
        (key[0], "/".join(key[1:])): simulation.api.workloads.get(key) for key in keys if key[0] in registry.ROLLED_OUT
    }
    return {
        workload: mapping(state.object, "spec", "template")
        for workload, state in states.items()
        if state is not None and not is_paused(state.object) and not replaces_no_pods(state.object)
    }


def _blocked_rollouts(start: Start, templates: Mapping[tuple[str, str], ApiObject], summary: Summary) -> list[str]:
    """Return the workloads whose changed template is not rolled out, because new Pods are Pending or rejected."""
    unfinished = {row.group for rows in (summary.waiting, summary.missing) for row in rows}
    changed = sorted(
        workload for workload, template in start.templates.items() if templates.get(workload, template) != template
    )
    names = {workload: summary.names.name_of(workload) for workload in changed if workload in start.before}
    return [name for name in names.values() if name in unfinished]


def _causes(simulation: Simulation, messages: Mapping[str, str], names: Names) -> Iterator[tuple[str, str]]:
    """Yield the workloads whose Pending Pods have constraints that no node meets, with the message and this cause:
    kube-scheduler names the taint of a node, whether or not its labels match the Pod's node selector.
    """
    snapshot, done = simulation.cache.snapshot(), set[str]()
    for key, state in simulation.api.pods.items():
        if not simulation.scheduler.is_pending(state):
            continue
        name = names.name_of(simulation.timeline.origins["/".join(key)].workload)
        message = messages.get(name, "")
        if name not in done and isinstance(message, FitError) and not (message.cause or lacks_capacity(message)):
            done.add(name)
            prediction = Prediction(snapshot, state.pod)
            found = cause(prediction) if prediction.outcome == "pending" and not prediction.pre_filter else None
            yield name, FitError(message, message.reasons, message.preemption, found or None)


def _constrained(simulation: Simulation, messages: Mapping[str, str], names: Names) -> dict[str, tuple[str, int]]:
    """Return, by workload, the constraint with which some of its Pending Pods fit on no node, whatever capacity it has,
    and how many Pods fit with any capacity.
    """
    snapshot, found = simulation.cache.snapshot(), dict[str, tuple[str, int]]()
    for key, state in simulation.api.pods.items():
        name = names.name_of(simulation.timeline.origins["/".join(key)].workload)
        if name in found or len(found) == _MAX_CAUSES or not simulation.scheduler.is_pending(state):
            continue
        message = messages.get(name, "")
        if isinstance(message, FitError) and message.cause is None:
            found[name] = lasting_constraint(snapshot, state.pod)
    return {name: each for name, each in found.items() if each[0]}


def _compared(
    simulation: Simulation, question: Question, start: Start, after: Mapping[tuple[str, str], Count], summary: Summary
) -> list[WorkloadCount]:
    """Return the workloads that differ, fail or have Pending Pods: workloads that miss Pods come first, by priority."""
    messages = {waiting.group: waiting.message for waiting in summary.waiting}
    messages |= dict(islice(_causes(simulation, messages, summary.names), _MAX_CAUSES))
    constrained = _constrained(simulation, messages, summary.names)
    failures = failures_in(simulation, start.failed)
    more = surplus(simulation, {workload: count.running for workload, count in start.before.items()})
    scaled_down = start.replicas + more - _replicas(simulation, question, start.before)
    found = []
    ends = (event.origin for event in simulation.timeline.events if event.event == "succeeded")
    succeeded = Counter(origin.workload for origin in ends if origin is not None)
    origins = simulation.timeline.origins.values() if failures else ()
    failed = {origin.workload: Count(origin) for origin in origins if origin.workload in failures}
    for workload, count in {**failed, **start.before, **after}.items():
        origin = count.origin
        one, other = start.before.get(workload, Count(origin)), after.get(workload, Count(origin))
        if one.running != other.running or one.pending or other.pending or workload in failures:
            name = summary.names.name_of(workload)
            constraint, room = constrained.get(name, ("", other.pending))
            standing = WorkloadCount(
                *(name, origin.namespace, origin.priority_class, origin.priority),
                *(one.running, other.running, one.pending, other.pending),
                message=messages.get(name, "") if other.pending else "",
                again=origin.again,
                kind=origin.kind,
                with_node=one.daemons_of_lost(simulation.api.nodes),
                failure=failure_text(failures.get(workload, ())),
                failures=[status.failure for _, status in failures.get(workload, ())],
                unwanted=scaled_down[workload],
                left=other.left,
                succeeded=succeeded[workload],
                surplus=more[workload],
                constraint=constraint,
                constrained=max(other.pending - room, 0),
            )
            found.append(standing)
    return sorted(found, key=lambda s: (not (s.lost or s.pending), -s.priority, -s.lost, -s.pending, s.workload))


def failed_jobs(simulation: Simulation) -> dict[Key, JobStatus]:
    """Return the Jobs that have failed or are about to fail, with their status."""
    states = (simulation.api.workloads[key] for key in simulation.api.keys_of(registry.JOB))
    return {s.key: s.status for s in states if isinstance(s.status, JobStatus) and s.status.failure}


_Failed = tuple["ApiObject", JobStatus]


def failures_in(simulation: Simulation, before: Container[Key]) -> dict[tuple[str, str], list[_Failed]]:
    """Return the Jobs that failed during the simulation with their status, by workload.

    `before`: keys of Jobs that had failed before.
    """
    found: dict[tuple[str, str], list[_Failed]] = {}
    for key, status in failed_jobs(simulation).items():
        if key not in before:
            state = simulation.api.workloads[key]
            owner = state.controller if state.controller in simulation.api.workloads else None
            kind, namespace, name = owner or key
            found.setdefault((kind, f"{namespace}/{name}"), []).append((state.object, status))
    return found


def failure_text(failed: Sequence[_Failed]) -> str:
    """Why the Jobs of a workload fail, with the reason of the first; "" for none."""
    for job, status in failed[:1]:
        which = "the Job fails" if len(failed) == 1 else f"{len(failed)} Jobs fail"
        is_limit = status.failure == "BackoffLimitExceeded"
        return f"{which}: {f'backoffLimit {backoff_limit(job)} exceeded' if is_limit else status.failure}"
    return ""


def _lost_pods(simulation: Simulation) -> Iterator[Pod]:
    """Yield the Pods that existed at time 0 and have been preempted or deleted, or whose node was removed."""
    removed = {event.pod for event in simulation.timeline.events if event.event in ("preempted", "deleted", "gone")}
    removed.update(state.pod.key for state in simulation.api.strays())
    for state in simulation.world.pods:
        if state.pod.key in removed and not state.pod.terminal and not state.terminating:
            yield state.pod


def _failed_with_jobs(simulation: Simulation, before: Container[Key]) -> Iterator[PodLoss]:
    """Yield objects that fail because their Jobs failed during the simulation, such as a JobSet.

    `before`: Jobs that had failed before.
    """
    for key in failed_jobs(simulation):
        labels = string_map(simulation.api.workloads[key].object, "metadata", "labels")
        loss = named_loss(key[1], key[2], Owner("Job", key[2], "", "batch/v1"), labels)
        if key not in before and loss is not None and loss.kind != "Job":
            yield loss


def preemptions_of(simulation: Simulation, names: Names) -> list[Preemption]:
    """Return the preempted Pods of a simulation, in order of time."""
    levels, found = Levels(), []
    for event in simulation.timeline.events:
        eviction = levels.next(event)
        if eviction is not None:
            by, origin = event.by_origin, eviction.origin
            found.append(
                Preemption(
                    t=event.t,
                    cascade_depth=eviction.level,
                    node=eviction.node,
                    by=eviction.by,
                    by_workload=names.name_of(by.workload) if by else eviction.by,
                    by_namespace=by.namespace if by else "",
                    by_class=by.priority_class if by else "",
                    by_priority=by.priority if by else 0,
                    victim=eviction.victim,
                    workload=names.name_of(origin.workload),
                    namespace=origin.namespace,
                    priority_class=origin.priority_class,
                    priority=origin.priority,
                )
            )
    return found


def _bound(simulation: Simulation, names: Names) -> list[Bound]:
    """Return when the last Pod of each workload got a node, sorted by workload name."""
    found: dict[str, Bound] = {}
    for event in simulation.timeline.events:
        if event.event == "scheduled" and event.origin is not None:
            origin, name = event.origin, names.name_of(event.origin.workload)
            found[name] = Bound(name, origin.namespace, origin.priority_class, event.t)
    return [found[name] for name in sorted(found)]


def pdbs_below_desired(simulation: Simulation, at_start: Container[Key] | None = None) -> dict[str, tuple[int, int]]:
    """Return the PodDisruptionBudgets with fewer healthy Pods than desired: `namespace/name` -> (healthy, desired).

    `at_start`: PDBs that were below it at the start; other PDBs are omitted if they select no Pods.
    """
    found = {}
    for key in simulation.api.keys_of(registry.DISRUPTION_BUDGET):
        status = simulation.api.workloads[key].status
        if not isinstance(status, PdbStatus) or not (status.expected_pods or at_start is None or key in at_start):
            continue
        if status.current_healthy < status.desired_healthy:
            found["/".join(key[1:])] = (status.current_healthy, status.desired_healthy)
    return found


def _pdbs_of_removed(simulation: Simulation, question: Question, start: Start) -> set[Key]:
    """Return the PodDisruptionBudgets that select only Pods of workloads that the change deletes or scales to 0."""
    left = _replicas(simulation, question, start.before)
    removed = {workload for workload, replicas in start.replicas.items() if replicas and not left[workload]}
    found: dict[bool, set[Key]] = {True: set(), False: set()}
    for state in simulation.world.pods if removed else ():
        origin = simulation.timeline.origins.get(state.pod.key)
        is_removed = origin is not None and origin.workload in removed
        found[is_removed].update(simulation.api.pdbs_of(state.pod.namespace, state.pod.labels))
    return found[True] - found[False]


def _upgraded(question: Question) -> list[str]:
    return [step.node for step in question.upgrade.steps] if question.upgrade is not None else []


def _with_evictions(simulation: Simulation, question: Question) -> Iterable[str]:
    """Return the nodes on which PDBs may block drains: the nodes of an upgrade, or all if objects other than nodes
    change.
    """
    is_of_nodes = all(group_kind(arrival.object) == registry.NODE for arrival in question.arrivals)
    return _upgraded(question) if is_of_nodes else simulation.api.nodes


def _blockers(simulation: Simulation, question: Question, start: Start, summary: Summary) -> Sequence[DrainBlocker]:
    """Return the PDBs that block drains at the start of an upgrade, or after another change: that never allow one, or
    not in the steady state.
    """
    if question.upgrade is not None:
        return start.blocking
    known = {(each.budget, each.never) for each in start.blocking}
    found = blockers_of(simulation, _with_evictions(simulation, question))
    lasting = (each for each in found if each.never or not summary.is_changing)
    return [each for each in lasting if known.isdisjoint([(each.budget, True), (each.budget, each.never)])]


def _not_recreated(simulation: Simulation, question: Question, start: Start, names: Names) -> dict[str, NotRecreated]:
    """Return the workloads whose Pods the ResourceQuotas of a question reject once they are recreated, by name. Without
    Pods that they rejected before, unless their usage now exceeds the limits by more.
    """
    found = dict[str, NotRecreated]()
    for key, message in _pods_over_quota(simulation, question).items():
        if is_exceeded_more(message, start.over_quota.get(key, "")):
            name = names.name_of(simulation.timeline.origins[key].workload)
            found[name] = NotRecreated(found[name].pods + 1 if name in found else 1, message)
    return found


def _pods_over_quota(simulation: Simulation, question: Question) -> dict[str, str]:
    """Return the running Pods (`namespace/name`) that the ResourceQuotas of a question reject if one of them is
    recreated, with upstream's message.
    """
    objects = [arrival.object for arrival in question.arrivals if arrival.op != "delete"]
    refs = (ref_of(obj, registry.DEFAULT_NAMESPACE) for obj in objects if group_kind(obj) == registry.RESOURCE_QUOTA)
    namespaces, quotas = {ref.namespace for ref in refs}, simulation.api.quotas
    states = (state for state in simulation.api.pods.values() if state.pod.namespace in namespaces)
    running = sorted((each for each in states if _runs(each, simulation=simulation)), key=lambda each: each.pod.key)
    found = {each.pod.key: quotas.rejection_if_recreated(each) for each in running} if quotas is not None else {}
    return {key: message for key, message in found.items() if message}


def _drains(simulation: Simulation) -> dict[str, float]:
    """Return, by node, the seconds until its last drain, without nodes that are deleted after it."""
    drains = dict[str, float]()
    for arrival in sorted(simulation.world.arrivals, key=lambda arrival: arrival.at):
        if arrival.op in ("lost", "delete"):
            drains.pop(_node_of(arrival), None)
        elif arrival.op == "drain" and arrival.at <= simulation.clock.now:
            drains[_node_of(arrival)] = arrival.at
    return drains


def _node_of(arrival: Arrival) -> str:
    return text_at(arrival.object, "metadata", "name") if group_kind(arrival.object) == registry.NODE else ""


def _stuck(simulation: Simulation, name: str, drains: Mapping[str, float]) -> list[str]:
    """Return the keys of the Pods that remain on a node that should be drained; empty for a removed node.

    Of an uncordoned node, those that have been there since its drain. `drains`: seconds by node.
    """
    node = simulation.api.nodes.get(name)
    if node is None or not (node.unschedulable or name in drains):
        return []
    since = math.inf if node.unschedulable else drains[name]
    later = {event.pod for event in simulation.timeline.events if event.event == "scheduled" and event.t >= since}
    return [pod for pod in remaining_on(simulation.api, name) if pod not in later]


def _forbidden(simulation: Simulation, not_drained: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the PodDisruptionBudgets that forbid the eviction of each remaining Pod, by Pod.

    `not_drained`: remaining Pods by node.
    """
    states = (state for node in not_drained for state in simulation.api.by_node.get(node, {}).values())
    found = {state.pod.key: forbidden_by(simulation.api, state) for state in states}
    return {pod: found[pod] for pods in not_drained.values() for pod in pods if found.get(pod)}


def is_at_rest(world: World) -> bool:
    """Return whether all Pods are scheduled, and none is terminating, at time 0."""
    return all(s.pod.terminal or (s.pod.node_name and not s.terminating) for s in world.pods)


def outcome_without_change(world: World, random: Random | None = None) -> WithoutChange:
    """Return the outcome without the event. `random`: for ties and races."""
    simulation = Simulation(world._replace(arrivals=()), random)
    names, before = names_in(simulation), count_by_workload(simulation)
    simulation.run()
    lost = lost_replicas(simulation, before, count_by_workload(simulation))
    by_name = {names.name_of(workload): pods for workload, pods in lost.items()}
    return WithoutChange(summarize(simulation), lost.total(), by_name)
