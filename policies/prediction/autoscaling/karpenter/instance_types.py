"""Instance types with their offerings, which of them remain for a NodeClaim, and NodePools with the template of their
nodes.

Sources: pkg/cloudprovider/types.go, provisioning/scheduling/nodeclaim.go, reservationmanager.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    boolean,
    int32,
    items,
    mapping,
    sequence,
    string_map,
    strings,
    text,
)
from forewarn.policies.kubernetes.objects.node import Taint
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY, ExactAmounts, read_resource_list
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.prediction.autoscaling import NotPredicted
from forewarn.policies.prediction.autoscaling.karpenter import requirements as label
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    NODE_POOL,
    SIMULATED,
    Requirement,
    Requirements,
    fits,
    sum_of,
    texts,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import HostPort


MAX_INSTANCE_TYPES: Final = 5_000
MAX_OFFERINGS: Final = 50_000
"""Maximum number of offerings of all instance types."""
LAUNCHED: Final = 600
"""Maximum number of instance types of a NodeClaim. Source: MaxInstanceTypes."""
_UNITS: Final = 20
"""Units of work to compare the requirements of an instance type."""
NO_PRICE: Final = float("inf")
_MEGA: Final = 10**6 * NANO
Entry = TypeVar("Entry")


class Offering(NamedTuple):
    """Where and how an instance type is available. `capacity`: that of the reservation, if any."""

    requirements: Requirements
    price: float
    reservation: str
    capacity: int

    @property
    def zone(self) -> str:
        return next(iter(self.requirements[label.ZONE].values))

    @property
    def capacity_type(self) -> str:
        return next(iter(self.requirements[label.CAPACITY_TYPE].values))

    def suits(self, requirements: Requirements) -> bool:
        return requirements.compatible(self.requirements, label.WELL_KNOWN) is None


@dataclass(frozen=True, eq=False)
class InstanceType:
    """An instance type. `offerings`: those that are available. `reservations`: includes those of unavailable offerings.

    `node_pools`: NodePools that may use it; None for all.
    """

    name: str
    requirements: Requirements
    capacity: ExactAmounts
    allocatable: ExactAmounts
    offerings: tuple[Offering, ...]
    reservations: Mapping[str, int] = field(default_factory=dict)
    node_pools: frozenset[str] | None = None

    def without(self, labels: Mapping[str, str]) -> InstanceType:
        """Return the instance type without the offerings that have all these labels."""
        left = [
            o for o in self.offerings if any(value not in o.requirements.on(k).values for k, value in labels.items())
        ]
        requirements = self.requirements.copy()
        requirements[label.ZONE] = Requirement.from_entry(label.ZONE, "In", {o.zone for o in left})
        requirements[label.CAPACITY_TYPE] = Requirement.from_entry(
            label.CAPACITY_TYPE, "In", {o.capacity_type for o in left}
        )
        return replace(self, requirements=requirements, offerings=tuple(left))

    def is_of(self, pool: str) -> bool:
        """Report whether a NodePool can launch the type."""
        return self.node_pools is None or pool in self.node_pools

    @cached_property
    def has_reserved(self) -> bool:
        return any(offering.capacity_type == label.RESERVED for offering in self.offerings)

    def price(self, requirements: Requirements) -> float:
        return min((o.price for o in self.offerings if o.suits(requirements)), default=NO_PRICE)

    def suits(self, requirements: Requirements) -> tuple[bool, bool]:
        """Report whether the labels fulfil the requirements, and whether an offering does."""
        charge(_UNITS + len(self.offerings))
        offered = any(offering.suits(requirements) for offering in self.offerings)
        return self.requirements.conflict(requirements) is None, offered


def read_instance_types(obj: ApiObject, *path: str) -> list[InstanceType]:
    """Read a list of instance types in the form of recorded cases. Raises InvalidObject and NotPredicted."""
    entries = limited(list(items(obj, *path)), MAX_INSTANCE_TYPES, "instance types")
    limited([offering for entry in entries for offering in sequence(entry, "offerings")], MAX_OFFERINGS, "offerings")
    types = [_instance_type(entry) for entry in entries]
    if len({type_.name for type_ in types if type_.node_pools is None}) != sum(t.node_pools is None for t in types):
        raise NotPredicted("two instance types have the same name")
    return types


def limited(entries: Sequence[Entry], limit: int, what: str) -> Sequence[Entry]:
    """Return the entries of a list. Raises NotPredicted if there are too many."""
    if len(entries) > limit:
        raise NotPredicted(f"{len(entries)} {what}; forewarn evaluates at most {limit}")
    return entries


def _instance_type(entry: ApiObject) -> InstanceType:
    name = text(entry, "name")
    requirements = Requirements(
        Requirement.from_entry(key, "In", _values(entry, key)) for key in mapping(entry, "requirements")
    )
    for key, default in ((label.ARCH, "amd64"), (label.OS, "linux")):
        requirements.setdefault(key, Requirement.from_entry(key, "In", (default,)))
    offerings = [(_offering(offering), boolean(offering, "available")) for offering in items(entry, "offerings")]
    available = tuple(offering for offering, usable in offerings if usable)
    requirements[label.INSTANCE_TYPE] = Requirement.from_entry(label.INSTANCE_TYPE, "In", (name,))
    requirements[label.ZONE] = Requirement.from_entry(label.ZONE, "In", {o.zone for o in available})
    requirements[label.CAPACITY_TYPE] = Requirement.from_entry(
        label.CAPACITY_TYPE, "In", {o.capacity_type for o in available}
    )
    reserved = [(o.reservation, o.capacity) for o, _ in offerings if o.capacity_type == label.RESERVED]
    if any(o.capacity_type == label.RESERVED for o in available):
        requirements[label.RESERVATION_ID] = Requirement.from_entry(
            label.RESERVATION_ID, "In", {o.reservation for o in available} - {""}
        )
    capacity = read_resource_list(entry, "capacity")
    reservations: dict[str, int] = {}
    for reservation, number in reserved:
        reservations[reservation] = min(number, reservations.get(reservation, number))
    return InstanceType(
        name=name,
        requirements=requirements,
        capacity=capacity,
        allocatable=_allocatable(capacity, read_resource_list(entry, "overhead")),
        offerings=available,
        reservations=reservations,
        node_pools=None if entry.get("nodepools") is None else frozenset(strings(entry, "nodepools")),
    )


def _values(entry: ApiObject, key: str) -> tuple[str, ...]:
    value = at(entry, "requirements", key)
    return (value,) if isinstance(value, str) else strings(entry, "requirements", key)


def _offering(offering: ApiObject) -> Offering:
    zone, capacity_type, reservation = (text(offering, key) for key in ("zone", "capacityType", "reservationId"))
    price, capacity = offering.get("price", 0), offering.get("reservationCapacity", 0)
    if not isinstance(price, int | float) or not isinstance(capacity, int) or not zone or not capacity_type:
        raise InvalidObject("must have zone, capacityType, price and reservationCapacity", ("offerings",))
    return Offering(_requirements(zone, capacity_type, reservation), price, reservation, capacity)


@lru_cache(maxsize=4096)
def _requirements(zone: str, capacity_type: str, reservation: str) -> Requirements:
    """Return the requirements that all offerings of the same kind share."""
    reserved = {label.RESERVATION_ID: reservation} if capacity_type == label.RESERVED else {}
    return Requirements.from_labels({label.ZONE: zone, label.CAPACITY_TYPE: capacity_type, **reserved})


def _allocatable(capacity: ExactAmounts, overhead: ExactAmounts) -> ExactAmounts:
    """Return capacity minus overhead; huge pages also reduce memory. Source: `computeAllocatable`."""
    allocatable = {name: amount - overhead.get(name, 0) for name, amount in capacity.items()}
    for name, amount in capacity.items():
        if name.startswith("hugepages-"):
            allocatable[MEMORY] = max(allocatable.get(MEMORY, 0) - amount, 0)
    return allocatable


@dataclass(slots=True, eq=False)
class DaemonGroup:
    """Instance types on which the same DaemonSet Pods run: the requests and host ports of these Pods.

    `ports`: (Pod, its host ports) of all Pods on the NodeClaim.
    """

    instance_types: list[InstanceType]
    requests: ExactAmounts
    ports: list[tuple[str, tuple[HostPort, ...]]]


@dataclass(slots=True)
class Filtered:
    """The instance types that remain, or why none remains (upstream InstanceTypeFilterError).

    `met`: which of the criteria (requirements, resources, offering) at least one instance type met; `pairs`: which
    pairs of criteria one instance type met without the third. `unsatisfied`: keys with minValues -> the number of
    values. `suitable`: a cache of `InstanceType.suits` for these requirements.
    """

    requirements: Requirements
    requests: ExactAmounts
    suitable: dict[InstanceType, tuple[bool, bool]]
    remaining: list[InstanceType] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    missed_alone: set[str] = field(default_factory=set)
    daemons: list[ExactAmounts] = field(default_factory=list)
    unsatisfied: dict[str, int] = field(default_factory=dict)
    min_values_problem: str = ""

    def check(self, candidate: InstanceType, requests: ExactAmounts) -> None:
        """Check one instance type, and record which criteria it meets. `requests`: those of all Pods on the node."""
        requirements, offering = cached_in(self.suitable, candidate, lambda: candidate.suits(self.requirements))
        resources = offering and fits(requests, candidate.allocatable)
        if requirements and resources and offering:
            self.remaining.append(candidate)
        criteria = {_REQUIREMENTS: requirements, _RESOURCES: resources, _OFFERING: offering}
        missed = [name for name, is_met in criteria.items() if not is_met]
        self.met.update(criteria.keys() - missed)
        if len(missed) == 1:
            self.missed_alone.update(missed)

    def explanation(self) -> str:
        """Return upstream's message for a Pod without an instance type."""
        where = f", requirements={self.requirements}, resources={self._resources()}"
        if self.min_values_problem:
            return self.min_values_problem + where
        missed = [criterion for criterion in _FAILURES if criterion not in self.met]
        if not missed:
            return next((message for alone, message in _PAIRS if alone in self.missed_alone), _TUPLE) + where
        typo = missed == [_RESOURCES] and self.requests.get(CPU, 0) >= _MEGA
        why = " or ".join(_FAILURES[criterion][len(missed) == 1] for criterion in missed)
        return f"no instance type {why}{where}" + (" (CPU request >= 1 Million, m vs M typo?)" if typo else "")

    def _resources(self) -> str:
        daemons = [amounts for amounts in self.daemons if amounts]
        bounds = []
        for bound in (min, max):
            names = set().union(*daemons) if bound is max else set.intersection(*map(set, daemons)) if daemons else ()
            amounts = {name: bound(d[name] for d in daemons if name in d) for name in names}
            bounds.append(json.dumps(texts(sum_of((amounts, self.requests))), separators=(",", ":")))
        return bounds[0] if bounds[0] == bounds[1] else f"min={bounds[0]}, max={bounds[1]}"


