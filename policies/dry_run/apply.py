"""Several requests in sequence, as `kubectl apply` sends them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.dry_run.chain import dry_run
from forewarn.policies.dry_run.request import CLASSES, PODS, QUOTAS, kind_of, stored_of
from forewarn.policies.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kube_apiserver.priority import resolved_spec
from forewarn.policies.objects.fields import NOTHING, at, group_kind
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.objects.resource_quota import ResourceQuota
from forewarn.policies.objects.reviewed_object import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.dry_run.answer import Answer
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import Options

    Key = tuple[str, str]


def dry_run_apply(
    subjects: Iterable[ReviewedObject],
    cluster: ClusterSnapshot,
    options: Options | None = None,
    *,
    now: float = 0.0,
    strict: bool = False,
) -> Iterator[tuple[ReviewedObject, Answer]]:
    """Yield the responses to objects that are applied in order. Each request sees the effects of earlier ones.

    Existing objects, in the cluster or applied earlier, are updated. As in a cluster, a new quota limits nothing
    before its status is written. `strict`: as in `dry_run`.
    """
    applied: dict[tuple[str, Key], _Applied] = {}
    for given in subjects:
        subject = _request(given, cluster, applied)
        answer = dry_run(subject, cluster, options, now=now, strict=strict)
        yield subject, answer
        if answer.allowed:
            cluster = _after(subject, answer, cluster)
            spec = answer.stored
            if answer.resolved:
                spec = resolved_spec(subject.object["spec"], answer.resolved)
            if spec is not None and at(subject.object, "metadata", "name"):
                applied[_id(subject)] = _Applied(given.object, _stored(subject, spec))


class _Applied(NamedTuple):
    """A Pod, PodGroup or Workload of this change set: as last applied, and as stored."""

    given: ApiObject
    stored: ApiObject


def _key(subject: ReviewedObject) -> Key:
    return subject.effective_namespace, subject.ref.name


def _id(subject: ReviewedObject) -> tuple[str, Key]:
    return group_kind(subject.object), _key(subject)


def _stored(subject: ReviewedObject, spec: ApiObject) -> ApiObject:
    obj, (namespace, _) = subject.object, _key(subject)
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}, "spec": spec}


def _request(
    given: ReviewedObject, cluster: ClusterSnapshot, applied: Mapping[tuple[str, Key], _Applied]
) -> ReviewedObject:
    kind, key = kind_of(given.object), _key(given)
    if given.operation is not Operation.CREATE:
        return given
    last = applied.get(_id(given))
    if last is not None:
        return given._replace(
            object=_patched(last.stored, given.object, last.given), operation=Operation.UPDATE, old=last.stored
        )
    if kind is PODS and key in cluster.pods:
        stored = cluster.pods[key].to_api()
        return given._replace(object=_patched(stored, given.object, NOTHING), operation=Operation.UPDATE)
    group = stored_of(kind, cluster, given.ref.name, key[0]) if kind is not None and kind.is_group else None
    if group is not None:
        return given._replace(object=_patched(group, given.object, NOTHING), operation=Operation.UPDATE, old=group)
    is_there = given.ref.name in cluster.priority_classes if kind is CLASSES else key in cluster.resource_quotas
    return given._replace(operation=Operation.UPDATE) if is_there and kind in (CLASSES, QUOTAS) else given


def _patched(stored: ApiObject, given: ApiObject, last_given: ApiObject) -> ApiObject:
    """Return the object with the fields that only the server has set: kubectl removes only fields that it applied
    before.

    `last_given`: the object as applied the last time.
    """
    spec, last = given.get("spec"), last_given.get("spec") or NOTHING
    if not isinstance(spec, dict):
        return given
    retained = {key: value for key, value in stored["spec"].items() if value not in (None, "") and key not in last}
    return {**given, "spec": {**retained, **spec}}


def _after(subject: ReviewedObject, answer: Answer, cluster: ClusterSnapshot) -> ClusterSnapshot:
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
