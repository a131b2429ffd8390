"""Quota and usage of ClusterQueues and Cohorts, and what they borrow.

Source: kueue pkg/cache/scheduler: resource_node.go, fair_sharing.go, clusterqueue_snapshot.go, cohort_snapshot.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.objects.kueue import Amount, FlavorResource, Quantities, ResourceQuota, add, sub

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.kueue import ClusterQueue, ResourceGroup
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
        """Return what remains for the node, with what it may borrow; negative if more is used than there is."""
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
        """Return what the node could use if nothing was used."""
        if self.parent is None:
            return self.subtree_quota.get(fr, 0)
        potential = add(self.local_quota(fr), self.parent.potential_available(fr))
        limit = self.quota_for(fr).borrowing_limit
        return potential if limit is None else min(add(self.subtree_quota.get(fr, 0), limit), potential)

    def add_usage(self, fr: FlavorResource, amount: Amount) -> None:
        """Add usage to the node, and to its ancestors what exceeds the quota that is not lent."""
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
        """Report whether the node borrows if it uses another `amount`."""
        return self.subtree_quota.get(fr, 0) < add(self.usage.get(fr, 0), amount)

    def is_within_nominal_in(self, frs: Iterable[FlavorResource]) -> bool:
        return not any(self.borrowing_with(fr) for fr in frs)

    def quantities_fit_in_quota(self, requests: Quantities) -> tuple[bool, Quantities]:
        """Return whether the requests fit into the node's quota, and what of them its parent must provide."""
        fits = not any(self.borrowing_with(fr, amount) for fr, amount in requests.items())
        return fits, {fr: max(0, sub(amount, self.local_available(fr))) for fr, amount in requests.items()}

    def dominant_resource_share(self) -> DRS:
        """Return the largest share of the cohort's resources that the node borrows."""
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
        """The order of shares: those that borrow with weight 0 are the largest. Source: `CompareDRS`."""
        if self.fair_weight == 0 and self.unweighted_ratio != 0:
            return True, self.unweighted_ratio
        return False, self.unweighted_ratio / self.fair_weight if self.unweighted_ratio else 0.0


NEGATIVE_RANK: Final = (False, -math.inf)
"""Below the rank of every share."""


class CohortSnapshot(ResourceNode):
    """A Cohort. Its children are those that take part: not the inactive ClusterQueues, whose usage counts."""

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
        """Add what a child lends to the quota, and what it uses of the cohort to the usage."""
        for fr, quota in child.subtree_quota.items():
            lent = sub(quota, child.local_quota(fr))
            self.subtree_quota[fr] = add(self.subtree_quota.get(fr, 0), lent)
        for fr, usage in child.usage.items():
            used = max(0, sub(usage, child.local_quota(fr)))
            self.usage[fr] = add(self.usage.get(fr, 0), used)

    def lendable(self) -> dict[str, Amount]:
        """Return the potential capacity by resource, in all flavors together. Source: `calculateLendable`."""
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
        """Return the height of the lowest subtree with quota for another `amount`, and whether it is smaller than the
        whole tree. Without one, the height of the whole tree.

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
