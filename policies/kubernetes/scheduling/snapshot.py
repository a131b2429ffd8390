"""The cluster state of one scheduling cycle. Source: kubernetes `pkg/scheduler/backend/cache/snapshot.go`."""

from __future__ import annotations

import operator
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter, itemgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import numpy as np

from forewarn.policies.base.copies import replace
from forewarn.policies.base.cow_table import replaced
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import VECTOR, charging, holding_lock, limited, meter
from forewarn.policies.kubernetes.scheduling.devices.claims import InUse, Pools, classes_of_resources
from forewarn.policies.kubernetes.scheduling.devices.selectors import Selectors, selectors_of
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects, Ints, NodeInfo, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.objects.devices import DeviceClass, ResourceClaim
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.storage import VolumeAttachment
    from forewarn.policies.kubernetes.releases.semantics import Semantics

BASE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_INT64: Final = 2**63 - 1
_IMMENSE: Final = 2**60
T = TypeVar("T", bound=np.generic)


@dataclass(slots=True, eq=False)
class Columns:
    """The allocatable and requested resources of nodes as int64 arrays of shape [resource, node].

    Resources: cpu (millicores), memory and ephemeral-storage (bytes), pods (number), then all other resources of nodes.
    A request for another resource fits on no node, unless it is zero. `non_zero`: [2, node], cpu and memory as scores
    count them. `serials`: [node], serials of the NodeInfos. `largest`: an upper bound of all requested amounts.
    """

    resources: tuple[str, ...]
    allocatable: Ints
    requested: Ints
    non_zero: Ints
    serials: Ints
    largest: int = field(default=0, init=False)

    @classmethod
    def build(cls, node_infos: Sequence[NodeInfo]) -> Columns:
        """Return the columns of these nodes."""
        scalars = {name for info in node_infos for name in info.node.allocatable.scalars}
        resources = (*BASE_RESOURCES, *sorted(scalars))
        shape = (len(resources), len(node_infos))
        columns = cls(resources, *(np.zeros(size, np.int64) for size in (shape, shape, (2, shape[1]), shape[1])))
        for index, info in enumerate(node_infos):
            columns._set(index, info)
        return columns

    def updated(self, changed: Iterable[tuple[int, NodeInfo]], *, in_place: bool = False) -> Columns | None:
        """Return columns with changed nodes, given as (index, NodeInfo); None if a node has a resource that these
        columns lack.

        `in_place`: the new columns take over the arrays, and these columns must not be used afterwards.
        """
        names = set(self.resources)
        work = meter()
        if in_place:
            columns = Columns(self.resources, *self._tables())
        else:
            columns = Columns(self.resources, *(table.copy() for table in self._tables()))
            work.charge(self.requested.size // VECTOR)
        columns.largest = self.largest
        for index, info in changed:
            work.charge(6 + len(names) // 4)
            if not names.issuperset(info.node.allocatable.scalars):
                return None
            columns._set(index, info)
        if columns.largest >= _IMMENSE:  # the large request may no longer exist
            columns.largest = int(columns.requested.max(initial=0))
        return columns

    def _tables(self) -> tuple[Ints, ...]:
        return self.allocatable, self.requested, self.non_zero, self.serials

    def rearranged(self, origin: Rows, new: Sequence[NodeInfo] = ()) -> Columns | None:
        """Return the columns for another list of nodes; None if a new node has a resource that these columns lack.

        `origin`: see `picked`. `new`: in order, the nodes whose entry in `origin` is -1.
        """
        if not {*self.resources}.issuperset(name for info in new for name in info.node.allocatable.scalars):
            return None
        columns = Columns(self.resources, *(picked(table, origin) for table in self._tables()))
        columns.largest = self.largest
        for index, info in zip(np.flatnonzero(origin < 0).tolist(), new, strict=True):
            columns._set(index, info)
        return columns

    def _set(self, index: int, info: NodeInfo) -> None:
        has = info.node.allocatable
        self.serials[index] = info.serial
        self.allocatable[:4, index] = has.milli_cpu, has.memory, has.ephemeral_storage, has.allowed_pod_number
        requested = info.milli_cpu, info.memory, info.ephemeral_storage, len(info.pods)
        self.requested[:4, index] = [min(amount, _INT64) for amount in requested]
        self.non_zero[:, index] = min(info.non_zero_cpu, _INT64), min(info.non_zero_memory, _INT64)
        self.largest = max(self.largest, *requested)
        for row, name in enumerate(self.resources[4:], 4):
            amount = info.scalars.get(name, 0)
            self.allocatable[row, index] = has.scalars.get(name, 0)
            self.requested[row, index] = min(amount, _INT64)
            self.largest = max(self.largest, amount)


def picked(table: NDArray[T], origin: Rows) -> NDArray[T]:
    """Return a table ([..., node]) for other nodes. `origin`: [new row], the row in `table`; -1 for a node that is new,
    whose values are 0.
    """
    if not table.shape[-1]:
        return np.zeros((*table.shape[:-1], len(origin)), table.dtype)
    rows = table.take(origin, axis=-1)
    rows[..., origin < 0] = 0
    return rows


class NotValid(Exception):
    """The error if the numpy implementation does not support the Pod or its profile.

    The text, if any, is the reason.
    """


Key = tuple[str, str]


def charged_pdbs(
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    evicted: Iterable[Pod],
    earlier: Mapping[Key, PodDisruptionBudget] | None = None,
) -> dict[Key, PodDisruptionBudget]:
    """Return the PDBs that allow fewer disruptions after these evictions; see `changed_pdbs`."""
    return changed_pdbs(pdbs, ((pod, -int(pod.healthy)) for pod in evicted), earlier)


def changed_pdbs(
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    changes: Iterable[tuple[Pod, int]],
    earlier: Mapping[Key, PodDisruptionBudget] | None = None,
) -> dict[Key, PodDisruptionBudget]:
    """Return the PDBs that change if Pods become healthy (Pod, 1), become unhealthy (Pod, -1), or neither (Pod, 0), by
    (namespace, name).

    `pdbs`: namespace -> PDBs. `earlier`: PDBs that earlier changes replaced, included in the result. The number of
    desired healthy Pods does not change, because controllers recreate the Pods. Source: kubernetes
    `pkg/controller/disruption/disruption.go`, `countHealthyPods` and `updatePdbStatus`.
    """
    by_namespace: dict[Key, tuple[PodDisruptionBudget, int]] = {}
    for pod, change in changes:
        for pdb in charging(pdbs.get(pod.namespace, ()), 1) if change else ():
            if pdb.counts(pod):
                key = pdb.namespace, pdb.name
                by_namespace[key] = pdb, by_namespace.get(key, (pdb, 0))[1] + change
    changed = dict(earlier or {})
    for key, (pdb, change) in by_namespace.items():  # copies each PDB once: a preemption may evict many of its Pods
        if change:
            before = changed.get(key, pdb)
            changed[key] = replace(before, surplus=before.surplus + change)
    return changed


def may_be_violated(charged: Mapping[Key, PodDisruptionBudget], pods: Iterable[Pod]) -> bool:
    """Report whether the eviction of all these Pods would violate one of the PDBs."""
    left = {key: pdb.disruptions_allowed for key, pdb in charged.items()}
    by_namespace = grouped((pdb.namespace, pdb) for pdb in charged.values())
    for pod in pods:
        for pdb in charging(by_namespace.get(pod.namespace, ()), 1):
            if pdb.matches(pod.namespace, pod.labels):
                left[pdb.namespace, pdb.name] -= 1
    return any(count < 0 for count in left.values())


def victims_to_evict(victims: Iterable[Pod]) -> list[Pod]:
    """Return the victims to evict: those not terminating yet. Source: upstream `prepareCandidateAsync`."""
    return [victim for victim in victims if not victim.terminating]


def loses_nomination(pod: Pod, priority: int) -> bool:
    """Report whether a preemptor of this priority clears a nomination. Source: `getLowerPriorityNominatedPods`."""
    return pod.effective_priority < priority


def without_nominations(
    nominated: Mapping[str, Sequence[Pod]], places: Mapping[str, str], cycles: Iterable[tuple[Pod, str, Sequence[Pod]]]
) -> dict[str, tuple[Pod, ...]]:
    """Return node -> the Pods that are still nominated to the node after cycles, given as (Pod, node, victims); only
    nodes where nominations change.

    The Pods of the cycles are no longer nominated; see also `loses_nomination`. `places`: Pod identity -> its nominated
    node. Source: upstream `prepareCandidateAsync`, and the API server's binding.
    """
    highest: dict[str, int] = {}
    tried = set[str]()
    for pod, node, victims in cycles:
        if pod.identity in places:
            tried.add(pod.identity)
        if node in nominated and victims_to_evict(victims):
            highest[node] = max(pod.effective_priority, highest.get(node, pod.effective_priority))
    changed: dict[str, tuple[Pod, ...]] = {}
    for node in highest.keys() | {places[identity] for identity in tried}:
        priority, pods = highest.get(node), nominated[node]
        kept = [p for p in pods if p.identity not in tried and (priority is None or not loses_nomination(p, priority))]
        if len(kept) < len(pods):
            changed[node] = tuple(kept)
    return changed


class OlderPdbs(NamedTuple):
    """The PDBs of an older Snapshot. `table`: by (namespace, name). `pdbs`: see `pdbs_by_namespace`."""

    semantics: Semantics
    table: Mapping[tuple[str, str], PodDisruptionBudget]
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]]


