"""Large clusters for measuring, the same for the same seed: full nodes, some hundred workloads, budgets.

Objects are yielded one at a time, so that 150,000 pods are never in memory as JSON.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Obj = dict[str, Any]

PRIORITIES: Final = (0, 0, 0, 100, 100, 1000, 10_000)
NAMESPACES: Final = 40
ZONES: Final = ("a", "b", "c")


@dataclass(frozen=True)
class Size:
    """How large a cluster is; `large_pods`: with env, volumes and status as real pods have them, some kB each."""

    nodes: int
    pods_per_node: int = 30
    workloads: int = 600
    pdbs: int = 100
    large_pods: bool = False


def objects(size: Size, seed: int = 1) -> Iterator[Obj]:
    """Nodes, budgets, and pods that fill the nodes."""
    rng = random.Random(seed)
    for number in range(size.nodes):
        yield node(number, rng)
    apps = [workload(number, rng) for number in range(size.workloads)]
    for number in range(size.pdbs):
        yield budget(apps[number * len(apps) // max(size.pdbs, 1)], number, rng)
    for number in range(size.nodes):
        for place in range(size.pods_per_node):
            yield pod(rng.choice(apps), f"n{number:05}", number * size.pods_per_node + place, rng, size.large_pods)


def node(number: int, rng: random.Random) -> Obj:
    """16 cpus, 64 GiB; three zones, a few nodes tainted or cordoned."""
    name = f"n{number:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
        "disk": rng.choice(("ssd", "hdd")),
    }
    spec: Obj = {}
    if rng.random() < 0.03:
        spec["taints"] = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    if rng.random() < 0.01:
        spec["unschedulable"] = True
    allocatable = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def workload(number: int, rng: random.Random) -> Obj:
    """What the pods of one ReplicaSet have in common."""
    return {
        "app": f"app-{number}",
        "namespace": f"team-{number % NAMESPACES}",
        "priority": rng.choice(PRIORITIES),
        "cpu": rng.choice((250, 400, 500, 600, 750, 1000)),
        "memory": rng.choice((512, 1024, 2048, 3072)),
    }


def budget(app: Obj, number: int, rng: random.Random) -> Obj:
    """A budget for one workload."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{number}", "namespace": app["namespace"]},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app["app"]}}},
        "status": {"disruptionsAllowed": rng.choice((0, 0, 1, 5))},
    }


def pod(app: Obj, node_name: str, number: int, rng: random.Random, large: bool = False) -> Obj:
    """A pod of a workload on a node."""
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app['app']}-{number}",
            "namespace": app["namespace"],
            "uid": f"uid-{number}",
            "labels": {"app": app["app"], "pod-template-hash": "5d89c7c6f"},
        },
        "spec": {
            "nodeName": node_name,
            "priority": app["priority"],
            "containers": [container("app", f"{app['cpu']}m", f"{app['memory']}Mi")],
        },
        "status": {"phase": "Running", "startTime": started(rng.randrange(30 * 86400))},
    }
    if large:
        enlarge(made, number)
    return made


def container(name: str, cpu: str, memory: str) -> Obj:
    """A container with requests."""
    return {
        "name": name,
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }


def started(seconds: int) -> str:
    """A moment in January."""
    day, rest = divmod(seconds, 86400)
    return f"2026-01-{day + 1:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}Z"


def enlarge(made: Obj, number: int) -> None:
    """What the API server sends beside what matters here; one pod in ten has labels of its own."""
    if number % 10 == 0:
        made["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = made["metadata"]["name"]
    app = made["spec"]["containers"][0]
    app["env"] = [{"name": f"VARIABLE_{i}", "value": f"value-{i}" * 3} for i in range(20)]
    app["volumeMounts"] = [{"name": f"v{i}", "mountPath": f"/mnt/{i}", "readOnly": True} for i in range(4)]
    app["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    made["spec"]["volumes"] = [{"name": f"v{i}", "configMap": {"name": f"config-{i}"}} for i in range(4)]
    token = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    made["spec"]["volumes"].append({"name": f"kube-api-access-{number:x}", "projected": {"sources": token}})
    made["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    made["metadata"]["annotations"] = {f"example.com/annotation-{i}": "x" * 60 for i in range(8)}
    made["metadata"]["managedFields"] = [
        {"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:{i}": {"f:x": {}} for i in range(30)}}
    ]
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    made["status"]["conditions"] = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in conditions
    ]
    made["status"]["podIP"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    made["status"]["containerStatuses"] = [
        {
            "name": "app",
            "containerID": f"containerd://{number:064x}",
            "imageID": "registry.example/app@sha256:" + "0" * 64,
            "ready": True,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ]


def preemptor(kind: str, number: int, cpu: str = "4", priority: int = 5000) -> Obj:
    """The pod that wants a place. `kind`: `plain`, `anti-affinity` (one a node), `spread` (over zones and nodes),
    `varied` (no two alike), `constrained` (spread, anti-affinity, required node affinity and tolerations)."""
    labels = {"app": "incoming"} if kind == "plain" else {"app": "app-7"}
    namespace = "team-7"
    spec: Obj = {"priority": priority, "containers": [container("app", cpu, "4Gi")]}
    selector = {"matchLabels": labels}
    if kind == "varied":
        labels = {"app": f"incoming-{number}"}
        spec["containers"][0]["resources"]["requests"]["cpu"] = f"{3000 + 10 * number}m"
        spec["priority"] = (200, 5000, 50_000)[number % 3]
        spec["nodeSelector"] = {"disk": "ssd"} if number % 2 else {}
    if kind in ("anti-affinity", "constrained"):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if kind in ("spread", "constrained"):
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
        ]
    if kind == "constrained":
        expressions = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
        required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        spec["affinity"]["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
    metadata = {"name": f"incoming-{number}", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}
