"""Kueue's kinds, in the versions v1beta2 and v1beta1 of its API, with the defaults of its CRDs.

Source: kueue apis/kueue, pkg/resources, pkg/cache/scheduler/resource.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    int32,
    items,
    mapping,
    objects_at,
    string_map,
    strings,
    text,
    text_at,
    timestamp,
    within,
)
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.kubernetes.objects.node import Taint, Toleration, read_taints, read_tolerations
from forewarn.policies.kubernetes.objects.pod import Owner, pod_requests
from forewarn.policies.kubernetes.quantity import NANO, InvalidQuantity, Quantity, parse_quantity
from forewarn.policies.kubernetes.selectors import InvalidSelector, LabelSelector, parse_label_selector

GROUP: Final = "kueue.x-k8s.io"
NEVER: Final = "Never"
ANY: Final = "Any"
LOWER_PRIORITY: Final = "LowerPriority"
LOWER_OR_NEWER_EQUAL_PRIORITY: Final = "LowerOrNewerEqualPriority"
NONE: Final = "None"
STRICT_FIFO: Final = "StrictFIFO"
TRY_NEXT_FLAVOR: Final = "TryNextFlavor"
PREEMPTION_OVER_BORROWING: Final = "PreemptionOverBorrowing"


Amount = int
"""CPU in thousandths, other resources in units. UNLIMITED is greater than all other amounts."""
UNLIMITED: Final = 2**63 - 1
_CPU: Final = "cpu"


def saturated(number: int) -> Amount:
    """Return a number, or the nearest one of 64 bits."""
    return max(-UNLIMITED - 1, min(number, UNLIMITED))


def amount_from_quantity(resource: str, quantity: Quantity) -> Amount:
    """Return the amount of a quantity. Source: `AmountFromQuantity`, `ResourceValue`."""
    return saturated(quantity.milli_value if resource == _CPU else quantity.value)


class FlavorResource(NamedTuple):
    """A resource in a ResourceFlavor. `flavor`: "" if none is assigned."""

    flavor: str
    resource: str


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A ResourceFlavor. `topology`: the name of its Topology, "" without one."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    tolerations: tuple[Toleration, ...]
    topology: str

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceFlavor:
        """Read an API object. Raises InvalidObject."""
        return cls(
            name=text(obj, "metadata", "name"),
            labels=string_map(obj, "spec", "nodeLabels"),
            taints=read_taints({"spec": {"taints": at(obj, "spec", "nodeTaints")}}),
            tolerations=read_tolerations(obj, "spec", "tolerations"),
            topology=text(obj, "spec", "topologyName"),
        )


class ResourceQuota(NamedTuple):
    """The quota of a resource in a flavor. None: no limit."""

    nominal: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class ResourceGroup(NamedTuple):
    """Resources of a ClusterQueue that get the same flavor, and these flavors in order."""

    covered_resources: frozenset[str]
    flavors: tuple[str, ...]


class Preemption(NamedTuple):
    """The preemption policies of a ClusterQueue. `max_priority_threshold`: of `borrowWithinCohort`."""

    within_cluster_queue: str
    reclaim_within_cohort: str
    borrow_within_cohort: str
    max_priority_threshold: int | None


class FlavorFungibility(NamedTuple):
    """When a ClusterQueue tries the next flavor. `preference`: "" for the default."""

    when_can_borrow: str
    when_can_preempt: str
    preference: str


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue. `cohort`: "" without one. `namespace_selector`: None selects no namespace."""

    name: str
    cohort: str
    resource_groups: tuple[ResourceGroup, ...]
    quotas: Mapping[FlavorResource, ResourceQuota]
    is_strict_fifo: bool
    namespace_selector: LabelSelector | None
    preemption: Preemption
    flavor_fungibility: FlavorFungibility
    fair_weight: float
    stop_policy: str
    admission_checks: tuple[str, ...]

    @classmethod
    def from_api(cls, obj: ApiObject) -> ClusterQueue:
        """Read an API object. Raises InvalidObject."""
        policies, borrow = ("spec", "preemption"), ("spec", "preemption", "borrowWithinCohort")
        fungibility = ("spec", "flavorFungibility")
        checks = objects_at(obj, "spec", "admissionChecksStrategy", "admissionChecks")
        with within(obj, "spec", "namespaceSelector"):
            selector = _selector(mapping(obj, "spec").get("namespaceSelector"))
        return cls(
            name=text(obj, "metadata", "name"),
            cohort=text(obj, "spec", "cohortName") or text(obj, "spec", "cohort"),
            resource_groups=tuple(map(_resource_group, items(obj, "spec", "resourceGroups"))),
            quotas=_quotas(obj),
            is_strict_fifo=text(obj, "spec", "queueingStrategy") == STRICT_FIFO,
            namespace_selector=selector,
            preemption=Preemption(
                text(obj, *policies, "withinClusterQueue") or NEVER,
                text(obj, *policies, "reclaimWithinCohort") or NEVER,
                text(obj, *borrow, "policy") or NEVER,
                int32(obj, *borrow, "maxPriorityThreshold"),
            ),
            flavor_fungibility=FlavorFungibility(
                text(obj, *fungibility, "whenCanBorrow"),
                text(obj, *fungibility, "whenCanPreempt") or TRY_NEXT_FLAVOR,
                text(obj, *fungibility, "preference"),
            ),
            fair_weight=_fair_weight(obj),
            stop_policy=text(obj, "spec", "stopPolicy") or NONE,
            admission_checks=(*strings(obj, "spec", "admissionChecks"), *(text_at(check, "name") for check in checks)),
        )

    @property
    def flavors(self) -> Iterator[str]:
        return (flavor for group in self.resource_groups for flavor in group.flavors)