def pdbs_by_namespace(
    objects: ClusterObjects, older: OlderPdbs | None
) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
    """Return namespace -> PDBs sorted by name. Namespaces without changes have the same tuple object as `older`."""
    honours_empty = objects.semantics.empty_selectors_count

    def counted(pdb: PodDisruptionBudget) -> PodDisruptionBudget:
        return replace(pdb, honours_empty=True) if honours_empty else pdb

    changed = replaced(older.table, objects.pdbs) if older and older.semantics == objects.semantics else None
    if older and changed is not None:
        return with_replaced(older.pdbs, {key: counted(pdb) for key, pdb in changed.items()})
    in_order = sorted(objects.pdbs.items(), key=itemgetter(0))
    by_namespace = grouped((namespace, counted(pdb)) for (namespace, _), pdb in in_order)
    before: Mapping[str, tuple[PodDisruptionBudget, ...]] = older.pdbs if older else {}
    return {name: _keep_if_equal(before.get(name, ()), pdbs) for name, pdbs in by_namespace.items()}


def with_replaced(
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]], changed: Mapping[tuple[str, str], PodDisruptionBudget]
) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
    """Return namespace -> PDBs, with the changed ones replaced. `changed`: (namespace, name) -> PDB."""
    by_namespace = dict(pdbs)
    for namespace in {namespace for namespace, _ in changed}:
        by_namespace[namespace] = tuple(changed.get((namespace, pdb.name), pdb) for pdb in by_namespace[namespace])
    return by_namespace


