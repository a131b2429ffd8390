"""Kueue's objects among the objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kinds.registry import KUEUE_CONFIGURATION, LOCAL_QUEUE
from forewarn.policies.kubernetes.objects.kueue import GROUP, NONE, Configuration
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.prediction.kueue.snapshot import cohorts_with_cycle

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange

TABLES: Final = {
    f"{GROUP}/ResourceFlavor": "flavors",
    f"{GROUP}/ClusterQueue": "cluster_queues",
    f"{GROUP}/Cohort": "cohorts",
    LOCAL_QUEUE: "local_queues",
    f"{GROUP}/Workload": "workloads",
}
"""`group/Kind` -> the field of `Objects`."""


@dataclass
class Objects:
    """Kueue's objects in a cluster, by name; LocalQueues and Workloads by namespace/name.

    `namespaces`: their labels. `limit_ranges`: by namespace.
    """

    flavors: dict[str, ResourceFlavor] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    local_queues: dict[str, LocalQueue] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    limit_ranges: dict[str, list[LimitRange]] = field(default_factory=dict)
    configuration: Configuration = field(default_factory=Configuration)

    def local_queue_of(self, workload: Workload) -> LocalQueue | None:
        """Return the LocalQueue of a Workload; None if there is none, or it is stopped."""
        queue = self.local_queues.get(f"{workload.namespace}/{workload.queue_name}")
        return queue if queue is not None and queue.stop_policy == NONE else None

    def in_trees_of(self, queues: Iterable[ClusterQueue]) -> Objects:
        """Return the objects without ClusterQueues of other trees of cohorts, which do not affect these."""
        charge(len(self.workloads))
        own = list(queues)
        roots, names = {self._root(each.cohort) for each in own} - {""}, {each.name for each in own}
        within = {
            name: each
            for name, each in self.cluster_queues.items()
            if name in names or self._root(each.cohort) in roots
        }
        local_queues = {key: each for key, each in self.local_queues.items() if each.cluster_queue in within}
        workloads = {
            key: each
            for key, each in self.workloads.items()
            if f"{each.namespace}/{each.queue_name}" in local_queues
            or (each.admission is not None and each.admission.cluster_queue in within)
        }
        return replace(self, cluster_queues=within, local_queues=local_queues, workloads=workloads)

    def _root(self, cohort: str) -> str:
        """Return the root of a Cohort's tree, "" for "", or a Cohort of a cycle."""
        seen = set[str]()
        while cohort in self.cohorts and self.cohorts[cohort].parent and cohort not in seen:
            seen.add(cohort)
            cohort = self.cohorts[cohort].parent
        return cohort

    def active_cluster_queues(self) -> frozenset[str]:
        """Return the names of ClusterQueues that admit Workloads: not stopped, and with all flavors."""
        with_cycle = cohorts_with_cycle(self.cohorts)
        return frozenset(
            queue.name
            for queue in self.cluster_queues.values()
            if queue.stop_policy == NONE
            and queue.cohort not in with_cycle
            and all(flavor in self.flavors for flavor in queue.flavors)
        )


def objects_of(cluster: ClusterSnapshot) -> Objects | None:
    """Return Kueue's objects of a cluster; None if it has no LocalQueues, or they are not known."""
    if not cluster.kueue.get(LOCAL_QUEUE):
        return None
    found = Objects()
    for kind, table in TABLES.items():
        views = cluster.kueue.get(kind, {}).values()
        charge(2 * len(views))
        getattr(found, table).update((getattr(view, "key", view.name), view) for view in views)
    found.namespaces.update((namespace.name, namespace.labels) for namespace in cluster.namespaces.values())
    used = {each.namespace for each in found.local_queues.values()}
    for name in used | {each.namespace for each in found.workloads.values()}:  # a snapshot may lack the Namespaces
        found.namespaces.setdefault(name, {NAME_LABEL: name})
    for limit_range in cluster.limit_ranges.values():
        found.limit_ranges.setdefault(limit_range.namespace, []).append(limit_range)
    found.configuration = next(iter(cluster.kueue.get(KUEUE_CONFIGURATION, {}).values()), found.configuration)
    return found
