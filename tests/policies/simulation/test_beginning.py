"""What runs of one cluster have in common is done once before them: each comes to the same as one of its own."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.prediction.simulation.scenario import Arrival
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome
from forewarn.policies.questions.whatif.comparison import is_at_rest
from tests.oracle.generator.scenarios import KINDS, make_scenario
from tests.recorded.scenario import read_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.prediction.simulation.scenario import World

Case = dict[str, Any]


def lost(names: Sequence[str]) -> list[Arrival]:
    return [Arrival(0.0, "lost", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}) for name in names]


def without_a_pod(case: Case, dice: Random) -> None:
    """Its workload makes another at once."""
    case["pods"].remove(dice.choice(case["pods"]))


def with_waiting_pods(case: Case, _: Random) -> None:
    pods = [each["object"] for each in case["arrivals"] if each["object"]["kind"] == "Pod" and each["op"] == "create"]
    case["pods"] += [{**pod, "metadata": {**pod["metadata"], "name": f"waits-{n}"}} for n, pod in enumerate(pods)]


def with_a_node_that_does_not_answer(case: Case, dice: Random) -> None:
    spec = dice.choice(case["nodes"]).setdefault("spec", {})
    spec.setdefault("taints", []).append({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})


def with_a_cron_job(case: Case, dice: Random) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "300m"}}}
    template = {"metadata": {"labels": {"app": "cron"}}, "spec": {"priority": 1000, "containers": [container]}}
    spec = {"schedule": dice.choice(("* * * * *", "*/5 * * * *")), "jobTemplate": {"spec": {"template": template}}}
    metadata = {"name": "cron", "namespace": "default"}
    case["workloads"].append({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec})


def as_it_is(_: Case, __: Random) -> None:
    pass


ODDITIES = (as_it_is, without_a_pod, with_waiting_pods, with_a_node_that_does_not_answer, with_a_cron_job)


def world_of(kind: str, seed: int) -> World:
    case, dice = make_scenario(seed, 0, kind), Random(f"{kind} {seed}")
    case["scalingDown"] = True
    ODDITIES[seed % len(ODDITIES)](case, dice)
    return read_scenario(case)._replace(arrivals=[], quiet=660.0)


def run(simulation: Simulation) -> Case:
    simulation.run()
    return Outcome(simulation).to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_begun_before_comes_to_the_same(kind: str) -> None:
    """By every event at its time, every pod's node and the moment of the end."""
    looked = 0
    for seed in range(7101, 7101 + len(ODDITIES)):
        world = world_of(kind, seed)
        names = [node.name for node in world.nodes]
        for gone in ([], (names[:1], names[-1:], names[:2])[seed % 3]):
            arrivals = lost(gone)
            alone = run(Simulation(world._replace(arrivals=arrivals)))
            begun = Simulation(world)
            begun.begin()
            begun.expect(arrivals)
            assert run(begun) == alone
            ahead = Simulation(world)
            ahead.begin()
            if is_at_rest(world) and ahead.run_first_syncs():
                looked += 1
                ahead.expect(arrivals)
                found = run(ahead)
                assert found == alone or not ahead.is_as_if_new
    assert looked


def test_looking_around_ends_where_something_happens() -> None:
    """A workload that lacks a pod makes it."""
    happened = 0
    for kind in KINDS:
        world = world_of(kind, 7106)  # without a pod
        simulation = Simulation(world)
        simulation.begin()
        happened += not simulation.run_first_syncs()
    assert happened > len(KINDS) // 2


def test_a_run_that_ends_early_is_not_begun_so_far() -> None:
    for world in (world_of("simple", 7105)._replace(horizon=3.0), world_of("simple", 7105)._replace(quiet=3.0)):
        simulation = Simulation(world)
        simulation.begin()
        assert not simulation.run_first_syncs()


def test_what_happens_at_once_is_told_apart_from_what_happens_later() -> None:
    """A pod that goes while others would have looked for the first time."""
    world = world_of("simple", 7105)
    for seconds, as_if_new in ((2.0, False), (8.0, True)):
        simulation = Simulation(world)
        simulation.begin()
        assert simulation.run_first_syncs()
        simulation.expect(lost([world.nodes[0].name]))
        simulation.clock.schedule(seconds, partial(simulation.timeline.add, "deleted", "default/a"))
        simulation.run()
        assert simulation.is_as_if_new == as_if_new
