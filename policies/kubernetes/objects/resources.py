"""Amounts by resource name: in kube-scheduler's units (kubernetes `pkg/scheduler/framework/types.go`), exact ones in
billionths, and the arithmetic of ResourceQuotas with them (apiserver `pkg/quota/v1/resources.go`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import FEW, charge, meter
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, mapping, ref_of
from forewarn.policies.kubernetes.quantity import NANO, ZERO, InvalidQuantity, Quantity, parse_quantity

Amount = TypeVar("Amount", int, Quantity)
ExactAmounts = dict[str, int]
"""Resource name -> exact amount in billionths."""
ResourceList = Mapping[str, Quantity]
"""Resource names to amounts, in thousandths as the API server stores them."""


def resource_list(obj: ApiObject, *path: str | int) -> dict[str, Quantity]:
    """Return the amounts at a path, rounded up to thousandths as stored; empty if absent. Raises InvalidObject."""
    return rounded(amounts_at(obj, *path))


def amounts_at(obj: ApiObject, *path: str | int, accept_negative: bool = True) -> dict[str, Quantity]:
    """Return the amounts at a path as written, not rounded; empty if absent or null. Raises InvalidObject."""
    work = meter()
    amounts = {}
    for name, value in mapping(obj, *path).items():
        work.charge(2)
        try:
            quantity = amounts[name] = parse_quantity(value)
        except InvalidQuantity as error:
            raise InvalidObject(f"{value!r}: {error}", (*path, name), ref_of(obj)) from None
        if quantity.nano < 0 and not accept_negative:
            raise InvalidObject(f"{value} is negative", (*path, name), ref_of(obj))
    return amounts


def to_nano(resources: ResourceList) -> dict[str, int]:
    """Return the amounts in billionths."""
    return {name: quantity.nano for name, quantity in resources.items()}


def rounded(resources: ResourceList) -> dict[str, Quantity]:
    """Return the amounts rounded up to thousandths, as the API server stores them (`SetDefaults_ResourceList`)."""
    if len(resources) > FEW:
        charge(len(resources) // 4)
    return {name: quantity.round_up_to_milli() for name, quantity in resources.items()}


def add(first: ResourceList, second: ResourceList) -> dict[str, Quantity]:
    """Return the sum of both amounts for each resource name (upstream `Add`)."""
    total = dict(first)
    add_to(total, second)
    return total


def add_to(amounts: dict[str, Amount], more: Mapping[str, Amount]) -> None:
    """Add amounts in place."""
    if len(more) > FEW:
        charge(len(more) // 8)
    for name, amount in more.items():
        amounts[name] = amounts[name] + amount if name in amounts else amount


def subtract_to_zero(first: ResourceList, second: ResourceList) -> dict[str, Quantity]:
    """Return `first` minus `second` for each resource name, at least 0 (upstream `SubtractWithNonNegativeResult`)."""
    if len(first) + len(second) > FEW:
        charge(len(second) // 32 + len(first) // 2)
    rest = {name: quantity - second.get(name, ZERO) for name, quantity in first.items()}
    return {name: quantity if quantity.nano > 0 else ZERO for name, quantity in rest.items()}


def mask(resources: ResourceList, names: Collection[str]) -> dict[str, Quantity]:
    """Return only the amounts of these resource names (upstream `Mask`)."""
    return {name: quantity for name, quantity in resources.items() if name in names}


def without_zeros(resources: ResourceList) -> dict[str, Quantity]:
    """Return only the amounts that are not zero (upstream `RemoveZeros`)."""
    return {name: quantity for name, quantity in resources.items() if quantity}


def exceeded(used: ResourceList, hard: ResourceList) -> list[str]:
    """Return the sorted names of resources of which more is used than allowed (upstream `LessThanOrEqual`)."""
    return sorted(name for name, limit in hard.items() if name in used and limit < used[name])


def text(resources: ResourceList) -> str:
    """Return the amounts as text, such as `cpu=1,pods=2` (upstream `prettyPrint`)."""
    return ",".join(f"{name}={quantity}" for name, quantity in sorted(resources.items()))


CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES: Final = "hugepages-"
_INT64_MAX: Final = 2**63 - 1
_QUALIFIED: Final = later(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class Resource(NamedTuple):
    """Amounts in kube-scheduler's units: cpu in thousandths, others in units, each rounded up once per Pod."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalars: Mapping[str, int] = NOTHING


def as_resource(amounts: ExactAmounts) -> Resource:
    """Return the amounts (in billionths) in kube-scheduler's units. Source: upstream `Resource.Add`."""
    if len(amounts) > FEW:
        charge(len(amounts))
    return Resource(
        milli_cpu=_milli(amounts.get(CPU, 0)),
        memory=_units(amounts.get(MEMORY, 0)),
        ephemeral_storage=_units(amounts.get(EPHEMERAL_STORAGE, 0)),
        allowed_pod_number=_units(amounts.get(PODS, 0)),
        scalars={name: _units(amount) for name, amount in amounts.items() if is_scalar_resource_name(name)},
    )


def is_scalar_resource_name(name: str) -> bool:
    """Report whether it is extended, hugepages, `*kubernetes.io/` or attachable-volumes. Source: scheduler/util."""
    if name.startswith((HUGE_PAGES, "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return not name.startswith("requests.") and len(name) <= 253 and _QUALIFIED.fullmatch(name) is not None


def read_resource_list(obj: ApiObject, *path: str) -> ExactAmounts:
    """Return the quantities at a path by resource name, in billionths. Raises InvalidObject, also for negative ones."""
    return to_nano(amounts_at(obj, *path, accept_negative=False))


def raise_to(amounts: dict[str, Amount], least: Mapping[str, Amount]) -> None:
    """Raise each amount in place to at least the amount in `least`."""
    if len(least) > FEW:
        charge(len(least) // 8)
    for name, amount in least.items():
        if name not in amounts or amounts[name] < amount:
            amounts[name] = amount


def largest_of(lists: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    """Return the maximum amount of each resource. Source: component-helpers `maxResourceList`."""
    result: dict[str, Amount] = {}
    for amounts in lists:
        raise_to(result, amounts)
    return result


def is_huge_page(name: str) -> bool:
    """Report whether the resource is huge pages (upstream `IsHugePageResourceName`)."""
    return name.startswith(HUGE_PAGES)


def is_pod_level(name: str) -> bool:
    """Report whether a Pod itself may request a resource. Source: component-helpers `IsSupportedPodLevelResource`."""
    return name in (CPU, MEMORY) or is_huge_page(name)


def _milli(nano: int) -> int:
    return min(-(-nano // (NANO // 1000)), _INT64_MAX)


def _units(nano: int) -> int:
    return min(-(-nano // NANO), _INT64_MAX)
