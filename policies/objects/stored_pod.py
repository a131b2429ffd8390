"""Pods as stored in memory: with all fields that affect other Pods; with fields for their own scheduling only if
small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.copies import replace
from forewarn.policies.objects.bounded import TooLargeToRetain, is_omitted
from forewarn.policies.objects.fields import at
from forewarn.policies.objects.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.fields import ApiObject

MAX_TEXT: Final = 8 * 1024
"""Maximum characters of the spec fields of a stored Pod; decoded, they need about ten times as much memory."""
TOO_LARGE: Final = "the Pod exceeds what forewarn keeps of one"
_PLAIN: Final = (
    "nodeName", "priority", "priorityClassName", "preemptionPolicy", "schedulerName", "terminationGracePeriodSeconds",
)  # fmt: skip
_REQUESTS: Final = ("containers", "initContainers", "overhead", "resources")
_MET_BY_OTHERS: Final = ("volumes", "resourceClaims", "hostNetwork")
_OF_A_CONTAINER: Final = ("name", "resources", "ports", "restartPolicy")


def stored_pod(obj: ApiObject) -> Pod:
    """Read a Pod for storage in memory. Raises InvalidObject.

    If the Pod's scheduling constraints are too large, they are omitted (`PodSpec.too_large`): forewarn does not predict
    the Pod itself, but its requests, labels, ports, volumes and (anti-)affinity to Pods count for others. If these are
    too large as well, predictions of other Pods may be wrong (`PodSpec.hides`).
    """
    try:
        pod = Pod.from_api(obj)
        if pod.spec.size <= MAX_TEXT:
            return pod
    except TooLargeToRetain:
        pass
    for hides, reduced in ((False, _without_wishes), (True, _with_requests), (True, _bare)):
        if (found := _read(obj, reduced)) is not None:
            spec = replace(found.spec, too_large=TOO_LARGE, hides=hides, gated=found.spec.gated or not found.node_name)
            return replace(found, spec=spec)
    return Pod.from_api(_bare(obj))


def _read(obj: ApiObject, reduced: Callable[[ApiObject], ApiObject]) -> Pod | None:
    """Return the Pod after `reduced` has removed fields; None if the Pod is still too large."""
    try:
        pod = Pod.from_api(reduced(obj))
    except TooLargeToRetain:
        return None
    return pod if pod.spec.size <= MAX_TEXT else None


def _without_wishes(obj: ApiObject) -> ApiObject:
    """Return the Pod without fields for its own scheduling: node affinity, tolerations, spread constraints, images."""
    spec = _spec(obj, *_PLAIN, *_REQUESTS, *_MET_BY_OTHERS)
    affinity = {key: at(obj, "spec", "affinity", key) for key in ("podAffinity", "podAntiAffinity")}
    if any(value is not None for value in affinity.values()):
        spec["affinity"] = affinity
    return {**obj, "spec": _with_slim_containers(spec)}


def _with_requests(obj: ApiObject) -> ApiObject:
    return {**obj, "spec": _with_slim_containers(_spec(obj, *_PLAIN, *_REQUESTS))}


def _bare(obj: ApiObject) -> ApiObject:
    """Return the Pod with only its names, timestamps, priority and similar plain fields."""
    kept = {
        "metadata": ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"),
        "spec": _PLAIN,
        "status": ("phase", "startTime", "nominatedNodeName"),
    }
    found: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}
    for part, keys in kept.items():
        holder = obj.get(part)
        found[part] = {} if is_omitted(holder) else {key: at(obj, part, key) for key in keys}
    return found


def _spec(obj: ApiObject, *keys: str) -> dict[str, Any]:
    return {key: value for key in keys if (value := at(obj, "spec", key)) is not None}


def _with_slim_containers(spec: dict[str, Any]) -> dict[str, Any]:
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [{name: c[name] for name in _OF_A_CONTAINER if name in c} for c in spec[key]]
    return spec
