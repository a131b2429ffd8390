"""The cluster as one scheduling cycle sees it. Source: kubernetes `pkg/scheduler/backend/cache/snapshot.go`."""

from __future__ import annotations

import operator
from collections import ChainMap
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from policies.metering import each, held, meter
from policies.scheduling.columns import Columns
from policies.scheduling.devices.claims import classes_of_resources
from policies.scheduling.devices.pools import Pools
from policies.scheduling.devices.selectors import Selectors, selectors_of
from policies.scheduling.evictions import charged_budgets, emptied_nominations, without_nominations
from policies.scheduling.node_info import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

    from policies.objects.devices import DeviceClass, DeviceId, ResourceClaim
    from policies.objects.disruption_budget import PodDisruptionBudget
    from policies.objects.pod import Pod
    from policies.objects.storage import PersistentVolume, VolumeAttachment
    from policies.scheduling.cluster_objects import ClusterObjects
    from policies.semantics import Semantics

K = TypeVar("K")
V = TypeVar("V")

_KEPT: Final = (
    ("budgets", "budgets"),
    ("nominations", "nominated"),
    ("image_states", "nodes"),
    ("volumes_of_class", "volumes"),
    ("attachments", "attachments"),
)
"""What is worked out once -> the table that it is worked out of: as long as that is the same, it holds."""
_CLONING: Final = 8
"""Units that a copy of a node costs, and its place in the tables."""


class DerivedTables:
    """What is worked out for one set of nodes and goes on being of use: snapshots of the same nodes share it.

    Whoever takes something from it holds `lock`, and brings it up to date first: another snapshot may have had it.
    """

    __slots__ = ("lock", "matrix")

    def __init__(self) -> None:
        self.lock = RLock()
        self.matrix: Any = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """With the lock; what is metered meanwhile knows that others wait for it."""
        with self.lock, held():
            yield