@dataclass(frozen=True, slots=True)
class Cohort:
    """A Cohort. `parent`: "" for a root."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, ResourceQuota] = field(default_factory=dict)
    fair_weight: float = 1.0

    @classmethod
    def from_api(cls, obj: ApiObject) -> Cohort:
        """Read an API object. Raises InvalidObject."""
        parent = text(obj, "spec", "parentName") or text(obj, "spec", "parent")
        return cls(text(obj, "metadata", "name"), parent, _quotas(obj), _fair_weight(obj))


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A LocalQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop_policy: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_api(cls, obj: ApiObject) -> LocalQueue:
        """Read an API object. Raises InvalidObject."""
        return cls(
            text(obj, "metadata", "namespace") or "default",
            text(obj, "metadata", "name"),
            text(obj, "spec", "clusterQueue"),
            text(obj, "spec", "stopPolicy") or NONE,
        )


@dataclass(frozen=True, slots=True)
class WorkloadPriorityClass:
    """A WorkloadPriorityClass."""

    name: str
    value: int

    @classmethod
    def from_api(cls, obj: ApiObject) -> WorkloadPriorityClass:
        """Read an API object. Raises InvalidObject."""
        return cls(text(obj, "metadata", "name"), int32(obj, "value") or 0)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of a Workload with the same template: `spec`, with `requests` of one Pod.

    `min_count`: None without partial admission.
    """

    name: str
    count: int
    min_count: int | None
    spec: ApiObject
    requests: Mapping[str, Amount]


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    """The flavors by resource, and the quota, of an admitted PodSet. `count`: None for all of its Pods."""

    name: str
    flavors: Mapping[str, str]
    resource_usage: Mapping[str, Amount]
    count: int | None


