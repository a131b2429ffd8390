"""Amounts by resource name, and the arithmetic of ResourceQuotas with them (apiserver `pkg/quota/v1/resources.go`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from forewarn.policies.base.metering import FEW, charge, meter
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, mapping, ref_of
from forewarn.policies.kubernetes.quantity import ZERO, InvalidQuantity, Quantity, parse_quantity

Amount = TypeVar("Amount", int, Quantity)
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


def in_nano(resources: ResourceList) -> dict[str, int]:
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
