"""`whatif`: simulate a change, and compare the cluster before and after it; the same for each of many losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, optional_in_json, to_dict
from forewarn.policies.base.findings import listed, quote
from forewarn.policies.inputs.sources.cluster import objects_of
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.cluster.admission import exceeded_quotas
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
from forewarn.policies.kubernetes.controllers.applied import with_applied
from forewarn.policies.kubernetes.controllers.disruption import SCALED
from forewarn.policies.kubernetes.controllers.own_pods import needed, pods_of
from forewarn.policies.kubernetes.controllers.view import workload_key
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.quota import quota_in
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidInput, check_numbers, group_kind, ref_of
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending
from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions
from forewarn.policies.linting.rules.support.names import suggested
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.forecast.replacements import missing_pods, unknown_replacement
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, World, not_simulated, unknown_owners
from forewarn.policies.prediction.simulation.summary import Outcome
from forewarn.policies.questions.application import simulated
from forewarn.policies.questions.application.changes import (
    Apply,
    Change,
    ChangeClass,
    Events,
    MaxReplicas,
    Scale,
    Start,
)
from forewarn.policies.questions.application.cluster import (
    Cluster,
    Progress,
    autoscaling_for,
    counted_results,
    head_with_nodes,
    require_nodes,
)
from forewarn.policies.questions.application.fixes import tested_fixes, with_fixes
from forewarn.policies.questions.application.kueue import quota_without_pods
from forewarn.policies.questions.application.places import Places, Rejected, last_field
from forewarn.policies.questions.application.whatif_answer import Simulated, document_of
from forewarn.policies.questions.whatif import DEFAULT_UNTIL, EVERY, MAX_UNTIL, class_change, questions
from forewarn.policies.questions.whatif.answer import Answer, Blocks, Ending, NotRecreated, Preemption, WorkloadCount
from forewarn.policies.questions.whatif.arrivals import Branch, Worst, with_new_nodes
from forewarn.policies.questions.whatif.comparison import ask, is_at_rest, placeholder_workloads, placeholders_of
from forewarn.policies.questions.whatif.effects import effects_of
from forewarn.policies.questions.whatif.occupancy import Occupancy
from forewarn.policies.questions.whatif.repetition import (
    RUNS,
    Repeated,
    count_runs,
    depends_on_chance,
    is_contended,
    repeat,
    without_names,
)
from forewarn.policies.questions.whatif.risk import risks
from forewarn.policies.questions.whatif.sweep import Sweep, Tallied, Tally, counted, worst_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from forewarn.policies.base.documents.answer import AnswerDocument, Effects
    from forewarn.policies.prediction.simulation.clock import Event
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.class_change import ClassChange, Ranked
    from forewarn.policies.questions.whatif.risk_answer import Risks


_A_DAY: Final = 86_400.0
"""Default duration of simulated DaemonSet rollouts in seconds: a DaemonSet replaces its Pods node by node."""


@dataclass(frozen=True, repr=False)
class WhatIf(Result):
    """The cluster before and after a change.

    `document`: in the common answer format. `answer`: all details. `class_change`: the effect of ChangeClass, otherwise
    None. `notes`: limits and assumptions of the simulation. `faults`: the errors of rejected objects; the others are
    simulated. `outcomes`: the runs of Events, that of `answer` first: it has the most frequent effects.
    """

    document: Inlined[AnswerDocument]
    change: Hidden[Change]
    answer: Inlined[Answer]
    notes: Sequence[str]
    faults: Hidden[Sequence[Exception]]
    class_change: ClassChange | None = None
    outcomes: Sequence[Ending] = ()
    timeline: Sequence[Event] | None = None
    others: Hidden[Sequence[str]] = ()
    """The notes without those about `faults`."""

    @property
    def counters(self) -> Effects:
        """The counters of the answer."""
        return self.document.effects

    @property
    def preemptions(self) -> Sequence[Preemption]:
        """The preempted Pods, each with its preemptor, in the order of time."""
        return self.answer.after.preempted

    @property
    def workloads(self) -> Sequence[WorkloadCount]:
        """The workloads whose number of running Pods changes, or with Pending Pods before or at the end."""
        return self.answer.after.workloads

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of `--fail-on` that are met: the counters that are not 0."""
        return self.document.conditions

    @optional_in_json
    def basis(self) -> Literal["settled"] | None:
        """What the counters of an apply are about: the cluster once all Pods have settled."""
        return "settled" if isinstance(self.change, Apply) else None

    @optional_in_json
    def runs(self) -> int | None:
        """The number of runs; only for `whatif events`."""
        return count_runs(self.outcomes) or None

    @optional_in_json
    def seed(self) -> int | None:
        """The seed of the random runs; only for `whatif events`."""
        return self.change.seed if isinstance(self.change, Events) and self.outcomes else None

    def to_dict(self, *, timeline: bool = False) -> dict[str, Any]:
        """The JSON document, in the format of `-o json`. `timeline`: with all events."""
        return to_dict(replace(self, timeline=self.answer.after.simulation.timeline.events) if timeline else self)