@dataclass(frozen=True, slots=True)
class Admission:
    """The quota that a Workload holds."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload of Kueue.

    `created`: in seconds since 1970. `owner`: `group/Kind` and name of its controller. `reserved_at`: when its quota
    was reserved; None without quota. `is_evicted`: with quota, it is being preempted. `queued_since`: its time in the
    order of the queue. `is_queueable`: it may wait in a queue if it has no quota. `requeue_at`: it does not wait in the
    queue before; None without this. `message`: why it waits, by its status. `not_modelled`: what of it is not modelled.
    """

    namespace: str
    name: str
    uid: str
    created: int
    queue_name: str
    priority: int
    is_active: bool
    pod_sets: tuple[PodSet, ...]
    queued_since: int
    owner: tuple[str, str] | None = None
    admission: Admission | None = None
    reserved_at: int | None = None
    is_evicted: bool = False
    is_queueable: bool = True
    requeue_at: float | None = None
    reclaimable_pods: Mapping[str, int] = field(default_factory=dict)
    message: str | None = None
    not_modelled: str | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def has_quota(self) -> bool:
        return self.reserved_at is not None and self.admission is not None and self.is_active

    @classmethod
    def from_api(cls, obj: ApiObject) -> Workload:
        """Read an API object. Raises InvalidObject."""
        conditions = {text_at(each, "type"): each for each in objects_at(obj, "status", "conditions")}
        true = {name for name, condition in conditions.items() if text_at(condition, "status") == "True"}
        reserved = conditions.get("QuotaReserved", {})
        evicted = conditions["Evicted"] if "Evicted" in true else {}
        created = timestamp(obj, "metadata", "creationTimestamp") or 0
        is_finished = "Finished" in true
        return cls(
            namespace=text(obj, "metadata", "namespace") or "default",
            name=text(obj, "metadata", "name"),
            uid=text(obj, "metadata", "uid"),
            created=created,
            queue_name=text(obj, "spec", "queueName"),
            priority=int32(obj, "spec", "priority") or 0,
            is_active=at(obj, "spec", "active") is not False and not is_finished,
            pod_sets=tuple(map(_pod_set, items(obj, "spec", "podSets"))),
            owner=(owner.group_kind, owner.name) if (owner := Owner.from_api(obj)) is not None else None,
            admission=_admission(obj) if at(obj, "status", "admission") is not None else None,
            reserved_at=timestamp(reserved, "lastTransitionTime") or 0 if "QuotaReserved" in true else None,
            is_evicted=bool(evicted),
            queued_since=(
                timestamp(evicted, "lastTransitionTime") or created
                if text_at(evicted, "reason") in ("PodsReadyTimeout", "AdmissionCheck")
                else created
            ),
            is_queueable=not (
                text_at(reserved, "reason") == "OnHold"
                or "WaitingForReplacementPods" in true
                or text_at(obj, "metadata", "annotations", f"{GROUP}/admission-gated-by")
            ),
            requeue_at=_requeue_at(obj, conditions),
            reclaimable_pods={
                text(each, "name"): int32(each, "count") or 0 for each in items(obj, "status", "reclaimablePods")
            },
            message=text_at(reserved, "message") if text_at(reserved, "status") == "False" else None,
            not_modelled=_not_modelled(obj),
        )


def _requeue_at(obj: ApiObject, conditions: Mapping[str, ApiObject]) -> float | None:
    if text_at(conditions.get("Requeued", {}), "status") == "False":
        return float("inf")
    return timestamp(obj, "status", "requeueState", "requeueAt")


def _not_modelled(obj: ApiObject) -> str | None:
    """Return what of a Workload is not modelled; None if everything is."""
    if any(at(each, "topologyRequest") for each in objects_at(obj, "spec", "podSets")):
        return "topology-aware scheduling"
    if objects_at(obj, "status", "admissionChecks"):
        return "admission checks"
    if at(obj, "spec", "preemptionGates"):
        return "preemption gates"
    annotations = mapping(obj, "metadata", "annotations")
    if f"{GROUP}/workload-slice-replacement-for" in annotations:
        return "workload slices of elastic Jobs"
    return None


def _pod_set(obj: ApiObject) -> PodSet:
    count = int32(obj, "count")
    spec = mapping(obj, "template", "spec")
    return PodSet(
        name=text(obj, "name") or "main",
        count=1 if count is None else count,
        min_count=int32(obj, "minCount"),
        spec=spec,
        requests=requests_of_pod(spec),
    )


def requests_of_pod(spec: ApiObject) -> dict[str, Amount]:
    """Return the requests of one Pod. Raises InvalidObject."""
    total = pod_requests({"kind": "Pod", "spec": spec}).total(use_status=False)
    return {name: amount_from_quantity(name, Quantity(nano)) for name, nano in total.items()}


def _admission(obj: ApiObject) -> Admission:
    path = ("status", "admission")
    pod_sets = []
    for index, each in enumerate(items(obj, *path, "podSetAssignments")):
        with within(obj, *path, "podSetAssignments", index):
            usage = {name: _amount(each, name, "resourceUsage", name) for name in mapping(each, "resourceUsage")}
            flavors = string_map(each, "flavors")
            pod_sets.append(PodSetAssignment(text(each, "name") or "main", flavors, usage, int32(each, "count")))
    return Admission(text(obj, *path, "clusterQueue"), tuple(pod_sets))


def _resource_group(obj: ApiObject) -> ResourceGroup:
    flavors = tuple(text(flavor, "name") for flavor in items(obj, "flavors"))
    return ResourceGroup(frozenset(strings(obj, "coveredResources")), flavors)


