"""Predict the node and the victims of Pods and workloads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, Sparse, in_json, inlined_in_json, optional_in_json
from forewarn.policies.base.documents.answer import MAX_ROWS, AnswerDocument, Fix
from forewarn.policies.base.findings import listed, plural
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
from forewarn.policies.kubernetes.objects.fields import InvalidObject, check_numbers
from forewarn.policies.kubernetes.objects.pod_loss import Consequences
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.scheduling.caveats import assumptions
from forewarn.policies.kubernetes.scheduling.schedule_one import Evicted, Prediction, PredictionDocument
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.linting.rules.wording.forecasts import placement_notes
from forewarn.policies.prediction.forecast.effects import Predicted
from forewarn.policies.prediction.forecast.forecast import place_all
from forewarn.policies.prediction.forecast.pod_groups import GroupForecast, group_forecast
from forewarn.policies.questions.application.cluster import Cluster, autoscaling_for, head_with_nodes, snapshot_of
from forewarn.policies.questions.application.kueue import Queued, QueuedJob, assumed, queued_jobs
from forewarn.policies.questions.application.manifests import Manifest, with_manifests
from forewarn.policies.questions.application.places import Places, Rejected
from forewarn.policies.questions.application.predict_answer import document_of
from forewarn.policies.questions.application.simulated import new_classes
from forewarn.policies.questions.whatif.autoscalers import Autoscalers, Autoscaling, PendingPods, explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.forecast.placement import Applied, Attempts, Placement


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """Manifests of Pods and workloads.

    `namespace`: namespace of objects that name none. `replicas`: instead of the number in a manifest. `autoscaling`:
    settings of autoscalers (default: those of the cluster). `options`: those of rules, which select placeholder Pods.
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
        """What the predictions have in common."""
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

    @property
    def running(self) -> Iterator[Pod]:
        """The Pods on nodes before."""
        return (pod for pod in self.cluster.pods.values() if pod.node_name)

    def stored(self, pods: Sequence[Pod]) -> Iterator[Pod]:
        """Yield these Pods as they are in the cluster, without new ones."""
        found = (self.cluster.pods.get((pod.namespace, pod.name)) for pod in pods)
        return (pod for pod in found if pod is not None)

    @in_json
    def outcomes(self) -> Counter[str]:
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
        of = Counter(
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

    `request`: a PredictRequest, or its manifests alone. Raises SourceError, InvalidInput, and InvalidObject, also if
    all objects are invalid.
    """
    result = predicted(cluster, request)
    if result.faults and not result.applied.placed:
        raise Rejected([*map(result.places.located, result.faults)])
    return replace(result, fixes=[*_fixes(result, request)])


def _fixes(result: PredictResult, request: PredictRequest | Manifest | Sequence[Manifest]) -> Iterator[Fix]:
    """Yield `preemptionPolicy: Never` for the classes of the preemptors, if autoscalers then add nodes for all of them.

    The prediction is repeated with such classes.
    """
    preemptors = [each for each in result.predictions if each.outcome == "preempts"]
    names = dict.fromkeys(each.pod.priority_class_name for each in preemptors)
    stored = result.cluster.priority_classes
    if not result.autoscaling.grows or not result.document.effects.victims or not names.keys() <= stored.keys():
        return
    polite = {name: stored[name]._replace(preemption_policy=PREEMPT_NEVER) for name in names}
    request = request if isinstance(request, PredictRequest) else PredictRequest(request)
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
        applied = place_all(queued.cluster, queued.objects, request.replicas)
        faults += (placement for placement in applied.placements if isinstance(placement, InvalidObject))
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
