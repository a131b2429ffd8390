"""Predict the node and the victims of Pods and workloads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from forewarn.policies.application.cluster import Cluster, autoscaling_for, snapshot_of
from forewarn.policies.application.manifests import Manifest, with_manifests
from forewarn.policies.application.places import Places, Rejected
from forewarn.policies.application.predict_request import PredictRequest
from forewarn.policies.application.simulated import new_classes
from forewarn.policies.cluster.cache import AnswerHead, ClusterSnapshot, Result, head_of, head_of_findings
from forewarn.policies.documents import Inlined, Sparse, json_of
from forewarn.policies.findings import described, plural
from forewarn.policies.forecast.aftermath import before_in_queue
from forewarn.policies.forecast.apply_order import Applied, Attempts
from forewarn.policies.forecast.forecast import place_all
from forewarn.policies.forecast.placement import Placement, outcomes, place_pods
from forewarn.policies.forecast.pod_groups import GroupForecast, group_forecast
from forewarn.policies.objects.fields import InvalidInput, InvalidObject, check_numbers, check_one_of
from forewarn.policies.objects.pod_loss import Consequences
from forewarn.policies.rules.wording.forecasts import placement_notes, rollout_notes
from forewarn.policies.scheduling.caveats import assumptions
from forewarn.policies.scheduling.schedule_one import Explanation, Prediction, PredictionDocument, explanation_of
from forewarn.policies.whatif.autoscalers import Autoscalers, Autoscaling, after_predictions
from forewarn.policies.whatif.questions import pod_not_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.options import Options


@dataclass(frozen=True, kw_only=True, repr=False)
class PredictedPod(Result):
    """A line of `forewarn predict`: one Pod. `id`: `namespace/name`.

    `how`: with `--explain`. `basis`: `missing-replicas`, or `rollout` for the new Pods of a rollout. `autoscalers`: for
    a Pending Pod; the line of the last one contains `nodeGroups` for all. `violatedPDBs`: PDBs that the preemption
    violates. `blocked`: whether Pending or rejected Pods block the rollout, or the creation of later Pods.
    """

    id: str
    prediction: Inlined[PredictionDocument]
    attempts: Inlined[Attempts]
    how: Explanation | None = None
    basis: str = ""
    consequences: Inlined[Consequences]
    autoscalers: Autoscalers | None = None
    violated_pdbs: Sequence[str] = ()
    blocked: Sparse[bool] = False


@dataclass(frozen=True, kw_only=True, repr=False)
class OtherPods(Result):
    """A line of `forewarn predict`: new Pods of a workload that have no separate line. `pods`: their number. `outcome`:
    also "refused" (by a ResourceQuota), "later" or "unknown". `blocked`: as for a Pod.
    """

    id: str
    outcome: str
    pods: int
    basis: str
    standing: Sequence[str]
    blocked: Sparse[bool] = False


@dataclass(frozen=True, kw_only=True, repr=False)
class PredictedPodGroup(Result):
    """A line of `forewarn predict`: a PodGroup. `violatedPDBs`: PDBs that the preemption violates."""

    group: Inlined[GroupForecast]
    consequences: Inlined[Consequences]
    violated_pdbs: Sequence[str] = ()


PredictLine = PredictedPod | OtherPods | PredictedPodGroup


@dataclass(frozen=True, repr=False)
class PredictResult:
    """The predictions for new Pods and PodGroups, or for a Pending Pod.

    `groups`: the result for the PodGroup of the Pods, if any. `faults`: the errors of unreadable files and invalid
    objects. `places`: the positions of objects in files. `new_classes`: PriorityClasses of the manifests.
    `cascade`: see PredictRequest.
    """

    head: AnswerHead
    cluster: ClusterSnapshot
    applied: Applied
    groups: Sequence[GroupForecast]
    faults: Sequence[Exception]
    places: Places
    autoscaling: Autoscaling
    explain: bool
    options: Options
    new_classes: Sequence[str] = ()
    cascade: bool = False

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items()) or "no new Pods"
        victims = {victim.identity for prediction in self.predictions for victim in prediction.victims}
        victims |= {victim.identity for group in self.groups for victim in group.victims}
        return described(self, f"{counts}; {plural(len(victims), 'victim')}, {plural(len(self.faults), 'fault')}")

    @cached_property
    def outcomes(self) -> Counter[str]:
        """The number of new Pods by outcome: "fits", "preempts", "pending", "not-predicted", "waits" (for terminating
        Pods, without preempting others), "in-vain" (a Pod preempts and stays Pending), "refused" (a ResourceQuota
        rejects them), "later" (created when earlier Pods run), "group" (see `groups`), or "unknown".
        """
        counts = Counter(outcomes([prediction for prediction in self.applied.predictions if self.is_alone(prediction)]))
        for placement in self.applied.placed:
            counts.update(placement.without_prediction)
        for group in self.groups:
            counts[group.outcome] += len(group.pods)
        return counts

    @property
    def predictions(self) -> Sequence[Prediction]:
        """The predictions, in order. New Pods of a rollout have one only if they do not fit."""
        return self.applied.predictions

    @cached_property
    def placements(self) -> list[Placement]:
        """The results of objects, without objects whose Pods all belong to PodGroups."""
        return [p for p in self.applied.placed if not p.predictions or any(map(self.is_alone, p.predictions))]

    @cached_property
    def autoscalers(self) -> Autoscalers | None:
        """The reaction of autoscalers to the Pods that stay Pending; None without such Pods."""
        return _autoscaled(self.applied.predictions, self.cluster, self.autoscaling)

    @cached_property
    def _in_groups(self) -> set[int]:
        return {id(pod) for group in self.groups for pod in group.pods}

    def is_alone(self, prediction: Prediction) -> bool:
        """Whether the Pod of a prediction belongs to none of `groups`."""
        return id(prediction.pod) not in self._in_groups

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of `-o json` as JSON objects."""
        return map(json_of, self._lines())

    def _lines(self) -> Iterator[PredictLine]:
        pending = [prediction for prediction in self.applied.predictions if prediction.outcome == "pending"]
        for placement in self.applied.placed:
            for prediction in filter(self.is_alone, placement.predictions):
                yield self._pod(placement, prediction, is_last=bool(pending) and prediction is pending[-1])
            rejection = [placement.rejection] if placement.rejection else []
            notes = list(rollout_notes(placement.rollout)) if placement.rollout else rejection
            for outcome, count in placement.without_prediction.items():
                yield OtherPods(
                    head=self.head,
                    id=placement.name,
                    outcome=outcome,
                    pods=count,
                    basis=placement.basis,
                    standing=notes,
                    blocked=placement.is_blocked,
                )
        for group in self.groups:
            yield PredictedPodGroup(
                head=self.head,
                group=group,
                consequences=Consequences.from_victims(group.victims, self.cluster.workload),
                violated_pdbs=group.violated_pdbs(self.cluster.scheduling),
            )

    def _pod(self, placement: Placement, prediction: Prediction, *, is_last: bool) -> PredictedPod:
        document = prediction.document
        scaled = _autoscaled([prediction], self.cluster, replace(self.autoscaling, groups=()))
        if scaled and is_last and self.autoscaling.groups:
            scaled = scaled._replace(node_groups=self.autoscalers and self.autoscalers.node_groups)
        return PredictedPod(
            head=self.head,
            id=prediction.pod.key,
            prediction=document._replace(standing=[*document.standing, *placement_notes(placement)]),
            attempts=self.applied.attempts_of(prediction),
            how=explanation_of(prediction) if self.explain else None,
            basis=placement.basis,
            consequences=Consequences.from_victims(prediction.victims, self.cluster.workload),
            autoscalers=scaled,
            violated_pdbs=prediction.violated_pdbs,
            blocked=placement.is_blocked,
        )