def whatif(
    cluster: Cluster,
    change: Change,
    *,
    until: float | None = None,
    autoscaling: Autoscaling | None = None,
    nodes_over_time: bool = False,
    progress: Progress | None = None,
    tries_fixes: bool = True,
    instead: Sequence[ApiObject] = (),
) -> WhatIf:
    """Simulate a change, and compare the cluster before and after it.

    `until`: simulated seconds, in which applied CronJobs create all their Jobs (default: 1 hour, and only the first
    Job; up to 1 day for a restart or a DaemonSet, and up to 31 days for an upgrade). `autoscaling`: settings of
    autoscalers (default: those of the cluster). `nodes_over_time`: record the Pods on each node over time.
    `tries_fixes`: ask again with fixes, in a small cluster. `instead`: objects in place of those that the change
    applies or scales. Raises SourceError, InvalidInput, and InvalidObject, also if admission rejects all objects.
    """
    autoscaling, places = replace(autoscaling_for(cluster, autoscaling), scale_down=until is not None), Places()
    cache, ignored = _cache_for(change, cluster)
    start = Start(cache, autoscaling.groups, places, cluster.config.options)
    _require_lists(cluster, change, autoscaling)
    with places.locating():
        question = change.question(start).with_objects(instead)
        if not autoscaling.groups and all(group_kind(arrival.object) != registry.NODE for arrival in question.arrivals):
            require_nodes(cache.snapshot())
        question, faults = _without_rejected(question, cache, places)
        question = question._replace(every_job=until is not None)
        notes = [
            *simulated.passed_over(question.arrivals),
            *simulated.events_without_effect(cache.snapshot(), question.arrivals),
        ]
        notes += [*question.notes, *_replica_notes(ignored, question)]
        if question.upgrade is not None:
            question.upgrade.extends_horizon = until is None
        horizon = _horizon(question) if until is None else until
        world = simulated.world_with(cache, question.arrivals, horizon)
        asking = _Asking(cluster, autoscaling, progress, Occupancy if nodes_over_time else None)
        answer, repeated = asking.most_frequent(change, question, world, cache.snapshot())
        restarts = _restarts_alone(question)
        if restarts and any(effects_of(answer).in_order) and not answer.is_as_without:
            alone = simulated.world_with(cluster.cache, restarts, horizon)
            restarted = asking.answer(question._replace(arrivals=restarts), alone, cluster.snapshot)
            answer = answer._replace(restart_alone=effects_of(restarted))
        new_pods, reprioritized = _new_pods(cluster.snapshot, cache.snapshot(), question)
        answer = answer._replace(new_pods=new_pods, reprioritized=reprioritized)
    pending = {each.workload: each.more_pending for each in answer.after.workloads}
    notes = [*places.warnings(), *not_simulated(cache), *notes]
    of_quotas = [*quota_without_pods(cluster.snapshot, pending)]
    queueing = question.queueing
    assumed = (
        *answer.after.summary.assumes,
        *autoscaling.assumes,
        *([queueing.assumes] if queueing is not None else ()),
    )
    is_loss = any(arrival.op == "lost" for arrival in question.arrivals)
    head = head_with_nodes(cache.snapshot(), assumed, is_loss=is_loss)
    outcomes, others = _outcomes(change, answer, repeated), [*notes, *of_quotas]
    document = document_of(Simulated(answer, question.class_change, faults, others, outcomes, queueing))
    if tries_fixes and answer.alike is None:

        def ask_again(other: Cluster, new: Sequence[ApiObject]) -> tuple[Answer, Effects]:
            settings = partial(whatif, until=until, autoscaling=autoscaling, progress=progress, tries_fixes=False)
            again = settings(other, change, instead=new)
            return again.answer.upgrade_answer, again.document.effects

        fixes = tested_fixes(cluster, answer.upgrade_answer, document.effects, ask_again)
        document = with_fixes(document, fixes, cluster, answer)
    notes += [*(f"not simulated: {fault}" for fault in faults), *of_quotas]
    return WhatIf(head, document, change, answer, notes, faults, question.class_change, outcomes, others=others)


