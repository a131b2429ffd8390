"""The schema of a KubeSchedulerConfiguration and of plugin arguments: every field with its type.

Source: kube-scheduler `config/v1/types.go`, `config/v1/types_pluginargs.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut
from forewarn.policies.kube_apiserver.validation.decode import ListOf, MapOf, Plain, Struct, Type, decode_fault
from forewarn.policies.kube_apiserver.validation.field_errors import FieldError
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import json_type

if TYPE_CHECKING:
    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics


API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
REMOVED_FIELDS: Final = {
    "disablePreemption": "disable DefaultPreemption at profiles[].plugins.postFilter",
    "algorithmSource": "use profiles[].plugins",
}
"""Fields of versions before v1beta1 -> what to do instead."""

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


_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d{1,19}\.?\d{0,19}|\.\d{1,19})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST: Final = 128


def seconds(text: str) -> float | None:
    """Return a duration in seconds; None for invalid text. Source: Go's `time.ParseDuration`."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    if not rest or len(rest) > _LONGEST or _PART.sub("", rest):
        return None
    return sign * sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(rest))


ALL = "*"


class EnabledPlugin(NamedTuple):
    """A plugin at an extension point. `weight` 0: not set."""

    name: str
    weight: int = 0


class PluginSet(NamedTuple):
    """The enabled and disabled plugins of an extension point."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


def default_plugins(semantics: Semantics) -> tuple[EnabledPlugin, ...]:
    """Return the default plugins of a release, all at multiPoint. Source: upstream `getDefaultPlugins`."""
    unschedulable, name = EnabledPlugin("NodeUnschedulable"), EnabledPlugin("NodeName")
    plugins = [
        EnabledPlugin("SchedulingGates"),
        EnabledPlugin("PrioritySort"),
        *((name, unschedulable) if semantics.node_names_are_checked_first else (unschedulable, name)),
        EnabledPlugin("TaintToleration", 3),
        EnabledPlugin("NodeAffinity", 2),
        EnabledPlugin("NodePorts"),
        EnabledPlugin("NodeResourcesFit", 1),
        EnabledPlugin("VolumeRestrictions"),
        EnabledPlugin("NodeVolumeLimits"),
        EnabledPlugin("VolumeBinding"),
        EnabledPlugin("VolumeZone"),
        EnabledPlugin("PodTopologySpread", 2),
        EnabledPlugin("InterPodAffinity", 2),
        *(
            [EnabledPlugin("DynamicResources", 2 if semantics.devices_are_scored else 0)]
            if semantics.devices_are_allocated
            else []
        ),
        EnabledPlugin("DefaultPreemption"),
        EnabledPlugin("NodeResourcesBalancedAllocation", 1),
        EnabledPlugin("ImageLocality", 1),
        EnabledPlugin("DefaultBinder"),
    ]
    if semantics.declared_features_are_checked:
        plugins.append(EnabledPlugin("NodeDeclaredFeatures"))
    if semantics.groups_are_preempted_together:  # without its gate, no Pod has a PodGroup, and it does nothing
        plugins.append(EnabledPlugin("GangScheduling"))
    return tuple(plugins)


def plugin_sets(given: Mapping[str, Any], semantics: Semantics) -> dict[str, PluginSet]:
    """Return extension point -> its configured plugins; multiPoint also has the default plugins. `given`: `plugins` of
    a profile. Source: upstream `mergePlugins`.
    """
    merged = {MULTI_POINT: _merged(default_plugins(semantics), _read(given.get(MULTI_POINT)))}
    return merged | {point: _merged((), _read(given.get(point))) for point in POINTS}


def _read(given: Mapping[str, Any] | None) -> PluginSet:
    given = given or {}
    enabled = tuple(
        EnabledPlugin((plugin or {}).get("name") or "", (plugin or {}).get("weight") or 0)
        for plugin in given.get("enabled") or ()
    )
    return PluginSet(enabled, tuple((plugin or {}).get("name") or "" for plugin in given.get("disabled") or ()))


def _merged(defaults: tuple[EnabledPlugin, ...], custom: PluginSet) -> PluginSet:
    """Return the defaults merged with configured plugins: a configured plugin replaces its default in place; other
    plugins follow.

    Source: upstream `mergePluginSet`.
    """
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled: list[EnabledPlugin] = []
    if ALL not in custom.disabled:
        for plugin in defaults:
            if plugin.name in custom.disabled:
                continue
            if plugin.name in last:
                replaced.add(last[plugin.name])
                enabled.append(custom.enabled[last[plugin.name]])
            else:
                enabled.append(plugin)
    enabled += [plugin for index, plugin in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(tuple(enabled), custom.disabled)


MAX_ENTRIES: Final = 256
"""Maximum entries of a list of objects: each profile, plugin, resource or term has a cost for each node."""
MAX_TEXTS: Final = 10_000
"""Maximum entries of a list of strings: values of a requirement, ignored resources."""
_NAMED: Final = 64
"""Maximum characters of a name in a message."""
_MAX_ERRORS: Final = 100
"""Maximum number of reported errors."""


def decoding_faults(config: Any) -> list[FieldError]:
    """Return the errors because of which kube-scheduler cannot decode a configuration."""
    if not isinstance(config, Mapping):
        return [FieldError((), f"a configuration is an object, not {json_type(config)}")]
    faults = _of_header(config, (), KIND, must_be_given=True) or _of_struct(config, CONFIGURATION, ())
    if faults:
        return faults
    for number, profile in enumerate(config.get("profiles") or ()):
        for place, plugin in enumerate((profile or {}).get("pluginConfig") or ()):
            path: Path = ("profiles", number, "pluginConfig", place, "args")
            faults += _of_arguments((plugin or {}).get("name") or "", (plugin or {}).get("args"), path)
    return faults


def _of_arguments(name: str, args: Any, path: Path) -> list[FieldError]:
    """Return the errors of a plugin's arguments. Arguments of an unknown plugin may have any form."""
    if args is None or name not in ARGUMENTS:
        return []
    if not isinstance(args, Mapping):
        return [FieldError(path, f"must be an object, not {json_type(args)}")]
    return _of_struct(args, ARGUMENTS[name], path) + _of_header(args, path, f"{name}Args")


