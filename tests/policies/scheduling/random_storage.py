"""Random volumes: disks in pods, claims of every kind, their volumes and classes, and what a node can attach."""

import copy
from typing import Any

from tests.policies.scheduling.random_pods import Dice, Obj

DRIVER = "csi.example.com"
IN_TREE: tuple[Obj, ...] = (
    {"awsElasticBlockStore": {"volumeID": "vol-12345678"}},
    {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-12345678"}},
    {"gcePersistentDisk": {"pdName": "d1"}},
)


def add_volume(pod: Obj, source: Obj) -> None:
    found = pod["spec"].setdefault("volumes", [])
    found.append({"name": f"v{len(found)}", **source})


def disk(dice: Dice) -> Obj:
    """A disk that few pods may share."""
    read_only = {"readOnly": True} if dice.percent(40) else {}
    which = dice.one(("d1", "d2"))
    return dice.one(
        (
            {"gcePersistentDisk": {"pdName": which, **read_only}},
            {"awsElasticBlockStore": {"volumeID": which, **read_only}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.9:3260",
                    "iqn": f"iqn.2026-01.example:{which}",
                    "lun": 0,
                    "iscsiInterface": "default",
                    **read_only,
                }
            },
            {
                "rbd": {
                    "monitors": dice.some(["m1", "m2"], most=2),
                    "image": which,
                    "pool": "rbd",
                    "user": "admin",
                    "keyring": "/etc/ceph/keyring",
                    **read_only,
                }
            },
        )
    )


def add_disks(dice: Dice, case: dict[str, Any]) -> None:
    add_volume(case["pod"], disk(dice))
    for pod in case["pods"]:
        if dice.percent(30):
            add_volume(pod, disk(dice))


def add_storage(dice: Dice, case: dict[str, Any]) -> None:
    """Claims for the pod and for others, in its namespace and under the same names in another."""
    case["storageClasses"] = [storage_class(dice, name) for name in ("late", "now")]
    case["pvcs"], case["pvs"] = [], []
    home = case["pod"]["metadata"]["namespace"]
    for i in range(dice.rng.randint(1, 3)):
        for namespace in (home, "dev"):
            claim, volume = claim_object(dice, f"claim{i}", namespace)
            case["pvcs"].append(claim)
            case["pvs"] += volume
    for i in range(dice.rng.randint(0, 2)):
        case["pvs"].append(volume_object(dice, f"free{i}"))
    mine = [f"claim{i}" for i in range(4) if dice.percent(50)]
    for name in mine:
        if dice.percent(97) and not any(c["metadata"]["name"] == name for c in case["pvcs"]):
            continue
        add_volume(case["pod"], {"persistentVolumeClaim": {"claimName": name}})
    known = {(c["metadata"]["namespace"], c["metadata"]["name"]) for c in case["pvcs"]}
    for pod in case["pods"]:
        name = f"claim{dice.rng.randrange(3)}"
        if dice.percent(35) and (pod["metadata"]["namespace"], name) in known:
            add_volume(pod, {"persistentVolumeClaim": {"claimName": name}})
    if dice.percent(25):
        add_ephemeral(dice, case)
    if dice.percent(60):
        case["csiNodes"] = [csi_node(dice, node) for node in case["nodes"] if dice.percent(80)]
        held = [volume for volume in case["pvs"] if dice.percent(30)]
        case["volumeAttachments"] = [attachment(volume, dice.one(case["nodes"])) for volume in held]
    if dice.percent(30):
        case["csiDrivers"] = [csi_driver(dice)]
        case["csiStorageCapacities"] = [capacity(dice, f"capacity{i}") for i in range(dice.rng.randint(0, 3))]


def add_ephemeral(dice: Dice, case: dict[str, Any]) -> None:
    """A volume that comes and goes with the pod; its claim is named after both."""
    pod = case["pod"]
    spec: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec.update(volumeMode="Filesystem", storageClassName="late")
    add_volume(pod, {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    name = f"{pod['metadata']['name']}-{pod['spec']['volumes'][-1]['name']}"
    claim, volumes = claim_object(dice, name, pod["metadata"]["namespace"])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "controller": True}
    owner["uid"] = pod["metadata"]["uid"] if dice.percent(90) else "uid-other"
    claim["metadata"]["ownerReferences"] = [owner]
    if dice.percent(90):
        case["pvcs"].append(claim)
        case["pvs"] += volumes


def attachment(volume: Obj, node: Obj) -> Obj:
    """What the node holds, whether or not a pod still uses it."""
    name = f"{volume['metadata']['name']}-{node['metadata']['name']}"
    spec = {"attacher": DRIVER, "nodeName": node["metadata"]["name"]}
    spec["source"] = {"persistentVolumeName": volume["metadata"]["name"]}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}


