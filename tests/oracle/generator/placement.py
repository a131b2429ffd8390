"""Features of where a pod may run: taints, node affinity, host ports, images."""

from .dice import Dice, Obj
from .world import HOSTNAME, REGION, ZONE, World

IMAGES = ("img", "registry.example/web:v1", "registry.example/db:v2", "registry.example/big", "registry.example/ai:v3")
PORTS = (80, 443, 8080, 9090)


def taints(world: World) -> None:
    """Taints of every effect, and tolerations of every operator and shape."""
    dice = world.dice
    for node in world.nodes:
        drawn = [_taint(dice) for _ in range(dice.number(0, 2))]
        unique = {(t["key"], t["effect"]): t for t in drawn}
        if unique:
            node["spec"]["taints"] = list(unique.values())
        if dice.chance(0.1):
            cordon(node)
    for pod in world.everyone():
        if dice.chance(0.7 if pod is world.pod else 0.2):
            pod["spec"]["tolerations"] = [_toleration(dice) for _ in range(dice.number(1, 3))]


def cordon(node: Obj) -> None:
    node["spec"]["unschedulable"] = True
    node["spec"].setdefault("taints", []).append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})


def _taint(dice: Dice) -> Obj:
    taint = {
        "key": dice.pick(("dedicated", "gpu", "spot")),
        "effect": dice.pick(("NoSchedule", "NoExecute", "PreferNoSchedule")),
    }
    if dice.chance(0.7):
        taint["value"] = dice.pick(("a", "b"))
    return taint


def _toleration(dice: Dice) -> Obj:
    shape = dice.weighted(
        {"everything": 1, "effect": 1, "exists": 3, "equal": 4, "equal-empty": 1, "default": 2, "cordon": 1}
    )
    if shape == "everything":
        return {"operator": "Exists"}
    if shape == "effect":
        return {"operator": "Exists", "effect": dice.pick(("NoSchedule", "PreferNoSchedule", "NoExecute"))}
    if shape == "cordon":
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    toleration: Obj = {"key": dice.pick(("dedicated", "gpu", "spot"))}
    if shape == "exists":
        toleration["operator"] = "Exists"
    elif shape != "default":
        toleration["operator"] = "Equal"
    if shape in ("equal", "default"):
        toleration["value"] = dice.pick(("a", "b"))
    if dice.chance(0.6):
        toleration["effect"] = dice.pick(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        if toleration["effect"] == "NoExecute" and dice.chance(0.5):
            toleration["tolerationSeconds"] = 300
    return toleration


def affinity_node(world: World) -> None:
    """nodeSelector, required and preferred node affinity, with all operators and matchFields."""
    dice, spec = world.dice, world.pod["spec"]
    if dice.chance(0.4):
        spec["nodeSelector"] = dice.pick(({"disk": "ssd"}, {"disk": "hdd"}, {ZONE: "z1"}, {"gen": "2"}))
    affinity: Obj = {}
    if dice.chance(0.7):
        terms = [_node_term(world) for _ in range(dice.number(1, 3))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.chance(0.6):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.number(1, 100), "preference": _node_term(world)} for _ in range(dice.number(1, 3))
        ]
    if affinity:
        spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def node_names(world: World) -> None:
    """Affinity by the name of the node, which PreFilter turns into a set of nodes."""
    dice = world.dice
    names = [n["metadata"]["name"] for n in world.nodes] + ["gone"]
    terms = []
    for _ in range(dice.number(1, 3)):
        term: Obj = {"matchFields": [_name_field(dice, names) for _ in range(dice.weighted({1: 4, 2: 1}))]}
        if dice.chance(0.3):
            term["matchExpressions"] = [_expression(dice)]
        terms.append(term)
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    world.pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity


def _name_field(dice: Dice, names: list[str]) -> Obj:
    return {"key": "metadata.name", "operator": dice.pick(("In", "In", "In", "NotIn")), "values": [dice.pick(names)]}


