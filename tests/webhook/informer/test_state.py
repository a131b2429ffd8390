"""The owner of the cache: what it takes in, what it publishes, and what never stops it."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import KINDS, KindSpec
from forewarn.policies.kubernetes.releases.release import Release
from forewarn.webhook.informer.informer import (
    Changed,
    ClusterState,
    ListCompleted,
    Listed,
    ListStarted,
    Responded,
    Runs,
)
from tests.webhook.builders import deployment, namespace, pod, priority_class
from tests.webhook.scripted_api import BY_NAME

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

PODS, CLASSES, DEPLOYMENTS = BY_NAME["pods"], BY_NAME["priorityclasses"], BY_NAME["deployments"]
SYSTEM = {"system-cluster-critical", "system-node-critical"}


def listed(state: ClusterState, resource: KindSpec, *objects: dict[str, Any], at: float = 0.0) -> None:
    state.take(ListStarted(resource))
    state.take(Listed(resource, list(objects)))
    state.take(ListCompleted(resource, at))


def names(state: ClusterState) -> set[str]:
    assert state.latest is not None
    return {name for _, name in state.latest.pods}


def test_nothing_is_published_until_every_kind_is_in() -> None:
    state = ClusterState((PODS, CLASSES))
    listed(state, PODS, pod())
    assert not state.publish()
    assert state.latest is None
    assert list(state.missing) == [CLASSES]
    listed(state, CLASSES)
    assert state.publish()
    assert list(state.missing) == []
    assert names(state) == {"p"}


def test_without_news_the_same_state_stays() -> None:
    state = ClusterState((PODS,))
    listed(state, PODS, pod())
    assert state.publish()
    before = state.latest
    state.take(Responded(PODS, 5.0))
    assert not state.publish()
    assert state.latest is before


def test_what_was_published_never_changes() -> None:
    state = ClusterState((PODS,))
    listed(state, PODS, pod(name="a"))
    state.publish()
    before = state.latest
    assert before is not None
    state.take(Changed(PODS, pod(name="a"), True, 1.0))
    state.publish()
    assert len(before.pods) == 1
    assert names(state) == set()


@pytest.mark.parametrize(
    ("resource", "make"),
    [
        (PODS, lambda name: pod(name=name)),
        (BY_NAME["namespaces"], namespace),
        (DEPLOYMENTS, lambda name: {**deployment(), "metadata": {"name": name, "namespace": "team"}}),
        (CLASSES, lambda name: priority_class(name, 5)),
    ],
)
def test_a_list_takes_out_what_has_vanished_and_nothing_of_other_kinds(resource: KindSpec, make: Any) -> None:
    state = ClusterState((resource, PODS))
    listed(state, PODS, pod(name="other"))
    listed(state, resource, make("stays"), make("goes"))
    listed(state, resource, make("stays"), make("comes"))
    state.publish()
    held = {name for _, name in state._cache.keys(resource.group_kind)} - {"other"} - SYSTEM
    assert held == {"stays", "comes"}
    if resource is not PODS:
        assert names(state) == {"other"}
    assert state.latest is not None
    assert state.latest.priority_classes.keys() >= SYSTEM


def test_a_list_that_broke_off_takes_nothing_out_and_does_not_count_in_the_next() -> None:
    state = ClusterState((PODS,))
    listed(state, PODS, pod(name="a"), pod(name="b"))
    state.take(ListStarted(PODS))
    state.take(Listed(PODS, [pod(name="c")]))
    state.publish()
    assert names(state) == {"a", "b", "c"}
    listed(state, PODS, pod(name="a"))
    state.publish()
    assert names(state) == {"a"}


REFUSED: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "namespace": "team"}, "spec": "text"},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "team"}, "spec": {}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": [], "spec": {}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}},
    {"apiVersion": "v1", "kind": "Pod"},
]


@pytest.mark.parametrize("bad", REFUSED)
@pytest.mark.parametrize("gone", [False, True])
def test_an_object_that_cannot_be_read_is_counted_and_logged_once(
    bad: dict[str, Any], gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rejected: list[KindSpec] = []
    state = ClusterState((PODS,), rejected.append)
    with caplog.at_level(logging.WARNING, "forewarn"):
        listed(state, PODS, pod(name="a"), bad, pod(name="b"))
        if gone:
            state.take(Changed(PODS, bad, True, 1.0))
        else:
            state.take(Changed(PODS, bad, False, 1.0))
    state.publish()
    assert names(state) == {"a", "b"}
    assert len(rejected) in ((1, 2) if gone else (2,))
    assert len(caplog.records) == 1
    assert caplog.records[0].fields["resource"] == "pods"  # type: ignore[attr-defined]


def test_a_fault_of_ours_does_not_stop_the_owner(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rejected: list[KindSpec] = []
    state = ClusterState((PODS,), rejected.append)

    def broken(self: Cache, obj: Any) -> bool:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr(Cache, "add", broken)
        listed(state, PODS, pod())
    listed(state, PODS, pod())
    state.publish()
    assert rejected == [PODS]
    assert names(state) == {"p"}
    assert "a fault of ours" in caplog.text


def test_an_older_state_of_what_cannot_be_read_stays() -> None:
    state = ClusterState((PODS,))
    listed(state, PODS, pod("gold", 7))
    unreadable = {**pod(), "spec": []}
    state.take(Changed(PODS, unreadable, False, 1.0))
    listed(state, PODS, unreadable)
    state.publish()
    assert state.latest is not None
    assert state.latest.pods["team", "p"].priority == 7


def test_the_age_is_since_anything_was_heard_kind_by_kind() -> None:
    now = [100.0]
    state = ClusterState((PODS, CLASSES), clock=lambda: now[0])
    assert set(state.ages().values()) == {float("inf")}
    listed(state, PODS, at=90.0)
    state.take(Responded(CLASSES, 95.0))
    assert state.ages() == {PODS: 10.0, CLASSES: 5.0}
    state.take(Changed(PODS, pod(), False, 99.0))
    state.take(ListStarted(CLASSES))
    assert state.ages() == {PODS: 1.0, CLASSES: 5.0}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 3)),
        st.tuples(st.just("gone"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("list"), st.integers(0, 63), st.integers(0, 3)),
        st.tuples(st.just("half a list"), st.integers(0, 63), st.integers(0, 3)),
        st.tuples(st.just("publish"), st.just(0), st.just(0)),
    )
)


@given(STEPS)
def test_whatever_comes_the_state_is_what_a_dict_would_hold(steps: list[tuple[str, int, int]]) -> None:
    state = ClusterState((PODS,))
    listed(state, PODS)
    model: dict[str, int] = {}
    published: list[tuple[ClusterSnapshot, dict[str, int]]] = []

    def made(number: int, value: int) -> dict[str, Any]:
        return json.loads(json.dumps(pod("gold", value, name=f"p{number}")))  # type: ignore[no-any-return]

    for step, number, value in steps:
        chosen = {f"p{n}": value for n in range(6) if number >> n & 1}
        if step == "put":
            state.take(Changed(PODS, made(number, value), False, 0.0))
            model[f"p{number}"] = value
        elif step == "gone":
            state.take(Changed(PODS, made(number, value), True, 0.0))
            model.pop(f"p{number}", None)
        elif step == "list":
            listed(state, PODS, *(made(int(name[1:]), value) for name in chosen))
            model = dict(chosen)
        elif step == "half a list":
            state.take(ListStarted(PODS))
            state.take(Listed(PODS, [made(int(name[1:]), value) for name in chosen]))
            model |= chosen
        else:
            state.publish()
            assert state.latest is not None
            published.append((state.latest, dict(model)))
    for snapshot, expected in published:
        assert {name: p.priority for (_, name), p in snapshot.pods.items()} == expected


def test_everything_that_is_watched_can_be_taken_out_again() -> None:
    state = ClusterState(KINDS)
    held: dict[KindSpec, int] = defaultdict(int)
    for resource in KINDS:
        obj: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind}
        obj["metadata"] = {"name": "x", "namespace": "y"}
        obj |= {"value": 5, "spec": {"attacher": "a", "nodeName": "n"}, "provisioner": "p", "storageClassName": "s"}
        listed(state, resource, obj)
        held[resource] = len(state._cache.keys(resource.group_kind))
        listed(state, resource)
        assert len(state._cache.keys(resource.group_kind)) == held[resource] - 1


def minor(state: ClusterState) -> int:
    assert state.latest is not None
    return state.latest.semantics.minor


def test_a_cluster_that_is_upgraded_is_predicted_by_its_new_release() -> None:
    state = ClusterState((PODS,), release=Release())
    listed(state, PODS, pod())
    assert not state.publish(), "nobody was asked yet which release it runs"
    for told, runs in (("v1.35.8", 35), ("", 35), ("nonsense", 35), ("v1.36.1-gke.5", 36), ("v1.99.0", 99)):
        state.take(Runs(told))
        state.publish()
        assert minor(state) == runs
    assert state.latest is not None
    assert state.latest.semantics.unknown


def test_a_release_that_was_asked_for_stays() -> None:
    state = ClusterState((PODS,), release=Release(34))
    listed(state, PODS, pod())
    assert state.publish()
    assert minor(state) == 34


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ("DRAExtendedResource", "cannot set feature gate DRAExtendedResource to false, feature is locked to true"),
        ("GangScheduling", "Kubernetes 1.37 removed GangScheduling: components of 1.37 do not start with it"),
    ],
)
def test_with_gates_that_the_new_release_refuses_nothing_is_predicted(gate: str, why: str) -> None:
    state = ClusterState((PODS,), release=Release(gates={gate: False}))
    listed(state, PODS, pod())
    state.take(Runs("v1.36.0"))
    state.publish()
    state.take(Runs("v1.37.0"))
    assert state.publish()
    assert state.latest is not None
    assert state.latest.semantics.unknown == f"the cluster runs Kubernetes 1.37: --feature-gates: {why}"
    state.take(Runs("v1.36.0"))
    assert state.publish()
    assert (minor(state), state.latest.semantics.unknown) == (36, "")
