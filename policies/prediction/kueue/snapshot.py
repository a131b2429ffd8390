"""The state of quota in a scheduling cycle: quota, usage and borrowing of ClusterQueues and Cohorts; the Kueue objects
of a cluster.

Source: kueue pkg/cache/scheduler: snapshot.go, resource_node.go, fair_sharing.go, clusterqueue_snapshot.go,
cohort_snapshot.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import quote
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.kubernetes.kinds.registry import KUEUE_CONFIGURATION, LOCAL_QUEUE
from forewarn.policies.kubernetes.objects.kueue import (
    GROUP,
    NONE,
    Amount,
    ClusterQueue,
    Cohort,
    Configuration,
    FlavorResource,
    Quantities,
    ResourceFlavor,
    ResourceQuota,
    add,
    saturated,
    sub,
)
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.kueue import LocalQueue, ResourceGroup, Workload
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
    from forewarn.policies.prediction.kueue.workload import Info


_NO_QUOTA: Final = ResourceQuota()


class ResourceNode:
    """A ClusterQueue or a Cohort, with its quota and usage."""

    def __init__(self, name: str, quotas: Mapping[FlavorResource, ResourceQuota], fair_weight: float) -> None:
        self.name, self.quotas, self.fair_weight = name, quotas, fair_weight
        self.parent: CohortSnapshot | None = None
        self.subtree_quota: Quantities = {fr: quota.nominal for fr, quota in quotas.items()}
        self.usage: Quantities = {}

    def quota_for(self, fr: FlavorResource) -> ResourceQuota:
        return self.quotas.get(fr, _NO_QUOTA)

    def path_parent_to_root(self) -> Iterator[CohortSnapshot]:
        ancestor = self.parent
        while ancestor is not None:
            yield ancestor
            ancestor = ancestor.parent

    def local_quota(self, fr: FlavorResource) -> Amount:
        """Return the quota that the node does not lend to its parent."""
        limit = self.quota_for(fr).lending_limit
        return 0 if limit is None else max(0, sub(self.subtree_quota.get(fr, 0), limit))

    def local_available(self, fr: FlavorResource) -> Amount:
        return max(0, sub(self.local_quota(fr), self.usage.get(fr, 0)))

    def available(self, fr: FlavorResource) -> Amount:
        """Return the quota available to the node, with what it may borrow; negative if usage exceeds the quota."""
        if self.parent is None:
            return sub(self.subtree_quota.get(fr, 0), self.usage.get(fr, 0))
        parent_available = self.parent.available(fr)
        limit = self.quota_for(fr).borrowing_limit
        if limit is not None:
            local_quota = self.local_quota(fr)
            stored_in_parent = sub(self.subtree_quota.get(fr, 0), local_quota)
            used_in_parent = max(0, sub(self.usage.get(fr, 0), local_quota))
            parent_available = min(add(sub(stored_in_parent, used_in_parent), limit), parent_available)
        return add(self.local_available(fr), parent_available)

    def potential_available(self, fr: FlavorResource) -> Amount:
        """Return the quota that would be available to the node if nothing was used."""
        if self.parent is None:
            return self.subtree_quota.get(fr, 0)
        potential = add(self.local_quota(fr), self.parent.potential_available(fr))
        limit = self.quota_for(fr).borrowing_limit
        return potential if limit is None else min(add(self.subtree_quota.get(fr, 0), limit), potential)

    def add_usage(self, fr: FlavorResource, amount: Amount) -> None:
        """Add usage to the node; add the part that exceeds its local quota to its ancestors."""
        local_available = self.local_available(fr)
        self.usage[fr] = add(self.usage.get(fr, 0), amount)
        if self.parent is not None and amount > local_available:
            self.parent.add_usage(fr, sub(amount, local_available))

    def remove_usage(self, fr: FlavorResource, amount: Amount) -> None:
        stored_in_parent = sub(self.usage.get(fr, 0), self.local_quota(fr))
        self.usage[fr] = sub(self.usage.get(fr, 0), amount)
        if self.parent is not None and stored_in_parent > 0:
            self.parent.remove_usage(fr, min(amount, stored_in_parent))

    def borrowing_with(self, fr: FlavorResource, amount: Amount = 0) -> bool:
        """Report whether the node borrows if it uses `amount` more."""
        return self.subtree_quota.get(fr, 0) < add(self.usage.get(fr, 0), amount)

    def is_within_nominal_in(self, frs: Iterable[FlavorResource]) -> bool:
        return not any(self.borrowing_with(fr) for fr in frs)

    def quantities_fit_in_quota(self, requests: Quantities) -> tuple[bool, Quantities]:
        """Return whether the requests fit into the node's quota, and the part that its parent must provide."""
        fits = not any(self.borrowing_with(fr, amount) for fr, amount in requests.items())
        return fits, {fr: max(0, sub(amount, self.local_available(fr))) for fr, amount in requests.items()}

    def dominant_resource_share(self) -> DRS:
        """Return the largest share, over all resources, of the cohort's capacity that the node borrows."""
        if self.parent is None:
            return DRS(self.fair_weight)
        borrowing: dict[str, Amount] = {}
        borrowed_frs = []
        for fr, quota in self.subtree_quota.items():
            amount = sub(self.usage.get(fr, 0), quota)
            if amount > 0:
                borrowing[fr.resource] = add(borrowing.get(fr.resource, 0), amount)
                borrowed_frs.append(fr)
        ratio = 0.0
        lendable = self.parent.lendable() if borrowing else {}
        for resource, amount in borrowing.items():
            if lendable.get(resource, 0) > 0:
                ratio = max(ratio, float(amount) * 1000.0 / float(lendable[resource]))
        return DRS(self.fair_weight, ratio, tuple(borrowed_frs))


