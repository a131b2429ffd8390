"""Random KubeSchedulerConfigurations: profiles by plugins, weights and arguments. Mistakes are in `mistakes.py`."""

from collections.abc import Callable

from .dice import Dice, Obj
from .resources import GPU
from .topology import KEYS
from .world import World

VERSION = "kubescheduler.config.k8s.io/v1"
NAMES = ("default-scheduler", "packed", "no-preemption", "batch")
AT: dict[str, tuple[str, ...]] = {
    "preEnqueue": ("SchedulingGates", "DefaultPreemption", "DynamicResources"),
    "preFilter": (
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    ),
    "filter": (
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    ),
    "postFilter": ("DefaultPreemption",),
    "preScore": (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
    ),
    "score": (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    ),
    "reserve": ("VolumeBinding", "DynamicResources"),
    "preBind": ("VolumeBinding", "DynamicResources"),
}
"""Extension point -> plugins that extend it in all four releases."""
EVERYWHERE = tuple(dict.fromkeys(name for names in AT.values() for name in names))
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, "pods", "hugepages-2Mi", "example.com/absent")


def configured(world: World) -> Obj:
    """Give the pods of a cluster a scheduler of one to four profiles, and the case its configuration."""
    dice = world.dice
    names = dice.some(NAMES, 1, dice.weighted({1: 4, 2: 3, 3: 2, 4: 1}))
    world.pod["spec"]["schedulerName"] = dice.pick(names)
    for pod in world.pods:
        if dice.chance(0.3) and pod["spec"]["schedulerName"] == "default-scheduler":
            pod["spec"]["schedulerName"] = dice.pick(NAMES)
    config: Obj = {"apiVersion": VERSION, "kind": "KubeSchedulerConfiguration"}
    config["profiles"] = [_profile(dice, name) for name in names]
    if dice.chance(0.2):
        config["percentageOfNodesToScore"] = dice.pick((0, 1, 50, 100))
    if dice.chance(0.1):
        config["podInitialBackoffSeconds"], config["podMaxBackoffSeconds"] = 2, dice.pick((2, 60))
    if dice.chance(0.1):
        config["leaderElection"] = {"leaderElect": dice.chance(0.5), "leaseDuration": "30s"}
    if dice.chance(0.05):
        resource = {"name": GPU, "ignoredByScheduler": dice.chance(0.7)}
        config["extenders"] = [{"urlPrefix": "http://127.0.0.1:9/", "managedResources": [resource]}]
    return config


def _profile(dice: Dice, name: str) -> Obj:
    profile: Obj = {"schedulerName": name}
    if dice.chance(0.7):
        profile["plugins"] = _plugins(dice)
    if dice.chance(0.75):
        profile["pluginConfig"] = _plugin_config(dice)
    if dice.chance(0.1):
        profile["percentageOfNodesToScore"] = dice.pick((0, 30, 100))
    return profile


def _plugins(dice: Dice) -> Obj:
    """What is said of the plugins of some extension points."""
    plugins: Obj = {}
    for _ in range(dice.weighted({1: 5, 2: 4, 3: 2})):
        way = dice.weighted({_scores: 6, _filters: 4, _without_preemption: 3, _multi_point: 5, _point: 2})
        plugins |= way(dice)
    return plugins


def _weight(dice: Dice) -> int:
    return dice.weighted({1: 3, 2: 3, 3: 3, 5: 2, 10: 2, 50: 1, 100: 1, 0: 1, -1: 1, 2_000_000_000: 1})


def _named(dice: Dice, names: list[str], *, weighed: bool) -> list[Obj]:
    found = []
    for name in names:
        plugin: Obj = {"name": name}
        if weighed and dice.chance(0.85):
            plugin["weight"] = _weight(dice)
        found.append(plugin)
    return found


def _scores(dice: Dice) -> Obj:
    """Other scores. Where only some of them are left, PreScore may go with them, or stay as it is."""
    names = dice.some(AT["score"], 0, 5)
    if dice.chance(0.45):
        point = {"disabled": [{"name": "*"}], "enabled": _named(dice, names, weighed=True)}
        if dice.chance(0.4):
            before = [name for name in names if name in AT["preScore"]]
            enabled = _named(dice, before, weighed=False)
            return {"score": point, "preScore": {"disabled": [{"name": "*"}], "enabled": enabled}}
        return {"score": point}
    anew = dice.some(names, 0, len(names))
    point = {"disabled": [{"name": name} for name in dice.some(AT["score"], 0, 3)]}
    return {"score": point | {"enabled": _named(dice, anew, weighed=True)}}


