"""A small cluster with Kueue: two nodes of each of two flavors, and two ClusterQueues in one cohort."""

from __future__ import annotations

from typing import Any

from forewarn.policies.prediction.simulation.scenario import DumpCache
from forewarn.policies.questions.application.cluster import Cluster

KUEUE = "kueue.x-k8s.io/v1beta2"
CREATED = "2026-06-01T10:00:00Z"


def obj(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": f"{kind}-{namespace}-{name}", "creationTimestamp": CREATED}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def node(name: str, pool: str, zone: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "pool": pool, "topology.kubernetes.io/zone": zone}
    status = {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return obj("v1", "Node", name, metadata={"labels": labels}, spec={}, status=status)


def cluster_queue(name: str, **spec: Any) -> dict[str, Any]:
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "8"}]} for flavor in ("on-demand", "spot")
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    own = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups, "preemption": preemption}
    return obj(KUEUE, "ClusterQueue", name, spec={**own, **spec})


def job(namespace: str, name: str, pods: int, cpu: str, priority_class: str = "low", **more: Any) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": priority_class}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "template": template, **more.pop("spec", {})}
    metadata = {"labels": labels, **more.pop("metadata", {})}
    return obj("batch/v1", "Job", name, namespace, metadata=metadata, spec=spec, **more)


def suspended(*given: Any, **more: Any) -> dict[str, Any]:
    """A Job as Kueue creates it."""
    made = job(*given, **more)
    return {**made, "spec": {**made["spec"], "suspend": True}}


def queued(made: dict[str, Any], priority: int, flavor: str = "") -> list[dict[str, Any]]:
    """A Job with its Workload; with a flavor, the Workload is admitted and has its Pods."""
    namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    spec, pods = made["spec"]["template"]["spec"], made["spec"]["parallelism"]
    sets = [{"name": "main", "count": pods, "template": {"spec": spec}}]
    workload = obj(
        KUEUE,
        "Workload",
        f"job-{name}",
        namespace,
        metadata={"ownerReferences": [owner]},
        spec={"queueName": "team", "priority": priority, "podSets": sets},
    )
    if not flavor:
        return [{**made, "spec": {**made["spec"], "suspend": True}}, workload]
    usage = {"cpu": str(int(spec["containers"][0]["resources"]["requests"]["cpu"]) * pods)}
    assigned = [{"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": usage, "count": pods}]
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": CREATED}
        for kind in ("QuotaReserved", "Admitted")
    ]
    workload["status"] = {
        "admission": {"clusterQueue": namespace, "podSetAssignments": assigned},
        "conditions": conditions,
    }
    running = [
        obj(
            "v1",
            "Pod",
            f"{name}-{index}",
            namespace,
            metadata={"ownerReferences": [owner], "labels": {"job-name": name}},
            spec={**spec, "nodeName": f"{flavor}-{index % 2}", "nodeSelector": {"pool": flavor}, "priority": 0},
            status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        )
        for index in range(pods)
    ]
    return [{**made, "spec": {**made["spec"], "suspend": False}}, workload, *running]


def objects() -> list[dict[str, Any]]:
    """Both flavors are in use: by two Jobs of each ClusterQueue. One Job waits."""
    made = [node(f"{pool}-{index}", pool, f"z{index}") for pool in ("on-demand", "spot") for index in range(2)]
    made += [obj("v1", "Namespace", name) for name in ("ml", "research")]
    made += [obj(KUEUE, "ResourceFlavor", name, spec={"nodeLabels": {"pool": name}}) for name in ("on-demand", "spot")]
    made += [cluster_queue(name) for name in ("ml", "research")]
    made += [obj(KUEUE, "LocalQueue", "team", name, spec={"clusterQueue": name}) for name in ("ml", "research")]
    made += [obj(KUEUE, "WorkloadPriorityClass", name, value=value) for name, value in (("low", 1), ("high", 100))]
    for namespace, name, flavor in (
        ("ml", "train-a", "on-demand"),
        ("ml", "train-b", "spot"),
        ("research", "sweep-a", "on-demand"),
        ("research", "sweep-b", "spot"),
    ):
        made += queued(job(namespace, name, 4, "2"), 1, flavor)
    return made + queued(job("ml", "waiting", 4, "4"), 1)


def cluster(*more: dict[str, Any], without: str = "") -> Cluster:
    """The cluster with other objects, which replace those of the same name. `without`: a kind/name that is left out."""
    cache = DumpCache()
    for each in (*objects(), *more):
        if f"{each['kind']}/{each['metadata']['name']}" != without:
            cache.add(each)
    return Cluster(cache)
