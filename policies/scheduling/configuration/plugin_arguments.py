"""Readers of plugin arguments: each sets defaults and validates. The input already has the right types.

Source: kubernetes `pkg/scheduler/apis/config/v1/defaults.go`, `apis/config/validation/validation_pluginargs.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from forewarn.policies.kube_apiserver.validation.names import qualified_name
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.objects.node_selector import NodeAffinity
from forewarn.policies.objects.topology_spread import read_topology_spread
from forewarn.policies.scheduling.arguments import (
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
from forewarn.policies.scheduling.configuration.schema import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_FULL: Final = 100


def default_preemption(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> DefaultPreemptionArgs:
    """Return the arguments of DefaultPreemption; add errors to `faults`. Upstream `ValidateDefaultPreemptionArgs`."""
    percentage = _or(args.get("minCandidateNodesPercentage"), 10)
    absolute = _or(args.get("minCandidateNodesAbsolute"), 100)
    of_percentage, of_absolute = (*path, "minCandidateNodesPercentage"), (*path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= _FULL:
        faults.append(invalid(of_percentage, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        faults.append(invalid(of_absolute, absolute, "not in valid range [0, inf)"))
    if percentage == 0 == absolute:
        also = "cannot be zero at the same time as"
        faults.append(invalid(of_percentage, percentage, f"{also} minCandidateNodesAbsolute"))
        faults.append(invalid(of_absolute, absolute, f"{also} minCandidateNodesPercentage"))
    return DefaultPreemptionArgs(percentage, absolute)


def inter_pod_affinity(args: ApiObject, path: Path, faults: list[FieldError], _: Semantics) -> InterPodAffinityArgs:
    """Return the arguments of InterPodAffinity; add errors to `faults`. Upstream `ValidateInterPodAffinityArgs`."""
    weight = _or(args.get("hardPodAffinityWeight"), 1)
    if not 0 <= weight <= _FULL:
        faults.append(invalid((*path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]"))
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
    for index, term in enumerate(each(required_terms, 1)):
        if term.error:
            faults.append(
                FieldError(
                    (*path, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", index), term.error
                )
            )
    wanted = "preferredDuringSchedulingIgnoredDuringExecution"
    faults += [FieldError((*path, wanted), p.term.error) for p in each(affinity.preferred or (), 1) if p.term.error]
    return NodeAffinityArgs(affinity.required, affinity.preferred if added.get(wanted) else None)


def balanced_allocation(
    args: ApiObject, path: Path, faults: list[FieldError], _: Semantics
) -> NodeResourcesBalancedAllocationArgs:
    """Return the arguments of NodeResourcesBalancedAllocation; add errors to `faults`.

    Upstream `ValidateNodeResourcesBalancedAllocationArgs`.
    """
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
    for index, name in enumerate(each(ignored, 1)):
        faults += _label_name((*path, "ignoredResources", index), name)
    for index, group in enumerate(each(groups, 1)):
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
    faults += _of_ratio(kind, ratio, shape, (*path, "requestedToCapacityRatio"))
    return NodeResourcesFitArgs(
        frozenset(name or "" for name in ignored), frozenset(group or "" for group in groups), kind, resources, shape
    )


def _of_ratio(kind: str, ratio: ApiObject | None, shape: Sequence[ShapePoint], path: Path) -> list[FieldError]:
    if kind != REQUESTED_TO_CAPACITY_RATIO:
        text = "must be nil when type is not RequestedToCapacityRatio"
        return [] if ratio is None else [forbidden(path, text)]
    if ratio is None:
        return [required(path, "must be specified when type is RequestedToCapacityRatio")]
    return list(_of_shape(shape, (*path, "shape")))


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
    for index, constraint in enumerate(each(given, 1)):
        place = (*path, "defaultConstraints", index)
        faults += _of_constraint(constraint, place)
        pair = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if pair in seen:
            faults.append(duplicate(place, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return PodTopologySpreadArgs(kind, read_topology_spread({"spec": {"topologySpreadConstraints": given}}))


def _of_constraint(constraint: ApiObject, path: Path) -> Iterator[FieldError]:
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
        text = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden((*path, "labelSelector"), text)


def volume_binding(args: ApiObject, path: Path, faults: list[FieldError], semantics: Semantics) -> VolumeBindingArgs:
    """Return the arguments of VolumeBinding; add errors to `faults`. Upstream `ValidateVolumeBindingArgs`."""
    timeout, shape = _or(args.get("bindTimeoutSeconds"), 600), _shape(args)
    if timeout < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        faults.append(invalid((*path, "bindTimeoutSeconds"), timeout, text))
    if semantics.storage_capacity_is_scored:
        shape = shape or (ShapePoint(0, MAX_CUSTOM_PRIORITY_SCORE), ShapePoint(_FULL, 0))
        faults += _of_shape(shape, (*path, "shape"))
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
    found = seconds(given)
    if found is None:
        faults.append(invalid((*path, key), given, "must be a duration, as in 10s or 2m30s"))
    return found


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _resources(holder: ApiObject) -> tuple[ResourceWeight, ...]:
    given = holder.get("resources") or ()
    found = tuple(ResourceWeight((r or {}).get("name") or "", (r or {}).get("weight") or 1) for r in each(given, 1))
    return found or CPU_AND_MEMORY


def _shape(holder: ApiObject) -> tuple[ShapePoint, ...]:
    points = [point or {} for point in each(holder.get("shape") or (), 1)]
    return tuple(ShapePoint(point.get("utilization") or 0, point.get("score") or 0) for point in points)


def _of_shape(shape: Sequence[ShapePoint], path: Path) -> Iterator[FieldError]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            place = (*path, index, "utilization")
            yield invalid(place, shape[index].utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= _FULL:
            yield invalid((*path, index, "utilization"), point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            text = f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]"
            yield invalid((*path, index, "score"), point.score, text)


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
