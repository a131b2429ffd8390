"""When the rounds of Karpenter's provisioner follow Pods that kube-scheduler marks Unschedulable."""

from __future__ import annotations

from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from forewarn.policies.kubernetes.controllers.view import PodState
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
from forewarn.policies.prediction.autoscaling import Arrival, NotPredicted
from forewarn.policies.prediction.simulation.api_server import Change
from forewarn.policies.prediction.simulation.clock import Clock
from forewarn.policies.questions.whatif import karpenter
from forewarn.policies.questions.whatif.karpenter import KarpenterRounds
from tests.builders import make_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.prediction.simulation.simulation import Simulation

NODE = {"metadata": {"labels": {}}, "status": {"allocatable": {"cpu": "4"}}}


class Cluster:
    """A simulation of Pods alone, and a Karpenter that notes its rounds and launches `nodes` for each."""

    def __init__(self, nodes: int = 0) -> None:
        self.clock, self.rounds, self._nodes = Clock(0.0), list[tuple[float, list[str]]](), nodes
        self.orders: list[list[str]] = []
        self.upcoming: list[int] = []
        self.added: list[float] = []
        self.api: Any = SimpleNamespace(watchers=[], conditions={}, pods={}, nodes={})
        self.cache = SimpleNamespace(snapshot=lambda: SimpleNamespace(objects=ClusterObjects()))

    def add(self, arrivals: Sequence[Any]) -> None:
        self.added += [round(arrival.at, 4) for arrival in arrivals]

    def decide(self, pods: Sequence[Pod], _: object, upcoming: Sequence[Arrival], __: object) -> Any:
        self.rounds.append((round(self.clock.now, 4), sorted(pod.name for pod in pods)))
        self.orders.append([pod.name for pod in sorted(pods, key=lambda pod: (pod.created, pod.uid))])
        self.upcoming.append(len(upcoming))
        return [Arrival("pool", NODE, ())] * self._nodes, {}

    def mark(self, at: float, name: str, *, nominated: str = "", created: float = 0.0) -> None:
        """kube-scheduler marks a Pod Unschedulable at a time."""
        self.clock.schedule(at, partial(self._mark, name, nominated, created))

    def _mark(self, name: str, nominated: str, created: float) -> None:
        made = make_pod(name).obj
        made["metadata"]["uid"] = name
        made["status"] = {"nominatedNodeName": nominated} if nominated else {}
        pod = Pod.from_api(made)
        self.api.conditions[pod.uid] = ("Unschedulable", "")
        self.api.pods[pod.namespace, pod.name] = state = PodState(pod, created=created)
        self.notify(Change("Pod", state, state))

    def bind(self, at: float, name: str) -> None:
        self.clock.schedule(at, partial(self._bind, name))

    def _bind(self, name: str) -> None:
        state = self.api.pods.pop(("default", name))
        self.notify(Change("Pod", state, None))

    def notify(self, change: Change) -> None:
        for watcher in self.api.watchers:
            watcher(change)

    def watched(self, random: Random | None = None, delay: float = 100.0) -> KarpenterRounds:
        return KarpenterRounds(cast("Simulation", self), cast("Any", self), delay, random)

    def run(self, until: float) -> None:
        while self.clock.is_due_before(until):
            self.clock.advance()()


@pytest.mark.parametrize(
    ("marked", "rounds"),
    [
        ([0.0], [(1.0, 1)]),
        ([0.0, 0.8, 1.6], [(2.6, 3)]),
        ([0.0, 5.0], [(1.0, 1), (6.0, 2)]),
        ([0.5 * number for number in range(24)], [(10.0, 21)]),
        ([0.0, 9.5], [(1.0, 1), (11.0, 2)]),
    ],
)
def test_a_round_follows_each_batch_of_pods(marked: list[float], rounds: list[tuple[float, int]]) -> None:
    cluster = Cluster()
    cluster.watched()
    for number, at in enumerate(marked):
        cluster.mark(at, f"p{number}")
    cluster.run(12.0)
    assert [(at, len(pods)) for at, pods in cluster.rounds] == rounds


