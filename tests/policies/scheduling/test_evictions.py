"""What evictions leave of disruption budgets and nominations for who comes next."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.placement import place, place_pods
from tests.builders import Made, MadePod, cluster, make_budget, make_node, make_pod
from tests.policies.scheduling.consistency import check

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

NEW = make_pod("new").priority(9).request(cpu="3")


def old(node: str, *, ready: str | None = "True") -> MadePod:
    made = make_pod(f"old-{node}").priority(1).request(cpu="3").labels(app="old").on(node)
    return made if ready is None else made.status(conditions=[{"type": "Ready", "status": ready}])


def violations(*made: Made, nodes: str = "ab", replicas: int = 2) -> list[int]:
    state = cluster(*(make_node(node) for node in nodes), *made)
    return [p.num_pdb_violations for p in place(state, NEW.obj, replicas).predictions]


def test_an_eviction_is_charged_to_its_budgets() -> None:
    """A budget that allows one disruption is violated by the second."""
    pods = [old("a"), old("b")]
    assert violations(*pods, make_budget("one", 1, app="old")) == [0, 1]
    assert violations(*pods, make_budget("two", 2, app="old")) == [0, 0]
    assert violations(*pods, make_budget("none", 0, app="old")) == [1, 1]
    assert violations(*pods, make_budget("other", 1, "elsewhere", app="old")) == [0, 0]


@pytest.mark.parametrize(
    ("first", "charged"),
    [
        (old("a"), True),
        (old("a", ready=None), True),
        (old("a", ready="False"), False),
        (old("a", ready=None).status(phase="Pending"), False),
        (old("a").terminating(), False),
    ],
    ids=["ready", "not said", "not ready", "starting", "terminating"],
)
def test_only_a_healthy_pod_costs_its_budget_something(first: MadePod, charged: bool) -> None:
    """Source: upstream `countHealthyPods`. Of two nodes with equal pods the first by name is taken."""
    assert violations(first, old("b"), make_budget("one", 1, app="old")) == [0, int(charged)]


def test_a_pod_that_the_eviction_api_has_taken_is_not_counted_twice() -> None:
    budget = make_budget("one", 1, app="old").status(disruptedPods={"old-a": "2026-02-01T00:00:00Z"})
    assert violations(old("a"), old("b"), budget) == [0, 0]


def test_the_controller_takes_an_empty_selector_for_all_pods() -> None:
    """Preemption up to 1.36 does not, so that nothing is violated; its status goes down all the same."""
    made: Any = make_budget("all", 5)
    made.obj["spec"]["selector"] = {}
    after = predict(cluster(make_node("a"), old("a"), made), NEW.obj).snapshot_after()
    assert [b.disruptions_allowed for b in after.objects.pdbs.values()] == [4]
    assert after.pdbs["default"][0].disruptions_allowed == 4
    check(after)


def twice(state: ClusterSnapshot, first: MadePod, second: MadePod) -> tuple[Prediction, Prediction]:
    one = predict(state, first.obj)
    return one, Prediction(one.snapshot_after(), predict(state, second.obj).pod)


def test_a_pod_that_is_bound_is_nominated_no_more() -> None:
    """It was counted on its node and as nominated to it: a pod that fits beside it was said not to."""
    nominated = make_pod("n").priority(9).request(cpu="2").nominated("a")
    state = cluster(make_node("a"), nominated)
    one, two = twice(state, nominated, make_pod("p").priority(9).request(cpu="2"))
    assert (one.node, two.outcome) == ("a", "fits")


@pytest.mark.parametrize(
    ("victim", "priority", "outcome"),
    [
        (old("a"), 5, "preempts"),  # the victim that is ending, and the room beside the preemptor
        (old("a"), 9, "pending"),
        (old("a").terminating(), 5, "pending"),
    ],
    ids=["lower", "equal", "nobody is evicted anew"],
)
def test_who_preempts_takes_nominations_from_pods_of_lower_priority(
    victim: MadePod, priority: int, outcome: str
) -> None:
    nominated = make_pod("n").priority(priority).request(cpu="1").nominated("a")
    preemptor, small = NEW, make_pod("p").priority(2).request(cpu="1")
    one, two = twice(cluster(make_node("a"), victim, nominated), preemptor, small)
    assert (one.outcome, two.outcome) == ("preempts", outcome)


def test_many_evictions_in_turn_leave_what_a_rebuild_gives() -> None:
    nodes = [make_node(f"n{number:02}") for number in range(12)]
    pods = [old(f"n{number:02}") for number in range(12)]
    state = cluster(*nodes, *pods, make_budget("some", 7, app="old"))
    pod = predict(state, NEW.obj).pod
    predictions = place_pods(state, [replace(pod, uid=f"new-{number}") for number in range(12)])
    assert [p.num_pdb_violations for p in predictions] == [0] * 7 + [1] * 5
    for prediction in predictions:
        check(prediction.snapshot_after())


def test_an_ending_pod_is_the_pod_but_for_its_end() -> None:
    """Every field is taken over, whichever comes to be added."""
    given = {field.name: object() for field in fields(Pod)} | {"terminating": False, "preempted": False}
    pod = Pod(**given)  # type: ignore[arg-type]
    assert pod.as_terminating() == replace(pod, terminating=True, preempted=True)
    ended = replace(pod, terminating=True)
    assert ended.as_terminating() is ended