def csi_driver(dice: Dice) -> Obj:
    spec = {"attachRequired": True, "volumeLifecycleModes": ["Persistent"], "storageCapacity": dice.percent(70)}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}


def capacity(dice: Dice, name: str) -> Obj:
    """How much room there is, and for which nodes."""
    made: Obj = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": dice.one(("late", "late", "now")),
        "capacity": dice.one(("2Gi", "8Gi")),
    }
    if dice.percent(80):
        zone = {"matchLabels": {"topology.kubernetes.io/zone": dice.one(("z1", "z2", "z3"))}}
        made["nodeTopology"] = dice.one(({}, zone, zone))
    if dice.percent(30):
        made["maximumVolumeSize"] = dice.one(("1Gi", "5Gi"))
    return made


def storage_class(dice: Dice, name: str) -> Obj:
    mode = "WaitForFirstConsumer" if name == "late" else "Immediate"
    made: Obj = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner" if dice.percent(30) else DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
    }
    if name == "late" and dice.percent(30):
        zone = {"key": "topology.kubernetes.io/zone", "values": ["z1", "z2"]}
        made["allowedTopologies"] = [{"matchLabelExpressions": [zone]}]
    return made


def claim_object(dice: Dice, name: str, namespace: str) -> tuple[Obj, list[Obj]]:
    """A claim, and its volume when it is bound; seldom one that still waits to be bound at once."""
    mode = dice.one(("ReadWriteOncePod", "ReadWriteOnce"))
    bound = dice.percent(70)
    storage = "now" if dice.percent(15 if bound else 5) else "late"
    claim: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": dice.one(("1Gi", "5Gi"))}},
            "storageClassName": storage,
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound" if bound else "Pending"},
    }
    if not bound:
        if dice.percent(10):
            claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": dice.one(("n1", "n2"))}
        return claim, []
    volume = volume_object(dice, f"pv-{namespace}-{name}")
    volume["spec"]["accessModes"] = [mode]
    volume["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": name,
        "namespace": namespace,
    }
    volume["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"]
    volume["status"]["phase"] = "Bound"
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    if dice.percent(95):
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    if dice.percent(3):
        claim["status"]["phase"] = "Lost"
    if dice.percent(3):
        claim["metadata"].update(deletionTimestamp="2026-02-27T20:53:20Z", deletionGracePeriodSeconds=0)
    if dice.percent(20):
        del volume["spec"]["csi"]
        volume["spec"].update(copy.deepcopy(dice.one(IN_TREE)))
    return claim, [volume] if dice.percent(97) else []


def volume_object(dice: Dice, name: str) -> Obj:
    made: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": dice.one(("2Gi", "3Gi", "10Gi"))},
            "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "late",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Available"},
    }
    if dice.percent(30):
        zones = dice.some(["z1", "z2", "z3"], most=2)
        expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}
        made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if dice.percent(20):
        made["metadata"]["labels"] = {"topology.kubernetes.io/zone": dice.one(("z1", "z2", "z1__z2"))}
    return made


def csi_node(dice: Dice, node: Obj) -> Obj:
    name = node["metadata"]["name"]
    drivers: list[Obj] = []
    for driver in (DRIVER, "ebs.csi.aws.com", "pd.csi.storage.gke.io"):
        if driver == DRIVER or dice.percent(40):
            drivers.append({"name": driver, "nodeID": name, "topologyKeys": []})
            if dice.percent(80):
                drivers[-1]["allocatable"] = {"count": dice.rng.randint(0, 3)}
    meta: Obj = {"name": name}
    if dice.percent(50):
        plugins = "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"
        meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": meta,
        "spec": {"drivers": drivers},
    }
