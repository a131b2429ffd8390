"""One object of every kind that is judged, with most of what rules and predictions read of it."""

from __future__ import annotations

from typing import Any

from tests.webhook.builders import pod, priority_class

SELECTOR = {"matchLabels": {"app": "web"}}
_EXISTS = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
_NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
            }
        ]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _EXISTS}],
}
_TERM = {"topologyKey": "host", "labelSelector": SELECTOR, "namespaceSelector": _EXISTS, "namespaces": ["team"]}
_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
_RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}}
SPEC = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "resources": _RESOURCES,
        }
    ],
    "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": _RESOURCES}],
    "priorityClassName": "gold",
    "priority": 1000,
    "preemptionPolicy": "PreemptLowerPriority",
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": _NODE_AFFINITY,
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _TERM}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
    },
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [_SPREAD],
    "overhead": {"cpu": "1m"},
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    "schedulingGates": [{"name": "g"}],
    "terminationGracePeriodSeconds": 30,
    "resources": {"requests": {"cpu": "2"}},
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": SPEC}
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}
_PARTITION = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}


def _workload(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    annotations = {"a": "b", "forewarn.dev/preemption-impact": "{}"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "team", "labels": {"a": "b"}, "annotations": annotations},
        "spec": spec,
        "status": {"replicas": 1, "active": 1, "observedGeneration": 2},
    }


_GROUP = {
    "schedulingPolicy": {"gang": {"minCount": 2}},
    "disruptionMode": {"all": {}},
    "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
    "priorityClassName": "gold",
    "priority": 1000,
    "preemptionPolicy": "PreemptLowerPriority",
}


def _full_pod() -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    full = pod(labels={"app": "web"}, annotations={"a": "b"}, ownerReferences=[owner], uid="u", resourceVersion="1")
    status = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    return {**full, "spec": SPEC, "status": status}


SAMPLES: tuple[dict[str, Any], ...] = (
    _full_pod(),
    pod("missing"),
    pod(priority=0, namespace="batch"),
    _workload(
        "apps/v1", "Deployment", {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE, "strategy": _ROLLING}
    ),
    _workload(
        "apps/v1",
        "StatefulSet",
        {
            "replicas": 2,
            "selector": SELECTOR,
            "template": TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "v"}}],
            "updateStrategy": _PARTITION,
            "ordinals": {"start": 1},
        },
    ),
    _workload("apps/v1", "ReplicaSet", {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}),
    _workload("apps/v1", "DaemonSet", {"selector": SELECTOR, "template": TEMPLATE, "updateStrategy": _ROLLING}),
    _workload(
        "batch/v1",
        "Job",
        {"completions": 3, "parallelism": 2, "completionMode": "Indexed", "template": TEMPLATE, "suspend": False},
    ),
    _workload(
        "batch/v1",
        "CronJob",
        {"schedule": "* * * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
    ),
    _workload("v1", "ReplicationController", {"replicas": 2, "selector": {"app": "web"}, "template": TEMPLATE}),
    {**_workload("v1", "PodTemplate", {}), "template": TEMPLATE},
    {
        **_workload("apps/v1", "ControllerRevision", {}),
        "data": {"spec": {"template": {"$patch": "replace", **TEMPLATE}}},
        "revision": 2,
    },
    {
        **priority_class("a", 5, globalDefault=True, description="d", preemptionPolicy="Never"),
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}, "annotations": {"a": "b"}},
    },
    priority_class("gold", 1001, globalDefault=False),
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "team",
            "labels": {"a": "b"},
            "annotations": {
                "forewarn.dev/default-priority-class": "gold",
                "forewarn.dev/exempt-until": "2030-01-02T00:00:00Z",
            },
        },
    },
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {
            "hard": {"pods": "10", "requests.cpu": "1"},
            "scopes": ["BestEffort"],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]
            },
        },
        "status": {"hard": {"pods": "10"}, "used": {"pods": "1"}},
    },
    _workload("scheduling.k8s.io/v1beta1", "PodGroup", _GROUP),
    _workload(
        "scheduling.k8s.io/v1beta1",
        "Workload",
        {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "podGroupTemplates": [{"name": "t", **_GROUP}],
        },
    ),
    {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"replicas": 3},
    },
)
