"""What a Workload requests and uses, and its equivalence class; Jobs that Kueue starts.

Source: kueue pkg/workload, pkg/controller/jobs/job, pkg/controller/jobframework, pkg/podset.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.kubernetes.cluster.admission import limit_range_defaults
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, establish_priority
from forewarn.policies.kubernetes.objects import kueue
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    group_kind,
    int32,
    mapping,
    objects_at,
    ref_of,
    sequence,
    text_at,
)
from forewarn.policies.kubernetes.objects.kueue import GROUP, PodSet, Workload, requests_of_pod
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources, requests_in_spec
from forewarn.policies.kubernetes.objects.resources import ResourceList, to_nano
from forewarn.policies.kubernetes.quantity import NANO, Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.kueue import Configuration, PodSetAssignment, ResourceFlavor
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
    from forewarn.policies.kubernetes.objects.workload import PodTemplate
    from forewarn.policies.kubernetes.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class PodSetResources:
    """The requests of all `count` Pods of a PodSet. `flavors`: empty without quota."""

    name: str
    requests: dict[str, kueue.Amount]
    count: int
    flavors: Mapping[str, str] = field(default_factory=dict)

    def scaled_to(self, count: int) -> PodSetResources:
        if self.count in (0, count):
            return self
        return PodSetResources(self.name, kueue.scaled_to(self.requests, self.count, count), count, self.flavors)


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The flavors that the last attempt tried: their index by resource, for each PodSet; -1 after the last flavor.

    `generation`: that of the ClusterQueue. Source: `AssignmentClusterQueueState`.
    """

    last_tried_flavor_idx: tuple[Mapping[str, int], ...]
    generation: int

    @property
    def has_pending_flavors(self) -> bool:
        return any(index != -1 for indexes in self.last_tried_flavor_idx for index in indexes.values())

    def next_flavor_to_try(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self.last_tried_flavor_idx):
            return 0
        return self.last_tried_flavor_idx[pod_set].get(resource, -1) + 1


@dataclass(eq=False)
class Info:
    """A Workload in a queue or with quota. Only `last_assignment` changes."""

    obj: Workload
    cluster_queue: str
    total_requests: tuple[PodSetResources, ...]
    last_assignment: LastAssignment | None = None

    @classmethod
    def from_workload(cls, workload: Workload, cluster_queue: str) -> Info:
        """Return the Info of a Workload: with quota in the ClusterQueue that it has, or waiting."""
        if workload.has_quota and workload.admission is not None:
            requests = tuple(_from_admission(workload, each) for each in workload.admission.pod_sets)
            return cls(workload, workload.admission.cluster_queue, requests)
        return cls(workload, cluster_queue, tuple(_from_pod_set(workload, each) for each in workload.pod_sets))

    @cached_property
    def key(self) -> str:
        return self.obj.key

    @cached_property
    def rank(self) -> tuple[object, ...]:
        """The order of queues: by priority and age. Source: `baseCompareFunc`."""
        return -self.obj.priority, self.obj.queued_since, self.obj.uid, self.key

    @cached_property
    def usage(self) -> kueue.Quantities:
        """The usage by flavor and resource. Source: `FlavorResourceUsage`."""
        total: kueue.Quantities = {}
        for pod_set in self.total_requests:
            for resource, amount in pod_set.requests.items():
                fr = kueue.FlavorResource(pod_set.flavors.get(resource, ""), resource)
                total[fr] = kueue.add(total.get(fr, 0), amount)
        return total

    @cached_property
    def assigned(self) -> frozenset[kueue.FlavorResource]:
        """The pairs of flavor and resource that the Workload uses, for `WorkloadUsesResources`."""
        return frozenset(
            kueue.FlavorResource(flavor, resource)
            for pod_set in self.total_requests
            for resource, flavor in pod_set.flavors.items()
        )

    @cached_property
    def scheduling_hash(self) -> str:
        """The key of the equivalence class; equivalent Workloads get equal flavors. Source: `computeSchedulingHash`."""
        shapes = [
            (pod_set.name, _shape(pod_set.spec), resources.count, resources.requests, pod_set.min_count)
            for pod_set, resources in zip(self.obj.pod_sets, self.total_requests, strict=False)
        ]
        return json.dumps([self.obj.priority, shapes], sort_keys=True)