def _keep_if_equal(
    before: tuple[PodDisruptionBudget, ...], now: Sequence[PodDisruptionBudget]
) -> tuple[PodDisruptionBudget, ...]:
    return before if len(before) == len(now) and all(map(operator.is_, before, now)) else tuple(now)


class DerivedTables:
    """Values derived from one set of nodes, shared by Snapshots of these nodes.

    Hold `lock` to read a value, and update the value first: another Snapshot may have changed it.
    """

    __slots__ = ("lock", "matrix", "node_tree", "recurring", "states")

    def __init__(self) -> None:
        self.lock = RLock()
        self.matrix: Any = None
        self.node_tree: Any = None
        """The nodes by zone, with the table of nodes that it contains (scheduler_cache.py)."""
        self.recurring: Any = None
        """The repeated cycles that simulations of these nodes share (recurring_cycle.py)."""
        self.states: Any = None
        """The states of nodes that Pods of a template share (ties.py)."""

    def locked(self) -> AbstractContextManager[object]:
        """Hold the lock as a context manager, and report to a meter with limits that other threads wait."""
        return self._reported() if limited() else self.lock

    @contextmanager
    def _reported(self) -> Iterator[None]:
        with self.lock, holding_lock():
            yield


K = TypeVar("K")
V = TypeVar("V")

