"""Predict the node and the victims of Pods and workloads."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, Sparse, in_json, inlined_in_json, optional_in_json
from forewarn.policies.base.documents.answer import (
    MAX_ROWS,
    NO_CLASS,
    AnswerDocument,
    AnswerStatus,
    Cause,
    Counter,
    Effects,
    Fix,
    Rows,
    Table,
    Why,
    counters_of,
    why_of,
)
from forewarn.policies.base.findings import grouped, listed, plural, with_fix
from forewarn.policies.kubernetes.cluster.admission import exceeded_quotas
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET
from forewarn.policies.kubernetes.kube_apiserver.quota import ExceededQuota, rejecting
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, check_numbers
from forewarn.policies.kubernetes.objects.pod import Pod, wait_seconds
from forewarn.policies.kubernetes.objects.pod_loss import Consequences, losses_of
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.quantity import ZERO, format_units
from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions, why_group_not_predicted
from forewarn.policies.kubernetes.scheduling.reasons import joined, shorten
from forewarn.policies.kubernetes.scheduling.schedule_one import Evicted, Prediction, PredictionDocument
from forewarn.policies.linting.rules.support.predictions import cycle_error, fix_of, fixable_reasons, is_placeholder
from forewarn.policies.linting.rules.wording.forecasts import placement_notes
from forewarn.policies.prediction.forecast.forecast import place_all
from forewarn.policies.prediction.forecast.impact import ESTIMATE, Cascade, least
from forewarn.policies.prediction.forecast.placement import PENDING, RUNNING, Applied, Attempts, Placement, Predicted
from forewarn.policies.prediction.forecast.pod_groups import GroupForecast, group_forecast
from forewarn.policies.prediction.forecast.why_not import (
    cause,
    common_cause,
    ending_on_nominated_node,
    explanations,
    lasting_constraint,
    on_no_node,
    waits_for,
    why_not,
)
from forewarn.policies.prediction.simulation.summary import in_vain_sentences
from forewarn.policies.questions.application import autoscaler_tables
from forewarn.policies.questions.application.cluster import Cluster, autoscaling_for, head_with_nodes, snapshot_of
from forewarn.policies.questions.application.fixes import changed_workloads, missing_in, tried_fix
from forewarn.policies.questions.application.kueue import (
    Queued,
    QueuedJob,
    assumed,
    clause_of,
    counters_of_jobs,
    queued_jobs,
    status_of,
    tables_of_jobs,
    warnings_of_jobs,
    with_evicted,
)
from forewarn.policies.questions.application.manifests import Manifest, with_manifests
from forewarn.policies.questions.application.places import Places, Rejected, why_rejected
from forewarn.policies.questions.application.simulated import new_classes
from forewarn.policies.questions.whatif.autoscalers import Autoscalers, Autoscaling, PendingPods, explained
from forewarn.policies.questions.whatif.effects import (
    Kind,
    consequences,
    left_by_new_nodes,
    new_pods_clause,
    total_of_placeholders,
)
from forewarn.policies.questions.whatif.effects import joined as joined_phrases
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import pool_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """Manifests of Pods and workloads.

    `namespace`: namespace of objects that name none. `replicas`: instead of the number in a manifest. `autoscaling`:
    settings of autoscalers (default: those of the cluster). `options`: the options of rules, which select placeholder
    Pods.
    """

    manifests: Manifest | Sequence[Manifest]
    namespace: str = "default"
    replicas: int | None = None
    autoscaling: Autoscaling | None = None
    options: Options = field(default_factory=Options)


class PredictedObject(NamedTuple):
    """The new Pods of an object. `outcomes`: their number by outcome, as in `outcomes` of all.

    `basis`: `missing-replicas`, or `rollout` for the new Pods of a rollout. `blocked`: whether Pending or rejected Pods
    block the rollout, or the creation of later Pods. `rejection`: why a ResourceQuota rejects Pods. `standing`: what
    the prediction assumes, and why it is uncertain.
    """

    id: str
    outcomes: Mapping[str, int]
    basis: str = ""
    blocked: Sparse[bool] = False
    rejection: str = ""
    standing: Sequence[str] = ()


class VictimsOf(NamedTuple):
    """The victims of one workload, without placeholder Pods. `pods`: their number."""

    workload: str
    priority_class: str
    priority: int
    pods: int


class PredictedPod(NamedTuple):
    """A new Pod. `id`: `namespace/name`. `violatedPDBs`: PDBs that the preemption violates."""

    id: str
    prediction: Inlined[PredictionDocument]
    attempts: Inlined[Attempts]
    consequences: Inlined[Consequences]
    violated_pdbs: Sequence[str] = ()


class PredictedPodGroup(NamedTuple):
    """A PodGroup. `violatedPDBs`: PDBs that the preemption violates."""

    group: Inlined[GroupForecast]
    consequences: Inlined[Consequences]
    violated_pdbs: Sequence[str] = ()


@dataclass(frozen=True, repr=False)
class PredictResult(Result):
    """The predictions for new Pods and PodGroups.

    `groups`: the result for the PodGroup of the Pods, if any. `faults`: the errors of unreadable files and invalid
    objects. `places`: the positions of objects in files. `newClasses`: PriorityClasses of the manifests. `queued`: what
    Kueue decides about Jobs. `every_pod`: whether JSON has each Pod, with many only its node and victims. `fixes`: what
    lowers the number of victims.
    """

    cluster: Hidden[ClusterSnapshot]
    applied: Hidden[Applied]
    groups: Hidden[Sequence[GroupForecast]]
    faults: Hidden[Sequence[Exception]]
    places: Hidden[Places]
    autoscaling: Hidden[Autoscaling]
    options: Hidden[Options]
    queued: Hidden[Queued]
    new_classes: Sequence[str] = ()
    every_pod: Hidden[bool] = False
    fixes: Hidden[Sequence[Fix]] = ()

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return document_of(self)

    @cached_property
    def predicted(self) -> Predicted:
        """The shared part of all predictions."""
        return Predicted(self.applied, self.groups, self.cluster, partial(is_placeholder, options=self.options))

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of `--fail-on` that are met: the counters that are not 0."""
        return self.document.conditions

    @property
    def predictions(self) -> Sequence[Prediction]:
        """The predictions, in order. New Pods of a rollout have one only if they do not fit."""
        return self.applied.predictions

    @cached_property
    def placements(self) -> list[Placement]:
        """The results of objects, without objects whose Pods all belong to PodGroups."""
        is_alone = self.predicted.is_alone
        return [p for p in self.applied.placed if not p.predictions or any(map(is_alone, p.predictions))]

    @in_json
    def outcomes(self) -> Tally[str]:
        """The number of new Pods by outcome: "fits", "preempts", "pending", "not-predicted", "waits" (for terminating
        Pods, without preempting others), "in-vain" (a Pod preempts and stays Pending), "preempted" (by a later new
        Pod), "rejected" (a ResourceQuota rejects them), "later" (created when earlier Pods run), or "unknown".
        """
        return self.predicted.outcomes

    @in_json
    def objects(self) -> list[PredictedObject]:
        return [*map(self._object, self.placements)]

    @in_json
    def victims(self) -> list[VictimsOf]:
        """The victims by workload, without placeholder Pods."""
        of = Tally(
            (self.cluster.top_workload_of(pod), pod.priority_class_name, pod.effective_priority)
            for pod in self.predicted.victims
        )
        return [VictimsOf(*key, pods) for key, pods in of.most_common()]

    @optional_in_json
    def kueue(self) -> Sequence[QueuedJob] | None:
        """What Kueue decides about Jobs in LocalQueues; None without such Jobs."""
        return self.queued.jobs or None

    @in_json
    def pods(self) -> list[PredictedPod]:
        """Each Pod without PodGroup, if they are at most 10; with -vv, each of many with its node and victims."""
        alone = self.predicted.alone
        is_brief = len(alone) > MAX_ROWS
        return [self._pod(each, is_brief=is_brief) for each in alone] if self.every_pod or not is_brief else []

    @in_json
    def pod_groups(self) -> list[PredictedPodGroup]:
        snapshot, workload = self.cluster.scheduling, self.cluster.workload
        return [
            PredictedPodGroup(group, Consequences.from_victims(group.victims, workload), group.violated_pdbs(snapshot))
            for group in self.groups
        ]

    @cached_property
    def _reaction(self) -> Autoscalers | None:
        waiting = any(prediction.outcome == "pending" for prediction in self.predictions)
        pending = PendingPods.from_predictions(self.predictions, self.cluster) if waiting else None
        return explained(pending, self.autoscaling) if pending else None

    @optional_in_json
    def autoscalers(self) -> Autoscalers | None:
        """The reaction of autoscalers to the Pods that stay Pending."""
        return self._reaction

    def _object(self, placement: Placement) -> PredictedObject:
        outcomes = self.predicted.outcomes_of(placement)
        blocked, notes = placement.is_blocked, placement_notes(placement)
        return PredictedObject(placement.name, outcomes, placement.basis, blocked, placement.rejection, notes)

    def _pod(self, prediction: Prediction, *, is_brief: bool) -> PredictedPod:
        if is_brief:
            node, names = prediction.node, [victim.key for victim in prediction.victims]
            candidates = {node: Evicted(names, prediction.num_pdb_violations)} if names else {}
            selected, nominated = [node] if node else [], prediction.nominated_node
            document = PredictionDocument(
                prediction.outcome, candidates=candidates, selected=selected, nominated_node=nominated
            )
        else:
            document = prediction.document
        return PredictedPod(
            prediction.pod.key,
            document,
            self.applied.attempts_of(prediction),
            Consequences.from_victims(prediction.victims, self.cluster.workload),
            prediction.violated_pdbs,
        )


