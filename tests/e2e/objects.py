"""Objects that tests write, and the policy that smuggles a priority in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.api import identity

if TYPE_CHECKING:
    from tests.e2e.api import Obj


def priority_class(name: str, value: int, **fields: Any) -> Obj:
    return {**identity("PriorityClass", name), "value": value, **fields}


def deployment(name: str, class_: str = "", replicas: int = 1, cpu: str = "") -> Obj:
    spec: Obj = {"containers": [container(cpu)]}
    if class_:
        spec["priorityClassName"] = class_
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        **identity("Deployment", name),
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def container(cpu: str = "") -> Obj:
    return {"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}} if cpu else {}}


def node(name: str, cpu: str = "16") -> Obj:
    """A node as its kubelet would write it; to be staged."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": amounts, "capacity": amounts}}


def running(name: str, node_name: str, cpu: str, priority: int = 0) -> Obj:
    """A pod on its node; to be staged."""
    spec = {"nodeName": node_name, "containers": [container(cpu)], "priority": priority}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}


def pod(name: str, **spec: Any) -> Obj:
    return {**identity("Pod", name), "spec": {"containers": [{"name": "c", "image": "img"}], **spec}}


SMUGGLER = {
    **identity("MutatingAdmissionPolicy", "smuggler"),
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "matchConditions": [
            {"name": "marked", "expression": 'has(object.metadata.labels) && "smuggle" in object.metadata.labels'}
        ],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": 'object.metadata.labels["smuggle"] == "first"'
                    ' ? [JSONPatch{op: "replace", path: "/metadata/labels/smuggle", value: "second"}]'
                    ' : [JSONPatch{op: "replace", path: "/spec/priority", value: 2147483647}]'
                },
            }
        ],
    },
}
"""The first time it changes a label, so that it is asked again after the Priority plugin has had its last say."""
BINDING = {**identity("MutatingAdmissionPolicyBinding", "smuggler"), "spec": {"policyName": "smuggler"}}