class Snapshot:
    """Nodes with their pods, by name, and everything else that plugins look up. Immutable; any thread may read it."""

    def __init__(
        self,
        objects: ClusterObjects,
        node_infos: Sequence[NodeInfo],
        columns: Columns,
        base: Snapshot | None = None,
    ) -> None:
        """`base`: a snapshot of the same nodes, in other states maybe."""
        self.objects = objects
        self.node_infos = node_infos
        self.columns = columns
        self.rows: Mapping[str, int] = base.rows if base else {info.name: row for row, info in enumerate(node_infos)}
        """Node name -> its place in `node_infos` and in the columns."""
        self.derived: DerivedTables = base.derived if base else DerivedTables()
        self.budgets_before: Mapping[str, tuple[PodDisruptionBudget, ...]] = {}
        """Those of an older snapshot."""
        if base:
            self.budgets_before = base.__dict__.get("budgets", base.budgets_before)
        for name, table in _KEPT:
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
        """The snapshot of these objects. `base`: an older one that differs in `dirty` nodes alone (None: in all).
        `in_place`: nobody uses that any longer, and its tables become those of the new one."""
        if base is None or dirty is None:
            return cls._rebuild(objects, {})
        gone = [name for name in dirty if name in base.rows and ("", name) not in objects.nodes]
        if gone and base.objects.semantics == objects.semantics:
            base, dirty = base.without_nodes(gone), dirty.difference(gone)
        rows = base.rows
        if any((name in rows) != (("", name) in objects.nodes) for name in dirty):
            return cls._rebuild(objects, {info.name: info for info in base.node_infos if info.name not in dirty})
        infos = base.node_infos
        changed = {rows[name]: _next_info(objects, infos[rows[name]]) for name in dirty if name in rows}
        return base.with_node_infos(objects, changed, in_place=in_place)

    def without_nodes(self, names: Iterable[str]) -> Snapshot:
        """Without some of the nodes, and with what is derived of the others: it goes over to the new one.

        Its objects are still those of before.
        """
        rows = np.array(sorted(self.rows[name] for name in names), np.intp)
        gone = set(rows.tolist())
        left = [info for row, info in enumerate(self.node_infos) if row not in gone]
        found = Snapshot(self.objects, left, self.columns.without(rows))
        with self.derived.lock:
            matrix, self.derived.matrix = self.derived.matrix, None
            if matrix is not None:
                matrix.remove(rows)
                found.derived.matrix = matrix
        return found

    def with_node_infos(
        self, objects: ClusterObjects, changed: Mapping[int, NodeInfo], *, in_place: bool = False
    ) -> Snapshot:
        """The same nodes, some of them in another state. `in_place`: this snapshot is used up."""
        if not changed:
            return Snapshot(objects, self.node_infos, self.columns, self)
        node_infos = self.node_infos if in_place and isinstance(self.node_infos, list) else list(self.node_infos)
        for row, info in changed.items():
            node_infos[row] = info
        columns = self.columns.updated(changed.items(), in_place=in_place) or Columns.build(node_infos)
        return Snapshot(objects, node_infos, columns, self)

    def with_nodes(self, infos: Sequence[NodeInfo]) -> Snapshot:
        """With more nodes, behind those of before, whatever they are called. No node may be there already."""
        nodes = _over(self.objects.nodes, {("", info.name): info.node for info in infos})
        pods = _over(self.objects.pods_by_node, {info.name: tuple(info.pods) for info in infos})
        every = [*self.node_infos, *infos]
        columns = self.columns.with_more(infos) or Columns.build(every)
        return Snapshot(replace(self.objects, nodes=nodes, pods_by_node=pods), every, columns)

    @classmethod
    def _rebuild(cls, objects: ClusterObjects, clean: Mapping[str, NodeInfo]) -> Snapshot:
        names = sorted(name for _, name in objects.nodes)
        node_infos = [clean.get(name) or _node_info(objects, name) for name in names]
        return cls(objects, node_infos, Columns.build(node_infos))

    def with_pods(self, bound: Iterable[Pod], gone: Iterable[Pod]) -> Snapshot:
        """As it would be with these pods on their nodes, and those evicted and away.

        Budgets allow that much less, and nominations are gone that these pods had, or took from others.
        """
        bound, gone = list(bound), list(gone)
        changed: dict[str, NodeInfo] = {}
        work = meter()
        for pods, change in ((gone, NodeInfo.remove_pod), (bound, NodeInfo.add_pod)):
            for pod in pods:
                work.charge(2)
                if pod.node_name not in changed:
                    work.charge(_CLONING)
                    changed[pod.node_name] = self.node_infos[self.rows[pod.node_name]].clone()
                change(changed[pod.node_name], pod)
        nominated = emptied_nominations(self.objects.nominated, self.nominations, bound, gone)
        charged = charged_budgets(self.budgets, gone) if gone else {}
        return self.with_node_states(changed, _over(self.objects.nominated, nominated), charged)

    def with_node_states(
        self,
        changed: Mapping[str, NodeInfo],
        nominated: Mapping[str, tuple[Pod, ...]],
        charged: Mapping[tuple[str, str], PodDisruptionBudget],
    ) -> Snapshot:
        """With other pods on some nodes, by name, these nominated, and some budgets as evictions leave them."""
        pods_by_node = _over(self.objects.pods_by_node, {name: tuple(info.pods) for name, info in changed.items()})
        budgets = _over(self.objects.budgets, charged) if charged else self.objects.budgets
        objects = replace(self.objects, pods_by_node=pods_by_node, nominated=nominated, budgets=budgets)
        after = self.with_node_infos(objects, {self.rows[name]: info for name, info in changed.items()})
        if charged:
            after.__dict__["budgets"] = _replaced(self.budgets, charged)
        return after

    def with_budgets(self, changed: Mapping[tuple[str, str], PodDisruptionBudget]) -> Snapshot:
        """As it would be with these disruption budgets in the place of those of their names."""
        return self.with_node_states({}, self.objects.nominated, changed) if changed else self

    def with_preemptions(self, cycles: Sequence[tuple[Pod, str, Sequence[Pod]]]) -> Snapshot:
        """As the cycles of pods that preempt leave it, on nodes that differ: (pod, node, victims).

        The pods are nominated to their nodes, on which their victims are ending. Nominated pods of lower priority lose
        the node when somebody is evicted. Source: upstream `prepareCandidateAsync`.
        """
        changed: dict[str, NodeInfo] = {}
        nominated = without_nominations(self.objects.nominated, cycles)
        work = meter()
        for pod, node, victims in cycles:
            work.charge(_CLONING + 3 * len(victims))
            changed[node] = self.node_infos[self.rows[node]].clone()
            changed[node].end_pods(victims)
            nominated[node] = (*nominated.get(node, ()), replace(pod, nominated_node_name=node))
        evicted = [victim for _, _, victims in cycles for victim in victims]
        return self.with_node_states(changed, nominated, charged_budgets(self.budgets, evicted))

    def bound(self, pod: Pod, node: str) -> Pod:
        """The pod as it would be on a node of this snapshot."""
        carries = self.semantics.pods_carry_topology_labels
        return pod.bound_to(node, self.node_infos[self.rows[node]].node.labels if carries else {})

    @property
    def semantics(self) -> Semantics:
        """What the release of this cluster, and its scheduler's profiles, change."""
        return self.objects.semantics

    def get(self, name: str) -> NodeInfo | None:
        """The node of this name."""
        row = self.rows.get(name)
        return None if row is None else self.node_infos[row]

    def nominated_pods(self, node_name: str) -> tuple[Pod, ...]:
        """Pending pods that are nominated to the node and take up room there."""
        pods = self.objects.nominated.get(node_name, ())
        if not self.semantics.gated_nominations_count and any(pod.spec.gated for pod in pods):
            return tuple(pod for pod in pods if not pod.spec.gated)
        return pods

    @cached_property
    def lowest_grouped_priority(self) -> int | None:
        """The lowest priority of a pod on a node that belongs to a group, or of its group; None where there is none."""
        objects = self.objects
        priorities: set[int] = set()
        for pod in each(tuple(objects.grouped_pods.values())):
            group = objects.pod_groups.get((pod.namespace, pod.spec.pod_group))
            if pod.node_name:
                priorities |= {pod.effective_priority, *(() if group is None else (group.priority,))}
        return min(priorities, default=None)

    @cached_property
    def device_pools(self) -> Pools:
        """All slices of devices, by the nodes that reach them."""
        return Pools(self.objects.resource_slices.values())

    @cached_property
    def device_selectors(self) -> Selectors:
        """What selectors make of devices, as far as it has been asked for."""
        return selectors_of(self.objects.resource_slices)

    def with_claims(self, claims: Iterable[ResourceClaim]) -> Snapshot:
        """As it would be with these claims in the state in which they are given."""
        given = {(claim.namespace, claim.name): claim for claim in claims}
        if not given:
            return self
        objects = replace(self.objects, resource_claims={**self.objects.resource_claims, **given})
        return self.with_node_infos(objects, {})

    @cached_property
    def devices_in_use(self) -> frozenset[DeviceId]:
        """Devices that a claim has for itself; who has admin access does not keep others out."""
        allocations = (claim.allocation for claim in self.objects.resource_claims.values())
        return frozenset(d.id for a in allocations if a is not None for d in a.devices if not d.admin_access)

    @cached_property
    def extended_resources(self) -> Mapping[str, DeviceClass]:
        """Extended resource -> the DeviceClass that provides it where no device plugin does."""
        if not self.semantics.enabled("DRAExtendedResource") or not self.objects.device_classes:
            return {}
        return classes_of_resources(self.objects.device_classes)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Labels of a namespace, none where it is not known."""
        found = self.objects.namespaces.get(("", namespace))
        return found.labels if found else {}

    @cached_property
    def have_pods_with_affinity(self) -> list[NodeInfo]:
        """Nodes with pods that have affinity or anti-affinity to pods."""
        return [info for info in self.node_infos if info.pods_with_affinity]

    @cached_property
    def have_pods_with_required_anti_affinity(self) -> list[NodeInfo]:
        """Nodes with pods that have required anti-affinity."""
        return [info for info in self.node_infos if info.pods_with_required_anti_affinity]

    @cached_property
    def used_claims(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of every claim that a pod on a node uses."""
        return frozenset(
            (pod.namespace, volume.claim_name)
            for info in self.node_infos
            for pod in info.pods
            for volume in pod.spec.volumes
            if volume.claim_name is not None
        )

    @cached_property
    def image_states(self) -> Mapping[str, tuple[int, int]]:
        """Image name -> (bytes on the first node that has it, number of nodes that have it)."""
        states: dict[str, tuple[int, int]] = {}
        for info in self.node_infos:
            for name, size in info.node.images.items():
                first, nodes = states.get(name, (size, 0))
                states[name] = first, nodes + 1
        return states

    @cached_property
    def budgets(self) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
        """Namespace -> its disruption budgets; the very tuple of the last snapshot where none of them has changed."""
        by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for (namespace, _), budget in sorted(self.objects.budgets.items(), key=itemgetter(0)):
            by_namespace.setdefault(namespace, []).append(budget)
        before = self.budgets_before
        return {name: _unless_the_same(before.get(name, ()), budgets) for name, budgets in by_namespace.items()}

    @cached_property
    def nominations(self) -> Mapping[str, str]:
        """Identity of a nominated pod -> the node that it is nominated to."""
        return {pod.identity: node for node, pods in self.objects.nominated.items() for pod in pods}

    @cached_property
    def volumes_of_class(self) -> Mapping[str, list[PersistentVolume]]:
        """Storage class -> its volumes, by name."""
        found: dict[str, list[PersistentVolume]] = {}
        for _, volume in sorted(self.objects.volumes.items(), key=lambda item: item[0]):
            found.setdefault(volume.storage_class, []).append(volume)
        return found

    @cached_property
    def attachments(self) -> Mapping[str, list[VolumeAttachment]]:
        """Node name -> volumes attached to it."""
        found: dict[str, list[VolumeAttachment]] = {}
        for attachment in self.objects.attachments.values():
            found.setdefault(attachment.node_name, []).append(attachment)
        return found

    def check(self) -> None:
        """Raises AssertionError where what is kept up differs from what a rebuild gives."""
        fresh = Snapshot._rebuild(self.objects, {})
        assert [i.name for i in self.node_infos] == [i.name for i in fresh.node_infos], "nodes"
        assert self.rows == fresh.rows, "rows"
        for have, want in zip(self.node_infos, fresh.node_infos, strict=True):
            for field in NodeInfo.__slots__:
                if field == "serial":
                    continue
                if field == "scalars":
                    scalars = [{k: v for k, v in info.scalars.items() if v} for info in (have, want)]
                    assert scalars[0] == scalars[1], f"{have.name}: scalars"
                else:
                    assert getattr(have, field) == getattr(want, field), f"{have.name}: {field}"
        self._check_columns(fresh.columns)
        with self.derived.lock:
            if self.derived.matrix is not None:
                self.derived.matrix.sync(self)
                self.derived.matrix.check(self)

    def _check_columns(self, fresh: Columns) -> None:
        """Rows of resources that no node has any longer may stay: whoever asks for one fits nowhere, as without it."""
        for name, row in ((name, row) for row, name in enumerate(self.columns.resources)):
            for kind in ("allocatable", "requested"):
                have = getattr(self.columns, kind)[row]
                if name in fresh.resources:
                    assert np.array_equal(have, getattr(fresh, kind)[fresh.resources.index(name)]), f"{kind} {name}"
                elif kind == "allocatable":
                    assert not have.any(), f"{name} of nobody"
        assert np.array_equal(self.columns.non_zero, fresh.non_zero), "non-zero requests"
        assert self.columns.largest >= fresh.largest, "largest request"
        assert [info.serial for info in self.node_infos] == self.columns.serials.tolist(), "serials"
        assert set(fresh.resources) <= set(self.columns.resources), "resources without a row"


