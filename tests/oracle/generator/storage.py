"""Features of volumes: claims, volumes and classes, disks that only one node may write to, attach limits."""

from .dice import Dice, Obj, timestamp
from .topology import owned_by
from .world import HOSTNAME, NOW, REGION, ZONE, World

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVERS = ("ebs.csi.example.com", "nfs.csi.example.com")
GIBIBYTES = (1, 2, 5, 10)
STATES = {
    "bound": 9,
    "pod": 4,
    "local": 4,
    "late": 2,
    "narrow": 2,
    "selected": 1,
    "prebound": 1,
    "now": 1,
    "lost": 1,
    "deleting": 1,
    "no-volume": 1,
    "missing": 1,
}


def volumes(world: World) -> None:
    """Claims of the incoming pod in every state, and pods that share some of them."""
    dice = world.dice
    _classes(world)
    for _ in range(dice.number(1, 2)):
        claim = _claim_in_some_state(world)
        mount(world.pod, claim)
        for pod in world.bound():
            if pod["metadata"]["namespace"] == world.pod["metadata"]["namespace"] and dice.chance(0.1):
                mount(pod, claim)
        if dice.chance(0.3):
            _namesake(world, claim)


def _namesake(world: World, claim: Obj) -> None:
    """A claim of the same name in another namespace, with pods that use it."""
    strangers = [p for p in world.bound() if p["metadata"]["namespace"] != claim["metadata"]["namespace"]]
    namespace = world.dice.pick(strangers)["metadata"]["namespace"] if strangers else "dev"
    twin = _claim(world, "late", 1)
    twin["metadata"] |= {"name": claim["metadata"]["name"], "namespace": namespace}
    bind_claim(world, twin, {})
    for pod in strangers:
        if pod["metadata"]["namespace"] == namespace and world.dice.chance(0.4):
            mount(pod, twin)


def _classes(world: World) -> None:
    _class(world, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    _class(world, "late", DRIVERS[0], "WaitForFirstConsumer")
    _class(world, "now", DRIVERS[0], "Immediate")
    zones = world.dice.some(("z1", "z2", "z3"), 1, 2)
    narrow = _class(world, "narrow", DRIVERS[0], "WaitForFirstConsumer")
    if "allowedTopologies" not in narrow:
        narrow["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]


def _class(world: World, name: str, provisioner: str, mode: str) -> Obj:
    for known in world.extra.get("storageClasses", []):
        if known["metadata"]["name"] == name:
            return known
    made = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
    }
    return world.add("storageClasses", made)


def _claim_in_some_state(world: World) -> Obj:
    dice = world.dice
    state = dice.weighted(STATES)
    size = dice.pick(GIBIBYTES)
    if state == "missing":
        return _claim(world, "late", size, keep=False)
    if state in ("late", "now", "narrow"):
        return _claim(world, state, size)
    if state == "selected":
        claim = _claim(world, "late", size)
        node = dice.pick(world.nodes)["metadata"]["name"]
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node}
        return claim
    if state == "local":
        _local_volumes(world)
        return _claim(world, "local", size)
    claim = _claim(world, dice.pick(("local", "late", "now", "")), size)
    if state == "pod":
        claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    volume = bind_claim(world, claim, _where(world))
    _spoil(world, state, claim, volume)
    return claim


def _spoil(world: World, state: str, claim: Obj, volume: Obj) -> None:
    """Turn a bound claim into one in a worse state."""
    if state == "lost":
        claim["status"]["phase"] = "Lost"
    elif state == "deleting":
        claim["metadata"] |= {"deletionTimestamp": timestamp(NOW), "deletionGracePeriodSeconds": 0}
        claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    elif state == "no-volume":
        world.extra["pvs"].remove(volume)
    elif state == "prebound":
        del claim["metadata"]["annotations"]
        claim["status"] = {"phase": "Pending"}


