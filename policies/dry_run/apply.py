"""Several requests, one after the other, as `kubectl apply` sends them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.dry_run.chain import dry_run
from policies.dry_run.request import CLASSES, PODS, QUOTAS, kind_of
from policies.objects.fields import at
from policies.objects.priority_class import PriorityClass
from policies.objects.resource_quota import ResourceQuota
from policies.objects.subject import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.cluster import ClusterSnapshot
    from policies.dry_run.answer import Answer
    from policies.objects.subject import Subject
    from policies.options import Options


def dry_run_apply(
    subjects: Iterable[Subject], cluster: ClusterSnapshot, options: Options | None = None, *, now: float = 0.0
) -> Iterator[tuple[Subject, Answer]]:
    """The answers to objects applied in order: each sees the classes, quotas and quota use of those before it.

    What the cluster has already is updated. As in a cluster, a new quota limits nothing before its status is written.
    """
    for given in subjects:
        exists = given.operation is Operation.CREATE and _is_there(given, cluster)
        subject = given._replace(operation=Operation.UPDATE) if exists else given
        answer = dry_run(subject, cluster, options, now=now)
        yield subject, answer
        if answer.allowed:
            cluster = _after(subject, answer, cluster)


def _is_there(subject: Subject, cluster: ClusterSnapshot) -> bool:
    kind, ref = kind_of(subject.object), subject.ref
    key = (ref.namespace or "default", ref.name)
    if kind is CLASSES:
        return ref.name in cluster.priority_classes
    return (kind is PODS and key in cluster.pods) or (kind is QUOTAS and key in cluster.resource_quotas)


def _after(subject: Subject, answer: Answer, cluster: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster after an accepted request."""
    kind = kind_of(subject.object)
    if kind is CLASSES:
        added = PriorityClass.from_api(subject.object)
        return replace(cluster, priority_classes={**cluster.priority_classes, added.name: added})
    charged = {(quota.namespace, quota.name): quota for quota in answer.quotas}
    if kind is QUOTAS:
        new = ResourceQuota.from_api({**subject.object, "status": None})
        namespace = new.namespace if at(subject.object, "metadata", "namespace") else subject.namespace or "default"
        old = cluster.resource_quotas.get((namespace, new.name))
        hard, used = (old.hard, old.used) if old else ({}, {})
        charged[namespace, new.name] = replace(new, namespace=namespace, hard=hard, used=used)
    if not charged:
        return cluster
    return replace(cluster, resource_quotas={**cluster.resource_quotas, **charged}, quotas_by_namespace=None)