@pytest.mark.parametrize(("change", "rounds"), [(None, [1.0]), (4.0, [1.0, 11.0]), (14.0, [1.0, 21.0])])
def test_pending_pods_are_considered_again_after_a_change(change: float | None, rounds: list[float]) -> None:
    cluster = Cluster()
    cluster.watched()
    cluster.mark(0.0, "a")
    if change is not None:
        cluster.clock.schedule(change, lambda: cluster.notify(Change("Node", None, None)))
    cluster.run(60.0)
    assert [at for at, _ in cluster.rounds] == rounds


def test_a_pod_that_joins_a_batch_after_all_retries_have_ended_is_considered_again() -> None:
    """At 10 s, no Pod is Pending, so the retries of the first one end while the batch of the second one is open."""
    cluster = Cluster()
    cluster.watched()
    cluster.mark(0.0, "first")
    cluster.bind(2.0, "first")
    cluster.mark(9.5, "second")
    cluster.bind(9.9, "second")
    cluster.mark(10.2, "third")
    cluster.clock.schedule(15.0, lambda: cluster.notify(Change("Node", None, None)))
    cluster.run(60.0)
    assert cluster.rounds == [(1.0, ["first"]), (11.2, ["third"]), (21.2, ["third"])]


def test_a_retry_joins_an_open_batch() -> None:
    """The retry at 10 s extends the batch that a new Pod has opened at 9.5 s, so that one round considers both."""
    cluster = Cluster()
    cluster.watched()
    cluster.mark(0.0, "old")
    cluster.clock.schedule(5.0, lambda: cluster.notify(Change("Node", None, None)))
    cluster.mark(9.5, "new")
    cluster.run(60.0)
    assert cluster.rounds == [(1.0, ["old"]), (11.0, ["new", "old"])]


def test_nominated_and_bound_pods_are_not_considered() -> None:
    cluster = Cluster()
    cluster.watched()
    cluster.mark(0.0, "a")
    cluster.mark(0.0, "nominated", nominated="n")
    cluster.mark(0.1, "bound")
    cluster.bind(0.9, "bound")
    cluster.run(5.0)
    assert cluster.rounds == [(1.1, ["a"])]


def test_nodes_on_their_way_count_until_they_arrive() -> None:
    cluster = Cluster(nodes=2)
    rounds = cluster.watched(delay=12.0)
    cluster.mark(0.0, "a")
    cluster.run(22.0)
    assert ([at for at, _ in cluster.rounds], cluster.upcoming, cluster.added) == ([1.0, 11.0, 21.0], [0, 2, 2], [])
    rounds.deliver()
    assert cluster.added == [13.0, 13.0, 23.0, 23.0, 33.0, 33.0]
    rounds.stop()
    cluster.run(100.0)
    assert len(cluster.rounds) == 3


def test_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karpenter, "MAX_NODES", 3)
    cluster = Cluster(nodes=2)
    rounds = cluster.watched()
    cluster.mark(0.0, "a")
    cluster.run(100.0)
    assert (len(cluster.rounds), len(rounds.launched), rounds.omitted) == (2, 2, 2)
    assert rounds.not_predicted == "further nodes (limit of nodes or rounds reached)"


def test_what_is_not_predicted_ends_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise NotPredicted("drift")

    cluster = Cluster()
    monkeypatch.setattr(cluster, "decide", fails)
    rounds = cluster.watched()
    cluster.mark(0.0, "a")
    cluster.run(100.0)
    assert (rounds.not_predicted, rounds.launched) == ("drift", [])


def test_older_pods_are_first_and_those_of_a_second_are_in_any_order_of_random_runs() -> None:
    def orders(random: Random | None) -> list[str]:
        cluster = Cluster()
        cluster.watched(random)
        for name, created in (("b", 7.0), ("c", 7.0), ("a", 7.0), ("old", 3.0)):
            cluster.mark(0.0, name, created=created)
        cluster.run(5.0)
        (order,) = cluster.orders
        return order

    assert orders(None) == ["old", "a", "b", "c"]
    found = {tuple(orders(Random(f"{number}"))) for number in range(40)}
    assert (len(found), {order[0] for order in found}) == (6, {"old"})


def test_nodes_of_random_runs_are_a_little_late() -> None:
    cluster = Cluster(nodes=3)
    rounds = cluster.watched(Random("1"))
    cluster.mark(0.0, "a")
    cluster.run(5.0)
    times = [at for (_, _, at), _ in rounds.launched]
    assert len({*times}) == 3
    assert all(101.0 <= at <= 102.0 for at in times)
