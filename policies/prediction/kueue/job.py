"""Jobs that Kueue starts. Source: kueue pkg/controller/jobs/job, pkg/controller/jobframework, pkg/podset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, establish_priority
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    group_kind,
    int32,
    mapping,
    ref_of,
    sequence,
    text_at,
)
from forewarn.policies.kubernetes.objects.kueue import GROUP, PodSet, Workload, requests_of_pod
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.kueue import PodSetAssignment, ResourceFlavor
    from forewarn.policies.kubernetes.selectors import LabelSelector

QUEUE_NAME: Final = ("metadata", "labels", registry.QUEUE_LABEL)
PRIORITY_CLASS: Final = ("metadata", "labels", registry.WORKLOAD_PRIORITY_CLASS_LABEL)
_DEFAULT_LOCAL_QUEUE: Final = "default"
_MIN_PARALLELISM: Final = ("metadata", "annotations", f"{GROUP}/job-min-parallelism")
_COMPLETIONS_TOO: Final = ("metadata", "annotations", f"{GROUP}/job-completions-equal-parallelism")
_ELASTIC: Final = ("metadata", "annotations", f"{GROUP}/elastic-job")
_TOPOLOGY: Final = f"{GROUP}/podset-"


def is_managed_by_kueue(obj: ApiObject) -> bool:
    """Report whether an object is a Job in a LocalQueue. Kueue suspends it at its creation."""
    return group_kind(obj) == registry.JOB and bool(text_at(obj, *QUEUE_NAME))


def with_default_local_queue(job: ApiObject, cluster: ClusterSnapshot) -> ApiObject:
    """Return a new Job without a queue in the LocalQueue `default` of its namespace, if there is one; other objects as
    they are. Source: `ApplyDefaultLocalQueue`.
    """
    if group_kind(job) != registry.JOB or text_at(job, *QUEUE_NAME):
        return job
    ref = ref_of(job, registry.DEFAULT_NAMESPACE)
    has_default = (ref.namespace, _DEFAULT_LOCAL_QUEUE) in cluster.kueue.get(registry.LOCAL_QUEUE, {})
    if not has_default or cluster.workload(registry.JOB, ref.namespace, ref.name) is not None:
        return job
    labels = {**mapping(job, "metadata", "labels"), registry.QUEUE_LABEL: _DEFAULT_LOCAL_QUEUE}
    return {**job, "metadata": {**mapping(job, "metadata"), "labels": labels}}


def is_managed_without_queue(job: ApiObject, cluster: ClusterSnapshot) -> bool:
    """Report whether Kueue suspends a Job that has no queue. Source: `WorkloadShouldBeSuspended`."""
    configurations = cluster.kueue.get(registry.KUEUE_CONFIGURATION)
    if not configurations or group_kind(job) != registry.JOB or text_at(job, *QUEUE_NAME):
        return False
    selector: LabelSelector | None = next(iter(configurations.values())).managed_namespaces
    name = ref_of(job, registry.DEFAULT_NAMESPACE).namespace
    namespace = cluster.namespaces.get(("", name))
    return selector is not None and selector.matches({NAME_LABEL: name} if namespace is None else namespace.labels)


def workload_from_job(job: ApiObject, cluster: ClusterSnapshot, now: int, index: int = 0) -> Workload:
    """Return the Workload that Kueue creates for a new Job at `now`, in seconds since 1970. Raises InvalidObject, also
    if the class of the Job does not exist.

    `index`: its place among the Jobs of one apply.
    """
    ref, spec = ref_of(job, registry.DEFAULT_NAMESPACE), mapping(job, "spec", "template", "spec")
    pods = _or_default(int32(job, "spec", "parallelism"), 1)
    pods = min(pods, _or_default(int32(job, "spec", "completions"), pods))
    least = text_at(job, *_MIN_PARALLELISM)
    min_count = int(least) if least.isdecimal() and len(least) < 10 else None
    return Workload(
        namespace=ref.namespace,
        name=ref.name,
        uid=f"{index:06}",
        created=now,
        queue_name=text_at(job, *QUEUE_NAME),
        priority=_priority(job, spec, cluster),
        is_active=True,
        pod_sets=(PodSet("main", pods, min_count, spec, requests_of_pod(spec)),),
        owner=(registry.JOB, ref.name),
        queued_since=now,
        not_modelled=_not_modelled(job),
    )


def _or_default(number: int | None, default: int) -> int:
    return default if number is None else number


def _priority(job: ApiObject, spec: ApiObject, cluster: ClusterSnapshot) -> int:
    """Return the priority of a Job's Workload. Raises InvalidObject. Source: `ExtractPriority`."""
    if name := text_at(job, *PRIORITY_CLASS):
        found = cluster.kueue.get(registry.WORKLOAD_PRIORITY_CLASS, {}).get(("", name))
        if found is None:
            problem = f"Kueue creates no Workload: WorkloadPriorityClass {quote(name)} does not exist"
            raise InvalidObject(f"{problem}. Fix: create it, or change the label", PRIORITY_CLASS, ref_of(job))
        value: int = found.value
        return value
    try:
        return establish_priority(text_at(spec, "priorityClassName"), cluster.priority_classes).priority
    except Forbidden as fault:
        raise InvalidObject(f"Kueue creates no Workload: {fault}", ("spec", "template"), ref_of(job)) from None


def _not_modelled(job: ApiObject) -> str | None:
    annotations = mapping(job, "spec", "template", "metadata", "annotations")
    if any(name.startswith(_TOPOLOGY) for name in annotations):
        return "topology-aware scheduling"
    return "elastic Jobs" if text_at(job, *_ELASTIC) == "true" else None


def started_job(job: ApiObject, assigned: PodSetAssignment, flavors: Mapping[str, ResourceFlavor]) -> ApiObject:
    """Return the Job as Kueue starts it: with the number of Pods, node selector and tolerations of its flavors.

    Source: `RunWithPodSetsInfo`.
    """
    spec, template = dict(mapping(job, "spec")), mapping(job, "spec", "template")
    pod = dict(mapping(template, "spec"))
    used = [flavors[name] for name in sorted({*assigned.flavors.values()}) if name in flavors]
    selector = {key: value for flavor in used for key, value in flavor.labels.items()}
    added = [
        {"key": each.key, "operator": each.operator, "value": each.value, "effect": each.effect}
        for flavor in used
        for each in flavor.tolerations
    ]
    if selector:
        pod["nodeSelector"] = {**mapping(pod, "nodeSelector"), **selector}
    if added:
        pod["tolerations"] = [*sequence(pod, "tolerations"), *added]
    spec |= {"suspend": False, "template": {**template, "spec": pod}}
    if text_at(job, *_MIN_PARALLELISM):
        spec["parallelism"] = assigned.count
        if text_at(job, *_COMPLETIONS_TOO) == "true":
            spec["completions"] = assigned.count
    return {**job, "spec": spec}
