"""Scenarios of PodGroups that kube-scheduler 1.37.1 was recorded in, with the gate GenericWorkload, under virtual time.

Each has one final state in eight runs. What was unschedulable when is left out.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.releases.release import semantics_of
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.prediction.simulation import scheduler_cache as simulated_cycle
from forewarn.policies.prediction.simulation.scheduler_cache import NotPredicted
from tests.policies.simulation.comparing import by_category, judge
from tests.recorded.commands import answer_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPED = semantics_of(37, {"GenericWorkload": True})
Timeline = list[dict[str, Any]]


@cache
def texts() -> dict[str, list[tuple[str, str]]]:
    return by_category("groups")


def scenarios(category: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Cases and what was recorded."""
    return ((json.loads(case), json.loads(recorded)) for case, recorded in texts()[category])


def conditions(outcome: dict[str, Any]) -> dict[str, list[tuple[str, str, str]]]:
    """PodGroup -> what was written into its condition."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for event in outcome["timeline"]:
        if event["event"] == "groupCondition":
            entry = event["status"], event["reason"], event.get("message", "")
            found.setdefault(event["group"], []).append(entry)
    return found


@pytest.mark.parametrize("category", texts())
def test_what_happens_in_which_order_and_what_is_written(category: str) -> None:
    wrong = []
    for case, recorded in scenarios(category):
        (outcome,) = answer_scenario(case, semantics=GROUPED)["outcomes"]
        what, seconds = judge(recorded, outcome)
        if what or seconds > 1.0:
            wrong.append((case["id"], what, seconds))
        elif len(recorded["outcomes"]) == 1 and conditions(outcome) != conditions(recorded["outcomes"][0]):
            wrong.append((case["id"], "conditions", 0.0))
    assert not wrong


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}}


def pod(name: str, cpu: str = "2", on: str = "", group: str = "", priority: int = 0, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    own = {"schedulingGroup": {"podGroupName": group}} if group else {}
    bound = {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"priority": priority, "containers": [container], **own, **bound, **spec},
        "status": {"phase": "Running", "startTime": "2026-05-31T00:00:00Z"} if on else {},
    }


def group(name: str, least: int = 0, priority: int = 0, **spec: Any) -> dict[str, Any]:
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": policy, "priority": priority, **spec},
    }


def arrival(at: float, obj: dict[str, Any], op: str = "create") -> dict[str, Any]:
    return {"at": at, "op": op, "object": obj}


def run(semantics: Semantics = GROUPED, **case: Any) -> dict[str, Any]:
    (outcome,) = answer_scenario({"id": "a", "quietSeconds": 30, **case}, semantics=semantics)["outcomes"]
    return dict(outcome)


def where(outcome: dict[str, Any]) -> dict[str, str]:
    return {name.removeprefix("default/"): entry["node"] for name, entry in outcome["final"].items()}


TRAIN = [arrival(1, pod(f"train-{n}", group="train")) for n in (1, 2, 3)]


def test_a_gang_that_does_not_fit_as_a_whole_is_not_bound() -> None:
    made = [arrival(1, group("train", 3)), *TRAIN]
    assert set(where(run(nodes=[node("n1")], arrivals=made)).values()) == {""}
    assert "" not in where(run(nodes=[node("n1"), node("n2")], arrivals=made)).values()


def test_without_the_gate_pods_of_a_group_are_scheduled_one_by_one() -> None:
    made = [arrival(1, group("train", 3)), *TRAIN]
    off = semantics_of(37, {"GenericWorkload": False})
    assert sorted(where(run(off, nodes=[node("n1")], arrivals=made)).values()) == ["", "n1", "n1"]
    assert sorted(where(run(off, nodes=[node("n1")], arrivals=TRAIN)).values()) == ["", "n1", "n1"]


def test_pods_wait_for_their_podgroup_and_for_its_least_number_of_pods() -> None:
    outcome = run(
        nodes=[node("n1", "8")], arrivals=[*TRAIN[:2], arrival(9, group("train", 3)), arrival(20, TRAIN[2]["object"])]
    )
    bound = [event["t"] for event in outcome["timeline"] if event["event"] == "scheduled"]
    assert len(bound) == 3
    assert min(bound) > 20
    assert not [event for event in outcome["timeline"] if event["event"] == "unschedulable"]


def test_no_event_ends_the_back_off_of_a_group() -> None:
    made = [arrival(1, group("train", 3)), *TRAIN, arrival(1.5, {**node("n2"), "apiVersion": "v1", "kind": "Node"})]
    outcome = run(nodes=[node("n1")], arrivals=made)
    assert {int(event["t"]) for event in outcome["timeline"] if event["event"] == "scheduled"} == {3}


def test_a_podgroup_in_use_stays_until_its_last_pod_is_gone() -> None:
    made = [
        arrival(1, group("train")),
        *TRAIN[:1],
        arrival(5, group("train"), "delete"),
        arrival(9, TRAIN[0]["object"], "delete"),
    ]
    outcome = run(nodes=[node("n1")], arrivals=made)
    times = {event["event"]: event["t"] for event in outcome["timeline"]}
    assert times["groupDeleted"] == 5
    assert times["gone"] < times["groupGone"] < times["gone"] + 1


VICTIMS = [pod("old-1", "3", on="n1", group="old"), pod("old-2", "3", on="n2", group="old")]
HIGH = pod("high", "3", priority=500)


@pytest.mark.parametrize(
    ("old", "gone"),
    [
        (group("old", disruptionMode={"all": {}}), {"old-1", "old-2"}),
        (group("old", disruptionMode={"single": {}}), {"old-1"}),
        (group("old", priority=1000, disruptionMode={"all": {}}), set()),
    ],
    ids=["all", "single", "of higher priority"],
)
def test_an_ordinary_pod_preempts_by_group(old: dict[str, Any], gone: set[str]) -> None:
    nodes = [node("n1"), node("n2")]
    outcome = run(nodes=nodes, pods=VICTIMS, podGroups=[old], arrivals=[arrival(1, HIGH)])
    preempted = {event["pod"] for event in outcome["timeline"] if event["event"] == "preempted"}
    assert preempted == {f"default/{name}" for name in gone}


def test_a_group_preempts_groups_as_a_whole() -> None:
    made = [
        arrival(1, group("train", 2, 500)),
        *(arrival(1, pod(f"t-{n}", "4", group="train", priority=500)) for n in (1, 2)),
    ]
    outcome = run(
        nodes=[node("n1"), node("n2"), node("n3")],
        pods=[*VICTIMS, pod("other", "3", on="n3", priority=900)],
        podGroups=[group("old", disruptionMode={"all": {}})],
        arrivals=made,
    )
    assert {event["by"] for event in outcome["timeline"] if event["event"] == "preempted"} == {"PodGroup:default/train"}
    assert where(outcome) == {"other": "n3", "t-1": "n1", "t-2": "n2"} or where(outcome) == {
        "other": "n3",
        "t-1": "n2",
        "t-2": "n1",
    }


def lost(name: str) -> dict[str, Any]:
    return arrival(1, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, "delete")


def test_nothing_preempts_a_group_with_pods_on_a_removed_node() -> None:
    """Until the garbage collector deletes these Pods (here at 65.7 s)."""
    old = group("old", disruptionMode={"all": {}})
    nodes = [node("n1"), node("n2")]
    outcome = run(nodes=nodes, pods=VICTIMS, podGroups=[old], arrivals=[lost("n1"), arrival(2, HIGH)], quietSeconds=300)
    preempted = [event["t"] for event in outcome["timeline"] if event["event"] == "preempted"]
    gone = next(event["t"] for event in outcome["timeline"] if event["event"] == "gone")
    assert len(preempted) == 1
    assert preempted[0] > gone > 40


@pytest.mark.parametrize(("lost_at", "high"), [(50, "n2"), (1, "")])
def test_a_group_of_any_priority_with_pods_on_a_removed_node_prevents_preemption(lost_at: int, high: str) -> None:
    """On the nodes of its other Pods, even of Pods outside of the PodGroup."""
    old = group("old", priority=1000, disruptionMode={"all": {}})
    pods = [pod(f"old-{n}", "1", on=f"n{n}", group="old", priority=1000) for n in (1, 2)]
    made = [arrival(2, HIGH), lost("n1") | {"at": lost_at}]
    others = [pod("low", "3", on="n2"), pod("top", "3", on="n1", priority=1000)]
    outcome = run(nodes=[node("n1"), node("n2")], pods=[*pods, *others], podGroups=[old], arrivals=made)
    assert where(outcome)["high"] == high


def test_a_group_does_not_preempt_while_another_has_pods_on_a_removed_node() -> None:
    old = group("old", disruptionMode={"all": {}})
    made = [lost("n1"), arrival(2, group("t", 1, 500)), arrival(2, pod("t-1", "3", group="t", priority=500))]
    outcome = run(nodes=[node("n1"), node("n2")], pods=VICTIMS, podGroups=[old], arrivals=made, quietSeconds=20)
    ((status, reason, message), *_) = conditions(outcome)["default/t"]
    assert (status, reason) == ("False", "SchedulerError")
    assert message == (
        'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: failed to create domain: '
        'failed to get node info for node "n1" from snapshot: nodeinfo not found for node name "n1"'
    )


def test_members_of_another_priority_are_an_error() -> None:
    made = [arrival(1, group("train", 2, 5)), *TRAIN[:2]]
    outcome = run(nodes=[node("n1")], arrivals=made)
    message = "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 5"
    assert conditions(outcome) == {"default/train": [("False", "SchedulerError", message)]}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "scheduling constraints"),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "a"}]}, "resource claims"),
        ({"parentCompositePodGroupName": "all"}, "a parent CompositePodGroup"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_other_gates_add_is_not_predicted(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(NotPredicted, match=f"not predicted: PodGroup default/train: the PodGroup has {why}, which"):
        run(nodes=[node("n1")], arrivals=[arrival(1, group("train", **spec)), *TRAIN])


def test_members_with_volumes_to_bind_are_not_predicted() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    made = [arrival(1, group("train")), arrival(1, pod("t", group="train", volumes=[volume]))]
    with pytest.raises(NotPredicted, match="bind volumes or allocate devices"):
        run(nodes=[node("n1")], arrivals=made)


@pytest.mark.parametrize("minor", [35, 36])
def test_podgroups_of_older_releases_are_not_predicted(minor: int) -> None:
    with pytest.raises(NotPredicted, match=f"predicted for Kubernetes 1.37 and later, not for 1.{minor}"):
        run(semantics_of(minor, {"GenericWorkload": True}), nodes=[node("n1")], arrivals=TRAIN)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_priority_of_a_group_may_be_lower_than_that_of_its_pods(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_cycle, "MIN_FEASIBLE_NODES", 0 if at_once else 100)
    running = [pod(f"train-{n}", on="n1", group="train", priority=100) for n in (1, 2)]
    outcome = run(
        nodes=[node("n1")],
        podGroups=[group("train", priority=1, disruptionMode={"all": {}})],
        pods=running,
        arrivals=[arrival(1, pod("new", priority=50))],
    )
    assert where(outcome) == {"new": "n1"}
