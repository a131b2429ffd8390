"""Features of attaching and making volumes: limits of CSI drivers, migrated disks, room that drivers report."""

from .dice import Obj
from .storage import DRIVERS, GIBIBYTES, bind_claim, claim_of_class, classes, mount, storage_class
from .world import HOSTNAME, ZONE, World


def attach_limits(world: World) -> None:
    """Nodes that may attach few volumes of a CSI driver, and attachments that count without a pod."""
    dice = world.dice
    classes(world)
    for node in world.nodes:
        if dice.chance(0.85):
            _csi_node(world, node, dice.number(1, 4))
    for pod in world.bound():
        for _ in range(dice.weighted({0: 3, 1: 3, 2: 1})):
            _attach(world, pod, dice.pick(DRIVERS))
    for _ in range(dice.number(1, 2)):
        claim = _csi_claim(world, world.pod, DRIVERS[0] if dice.chance(0.7) else DRIVERS[1])
        mount(world.pod, claim)


def _csi_node(world: World, node: Obj, count: int) -> None:
    name = node["metadata"]["name"]
    drivers = []
    for driver in DRIVERS:
        entry: Obj = {"name": driver, "nodeID": name, "topologyKeys": [HOSTNAME]}
        if world.dice.chance(0.85):
            entry["allocatable"] = {"count": count}
        drivers.append(entry)
    metadata = {"name": name, "uid": f"uid-csi-{name}"}
    world.add(
        "csiNodes",
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}},
    )


def _csi_claim(world: World, pod: Obj, driver: str) -> Obj:
    claim = claim_of_class(world, "late" if driver == DRIVERS[0] else "now", 1)
    claim["metadata"]["namespace"] = pod["metadata"]["namespace"]
    volume = bind_claim(world, claim, {})
    volume["spec"]["csi"] = {"driver": driver, "volumeHandle": f"handle-{volume['metadata']['name']}"}
    return claim


def _attach(world: World, pod: Obj, driver: str) -> None:
    claim = _csi_claim(world, pod, driver)
    mount(pod, claim)
    if world.dice.chance(0.5):
        name = world.fresh_name("attachment")
        spec = {
            "attacher": driver,
            "nodeName": pod["spec"]["nodeName"],
            "source": {"persistentVolumeName": claim["spec"]["volumeName"]},
        }
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}
        world.add("volumeAttachments", {**made, "status": {"attached": True}})


def migrated_disks(world: World) -> None:
    """Disks that pods name in the old way and a CSI driver attaches, with its limit."""
    dice, driver = world.dice, "ebs.csi.aws.com"
    for node in world.nodes:
        name = node["metadata"]["name"]
        entry = {"name": driver, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": dice.number(1, 3)}}
        metadata: Obj = {"name": name, "uid": f"uid-csi-{name}"}
        if dice.chance(0.85):
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
        spec = {"drivers": [entry]}
        world.add(
            "csiNodes", {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": spec}
        )
    for pod in world.everyone():
        if pod is world.pod or dice.chance(0.5):
            disk = {
                "awsElasticBlockStore": {"volumeID": f"vol-{dice.number(1, 9)}", "fsType": "ext4", "readOnly": True}
            }
            pod["spec"].setdefault("volumes", []).append({"name": "old", **disk})
        if dice.chance(0.3):
            mount(pod, _migrated_claim(world, pod))


def _migrated_claim(world: World, pod: Obj) -> Obj:
    """A claim whose volume, or whose class, still names the plugin that the driver replaces."""
    storage_class(world, "old", "kubernetes.io/aws-ebs", "WaitForFirstConsumer")
    claim = claim_of_class(world, "old", 1)
    claim["metadata"]["namespace"] = pod["metadata"]["namespace"]
    if "nodeName" in pod["spec"] or world.dice.chance(0.6):
        disk = {"volumeID": f"aws://zone/vol-{world.dice.number(1, 9)}", "fsType": "ext4"}
        bind_claim(world, claim, {}, {"awsElasticBlockStore": disk})
    return claim


def capacity(world: World) -> None:
    """A driver that reports how much room it has in each zone, and claims that wait for their pod."""
    dice, driver = world.dice, DRIVERS[0]
    classes(world)
    spec = {"attachRequired": True, "volumeLifecycleModes": ["Persistent"], "storageCapacity": dice.chance(0.85)}
    metadata: Obj = {"name": driver}
    world.add(
        "csiDrivers", {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata, "spec": spec}
    )
    for zone in dice.some(("z1", "z2", "z3"), 1, 3):
        made: Obj = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": world.fresh_name("room"), "namespace": "default"},
            "storageClassName": "late",
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            "capacity": f"{dice.pick(GIBIBYTES)}Gi",
        }
        if dice.chance(0.3):
            made["maximumVolumeSize"] = f"{dice.pick(GIBIBYTES)}Gi"
        world.add("csiStorageCapacities", made)
    for _ in range(dice.number(1, 2)):
        mount(world.pod, claim_of_class(world, "late", dice.pick(GIBIBYTES)))
