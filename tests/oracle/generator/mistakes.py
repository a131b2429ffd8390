"""Mistakes in a KubeSchedulerConfiguration. kube-scheduler refuses most of them; some it takes."""

from typing import Any

from .configuration import VERSION
from .dice import Dice, Obj


def spoil(dice: Dice, config: Obj) -> None:
    """Put one mistake into a configuration."""
    way = dice.pick((_top_level, _profiles, _plugins, _arguments, _arguments, _arguments))
    way(dice, config)


def _top_level(dice: Dice, config: Obj) -> None:
    config |= dice.pick(
        (
            {"percentageOfNodesToScore": dice.pick((-1, 101, 1.5, "10"))},
            {"parallelism": dice.pick((0, -3, "4"))},
            {"podInitialBackoffSeconds": dice.pick((0, -1, 20))},
            {"podMaxBackoffSeconds": 0},
            {"apiVersion": dice.pick(("v1", "kubescheduler.config.k8s.io/v1beta3", ""))},
            {"kind": dice.pick(("KubeSchedulerConfig", "", "Pod"))},
            {"algorithmSource": {}},
            {"profiles": dice.pick((None, [], [None], {}))},
            {
                "leaderElection": dice.pick(
                    ({"leaseDuration": "5s"}, {"retryPeriod": "-1s"}, {"resourceLock": "endpoints"})
                )
            },
            {"clientConnection": {"burst": -1}},
            {"extenders": dice.pick(_EXTENDERS)},
        )
    )


_URL = {"urlPrefix": "http://127.0.0.1:9/"}
_EXTENDERS: tuple[list[Obj], ...] = (
    [{**_URL, "bindVerb": "bind"}, {**_URL, "bindVerb": "bind"}],
    [{**_URL, "prioritizeVerb": "prioritize"}],
    [{**_URL, "managedResources": [{"name": "cpu"}]}],
    [{**_URL, "managedResources": [{"name": "example.com/a"}, {"name": "example.com/a"}]}],
    [{**_URL, "httpTimeout": "soon"}],
    [{**_URL, "weight": "1"}],
)


def _profiles(dice: Dice, config: Obj) -> None:
    profiles = config["profiles"]
    way = dice.pick(("twice", "nameless", "field", "percentage", "sort", "sorts", "config twice", "gone", "binder"))
    profile = dice.pick(profiles)
    plugins = profile.setdefault("plugins", {})
    if way == "twice":
        profiles.append({"schedulerName": profiles[0]["schedulerName"]})
    elif way == "nameless":
        profiles.append({"schedulerName": ""})
    elif way == "field":
        profile["disablePreemption"] = True
    elif way == "percentage":
        profile["percentageOfNodesToScore"] = dice.pick((-1, 101))
    elif way == "sort":
        plugins["queueSort"] = {"disabled": [{"name": "*"}]}
    elif way == "sorts":
        plugins["queueSort"] = {
            "enabled": [{"name": "PrioritySort"}, {"name": dice.pick(("PrioritySort", "NodeName"))}]
        }
    elif way == "config twice":
        profile["pluginConfig"] = [{"name": "InterPodAffinity"}, {"name": "InterPodAffinity"}]
    elif way == "gone":
        profile["pluginConfig"] = [
            {"name": dice.pick(("EBSLimits", "NodeResourcesFitArgs", "NoSuchPlugin")), "args": {}}
        ]
    else:
        plugins["bind"] = {"disabled": [{"name": dice.pick(("*", "DefaultBinder"))}]}


def _plugins(dice: Dice, config: Obj) -> None:
    plugins = dice.pick(config["profiles"]).setdefault("plugins", {})
    point = dice.pick(
        ("preFilter", "filter", "preScore", "score", "reserve", "postFilter", "multiPoint", "bind", "permit")
    )
    entry = dice.pick(
        (
            {"name": "NoSuchPlugin"},
            {"name": "NodeName"},
            {"name": "PrioritySort"},
            {"name": "EBSLimits"},
            {"name": ""},
            {"name": "*"},
            {"name": "NodeResourcesFit", "weight": 1.5},
            {"name": "NodeResourcesFit", "weight": "1"},
            {"name": "NodeResourcesFit", "wieght": 1},
            {"name": "NodeResourcesFit", "weight": 3_000_000_000},
            None,
        )
    )
    where = plugins.setdefault(point, {}).setdefault("enabled", [])
    where.append(entry)
    if dice.chance(0.25):
        where.append(entry)


def _arguments(dice: Dice, config: Obj) -> None:
    name = dice.pick(tuple(_ARGUMENTS))
    args: Any = dice.pick(_ARGUMENTS[name])
    if dice.chance(0.15):
        args = dice.pick(_ODD)
    if isinstance(args, dict) and dice.chance(0.5):
        args = {"apiVersion": VERSION, "kind": f"{name}Args", **args}
    dice.pick(config["profiles"])["pluginConfig"] = [{"name": name, "args": args}]


def _strategy(kind: str, **more: object) -> Obj:
    return {"scoringStrategy": {"type": kind, **more}}


def _ratio(*points: tuple[int, int]) -> Obj:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return _strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def _constraint(**changes: object) -> Obj:
    plain = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    return {"defaultingType": "List", "defaultConstraints": [{**plain, **changes}]}