def _over(table: Mapping[K, V], changes: Mapping[K, V]) -> Mapping[K, V]:
    """A table with some of its entries replaced: two layers, however often that is done."""
    if not changes:
        return table
    layer, below = table.maps if isinstance(table, ChainMap) else ({}, cast("MutableMapping[K, V]", table))
    return ChainMap({**layer, **changes}, below)


def _unless_the_same(before: tuple[V, ...], now: Sequence[V]) -> tuple[V, ...]:
    """What is there now, as the tuple that it was where each is the very same."""
    if len(before) == len(now) and all(map(operator.is_, before, now)):
        return before
    return tuple(now)


def _replaced(
    budgets: Mapping[str, tuple[PodDisruptionBudget, ...]], changed: Mapping[tuple[str, str], PodDisruptionBudget]
) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
    """Budgets by namespace, some of them in another state."""
    found = dict(budgets)
    for namespace in {namespace for namespace, _ in changed}:
        found[namespace] = tuple(changed.get((namespace, budget.name), budget) for budget in found[namespace])
    return found


def _node_info(objects: ClusterObjects, name: str) -> NodeInfo:
    return NodeInfo(objects.nodes["", name], objects.pods_by_node.get(name, ()), objects.semantics)


def _next_info(objects: ClusterObjects, before: NodeInfo) -> NodeInfo:
    """A node as it is now, of which an older state is known."""
    node, pods = objects.nodes["", before.name], objects.pods_by_node.get(before.name, ())
    if node is before.node and objects.semantics == before.semantics:
        return before.with_pods(pods)
    return NodeInfo(node, pods, objects.semantics)
