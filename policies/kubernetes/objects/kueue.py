"""Kueue's kinds, in the versions v1beta2 and v1beta1 of its API, with the defaults of its CRDs; amounts of
quota, which saturate at 64 bits.

Source: kueue apis/kueue, pkg/resources (amount.go), pkg/cache/scheduler/resource.go.
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
from forewarn.policies.kubernetes.objects.pod import Owner
from forewarn.policies.kubernetes.objects.pod_resources import requests_in_spec
from forewarn.policies.kubernetes.objects.view import NAME, Namespaced, View, by, text_or_default
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
_PREEMPTION: Final = ("spec", "preemption")
_BORROW: Final = (*_PREEMPTION, "borrowWithinCohort")
_FUNGIBILITY: Final = ("spec", "flavorFungibility")


def saturated(number: int) -> Amount:
    """Return the number, limited to the range of 64-bit integers."""
    return max(-UNLIMITED - 1, min(number, UNLIMITED))


def amount_from_quantity(resource: str, quantity: Quantity) -> Amount:
    """Return the amount of a quantity. Source: `AmountFromQuantity`, `ResourceValue`."""
    return saturated(quantity.milli_value if resource == _CPU else quantity.value)


class FlavorResource(NamedTuple):
    """A resource in a ResourceFlavor. `flavor`: "" if none is assigned."""

    flavor: str
    resource: str


_NAMESPACE: Final = by(text_or_default, "metadata", "namespace", default="default")
_STOP_POLICY: Final = by(text_or_default, "spec", "stopPolicy", default=NONE)


@dataclass(frozen=True, slots=True)
class ResourceFlavor(View):
    """A ResourceFlavor. `topology`: the name of its Topology, "" without one."""

    name: str = field(metadata=NAME)
    labels: Mapping[str, str] = field(metadata=by(string_map, "spec", "nodeLabels"))
    taints: tuple[Taint, ...] = field(metadata=by(read_taints, "spec", "nodeTaints"))
    tolerations: tuple[Toleration, ...] = field(metadata=by(read_tolerations, "spec", "tolerations"))
    topology: str = field(metadata=by(text, "spec", "topologyName"))


class ResourceQuota(NamedTuple):
    """The quota of a resource in a flavor. None: no limit."""

    nominal: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class ResourceGroup(NamedTuple):
    """Resources of a ClusterQueue that get the same flavor, and these flavors in order."""

    covered_resources: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption(View):
    """The preemption policies of a ClusterQueue. `max_priority_threshold`: of `borrowWithinCohort`."""

    within_cluster_queue: str = field(metadata=by(text_or_default, *_PREEMPTION, "withinClusterQueue", default=NEVER))
    reclaim_within_cohort: str = field(metadata=by(text_or_default, *_PREEMPTION, "reclaimWithinCohort", default=NEVER))
    borrow_within_cohort: str = field(metadata=by(text_or_default, *_BORROW, "policy", default=NEVER))
    max_priority_threshold: int | None = field(metadata=by(int32, *_BORROW, "maxPriorityThreshold"))


@dataclass(frozen=True, slots=True)
class FlavorFungibility(View):
    """When a ClusterQueue tries the next flavor. `preference`: "" for the default."""

    when_can_borrow: str = field(metadata=by(text, *_FUNGIBILITY, "whenCanBorrow"))
    when_can_preempt: str = field(
        metadata=by(text_or_default, *_FUNGIBILITY, "whenCanPreempt", default=TRY_NEXT_FLAVOR)
    )
    preference: str = field(metadata=by(text, *_FUNGIBILITY, "preference"))


@dataclass(frozen=True, slots=True)
class ClusterQueue(View):
    """A ClusterQueue. `cohort`: "" without one. `namespace_selector`: None selects no namespace."""

    name: str = field(metadata=NAME)
    cohort: str = field(metadata=by(lambda obj: text(obj, "spec", "cohortName") or text(obj, "spec", "cohort")))
    resource_groups: tuple[ResourceGroup, ...] = field(metadata=by(lambda obj: _resource_groups(obj)))
    quotas: Mapping[FlavorResource, ResourceQuota] = field(metadata=by(lambda obj: _quotas(obj)))
    is_strict_fifo: bool = field(metadata=by(lambda obj: text(obj, "spec", "queueingStrategy") == STRICT_FIFO))
    namespace_selector: LabelSelector | None = field(metadata=by(lambda obj: _namespace_selector(obj)))
    preemption: Preemption = field(metadata=by(Preemption.from_api))
    flavor_fungibility: FlavorFungibility = field(metadata=by(FlavorFungibility.from_api))
    fair_weight: float = field(metadata=by(lambda obj: _fair_weight(obj)))
    stop_policy: str = field(metadata=_STOP_POLICY)
    admission_checks: tuple[str, ...] = field(metadata=by(lambda obj: _admission_checks(obj)))

    @property
    def flavors(self) -> Iterator[str]:
        return (flavor for group in self.resource_groups for flavor in group.flavors)


@dataclass(frozen=True, slots=True)
class Cohort(View):
    """A Cohort: ClusterQueues and Cohorts that lend quota to each other. `parent`: "" for a root."""

    name: str = field(metadata=NAME)
    parent: str = field(
        default="", metadata=by(lambda obj: text(obj, "spec", "parentName") or text(obj, "spec", "parent"))
    )
    quotas: Mapping[FlavorResource, ResourceQuota] = field(default_factory=dict, metadata=by(lambda obj: _quotas(obj)))
    fair_weight: float = field(default=1.0, metadata=by(lambda obj: _fair_weight(obj)))


@dataclass(frozen=True, slots=True)
class LocalQueue(Namespaced, View):
    """A LocalQueue: where Jobs of a namespace enter a ClusterQueue."""

    namespace: str = field(metadata=_NAMESPACE)
    name: str = field(metadata=NAME)
    cluster_queue: str = field(metadata=by(text, "spec", "clusterQueue"))
    stop_policy: str = field(metadata=_STOP_POLICY)


@dataclass(frozen=True, slots=True)
class WorkloadPriorityClass(View):
    """A WorkloadPriorityClass, whose value orders Workloads in Kueue, not Pods."""

    name: str = field(metadata=NAME)
    value: int = field(metadata=by(lambda obj: int32(obj, "value") or 0))


def _requests(pod_set: ApiObject) -> dict[str, Amount]:
    return requests_of_pod(mapping(pod_set, "template", "spec"))


@dataclass(frozen=True, slots=True)
class PodSet(View):
    """Pods of a Workload with the same template: `spec`, with `requests` of one Pod.

    `min_count`: None without partial admission.
    """

    name: str = field(metadata=by(text_or_default, "name", default="main"))
    count: int = field(metadata=by(lambda obj: 1 if (count := int32(obj, "count")) is None else count))
    min_count: int | None = field(metadata=by(int32, "minCount"))
    spec: ApiObject = field(metadata=by(mapping, "template", "spec"))
    requests: Mapping[str, Amount] = field(metadata=by(_requests))


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
class Workload(Namespaced):
    """A Workload of Kueue.

    `created`: in seconds since 1970. `owner`: `group/Kind` and name of its controller. `reserved_at`: when its quota
    was reserved; None without quota. `is_evicted`: it holds quota, but is being preempted. `queued_since`: its time in
    the order of the queue. `is_queueable`: it may wait in a queue if it has no quota. `requeue_at`: when it may enter
    the queue again, or None. `message`: why it waits, according to its status. `not_modelled`: a feature that it uses
    and forewarn does not model.
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
            namespace=text_or_default(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            uid=text(obj, "metadata", "uid"),
            created=created,
            queue_name=text(obj, "spec", "queueName"),
            priority=int32(obj, "spec", "priority") or 0,
            is_active=at(obj, "spec", "active") is not False and not is_finished,
            pod_sets=tuple(map(PodSet.from_api, items(obj, "spec", "podSets"))),
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
    """Return a feature of the Workload that forewarn does not model; None if there is none."""
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


def requests_of_pod(spec: ApiObject) -> dict[str, Amount]:
    """Return the requests of one Pod. Raises InvalidObject."""
    total = requests_in_spec({"kind": "Pod", "spec": spec})
    return {name: amount_from_quantity(name, quantity) for name, quantity in total.items()}


def _admission(obj: ApiObject) -> Admission:
    path = ("status", "admission")
    pod_sets = []
    for index, each in enumerate(items(obj, *path, "podSetAssignments")):
        with within(obj, *path, "podSetAssignments", index):
            usage = {name: _amount(each, name, "resourceUsage", name) for name in mapping(each, "resourceUsage")}
            flavors = string_map(each, "flavors")
            pod_sets.append(PodSetAssignment(text(each, "name") or "main", flavors, usage, int32(each, "count")))
    return Admission(text(obj, *path, "clusterQueue"), tuple(pod_sets))


def _resource_groups(obj: ApiObject) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            frozenset(strings(group, "coveredResources")),
            tuple(text(flavor, "name") for flavor in items(group, "flavors")),
        )
        for group in items(obj, "spec", "resourceGroups")
    )


