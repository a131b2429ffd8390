"""Copies with some fields changed are those that dataclasses makes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from forewarn.policies.base.copies import MadeOnAccess, replace
from forewarn.policies.kubernetes.controllers.view import PodState, WorkloadState
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.cluster_objects import ClusterObjects
from tests.benchmarks.clusters import Size, objects

POD = next(Pod.from_api(obj) for obj in objects(Size(1)) if obj["kind"] == "Pod")
CHANGES: list[tuple[Any, dict[str, Any]]] = [
    (POD, {}),
    (POD, {"ready": True, "phase": "Running"}),
    (POD, {"name": "other", "nominated_node_name": "n1"}),
    (PodState(POD, created=3.0), {"deleted": 7.0}),
    (WorkloadState(("apps/ReplicaSet", "a", "b"), {}), {"status": 4}),
    (PodDisruptionBudget("a", "b"), {"surplus": 2, "stale": True}),
    (ClusterObjects(), {"nodes": {}}),
]


@pytest.mark.parametrize(("thing", "changes"), CHANGES)
def test_it_is_the_copy_that_dataclasses_makes(thing: Any, changes: dict[str, Any]) -> None:
    before = [getattr(thing, field.name) for field in dataclasses.fields(thing)]
    copy = replace(thing, **changes)
    assert copy == dataclasses.replace(thing, **changes)
    assert type(copy) is type(thing)
    assert copy is not thing
    assert [getattr(thing, field.name) for field in dataclasses.fields(thing)] == before


def test_a_copy_cannot_be_changed() -> None:
    copy: Any = replace(POD, ready=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.ready = False


def test_there_must_be_such_a_field() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        replace(POD, nonsense=1)


@pytest.mark.parametrize("cls", list(dict.fromkeys(type(thing) for thing, _ in CHANGES)))
def test_its_fields_are_all_that_there_is_of_it(cls: Any) -> None:
    """Else a copy would be without the rest."""
    assert set(cls.__slots__) == {field.name for field in dataclasses.fields(cls)}
    assert all(field.init for field in dataclasses.fields(cls))
    assert not hasattr(cls, "__post_init__")


class _Unmade(MadeOnAccess[int]):
    def _made(self, place: int) -> int:
        raise IndexError(place)


def test_an_index_error_does_not_end_an_iteration() -> None:
    with pytest.raises(IndexError):
        list(_Unmade(range(2)))
