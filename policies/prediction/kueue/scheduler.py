"""Scheduling cycles of Kueue. Source: kueue pkg/scheduler/scheduler.go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from forewarn.policies.kubernetes.objects.kueue import ANY, Configuration
from forewarn.policies.prediction.kueue.amount import Quantities, add, sub
from forewarn.policies.prediction.kueue.cluster_queue import RequeueReason
from forewarn.policies.prediction.kueue.fair_sharing import DEFAULT_STRATEGIES, Tournament, fair_preemptions
from forewarn.policies.prediction.kueue.flavor_assigner import Assignment, FlavorAssigner, Mode
from forewarn.policies.prediction.kueue.preemption import Preemptor, Target

if TYPE_CHECKING:
    from forewarn.policies.prediction.kueue.resource_node import ClusterQueueSnapshot
    from forewarn.policies.prediction.kueue.snapshot import Snapshot
    from forewarn.policies.prediction.kueue.workload import Info


class Outcome(StrEnum):
    """What a cycle decides for the head of a ClusterQueue."""

    ADMITTED = "admitted"
    PREEMPTING = "preempting"
    SKIPPED = "skipped"
    INADMISSIBLE = "inadmissible"


@dataclass(slots=True)
class Entry:
    """The head of a ClusterQueue in a cycle."""

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
    """One scheduling cycle. `faults`: why Workloads are not even tried, by key, with their reason to queue again."""

    def __init__(self, snapshot: Snapshot, now: float, configuration: Configuration) -> None:
        self._snapshot, self._is_fair_sharing = snapshot, configuration.is_fair_sharing
        fair = partial(fair_preemptions, strategies=configuration.preemption_strategies or DEFAULT_STRATEGIES)
        self._preemptor = Preemptor(snapshot, now, fair if configuration.is_fair_sharing else None)

    def schedule(self, heads: Iterable[Info], faults: Mapping[str, tuple[str, RequeueReason]]) -> list[Entry]:
        """Decide about the heads, at most one of each ClusterQueue. Source: `schedule`."""
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
        for entry in self._in_order(nominated):
            self._process(entry, preempted)
            processed.append(entry)
        return [*processed, *rejected]

    def _in_order(self, entries: Sequence[Entry]) -> Iterable[Entry]:
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
        """Return the assignment of the most Pods that fit, if the Workload allows fewer Pods; None if none fit.

        Source: `PodSetReducer`, which searches as if fewer Pods always fit when more do.
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
        """Decide about a head, after those before it. Source: `processEntry`."""
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
    """Return the quota that a head without candidates keeps from later ones. Source: `quotaResourcesToReserve`."""
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