def _claim(world: World, class_: str, gibibytes: int, keep: bool = True) -> Obj:
    name = world.fresh_name("claim")
    made: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": world.pod["metadata"]["namespace"], "uid": f"uid-{name}"},
        "spec": {
            "accessModes": [world.dice.weighted({"ReadWriteOnce": 5, "ReadWriteMany": 1})],
            "resources": {"requests": {"storage": f"{gibibytes}Gi"}},
            "storageClassName": class_,
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    }
    return world.add("pvcs", made) if keep else made


def _where(world: World) -> Obj:
    """How a volume is tied to a place: labels, node affinity, or not at all."""
    dice = world.dice
    shape = dice.weighted({"affinity": 4, "labels": 3, "old-labels": 1, "several": 1, "nowhere": 3})
    if shape == "labels":
        return {"labels": {ZONE: dice.pick(("z1", "z2", "z3"))}}
    if shape == "old-labels":
        return {"labels": {OLD_ZONE: dice.pick(("z1", "z2", "z3"))}}
    if shape == "several":
        return {"labels": {ZONE: "z1__z2", REGION: "r1"}}
    if shape == "affinity":
        return {"affinity": _volume_affinity(world)}
    return {}


def _volume_affinity(world: World) -> Obj:
    dice = world.dice
    names = [n["metadata"]["name"] for n in world.nodes]
    zone = {"key": ZONE, "operator": "In", "values": dice.some(("z1", "z2", "z3"), 1, 2)}
    host = {"key": HOSTNAME, "operator": "In", "values": dice.some(names, 1, 2)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [dice.pick((zone, host))]}]}}


def bind_claim(world: World, claim: Obj, where: Obj, source: Obj | None = None) -> Obj:
    name = world.fresh_name("pv")
    claim["spec"]["volumeName"] = name
    claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
    claim["status"] |= {"phase": "Bound", "accessModes": claim["spec"]["accessModes"]}
    size = claim["spec"]["resources"]["requests"]["storage"]
    claim["status"]["capacity"] = {"storage": size}
    volume = _volume(
        world, name, size, claim, where, source or {"csi": {"driver": DRIVERS[0], "volumeHandle": f"handle-{name}"}}
    )
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim["metadata"]["name"]}
    volume["spec"]["claimRef"] = {
        **reference,
        "namespace": claim["metadata"]["namespace"],
        "uid": claim["metadata"]["uid"],
    }
    volume["status"] = {"phase": "Bound"}
    return volume


def _volume(world: World, name: str, size: str, like: Obj, where: Obj, source: Obj) -> Obj:
    spec = {
        "capacity": {"storage": size},
        "accessModes": like["spec"]["accessModes"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": like["spec"]["storageClassName"],
        "volumeMode": "Filesystem",
        **source,
    }
    if "affinity" in where:
        spec["nodeAffinity"] = where["affinity"]
    metadata = {"name": name, "labels": where.get("labels", {})}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Available"},
    }
    return world.add("pvs", volume)


def _local_volumes(world: World) -> None:
    """Free volumes of different size on single nodes, for a claim that waits for its pod."""
    for node in world.dice.some(world.nodes, 1, len(world.nodes)):
        host = {"key": HOSTNAME, "operator": "In", "values": [node["metadata"]["name"]]}
        where = {"affinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}}
        like = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}}
        size = f"{world.dice.pick(GIBIBYTES)}Gi"
        _volume(world, world.fresh_name("pv"), size, like, where, {"local": {"path": "/mnt/disk"}})


def mount(pod: Obj, claim: Obj) -> None:
    mounts = pod["spec"].setdefault("volumes", [])
    reference = {"claimName": claim["metadata"]["name"]}
    mounts.append({"name": f"v{len(mounts)}", "persistentVolumeClaim": reference})


def disks(world: World) -> None:
    """Disks named in pods themselves; a node takes most of them only once for writing."""
    dice = world.dice
    for pod in world.everyone():
        if pod is world.pod or dice.chance(0.5):
            drawn = [_disk(dice) for _ in range(dice.number(1, 2))]
            held = pod["spec"].setdefault("volumes", [])
            held.extend({"name": f"d{i}", **disk} for i, disk in enumerate(drawn))


