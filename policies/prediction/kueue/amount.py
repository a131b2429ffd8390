"""Amounts of quota, which saturate at 64 bits. Source: kueue pkg/resources/amount.go."""

from __future__ import annotations

from typing import Final

from forewarn.policies.kubernetes.objects.kueue import UNLIMITED, Amount, FlavorResource, saturated
from forewarn.policies.kubernetes.quantity import NANO, Quantity

PODS: Final = "pods"
Quantities = dict[FlavorResource, Amount]
"""Upstream's `FlavorResourceQuantities`."""


def add(one: Amount, other: Amount) -> Amount:
    """Return the sum; UNLIMITED if one of them is. Source: `Amount.Add`."""
    return UNLIMITED if UNLIMITED in (one, other) else saturated(one + other)


def sub(one: Amount, other: Amount) -> Amount:
    """Return the difference; 0 if both are UNLIMITED, otherwise no amount less UNLIMITED is more than the lowest.

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
