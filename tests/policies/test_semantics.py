"""What a release changes is asked of one value."""

from __future__ import annotations

import pytest

from policies.cluster import Cache
from policies.semantics import DEFAULT, FEATURE_GATES, Semantics
from tests.builders import make_node, make_pod


def test_the_release_that_is_taken_where_none_is_named() -> None:
    assert DEFAULT.release == "1.36"
    assert Cache().snapshot().semantics is DEFAULT


@pytest.mark.parametrize(
    ("gate", "on"),
    [
        ("PodTopologyLabelsAdmission", [35, 36, 37]),
        ("NodeDeclaredFeatures", [36, 37]),
        ("StorageCapacityScoring", [37]),
        ("GangScheduling", []),
    ],
)
def test_defaults_of_gates(gate: str, on: list[int]) -> None:
    assert [minor for minor in range(34, 38) if Semantics(minor).enabled(gate)] == on


def test_a_gate_that_is_given_wins() -> None:
    given = Semantics(36).with_gates(NodeDeclaredFeatures=False, StorageCapacityScoring=True)
    assert not given.declared_features_are_checked
    assert given.storage_capacity_is_scored
    assert given == Semantics(36).with_gates(StorageCapacityScoring=True).with_gates(NodeDeclaredFeatures=False)


def test_gates_are_in_order_of_their_minors() -> None:
    assert all(list(ages) == sorted(ages) for ages in FEATURE_GATES.values())


def test_an_unknown_gate_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        DEFAULT.enabled("NoSuchGate")


def test_semantics_travel_with_the_snapshot() -> None:
    cache = Cache(semantics=Semantics(34))
    cache.add(make_node("n").label("topology.kubernetes.io/zone", "a").obj)
    old = cache.snapshot().scheduling
    from policies.objects.pod import Pod

    pod = Pod.from_api(make_pod("p").obj)
    assert "topology.kubernetes.io/zone" not in old.bound(pod, "n").labels
    cache.semantics = Semantics(36)
    new = cache.snapshot().scheduling
    assert new.bound(pod, "n").labels["topology.kubernetes.io/zone"] == "a"
    assert old.semantics.minor == 34
    assert new.with_pods([new.bound(pod, "n")], []).semantics.minor == 36