def _disk(dice: Dice) -> Obj:
    kind, number, read_only = dice.pick(("gce", "ebs", "iscsi", "rbd")), dice.number(1, 3), {"readOnly": True}
    extra = read_only if dice.chance(0.35) else {}
    if kind == "gce":
        return {"gcePersistentDisk": {"pdName": f"disk{number}", "fsType": "ext4", **extra}}
    if kind == "ebs":
        return {"awsElasticBlockStore": {"volumeID": f"vol-{number}", "fsType": "ext4", **extra}}
    if kind == "iscsi":
        portal = {"targetPortal": f"10.0.0.{number}:3260", "lun": 0, "iscsiInterface": "default"}
        return {"iscsi": {**portal, "iqn": f"iqn.2001-04.com.example:disk{dice.number(1, 2)}", **extra}}
    image = {
        "image": f"image{number}",
        "pool": dice.pick(("rbd", "fast")),
        "user": "admin",
        "keyring": "/etc/ceph/keyring",
    }
    return {"rbd": {"monitors": dice.some(("mon1:6789", "mon2:6789", "mon3:6789"), 1, 2), **image, **extra}}


def attach_limits(world: World) -> None:
    """Nodes that may attach few volumes of a CSI driver, and attachments that count without a pod."""
    dice = world.dice
    _classes(world)
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
    claim = _claim(world, "late" if driver == DRIVERS[0] else "now", 1)
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


def capacity(world: World) -> None:
    """A driver that reports how much room it has in each zone, and claims that wait for their pod."""
    dice, driver = world.dice, DRIVERS[0]
    _classes(world)
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
        mount(world.pod, _claim(world, "late", dice.pick(GIBIBYTES)))


def stateful(world: World) -> None:
    """A StatefulSet with a claim for each of its pods; the incoming pod is one of them."""
    _classes(world)
    name, namespace = "store", world.pod["metadata"]["namespace"]
    labels = {"app": "store"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img"}]}}
    claim_template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "late",
        },
    }
    spec: Obj = {"replicas": 4, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    spec["volumeClaimTemplates"] = [claim_template]
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    world.add("statefulSets", {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
    members = [p for p in world.bound() if p["metadata"]["namespace"] == namespace][:3]
    for ordinal, pod in enumerate([*members, world.pod]):
        _member(world, pod, name, ordinal, labels)


def _member(world: World, pod: Obj, owner: str, ordinal: int, labels: dict[str, str]) -> None:
    pod["metadata"]["name"] = f"{owner}-{ordinal}"
    pod["metadata"]["labels"] = {**labels, "apps.kubernetes.io/pod-index": str(ordinal)}
    owned_by(pod, "apps/v1", "StatefulSet", owner)
    claim = _claim(world, world.dice.pick(("late", "local")), 1)
    claim["metadata"]["name"] = f"data-{owner}-{ordinal}"
    if "nodeName" in pod["spec"] or world.dice.chance(0.7):
        bind_claim(world, claim, _where(world) if pod is world.pod else {})
    mount(pod, claim)


def inline_claims(world: World) -> None:
    """Generic ephemeral volumes: the claim belongs to the pod and is named after it."""
    _classes(world)
    for pod in [world.pod, *world.dice.some(world.bound(), 0, 4)]:
        template = {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "late",
            }
        }
        template["spec"]["volumeMode"] = "Filesystem"
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
        pod["spec"].setdefault("volumes", []).append(volume)
        if pod is world.pod and world.dice.chance(0.15):
            continue
        claim = _claim(world, "late", 1)
        claim["metadata"] |= {"name": f"{pod['metadata']['name']}-scratch", "namespace": pod["metadata"]["namespace"]}
        if pod is not world.pod or world.dice.chance(0.93):
            owned_by(claim, "v1", "Pod", pod["metadata"]["name"])
            claim["metadata"]["ownerReferences"][0]["uid"] = pod["metadata"]["uid"]
        if pod is not world.pod or world.dice.chance(0.4):
            bind_claim(world, claim, _where(world) if pod is world.pod else {})
