"""The kinds of cases: which features change which shape of cluster. The id of a case begins with its kind."""

from collections.abc import Callable
from dataclasses import dataclass

from . import (
    attachments,
    configuration,
    device_shares,
    devices,
    lifecycle,
    mistakes,
    placement,
    resources,
    storage,
    topology,
)
from .dice import Dice, Obj
from .world import Shape, World, build

Feature = Callable[[World], None]

PLAIN = Shape()
ROOMY = Shape(load=(0.05, 0.6), need=(0.05, 0.4), nodes=(3, 10))
CALM = Shape(load=(0.3, 0.9), need=(0.1, 0.6))
LEVEL = Shape(ladder=(0, 100), preemptor=(1000,), load=(0.85, 1.0))


@dataclass(frozen=True)
class Kind:
    features: tuple[Feature, ...] = ()
    shape: Shape = PLAIN
    mixes: tuple[int, int] = (0, 0)


KINDS: dict[str, Kind] = {
    "fit": Kind(),
    "big": Kind(shape=Shape(nodes=(10, 30))),
    "score": Kind((placement.affinity_node, topology.spread, placement.images), ROOMY),
    "score-affinity": Kind((topology.preferred_affinity, placement.taints), ROOMY),
    "score-mixed": Kind(shape=ROOMY, mixes=(1, 4)),
    "pdb": Kind((lifecycle.pdbs,)),
    "pdb-many": Kind((lifecycle.overlapping_budgets, lifecycle.flat), LEVEL),
    "antiaffinity": Kind((topology.anti_affinity,), CALM),
    "affinity_pod": Kind((topology.affinity_pod,), CALM),
    "affinity_pod-first": Kind((topology.loners, topology.unlabelled_nodes), CALM),
    "spread": Kind((topology.spread,), CALM),
    "spread-bare": Kind((topology.spread, topology.unlabelled_nodes, placement.taints), CALM),
    "labelled": Kind((topology.topology_labels,), CALM),
    "labelled-roomy": Kind((topology.topology_labels, topology.preferred_affinity), ROOMY),
    "negative": Kind((lifecycle.negative,)),
    "extreme": Kind((lifecycle.extreme,)),
    "taints": Kind((placement.taints,)),
    "affinity_node": Kind((placement.affinity_node,)),
    "names": Kind((placement.node_names,)),
    "ports": Kind((placement.ports,), CALM),
    "score-empty": Kind((resources.best_effort, resources.nothing), ROOMY),
    "score-zero": Kind((resources.best_effort, resources.poor_nodes), ROOMY),
    "score-volumes": Kind((storage.volumes, topology.preferred_affinity), ROOMY),
    "images": Kind((placement.images,), ROOMY),
    "images-volumes": Kind((placement.image_volumes,), ROOMY),
    "nominated": Kind((lifecycle.nominated,)),
    "nominated-mixed": Kind((lifecycle.nominated,), mixes=(1, 3)),
    "binding": Kind((lifecycle.nominated, storage.binding)),
    "containers": Kind((resources.containers,)),
    "sidecars": Kind((resources.sidecars,)),
    "overhead": Kind((resources.overhead, resources.containers)),
    "podlevel": Kind((resources.pod_level, resources.overhead)),
    "podlevel-helpers": Kind((resources.containers, resources.sidecars, resources.pod_level)),
    "resize": Kind((resources.resize,)),
    "resize-podlevel": Kind((resources.sidecars, resources.pod_level, resources.resize)),
    "extended": Kind((resources.extended,)),
    "above": Kind((resources.above_allocatable,)),
    "above-calm": Kind((resources.above_allocatable, lifecycle.pdbs), CALM),
    "hugepages": Kind((resources.hugepages,), CALM),
    "ephemeral": Kind((resources.ephemeral_storage,)),
    "besteffort": Kind((resources.best_effort,)),
    "zero": Kind((resources.nothing, resources.poor_nodes)),
    "crowd": Kind((resources.crowd,), Shape(nodes=(1, 4))),
    "crowd-pdb": Kind((resources.crowd, lifecycle.pdbs, lifecycle.flat), Shape(nodes=(1, 4))),
    "terminating": Kind((lifecycle.terminating,)),
    "terminating-spread": Kind((topology.spread, topology.anti_affinity, lifecycle.terminating), CALM),
    "never": Kind((lifecycle.never,)),
    "flat": Kind((lifecycle.flat,), LEVEL),
    "ties": Kind((lifecycle.ties,), LEVEL),
    "ties-twins": Kind((lifecycle.twins,), LEVEL),
    "ties-pdb": Kind((lifecycle.ties, lifecycle.pdbs, lifecycle.undisrupted), LEVEL),
    "nostart": Kind((lifecycle.without_start,)),
    "nostart-flat": Kind((lifecycle.flat, lifecycle.without_start), LEVEL),
    "static": Kind((lifecycle.mirror_pods,)),
    "strangers": Kind((lifecycle.strangers,)),
    "same_names": Kind((lifecycle.same_names, lifecycle.pdbs)),
    "volumes": Kind((storage.volumes,)),
    "volumes-old": Kind((topology.old_labels, storage.volumes), CALM),
    "disks": Kind((storage.disks,), CALM),
    "csi": Kind((attachments.attach_limits,), CALM),
    "csi-migrated": Kind((attachments.migrated_disks,), CALM),
    "capacity": Kind((attachments.capacity,), CALM),
    "capacity-scored": Kind((attachments.capacity,), ROOMY),
    "statefulset": Kind((storage.stateful,)),
    "inline": Kind((storage.inline_claims,)),
    "services": Kind((topology.services,), ROOMY),
    "services-full": Kind((topology.services, lifecycle.pdbs)),
    "mixed": Kind(mixes=(2, 4)),
    "devices": Kind((devices.devices,), CALM),
    "devices-crowded": Kind((devices.crowded_devices,), ROOMY),
    "devices-alternatives": Kind((devices.alternatives,), ROOMY),
    "devices-agreeing": Kind((devices.agreeing_devices,), ROOMY),
    "devices-all": Kind((devices.all_devices,), ROOMY),
    "devices-allocated": Kind((devices.allocated_claims,), CALM),
    "devices-tainted": Kind((devices.tainted_devices,), ROOMY),
    "devices-shared": Kind((devices.shared_pools,), CALM),
    "devices-extended": Kind((devices.extended_devices,), CALM),
    "devices-mixed": Kind((devices.devices,), mixes=(1, 3)),
    "dra-capacity": Kind((device_shares.capacity,), ROOMY),
    "dra-capacity-tight": Kind((device_shares.tight_capacity,), ROOMY),
    "dra-partitions": Kind((device_shares.partitions,), ROOMY),
    "dra-partitions-wide": Kind((device_shares.wide_partitions,), ROOMY),
    "dra-partitions-shared": Kind((device_shares.shared_partitions,), ROOMY),
    "dra-distinct": Kind((device_shares.distinct,), ROOMY),
    "dra-ready": Kind((device_shares.binding_conditions,), CALM),
    "dra-extended-shared": Kind((device_shares.extended,), CALM),
    "dra-rules": Kind((device_shares.taint_rules,), ROOMY),
}