class _Asking(NamedTuple):
    """The settings for simulations of a question. `watch`: records the Pods on nodes."""

    cluster: Cluster
    autoscaling: Autoscaling
    progress: Progress | None
    watch: Callable[[Simulation], Occupancy] | None

    def most_frequent(
        self, change: Change | None, question: questions.Question, world: World, after: ClusterSnapshot
    ) -> tuple[Answer, Repeated | None]:
        """Return the answer of the most frequent outcome, and the outcomes of several runs: as many as Events name, or
        RUNS if chance decides; None for one run. `after`: the cluster after the change.
        """
        answer = self.answer(question, world, after)
        runs, seed = (change.runs, change.seed) if isinstance(change, Events) else (1, 0)
        completed = partial(self._completed, question, after)
        if runs == 1:
            if not is_contended(answer) or not depends_on_chance(question, world := without_names(world)):
                return answer, None
            repeated = repeat(question, world, RUNS, seed, completed, self.progress, first=1)
        else:
            repeated = repeat(question, world, runs, seed, completed, self.progress)
        if repeated.random is not None and not (runs == 1 and repeated.is_like_first(answer)):
            answer = self.answer(question, world, after, repeated.random)
        answer = answer._replace(without_change=repeated.without_change)
        if runs == 1:
            return repeated.described(answer), repeated
        certain = answer.after._replace(rivals=(), equal_victims=(), has_more_rivals=False)
        return answer._replace(after=certain, alike=(repeated.alike, runs)), repeated

    def answer(
        self, question: questions.Question, world: World, after: ClusterSnapshot, random: Random | None = None
    ) -> Answer:
        """Return the answer of one run, also with the nodes that autoscalers add."""
        with Branch(question, self.autoscaling.after(question.lost), Worst.from_simulation) as branch:
            answer = ask(question, world, self.progress, self.watch, branch.autoscaling, run=branch.run, random=random)
            answer = with_new_nodes(answer, branch)
        return self._completed(question, after, answer)

    def _completed(self, question: questions.Question, after: ClusterSnapshot, answer: Answer) -> Answer:
        """Complete an answer with data of the cluster, which the simulation does not know."""
        snapshot, options = self.cluster.snapshot, self.cluster.config.options
        pods, victims = snapshot.pods.values(), {each.victim for each in answer.after.preempted}
        victims_before = (pod for pod in pods if pod.key in victims)
        unknown = unknown_replacement(victims_before, snapshot, counts_failures=True) if victims else None
        not_simulated = [*([unknown] if unknown else []), *answer.after.not_simulated]
        blocks = _blocks(answer, question, snapshot, after)
        answer = answer._replace(
            after=answer.after._replace(blocks=blocks, not_simulated=not_simulated),
            placeholders=placeholders_of(answer, pods, options),
            placeholder_pods=sum(bool(pod.node_name) and is_placeholder(pod, options) for pod in pods),
            exceeded_quotas=exceeded_quotas(snapshot),
        )
        if (arrived := answer.with_new_nodes) is None:
            return answer
        effects = effects_of(answer.end)
        arrived = arrived._replace(lost=effects.lost, pending=effects.pending)
        if arrived.preempted is not None:
            arrived = arrived._replace(preempted=effects.preempted)
        return answer._replace(with_new_nodes=arrived)


def _require_lists(cluster: Cluster, change: Change, autoscaling: Autoscaling) -> None:
    """Check that the cluster state has what the change needs. Raises SourceError."""
    nodes = () if isinstance(change, Apply | Events) else (registry.NODE,)
    classes = (registry.PRIORITY_CLASS,) if isinstance(change, ChangeClass) else ()
    cluster.require(*nodes, registry.POD, *classes, has_groups=bool(autoscaling.groups))
    if nodes and not autoscaling.groups:
        require_nodes(cluster.snapshot)


def _outcomes(change: Change, answer: Answer, repeated: Repeated | None) -> Sequence[Ending]:
    """Return the outcomes of Events: those of several runs, or the single outcome of the answer."""
    if not isinstance(change, Events):
        return ()
    first, others = Outcome(answer.after.simulation), list[Ending]()
    if repeated is not None:
        most_frequent, *others = repeated.outcomes
        first.count, first.run = most_frequent.outcome.count, most_frequent.outcome.run
    return [Ending(first, answer.after.summary, effects_of(answer)), *others]