_SHARED_TABLES: Final = (
    ("pdbs", "pdbs"),
    ("nominations", "nominated"),
    ("image_states", "nodes"),
    ("attachments", "attachments"),
    ("device_pools", "resource_slices"),
    ("devices_in_use", "resource_claims"),
)
"""Derived value -> its source table: the value is valid as long as the table is the same object."""
_CLONING: Final = 8
"""Units of work to copy a NodeInfo and update the tables."""


class Snapshot:
    """The nodes with their Pods, and all other input of plugins, at one moment.

    Immutable; safe to read from any thread.
    """

    def __init__(
        self, objects: ClusterObjects, node_infos: Sequence[NodeInfo], columns: Columns, base: Snapshot | None = None
    ) -> None:
        """`base`: a Snapshot with the same nodes, perhaps with other Pods, whose derived values are reused."""
        self.objects = objects
        self.node_infos = node_infos
        self.columns = columns
        self.rows: Mapping[str, int] = base.rows if base else {info.name: row for row, info in enumerate(node_infos)}
        """Node name -> index in `node_infos` and in the columns."""
        self.derived: DerivedTables = base.derived if base else DerivedTables()
        self.older_pdbs: OlderPdbs | None = None
        """The PDBs of an older Snapshot."""
        if base:
            pdbs = base.__dict__.get("pdbs")
            own = None if pdbs is None else OlderPdbs(base.semantics, base.objects.pdbs, pdbs)
            self.older_pdbs = own or base.older_pdbs
        for name, table in _SHARED_TABLES:
            if base and name in base.__dict__ and getattr(base.objects, table) is getattr(objects, table):
                self.__dict__[name] = base.__dict__[name]

    @classmethod
    def build(
        cls,
        objects: ClusterObjects,
        base: Snapshot | None = None,
        dirty: frozenset[str] | None = None,
        *,
        in_place: bool = False,
    ) -> Snapshot:
        """Return the Snapshot of these objects.

        `base`: an older Snapshot that differs only in the nodes `dirty` (None: all). `in_place`: the new Snapshot takes
        over the tables of `base`, which must not be used afterwards.
        """
        if base is None or dirty is None:
            return cls._rebuild(objects, {})
        others = {name for name in dirty if (name in base.rows) != (("", name) in objects.nodes)}
        if others and base.objects.semantics != objects.semantics:
            return cls._rebuild(objects, {info.name: info for info in base.node_infos if info.name not in dirty})
        base, dirty = base.with_other_nodes(objects, others) if others else base, dirty.difference(others)
        rows, infos = base.rows, base.node_infos
        changed = {rows[name]: _node_info(objects, name, infos[rows[name]]) for name in dirty if name in rows}
        return base.with_node_infos(objects, changed, in_place=in_place)

    def with_other_nodes(self, objects: ClusterObjects, names: Collection[str]) -> Snapshot:
        """Return a Snapshot with these objects: the nodes of `names` that this Snapshot has are removed, the others are
        added. It takes over the derived values. The nodes must be sorted by name.
        """
        new = {name: _node_info(objects, name) for name in sorted(names) if name not in self.rows}
        kept = [info for info in self.node_infos if info.name not in names]
        infos = sorted([*kept, *new.values()], key=attrgetter("name"))
        origin = np.array([-1 if info.name in new else self.rows[info.name] for info in infos], np.intp)
        columns = self.columns.rearranged(origin, [*new.values()]) or Columns.build(infos)
        snapshot = Snapshot(objects, infos, columns)
        with self.derived.lock:
            matrix, self.derived.matrix = self.derived.matrix, None
            if matrix is not None:
                matrix.rearrange(origin)
                snapshot.derived.matrix = matrix
        return snapshot

    def with_node_infos(
        self, objects: ClusterObjects, changed: Mapping[int, NodeInfo], *, in_place: bool = False
    ) -> Snapshot:
        """Return a Snapshot with these objects and changed nodes (row -> NodeInfo).

        `in_place`: the new Snapshot takes over the tables; this Snapshot must not be used afterwards.
        """
        if not changed:
            return Snapshot(objects, self.node_infos, self.columns, self)
        node_infos = self.node_infos if in_place and isinstance(self.node_infos, list) else list(self.node_infos)
        for row, info in changed.items():
            node_infos[row] = info
        columns = self.columns.updated(changed.items(), in_place=in_place) or Columns.build(node_infos)
        return Snapshot(objects, node_infos, columns, self)

    def with_nodes(self, infos: Sequence[NodeInfo]) -> Snapshot:
        """Return a Snapshot with these nodes appended. No node of this Snapshot may have the same name."""
        nodes = _layered(self.objects.nodes, {("", info.name): info.node for info in infos})
        pods = _layered(self.objects.pods_by_node, {info.name: tuple(info.pods) for info in infos})
        every = [*self.node_infos, *infos]
        origin = np.append(np.arange(len(self.node_infos)), np.full(len(infos), -1))
        columns = self.columns.rearranged(origin, infos) or Columns.build(every)
        return Snapshot(replace(self.objects, nodes=nodes, pods_by_node=pods), every, columns)

    @classmethod
    def _rebuild(cls, objects: ClusterObjects, clean: Mapping[str, NodeInfo]) -> Snapshot:
        names = sorted(name for _, name in objects.nodes)
        node_infos = [clean.get(name) or _node_info(objects, name) for name in names]
        return cls(objects, node_infos, Columns.build(node_infos))

    def with_pods(self, bound: Iterable[Pod], removed: Iterable[Pod]) -> Snapshot:
        """Return a Snapshot with the Pods `bound` added to their nodes, and the Pods `removed` evicted and removed.

        PDBs of evicted Pods allow fewer disruptions. Removes nominations of bound Pods, and nominations that preemptors
        clear.
        """
        bound, removed = list(bound), list(removed)
        changed: dict[str, NodeInfo] = {}
        work = meter()
        for pods, change in ((removed, NodeInfo.remove_pod), (bound, NodeInfo.add_pod)):
            for pod in pods:
                work.charge(2)
                if pod.node_name not in changed:
                    work.charge(_CLONING)
                    changed[pod.node_name] = self.node_infos[self.rows[pod.node_name]].clone()
                change(changed[pod.node_name], pod)
        evicted = grouped((pod.node_name, pod) for pod in removed)
        cycles = ((pod, pod.node_name, evicted.get(pod.node_name, ())) for pod in bound)
        charged = charged_pdbs(self.pdbs, removed) if removed else {}
        nominated = without_nominations(self.objects.nominated, self.nominations, cycles)
        return self.with_node_states(changed, _layered(self.objects.nominated, nominated), charged)

    def with_node_states(
        self,
        changed: Mapping[str, NodeInfo],
        nominated: Mapping[str, tuple[Pod, ...]],
        charged: Mapping[tuple[str, str], PodDisruptionBudget],
    ) -> Snapshot:
        """Return a Snapshot with changed nodes (name -> NodeInfo), other nominations and changed PDBs.

        `nominated`: node -> all Pods nominated to it. `charged`: (namespace, name) -> PDB after evictions.
        """
        pods_by_node = _layered(self.objects.pods_by_node, {name: tuple(info.pods) for name, info in changed.items()})
        pdbs = _layered(self.objects.pdbs, charged) if charged else self.objects.pdbs
        objects = replace(self.objects, pods_by_node=pods_by_node, nominated=nominated, pdbs=pdbs)
        after = self.with_node_infos(objects, {self.rows[name]: info for name, info in changed.items()})
        if charged:
            after.__dict__["pdbs"] = with_replaced(self.pdbs, charged)
        return after

    def with_pdbs(self, changed: Mapping[tuple[str, str], PodDisruptionBudget]) -> Snapshot:
        """Return a Snapshot in which these PDBs replace those of the same (namespace, name)."""
        return self.with_node_states({}, self.objects.nominated, changed) if changed else self

    def with_preemptions(
        self, cycles: Sequence[tuple[Pod, str, Sequence[Pod]]], *, for_group: bool = False
    ) -> Snapshot:
        """Return the Snapshot after preemptions on different nodes, given as (preemptor, node, victims).

        The preemptors are nominated, and their victims are terminating. Nominated Pods with lower priority than the
        preemptor lose their nomination to a node with victims, unless a PodGroup preempts (`for_group`): upstream then
        looks for them on a node named "cluster". Source: upstream `prepareCandidateAsync`.
        """
        changed: dict[str, NodeInfo] = {}
        nominated = {**self.objects.nominated}
        losing = [(pod, node, ()) for pod, node, _ in cycles] if for_group else cycles
        nominated.update(without_nominations(self.objects.nominated, self.nominations, losing))
        work = meter()
        for pod, node, victims in cycles:
            work.charge(_CLONING + 3 * len(victims))
            for name in dict.fromkeys((node, *(victim.node_name for victim in victims))):
                if name not in changed:
                    changed[name] = self.node_infos[self.rows[name]].clone()
                changed[name].end_pods([victim for victim in victims if victim.node_name == name])
            nominated[node] = (*nominated.get(node, ()), replace(pod, nominated_node_name=node))
        evicted = [victim for _, _, victims in cycles for victim in victims]
        return self.with_node_states(changed, nominated, charged_pdbs(self.pdbs, evicted))

    def without_nominations(self, pods: Iterable[Pod]) -> Snapshot:
        """Return the Snapshot without the nominations of these Pods. kube-scheduler ignores the nominations of the Pods
        it tries.

        Source: upstream `nominatedPodToInfo`.
        """
        cycles = ((pod, "", ()) for pod in pods)
        changed = without_nominations(self.objects.nominated, self.nominations, cycles)
        return self.with_node_states({}, {**self.objects.nominated, **changed}, {}) if changed else self

    def bound(self, pod: Pod, node: str) -> Pod:
        """Return the Pod bound to the node, with the node's topology labels if the release copies them."""
        carries = self.semantics.pods_carry_topology_labels
        return pod.bound_to(node, self.node_infos[self.rows[node]].node.labels if carries else {})

    @property
    def semantics(self) -> Semantics:
        """The semantics of the cluster's release and its scheduler profiles."""
        return self.objects.semantics

    def get(self, name: str) -> NodeInfo | None:
        """Return the NodeInfo of the node `name`, or None."""
        row = self.rows.get(name)
        return None if row is None else self.node_infos[row]

    def nominated_pods(self, node_name: str) -> tuple[Pod, ...]:
        """Return the Pending Pods that are nominated to the node and count for its resources."""
        pods = self.objects.nominated.get(node_name, ())
        if self.semantics.gated_nominations_count or not any(pod.spec.gated for pod in pods):
            return pods
        return tuple(pod for pod in pods if not is_gated(pod, self.semantics))

    @property
    def preempts_by_group(self) -> bool:
        return self.objects.semantics.groups_are_preempted_together and self.objects.has_pod_groups

    @cached_property
    def pods_of_groups(self) -> Mapping[tuple[str, str], tuple[Pod, ...]]:
        """(namespace, name) of each PodGroup -> its Pods on all nodes, also on removed nodes.

        Empty unless preemption treats PodGroups as units.
        """
        if not self.preempts_by_group:
            return {}
        lost = [pods for name, pods in self.objects.pods_by_node.items() if name not in self.rows]
        members = (pod for pods in (*(info.pods for info in charging(self.node_infos)), *lost) for pod in pods)
        groups = grouped(((pod.namespace, pod.spec.pod_group), pod) for pod in members if pod.spec.pod_group)
        return {key: tuple(sorted(pods, key=lambda pod: pod.name)) for key, pods in groups.items()}

    @cached_property
    def _lowest_grouped_priority(self) -> int | None:
        """The lowest priority of PodGroups with Pods on nodes, and of these Pods; None without any."""
        groups, pods = self.objects.pod_groups, [pod for pods in self.pods_of_groups.values() for pod in pods]
        own = {pod.effective_priority if pod.node_name in self.rows else -(2**32) for pod in pods}
        return min(own | {groups[key].priority for key in self.pods_of_groups if key in groups}, default=None)

    def may_preempt_groups(self, priority: int) -> bool:
        """Report whether preemption by a Pod with this priority may affect Pods of PodGroups."""
        if not self.preempts_by_group:
            return False
        lowest = self._lowest_grouped_priority
        return lowest is not None and priority > lowest

    @cached_property
    def device_pools(self) -> Pools:
        return Pools(self.objects.resource_slices.values(), self.semantics)

    @cached_property
    def device_selectors(self) -> Selectors:
        return selectors_of(self.objects.resource_slices)

    def with_claims(self, claims: Iterable[ResourceClaim]) -> Snapshot:
        """Return a Snapshot in which these ResourceClaims replace those of the same name."""
        given = {(claim.namespace, claim.name): claim for claim in claims}
        if not given:
            return self
        objects = replace(self.objects, resource_claims={**self.objects.resource_claims, **given})
        return self.with_node_infos(objects, {})

    @cached_property
    def devices_in_use(self) -> InUse:
        return InUse.from_allocations(claim.allocation for claim in self.objects.resource_claims.values())

    @cached_property
    def extended_resources(self) -> Mapping[str, DeviceClass]:
        """Extended resource -> the DeviceClass that provides the resource on nodes without a device plugin for it."""
        if not self.semantics.enabled("DRAExtendedResource") or not self.objects.device_classes:
            return {}
        return classes_of_resources(self.objects.device_classes)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if the namespace is unknown."""
        view = self.objects.namespaces.get(("", namespace))
        return view.labels if view else {}

    @cached_property
    def have_pods_with_required_anti_affinity(self) -> list[NodeInfo]:
        return [info for info in self.node_infos if info.pods_with_required_anti_affinity]

    @cached_property
    def used_claims(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of every PersistentVolumeClaim that a Pod on a node uses."""
        return frozenset(
            (pod.namespace, volume.claim_name)
            for info in self.node_infos
            for pod in info.pods
            for volume in pod.spec.volumes
            if volume.claim_name is not None
        )

    @cached_property
    def image_states(self) -> Mapping[str, tuple[int, int]]:
        """Image name -> (size in bytes on the first node with the image, number of nodes with the image)."""
        states: dict[str, tuple[int, int]] = {}
        for info in self.node_infos:
            for name, size in info.node.images.items():
                first, nodes = states.get(name, (size, 0))
                states[name] = first, nodes + 1
        return states

    @cached_property
    def pdbs(self) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
        return pdbs_by_namespace(self.objects, self.older_pdbs)

    @cached_property
    def nominations(self) -> Mapping[str, str]:
        return {pod.identity: node for node, pods in self.objects.nominated.items() for pod in pods}

    @cached_property
    def attachments(self) -> Mapping[str, list[VolumeAttachment]]:
        """Node name -> its VolumeAttachments."""
        return grouped((attachment.node_name, attachment) for attachment in self.objects.attachments.values())


def _layered(table: Mapping[K, V], changes: Mapping[K, V]) -> Mapping[K, V]:
    """Return a table with the entries `changes` added or replaced. The result has at most two layers."""
    if not changes:
        return table
    layer, below = table.maps if isinstance(table, ChainMap) else ({}, cast("MutableMapping[K, V]", table))
    return ChainMap({**layer, **changes}, below)


def _node_info(objects: ClusterObjects, name: str, before: NodeInfo | None = None) -> NodeInfo:
    """Return the NodeInfo of a node by the current objects. Reuses `before` for Pods that did not change."""
    node, pods = objects.nodes["", name], objects.pods_by_node.get(name, ())
    if before is not None and node is before.node and objects.semantics == before.semantics:
        return before.with_pods(pods)
    return NodeInfo(node, pods, objects.semantics)
