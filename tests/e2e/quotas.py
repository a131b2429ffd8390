"""An API server that limits classes by itself; quotas and pods, random ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.e2e.api import identity
from tests.e2e.objects import pod

if TYPE_CHECKING:
    from random import Random

    from tests.e2e.api import Api, Obj

CLASSES: Final = {"gold": 1000, "cluster-services": 900, "silver": 100}
NAMESPACES: Final = tuple(f"limits-{number}" for number in range(16))
BARE: Final = NAMESPACES[:4]
"""Namespaces without any quota."""
_HARD: Final = ("requests.cpu", "cpu", "requests.memory", "limits.cpu", "memory", "count/pods")
_OTHER_SCOPES: Final = ("Terminating", "NotTerminating", "NotBestEffort", "CrossNamespacePodAffinity")
_CPU: Final = ("100m", "1", "1500m", "0")
_MEMORY: Final = ("64Mi", "1Gi", "1G")

LIMITED = """\
limitedResources:
- resource: pods
  matchScopes:
  - scopeName: PriorityClass
    operator: In
    values: ["cluster-services", "gold"]
- resource: pods
  matchContains: [ephemeral-storage]
"""
"""What both sides limit: forewarn's configuration is this, the API server's has it inside."""
ADMISSION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
"""


class Limiting(NamedTuple):
    """Another API server on the same etcd: it has the flag, and asks no webhook."""

    port: int
    api: Api


def quota(name: str, namespace: str, class_: str) -> Obj:
    """Room for one pod of a class."""
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [class_]}]}
    return {
        **identity("ResourceQuota", name, namespace),
        "spec": {"hard": {"pods": "1"}, "scopeSelector": selector},
    }


def set_used(api: Api, name: str, namespace: str, used: int) -> None:
    """Write the status of a quota as its controller would, so many of everything used."""
    stored = api.get("ResourceQuota", name, namespace)
    hard = stored["spec"]["hard"]
    api.replace({**stored, "status": {"hard": hard, "used": dict.fromkeys(hard, str(used))}}, "status")


def random_quotas(random: Random) -> list[Obj]:
    """One to three quotas for each namespace but the bare ones, with the status that a controller would write."""
    return [
        _quota(random, namespace, f"quota-{number}")
        for namespace in NAMESPACES
        if namespace not in BARE
        for number in range(random.randint(1, 3))
    ]


def _quota(random: Random, namespace: str, name: str) -> Obj:
    best_effort = random.random() < 0.1
    amounts = {"pods": str(random.randint(1, 9))}
    if not best_effort:
        for resource in random.sample(_HARD, random.choice([0, 0, 1, 2])):
            amounts[resource] = "2Gi" if "memory" in resource else "3"
    scopes = ["BestEffort"] if best_effort else random.sample(_OTHER_SCOPES, random.choice([0, 0, 0, 1]))
    expressions = _expressions(random)
    made: Obj = {**identity("ResourceQuota", name, namespace), "spec": {"hard": amounts}}
    if random.random() < 0.15:
        scopes.append("PriorityClass")  # means Exists
        expressions = []
    if scopes:
        made["spec"]["scopes"] = scopes
    if expressions:
        made["spec"]["scopeSelector"] = {"matchExpressions": expressions}
    if random.random() < 0.95:
        made["status"] = {"hard": amounts, "used": {name: _used(random, name, hard) for name, hard in amounts.items()}}
    return made


def _used(random: Random, resource: str, hard: str) -> str:
    if resource in ("pods", "count/pods"):
        return str(random.choice([0, 0, 0, int(hard) - 1, int(hard), int(hard) + 1]))
    return random.choice(["0", "0", "1Gi", "1900Mi"] if "memory" in resource else ["0", "0", "1500m", "2", "3"])


def _expressions(random: Random) -> list[Obj]:
    found = []
    for _ in range(random.choice([0, 1, 1, 1, 1, 1, 2])):
        operator = random.choice(["In", "In", "In", "NotIn", "Exists", "DoesNotExist"])
        expression: Obj = {"scopeName": "PriorityClass", "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = random.sample([*CLASSES], random.randint(1, 2))
        found.append(expression)
    return found


def random_pod(random: Random, name: str) -> Obj:
    """A pod of a random class, or of none, for a random namespace."""
    containers = [_container(random, f"c{number}") for number in range(random.randint(1, 2))]
    made = pod(name, containers=containers)
    made["metadata"]["namespace"] = random.choice(NAMESPACES)
    spec = made["spec"]
    if random.random() < 0.3:
        spec["initContainers"] = [_container(random, "i") | random.choice([{}, {"restartPolicy": "Always"}])]
    class_ = random.choice([*CLASSES, "gold", "", "system-cluster-critical"])
    if class_:
        spec["priorityClassName"] = class_
    if random.random() < 0.2:
        spec["activeDeadlineSeconds"] = 60
    if random.random() < 0.1:
        term = {"topologyKey": "zone", "namespaces": ["default"], "labelSelector": {}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def _container(random: Random, name: str) -> Obj:
    cpu, memory = random.choice(_CPU), random.choice(_MEMORY)
    requests: Obj = random.choice([{}, {"cpu": cpu}, {"cpu": cpu, "memory": memory}, {"cpu": cpu, "memory": memory}])
    if random.random() < 0.03:
        requests = {**requests, "ephemeral-storage": "1Gi"}
    limits = random.choice([{}, requests, {**requests, "cpu": "2"}])
    return {"name": name, "image": "img", "resources": {"requests": requests, "limits": limits}}
