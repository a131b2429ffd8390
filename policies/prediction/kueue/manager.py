"""A cluster with Kueue: its queues, the quota in use, and what follows a scheduling cycle.

Source: kueue pkg/cache (queue and scheduler), pkg/controller/core/workload_controller.go (`Update`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.kueue import Admission, PodSetAssignment, Workload
from forewarn.policies.prediction.kueue.scheduler import Cycle, Entry, Outcome, PendingQueue, RequeueReason
from forewarn.policies.prediction.kueue.snapshot import Held, Snapshot, take_snapshot
from forewarn.policies.prediction.kueue.workload import Info, resources_fault, with_adjusted_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forewarn.policies.prediction.kueue.flavor_assigner import Assignment
    from forewarn.policies.prediction.kueue.resource_node import CohortSnapshot
    from forewarn.policies.prediction.kueue.snapshot import Objects

_MIN_CYCLES: Final = 50
"""Cycles after which preemption of few Workloads is said to go round in circles."""
_MAX_TRIED: Final = 1_000_000
"""Workloads in all cycles together: a cycle looks at each one."""
_UNCHANGED_CYCLES: Final = 6
"""Cycles without a change after which nothing changes any more."""


class Manager:
    """Runs scheduling cycles. `evicted`: keys of Workloads that lost their quota.

    `is_reversed`: Kueue iterates over maps, so chance decides between equal ClusterQueues, Cohorts and their heads.
    The order is that of their names, or the opposite one.
    """

    def __init__(self, objects: Objects, now: float, *, is_reversed: bool = False) -> None:
        self._objects, self._is_reversed = objects, is_reversed
        self.now = now
        self.active = objects.active_cluster_queues()
        self.queues = {name: PendingQueue(spec) for name, spec in objects.cluster_queues.items()}
        self._held = {name: Held() for name in objects.cluster_queues}
        self.evicted: set[str] = set()
        self._is_unchanged = False
        charge(len(objects.workloads))
        for key, workload in sorted(objects.workloads.items()):
            charge(20)
            if workload.has_quota:
                self._hold(Info.from_workload(workload, ""))
            elif workload.is_active and workload.is_queueable and (queue := self._queue_of(workload)) is not None:
                queue.heap[key] = self._waiting(workload)

    @property
    def holders(self) -> dict[str, Info]:
        """The Workloads with quota, by key."""
        return {key: info for held in self._held.values() for key, info in held.workloads.items()}

    def _hold(self, info: Info) -> None:
        """Add a Workload with quota, or replace it."""
        self._held.setdefault(info.cluster_queue, Held()).replace(info.key, info)

    def _queue_of(self, workload: Workload) -> PendingQueue | None:
        local_queue = self._objects.local_queue_of(workload)
        return self.queues.get(local_queue.cluster_queue) if local_queue else None

    def _waiting(self, workload: Workload) -> Info:
        local_queue = self._objects.local_queue_of(workload)
        ranges = self._objects.limit_ranges.get(workload.namespace, ())
        workload = with_adjusted_resources(workload, ranges, self._objects.configuration)
        return Info.from_workload(workload, local_queue.cluster_queue if local_queue else "")

    def snapshot(self) -> Snapshot:
        objects = self._objects
        return take_snapshot(
            objects.cluster_queues,
            objects.cohorts,
            objects.flavors,
            self._held,
            self.active,
            is_reversed=self._is_reversed,
        )

    def cycle(self) -> list[Entry]:
        """Run one cycle and what follows it within a second. Returns what it decided, in order."""
        snapshot = self.snapshot()
        heads = [
            head
            for name in sorted(self.active, reverse=self._is_reversed)
            if (head := self.queues[name].pop()) is not None
        ]
        faults = {head.key: fault for head in heads if (fault := self._fault(head)) is not None}
        entries = Cycle(snapshot, self.now, self._objects.configuration).schedule(heads, faults)
        for entry in entries:
            if entry.outcome is not Outcome.ADMITTED:
                self.queues[entry.cq.name].requeue(entry.info, entry.requeue_reason, self.now)
        for entry in sorted(entries, key=lambda entry: entry.info.key):
            self._update(entry)
        self.now += 1
        self._release(snapshot)
        return entries

    def _fault(self, info: Info) -> tuple[str, RequeueReason] | None:
        """Return why a head is not tried, and its reason to be queued again. Source: `ValidateAdmissibility`."""
        if info.obj.namespace not in self._objects.namespaces:
            return f'workload namespace "{info.obj.namespace}" does not exist', RequeueReason.GENERIC
        if not self._matches_namespace(info):
            message = "workload namespace doesn't match ClusterQueue selector"
            return message, RequeueReason.NAMESPACE_MISMATCH
        fault = resources_fault(info.obj, self._objects.limit_ranges.get(info.obj.namespace, ()))
        return None if fault is None else (fault, RequeueReason.GENERIC)

    def _matches_namespace(self, info: Info) -> bool:
        selector = self._objects.cluster_queues[info.cluster_queue].namespace_selector
        labels = self._objects.namespaces.get(info.obj.namespace)
        return selector is not None and labels is not None and selector.matches(labels)

    def _update(self, entry: Entry) -> None:
        """Deliver the new status of a head and of the Workloads that it preempts."""
        workload, cq = entry.info.obj, entry.cq.name
        if entry.outcome is Outcome.ADMITTED:
            admission = _admission(cq, entry.assignment)
            workload = replace(workload, admission=admission, reserved_at=int(self.now), is_evicted=False, message=None)
            self._hold(Info.from_workload(workload, cq))
            self.queues[cq].delete(workload.key)
            self._held[cq].generation += 1
        elif workload.message != entry.message:
            # the copy in the queue is replaced, which forgets the flavor to try next
            self.queues[cq].push_or_update(Info.from_workload(replace(workload, message=entry.message), cq), self.now)
        for target in entry.targets if entry.outcome is Outcome.PREEMPTING else ():
            if not target.info.obj.is_evicted:
                self._hold(Info.from_workload(replace(target.info.obj, is_evicted=True), target.info.cluster_queue))
                self._held[target.info.cluster_queue].generation += 1

    def _release(self, snapshot: Snapshot) -> None:
        """Take the quota of evicted Workloads, and queue them and inadmissible Workloads again."""
        freed: set[str] = set()
        charge(len(self.queues) + sum(len(held.workloads) for held in self._held.values()) // 4)
        evicted = {key: info for key, info in self.holders.items() if info.obj.is_evicted}
        for key, info in sorted(evicted.items()):
            self.evicted.add(key)
            held = self._held[info.cluster_queue]
            held.replace(key, None)
            held.generation += 1
            waiting = replace(info.obj, admission=None, reserved_at=None, message="")
            if (queue := self._queue_of(waiting)) is not None:
                info = self._waiting(waiting)
                queue.push_or_update(info, self.now)
                freed.add(info.cluster_queue)
        for name in _in_same_trees(freed, snapshot):
            self.queues[name].queue_inadmissible(self._matches_namespace, self.now)

    def cycles(self) -> Iterator[list[Entry]]:
        """Run cycles until nothing changes any more, which `is_quiet` then reports. Yields what each decided.

        Ends earlier after two cycles for each waiting Workload, to preempt and to be admitted, and some more.
        """
        unchanged, before = 0, self._state()
        waiting = sum(len(queue.heap) for queue in self.queues.values())
        affordable = _MAX_TRIED // (1 + waiting + len(self.holders))
        for _ in range(max(_MIN_CYCLES, min(_MIN_CYCLES + 2 * waiting, affordable))):
            if self.is_quiet:
                return
            yield self.cycle()
            state = self._state()
            unchanged = unchanged + 1 if state == before else 0
            before = state
            self._is_unchanged = unchanged == _UNCHANGED_CYCLES

    @property
    def is_quiet(self) -> bool:
        """Whether cycles change nothing any more."""
        return self._is_unchanged or not any(self.queues[name].heap for name in self.active)

    def _state(self) -> tuple[object, ...]:
        waiting = ((frozenset(queue.heap), frozenset(queue.inadmissible)) for queue in self.queues.values())
        return frozenset(self.holders), tuple(waiting)


def _admission(cluster_queue: str, assignment: Assignment) -> Admission:
    """Return the quota of an admitted head. Source: `Assignment.ToAPI`."""
    return Admission(
        cluster_queue,
        tuple(
            PodSetAssignment(
                each.name,
                {resource: flavor.name for resource, flavor in each.flavors.items()},
                {resource: each.requests[resource] for resource in each.flavors},
                each.count,
            )
            for each in assignment.pod_sets
        ),
    )


def _in_same_trees(names: Iterable[str], snapshot: Snapshot) -> list[str]:
    """Return the ClusterQueues in the same trees of cohorts as some of them, in order."""
    nodes = [snapshot.cluster_queues[name] for name in names if name in snapshot.cluster_queues]
    alone = {node.name for node in nodes if node.parent is None}
    roots: set[CohortSnapshot] = {node.parent.root for node in nodes if node.parent is not None}
    return sorted(
        name
        for name, node in snapshot.cluster_queues.items()
        if name in alone or (node.parent is not None and node.parent.root in roots)
    )
