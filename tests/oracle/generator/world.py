"""The cluster that every feature starts from: nodes full of pods, and a more important pod that needs room."""

from dataclasses import dataclass, field

from .dice import Dice, Obj, bytes_of, cpu_text, memory_text, milli_of, timestamp

NAMESPACES = ("default", "prod", "dev")
APPS = ("web", "db", "cache", "batch")
TIERS = ("gold", "silver")
PRIORITIES = (-1000, -10, 0, 5, 10, 100, 500, 1000, 1_000_000, 1_000_000_000)
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
NOW = 60 * 24 * 3600
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Shape:
    """How a cluster is drawn before the features change it."""

    nodes: tuple[int, int] = (2, 8)
    pods_on_node: tuple[int, int] = (2, 9)
    load: tuple[float, float] = (0.75, 1.0)
    need: tuple[float, float] = (0.3, 0.95)
    small_pod_limits: float = 0.15
    ladder: tuple[int, ...] = PRIORITIES[:-1]
    preemptor: tuple[int, ...] = PRIORITIES[5:]
    same_size: float = 0.4


@dataclass
class World:
    """A case that is being made; features change it in place."""

    dice: Dice
    shape: Shape
    nodes: list[Obj] = field(default_factory=list)
    pods: list[Obj] = field(default_factory=list)
    pod: Obj = field(default_factory=dict)
    namespaces: list[Obj] = field(default_factory=list)
    extra: dict[str, list[Obj]] = field(default_factory=dict)
    _seconds: list[int] = field(default_factory=list)
    _names: int = 0

    def fresh_name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names:03d}"

    def moment(self) -> int:
        """A second of the simulated time that no other pod has."""
        while (second := self.dice.number(10, NOW)) in self._seconds:
            pass
        self._seconds.append(second)
        return second

    def add(self, kind: str, obj: Obj) -> Obj:
        self.extra.setdefault(kind, []).append(obj)
        return obj

    def everyone(self) -> list[Obj]:
        """The pods of the cluster and the incoming one."""
        return [*self.pods, self.pod]

    def on(self, node: Obj) -> list[Obj]:
        return [p for p in self.pods if p["spec"].get("nodeName") == node["metadata"]["name"]]

    def bound(self) -> list[Obj]:
        return [p for p in self.pods if "nodeName" in p["spec"]]

    def lower(self) -> list[Obj]:
        """The bound pods that the incoming pod may preempt."""
        return [p for p in self.bound() if p["spec"]["priority"] < self.pod["spec"]["priority"]]

    def to_case(self, identity: str) -> Obj:
        case: Obj = {"id": identity, "nodes": self.nodes, "pods": self.pods, "pod": self.pod}
        return {**case, "namespaces": self.namespaces, "pdbs": [], **self.extra}


def build(dice: Dice, shape: Shape) -> World:
    world = World(dice, shape)
    world.namespaces = [_namespace(dice, name) for name in NAMESPACES]
    template = _size(dice) if dice.chance(shape.same_size) else None
    for number in range(1, dice.number(*shape.nodes) + 1):
        world.nodes.append(_node(dice, number, template or _size(dice), shape))
    for node in world.nodes:
        _fill(world, node)
    world.pod = _preemptor(world)
    return world


def _namespace(dice: Dice, name: str) -> Obj:
    labels = {"kubernetes.io/metadata.name": name}
    if dice.chance(0.6):
        labels["team"] = dice.pick(("a", "b"))
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _size(dice: Dice) -> tuple[int, int]:
    return dice.pick((1000, 2000, 3500, 4000, 8000)), dice.pick((2048, 4096, 8192, 16384))


def _node(dice: Dice, number: int, size: tuple[int, int], shape: Shape) -> Obj:
    name = f"n{number}"
    labels = {HOSTNAME: name, "disk": dice.pick(("ssd", "hdd"))}
    if dice.chance(0.92):
        labels[ZONE] = dice.pick(("z1", "z2", "z3"))
        labels[REGION] = "r1" if labels[ZONE] != "z3" else "r2"
    if dice.chance(0.5):
        labels["gen"] = str(dice.number(1, 4))
    limit = dice.number(3, 9) if dice.chance(shape.small_pod_limits) else 110
    allocatable = {
        "cpu": cpu_text(dice, size[0]),
        "memory": memory_text(dice, size[1]),
        "ephemeral-storage": dice.pick(("10Gi", "20G")),
        "pods": str(limit),
    }
    status: Obj = {"allocatable": allocatable, "capacity": dict(allocatable)}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": status,
    }


