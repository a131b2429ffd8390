"""Defaults that the API server's admission sets in a Pod or PodGroup, and the Pod's prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.base.copies import replace
from forewarn.policies.base.findings import ObjectRef, listed
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, mapping, ref_of, text
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.quantity import in_units

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction


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
    from forewarn.policies.kubernetes.kube_apiserver.defaults import with_default_tolerations
    from forewarn.policies.kubernetes.objects.pod import Pod

    whole, ranges = with_default_resources(pod, snapshot), snapshot.limit_ranges_of(_namespace(pod))
    view = with_priority(Pod.from_api(with_default_tolerations(whole)), snapshot)
    if ranges or whole is not pod:
        from forewarn.policies.kubernetes.kube_apiserver.validation.resources import fault_of_resources

        if error := fault_of_resources(pod, whole, ranges):
            raise InvalidObject(error.text, error.path, ref_of(pod, DEFAULT_NAMESPACE))
    return view


def with_default_resources(pod: ApiObject, snapshot: ClusterSnapshot) -> ApiObject:
    """Return a new Pod with the defaults of the LimitRanges in its namespace."""
    from forewarn.policies.kubernetes.kube_apiserver.defaults import with_limit_range_defaults

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
    """Return a stored Pod as ResourceQuota sees it, by its requests: the view has no limits and no scopes by time."""
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
                usage = [f"{in_units(quota.used[name])} of {in_units(quota.hard[name])} {name}" for name in over]
                found[f"{namespace}/{quota.name}"] = listed(usage)
    return found