def _horizon(question: questions.Question) -> float:
    """Return the maximum seconds to simulate for a question: longer for DaemonSets, which replace Pods node by node."""
    slow = question.restarts or any(group_kind(arrival.object) == registry.DAEMON_SET for arrival in question.arrivals)
    most = question.upgrade.horizon if question.upgrade else _A_DAY if slow else 0.0
    return max(DEFAULT_UNTIL, min(most, MAX_UNTIL))


def _restarts_alone(question: questions.Question) -> list[Arrival]:
    """Return the restarts that a class change simulates for workloads whose template does not change."""
    change = question.class_change
    if change is None or not change.restarted:
        return []
    return [each for each in question.arrivals if workload_key(each.object) not in change.templates]


def _new_pods(
    before: ClusterSnapshot, after: ClusterSnapshot, question: questions.Question
) -> tuple[list[Ranked], list[Ranked]]:
    """Return the workloads whose new Pods change priority: those that the question does not change, and the others."""
    arrivals = (arrival for arrival in question.arrivals if arrival.op in ("create", "update"))
    objects = (arrival.object for arrival in arrivals if group_kind(arrival.object) in registry.POD_TEMPLATE_PATHS)
    given = {workload_key(obj): obj for obj in objects}
    is_same = (before.priority_classes, before.namespaces) == (after.priority_classes, after.namespaces)
    if question.class_change is not None or (is_same and not given):
        return [], []
    changed = {ref_of(arrival.object, "default") for arrival in question.arrivals}
    differing = [workload for workload in class_change.ranked(before, after, given) if workload.differs]
    others = [workload for workload in differing if ref_of(workload.object, "default") not in changed]
    own = (workload for workload in differing if workload.before and workload.after)
    return others, [workload for workload in own if workload_key(workload.object) in given]


def _blocks(answer: Answer, question: questions.Question, before: ClusterSnapshot, after: ClusterSnapshot) -> Blocks:
    """Return what the change blocks, including the next Pods of CronJobs and Pods that its LimitRanges make invalid."""
    next_jobs = dict(_next_jobs(answer, question, before, after))
    limited = dict(_limit_range_rejections(answer, question, before, after))
    return answer.after.blocks._replace(recreation=next_jobs | dict(answer.after.blocks.recreation) | limited)


def _next_jobs(
    answer: Answer, question: questions.Question, before: ClusterSnapshot, after: ClusterSnapshot
) -> Iterator[tuple[str, NotRecreated]]:
    """Yield the CronJobs without running Pods in changed namespaces, by name, whose next Pods ResourceQuotas reject at
    the end but not at the start. Pods of other CronJobs that start in the simulation run until its end, so their
    namespaces count with the usage at the start.
    """
    api, origins = answer.after.simulation.api, answer.after.simulation.timeline.origins
    started = {each.namespace for each in origins.values() if each.kind == registry.CRON_JOB and not each.before}
    quotas = {name: stored for name, stored in (api.quotas.now if api.quotas else {}).items() if name not in started}
    applied = (arrival.object for arrival in question.arrivals if arrival.op != "delete")
    of_kind = (obj for obj in applied if group_kind(obj) == registry.RESOURCE_QUOTA)
    after = replace(with_applied(after, of_kind, []), charged_quotas=quotas)
    namespaces = {ref_of(arrival.object, registry.DEFAULT_NAMESPACE).namespace for arrival in question.arrivals}
    for key in api.keys_of(registry.CRON_JOB) if api.quotas else ():
        name = answer.after.summary.names.name_of((key[0], f"{key[1]}/{key[2]}"))
        if key[1] in namespaces and name not in answer.after.rejected_by_quota:
            stored, found = before.workload(*key), missing_pods(after, api.workloads[key].object)
            if found and quota_in(found.why) and not (stored and missing_pods(before, stored.object)):
                yield name, NotRecreated(0, found.why)


