"""Defaults that the API server's admission sets in a Pod or PodGroup, and the Pod's prediction.

The plugins DefaultTolerationSeconds and LimitRanger are on by default. Rejections: `validate_limits`. The annotation of
LimitRanger is not modelled. Sources: plugin/pkg/admission/defaulttolerationseconds/admission.go,
plugin/pkg/admission/limitranger/admission.go, pkg/apis/core/v1/defaults.go, pkg/api/pod/util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.copies import replace
from forewarn.policies.base.findings import ObjectRef, listed
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    items,
    mapping,
    ref_of,
    sequence,
    text,
)
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, Toleration, read_tolerations
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.quantity import format_units

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
    from forewarn.policies.kubernetes.objects.resources import ResourceList
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction


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
                defaulted[kind] = [_merge_defaults(container, requests, limits) for container in items(spec, kind)]
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


def _merge_defaults(container: ApiObject, default_requests: ApiObject, default_limits: ApiObject) -> ApiObject:
    """Return a container with default resources; its limits replace default requests (`mergeContainerResources`)."""
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


def predict(snapshot: ClusterSnapshot, pod: ApiObject | Pod, *, reasons: bool = False) -> Prediction:
    """Predict what kube-scheduler would do with a Pod (an API object or a view) in this cluster.

    `reasons`: the caller needs more than the outcome (see `Prediction`). A Pod without a priority gets the priority
    from admission; an object without a uid also gets default resources. Raises InvalidObject.
    """
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    view = with_priority(pod, snapshot) if isinstance(pod, Pod) else admitted(pod, snapshot)
    return Prediction(snapshot.scheduling, view, reasons=reasons)


def admitted(pod: ApiObject, snapshot: ClusterSnapshot) -> Pod:
    """Return a new Pod (API object) as a view, with the defaults that admission sets: resources by LimitRanges,
    priority by PriorityClasses, tolerations for the failure of a node.

    Raises InvalidObject for an unreadable Pod, an unknown PriorityClass, or resources that LimitRanges reject.
    """
    from forewarn.policies.kubernetes.objects.pod import Pod

    whole, ranges = with_default_resources(pod, snapshot), snapshot.limit_ranges_of(_namespace(pod))
    view = with_priority(Pod.from_api(with_default_tolerations(whole)), snapshot)
    if ranges or whole is not pod:
        from forewarn.policies.kubernetes.kube_apiserver.validation.resources import fault_of_resources

        if error := fault_of_resources(pod, whole, ranges):
            raise InvalidObject(error.text, error.path, ref_of(pod, DEFAULT_NAMESPACE), error.fix)
    return view


def with_default_resources(pod: ApiObject, snapshot: ClusterSnapshot) -> ApiObject:
    """Return a new Pod with the defaults of the LimitRanges in its namespace."""
    return with_limit_range_defaults(pod, snapshot.limit_ranges_of(_namespace(pod)), snapshot.semantics)


def _namespace(pod: ApiObject) -> str:
    return text(pod, "metadata", "namespace") or DEFAULT_NAMESPACE


def counted_by_quotas(pod: ApiObject, class_name: str, snapshot: ClusterSnapshot) -> ApiObject:
    """Return a new Pod as ResourceQuota sees it: its namespace and spec with the defaults of LimitRanges.

    `class_name`: its PriorityClass after admission.
    """
    spec = mapping(with_default_resources(pod, snapshot), "spec")
    return {"metadata": {"namespace": _namespace(pod)}, "spec": {**spec, "priorityClassName": class_name}}


def counted_by_requests(pod: Pod) -> ApiObject:
    """Return a stored Pod as ResourceQuota sees it, but only its requests: views have no limits or scopes by time."""
    resource = pod.occupies.resource
    requests = {**resource.scalars, "cpu": f"{resource.milli_cpu}m", "memory": resource.memory}
    spec = {"containers": [{"name": "", "resources": {"requests": {k: str(v) for k, v in requests.items()}}}]}
    return {"metadata": {"namespace": pod.namespace}, "spec": {**spec, "priorityClassName": pod.priority_class_name}}


def admitted_group(group: ApiObject, snapshot: ClusterSnapshot) -> PodGroup:
    """Return a new PodGroup as a view, with the priority that admission sets from the PriorityClass.

    Raises InvalidObject for an unreadable PodGroup or an unknown PriorityClass.
    """
    from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, establish_priority
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup

    view = PodGroup.from_api(group)
    if at(group, "spec", "priority") is not None:
        return view
    try:
        resolved = establish_priority(text(group, "spec", "priorityClassName"), snapshot.priority_classes)
    except Forbidden as error:
        raise InvalidObject(str(error), ("spec", "priorityClassName"), ref_of(group)) from None
    return replace(view, priority=resolved.priority)


def with_priority(pod: Pod, snapshot: ClusterSnapshot) -> Pod:
    """Return the Pod with the priority, class and preemption policy that admission sets; with a priority, it only gets
    the policy of its class.

    Also considers the default class in the namespace's annotation. Raises InvalidObject for an unknown PriorityClass.
    """
    classes = snapshot.priority_classes
    if pod.priority is not None:
        given = classes.get(pod.priority_class_name)
        if pod.preemption_policy or given is None or given.preemption_policy != PREEMPT_NEVER:
            return pod
        return replace(pod, preemption_policy=PREEMPT_NEVER)
    from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, establish_new_priority

    namespace = snapshot.namespace(pod.namespace)
    try:
        resolved = establish_new_priority(pod.priority_class_name, namespace, classes)
    except Forbidden as error:
        ref = ObjectRef("v1", "Pod", pod.namespace, pod.name)
        raise InvalidObject(str(error), ("spec", "priorityClassName"), ref) from None
    return replace(
        pod,
        priority=resolved.priority,
        priority_class_name=resolved.priority_class_name,
        preemption_policy=pod.preemption_policy or resolved.preemption_policy,
    )


def exceeded_quotas(cluster: ClusterSnapshot) -> dict[str, str]:
    """Return the ResourceQuotas (`namespace/name`) above their limits, with the usage of each exceeded resource,
    such as `1,682 of 900 pods, 1,422.5 of 900 requests.cpu`.
    """
    found = {}
    for namespace in sorted({quota.namespace for quota in cluster.resource_quotas.values()}):
        for quota in cluster.quotas_of(namespace):
            over = [
                name for name, limit in sorted(quota.hard.items()) if name in quota.used and quota.used[name] > limit
            ]
            if over:
                usage = [
                    f"{format_units(quota.used[name])} of {format_units(quota.hard[name])} {name}" for name in over
                ]
                found[f"{namespace}/{quota.name}"] = listed(usage)
    return found
