"""Several requests, one after the other, as `kubectl apply` sends them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from policies.kinds import DEFAULT_NAMESPACE
from policies.kube_apiserver.dry_run.chain import dry_run
from policies.kube_apiserver.dry_run.request import CLASSES, PODS, QUOTAS, kind_of
from policies.kube_apiserver.priority import resolved_spec
from policies.objects.fields import NOTHING, at
from policies.objects.priority_class import PriorityClass
from policies.objects.resource_quota import ResourceQuota
from policies.objects.reviewed_object import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.cluster import ClusterSnapshot
    from policies.kube_apiserver.dry_run.answer import Answer
    from policies.kube_apiserver.priority import Resolved
    from policies.objects.fields import ApiObject
    from policies.objects.reviewed_object import ReviewedObject
    from policies.options import Options

    Key = tuple[str, str]


def dry_run_apply(
    subjects: Iterable[ReviewedObject],
    cluster: ClusterSnapshot,
    options: Options | None = None,
    *,
    now: float = 0.0,
    strict: bool = False,
) -> Iterator[tuple[ReviewedObject, Answer]]:
    """The answers to objects applied in order: each sees the classes, quotas and quota use of those before it.

    What is there already, in the cluster or from this apply, is updated. As in a cluster, a new quota limits nothing
    before its status is written. `strict`: as of `dry_run`.
    """
    applied: dict[Key, _Applied] = {}
    for given in subjects:
        subject = _request(given, cluster, applied)
        answer = dry_run(subject, cluster, options, now=now, strict=strict)
        yield subject, answer
        if answer.allowed:
            cluster = _after(subject, answer, cluster)
            if answer.resolved and at(subject.object, "metadata", "name"):
                applied[_key(subject)] = _Applied(given.object, _stored(subject, answer.resolved))


class _Applied(NamedTuple):
    """A pod of this apply: as it was last given, and as it is stored."""

    given: ApiObject
    stored: ApiObject


def _key(subject: ReviewedObject) -> Key:
    return subject.effective_namespace, subject.ref.name


def _stored(subject: ReviewedObject, resolved: Resolved) -> ApiObject:
    obj, (namespace, _) = subject.object, _key(subject)
    return {
        **obj,
        "metadata": {**obj["metadata"], "namespace": namespace},
        "spec": resolved_spec(obj["spec"], resolved),
    }


def _request(given: ReviewedObject, cluster: ClusterSnapshot, applied: Mapping[Key, _Applied]) -> ReviewedObject:
    """What kubectl sends: an object that is there is patched."""
    kind, key = kind_of(given.object), _key(given)
    if given.operation is not Operation.CREATE:
        return given
    if kind is PODS and key in applied:
        last = applied[key]
        return given._replace(
            object=_patched(last.stored, given.object, last.given), operation=Operation.UPDATE, old=last.stored
        )
    if kind is PODS and key in cluster.pods:
        stored = cluster.pods[key].to_api()
        return given._replace(object=_patched(stored, given.object, NOTHING), operation=Operation.UPDATE)
    is_there = given.ref.name in cluster.priority_classes if kind is CLASSES else key in cluster.resource_quotas
    return given._replace(operation=Operation.UPDATE) if is_there and kind in (CLASSES, QUOTAS) else given


def _patched(stored: ApiObject, given: ApiObject, last_given: ApiObject) -> ApiObject:
    """The pod with what only the server has set: kubectl takes out no field that it did not bring itself."""
    spec, last = given.get("spec"), last_given.get("spec") or NOTHING
    if not isinstance(spec, dict):
        return given
    kept = {key: value for key, value in stored["spec"].items() if value not in (None, "") and key not in last}
    return {**given, "spec": {**kept, **spec}}


def _after(subject: ReviewedObject, answer: Answer, cluster: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster after an accepted request."""
    kind = kind_of(subject.object)
    if kind is CLASSES:
        added = PriorityClass.from_api(subject.object)
        return replace(cluster, priority_classes={**cluster.priority_classes, added.name: added})
    charged = {(quota.namespace, quota.name): quota for quota in answer.quotas}
    if kind is QUOTAS:
        new = ResourceQuota.from_api({**subject.object, "status": None})
        namespace = (
            new.namespace if at(subject.object, "metadata", "namespace") else subject.namespace or DEFAULT_NAMESPACE
        )
        old = cluster.resource_quotas.get((namespace, new.name))
        hard, used = (old.hard, old.used) if old else ({}, {})
        charged[namespace, new.name] = replace(new, namespace=namespace, hard=hard, used=used)
    if not charged:
        return cluster
    return replace(cluster, resource_quotas={**cluster.resource_quotas, **charged})