def _fill(world: World, node: Obj) -> None:
    """Put pods on a node until about the drawn share of it is requested."""
    dice, load = world.dice, world.dice.share(*world.shape.load)
    cpu = load * milli_of(node["status"]["allocatable"]["cpu"])
    memory = load * bytes_of(node["status"]["allocatable"]["memory"]) / MEBIBYTE
    count = dice.number(*world.shape.pods_on_node)
    limit = int(node["status"]["allocatable"]["pods"])
    count = count if dice.chance(0.05) else min(count, limit)
    weights = [dice.share(0.3, 1.7) for _ in range(count)]
    for weight in weights:
        part = weight / sum(weights)
        pod = new_pod(world, max(10, int(cpu * part) // 10 * 10), max(4, int(memory * part * dice.share(0.5, 1.0))))
        bind(world, pod, node)


def new_pod(world: World, cpu: int, memory: int) -> Obj:
    """A pod that asks for so many millicores and mebibytes, waiting for a node."""
    dice = world.dice
    name, second = world.fresh_name("p"), world.moment()
    requests = {}
    if dice.chance(0.93):
        requests["cpu"] = cpu_text(dice, cpu)
    if dice.chance(0.85):
        requests["memory"] = memory_text(dice, memory)
    if dice.chance(0.05):
        requests["ephemeral-storage"] = dice.pick(("500Mi", "1Gi", "2G"))
    container: Obj = {"name": "c", "image": "img", "resources": {"requests": requests} if requests else {}}
    spec: Obj = {
        "schedulerName": "default-scheduler",
        "containers": [container],
        "terminationGracePeriodSeconds": dice.pick((0, 30, 30, 60)),
        "priority": dice.pick(world.shape.ladder),
        "preemptionPolicy": "PreemptLowerPriority",
    }
    metadata = {
        "name": name,
        "namespace": dice.weighted({"default": 3, "prod": 2, "dev": 1}),
        "uid": f"uid-{name}",
        "labels": _labels(dice),
        "creationTimestamp": timestamp(second - 5),
    }
    status: Obj = {"phase": "Pending", "startTime": timestamp(second)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def bind(world: World, pod: Obj, node: Obj) -> Obj:
    pod["spec"]["nodeName"] = node["metadata"]["name"]
    pod["status"]["phase"] = "Running"
    if world.dice.chance(0.3):
        pod["metadata"]["labels"].update({k: v for k, v in node["metadata"]["labels"].items() if k in (ZONE, REGION)})
    world.pods.append(pod)
    return pod


def _labels(dice: Dice) -> dict[str, str]:
    labels = {}
    if dice.chance(0.9):
        labels["app"] = dice.pick(APPS)
    if dice.chance(0.4):
        labels["tier"] = dice.pick(TIERS)
    if dice.chance(0.3):
        labels["rev"] = str(dice.number(1, 3))
    return labels


def _preemptor(world: World) -> Obj:
    """A pod that would fit on most nodes if they were empty."""
    dice, need = world.dice, world.dice.share(*world.shape.need)
    model = dice.pick(world.nodes)["status"]["allocatable"]
    cpu = max(10, int(need * milli_of(model["cpu"])) // 10 * 10)
    memory = max(4, int(need * dice.share(0.1, 1.0) * bytes_of(model["memory"]) / MEBIBYTE))
    pod = new_pod(world, cpu, memory)
    pod["metadata"] |= {"name": "preemptor", "uid": "uid-preemptor", "creationTimestamp": timestamp(NOW + 7200)}
    pod["spec"]["priority"] = dice.pick(world.shape.preemptor)
    pod["status"] = {"phase": "Pending"}
    return pod
