"""Scheduling cycles of Kueue; the Workloads that wait in a ClusterQueue; preemption and order of Workloads with fair
sharing.

Sources: kueue pkg/scheduler/scheduler.go, pkg/cache/queue/cluster_queue.go, pkg/scheduler/preemption
(`fairPreemptions`), its package fairsharing, and fair_sharing_iterator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.kueue import ANY, NEVER, ClusterQueue, Configuration, Quantities, add, sub
from forewarn.policies.prediction.kueue.flavor_assigner import Assignment, FlavorAssigner, Mode
from forewarn.policies.prediction.kueue.preemption import PreemptionContext, Preemptor, Reason, Target, candidates_in
from forewarn.policies.prediction.kueue.snapshot import (
    DRS,
    NEGATIVE_RANK,
    ClusterQueueSnapshot,
    CohortSnapshot,
    ResourceNode,
    Snapshot,
)

if TYPE_CHECKING:
    from forewarn.policies.prediction.kueue.workload import Info


class RequeueReason(StrEnum):
    """Why a head is queued again."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PENDING_PREEMPTION = "PendingPreemption"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


_IMMEDIATE = (RequeueReason.FAILED_AFTER_NOMINATION, RequeueReason.PENDING_PREEMPTION)
_RANK = attrgetter("rank")
_BULK_MOVED = (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES)


