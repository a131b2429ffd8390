"""Evictions that take a while, and who is tried again meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.prediction.simulation.clock import Clock
from forewarn.policies.prediction.simulation.scheduler import PreemptionExecutor, Preemptor
from tests.builders import make_node, make_pod
from tests.recorded.commands import answer_scenario as answer_case


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


class SlowServer:
    """An API server of pods, and how long writes take there, in seconds."""

    def __init__(self, *names: str) -> None:
        self.pods = {("default", name): Pod.from_api(make_pod(name).on("n1").obj) for name in names}
        self.took: list[str] = []

    def write(self, verb: str, what: str) -> float:
        return 5.0 if what == "default/slow" else 1.0

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self.pods.get((namespace, name))

    def disrupt(self, key: tuple[str, str], *, preempted: bool) -> bool:
        assert preempted
        return key in self.pods

    def delete_pod(self, key: tuple[str, str], _event: str, *, by: str) -> None:
        self.took.append(key[1])
        self.pods.pop(key, None)


def test_a_pod_is_tried_again_while_its_first_evictions_are_under_way() -> None:
    """Its last victim is ending for somebody else already: it need not wait for its own DELETE to be answered. What
    that one notes in the end is of no matter to the evictions that the pod has asked for meanwhile."""
    clock, server = Clock(0.0), SlowServer("slow", "b", "c")
    api: Any = server
    executor = PreemptionExecutor(clock, api, api, lambda _: ())
    pod = Pod.from_api(make_pod("p").priority(9).obj)
    preemptor = Preemptor(pod.uid, pod.key, pod.effective_priority)
    executor.prepare("n1", [server.pods["default", "slow"]], preemptor)
    clock.advance()()
    assert executor.pre_enqueue(pod) is not None
    server.pods["default", "slow"] = replace(server.pods["default", "slow"], terminating=True)
    assert executor.pre_enqueue(pod) is None
    others = server.pods["default", "b"], server.pods["default", "c"]
    clock.schedule(8.5, lambda: executor.prepare("n2", others, preemptor))
    while clock.next_time is not None:
        clock.advance()()
    assert server.took == ["slow", "b", "c"]
    assert executor.pre_enqueue(pod) is None
