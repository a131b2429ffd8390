"""API objects in a few words: `make_pod("p").priority(10).request(cpu="1").on("n1")`. `.obj` is the object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, empty_list
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import fields_of, type_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

Obj = dict[str, Any]


class Made:
    """An API object under construction."""

    def __init__(self, api_version: str, kind: str, name: str, namespace: str = "") -> None:
        metadata = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
        self.obj: Obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        known = fields_of(typed).known if (typed := type_of(self.obj)) else {"spec", "status"}
        self.obj |= {part: {} for part in ("spec", "status") if part in known}

    @property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name

    def labels(self, **labels: str) -> Self:
        self.obj["metadata"].setdefault("labels", {}).update(labels)
        return self

    def label(self, key: str, value: str) -> Self:
        self.obj["metadata"].setdefault("labels", {})[key] = value
        return self

    def spec(self, **fields: Any) -> Self:
        self.obj["spec"].update(fields)
        return self

    def status(self, **fields: Any) -> Self:
        self.obj["status"].update(fields)
        return self

    def metadata(self, **fields: Any) -> Self:
        self.obj["metadata"].update(fields)
        return self


class MadePod(Made):
    """A pod with one container."""

    @property
    def container(self) -> Obj:
        container: Obj = self.obj["spec"]["containers"][0]
        return container

    def priority(self, number: int) -> Self:
        return self.spec(priority=number)

    def of_class(self, name: str | int) -> Self:
        """As in a manifest: with the name of a PriorityClass, or the value of one, and without a priority."""
        del self.obj["spec"]["priority"]
        return self.spec(priorityClassName=name if isinstance(name, str) else make_priority_class(name).name)

    def request(self, **amounts: str) -> Self:
        """`cpu`, `memory`, …; an underscore stands for a dash. Extended resources also need limits."""
        for name, amount in amounts.items():
            self.request_of(name.replace("_", "-"), amount)
        return self

    def request_of(self, resource: str, amount: str) -> Self:
        self.container["resources"]["requests"][resource] = amount
        if "/" in resource:
            self.container["resources"].setdefault("limits", {})[resource] = amount
        return self

    def on(self, node: str, *, started: int | None = 0) -> Self:
        """Bound; started so many minutes after the first of January."""
        self.spec(nodeName=node).status(phase="Running")
        if started is not None:
            self.status(startTime=f"2026-01-{1 + started // 1440:02}T{started // 60 % 24:02}:{started % 60:02}:00Z")
        return self

    def nominated(self, node: str) -> Self:
        return self.status(nominatedNodeName=node)

    def port(self, port: int, ip: str = "", protocol: str = "TCP") -> Self:
        entry = {"containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol}
        self.container.setdefault("ports", []).append(entry)
        return self

    def affinity(self, kind: str, *terms: Obj, preferred: bool = False) -> Self:
        """`kind`: nodeAffinity's terms are wrapped in a node selector, those of podAffinity and podAntiAffinity not."""
        field = f"{'preferred' if preferred else 'required'}DuringSchedulingIgnoredDuringExecution"
        value: Any = list(terms)
        if kind == "nodeAffinity" and not preferred:
            value = {"nodeSelectorTerms": value}
        self.obj["spec"].setdefault("affinity", {}).setdefault(kind, {})[field] = value
        return self

    def claim(self, name: str) -> Self:
        volume = {"name": name, "persistentVolumeClaim": {"claimName": name}}
        self.obj["spec"].setdefault("volumes", []).append(volume)
        return self

    def volume(self, **source: Any) -> Self:
        volumes = self.obj["spec"].setdefault("volumes", [])
        volumes.append({"name": f"v{len(volumes)}", **source})
        return self

    def terminating(self, *, preempted: bool = False) -> Self:
        self.metadata(deletionTimestamp="2026-02-01T00:00:00Z")
        if preempted:
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            self.status(conditions=[condition])
        return self


def make_pod(name: str, namespace: str = "default") -> MadePod:
    container = {"name": "c", "image": "image", "resources": {"requests": {}}}
    return MadePod("v1", "Pod", name, namespace).spec(containers=[container], priority=0)


class MadeNode(Made):
    """A node with 4 cpus, 8 GiB and room for 110 pods."""

    def has(self, **amounts: str) -> Self:
        self.obj["status"]["allocatable"].update({name.replace("_", "-"): value for name, value in amounts.items()})
        return self

    def has_of(self, resource: str, amount: str) -> Self:
        self.obj["status"]["allocatable"][resource] = amount
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        self.obj["spec"].setdefault("taints", []).append({"key": key, "value": value, "effect": effect})
        return self

    def zone(self, zone: str) -> Self:
        return self.label("topology.kubernetes.io/zone", zone)


def make_node(name: str) -> MadeNode:
    node = MadeNode("v1", "Node", name).label("kubernetes.io/hostname", name)
    return node.status(allocatable={"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "110"})


def make_priority_class(value: int, name: str = "", **fields: Any) -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", name or f"class-{value}")
    made.obj.update(value=value, **fields)
    return made


def make_budget(name: str, allowed: int, namespace: str = "default", **labels: str) -> Made:
    budget = Made("policy/v1", "PodDisruptionBudget", name, namespace).spec(selector={"matchLabels": labels})
    return budget.status(disruptionsAllowed=allowed)


def make_claim(name: str, volume: str = "", namespace: str = "default", **spec: Any) -> Made:
    claim = Made("v1", "PersistentVolumeClaim", name, namespace).spec(accessModes=["ReadWriteOnce"], **spec)
    if volume:
        claim.spec(volumeName=volume).metadata(annotations={"pv.kubernetes.io/bind-completed": "yes"})
    return claim


def make_volume(name: str, **spec: Any) -> Made:
    return Made("v1", "PersistentVolume", name).spec(capacity={"storage": "10Gi"}, **spec).status(phase="Available")


def make_storage_class(name: str, mode: str = "WaitForFirstConsumer", provisioner: str = "csi.example.com") -> Made:
    made = Made("storage.k8s.io/v1", "StorageClass", name)
    made.obj.update(provisioner=provisioner, volumeBindingMode=mode)
    return made


def make_namespace(name: str, **labels: str) -> Made:
    return Made("v1", "Namespace", name).labels(**labels)


def cluster(*made: Made) -> ClusterSnapshot:
    cache = Cache()
    for one in made:
        cache.add(one.obj)
    return cache.snapshot()


def cluster_text(objects: Iterable[Made | Obj]) -> str:
    """A cluster file that has all Nodes, Pods and PriorityClasses, even if there are none."""
    lists = [empty_list(BY_GROUP_KIND[kind]) for kind in ("/Node", "/Pod", "scheduling.k8s.io/PriorityClass")]
    items = [*lists, *(each.obj if isinstance(each, Made) else each for each in objects)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def ask(pod: Made, *made: Made) -> Prediction:
    """The prediction for a pod in a cluster of these objects."""
    return predict(cluster(*made), pod.obj)


def reasons(prediction: Prediction) -> dict[str, str]:
    """Node -> why it cannot run the pod; `!` in front where preemption cannot help either."""
    return {
        name: ("!" if status.code == "UnschedulableAndUnresolvable" else "") + ", ".join(status.reasons)
        for name, status in prediction.statuses.items()
    }
