"""Features of preemption itself: budgets, nominations, terminating pods, start times and priorities."""

from .dice import Obj, timestamp
from .topology import selector
from .world import NAMESPACES, NOW, PRIORITIES, World, new_pod


def pdbs(world: World) -> None:
    """PodDisruptionBudgets, some empty, some with pods that are being disrupted already."""
    for _ in range(world.dice.number(1, 6)):
        _budget(world, world.dice.weighted({"default": 3, "prod": 2, "dev": 1}), selector(world.dice))


def overlapping_budgets(world: World) -> None:
    """Several budgets for the same pods."""
    for pod in world.bound():
        pod["metadata"]["namespace"] = "prod" if world.dice.chance(0.9) else "dev"
        pod["metadata"]["labels"]["team"] = world.dice.pick(("a", "b"))
    for team in ("a", "b", "a", "b")[: world.dice.number(2, 4)]:
        _budget(world, "prod", {"matchLabels": {"team": team}})
    for _ in range(world.dice.number(1, 3)):
        _budget(world, "prod", selector(world.dice))


def _budget(world: World, namespace: str, labels: Obj) -> None:
    dice = world.dice
    allowed = dice.weighted({0: 4, 1: 3, 2: 2, 5: 1})
    status: Obj = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 3,
        "desiredHealthy": 3 - min(3, allowed),
        "expectedPods": 3,
    }
    if dice.chance(0.25):
        mine = [p["metadata"]["name"] for p in world.pods if p["metadata"]["namespace"] == namespace]
        status["disruptedPods"] = {pod: timestamp(NOW + 7000) for pod in dice.some(mine, 0, 2)}
    spec: Obj = {"maxUnavailable": allowed}
    if dice.chance(0.95):
        spec["selector"] = labels
    metadata = {"name": world.fresh_name("pdb"), "namespace": namespace}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    world.add("pdbs", budget)


def nominated(world: World) -> None:
    """Pods that wait for the node they were nominated to; some are more important than the incoming one."""
    dice, own = world.dice, world.pod["spec"]["priority"]
    for _ in range(dice.number(1, 4)):
        pod = new_pod(world, dice.number(1, 80) * 10, dice.number(8, 800))
        pod["metadata"]["name"] = pod["metadata"]["name"].replace("p", "nom")
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
        pod["spec"]["priority"] = dice.pick((own, own, min(own + 1000, 1_000_000_000), own - 1))
        pod["status"] = {"phase": "Pending", "nominatedNodeName": dice.pick(world.nodes)["metadata"]["name"]}
        world.pods.append(pod)


def terminating(world: World) -> None:
    """Pods that are going away, some preempted; the incoming pod may be nominated to their node already."""
    dice = world.dice
    for pod in world.bound():
        if dice.chance(0.25):
            pod["metadata"]["deletionTimestamp"] = timestamp(NOW + 7230)
            pod["metadata"]["deletionGracePeriodSeconds"] = 30
            if dice.chance(0.6):
                reason = dice.pick(("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"))
                condition = {
                    "type": "DisruptionTarget",
                    "status": dice.weighted({"True": 6, "False": 1}),
                    "reason": reason,
                }
                pod["status"].setdefault("conditions", []).append(condition)
    if dice.chance(0.6):
        world.pod["status"]["nominatedNodeName"] = dice.pick([*(n["metadata"]["name"] for n in world.nodes), "gone"])


def never(world: World) -> None:
    world.pod["spec"]["preemptionPolicy"] = "Never"


def negative(world: World) -> None:
    """Priorities around and below zero."""
    for pod in world.bound():
        pod["spec"]["priority"] = world.dice.pick((-2_000_000_000, -1000, -10, -1, 0))
    world.pod["spec"]["priority"] = world.dice.pick((-10, -1, 0, 0, 5))


def extreme(world: World) -> None:
    """Priorities at the ends of what 32 bits hold: system pods and the least important ones."""
    for pod in world.bound():
        pod["spec"]["priority"] = world.dice.pick((-2_147_483_648, 0, 1_000_000_000, 2_000_000_000, 2_000_001_000))
    world.pod["spec"]["priority"] = world.dice.pick((0, 1_000_000_000, 2_000_000_000, 2_000_001_000))