def predict(
    cluster: Cluster | ClusterSnapshot, request: PredictRequest | Manifest | Sequence[Manifest]
) -> PredictResult:
    """Predict kube-scheduler's first decision about the new Pods of manifests, or about a Pending Pod.

    Use it to test which Pods a manifest preempts. `whatif` also simulates what follows.

    `request`: a PredictRequest, or its manifests alone. Raises SourceError, InvalidInput, and InvalidObject, also if
    all objects are invalid.
    """
    result = predicted(cluster, request)
    if result.faults and not result.applied.placed:
        raise Rejected([*map(result.places.located, result.faults)])
    return result


def predicted(
    cluster: Cluster | ClusterSnapshot, request: PredictRequest | Manifest | Sequence[Manifest]
) -> PredictResult:
    """`predict`, but without predictions if all objects are invalid."""
    if not isinstance(request, PredictRequest):
        request = PredictRequest(request)
    check_numbers(0, replicas=request.replicas)
    check_one_of(pod=request.pod, manifests=request.manifests)
    autoscaling = autoscaling_for(cluster, request.autoscaling)
    cluster, places, faults, created = snapshot_of(cluster), Places(), list[Exception](), list[str]()
    with places.locating():
        if request.pod is not None:
            applied = _pending(cluster, *request.pod)
        else:
            objects, to_be = with_manifests(cluster, request.manifests, request.namespace, places, faults)
            created = new_classes(cluster, to_be)
            applied = place_all(to_be, objects, request.replicas)
            faults += (placement for placement in applied.placements if isinstance(placement, InvalidObject))
    groups = tuple(_groups(applied))
    explain, options, cascade = request.explain, request.options, request.cascade
    head = head_of_findings(cluster) if cascade else head_of(cluster, _assumed(applied, groups, cluster))
    return PredictResult(
        head, cluster, applied, groups, faults, places, autoscaling, explain, options, created, cascade
    )


def _pending(cluster: ClusterSnapshot, namespace: str, name: str) -> Applied:
    pod = cluster.pods.get((namespace, name))
    if pod is None:
        raise InvalidInput(f"{namespace}/{name}: {pod_not_found(cluster, namespace, name)}")
    if node := cluster.node_of(pod):
        raise InvalidInput(f"{namespace}/{name}: not Pending: it is bound to node {node}. Fix: use `forewarn why`")
    before = before_in_queue(cluster, pod)
    ahead = None if before is None else len(before.pods)
    return Applied((Placement(pod.key, place_pods(cluster, [pod]), ahead=ahead),))


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


def _autoscaled(
    predictions: Sequence[Prediction], cluster: ClusterSnapshot, autoscaling: Autoscaling
) -> Autoscalers | None:
    if all(prediction.outcome != "pending" for prediction in predictions):
        return None
    return after_predictions(predictions, cluster, autoscaling)
