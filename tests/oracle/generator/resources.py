"""Features of requests: what a pod asks for and what a node has."""

from .dice import Obj, bytes_of, cpu_text, memory_text, milli_of
from .world import MEBIBYTE, World, bind, new_pod

GPU = "example.com/gpu"


def _each_container(pod: Obj) -> list[Obj]:
    containers: list[Obj] = pod["spec"]["containers"]
    return containers


def _request(container: Obj, name: str, value: str, limit: bool = False) -> None:
    resources = container.setdefault("resources", {})
    resources.setdefault("requests", {})[name] = value
    if limit:
        resources.setdefault("limits", {})[name] = value


def _give(node: Obj, name: str, value: str) -> None:
    node["status"]["allocatable"][name] = value
    node["status"]["capacity"][name] = value


def extended(world: World) -> None:
    """A device by count; request and limit of an extended resource are equal."""
    dice = world.dice
    for node in world.nodes:
        if dice.chance(0.8):
            _give(node, GPU, str(dice.number(0, 6)))
    for pod in world.pods:
        if dice.chance(0.4):
            _request(_each_container(pod)[0], GPU, str(dice.number(1, 2)), limit=True)
    _request(_each_container(world.pod)[0], GPU, str(dice.number(0, 3)), limit=True)


def above_allocatable(world: World) -> None:
    """A pod that asks for more than some of the nodes have at all: nobody's going would help there."""
    dice = world.dice
    request = _each_container(world.pod)[0].setdefault("resources", {}).setdefault("requests", {})
    name = dice.pick(("cpu", "cpu", "memory", "memory", "ephemeral-storage", "pods"))
    if name == "pods":
        for node in dice.some(world.nodes, 1, len(world.nodes)):
            _give(node, "pods", dice.pick(("0", "1", "2")))
        return
    if name == "cpu":
        sizes = sorted(milli_of(node["status"]["allocatable"]["cpu"]) for node in world.nodes)
        request["cpu"] = f"{dice.pick(sizes) + dice.pick((-10, 0, 1))}m"
        return
    sizes = sorted(bytes_of(node["status"]["allocatable"][name]) for node in world.nodes)
    request[name] = str(dice.pick(sizes) + dice.pick((-MEBIBYTE, 0, 1)))


def hugepages(world: World) -> None:
    dice = world.dice
    sizes = dice.some(("hugepages-2Mi", "hugepages-1Gi"), 1, 2)
    for node in world.nodes:
        for size in sizes:
            if dice.chance(0.85):
                _give(node, size, f"{dice.number(0, 6)}Gi" if size.endswith("1Gi") else f"{dice.number(0, 60) * 2}Mi")
    for pod in world.everyone():
        if pod is world.pod or dice.chance(0.5):
            container = _each_container(pod)[0]
            container.setdefault("resources", {}).setdefault("requests", {}).setdefault("cpu", "10m")
            for size in dice.some(sizes, 1, 2):
                amount = f"{dice.number(1, 2)}Gi" if size.endswith("1Gi") else f"{dice.number(1, 16) * 2}Mi"
                _request(container, size, amount, limit=True)


def containers(world: World) -> None:
    """Several containers, and init containers that ask for more than they do."""
    for pod in world.everyone():
        if world.dice.chance(0.5):
            _split(world, pod)
        if world.dice.chance(0.5):
            pod["spec"]["initContainers"] = [_helper(world, f"init{i}") for i in range(world.dice.number(1, 3))]


def sidecars(world: World) -> None:
    """Init containers that keep running, between others that do not."""
    for pod in world.everyone():
        if world.dice.chance(0.6):
            helpers = [_helper(world, f"init{i}") for i in range(world.dice.number(1, 4))]
            for helper in helpers:
                if world.dice.chance(0.6):
                    helper["restartPolicy"] = "Always"
            pod["spec"]["initContainers"] = helpers


def _split(world: World, pod: Obj) -> None:
    second: Obj = {"name": "d", "image": "img", "resources": {}}
    if world.dice.chance(0.8):
        _request(second, "cpu", cpu_text(world.dice, world.dice.number(1, 40) * 10))
    if world.dice.chance(0.6):
        _request(second, "memory", memory_text(world.dice, world.dice.number(16, 512)))
    pod["spec"]["containers"].append(second)


def _helper(world: World, name: str) -> Obj:
    helper: Obj = {"name": name, "image": "img", "resources": {}}
    if world.dice.chance(0.8):
        _request(helper, "cpu", cpu_text(world.dice, world.dice.number(1, 120) * 10))
    if world.dice.chance(0.6):
        _request(helper, "memory", memory_text(world.dice, world.dice.number(16, 1500)))
    return helper


def overhead(world: World) -> None:
    """A runtime that costs something beside the containers."""
    for pod in world.everyone():
        if world.dice.chance(0.5):
            pod["spec"]["runtimeClassName"] = "sandbox"
            pod["spec"]["overhead"] = {
                "cpu": f"{world.dice.number(1, 25) * 10}m",
                "memory": f"{world.dice.number(8, 256)}Mi",
            }