def _quotas(obj: ApiObject) -> Mapping[FlavorResource, ResourceQuota]:
    """Return the quotas of a ClusterQueue or Cohort. Source: `createResourceQuotas`."""
    quotas = {}
    with within(obj, "spec", "resourceGroups"):
        for group in items(obj, "spec", "resourceGroups"):
            for flavor in items(group, "flavors"):
                for resource in items(flavor, "resources"):
                    name = text(resource, "name")
                    nominal = _amount(resource, name, "nominalQuota")
                    limits = (
                        None if resource.get(limit) is None else _amount(resource, name, limit)
                        for limit in ("borrowingLimit", "lendingLimit")
                    )
                    quotas[FlavorResource(text(flavor, "name"), name)] = ResourceQuota(nominal, *limits)
    return quotas


def _amount(obj: ApiObject, resource: str, *path: str) -> Amount:
    return amount_from_quantity(resource, _quantity(obj, *path))


def _quantity(obj: ApiObject, *path: str) -> Quantity:
    try:
        return parse_quantity(at(obj, *path))
    except InvalidQuantity as error:
        raise InvalidObject(str(error), path) from None


def _fair_weight(obj: ApiObject) -> float:
    path = ("spec", "fairSharing", "weight")
    return 1.0 if at(obj, *path) is None else _quantity(obj, *path).nano / NANO


def _selector(selector: Any) -> LabelSelector | None:
    try:
        return parse_label_selector(selector)
    except InvalidSelector as error:
        raise InvalidObject(str(error)) from None


class ResourceTransformation(NamedTuple):
    """What replaces a resource in requests, or stands beside it. `outputs`: by resource, in billionths for one unit.

    `multiply_by`: a resource by whose amount the input is multiplied first; None without one.
    """

    outputs: Mapping[str, int]
    is_retained: bool
    multiply_by: str | None


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of Kueue's manager. `preemption_strategies`: of fair sharing, empty for the default.

    `managed_namespaces`: where Kueue also manages Jobs without a queue; None for nowhere.
    """

    is_fair_sharing: bool = False
    preemption_strategies: tuple[str, ...] = ()
    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, ResourceTransformation] = field(default_factory=dict)
    managed_namespaces: LabelSelector | None = None
    not_modelled: str | None = None

    @classmethod
    def from_api(cls, obj: ApiObject) -> Configuration:
        """Read an object of config.kueue.x-k8s.io, v1beta2 or v1beta1. Raises InvalidObject."""
        transformations = items(obj, "resources", "transformations")
        return cls(
            is_fair_sharing=_is_enabled(obj, "fairSharing"),
            preemption_strategies=strings(obj, "fairSharing", "preemptionStrategies"),
            excluded_prefixes=strings(obj, "resources", "excludeResourcePrefixes"),
            transformations={text(each, "input"): _transformation(each) for each in transformations},
            managed_namespaces=_managed_namespaces(obj),
            not_modelled=_not_modelled_in(obj),
        )


def _managed_namespaces(obj: ApiObject) -> LabelSelector | None:
    """Source: `SetDefaults_Configuration`."""
    if at(obj, "manageJobsWithoutQueueName") is not True:
        return None
    excluded = ["kube-system", text(obj, "namespace") or "kueue-system"]
    default = {"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": excluded}]}
    selector = at(obj, "managedJobsNamespaceSelector")
    with within(obj, "managedJobsNamespaceSelector"):
        return _selector(default if selector is None else selector)


def _is_enabled(obj: ApiObject, name: str) -> bool:
    """Report whether a feature is on: since v1beta2 if its field is there, before by `enable`."""
    if text(obj, "apiVersion").endswith("/v1beta1"):
        return at(obj, name, "enable") is True
    return at(obj, name) is not None


def _not_modelled_in(obj: ApiObject) -> str | None:
    if _is_enabled(obj, "waitForPodsReady"):
        return "WaitForPodsReady"
    if at(obj, "admissionFairSharing") is not None:
        return "admission fair sharing"
    if text(obj, "resources", "quotaCheckStrategy") == "IgnoreUndeclared":
        return "quotaCheckStrategy IgnoreUndeclared"
    frameworks = strings(obj, "integrations", "frameworks")
    if frameworks and "batch/job" not in frameworks:
        return "integrations without batch/job"
    return next((f"Kueue's feature gate {name}" for name in sorted(mapping(obj, "featureGates"))), None)


def _transformation(obj: ApiObject) -> ResourceTransformation:
    outputs = {name: _quantity(obj, "outputs", name).nano for name in mapping(obj, "outputs")}
    is_retained = (text(obj, "strategy") or "Retain") == "Retain"
    return ResourceTransformation(outputs, is_retained, text(obj, "multiplyBy") or None)
