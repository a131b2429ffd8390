"""VolumeBinding: PersistentVolumeClaims and their existing or new volumes. Source: upstream `plugins/volumebinding`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from forewarn.policies.base.cow_table import derived
from forewarn.policies.base.findings import listed
from forewarn.policies.base.metering import charge, charging, meter
from forewarn.policies.kubernetes.objects.storage import NO_PROVISIONER
from forewarn.policies.kubernetes.objects.volumes import translated_topology
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.kubernetes.scheduling.arguments import MAX_CUSTOM_PRIORITY_SCORE, VolumeBindingArgs
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    SKIP,
    Code,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    Status,
    failed,
    run_score_plugin,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import broken_linear
from forewarn.policies.kubernetes.scheduling.plugins.volume_filters import ADD_NODES, not_created_for
from forewarn.policies.kubernetes.scheduling.reasons import RECREATE_IT, Reason, joined, not_found
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import PASSES, NodeFit, Rejections
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import Selectors, reached, selected, storage_of
from forewarn.policies.kubernetes.selectors import Requirement

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.storage import (
        CSIStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
    )
    from forewarn.policies.kubernetes.scheduling.framework import Framework, PluginHandle
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix

Shape = tuple[tuple[int, int], ...]
"""(utilization in percent, score), sorted by utilization."""
_FULL: Final = 100


class Binding(NamedTuple):
    """The request of a claim, and the capacity of its volume or of the storage that provisions the volume, in bytes."""

    storage_class: str
    requested: int
    capacity: int


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes for a Pod's claims on a node: existing volumes, and volumes to provision.

    `provisions`: claims whose CSI driver reports its storage capacity. `matched`: each claim with its existing volume.
    `to_provision`: the other unbound claims.
    """

    provisions: list[Binding] = field(default_factory=list)
    matched: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    to_provision: list[PersistentVolumeClaim] = field(default_factory=list)


NO_VOLUMES: Final = PodVolumes()


def storage_score(volumes: PodVolumes, shape: Shape) -> int:
    """Return 0 to 100: the mean of the storage classes. If there are existing volumes, only they count."""
    classes: dict[str, tuple[int, int]] = {}
    existing = [Binding(v.storage_class, bytes_of(claim.request), bytes_of(v.capacity)) for claim, v in volumes.matched]
    for score in existing or volumes.provisions:
        requested, capacity = classes.get(score.storage_class, (0, 0))
        # Upstream keeps only the result of the last claim of a class.
        capacity = capacity + score.capacity if existing else score.capacity
        classes[score.storage_class] = requested + score.requested, capacity
    if not classes:
        return 0
    total = sum(_class_score(requested, capacity, shape) for requested, capacity in classes.values())
    return (2 * total + len(classes)) // (2 * len(classes))


