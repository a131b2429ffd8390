"""When cluster-autoscaler scans, when its nodes arrive, and for how many Pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.prediction.autoscaling import Arrival
from forewarn.policies.prediction.simulation.api_server import Change
from forewarn.policies.questions.whatif import arrivals, autoscalers
from forewarn.policies.questions.whatif.arrivals import ClusterAutoscalerRounds
from forewarn.policies.questions.whatif.autoscalers import (
    Autoscalers,
    Autoscaling,
    Considered,
    Launches,
    NewNodesOfGroup,
    NoLaunch,
    ScaleUp,
    ScaleUps,
)
from forewarn.policies.questions.whatif.node_groups import read_node_groups
from tests.policies.test_karpenter_rounds import Cluster

if TYPE_CHECKING:
    from forewarn.policies.prediction.simulation.simulation import Simulation

TEMPLATE = "template: {status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}}"
GROUPS = read_node_groups("\n".join(f"- {{name: {name}, maxSize: 9, {TEMPLATE}}}" for name in "ab"), "groups.yaml")
ON = Autoscaling(groups=GROUPS, node_delay=100.0)


def scale_up(pods: int, *added: tuple[str, int]) -> ScaleUp:
    more = [NewNodesOfGroup(*each) for each in added]
    return ScaleUp("a", 1, pods, "random", [], [], [], more, 0.0)


def scale_ups(*made: ScaleUp, fit: int = 0, why: str = "") -> ScaleUps:
    pods = sum(each.pods for each in made)
    return ScaleUps(made, pods, [], fit, [], truncated=False, not_predicted=why)


def launches(nodes: int, left: int = 0, why: str = "") -> Launches:
    arrived = [Arrival("pool", {"metadata": {"labels": {}}, "kind": "Node"}, ("team/web",))] * nodes
    return Launches([], [NoLaunch("team/web", left, "too large")] if left else [], why, arrived)


def reaction(plan: ScaleUps | None = None, pools: Launches | None = None, pending: int = 9) -> Autoscalers:
    considered = Considered(pending, {}, pending)
    return Autoscalers(considered, considered, plan, pools)


@pytest.mark.parametrize(
    ("given", "delay", "nodes", "pods", "seconds", "why"),
    [
        (reaction(), 100.0, 0, 0, 110, ""),
        (reaction(scale_ups(scale_up(3, ("a", 1), ("b", 2)))), 100.0, 3, 3, 110, ""),
        (reaction(scale_ups(scale_up(3, ("a", 1)), scale_up(2, ("b", 1)), fit=1)), 100.0, 2, 6, 120, ""),
        (reaction(scale_ups(scale_up(3, ("a", 1)), fit=9)), None, 1, 9, 10, ""),
        (reaction(scale_ups(why="limits")), 100.0, 0, 0, 110, "number of nodes not predicted: limits"),
        (reaction(pools=launches(2, left=4)), 100.0, 2, 5, 110, ""),
        (reaction(pools=launches(0, left=9)), 100.0, 0, 0, 110, ""),
        (reaction(pools=launches(0, why="drift")), 100.0, 0, 0, 110, "nodes of Karpenter not predicted: drift"),
    ],
)
def test_new_nodes_for_predicted_pods(
    given: Autoscalers,
    delay: float | None,
    nodes: int,
    pods: int,
    seconds: float,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals, "autoscalers", lambda *_: given)
    found = arrivals.added_for([], Cache().snapshot(), replace(ON, node_delay=delay))
    assert found == (nodes, pods, seconds, why)


def test_an_invalid_daemon_set_prevents_the_prediction_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise InvalidObject("no template")

    monkeypatch.setattr(arrivals, "autoscalers", raises)
    assert arrivals.added_for([], Cache().snapshot(), ON) == (0, 0, 0.0, "no template")


class Scanned:
    """A simulation with Pods, and the times of the scans that see them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nodes: int = 0) -> None:
        self.cluster, self.scans, self._nodes = Cluster(), list[tuple[float, int]](), nodes
        self.cluster.api.keys_of, self.cluster.api.seconds = (lambda _: ()), 1e9
        seen = lambda pods, snapshot, _: (pods, snapshot)  # noqa: E731
        monkeypatch.setattr(arrivals, "seen_by_cluster_autoscaler", seen)
        monkeypatch.setattr(autoscalers.Scans, "scan", lambda _, pods, *more: self.scan(pods, more[-1].total()))
        self.rounds = ClusterAutoscalerRounds(cast("Simulation", self.cluster), ON, 100.0)

    def scan(self, pods: Any, upcoming: int) -> list[Arrival]:
        self.scans.append((round(self.cluster.clock.now, 4), upcoming))
        added, self._nodes = self._nodes, 0
        return [Arrival("a", {}, tuple(pod.key for pod in pods))] * added


def test_scans_follow_each_other_while_pods_change(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = Scanned(monkeypatch, nodes=2)
    for at, name in ((5.0, "a"), (7.0, "b"), (16.0, "c"), (64.5, "d")):
        scanned.cluster.mark(at, name)
    scanned.cluster.mark(9.0, "nominated", nominated="n")
    scanned.cluster.run(300.0)
    assert scanned.scans == [(15.0, 0), (25.0, 2), (65.0, 2)]
    assert [(node.name, at) for (_, node, at), _ in scanned.rounds.launched] == [("a-new-1", 115.0), ("a-new-2", 115.0)]
    assert scanned.rounds.helped() == {"default/a", "default/b", "default/nominated"}


def test_new_pods_wait_for_the_next_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = Scanned(monkeypatch)
    scanned.cluster.api.seconds = 14.0
    scanned.cluster.mark(5.0, "a", created=13.0)
    scanned.cluster.clock.schedule(20.0, lambda: setattr(scanned.cluster.api, "seconds", 15.0))
    scanned.cluster.run(100.0)
    assert scanned.scans == [(25.0, 0)]


def test_changes_that_leave_more_room_cause_no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = Scanned(monkeypatch)
    for at, name in ((5.0, "a"), (6.0, "b")):
        scanned.cluster.mark(at, name)
    scanned.cluster.bind(18.0, "b")
    scanned.cluster.clock.schedule(28.0, lambda: scanned.cluster.notify(Change("Workload", None, None)))
    scanned.cluster.clock.schedule(38.0, lambda: scanned.cluster.notify(Change("Node", None, None)))
    scanned.cluster.run(100.0)
    assert scanned.scans == [(15.0, 0), (45.0, 0)]