def flat(world: World) -> None:
    """Few different priorities, so that sums, counts and start times decide."""
    ladder = world.dice.some(PRIORITIES[2:7], 1, 2)
    for pod in world.bound():
        pod["spec"]["priority"] = world.dice.pick(ladder)
    world.pod["spec"]["priority"] = 1_000_000


def ties(world: World) -> None:
    """Pods of equal priority that started in the same second; on a node they are alike, so their order is not seen."""
    moments = [timestamp(world.moment()) for _ in range(world.dice.number(1, 2))]
    flat(world)
    models: dict[tuple[str, int, str], Obj] = {}
    for pod in world.bound():
        if world.dice.chance(0.8):
            pod["status"]["startTime"] = world.dice.pick(moments)
        place = (pod["spec"]["nodeName"], pod["spec"]["priority"], pod["status"]["startTime"])
        _imitate(pod, models.setdefault(place, pod))


def _imitate(pod: Obj, model: Obj) -> None:
    pod["spec"]["containers"][0]["resources"] = model["spec"]["containers"][0]["resources"]
    pod["metadata"]["namespace"] = model["metadata"]["namespace"]
    pod["metadata"]["labels"] = model["metadata"]["labels"]


def undisrupted(world: World) -> None:
    """Budgets that name no pod: pods that are alike would differ by it."""
    for budget in world.extra.get("pdbs", []):
        budget["status"].pop("disruptedPods", None)


def twins(world: World) -> None:
    """Nodes with the same pods: every criterion but the last leaves them equal."""
    flat(world)
    model = world.nodes[0]
    for node in world.nodes[1:]:
        node["status"]["allocatable"] = dict(model["status"]["allocatable"])
        node["status"]["capacity"] = dict(model["status"]["capacity"])
    by_node = [world.on(node) for node in world.nodes]
    for pods in by_node[1:]:
        for pod, twin in zip(pods, by_node[0], strict=False):
            pod["spec"]["containers"][0]["resources"] = twin["spec"]["containers"][0]["resources"]
            pod["spec"]["priority"] = twin["spec"]["priority"]
            pod["status"]["startTime"] = twin["status"]["startTime"]


def without_start(world: World) -> None:
    """Pods whose kubelet has not reported yet; at most one of a priority and node, or their order would be open."""
    seen = set()
    for pod in world.bound():
        place = (pod["spec"]["nodeName"], pod["spec"]["priority"])
        if place not in seen and world.dice.chance(0.35):
            seen.add(place)
            del pod["status"]["startTime"]
            pod["status"]["phase"] = "Pending"


def mirror_pods(world: World) -> None:
    """Static and DaemonSet pods, which are victims like the others, and pods of other schedulers."""
    for pod in world.bound():
        draw = world.dice.weighted({"static": 1, "daemon": 1, "other": 1, "plain": 5})
        if draw == "static":
            pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}
        elif draw == "daemon":
            reference = {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": "ds",
                "uid": "uid-ds",
                "controller": True,
            }
            pod["metadata"]["ownerReferences"] = [reference]
        elif draw == "other":
            pod["spec"]["schedulerName"] = "other-scheduler"


def strangers(world: World) -> None:
    """Bound pods that the scheduler does not see: finished ones, and those of a node that is gone."""
    for pod in world.bound():
        if world.dice.chance(0.12):
            pod["status"]["phase"] = world.dice.pick(("Succeeded", "Failed"))
        elif world.dice.chance(0.05):
            pod["spec"]["nodeName"] = "gone"


def same_names(world: World) -> None:
    """Pods of one name in several namespaces."""
    names: dict[str, int] = dict.fromkeys(NAMESPACES, 0)
    for pod in world.bound():
        namespace = pod["metadata"]["namespace"]
        names[namespace] += 1
        pod["metadata"]["name"] = f"same-{names[namespace]}"
