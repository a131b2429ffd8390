"""Workloads that a Workload preempts for its quota. Source: kueue pkg/scheduler/preemption, and its `classical`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.kueue import ANY, LOWER_OR_NEWER_EQUAL_PRIORITY, LOWER_PRIORITY, NEVER
from forewarn.policies.prediction.kueue.flavor_assigner import Assignment, PreemptionMode

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.kueue import Amount, FlavorResource, Quantities, Workload
    from forewarn.policies.prediction.kueue.snapshot import ClusterQueueSnapshot, CohortSnapshot, Snapshot
    from forewarn.policies.prediction.kueue.workload import Info


class Reason(StrEnum):
    """Why a Workload is preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class Target(NamedTuple):
    """A Workload to preempt."""

    info: Info
    reason: Reason


@dataclass(frozen=True, slots=True)
class PreemptionContext:
    """A Workload that needs preemption, the resources for which it does, and its total requests. `now`: in seconds."""

    preemptor: Info
    cq: ClusterQueueSnapshot
    snapshot: Snapshot
    requests: Quantities
    frs_need_preemption: set[FlavorResource]
    now: float

    def fits(self, *, allow_borrowing: bool) -> bool:
        """Report whether the requests fit. Source: `workloadFits`."""
        if not allow_borrowing and any(self.cq.borrowing_with(fr, amount) for fr, amount in self.requests.items()):
            return False
        return self.cq.fits(self.requests)

    def order(self, info: Info) -> tuple[object, ...]:
        """Return the sort key of candidates, in the order in which they are preempted. Source: `CandidatesOrdering`."""
        obj = info.obj
        reserved_at = self.now if obj.reserved_at is None else obj.reserved_at
        return not obj.is_evicted, info.cluster_queue == self.cq.name, obj.priority, -reserved_at, obj.uid, info.key

    def fill_back(self, targets: list[Target], *, allow_borrowing: bool) -> list[Target]:
        """Add Workloads back, the last one first, as long as the preemptor still fits. Then restore the snapshot.

        Source: `fillBackWorkloads`.
        """
        for index in range(len(targets) - 2, -1, -1):
            charge(len(self.requests))
            self.snapshot.add_workload(targets[index].info)
            if self.fits(allow_borrowing=allow_borrowing):
                targets[index] = targets[-1]
                targets.pop()
            else:
                self.snapshot.remove_workload(targets[index].info)
        self.restore(targets)
        return targets

    def restore(self, targets: Iterable[Target]) -> None:
        for target in targets:
            self.snapshot.add_workload(target.info)


class Preemptor:
    """Finds the Workloads to preempt. `fair_preemptions`: finds them with fair sharing; None: classical preemption."""

    def __init__(
        self,
        snapshot: Snapshot,
        now: float,
        fair_preemptions: Callable[[PreemptionContext], list[Target]] | None = None,
    ) -> None:
        self._snapshot, self._now = snapshot, now
        self._targets_of = fair_preemptions or classical_preemptions

    def get_targets(self, info: Info, assignment: Assignment) -> list[Target]:
        """Return the Workloads to preempt for an assignment; empty if preemption does not help."""
        return self._get_targets(info, assignment.total_requests_for(info), assignment.frs_need_preemption)

    def _get_targets(self, info: Info, requests: Quantities, frs: set[FlavorResource]) -> list[Target]:
        cq = self._snapshot.cluster_queues[info.cluster_queue]
        return self._targets_of(PreemptionContext(info, cq, self._snapshot, requests, frs, self._now))

    def simulate_preemption(self, info: Info, fr: FlavorResource, amount: Amount) -> tuple[PreemptionMode, int]:
        """Return the kind of preemption that provides an amount, and the borrowing level after it.

        Source: `PreemptionOracle.SimulatePreemption`.
        """
        cq = self._snapshot.cluster_queues[info.cluster_queue]
        targets = self._get_targets(info, {fr: amount}, {fr})
        with self._snapshot.without(target.info for target in targets):
            borrow, _ = cq.lowest_subtree_that_fits(fr, amount)
        if not targets:
            return PreemptionMode.NO_CANDIDATES, borrow
        is_within = any(target.info.cluster_queue == cq.name for target in targets)
        return PreemptionMode.PREEMPT if is_within else PreemptionMode.RECLAIM, borrow


def satisfies_preemption_policy(preemptor: Workload, candidate: Workload, policy: str) -> bool:
    """Report whether a policy of a ClusterQueue lets a Workload preempt another one."""
    has_lower_priority = preemptor.priority > candidate.priority
    if policy == LOWER_PRIORITY:
        return has_lower_priority
    if policy == LOWER_OR_NEWER_EQUAL_PRIORITY:
        is_newer = preemptor.queued_since < candidate.queued_since
        return has_lower_priority or (preemptor.priority == candidate.priority and is_newer)
    return policy == ANY


class _Candidate(NamedTuple):
    """A Workload that may be preempted. `lca`: the lowest cohort of both ClusterQueues; None in the same one.

    `without_borrowing`: whether it may be preempted only if the preemptor's ClusterQueue then borrows nothing.
    """

    info: Info
    lca: CohortSnapshot | None
    reason: Reason
    without_borrowing: bool = False


