"""The score of a node's storage for a Pod's claims. Source: upstream `plugins/volumebinding/scorer.go`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.quantity import NANO
from forewarn.policies.scheduling.plugins.resource_allocation import broken_linear

if TYPE_CHECKING:
    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim

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

    `bindings`: existing volumes. `provisions`: claims whose CSI driver reports its storage capacity. `matched`: each
    claim with its existing volume. `to_provision`: the other unbound claims.
    """

    bindings: list[Binding] = field(default_factory=list)
    provisions: list[Binding] = field(default_factory=list)
    matched: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    to_provision: list[PersistentVolumeClaim] = field(default_factory=list)


NO_VOLUMES: Final = PodVolumes()


def storage_score(volumes: PodVolumes, shape: Shape) -> int:
    """Return the storage score of a node, 0 to 100: the mean of the storage classes.

    If there are existing volumes, only they count.
    """
    classes: dict[str, tuple[int, int]] = {}
    for score in volumes.bindings or volumes.provisions:
        requested, capacity = classes.get(score.storage_class, (0, 0))
        # What is left of a class's storage is told once: upstream takes what the last claim found.
        capacity = capacity + score.capacity if volumes.bindings else score.capacity
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
