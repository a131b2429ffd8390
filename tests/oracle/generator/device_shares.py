"""Features of devices since 1.36: shares of capacity, partitions, binding conditions, rules that taint."""

from .devices import _claim, _claim_for, _classes, _exact, _offer, _slice, _take
from .dice import Dice, Obj
from .world import HOSTNAME, World

DRIVER = "gpu.example"
SIZES = ("1Gi", "2Gi", "3Gi", "4Gi", "8Gi")
STEPS = ({"min": "1Gi", "max": "8Gi", "step": "1Gi"}, {"min": "1Gi", "step": "3Gi"}, {"min": "2Gi", "max": "6Gi"})
VALUES = (["1Gi", "2Gi", "4Gi"], ["2Gi", "8Gi"])
LANES = ({"min": "500m", "max": "4", "step": "500m"}, {"min": "1", "step": "2"}, {"min": "1", "max": "3"})


def capacity(world: World) -> None:
    """Devices that several claims may have, with policies for what a claim takes."""
    _offer_shares(world, most=3)
    _take_shares(world, 0.4)
    for number in range(world.dice.weighted({1: 3, 2: 2, 3: 1})):
        _claim_for(world, world.pod, number, _sharing)


def tight_capacity(world: World) -> None:
    """Hardly any capacity is left, and requests are for all devices, or by alternatives."""
    _offer_shares(world, most=2)
    _take_shares(world, 0.9)
    for number in range(world.dice.number(1, 2)):
        _claim_for(world, world.pod, number, _sharing_otherwise)


def partitions(world: World) -> None:
    """Devices of a node that take from its counters."""
    dice = world.dice
    _classes(world)
    for node in world.nodes:
        if dice.chance(0.85):
            _partitioned(world, node["metadata"]["name"], {"nodeName": node["metadata"]["name"]})
    _take(world, 0.25)
    for number in range(dice.number(1, 2)):
        _claim_for(world, world.pod, number, _partition)


def wide_partitions(world: World) -> None:
    """Pools of several nodes with counters; the nodes of devices are given one by one, or by labels."""
    dice = world.dice
    _classes(world)
    for number in range(dice.number(1, 2)):
        names = [node["metadata"]["name"] for node in dice.some(world.nodes, 1, 4)]
        expressions = [{"key": HOSTNAME, "operator": "In", "values": names}]
        selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
        reach: Obj = dice.pick(({"allNodes": True}, selector, {"perDeviceNodeSelection": True}))
        _partitioned(world, f"wide-{number}", reach, slices=dice.number(1, 2))
        if dice.chance(0.15):
            world.extra["resourceSlices"].pop()
    _take(world, 0.2)
    for number in range(dice.number(1, 2)):
        _claim_for(world, world.pod, number, _partition)


def shared_partitions(world: World) -> None:
    """Devices that take from counters, and that several claims may have."""
    dice = world.dice
    _classes(world)
    for node in world.nodes:
        _partitioned(world, node["metadata"]["name"], {"nodeName": node["metadata"]["name"]}, shared=0.6)
    _take_shares(world, 0.4)
    for number in range(dice.number(1, 3)):
        _claim_for(world, world.pod, number, _sharing)


def distinct(world: World) -> None:
    """The devices of a claim differ in an attribute, and agree in another."""
    dice = world.dice
    _offer_shares(world, most=7) if dice.chance(0.3) else _offer(world, most=7)
    _take_shares(world, 0.2)
    claim = _claim_for(world, world.pod, 0, _few, requests=(1, 3), constrained=dice.chance(0.3))
    constraints = claim["spec"]["devices"].setdefault("constraints", [])
    for attribute in dice.some(("gpu.example/model", "gpu.example/slot", "resource.kubernetes.io/pcieRoot"), 1, 2):
        made: Obj = {"distinctAttribute": attribute}
        if dice.chance(0.3):
            made["requests"] = [r["name"] for r in dice.some(claim["spec"]["devices"]["requests"], 1, 2)]
        constraints.append(made)


def binding_conditions(world: World) -> None:
    """Devices that must be made ready, and claims whose devices are, or not."""
    dice = world.dice
    _offer(world)
    for part in world.extra.get("resourceSlices", []):
        for device in part["spec"]["devices"]:
            if dice.chance(0.3):
                device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
                if dice.chance(0.5):
                    device["bindsToNode"] = True
    _take(world, 0.3)
    for number in range(dice.number(1, 3)):
        claim = _claim_for(world, world.pod, number, _few)
        if dice.chance(0.6):
            _allocated(dice, claim, number)


