"""DefaultPreemption: who may preempt, who must go, and where."""

from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.scheduling.preemption import NEVER, TERMINATING, Preemption
from tests.builders import Made, MadePod, ask, cluster, make_budget, make_node, make_pod, reasons

NEW = make_pod("new").priority(100).request(cpu="4")


def full(node: str, *pods: MadePod) -> list[Made]:
    return [make_node(node), *(pod.on(node) if "nodeName" not in pod.obj["spec"] else pod for pod in pods)]


def old(name: str, priority: int, cpu: str, started: int = 0, node: str = "n1") -> MadePod:
    return make_pod(name).priority(priority).request(cpu=cpu).labels(app=name).on(node, started=started)


def victims(*made: Made, pod: MadePod = NEW) -> list[str]:
    return [victim.name for victim in ask(pod, *made).victims]


def test_only_pods_of_lower_priority_go() -> None:
    assert victims(*full("n1", old("low", 1, "2"), old("equal", 100, "2"))) == []
    assert victims(*full("n1", old("low", 99, "2"), old("lower", 1, "2"))) == ["low", "lower"]


def test_the_most_important_pods_come_back_first() -> None:
    pod = make_pod("new").priority(100).request(cpu="2")
    assert victims(*full("n1", old("a", 1, "2"), old("b", 2, "2")), pod=pod) == ["a"]


def test_a_smaller_pod_comes_back_after_a_larger_one_could_not() -> None:
    pod = make_pod("new").priority(100).request(cpu="2")
    made = full("n1", old("large", 9, "3"), old("small", 1, "1"))
    assert victims(*made, pod=pod) == ["large"]


def test_of_equals_the_younger_goes() -> None:
    pod = make_pod("new").priority(100).request(cpu="2")
    assert victims(*full("n1", old("older", 1, "2", 0), old("younger", 1, "2", 60)), pod=pod) == ["younger"]


def test_pods_of_a_spent_budget_come_back_first_and_count() -> None:
    pod = make_pod("new").priority(100).request(cpu="2")
    made = full("n1", old("kept", 1, "2"), old("free", 9, "2"))
    prediction = ask(pod, *made, make_budget("b", 0, app="kept"))
    assert [v.name for v in prediction.victims] == ["free"]
    assert prediction.num_pdb_violations == 0
    prediction = ask(NEW, *made, make_budget("b", 0, app="kept"))
    assert [v.name for v in prediction.victims] == ["free", "kept"]
    assert prediction.num_pdb_violations == 1


def test_violated_pdbs_are_those_of_the_victims_after_all_evictions_that_count() -> None:
    """The first Pod of `a` uses up its disruption, and is reprieved; the second one is a victim."""
    node = make_node("n1").has(cpu="7", memory="8Gi", pods="10")
    made = [old("a1", 3, "1").labels(app="a"), old("a2", 2, "3").labels(app="a"), old("b1", 1, "3").labels(app="b")]
    made += [old("c1", 1, "0").labels(app="c")]
    budgets = [make_budget("a", 1, app="a"), make_budget("b", 0, app="b"), make_budget("c", 0, app="c")]
    prediction = ask(make_pod("new").priority(9).request(cpu="6"), node, *made, *budgets)
    assert [victim.name for victim in prediction.victims] == ["a2", "b1"]
    assert prediction.violated_pdbs == ["default/a", "default/b"]
    assert ask(make_pod("new").priority(9).request(cpu="1"), make_node("n1"), *budgets).violated_pdbs == []


@pytest.mark.parametrize(
    ("budget", "violations"),
    [
        (make_budget("b", 1, app="old"), 0),
        (make_budget("b", 0, app="old"), 1),
        (make_budget("b", 0, app="other"), 0),
        (make_budget("b", 0, "elsewhere", app="old"), 0),
        (make_budget("b", 0, app="old").status(disruptedPods={"old": "2026-01-01T00:00:00Z"}), 0),
        (make_budget("b", 0).spec(selector={}), 0),
        (make_budget("b", 0).spec(selector=None), 0),
    ],
)
def test_which_budgets_speak_for_a_pod(budget: Made, violations: int) -> None:
    assert ask(NEW, *full("n1", old("old", 1, "4")), budget).num_pdb_violations == violations