def _requested(pod: Obj, name: str) -> int:
    """The sum over all containers, more than they ever use together: millicores of CPU, else mebibytes (rounded up)."""
    total = 0
    for container in [*_each_container(pod), *pod["spec"].get("initContainers", [])]:
        text = container.get("resources", {}).get("requests", {}).get(name)
        if text is not None:
            total += milli_of(text) if name == "cpu" else -(-bytes_of(text) // MEBIBYTE)
    return total


def pod_level(world: World) -> None:
    """spec.resources of the pod, never less than its containers ask for together."""
    dice = world.dice
    for pod in world.everyone():
        if not dice.chance(0.5) or _asks_for_hugepages(pod):
            continue
        wanted: dict[str, str] = {}
        if dice.chance(0.8):
            wanted["cpu"] = f"{_requested(pod, 'cpu') + dice.number(1, 30) * 10}m"
        if dice.chance(0.7):
            wanted["memory"] = f"{_requested(pod, 'memory') + dice.number(1, 300)}Mi"
        if wanted:
            pod["spec"]["resources"] = {"requests": wanted}
            if len(wanted) == 2 and dice.chance(0.1):
                _share_hugepages(world, pod)
            if dice.chance(0.4):
                for container in _each_container(pod):
                    container.pop("resources", None)


def _asks_for_hugepages(pod: Obj) -> bool:
    requests = [container.get("resources", {}).get("requests", {}) for container in _each_container(pod)]
    return any(name.startswith("hugepages-") for names in requests for name in names)


def _share_hugepages(world: World, pod: Obj) -> None:
    """Huge pages for all containers of a pod together."""
    amount = f"{world.dice.number(1, 16) * 2}Mi"
    pod["spec"]["resources"]["requests"]["hugepages-2Mi"] = amount
    pod["spec"]["resources"]["limits"] = {"hugepages-2Mi": amount}
    for node in world.nodes:
        if "hugepages-2Mi" not in node["status"]["allocatable"]:
            _give(node, "hugepages-2Mi", f"{world.dice.number(8, 40) * 2}Mi")


def nothing(world: World) -> None:
    """Requests of zero, and amounts between the units that the scheduler counts in."""
    for pod in world.everyone():
        for container in _each_container(pod):
            if world.dice.chance(0.5):
                _request(container, "cpu", world.dice.pick(("0", "1", "0.1", "1e-1", "250m", "3m")))
            if world.dice.chance(0.5):
                _request(container, "memory", world.dice.pick(("0", "1", "1.5Gi", "0.1Gi", "1e8", "128974848", "1Ki")))


def poor_nodes(world: World) -> None:
    """Nodes that report nothing of a resource, or none at all."""
    for node in world.dice.some(world.nodes, 1, 2):
        for name in world.dice.some(("cpu", "memory", "ephemeral-storage", "pods"), 1, 2):
            if world.dice.chance(0.5):
                _give(node, name, "0")
            else:
                del node["status"]["allocatable"][name]
                del node["status"]["capacity"][name]


def resize(world: World) -> None:
    """Pods whose resources are being changed in place: spec, allocated and actual values differ."""
    for pod in world.bound():
        if world.dice.chance(0.6):
            _resize_containers(world, pod)
            if "resources" in pod["spec"] and world.dice.chance(0.7):
                _resize_pod(world, pod)
            _resize_condition(world, pod)


def _scaled(world: World, requests: dict[str, str]) -> dict[str, str]:
    factor = world.dice.share(0.4, 2.0)
    scaled = dict(requests)
    if "cpu" in scaled:
        scaled["cpu"] = f"{max(1, int(milli_of(scaled['cpu']) * factor))}m"
    if "memory" in scaled:
        scaled["memory"] = str(max(1, int(bytes_of(scaled["memory"]) * factor)))
    return scaled


def _resize_containers(world: World, pod: Obj) -> None:
    for field, containers_ in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        for container in pod["spec"].get(containers_, []):
            requests = container.get("resources", {}).get("requests")
            if not requests or world.dice.chance(0.2):
                continue
            status: Obj = {"name": container["name"], "image": "img", "imageID": "", "ready": True, "restartCount": 0}
            if world.dice.chance(0.8):
                status["allocatedResources"] = _scaled(world, requests)
            if world.dice.chance(0.85):
                status["resources"] = {"requests": _scaled(world, requests)}
            pod["status"].setdefault(field, []).append(status)


def _resize_pod(world: World, pod: Obj) -> None:
    requests = pod["spec"]["resources"]["requests"]
    if world.dice.chance(0.8):
        pod["status"]["allocatedResources"] = _scaled(world, requests)
    if world.dice.chance(0.8):
        pod["status"]["resources"] = {"requests": _scaled(world, requests)}


def _resize_condition(world: World, pod: Obj) -> None:
    draw = world.dice.weighted({"Infeasible": 3, "Deferred": 3, "InProgress": 2, "none": 2})
    conditions = pod["status"].setdefault("conditions", [])
    if draw in ("Infeasible", "Deferred"):
        conditions.append({"type": "PodResizePending", "status": "True", "reason": draw})
    elif draw == "InProgress":
        conditions.append({"type": "PodResizeInProgress", "status": "True"})


def best_effort(world: World) -> None:
    """Pods that ask for nothing: only their number counts."""
    for node in world.nodes:
        count = len(world.on(node))
        _give(node, "pods", str(max(1, count - world.dice.number(0, 1) + world.dice.number(0, 1))))
    for pod in world.everyone():
        if pod is world.pod or world.dice.chance(0.6):
            for container in _each_container(pod):
                container["resources"] = {}


def ephemeral_storage(world: World) -> None:
    for pod in world.everyone():
        if pod is world.pod or world.dice.chance(0.7):
            _request(_each_container(pod)[0], "ephemeral-storage", world.dice.pick(("1Gi", "2G", "3Gi", "4000Mi")))


def crowd(world: World) -> None:
    """One or two nodes with 20 to 110 small pods."""
    for node in world.dice.some(world.nodes, 1, 2):
        cpu = milli_of(node["status"]["allocatable"]["cpu"]) // 60
        wanted = world.dice.number(20, 110)
        while len(world.on(node)) < wanted:
            bind(world, new_pod(world, max(1, cpu // world.dice.number(1, 4)), world.dice.number(1, 30)), node)
        if world.dice.chance(0.3):
            _give(node, "pods", str(wanted))
