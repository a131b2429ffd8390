"""Features of devices (DRA): slices that offer them, classes, claims of the incoming pod and of others."""

from collections.abc import Callable

from .dice import Dice, Obj
from .world import HOSTNAME, World

DRIVERS = ("gpu.example", "nic.example")
MODELS = ("a100", "h100", "t4")
CLASSES = ("gpu", "fast-gpu", "big-gpu", "nic")
SELECTORS = (
    'device.driver == "gpu.example"',
    'device.attributes["gpu.example"].model == "a100"',
    'device.attributes["gpu.example"].model in ["a100", "h100"]',
    'device.attributes["gpu.example"].cores >= 4',
    'device.attributes["gpu.example"].healthy',
    'device.driver == "gpu.example" && !device.attributes["gpu.example"].healthy',
    'device.capacity["gpu.example"].memory.compareTo(quantity("16Gi")) >= 0',
    'device.driver == "gpu.example" && device.attributes["gpu.example"].version.isGreaterThan(semver("1.2.0"))',
    '"model" in device.attributes["gpu.example"]',
    'has(device.attributes["other.example"].slot) || device.driver == "gpu.example"',
    'device.attributes["gpu.example"].model.startsWith("a") ? device.attributes["gpu.example"].cores > 2 : true',
    '["t4", "h100"].exists(m, m == device.attributes["gpu.example"].model)',
    'device.attributes["gpu.example"].model == 3 || true',
)
CLASS_SELECTORS = {
    "gpu": ['device.driver == "gpu.example"'],
    "fast-gpu": ['device.driver == "gpu.example"', 'device.attributes["gpu.example"].cores >= 4'],
    "big-gpu": [
        'device.driver == "gpu.example" && device.capacity["gpu.example"].memory.isGreaterThan(quantity("20Gi"))'
    ],
    "nic": ['device.driver == "nic.example"'],
}


def devices(world: World) -> None:
    """Devices on nodes, some in use, and a pod that claims a few."""
    _offer(world)
    _take(world, 0.35)
    for number in range(world.dice.weighted({1: 3, 2: 2, 3: 1})):
        _claim_for(world, world.pod, number, _request)


def crowded_devices(world: World) -> None:
    """Hardly a device is free: allocation has to try again and again."""
    _offer(world, most=4)
    _take(world, 0.6)
    for number in range(world.dice.number(1, 3)):
        _claim_for(world, world.pod, number, _request)


def alternatives(world: World) -> None:
    """Requests that are met by the first of several."""
    _offer(world)
    _take(world, 0.5)
    for number in range(world.dice.number(1, 2)):
        _claim_for(world, world.pod, number, _alternatives)


def agreeing_devices(world: World) -> None:
    """Devices of a claim have an attribute in common."""
    _offer(world, most=8)
    _take(world, 0.2)
    _claim_for(world, world.pod, 0, _plain, requests=(1, 3), constrained=True)


def all_devices(world: World) -> None:
    """A claim on all devices of a kind, or with the rights of an administrator."""
    _offer(world, most=3)
    _take(world, 0.2)
    _claim_for(world, world.pod, 0, _all_or_admin)


def allocated_claims(world: World) -> None:
    """Claims that have their devices already, on one node or a few; shared with other pods or not."""
    dice = world.dice
    _offer(world)
    _take(world, 0.3)
    for number in range(dice.number(1, 2)):
        claim = _claim_for(world, world.pod, number, _plain)
        if dice.chance(0.7):
            names = [node["metadata"]["name"] for node in dice.some(world.nodes, 1, 3)]
            results = [{"request": "r0", "driver": "gpu.example", "pool": "far", "device": f"far-{number}"}]
            allocation: Obj = {"devices": {"results": results}}
            if dice.chance(0.85):
                fields = [{"key": "metadata.name", "operator": "In", "values": names[:1]}]
                labels = [{"key": HOSTNAME, "operator": "In", "values": names}]
                term = {"matchFields": fields} if dice.chance(0.5) else {"matchExpressions": labels}
                allocation["nodeSelector"] = {"nodeSelectorTerms": [term]}
            claim["status"]["allocation"] = allocation
            if dice.chance(0.3) and world.bound():
                other = dice.pick(world.bound())["metadata"]
                claim["status"]["reservedFor"] = [{"resource": "pods", "name": other["name"], "uid": other["uid"]}]


