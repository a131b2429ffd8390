"""What the scheduler knows of the cluster: what is stored, and what it has decided and not yet stored.

Source: kubernetes `pkg/scheduler/backend/cache/cache.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from policies.copies import replace
from policies.cow_table import FrozenTable, GroupedTable, Overlay, Table
from policies.objects.disruption_budget import PodDisruptionBudget
from policies.objects.workload import Workload
from policies.scheduling.cache import PodsByNode
from policies.scheduling.cluster_objects import ClusterObjects
from policies.simulation.api_server import BUDGET
from policies.simulation.node_tree import NodeTree

if TYPE_CHECKING:
    from policies.controllers.view import WorkloadState
    from policies.objects.fields import ApiObject
    from policies.objects.node import Node
    from policies.objects.pod import Pod
    from policies.objects.storage import PersistentVolume, PersistentVolumeClaim
    from policies.scheduling.snapshot import Snapshot


class SchedulerCache:
    """Pods on nodes, assumed ones too, nominated pods, nodes and what else plugins read."""

    def __init__(self, base: ClusterObjects | None = None) -> None:
        """`base`: objects that do not change (services, namespaces), and claims and volumes."""
        self._base = base or ClusterObjects()
        self._claims: Overlay[tuple[str, str], PersistentVolumeClaim] = Overlay(self._base.claims)
        self._volumes: Overlay[tuple[str, str], PersistentVolume] = Overlay(self._base.volumes)
        self._nodes: Table[tuple[str, str], Node] = Table()
        self._budgets: Table[tuple[str, str], PodDisruptionBudget] = Table()
        self._workloads: GroupedTable[tuple[str, str, str], Workload] = GroupedTable(place=1)
        self._read: dict[tuple[str, str], tuple[ApiObject, PodDisruptionBudget]] = {}
        """Budgets as they were read from their objects. What is worked out of a selector is kept by its identity, and
        a status that changes leaves the selector as it is."""
        self._pods_by_node = PodsByNode(in_place=True)
        self.node_tree = NodeTree()
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._snapshot: Snapshot | None = None
        """That of now, None where something has changed since."""

    def snapshot(self) -> Snapshot:
        """The cluster as the next cycle sees it. One that was given before is used up as soon as something changes."""
        if self._snapshot is None:
            self._snapshot = self._next_snapshot()
        return self._snapshot

    def _next_snapshot(self) -> Snapshot:
        pods_by_node, nominated = self._pods_by_node.tables(FrozenTable())
        objects = replace(
            self._base,
            nodes=self._nodes.freeze(),
            budgets=self._budgets.freeze(),
            workloads=self._workloads.freeze(),
            claims=self._claims.freeze(),
            volumes=self._volumes.freeze(),
            pods_by_node=pods_by_node,
            nominated=nominated,
        )
        return self._pods_by_node.next_snapshot(objects).get()

    # Pods

    def add_pod(self, pod: Pod) -> None:
        """A pod is stored as bound, whether it was assumed before or not."""
        self._assumed.discard(pod.uid)
        self._change(self._pods.get(pod.uid), pod)

    def remove_pod(self, pod: Pod) -> None:
        """A bound pod is gone."""
        self._assumed.discard(pod.uid)
        self._change(self._pods.get(pod.uid), None)

    def assume(self, pod: Pod, node: str) -> None:
        """Take a pod for bound until the API server says so."""
        self._assumed.add(pod.uid)
        labels = self._nodes.get(("", node))
        self._change(None, pod.bound_to(node, labels.labels if labels else {}))

    def forget(self, pod: Pod) -> bool:
        """It will not be bound after all; whether it was assumed."""
        if pod.uid not in self._assumed:
            return False
        self.remove_pod(pod)
        return True

    def is_assumed(self, pod: Pod) -> bool:
        """Whether it is taken for bound, and the API server has not said so yet."""
        return pod.uid in self._assumed

    def nominate(self, old: Pod | None, new: Pod | None) -> None:
        """A nomination comes or goes."""
        self._snapshot = None
        self._pods_by_node.change_pod(old, new)

    def _change(self, old: Pod | None, new: Pod | None) -> None:
        self._snapshot = None
        self._pods_by_node.change_pod(old, new)
        if new is not None:
            self._pods[new.uid] = new
        elif old is not None:
            del self._pods[old.uid]

    # What else changes

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        """A claim comes or changes, or is assumed to."""
        self._snapshot = None
        self._claims.put(claim.key, claim)

    def remove_claim(self, claim: PersistentVolumeClaim) -> None:
        """A claim goes."""
        self._snapshot = None
        self._claims.pop(claim.key)

    def put_volume(self, volume: PersistentVolume) -> None:
        """A volume comes or changes, or is assumed to."""
        self._snapshot = None
        self._volumes.put(("", volume.name), volume)

    def put_node(self, node: Node) -> None:
        """A node comes or changes."""
        self._snapshot = None
        self._nodes.put(("", node.name), node)
        self.node_tree.put(node)
        self._pods_by_node.change_node(node.name)

    def remove_node(self, name: str) -> None:
        """A node goes."""
        self._snapshot = None
        self._nodes.pop(("", name))
        self.node_tree.remove(name)
        self._pods_by_node.change_node(name)

    def put_workload(self, state: WorkloadState) -> None:
        """A workload or a budget comes or changes."""
        kind, namespace, name = state.key
        if kind == BUDGET:
            budget = self._budget(state)
            if self._budgets.get((namespace, name)) == budget:
                return
            self._snapshot = None
            self._budgets.put((namespace, name), budget)
        else:
            self._snapshot = None
            self._workloads.put(state.key, Workload.from_api(state.object))

    def remove_workload(self, state: WorkloadState) -> None:
        """A workload or a budget goes."""
        self._snapshot = None
        kind, namespace, name = state.key
        if kind == BUDGET:
            self._budgets.pop((namespace, name))
            self._read.pop((namespace, name), None)
        else:
            self._workloads.pop(state.key)

    def _budget(self, state: WorkloadState) -> PodDisruptionBudget:
        key, status = state.key[1:], cast("Any", state.status)
        known = self._read.get(key)
        if known is None or known[0] is not state.object:
            known = self._read[key] = state.object, PodDisruptionBudget.from_api(state.object)
        budget = known[1]
        return replace(budget, disruptions_allowed=status.disruptions_allowed, stale=False) if status else budget
