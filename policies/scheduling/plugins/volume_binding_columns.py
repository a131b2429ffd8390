"""Binding and provisioning of a Pod's claims for all nodes at once. Source: upstream `volumebinding`.

The result depends on the labels of nodes and on CSINodes, but not on the Pods of the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.cow_table import derived
from forewarn.policies.metering import charge, each
from forewarn.policies.objects.storage import NO_PROVISIONER
from forewarn.policies.objects.volumes import translated_topology
from forewarn.policies.scheduling.plugins.storage_score import bytes_of
from forewarn.policies.scheduling.vectorized.constraints import NotValid
from forewarn.policies.scheduling.vectorized.node_labels import Selectors, reached, selected
from forewarn.policies.scheduling.vectorized.storage import storage_of
from forewarn.policies.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
    from forewarn.policies.scheduling.vectorized.node_fit import NodeFit

REFUSED, TIGHT = 1, 2
_MAX_CLAIMS: Final = 64
_MAX_TRIED: Final = 64
"""Maximum unbound volumes of a class that different claims of a Pod are matched with one after the other."""


class _OfClass(NamedTuple):
    """The volumes of a StorageClass: unbound ones, and those reserved for a claim, by (namespace, name)."""

    free: list[PersistentVolume]
    prebound: dict[tuple[str, str], list[PersistentVolume]]


class Suits(NamedTuple):
    """The checks whether a volume suits a claim, without node affinity.

    `could_hold`: size, mode and attributes class suit the claim. `available`: an unbound volume matches the selector
    and access modes.
    """

    could_hold: Callable[[PersistentVolume, PersistentVolumeClaim], bool]
    available: Callable[[PersistentVolume, PersistentVolumeClaim], bool]


def unmountable(
    problem: NodeFit, claims: Iterable[PersistentVolumeClaim]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two bool arrays [node]: whether the node cannot reach a volume of the bound claims; whether a volume does
    not exist.

    On each node, only the first such volume counts. Source: `checkBoundClaims`.
    """
    nodes, volumes = problem.matrix.nodes, problem.snapshot.objects.volumes
    left = np.ones(len(nodes.nodes), np.bool_)
    conflict, missing = ~left, ~left
    for claim in each(tuple(claims), 2):
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


def unbindable(problem: NodeFit, claims: Sequence[PersistentVolumeClaim], suits: Suits) -> NDArray[np.int64]:
    """Return [node]: why the node cannot bind or provision volumes for unbound claims (REFUSED or TIGHT); 0 if the node
    can.

    TIGHT: storage capacity is insufficient. Raises NotValid if there are too many claims, if different claims select
    among too many volumes, or if upstream returns an error. Source: `FindPodVolumes`.
    """
    if len(claims) > _MAX_CLAIMS:
        raise NotValid("as more than 64 claims of the pod wait for their node")
    found = np.zeros(len(problem.possible), np.int64)
    to_provide, to_match = [], []
    for claim in claims:
        if claim.selected_node is not None:
            found[~_only(problem, claim.selected_node)] = REFUSED
            to_provide.append((claim, np.ones(len(found), np.bool_)))
        elif claim.selector_error:
            raise NotValid("as a selector of its claims cannot be read")
        else:
            to_match.append(claim)
    to_match.sort(key=lambda claim: claim.request or 0)
    lacking = [np.zeros(0, np.bool_)] * len(to_match)
    for storage_class in dict.fromkeys(claim.storage_class for claim in to_match):
        places = [place for place, claim in enumerate(to_match) if claim.storage_class == storage_class]
        for place, where in zip(places, _unavailable(problem, [to_match[p] for p in places], suits), strict=True):
            lacking[place] = where
    for claim, where in (*to_provide, *zip(to_match, lacking, strict=True)):
        charge(problem.row)
        rejected, tight = _unprovidable(problem, claim)
        found[where & (found == 0) & rejected] = REFUSED
        found[where & (found == 0) & tight] = TIGHT
    return found


def _only(problem: NodeFit, name: str) -> NDArray[np.bool_]:
    found = np.zeros(len(problem.possible), np.bool_)
    row = problem.snapshot.rows.get(name)
    if row is not None:
        found[row] = True
    return found


def _unavailable(
    problem: NodeFit, claims: Sequence[PersistentVolumeClaim], suits: Suits
) -> Sequence[NDArray[np.bool_]]:
    """Return a bool array [node] for each claim: whether no volume on the node suits the claim.

    `claims`: claims of one StorageClass, smallest first. Raises NotValid.
    """
    parts = _volumes(problem.snapshot.objects.volumes, claims[0].storage_class)
    first = claims[0]
    prebound = [_prebound(parts, claim, suits) for claim in claims]
    if not any(prebound) and all(_wanted_fields(claim) == _wanted_fields(first) for claim in claims[1:]):
        counts = _free(problem, parts, first, suits).counts(problem.matrix.nodes)
        return [counts <= before for before in range(len(claims))]
    if len(claims) == 1:
        # One that is meant for the claim is taken, or nothing is.
        return [~reached(problem.matrix.nodes, prebound[0][0].node_affinity)]
    return _one_after_the_other(problem, claims, parts, prebound, suits)


