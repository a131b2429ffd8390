"""The impact of `kubectl rollout restart` now, for each workload separately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from forewarn.policies.objects.fields import InvalidObject, group_kind, mapping
from forewarn.policies.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.rules.support.context import Context
from forewarn.policies.rules.support.predictions import Predicted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import ObjectRef
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.fields import ApiObject

_ROLLED_OUT: Final = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
_RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"


class Restart(NamedTuple):
    """A workload, and the impact of restarting it on running Pods."""

    ref: ObjectRef
    impact: Impact

    @property
    def is_blocked(self) -> bool:
        """Whether a new Pod without a node blocks the rollout: no old Pods terminate first and free capacity."""
        return bool(self.impact.pending) and not (self.impact.keeps_old and self.impact.deleted_first)


class Restarts:
    """The restarts of a cluster's workloads, computed once for all rules."""

    def __init__(self, context: Context) -> None:
        self.found = tuple(_restarts(context))


def restarts_of(context: Context) -> tuple[Restart, ...]:
    """Return the impact of restarting each workload of the cluster now, each separately; only workloads that would
    create Pods.
    """
    return context.once(Restarts).found


def _restarts(context: Context) -> Iterator[Restart]:
    if context.cluster is None or not context.cluster.objects.nodes:
        return
    for _, workload in sorted(context.cluster.workloads.items()):
        if group_kind(workload.object) in _ROLLED_OUT and not any(workload.controller):
            impact = _impact(restarted(workload.object), context)
            if impact is not None:
                yield Restart(workload.ref, impact)


def _impact(subject: ReviewedObject, context: Context) -> Impact | None:
    alone = Context(
        ChangeSet((subject,)), context.cluster, context.options, context.phase, context.now, context.expired
    )
    try:
        return alone.once(Predicted, None, False).of(subject)
    except InvalidObject:
        return None  # other rules say what is wrong with it


def restarted(obj: ApiObject) -> ReviewedObject:
    """Return the update of a workload by `kubectl rollout restart`."""
    try:
        template = pod_template_of(obj, {group_kind(obj): ("spec", "template")})
    except InvalidObject:
        template = None
    if template is None:
        return ReviewedObject(obj, Operation.UPDATE, old=obj)
    metadata = mapping(template.object, "metadata")
    annotations = {**mapping(metadata, "annotations"), _RESTARTED: "now"}
    made = {**template.object, "metadata": {**metadata, "annotations": annotations}}
    return ReviewedObject({**obj, "spec": {**mapping(obj, "spec"), "template": made}}, Operation.UPDATE, old=obj)