def predict(
    cluster: Cluster | ClusterSnapshot, request: PredictRequest | Manifest | Sequence[Manifest]
) -> PredictResult:
    """Predict kube-scheduler's first decision about the new Pods of manifests.

    Use it to test which Pods a manifest preempts. `whatif` also simulates what follows.

    `request`: a PredictRequest, or its manifests alone. Raises SourceError, InvalidInput, and InvalidObject, even if
    all objects are invalid.
    """
    result = predicted(cluster, request)
    if result.faults and not result.applied.placed:
        raise Rejected(result.faults)
    return replace(result, fixes=[*_fixes(result, request)])


def _fixes(result: PredictResult, request: PredictRequest | Manifest | Sequence[Manifest]) -> Iterator[Fix]:
    """Yield what lowers the number of Pods that do not run, and of victims."""
    request = request if isinstance(request, PredictRequest) else PredictRequest(request)
    if request.replicas is None:
        yield from _workload_fixes(result)
    yield from _class_fixes(result, request)


def _workload_fixes(result: PredictResult) -> Iterator[Fix]:
    """Yield changed workloads, if a quota rejects some of their Pods or a constraint excludes them: with as many Pods
    as run, or with anti-affinity between Pods on the same node only. The prediction is repeated with them.
    """
    objects, before = result.queued.objects, result.predicted.effects()

    def affected() -> Iterator[tuple[ApiObject, int, bool]]:
        for obj, placement in zip(objects, result.applied.placements, strict=True):
            if isinstance(placement, Placement) and (before.pending or before.rejected):
                outcomes, (_, excluded) = result.predicted.outcomes_of(placement), _constrained(placement, result)
                run = placement.existing + sum(outcomes[name] for name in RUNNING)
                yield from [(obj, run, bool(excluded))] * bool(excluded or outcomes["rejected"])

    for action, changed in changed_workloads(affected(), {}):
        new = [changed.get(id(obj), obj) for obj in objects]
        applied = place_all(result.queued.cluster, new, None, partial(is_placeholder, options=result.options))
        after = replace(result, applied=applied, groups=()).predicted.effects()
        if missing_in(after) < missing_in(before):
            yield tried_fix(action, before, after, _CHANGED, hidden=_HIDDEN)