def _one_after_the_other(
    problem: NodeFit,
    claims: Sequence[PersistentVolumeClaim],
    parts: Sequence[_OfClass],
    prebound: Sequence[Sequence[PersistentVolume]],
    suits: Suits,
) -> list[NDArray[np.bool_]]:
    """Return a bool array [node] for each claim: whether no volume on the node is left for the claim. Raises NotValid.

    Binds claims in upstream's order, smallest first. `prebound`: for each claim, the volumes that are reserved for the
    claim.
    """
    nodes = problem.matrix.nodes
    found: list[NDArray[np.bool_]] = []
    assumed: dict[str, NDArray[np.bool_]] = {}
    """Volume name -> [node], bool: whether a claim before takes the volume there."""
    free = [volume for part in parts for volume in part.free]
    if len(free) > _MAX_TRIED:
        raise NotValid("as different claims of the pod choose among many volumes")
    no_nodes = np.zeros(len(nodes.nodes), np.bool_)
    for claim, own in zip(claims, prebound, strict=True):
        bound, unbound = no_nodes.copy(), ~no_nodes
        charge((len(own) + len(free)) * (1 + 4 * problem.row))
        for volume in own:
            # The first that nobody has yet is taken, or nothing is: where all are, it is one among others.
            here = unbound & ~assumed.get(volume.name, no_nodes)
            gets = here & reached(nodes, volume.node_affinity)
            assumed[volume.name] = assumed.get(volume.name, no_nodes) | gets
            bound |= gets
            unbound &= ~here
        fitting = (v for v in free if suits.could_hold(v, claim) and suits.available(v, claim))
        for volume in sorted(fitting, key=lambda v: (v.capacity, v.name)):
            gets = unbound & ~bound & ~assumed.get(volume.name, no_nodes) & reached(nodes, volume.node_affinity)
            assumed[volume.name] = assumed.get(volume.name, no_nodes) | gets
            bound |= gets
        found.append(~bound)
    return found


def _prebound(parts: Sequence[_OfClass], claim: PersistentVolumeClaim, suits: Suits) -> list[PersistentVolume]:
    """Return the suitable volumes that are reserved for a claim, sorted by name."""
    found = [volume for part in parts for volume in part.prebound.get((claim.namespace, claim.name), ())]
    charge(len(found) + len(parts) // 8)
    fitting = [volume for volume in found if volume.bound_to(claim) and suits.could_hold(volume, claim)]
    return sorted(fitting, key=lambda volume: volume.name)


def _free(problem: NodeFit, parts: Sequence[_OfClass], claim: PersistentVolumeClaim, suits: Suits) -> Selectors:
    """Return selectors of the nodes with suitable unbound volumes for a claim; cached until volumes change."""

    def compute() -> Selectors:
        selectors = Selectors()
        for part in parts:
            for volume in each(part.free, 1):
                if suits.could_hold(volume, claim) and suits.available(volume, claim):
                    selectors.add_affinity(volume.node_affinity)
        return selectors

    if not any(part.free for part in parts):
        return Selectors()
    storage = storage_of(problem.matrix, problem.snapshot)
    return storage.cached(problem.snapshot.objects.volumes, _wanted_fields(claim), compute)


def _wanted_fields(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    amounts = claim.request, claim.volume_mode, claim.attributes_class
    return claim.storage_class, *amounts, frozenset(claim.access_modes), claim.selector


def _unprovidable(problem: NodeFit, claim: PersistentVolumeClaim) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
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


def _allowed(problem: NodeFit, storage_class: StorageClass) -> NDArray[np.bool_]:
    """Return [node], bool: whether the labels of the node match the allowed topologies. See `StorageClass.allows`."""
    nodes, terms = problem.matrix.nodes, storage_class.allowed_topologies
    if not terms:
        return np.ones(len(nodes.nodes), np.bool_)
    found = np.zeros(len(nodes.nodes), np.bool_)
    for term in each(terms, 1):
        if term:
            found |= selected(nodes, (Requirement(key, "In", values) for key, values in term))
    return found


def _roomy(problem: NodeFit, storage_class: str, request: int) -> Selectors:
    """Return selectors of the nodes with a CSIStorageCapacity of the class of at least `request` bytes.

    Source: `hasEnoughCapacity`.
    """
    capacities = problem.snapshot.objects.storage_capacities

    def compute() -> Selectors:
        selectors = Selectors()
        for capacity in each(tuple(capacities.values())):
            if (
                capacity.storage_class == storage_class
                and capacity.limit is not None
                and bytes_of(capacity.limit) >= request
                and capacity.nodes is not None
            ):
                selectors.add(capacity.nodes.requirements)
        return selectors

    return storage_of(problem.matrix, problem.snapshot).cached(capacities, (storage_class, request), compute)


def _volumes(volumes: Mapping[tuple[str, str], PersistentVolume], storage_class: str) -> list[_OfClass]:
    """Return the volumes of a StorageClass, one entry for each shard of the table that has any."""
    charge(50)
    return [part[storage_class] for part in derived(volumes, _by_class) if storage_class in part]


def _by_class(volumes: Mapping[tuple[str, str], PersistentVolume]) -> dict[str, _OfClass]:
    found: dict[str, _OfClass] = {}
    charge(len(volumes))
    for volume in volumes.values():
        of_class = found.setdefault(volume.storage_class, _OfClass([], {}))
        if volume.claim is None:
            of_class.free.append(volume)
        else:
            of_class.prebound.setdefault(volume.claim[:2], []).append(volume)
    return found
