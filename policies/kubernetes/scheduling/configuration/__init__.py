"""Read a KubeSchedulerConfiguration v1 as strictly as kube-scheduler does, and expand its profiles."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import Path, cut, nearest_word
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.durations import parse_duration
from forewarn.policies.kubernetes.kinds.registry import REMOVED_SCHEDULER_FIELDS
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import GoTypes, ListOf, Struct, Type, decode_fault
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    aggregate,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    qualified_name,
    required,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_extended
from forewarn.policies.kubernetes.objects.fields import PREFERRED, REQUIRED, ApiObject, InvalidObject, json_type
from forewarn.policies.kubernetes.objects.node import NodeAffinity
from forewarn.policies.kubernetes.objects.pod import read_topology_spread
from forewarn.policies.kubernetes.releases.semantics import (
    DEFAULT_BACKOFF,
    DEFAULT_SCHEDULER,
    Extender,
    Profile,
    SchedulerConfiguration,
)
from forewarn.policies.kubernetes.scheduling.arguments import (
    CPU_AND_MEMORY,
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MAX_CUSTOM_PRIORITY_SCORE,
    REQUESTED_TO_CAPACITY_RATIO,
    STRATEGIES,
    SYSTEM_DEFAULTING,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceWeight,
    ShapePoint,
    VolumeBindingArgs,
)
from forewarn.policies.kubernetes.scheduling.framework import MAX_NODE_SCORE, extends
from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.releases.semantics import Semantics

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

_TYPES: Final = GoTypes(os.path.dirname(__file__))
CONFIGURATION: Final = _TYPES.struct(KIND)
MULTI_POINT: Final = "multiPoint"
_OF_GROUPS: Final = ("placementGenerate", "placementScore")
"""The extension points of a PodGroup's cycle, behind feature gates that are off."""
POINTS: Final = tuple(point for point in _TYPES.struct("Plugins").fields if point not in (MULTI_POINT, *_OF_GROUPS))
"""The extension points of a Pod's scheduling and binding cycle, in the order of the cycle."""
OPAQUE: Final = {"PluginConfig": ("args",), "ClientConnectionConfiguration": ("qps",)}
"""Struct -> its fields whose types are not checked here."""

ALL = "*"
with open(os.path.join(os.path.dirname(__file__), "defaults.json"), encoding="utf-8") as _file:
    _DEFAULTS: Final = json.load(_file)
"""The default plugins, each with its weight (0: not set) and the properties of Semantics that it needs: of several
entries for a plugin, the first one that applies counts. GangScheduling does nothing without its gate. And the presets.
"""


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
    weights: dict[str, int] = {}
    for name, weight, *conditions in _DEFAULTS["plugins"]:
        if all(getattr(semantics, condition) for condition in conditions):
            weights.setdefault(name, weight)
    return tuple(EnabledPlugin(*item) for item in weights.items())


def plugin_sets(plugins: Mapping[str, Any], semantics: Semantics) -> dict[str, PluginSet]:
    """Return extension point -> its plugins; multiPoint also has the default plugins. Source: `mergePlugins`."""
    merged = {MULTI_POINT: _merge_plugins(default_plugins(semantics), _read(plugins.get(MULTI_POINT)))}
    return merged | {point: _merge_plugins((), _read(plugins.get(point))) for point in POINTS}


def _read(arguments: Mapping[str, Any] | None) -> PluginSet:
    enabled, disabled = (_named_entries((arguments or {}).get(key)) for key in ("enabled", "disabled"))
    plugins = tuple(EnabledPlugin(name, plugin.get("weight") or 0) for name, plugin in enabled)
    return PluginSet(plugins, tuple(name for name, _ in disabled))


def _named_entries(entries: Iterable[ApiObject | None] | None) -> Iterator[tuple[str, ApiObject]]:
    """Yield (name, entry) of the entries of a list, in which both may be null."""
    return ((entry.get("name") or "", entry) for entry in (entry or {} for entry in entries or ()))


def _merge_plugins(defaults: tuple[EnabledPlugin, ...], custom: PluginSet) -> PluginSet:
    """Return the defaults, replaced in place if configured, then other plugins. Source: upstream `mergePluginSet`."""
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
"""Maximum number of entries of a list of objects: each profile, plugin, resource or term has a cost for each node."""
MAX_TEXTS: Final = 10_000
"""Maximum number of entries of a list of strings: values of a requirement, ignored resources."""
_NAMED: Final = 64
"""Maximum characters of a name in a message."""
_MAX_ERRORS: Final = 100
"""Maximum number of reported errors."""


