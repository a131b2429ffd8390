"""Constraints on the attributes of a claim's devices. The result may depend on the devices that were tried before.

Source: dynamic-resource-allocation `structured/internal/incubating/allocator_incubating.go`, `constraint.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarn.policies.objects.devices import Attribute, Device, DeviceConstraint, DeviceId
    from forewarn.policies.releases.semantics import Semantics


class Constraint:
    """A constraint during one allocation attempt, with the devices that were added to it."""

    def __init__(self, of: DeviceConstraint) -> None:
        self._of = of

    def add(self, outer: str, name: str, device: Device, identity: DeviceId) -> bool:
        """Add a device if the device satisfies the constraint, and return whether the device does.

        `outer`: name of the request. `name`: name with the alternative (`request/alternative`).
        """
        if not self._applies_to(outer, name):
            return True
        value = attribute_of(device, identity.driver, self._of.attribute)
        return value is not None and self._add(outer, value)

    def remove(self, outer: str, name: str) -> None:
        """Remove the device that was added last for a request."""
        if self._applies_to(outer, name):
            self._remove(outer)

    def _applies_to(self, outer: str, name: str) -> bool:
        return not self._of.requests or outer in self._of.requests or name in self._of.requests

    def _add(self, outer: str, value: Attribute) -> bool:
        raise NotImplementedError

    def _remove(self, outer: str) -> None:
        raise NotImplementedError


class _MatchAttribute(Constraint):
    """Constraint `matchAttribute`: all devices have the same value of an attribute.

    Upstream `matchAttributeConstraint`.
    """

    def __init__(self, of: DeviceConstraint) -> None:
        super().__init__(of)
        self._values: list[Attribute] = []

    def _add(self, outer: str, value: Attribute) -> bool:  # noqa: ARG002
        if self._values and not _same(self._values[0], value):
            return False
        self._values.append(value)
        return True

    def _remove(self, outer: str) -> None:  # noqa: ARG002
        self._values.pop()


class _Distinct(_MatchAttribute):
    """Constraint `distinctAttribute`: all devices have different values of an attribute.

    Upstream `distinctAttributeConstraint`.
    """

    def _add(self, outer: str, value: Attribute) -> bool:  # noqa: ARG002
        if any(_same(known, value) for known in self._values):
            return False
        self._values.append(value)
        return True


class _DistinctByRequest(Constraint):
    """Constraint `distinctAttribute` until 1.36, with upstream's defect: only the last device of each request
    counts, until any removal.
    """

    def __init__(self, of: DeviceConstraint) -> None:
        super().__init__(of)
        self._values: dict[str, Attribute] = {}

    def _add(self, outer: str, value: Attribute) -> bool:
        if any(_same(known, value) for known in self._values.values()):
            return False
        self._values[outer] = value
        return True

    def _remove(self, outer: str) -> None:
        self._values.pop(outer, None)


def constraint(of: DeviceConstraint, semantics: Semantics) -> Constraint:
    """Return a new constraint without devices, as the release implements it."""
    if not of.distinct:
        return _MatchAttribute(of)
    return _DistinctByRequest(of) if semantics.distinct_values_by_request else _Distinct(of)


def attribute_of(device: Device, driver: str, name: str) -> Attribute | None:
    """Return an attribute of a device by its full name (`domain/name`), or None. `driver`: the default domain of
    attributes.

    Source: `lookupAttribute`.
    """
    if name in device.attributes:
        return device.attributes[name]
    domain, slash, own = name.partition("/")
    return device.attributes.get(own) if slash and domain == driver else None


def _same(one: Attribute, other: Attribute) -> bool:
    return type(one) is type(other) and one == other
