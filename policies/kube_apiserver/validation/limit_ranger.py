"""What admission gives to containers that leave requests or limits out (plugin LimitRanger, on by default).

Only what it fills in: what it refuses (minimum, maximum, ratio), and its annotation, are left out. Sources:
plugin/pkg/admission/limitranger/admission.go, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kube_apiserver.validation.pod_resources import read_pod_resources
from policies.objects.fields import NOTHING, InvalidObject, at, mapping, text
from policies.objects.items import items

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.objects.fields import ApiObject
    from policies.objects.limit_range import LimitRange
    from policies.objects.resource_list import ResourceList


def with_limit_range_defaults(pod: ApiObject, limit_ranges: Iterable[LimitRange]) -> ApiObject:
    """A new pod with the resources that it will have in a namespace with these LimitRanges, its own untouched.

    Where two LimitRanges disagree, the first counts (upstream: whichever it meets first, in no order). A pod with a uid
    is stored: it has been through this, and stays. So does one that cannot be read: its reader says what is wrong.
    """
    requests, limits = _defaults(limit_ranges)
    try:
        if not (requests or limits) or text(pod, "metadata", "uid"):
            return pod
        spec = mapping(pod, "spec")
        # A pod's own defaults are those of its decoding, before the plugin runs.
        made = {**spec, **_own_resources(spec)}
        for kind in ("containers", "initContainers"):
            if spec.get(kind):
                made[kind] = [_merged(container, requests, limits) for container in items(spec, kind)]
    except InvalidObject:
        return pod
    return {**pod, "spec": made}


def _defaults(limit_ranges: Iterable[LimitRange]) -> tuple[dict[str, str], dict[str, str]]:
    """(requests, limits): each LimitRange fills in what those before it have not."""
    requests: ResourceList = {}
    limits: ResourceList = {}
    for limit_range in limit_ranges:
        requests = {**limit_range.default_requests, **requests}
        limits = {**limit_range.default_limits, **limits}
    return _texts(requests), _texts(limits)


def _merged(container: ApiObject, default_requests: ApiObject, default_limits: ApiObject) -> ApiObject:
    """A container with what it lacks; its own limits are its requests first. Source: `mergeContainerResources`."""
    resources = mapping(container, "resources")
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    filled = {
        "limits": {**default_limits, **limits},
        "requests": {**default_requests, **limits, **requests},
    }
    return {**container, "resources": {**resources, **{key: value for key, value in filled.items() if value}}}


def _own_resources(spec: ApiObject) -> dict[str, Any]:
    """`spec.resources`, where it is there, with its defaults."""
    if at(spec, "resources") is None:
        return {}
    given = mapping(spec, "resources")
    for kind in ("containers", "initContainers"):
        list(items(spec, kind))  # raises where they are no objects
    read = read_pod_resources({"spec": spec})
    filled = {"limits": _texts(read.limits), "requests": _texts(read.requests)}
    return {"resources": {**given, **{key: {**v, **(given.get(key) or NOTHING)} for key, v in filled.items() if v}}}


def _texts(resources: ResourceList) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in resources.items()}