def _filters(dice: Dice) -> Obj:
    """Other filters, or the same in another order: the first that rejects a node is the one that is named."""
    names = dice.some(AT["filter"], 1, 7)
    if dice.chance(0.4):
        point = {"disabled": [{"name": "*"}], "enabled": _named(dice, names, weighed=False)}
        if dice.chance(0.5):
            before = dice.shuffled([name for name in names if name in AT["preFilter"]])
            return {
                "filter": point,
                "preFilter": {"disabled": [{"name": "*"}], "enabled": _named(dice, before, weighed=False)},
            }
        return {"filter": point}
    if dice.chance(0.5):
        return {"filter": {"enabled": _named(dice, names, weighed=False)}}
    gone = dice.some(AT["filter"], 1, 4)
    point = {"disabled": [{"name": name} for name in gone]}
    if dice.chance(0.5):
        return {
            "filter": point,
            "preFilter": {"disabled": [{"name": name} for name in gone if name in AT["preFilter"]]},
        }
    return {"filter": point}


def _without_preemption(dice: Dice) -> Obj:
    return {
        dice.pick(("postFilter", "postFilter", "preEnqueue")): {
            "disabled": [{"name": dice.pick(("*", "DefaultPreemption"))}]
        }
    }


def _multi_point(dice: Dice) -> Obj:
    """Weights, an order or a choice of plugins for all extension points together."""
    names = dice.some(EVERYWHERE, 1, 6)
    way = dice.weighted({"weigh": 4, "drop": 4, "choose": 3, "both": 2})
    if way == "weigh":
        return {"multiPoint": {"enabled": _named(dice, names, weighed=True)}}
    gone = [{"name": name} for name in dice.some(EVERYWHERE, 1, 3)]
    if way == "drop":
        return {"multiPoint": {"disabled": gone}}
    if way == "both":
        return {"multiPoint": {"disabled": gone, "enabled": _named(dice, names, weighed=True)}}
    needed = ["PrioritySort", "DefaultBinder", *dice.some(("NodeResourcesFit", "DefaultPreemption"), 1, 2)]
    chosen = dice.shuffled([*dict.fromkeys((*needed, *names))])
    return {"multiPoint": {"disabled": [{"name": "*"}], "enabled": _named(dice, chosen, weighed=True)}}


def _point(dice: Dice) -> Obj:
    """Something of any extension point that leaves the scheduler able to start."""
    point = dice.pick(tuple(AT))
    if dice.chance(0.5):
        return {point: {"disabled": [{"name": name} for name in dice.some(AT[point], 1, 2)]}}
    return {point: {"enabled": _named(dice, dice.some(AT[point], 1, 2), weighed=point == "score")}}


def _plugin_config(dice: Dice) -> list[Obj]:
    found = []
    for name in dice.some(tuple(ARGUMENTS), 1, 5):
        plugin: Obj = {"name": name, "args": ARGUMENTS[name](dice)}
        if dice.chance(0.5):
            plugin["args"] = {"apiVersion": VERSION, "kind": f"{name}Args", **plugin["args"]}
        elif dice.chance(0.05):
            del plugin["args"]
        found.append(plugin)
    return found


def _weighed_resources(dice: Dice, weights: tuple[int, ...] = (1, 1, 2, 3, 5, 100)) -> list[Obj]:
    names = dice.some(RESOURCES, 1, 4)
    return [{"name": name, "weight": dice.pick(weights)} if dice.chance(0.9) else {"name": name} for name in names]


def _shape(dice: Dice) -> list[Obj]:
    at = sorted(dice.some(range(101), 1, 5))
    return [{"utilization": utilization, "score": dice.number(0, 10)} for utilization in at]