_REQUIREMENTS: Final = "requirements"
_RESOURCES: Final = "resources"
_OFFERING: Final = "offering"
_FAILURES: Final = {
    _REQUIREMENTS: ("met the scheduling requirements", "met all requirements"),
    _RESOURCES: ("had enough resources", "has enough resources"),
    _OFFERING: ("had a required offering", "has the required offering"),
}
"""Criterion -> the text if no instance type meets it, nor another criterion; the text if it is the only one."""
_WHICH: Final = "no instance type which"
_REQUIRED: Final = "met the scheduling requirements"
_PAIRS: Final = (
    (_OFFERING, f"{_WHICH} {_REQUIRED} and had enough resources, had a required offering"),
    (_REQUIREMENTS, f"{_WHICH} had enough resources and the required offering {_REQUIRED}"),
    (_RESOURCES, f"{_WHICH} {_REQUIRED} and the required offering had the required resources"),
)
_TUPLE: Final = "no instance type met the requirements/resources/offering tuple"


def filtered(
    eligible: Sequence[InstanceType],
    requirements: Requirements,
    groups: Sequence[DaemonGroup],
    requests: tuple[ExactAmounts, ExactAmounts],
    suitable: dict[InstanceType, tuple[bool, bool]],
    *,
    relax_min_values: bool,
) -> Filtered:
    """Return the instance types that fit. Source: `filterInstanceTypesByRequirements`.

    `groups`: those whose host ports the Pod can use. `requests`: (those of the Pod, those of all Pods on the
    NodeClaim). `suitable`: a cache for these requirements.
    """
    charge(len(eligible))
    result = Filtered(requirements, requests[0], suitable)
    usable = set(eligible)
    for group in groups:
        total = requests[1]
        if group.requests:
            result.daemons.append(group.requests)
            total = sum_of((total, group.requests))
        for candidate in group.instance_types:
            if candidate in usable:
                result.check(candidate, total)
    if requirements.has_min_values:
        result.unsatisfied = unsatisfied_min_values(result.remaining, requirements)
        if result.unsatisfied and not relax_min_values:
            result.min_values_problem = min_values_text(result.unsatisfied)
            result.remaining = []
    return result


