"""Amounts of quota, which saturate at 64 bits. Source: kueue pkg/resources/amount.go."""

from __future__ import annotations

from typing import Final, NamedTuple

from forewarn.policies.kubernetes.quantity import NANO, Quantity

Amount = int
"""CPU in thousandths, other resources in units. UNLIMITED is greater than all other amounts."""
UNLIMITED: Final = 2**63 - 1
_LOWEST: Final = -(2**63)
_CPU: Final = "cpu"
PODS: Final = "pods"


class FlavorResource(NamedTuple):
    """A resource in a ResourceFlavor. `flavor`: "" if none is assigned."""

    flavor: str
    resource: str


Quantities = dict[FlavorResource, Amount]
"""Upstream's `FlavorResourceQuantities`."""


def saturated(number: int) -> Amount:
    return max(_LOWEST, min(number, UNLIMITED))


def add(one: Amount, other: Amount) -> Amount:
    """Return the sum; UNLIMITED if one of them is. Source: `Amount.Add`."""
    return UNLIMITED if UNLIMITED in (one, other) else saturated(one + other)


def sub(one: Amount, other: Amount) -> Amount:
    """Return the difference; 0 if both are UNLIMITED, otherwise no amount less UNLIMITED is more than the lowest.

    Source: `Amount.Sub`.
    """
    if one == UNLIMITED:
        return 0 if other == UNLIMITED else UNLIMITED
    return _LOWEST if other == UNLIMITED else saturated(one - other)


def amount_from_quantity(resource: str, quantity: Quantity) -> Amount:
    """Return the amount of a quantity. Source: `AmountFromQuantity`, `ResourceValue`."""
    return saturated(quantity.milli_value if resource == _CPU else quantity.value)


def amount_as_text(resource: str, amount: Amount) -> str:
    """Return an amount as Kueue prints it. Source: `ResourceFormatter.AmountQuantityString`."""
    if amount == UNLIMITED:
        return "<unlimited>"
    return str(Quantity(amount * (NANO // 1000 if resource == _CPU else NANO)))


def scaled_to(requests: dict[str, Amount], count: int, new_count: int) -> dict[str, Amount]:
    """Return the requests of `count` Pods for another number of Pods, with Go's integer division.

    Source: `MapRequests.Divide`, `MapRequests.Mul`.
    """
    return {name: saturated(amount // count * new_count) for name, amount in requests.items()} if count else requests
