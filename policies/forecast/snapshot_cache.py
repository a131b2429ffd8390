"""The scheduler cache for the simulation of a rollout: a Snapshot of the cluster, and the changes since."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.metering import charge
from forewarn.policies.objects.workload import Workload
from forewarn.policies.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.scheduling.evictions import changed_pdbs
from forewarn.policies.simulation.scheduler_cache import SchedulerCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.controllers.view import Key, WorkloadState
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot

_CLONING: Final = 8


class CacheOverSnapshot(SchedulerCache):
    """A SchedulerCache that stores only the changes to the Snapshot of a whole cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.objects)
        self._now = snapshot
        self._infos: dict[str, NodeInfo] = {}
        """Node name -> changed NodeInfo since the latest snapshot."""
        self._nominated: dict[str, tuple[Pod, ...]] = {}
        self._health: list[tuple[Pod, int]] = []
        """Changes of Pods since the latest snapshot, see `changed_pdbs`."""
        self._condemned: set[str] = set()
        self._more: dict[Key, Workload] = {}
        """New or changed workloads, on top of those at the start."""
        self._known = snapshot.objects.workloads
        self._has_more = False
        """True after a change since the last snapshot."""
        self.bound_pods: set[str] = set()
        """Identities of Pods that were assigned to a node."""

    def snapshot(self) -> Snapshot:
        """Return the Snapshot for the next cycle. The returned Snapshot never changes."""
        if self._has_more:
            charge(len(self._more) // 4)
            workloads = ChainMap({**self._more}, self._known)  # type: ignore[arg-type]
            self._now = self._now.with_node_infos(replace(self._now.objects, workloads=workloads), {})
            self._has_more = False
        now, claims, volumes = self._now.objects, self._claims.freeze(), self._volumes.freeze()
        devices = self._resource_claims.freeze()
        if claims is not now.claims or volumes is not now.volumes or devices is not now.resource_claims:
            objects = replace(now, claims=claims, volumes=volumes, resource_claims=devices)
            self._now = self._now.with_node_infos(objects, {})
        charged = changed_pdbs(self._now.pdbs, self._health)
        self._health.clear()
        if self._infos or self._nominated or charged:
            charge(len(self._now.objects.nominated) // 4)
            nominated = {**self._now.objects.nominated, **self._nominated}
            left = {node: pods for node, pods in nominated.items() if pods}
            self._now = self._now.with_node_states(self._infos, left, charged)
            self._infos, self._nominated = {}, {}
        return self._now

    def present(self, pod: Pod) -> Pod | None:
        """Return the Pod with the same identity on the Pod's node; None if the node no longer has the Pod."""
        info = self._infos.get(pod.node_name) or self._now.get(pod.node_name)
        if info is None:
            return None
        charge(1 + len(info.pods) // 8)
        return next((other for other in info.pods if other.identity == pod.identity), None)

    def add_pod(self, pod: Pod) -> None:
        """Add a Pod that is bound; remove a Pod that has terminated."""
        self._assumed.discard(pod.uid)
        self._swap(pod, None if pod.terminal else pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a Pod from its node."""
        self._assumed.discard(pod.uid)
        self._swap(pod, None)

    def assume(self, pod: Pod, node: str) -> None:
        """Treat a Pod as bound to a node, and record the Pod in `bound_pods`."""
        self._assumed.add(pod.uid)
        self.bound_pods.add(pod.identity)
        self._swap(pod, self._now.bound(pod, node))

    def _swap(self, pod: Pod, new: Pod | None) -> None:
        old = self._pods.get(pod.uid) or self.present(pod)
        if old is new:
            return
        self._pods.pop(pod.uid, None)
        if old is not None:
            self._change_of(old.node_name).remove_pod(old)
        if new is not None and self._now.get(new.node_name) is not None:
            self._pods[pod.uid] = new
            self._change_of(new.node_name).add_pod(new)
        if pod.identity not in self._condemned:
            self._health.append((pod, _is_healthy(new) - _is_healthy(old)))

    def condemn(self, pods: Iterable[Pod]) -> None:
        """Count victims as deleted: their PDBs allow fewer disruptions from now on.

        In a cluster, the disruption controller usually has updated the PDBs before kube-scheduler tries the next Pod.
        """
        for pod in pods:
            if pod.identity not in self._condemned:
                self._condemned.add(pod.identity)
                self._health.append((pod, -_is_healthy(pod)))

    def _change_of(self, node: str) -> NodeInfo:
        if node not in self._infos:
            charge(_CLONING)
            self._infos[node] = self._now.node_infos[self._now.rows[node]].clone()
        return self._infos[node]

    def nominate(self, old: Pod | None, new: Pod | None) -> None:
        """Replace the nomination of a Pod. `old`, `new`: the nominated Pod before and after; None: no nomination."""
        for pod in (old, new):
            if pod is not None and pod.nominated_node_name:
                info = self._on(pod.nominated_node_name)
                self._nominated[pod.nominated_node_name] = tuple(p for p in info if p.identity != pod.identity)
        if new is not None and new.nominated_node_name and not new.node_name:
            names = self._now.semantics.scheduler_names
            if responsible_for_pod(new, names):
                node = new.nominated_node_name
                self._nominated[node] = (*self._on(node), new)

    def _on(self, node: str) -> Sequence[Pod]:
        found = self._nominated.get(node)
        return self._now.objects.nominated.get(node, ()) if found is None else found

    def put_workload(self, state: WorkloadState) -> None:
        """Add or change a workload."""
        self._more[state.key] = Workload.from_api(state.object)
        self._has_more = True

    def remove_workload(self, state: WorkloadState) -> None:
        """Do nothing: removed workloads remain readable."""


def _is_healthy(pod: Pod | None) -> int:
    return int(pod is not None and pod.healthy)
