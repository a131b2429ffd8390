"""A cluster that runs, beyond the world of the recordings: pods take a moment to be ready, and nobody knows in which
order the scheduler has heard of them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import explore, summarize
from tests.builders import Made, MadePod, make_node, make_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGAN = "2026-01-01T00:00:00Z"


def stateful_set(name: str, policy: str, replicas: int, priority: int) -> Made:
    pod = make_pod("").request(cpu="2").priority(priority).obj["spec"] | {"terminationGracePeriodSeconds": 2}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    selector = {"matchLabels": {"app": name}}
    made = Made("apps/v1", "StatefulSet", name, "default").spec(replicas=replicas, selector=selector, template=template)
    return made.spec(podManagementPolicy=policy)


def pod_of(name: str, number: int) -> MadePod:
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "controller": True, "uid": ""}
    pod = make_pod(f"{name}-{number}").request(cpu="2").labels(app=name).spec(terminationGracePeriodSeconds=2)
    return pod.metadata(ownerReferences=[reference], creationTimestamp=BEGAN)


def world(made: Sequence[Made], arrival: Arrival) -> Any:
    cache = DumpCache()
    for each in made:
        cache.add(each.obj)
    return world_of(cache, [arrival], until=3600)


def test_an_ordered_set_makes_the_next_pod_when_one_is_ready_and_not_when_it_is_bound() -> None:
    """Case 93 of seed 31 of test_changes.py: a pod that waits is let in where an old pod has ended, and pushed out by
    the new one before it is ready. A pod that was ready at once had its set make the next one.

    Source: upstream `processReplica`: not before `isRunningAndReady`."""
    running = pod_of("rolling", 0).on("n").status(conditions=[{"type": "Ready", "status": "True"}])
    made = [make_node("n").has(cpu="2"), stateful_set("rolling", "Parallel", 1, 100), running.priority(100)]
    made += [stateful_set("ordered", "OrderedReady", 2, 0), pod_of("ordered", 0)]
    simulation = Simulation(world(made, Arrival(0.0, "update", stateful_set("rolling", "Parallel", 1, 1000).obj)))
    simulation.run()
    let_in = [event for event in simulation.timeline.events if event.event == "scheduled"]
    assert [event.pod for event in let_in] == ["default/ordered-0", "default/rolling-0"]
    assert simulation.final() == {"default/ordered-0": {"node": ""}, "default/rolling-0": {"node": "n"}}


def victims(pods: Sequence[MadePod], runs: int) -> Counter[str]:
    """Whom a pod of 1 cpu and higher priority preempts of a node that these fill, by what it comes to."""
    made = [make_node("n").has(cpu=str(len(pods))), *pods]
    new = make_pod("new").request(cpu="1").priority(10)
    found = Counter[str]()
    for outcome in explore(partial(Simulation, world(made, Arrival(0.0, "create", new.obj))), runs):
        (eviction,) = summarize(outcome.simulation).evictions
        found[eviction.victim] += outcome.count
    return found


def one(name: str, started: int) -> MadePod:
    return make_pod(name).request(cpu="1").on("n", started=started)


def test_runs_with_dice_push_out_either_of_two_pods_that_started_in_one_second() -> None:
    """Upstream tells them apart by their order in a list, which is that in which the scheduler heard of them."""
    assert set(victims([one("a", 0), one("b", 0)], runs=20)) == {"default/a", "default/b"}


def test_the_one_that_started_later_goes_in_every_run() -> None:
    assert set(victims([one("a", 1), one("b", 0)], runs=20)) == {"default/a"}


def test_runs_with_dice_try_either_of_two_pods_first_that_came_in_one_second() -> None:
    waiting = [make_pod(name).request(cpu="1").metadata(creationTimestamp=BEGAN) for name in "ab"]
    made = [make_node("n").has(cpu="1"), one("first", 0), *waiting]
    found = set()
    simulate = partial(Simulation, world(made, Arrival(1.0, "delete", one("first", 0).obj)))
    for outcome in explore(simulate, 20):
        (let_in,) = [name for name, entry in outcome.simulation.final().items() if entry["node"]]
        found.add(let_in)
    assert found == {"default/a", "default/b"}
