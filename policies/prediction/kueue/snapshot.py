"""The state of quota in a scheduling cycle, and the objects of a cluster behind it. Source: kueue
pkg/cache/scheduler/snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.kubernetes.kinds.registry import KUEUE_CONFIGURATION, LOCAL_QUEUE
from forewarn.policies.kubernetes.objects.kueue import (
    GROUP,
    NONE,
    ClusterQueue,
    Cohort,
    Configuration,
    ResourceFlavor,
    saturated,
)
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.prediction.kueue.resource_node import ClusterQueueSnapshot, CohortSnapshot

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.kueue import LocalQueue, Quantities, Workload
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
    from forewarn.policies.prediction.kueue.workload import Info


MAX_DEPTH: Final = 100
"""Maximum levels of Cohorts: functions that walk a tree are recursive."""


@dataclass
class Snapshot:
    """All ClusterQueues by name, with the Workloads that hold quota. `active`: those that admit Workloads."""

    cluster_queues: dict[str, ClusterQueueSnapshot]
    active: frozenset[str]
    flavors: Mapping[str, ResourceFlavor]
    cohorts: dict[str, CohortSnapshot] = field(default_factory=dict)

    def remove_workload(self, info: Info) -> None:
        cq = self.cluster_queues[info.cluster_queue]
        del cq.workloads[info.key]
        cq.remove_all(info.usage)

    def add_workload(self, info: Info) -> None:
        cq = self.cluster_queues[info.cluster_queue]
        cq.workloads[info.key] = info
        cq.add_all(info.usage)

    @contextmanager
    def without(self, infos: Iterable[Info]) -> Iterator[None]:
        """Remove the usage of Workloads inside the block. Source: `SimulateWorkloadRemoval`."""
        usages = [(self.cluster_queues[info.cluster_queue], info.usage) for info in infos]
        for cq, usage in usages:
            cq.remove_all(usage)
        yield
        for cq, usage in usages:
            cq.add_all(usage)


@dataclass
class Held:
    """The Workloads with quota of a ClusterQueue, and what they use. `generation`: see `LastAssignment`."""

    workloads: dict[str, Info] = field(default_factory=dict)
    usage: Quantities = field(default_factory=dict)
    generation: int = 0

    def replace(self, key: str, info: Info | None) -> None:
        """Add a Workload, or remove it if `info` is None, in place of the former one with this key."""
        former = self.workloads.pop(key, None)
        for each, sign in ((former, -1), (info, 1)):
            for fr, amount in each.usage.items() if each is not None else ():
                self.usage[fr] = self.usage.get(fr, 0) + sign * amount
        if info is not None:
            self.workloads[key] = info

    def to_snapshot(self, spec: ClusterQueue) -> ClusterQueueSnapshot:
        """Return the ClusterQueue at the start of a cycle, without its Cohort."""
        charge(1 + len(self.workloads) // 50)
        cq = ClusterQueueSnapshot(spec, self.generation)
        cq.workloads = dict(self.workloads)
        cq.usage = {fr: saturated(amount) for fr, amount in self.usage.items() if amount}
        return cq


def take_snapshot(
    cluster_queues: Mapping[str, ClusterQueue],
    cohorts: Mapping[str, Cohort],
    flavors: Mapping[str, ResourceFlavor],
    held: Mapping[str, Held],
    active: frozenset[str],
    *,
    is_reversed: bool = False,
) -> Snapshot:
    """Return the state of quota. Raises TooLarge for too many levels of Cohorts.

    `held`: by ClusterQueue. `is_reversed`: list ClusterQueues and Cohorts in the opposite order of their names. The
    usage of inactive ClusterQueues counts in their Cohorts, but their Workloads cannot be preempted.
    """
    cqs = {name: held[name].to_snapshot(spec) for name, spec in sorted(cluster_queues.items(), reverse=is_reversed)}
    snapshot = Snapshot(cqs, active, flavors)
    nodes = snapshot.cohorts
    for name in sorted(cohorts_of(cluster_queues.values(), cohorts), reverse=is_reversed):
        spec = cohorts.get(name, Cohort(name))
        nodes[name] = CohortSnapshot(name, spec.quotas, spec.fair_weight)
    children: dict[str, list[ClusterQueueSnapshot]] = {}
    for cq in cqs.values():
        if cq.spec.cohort in nodes:
            cq.parent = nodes[cq.spec.cohort]
            children.setdefault(cq.spec.cohort, []).append(cq)
            if cq.name in active:
                cq.parent.child_cqs.append(cq)
    for name, node in nodes.items():
        if name in cohorts and cohorts[name].parent in nodes:
            node.parent = nodes[cohorts[name].parent]
            node.parent.child_cohorts.append(node)
    for node in nodes.values():
        if node.parent is None:
            _accumulate(node, children, 1)
    return snapshot


def _accumulate(cohort: CohortSnapshot, children: Mapping[str, list[ClusterQueueSnapshot]], depth: int) -> None:
    """Sum quota and usage in a tree of Cohorts. Source: `updateCohortResourceNode`."""
    if depth > MAX_DEPTH:
        raise TooLarge(f"Cohort {quote(cohort.name)} is more than {MAX_DEPTH} levels below its root")
    for child in cohort.child_cohorts:
        _accumulate(child, children, depth + 1)
        cohort.accumulate_from_child(child)
    for cq in children.get(cohort.name, ()):
        cohort.accumulate_from_child(cq)


def cohorts_of(cluster_queues: Iterable[ClusterQueue], cohorts: Mapping[str, Cohort]) -> list[str]:
    """Return the names of all Cohorts that are in no cycle, in order: also of those that are only named."""
    names = {*cohorts, *(each.parent for each in cohorts.values()), *(each.cohort for each in cluster_queues)} - {""}
    return sorted(names - cohorts_with_cycle(cohorts))


def cohorts_with_cycle(cohorts: Mapping[str, Cohort]) -> set[str]:
    """Return the names of Cohorts that are in a cycle or below one. Source: kueue pkg/cache/hierarchy, `HasCycle`."""
    states: dict[str, bool] = {}
    for name in cohorts:
        path: dict[str, None] = {}
        while name in cohorts and name not in states and name not in path:
            charge()
            path[name] = None
            name = cohorts[name].parent
        states |= dict.fromkeys(path, name in path or states.get(name, False))
    return {name for name, has_cycle in states.items() if has_cycle}


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