def tainted_devices(world: World) -> None:
    """Devices with taints, and requests that tolerate some."""
    dice = world.dice
    _offer(world)
    for part in world.extra.get("resourceSlices", []):
        for device in part["spec"]["devices"]:
            if dice.chance(0.4):
                effect = dice.pick(("NoSchedule", "NoExecute"))
                device["taints"] = [{"key": "broken", "value": dice.pick(("yes", "maybe")), "effect": effect}]
    claim = _claim_for(world, world.pod, 0, _plain)
    if dice.chance(0.6):
        toleration: Obj = {"key": "broken", "operator": "Exists"}
        if dice.chance(0.5):
            toleration = {"key": "broken", "operator": "Equal", "value": "maybe"}
        claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [toleration]


def shared_pools(world: World) -> None:
    """Pools that reach several nodes, of more than one slice, of older generations."""
    dice = world.dice
    _classes(world)
    for number in range(dice.number(1, 3)):
        pool = f"net-{number}"
        generation, count = dice.number(1, 3), dice.number(1, 2)
        for index in range(count):
            part = _slice(world, f"{pool}-{index}", "gpu.example", pool, dice.number(1, 3))
            part["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": count}
            if dice.chance(0.5):
                part["spec"]["allNodes"] = True
            else:
                names = [node["metadata"]["name"] for node in dice.some(world.nodes, 1, 4)]
                term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": names}]}
                part["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
        if dice.chance(0.3):
            old = _slice(world, f"{pool}-old", "gpu.example", pool, 2, prefix="old")
            old["spec"]["allNodes"] = True
            old["spec"]["pool"] |= {"generation": 0}
    _take(world, 0.3)
    for number in range(dice.number(1, 2)):
        _claim_for(world, world.pod, number, _request)


def extended_devices(world: World) -> None:
    """Extended resources that a class provides, on nodes without a device plugin."""
    dice = world.dice
    _offer(world)
    world.extra["deviceClasses"][0]["spec"]["extendedResourceName"] = "example.com/gpu"
    for node in world.nodes:
        if dice.chance(0.25):
            node["status"]["allocatable"]["example.com/gpu"] = str(dice.number(0, 3))
            node["status"]["capacity"] = dict(node["status"]["allocatable"])
    _take(world, 0.3)
    name = dice.pick(("example.com/gpu", "example.com/gpu", "deviceclass.resource.kubernetes.io/fast-gpu"))
    container = world.pod["spec"]["containers"][0]
    amount = str(dice.number(1, 3))
    container["resources"].setdefault("requests", {})[name] = amount
    container["resources"].setdefault("limits", {})[name] = amount
    if dice.chance(0.4):
        amount = str(dice.number(1, 3))
        init: Obj = {"name": "i", "image": "img", "resources": {"requests": {name: amount}, "limits": {name: amount}}}
        if dice.chance(0.4):
            init["restartPolicy"] = "Always"
        world.pod["spec"]["initContainers"] = [init]


def _classes(world: World) -> None:
    for name in CLASSES:
        spec = {"selectors": [{"cel": {"expression": expression}} for expression in CLASS_SELECTORS[name]]}
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
        world.add("deviceClasses", made)


def _offer(world: World, most: int = 6) -> None:
    _classes(world)
    for node in world.nodes:
        for driver in DRIVERS:
            if world.dice.chance(0.75 if driver == DRIVERS[0] else 0.4):
                name = node["metadata"]["name"]
                part = _slice(world, f"{name}-{driver}", driver, name, world.dice.number(1, most))
                part["spec"]["nodeName"] = name


def _slice(world: World, name: str, driver: str, pool: str, count: int, prefix: str = "") -> Obj:
    made = [_device(world.dice, driver, f"{prefix or name.replace('.', '-')}-d{n}") for n in range(count)]
    spec: Obj = {"driver": driver, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, "devices": made}
    part = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    return world.add("resourceSlices", part)


def _device(dice: Dice, driver: str, name: str) -> Obj:
    attributes: Obj = {"slot": {"int": dice.number(0, 2)}, "root": {"string": dice.pick(("pci0", "pci1"))}}
    capacity: Obj = {}
    if driver == DRIVERS[0]:
        attributes |= {
            "model": {"string": dice.pick(MODELS)},
            "cores": {"int": dice.number(1, 8)},
            "healthy": {"bool": dice.chance(0.8)},
            "version": {"version": dice.pick(("1.0.0", "1.2.0", "1.2.1-rc.1", "1.3.0", "2.0.0"))},
        }
        capacity = {"memory": {"value": dice.pick(("8Gi", "16Gi", "24Gi", "40Gi"))}}
    if dice.chance(0.1):
        attributes["other.example/slot"] = {"int": 1}
    if dice.chance(0.5):
        attributes["resource.kubernetes.io/pcieRoot"] = {"string": dice.pick(("pci0", "pci1", "pci2"))}
    return {"name": name, "attributes": attributes, **({"capacity": capacity} if capacity else {})}


def _take(world: World, share: float) -> None:
    """Claims that have devices already, for some of which an administrator looks on."""
    for part in world.extra.get("resourceSlices", []):
        spec = part["spec"]
        for device in spec.get("devices", ()):
            if world.dice.chance(share):
                claim = _claim(world, "default", world.fresh_name("taken"))
                result: Obj = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"]}
                result["device"] = device["name"]
                if world.dice.chance(0.1):
                    result["adminAccess"] = True
                claim["spec"]["devices"]["requests"] = [{"name": "r", "exactly": _exact("gpu")}]
                claim["status"]["allocation"] = {"devices": {"results": [result]}}


def _claim(world: World, namespace: str, name: str) -> Obj:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    claim: Obj = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    return world.add("resourceClaims", {**claim, "spec": {"devices": {}}, "status": {}})


def _claim_for(
    world: World,
    pod: Obj,
    number: int,
    request: Callable[[Dice], Obj],
    requests: tuple[int, int] = (1, 2),
    constrained: bool = False,
) -> Obj:
    """A claim of a pod: one that it names, or one that was made of a template for it."""
    dice, metadata = world.dice, pod["metadata"]
    claim = _claim(world, metadata["namespace"], f"claim-{number}")
    made = [{"name": f"r{n}", **request(dice)} for n in range(dice.number(*requests))]
    claim["spec"]["devices"]["requests"] = made
    if constrained or dice.chance(0.15):
        attribute = dice.pick(
            ("gpu.example/model", "gpu.example/root", "resource.kubernetes.io/pcieRoot", "gpu.example/slot")
        )
        constraint: Obj = {"matchAttribute": attribute}
        if dice.chance(0.4):
            constraint["requests"] = [r["name"] for r in dice.some(made, 1, 2)]
        claim["spec"]["devices"]["constraints"] = [constraint]
    entry: Obj = {"name": f"c{number}"}
    if dice.chance(0.5):
        entry["resourceClaimTemplateName"] = "template"
        status = {"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]}
        pod["status"].setdefault("resourceClaimStatuses", []).append(status)
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        claim["metadata"]["ownerReferences"] = [owner]
    else:
        entry["resourceClaimName"] = claim["metadata"]["name"]
    pod["spec"].setdefault("resourceClaims", []).append(entry)
    return claim


def _exact(device_class: str, count: int = 1) -> Obj:
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}


def _request(dice: Dice) -> Obj:
    return _alternatives(dice) if dice.chance(0.2) else _plain(dice)


def _plain(dice: Dice) -> Obj:
    request = _exact(
        dice.weighted({"gpu": 4, "fast-gpu": 2, "big-gpu": 2, "nic": 1}), dice.weighted({1: 5, 2: 3, 3: 1})
    )
    if request["deviceClassName"] != "nic" and dice.chance(0.6):
        request["selectors"] = [{"cel": {"expression": dice.pick(SELECTORS)}} for _ in range(dice.number(1, 2))]
    return {"exactly": request}


def _alternatives(dice: Dice) -> Obj:
    made = [{"name": f"s{n}", **_plain(dice)["exactly"]} for n in range(dice.number(1, 4))]
    return {"firstAvailable": made}


def _all_or_admin(dice: Dice) -> Obj:
    request = _plain(dice)["exactly"]
    if dice.chance(0.6):
        request["allocationMode"] = "All"
        del request["count"]
    if dice.chance(0.5):
        request["adminAccess"] = True
    return {"exactly": request}