# In this order, because some features read what others wrote; each pair may meet in a mixed case.
MIXABLE: tuple[Feature, ...] = (
    lifecycle.negative,
    lifecycle.flat,
    resources.extended,
    resources.hugepages,
    resources.containers,
    resources.sidecars,
    resources.overhead,
    resources.pod_level,
    resources.ephemeral_storage,
    placement.taints,
    placement.affinity_node,
    placement.ports,
    placement.images,
    topology.affinity_pod,
    topology.anti_affinity,
    topology.preferred_affinity,
    topology.spread,
    topology.services,
    storage.volumes,
    storage.disks,
    attachments.attach_limits,
    storage.inline_claims,
    lifecycle.pdbs,
    lifecycle.terminating,
    lifecycle.without_start,
    lifecycle.mirror_pods,
    resources.resize,
)


def make_case(seed: int, number: int, name: str, *, configured: bool = False) -> Obj:
    """One case; the same seed, number and kind always give the same one.

    `configured`: with a KubeSchedulerConfiguration of its own, of which one in six holds a mistake.
    """
    dice = Dice(f"{seed}/{number}/{name}")
    kind = KINDS[name]
    world = build(dice, kind.shape)
    chosen = [*kind.features]
    if kind.mixes != (0, 0):
        drawn = dice.some(range(len(MIXABLE)), *kind.mixes)
        chosen += [MIXABLE[i] for i in sorted(drawn)]
    for feature in chosen:
        feature(world)
    if not configured:
        return world.to_case(f"{name}-{number:05d}")
    config = configuration.configured(world)
    if spoilt := dice.chance(1 / 6):
        mistakes.spoil(dice, config)
    return {**world.to_case(f"{'spoilt' if spoilt else 'valid'}-{name}-{number:05d}"), "config": config}
