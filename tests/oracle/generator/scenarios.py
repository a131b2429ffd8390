"""Scenarios: a full cluster, its workloads, and what arrives in it, for the command `oracle scenarios`.

A kind of scenario is a set of weights: of what runs, of what arrives, and of what is odd about it. Arrivals are fifty
milliseconds apart at least, so that none meets the writes of another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from .dice import Dice, Obj

TIME_0 = datetime(2026, 6, 1, tzinfo=UTC)
ZONES = ("a", "b", "c")
GRACES = (0, 1, 5, 10, 30, 60, 300, 600)
WORKLOADS = {"ReplicaSet": 5, "StatefulSet": 2, "Job": 2, "Pod": 2, "DaemonSet": 0, "Deployment": 0}
ARRIVALS = {"Pod": 4, "ReplicaSet": 1, "StatefulSet": 0, "Job": 0, "delete-pod": 0, "delete-workload": 0}


@dataclass(frozen=True)
class ScenarioKind:
    """What makes a kind. `oddities`: what may be said of a template, each with its probability."""

    workloads: dict[str, int] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)
    oddities: dict[str, float] = field(default_factory=dict)
    nodes: tuple[int, int] = (2, 8)
    arriving: tuple[int, int] = (1, 5)
    pdbs: float = 0.15
    slow: float = 0.2
    close: float = 0.2
    """How probable it is that an arrival comes within a few seconds of the one before."""


KINDS: dict[str, ScenarioKind] = {
    "simple": ScenarioKind({"ReplicaSet": 1, "Pod": 1}, arriving=(1, 2)),
    "bursts": ScenarioKind(close=0.9, arriving=(3, 9)),
    "deployments": ScenarioKind(arrivals={"ReplicaSet": 4, "StatefulSet": 3, "Job": 2}),
    "stateful": ScenarioKind({"StatefulSet": 8}, {"StatefulSet": 2}, {"parallel": 0.3}),
    "jobs": ScenarioKind({"Job": 8}, {"Job": 2, "delete-pod": 2}, {"few-failures": 0.3, "replaces-failed": 0.3}),
    "daemons": ScenarioKind({"DaemonSet": 4}, {"add-node": 2, "DaemonSet": 2, "lose-node": 1}),
    "budgets": ScenarioKind(pdbs=0.8, close=0.5),
    "nodes": ScenarioKind(arrivals={"add-node": 2, "cordon": 2, "uncordon": 2, "grow-node": 2, "lose-node": 2}),
    "tainted": ScenarioKind(arrivals={"taint": 3, "add-node": 1}, oddities={"tolerates": 0.5}),
    "never": ScenarioKind(oddities={"never": 0.4}, arrivals={"delete-pod": 2}),
    "slow": ScenarioKind(slow=0.9, close=0.6),
    "lost": ScenarioKind(slow=0.5, close=1.0, arriving=(3, 6)),
    "removals": ScenarioKind(arrivals={"delete-pod": 4, "delete-workload": 3, "grow": 3}),
    "shrinking": ScenarioKind({"Deployment": 3, "StatefulSet": 4}, {"shrink": 6, "grow": 2}, {"parallel": 0.3}),
    "rollouts": ScenarioKind({"Deployment": 8}, {"roll": 6}, {"strategy": 0.6}, close=0.1),
    "stateful-rollouts": ScenarioKind({"StatefulSet": 8}, {"roll": 6}, {"parallel": 0.3}, close=0.1),
    "daemon-rollouts": ScenarioKind({"DaemonSet": 6}, {"roll": 6}, {"strategy": 0.3}, close=0.1),
    "gated": ScenarioKind(arrivals={"ungate": 3}, oddities={"gated": 0.3}),
    "topology": ScenarioKind(oddities={"spread": 0.5}),
    "apart": ScenarioKind(oddities={"apart": 0.3, "beside": 0.2}),
    "mixed": ScenarioKind(
        {"DaemonSet": 1},
        {"ReplicaSet": 2, "StatefulSet": 2, "Job": 2, "delete-pod": 2, "add-node": 1, "lose-node": 1, "cordon": 1},
        {"never": 0.1, "apart": 0.1, "spread": 0.1, "parallel": 0.2, "few-failures": 0.2, "tolerates": 0.1},
        arriving=(2, 9),
        pdbs=0.3,
    ),
}  # fmt: skip


class Scenario:
    """One scenario while it is made up."""

    def __init__(self, dice: Dice, kind: ScenarioKind) -> None:
        self.dice, self.kind = dice, kind
        self.nodes = [self.node(f"n{number}") for number in range(1, dice.number(*kind.nodes) + 1)]
        self.pods: list[Obj] = []
        self.workloads: list[Obj] = []
        self.pdbs: list[Obj] = []
        self.arrivals: list[Obj] = []
        self._free = {name_of(node): milli(node["status"]["allocatable"]["cpu"]) for node in self.nodes}
        self._starts = dice.some(range(60, 86_400), 600, 600)
        self.levels = sorted({10 * dice.number(1, 150) for _ in range(dice.number(3, 8))})

    def node(self, name: str) -> Obj:
        dice = self.dice
        size = {"cpu": f"{dice.number(10, 120) * 100}m", "memory": f"{dice.number(120, 1000) * 64}Mi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": dice.pick(ZONES)}
        status = {"capacity": size, "allocatable": size}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": status,
        }

    def template(self, app: str, priority: int) -> Obj:
        dice, grace = self.dice, self.dice.pick(GRACES)
        requests = {"cpu": f"{dice.number(2, 40) * 100}m", "memory": f"{dice.number(2, 40) * 32}Mi"}
        containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
        spec: Obj = {"priority": priority, "terminationGracePeriodSeconds": grace, "containers": containers}
        metadata: Obj = {"labels": {"app": app}}
        if grace > 1 and dice.chance(self.kind.slow):
            metadata["annotations"] = {"terminationSeconds": str(dice.number(0, grace))}
        for name, probability in self.kind.oddities.items():
            if name in ODDITIES and dice.chance(probability):
                ODDITIES[name](self, app, spec)
        return {"metadata": metadata, "spec": spec}

    def workload(self, kind: str, name: str, priority: int) -> Obj:
        dice, template = self.dice, self.template(name, priority)
        if kind == "Pod":
            metadata = {"name": name, "namespace": "default", **template["metadata"]}
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": template["spec"]}
        spec: Obj = {"template": template}
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            spec["parallelism"] = dice.number(1, 4)
            if dice.chance(self.kind.oddities.get("few-failures", 0)):
                spec["backoffLimit"] = dice.number(0, 2)
            if dice.chance(self.kind.oddities.get("replaces-failed", 0)):
                spec["podReplacementPolicy"] = "Failed"
        else:
            spec["selector"] = {"matchLabels": {"app": name}}
        if kind in ("ReplicaSet", "StatefulSet", "Deployment"):
            spec["replicas"] = dice.number(1, 5)
        if kind == "Deployment" and dice.chance(self.kind.oddities.get("strategy", 0)):
            spec["strategy"] = dice.pick(STRATEGIES)
        if kind == "DaemonSet" and dice.chance(self.kind.oddities.get("strategy", 0)):
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": dice.number(1, 3)}}
        if kind == "StatefulSet":
            spec["serviceName"] = name
            if dice.chance(self.kind.oddities.get("parallel", 0)):
                spec["podManagementPolicy"] = "Parallel"
        metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
        version = "batch/v1" if kind == "Job" else "apps/v1"
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}

    # What runs

    def fill(self) -> None:
        """Workloads until the nodes are about full."""
        weights = {**WORKLOADS, **self.kind.workloads}
        for number in range(1, self.dice.number(3, 14)):
            kind = self.dice.weighted(weights)
            made = self.workload(kind, f"w{number}", self.dice.pick(self.levels))
            made["spec"].pop("schedulingGates", None)
            made["spec"].get("template", {}).get("spec", {}).pop("schedulingGates", None)
            if kind == "Pod":
                self.place(made)
            elif self.run(controlled := first_of(made) if kind == "Deployment" else made):
                self.workloads.append(made)
                if controlled is not made:
                    made["spec"]["replicas"] = controlled["spec"]["replicas"]
                    self.workloads.append(controlled)
                if self.dice.chance(self.kind.pdbs):
                    self.budget(name_of(made))

    def run(self, workload: Obj) -> bool:
        """Its pods, as many as there is room for; it is made no larger than that."""
        spec, name, kind = workload["spec"], name_of(workload), workload["kind"]
        size = "parallelism" if kind == "Job" else "replicas"
        names = [name_of(node) for node in self.nodes] if kind == "DaemonSet" else range(spec.get(size, 0))
        count = 0
        for place in names:
            pod_name = f"{name}-{place if kind in ('DaemonSet', 'StatefulSet') else count + 1}"
            pod = {"apiVersion": "v1", "kind": "Pod", "spec": {**spec["template"]["spec"]}}
            owner = {"apiVersion": workload["apiVersion"], "kind": kind, "name": name, "uid": "", "controller": True}
            metadata = {"name": pod_name, "namespace": "default", **spec["template"]["metadata"]}
            pod["metadata"] = {**metadata, "ownerReferences": [owner]}
            if self.place(pod, place if kind == "DaemonSet" else None):
                count += 1
            elif kind == "StatefulSet":
                break
        if size in spec:
            spec[size] = count
        return count > 0

    def place(self, pod: Obj, node: object = None) -> bool:
        asked = milli(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        open_nodes = [name for name, free in self._free.items() if free >= asked and (node is None or name == node)]
        if not open_nodes or not self._starts:
            return False
        name = self.dice.pick(open_nodes)
        self._free[name] -= asked
        pod["spec"]["nodeName"] = name
        started = TIME_0 - timedelta(seconds=self._starts.pop())
        pod["status"] = {"phase": "Running", "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.pods.append(pod)
        return True

    def budget(self, app: str) -> None:
        limit = self.dice.pick((1, 2, "30%", "60%", "100%", 0))
        spec = {"selector": {"matchLabels": {"app": app}}, self.dice.pick(("minAvailable", "maxUnavailable")): limit}
        metadata = {"name": f"b{len(self.pdbs)}", "namespace": "default"}
        self.pdbs.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})

    # What arrives

    def arrive(self) -> None:
        dice, time = self.dice, 0
        for number in range(dice.number(*self.kind.arriving)):
            time += dice.number(0, 3) if dice.chance(self.kind.close) else dice.number(4, 150)
            what = dice.weighted({**ARRIVALS, **self.kind.arrivals})
            for op, obj in (
                ARRIVING[what](self, what, f"a{number}") if what in ARRIVING else self.new(what, f"a{number}")
            ):
                at = round(time + 1.1 + 0.05 * len(self.arrivals), 2)
                self.arrivals.append({"at": at, "op": op, "object": obj})

    def new(self, kind: str, name: str) -> list[tuple[str, Obj]]:
        """Something, of a priority that is mostly above what runs."""
        priority = self.dice.pick(self.levels) + (self.dice.pick((0, 5, 500, 2000)))
        return [("create", self.workload(kind, name, priority))]

    def to_case(self, name: str, category: str) -> Obj:
        last = max((arrival["at"] for arrival in self.arrivals), default=0)
        return {
            "id": name,
            "category": category,
            "nodes": self.nodes,
            "pods": self.pods,
            "namespaces": [],
            "priorityClasses": [],
            "pdbs": self.pdbs,
            "workloads": self.workloads,
            "arrivals": self.arrivals,
            "horizonSeconds": int(last) + 1500,
            "quietSeconds": 400,
            "scalingDown": True,
        }


STRATEGIES = (
    {"type": "Recreate"},
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "50%"}},
)
HASH = "pod-template-hash"


def first_of(deployment: Obj) -> Obj:
    """The ReplicaSet that a Deployment has at time 0."""
    name, spec = name_of(deployment), deployment["spec"]
    labels = {"app": name, HASH: "first"}
    metadata = {**spec["template"]["metadata"], "labels": labels}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "", "controller": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-first",
            "namespace": "default",
            "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {**spec["template"], "metadata": metadata},
        },
    }


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def milli(cpu: str) -> int:
    return int(cpu.removesuffix("m"))


# Oddities of templates


def _never(_: Scenario, __: str, spec: Obj) -> None:
    spec["preemptionPolicy"] = "Never"


def _tolerates(_: Scenario, __: str, spec: Obj) -> None:
    spec["tolerations"] = [{"key": "own", "operator": "Exists", "effect": "NoSchedule"}]


def _gated(_: Scenario, __: str, spec: Obj) -> None:
    spec["schedulingGates"] = [{"name": "example.com/wait"}]


def _spread(scenario: Scenario, app: str, spec: Obj) -> None:
    key = scenario.dice.pick(("kubernetes.io/hostname", "topology.kubernetes.io/zone"))
    constraint = {"maxSkew": scenario.dice.number(1, 2), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": {"matchLabels": {"app": app}}}]


def _affinity(kind: str) -> Callable[[Scenario, str, Obj], None]:
    def apply(scenario: Scenario, app: str, spec: Obj) -> None:
        other = f"w{scenario.dice.number(1, 6)}" if scenario.dice.chance(0.6) else app
        key = scenario.dice.pick(("kubernetes.io/hostname", "topology.kubernetes.io/zone"))
        term = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": key}
        spec.setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    return apply


ODDITIES: dict[str, Callable[[Scenario, str, Obj], None]] = {
    "never": _never,
    "tolerates": _tolerates,
    "gated": _gated,
    "spread": _spread,
    "apart": _affinity("podAntiAffinity"),
    "beside": _affinity("podAffinity"),
}


# Arrivals other than new objects

Arriving = list[tuple[str, Obj]]


def _named(obj: Obj) -> Obj:
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def _delete_pod(scenario: Scenario, _: str, __: str) -> Arriving:
    arrived = [a["object"] for a in scenario.arrivals if a["op"] == "create" and a["object"]["kind"] == "Pod"]
    pods = [*scenario.pods, *arrived * 3]
    return [("delete", _named(scenario.dice.pick(pods)))] if pods else []


def _delete_workload(scenario: Scenario, _: str, __: str) -> Arriving:
    own = [w for w in scenario.workloads if "ownerReferences" not in w["metadata"]]
    return [("delete", _named(scenario.dice.pick(own)))] if own else []


def _resize(scenario: Scenario, what: str, _: str) -> Arriving:
    sized = [w for w in scenario.workloads if "replicas" in w["spec"] and "ownerReferences" not in w["metadata"]]
    if not sized:
        return []
    workload = scenario.dice.pick(sized)
    by = scenario.dice.number(1, 3) * (1 if what == "grow" else -1)
    spec = {**workload["spec"], "replicas": max(workload["spec"]["replicas"] + by, 0)}
    return [("update", {**workload, "spec": spec})]


def _roll(scenario: Scenario, _: str, version: str) -> Arriving:
    """Somebody changes the template of a workload: what it asks for, or only a label."""
    dice, kinds = scenario.dice, ("Deployment", "StatefulSet", "DaemonSet")
    rolling = [w for w in scenario.workloads if w["kind"] in kinds]
    if not rolling:
        return []
    workload = dice.pick(rolling)
    template = workload["spec"]["template"]
    labels = {**template["metadata"]["labels"], "version": version}
    pod = dict(template["spec"])
    if dice.chance(0.6):
        requests = {"cpu": f"{dice.number(2, 40) * 100}m", "memory": f"{dice.number(2, 40) * 32}Mi"}
        pod["containers"] = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    if dice.chance(0.4):
        pod["priority"] = dice.pick(scenario.levels) + 5
    changed = {"metadata": {**template["metadata"], "labels": labels}, "spec": pod}
    return [("update", {**workload, "spec": {**workload["spec"], "template": changed}})]


def _ungate(scenario: Scenario, _: str, __: str) -> Arriving:
    for arrival in scenario.arrivals:
        pod = arrival["object"]
        if pod["kind"] == "Pod" and arrival["op"] == "create" and pod["spec"].get("schedulingGates"):
            spec = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
            return [("update", {**pod, "spec": spec})]
    return []


def _add_node(scenario: Scenario, _: str, name: str) -> Arriving:
    return [("create", scenario.node(f"extra-{name}"))]


def _lose_node(scenario: Scenario, _: str, __: str) -> Arriving:
    return [("delete", _named(scenario.dice.pick(scenario.nodes)))]


def _change_node(scenario: Scenario, what: str, _: str) -> Arriving:
    node = scenario.dice.pick(scenario.nodes)
    spec, status = dict(node["spec"]), node["status"]
    if what == "taint":
        spec["taints"] = [{"key": "own", "effect": "NoSchedule"}] if not spec.get("taints") else []
    elif what == "grow-node":
        size = {**status["allocatable"], "cpu": f"{milli(status['allocatable']['cpu']) + 1000}m"}
        status = {"capacity": size, "allocatable": size}
    else:
        spec["unschedulable"] = what == "cordon"
    changed = {**node, "spec": spec, "status": status}
    scenario.nodes[scenario.nodes.index(node)] = node
    return [("update", changed)]


ARRIVING: dict[str, Callable[[Scenario, str, str], Arriving]] = {
    "delete-pod": _delete_pod,
    "delete-workload": _delete_workload,
    "grow": _resize,
    "shrink": _resize,
    "roll": _roll,
    "ungate": _ungate,
    "add-node": _add_node,
    "lose-node": _lose_node,
    "cordon": _change_node,
    "uncordon": _change_node,
    "grow-node": _change_node,
    "taint": _change_node,
}


def make_scenario(seed: int, number: int, name: str) -> Obj:
    """One scenario; the same seed, number and kind always give the same one."""
    scenario = Scenario(Dice(f"{seed}/{number}/{name}"), KINDS[name])
    scenario.fill()
    scenario.arrive()
    return scenario.to_case(f"{name}-{seed}-{number}", name)