_CHANGED: Final = ("pending", "rejected", "victims")
"""Counters that the effect of a fix names if they change."""
_HIDDEN: Final = ("preempted", "down_seconds")
"""Counters that it never names: a prediction shows `victims` instead."""


def _class_fixes(result: PredictResult, request: PredictRequest) -> Iterator[Fix]:
    """Yield `preemptionPolicy: Never` for the classes of the preemptors, if autoscalers then add nodes for all of them.

    The prediction is repeated with such classes.
    """
    preemptors = [each for each in result.predictions if each.outcome == "preempts"]
    names = dict.fromkeys(each.pod.priority_class_name for each in preemptors)
    stored = result.cluster.priority_classes
    if not result.autoscaling.grows or not result.document.effects.victims or not names.keys() <= stored.keys():
        return
    polite = {name: stored[name]._replace(preemption_policy=PREEMPT_NEVER) for name in names}
    cluster = replace(result.cluster, priority_classes={**stored, **polite})
    again = predicted(cluster, replace(request, autoscaling=result.autoscaling))
    grown, before = again.document.counters_with_new_nodes, result.document.effects
    if again.autoscalers and grown and not grown.victims and grown.pending <= before.pending:
        nodes = f"{plural(grown.new_nodes, 'new node')} of {listed([*again.autoscalers.added])}"
        classes = f"{'class' if len(names) == 1 else 'classes'} like {listed([*names])}"
        yield Fix(f"{classes} with preemptionPolicy: Never", f"victims {before.victims:,} → 0, {nodes}")


def predicted(
    cluster: Cluster | ClusterSnapshot, request: PredictRequest | Manifest | Sequence[Manifest]
) -> PredictResult:
    """`predict`, but without predictions if all objects are invalid."""
    if not isinstance(request, PredictRequest):
        request = PredictRequest(request)
    check_numbers(0, replicas=request.replicas)
    autoscaling = autoscaling_for(cluster, request.autoscaling)
    cluster, places, faults = snapshot_of(cluster), Places(), list[Exception]()
    with places.locating():
        objects, to_be = with_manifests(cluster, request.manifests, request.namespace, places, faults)
        created = new_classes(cluster, to_be)
        queued = queued_jobs(to_be, objects)
        reserves = partial(is_placeholder, options=request.options)
        applied = place_all(queued.cluster, queued.objects, request.replicas, reserves)
        faults += (placement for placement in applied.placements if isinstance(placement, InvalidObject))
    faults = [*map(places.located, faults)]
    groups = tuple(_groups(applied))
    head = head_with_nodes(cluster, (*_assumed(applied, groups, cluster), *([assumed(cluster)] if queued.jobs else ())))
    return PredictResult(head, cluster, applied, groups, faults, places, autoscaling, request.options, queued, created)


def _groups(applied: Applied) -> Iterator[GroupForecast]:
    """Yield the forecasts for the PodGroups of the new Pods."""
    is_whole = not any(placement.omitted or placement.rollout for placement in applied.placed)
    if is_whole and any(prediction.pod.spec.pod_group for prediction in applied.predictions):
        pods = [prediction.pod for prediction in applied.predictions]
        forecast = group_forecast(applied.predictions[0].snapshot, pods)
        yield from (forecast,) if forecast else ()


def _assumed(applied: Applied, groups: Sequence[GroupForecast], cluster: ClusterSnapshot) -> Iterator[str]:
    """Yield what the predictions assume because the cluster state lacks it."""
    for placement in applied.placed:
        yield from assumptions(cluster.objects, created=True) if placement.rejected or placement.rollout else ()
        for prediction in placement.predictions:
            yield from prediction.assumes
        yield from placement.rollout.assumes if placement.rollout else ()
    for group in groups:
        yield from group.assumes


_FEW_VICTIMS: Final = 5
_MAX_EXPLAINED: Final = 100
"""Maximum number of Pending Pods of one object whose reasons are evaluated."""
_MAX_SHOWN: Final = 2
BY_CONTROLLERS: Final = "the numbers depend on when controllers create the Pods: `forewarn whatif apply` simulates it"
UNFOLLOWED: Final = "replacements of the victims are not predicted: `forewarn whatif apply -f` simulates them"
ONE_RUN: Final = "the numbers are those of one run, and chance may decide: `forewarn whatif apply` shows the range"
GRACE: Final = "grace period up to"
"""The counter of the seconds in which victims terminate. The preemptor may run later: it may have to preempt again."""
GROUPS: Final = "`forewarn whatif apply -f` simulates the Pods of a PodGroup together"