class PendingQueue:
    """The Workloads that wait in a ClusterQueue: in the heap, and inadmissible ones, which no cycle tries until quota
    is freed.
    """

    def __init__(self, spec: ClusterQueue) -> None:
        self._spec = spec
        self.heap: dict[str, Info] = {}
        self.inadmissible: dict[str, Info] = {}
        self._sticky: str | None = None
        self._bulk_moved: set[str] = set()

    def sorted_workloads(self) -> list[Info]:
        """Return all waiting Workloads, inadmissible ones included: the sticky one, then by rank."""
        waiting = (*self.heap.values(), *self.inadmissible.values())
        return sorted(waiting, key=lambda info: (info.key != self._sticky, info.rank))

    def pop(self) -> Info | None:
        """Remove and return the head; None if the heap is empty."""
        charge(1 + len(self.heap) // 4)
        if self._sticky in self.heap:
            return self.heap.pop(self._sticky)
        head = min(self.heap.values(), key=_RANK, default=None)
        return None if head is None else self.heap.pop(head.key)

    def push_or_update(self, info: Info, now: float) -> None:
        """Add a new or evicted Workload, or replace it after an update of its status. Source: `PushOrUpdate`."""
        key = info.key
        waits = key in self.inadmissible or _is_backing_off(info, now) or self._is_bulk_moved(info)
        queue = self.inadmissible if waits and key not in self.heap else self.heap
        queue[key] = info

    def _is_bulk_moved(self, info: Info) -> bool:
        return bool(self._bulk_moved) and info.scheduling_hash in self._bulk_moved

    def delete(self, key: str) -> None:
        """Forget an admitted Workload."""
        self.heap.pop(key, None)
        self.inadmissible.pop(key, None)
        if self._sticky == key:
            self._sticky = None

    def requeue(self, info: Info, reason: RequeueReason, now: float) -> None:
        """Put a head that a cycle has not admitted back into the queue. Source: `RequeueIfNotPresent`."""
        is_best_effort = not self._spec.is_strict_fifo
        if reason is RequeueReason.PENDING_PREEMPTION and is_best_effort:
            self._sticky = info.key
        is_immediate = reason in _IMMEDIATE if is_best_effort else reason is not RequeueReason.NAMESPACE_MISMATCH
        has_pending_flavors = info.last_assignment is not None and info.last_assignment.has_pending_flavors
        if (is_immediate or has_pending_flavors) and not _is_backing_off(info, now):
            self.heap[info.key] = info
            return
        self.inadmissible[info.key] = info
        if reason in _BULK_MOVED and is_best_effort:
            self._move_equivalent(info.scheduling_hash)

    def _move_equivalent(self, scheduling_hash: str) -> None:
        """Make equivalent Workloads inadmissible: they would fail too. Source: `handleInadmissibleHash`."""
        self._bulk_moved.add(scheduling_hash)
        for key, info in list(self.heap.items()):
            charge(2)
            if info.scheduling_hash == scheduling_hash:
                self.inadmissible[key] = self.heap.pop(key)

    def queue_inadmissible(self, matches_namespace: Callable[[Info], bool], now: float) -> None:
        """Move inadmissible Workloads to the heap, because quota was freed. Source: `queueInadmissibleWorkloads`."""
        self._bulk_moved.clear()
        for key, info in list(self.inadmissible.items()):
            if matches_namespace(info) and not _is_backing_off(info, now):
                self.heap.setdefault(key, self.inadmissible.pop(key))


def _is_backing_off(info: Info, now: float) -> bool:
    return info.obj.requeue_at is not None and now < info.obj.requeue_at


FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
DEFAULT_STRATEGIES: Final = (FINAL_SHARE, "LessThanInitialShare")


def fair_preemptions(context: PreemptionContext, strategies: Sequence[str] = DEFAULT_STRATEGIES) -> list[Target]:
    """Return the Workloads to preempt with fair sharing."""
    candidates = sorted(_find_candidates(context), key=context.order)
    if not candidates:
        return []
    context.cq.add_all(context.requests)  # shares must include the preemptor
    fits, targets, to_retry = _run_first_strategy(context, candidates, strategies[0])
    if not fits and len(strategies) > 1:
        fits = _run_second_strategy(context, to_retry, targets)
    context.cq.remove_all(context.requests)
    if not fits:
        context.restore(targets)
        return []
    return context.fill_back(targets, allow_borrowing=True)


def _find_candidates(context: PreemptionContext) -> Iterator[Info]:
    """Yield the Workloads that the policies allow to preempt. Source: `findCandidates`."""
    cq, preemption = context.cq, context.cq.spec.preemption
    frs = context.frs_need_preemption
    if preemption.within_cluster_queue != NEVER:
        yield from candidates_in(context, cq, preemption.within_cluster_queue)
    if cq.parent is not None and preemption.reclaim_within_cohort != NEVER:
        for other in cq.parent.root.subtree_cluster_queues():
            if other is not cq and not other.is_within_nominal_in(frs):
                yield from candidates_in(context, other, preemption.reclaim_within_cohort)


def _run_first_strategy(
    context: PreemptionContext, candidates: Iterable[Info], strategy: str
) -> tuple[bool, list[Target], list[Info]]:
    """Return whether the preemptor fits, the targets, and candidates for the second strategy.

    Source: `runFirstFsStrategy`.
    """
    ordering = _TargetOrdering(context, candidates)
    targets: list[Target] = []
    to_retry: list[Info] = []
    is_within_nominal = not any(context.cq.borrowing_with(fr) for fr in context.frs_need_preemption)
    while (cq := ordering.next_cluster_queue()) is not None:
        if cq is context.cq or is_within_nominal:
            reason = Reason.IN_CLUSTER_QUEUE if cq is context.cq else Reason.IN_COHORT_RECLAMATION
            if _preempt(context, ordering.pop(cq), reason, targets):
                return True, targets, []
            continue
        preemptor_share, share_before = (node.dominant_resource_share() for node in ordering.almost_lcas(cq))
        while ordering.has_workload(cq):
            info = ordering.pop(cq)
            usage = info.usage
            cq.remove_all(usage)
            share_without = ordering.almost_lcas(cq)[1].dominant_resource_share()
            cq.add_all(usage)
            is_fair = preemptor_share.rank <= share_without.rank
            if not (is_fair if strategy == FINAL_SHARE else preemptor_share.rank < share_before.rank):
                to_retry.append(info)
                continue
            if _preempt(context, info, Reason.IN_COHORT_FAIR_SHARING, targets):
                return True, targets, []
            break  # the shares have changed: another ClusterQueue may come first
    return False, targets, to_retry


def _run_second_strategy(context: PreemptionContext, candidates: Iterable[Info], targets: list[Target]) -> bool:
    """Return whether the preemptor fits; appends to `targets`. Source: `runSecondFsStrategy`."""
    ordering = _TargetOrdering(context, candidates)
    while (cq := ordering.next_cluster_queue()) is not None:
        preemptor_node, target_node = ordering.almost_lcas(cq)
        passed = preemptor_node.dominant_resource_share().rank < target_node.dominant_resource_share().rank
        info = ordering.pop(cq)
        if passed and _preempt(context, info, Reason.IN_COHORT_FAIR_SHARING, targets):
            return True
        ordering.drop(cq)
    return False


def _preempt(context: PreemptionContext, info: Info, reason: Reason, targets: list[Target]) -> bool:
    """Append a target, and return whether the preemptor then fits. Source: `workloadFitsForFairSharing`."""
    charge(1 + len(context.requests))
    context.snapshot.remove_workload(info)
    targets.append(Target(info, reason))
    context.cq.remove_all(context.requests)
    fits = context.fits(allow_borrowing=True)
    context.cq.add_all(context.requests)
    return fits


class _TargetOrdering:
    """The order in which ClusterQueues lose Workloads: the largest share first, from the root of the cohorts down.

    Source: `TargetClusterQueueOrdering`.
    """

    def __init__(self, context: PreemptionContext, candidates: Iterable[Info]) -> None:
        self._context = context
        self._ancestors = set(context.cq.path_parent_to_root())
        self._pruned: set[ResourceNode] = set()
        self._candidates: dict[str, list[Info]] = {}
        for info in candidates:
            self._candidates.setdefault(info.cluster_queue, []).append(info)
        for infos in self._candidates.values():
            infos.reverse()  # the first candidate is popped from the end

    def has_workload(self, cq: ClusterQueueSnapshot) -> bool:
        return bool(self._candidates.get(cq.name))

    def pop(self, cq: ClusterQueueSnapshot) -> Info:
        return self._candidates[cq.name].pop()

    def drop(self, cq: ClusterQueueSnapshot) -> None:
        self._pruned.add(cq)

    def almost_lcas(self, cq: ClusterQueueSnapshot) -> tuple[ResourceNode, ResourceNode]:
        """Return the nodes directly below the lowest common cohort: the preemptor's, and that of `cq`."""
        lca = next(cohort for cohort in cq.path_parent_to_root() if cohort in self._ancestors)
        return _child_below(self._context.cq, lca), _child_below(cq, lca)

    def next_cluster_queue(self) -> ClusterQueueSnapshot | None:
        """Return the ClusterQueue that loses a Workload next; None if no candidates remain."""
        cq = self._context.cq
        if cq.parent is None:
            return cq if cq not in self._pruned and self.has_workload(cq) else None
        root = cq.parent.root
        while root not in self._pruned:
            charge()
            if (found := self._next_target(root)) is not None:
                return found
        return None

    def _next_target(self, cohort: CohortSnapshot) -> ClusterQueueSnapshot | None:
        """Return the next ClusterQueue of a subtree; None if this call only removed a node from the search."""
        highest_cq, cq_rank = self._highest_cluster_queue(cohort)
        highest_cohort, cohort_rank = None, NEGATIVE_RANK
        for child in cohort.child_cohorts:
            if child in self._pruned:
                continue
            share = child.dominant_resource_share()
            if not share.is_borrowing and child not in self._ancestors:
                self._pruned.add(child)
            elif share.rank >= cohort_rank:
                highest_cohort, cohort_rank = child, share.rank
        if highest_cohort is not None and cohort_rank >= cq_rank:
            return self._next_target(highest_cohort)
        if highest_cq is None:
            self._pruned.add(cohort)
        return highest_cq

    def _highest_cluster_queue(self, cohort: CohortSnapshot) -> tuple[ClusterQueueSnapshot | None, tuple[bool, float]]:
        highest, rank = None, NEGATIVE_RANK
        for cq in cohort.child_cqs:
            if cq in self._pruned:
                continue
            share = cq.dominant_resource_share()
            if (not share.is_borrowing and cq is not self._context.cq) or not self.has_workload(cq):
                self._pruned.add(cq)
            elif share.rank > rank or (share.rank == rank and highest and self._first(cq) < self._first(highest)):
                highest, rank = cq, share.rank
        return highest, rank

    def _first(self, cq: ClusterQueueSnapshot) -> tuple[object, ...]:
        return self._context.order(self._candidates[cq.name][-1])


def _child_below(cq: ClusterQueueSnapshot, lca: CohortSnapshot) -> ResourceNode:
    node: ResourceNode = cq
    while node.parent is not None and node.parent is not lca:
        node = node.parent
    return node


class Tournament:
    """The order in which a cycle processes Workloads: the one after which its ClusterQueue or cohort has the smallest
    share comes first. Source: fair_sharing_iterator.go.

    `heads`: ClusterQueue -> its head and the usage that the head would add.
    """

    def __init__(self, heads: Mapping[ClusterQueueSnapshot, tuple[Info, Quantities]]) -> None:
        self._heads = dict(heads)
        self._shares: dict[tuple[CohortSnapshot, ClusterQueueSnapshot], DRS] = {}

    def __iter__(self) -> Iterator[ClusterQueueSnapshot]:
        """Yield the ClusterQueues; in other trees of cohorts, where upstream takes any of them, by name."""
        while self._heads:
            winner = next(iter(self._heads))
            if winner.parent is not None:
                root = winner.parent.root
                self._compute_shares(root)
                winner = self._winner(root) or winner
            del self._heads[winner]
            yield winner

    def _compute_shares(self, root: CohortSnapshot) -> None:
        """Compute the shares of each head's ClusterQueue and cohorts with the head admitted. Source: `computeDRS`."""
        for cq in root.subtree_cluster_queues():
            if cq in self._heads:
                _, usage = self._heads[cq]
                cq.add_all(usage)
                node: ResourceNode = cq
                for ancestor in cq.path_parent_to_root():
                    charge(2)
                    self._shares[ancestor, cq] = node.dominant_resource_share()
                    node = ancestor
                cq.remove_all(usage)

    def _winner(self, cohort: CohortSnapshot) -> ClusterQueueSnapshot | None:
        """Return the ClusterQueue of the best head in a subtree; None without heads. Source: `runTournament`."""
        candidates = [winner for child in cohort.child_cohorts if (winner := self._winner(child)) is not None]
        candidates += (cq for cq in cohort.child_cqs if cq in self._heads)
        return min(candidates, key=lambda cq: self._rank(cohort, cq), default=None)

    def _rank(self, cohort: CohortSnapshot, cq: ClusterQueueSnapshot) -> tuple[object, ...]:
        info, usage = self._heads[cq]
        share = self._shares[cohort, cq]
        return share.is_borrowing_on(usage), share.rank, -info.obj.priority, info.obj.queued_since


class Outcome(StrEnum):
    """What a cycle decides for the head of a ClusterQueue."""

    ADMITTED = "admitted"
    PREEMPTING = "preempting"
    SKIPPED = "skipped"
    INADMISSIBLE = "inadmissible"


@dataclass(slots=True)
class Entry:
    """The head of a ClusterQueue in one cycle, with its outcome."""

    info: Info
    cq: ClusterQueueSnapshot
    assignment: Assignment
    targets: list[Target] = field(default_factory=list)
    outcome: Outcome = Outcome.INADMISSIBLE
    message: str = ""
    requeue_reason: RequeueReason = RequeueReason.GENERIC

    @property
    def fifo(self) -> tuple[int, int]:
        return -self.info.obj.priority, self.info.obj.queued_since

    def skip(self, message: str) -> None:
        self.outcome, self.message = Outcome.SKIPPED, message
        self.requeue_reason = RequeueReason.FAILED_AFTER_NOMINATION
        self.info.last_assignment = None


class Cycle:
    """One scheduling cycle."""

    def __init__(self, snapshot: Snapshot, now: float, configuration: Configuration) -> None:
        self._snapshot, self._is_fair_sharing = snapshot, configuration.is_fair_sharing
        fair = partial(fair_preemptions, strategies=configuration.preemption_strategies or DEFAULT_STRATEGIES)
        self._preemptor = Preemptor(snapshot, now, fair if configuration.is_fair_sharing else None)

    def schedule(self, heads: Iterable[Info], faults: Mapping[str, tuple[str, RequeueReason]]) -> list[Entry]:
        """Decide on the heads, at most one of each ClusterQueue. Source: `schedule`.

        `faults`: Workloads that are rejected without an attempt: key -> (message, requeue reason).
        """
        nominated, rejected = [], []
        for info in heads:
            cq = self._snapshot.cluster_queues[info.cluster_queue]
            entry = Entry(info, cq, Assignment(cq.generation))
            if info.key in faults:
                entry.message, entry.requeue_reason = faults[info.key]
                rejected.append(entry)
                continue
            entry.assignment, entry.targets = self._get_assignments(info, cq)
            entry.message = entry.assignment.message
            info.last_assignment = entry.assignment.last_assignment
            nominated.append(entry)
        preempted: dict[str, Info] = {}
        processed = []
        for entry in self._ordered_entries(nominated):
            self._process(entry, preempted)
            processed.append(entry)
        return [*processed, *rejected]

    def _ordered_entries(self, entries: Sequence[Entry]) -> Iterable[Entry]:
        if not self._is_fair_sharing:
            return sorted(entries, key=lambda entry: (entry.assignment.borrowing, *entry.fifo))
        by_cq = {entry.cq: entry for entry in entries}
        tournament = Tournament({cq: (entry.info, entry.assignment.usage) for cq, entry in by_cq.items()})
        return (by_cq[cq] for cq in tournament)

    def _get_assignments(self, info: Info, cq: ClusterQueueSnapshot) -> tuple[Assignment, list[Target]]:
        """Return the flavors of a Workload and the Workloads to preempt for it. Source: `getInitialAssignments`."""
        flavors = self._snapshot.flavors
        assigner = FlavorAssigner(info, cq, flavors, self._preemptor, is_fair_sharing=self._is_fair_sharing)
        full = assigner.assign()
        targets = self._targets(info, full)
        if full.representative_mode is Mode.FIT or targets:
            return full, targets
        return self._partial(info, assigner) or (full, [])

    def _targets(self, info: Info, assignment: Assignment) -> list[Target]:
        if assignment.representative_mode is not Mode.PREEMPT:
            return []
        return self._preemptor.get_targets(info, assignment)

    def _partial(self, info: Info, assigner: FlavorAssigner) -> tuple[Assignment, list[Target]] | None:
        """Return the assignment for the largest number of Pods that fits, if the Workload may run with fewer; None if
        none fits. Source: `PodSetReducer`, whose binary search assumes that fewer Pods fit whenever more do.
        """
        pod_sets = info.obj.pod_sets
        deltas = [0 if each.min_count is None else each.count - each.min_count for each in pod_sets]
        total = sum(deltas)
        if total <= 0 or not any(delta > 0 for delta in deltas):
            return None
        best: tuple[int, tuple[Assignment, list[Target]]] | None = None
        low, high = 0, total + 1
        while low < high:
            middle = (low + high) // 2
            counts = [each.count - delta * middle // total for each, delta in zip(pod_sets, deltas, strict=True)]
            assignment = assigner.assign(counts)
            targets = self._targets(info, assignment)
            if assignment.representative_mode is Mode.FIT or targets:
                best, high = (middle, (assignment, targets)), middle
            else:
                low = middle + 1
        return best[1] if best is not None and best[0] == low else None

    def _process(self, entry: Entry, preempted: dict[str, Info]) -> None:
        """Decide on a head, after the heads before it. Source: `processEntry`."""
        assignment, cq = entry.assignment, entry.cq
        mode = assignment.representative_mode
        if mode is Mode.NO_FIT:
            entry.requeue_reason = RequeueReason.NO_FIT
        elif mode is Mode.PREEMPT and not entry.targets:
            entry.requeue_reason = RequeueReason.PREEMPTION_NO_CANDIDATES
            if cq.spec.preemption.reclaim_within_cohort != ANY:
                cq.add_all(_resources_to_reserve(assignment, cq))
        elif any(target.info.key in preempted for target in entry.targets):
            entry.skip("Workload has overlapping preemption targets with another workload")
        elif not self._fits(entry, preempted):
            entry.skip("Workload no longer fits after processing another workload")
        else:
            preempted |= {target.info.key: target.info for target in entry.targets}
            cq.add_all(assignment.usage)
            if mode is Mode.PREEMPT:
                entry.outcome, entry.requeue_reason = Outcome.PREEMPTING, RequeueReason.PENDING_PREEMPTION
                entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
                entry.info.last_assignment = None
            else:
                entry.outcome = Outcome.ADMITTED

    def _fits(self, entry: Entry, preempted: Mapping[str, Info]) -> bool:
        removed = [*preempted.values(), *(target.info for target in entry.targets)]
        with self._snapshot.without(removed):
            return entry.cq.fits(entry.assignment.usage)


def _resources_to_reserve(assignment: Assignment, cq: ClusterQueueSnapshot) -> Quantities:
    """Return the quota that a head without candidates reserves for itself. Source: `quotaResourcesToReserve`."""
    reserved: Quantities = {}
    for fr, usage in assignment.usage.items():
        quota, used = cq.quota_for(fr), cq.usage.get(fr, 0)
        if assignment.borrowing == 0:
            reserved[fr] = max(0, min(usage, sub(quota.nominal, used)))
        elif quota.borrowing_limit is None:
            reserved[fr] = usage
        else:
            reserved[fr] = min(usage, sub(add(quota.nominal, quota.borrowing_limit), used))
    return reserved
