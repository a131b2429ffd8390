"""PriorityClasses: which may preempt which, and the steps of a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.documents import Inlined, inlined_in_json
from forewarn.policies.base.documents.answer import (
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
from forewarn.policies.kubernetes.kube_apiserver.quota import QUOTAS
from forewarn.policies.kubernetes.objects.fields import group_kind, ref_of
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.prediction.simulation.scenario import not_simulated, world_of
from forewarn.policies.prediction.simulation.summary import unsettled
from forewarn.policies.questions.application.cluster import Cluster, Progress, snapshot_of
from forewarn.policies.questions.application.manifests import Manifest, applied, manifests_of
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.application.quota_tables import quota_tables
from forewarn.policies.questions.application.whatif_answer import new_priorities, violated_pdbs
from forewarn.policies.questions.whatif import MAX_UNTIL
from forewarn.policies.questions.whatif.answer import pairs
from forewarn.policies.questions.whatif.class_plan import OtherOrder, Plan, Step, plan, wanted
from forewarn.policies.questions.whatif.comparison import placeholders_of
from forewarn.policies.questions.whatif.effects import consequences, effects_of, joined, quota_of
from forewarn.policies.questions.whatif.priority_levels import Classes, priority_levels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.base.documents.answer import Effects


def classes(cluster: Cluster | ClusterSnapshot) -> Classes:
    """Return each PriorityClass, the requests of its Pods, and the number of Pods that a new Pod may preempt."""
    return priority_levels(snapshot_of(cluster))


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
    yield from _of_side_effects(plan)
    summary = plan.answer.after.summary
    if summary.stopped:
        what, fix = unsettled(summary.stopped, summary.horizon)
        yield f"simulation {what}: the numbers are those of this moment. Fix: {fix}"
    yield from (f"not simulated: {each}" for each in summary.left_out)


def _of_side_effects(plan: Plan) -> Iterator[str]:
    """Yield what happens between the steps, and what does not change."""
    recreated = sorted({c.name for step in plan.steps if step.step.action == "recreate" for c in step.step.classes})
    if recreated:
        yield f"immutable PriorityClasses are deleted and recreated: new Pods rejected between, {listed(recreated)}"
    yield from _of_other_order(plan.alternative) if plan.alternative is not None else ()
    if pods := sum(sum(kept.running.values()) for kept in plan.keep_priority):
        names = listed([kept.workload for kept in plan.keep_priority], _NAMED)
        keep = plural(pods, "running Pod keeps its", "running Pods keep their")
        yield f"{keep} priority, because a restart does not replace them: {names}"
    if plan.preempted_before:
        preempted = plural(plan.preempted_before, "Pod")
        yield f"before step 1, Pending Pods preempt {preempted}: the steps do not count them, the violated PDBs do"
    yield from plan.not_modelled


def _of_other_order(other: OtherOrder) -> Iterator[str]:
    """Yield what the order that was not chosen preempts."""
    names = listed(list(other.unfinished), _NAMED)
    unfinished = f", and the rollout of {names} does not finish" if names else ""
    preempt = f"the steps preempt {plural(other.preempted, 'Pod')}{unfinished}"
    first = "new classes get preemptionPolicy Never first"
    yield f"if {first}, {preempt}" if other.never_first else f"{first}: without this, {preempt}"


def _tables(plan: Plan) -> Iterator[Table]:
    rows: Rows = [
        [
            number,
            len(step.preemptions),
            step.pending,
            step.new_pods,
            duration(step.ended_at - step.started_at) if step.ended_at > step.started_at else "",
            _text_of(step.step),
        ]
        for number, step in enumerate(plan.steps, 1)
    ]
    yield Table(("STEP", "PREEMPTED", "PENDING", "NEW PODS", "TAKES", "CHANGE"), rows)
    yield new_priorities([each for each in plan.affected if each.differs])
    yield from quota_tables(plan.answer.after.simulation)
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