def document_of(result: PredictResult) -> AnswerDocument:
    """Return a prediction in the common answer format."""
    jobs = result.queued.jobs
    own = result.predicted.effects()
    effects = with_evicted(own._replace(rejected=own.rejected + len(result.faults)), jobs)
    grown = with_new_nodes(result.autoscalers, effects)
    return AnswerDocument(
        status=status_of(_status(result, effects), jobs),
        question=_question(result),
        clause=clause_of(jobs, _clause(result, own, grown)),
        counters=effects,
        shown=[*_counters(result, effects, grown), *counters_of_jobs(jobs)],
        counters_with_new_nodes=grown,
        warnings=[*warnings_of_jobs(jobs), *_warnings(result, effects)],
        why=_why(result, effects),
        tables=[*tables_of_jobs(jobs), *_tables(result)],
        fix=result.fixes,
        more=[*_more(result)],
    )


def with_new_nodes(reaction: Autoscalers | None, effects: Effects) -> Effects | None:
    """The counters after autoscalers have added nodes for Pods that stay Pending; None if they add none."""
    plan, launches = (reaction.node_groups, reaction.node_pools) if reaction else (None, None)
    nodes = reaction.added.total() if reaction else 0
    helped = plan.pods if plan else 0
    helped += sum(each.pods for launch in launches.launches for each in launch.workloads) if launches else 0
    return effects._replace(pending=max(effects.pending - helped, 0), new_nodes=nodes) if nodes else None


def _missing(result: PredictResult) -> int:
    """The number of new Pods that are not predicted."""
    return sum(result.outcomes[name] for name in ("not-predicted", "unknown"))


def _run(result: PredictResult) -> int:
    return sum(result.outcomes[name] for name in RUNNING)


def _status(result: PredictResult, effects: Effects) -> AnswerStatus:
    if result.faults or (effects.rejected and not _run(result)):
        return AnswerStatus.REJECTED
    if _missing(result):
        return AnswerStatus.NO_ANSWER
    if effects.blocked:
        return AnswerStatus.BLOCKED
    if effects._replace(pending=0).harm:
        return AnswerStatus.HARM
    if effects.pending:
        return AnswerStatus.PENDING
    return AnswerStatus.WARN if effects.placeholders or result.outcomes["waits"] else AnswerStatus.OK


def _question(result: PredictResult) -> str:
    names = [placement.name for placement in result.placements]
    names += [f"{group.id} ({group.policy})" for group in result.groups]
    classes, noun = result.new_classes, "PriorityClasses" if result.new_classes[1:] else "PriorityClass"
    with_classes = f" with new {noun} {listed(classes, 1)}" if classes else ""
    objects = len(names) + len(result.faults)
    return (names[0] if len(names) == objects == 1 else plural(objects, "object")) + with_classes


def _clause(result: PredictResult, effects: Effects, grown: Effects | None) -> str:
    new, run, missing = result.outcomes.total(), _run(result), _missing(result)
    by_preemption = result.outcomes["preempts"]
    rejected = f"{plural(len(result.faults), 'object')} rejected" if result.faults else ""
    if rejected and not new:
        return rejected if result.placements or result.faults[1:] else "rejected"
    if not new:
        return _without_new_pods(result.placements)
    how = "by preemption" if effects.victims or not effects.placeholders else "by preemption of placeholder Pods"
    if missing:
        text = f"{missing:,} of {plural(new, 'new Pod')} not predicted"
    elif new == 1:
        (outcome,) = result.outcomes.elements()
        node = "".join(f" on {each.node}" for each in result.predicted.alone[-1:] if each.node)
        text = f"the new Pod {_OF_ONE.get(outcome, 'runs{on}').format(on=node, how=how)}"
    else:
        more = [f"{by_preemption:,} of them {how}"] if by_preemption else [*consequences(effects)]
        text = joined_phrases([f"{run:,} of {new:,} new Pods run", *more][:2])
        if effects.blocked:
            rollouts = plural(effects.blocked, "rollout does not finish", "rollouts do not finish")
            text = f"{rollouts}, {run:,} of {new:,} new Pods run"
    text = f"{rejected}, {text}" if rejected else text
    return text if grown is None or missing else f"{text}; {left_by_new_nodes(grown)}"


def _without_new_pods(placements: Sequence[Placement]) -> str:
    if len(placements) != 1:
        return "no new Pods"
    (placement,) = placements
    why = f"{placement.existing:,} of {placement.wanted:,} exist" if placement.wanted else placement.none
    if placement.rollout is not None:
        why = "the updateStrategy replaces no existing Pod" if placement.rollout.replaces_none else "none created yet"
    return f"no new Pods: {why}"


_OF_ONE: Final = dict.fromkeys(PENDING, "stays Pending") | {
    "rejected": "is rejected",
    "waits": "waits for terminating Pods{on}",
    "preempts": "runs{on} {how}",
}
"""Outcome of the only new Pod -> the clause, unless it runs without preemption."""