def test_pods_without_labels_have_no_budget() -> None:
    budget = make_budget("b", 0).spec(selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})
    bare = make_pod("bare").request(cpu="4").on("n1")
    assert ask(NEW, make_node("n1"), bare, budget).num_pdb_violations == 0


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ([old("a", 1, "4")], [old("b", 2, "4", node="n2")], ["n1"]),
        ([old("a", 1, "2"), old("b", 1, "2")], [old("c", 1, "4", node="n2")], ["n2"]),
        ([old("a", -5, "2"), old("b", -5, "2")], [old("c", -5, "4", node="n2")], ["n2"]),
        ([old("a", 1, "4", 60)], [old("b", 1, "4", 0, node="n2")], ["n1"]),
        ([old("a", 1, "4")], [old("b", 1, "4", node="n2")], ["n1", "n2"]),
    ],
    ids=["lowest priority", "fewest pods", "fewest pods below zero", "youngest", "tie"],
)
def test_the_cheapest_node_is_chosen(first: list[MadePod], second: list[MadePod], chosen: list[str]) -> None:
    state = cluster(make_node("n1"), make_node("n2"), *first, *second)
    for one_by_one in (False, True):
        prediction = predict(state, NEW.obj, reasons=one_by_one)
        assert prediction.best_nodes == chosen
        assert prediction.nominated_node == chosen[0]


@pytest.mark.parametrize(
    ("cpu", "terminating", "violations", "candidate"),
    [("4", False, 2, 2), ("4", True, 1, 2), ("2", True, 0, 1)],
    ids=["both", "one terminates", "the only one terminates"],
)
def test_terminating_victims_violate_no_pdb_again(cpu: str, terminating: bool, violations: int, candidate: int) -> None:
    """kube-scheduler counts their violations when it compares nodes."""
    old = [make_pod(name).labels(app="old").request(cpu="2").on("n1") for name in ("a", "b")]
    if terminating:
        old[1].terminating()
    budget = make_budget("pdb", 0, app="old")
    found = ask(make_pod("new").priority(5).request(cpu=cpu), make_node("n1").has(cpu="4"), *old, budget)
    settled = found.settled(found.snapshot, with_ties=True)
    assert (found.num_pdb_violations, settled.num_pdb_violations) == (violations, violations)
    assert (found.violated_pdbs == []) is (violations == 0)
    assert found.to_dict()["candidates"]["n1"]["pdbViolations"] == candidate


def test_violations_weigh_more_than_priority() -> None:
    made = [make_node("n1"), make_node("n2"), old("cheap", 1, "4"), old("dear", 99, "4", node="n2")]
    assert ask(NEW, *made, make_budget("b", 0, app="cheap")).best_nodes == ["n2"]


def test_a_policy_of_never_keeps_a_pod_waiting() -> None:
    pod = make_pod("new").priority(100).request(cpu="4").spec(preemptionPolicy="Never")
    prediction = ask(pod, *full("n1", old("old", 1, "4")))
    assert prediction.outcome == "pending"
    assert prediction.preemption == Preemption(eligible=False, ineligible_reason=NEVER)
    assert (prediction.preemption.potential_nodes, prediction.preemption.num_candidates) == (0, 0)


def test_a_pod_waits_for_victims_that_are_going_already() -> None:
    going = old("going", 1, "4").terminating(preempted=True)
    waiting = make_pod("new").priority(100).request(cpu="4").nominated("n1")
    assert ask(waiting, make_node("n1"), going).preemption.ineligible_reason == TERMINATING
    for other in (old("deleted", 1, "4").terminating(), old("equal", 100, "4").terminating(preempted=True)):
        assert ask(waiting, make_node("n1"), other).preemption.eligible
    cordoned = make_node("n1").spec(unschedulable=True)
    assert ask(waiting, cordoned, going).preemption.eligible  # that node is none for it any more


