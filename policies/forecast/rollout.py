"""Predict rollouts: stored workloads with a changed Pod template, and workloads whose Pods affect each other's
retries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.controllers.changes import pod_change
from forewarn.policies.forecast.apply_order import Applied, place_in_order
from forewarn.policies.forecast.forecast import Forecast, QuotaLimits, concerns_itself
from forewarn.policies.forecast.impact import Impact
from forewarn.policies.forecast.placement import ChargedQuotas, Placement, place
from forewarn.policies.kinds.registry import JOB, POD_TEMPLATE_PATHS
from forewarn.policies.metering import never
from forewarn.policies.objects.fields import InvalidObject, group_kind, mapping
from forewarn.policies.objects.reviewed_object import ReviewedObject
from forewarn.policies.scheduling.responsible import not_scheduled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.controllers.changes import PodChange
    from forewarn.policies.objects.fields import ApiObject


def place_rollout(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> Placement | None:
    """Predict a rollout as the linter and the webhook do; None if the object starts no rollout, and if no Pod needs a
    retry, or quota that victims free.

    `replicas`: as in `place_all`. Raises InvalidObject.
    """
    subject = ReviewedObject(obj if replicas is None else _scaled(obj, replicas))
    change = pod_change(subject, cluster, POD_TEMPLATE_PATHS)
    is_rollout = change.rolled_out and replicas is None
    admitted = ChargedQuotas(cluster).admit(subject.object, change.pods)[0]
    is_limited = not is_rollout and 0 < admitted < len(change.pods)
    if not is_rollout and not is_limited and not _has_retries(change, cluster):
        return None
    limits = QuotaLimits(admitted) if is_limited else QuotaLimits(beside_old=admitted == len(change.pods))
    impact = Forecast(cluster, POD_TEMPLATE_PATHS, never, aftermath=False, explains=True).of(subject, limits)
    if not is_rollout and (impact is None or not impact.preempting):
        return None
    if impact is None:  # No new Pods yet, or Pods of another scheduler.
        why = not_scheduled(change.pods[0], cluster.scheduling) if change.pods else ""
        impact = Impact((), len(change.pods), None, rest="not-predicted" if why else "", why_not=why)
    return Placement(str(subject.ref), impact.predictions, impact.new, rollout=impact)


def _scaled(obj: ApiObject, replicas: int) -> ApiObject:
    fields = {"parallelism": replicas, "completions": replicas} if group_kind(obj) == JOB else {"replicas": replicas}
    return {**obj, "spec": {**mapping(obj, "spec"), **fields}}


def _has_retries(change: PodChange, cluster: ClusterSnapshot) -> bool:
    """Report whether Pods of the change may be tried again after Pods of the same workload run."""
    if change.workload is None or change.rolled_out or change.one_by_one or len(change.pods) < 2:
        return False
    pod, snapshot = change.pods[0], cluster.scheduling
    return not pod.spec.pod_group and not not_scheduled(pod, snapshot) and concerns_itself(pod, snapshot)


def place_all(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None = None) -> Applied:
    """Predict the new Pods of all objects: rollouts and Pods with retries by a simulation, the others by `place` or
    `place_in_order`.

    `replicas`: the number of Pods for each object; None: as the objects say. With a number, no object counts as a
    rollout.
    """
    rollouts: dict[int, Placement | InvalidObject] = {}
    for index, obj in enumerate(objects):
        try:
            placement = place_rollout(cluster, obj, replicas)
        except InvalidObject:
            continue  # The other functions report the error.
        if placement is not None:
            rollouts[index] = placement
    others = [obj for index, obj in enumerate(objects) if index not in rollouts]
    applied = _place(cluster, others, replicas)
    rest = iter(applied.placements)
    return replace(applied, placements=tuple(rollouts.get(index) or next(rest) for index in range(len(objects))))


def _place(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None) -> Applied:
    if len(objects) != 1:
        return place_in_order(cluster, objects, replicas)
    try:
        return Applied((place(cluster, objects[0], replicas),))
    except InvalidObject as fault:
        return Applied((fault,))