def _counters(result: PredictResult, effects: Effects, grown: Effects | None) -> Iterator[Counter]:
    outcomes, pods = result.outcomes, result.cluster.pods
    total = sum(is_placeholder(pod, result.options) for pod in pods.values() if pod.node_name)
    without = ["lost"] if effects.preempted != effects.victims else ["lost", "preempted"]
    (totals, again), (_, certain) = (
        total_of_placeholders(total, effects.placeholders),
        _chance_certainty(result, effects),
    )
    texts = {"victims": certain, "preempted": new_pods_clause(effects), "placeholders": again}
    yield from counters_of(effects, {}, grown, without=without, totals=totals, **texts)
    for name, label in _OUTCOMES.items():
        yield Counter(label, outcomes[name], optional=True)
    victims = result.predicted.victims
    if _unfollowed(result):
        yield Counter("replacements", None)
    else:
        cascades = [each for each in map(_cascade, result.placements) if each is not None]
        yield Counter("replacements Pending", sum(each.pending for each in cascades), optional=True)
        yield Counter("replacements rejected", sum(each.rejected_by_quota for each in cascades), optional=True)
    stored = (pods.get((pod.namespace, pod.name)) for pod in victims)
    if victims and not any(pod and pod.terminating for pod in stored):
        yield Counter(GRACE, wait_seconds(victims), more=" s")


def _cascade(placement: Placement) -> Cascade | None:
    impact = placement.rollout or placement.following
    return impact and impact.cascade


def _unfollowed(result: PredictResult) -> bool:
    """Report whether the outcome for the replacements of victims is not predicted."""
    if not any(pod.owner_kind and not pod.terminating for pod in result.predicted.victims):
        return False
    preempting = [each for each in result.placements if any(one.victims for one in each.predictions)]
    cascades = [*map(_cascade, preempting)]
    return any(group.victims for group in result.groups) or any(each is None or each.incomplete for each in cascades)


_OUTCOMES: Final = {
    "fits": "fit",
    "preempts": "preempt",
    "waits": "wait for terminating Pods",
    "in-vain": "preempt and stay Pending",
    "preempted": "preempted again",
    "later": "not created yet",
    "not-predicted": "not predicted",
    "unknown": "not evaluated",
}
"""Outcome of new Pods -> its counter, unless `Effects` has one."""


# Warnings


def _warnings(result: PredictResult, effects: Effects) -> Iterator[str]:
    yield from result.places.warnings()
    yield from filter(None, _chance_certainty(result, effects)[:1])
    yield from _rejection_sentences(result, effects)
    yield from _several_sentences(result, effects)
    notes = Tally(note for placement in result.placements for note in placement_notes(placement))
    yield from notes
    of_groups = (each for each in result.predicted.alone if each.not_predicted and each.pod.spec.pod_group)
    if any(not why_group_not_predicted(each.pod, each.snapshot) for each in of_groups):
        yield GROUPS
    yield from dict.fromkeys(note for group in result.groups if group.victims for note in group.notes)
    yield from _pod_sentences(result)
    if result.autoscalers:
        yield from autoscaler_tables.warnings_of(result.autoscalers)


def _several_sentences(result: PredictResult, effects: Effects) -> Iterator[str]:
    """Yield what a prediction for several objects ignores: simultaneous rollouts, and the times at which Pods are
    created.
    """
    rollouts = [placement for placement in result.placements if placement.rollout]
    if rollouts and len(result.placements) > 1:
        yield f"{plural(len(rollouts), 'rollout is', 'rollouts are')} evaluated without the other objects"
    in_order = [each.predictions for each in result.placements if each.predictions and not each.rollout]
    if len(in_order) > 1 and (effects.victims or effects.pending) and any(each[0].pod.owner_kind for each in in_order):
        yield BY_CONTROLLERS
    elif _unfollowed(result) and not any(each and each.not_predicted for each in map(_cascade, result.placements)):
        yield UNFOLLOWED


def _rejection_sentences(result: PredictResult, effects: Effects) -> Iterator[str]:
    """Yield sentences about quotas that reject Pods, unless the reasons name them, and about quotas that are exceeded
    already, which may also reject the replacements of victims.
    """
    rejected = [placement for placement in result.placements if placement.rejection]
    if (effects.pending or _missing(result) or result.faults) and rejected:
        by = rejecting([(_namespace(each), each.rejection) for each in rejected])
        yield f"{by} rejects {plural(result.outcomes['rejected'], 'new Pod')}"
    yield from dict.fromkeys(text for each in rejected for text in _usage(each, result.cluster))
    namespaces, victims = {_namespace(placement) for placement in rejected}, result.predicted.victims
    of_namespace = Tally(pod.namespace for pod in victims if pod.owner_kind)
    for name, usage in exceeded_quotas(result.cluster).items() if rejected or victims else ():
        namespace = name.partition("/")[0]
        replaced = of_namespace[namespace]
        then = f": it may reject the replacements of {plural(replaced, 'victim')}" if replaced else ""
        if then or namespace in namespaces:
            yield f"quota {name} is exceeded already ({usage}){then}"


def _usage(placement: Placement, cluster: ClusterSnapshot) -> Iterator[str]:
    """Yield the usage of the quota that rejects new Pods: now, and with the Pods that it admits."""
    message, namespace = placement.rejection, _namespace(placement)
    if isinstance(message, ExceededQuota):
        for quota in cluster.quotas_of(namespace):
            for name, amount in message.amounts.items() if quota.name == message.quota else ():
                if (used := quota.used.get(name, ZERO)) < amount.limited:
                    amounts = f"{format_units(used)} → {format_units(amount.used)} of {format_units(amount.limited)}"
                    verb = "has limits of" if name.startswith("limits.") else "requests"
                    resource = name.removeprefix("limits.").removeprefix("requests.")
                    each = (
                        "" if resource == "pods" else f"; each Pod {verb} {format_units(amount.requested)} {resource}"
                    )
                    yield f"quota {namespace}/{quota.name}: {name} {amounts}{each}"