def _node_term(world: World) -> Obj:
    dice = world.dice
    if dice.chance(0.05):
        return {}
    term: Obj = {"matchExpressions": [_expression(dice) for _ in range(dice.number(1, 2))]}
    if dice.chance(0.1):
        name = dice.pick(world.nodes)["metadata"]["name"]
        term["matchFields"] = [{"key": "metadata.name", "operator": dice.pick(("In", "NotIn")), "values": [name]}]
    return term


def _expression(dice: Dice) -> Obj:
    operator = dice.pick(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": dice.pick(("gen", "gen", "disk")), "operator": operator, "values": [str(dice.number(0, 4))]}
    key = dice.pick(("disk", ZONE, "gen", HOSTNAME, REGION, "absent"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    values = {"disk": ("ssd", "hdd"), ZONE: ("z1", "z2", "z3"), "gen": ("1", "2", "3"), REGION: ("r1", "r2")}
    return {"key": key, "operator": operator, "values": dice.some(values.get(key, ("n1", "n2", "n3")), 1, 2)}


def ports(world: World) -> None:
    """Host ports, some bound to one address, some of sidecars; two pods on a node may share one."""
    dice = world.dice
    for pod in world.everyone():
        if pod is world.pod or dice.chance(0.5):
            pod["spec"]["containers"][0]["ports"] = _ports(dice, 1, 3)
        if dice.chance(0.15):
            helper = {"name": "proxy", "image": "img", "restartPolicy": "Always", "ports": _ports(dice, 1, 1)}
            pod["spec"].setdefault("initContainers", []).append(helper)


def _ports(dice: Dice, low: int, high: int) -> list[Obj]:
    drawn = {}
    for number in dice.some(PORTS, low, high):
        port: Obj = {"containerPort": number, "protocol": dice.weighted({"TCP": 6, "UDP": 2, "SCTP": 1})}
        if dice.chance(0.85):
            port["hostPort"] = number
            if dice.chance(0.35):
                port["hostIP"] = dice.pick(("10.0.0.1", "10.0.0.2", "127.0.0.1", "0.0.0.0"))
        drawn[number] = port
    return list(drawn.values())


def images(world: World) -> None:
    """Images that nodes hold already, named with and without tag or digest, of containers and of volumes."""
    dice, spec = world.dice, world.pod["spec"]
    sizes = {image: dice.number(5, 1500) * 1_000_000 for image in IMAGES}
    if dice.chance(0.3):
        sizes["registry.example/big"] = 9_000_000_000
    for node in world.nodes:
        held = [_held(dice, image, sizes[image]) for image in dice.some(IMAGES, 0, 4)]
        if held:
            node["status"]["images"] = held
    if dice.chance(0.4):
        spec["containers"].append({"name": "e", "image": "img", "resources": {}})
    if dice.chance(0.3):
        spec.setdefault("initContainers", []).append({"name": "fetch", "image": "img", "resources": {}})
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        container["image"] = dice.pick(IMAGES)
    if dice.chance(0.2):
        volume = {"name": "model", "image": {"reference": dice.pick(IMAGES[1:]), "pullPolicy": "IfNotPresent"}}
        spec.setdefault("volumes", []).append(volume)


def image_volumes(world: World) -> None:
    """Images that the incoming pod mounts; since 1.36 they count as those of containers do."""
    images(world)
    volumes = world.pod["spec"].setdefault("volumes", [])
    for number in range(world.dice.number(1, 3)):
        image = {"reference": world.dice.pick(IMAGES[1:]), "pullPolicy": world.dice.pick(("Always", "IfNotPresent"))}
        volumes.append({"name": f"data{number}", "image": image})


def _held(dice: Dice, image: str, size: int) -> Obj:
    tagged = image if ":" in image.rsplit("/", maxsplit=1)[-1] else image + ":latest"
    names = [tagged]
    if dice.chance(0.5):
        names.insert(0, image.split(":", maxsplit=1)[0] + "@sha256:" + "0123456789abcdef" * 4)
    return {"names": names, "sizeBytes": size}