def decoding_faults(config: Any) -> list[FieldError]:
    """Return the errors that prevent kube-scheduler from decoding a configuration."""
    if not isinstance(config, Mapping):
        return [FieldError((), f"a configuration is an object, not {json_type(config)}")]
    faults = _header_errors(config, (), KIND, must_be_given=True) or _struct_errors(config, CONFIGURATION, ())
    if faults:
        return faults
    for number, profile in enumerate(config.get("profiles") or ()):
        for place, (name, plugin) in enumerate(_named_entries((profile or {}).get("pluginConfig"))):
            faults += _argument_errors(name, plugin.get("args"), ("profiles", number, "pluginConfig", place, "args"))
    return faults


def _argument_errors(name: str, args: Any, path: Path) -> list[FieldError]:
    """Return the errors of a plugin's arguments. Arguments of an unknown plugin may have any form."""
    if args is None or name not in READERS:
        return []
    if not isinstance(args, Mapping):
        return [FieldError(path, f"must be an object, not {json_type(args)}")]
    return _struct_errors(args, _TYPES.struct(f"{name}Args"), path) + _header_errors(args, path, f"{name}Args")


def _struct_errors(obj: ApiObject, struct: Struct, path: Path) -> list[FieldError]:
    wrong = decode_fault(obj, struct)
    if wrong is not None:
        return [FieldError((*path, *wrong.path), wrong.text)]
    return list(islice(_faults(obj, struct, path), _MAX_ERRORS))


def _faults(value: Any, kind: Type, path: Path) -> Iterator[FieldError]:
    """Yield an error for each unknown field and each too long list. `kind`: the type of `value` in the schema."""
    if isinstance(kind, ListOf):
        most = MAX_ENTRIES if isinstance(kind.item, Struct) else MAX_TEXTS
        if len(value or ()) > most:
            yield FieldError(path, f"{len(value)} entries: more than {most} are not read")
            return
        for index, item in enumerate(charging(value or (), 1)):
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
    if key in REMOVED_SCHEDULER_FIELDS:
        return f": {REMOVED_SCHEDULER_FIELDS[key]}"
    near = nearest_word(key, names)
    return f' (did you mean "{near}"?)' if near else ""


def _header_errors(obj: ApiObject, path: Path, kind: str, *, must_be_given: bool = False) -> list[FieldError]:
    """Return the errors of `apiVersion` and `kind`, which may be missing in plugin arguments."""
    faults = []
    for key, wanted in (("apiVersion", API_VERSION), ("kind", kind)):
        given = obj.get(key) or ""
        if (given or must_be_given) and given != wanted:
            suffix = f', not "{cut(str(given), _NAMED)}"' if given else ": it is missing"
            faults.append(FieldError((*path, key), f'must be "{wanted}"{suffix}'))
    return faults


_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_FULL: Final = 100


