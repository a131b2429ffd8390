"""Build the next Snapshot after changes of objects. Only changed nodes are rebuilt, when the Snapshot is first used.

Imports numpy only to build a Snapshot. Source: kubernetes `pkg/scheduler/backend/cache/cache.go`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from forewarn.policies.base.cow_table import FrozenTable, Table
from forewarn.policies.base.metering import holding_lock
from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.storage import PersistentVolumeClaim
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


class LazySnapshot:
    """A Snapshot that is built on first use, from an older Snapshot if one exists."""

    __slots__ = ("_base", "_built", "_dirty", "_lock", "is_prepared", "objects")

    def __init__(
        self, objects: ClusterObjects, base: Snapshot | None = None, dirty: frozenset[str] | None = None
    ) -> None:
        """Set the objects of the Snapshot. `dirty`: names of nodes that differ from `base`."""
        self.objects = objects
        self._base, self._dirty = base, dirty
        self._built: Snapshot | None = None
        self._lock = Lock()
        self.is_prepared = False
        """Whether the values that the first prediction needs are computed (bulk.py)."""

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> LazySnapshot:
        """Return a LazySnapshot for a Snapshot that is already built."""
        lazy = cls(snapshot.objects)
        lazy._built = snapshot
        return lazy

    @property
    def built(self) -> Snapshot | None:
        """The Snapshot, or None if it was not used yet."""
        return self._built

    def get(self) -> Snapshot:
        """Return the Snapshot; build it on the first call. Safe from any thread."""
        if self._built is None:
            from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

            with self._lock, holding_lock():
                if self._built is None:
                    self._built = Snapshot.build(self.objects, self._base, self._dirty)
                    self._base = None
        return self._built


class PodsByNode:
    """The Pods on each node and nominated to each node, and the names of nodes that changed since the last Snapshot."""

    def __init__(self) -> None:
        """Start without Pods."""
        self.by_node: Table[str, tuple[Pod, ...]] = Table()
        self.nominated: Table[str, tuple[Pod, ...]] = Table()
        self._binding: dict[tuple[str, str], Pod] = {}
        """Nominated Pods with claims. A Pod counts as bound to its node while kube-scheduler binds its volumes."""
        self._bound: dict[tuple[str, str], Pod] = {}
        """The Pods of `_binding` that count as bound, with their node set."""
        self._schedulers = frozenset({DEFAULT_SCHEDULER})
        self._last: LazySnapshot | None = None
        self._base: Snapshot | None = None
        self._since_base: set[str] = set()
        self.since_last: set[str] = set()
        """Names of nodes that changed since the last snapshot."""

    def copy(self) -> PodsByNode:
        """Return the same Pods; later changes of one do not affect the other."""
        pods = copy(self)
        names = ("by_node", "nominated", "_binding", "_bound", "_since_base", "since_last")
        vars(pods).update({name: vars(self)[name].copy() for name in names})
        return pods

    def change_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Record a created (`old` None), changed, or deleted (`new` None) Pod."""
        if old is not None:
            self._take(old)
        if new is None or new.terminal:
            return
        if new.node_name:
            _append(self.by_node, new.node_name, new)
            self.change_node(new.node_name)
        elif new.nominated_node_name and responsible_for_pod(new, self._schedulers):
            _append(self.nominated, new.nominated_node_name, new)
            if not new.spec.gated and any(volume.claim_of(new.name) for volume in new.spec.volumes):
                self._binding[new.namespace, new.name] = new

    def set_schedulers(self, names: Collection[str], pods: Iterable[Pod]) -> None:
        """Set the profiles' scheduler names: nominations of other schedulers' Pods do not count. `pods`: all Pods."""
        if frozenset(names) == self._schedulers:
            return
        nominated = [pod for pod in pods if pod.nominated_node_name and not pod.node_name]
        for pod in nominated:
            self._take(pod)
        self._schedulers = frozenset(names)
        for pod in nominated:
            self.change_pod(None, pod)

    def change_node(self, name: str) -> None:
        """Record a created, changed or deleted node."""
        self._since_base.add(name)
        self.since_last.add(name)

    def tables(
        self, claims: Mapping[tuple[str, str], PersistentVolumeClaim]
    ) -> tuple[FrozenTable[str, tuple[Pod, ...]], FrozenTable[str, tuple[Pod, ...]]]:
        """Return immutable tables (Pods by node, nominated Pods by node)."""
        for key, pod in self._binding.items():
            if being_bound(pod, claims) != (key in self._bound):
                self._move(key, pod)
        return self.by_node.freeze(), self.nominated.freeze()

    def take_changed(self) -> frozenset[str]:
        """Return the names of nodes that changed since the last snapshot or call."""
        changed, self.since_last = frozenset(self.since_last), set()
        return changed

    def next_snapshot(self, objects: ClusterObjects) -> LazySnapshot:
        """Return a Snapshot of `objects`. Nodes that did not change since the last built Snapshot are reused."""
        if self._last is not None:
            if _same(self._last.objects, objects):
                return self._last
            if self._last.objects.semantics != objects.semantics:
                self._base = None  # the tables depend on the semantics
            elif self._last.built is not None:
                self._base, self._since_base = self._last.built, self.since_last
        self.since_last = set()
        dirty = None if self._base is None else frozenset(self._since_base)
        self._last = LazySnapshot(objects, self._base, dirty)
        return self._last

    def _move(self, key: tuple[str, str], pod: Pod) -> None:
        bound = self._bound.pop(key, None)
        if bound is None:
            bound = self._bound[key] = replace(pod, node_name=pod.nominated_node_name, nominated_node_name="")
            _remove(self.nominated, pod.nominated_node_name, pod)
            _append(self.by_node, bound.node_name, bound)
        else:
            _remove(self.by_node, bound.node_name, bound)
            _append(self.nominated, pod.nominated_node_name, pod)
        self.change_node(bound.node_name)

    def _take(self, pod: Pod) -> None:
        key = pod.namespace, pod.name
        if key in self._bound:
            self._move(key, pod)
        self._binding.pop(key, None)
        if pod.node_name:
            self.change_node(pod.node_name)
        for table, name in ((self.by_node, pod.node_name), (self.nominated, pod.nominated_node_name)):
            if name:
                _remove(table, name, pod)


def being_bound(pod: Pod, claims: Mapping[tuple[str, str], PersistentVolumeClaim]) -> bool:
    """Report whether kube-scheduler binds volumes of a nominated Pod. Such a Pod counts as bound to the nominated node.
    Source: upstream `WillPreBind`, `BindPodVolumes`.
    """
    bound = (claims.get((pod.namespace, volume.claim_of(pod.name) or "")) for volume in pod.spec.volumes)
    return any(claim and not claim.fully_bound and claim.selected_node == pod.nominated_node_name for claim in bound)


def _append(table: Table[str, tuple[Pod, ...]], name: str, pod: Pod) -> None:
    table.put(name, (*(table.get(name) or ()), pod))


def _remove(table: Table[str, tuple[Pod, ...]], name: str, pod: Pod) -> None:
    """Remove a Pod from a node's Pods. As in upstream, the last Pod takes the position of the removed one."""
    pods = table.get(name) or ()
    for index, present in enumerate(pods):
        if present is pod:
            left = [*pods[:-1]] if index == len(pods) - 1 else [*pods[:index], pods[-1], *pods[index + 1 : -1]]
            if left:
                table.put(name, tuple(left))
            else:
                table.pop(name)
            return


def _same(first: ClusterObjects, second: ClusterObjects) -> bool:
    return all(getattr(first, name) is getattr(second, name) for name in first.__slots__)
