"""PriorityClasses: which may preempt which, and the steps of a change."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Inlined, inlined_in_json
from forewarn.policies.base.documents.answer import (
    NO_CLASS,
    NO_EFFECT,
    AnswerDocument,
    AnswerStatus,
    Counter,
    Rows,
    Table,
    counters_of,
)
from forewarn.policies.base.findings import duration, grouped, listed, plural
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result, head_of
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.kube_apiserver.priority import OLD_POLICY, default_priority_class, has_old_policy
from forewarn.policies.kubernetes.kube_apiserver.quota import QUOTAS
from forewarn.policies.kubernetes.objects.fields import group_kind, ref_of
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER, PriorityClass
from forewarn.policies.kubernetes.quantity import cores, gibibytes, percent
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending
from forewarn.policies.prediction.simulation.scenario import not_simulated, world_of
from forewarn.policies.prediction.simulation.summary import unsettled
from forewarn.policies.questions.application.cluster import Cluster, Progress, snapshot_of
from forewarn.policies.questions.application.manifests import Manifest, applied, manifests_of
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.application.whatif_answer import new_priorities, quota_tables, violated_pdbs
from forewarn.policies.questions.whatif import MAX_UNTIL
from forewarn.policies.questions.whatif.answer import pairs
from forewarn.policies.questions.whatif.class_plan import OtherOrder, Plan, Step, plan, wanted
from forewarn.policies.questions.whatif.comparison import placeholders_of
from forewarn.policies.questions.whatif.effects import consequences, effects_of, joined, quota_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.answer import Effects
    from forewarn.policies.kubernetes.objects.pod import Pod


class Requested(NamedTuple):
    """A number of Pods and the sum of their requests: CPU in thousandths, memory in bytes."""

    pods: int = 0
    milli_cpu: int = 0
    memory: int = 0


class NewPodsOfClass(NamedTuple):
    """Whether new Pods of a PriorityClass may preempt."""

    preempt: bool


class PreemptablePods(NamedTuple):
    """The number of running Pods with a PriorityClass and value."""

    class_: str
    value: int
    pods: int


class PriorityLevel(NamedTuple):
    """A PriorityClass (empty: none) with a priority value.

    `newPods`: whether new Pods may preempt; null if new Pods do not get this value. `running`: running Pods and their
    requests. `pending`: number of Pods Pending for kube-scheduler. `couldDisplace`: running Pods of lower priority that
    a new Pod may preempt. `mayPreempt`: these Pods by class and value. `oldPolicy`: number of running and Pending Pods
    with another preemptionPolicy than their class.
    """

    class_: str
    value: int
    global_default: bool
    new_pods: NewPodsOfClass | None
    running: Requested
    pending: int
    could_displace: Requested
    may_preempt: Sequence[PreemptablePods]
    old_policy: int


@dataclass(frozen=True)
class Classes(Result):
    """The output of `forewarn classes`. `allocatable`: the sum of all nodes. `classes`: the highest value first.
    `pendingOfOtherSchedulers`: number of Pods, which `classes` omits.
    """

    allocatable: Requested
    classes: Sequence[PriorityLevel]
    pending_of_other_schedulers: int = 0

    @property
    def percent_of_cpu(self) -> int:
        """The requested share of cpu."""
        return percent(sum(level.running.milli_cpu for level in self.classes), self.allocatable.milli_cpu)

    @property
    def percent_of_memory(self) -> int:
        """The requested share of memory."""
        return percent(sum(level.running.memory for level in self.classes), self.allocatable.memory)

    @inlined_in_json
    def document(self) -> AnswerDocument:
        old = [level for level in self.classes if level.new_pods is None]
        counts = {
            "running Pods": sum(level.running.pods for level in self.classes),
            _PENDING: sum(level.pending for level in self.classes),
            _OLD_VALUE: sum(each.running.pods + each.pending for each in old if each.class_),
            OLD_POLICY: sum(level.old_policy for level in self.classes),
            _WITHOUT: sum(each.running.pods + each.pending for each in self.classes if not each.class_),
            "Pending for other schedulers": self.pending_of_other_schedulers,
        }
        doubts = [
            f"{plural(counts[name], 'Pod')} {name}" for name in (_WITHOUT, _OLD_VALUE, OLD_POLICY) if counts[name]
        ]
        doubts += [f"{plural(counts[_PENDING], 'Pod')} Pending"] if counts[_PENDING] else []
        number = sum(bool(level.class_ and level.new_pods) for level in self.classes)
        return AnswerDocument(
            status=AnswerStatus.WARN if doubts else AnswerStatus.OK,
            question=plural(number, "PriorityClass", "PriorityClasses"),
            clause=", ".join(doubts) or "all Pods have one",
            shown=[*_shown(self, counts)],
            tables=[table_of(self), *_matrix(self)],
            more=("-v which class may preempt which", "forewarn predict -f FILE, for the actual victims"),
        )


# The answer

_WITHOUT: Final = "without a class"
_OLD_VALUE: Final = "with an old value of their class"
_PENDING: Final = "Pods Pending now"


def _shown(levels: Classes, counts: Mapping[str, int]) -> Iterator[Counter]:
    yield Counter("cpu requested", levels.percent_of_cpu, more=" %")
    yield Counter("memory requested", levels.percent_of_memory, more=" %")
    new_ones = next((f" (new ones get {level.class_})" for level in levels.classes if level.global_default), "")
    for name, count in counts.items():
        more = new_ones if name == _WITHOUT else ""
        yield Counter(name, count, more=more, optional=name != "running Pods")


def table_of(levels: Classes) -> Table:
    """A row for each PriorityClass, the highest value first."""
    rows: Rows = []
    for each in levels.classes:
        own = cores(each.running.milli_cpu), gibibytes(each.running.memory)
        counts = each.running.pods, each.pending, *own, each.could_displace.pods
        notes = ["default"] if each.global_default else []
        notes += [] if each.new_pods is None or each.new_pods.preempt else ["never preempts"]
        notes = notes if each.new_pods else ["old value"]
        notes += [f"{plural(each.old_policy, 'Pod')} {OLD_POLICY}"] if each.old_policy else []
        rows.append([each.class_ or NO_CLASS, each.value, *counts, ", ".join(notes)])
    return Table(("CLASS", "VALUE", "RUNNING", "PENDING", "CPU", "MEMORY", "MAY PREEMPT", "NOTE"), rows)


def _matrix(levels: Classes) -> Iterator[Table]:
    """The requests of the Pods that a new Pod of a class may preempt, and their number by class."""
    theirs: Rows = [
        [level.class_ or NO_CLASS, level.value, each.pods, cores(each.milli_cpu), gibibytes(each.memory)]
        for level in levels.classes
        if (each := level.could_displace).pods
    ]
    yield Table(("CLASS", "VALUE", "MAY PREEMPT", "THEIR CPU", "THEIR MEMORY"), theirs, detail=1)
    rows: Rows = [
        [level.class_ or NO_CLASS, level.value, lower.class_ or NO_CLASS, lower.value, lower.pods]
        for level in levels.classes
        for lower in level.may_preempt
    ]
    yield Table(("CLASS", "VALUE", "MAY PREEMPT CLASS", "OF VALUE", "PODS"), rows, detail=1)


def classes(cluster: Cluster | ClusterSnapshot) -> Classes:
    """Return each PriorityClass, the requests of its Pods, and the number of Pods that a new Pod may preempt."""
    # for which Pods may be preempted, see upstream `SelectVictimsOnNode`
    cluster = snapshot_of(cluster)
    running: dict[tuple[str, int], Requested] = {}
    pending, old_policies = Tally[tuple[str, int]](), Tally[tuple[str, int]]()
    unknown = cluster.objects.pods_on_unknown_nodes
    for pod in cluster.pods.values():
        key = pod.priority_class_name, pod.effective_priority
        if pod.terminal or pod.node_name in unknown:
            continue
        if pod.node_name:
            running[key] = _sum((running.get(key, Requested()), _requested_class(pod)))
        elif is_pending(pod, cluster.semantics.scheduler_names):
            pending[key] += 1
        old_policies[key] += has_old_policy(pod, cluster.priority_classes)
    default = default_priority_class(cluster.priority_classes.values())
    current = {(c.name, c.value): c.preemption_policy != PREEMPT_NEVER for c in cluster.priority_classes.values()}
    if default is None:
        current["", 0] = True
    keys, levels = sorted({*running, *pending, *current}, key=lambda key: (-key[1], key[0])), []
    for key in keys:
        preempts = current.get(key)
        lower = [other for other in keys if other in running and other[1] < key[1]] if preempts else []
        levels.append(
            PriorityLevel(
                *key,
                global_default=default is not None and key == (default.name, default.value),
                new_pods=None if preempts is None else NewPodsOfClass(preempts),
                running=running.get(key, Requested()),
                pending=pending[key],
                could_displace=_sum(running[other] for other in lower),
                may_preempt=[PreemptablePods(*other, running[other].pods) for other in lower],
                old_policy=old_policies[key],
            )
        )
    others = len(cluster.waiting_pods) - pending.total()
    return Classes(head_of(cluster), _allocatable(cluster), levels, others)


def _requested_class(pod: Pod) -> Requested:
    requests = pod.occupies.resource
    return Requested(1, requests.milli_cpu, requests.memory)


def _allocatable(cluster: ClusterSnapshot) -> Requested:
    nodes = (node.allocatable for node in cluster.objects.nodes.values())
    return _sum(Requested(node.allowed_pod_number, node.milli_cpu, node.memory) for node in nodes)


def _sum(amounts: Iterable[Requested]) -> Requested:
    return Requested(*map(sum, zip(Requested(), *amounts, strict=True)))


@dataclass(frozen=True, slots=True)
class ClassPlanRequest:
    """A change of PriorityClasses: manifests of PriorityClasses and workloads, and names of classes to delete."""

    files: Sequence[Manifest] = ()
    delete: Sequence[str] = ()
    namespace: str = "default"


@dataclass(frozen=True, repr=False)
class ClassPlan(Result):
    """The steps of a change of PriorityClasses, each simulated after the previous one."""

    plan: Inlined[Plan]

    @inlined_in_json
    def document(self) -> AnswerDocument:
        plan = self.plan
        effects = effects_of(plan.answer)
        effects = effects._replace(blocked=sum(len(step.unfinished) for step in plan.steps))
        return AnswerDocument(
            status=_status(plan, effects),
            question=f"change of PriorityClasses in {plural(len(plan.steps), 'step')}",
            clause=_clause(plan, effects),
            counters=effects,
            shown=[
                *counters_of(effects, without=["victims", "placeholders"]),
                Counter("new Pods", sum(step.new_pods for step in plan.steps), optional=True),
                Counter("Pending before", plan.pending_before, optional=True),
            ],
            warnings=[*_warnings(plan)],
            tables=[*_tables(plan)],
            more=["-v preempted Pods and workloads"] if plan.steps else (),
        )


def plan_classes(cluster: Cluster, request: ClassPlanRequest, *, progress: Progress | None = None) -> ClassPlan:
    """Order a change of PriorityClasses into steps, and simulate each. Raises SourceError and InvalidObject."""
    places, cache = Places(), cluster.cache
    with places.locating():
        objects = [arrival.object for arrival in applied(manifests_of(request.files), request.namespace, places)]
        new = [PriorityClass.from_api(obj) for obj in objects if group_kind(obj) == PRIORITY_CLASS]
        others = [obj for obj in objects if group_kind(obj) != PRIORITY_CLASS]
        change = wanted(cluster.snapshot, new, others, request.delete)
        steps = plan(cluster.snapshot, world_of(cache, (), until=MAX_UNTIL), change, progress)
    placeholders = placeholders_of(steps.answer, cluster.snapshot.pods.values(), cluster.config.options)
    steps = steps._replace(
        answer=steps.answer._replace(placeholders=placeholders),
        not_modelled=[*steps.not_modelled, *not_simulated(cache)],
    )
    return ClassPlan(head_of(cluster.snapshot, steps.answer.after.summary.assumes), steps)


_NAMED: Final = 3
_FULL: Final = 0.8
"""A quota whose usage is at least this share of its limit is shown by default."""
_ROLLOUT_FIX: Final = "add capacity, or allow maxUnavailable in its rollout"
_VERBS: Final = {"recreate": "delete and recreate", "default": "change", "apply": "set the class of"}


def _status(plan: Plan, effects: Effects) -> AnswerStatus:
    if plan.answer.incomplete:
        return AnswerStatus.NO_ANSWER
    if effects.blocked:
        return AnswerStatus.BLOCKED
    if effects.harm or not plan.complete:
        return AnswerStatus.HARM
    return AnswerStatus.WARN if plan.ignored or plan.preempted_before else AnswerStatus.OK


def _clause(plan: Plan, effects: Effects) -> str:
    """The consequence in one clause with at most two numbers."""
    if not plan.steps:
        return "nothing to change"
    seconds = sum(step.ended_at - step.started_at for step in plan.steps)
    took = f"{duration(seconds)}, " if seconds else ""
    first = [f"new Pods of {plural(len(plan.rejected), 'workload')} rejected"] if plan.rejected else []
    unfinished = sum(len(step.unfinished) for step in plan.steps)
    if unfinished and not first:
        first = [plural(unfinished, "rollout does not finish", "rollouts do not finish")]
    return f"{took}{joined([*first, *consequences(effects)][:2]) or NO_EFFECT}"


def _warnings(plan: Plan) -> Iterator[str]:
    if plan.ignored:
        yield f"ignored, because no workload of the cluster: {listed(list(plan.ignored), _NAMED)}"
    if plan.rejected:
        names = listed([workload.workload for workload in plan.rejected], _NAMED)
        rejected = f"admission rejects new Pods of {plural(len(plan.rejected), 'workload')}: {names}"
        yield f"{rejected}; their PriorityClass does not exist then. Fix: pass them with another class (-f)"
    for number, step in enumerate(plan.steps, 1):
        for quota, blocked in grouped((quota_of(name, plan.answer), name) for name in step.unfinished).items():
            verb = "meet" if "must specify" in quota else "raise"
            fix = _ROLLOUT_FIX if quota == QUOTAS else f"{verb} {quota}"
            yield f"step {number}: no progress for 10 min in the rollout of {listed(blocked, _NAMED)}. Fix: {fix}"
    for name, workloads in plan.still_named.items():
        cannot = f"running Pods of {listed(workloads, _NAMED)} cannot be recreated without PriorityClass {name}"
        yield f"{cannot}. Fix: delete it when no Pod names it"
    yield from _side_effect_sentences(plan)
    summary = plan.answer.after.summary
    if summary.stopped:
        what, fix = unsettled(summary.stopped, summary.horizon)
        yield f"simulation {what}: the numbers are those of this moment. Fix: {fix}"
    yield from (f"not simulated: {each}" for each in summary.left_out)


def _side_effect_sentences(plan: Plan) -> Iterator[str]:
    """Yield sentences about effects between and after the steps, and about workloads whose priority does not change."""
    if others := sum(each.differs for each in plan.affected):
        changed = f"the steps alone are counted: afterwards, {plural(others, 'workload')} with another priority"
        yield f"{changed} may change who is preempted or Pending if a node or zone is lost. Fix: run `forewarn` then"
    recreated = sorted({c.name for step in plan.steps if step.step.action == "recreate" for c in step.step.classes})
    if recreated:
        yield f"immutable PriorityClasses are deleted and recreated: new Pods rejected between, {listed(recreated)}"
    other = plan.alternative
    if other is not None and (other.unfinished or other.preempted != plan.preempted):
        yield from _other_order_sentences(other)
    if pods := sum(sum(kept.running.values()) for kept in plan.keep_priority):
        names = listed([kept.workload for kept in plan.keep_priority], _NAMED)
        keep = plural(pods, "running Pod keeps its", "running Pods keep their")
        yield f"{keep} priority, because a restart does not replace them: {names}"
    if plan.preempted_before:
        preempted = plural(plan.preempted_before, "Pod")
        yield f"before step 1, Pending Pods preempt {preempted}: the steps do not count them, the violated PDBs do"
    yield from plan.not_modelled


def _other_order_sentences(other: OtherOrder) -> Iterator[str]:
    """Yield a sentence about the Pods that the order that was not chosen preempts."""
    names = listed(list(other.unfinished), _NAMED)
    unfinished = f", and the rollout of {names} does not finish" if names else ""
    preempt = f"the steps preempt {plural(other.preempted, 'Pod')}{unfinished}"
    first = "new classes get preemptionPolicy Never first"
    yield f"if {first}, {preempt}" if other.never_first else f"{first}: without this, {preempt}"


def _tables(plan: Plan) -> Iterator[Table]:
    reserving = {*plan.answer.placeholders}
    preempted_placeholders = [[p for p in step.preemptions if p.workload in reserving] for step in plan.steps]
    waiting = [sum(step.waiting.get(name, 0) for name in reserving) for step in plan.steps]
    rows: Rows = [
        [
            number,
            len(step.preemptions) - len(preempted_placeholders[number - 1]),
            step.pending - waiting[number - 1],
            len(preempted_placeholders[number - 1]),
            waiting[number - 1],
            step.new_pods,
            duration(step.ended_at - step.started_at) if step.ended_at > step.started_at else "",
            _text_of(step.step),
        ]
        for number, step in enumerate(plan.steps, 1)
    ]
    placeholders = "PLACEHOLDERS", "PLACEHOLDERS PENDING"
    yield Table(("STEP", "PREEMPTED", "PENDING", *placeholders, "NEW PODS", "TAKES", "CHANGE"), rows)
    yield new_priorities([each for each in plan.affected if each.differs])
    yield from quota_tables(plan.answer.after.simulation, least=_FULL)
    yield from quota_tables(plan.answer.after.simulation, detail=1)
    preempted: Rows = [
        [number, by, by_value, victim, value, len(found)]
        for number, step in enumerate(plan.steps, 1)
        for (by, by_value, victim, value), found in pairs(step.preemptions)
    ]
    yield Table(("STEP", "PREEMPTOR", "VALUE", "VICTIM", "VICTIM VALUE", "PODS"), preempted, detail=1)
    yield violated_pdbs(plan.answer)


def _text_of(step: Step) -> str:
    """A step as a phrase: `create PriorityClass gold (100000)`, or `restart 3 workloads (new priority 5000); …`."""
    verb = _VERBS.get(step.action, step.action)
    if step.classes:
        first, *others = [_class_in(step, c) for c in step.classes]
        if not others:
            return f"{verb} PriorityClass {first}"
        return "; ".join([f"{verb} {len(step.classes)} PriorityClasses", first, *others])
    names = ["/".join((ref.namespace, ref.name)) for ref in (ref_of(obj, "default") for obj in step.objects)]
    one_by_one = ", one after the other" if len(names) > 1 else ""
    count = plural(len(names), "workload")
    return f"{verb} {count} (new priority {step.priority:,}{one_by_one}); {listed(names, _NAMED)}"


def _class_in(step: Step, c: PriorityClass) -> str:
    policy = c.preemption_policy
    policies = {"recreate": [policy], "create": [policy] if policy == "Never" else []}
    parts = [] if step.action == "default" else [str(c.value), *policies.get(step.action, ())]
    parts += [f"globalDefault: {str(c.global_default).lower()}"] if c.global_default or not parts else []
    return c.name if step.action == "delete" else f"{c.name} ({', '.join(parts)})"