class DRS(NamedTuple):
    """A dominant resource share."""

    fair_weight: float
    unweighted_ratio: float = 0.0
    borrowed_frs: tuple[FlavorResource, ...] = ()

    @property
    def is_borrowing(self) -> bool:
        return bool(self.borrowed_frs)

    def is_borrowing_on(self, requested: Quantities) -> bool:
        return any(requested.get(fr, 0) > 0 for fr in self.borrowed_frs)

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key of shares: nodes that borrow with weight 0 have the largest. Source: `CompareDRS`."""
        if self.fair_weight == 0 and self.unweighted_ratio != 0:
            return True, self.unweighted_ratio
        return False, self.unweighted_ratio / self.fair_weight if self.unweighted_ratio else 0.0


NEGATIVE_RANK: Final = (False, -math.inf)
"""A rank below that of every share."""


class CohortSnapshot(ResourceNode):
    """A Cohort. Its children are those that take part. Inactive ClusterQueues do not, but their usage counts."""

    def __init__(self, name: str, quotas: Mapping[FlavorResource, ResourceQuota], fair_weight: float) -> None:
        super().__init__(name, quotas, fair_weight)
        self.child_cohorts: list[CohortSnapshot] = []
        self.child_cqs: list[ClusterQueueSnapshot] = []

    @property
    def root(self) -> CohortSnapshot:
        return next((node for node in self.path_parent_to_root() if node.parent is None), self)

    @property
    def height(self) -> int:
        """The distance to the furthest leaf. Source: `getNodeHeight`."""
        own = min(len(self.child_cohorts) + len(self.child_cqs), 1)
        return max([own, *(cohort.height + 1 for cohort in self.child_cohorts)])

    def subtree_cluster_queues(self) -> Iterator[ClusterQueueSnapshot]:
        yield from self.child_cqs
        for cohort in self.child_cohorts:
            yield from cohort.subtree_cluster_queues()

    def accumulate_from_child(self, child: ResourceNode) -> None:
        """Add the quota that a child lends, and the child's usage of the cohort's quota."""
        for fr, quota in child.subtree_quota.items():
            lent = sub(quota, child.local_quota(fr))
            self.subtree_quota[fr] = add(self.subtree_quota.get(fr, 0), lent)
        for fr, usage in child.usage.items():
            used = max(0, sub(usage, child.local_quota(fr)))
            self.usage[fr] = add(self.usage.get(fr, 0), used)

    def lendable(self) -> dict[str, Amount]:
        """Return resource -> potential capacity, in all flavors together. Source: `calculateLendable`."""
        lendable: dict[str, Amount] = {}
        for fr in self.root.subtree_quota:
            lendable[fr.resource] = add(lendable.get(fr.resource, 0), self.potential_available(fr))
        return lendable


class ClusterQueueSnapshot(ResourceNode):
    """A ClusterQueue in a scheduling cycle. `workloads`: those with quota, by key."""

    def __init__(self, spec: ClusterQueue, generation: int) -> None:
        super().__init__(spec.name, spec.quotas, spec.fair_weight)
        self.spec = spec
        self.generation = generation
        self.workloads: dict[str, Info] = {}

    def resource_group_of(self, resource: str) -> ResourceGroup | None:
        return next((group for group in self.spec.resource_groups if resource in group.covered_resources), None)

    def available(self, fr: FlavorResource) -> Amount:
        return max(0, super().available(fr))

    def add_all(self, usage: Quantities) -> None:
        for fr, amount in usage.items():
            self.add_usage(fr, amount)

    def remove_all(self, usage: Quantities) -> None:
        for fr, amount in usage.items():
            self.remove_usage(fr, amount)

    def fits(self, usage: Quantities) -> bool:
        return all(self.available(fr) >= amount for fr, amount in usage.items())

    def lowest_subtree_that_fits(self, fr: FlavorResource, amount: Amount) -> tuple[int, bool]:
        """Return the height of the lowest subtree with quota for `amount` more, and whether it is smaller than the
        whole tree. If there is none, the height of the whole tree.

        Source: `FindHeightOfLowestSubtreeThatFits`.
        """
        if self.parent is None or not self.borrowing_with(fr, amount):
            return 0, self.parent is not None
        remaining = sub(amount, self.local_available(fr))
        for cohort in self.path_parent_to_root():
            if not cohort.borrowing_with(fr, remaining):
                return cohort.height, cohort.parent is not None
            remaining = sub(remaining, cohort.local_available(fr))
        return self.parent.root.height, False


MAX_DEPTH: Final = 100
"""Maximum number of levels of Cohorts: functions that walk a tree are recursive."""


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
    """The Workloads of a ClusterQueue that have quota, and their usage. `generation`: see `LastAssignment`."""

    workloads: dict[str, Info] = field(default_factory=dict)
    usage: Quantities = field(default_factory=dict)
    generation: int = 0

    def replace(self, key: str, info: Info | None) -> None:
        """Replace the Workload with this key, or add it; remove it if `info` is None."""
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
    """Return the quota state. Raises TooLarge for too many levels of Cohorts.

    `held`: ClusterQueue -> its Workloads with quota. `is_reversed`: list ClusterQueues and Cohorts in reverse order
    of their names. The usage of inactive ClusterQueues counts in their Cohorts, but their Workloads cannot be
    preempted.
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
    """Return the sorted names of all Cohorts that are in no cycle, including Cohorts without an object."""
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

    `namespaces`: name -> its labels. `limit_ranges`: namespace -> its LimitRanges.
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

    def restrict_to_trees(self, queues: Iterable[ClusterQueue]) -> Objects:
        """Return the objects without the ClusterQueues of other trees of cohorts, which do not affect `queues`."""
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
        """Return the root of a Cohort's tree: "" for "", and some Cohort of the cycle if there is one."""
        seen = set[str]()
        while cohort in self.cohorts and self.cohorts[cohort].parent and cohort not in seen:
            seen.add(cohort)
            cohort = self.cohorts[cohort].parent
        return cohort

    def active_cluster_queues(self) -> frozenset[str]:
        """Return the names of ClusterQueues that admit Workloads: not stopped, and all their flavors exist."""
        with_cycle = cohorts_with_cycle(self.cohorts)
        return frozenset(
            queue.name
            for queue in self.cluster_queues.values()
            if queue.stop_policy == NONE
            and queue.cohort not in with_cycle
            and all(flavor in self.flavors for flavor in queue.flavors)
        )


def objects_of(cluster: ClusterSnapshot) -> Objects | None:
    """Return Kueue's objects of a cluster; None if it has no LocalQueues, or if they are unknown."""
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