def unsatisfied_min_values(types: Sequence[InstanceType], requirements: Requirements) -> dict[str, int]:
    """Return label -> its number of values, for labels that do not meet minValues. Source: `SatisfiesMinValues`."""
    wanted = {key: r.min_values for key, r in requirements.items() if r.min_values is not None}
    values = {key: set().union(*(t.requirements.on(key).values for t in types)) for key in wanted} if types else {}
    return {key: len(values[key]) for key in values if len(values[key]) < wanted[key]}


def min_values_text(unsatisfied: Iterable[str]) -> str:
    """Return upstream's message for minValues that are not met."""
    return f"minValues requirement is not met for label(s) (label(s)=[{' '.join(sorted(unsatisfied))}])"


class Reservations:
    """Counts the NodeClaims that may still use each capacity reservation; Pods wait for a reservation
    (ReservedOfferingModeStrict). Source: reservationmanager.go.
    """

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self._capacity: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}
        for type_ in types:
            for name, capacity in type_.reservations.items():
                self._capacity[name] = min(capacity, self._capacity.get(name, capacity))

    def available(self, hostname: str, offering: Offering) -> bool:
        return offering.reservation in self._held.get(hostname, ()) or self._capacity[offering.reservation] != 0

    def hold(self, hostname: str, offerings: Iterable[Offering]) -> None:
        """Reserve exactly these offerings for a NodeClaim."""
        held, wanted = self._held.get(hostname, set()), {offering.reservation for offering in offerings}
        for name in wanted - held:
            self._capacity[name] -= 1
        for name in held - wanted:
            self._capacity[name] += 1
        self._held[hostname] = wanted