def _admission_checks(obj: ApiObject) -> tuple[str, ...]:
    checks = objects_at(obj, "spec", "admissionChecksStrategy", "admissionChecks")
    return (*strings(obj, "spec", "admissionChecks"), *(text_at(check, "name") for check in checks))


def _namespace_selector(obj: ApiObject) -> LabelSelector | None:
    with within(obj, "spec", "namespaceSelector"):
        return _selector(mapping(obj, "spec").get("namespaceSelector"))


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
    """The resources that replace a requested resource, or are added to it (`is_retained`). `outputs`: resource ->
    billionths for each unit of the input.

    `multiply_by`: the input is first multiplied by the requested amount of this resource; None without one.
    """

    outputs: Mapping[str, int]
    is_retained: bool
    multiply_by: str | None


@dataclass(frozen=True, slots=True)
class Configuration(View):
    """The configuration of Kueue's manager: an object of config.kueue.x-k8s.io, v1beta2 or v1beta1.

    `preemption_strategies`: of fair sharing, empty for the default. `managed_namespaces`: selects where Kueue also
    manages Jobs without a queue; None: nowhere.
    """

    is_fair_sharing: bool = field(default=False, metadata=by(lambda obj: _is_enabled(obj, "fairSharing")))
    preemption_strategies: tuple[str, ...] = field(
        default=(), metadata=by(strings, "fairSharing", "preemptionStrategies")
    )
    excluded_prefixes: tuple[str, ...] = field(default=(), metadata=by(strings, "resources", "excludeResourcePrefixes"))
    transformations: Mapping[str, ResourceTransformation] = field(
        default_factory=dict, metadata=by(lambda obj: _transformations(obj))
    )
    managed_namespaces: LabelSelector | None = field(default=None, metadata=by(lambda obj: _managed_namespaces(obj)))
    not_modelled: str | None = field(default=None, metadata=by(lambda obj: _not_modelled_in(obj)))