def _resources_fit(dice: Dice) -> Obj:
    args: Obj = {}
    if dice.chance(0.85):
        kind = dice.pick(("LeastAllocated", "MostAllocated", "MostAllocated", "RequestedToCapacityRatio"))
        strategy: Obj = {"type": kind}
        if dice.chance(0.65):
            strategy["resources"] = _weighed_resources(dice)
        if kind == "RequestedToCapacityRatio":
            strategy["requestedToCapacityRatio"] = {"shape": _shape(dice)}
        args["scoringStrategy"] = strategy
    if dice.chance(0.25):
        args["ignoredResources"] = dice.some((GPU, "example.com/absent", "example.com/fpga"), 1, 2)
    if dice.chance(0.15):
        args["ignoredResourceGroups"] = dice.some(("example.com", "vendor.example"), 1, 2)
    return args


def _balanced(dice: Dice) -> Obj:
    return {"resources": _weighed_resources(dice, (1,))}


def _inter_pod_affinity(dice: Dice) -> Obj:
    args: Obj = {}
    if dice.chance(0.8):
        args["hardPodAffinityWeight"] = dice.pick((0, 1, 5, 50, 100))
    if dice.chance(0.5):
        args["ignorePreferredTermsOfExistingPods"] = dice.chance(0.7)
    return args


def _topology_spread(dice: Dice) -> Obj:
    if dice.chance(0.2):
        return dice.pick(({"defaultingType": "System"}, {}, {"defaultingType": "List"}))
    made: dict[tuple[str, str], Obj] = {}
    for _ in range(dice.number(0, 3)):
        constraint: Obj = {"maxSkew": dice.number(1, 3), "topologyKey": dice.pick(KEYS)}
        constraint["whenUnsatisfiable"] = dice.pick(("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"))
        if dice.chance(0.1):
            constraint["nodeTaintsPolicy"] = dice.pick(("Honor", "Ignore"))
        if dice.chance(0.1):
            constraint["nodeAffinityPolicy"] = dice.pick(("Honor", "Ignore"))
        if dice.chance(0.1) and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = dice.number(1, 4)
        made[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    return {"defaultingType": "List", "defaultConstraints": list(made.values())}


def _term(dice: Dice) -> Obj:
    if dice.chance(0.1):
        name = {"key": "metadata.name", "operator": dice.pick(("In", "NotIn")), "values": ["n1"]}
        return {"matchFields": [name]}
    expression = dice.pick(
        (
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": "disk", "operator": "In", "values": ["ssd", "hdd"]},
            {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
            {"key": "disk", "operator": "Exists"},
            {"key": "gen", "operator": "Gt", "values": ["1"]},
            {"key": "gen", "operator": "Lt", "values": ["3"]},
            {"key": "gen", "operator": "DoesNotExist"},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]},
        )
    )
    return {"matchExpressions": [expression]}


def _node_affinity(dice: Dice) -> Obj:
    added: Obj = {}
    if dice.chance(0.5):
        terms = [_term(dice) for _ in range(dice.number(1, 2))]
        added["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.chance(0.6):
        weighed = [{"weight": dice.pick((1, 30, 100)), "preference": _term(dice)} for _ in range(dice.number(1, 3))]
        added["preferredDuringSchedulingIgnoredDuringExecution"] = weighed
    return {"addedAffinity": added} if added or dice.chance(0.5) else {}


def _default_preemption(dice: Dice) -> Obj:
    args: Obj = {}
    if dice.chance(0.7):
        args["minCandidateNodesPercentage"] = dice.pick((0, 1, 10, 50, 100))
    if dice.chance(0.7):
        args["minCandidateNodesAbsolute"] = dice.pick((1, 2, 3, 100))
    return args


def _volume_binding(dice: Dice) -> Obj:
    return {"bindTimeoutSeconds": dice.pick((0, 10, 600))} if dice.chance(0.8) else {}


def _dynamic_resources(dice: Dice) -> Obj:
    return {"filterTimeout": dice.pick(("0s", "10s", "1m30s"))} if dice.chance(0.8) else {}


ARGUMENTS: dict[str, Callable[[Dice], Obj]] = {
    "NodeResourcesFit": _resources_fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _topology_spread,
    "NodeAffinity": _node_affinity,
    "DefaultPreemption": _default_preemption,
    "VolumeBinding": _volume_binding,
    "DynamicResources": _dynamic_resources,
}
"""Plugin -> what makes arguments for it."""
