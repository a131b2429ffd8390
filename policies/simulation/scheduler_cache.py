"""kube-scheduler's cache in a simulation: the stored objects, and its own decisions that are not stored yet.

Source: kubernetes `pkg/scheduler/backend/cache/cache.go`.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from forewarn.policies.copies import replace
from forewarn.policies.cow_table import FrozenTable, GroupedTable, Overlay, Table
from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.objects.workload import Workload
from forewarn.policies.scheduling.cache import PodsByNode
from forewarn.policies.scheduling.cluster_objects import ClusterObjects
from forewarn.policies.simulation.api_server import PDB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.controllers.view import WorkloadState
    from forewarn.policies.objects.devices import ResourceClaim
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.scheduling.snapshot import Snapshot


Key = tuple[str, str]
"""(namespace, name) of a PodGroup."""


class PodGroupStates:
    """The Pods of each PodGroup: all Pods, and those that are bound or assumed. Includes terminating Pods."""

    def __init__(self) -> None:
        self._all: dict[Key, dict[str, Pod]] = {}
        self._scheduled: dict[Key, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> None:
        """Add a Pod, change a Pod, or assume a Pod on its node."""
        if not pod.spec.pod_group:
            return
        key = _key(pod)
        self._all.setdefault(key, {})[pod.uid] = pod
        if pod.node_name:
            self._scheduled.setdefault(key, {})[pod.uid] = pod
        else:
            _discard(self._scheduled, pod)

    def remove(self, pod: Pod) -> None:
        """Remove a Pod."""
        if pod.spec.pod_group:
            _discard(self._all, pod)
            _discard(self._scheduled, pod)

    def count(self, key: Key) -> int:
        return len(self._all.get(key, ()))

    def scheduled(self, key: Key) -> Sequence[Pod]:
        return list(self._scheduled.get(key, {}).values())


def _key(pod: Pod) -> Key:
    return pod.namespace, pod.spec.pod_group


def _discard(table: dict[Key, dict[str, Pod]], pod: Pod) -> None:
    pods = table.get(_key(pod))
    if pods is not None:
        pods.pop(pod.uid, None)
        if not pods:
            del table[_key(pod)]


_ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeTree:
    """The names of nodes by zone. Zones and nodes are in the order of creation."""

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[str, None]] = {}
        self._zone_of: dict[str, tuple[str, str]] = {}
        self._listed: list[str] | None = None

    def put(self, node: Node) -> None:
        """Add or change a node. A node that changes its zone becomes the last node of the new zone."""
        zone = _first(node, _REGION), _first(node, _ZONE)
        if self._zone_of.get(node.name) == zone:
            return
        self.remove(node.name)
        self._zones.setdefault(zone, {})[node.name] = None
        self._zone_of[node.name] = zone

    def remove(self, name: str) -> None:
        """Remove a node; a zone without nodes is removed, too."""
        self._listed = None
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        nodes = self._zones[zone]
        del nodes[name]
        if not nodes:
            del self._zones[zone]

    def list(self) -> Sequence[str]:
        """Return the names of the nodes, one of each zone in turn."""
        if self._listed is None:
            rounds = zip_longest(*self._zones.values())
            self._listed = [name for names in rounds for name in names if name is not None]
        return self._listed


def _first(node: Node, keys: Sequence[str]) -> str:
    return next((node.labels[key] for key in keys if key in node.labels), "")


def top_place(best: Sequence[int] | NDArray[np.intp]) -> int:
    """Return the index of the equally best element that is on top of the heap in the end. `best`: indices, ascending.

    `heap.Init` sifts down from the last parent to the first, and swaps only if a child is better; the right child only
    if it is better than the left. So a parent remains above equal children, and the left child moves up first: the
    first element in preorder. The path to index p is the binary number p + 1 without its first digit. With zeros
    appended to equal length, the paths have preorder, and of equal ones the shorter is first.
    """
    if best[0] == 0 or len(best) == 1:
        return int(best[0])
    numbers = np.asarray(best, np.int64) + 1
    digits = np.frexp(numbers)[1]
    return int(numbers[np.argmin(numbers << (digits[-1] - digits))]) - 1


class SchedulerCache:
    """The Pods on nodes (bound or assumed), nominated Pods, nodes, and all other input of plugins."""

    def __init__(self, base: ClusterObjects | None = None) -> None:
        """`base`: constant objects (services, namespaces), and the initial claims, volumes and PodGroups."""
        self.base = base or ClusterObjects()
        self._claims: Overlay[tuple[str, str], PersistentVolumeClaim] = Overlay(self.base.claims)
        self._volumes: Overlay[tuple[str, str], PersistentVolume] = Overlay(self.base.volumes)
        self._resource_claims: Overlay[tuple[str, str], ResourceClaim] = Overlay(self.base.resource_claims)
        self._pod_groups: Overlay[tuple[str, str], PodGroup] = Overlay(self.base.pod_groups)
        self.group_states = PodGroupStates()
        self._nodes: Table[tuple[str, str], Node] = Table()
        self._pdbs: Table[tuple[str, str], PodDisruptionBudget] = Table()
        self._workloads: GroupedTable[tuple[str, str, str], Workload] = GroupedTable(place=1)
        self._read: dict[tuple[str, str], tuple[ApiObject, PodDisruptionBudget]] = {}
        """Parsed PDBs. Caches use the identity of a selector, which a change of the status does not replace."""
        self._pods_by_node = PodsByNode(in_place=True)
        self.node_tree = NodeTree()
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._snapshot: Snapshot | None = None
        """The current Snapshot; None after a change."""

    def snapshot(self) -> Snapshot:
        """Return the Snapshot for the next cycle. After a change, do not use earlier Snapshots."""
        if self._snapshot is None:
            self._snapshot = self._next_snapshot()
        return self._snapshot

    def _next_snapshot(self) -> Snapshot:
        pods_by_node, nominated = self._pods_by_node.tables(FrozenTable())
        objects = replace(
            self.base,
            nodes=self._nodes.freeze(),
            pdbs=self._pdbs.freeze(),
            workloads=self._workloads.freeze(),
            claims=self._claims.freeze(),
            volumes=self._volumes.freeze(),
            resource_claims=self._resource_claims.freeze(),
            pod_groups=self._pod_groups.freeze(),
            pods_by_node=pods_by_node,
            nominated=nominated,
        )
        return self._pods_by_node.next_snapshot(objects).get()

    # Pods

    def add_pod(self, pod: Pod) -> None:
        """Add a Pod that the API server stores as bound, whether the Pod was assumed before or not."""
        self._assumed.discard(pod.uid)
        self.group_states.put(pod)
        self._change(self._pods.get(pod.uid), pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a bound Pod."""
        self._assumed.discard(pod.uid)
        self.group_states.remove(pod)
        self._change(self._pods.get(pod.uid), None)

    def assume(self, pod: Pod, node: str) -> None:
        """Treat a Pod as bound until the API server confirms or rejects the binding."""
        self._assumed.add(pod.uid)
        labels = self._nodes.get(("", node))
        assumed = pod.bound_to(node, labels.labels if labels else {})
        self.group_states.put(assumed)
        self._change(None, assumed)

    def forget(self, pod: Pod) -> bool:
        """Remove an assumed Pod that will not be bound; return whether the Pod was assumed."""
        if pod.uid not in self._assumed:
            return False
        self.remove_pod(pod)
        self.group_states.put(pod)
        return True

    def is_assumed(self, pod: Pod) -> bool:
        """Report whether a Pod is assumed, but the API server has not confirmed the binding."""
        return pod.uid in self._assumed

    def nominate(self, old: Pod | None, new: Pod | None) -> None:
        """Replace the nomination of a Pod. `old`, `new`: the nominated Pod before and after; None: no nomination."""
        self._snapshot = None
        self._pods_by_node.change_pod(old, new)

    def _change(self, old: Pod | None, new: Pod | None) -> None:
        """Replace a Pod on a node. Snapshots contain Pods on removed nodes only if the Pods belong to PodGroups."""
        for pod in (old, new):
            if pod is not None and (pod.spec.pod_group or self._nodes.get(("", pod.node_name)) is not None):
                self._snapshot = None
        self._pods_by_node.change_pod(old, new)
        if new is not None:
            self._pods[new.uid] = new
        elif old is not None:
            del self._pods[old.uid]

    # What else changes

    def put_pod_group(self, group: PodGroup) -> None:
        """Add or change a PodGroup."""
        self._snapshot = None
        self._pod_groups.put((group.namespace, group.name), group)

    def remove_pod_group(self, group: PodGroup) -> None:
        """Remove a PodGroup."""
        self._snapshot = None
        self._pod_groups.pop((group.namespace, group.name))

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup of a Pod; None if the Pod has none or the PodGroup does not exist."""
        return self._pod_groups.get((pod.namespace, pod.spec.pod_group)) if pod.spec.pod_group else None

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        """Add or change a PersistentVolumeClaim, as stored or as assumed by the scheduler."""
        self._snapshot = None
        self._claims.put(claim.key, claim)

    def remove_claim(self, claim: PersistentVolumeClaim) -> None:
        """Remove a PersistentVolumeClaim."""
        self._snapshot = None
        self._claims.pop(claim.key)

    def resource_claim(self, key: tuple[str, str]) -> ResourceClaim | None:
        return self._resource_claims.get(key)

    def put_resource_claim(self, claim: ResourceClaim) -> None:
        """Add or change a ResourceClaim, as stored or as assumed by the scheduler."""
        self._snapshot = None
        self._resource_claims.put((claim.namespace, claim.name), claim)

    def remove_resource_claim(self, key: tuple[str, str]) -> None:
        """Remove a ResourceClaim."""
        self._snapshot = None
        self._resource_claims.pop(key)

    def put_volume(self, volume: PersistentVolume) -> None:
        """Add or change a PersistentVolume, as stored or as assumed by the scheduler."""
        self._snapshot = None
        self._volumes.put(("", volume.name), volume)

    def put_node(self, node: Node) -> None:
        """Add or change a node."""
        self._snapshot = None
        self._nodes.put(("", node.name), node)
        self.node_tree.put(node)
        self._pods_by_node.change_node(node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._snapshot = None
        self._nodes.pop(("", name))
        self.node_tree.remove(name)
        self._pods_by_node.change_node(name)

    def put_workload(self, state: WorkloadState) -> None:
        """Add or change a workload or PDB."""
        kind, namespace, name = state.key
        if kind == PDB:
            pdb = self._pdb(state)
            if self._pdbs.get((namespace, name)) == pdb:
                return
            self._snapshot = None
            self._pdbs.put((namespace, name), pdb)
        else:
            self._snapshot = None
            self._workloads.put(state.key, Workload.from_api(state.object))

    def remove_workload(self, state: WorkloadState) -> None:
        """Remove a workload or PDB."""
        self._snapshot = None
        kind, namespace, name = state.key
        if kind == PDB:
            self._pdbs.pop((namespace, name))
            self._read.pop((namespace, name), None)
        else:
            self._workloads.pop(state.key)

    def _pdb(self, state: WorkloadState) -> PodDisruptionBudget:
        key, status = state.key[1:], cast("Any", state.status)
        cached = self._read.get(key)
        if cached is None or cached[0] is not state.object:
            cached = self._read[key] = state.object, PodDisruptionBudget.from_api(state.object)
        pdb = cached[1]
        return replace(pdb, surplus=status.disruptions_allowed, stale=False) if status else pdb