def _limit_range_rejections(
    answer: Answer, question: questions.Question, before: ClusterSnapshot, after: ClusterSnapshot
) -> Iterator[tuple[str, NotRecreated]]:
    """Yield the workloads, by name, whose new Pods become invalid by LimitRanges of the change."""
    created = [arrival.object for arrival in question.arrivals if arrival.op == "create"]
    namespaces = {ref_of(obj, "default").namespace for obj in created if group_kind(obj) == registry.LIMIT_RANGE}
    changed = {ref_of(obj, "default") for obj in created}
    for (kind, *names), workload in sorted(after.workloads.items()) if namespaces else ():
        obj = workload.object
        if names[0] not in namespaces or any(workload.controller) or ref_of(obj, "default") in changed:
            continue
        running = sum(bool(pod.node_name and not pod.terminal) for pod in pods_of(after, obj))
        creates = running or (kind == registry.CRON_JOB and needed(obj, obj))
        fault = simulated.fault_of_defaults(after, obj) if creates else None
        if fault is not None and simulated.fault_of_defaults(before, obj) is None:
            name = answer.after.summary.names.name_of((kind, "/".join(names)))
            yield name, NotRecreated(running, f"{last_field(fault.path)}: {fault.problem}", "LimitRange")


def _cache_for(change: Change, cluster: Cluster) -> tuple[DumpCache, list[str]]:
    """Return a copy of the cache, with the objects of running clusters on which only this change depends, and what is
    ignored. Raises SourceError if the change needs them.
    """
    cache, ignored = cluster.cache.copy(), list[str]()
    for source in cluster.sources if isinstance(change, Apply | Events | MaxReplicas | Scale) else ():
        try:
            for obj in objects_of(source, "autoscalers"):
                cache.add(obj)
        except SourceError as fault:
            if isinstance(change, MaxReplicas):
                raise
            ignored.append(f"limits of HorizontalPodAutoscalers are ignored: {fault}")
    return cache, ignored


def _replica_notes(notes: list[str], question: questions.Question) -> list[str]:
    """Return these notes about replicas; none for a question that sets no replicas."""
    return notes if any(group_kind(arrival.object) in SCALED for arrival in question.arrivals) else []


def _without_rejected(
    question: questions.Question, cache: DumpCache, places: Places
) -> tuple[questions.Question, list[Exception]]:
    """Return the question without PriorityClasses that kube-apiserver rejects and objects whose Pods admission rejects
    because of their PriorityClass, and the errors.

    Adds created objects that admission reads to `cache` (`admit_at_once`). Raises Rejected if no object is left.
    """
    before = cache.snapshot()
    entries = simulated.admit_at_once(cache, question.arrivals)
    entries += simulated.rejected(cache.snapshot(), *simulated.checked(question.arrivals))
    faults, without_these = [places.located(fault) for _, fault in entries], {id(obj) for obj, _ in entries}
    left = [arrival for arrival in question.arrivals if id(arrival.object) not in without_these]
    answers_alone = question.class_change is not None and question.class_change.restarted
    if faults and not left and not answers_alone:
        raise Rejected(faults)
    created = simulated.new_classes(before, cache.snapshot())
    noun = "PriorityClass" if len(created) == 1 else "PriorityClasses"
    classes = f", with new {noun} {listed(created, 1)}" if created else ""
    return question._replace(title=f"{question.title}{classes}", arrivals=left), faults


if TYPE_CHECKING:
    Kind = Literal["node", "zone"]


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
    cluster.require(registry.NODE, registry.POD, has_groups=bool(autoscaling.groups))
    losses = _losses(cluster, kind)
    if not losses:
        raise questions.nothing_to_lose(kind)
    asked = [losses[name] for name in part([*losses])]
    return sweep_of(cluster, kind, asked, until=until, autoscaling=autoscaling, progress=progress)