def default_preemption(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> DefaultPreemptionArgs:
    """Return the arguments of DefaultPreemption; add errors to `faults`. Upstream `ValidateDefaultPreemptionArgs`."""
    percentage = _valid_or_default(args.get("minCandidateNodesPercentage"), 10)
    absolute = _valid_or_default(args.get("minCandidateNodesAbsolute"), 100)
    of_percentage, of_absolute = (*path, "minCandidateNodesPercentage"), (*path, "minCandidateNodesAbsolute")
    faults += _percent_errors(of_percentage, percentage)
    if absolute < 0:
        faults.append(invalid(of_absolute, absolute, "not in valid range [0, inf)"))
    if percentage == 0 == absolute:
        also = "cannot be zero at the same time as"
        faults.append(invalid(of_percentage, percentage, f"{also} minCandidateNodesAbsolute"))
        faults.append(invalid(of_absolute, absolute, f"{also} minCandidateNodesPercentage"))
    return DefaultPreemptionArgs(percentage, absolute)


def inter_pod_affinity(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> InterPodAffinityArgs:
    """Return the arguments of InterPodAffinity; add errors to `faults`. Upstream `ValidateInterPodAffinityArgs`."""
    weight = _valid_or_default(args.get("hardPodAffinityWeight"), 1)
    faults += _percent_errors((*path, "hardPodAffinityWeight"), weight)
    return InterPodAffinityArgs(weight, bool(args.get("ignorePreferredTermsOfExistingPods")))


def node_affinity(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> NodeAffinityArgs:
    """Return the arguments of NodeAffinity; add errors of invalid terms to `faults`. Upstream
    `ValidateNodeAffinityArgs`.

    Empty terms and terms with weight 0 are ignored.
    """
    added = args.get("addedAffinity")
    if added is None:
        return NodeAffinityArgs()
    path = (*path, "addedAffinity")
    try:
        affinity = NodeAffinity.from_api({"spec": {"affinity": {"nodeAffinity": added}}})
    except InvalidObject as error:
        faults.append(FieldError(path, str(error)))
        return NodeAffinityArgs()
    required_terms = affinity.required.terms if affinity.required else ()
    terms = (*path, REQUIRED, "nodeSelectorTerms")
    faults += [FieldError((*terms, i), term.error) for i, term in enumerate(charging(required_terms, 1)) if term.error]
    faults += [
        FieldError((*path, PREFERRED), p.term.error) for p in charging(affinity.preferred or (), 1) if p.term.error
    ]
    return NodeAffinityArgs(affinity.required, affinity.preferred if added.get(PREFERRED) else None)


def balanced_allocation(
    args: ApiObject, path: Path, faults: list[FieldError], _: Semantics
) -> NodeResourcesBalancedAllocationArgs:
    """Read the arguments; add errors to `faults`. Upstream `ValidateNodeResourcesBalancedAllocationArgs`."""
    resources = _resources(args)
    seen: set[str] = set()
    for index, resource in enumerate(resources):
        place = (*path, "resources", index)
        if resource.name in seen:
            faults.append(duplicate((*place, "name"), resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            faults.append(invalid((*place, "weight"), resource.weight, "must be 1"))
    return NodeResourcesBalancedAllocationArgs(resources)


def resources_fit(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> NodeResourcesFitArgs:
    """Return the arguments of NodeResourcesFit; add errors to `faults`. Upstream `ValidateNodeResourcesFitArgs`."""
    ignored, groups = args.get("ignoredResources") or (), args.get("ignoredResourceGroups") or ()
    for index, name in enumerate(charging(ignored, 1)):
        faults += _label_name((*path, "ignoredResources", index), name)
    for index, group in enumerate(charging(groups, 1)):
        place = (*path, "ignoredResourceGroups", index)
        if "/" in (group or ""):
            faults.append(invalid(place, group, "resource group name can't contain '/'"))
        faults += _label_name(place, group)
    strategy = args.get("scoringStrategy")
    path = (*path, "scoringStrategy")
    kind = LEAST_ALLOCATED if strategy is None else strategy.get("type") or ""
    if kind not in STRATEGIES:
        faults.append(not_supported((*path, "type"), kind, STRATEGIES))
    resources = _resources(strategy or {})
    for index, resource in enumerate(resources):
        if not 0 < resource.weight <= _FULL:
            text = f"resource weight of {resource.name} not in valid range (0, 100]"
            faults.append(invalid((*path, "resources", index, "weight"), resource.weight, text))
    ratio = (strategy or {}).get("requestedToCapacityRatio")
    shape = _shape(ratio or {})
    faults += _ratio_errors(kind, ratio, shape, (*path, "requestedToCapacityRatio"))
    return NodeResourcesFitArgs(
        frozenset(name or "" for name in ignored), frozenset(group or "" for group in groups), kind, resources, shape
    )


def _ratio_errors(kind: str, ratio: ApiObject | None, shape: Sequence[ShapePoint], path: Path) -> list[FieldError]:
    if kind != REQUESTED_TO_CAPACITY_RATIO:
        return [] if ratio is None else [forbidden(path, "must be nil when type is not RequestedToCapacityRatio")]
    if ratio is None:
        return [required(path, "must be specified when type is RequestedToCapacityRatio")]
    return list(_shape_errors(shape, (*path, "shape")))


def topology_spread(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> PodTopologySpreadArgs:
    """Return the arguments of PodTopologySpread; add errors to `faults`. Upstream `ValidatePodTopologySpreadArgs`."""
    kind = args.get("defaultingType") or SYSTEM_DEFAULTING
    given = [constraint or {} for constraint in args.get("defaultConstraints") or ()]
    of_type = (*path, "defaultingType")
    if kind not in (SYSTEM_DEFAULTING, LIST_DEFAULTING):
        faults.append(not_supported(of_type, kind, (SYSTEM_DEFAULTING, LIST_DEFAULTING)))
    elif kind == SYSTEM_DEFAULTING and given:
        faults.append(invalid(of_type, kind, "when .defaultConstraints are not empty"))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(charging(given, 1)):
        place = (*path, "defaultConstraints", index)
        faults += _constraint_errors(constraint, place)
        pair = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if pair in seen:
            faults.append(duplicate(place, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return PodTopologySpreadArgs(kind, read_topology_spread({"spec": {"topologySpreadConstraints": given}}))


def _constraint_errors(constraint: ApiObject, path: Path) -> Iterator[FieldError]:
    skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
    if skew <= 0:
        yield invalid((*path, "maxSkew"), skew, "not in valid range (0, inf)")
    if key:
        yield from _label_name((*path, "topologyKey"), key)
    else:
        yield required((*path, "topologyKey"), "can not be empty")
    action = constraint.get("whenUnsatisfiable") or ""
    if not action:
        yield required((*path, "whenUnsatisfiable"), "can not be empty")
    elif action not in _ACTIONS:
        yield not_supported((*path, "whenUnsatisfiable"), action, _ACTIONS)
    if constraint.get("labelSelector") is not None:
        yield forbidden((*path, "labelSelector"), "constraint must not define a selector, as they deduced for each pod")


def volume_binding(args: ApiObject, path: Path, faults: list[FieldError], semantics: Semantics) -> VolumeBindingArgs:
    """Return the arguments of VolumeBinding; add errors to `faults`. Upstream `ValidateVolumeBindingArgs`."""
    timeout, shape = _valid_or_default(args.get("bindTimeoutSeconds"), 600), _shape(args)
    if timeout < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        faults.append(invalid((*path, "bindTimeoutSeconds"), timeout, text))
    if semantics.storage_capacity_is_scored:
        shape = shape or (ShapePoint(0, MAX_CUSTOM_PRIORITY_SCORE), ShapePoint(_FULL, 0))
        faults += _shape_errors(shape, (*path, "shape"))
    elif args.get("shape") is not None:
        text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        faults.append(invalid((*path, "shape"), args["shape"], text))
    return VolumeBindingArgs(timeout, shape)


def dynamic_resources(
    args: ApiObject, path: Path, faults: list[FieldError], semantics: Semantics
) -> DynamicResourcesArgs:
    """Return the arguments of DynamicResources; add errors to `faults`. Upstream `ValidateDynamicResourcesArgs`."""
    conditions = semantics.device_binding_conditions_are_awaited
    defaults = DynamicResourcesArgs() if conditions else DynamicResourcesArgs(binding_timeout_seconds=None)
    filtering = _timeout(args, "filterTimeout", path, faults, defaults.filter_timeout_seconds)
    binding = _timeout(args, "bindingTimeout", path, faults, defaults.binding_timeout_seconds)
    if filtering is not None and filtering < 0:
        faults.append(invalid((*path, "filterTimeout"), args["filterTimeout"], "must be zero or positive"))
    if args.get("bindingTimeout") is not None:
        if not conditions:
            text = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            faults.append(forbidden((*path, "bindingTimeout"), text))
        elif binding is not None and binding < 1:
            faults.append(invalid((*path, "bindingTimeout"), args["bindingTimeout"], "must be at least 1 second"))
    return DynamicResourcesArgs(filtering, binding)


def _timeout(args: ApiObject, key: str, path: Path, faults: list[FieldError], default: float | None) -> float | None:
    given = args.get(key)
    if given is None:
        return default
    timeout = parse_duration(given)
    if timeout is None:
        faults.append(invalid((*path, key), given, "must be a duration, as in 10s or 2m30s"))
    return timeout


def _valid_or_default(value: int | None, default: int) -> int:
    return default if value is None else value


def _resources(holder: ApiObject) -> tuple[ResourceWeight, ...]:
    given = _named_entries(charging(holder.get("resources") or (), 1))
    return tuple(ResourceWeight(name, entry.get("weight") or 1) for name, entry in given) or CPU_AND_MEMORY


def _shape(holder: ApiObject) -> tuple[ShapePoint, ...]:
    points = [point or {} for point in charging(holder.get("shape") or (), 1)]
    return tuple(ShapePoint(point.get("utilization") or 0, point.get("score") or 0) for point in points)


def _shape_errors(shape: Sequence[ShapePoint], path: Path) -> Iterator[FieldError]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            place = (*path, index, "utilization")
            yield invalid(place, shape[index].utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        yield from _percent_errors((*path, index, "utilization"), point.utilization)
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            yield invalid((*path, index, "score"), point.score, f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]")


def _percent_errors(path: Path, value: int) -> list[FieldError]:
    return [] if 0 <= value <= _FULL else [invalid(path, value, "not in valid range [0, 100]")]


def _label_name(path: Path, name: str | None) -> list[FieldError]:
    return [invalid(path, name or "", fault) for fault in qualified_name(name or "")]


READERS: Final[dict[str, Callable[[ApiObject, Path, list[FieldError], Semantics], Any]]] = {
    "DefaultPreemption": default_preemption,
    "DynamicResources": dynamic_resources,
    "InterPodAffinity": inter_pod_affinity,
    "NodeAffinity": node_affinity,
    "NodeResourcesBalancedAllocation": balanced_allocation,
    "NodeResourcesFit": resources_fit,
    "PodTopologySpread": topology_spread,
    "VolumeBinding": volume_binding,
}
"""Plugin -> function that returns its arguments with defaults and adds errors to `faults`."""


REMOVED_PLUGINS: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins that were removed from kube-scheduler."""
_LEASES: Final = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}


def validate(
    config: ApiObject, profiles: Sequence[ApiObject], sets: Sequence[Mapping[str, PluginSet]]
) -> Iterator[FieldError]:
    """Yield the errors of a decoded configuration. `sets`: the plugins of each profile, including the defaults."""
    yield from _leader_election_errors(config.get("leaderElection") or {})
    if (config.get("clientConnection") or {}).get("burst", 0) < 0:
        burst = config["clientConnection"]["burst"]
        yield invalid(("clientConnection", "burst"), burst, "must be non-negative")
    parallelism = config.get("parallelism")
    if parallelism is not None and parallelism <= 0:
        yield invalid(("parallelism",), parallelism, "should be an integer value greater than zero")
    yield from _percentage_errors(config, ())
    yield from _backoff_errors(config)
    yield from _profile_errors(profiles, sets)
    yield from _extender_errors(config.get("extenders") or ())


def _profile_errors(profiles: Sequence[ApiObject], sets: Sequence[Mapping[str, PluginSet]]) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for number, profile in enumerate(profiles):
        path: Path = ("profiles", number)
        name = profile.get("schedulerName") or ""
        if not name:
            yield required((*path, "schedulerName"))
        if name in seen:
            yield duplicate((*path, "schedulerName"), name)
        seen[name] = number
        yield from _percentage_errors(profile, path)
        yield from _plugin_errors(sets[number], path)
        yield from _plugin_config_errors(profile.get("pluginConfig"), path)
        if sets[number]["queueSort"] != sets[0]["queueSort"]:
            yield FieldError((*path, "plugins", "queueSort"), "must be the same for all profiles")
    if len(sets[0]["queueSort"].enabled) > 1:
        text = "only one queue sort plugin can be enabled"
        yield invalid(("profiles", 0, "plugins", "queueSort"), len(sets[0]["queueSort"].enabled), text)


def _plugin_errors(sets: Mapping[str, PluginSet], path: Path) -> Iterator[FieldError]:
    for point in POINTS:
        for index, (name, _) in enumerate(sets[point].enabled):
            if name in REMOVED_PLUGINS:
                yield _removed_plugin(name, (*path, "plugins", point, "enabled", index))


def _plugin_config_errors(plugin_config: Sequence[Any] | None, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, (name, _) in enumerate(_named_entries(plugin_config)):
        place = (*path, "pluginConfig", index)
        if name in seen:
            yield duplicate(place, name)
        seen.add(name)
        if name in REMOVED_PLUGINS:
            yield _removed_plugin(name, place)
        if name == "NodeResourcesFitArgs":
            yield FieldError((*place, "args"), "has to match plugin args")


def _removed_plugin(name: str, path: Path) -> FieldError:
    text = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, text)


def _percentage_errors(holder: ApiObject, path: Path) -> Iterator[FieldError]:
    percentage = holder.get("percentageOfNodesToScore")
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid((*path, "percentageOfNodesToScore"), percentage, "not in valid range [0-100]")


def _backoff_errors(config: ApiObject) -> Iterator[FieldError]:
    initial, most = backoff(config)
    if initial <= 0:
        yield invalid(("podInitialBackoffSeconds",), initial, "must be greater than 0")
    if most < initial:
        yield invalid(("podMaxBackoffSeconds",), most, "must be greater than or equal to PodInitialBackoffSeconds")


def backoff(config: ApiObject) -> tuple[int, int]:
    """Return (podInitialBackoffSeconds, podMaxBackoffSeconds) with defaults."""
    initial, limit = DEFAULT_BACKOFF
    return _valid_or_default(config.get("podInitialBackoffSeconds"), initial), _valid_or_default(
        config.get("podMaxBackoffSeconds"), limit
    )


def _leader_election_errors(election: ApiObject) -> Iterator[FieldError]:
    """Yield the errors of `leaderElection`. Leader election is on unless `leaderElect` is false."""
    times = {key: election.get(key) or default for key, default in _LEASES.items()}
    durations = {key: parse_duration(text) for key, text in times.items()}
    for key, value in durations.items():
        if value is None:
            yield invalid(("leaderElection", key), times[key], "must be a duration, as in 15s")
    if election.get("leaderElect") is False or None in durations.values():
        return
    for key, value in durations.items():
        if value is not None and value <= 0:
            yield invalid(("leaderElection", key), times[key], "must be greater than zero")
    if (durations["leaseDuration"] or 0) <= (durations["renewDeadline"] or 0):
        yield invalid(
            ("leaderElection", "leaseDuration"), times["leaseDuration"], "must be greater than `RenewDeadline`"
        )
    lock = election.get("resourceLock") or "leases"
    if lock != "leases":
        yield invalid(("leaderElection", "resourceLock"), lock, 'resourceLock value must be "leases"')


def _extender_errors(extenders: Sequence[Any]) -> Iterator[FieldError]:
    binders, seen = 0, set[str]()
    for index, extender in enumerate(charging(extenders, 1)):
        path: Path = ("extenders", index)
        extender = extender or {}
        if extender.get("prioritizeVerb") and (extender.get("weight") or 0) <= 0:
            yield invalid((*path, "weight"), extender.get("weight") or 0, "must have a positive weight applied to it")
        binders += bool(extender.get("bindVerb"))
        if extender.get("httpTimeout") and parse_duration(extender["httpTimeout"]) is None:
            yield invalid((*path, "httpTimeout"), extender["httpTimeout"], "must be a duration, as in 5s")
        for place, (name, _) in enumerate(_named_entries(charging(extender.get("managedResources") or (), 1))):
            of_name = (*path, "managedResources", place, "name")
            faults = qualified_name(name)
            yield from (invalid(of_name, name, fault) for fault in faults)
            if not faults and not is_extended(name):
                yield invalid(of_name, name, "is an invalid extended resource name")
            if name in seen:
                yield invalid(of_name, name, "duplicate extender managed resource name")
            seen.add(name)
    if binders > 1:
        text = "only one extender can implement bind"
        yield invalid(("extenders",), f"found {binders} extenders implementing bind", text)


_MAX_TOTAL_SCORE: Final = 2**63 - 1


class Expansion:
    """The plugins of one profile, expanded. `points`: extension point -> plugin names in order; empty after an error.

    `faults`: errors with which kube-scheduler would not start. `name`: the scheduler name of the profile.
    """

    def __init__(
        self, name: str, sets: Mapping[str, PluginSet], plugins: Mapping[str, Any], semantics: Semantics, path: Path
    ) -> None:
        self._name, self._sets, self._semantics, self._path = name, sets, semantics, path
        self._plugins = {name: plugin for name, plugin in plugins.items() if semantics.is_at_least(plugin.since)}
        self.faults: list[FieldError] = []
        self.points: dict[str, tuple[str, ...]] = {}
        for point in POINTS:
            self._check_enabled(point)
        if not self.faults:
            self.points = {point: self._expand(point) for point in POINTS}
            self._check_needed()
            self._check_weights()

    def profile(self, args: Mapping[str, Any], percentage: int | None) -> Profile:
        """Return the profile. `args`: plugin -> its arguments. `percentage`: its percentageOfNodesToScore."""
        points = {point: names for point, names in self.points.items() if names}
        used = {name: self._plugins[name] for names in points.values() for name in names if name in self._plugins}
        return Profile(self._name, points, self.weights(), args, used, percentage)

    def weights(self) -> dict[str, int]:
        """Return Score plugin -> weight, explicitly configured plugins first. The default weight is 1."""
        weights: dict[str, int] = {}
        for name, weight in (*self._sets["score"].enabled, *self._sets[MULTI_POINT].enabled):
            if name in self._plugins and self._extends(name, "score"):
                weights.setdefault(name, weight or 1)
        return weights

    def _extends(self, name: str, point: str) -> bool:
        return extends(self._plugins[name], point, self._semantics)

    def _check_enabled(self, point: str) -> None:
        seen: set[str] = set()
        for index, (name, _) in enumerate(self._sets[point].enabled):
            path = (*self._path, "plugins", point, "enabled", index)
            if name not in self._plugins:
                self._missing(name, point, path)
            elif not self._extends(name, point):
                self._add(path, f"plugin {go_quote(name)} does not extend {_interface(point)} plugin")
            elif name in seen:
                self._twice(name, point, path)
            seen.add(name)

    def _expand(self, point: str) -> tuple[str, ...]:
        own, multi = self._sets[point], self._sets[MULTI_POINT]
        here = [name for name, _ in own.enabled]
        if ALL in own.disabled or not multi.enabled:
            return tuple(here)
        overriding, from_multi = [], list[str]()
        for index, (name, _) in enumerate(multi.enabled):
            path = (*self._path, "plugins", MULTI_POINT, "enabled", index)
            if name not in self._plugins:
                self._missing(name, point, path)
            elif not self._extends(name, point) or name in own.disabled:
                continue
            elif name in here:
                overriding.append(name)
            elif name in from_multi:
                self._twice(name, point, path)
            else:
                from_multi.append(name)
        first = [name for name in here if name in overriding]
        return (*first, *from_multi, *(name for name in here if name not in overriding))

    def _missing(self, name: str, point: str, path: Path) -> None:
        self._add(path, f"{_interface(point)} {go_quote(name)} does not exist in Kubernetes {self._semantics.release}")

    def _twice(self, name: str, point: str, path: Path) -> None:
        self._add(path, f"plugin {go_quote(name)} already registered as {go_quote(_interface(point))}")

    def _add(self, path: Path, text: str) -> None:
        self.faults.append(FieldError(path, text))

    def _check_needed(self) -> None:
        path = (*self._path, "plugins")
        sorting = len(self.points["queueSort"])
        profile = f"for profile with scheduler name {go_quote(self._name)}"
        if sorting != 1:
            self._add((*path, "queueSort"), f"only one queue sort plugin required {profile}, but got {sorting}")
        if not self.points["bind"]:
            self._add((*path, "bind"), f"at least one bind plugin is needed {profile}")

    def _check_weights(self) -> None:
        """Add an error if the total score can overflow. As in upstream, a negative sum counts as an overflow."""
        total = 0
        for weight in self.weights().values():
            if weight * MAX_NODE_SCORE > _as_int64(_MAX_TOTAL_SCORE - total):
                text = "score plugins: total score of Score plugins could overflow"
                self._add((*self._path, "plugins", "score"), text)
                return
            total += weight * MAX_NODE_SCORE


def _as_int64(number: int) -> int:
    """Return the number as Go's int64 would hold it after an overflow."""
    return (number + 2**63) % 2**64 - 2**63


def _interface(point: str) -> str:
    return f"{point[0].upper()}{point[1:]}Plugin"


_ANYWHERE: Final = frozenset(POINTS) - {"queueSort", "bind"}
"""Extension points of multiPoint plugins without code: all except queueSort and bind, for which each profile has
plugins.
"""
_KNOWN: Final = 64
"""Maximum number of cached default configurations, one for each release with its gates."""


class InvalidConfiguration(Exception):
    """The error for a configuration with which kube-scheduler would not start. `faults`: the errors with field
    paths.
    """

    def __init__(self, faults: Sequence[FieldError]) -> None:
        super().__init__(aggregate(faults))
        self.faults = tuple(faults)


def scheduler_configuration(
    config: Any,
    semantics: Semantics,
    plugins: Mapping[str, Any] = IN_TREE,
    source: str = "",
    unknown: Callable[[str, frozenset[str]], Any] | None = None,
) -> SchedulerConfiguration:
    """Return the effective configuration: `config` (a KubeSchedulerConfiguration, decoded from YAML) with the defaults
    of the release.

    `plugins`: name -> class of all known plugins. `unknown`: creates a plugin class from the name and extension points
    of an unknown plugin; None: such a plugin is an error. Raises InvalidConfiguration.
    """
    _raise(decoding_faults(config))
    given = [profile or {} for profile in config.get("profiles") or ()] or [{}]
    if len(given) == 1 and given[0].get("schedulerName") is None:
        given[0] = {**given[0], "schedulerName": DEFAULT_SCHEDULER}
    sets = [plugin_sets(profile.get("plugins") or {}, semantics) for profile in given]
    faults = list(validate(config, given, sets))
    if unknown is not None:
        plugins = {**_unknown(sets, plugins, unknown), **plugins}
    args = [_arguments(profile, number, sets[number], semantics, faults) for number, profile in enumerate(given)]
    _raise(faults)
    extenders = tuple(sorted(map(_extender, config.get("extenders") or ()), key=lambda e: e.ignorable))
    profiles: dict[str, Profile] = {}
    for number, profile in enumerate(given):
        name = profile.get("schedulerName") or ""
        expansion = Expansion(name, sets[number], plugins, semantics, ("profiles", number))
        faults += expansion.faults
        expanded = expansion.profile(args[number], profile.get("percentageOfNodesToScore"))
        profiles[name] = _without_ignored(expanded, extenders, faults)
    _raise(faults)
    initial, most = backoff(config)
    percentage = config.get("percentageOfNodesToScore") or 0
    return SchedulerConfiguration(profiles, extenders, percentage, initial, most, source)


def configuration_of(semantics: Semantics) -> SchedulerConfiguration:
    """Return the configuration of a cluster's scheduler: the given one, or the default of the release."""
    return semantics.scheduler or _default(semantics)


@lru_cache(_KNOWN)
def _default(semantics: Semantics) -> SchedulerConfiguration:
    return scheduler_configuration({"apiVersion": API_VERSION, "kind": KIND}, semantics)


def _raise(faults: Sequence[FieldError]) -> None:
    if faults:
        raise InvalidConfiguration(faults)


def _arguments(
    profile: ApiObject, number: int, sets: Mapping[str, PluginSet], semantics: Semantics, faults: list[FieldError]
) -> dict[str, Any]:
    """Return plugin -> its arguments, and add errors to `faults`. `number`: index of the profile. `sets`: extension
    point -> plugins.

    As in upstream, NodeResourcesFit is validated only if the plugin is enabled.
    """
    enabled = {name for plugins in sets.values() for name, _ in plugins.enabled}
    arguments: dict[str, Any] = {name: READERS[name]({}, (), [], semantics) for name in READERS if name in enabled}
    for index, (name, plugin) in enumerate(_named_entries(profile.get("pluginConfig"))):
        args = plugin.get("args")
        if name not in READERS:
            arguments[name] = {} if args is None else args
            continue
        checked = faults if name in enabled or name != "NodeResourcesFit" else []
        path = ("profiles", number, "pluginConfig", index, "args")
        arguments[name] = READERS[name](args or {}, path, checked, semantics)
    return arguments


def _unknown(
    sets: Sequence[Mapping[str, PluginSet]], plugins: Mapping[str, Any], make: Callable[[str, frozenset[str]], Any]
) -> dict[str, Any]:
    """Return name -> class of unknown plugins; `make` creates each class for the points that list the plugin."""
    at: dict[str, set[str]] = {}
    for point, plugin_set in (entry for profile in sets for entry in profile.items()):
        points = _ANYWHERE if point == MULTI_POINT else {point}
        for name, _ in plugin_set.enabled:
            if name not in plugins and name not in REMOVED_PLUGINS:
                at.setdefault(name, set()).update(points)
    return {name: make(name, frozenset(points)) for name, points in at.items()}


def _extender(extender: ApiObject | None) -> Extender:
    extender = extender or {}
    keys = ("urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb")
    url, filters, prioritizes, preempts, binds = (extender.get(key) or "" for key in keys)
    managed, ignorable = list(_named_entries(extender.get("managedResources"))), bool(extender.get("ignorable"))
    names = frozenset(name for name, _ in managed)
    ignored = frozenset(name for name, resource in managed if resource.get("ignoredByScheduler"))
    return Extender(url, filters, prioritizes, preempts, binds, ignorable, names, ignored)


def _without_ignored(profile: Profile, extenders: Sequence[Extender], faults: list[FieldError]) -> Profile:
    """Return the profile whose `ignored_resources` are the resources that extenders mark as `ignoredByScheduler`, if
    there are any.

    These resources replace configured ones, as in upstream `buildExtenders`. Adds an error to `faults` if
    NodeResourcesFit has no arguments.
    """
    ignored = frozenset(name for extender in extenders for name in extender.ignored_resources)
    args = profile.args.get("NodeResourcesFit")
    if not ignored:
        return profile
    if args is None:
        text = f"profile {go_quote(profile.scheduler_name)}: can't find NodeResourcesFitArgs in plugin config"
        faults.append(FieldError(("extenders",), text))
        return profile
    return replace(profile, args={**profile.args, "NodeResourcesFit": replace(args, ignored_resources=ignored)})


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    name: {"apiVersion": API_VERSION, "kind": KIND, **config} for name, config in _DEFAULTS["presets"].items()
}
"""Name -> KubeSchedulerConfiguration."""
