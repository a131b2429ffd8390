"""Random clusters of one to eight nodes with a pod that wants a place: the same seed gives the same case.

Cases have the form of the recorded ones. Most pods are plain, each case mixes a few of the FEATURES below, and the
numbers are such that about half of the cases end in a choice between several nodes to preempt on.
"""

import random
from typing import Any

from tests.policies.scheduling.random_pods import (
    FEATURES,
    NAMESPACES,
    Dice,
    Obj,
    pod_object,
    preemptor_object,
    selector,
)
from tests.policies.scheduling.random_storage import add_disks, add_storage

ZONES = ("z1", "z2", "z3")
KINDS = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "namespaces": ("v1", "Namespace"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "csiStorageCapacities": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "volumeAttachments": ("storage.k8s.io/v1", "VolumeAttachment"),
    "services": ("v1", "Service"),
    "replicaSets": ("apps/v1", "ReplicaSet"),
    "statefulSets": ("apps/v1", "StatefulSet"),
}


def random_case(seed: int | str, *features: str) -> dict[str, Any]:
    """The case of this seed; `features`: those that it has in any case."""
    rng = random.Random(f"case {seed}")
    dice = Dice(rng, frozenset((*features, *rng.sample(FEATURES, k=rng.choice((0, 2, 3, 4, 5, 6, 8))))))
    case: dict[str, Any] = {"id": f"{'ties' if 'ties' in dice.features else 'random'}-{seed}"}
    case["nodes"] = [node_object(dice, f"n{i + 1}") for i in range(rng.choice((1, 2, 3, 4, 5, 6, 7, 8)))]
    case["namespaces"] = [namespace_object(name) for name in NAMESPACES]
    case["pods"] = [pod for node in case["nodes"] for pod in pods_of(dice, node)]
    case["pdbs"] = [pdb_object(dice, f"pdb{i}") for i in range(rng.randint(1, 4))] if dice.has("pdb") else []
    case["pod"] = preemptor_object(dice, typical_cpu(case["nodes"]), case["nodes"])
    if dice.has("nominated"):
        case["pods"] += [nominated_object(dice, case["nodes"]) for _ in range(rng.randint(1, 3))]
    if dice.has("services"):
        add_services(dice, case)
    if dice.has("disks"):
        add_disks(dice, case)
    if dice.has("storage"):
        add_storage(dice, case)
    return case


def typical_cpu(nodes: list[Obj]) -> int:
    """Thousandths of a CPU on one of the smaller nodes."""
    return sorted(int(node["status"]["allocatable"]["cpu"].removesuffix("m")) for node in nodes)[len(nodes) // 4]


def namespace_object(name: str) -> Obj:
    labels = {"kubernetes.io/metadata.name": name, **NAMESPACES[name]}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def node_object(dice: Dice, name: str) -> Obj:
    """A node; some lack a zone, and allocatable is what makes nodes differ."""
    labels = {"kubernetes.io/hostname": name}
    if dice.percent(90):
        labels["topology.kubernetes.io/zone"] = dice.one(ZONES)
    if dice.percent(60):
        labels["disk"] = dice.one(("ssd", "hdd"))
    if dice.percent(60):
        labels["gen"] = dice.one(("1", "2", "3", "x"))
    allocatable = {
        "cpu": f"{dice.one((1000, 2000, 2000, 3500, 4000))}m",
        "memory": dice.one(("2Gi", "4Gi", "4000Mi", "8Gi", "6G")),
        "pods": str(dice.one((3, 5, 8, 12, 110)) if dice.percent(30) else 110),
    }
    if dice.has("ephemeral"):
        allocatable["ephemeral-storage"] = dice.one(("10Gi", "20Gi"))
    if dice.has("extended") and dice.percent(70):
        allocatable["example.com/gpu"] = str(dice.rng.randint(0, 4))
    if dice.has("hugepages") and dice.percent(70):
        allocatable["hugepages-2Mi"] = dice.one(("8Mi", "16Mi", "0"))
    spec: Obj = {}
    if dice.has("taints") and dice.percent(40):
        taints = dice.some(TAINTS, most=2)
        spec["taints"] = list({(taint["key"], taint["effect"]): taint for taint in taints}.values())
    if dice.has("cordoned") and dice.percent(20):
        spec["unschedulable"] = True
        spec.setdefault("taints", []).append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    status: Obj = {"allocatable": allocatable, "capacity": dict(allocatable)}
    if dice.has("images"):
        status["images"] = dice.some(IMAGES, most=2)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


TAINTS = (
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "flaky", "effect": "NoExecute"},
    {"key": "soft", "value": "x", "effect": "PreferNoSchedule"},
    {"key": "softer", "effect": "PreferNoSchedule"},
)
IMAGES = (
    {"names": ["img:latest"], "sizeBytes": 300_000_000},
    {"names": ["registry.example/big:1"], "sizeBytes": 700_000_000},
    {"names": ["registry.example/small:1"], "sizeBytes": 60_000_000},
    {"names": ["registry.example/latest:latest", "registry.example/huge:1"], "sizeBytes": 2_500_000_000},
)


