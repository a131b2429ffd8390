"""What many losses come to: the same by forks of one simulation as by a simulation for each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome as OneRun
from forewarn.policies.questions.whatif import questions
from forewarn.policies.questions.whatif.autoscalers import NO_GROUPS
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.questions import Question
from forewarn.policies.questions.whatif.sweep import Tally, counted
from tests.builders import Made, make_node, make_pod
from tests.oracle.generator.scenarios import make_scenario
from tests.recorded.scenario import read_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.forks


def cluster() -> DumpCache:
    """Three nodes of 4 cpus; there is room for what runs on the third, and for some of what runs on the others."""
    cache = DumpCache()
    for name in ("n1", "n2", "n3"):
        cache.add(make_node(name).has(cpu="4", memory="8Gi", pods="110").obj)
    for name, node, cpu, count in (("web", "n1", "1500m", 2), ("db", "n2", "3600m", 1), ("small", "n3", "500m", 1)):
        pod = make_pod(name).request(cpu=cpu).obj
        template = {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}
        selector = {"matchLabels": {"app": name}}
        made = Made("apps/v1", "ReplicaSet", name, "default")
        cache.add(made.spec(replicas=count, selector=selector, template=template).obj)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "1", "controller": True}
        ready = [{"type": "Ready", "status": "True"}]
        for number in range(count):
            made_pod = make_pod(f"{name}-{number}").request(cpu=cpu).on(node).labels(app=name)
            cache.add(made_pod.metadata(ownerReferences=[owner]).status(conditions=ready).obj)
    return cache


class Lost:
    def __init__(self, simulation: Simulation) -> None:
        self.tally = Tally(simulation, NO_GROUPS)

    def measure(self, simulation: Simulation, question: Question) -> dict[str, int]:
        lost = self.tally.measure(simulation, question).row.lost
        return {name: each.replicas for name, each in lost.items()}


def lost() -> list[Mapping[str, int]]:
    cache = cluster()
    asked = [questions.nodes_lost(cache.snapshot(), [name]) for name in ("n1", "n2", "n3")]
    return list(counted(world_of(cache, [], until=600.0), asked, Lost))


def test_a_fork_answers_as_a_simulation_of_its_own() -> None:
    cache, expected = cluster(), []
    for name in ("n1", "n2", "n3"):
        question = questions.nodes_lost(cache.snapshot(), [name])
        answer = ask(question, world_of(cache, question.arrivals, until=600.0))
        expected.append(
            {standing.workload: standing.decrease for standing in answer.after.workloads if standing.decrease}
        )
    assert lost() == expected == [{}, {"default/db": 1}, {}]


def test_where_nothing_can_be_forked_all_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def rejected() -> int:
        raise BlockingIOError("no more processes")

    forked = lost()
    monkeypatch.setattr(os, "fork", rejected)
    assert lost() == forked


def test_a_fork_that_ends_early_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    forked, fork = lost(), os.fork

    def killed() -> int:
        process = fork()
        if process == 0:
            os._exit(1)
        return process

    monkeypatch.setattr(os, "fork", killed)
    assert lost() == forked


class Outcome:
    """Counts nothing: all that has happened."""

    def __init__(self, simulation: Simulation) -> None:
        assert not simulation.timeline.events

    def measure(self, simulation: Simulation, _: object) -> dict[str, Any]:
        simulation.run()
        return OneRun(simulation).to_dict()


@pytest.mark.parametrize(
    ("kind", "waits"), [("simple", False), ("deployments", False), ("mixed", False), ("lost", True)]
)
def test_of_random_clusters_every_event_is_that_of_a_simulation_of_its_own(kind: str, waits: bool) -> None:
    """Of clusters at rest and of one with a pod that waits; of no loss at all too."""
    case = make_scenario(7301, 0, kind) | {"scalingDown": True}
    if waits:
        case["pods"][0].get("spec", {}).pop("nodeName")
    world = read_scenario(case)._replace(arrivals=[], quiet=660.0)
    asked = [Question("nothing"), *(lost_nodes(node.name) for node in world.nodes)]
    expected = []
    for question in asked:
        simulation = Simulation(world._replace(arrivals=question.arrivals))
        simulation.run()
        expected.append(OneRun(simulation).to_dict())
    assert list(counted(world, asked, Outcome)) == expected


def lost_nodes(*names: str) -> Question:
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    return Question("lost", [Arrival(0.0, "lost", node) for node in nodes])


def test_what_a_fork_cannot_tell_a_new_simulation_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    told, made, make = lost(), [], Simulation.__init__

    def watched(self: Simulation, *arguments: Any, **options: Any) -> None:
        made.append(arguments)
        make(self, *arguments, **options)

    monkeypatch.setattr(Simulation, "__init__", watched)
    assert lost() == told
    assert len(made) == 1
    monkeypatch.setattr(Simulation, "is_as_if_new", False)
    assert lost() == told
    assert len(made) == 2 + 3
