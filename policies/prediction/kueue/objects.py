"""Kueue's objects among the objects of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kinds.registry import KUEUE_CONFIGURATION, LIMIT_RANGE, LOCAL_QUEUE, NAMESPACE
from forewarn.policies.kubernetes.objects.fields import ApiObject, group_kind, string_map, text
from forewarn.policies.kubernetes.objects.kueue import GROUP, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
from forewarn.policies.prediction.kueue.manager import Objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

_VIEWS: Final[dict[str, tuple[str, Any]]] = {
    f"{GROUP}/ResourceFlavor": ("flavors", ResourceFlavor),
    f"{GROUP}/ClusterQueue": ("cluster_queues", ClusterQueue),
    f"{GROUP}/Cohort": ("cohorts", Cohort),
    f"{GROUP}/LocalQueue": ("local_queues", LocalQueue),
    f"{GROUP}/Workload": ("workloads", Workload),
}
"""`group/Kind` -> the field of `Objects`, and the view."""


def objects_of(cluster: ClusterSnapshot) -> Objects | None:
    """Return Kueue's objects of a cluster; None if it has no LocalQueues, or they are not known."""
    if not cluster.kueue.get(LOCAL_QUEUE):
        return None
    found = Objects()
    for kind, (table, _) in _VIEWS.items():
        views = cluster.kueue.get(kind, {}).values()
        charge(2 * len(views))
        getattr(found, table).update((view.key if hasattr(view, "key") else view.name, view) for view in views)
    found.namespaces.update((namespace.name, namespace.labels) for namespace in cluster.namespaces.values())
    used = {each.namespace for each in found.local_queues.values()}
    for name in used | {each.namespace for each in found.workloads.values()}:  # a snapshot may lack the Namespaces
        found.namespaces.setdefault(name, {NAME_LABEL: name})
    for limit_range in cluster.limit_ranges.values():
        found.limit_ranges.setdefault(limit_range.namespace, []).append(limit_range)
    found.configuration = next(iter(cluster.kueue.get(KUEUE_CONFIGURATION, {}).values()), found.configuration)
    return found


def read_objects(objects: Iterable[ApiObject]) -> Objects:
    """Return Kueue's objects and the Namespaces among these objects. Raises InvalidObject."""
    found = Objects()
    for obj in objects:
        kind = group_kind(obj)
        if kind == NAMESPACE:
            found.namespaces[text(obj, "metadata", "name")] = string_map(obj, "metadata", "labels")
        elif kind == LIMIT_RANGE:
            limit_range = LimitRange.from_api(obj)
            found.limit_ranges.setdefault(limit_range.namespace, []).append(limit_range)
        elif kind in _VIEWS:
            table, view = _VIEWS[kind]
            read = view.from_api(obj)
            getattr(found, table)[read.key if hasattr(read, "key") else read.name] = read
    return found
