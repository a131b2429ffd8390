"""Sizes of ReplicaSets when a Deployment is scaled, rolled out or both, as upstream's own tests expect them.

Source: pkg/controller/deployment/sync_test.go, rolling_test.go, util/deployment_util_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.controllers.deployment import max_surge, max_unavailable, new_rs_new_replicas
from forewarn.policies.kubernetes.controllers.replica_set import ReplicaSetStatus, deletion_cost, sort_by_rank
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreateWorkload,
    Key,
    PodState,
    SetStatus,
    UpdateConflict,
    UpdateWorkload,
)
from forewarn.policies.kubernetes.objects.pod import Pod
from tests.policies.controllers.world import World, with_image, workload


def deployment(replicas: int, surge: Any = 0, unavailable: Any = 0) -> dict[str, Any]:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return workload("Deployment", replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "resolved"),
    [
        ("39%", "39%", 10, (4, 3)),
        (0, "39%", 10, (0, 3)),
        ("39%", 0, 10, (4, 0)),
        (0, 0, 10, (0, 1)),
        (1, 5, 10, (1, 5)),
        (1, 10, 5, (1, 5)),
        (1, 10, 0, (1, 0)),
        (1, "50%", 10, (1, 5)),
    ],
)
def test_surge_and_unavailability(surge: Any, unavailable: Any, replicas: int, resolved: tuple[int, int]) -> None:
    obj = deployment(replicas, surge, unavailable)
    assert (max_surge(obj, replicas), max_unavailable(obj, replicas)) == resolved


@pytest.mark.parametrize(("replicas", "new", "surge", "expected"), [(1, 5, 1, 5), (6, 2, 10, 6)])
def test_the_size_of_the_new_replica_set(replicas: int, new: int, surge: int, expected: int) -> None:
    """Beside an old one of 5 that is not counted as new."""
    assert new_rs_new_replicas(deployment(replicas, surge), replicas, 5, new) == expected


def sized(before: tuple[int, int], sizes: tuple[int | None, ...]) -> tuple[World, Key]:
    """A Deployment of (replicas, surge) with its ReplicaSets, the oldest last; the first is of its template."""
    world = World()
    obj = deployment(*before)
    key = world.add(obj)
    for age, size in reversed(list(enumerate(sizes))):
        world.now += 1
        if size is not None:
            _add(world, key, obj if not age else with_image(obj, f"old{age}"), f"v{age}", size, before)
    return world, key


def _add(world: World, key: Key, obj: dict[str, Any], name: str, size: int, before: tuple[int, int]) -> Key:
    annotations = {
        "deployment.kubernetes.io/desired-replicas": str(before[0]),
        "deployment.kubernetes.io/max-replicas": str(sum(before)),
    }
    spec = {"replicas": size, "template": obj["spec"]["template"]}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return world.add({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}, key)


@pytest.mark.parametrize(
    ("before", "after", "sizes", "expected"),
    [
        ((10, 0), (12, 0), (10,), (12,)),
        ((10, 0), (5, 0), (10,), (5,)),
        ((5, 0), (10, 0), (2, 3), (4, 6)),
        ((5, 0), (3, 0), (2, 3), (1, 2)),
        ((9, 0), (4, 0), (8, 1), (4, 0)),
        ((7, 0), (10, 0), (2, 3, 2), (3, 4, 3)),
        ((13, 0), (8, 0), (2, 8, 3), (1, 5, 2)),
        ((3, 0), (4, 0), (1, 1, 1), (2, 1, 1)),
        ((3, 0), (2, 0), (1, 1, 1), (1, 1, 0)),
        ((4, 0), (5, 0), (None, 2, 2), (3, 2)),
        ((6, 0), (0, 0), (3, 2, 1), (0, 0, 0)),
        ((6, 0), (6, 0), (0, 0, 0), (6, 0, 0)),
        ((10, 2), (20, 2), (6, 6), (11, 11)),
        ((10, 3), (50, 6), (5, 8), (22, 34)),
        ((10, 0), (14, 0), (None, 7, 3), (10, 4)),
    ],
)
def test_scaling_keeps_the_proportions(
    before: tuple[int, int], after: tuple[int, int], sizes: tuple[int | None, ...], expected: tuple[int, ...]
) -> None:
    world, key = sized(before, sizes)
    world.add(deployment(*after))
    world.step(key)
    found = {state.key[2]: state.object["spec"]["replicas"] for state in world.owned(key)}
    assert tuple(found[name] for name in sorted(found)) == expected


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "left"),
    [
        (2, (10, 10), (0, 0), 8),
        (2, (10, 8), (0, 0), 8),
        (2, (10, 9), (0, 0), 8),
        (2, (8, 8), (2, 0), 8),
        (2, (8, 8), (2, 2), 6),
        (2, (8, 9), (2, 2), 8),
    ],
)
def test_old_pods_go_as_many_may_be_missing(
    unavailable: int, old: tuple[int, int], new: tuple[int, int], left: int
) -> None:
    """(size, available pods) of the old and of the new ReplicaSet; what is not healthy goes first. While the old one's
    status is late nobody goes."""
    world = World()
    obj = deployment(10, 0, unavailable)
    key = world.add(obj)
    for name, template, (size, available) in (("v1", with_image(obj, "old"), old), ("v0", obj, new)):
        made = _add(world, key, template, name, size, (10, 0))
        state = world.objects[made]
        world.objects[made] = type(state)(made, state.object, ReplicaSetStatus(size, available, available), 0.0, key)
    world.step(key)
    assert world.objects["apps/ReplicaSet", "default", "v1"].object["spec"]["replicas"] == left


@pytest.mark.parametrize(
    ("before", "after", "writes"),
    [
        ({}, {"replicas": 3}, ["update v0", "status"]),
        ({}, {"image": "next"}, ["create", "status", "update v0", "status"]),
        ({}, {"image": "old1"}, ["update v1", "conflict v1", "status", "update v1", "status"]),
        ({}, {"paused": True}, ["status", "status"]),
        ({"paused": True}, {"paused": True, "image": "old1"}, ["update v1", "status"]),
        ({"paused": True}, {}, ["status", "status"]),
        (
            {"paused": True},
            {"image": "old1"},
            ["status", "update v1", "conflict v1", "status", "update v1", "status"],
        ),
        ({}, {"progressDeadlineSeconds": 2**31 - 1, "paused": True}, ["status"]),
    ],
)
def test_what_a_deployment_writes_and_in_which_order(
    before: dict[str, Any], after: dict[str, Any], writes: list[str]
) -> None:
    """v0 has all pods, v1 is an older ReplicaSet. The answers are those of `oracle scenarios`; what follows a conflict
    is the next sync. Source: upstream `syncDeployment`."""
    plain = deployment(2, 1, 1)

    def changed(image: str = "", **spec: Any) -> dict[str, Any]:
        made = with_image(plain, image) if image else plain
        return {**made, "spec": {**made["spec"], **spec}}

    world, key = sized((2, 1), (2, 0))
    world.add(changed(**before))
    world.settle(key)
    world.run()
    world.settle(key)
    world.log.clear()
    world.add(changed(**after))
    world.step(key)
    assert [told for write in world.log if (told := named(write))] == writes


def named(write: Action) -> str:
    match write:
        case SetStatus():
            return "status"
        case CreateWorkload():
            return "create"
        case UpdateWorkload() | UpdateConflict():
            return f"{'update' if isinstance(write, UpdateWorkload) else 'conflict'} {write.key[2]}"
    return ""


@pytest.mark.parametrize(
    ("annotation", "cost"),
    [
        (None, 0),
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("+7", 0),
        ("07", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("x", 0),
    ],
)
def test_a_deletion_cost_that_is_no_number_is_none(annotation: str | None, cost: int) -> None:
    assert deletion_cost(annotation) == cost


POD_STATES = st.builds(
    lambda uid, node, phase, ready, created, cost, restarts: PodState(
        Pod("default", uid, uid=uid, node_name=node, phase=phase),
        created=created,
        ready=ready,
        deletion_cost=cost,
        restarts=(restarts, 0),
    ),
    st.uuids().map(str),
    st.sampled_from(["", "n1"]),
    st.sampled_from(["Pending", "Unknown", "Running"]),
    st.sampled_from([None, 10.0, 500.0, 999.0]),
    st.sampled_from([5.0, 400.0, 998.0]),
    st.integers(-1, 1),
    st.integers(0, 2),
)


@given(st.lists(st.tuples(POD_STATES, st.integers(1, 3)), max_size=12))
def test_who_goes_first_is_never_better_placed(pods: list[tuple[PodState, int]]) -> None:
    """Whatever ties there are: waiting before placed, not ready before ready, the cheap before the dear."""
    ordered = [
        (
            bool(pod.pod.node_name),
            ["Pending", "Unknown", "Running"].index(pod.pod.phase),
            pod.ready is not None,
            pod.deletion_cost,
        )
        for pod in sort_by_rank(pods, 1000.0)
    ]
    assert ordered == sorted(ordered)


class Lots(World):
    """Remembers who drew lots."""

    asked: list[str]

    def lot(self, name: str, /) -> float:
        self.asked.append(name)
        return 0.0


def test_nodes_of_a_daemon_set_draw_lots_in_an_order() -> None:
    """Else the same dice would fall differently in another process, whose sets have another order."""
    world = Lots()
    world.asked = []
    obj = workload("DaemonSet")
    key = world.add(obj)
    names = [f"n{number:02}" for number in range(20)]
    for name in names:
        world.add_node(name)
    world.step(key)
    for pod in list(world.pods.values()):
        world.run(pod.pod.name, node=pod.pod.spec.node_affinity.only_node)
    world.add(with_image(obj, "new"))
    world.step(key)
    assert world.asked == 3 * names, "for new pods in both looks, and for the rollout"
