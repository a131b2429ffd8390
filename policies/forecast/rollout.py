"""Predict rollouts: a stored workload with a changed Pod template."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.controllers.changes import pod_change
from forewarn.policies.forecast.apply_order import Applied, place_in_order
from forewarn.policies.forecast.forecast import Forecast
from forewarn.policies.forecast.impact import Impact
from forewarn.policies.forecast.placement import Placement, place
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.metering import never
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.objects.reviewed_object import ReviewedObject
from forewarn.policies.scheduling.responsible import not_scheduled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject


def place_rollout(cluster: ClusterSnapshot, obj: ApiObject) -> Placement | None:
    """Predict a rollout as the linter and the webhook do; None if the object starts no rollout.

    Raises InvalidObject.
    """
    subject = ReviewedObject(obj)
    change = pod_change(subject, cluster, POD_TEMPLATE_PATHS)
    if not change.rolled_out:
        return None
    impact = Forecast(cluster, POD_TEMPLATE_PATHS, never, aftermath=False).of(subject)
    if impact is None:  # No new Pods yet, or Pods of another scheduler.
        why = not_scheduled(change.pods[0], cluster.scheduling) if change.pods else ""
        impact = Impact((), len(change.pods), None, rest="not-predicted" if why else "", why_not=why)
    return Placement(str(subject.ref), impact.predictions, impact.new, rollout=impact)


def place_all(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None = None) -> Applied:
    """Predict the new Pods of all objects: rollouts by a simulation, the others by `place` or `place_in_order`.

    `replicas`: the number of Pods for each object; None: as the objects say. With a number, no object counts as a
    rollout.
    """
    rollouts: dict[int, Placement | InvalidObject] = {}
    for index, obj in enumerate(objects if replicas is None else ()):
        try:
            placement = place_rollout(cluster, obj)
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