def sweep_of(
    cluster: Cluster,
    kind: str,
    losses: Sequence[questions.Question],
    *,
    autoscaling: Autoscaling,
    until: float = DEFAULT_UNTIL,
    progress: Progress | None = None,
    at_start: Callable[[Simulation], object] = lambda _: None,
) -> Sweep:
    """Simulate each of these losses separately. `kind`: what is lost. `at_start`: reads the simulation before a loss.

    Raises InvalidInput and InvalidObject.
    """
    cache = cluster.cache
    tallies, world = list[Tally](), simulated.world_with(cache, [], until)

    def counting(simulation: Simulation) -> Tally:
        at_start(simulation)
        pods = cluster.snapshot.pods.values()
        tallies.append(Tally(simulation, autoscaling, placeholder_workloads(simulation, pods, cluster.config.options)))
        return tallies[0]

    asked, unchanged = [questions.Question(_NOTHING), *losses], list["Tallied"]()

    def results(report: Callable[..., None]) -> Iterator[Tallied]:
        values = counted(world, asked, counting, report)
        unchanged.append(next(values))
        yield from values

    tallied = list(counted_results(results, len(losses), progress))
    without_change, (tally,) = unchanged[0].row, tallies
    rows = worst_first(each.row.without(without_change.rejections) for each in tallied)
    notes = (
        note for each in tallied for note in (*each.not_modelled, *(f"not simulated: {pods}" for pods in each.left_out))
    )
    limits = [*dict.fromkeys(notes)][:_MAX_NOTES]
    nothing_else = is_at_rest(world) and not without_change.counters.harm
    snapshot, victims = cache.snapshot(), any(row.counters.preempted or row.counters.pdbs_violated for row in rows)
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    assumed = assumptions(snapshot.objects, running, victims=victims, created=True)
    head = head_with_nodes(snapshot, (*assumed, *autoscaling.assumes), is_loss=True)
    without = None if nothing_else else without_change
    rejecting = {name.partition("/")[0] for row in rows for name in row.rejections}
    quotas = [
        f"before any loss: quota {name} is exceeded ({usage})"
        for name, usage in exceeded_quotas(snapshot).items()
        if name.partition("/")[0] in rejecting
    ]
    return Sweep(head, kind, tally.running, rows, without, [*quotas, *not_simulated(cache), *limits])


def names_of(cluster: Cluster, kind: Kind) -> list[str]:
    """The names of all cases, for example `node a-1`."""
    return [*_losses(cluster, kind)]


def _losses(cluster: Cluster, kind: Kind) -> dict[str, questions.Question]:
    if kind not in EVERY:
        raise InvalidInput(f"{quote(kind)}: not a kind of cases; known: {', '.join(EVERY)}")
    return {question.title: question for question in questions.each_lost(cluster.snapshot, kind)}


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
        """Report whether a workload with this namespace and PriorityClass is selected."""
        return self.namespace in (None, namespace) and self.priority_class in (None, priority_class)

    def require(self, cluster: ClusterSnapshot) -> None:
        """Raise InvalidInput for an unknown namespace or class."""
        unknown = questions.unknown_namespace(cluster, self.namespace) if self.namespace is not None else ""
        if (name := self.priority_class) and name not in cluster.priority_classes:
            unknown += f"; PriorityClass {quote(name)} not found{suggested(name, cluster.priority_classes)}"
        if unknown:
            raise InvalidInput(unknown.removeprefix("; "))


_ALL: Final = Workloads()


def risk(
    cluster: Cluster,
    workloads: Workloads = _ALL,
    *,
    limit: int = 100,
    until: float = DEFAULT_UNTIL,
    autoscaling: Autoscaling | None = None,
    progress: Progress | None = None,
) -> Risks:
    """List for each workload the PriorityClasses that can preempt it, and the zones and nodes whose loss costs
    replicas.

    `limit`: maximum number of simulated zones, and of nodes. `until`: simulated seconds. `autoscaling`: settings of
    autoscalers (default: those of the cluster). Raises SourceError, and InvalidInput for unknown names.
    """
    check_numbers(0, limit=limit)
    autoscaling = autoscaling_for(cluster, autoscaling)

    def lose(asked: Sequence[questions.Question]) -> Iterator[Tallied]:
        tally = partial(Tally, autoscaling=autoscaling)
        return counted_results(partial(counted, world, asked, tally), len(asked), progress)

    cluster.require(registry.NODE, registry.POD)
    snapshot, world = cluster.snapshot, simulated.world_with(cluster.cache, [], until)
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    if not any(workloads.has(pod.namespace, pod.priority_class_name) for pod in running):
        workloads.require(snapshot)
        limit = 0
    options = cluster.config.options
    answer = risks(snapshot, world, limit, lose, options, autoscaling)
    selected = [entry for entry in answer.workloads if workloads.has(entry.namespace, entry.priority_class)]
    head = head_with_nodes(snapshot, (*answer.head.assumes, *unknown_owners(cluster.cache)), is_loss=True)
    waiting = (pod for pod in snapshot.waiting_pods.values() if workloads.has(pod.namespace, pod.priority_class_name))
    pending = sum(is_pending(pod, snapshot.semantics.scheduler_names) for pod in waiting)
    return replace(answer, workloads=selected, head=head, pending=pending)
