"""The state of quota in a scheduling cycle. Source: kueue pkg/cache/scheduler/snapshot.go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.kubernetes.objects.kueue import ClusterQueue, Cohort, ResourceFlavor, saturated
from forewarn.policies.prediction.kueue.resource_node import ClusterQueueSnapshot, CohortSnapshot

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.kueue import Quantities
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
