"""PersistentVolumeClaims and PersistentVolumes in a simulation: creation, binding, provisioning and deletion.

Covers the controllers of persistent volumes, of ephemeral volumes and of claim protection, garbage collection of
claims, and the provisioner of each StorageClass. `not_modelled` reports unknown behaviour of provisioners.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.persistent_volume import Bind, missing_claims, sync_unbound_claim
from forewarn.policies.copies import replace
from forewarn.policies.findings import listed, plural
from forewarn.policies.metering import charge
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.objects.node_selector import NodeSelector, NodeSelectorTerm
from forewarn.policies.objects.storage import PersistentVolume
from forewarn.policies.objects.volumes import driver_of_provisioner
from forewarn.policies.selectors import Requirement
from forewarn.policies.simulation.api_server import claims_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from forewarn.policies.controllers.view import Key, PodState
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.storage import PersistentVolumeClaim, StorageClass
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.simulation.api_server import ApiServer, Change, PodKey
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.controller_view import ControllerView
    from forewarn.policies.simulation.latencies import Latencies

_MAX_NAMED: Final = 3
_RELEASED: Final = "Released"


class StorageControllers:
    """The controllers of claims and volumes, with one worker that binds claims, and the provisioners."""

    def __init__(
        self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies, base: ClusterObjects
    ) -> None:
        """Start without pending work. `base`: contains the StorageClasses and CSINodes."""
        self._clock, self._api, self._view, self._latencies, self._base = clock, api, view, latencies, base
        self._due: deque[PodKey] = deque()
        self._provisioning: set[PodKey] = set()
        self._missing: dict[str, list[str]] = {}
        """Reason why a claim is not modelled -> the names of the claims."""
        self._task = clock.spawn(self._run())

    @property
    def not_modelled(self) -> list[str]:
        """Sentences about claims whose outcome forewarn cannot simulate."""
        found = [*self._missing.items()]
        if self._api.storage.unlisted:
            why = "not in the cluster snapshot: Pods are simulated without their volumes"
            found.append((why, ["/".join(key) for key in sorted(self._api.storage.unlisted)]))
        rows = ((plural(len(names), "PersistentVolumeClaim"), listed(names, _MAX_NAMED), why) for why, names in found)
        return [f"not modelled: {count} ({names}): {why}" for count, names, why in rows]

    def start(self) -> None:
        """Process every claim that is not bound, and watch changes from now on."""
        self._api.watchers.append(self.handle)
        claims = self._api.storage.claims()
        charge(len(claims) // 4)
        for claim in claims.values():
            if not claim.fully_bound:
                self._enqueue(claim.key)
        for state in list(self._api.pods.values()):
            self._check_pod(state)

    def handle(self, change: Change) -> None:
        """Process a change of a claim, volume, Pod or workload."""
        if change.kind == "Claim":
            if change.new is not None:
                self._enqueue(change.new.key)
            else:
                self._claim_deleted(change.old)
        elif change.kind == "Volume":
            if change.new.claim is not None:
                self._enqueue(change.new.claim[:2])
        elif change.kind == "Pod":
            if change.new is None:
                self._pod_deleted(change.old)
            elif change.old is None:
                self._check_pod(change.new)
        elif change.kind == "Workload" and change.new is None:
            self._workload_deleted(change.old.key)

    # Pods, and workloads that claims are deleted with

    def _check_pod(self, state: PodState) -> None:
        if any(volume.ephemeral for volume in state.pod.spec.volumes):
            self._clock.spawn(self._create_ephemeral((state.pod.namespace, state.pod.name)))

    def _create_ephemeral(self, pod: PodKey) -> Generator[float | None, None, None]:
        state = self._api.pods.get(pod)
        try:
            claims = [] if state is None else missing_claims(self._view, state)
        except InvalidObject as error:
            self._note(error.problem, pod)
            return
        for claim in claims:
            yield self._latencies.write("create", "/".join(claim.key))
            if self._api.storage.claim(claim.key) is None:
                self._api.storage.put_claim(claim)

    def _pod_deleted(self, state: PodState) -> None:
        for key in claims_of(state.pod):
            claim = self._api.storage.claim(key)
            if claim is not None and (claim.deleting or (claim.owner_uid and claim.owner_uid == state.pod.uid)):
                self._clock.spawn(self._delete(key))

    def _workload_deleted(self, key: Key) -> None:
        if key[0] != "apps/StatefulSet":
            return
        claims = self._api.storage.claims()
        charge(len(claims))
        for claim in claims.values():
            if claim.namespace == key[1] and claim.owner is not None and claim.owner[:2] == ("StatefulSet", key[2]):
                self._clock.spawn(self._delete(claim.key))

    def _delete(self, key: PodKey) -> Generator[float | None, None, None]:
        yield self._latencies.write("delete", "/".join(key))
        self._api.storage.delete_claim(key)

    def _claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """Release the volume of a deleted claim.

        For Pods with this claim as an ephemeral volume, create the claim again.
        """
        volume = self._api.storage.volume(claim.volume_name)
        if volume is not None:
            self._api.storage.put_volume(replace(volume, phase=_RELEASED, claim=(*claim.key, claim.uid or _RELEASED)))
        for pod in self._api.storage.pods_of_claim.get(claim.key, ()):
            self._check_pod(self._api.pods[pod])

    # Binding and provisioning

    def _enqueue(self, key: PodKey) -> None:
        claim = self._api.storage.claim(key)
        if claim is not None and not claim.fully_bound and not claim.deleting and key not in self._due:
            self._due.append(key)
            self._task.wake()

    def _run(self) -> Generator[float | None, None, None]:
        while True:
            if self._due:
                yield from self._sync(self._due.popleft())
            else:
                yield None

    def _sync(self, key: PodKey) -> Generator[float | None, None, None]:
        claim = self._api.storage.claim(key)
        if claim is None or claim.fully_bound or claim.deleting:
            return
        storage_class = self._base.storage_classes.get(("", claim.storage_class))
        volumes = self._volumes_of_class(claim.storage_class)
        found = sync_unbound_claim(claim, storage_class, self._api.storage.volume, volumes)
        if isinstance(found, Bind):
            yield from self._bind(claim, found.volume)
        elif found is not None and key not in self._provisioning and self._can_provision(claim, found.storage_class):
            self._provisioning.add(key)
            self._clock.spawn(self._provision(claim, found.storage_class))

    def _volumes_of_class(self, name: str) -> Sequence[PersistentVolume]:
        volumes = self._api.storage.volumes()
        charge(len(volumes) // 4)
        return [volume for volume in volumes.values() if volume.storage_class == name]

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Generator[float | None, None, None]:
        """Bind a claim and a volume to each other. Source: upstream `bind`."""
        reference = (*claim.key, claim.uid)
        if volume.claim != reference:
            yield self._latencies.write("update", f"/{volume.name}")
            self._api.storage.put_volume(replace(self._api.storage.volume(volume.name) or volume, claim=reference))
        yield self._latencies.write("status", f"/{volume.name}")
        self._api.storage.put_volume(replace(self._api.storage.volume(volume.name) or volume, phase="Bound"))
        yield self._latencies.write("update", "/".join(claim.key))
        now = self._api.storage.claim(claim.key)
        if now is not None and now.uid == claim.uid:
            self._api.storage.put_claim(replace(now, volume_name=volume.name, bind_completed=True, phase="Bound"))

    def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> Generator[float | None, None, None]:
        """Set the provisioner of a claim; the provisioner then creates a volume.

        If the selected node no longer exists, the provisioner creates no volume, and the scheduler selects another
        node.
        """
        yield self._latencies.write("update", "/".join(claim.key))
        node = None if claim.selected_node is None else self._api.nodes.get(claim.selected_node)
        now = self._api.storage.claim(claim.key)
        if now is not None and claim.selected_node is not None and node is None:
            yield self._latencies.write("update", "/".join(claim.key))
            self._provisioning.discard(claim.key)
            self._api.storage.put_claim(replace(now, selected_node=None))
            return
        yield self._latencies.write("create", f"/pvc-{claim.uid}")
        self._provisioning.discard(claim.key)
        now = self._api.storage.claim(claim.key)
        if now is not None and now.uid == claim.uid and not now.fully_bound:
            self._api.storage.put_volume(self._new_volume(now, storage_class, node))

    def _new_volume(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None
    ) -> PersistentVolume:
        driver = driver_of_provisioner(storage_class.provisioner) or storage_class.provisioner
        name = f"pvc-{claim.uid}"
        return PersistentVolume(
            name=name,
            capacity=claim.request or 0,
            access_modes=claim.access_modes,
            claim=(*claim.key, claim.uid),
            storage_class=storage_class.name,
            node_affinity=None if node is None else self._affinity(claim, storage_class, node),
            phase="Pending",
            volume_mode=claim.volume_mode,
            attributes_class=claim.attributes_class,
            csi=(driver, name),
        )

    def _can_provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Report whether the outcome of provisioning is known; record the reason if not."""
        if claim.has_data_source:
            self._note("volumes created from a snapshot or another claim", claim.key)
            return False
        if claim.selected_node is None and self._topology_keys(storage_class, None) != ():
            self._note(f"where StorageClass {storage_class.name} (Immediate) creates volumes", claim.key)
            return False
        return True

    def _affinity(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node) -> NodeSelector | None:
        """Return the node affinity of a new volume by the topology labels of its node; None for all nodes, or if
        unknown.
        """
        keys = self._topology_keys(storage_class, node)
        if keys is None or any(key not in node.labels for key in keys):
            self._note(f"from which nodes new volumes of StorageClass {storage_class.name} can be mounted", claim.key)
            return None
        expressions = tuple(Requirement(key, "In", frozenset([node.labels[key]])) for key in keys)
        return NodeSelector((NodeSelectorTerm(expressions),)) if expressions else None

    def _topology_keys(self, storage_class: StorageClass, node: Node | None) -> tuple[str, ...] | None:
        """Return the node labels on which the topology of a StorageClass's volumes depends; None if unknown.

        These are the labels that the CSI driver registered for the node, or else the labels of other volumes of the
        class.
        """
        driver = driver_of_provisioner(storage_class.provisioner) or storage_class.provisioner
        names = [node.name] if node is not None else [name for _, name in self._base.csi_nodes]
        for name in names:
            csi_node = self._base.csi_nodes.get(("", name))
            if csi_node is not None and driver in csi_node.drivers:
                return csi_node.topology_keys.get(driver, ())
        others = [_keys_of(volume) for volume in self._volumes_of_class(storage_class.name)]
        return others[0] if others and all(keys == others[0] for keys in others) else None

    def _note(self, why: str, claim: PodKey) -> None:
        names = self._missing.setdefault(why, [])
        name = "/".join(claim)
        if name not in names:
            names.append(name)


def _keys_of(volume: PersistentVolume) -> tuple[str, ...] | None:
    """Return the node labels that a volume's affinity requires; None if the affinity does not require one value
    for each label.
    """
    if volume.node_affinity is None:
        return ()
    (first, *more) = volume.node_affinity.terms or (NodeSelectorTerm(error="none"),)
    plain = all(each.operator == "In" and len(each.values) == 1 for each in first.expressions)
    return None if more or first.error or first.fields or not plain else tuple(sorted(e.key for e in first.expressions))