def _of_struct(obj: ApiObject, struct: Struct, path: Path) -> list[FieldError]:
    wrong = decode_fault(obj, struct)
    if wrong is not None:
        return [FieldError((*path, *wrong.path), wrong.text)]
    return list(islice(_faults(obj, struct, path), _MAX_ERRORS))


def _faults(value: Any, kind: Type, path: Path) -> Iterator[FieldError]:
    """Yield an error for each unknown field and each list that is too long.

    `kind`: the type of `value` in the schema.
    """
    if isinstance(kind, ListOf):
        most = MAX_ENTRIES if isinstance(kind.item, Struct) else MAX_TEXTS
        if len(value or ()) > most:
            yield FieldError(path, f"{len(value)} entries: more than {most} are not read")
            return
        for index, item in enumerate(each(value or (), 1)):
            yield from _faults(item, kind.item, (*path, index))
    elif isinstance(kind, Struct):
        opaque = OPAQUE.get(kind.name, ())
        for key, entry in (value or {}).items():
            if key in kind.fields:
                yield from _faults(entry, kind.fields[key], (*path, key))
            elif key not in opaque:
                names = (*kind.fields, *opaque)
                yield FieldError((*path, key), f'unknown field "{cut(str(key), _NAMED)}"{_nearest(str(key), names)}')


def _nearest(key: str, names: tuple[str, ...]) -> str:
    if key in REMOVED_FIELDS:
        return f": {REMOVED_FIELDS[key]}"
    matches = get_close_matches(key[:_NAMED], names, 1)
    return f' (did you mean "{matches[0]}"?)' if matches else ""


def _of_header(obj: ApiObject, path: Path, kind: str, *, must_be_given: bool = False) -> list[FieldError]:
    """Return the errors of `apiVersion` and `kind`, which may be missing in plugin arguments."""
    faults = []
    for key, wanted in (("apiVersion", API_VERSION), ("kind", kind)):
        given = obj.get(key) or ""
        if (given or must_be_given) and given != wanted:
            suffix = f', not "{cut(str(given), _NAMED)}"' if given else ": it is missing"
            faults.append(FieldError((*path, key), f'must be "{wanted}"{suffix}'))
    return faults