def _chance_certainty(result: PredictResult, effects: Effects) -> tuple[str, str]:
    """Return how certain the number of victims is, if chance decides it: a sentence, and text after the number."""
    in_turn = [each for placement in result.placements if not placement.rollout for each in placement.predictions]
    of_rollouts = [placement.rollout.least for placement in result.placements if placement.rollout]
    certain = [each for each in (least(in_turn), *of_rollouts) if each is not None]
    if any(each.is_estimate for each in certain):
        return ESTIMATE, " (estimate)" * bool(effects.victims)
    if len(certain) == 1 and len(result.placements) == 1 and not effects.placeholders:
        number = certain[0].victims
        pods = f"at least {plural(number, 'Pod is', 'Pods are')} preempted"
        at_least = f" (at least {number:,})" * (number < effects.victims)
        return f"equal nodes or Pods: kube-scheduler may select others; {pods}", at_least
    if effects.preempted > effects.victims or result.predicted.in_vain:
        return ONE_RUN, " (one run)"
    is_tie = certain or any(each.may_be_others for each in result.predicted.alone)
    return "equal nodes or Pods: kube-scheduler may select other victims" if is_tie else "", ""


def _pod_sentences(result: PredictResult) -> Iterator[str]:
    """Yield the doubts about single Pods, each once with the number of Pods."""
    texts, predictions = Tally[str](), result.predicted.alone
    yield from in_vain_sentences(len(result.predicted.in_vain))
    for prediction in predictions:
        texts.update(prediction.doubts)
        texts.update(_attempts(prediction, result))
    first = next((each for each in predictions if each.outcome in ("pending", "preempts")), None)
    texts.update(explanations(first, result.cluster) if first is not None else ())
    for text, pods in texts.most_common():
        yield f"{text} ({pods:,} Pods)" if pods > 1 else text


def _attempts(prediction: Prediction, result: PredictResult) -> Iterator[str]:
    """Yield sentences about the effect on a Pod of objects that are applied later."""
    turn = result.applied.attempts_of(prediction)
    if turn.overtaken:
        yield "Pods of higher priority that are applied later take the capacity of the victims"
    if turn.attempts:
        yield "several scheduling attempts: Pods applied later change where it fits"


# Reasons


def _why(result: PredictResult, effects: Effects) -> Why | None:
    """The reasons why objects or Pods are rejected, not predicted, or stay Pending."""
    if result.faults:
        return why_rejected(result.faults)
    for counter, number, (one, many), causes_of in (
        ("not predicted", _missing(result), ("POD IS NOT PREDICTED", "PODS ARE NOT PREDICTED"), _not_predicted),
        ("pending", effects.pending, ("POD STAYS PENDING", "PODS STAY PENDING"), _pending),
        ("rejected", effects.rejected, ("POD IS REJECTED", "PODS ARE REJECTED"), _rejected),
    ):
        if number:
            pods = Tally[tuple[str, str]]()
            for pods_of_cause, kind, reason in causes_of(result):
                pods[kind, reason] += pods_of_cause
            return why_of(counter, number, one, many, (Cause(count, *cause) for cause, count in pods.items()))
    return None


def _not_predicted(result: PredictResult) -> Iterator[tuple[int, str, str]]:
    for prediction in result.predicted.alone:
        if prediction.outcome == "not-predicted":
            yield 1, "notPredicted", prediction.not_predicted
    for placement in result.placements:
        counts, rollout = placement.without_prediction, placement.rollout
        for outcome in ("not-predicted", "unknown"):
            if (number := counts.get(outcome, 0)) and rollout is not None:
                yield number, "notPredicted", rollout.why_not or "the rollout is too large to predict it to its end"
    for group in result.groups:
        if group.outcome == "not-predicted":
            yield len(group.pods), "notPredicted", group.message


def _rejected(result: PredictResult) -> Iterator[tuple[int, str, str]]:
    for placement in result.placements:
        if rejected := placement.without_prediction.get("rejected"):
            by = rejecting([(_namespace(placement), placement.rejection)]) or "a ResourceQuota"
            yield rejected, Kind.QUOTA, f"by {by}"


def _namespace(placement: Placement) -> str:
    return placement.name.rpartition(" ")[2].partition("/")[0]


def _pending(result: PredictResult) -> Iterator[tuple[int, str, str]]:
    predicted = result.predicted
    for placement in result.placements:
        counts, (constraint, constrained) = predicted.outcomes_of(placement), _constrained(placement, result)
        total = sum(counts[name] for name in PENDING) - constrained
        if constrained:
            yield constrained, Kind.CONSTRAINT, constraint
        explained = _pending_alone(placement, result)[: min(total, _MAX_EXPLAINED)]
        for prediction in explained:
            yield 1, kind_of(prediction), pending_reason(prediction, result.cluster)
        left = total - len(explained)
        if left > 0 and explained:
            is_alike = not explained[-1].pod.spec.node_affinity.only_node
            reason = pending_reason(explained[-1], result.cluster) if is_alike else "reasons not evaluated"
            yield left, kind_of(explained[-1]), reason
    for group in result.groups:
        if stay := predicted.outcomes_of_group(group)["pending"] - predicted.pending_before(group):
            yield stay, Kind.PENDING, group_reason(group)


