"""Evictions that take a while, and who is tried again meanwhile."""

from __future__ import annotations

from policies.commands.simulate import answer_case
from tests.builders import make_node, make_pod


def test_a_pod_is_tried_again_when_its_last_victim_ends_for_another_already() -> None:
    """The second pod waits for two victims, of which the first pod has told one to end. When the other one is gone too,
    it is tried, and then waits behind the first pod, which was tried before. The order is that of `oracle scenarios`.
    """
    ending = make_pod("ending").request(cpu="2").spec(priority=1, terminationGracePeriodSeconds=3).on("n1", started=1)
    quick = make_pod("quick").request(cpu="2").spec(priority=2, terminationGracePeriodSeconds=0).on("n1", started=1)
    arrivals = [
        {"at": at, "op": "create", "object": make_pod(name).request(cpu="2").spec(priority=10).obj}
        for at, name in ((1, "first"), (1.001, "second"))
    ]
    case = {"nodes": [make_node("n1").obj], "pods": [ending.obj, quick.obj], "arrivals": arrivals, "scalingDown": True}
    (outcome,) = answer_case(case)["outcomes"]
    told = [(event["event"], event.get("pod", "").removeprefix("default/")) for event in outcome["timeline"]]
    after = told[told.index(("gone", "quick")) :]
    assert ("unschedulable", "second") in after
    assert [pod for what, pod in after if what == "scheduled"] == ["first", "second"]
