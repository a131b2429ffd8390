"""What components decide that forewarn does not simulate: the reasons why an effect is not predicted.

docs/guides/predict.md has the table; a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.kubernetes.controllers.new_pods import replicas_of
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, JOB, LOCAL_QUEUE, QUEUE_LABEL
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, boolean, group_kind, int32, mapping, text
from forewarn.policies.kubernetes.objects.workload import is_managed_elsewhere
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod


def unknown_replacement(
    victims: Iterable[Pod], cluster: ClusterSnapshot, *, counts_failures: bool = False
) -> str | None:
    """Return why it is not predicted what follows the preemption of these Pods; None if it is. Raises InvalidObject.

    `counts_failures`: the earlier failures of the indexes of Jobs are known.
    """
    for victim in victims:
        if not responsible_for_pod(victim, cluster.semantics.scheduler_names):
            scheduler = quote(victim.spec.scheduler_name)
            return f"scheduler {scheduler} may bind the replacement of {victim.key} to its node first, again and again"
        job = None if victim.owner is None else cluster.workload(victim.owner_kind, victim.namespace, victim.owner.name)
        if job is not None and victim.owner_kind == JOB and (why := _unknown_job(job.object, counts_failures)):
            return f"Job {victim.namespace}/{job.ref.name} {why}"
    return None


def _unknown_job(job: ApiObject, counts_failures: bool) -> str | None:
    if not counts_failures and int32(job, "spec", "backoffLimitPerIndex") is not None:
        return "has backoffLimitPerIndex: its index may fail"
    return f"is managed by {text(job, 'spec', 'managedBy')}" if is_managed_elsewhere(job) else None


def started_elsewhere(obj: ApiObject, cluster: ClusterSnapshot) -> tuple[int, str] | None:
    """Return the number of Pods of an object that Kueue starts, and why they are not predicted: a suspended Job, or in
    a cluster with LocalQueues another kind. None for other objects. Raises InvalidObject.
    """
    kind = group_kind(obj)
    queue = next((name for path in _QUEUE_LABELS if (name := at(obj, *path, QUEUE_LABEL))), None)
    waits = boolean(obj, "spec", "suspend") if kind == JOB else kind != DAEMON_SET and cluster.kueue.get(LOCAL_QUEUE)
    if not isinstance(queue, str) or not waits:
        return None
    running = {**obj, "spec": {**mapping(obj, "spec"), "suspend": False}}
    return replicas_of(running), f"Kueue starts the {kind.rpartition('/')[2]} by its queue {quote(queue)}"


_QUEUE_LABELS: Final = (("metadata", "labels"), ("spec", "jobTemplate", "metadata", "labels"))
"""The labels with the queue: those of an object, or of a CronJob's Jobs."""