def _added(**expression: object) -> Obj:
    terms = [{"matchExpressions": [expression]}]
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _preferred(weight: int, **preference: object) -> Obj:
    terms = [{"weight": weight, "preference": preference}]
    return {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


_ODD: tuple[Any, ...] = ({"kind": "NodeAffinityArg"}, {"apiVersion": "v1"}, {"unknownField": 1}, [], "text", 5)
_ARGUMENTS: dict[str, tuple[Obj, ...]] = {
    "NodeResourcesFit": (
        _strategy("Best"),
        _strategy(""),
        _strategy("RequestedToCapacityRatio"),
        _strategy("RequestedToCapacityRatio", requestedToCapacityRatio={}),
        _strategy("MostAllocated", requestedToCapacityRatio={"shape": []}),
        _strategy("MostAllocated", resources=[{"name": "cpu", "weight": 0}]),
        _strategy("MostAllocated", resources=[{"name": "cpu", "weight": 101}]),
        _strategy("MostAllocated", resources=[{"name": "cpu", "weight": -1}]),
        _strategy("LeastAllocated", resources=[{"name": "cpu", "weight": 1}, {"name": "cpu", "weight": 2}]),
        _strategy("LeastAllocated", resources=[{"name": "", "weight": 1}]),
        _strategy("LeastAllocated", resources=[{"name": "not a name", "weight": 1}]),
        _ratio((50, 1), (40, 2)),
        _ratio((50, 1), (50, 2)),
        _ratio((-1, 1)),
        _ratio((101, 1)),
        _ratio((50, 11)),
        _ratio((50, -1)),
        {"ignoredResources": ["not a name"]},
        {"ignoredResources": [""]},
        {"ignoredResourceGroups": ["example.com/gpu"]},
        {"ignoredResourceGroups": ["-"]},
        {"scoringStrategy": None},
        {"scoringStrategy": {}},
    ),
    "NodeResourcesBalancedAllocation": (
        {"resources": [{"name": "cpu", "weight": 2}]},
        {"resources": [{"name": "cpu", "weight": 1}, {"name": "cpu", "weight": 1}]},
        {"resources": [{"name": "cpu", "weight": 0}]},
        {"resources": [{"name": "", "weight": 1}]},
        {"resources": []},
        {"resources": None},
    ),
    "InterPodAffinity": (
        {"hardPodAffinityWeight": 101},
        {"hardPodAffinityWeight": -1},
        {"hardPodAffinityWeight": "1"},
        {"ignorePreferredTermsOfExistingPods": "yes"},
        {"hardPodAffinityWeight": None},
    ),
    "PodTopologySpread": (
        {**_constraint(), "defaultingType": "System"},
        {**_constraint(), "defaultingType": ""},
        {"defaultConstraints": _constraint()["defaultConstraints"]},
        {"defaultingType": "Nothing"},
        _constraint(maxSkew=0),
        _constraint(topologyKey=""),
        _constraint(topologyKey="not a key"),
        _constraint(whenUnsatisfiable=""),
        _constraint(whenUnsatisfiable="Never"),
        _constraint(labelSelector={"matchLabels": {"app": "web"}}),
        _constraint(labelSelector={}),
        _constraint(minDomains=0),
        _constraint(minDomains=2),
        _constraint(nodeTaintsPolicy="Sometimes"),
        _constraint(matchLabelKeys=["app"]),
        {"defaultingType": "List", "defaultConstraints": _constraint()["defaultConstraints"] * 2},
    ),
    "NodeAffinity": (
        _added(key="disk", operator="Is", values=["ssd"]),
        _added(key="disk", operator="In", values=[]),
        _added(key="disk", operator="Exists", values=["ssd"]),
        _added(key="not a key", operator="Exists"),
        _added(key="", operator="Exists"),
        _added(key="gen", operator="Gt", values=["many"]),
        _added(key="gen", operator="Gt", values=["1", "2"]),
        _added(key="disk", operator="In", values=["not a value"]),
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        {"addedAffinity": {}},
        {"addedAffinity": None},
        _preferred(0, matchExpressions=[{"key": "disk", "operator": "Exists"}]),
        _preferred(101, matchExpressions=[{"key": "disk", "operator": "Exists"}]),
        _preferred(1, matchExpressions=[{"key": "disk", "operator": "Is"}]),
        _preferred(0, matchExpressions=[{"key": "disk", "operator": "Is"}]),
        _preferred(1),
        _preferred(1, matchFields=[{"key": "metadata.namespace", "operator": "In", "values": ["n1"]}]),
        _preferred(1, matchFields=[{"key": "metadata.name", "operator": "Exists"}]),
    ),
    "DefaultPreemption": (
        {"minCandidateNodesPercentage": 101},
        {"minCandidateNodesPercentage": -1},
        {"minCandidateNodesAbsolute": -1},
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        {"minCandidateNodesPercentage": 0},
        {"minCandidateNodesAbsolute": 0},
    ),
    "VolumeBinding": (
        {"bindTimeoutSeconds": -1},
        {"bindTimeoutSeconds": "10s"},
        {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        {"shape": [{"utilization": 0, "score": 11}]},
        {"shape": []},
        {"shape": None},
    ),
    "DynamicResources": (
        {"filterTimeout": "-1s"},
        {"filterTimeout": "soon"},
        {"filterTimeout": 5},
        {"bindingTimeout": "5s"},
        {"bindingTimeout": "500ms"},
    ),
}
"""Plugin -> arguments, most of which kube-scheduler refuses."""