def classical_preemptions(context: PreemptionContext) -> list[Target]:
    """Return the Workloads to preempt without fair sharing. Source: `classicalPreemptions`."""
    cq, policy = context.cq, context.cq.spec.preemption.within_cluster_queue
    within = candidates_in(context, cq, policy) if policy != NEVER else []
    same_queue = [_Candidate(info, None, Reason.IN_CLUSTER_QUEUE) for info in within]
    hierarchy, by_priority = _from_cohorts(context)
    groups = [
        sorted(group, key=lambda each: context.order(each.info)) for group in (hierarchy, by_priority, same_queue)
    ]
    candidates = [each for group in groups for each in group if each.info.obj.is_evicted]
    candidates += [each for group in groups for each in group if not each.info.obj.is_evicted]
    is_borrowing_forbidden = cq.spec.preemption.borrow_within_cohort == NEVER
    if not (hierarchy or by_priority) or (is_borrowing_forbidden and not _is_under_nominal(context)):
        attempts = [True]
    elif is_borrowing_forbidden and not hierarchy:
        attempts = [False, True]
    else:
        attempts = [True, False]
    for allow_borrowing in attempts:
        targets: list[Target] = []
        for candidate in candidates:
            charge(1 + len(context.requests))
            if not _is_valid(context, candidate, allow_borrowing=allow_borrowing):
                continue
            context.snapshot.remove_workload(candidate.info)
            targets.append(Target(candidate.info, candidate.reason))
            if context.fits(allow_borrowing=allow_borrowing):
                return context.fill_back(targets, allow_borrowing=allow_borrowing)
        context.restore(targets)
    return []


def _is_under_nominal(context: PreemptionContext) -> bool:
    """Report whether the ClusterQueue uses less than its nominal quota of each resource that needs preemption.

    Source: `queueUnderNominalInResourcesNeedingPreemption`.
    """
    cq = context.cq
    return all(cq.quota_for(fr).nominal > cq.usage.get(fr, 0) for fr in context.frs_need_preemption)


def _is_valid(context: PreemptionContext, candidate: _Candidate, *, allow_borrowing: bool) -> bool:
    """Report whether a candidate may still be preempted: its ClusterQueue and cohorts still borrow.

    Source: `candidateIsValid`.
    """
    if candidate.info.cluster_queue == context.cq.name:
        return True
    if allow_borrowing and candidate.without_borrowing:
        return False
    cq = context.snapshot.cluster_queues[candidate.info.cluster_queue]
    below_lca = takewhile(lambda node: node is not candidate.lca, cq.path_parent_to_root())
    return not any(node.is_within_nominal_in(context.frs_need_preemption) for node in (cq, *below_lca))


def _from_cohorts(context: PreemptionContext) -> tuple[list[_Candidate], list[_Candidate]]:
    """Return the candidates of other ClusterQueues: those from which the preemptor reclaims quota because of its place
    in the tree, and those that it preempts by priority. Source: `collectCandidatesForHierarchicalReclaim`.
    """
    hierarchy: list[_Candidate] = []
    by_priority: list[_Candidate] = []
    cq = context.cq
    if cq.parent is None or cq.spec.preemption.reclaim_within_cohort == NEVER:
        return hierarchy, by_priority
    previous: CohortSnapshot | None = None
    has_advantage, remaining = cq.quantities_fit_in_quota(context.requests)
    for cohort in cq.path_parent_to_root():
        for other in _borrowing_in_subtree(context, cohort, previous):
            found = _variants(context, other, cohort, has_advantage=has_advantage)
            (hierarchy if has_advantage else by_priority).extend(found)
        fits, remaining = cohort.quantities_fit_in_quota(remaining)
        has_advantage = has_advantage or fits
        previous = cohort
    return hierarchy, by_priority


def _borrowing_in_subtree(
    context: PreemptionContext, cohort: CohortSnapshot, skipped: CohortSnapshot | None
) -> Iterable[ClusterQueueSnapshot]:
    """Yield the ClusterQueues that exceed their quota, in cohorts that do. Source: `collectCandidatesInSubtree`."""
    frs = context.frs_need_preemption
    for child in cohort.child_cohorts:
        if child is not skipped and not child.is_within_nominal_in(frs):
            yield from _borrowing_in_subtree(context, child, skipped)
    for cq in cohort.child_cqs:
        if cq is not context.cq and not cq.is_within_nominal_in(frs):
            yield cq


def candidates_in(context: PreemptionContext, cq: ClusterQueueSnapshot, policy: str) -> list[Info]:
    """Return the Workloads of a ClusterQueue that a policy allows to preempt and that use a resource that is needed."""
    charge(len(cq.workloads))
    preemptor, frs = context.preemptor.obj, context.frs_need_preemption
    using = [info for info in cq.workloads.values() if not info.assigned.isdisjoint(frs)]
    return [info for info in using if satisfies_preemption_policy(preemptor, info.obj, policy)]


def _variants(
    context: PreemptionContext, cq: ClusterQueueSnapshot, cohort: CohortSnapshot, *, has_advantage: bool
) -> Iterator[_Candidate]:
    """Yield the candidates of another ClusterQueue. Source: `classifyPreemptionVariant`."""
    preemption, preemptor = context.cq.spec.preemption, context.preemptor.obj
    threshold = preemption.max_priority_threshold
    for info in candidates_in(context, cq, preemption.reclaim_within_cohort):
        priority = info.obj.priority
        is_above = priority >= preemptor.priority or (threshold is not None and priority > threshold)
        if has_advantage:
            yield _Candidate(info, cohort, Reason.IN_COHORT_RECLAMATION)
        elif preemption.borrow_within_cohort == NEVER or is_above:
            yield _Candidate(info, cohort, Reason.IN_COHORT_RECLAMATION, without_borrowing=True)
        else:
            yield _Candidate(info, cohort, Reason.IN_COHORT_RECLAIM_WHILE_BORROWING)