def _count_after_reclaim(workload: Workload, name: str, count: int) -> int:
    """Return the count without Pods that no longer need their quota. Source: `podSetsCountsAfterReclaim`."""
    return count - min(workload.reclaimable_pods.get(name, 0), count)


def _from_pod_set(workload: Workload, pod_set: PodSet) -> PodSetResources:
    count = _count_after_reclaim(workload, pod_set.name, pod_set.count)
    requests = {name: kueue.saturated(amount * count) for name, amount in pod_set.requests.items()}
    return PodSetResources(pod_set.name, requests, count)


def _from_admission(workload: Workload, assigned: PodSetAssignment) -> PodSetResources:
    """Return the resources of an admitted PodSet, without Pods that are done. Source: `totalRequestsFromAdmission`."""
    total = next((each.count for each in workload.pod_sets if each.name == assigned.name), 0)
    count = total if assigned.count is None else assigned.count
    resources = PodSetResources(assigned.name, dict(assigned.resource_usage), count, assigned.flavors)
    remaining = _count_after_reclaim(workload, assigned.name, total)
    return resources.scaled_to(remaining) if remaining < count else resources


def with_adjusted_resources(
    workload: Workload, limit_ranges: Sequence[LimitRange], configuration: Configuration
) -> Workload:
    """Return a waiting Workload with the default resources of its namespace, and with those that the configuration
    excludes or transforms. Raises InvalidObject.

    Source: `handlePodLimitRange`, `applyResourceTransformations`. Unlike kube-apiserver, Kueue prefers default requests
    to a container's limits.
    """
    changes = configuration.excluded_prefixes or configuration.transformations
    if not limit_ranges and not changes:
        return workload
    defaults = dict(zip(("requests", "limits"), limit_range_defaults(limit_ranges), strict=True))
    pod_sets = []
    for pod_set in workload.pod_sets:
        spec = dict(pod_set.spec)
        for kind in _CONTAINERS if limit_ranges else ():
            spec[kind] = [
                {**each, "resources": {k: {**v, **mapping(each, "resources", k)} for k, v in defaults.items()}}
                for each in objects_at(spec, kind)
            ]
        requests = _transformed(to_nano(requests_in_spec({"kind": "Pod", "spec": spec})), configuration)
        amounts = {name: kueue.amount_from_quantity(name, Quantity(nano)) for name, nano in requests.items()}
        pod_sets.append(replace(pod_set, spec=spec, requests=amounts))
    return replace(workload, pod_sets=tuple(pod_sets))


def _transformed(requests: Mapping[str, int], configuration: Configuration) -> dict[str, int]:
    excluded = configuration.excluded_prefixes
    kept = {name: nano for name, nano in requests.items() if not name.startswith(excluded)} if excluded else requests
    result: dict[str, int] = {}
    for name, nano in kept.items():
        transformation = configuration.transformations.get(name)
        if transformation is None:
            result[name] = nano
            continue
        if transformation.multiply_by is not None and transformation.multiply_by in kept:
            nano = _product(nano, kept[transformation.multiply_by])
        for output, factor in transformation.outputs.items():
            result[output] = result.get(output, 0) + _product(nano, factor)
        if transformation.is_retained:
            result[name] = nano
    return result


