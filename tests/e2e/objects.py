"""Objects that tests write, and the policy that smuggles a priority in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.api import identity

if TYPE_CHECKING:
    from tests.e2e.api import Obj


def priority_class(name: str, value: int, **fields: Any) -> Obj:
    return {**identity("PriorityClass", name), "value": value, **fields}


def deployment(name: str, class_: str = "", replicas: int = 1) -> Obj:
    spec: Obj = {"containers": [{"name": "c", "image": "img"}]}
    if class_:
        spec["priorityClassName"] = class_
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        **identity("Deployment", name),
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


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