def _pending_alone(placement: Placement, result: PredictResult) -> list[Prediction]:
    """The Pending Pods of an object without PodGroup."""
    is_alone = result.predicted.is_alone
    return [each for each in placement.predictions if each.outcome == "pending" and is_alone(each)]


def _constrained(placement: Placement, result: PredictResult) -> tuple[str, int]:
    """Return the constraint with which some of the Pending Pods of an object fit on no node, whatever its capacity, and
    the number of these Pods.
    """
    pending = _pending_alone(placement, result)
    if not pending or has_own_cause(pending[-1]):
        return "", 0
    constraint, room = lasting_constraint(pending[-1].snapshot, pending[-1].pod)
    return constraint, max(len(pending) - room, 0) if constraint else 0


def has_own_cause(prediction: Prediction) -> bool:
    """Report whether a Pending Pod has another cause than capacity or constraints between Pods."""
    only_node = prediction.pod.spec.node_affinity.only_node
    return bool(only_node or prediction.error or prediction.pre_filter is not None or cause(prediction))


def group_reason(group: GroupForecast) -> str:
    """Why Pods of a PodGroup stay Pending."""
    if group.missing:
        return with_fix(f"{group.group.key} waits for {plural(group.missing, 'more Pod')}", group.fix)
    return with_fix(f"{group.group.key}: {shorten(group.message) or 'minCount is reached without them'}", group.fix)


def kind_of(prediction: Prediction) -> Kind:
    """The kind of reason why a Pod stays Pending."""
    found = cause(prediction)
    if found or prediction.pre_filter is not None:
        is_of_volumes = (found or joined(prediction.pre_filter.reasons if prediction.pre_filter else ())).of_volumes
        return Kind.VOLUME if is_of_volumes else Kind.CONSTRAINT
    return Kind.PENDING if prediction.error else Kind.CAPACITY


def pending_reason(prediction: Prediction, cluster: ClusterSnapshot) -> str:
    """Why a Pod stays Pending, with the fix if one cause keeps it off all nodes."""
    return with_fix(reason_in_short(prediction, cluster), fix_of(fixable_reasons(prediction)))


def reason_in_short(prediction: Prediction, cluster: ClusterSnapshot) -> str:
    """Why a Pod stays Pending, without a fix."""
    if not cluster.objects.nodes:
        return "the cluster has no nodes"
    if prediction.pod.nominated_node_name and (ending := ending_on_nominated_node(prediction)):
        return waits_for(ending, prediction.pod.nominated_node_name)
    if prediction.error:
        return cycle_error(prediction)
    if found := common_cause(prediction):
        return found
    never = prediction.preemption.ineligible_reason
    return f"{on_no_node(prediction)}{never and f' and may not preempt: {shorten(never)}'}"


# Tables


def _tables(result: PredictResult) -> Iterator[Table]:
    if len(result.placements) + len(result.groups) > 1:
        yield _objects(result)
    yield from _victims(result)
    yield from _nodes(result)
    violated = sorted({pdb for each in result.predicted.alone for pdb in each.violated_pdbs})
    yield Table(("PDB VIOLATED",), [[name] for name in violated], detail=int(len(violated) > _MAX_SHOWN))
    rejected: Rows = [
        [each.name, each.without_prediction.get("rejected", 0), shorten(each.rejection)]
        for each in result.placements
        if each.rejection
    ]
    yield Table(("REJECTED PODS OF", "PODS", "MESSAGE"), rejected, detail=1)
    if result.autoscalers:
        yield from autoscaler_tables.tables_of(result.autoscalers)
    yield from _nodes_of_new_pods(result)
    yield from _pods(result)


def _objects(result: PredictResult) -> Table:
    """A row for each object; the object with the most Pods that do not run comes first."""
    predicted = result.predicted
    rows: Rows = []
    by = Tally(predicted.preemptor_of(victim) for victim in predicted.victims)
    for placement in result.placements:
        keys = {each.pod.key for each in placement.predictions}
        rows.append(_object(placement.name, predicted.outcomes_of(placement), sum(by[key] for key in keys)))
    rows += [_object(group.id, predicted.outcomes_of_group(group), by[group.id]) for group in result.groups]
    rows.sort(key=lambda row: (-int(row[4]) - int(row[5]), -int(row[6]), -int(row[3])))
    totals = [sum(int(row[column]) for row in rows) for column in range(1, len(_OBJECT))]
    return Table(_OBJECT, rows, ["total", *totals])


_OBJECT: Final = ("OBJECT", "NEW PODS", "FIT", "PREEMPT", "PENDING", "REJECTED", "VICTIMS", "OTHERS")


def _object(name: str, counts: Tally[str], victims: int) -> list[str | int]:
    pending = sum(counts[outcome] for outcome in PENDING)
    known = counts["fits"], counts["preempts"], pending, counts["rejected"]
    return [name, counts.total(), *known, victims, counts.total() - sum(known)]


