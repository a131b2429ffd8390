"""The schema of a KubeSchedulerConfiguration and of plugin arguments: every field with its type.

Source: kube-scheduler `config/v1/types.go`, `config/v1/types_pluginargs.go`.
"""

from __future__ import annotations

from typing import Final

from forewarn.policies.kube_apiserver.validation.decode import ListOf, MapOf, Plain, Struct, Type

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

STRING: Final = Plain("string", "string")
BOOL: Final = Plain("bool", "bool")
INT32: Final = Plain("number", "int32")
INT64: Final = Plain("number", "int64")
STRINGS: Final = ListOf(STRING, "[]string")
_HEADER: Final[dict[str, Type]] = {"apiVersion": STRING, "kind": STRING}


def _list(item: Struct) -> ListOf:
    return ListOf(item, f"[]{item.package}.{item.name}")


POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
"""The extension points of a Pod's scheduling and binding cycle, in the order of the cycle."""
GROUP_POINTS: Final = ("placementGenerate", "placementScore")
"""The extension points of a PodGroup's cycle, behind feature gates that are off."""
MULTI_POINT: Final = "multiPoint"

_PLUGIN: Final = Struct("Plugin", {"name": STRING, "weight": INT32})
_PLUGIN_SET: Final = Struct("PluginSet", {"enabled": _list(_PLUGIN), "disabled": _list(_PLUGIN)})
_PLUGINS: Final = Struct("Plugins", dict.fromkeys((MULTI_POINT, *POINTS, *GROUP_POINTS), _PLUGIN_SET))
_PLUGIN_CONFIG: Final = Struct("PluginConfig", {"name": STRING})
_PROFILE: Final = Struct(
    "KubeSchedulerProfile",
    {
        "schedulerName": STRING,
        "percentageOfNodesToScore": INT32,
        "plugins": _PLUGINS,
        "pluginConfig": _list(_PLUGIN_CONFIG),
    },
)
_TLS: Final = Struct(
    "ExtenderTLSConfig",
    {
        "insecure": BOOL,
        **dict.fromkeys(("serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"), STRING),
    },
)
_EXTENDER: Final = Struct(
    "Extender",
    {
        **dict.fromkeys(
            ("urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "bindVerb", "httpTimeout"), STRING
        ),
        **dict.fromkeys(("enableHTTPS", "nodeCacheCapable", "ignorable"), BOOL),
        "weight": INT64,
        "tlsConfig": _TLS,
        "managedResources": _list(
            Struct("ExtenderManagedResource", {"name": STRING, "ignoredByScheduler": BOOL}),
        ),
    },
)
_LEADER_ELECTION: Final = Struct(
    "LeaderElectionConfiguration",
    {
        "leaderElect": BOOL,
        **dict.fromkeys(
            ("leaseDuration", "renewDeadline", "retryPeriod", "resourceLock", "resourceName", "resourceNamespace"),
            STRING,
        ),
    },
    package="v1alpha1",
)
_CLIENT_CONNECTION: Final = Struct(
    "ClientConnectionConfiguration",
    {**dict.fromkeys(("kubeconfig", "acceptContentTypes", "contentType"), STRING), "burst": INT32},
    package="v1alpha1",
)
CONFIGURATION: Final = Struct(
    KIND,
    {
        **_HEADER,
        "parallelism": INT32,
        "leaderElection": _LEADER_ELECTION,
        "clientConnection": _CLIENT_CONNECTION,
        **dict.fromkeys(("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"), BOOL),
        "percentageOfNodesToScore": INT32,
        **dict.fromkeys(("podInitialBackoffSeconds", "podMaxBackoffSeconds"), INT64),
        "profiles": _list(_PROFILE),
        "extenders": _list(_EXTENDER),
    },
)

_RESOURCE: Final = Struct("ResourceSpec", {"name": STRING, "weight": INT64})
_SHAPE: Final = _list(Struct("UtilizationShapePoint", {"utilization": INT32, "score": INT32}))
_REQUIREMENTS: Final = _list(Struct("NodeSelectorRequirement", {"key": STRING, "operator": STRING, "values": STRINGS}))
_TERM: Final = Struct("NodeSelectorTerm", {"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS})
_NODE_AFFINITY: Final = Struct(
    "NodeAffinity",
    {
        "requiredDuringSchedulingIgnoredDuringExecution": Struct("NodeSelector", {"nodeSelectorTerms": _list(_TERM)}),
        "preferredDuringSchedulingIgnoredDuringExecution": _list(
            Struct("PreferredSchedulingTerm", {"weight": INT32, "preference": _TERM})
        ),
    },
)
_SELECTOR: Final = Struct(
    "LabelSelector",
    {
        "matchLabels": MapOf(STRING, "map[string]string"),
        "matchExpressions": _list(
            Struct("LabelSelectorRequirement", {"key": STRING, "operator": STRING, "values": STRINGS})
        ),
    },
)
_SPREAD: Final = Struct(
    "TopologySpreadConstraint",
    {
        **dict.fromkeys(("maxSkew", "minDomains"), INT32),
        **dict.fromkeys(("topologyKey", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"), STRING),
        "labelSelector": _SELECTOR,
        "matchLabelKeys": STRINGS,
    },
)
_STRATEGY: Final = Struct(
    "ScoringStrategy",
    {
        "type": STRING,
        "resources": _list(_RESOURCE),
        "requestedToCapacityRatio": Struct("RequestedToCapacityRatioParam", {"shape": _SHAPE}),
    },
)


def _args(plugin: str, fields: dict[str, Type]) -> Struct:
    return Struct(f"{plugin}Args", {**_HEADER, **fields})


ARGUMENTS: Final[dict[str, Struct]] = {
    "DefaultPreemption": _args(
        "DefaultPreemption", {"minCandidateNodesPercentage": INT32, "minCandidateNodesAbsolute": INT32}
    ),
    "DynamicResources": _args("DynamicResources", {"filterTimeout": STRING, "bindingTimeout": STRING}),
    "InterPodAffinity": _args(
        "InterPodAffinity", {"hardPodAffinityWeight": INT32, "ignorePreferredTermsOfExistingPods": BOOL}
    ),
    "NodeAffinity": _args("NodeAffinity", {"addedAffinity": _NODE_AFFINITY}),
    "NodeResourcesBalancedAllocation": _args("NodeResourcesBalancedAllocation", {"resources": _list(_RESOURCE)}),
    "NodeResourcesFit": _args(
        "NodeResourcesFit",
        {"ignoredResources": STRINGS, "ignoredResourceGroups": STRINGS, "scoringStrategy": _STRATEGY},
    ),
    "PodTopologySpread": _args("PodTopologySpread", {"defaultConstraints": _list(_SPREAD), "defaultingType": STRING}),
    "VolumeBinding": _args("VolumeBinding", {"bindTimeoutSeconds": INT64, "shape": _SHAPE}),
}
"""Plugin -> the type of its arguments."""
OPAQUE: Final = {"PluginConfig": ("args",), "ClientConnectionConfiguration": ("qps",)}
"""Struct -> fields whose type is not checked here."""
