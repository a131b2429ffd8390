"""Random pods, and the selectors and terms in them."""

import copy
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from tests.policies.scheduling.reference.objects import quantity

Obj: TypeAlias = dict[str, Any]
T = TypeVar("T")

FEATURES = (
    "affinity",
    "affinity_preferred",
    "anti_affinity",
    "best_effort",
    "cordoned",
    "disks",
    "ephemeral",
    "extended",
    "hugepages",
    "images",
    "init",
    "labels_few",
    "never",
    "node_affinity",
    "node_affinity_preferred",
    "nominated",
    "overhead",
    "pdb",
    "pdb",
    "pod_level",
    "ports",
    "resize",
    "services",
    "spread",
    "spread_soft",
    "storage",
    "taints",
    "terminating",
    "ties",
    "unstarted",
)
NAMESPACES: dict[str, dict[str, str]] = {
    "default": {},
    "prod": {"team": "a", "env": "prod"},
    "dev": {"team": "b"},
}
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
PRIORITIES = (-10, 0, 0, 10, 100, 1000)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Dice:
    """A random generator, the features of the case, and what must not come twice: numbers and start times."""

    def __init__(self, rng: random.Random, features: frozenset[str], first: int = 0):
        self.rng = rng
        self.features = features
        self.number = first
        self.seconds = rng.sample(range(first * 1000, first * 1000 + 1_000_000), k=400)
        self.roomy = rng.random() < 0.2
        self.twin = rng.choice((200, 300, 500))

    def has(self, feature: str) -> bool:
        return feature in self.features

    def percent(self, chance: int) -> bool:
        return self.rng.randrange(100) < chance

    def one(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices)

    def some(self, choices: Sequence[T], *, most: int) -> list[T]:
        return copy.deepcopy(self.rng.sample(choices, k=self.rng.randint(1, min(most, len(choices)))))