def test_a_node_without_lower_pods_is_dropped_in_the_dry_run() -> None:
    prediction = ask(NEW, *full("n1", old("equal", 100, "4")))
    assert reasons(prediction) == {"n1": "Insufficient cpu"}
    status = prediction.preemption.statuses["n1"]
    assert status.reasons == ("No preemption victims found for incoming pod",)


@pytest.mark.parametrize(("priority", "fits"), [(99, True), (100, False), (101, False)])
def test_nominated_pods_of_equal_or_higher_priority_hold_their_place(priority: int, fits: bool) -> None:
    ahead = make_pod("ahead").priority(priority).request(cpu="1").nominated("n1")
    assert ask(NEW, make_node("n1"), ahead).fits is fits


@pytest.mark.parametrize("fields", [{"schedulerName": "volcano"}, {"schedulingGates": [{"name": "wait"}]}])
def test_pods_that_are_not_in_the_queue_hold_no_place(fields: dict[str, Any]) -> None:
    ahead = make_pod("ahead").priority(100).request(cpu="1").nominated("n1").spec(**fields)
    assert ask(NEW, make_node("n1"), ahead).fits


def test_a_pod_is_not_in_its_own_way() -> None:
    nominated = make_pod("new").priority(100).request(cpu="4").nominated("n1")
    assert ask(nominated, make_node("n1"), nominated).fits


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (make_pod("p").spec(schedulerName="volcano"), "for another scheduler"),
        (make_pod("p").spec(nodeName="n1"), "names its node"),
        (make_pod("p").spec(schedulingGates=[{"name": "wait"}]), "scheduling gates"),
        (make_pod("p").spec(resourceClaims=[{"name": "gpu"}]), "claims devices"),
    ],
)
def test_what_cannot_be_predicted_honestly_is_not(pod: MadePod, why: str) -> None:
    prediction = ask(pod, make_node("n1"))
    assert prediction.outcome == "not-predicted"
    assert (prediction.best_nodes, prediction.victims, prediction.feasible) == ([], (), [])
    assert why in prediction.caveats[0]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([make_node("n1"), make_node("n2"), old("a", 1, "4"), old("b", 1, "4", node="n2")], "2 nodes tie: any"),
        ([make_node("n1"), old("a", 1, "4").status(startTime=None)], "no start time"),
        (
            [make_node("n1"), old("a", 1, "4"), make_budget("b", 1, app="a").metadata(generation=2)],
            "disruption budget default/b is older than its spec",
        ),
        ([make_node(f"n{i}") for i in range(2)], "2 nodes tie for the best score"),
    ],
)
def test_standing_says_what_cannot_be_known(made: list[Made], said: str) -> None:
    assert any(said in line for line in ask(NEW, *made).caveats)


def test_standing_names_victims_that_tie() -> None:
    pod = make_pod("new").priority(100).request(cpu="2")
    assert any("victims tie" in s for s in ask(pod, *full("n1", old("a", 1, "2"), old("b", 1, "2"))).caveats)


def test_standing_names_sampling_above_a_hundred_nodes() -> None:
    nodes = [make_node(f"n{i:03}") for i in range(101)]
    assert any("scores only a part" in line for line in ask(NEW, *nodes).caveats)
    load = [old(f"p{i}", 1, "4", node=f"n{i:03}") for i in range(101)]
    assert any("chance decides on which of 101 nodes" in line for line in ask(NEW, *nodes, *load).caveats)


def test_without_nodes_nothing_is_predicted_but_waiting() -> None:
    prediction = ask(NEW)
    assert (prediction.outcome, prediction.best_nodes) == ("pending", [])
