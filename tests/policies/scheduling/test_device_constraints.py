"""Constraints on the devices of a claim, step by step, as upstream's `constraint.go` decides."""

from __future__ import annotations

import pytest

from forewarn.policies.kubernetes.objects.devices import Attribute, Device, DeviceConstraint, DeviceId
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.devices.allocator import Constraint

ATTRIBUTE = "gpu.example/half"
ALIKE = DeviceConstraint(frozenset(), ATTRIBUTE)
DISTINCT = ALIKE._replace(distinct=True)
Steps = list[tuple[str, Attribute | None, bool]]
"""(request, value of the device's attribute; whether the device is accepted)."""


def steps_of(of: DeviceConstraint, minor: int, steps: Steps) -> Steps:
    tried = Constraint(of, Semantics(minor))
    identity = DeviceId("gpu.example", "pool", "device")
    taken: Steps = []
    for request, value, _ in steps:
        device = Device("device", {} if value is None else {"half": value})
        taken.append((request, value, tried.add(request, request, device, identity)))
    return taken


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize(
    ("of", "steps"),
    [
        (ALIKE, [("a", 1, True), ("b", 1, True), ("a", 2, False), ("b", 1, True)]),
        (ALIKE, [("a", None, False), ("b", 1, True)]),
        (ALIKE, [("a", 1, True), ("b", True, False), ("b", "1", False)]),
        (ALIKE._replace(requests=frozenset("a")), [("a", 1, True), ("b", 2, True), ("b", None, True), ("a", 2, False)]),
        (DISTINCT, [("a", 1, True), ("b", 2, True), ("c", 1, False), ("c", 3, True)]),
        (DISTINCT, [("a", None, False)]),
        (DISTINCT, [("a", 1, True), ("b", True, True)]),
    ],
)
def test_a_device_is_accepted_if_it_satisfies_the_constraint(of: DeviceConstraint, minor: int, steps: Steps) -> None:
    assert steps_of(of, minor, steps) == steps


@pytest.mark.parametrize(("minor", "accepted"), [(36, True), (37, False)])
def test_until_1_36_distinct_devices_of_one_request_differ_only_from_the_last(minor: int, accepted: bool) -> None:
    steps: Steps = [("a", 1, True), ("a", 2, True), ("b", 1, accepted)]
    assert steps_of(DISTINCT, minor, steps) == steps


@pytest.mark.parametrize("of", [ALIKE, DISTINCT])
@pytest.mark.parametrize("minor", [36, 37])
def test_a_removed_device_no_longer_counts(of: DeviceConstraint, minor: int) -> None:
    tried = Constraint(of, Semantics(minor))
    identity = DeviceId("gpu.example", "pool", "device")
    first, second = Device("first", {"half": 1}), Device("second", {ATTRIBUTE: 1 if of.distinct else 2})
    assert tried.add("a", "a", first, identity)
    assert not tried.add("b", "b", second, identity)
    tried.remove("a", "a")
    assert tried.add("b", "b", second, identity)


def test_the_name_of_an_alternative_and_of_its_request_select_the_constraint() -> None:
    tried = Constraint(ALIKE._replace(requests=frozenset({"a/large"})), Semantics(37))
    identity = DeviceId("gpu.example", "pool", "device")
    assert tried.add("a", "a/small", Device("one"), identity)
    assert not tried.add("a", "a/large", Device("one"), identity)
    other = DeviceId("other.example", "pool", "device")
    assert not tried.add("a", "a/large", Device("one", {"half": 1}), other), "another driver's attributes"


def test_the_name_of_a_request_selects_the_constraint_for_its_alternatives() -> None:
    tried = Constraint(ALIKE._replace(requests=frozenset({"a"})), Semantics(37))
    identity = DeviceId("gpu.example", "pool", "device")
    assert not tried.add("a", "a/large", Device("one"), identity)


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize(("requests", "second", "value"), [((), "a", 1), (("a",), "b", 2)])
def test_devices_that_are_not_removed_still_count(
    requests: tuple[str, ...], second: str, value: int, minor: int
) -> None:
    tried = Constraint(ALIKE._replace(requests=frozenset(requests)), Semantics(minor))
    identity = DeviceId("gpu.example", "pool", "device")
    assert tried.add("a", "a", Device("first", {"half": 1}), identity)
    assert tried.add(second, second, Device("second", {"half": value}), identity)
    tried.remove(second, second)
    assert not tried.add("a", "a", Device("third", {"half": 2}), identity)