def _victims(result: PredictResult) -> Iterator[Table]:
    """Yield the victims: one by one if they are few, by workload, or by class if there are many workloads."""
    victims, workload_of = result.predicted.victims, result.cluster.top_workload_of
    losses = {
        pod.key: f"its DaemonSet recreates it on {pod.node_name} only"
        for pod in victims
        if pod.owner_kind == DAEMON_SET
    }
    for loss in losses_of(victims, result.cluster.workload):
        losses[loss.pod] = "; ".join(filter(None, (loss.effect, loss.condition)))
    in_vain = {pod.key: "in vain" for pod in result.predicted.in_vain}
    pods: Rows = [
        [pod.key, pod.priority_class_name or NO_CLASS, pod.effective_priority, pod.node_name,
         result.predicted.preemptor_of(pod), "; ".join(filter(None, (losses.get(pod.key), in_vain.get(pod.key))))]
        for pod in victims
    ]  # fmt: skip
    heads = ("VICTIM", "CLASS", "VALUE", "NODE", "PREEMPTOR", "EFFECT")
    if len(victims) <= _FEW_VICTIMS:
        yield Table(heads, pods)
        return
    by_workload = grouped((workload_of(pod), pod) for pod in victims)
    rows: Rows = []
    for workload, of_workload in by_workload.items():
        first, effects = of_workload[0], [losses[pod.key] for pod in of_workload if pod.key in losses]
        class_ = first.priority_class_name or NO_CLASS
        rows.append([workload, class_, first.effective_priority, len(of_workload), listed(effects, 1)])
    rows.sort(key=lambda row: (-int(row[2]), -int(row[3]), row[0]))
    if len(rows) > MAX_ROWS:
        yield _class_table(result, victims)
    yield Table(("VICTIMS OF", "CLASS", "VALUE", "PODS", "EFFECT"), rows, detail=int(len(rows) > MAX_ROWS))
    yield Table(heads, pods, detail=2)


def _class_table(result: PredictResult, victims: Sequence[Pod]) -> Table:
    by_class = grouped(((pod.effective_priority, pod.priority_class_name or NO_CLASS), pod) for pod in victims)
    rows: Rows = []
    for (priority, name), pods in sorted(by_class.items(), key=lambda item: (-item[0][0], item[0][1])):
        workloads = Tally(map(result.cluster.top_workload_of, pods)).most_common()
        shown = listed([f"{workload} {count}" for workload, count in workloads], _MAX_SHOWN)
        rows.append([name, priority, len(pods), shown])
    return Table(("VICTIMS BY CLASS", "VALUE", "PODS", "WORKLOADS"), rows, ["total", "", len(victims), ""])


def _nodes(result: PredictResult) -> Iterator[Table]:
    """Yield why nodes do not fit the first Pending Pod. Skips Pods of DaemonSets, which fit on only one node."""
    pending = [each for each in result.predicted.alone if each.outcome == "pending"]
    if pending and not pending[0].pod.spec.node_affinity.only_node:
        yield from nodes_why_not(pending[0], detail=int(len(result.placements) > 1))


def nodes_why_not(prediction: Prediction, detail: int = 0) -> Iterator[Table]:
    """Yield why nodes do not accept a Pod now, one row for each reason, the reason of most nodes first."""
    rows: Rows = [[count, reason] for count, reason in why_not(prediction)]
    if candidates := len(prediction.candidates):
        best = f"; {prediction.nominated_node} costs least" if candidates > 1 and prediction.nominated_node else ""
        rows.append([candidates, f"fit after preemption{best}"])
    rows.sort(key=lambda row: -int(row[0]))
    yield Table(("NODES", "WHY NOT"), rows, detail=detail)


def _nodes_of_new_pods(result: PredictResult) -> Iterator[Table]:
    """Yield the nodes of many new Pods, the nodes with the most Pods first; for DaemonSets, by pool and zone."""
    nodes = {node.name: node for node in result.cluster.objects.nodes.values()}
    running = [each for each in result.predicted.alone if each.outcome in RUNNING and each.node in nodes]
    places = Tally[tuple[str, str, str]]()
    for each in running:
        name = "(each)" if each.pod.spec.node_affinity.only_node else each.node
        places[name, pool_of(nodes[each.node]), zone_of(nodes[each.node])] += 1
    rows: Rows = [[*place, pods] for place, pods in places.most_common()]
    if len(result.predicted.alone) > MAX_ROWS and rows:
        yield Table(("NEW PODS RUN ON NODE", "POOL", "ZONE", "PODS"), rows, detail=1)


def _pods(result: PredictResult) -> Iterator[Table]:
    """Yield the predicted Pods with nodes and victims."""
    rows: Rows = []
    for each in result.predicted.alone:
        on = {node: f" on {node}" for node in {victim.node_name for victim in each.victims} - {each.node}}
        victims = ", ".join(f"{victim.key}{on.get(victim.node_name, '')}" for victim in each.victims)
        rows.append([each.pod.key, each.pod.effective_priority, each.outcome, each.node, victims])
    for group in result.groups:
        rows += [[pod.key, pod.effective_priority, group.outcome, group.places.get(pod.identity, ""), ""]
                 for pod in group.pods]  # fmt: skip
    yield Table(("POD", "VALUE", "OUTCOME", "NODE", "VICTIMS"), rows, detail=1 if len(rows) <= MAX_ROWS else 2)


def _more(result: PredictResult) -> Iterator[str]:
    yield from ("-v workloads", "-vv Pods")
    if (reaction := result.autoscalers) and reaction.node_groups is None and not reaction.are_off:
        yield "--node-templates FILE"
    if any(each.victims for each in result.predictions) or any(each.victims for each in result.groups):
        yield "forewarn whatif apply: downtime of victims"
    elif result.outcomes["rejected"]:
        yield "forewarn whatif apply: the quota that admits all"
