"""The cluster after one apply, except its Pods and workloads: the objects that predictions and simulations read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.cow_table import derived
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.cluster.admission import admitted_group, counted_by_requests
from forewarn.policies.kubernetes.cluster.cache import SCHEDULER_TABLES, VIEWS, ClusterSnapshot, Key, decoded, key_of
from forewarn.policies.kubernetes.controllers.disruption import pdb_status
from forewarn.policies.kubernetes.controllers.persistent_volume import sync_unbound_claim
from forewarn.policies.kubernetes.controllers.templates import admitted_claim
from forewarn.policies.kubernetes.controllers.view import Key as WorkloadKey
from forewarn.policies.kubernetes.controllers.view import PodState, Tally, WorkloadState
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.quota import recalculated
from forewarn.policies.kubernetes.objects import storage
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.kubernetes.objects.resources import mask
from forewarn.policies.kubernetes.scheduling.not_predicted import lists_storage

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects

Views = dict[str, dict["Key", Any]]
"""`group/Kind` -> (namespace, name) -> view."""
_UNCHANGED: Final = frozenset((registry.CLAIM, registry.VOLUME, registry.RESOURCE_CLAIM, registry.CLAIM_TEMPLATE))
"""Kinds whose stored objects keep all fields that predictions read, because they are immutable or in the status."""
_TABLES: Final = {kind: table for table, kind in SCHEDULER_TABLES.items()} | {
    registry.RESOURCE_QUOTA: "resource_quotas",
    registry.LIMIT_RANGE: "limit_ranges",
}


def applied_views(cluster: ClusterSnapshot, objects: Iterable[ApiObject], faults: list[InvalidObject]) -> Views:
    """Return the views of these objects after their creation or update. Adds the errors of unreadable ones to `faults`.

    `cluster`: with the PriorityClasses after the apply; ignores PriorityClasses and kinds without a view.
    """
    views: Views = defaultdict(dict)
    claims: list[ApiObject] = []
    for obj in objects:
        kind = group_kind(obj)
        try:
            if kind == registry.CLAIM:
                claims.append(obj)
            elif kind in VIEWS:
                _put(views, cluster, kind, {**obj, "status": None})
        except InvalidObject as fault:
            faults.append(fault)
    classes = {**cluster.objects.storage_classes, **views["storage.k8s.io/StorageClass"]}
    default = storage.default_storage_class(classes.values())
    for obj in claims:
        try:
            claim = admitted_claim({**obj, "status": None}, default)
            if claim.key not in cluster.objects.claims:
                views[registry.CLAIM][claim.key] = replace(claim, uid=claim.uid or "/".join(claim.key))
        except InvalidObject as fault:
            faults.append(fault)
    return {kind: view for kind, view in views.items() if view}


def _put(views: Views, cluster: ClusterSnapshot, kind: str, obj: ApiObject) -> None:
    """Add the view of one object. Raises InvalidObject."""
    key = key_of(obj, kind)
    stored = _stored(cluster, kind).get(key)
    if stored is not None and kind in _UNCHANGED:
        return
    view: Any = admitted_group(obj, cluster) if kind == registry.POD_GROUP else decoded(kind, obj)
    if kind == registry.POD_GROUP and stored is not None:
        view = view._replace(uid=stored.uid, initially_scheduled=stored.initially_scheduled)
    elif kind == registry.NAMESPACE:
        view = view._replace(labels={**view.labels, NAME_LABEL: view.name})
    elif kind == registry.VOLUME:
        view = replace(view, phase="Available")
    elif kind == registry.RESOURCE_QUOTA:
        view = with_usage(replace(view, used=stored.used if stored else {}), cluster)
    elif kind == registry.DISRUPTION_BUDGET:
        view = with_allowed_disruptions(view, cluster)
    views[kind][key] = view


def with_usage(quota: ResourceQuota, cluster: ClusterSnapshot) -> ResourceQuota:
    """Return a quota with the status that its controller writes: the stored usage, or the usage of stored Pods."""
    counted = recalculated(quota, _counted_pods(cluster.pods_of(quota.namespace).values()))
    return replace(counted, used={**counted.used, **mask(quota.used, counted.hard)})


def _counted_pods(pods: Collection[Pod]) -> Iterator[ApiObject]:
    """Yield the Pods as ResourceQuota sees them, one object for equal Pods."""
    counted: dict[tuple[str, int], ApiObject] = {}
    charge(len(pods))
    for pod in pods:
        key = pod.priority_class_name, id(pod.occupies)
        if not pod.terminal:
            yield counted[key] if key in counted else counted.setdefault(key, counted_by_requests(pod))


def _stored(cluster: ClusterSnapshot, kind: str) -> Mapping[Any, Any]:
    owner = cluster if kind in (registry.RESOURCE_QUOTA, registry.LIMIT_RANGE) else cluster.objects
    return getattr(owner, _TABLES[kind])  # type: ignore[no-any-return]


def with_applied(
    cluster: ClusterSnapshot, objects: Iterable[ApiObject], faults: list[InvalidObject]
) -> ClusterSnapshot:
    """Return the cluster after the apply of these objects, with the claims that the PersistentVolume controller binds.

    Arguments: see `applied_views`. The result's `pending_claims` has the new claims whose volume is
    unknown, because a provisioner creates it or the state lacks storage objects.
    """
    views = applied_views(cluster, objects, faults)
    if not views:
        return cluster
    new_claims = views.pop(registry.CLAIM, {})
    given: dict[str, Any] = {_TABLES[kind]: {**_stored(cluster, kind), **view} for kind, view in views.items()}
    own: dict[str, Any] = {name: given.pop(name) for name in ("resource_quotas", "limit_ranges") if name in given}
    if "namespaces" in given:
        own["namespaces"] = given["namespaces"]
    objects_after = replace(cluster.objects, **given)
    pending = frozenset(new_claims)
    if new_claims:
        objects_after, pending = _with_claims(objects_after, new_claims)
    return replace(cluster.with_objects(objects_after), **own, pending_claims=pending)


def later_quotas(objects: Sequence[ApiObject], cluster: ClusterSnapshot | None) -> dict[Key, frozenset[str]]:
    """Return Pod -> names of the quotas of its namespace that an apply of these objects, in order, creates after it.

    These do not limit the Pod. Controllers create the Pods of workloads after the apply.
    """
    stored = {} if cluster is None else cluster.resource_quotas
    later, result = dict[str, frozenset[str]](), dict["Key", frozenset[str]]()
    for obj in reversed(objects):
        kind = group_kind(obj)
        if kind not in (registry.POD, registry.RESOURCE_QUOTA):
            continue
        namespace, name = key_of(obj, kind)
        if kind == registry.POD and namespace in later:
            result[namespace, name] = later[namespace]
        elif kind == registry.RESOURCE_QUOTA and (namespace, name) not in stored:
            later[namespace] = later.get(namespace, frozenset()) | {name}
    return result


def _with_claims(objects: ClusterObjects, new: Mapping[Key, Any]) -> tuple[ClusterObjects, frozenset[Key]]:
    """Return the objects with these claims, bound if the PersistentVolume controller binds them; and the keys of the
    claims whose volumes are not known, which are left out.
    """
    claims, volumes, pending = {**objects.claims}, {**objects.volumes}, set["Key"]()
    for key, claim in new.items():
        of_class = [volume for volume in volumes.values() if volume.storage_class == claim.storage_class]
        charge(len(volumes) // 4)
        storage_class = objects.storage_classes.get(("", claim.storage_class))
        result = sync_unbound_claim(claim, storage_class, lambda name: volumes.get(("", name)), of_class)
        if isinstance(result, storage.StorageClass) or not is_known(claim, objects):
            pending.add(key)
            continue
        claims[key] = claim
        if isinstance(result, storage.PersistentVolume):
            volume = replace(result, claim=(*key, claim.uid), phase="Bound")
            volumes["", volume.name] = volume
            claims[key] = replace(claim, volume_name=volume.name, bind_completed=True, phase="Bound")
    return replace(objects, claims=claims, volumes=volumes), frozenset(pending)


def is_known(claim: storage.PersistentVolumeClaim, objects: ClusterObjects) -> bool:
    """Report whether the cluster state has the storage objects that decide which volume a new claim gets."""
    if not lists_storage(objects):
        return False
    is_named = bool(objects.volumes) and (not claim.storage_class or bool(claim.volume_name))
    return (
        is_named
        or bool(objects.storage_classes)
        or any(volume.storage_class == claim.storage_class for volume in objects.volumes.values())
    )


def with_allowed_disruptions(pdb: PodDisruptionBudget, cluster: ClusterSnapshot) -> PodDisruptionBudget:
    """Return the PDB with the disruptions that its controller allows. Raises InvalidObject."""
    key = registry.DISRUPTION_BUDGET, pdb.namespace, pdb.name
    status = pdb_status(_StoredPods(cluster, pdb), WorkloadState(key, pdb.to_api()))
    allowed, missing = status.disruptions_allowed, min(status.current_healthy - status.desired_healthy, 0)
    return replace(pdb, surplus=allowed or missing, stale=False)


class _StoredPods:
    """The workloads of a cluster, and the Pods that a PDB selects."""

    def __init__(self, cluster: ClusterSnapshot, pdb: PodDisruptionBudget) -> None:
        self._cluster, self._pdb = cluster, pdb

    def workload(self, key: WorkloadKey, /) -> WorkloadState | None:
        """Return the workload with this key, or None."""
        state = self._cluster.workload(*key)
        if state is None:
            return None
        kind, name = state.controller
        return WorkloadState(key, state.object, controller=(kind, key[1], name) if kind else None)

    def selected(self, _: WorkloadState, /) -> Sequence[Tally]:
        """Return the tallies of the Pods that the PDB selects."""
        if (selector := self._pdb.selector) is None:
            return []
        parts = derived(self._cluster.pods_of(self._pdb.namespace), _tallies_by_label)
        label = min(selector.labels, key=lambda label: len(parts[0].get(label, ())), default=None)  # rarely needed
        tallies = [tally for part in parts for tally in part.get(label, ())]
        charge(len(tallies))
        return [tally for tally in tallies if selector.matches(tally.labels)]


def _tallies_by_label(pods: Mapping[Key, Pod]) -> dict[tuple[str, str] | None, list[Tally]]:
    """Return label (None: any) -> the tallies of the Pods with the label: one tally for all Pods with equal labels."""
    tallies = dict[int, Tally]()
    for pod in pods.values():
        tally = cached_in(tallies, id(pod.labels), partial(Tally, pod.labels))
        tally.count(PodState(pod, ready=0.0 if pod.healthy else None), 1)
    labelled = [(label, tally) for tally in tallies.values() for label in (None, *tally.labels.items())]
    charge(2 * len(pods) + len(labelled))
    return grouped(labelled)