def pods_of(dice: Dice, node: Obj) -> list[Obj]:
    """Pods that fill most of a node; now and then more than there is."""
    capacity = int(node["status"]["allocatable"]["cpu"].removesuffix("m"))
    goal = capacity * dice.rng.randint(20, 70) // 100 if dice.roomy else capacity * dice.rng.randint(80, 105) // 100
    pods: list[Obj] = []
    most = min(int(node["status"]["allocatable"]["pods"]), 12)
    used = 0
    while used < goal and len(pods) < most:
        pod, asked = pod_object(dice, node["metadata"]["name"], capacity)
        pods.append(pod)
        used += asked
    return pods


def nominated_object(dice: Dice, nodes: list[Obj]) -> Obj:
    """A pod that waits for its victims to leave."""
    pod, _ = pod_object(dice, None, 1500)
    pod["status"] = {"phase": "Pending", "nominatedNodeName": dice.one(nodes)["metadata"]["name"]}
    pod["spec"]["priority"] = dice.one((0, 100, 1000, 2000000))
    return pod


def pdb_object(dice: Dice, name: str) -> Obj:
    """A budget; some select everything or nothing, and some know of pods that are being evicted."""
    given = {} if dice.percent(10) else selector(dice)
    status: Obj = {
        "disruptionsAllowed": dice.one((0, 0, 1, 1, 2)),
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    if dice.percent(25):
        numbers = dice.rng.sample(range(1, 20), k=3)
        status["disruptedPods"] = {f"p{number:03}": "2026-02-27T20:53:20Z" for number in numbers}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": dice.one(list(NAMESPACES))},
        "spec": {"minAvailable": 1, "selector": given},
        "status": status,
    }


def add_services(dice: Dice, case: dict[str, Any]) -> None:
    """Services, and a controller of the pod: what the default spreading is made of."""
    namespace = case["pod"]["metadata"]["namespace"]
    selectors = ({"app": "web"}, {"app": "db"}, {"tier": "gold"})
    case["services"] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"s{i}", "namespace": namespace if dice.percent(80) else "dev"},
            "spec": {"ports": [{"port": 80}], **({"selector": dice.one(selectors)} if dice.percent(90) else {})},
        }
        for i in range(dice.rng.randint(0, 2))
    ]
    kind = dice.one(("ReplicaSet", "StatefulSet", "DaemonSet"))
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "own", "uid": "uid-own", "controller": True}
    if dice.percent(70):
        case["pod"]["metadata"]["ownerReferences"] = [owner]
    if kind != "DaemonSet":
        labels = case["pod"]["metadata"].setdefault("labels", {"app": "web"})
        meta = {"name": "own", "namespace": namespace, "uid": "uid-own"}
        containers = [{"name": "c", "image": "img"}]
        template = {"metadata": {"labels": dict(labels)}, "spec": {"containers": containers}}
        spec = {"replicas": 3, "selector": {"matchLabels": dict(labels)}, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = "own"
        field = "replicaSets" if kind == "ReplicaSet" else "statefulSets"
        case[field] = [{"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}]