def bytes_of(nano: int | None) -> int:
    """Convert billionths of a byte to bytes, rounded up; None to 0."""
    return -(-(nano or 0) // NANO)


def _class_score(requested: int, capacity: int, shape: Shape) -> int:
    full = capacity == 0 or requested > capacity
    return broken_linear(shape, _FULL if full else requested * _FULL // capacity)


REFUSED, TIGHT = 1, 2
_MAX_CLAIMS: Final = 64
_MAX_TRIED: Final = 64
"""Maximum number of unbound volumes of a class with which different claims of a Pod are matched one by one."""


class _OfClass(NamedTuple):
    """The volumes of a StorageClass: unbound ones, and those reserved for a claim, by (namespace, name)."""

    free: list[PersistentVolume]
    prebound: dict[tuple[str, str], list[PersistentVolume]]


def unmountable(problem: NodeFit, claims: Iterable[PersistentVolumeClaim]) -> tuple[Mask, Mask]:
    """Return two bool arrays [node]: whether the node cannot reach a volume of the bound claims; whether a volume does
    not exist.

    On each node, only the first such volume counts. Source: `checkBoundClaims`.
    """
    nodes, volumes = problem.matrix.nodes, problem.snapshot.objects.volumes
    left = np.ones(len(nodes.nodes), np.bool_)
    conflict, missing = ~left, ~left
    for claim in charging(tuple(claims), 2):
        volume = volumes.get(("", claim.volume_name))
        if volume is None:
            return conflict, left
        here = reached(nodes, volume.node_affinity)
        if volume.migrated:
            migrated = storage_of(problem.matrix, problem.snapshot).migrated(volume.migrated.plugin)
            if migrated.any():
                reachable = reached(nodes, translated_topology(volume.node_affinity, volume.labels, volume.migrated))
                here = np.where(migrated, reachable, here)
        conflict |= left & ~here
        left &= here
    return conflict, missing


def unbindable(problem: NodeFit, claims: Sequence[PersistentVolumeClaim]) -> Ints:
    """Return [node]: why the node cannot bind or provision volumes for unbound claims (REFUSED or TIGHT); 0 if the node
    can.

    TIGHT: storage capacity is insufficient. Raises NotValid if there are too many claims, if different claims select
    among too many volumes, or if upstream returns an error. Source: `FindPodVolumes`.
    """
    if len(claims) > _MAX_CLAIMS:
        raise NotValid("as more than 64 claims of the pod wait for their node")
    mask = np.zeros(len(problem.possible), np.int64)
    to_provide, to_match = [], []
    for claim in claims:
        if claim.selected_node is not None:
            mask[np.arange(len(mask)) != problem.snapshot.rows.get(claim.selected_node, -1)] = REFUSED
            to_provide.append((claim, np.ones(len(mask), np.bool_)))
        elif claim.selector_error:
            raise NotValid("as a selector of its claims cannot be read")
        else:
            to_match.append(claim)
    to_match.sort(key=lambda claim: claim.request or 0)
    lacking = [np.zeros(0, np.bool_)] * len(to_match)
    for storage_class in dict.fromkeys(claim.storage_class for claim in to_match):
        places = [place for place, claim in enumerate(to_match) if claim.storage_class == storage_class]
        for place, where in zip(places, _unavailable(problem, [to_match[p] for p in places]), strict=True):
            lacking[place] = where
    for claim, where in (*to_provide, *zip(to_match, lacking, strict=True)):
        charge(problem.row)
        rejected, tight = _unprovidable(problem, claim)
        mask[where & (mask == 0) & rejected] = REFUSED
        mask[where & (mask == 0) & tight] = TIGHT
    return mask


def _unavailable(problem: NodeFit, claims: Sequence[PersistentVolumeClaim]) -> Sequence[Mask]:
    """Return a bool array [node] for each claim: whether no volume on the node suits the claim.

    `claims`: claims of one StorageClass, smallest first. Raises NotValid.
    """
    parts = _volumes(problem.snapshot.objects.volumes, claims[0].storage_class)
    first = claims[0]
    prebound = [_prebound(parts, claim) for claim in claims]
    if not any(prebound) and all(_wanted_fields(claim) == _wanted_fields(first) for claim in claims[1:]):
        counts = _free(problem, parts, first).counts(problem.matrix.nodes)
        return [counts <= before for before in range(len(claims))]
    if len(claims) == 1:
        # Only a volume that is reserved for the claim is suitable.
        return [~reached(problem.matrix.nodes, prebound[0][0].node_affinity)]
    return _one_after_the_other(problem, claims, parts, prebound)


def _one_after_the_other(
    problem: NodeFit,
    claims: Sequence[PersistentVolumeClaim],
    parts: Sequence[_OfClass],
    prebound: Sequence[Sequence[PersistentVolume]],
) -> list[Mask]:
    """Return a bool array [node] for each claim: whether no volume on the node is left for the claim. Raises NotValid.

    Binds claims in upstream's order, smallest first. `prebound`: for each claim, the volumes that are reserved for the
    claim.
    """
    nodes = problem.matrix.nodes
    mask: list[Mask] = []
    assumed: dict[str, Mask] = {}
    """Volume name -> [node], bool: whether an earlier claim takes the volume there."""
    number = sum(len(part.free) for part in parts)
    if number > _MAX_TRIED:
        raise NotValid("as different claims of the pod choose among many volumes")
    no_nodes = np.zeros(len(nodes.nodes), np.bool_)
    for claim, own in zip(claims, prebound, strict=True):
        bound, unbound = no_nodes.copy(), ~no_nodes
        charge((len(own) + number) * (1 + 4 * problem.row))
        for volume in own:
            # Where the prebound volume is free, the claim gets it or none. On other nodes, it tries other volumes.
            here = unbound & ~assumed.get(volume.name, no_nodes)
            gets = here & reached(nodes, volume.node_affinity)
            assumed[volume.name] = assumed.get(volume.name, no_nodes) | gets
            bound |= gets
            unbound &= ~here
        for volume in _unbound(parts, claim):
            gets = unbound & ~bound & ~assumed.get(volume.name, no_nodes) & reached(nodes, volume.node_affinity)
            assumed[volume.name] = assumed.get(volume.name, no_nodes) | gets
            bound |= gets
        mask.append(~bound)
    return mask


def _prebound(parts: Sequence[_OfClass], claim: PersistentVolumeClaim) -> list[PersistentVolume]:
    """Return the suitable volumes that are reserved for a claim, sorted by name."""
    volumes = [volume for part in parts for volume in part.prebound.get((claim.namespace, claim.name), ())]
    charge(len(volumes) + len(parts) // 8)
    fitting = [volume for volume in volumes if volume.bound_to(claim) and could_hold(volume, claim)]
    return sorted(fitting, key=lambda volume: volume.name)


def _unbound(parts: Sequence[_OfClass], claim: PersistentVolumeClaim) -> list[PersistentVolume]:
    """Return the suitable unbound volumes for a claim, smallest first."""
    volumes = (volume for part in parts for volume in charging(part.free, 1))
    fitting = [volume for volume in volumes if could_hold(volume, claim) and available_for(volume, claim)]
    return sorted(fitting, key=lambda volume: (volume.capacity, volume.name))


def _free(problem: NodeFit, parts: Sequence[_OfClass], claim: PersistentVolumeClaim) -> Selectors:
    """Return selectors of the nodes with suitable unbound volumes for a claim; cached until volumes change."""

    def compute() -> Selectors:
        selectors = Selectors()
        for volume in _unbound(parts, claim):
            selectors.add_affinity(volume.node_affinity)
        return selectors

    if not any(part.free for part in parts):
        return Selectors()
    storage = storage_of(problem.matrix, problem.snapshot)
    return storage.cached(problem.snapshot.objects.volumes, _wanted_fields(claim), compute)


def _wanted_fields(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    amounts = claim.request, claim.volume_mode, claim.attributes_class
    return claim.storage_class, *amounts, frozenset(claim.access_modes), claim.selector


def _unprovidable(problem: NodeFit, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
    """Return two bool arrays [node]: whether the StorageClass provisions no volume on the node; whether storage
    capacity is insufficient.

    Raises NotValid if upstream returns an error. Source: `checkVolumeProvisions`.
    """
    objects, nodes = problem.snapshot.objects, problem.matrix.nodes
    storage_class = objects.storage_classes.get(("", claim.storage_class))
    if not claim.storage_class or storage_class is None:
        raise NotValid("as the class of one of its claims is not there")
    no_nodes = np.zeros(len(nodes.nodes), np.bool_)
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return ~no_nodes, no_nodes
    rejected = ~_allowed(problem, storage_class)
    driver = objects.csi_drivers.get(("", storage_class.provisioner))
    if claim.request is None or driver is None or not driver.storage_capacity:
        return rejected, no_nodes
    return rejected, _roomy(problem, storage_class.name, bytes_of(claim.request)).counts(nodes) == 0


def _allowed(problem: NodeFit, storage_class: StorageClass) -> Mask:
    """Return [node], bool: whether the labels of the node match the allowed topologies. See `StorageClass.allows`."""
    nodes, terms = problem.matrix.nodes, storage_class.allowed_topologies
    if not terms:
        return np.ones(len(nodes.nodes), np.bool_)
    mask = np.zeros(len(nodes.nodes), np.bool_)
    for term in charging(terms, 1):
        if term:
            mask |= selected(nodes, (Requirement(key, "In", values) for key, values in term))
    return mask


def _roomy(problem: NodeFit, storage_class: str, request: int) -> Selectors:
    """Return selectors of nodes with a CSIStorageCapacity of at least `request` bytes. Source: `hasEnoughCapacity`."""
    capacities = problem.snapshot.objects.storage_capacities

    def compute() -> Selectors:
        selectors = Selectors()
        for capacity in charging(tuple(capacities.values())):
            if capacity.nodes is not None and _is_enough(capacity, storage_class, request):
                selectors.add(capacity.nodes.requirements)
        return selectors

    return storage_of(problem.matrix, problem.snapshot).cached(capacities, (storage_class, request), compute)


def _is_enough(capacity: CSIStorageCapacity, storage_class: str, request: int) -> bool:
    """Report whether the storage of a class suffices for a volume. Source: upstream `hasEnoughCapacity`."""
    limit = capacity.limit if capacity.storage_class == storage_class else None
    return limit is not None and bytes_of(limit) >= request


def _volumes(volumes: Mapping[tuple[str, str], PersistentVolume], storage_class: str) -> list[_OfClass]:
    """Return the volumes of a StorageClass, one entry for each shard of the table that has any."""
    charge(50)
    return [part[storage_class] for part in derived(volumes, _volumes_by_class) if storage_class in part]


def _volumes_by_class(volumes: Mapping[tuple[str, str], PersistentVolume]) -> dict[str, _OfClass]:
    result: dict[str, _OfClass] = {}
    charge(len(volumes))
    for volume in volumes.values():
        of_class = result.setdefault(volume.storage_class, _OfClass([], {}))
        if volume.claim is None:
            of_class.free.append(volume)
        else:
            of_class.prebound.setdefault(volume.claim[:2], []).append(volume)
    return result


_SCALE: Final = MAX_NODE_SCORE // MAX_CUSTOM_PRIORITY_SCORE
_RESTORE: Final = "restore the PersistentVolume, or recreate the claim"
BIND_CONFLICT: Final = Reason(
    "node(s) didn't find available persistent volumes to bind",
    "no PersistentVolume that its claim can use",
    "create a PersistentVolume that its claim can use",
    of_volumes=True,
)
NODE_CONFLICT: Final = Reason(
    "node(s) didn't match PersistentVolume's node affinity",
    "its PersistentVolume is not available there",
    ADD_NODES,
    of_volumes=True,
)
NOT_ENOUGH_SPACE: Final = Reason("node(s) did not have enough free storage", "not enough free storage", of_volumes=True)
VOLUME_NOT_EXIST: Final = Reason(
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "its claim is bound to a PersistentVolume that does not exist",
    _RESTORE,
    of_volumes=True,
)
IMMEDIATE_VOLUMES: Final = "(Immediate) creates volumes"
COPIED_VOLUMES: Final = "volumes created from a snapshot or another claim"
"""Ends of the notes about new volumes that simulations do not model."""
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
UNBOUND_IMMEDIATE: Final = unresolvable(
    Reason(
        _UNBOUND,
        "its PersistentVolumeClaims are not bound",
        "check why its claims are not bound (kubectl describe pvc)",
        of_volumes=True,
    )
)


_DELAYED, _MISSING = 2, 6
"""The parts of a node's code other than 1, which means a volume that cannot be mounted."""
_STATUSES: Final = tuple(
    unresolvable(*(reason for reason in (bound, delayed, missing) if reason))
    for missing in ("", VOLUME_NOT_EXIST)
    for delayed in ("", BIND_CONFLICT, NOT_ENOUGH_SPACE)
    for bound in ("", NODE_CONFLICT)
)
"""Node's code in columns -> status."""


@dataclass(frozen=True, slots=True)
class _State:
    """The Pod's claims: bound ones, and unbound ones that are bound after the node is selected (`delayed`).

    `found`: name of a node that passed Filter -> its volumes for the delayed claims.
    """

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    found: dict[str, PodVolumes] = field(default_factory=dict)


class _Failed(Exception):
    """The error with which upstream ends the scheduling cycle."""


class VolumeBinding(Plugin, FilterInColumns):
    """Rejects nodes where the Pod's volumes cannot be mounted, bound or provisioned. Preemption never helps."""

    name: ClassVar[str] = "VolumeBinding"
    needs_pre_filter: ClassVar[str] = NOT_FOUND
    args: VolumeBindingArgs

    def __init__(self, handle: PluginHandle, args: Any = None) -> None:
        super().__init__(handle, args)
        self._fitting: dict[tuple[str, str], tuple[Sequence[PersistentVolume], Sequence[PersistentVolume]]] = {}
        """(namespace, name) of a claim -> the volumes that fit the claim, on any node."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Find the claims; reject a missing one, or an unbound one of immediate binding. Upstream `PreFilter`."""
        claims = []
        for volume in pod.spec.volumes:
            name = volume.claim_of(pod.name)
            if name is None:
                continue
            claim = self.snapshot.objects.claims.get((pod.namespace, name))
            problem = _problem(claim, name, pod, ephemeral=volume.ephemeral)
            if problem or claim is None:
                return PreFilterResult(status=unresolvable(problem))
            claims.append(claim)
        if not claims:
            state.data[self.name] = _State()
            return PreFilterResult(status=SKIP)
        unbound = [claim for claim in claims if not claim.fully_bound]
        # The scheduler binds claims that wait for their first consumer. Other claims must be bound already.
        if any(claim.volume_name or not self._is_delay_binding(claim) for claim in unbound):
            return PreFilterResult(status=self._why_unbound(unbound))
        state.data[self.name] = _State(tuple(c for c in claims if c.fully_bound), tuple(unbound))
        return PreFilterResult()

    def _why_unbound(self, claims: Sequence[PersistentVolumeClaim]) -> Status:
        """Return the rejection for unbound claims. Its `short` names a StorageClass that does not exist."""
        classes = [name for _, name in sorted(self.snapshot.objects.storage_classes)]
        name = next((c.storage_class for c in claims if c.storage_class and c.storage_class not in classes), "")
        if not classes or not name:
            return UNBOUND_IMMEDIATE
        missing = f'StorageClass "{name}" not found; known: {listed(classes)}'
        known = f'storageClassName "{classes[0]}"' if len(classes) == 1 else "a known StorageClass"
        return unresolvable(Reason(_UNBOUND, missing, f"use {known}", "create it", of_volumes=True))

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node without the Pod's volumes, or record those to bind. Upstream `Filter`, `FindPodVolumes`."""
        claims: _State = state.data[self.name]
        reasons: list[str] = []
        matched, exist = self._check_bound_claims(claims.bound, node_info)
        if not matched:
            reasons.append(NODE_CONFLICT)
        volumes = PodVolumes()
        try:
            problem = self._check_delayed_claims(claims.delayed, node_info, volumes)
        except _Failed as error:
            return failed(str(error))
        if problem:
            reasons.append(problem)
        if not exist:
            reasons.append(VOLUME_NOT_EXIST)
        if reasons:
            return unresolvable(*reasons)
        claims.found[node_info.name] = volumes
        return None

    @property
    def scores_what_pre_filter_found(self) -> str:  # type: ignore[override]
        """Upstream's error at Score without PreFilter, if storage capacity is scored; otherwise ""."""
        return NOT_FOUND if self.semantics.storage_capacity_is_scored else ""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip Score without the gate StorageCapacityScoring. Upstream `PreScore`.

        If the numpy implementation filtered the nodes, this method runs PreFilter and Filter to find the volumes of
        each node.
        """
        if not self.semantics.storage_capacity_is_scored:
            return SKIP
        if self.name not in self.handle.framework.profile.plugins_at("preFilter"):
            return failed(NOT_FOUND)
        if self.name not in state.data:
            self.pre_filter(state, pod, nodes)
            work = meter()
            for node_info in nodes if state.data[self.name].delayed else ():
                work.charge(1)
                self.filter(state, pod, node_info)
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Return 0 to 100 by the storage of the node for the Pod. Upstream `Score`."""
        if not self.semantics.storage_capacity_is_scored:
            return 0
        claims: _State = state.data.get(self.name) or _State()
        shape = tuple((point.utilization, point.score * _SCALE) for point in self.args.shape)
        return storage_score(claims.found.get(node_info.name, NO_VOLUMES), shape)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:  # noqa: ARG002
        """Return 0 if storage does not matter; otherwise find the volumes of each node."""
        if not pod.spec.has_storage or not self.semantics.storage_capacity_is_scored:
            return 0
        state, nodes = CycleState(), [self.snapshot.node_infos[row] for row in rows.tolist()]
        self.pre_score(state, pod, nodes)
        return np.fromiter(run_score_plugin(self, state, pod, nodes).values(), np.int64, len(nodes))

    def volumes_on(self, pod: Pod, node_info: NodeInfo) -> PodVolumes | None:
        """Return the volumes to bind and to provision for a Pod on a node; None if all claims are bound, or if the node
        fails Filter.

        Source: upstream `Reserve`, `AssumePodVolumes`.
        """
        state = CycleState()
        if self.pre_filter(state, pod, ()).status is not None or not state.data[self.name].delayed:
            return None
        self.filter(state, pod, node_info)
        pod_volumes: dict[str, PodVolumes] = state.data[self.name].found
        return pod_volumes.get(node_info.name)

    def in_columns(self, problem: NodeFit) -> None:
        """Add the rejected nodes to `problem`.

        Raises NotValid if the claims reject the Pod before any node is evaluated, or if upstream returns an error.
        """
        state = CycleState()
        status = self.pre_filter(state, problem.pod, ()).status
        if status is not None:
            if status.code is Code.SKIP:
                return
            raise NotValid("whose PreFilter rejects the pod")
        claims: _State = state.data[self.name]
        conflict, missing = unmountable(problem, claims.bound)
        codes = conflict + _MISSING * missing
        if claims.delayed:
            codes += _DELAYED * unbindable(problem, claims.delayed)
        problem.narrow(self.name, Rejections(np.where(codes > 0, codes, PASSES), _STATUSES))

    def cause(self, pod: Pod) -> Reason | None:
        """Return why every node rejects the Pod's volumes, or None. Only its `short` contains values."""
        state, reasons = CycleState(), dict[str, None]()
        if self.pre_filter(state, pod, ()).status is not None:
            return None
        for key, values in self._required(state.data[self.name]) if self.snapshot.node_infos else ():
            if not any(info.node.labels.get(key) in values for info in self.snapshot.node_infos):
                name = key.rpartition("/")[2]
                where = f"no node {'is in' if name in ('zone', 'region') else 'has'} its volume's {name}"
                return Reason(where, f"{where} ({listed(sorted(values))})", ADD_NODES, of_volumes=True)
        for info in charging(self.snapshot.node_infos, 1):
            status = self.filter(state, pod, info)
            if status is None or status.code is Code.ERROR:
                return None
            reasons |= dict.fromkeys(status.reasons)
        if not reasons:
            return None
        why = joined(reasons, " or ")
        return Reason(f"fits on no node: {why.short}", "", *why.fixes, of_volumes=True)

    def _required(self, claims: _State) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the (label, values) of nodes that the topology of a volume requires."""
        volumes = [self.snapshot.objects.volumes.get(("", claim.volume_name)) for claim in claims.bound]
        classes = [self.snapshot.objects.storage_classes.get(("", claim.storage_class)) for claim in claims.delayed]
        topologies = [
            *(volume.node_affinity.labels for volume in volumes if volume and volume.node_affinity),
            *([dict(term) for term in found.allowed_topologies] for found in classes if found),
        ]
        for terms in filter(None, topologies):
            for key in sorted(set(terms[0]).intersection(*terms)):
                yield key, frozenset[str]().union(*(term[key] for term in terms))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Return None: Filter has found the volumes of the node already. Upstream `Reserve`."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing, because `reserve` changes nothing. Upstream `Unreserve`."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Skip PreBind if all claims are bound. Upstream `PreBindPreFlight`."""
        claims: _State | None = state.data.get(self.name)
        return SKIP if claims is None or not claims.delayed else None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Return None (success), as upstream `PreBind` does if the volumes are bound in time."""
        return None

    def _is_delay_binding(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self.snapshot.objects.storage_classes.get(("", claim.storage_class))
        return storage_class is not None and storage_class.delays_binding

    def _check_bound_claims(self, claims: tuple[PersistentVolumeClaim, ...], node_info: NodeInfo) -> tuple[bool, bool]:
        """Return (the node can mount the volumes, the volumes exist). Source: upstream `checkBoundClaims`."""
        csi_node = self.snapshot.objects.csi_nodes.get(("", node_info.name))
        migrated_plugins = csi_node.migrated_plugins if csi_node else frozenset()
        for claim in charging(claims, 2):
            volume = self.snapshot.objects.volumes.get(("", claim.volume_name))
            if volume is None:
                return True, False
            if not volume.reachable_from(node_info.node.labels, migrated_plugins):
                return False, True
        return True, True

    def _check_delayed_claims(
        self, claims: tuple[PersistentVolumeClaim, ...], node_info: NodeInfo, pod_volumes: PodVolumes
    ) -> str | None:
        """Return why the claims cannot be bound on the node; None if they can. Source: `FindPodVolumes`.

        Fills `pod_volumes` with the volumes for the claims. Raises _Failed.
        """
        to_match, to_provision = [], []
        for claim in charging(claims, 1):
            if claim.selected_node is None:
                to_match.append(claim)
            elif claim.selected_node != node_info.name:
                return BIND_CONFLICT
            else:
                to_provision.append(claim)
        chosen: set[str] = set()
        for claim in sorted(to_match, key=lambda c: c.request or 0):
            volume = self._find_matching_volume(claim, chosen, node_info)
            if volume is None:
                to_provision.append(claim)
            else:
                chosen.add(volume.name)
                pod_volumes.matched.append((claim, volume))
        pod_volumes.to_provision.extend(to_provision)
        return self._check_provisions(to_provision, node_info, pod_volumes)

    def _check_provisions(
        self, claims: list[PersistentVolumeClaim], node_info: NodeInfo, pod_volumes: PodVolumes
    ) -> str | None:
        """Return why volumes for the claims cannot be provisioned on the node; None if they can. Source: upstream
        `checkVolumeProvisions`.

        Fills `pod_volumes` with the storage that provisions the volumes. Raises _Failed.
        """
        for claim in charging(claims, 1):
            if not claim.storage_class:
                raise _Failed(f'no class for claim "{claim.namespace}/{claim.name}"')
            storage_class = self.snapshot.objects.storage_classes.get(("", claim.storage_class))
            if storage_class is None:
                raise _Failed(f'failed to find storage class "{claim.storage_class}"')
            if storage_class.provisioner in ("", NO_PROVISIONER) or not storage_class.allows(node_info.node.labels):
                return BIND_CONFLICT
            driver = self.snapshot.objects.csi_drivers.get(("", storage_class.provisioner))
            if claim.request is None or driver is None or not driver.storage_capacity:
                continue
            capacity = self._enough_capacity(storage_class, claim, node_info)
            if capacity is None:
                return NOT_ENOUGH_SPACE
            provision = Binding(claim.storage_class, bytes_of(claim.request), bytes_of(capacity.capacity))
            pod_volumes.provisions.append(provision)
        return None

    def _enough_capacity(
        self, storage_class: StorageClass, claim: PersistentVolumeClaim, node_info: NodeInfo
    ) -> CSIStorageCapacity | None:
        """Return the first large enough CSIStorageCapacity, or None. Source: `hasEnoughCapacity`, which returns any."""
        name, request, labels = storage_class.name, bytes_of(claim.request), node_info.node.labels
        every = charging(tuple(self.snapshot.objects.storage_capacities.values()))
        enough = (capacity for capacity in every if capacity.nodes and _is_enough(capacity, name, request))
        return next((capacity for capacity in enough if capacity.nodes and capacity.nodes.matches(labels)), None)

    def _find_matching_volume(
        self, claim: PersistentVolumeClaim, chosen: set[str], node_info: NodeInfo
    ) -> PersistentVolume | None:
        """Return the volume for a claim: the volume that is reserved for the claim, otherwise the smallest that fits;
        or None.

        `chosen`: names of volumes that other claims of the Pod take. Raises _Failed. Source: component-helpers
        `FindMatchingVolume`.
        """
        if claim.selector_error:
            raise _Failed(f"error creating internal label selector for claim: {claim.namespace}/{claim.name}")
        meant, free = self._candidates(claim)
        for volume in meant:
            if volume.name not in chosen:
                return volume if volume.reachable_from(node_info.node.labels) else None
        left = (volume for volume in charging(free, 0.5) if volume.name not in chosen)
        return next((volume for volume in left if volume.reachable_from(node_info.node.labels)), None)

    def _candidates(
        self, claim: PersistentVolumeClaim
    ) -> tuple[Sequence[PersistentVolume], Sequence[PersistentVolume]]:
        """Return (volumes reserved for a claim; unbound volumes that fit, smallest first), on any node."""
        key = claim.namespace, claim.name
        if key not in self._fitting:
            parts = _volumes(self.snapshot.objects.volumes, claim.storage_class)
            self._fitting[key] = _prebound(parts, claim), _unbound(parts, claim)
        return self._fitting[key]


def _problem(claim: PersistentVolumeClaim | None, name: str, pod: Pod, *, ephemeral: bool) -> str:
    """Return why PreFilter rejects the Pod for a claim (None: missing); "" if not. Source: upstream `podHasPVCs`."""
    if claim is None:
        waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return waiting if ephemeral else not_found("persistentvolumeclaim", name)
    if claim.phase == "Lost":
        lost = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume_name}"'
        short = f'PersistentVolumeClaim "{name}" is bound to a PersistentVolume that does not exist'
        return Reason(lost, short, _RESTORE, of_volumes=True)
    if claim.deleting:
        text = f'persistentvolumeclaim "{name}" is being deleted'
        return Reason(text, f'PersistentVolumeClaim "{name}" is being deleted', RECREATE_IT, of_volumes=True)
    return not_created_for(claim, pod) if ephemeral and claim.owner_uid != pod.uid else ""


def could_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Report whether a volume suits by size, mode and attributes class, and is not reserved for others."""
    return (
        (volume.claim is None or volume.bound_to(claim))
        and volume.capacity >= (claim.request or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def available_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Report whether an unbound volume matches the claim's selector and access modes."""
    return (
        volume.phase == "Available"
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def cause_of_volumes(framework: Framework, pod: Pod) -> Reason | None:
    """Return why every node rejects the Pod's volumes, regardless of other Pods; None if a node does not."""
    if not pod.spec.has_storage or VolumeBinding.name not in framework.profile.plugins_at("filter"):
        return None
    plugin: VolumeBinding = framework.plugin(VolumeBinding.name)
    return plugin.cause(pod)
