"""Random pods with everything that quotas look at, and questions about them."""

from __future__ import annotations

from random import Random
from typing import Any

_CPU = ["100m", "1", "1.5", "0", "1.500", "33m", "0.0001", "1e2"]
_BYTES = ["64Mi", "1Gi", "0", "100M", "1500m", "1.5Gi", "1e6", "512"]
_BASIC = ["cpu", "memory", "ephemeral-storage"]
_ODD = ["hugepages-2Mi", "nvidia.com/gpu", "kubernetes.io/x", "requests.foo/x", "storage"]
_ALL = [*_BASIC, *_ODD, "deviceclass.resource.kubernetes.io/a"]
_CLASSES = ["gold", "silver", "x" * 64, "a.b"]
_SCOPES = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity", "Bogus"]
_PREFIXED = [f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in (*_BASIC, "nvidia.com/gpu")]
_HARD = [*_PREFIXED, "pods", "count/pods", "services", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.storage"]
_DELETED = 1_767_225_600
_DELETION_TIME = "2026-01-01T00:00:00Z"


def case(random: Random, identity: str) -> dict[str, Any]:
    """A pod, four scope selectors, names of resources, and a time around the pod's deletion."""
    return {
        "id": identity,
        "pod": _pod(random),
        "selectors": [_selector(random) for _ in range(4)],
        "hard": random.sample(_HARD, random.randint(1, 6)),
        "now": _DELETED + random.choice([-5, 0, 29, 30, 31]),
    }


def _pod(random: Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": _containers(random, "c")}
    if random.random() < 0.5:
        spec["initContainers"] = _containers(random, "i")
        for container in spec["initContainers"]:
            container |= random.choice([{}, {"restartPolicy": "Always"}])
    if random.random() < 0.25:
        spec["resources"] = _resources(random, ["cpu", "memory", "hugepages-2Mi", "ephemeral-storage"])
    spec |= random.choice([{}, {}, {"overhead": _amounts(random, _BASIC)}])
    spec |= random.choice([{}, {"priorityClassName": random.choice(_CLASSES)}])
    spec |= random.choice([{}, {}, {"activeDeadlineSeconds": random.choice([-1, 0, 60])}])
    spec |= random.choice([{}, {}, {"affinity": _affinity(random)}])
    deletion = {"deletionTimestamp": _DELETION_TIME, "deletionGracePeriodSeconds": random.choice([0, 30, None])}
    metadata = {"name": "p", "namespace": "n", **random.choice([{}, {}, deletion])}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": _status(random, spec)}


def _containers(random: Random, prefix: str) -> list[dict[str, Any]]:
    return [
        {"name": f"{prefix}{index}", "image": "x", "resources": _resources(random, random.choice([_BASIC, _ALL]))}
        for index in range(random.randint(1, 3))
    ]


def _resources(random: Random, names: list[str]) -> dict[str, Any]:
    kinds = random.sample(["requests", "limits"], random.randint(0, 2))
    return {kind: _amounts(random, names) for kind in kinds}


def _amounts(random: Random, names: list[str]) -> dict[str, str]:
    chosen = random.sample(names, random.randint(0, min(4, len(names))))
    return {
        name: random.choice(_CPU if name == "cpu" else _BYTES if name in _BASIC else ["2Mi", "1", "0"])
        for name in chosen
    }


def _status(random: Random, spec: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = random.choice([{}, {"phase": random.choice(["Running", "Failed", "Succeeded"])}])
    status = status | random.choice([{}, {}, {"qosClass": random.choice(["BestEffort", "Burstable"])}])
    for kind, key in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        if random.random() < 0.3:
            status[key] = [
                {"name": container["name"], "allocatedResources": _amounts(random, _BASIC)}
                | random.choice([{}, {"resources": _resources(random, _BASIC)}])
                for container in spec.get(kind, [])
            ]
    pending = {"type": "PodResizePending", "status": "True", "reason": random.choice(["Infeasible", "Deferred"])}
    return status | random.choice([{}, {}, {"conditions": [pending]}])


def _affinity(random: Random) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": "k"}
    term |= random.choice([{}, {"namespaces": ["a"]}, {"namespaces": []}, {"namespaceSelector": {}}])
    terms = random.choice(
        [
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
        ]
    )
    return {random.choice(["podAffinity", "podAntiAffinity"]): terms}


def _selector(random: Random) -> dict[str, Any]:
    operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist", "Bogus"])
    selector = {"scopeName": random.choice([*["PriorityClass"] * 4, *_SCOPES]), "operator": operator}
    has_values = random.random() < (0.95 if operator in ("In", "NotIn") else 0.05)
    return {**selector, "values": random.sample(_CLASSES, random.randint(1, 2))} if has_values else selector