def extended(world: World) -> None:
    """Extended resources of a class whose devices are shared or partitioned; claims of an earlier try."""
    dice = world.dice
    _offer_shares(world, most=4) if dice.chance(0.5) else partitions(world)
    for node in world.nodes:
        if dice.chance(0.2):
            node["status"]["allocatable"]["example.com/gpu"] = str(dice.number(0, 3))
            node["status"]["capacity"] = dict(node["status"]["allocatable"])
    _take_shares(world, 0.3)
    world.extra["deviceClasses"][0]["spec"]["extendedResourceName"] = "example.com/gpu"
    resources = world.pod["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources.setdefault(part, {})["example.com/gpu"] = "2"
    if dice.chance(0.15):
        claim = _claim(world, world.pod["metadata"]["namespace"], "earlier")
        claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        claim["metadata"]["ownerReferences"] = [owner | {key: world.pod["metadata"][key] for key in ("name", "uid")}]
        claim["spec"]["devices"]["requests"] = [{"name": "container-0-request-0", "exactly": _exact("gpu", 2)}]


def taint_rules(world: World) -> None:
    """DeviceTaintRules, and requests that tolerate some of their taints."""
    dice = world.dice
    _offer(world)
    parts = world.extra.get("resourceSlices", [])
    for number in range(dice.number(1, 4)):
        selector: Obj = {}
        if parts:
            part = dice.pick(parts)["spec"]
            found = {
                "driver": part["driver"],
                "pool": part["pool"]["name"],
                "device": dice.pick(part["devices"])["name"],
            }
            selector = {key: found[key] for key in dice.some(sorted(found), 0, 3)}
        effect = dice.pick(("NoSchedule", "NoExecute", "None"))
        taint = {"key": "broken", "value": dice.pick(("yes", "maybe")), "effect": effect}
        taint["timeAdded"] = "2026-01-17T00:00:00Z"
        spec = {"taint": taint} | ({"deviceSelector": selector} if dice.chance(0.9) else {})
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": f"rule-{number}"}}
        world.add("deviceTaintRules", {**made, "spec": spec})
    for number in range(dice.number(1, 2)):
        claim = _claim_for(world, world.pod, number, _few)
        if dice.chance(0.6):
            toleration = dice.pick(
                (
                    {"key": "broken", "operator": "Exists"},
                    {"key": "broken", "operator": "Equal", "value": "maybe"},
                    {"operator": "Exists", "effect": "NoSchedule"},
                )
            )
            claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [toleration]


def _offer_shares(world: World, most: int) -> None:
    _offer(world, most)
    for part in world.extra.get("resourceSlices", []):
        for device in part["spec"]["devices"]:
            if part["spec"]["driver"] == DRIVER:
                _share(world.dice, device, 0.7)


def _share(dice: Dice, device: Obj, chance: float) -> None:
    if not dice.chance(chance):
        return
    device["allowMultipleAllocations"] = True
    memory: Obj = {"value": dice.pick(("8Gi", "16Gi"))}
    device["capacity"]["memory"] = memory
    policy: Obj = dice.pick(
        ({}, {"default": "2Gi"}, {"validRange": dict(dice.pick(STEPS))}, {"validValues": dice.pick(VALUES)})
    )
    if policy:
        least = policy.get("validRange", {}).get("min") or policy.get("validValues", ["2Gi"])[0]
        memory["requestPolicy"] = {"default": least, **policy}
    if dice.chance(0.3):
        lanes: Obj = dict(dice.pick(LANES))
        device["capacity"]["lanes"] = {"value": "4", "requestPolicy": {"default": lanes["min"], "validRange": lanes}}
    if dice.chance(0.05):
        del device["capacity"]


def _partitioned(world: World, pool: str, reach: Obj, slices: int = 1, shared: float = 0) -> None:
    """A pool of devices of several sizes, and a slice with the counters that they share."""
    dice = world.dice
    counters: Obj = {"memory": {"value": dice.pick(("16Gi", "24Gi"))}, "slots": {"value": str(dice.number(2, 6))}}
    sets: list[Obj] = [{"name": f"set-{number}", "counters": dict(counters)} for number in range(dice.number(1, 2))]
    made = []
    for number in range(slices):
        part = _slice(world, f"{pool}-devices-{number}", DRIVER, pool, dice.number(2, 5))
        made.append(part)
        for device in part["spec"]["devices"]:
            _share(dice, device, shared)
            if dice.chance(0.85):
                chosen = dice.some(sets, 1, 2 if dice.chance(0.3) else 1)
                device["consumesCounters"] = [{"counterSet": each["name"], "counters": _size(dice)} for each in chosen]
            if "perDeviceNodeSelection" in reach:
                name = dice.pick(world.nodes)["metadata"]["name"]
                device |= {"allNodes": True} if dice.chance(0.4) else {"nodeName": name}
        part["spec"] |= reach
    part = _slice(world, f"{pool}-counters", DRIVER, pool, 0)
    del part["spec"]["devices"]
    part["spec"] |= {"sharedCounters": sets} | reach
    if "perDeviceNodeSelection" in reach:
        del part["spec"]["perDeviceNodeSelection"]
        part["spec"]["allNodes"] = True
    made.append(part)
    if dice.chance(0.05):
        sets[0]["counters"].pop("slots")
    for part in made:
        part["spec"]["pool"]["resourceSliceCount"] = len(made)


def _size(dice: Dice) -> Obj:
    size: Obj = {"memory": {"value": dice.pick(("2Gi", "4Gi", "8Gi", "16Gi"))}}
    if dice.chance(0.6):
        size["slots"] = {"value": str(dice.number(1, 3))}
    return size


def _take_shares(world: World, share: float) -> None:
    """Claims that have devices, or shares of them."""
    dice = world.dice
    for part in world.extra.get("resourceSlices", []):
        spec = part["spec"]
        for device in spec.get("devices", ()):
            for number in range(dice.number(1, 2) if device.get("allowMultipleAllocations") else 1):
                if not dice.chance(share):
                    continue
                name = world.fresh_name("taken")
                claim = _claim(world, "default", name)
                result: Obj = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"]}
                result["device"] = device["name"]
                if device.get("allowMultipleAllocations"):
                    result["shareID"] = f"00000000-0000-4000-8000-{number:03d}{name[-4:]:0>9}"
                    names = sorted(device.get("capacity", {}))
                    amounts = {name: dice.pick(SIZES) if name == "memory" else "1" for name in names}
                    if amounts and dice.chance(0.85):
                        result["consumedCapacity"] = amounts
                claim["spec"]["devices"]["requests"] = [{"name": "r", "exactly": _exact("gpu")}]
                claim["status"]["allocation"] = {"devices": {"results": [result]}}


def _allocated(dice: Dice, claim: Obj, number: int) -> None:
    """Devices from anywhere that are ready, are not, or have failed; since when is not told."""
    results, statuses = [], []
    for place in range(dice.number(1, 2)):
        device = {"driver": DRIVER, "pool": "far", "device": f"far-{number}-{place}"}
        result: Obj = {"request": "r0", **device}
        if dice.chance(0.8):
            result |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        results.append(result)
        if dice.chance(0.8):
            told = [("ready", dice.chance(0.7)), ("failed", dice.chance(0.2))]
            stamp = {"reason": "x", "message": "x", "lastTransitionTime": "2026-01-17T00:00:00Z"}
            conditions = [{"type": name, "status": "True" if on else "False", **stamp} for name, on in told]
            statuses.append({**device, "conditions": conditions[: dice.number(0, 2)]})
    claim["status"] |= {"allocation": {"devices": {"results": results}}, "devices": statuses}


def _few(dice: Dice) -> Obj:
    return {"exactly": _exact(dice.weighted({"gpu": 5, "fast-gpu": 1}), dice.weighted({1: 5, 2: 3, 3: 1}))}


def _partition(dice: Dice) -> Obj:
    request = _exact(dice.weighted({"gpu": 5, "fast-gpu": 1}), dice.weighted({1: 4, 2: 3, 3: 1}))
    if dice.chance(0.12):
        request["allocationMode"] = "All"
        del request["count"]
    if dice.chance(0.1):
        request["adminAccess"] = True
    return {"exactly": request}


def _sharing(dice: Dice) -> Obj:
    request = _exact(dice.weighted({"gpu": 5, "fast-gpu": 1}), dice.weighted({1: 5, 2: 2}))
    if dice.chance(0.7):
        amounts = {"memory": dice.pick((*SIZES, "1536Mi", "500Mi"))}
        if dice.chance(0.2):
            amounts["lanes"] = dice.pick(("1", "1500m", "2", "3"))
        request["capacity"] = {"requests": amounts}
    if dice.chance(0.1):
        request["selectors"] = [{"cel": {"expression": "device.allowMultipleAllocations"}}]
    return {"exactly": request}


def _sharing_otherwise(dice: Dice) -> Obj:
    if dice.chance(0.4):
        made = [{"name": f"s{n}", **_sharing(dice)["exactly"]} for n in range(dice.number(2, 3))]
        return {"firstAvailable": made}
    request = _sharing(dice)["exactly"]
    if dice.chance(0.5):
        request["allocationMode"] = "All"
        del request["count"]
    if dice.chance(0.15):
        request["adminAccess"] = True
    return {"exactly": request}