def stamp(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def labels(dice: Dice) -> dict[str, str]:
    if dice.percent(60 if dice.has("labels_few") else 10):
        return {}
    found = {"app": dice.one(("web", "web", "db", "cache"))}
    if dice.percent(50):
        found["tier"] = dice.one(("gold", "silver"))
    if dice.percent(30):
        found["rev"] = dice.one(("1", "2"))
    return found


def selector(dice: Dice) -> Obj:
    """A label selector that selects something."""
    if dice.percent(60):
        return {"matchLabels": {"app": dice.one(("web", "db", "cache"))}}
    key, values = dice.one((("app", ["web", "db"]), ("tier", ["gold"]), ("tier", ["silver", "bronze"])))
    operator = dice.one(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: Obj = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = values
    return {"matchExpressions": [expression]}


def pod_affinity_term(dice: Dice) -> Obj:
    term: Obj = {"topologyKey": dice.one((HOSTNAME, ZONE, ZONE, "disk"))}
    if dice.percent(95):
        term["labelSelector"] = {} if dice.percent(5) else selector(dice)
    if dice.percent(25):
        term["namespaces"] = dice.some(list(NAMESPACES), most=2)
    if dice.percent(25):
        operator = dice.one(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Obj = {"key": "team", "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = [dice.one(("a", "b"))]
        term["namespaceSelector"] = dice.one(({}, {"matchLabels": {"team": "a"}}, {"matchExpressions": [expression]}))
    return term


def node_requirement(dice: Dice) -> Obj:
    operator = dice.one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "gen", "operator": operator, "values": [dice.one(("1", "2"))]}
    key, values = dice.one((("disk", ["ssd"]), (ZONE, ["z1", "z2"]), ("gen", ["1", "2"])))
    return {"key": key, "operator": operator, **({"values": values} if operator in ("In", "NotIn") else {})}


def node_term(dice: Dice, nodes: Sequence[str]) -> Obj:
    """A node selector term; some name nodes, and a few are empty."""
    term: Obj = {}
    if dice.percent(80):
        term["matchExpressions"] = [node_requirement(dice) for _ in range(dice.rng.randint(1, 2))]
    if dice.percent(25):
        operator = dice.one(("In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [dice.one(nodes)]}]
    return term


def spread_constraint(dice: Dice, when: str) -> Obj:
    constraint: Obj = {
        "maxSkew": dice.one((1, 1, 2)),
        "topologyKey": dice.one((HOSTNAME, ZONE, ZONE, "disk")),
        "whenUnsatisfiable": when,
        "labelSelector": {} if dice.percent(5) else selector(dice),
    }
    if when == "DoNotSchedule" and dice.percent(30):
        constraint["minDomains"] = dice.rng.randint(1, 4)
    if dice.percent(25):
        constraint["matchLabelKeys"] = ["rev"]
    if dice.percent(25):
        constraint["nodeAffinityPolicy"] = dice.one(("Honor", "Ignore"))
    if dice.percent(25):
        constraint["nodeTaintsPolicy"] = dice.one(("Honor", "Ignore"))
    return constraint


TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Equal", "value": "gpu"},
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "flaky", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    {"key": "soft", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)


def requests(dice: Dice, cpu: int) -> dict[str, str]:
    """What a container asks for; quantities are written in many ways."""
    if dice.has("best_effort") and dice.percent(30):
        return dice.one(({}, {"cpu": "0", "memory": "0"}))
    found = {"cpu": dice.one((f"{cpu}m", f"{cpu / 1000:g}"))}
    if dice.percent(80):
        found["memory"] = dice.one(("64Mi", "128Mi", "300M", "268435456", "0.5Gi", "700Mi", "1e8"))
    if dice.has("ephemeral") and dice.percent(50):
        found["ephemeral-storage"] = dice.one(("1Gi", "2G", "5Gi"))
    if dice.has("extended") and dice.percent(30):
        found["example.com/gpu"] = dice.one(("1", "2"))
    if dice.has("hugepages") and dice.percent(30):
        found["hugepages-2Mi"] = dice.one(("2Mi", "4Mi", "8Mi"))
    return found


def container(dice: Dice, name: str, cpu: int) -> Obj:
    asked = requests(dice, cpu)
    resources: Obj = {"requests": asked}
    limits = {key: value for key, value in asked.items() if "/" in key or key.startswith("hugepages")}
    if limits:
        resources["limits"] = limits
    image = dice.one(("registry.example/big:1", "registry.example/small:1", "registry.example/latest", "img"))
    made: Obj = {"name": name, "image": image if dice.has("images") else "img", "resources": resources}
    if dice.has("ports") and name in ("c0", "i0") and dice.percent(40):
        port: Obj = {
            "containerPort": 80,
            "hostPort": dice.one((8080, 9090)),
            "protocol": dice.one(("TCP", "TCP", "UDP")),
        }
        if dice.percent(40):
            port["hostIP"] = dice.one(("0.0.0.0", "127.0.0.1", "10.0.0.1"))
        made["ports"] = [port]
    return made


def spec_object(dice: Dice, cpu: int) -> Obj:
    """Containers and what they ask for, and the volumes' place."""
    parts = dice.one((1, 1, 2))
    spec: Obj = {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30}
    spec["containers"] = [container(dice, f"c{i}", max(1, cpu // parts)) for i in range(parts)]
    if dice.has("init") and dice.percent(50):
        spec["initContainers"] = [
            container(dice, f"i{i}", cpu * dice.one((1, 2, 4)) // 4) for i in range(dice.one((1, 2, 3)))
        ]
        for made in spec["initContainers"]:
            if dice.percent(40):
                made["restartPolicy"] = "Always"
            else:
                made.pop("ports", None)
    if dice.has("overhead") and dice.percent(40):
        spec["overhead"] = {"cpu": "50m", "memory": dice.one(("32Mi", "120Mi"))}
    if dice.has("pod_level") and not dice.has("hugepages") and dice.percent(40):
        spec["resources"] = {"requests": pod_level_requests(dice, spec)}
    return spec


def pod_level_requests(dice: Dice, spec: Obj) -> dict[str, str]:
    """More than all containers ask for, as the API server wants it."""
    parts = spec["containers"] + spec.get("initContainers", [])
    asked = [part["resources"]["requests"] for part in parts]
    cpu = sum(quantity(found.get("cpu", "0")) for found in asked)
    memory = sum(quantity(found.get("memory", "0")) for found in asked)
    return {"cpu": f"{int(cpu * 1000) + dice.one((0, 100, 250))}m", "memory": str(int(memory) + dice.one((0, 10**8)))}


def add_affinity(dice: Dice, spec: Obj, chance: int) -> None:
    """Terms between pods."""
    found: dict[str, Obj] = {}
    for feature, kind in (("affinity", "podAffinity"), ("anti_affinity", "podAntiAffinity")):
        if dice.has(feature) and dice.percent(chance):
            terms = [pod_affinity_term(dice) for _ in range(dice.one((1, 1, 2)))]
            found.setdefault(kind, {})["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    for kind in ("podAffinity", "podAntiAffinity"):
        if dice.has("affinity_preferred") and dice.percent(chance):
            terms = [{"weight": dice.one((1, 30, 100)), "podAffinityTerm": pod_affinity_term(dice)}]
            found.setdefault(kind, {})["preferredDuringSchedulingIgnoredDuringExecution"] = terms
    if found:
        spec["affinity"] = found


def pod_object(dice: Dice, node: str | None, capacity: int) -> tuple[Obj, int]:
    """A pod on a node, and the thousandths of a CPU it asks for."""
    dice.number += 1
    name = f"p{dice.number:03}"
    if dice.has("ties"):
        return twin_object(dice, name, node), dice.twin
    cpu = dice.rng.randint(capacity // 20, capacity // 3)
    priority = dice.one(PRIORITIES)
    spec = spec_object(dice, cpu)
    if priority or dice.percent(50):
        spec["priority"] = priority
    if dice.percent(20):
        spec["tolerations"] = dice.some(TOLERATIONS, most=2)
    add_affinity(dice, spec, 20)
    meta: Obj = {"name": name, "namespace": dice.one(("default", "default", "prod", "dev")), "uid": f"uid-{name}"}
    found = labels(dice)
    if found:
        meta["labels"] = found
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}
    if node is not None:
        spec["nodeName"] = node
    add_status(dice, pod)
    return pod, cpu


def twin_object(dice: Dice, name: str, node: str | None) -> Obj:
    """Pods that differ in nothing but priority and start time, and often not even there."""
    spec: Obj = {"containers": [{"name": "c", "image": "img", "resources": {"requests": {"cpu": f"{dice.twin}m"}}}]}
    spec["priority"] = dice.one((0, 10))
    if node is not None:
        spec["nodeName"] = node
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": "web"}}
    status = {"phase": "Running", "startTime": stamp(dice.one((1, 2)))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def add_status(dice: Dice, pod: Obj) -> None:
    """When it started, whether it is on its way out, and resizes in place."""
    meta, status = pod["metadata"], pod["status"]
    if not (dice.has("unstarted") and dice.percent(25)):
        status["startTime"] = stamp(dice.seconds.pop())
    if dice.has("terminating") and dice.percent(25):
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = "2026-02-27T20:53:20Z", 30
        if dice.percent(70):
            reason = dice.one(("PreemptionByScheduler", "EvictionByEvictionAPI"))
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    if dice.has("resize") and dice.percent(40):
        add_resize(dice, pod)
    if dice.percent(2):
        status["phase"] = dice.one(("Succeeded", "Failed"))


def add_resize(dice: Dice, pod: Obj) -> None:
    """A resize on its way: what is actuated and allocated differs from what is asked for."""
    found = []
    for made in pod["spec"]["containers"]:
        if dice.percent(80):
            amount = {"cpu": dice.one(("50m", "400m", "700m")), "memory": dice.one(("64Mi", "900Mi"))}
            entry: Obj = {
                "name": made["name"],
                "resources": {"requests": amount},
                "image": "img",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
            }
            if dice.percent(60):
                entry["allocatedResources"] = {"cpu": dice.one(("100m", "500m"))}
            found.append(entry)
    pod["status"]["containerStatuses"] = found
    if dice.percent(40):
        reason = dice.one(("Infeasible", "Deferred"))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        pod["status"].setdefault("conditions", []).append(condition)


def preemptor_object(dice: Dice, capacity: int, nodes: Sequence[Obj]) -> Obj:
    """The pod that wants a place: a good part of a node, and more important than most."""
    cpu = dice.rng.randint(capacity * 2 // 5, capacity * 4 // 5)
    spec = spec_object(dice, cpu)
    if dice.percent(5):
        brim = dice.one(nodes)["status"]["allocatable"]
        resource = dice.one(("cpu", "memory"))
        spec["containers"] = [container(dice, "c0", cpu)]
        spec["containers"][0]["resources"]["requests"][resource] = brim[resource]
        spec.pop("resources", None)
    spec["priority"] = dice.one((10, 1000, 1000, 2000000, 2000000))
    spec["preemptionPolicy"] = "Never" if dice.has("never") and dice.percent(40) else "PreemptLowerPriority"
    names = [str(node["metadata"]["name"]) for node in nodes]
    if dice.percent(50):
        spec["tolerations"] = dice.some(TOLERATIONS, most=3)
    add_affinity(dice, spec, 50)
    add_node_affinity(dice, spec, names)
    for feature, when in (("spread", "DoNotSchedule"), ("spread_soft", "ScheduleAnyway")):
        if dice.has(feature):
            constraints = [spread_constraint(dice, when) for _ in range(dice.one((1, 1, 2)))]
            spec.setdefault("topologySpreadConstraints", []).extend(constraints)
    unique = {(c["topologyKey"], c["whenUnsatisfiable"]): c for c in spec.get("topologySpreadConstraints", [])}
    if unique:
        spec["topologySpreadConstraints"] = list(unique.values())
    meta: Obj = {"name": "preemptor", "namespace": dice.one(("default", "default", "prod")), "uid": "uid-preemptor"}
    found = labels(dice)
    if found:
        meta["labels"] = found
    status: Obj = {"phase": "Pending"}
    if dice.has("terminating") and dice.percent(60):
        status["nominatedNodeName"] = dice.one(names)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def add_node_affinity(dice: Dice, spec: Obj, nodes: Sequence[str]) -> None:
    found: Obj = {}
    if dice.has("node_affinity"):
        if dice.percent(30):
            spec["nodeSelector"] = {"disk": dice.one(("ssd", "hdd"))}
        if dice.percent(80):
            terms = [node_term(dice, nodes) for _ in range(dice.one((1, 1, 2, 3)))]
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.has("node_affinity_preferred"):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.one((1, 10, 50, 100)), "preference": node_term(dice, nodes)}
            for _ in range(dice.one((1, 2)))
        ]
    if found:
        spec.setdefault("affinity", {})["nodeAffinity"] = found


def add_namespaces(term: Obj, rng: random.Random) -> Obj:
    """The affinity term, which now and then names namespaces, or selects them."""
    if rng.random() < 0.2:
        term["namespaces"] = rng.sample(list(NAMESPACES), rng.randint(1, 2))
    if rng.random() < 0.2:
        absent = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
        term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "a"}}, absent))
    return term