NODES: Final = "nodes"
"""The resource that limits the number of nodes."""
MAX_NODE_POOLS: Final = 500
MAX_REQUIREMENTS: Final = 100
"""Maximum number of requirements of a NodePool, as in Karpenter's CustomResourceDefinition."""
MAX_VALUES: Final = 5_000
"""Maximum number of values of a requirement."""
MAX_TAINTS: Final = 500


@dataclass(frozen=True, slots=True, eq=False)
class NodePool:
    """A NodePool. `requirements`: those of its nodes, including labels. `template`: `requirements` and the labels that
    Karpenter adds.

    `limits`: None without limits.
    """

    name: str
    weight: int
    requirements: Requirements
    template: Requirements
    taints: tuple[Taint, ...]
    limits: ExactAmounts | None


def read_node_pools(node_pools: Iterable[ApiObject]) -> list[NodePool]:
    """Return the NodePools that may add nodes, the preferred one first. Raises InvalidObject and NotPredicted."""
    usable = [read_node_pool(obj) for obj in limited(list(node_pools), MAX_NODE_POOLS, "NodePools") if _usable(obj)]
    return sorted(sorted(usable, key=lambda pool: pool.name, reverse=True), key=lambda pool: -pool.weight)


def _usable(obj: ApiObject) -> bool:
    """Report whether a NodePool is ready, dynamic and not deleted. One without conditions counts as ready."""
    conditions = list(items(obj, "status", "conditions"))
    ready = [condition.get("status") == "True" for condition in conditions if condition.get("type") == "Ready"]
    dynamic = at(obj, "spec", "replicas") is None
    return dynamic and (not conditions or any(ready)) and at(obj, "metadata", "deletionTimestamp") is None


def read_node_pool(obj: ApiObject) -> NodePool:
    """Read a NodePool. Raises InvalidObject and NotPredicted."""
    name, template = text(obj, "metadata", "name"), mapping(obj, "spec", "template")
    labels = string_map(template, "metadata", "labels")
    requirements = Requirements(_requirements_of_template(template, name))
    requirements.add(Requirements.from_labels(labels).values())
    own = Requirements(requirements.values())
    reference = {key: text(template, "spec", "nodeClassRef", key) for key in ("group", "kind", "name")}
    class_label = f"{reference['group']}/{reference['kind'].lower()}"
    own.add(Requirements.from_labels({NODE_POOL: name, class_label: reference["name"]}).values())
    own.add(Requirement.from_entry(key, "In", ("true",)) for key in SIMULATED)
    taints = limited(list(items(template, "spec", "taints")), MAX_TAINTS, f"taints of NodePool {name}")
    return NodePool(
        name=name,
        weight=int32(obj, "spec", "weight") or 0,
        requirements=requirements,
        template=own,
        taints=tuple(Taint(text(t, "key"), text(t, "value"), text(t, "effect")) for t in taints),
        limits=None if at(obj, "spec", "limits") is None else read_resource_list(obj, "spec", "limits"),
    )


def _requirements_of_template(template: ApiObject, name: str) -> Iterator[Requirement]:
    what = f"requirements of NodePool {name}"
    for entry in limited(list(items(template, "spec", "requirements")), MAX_REQUIREMENTS, what):
        operator = text(entry, "operator")
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"):
            raise NotPredicted(f"NodePool {name}: operator {operator!r} is not known")
        values = limited(strings(entry, "values"), MAX_VALUES, f"values in {what}")
        yield Requirement.from_entry(text(entry, "key"), operator, values, int32(entry, "minValues"))
