"""Features of volumes: claims, volumes and classes, disks that only one node may write to, attach limits."""

from .dice import Dice, Obj, timestamp
from .topology import owned_by
from .world import HOSTNAME, NOW, REGION, ZONE, World

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
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
    classes(world)
    for _ in range(dice.number(1, 2)):
        claim = _claim_in_some_state(world)
        mount(world.pod, claim)
        for pod in world.bound():
            if pod["metadata"]["namespace"] == world.pod["metadata"]["namespace"] and dice.chance(0.1):
                mount(pod, claim)
        if dice.chance(0.3):
            _namesake(world, claim)


def binding(world: World) -> None:
    """Nominated pods whose claims have been told a node: theirs, and then they are there, or another."""
    dice = world.dice
    classes(world)
    for pod in world.pods:
        node = pod["status"].get("nominatedNodeName")
        if node and dice.chance(0.8):
            claim = claim_of_class(world, "late", 1)
            claim["metadata"]["namespace"] = pod["metadata"]["namespace"]
            told = node if dice.chance(0.8) else dice.pick(world.nodes)["metadata"]["name"]
            claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": told}
            mount(pod, claim)


def _namesake(world: World, claim: Obj) -> None:
    """A claim of the same name in another namespace, with pods that use it."""
    strangers = [p for p in world.bound() if p["metadata"]["namespace"] != claim["metadata"]["namespace"]]
    namespace = world.dice.pick(strangers)["metadata"]["namespace"] if strangers else "dev"
    twin = claim_of_class(world, "late", 1)
    twin["metadata"] |= {"name": claim["metadata"]["name"], "namespace": namespace}
    bind_claim(world, twin, {})
    for pod in strangers:
        if pod["metadata"]["namespace"] == namespace and world.dice.chance(0.4):
            mount(pod, twin)


def classes(world: World) -> None:
    storage_class(world, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    storage_class(world, "late", DRIVERS[0], "WaitForFirstConsumer")
    storage_class(world, "now", DRIVERS[0], "Immediate")
    zones = world.dice.some(("z1", "z2", "z3"), 1, 2)
    narrow = storage_class(world, "narrow", DRIVERS[0], "WaitForFirstConsumer")
    if "allowedTopologies" not in narrow:
        narrow["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]


def storage_class(world: World, name: str, provisioner: str, mode: str) -> Obj:
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
        return claim_of_class(world, "late", size, keep=False)
    if state in ("late", "now", "narrow"):
        return claim_of_class(world, state, size)
    if state == "selected":
        claim = claim_of_class(world, "late", size)
        node = dice.pick(world.nodes)["metadata"]["name"]
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node}
        return claim
    if state == "local":
        _local_volumes(world)
        return claim_of_class(world, "local", size)
    claim = claim_of_class(world, dice.pick(("local", "late", "now", "")), size)
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


def claim_of_class(world: World, class_: str, gibibytes: int, keep: bool = True) -> Obj:
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
        return {"labels": {OLD_ZONE: dice.pick(("z1", "z2", "z3")), OLD_REGION: "r1"}}
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


def stateful(world: World) -> None:
    """A StatefulSet with a claim for each of its pods; the incoming pod is one of them."""
    classes(world)
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
    claim = claim_of_class(world, world.dice.pick(("late", "local")), 1)
    claim["metadata"]["name"] = f"data-{owner}-{ordinal}"
    if "nodeName" in pod["spec"] or world.dice.chance(0.7):
        bind_claim(world, claim, _where(world) if pod is world.pod else {})
    mount(pod, claim)


def inline_claims(world: World) -> None:
    """Generic ephemeral volumes: the claim belongs to the pod and is named after it."""
    classes(world)
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
        claim = claim_of_class(world, "late", 1)
        claim["metadata"] |= {"name": f"{pod['metadata']['name']}-scratch", "namespace": pod["metadata"]["namespace"]}
        if pod is not world.pod or world.dice.chance(0.93):
            owned_by(claim, "v1", "Pod", pod["metadata"]["name"])
            claim["metadata"]["ownerReferences"][0]["uid"] = pod["metadata"]["uid"]
        if pod is not world.pod or world.dice.chance(0.4):
            bind_claim(world, claim, _where(world) if pod is world.pod else {})