def _product(one: int, other: int) -> int:
    return -(-one * other // NANO)


def resources_fault(workload: Workload, limit_ranges: Sequence[LimitRange]) -> str | None:
    """Return why Kueue does not try a Workload: its requests exceed limits, or LimitRanges reject its Pods; None if
    they do not. Raises InvalidObject. Source: `ValidateResources`, `ValidateLimitRange`.
    """
    items = [item for limit_range in limit_ranges for item in limit_range.limits]
    for pod_set in workload.pod_sets:
        pod = read_pod_resources({"kind": "Pod", "spec": pod_set.spec}, use_status=False, accept_negative=False)
        for container in (*pod.init_containers, *pod.containers):
            requests, limits = container.requests, container.limits
            if _greater(requests, limits):
                return "resources validation failed: requests must not exceed its limits"
            largest = {**requests, **{name: max(amount, requests[name]) for name, amount in limits.items()}}
            smallest = {**requests, **{name: min(amount, requests[name]) for name, amount in limits.items()}}
            for item in items:
                if item.type == "Container" and (_greater(largest, item.max) or _greater(item.min, smallest)):
                    return _UNSATISFIED
        total = pod.total_requests(use_status=False)
        for item in items:
            if item.type == "Pod" and (_greater(total, item.max) or _greater(item.min, total)):
                return _UNSATISFIED
    return None


def _greater(amounts: ResourceList, others: ResourceList) -> bool:
    return any(amount > others.get(name, amount) for name, amount in amounts.items())


_UNSATISFIED: Final = "resources didn't satisfy LimitRange constraints"
_CONTAINERS: Final = ("initContainers", "containers")
_SHAPE: Final = (
    *("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority", "topologySpreadConstraints"),
    *("overhead", "resourceClaims", "resources"),
)


def _shape(spec: ApiObject) -> list[object]:
    """Return the fields of a Pod on which scheduling depends. Source: kueue pkg/util/pod, `SpecShape`."""
    containers = [
        [(_canonical(mapping(each, "resources")), each.get("ports")) for each in objects_at(spec, kind)]
        for kind in _CONTAINERS
    ]
    return [*containers, *(spec.get(name) for name in _SHAPE)]


def _canonical(resources: ApiObject) -> dict[str, str]:
    requests = {**mapping(resources, "limits"), **mapping(resources, "requests")}
    return {name: str(parse_quantity(quantity)) for name, quantity in requests.items()}


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
    """Return the Job; a new Job without a queue gets the LocalQueue `default` of its namespace, if that exists. Source:
    `ApplyDefaultLocalQueue`.
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


def workload_from_job(job: ApiObject, cluster: ClusterSnapshot | None, now: int, index: int = 0) -> Workload:
    """Return the Workload that Kueue creates for a new Job at `now`, in seconds since 1970. Raises InvalidObject, also
    if the Job's priority class does not exist.

    `cluster`: None for the priority 0. `index`: the position of the Job in the apply.
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
        priority=0 if cluster is None else _priority(job, spec, cluster),
        is_active=True,
        pod_sets=(PodSet("main", pods, min_count, spec, requests_of_pod(spec)),),
        owner=(registry.JOB, ref.name),
        queued_since=now,
        not_modelled=_not_modelled(job),
    )


def smallest_workload(obj: ApiObject, templates: Sequence[PodTemplate]) -> Workload:
    """Return a Workload with one Pod of each template, at most what Kueue creates for an object. Raises
    InvalidObject.
    """
    job = {"metadata": mapping(obj, "metadata"), "spec": {"parallelism": 1, "template": {}}}
    pod_sets = (
        PodSet(f"{number}", 1, None, each.spec, requests_of_pod(each.spec)) for number, each in enumerate(templates)
    )
    return replace(workload_from_job(job, None, 0), pod_sets=tuple(pod_sets))


def _or_default(number: int | None, default: int) -> int:
    return default if number is None else number


def _priority(job: ApiObject, spec: ApiObject, cluster: ClusterSnapshot) -> int:
    """Return the priority of a Job's Workload. Raises InvalidObject. Source: `ExtractPriority`."""
    if name := text_at(job, *PRIORITY_CLASS):
        found = cluster.kueue.get(registry.WORKLOAD_PRIORITY_CLASS, {}).get(("", name))
        if found is None:
            problem = f"Kueue creates no Workload: WorkloadPriorityClass {quote(name)} does not exist"
            raise InvalidObject(problem, PRIORITY_CLASS, ref_of(job), "create it, or change the label")
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