def _managed_namespaces(obj: ApiObject) -> LabelSelector | None:
    """Return the selector of namespaces in which Kueue manages Jobs without a queue; None without
    manageJobsWithoutQueueName.

    Source: `SetDefaults_Configuration`.
    """
    if at(obj, "manageJobsWithoutQueueName") is not True:
        return None
    excluded = ["kube-system", text(obj, "namespace") or "kueue-system"]
    default = {"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": excluded}]}
    selector = at(obj, "managedJobsNamespaceSelector")
    with within(obj, "managedJobsNamespaceSelector"):
        return _selector(default if selector is None else selector)


def _is_enabled(obj: ApiObject, name: str) -> bool:
    """Report whether a feature is enabled: in v1beta1 by `enable`, since v1beta2 by the presence of its field."""
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


def _transformations(obj: ApiObject) -> dict[str, ResourceTransformation]:
    return {text(each, "input"): _transformation(each) for each in items(obj, "resources", "transformations")}


def _transformation(obj: ApiObject) -> ResourceTransformation:
    outputs = {name: _quantity(obj, "outputs", name).nano for name in mapping(obj, "outputs")}
    is_retained = (text(obj, "strategy") or "Retain") == "Retain"
    return ResourceTransformation(outputs, is_retained, text(obj, "multiplyBy") or None)


PODS: Final = "pods"
Quantities = dict[FlavorResource, Amount]
"""Upstream's `FlavorResourceQuantities`."""


def add(one: Amount, other: Amount) -> Amount:
    """Return the sum; UNLIMITED if one of the amounts is. Source: `Amount.Add`."""
    return UNLIMITED if UNLIMITED in (one, other) else saturated(one + other)


def sub(one: Amount, other: Amount) -> Amount:
    """Return the difference; 0 if both are UNLIMITED. Any other amount minus UNLIMITED is the lowest 64-bit integer.

    Source: `Amount.Sub`.
    """
    if one == UNLIMITED:
        return 0 if other == UNLIMITED else UNLIMITED
    return -UNLIMITED - 1 if other == UNLIMITED else saturated(one - other)


def amount_as_text(resource: str, amount: Amount) -> str:
    """Return an amount as Kueue prints it. Source: `ResourceFormatter.AmountQuantityString`."""
    if amount == UNLIMITED:
        return "<unlimited>"
    return str(Quantity(amount * (NANO // 1000 if resource == "cpu" else NANO)))


def scaled_to(requests: dict[str, Amount], count: int, new_count: int) -> dict[str, Amount]:
    """Return the requests of `count` Pods for another number of Pods, with Go's integer division.

    Source: `MapRequests.Divide`, `MapRequests.Mul`.
    """
    return {name: saturated(amount // count * new_count) for name, amount in requests.items()} if count else requests
