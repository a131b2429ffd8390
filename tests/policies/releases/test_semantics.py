"""What a release changes is asked of one value."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from tests.builders import make_node, make_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot


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


def test_an_unknown_gate_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        DEFAULT.enabled("NoSuchGate")


ASKING = {
    "policies/kubernetes/releases/semantics.py",
    "policies/kubernetes/kube_apiserver/validation/decode.py",
    "policies/kubernetes/kinds/registry.py",
}
"""Who compares minors: the semantics with the feature gates, and the tables of fields and removed versions, each of
which has its minors."""


def test_nothing_else_compares_minors() -> None:
    found = set()
    for path in (*Path("policies").rglob("*.py"), *Path("webhook").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "minor" in source else ():
            if isinstance(node, ast.Compare) and any(
                isinstance(o, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for o in node.ops
            ):
                names = {getattr(side, "id", getattr(side, "attr", "")) for side in (node.left, *node.comparators)}
                found |= {str(path)} if "minor" in names else set()
    assert found == ASKING


def test_semantics_travel_with_the_snapshot() -> None:
    cache = Cache(semantics=Semantics(34))
    cache.add(make_node("n").label("topology.kubernetes.io/zone", "a").obj)
    old = cache.snapshot().scheduling
    from forewarn.policies.kubernetes.objects.pod import Pod

    pod = Pod.from_api(make_pod("p").obj)
    assert "topology.kubernetes.io/zone" not in old.bound(pod, "n").labels
    cache.semantics = Semantics(36)
    new = cache.snapshot().scheduling
    assert new.bound(pod, "n").labels["topology.kubernetes.io/zone"] == "a"
    assert old.semantics.minor == 34
    assert new.with_pods([new.bound(pod, "n")], []).semantics.minor == 36


@pytest.mark.parametrize("built", [True, False], ids=["predicted before", "never asked"])
def test_an_upgrade_that_is_noticed_while_serving_leaves_nothing_of_the_old_release(*, built: bool) -> None:
    """Nodes, tables and nominations are worked out for one release; each next snapshot is built from the last one."""
    nodes = [make_node(f"n{n}").label("topology.kubernetes.io/zone", "ab"[n % 2]) for n in range(4)]
    pods = [make_pod(f"p{n}").label("app", "web").priority(n).request(cpu="3").on(f"n{n % 4}") for n in range(4)]
    gated = make_pod("gated").priority(50).request(cpu="1").nominated("n1").spec(schedulingGates=[{"name": "wait"}])
    image_volume = {"name": "v", "image": {"reference": "img"}}
    asked = [make_pod("x").priority(100).request(cpu=cpu).spec(volumes=[image_volume]).obj for cpu in ("1", "2", "4")]
    cache, told = Cache(semantics=Semantics(34)), []
    for obj in (*nodes, *pods, gated):
        cache.add(obj.obj)
    for minor in (34, 36, 35, 37, 34):
        cache.semantics = Semantics(minor)
        fresh = Cache(semantics=Semantics(minor))
        cache.add(pods[minor % 4].obj)
        for obj in (*nodes, *pods, gated):
            fresh.add(obj.obj)
        serving = cache.snapshot()
        if built or minor == 34:
            served, expected = ([_told(state, pod) for pod in asked] for state in (serving, fresh.snapshot()))
            assert served == expected
            told.append(served)
        infos = {info.semantics.minor for info in serving.scheduling.node_infos}
        assert infos == {minor}
        labels = {
            pod.labels.get("topology.kubernetes.io/zone") for i in serving.scheduling.node_infos for pod in i.pods
        }
        fresh_infos = fresh.snapshot().scheduling.node_infos
        assert labels == {pod.labels.get("topology.kubernetes.io/zone") for info in fresh_infos for pod in info.pods}
    assert told


def _told(state: ClusterSnapshot, obj: dict[str, Any]) -> tuple[Any, ...]:
    found = predict(state, obj)
    return found.outcome, found.node, sorted(found.feasible or ()), [victim.name for victim in found.victims]
