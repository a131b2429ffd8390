"""When the nodes of autoscalers arrive, and for how many Pods, from their reaction alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from forewarn.policies.autoscaling.autoscaler import Arrival
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.simulation.dump import DumpCache, world_of
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.simulation.timeline import Event
from forewarn.policies.whatif import arrivals, questions
from forewarn.policies.whatif.autoscalers import SCAN, Autoscalers, Autoscaling, Considered, Launches, NoLaunch
from forewarn.policies.whatif.node_groups import read_node_groups
from forewarn.policies.whatif.scale_up import NewNodesOfGroup, ScaleUp, ScaleUps
from tests.policies.commands.test_whatif_command import random_cluster

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot

TEMPLATE = "template: {status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}}"
GROUPS = read_node_groups("\n".join(f"- {{name: {name}, maxSize: 9, {TEMPLATE}}}" for name in "ab"), "groups.yaml")
ON = Autoscaling(groups=GROUPS, node_delay=100.0)


def scale_up(pods: int, *added: tuple[str, int]) -> ScaleUp:
    more = [NewNodesOfGroup(*each) for each in added]
    return ScaleUp("a", 1, pods, "random", [], [], [], more, 0.0)


def scale_ups(*made: ScaleUp, fit: int = 0, why: str = "") -> ScaleUps:
    return ScaleUps(made, [], fit, [], truncated=False, not_predicted=why)


def launches(nodes: int, left: int = 0, why: str = "") -> Launches:
    arrived = [Arrival("pool", {"metadata": {"labels": {}}, "kind": "Node"}, ("team/web",))] * nodes
    return Launches([], [NoLaunch("team/web", left, "too large")] if left else [], why, arrived)


def reaction(plan: ScaleUps | None = None, pools: Launches | None = None, pending: int = 9) -> Autoscalers:
    considered = Considered(pending, {}, pending)
    return Autoscalers(considered, considered, plan, pools)


def ended(*failed: float) -> Any:
    """A simulation with a node `a-new-1`, and Pods that failed at these times, and one that ran afterwards."""
    events = [Event(1.0, "scheduled"), Event(1.0, "unschedulable", pod="ran")]
    events += [Event(t, "unschedulable", pod=f"p{t}") for t in failed]
    pods = [SimpleNamespace(key=f"p{t}", uid="", node_name="") for t in failed]
    states = {pod.key: SimpleNamespace(active=True, pod=pod) for pod in pods}
    api = SimpleNamespace(nodes={"a-new-1": None}, pods=states, conditions={})
    return SimpleNamespace(timeline=SimpleNamespace(events=events), api=api)


@pytest.mark.parametrize(
    ("failed", "given", "arriving"),
    [
        ([], reaction(scale_ups(scale_up(1, ("a", 1)))), [("a", "a-new-2", 110)]),
        ([7, 5], reaction(scale_ups(scale_up(1, ("a", 1)))), [("a", "a-new-2", 115)]),
        (
            [5],
            reaction(scale_ups(scale_up(1, ("a", 1), ("b", 2)), scale_up(1, ("b", 1)))),
            [("a", "a-new-2", 115), ("b", "b-new-1", 115), ("b", "b-new-2", 115), ("b", "b-new-3", 125)],
        ),
        ([5], reaction(), []),
    ],
)
def test_a_scan_follows_each_scale_up(
    failed: list[float], given: Autoscalers, arriving: list[tuple[str, str, float]]
) -> None:
    assert [(group, node.name, at) for group, node, at in arrivals.arriving(ended(*failed), given, ON)] == arriving
    assert arrivals.arriving(ended(*failed), given, ON._replace(node_delay=None)) == []


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
    monkeypatch.setattr(arrivals, "after_predictions", lambda *_: given)
    found = arrivals.added_for([], cast("ClusterSnapshot", None), ON._replace(node_delay=delay))
    assert found == (nodes, pods, seconds, why)


def test_an_invalid_daemon_set_prevents_the_prediction_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise InvalidObject("no template")

    monkeypatch.setattr(arrivals, "after_predictions", raises)
    assert arrivals.added_for([], cast("ClusterSnapshot", None), ON) == (0, 0, 0.0, "no template")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_the_fork_is_made_when_the_first_node_can_arrive(seed: int, delay: float) -> None:
    cache = DumpCache()
    for obj in random_cluster(seed):
        cache.add(obj)
    world = world_of(cache, questions.zone_lost(cache.snapshot(), "a").arrivals, until=900.0)
    whole, paused = Simulation(world), Simulation(world)
    whole.run()
    failed = [event.t for event in whole.timeline.events if event.event == "unschedulable"]
    assert arrivals._pauses(paused, SCAN, SCAN + delay) == bool(failed)
    if failed:
        assert paused.clock.now < min(failed) + SCAN + delay
        upcoming = paused.clock.next_time
        assert paused.run(0.0) or (upcoming is not None and upcoming >= min(failed) + SCAN + delay)
    paused.run()
    assert paused.timeline.events == whole.timeline.events
