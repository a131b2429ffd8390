"""Defaults that kube-apiserver adds to Pods: tolerations (plugin DefaultTolerationSeconds) and resources (LimitRanger).

Both plugins are on by default. Rejections: `validate_limits`. The annotation of LimitRanger is not modelled.
Sources: plugin/pkg/admission/defaulttolerationseconds/admission.go, plugin/pkg/admission/limitranger/admission.go,
pkg/apis/core/v1/defaults.go, pkg/api/pod/util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    items,
    mapping,
    sequence,
    text,
)
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, Toleration, read_tolerations
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.resource_list import ResourceList
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
    from forewarn.policies.kubernetes.releases.semantics import Semantics


_DEFAULTS: Final = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", "", NO_EXECUTE, 300) for state in ("not-ready", "unreachable")
)


def missing_tolerations(tolerations: Sequence[Toleration]) -> tuple[Toleration, ...]:
    """Return the default tolerations that the plugin adds to these.

    As upstream, compares only key and effect: also a toleration of another value, which does not tolerate the taint,
    replaces the default.
    """
    keys = {toleration.key for toleration in tolerations if toleration.effect in ("", NO_EXECUTE)}
    return () if "" in keys else tuple(default for default in _DEFAULTS if default.key not in keys)


def with_default_tolerations(pod: ApiObject) -> ApiObject:
    """Return a copy of a new Pod with the default tolerations.

    Unchanged: a stored Pod (with uid), which already has them, and a Pod that cannot be decoded, for which other code
    reports the error.
    """
    try:
        is_stored = bool(text(pod, "metadata", "uid"))
        missing = () if is_stored else missing_tolerations(read_tolerations(pod, "spec", "tolerations"))
    except InvalidObject:
        return pod
    if not missing:
        return pod
    spec = mapping(pod, "spec")
    added = [
        {"key": t.key, "operator": t.operator, "effect": t.effect, "tolerationSeconds": t.seconds} for t in missing
    ]
    return {**pod, "spec": {**spec, "tolerations": [*sequence(spec, "tolerations"), *added]}}


def with_limit_range_defaults(pod: ApiObject, limit_ranges: Iterable[LimitRange], semantics: Semantics) -> ApiObject:
    """Return a copy of a new Pod with the default resources of a namespace with these LimitRanges.

    If LimitRanges conflict, the first counts (upstream: in random order). Unchanged: a stored Pod (with uid), which
    already has defaults, and a Pod that cannot be decoded, for which other code reports the error.
    """
    requests, limits = limit_range_defaults(limit_ranges)
    try:
        has_own = at(pod, "spec", "resources") is not None
        completes_last = has_own and semantics.pod_resources_complete_last
        drops_empty = has_own and semantics.empty_pod_resources_have_no_qos
        if not (requests or limits or completes_last or drops_empty) or text(pod, "metadata", "uid"):
            return pod
        spec = mapping(pod, "spec")
        # Up to 1.36, a Pod's own defaults are set while it is decoded, before the plugin runs; since 1.37, after it.
        defaulted = {**spec} if completes_last else {**spec, **_own_resources(spec)}
        for kind in ("containers", "initContainers"):
            if spec.get(kind):
                defaulted[kind] = [_merged(container, requests, limits) for container in items(spec, kind)]
        if completes_last:
            defaulted |= _own_resources(defaulted, limits_too=True)
        if drops_empty and not any(mapping(defaulted, "resources", key) for key in ("limits", "requests")):
            del defaulted["resources"]
    except InvalidObject:
        return pod
    return {**pod, "spec": defaulted}


def limit_range_defaults(limit_ranges: Iterable[LimitRange]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the default (requests, limits); the first LimitRange with a value counts."""
    requests: ResourceList = {}
    limits: ResourceList = {}
    for limit_range in limit_ranges:
        requests = {**limit_range.default_requests, **requests}
        limits = {**limit_range.default_limits, **limits}
    return _texts(requests), _texts(limits)


def _merged(container: ApiObject, default_requests: ApiObject, default_limits: ApiObject) -> ApiObject:
    """Return a container with default resources; its limits are its default requests (`mergeContainerResources`)."""
    resources = mapping(container, "resources")
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    filled = {"limits": {**default_limits, **limits}, "requests": {**default_requests, **limits, **requests}}
    return {**container, "resources": {**resources, **{key: value for key, value in filled.items() if value}}}


def _own_resources(spec: ApiObject, *, limits_too: bool = False) -> dict[str, Any]:
    """Return `spec.resources` of the Pod with defaults; empty if absent. `limits_too`: see `read_pod_resources`."""
    if at(spec, "resources") is None:
        return {}
    given = mapping(spec, "resources")
    read = read_pod_resources({"spec": spec}, limits_too=limits_too)
    filled = {"limits": _texts(read.limits), "requests": _texts(read.requests)}
    return {"resources": {**given, **{key: {**v, **(given.get(key) or NOTHING)} for key, v in filled.items() if v}}}


def _texts(resources: ResourceList) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in resources.items()}
