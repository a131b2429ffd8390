"""Resource quotas in a simulation: who is refused, when that is tried again, and what is missing in the end."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.base.documents import to_dict
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import summarize, timeline_rows
from tests.builders import Made, make_node, make_pod
from tests.recorded.commands import answer_scenario as answer_case

Obj = dict[str, Any]


def workload(kind: str, name: str, replicas: int, *, grace: int = 10, **pod: Any) -> Obj:
    spec = {**make_pod("").request(cpu="1").obj["spec"], "terminationGracePeriodSeconds": grace, **pod}
    made = Made("batch/v1" if kind == "Job" else "apps/v1", kind, name, "default")
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    if kind == "Job":
        return made.spec(parallelism=replicas, template={**template, "spec": {**spec, "restartPolicy": "Never"}}).obj
    return made.spec(replicas=replicas, selector={"matchLabels": {"app": name}}, template=template).obj


def quota(hard: dict[str, str], **spec: Any) -> Obj:
    return {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard, **spec}}


def happened(arrivals: list[Any], hard: dict[str, str], **spec: Any) -> list[tuple[float, str, str]]:
    """(seconds, event, pod or message), less bindings. `arrivals`: (seconds, op, object)."""
    given = [{"at": at, "op": op, "object": obj} for at, op, obj in arrivals]
    nodes = [make_node("n1").obj]
    case = {"nodes": nodes, "arrivals": given, "resourceQuotas": [quota(hard, **spec)], "scalingDown": True}
    (found,) = answer_case(case)["outcomes"]
    told = [(e["t"], e["event"], e.get("pod") or e.get("message", "")) for e in found["timeline"]]
    return [each for each in told if each[1] != "scheduled"]


def deleted(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}


def test_pods_beyond_a_quota_are_refused_and_that_is_told_once() -> None:
    told = happened([(1, "create", workload("ReplicaSet", "a", 5))], {"pods": "3"})
    assert [what for _, what, _ in told] == ["created", "created", "created", "refused"]
    assert told[-1][2] == "default/a: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"


def test_a_replacement_waits_until_the_pod_is_gone_and_its_controller_tries_again() -> None:
    """Attempts come 5, 10, 20 … ms after each other; what has gone is given back a write later."""
    steps = [(1, "create", workload("ReplicaSet", "a", 1)), (60, "delete", deleted("a-1"))]
    told = happened(steps, {"pods": "1"})
    assert [what for _, what, _ in told] == ["created", "deleted", "refused", "gone", "created"]
    gone, again = told[3][0], told[4][0]
    assert 0.001 < again - gone < 10.24, "no longer than what has passed since the first attempt"


def test_a_workload_that_nothing_else_wakes_tries_again_up_to_a_thousand_seconds_later() -> None:
    """After 650 s of refusals the next attempt is 655 s after the last one: the run goes on until then."""
    a, b = workload("ReplicaSet", "a", 1), workload("ReplicaSet", "b", 1)
    told = happened([(1, "create", a), (2, "create", b), (400, "delete", a)], {"pods": "1"})
    assert [what for _, what, _ in told] == ["created", "refused", "deleted", "gone", "created", "retried"]
    assert told[-2][2] == "default/b-1"
    assert 600 < told[-2][0] < 700
    assert told[-1][2] == "default/b: retry 5 min 28 s after the last rejection by quota default/q"


def test_a_job_tries_again_after_seconds() -> None:
    """1, 2, 4 … 60 s. Source: `DefaultJobApiBackOff`."""
    steps = [(1, "create", workload("ReplicaSet", "a", 1, grace=0)), (2, "create", workload("Job", "j", 1))]
    told = happened([*steps, (6.5, "delete", workload("ReplicaSet", "a", 1))], {"pods": "1"})
    assert [what for _, what, _ in told] == ["created", "refused", "deleted", "gone", "created"]
    assert told[-1][0] == pytest.approx(9.0, abs=0.05)


def test_a_scope_is_about_pods_of_a_class_alone() -> None:
    terms = [{"scopeName": "PriorityClass", "operator": "In", "values": ["web"]}]
    steps = [
        (1, "create", workload("ReplicaSet", "a", 2, priorityClassName="web", priority=1)),
        (2, "create", workload("ReplicaSet", "b", 2, priorityClassName="batch", priority=0)),
    ]
    told = happened(steps, {"pods": "1"}, scopeSelector={"matchExpressions": terms})
    assert [name for _, what, name in told if what == "created"] == ["default/a-1", "default/b-1", "default/b-2"]


def test_a_pod_that_somebody_makes_is_refused_for_good() -> None:
    pod = make_pod("p").request(cpu="2").obj
    told = happened([(1, "create", pod)], {"requests.cpu": "1"})
    why = "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1"
    assert told == [(1.0, "refused", f"default/p: {why}")]


def simulated(objects: list[Obj], arrivals: list[Arrival], until: float = 600.0) -> Simulation:
    cache = DumpCache()
    for obj in objects:
        cache.add(obj)
    simulation = Simulation(world_of(cache, arrivals, until=until))
    simulation.run()
    return simulation


def stored(hard: dict[str, str], used: dict[str, str] | None) -> Obj:
    status = {} if used is None else {"status": {"hard": hard, "used": used}}
    return {**quota(hard), **status, "apiVersion": "v1", "kind": "ResourceQuota"}


def test_the_end_says_whose_pods_are_missing() -> None:
    web = workload("Deployment", "web", 4)
    simulation = simulated([make_node("n1").obj, stored({"pods": "2"}, {"pods": "1"})], [Arrival(0.0, "create", web)])
    summary = summarize(simulation)
    assert [(each.group, each.pods) for each in summary.missing] == [("default/web", 3)]
    assert to_dict(summary)["rejectedByQuota"] == {"default/web": 3}
    told = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    assert [each.message for each in summary.missing] == [told]
    rejected = f"a ResourceQuota rejects a Pod of default/web: {told}"
    assert any(event.endswith(rejected) for _, event in timeline_rows(simulation))


def test_a_quota_that_its_controller_has_not_seen_refuses_nobody() -> None:
    web = workload("ReplicaSet", "web", 2)
    simulation = simulated([make_node("n1").obj, stored({"pods": "1"}, None)], [Arrival(0.0, "create", web)])
    assert not summarize(simulation).missing


def test_what_a_limit_range_adds_counts() -> None:
    item = {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "1Gi"}}
    limits = Made("v1", "LimitRange", "l", "default").spec(limits=[item]).obj
    hard = stored({"limits.memory": "1Gi"}, {"limits.memory": "0"})
    simulation = simulated(
        [make_node("n1").obj, limits, hard], [Arrival(0.0, "create", workload("ReplicaSet", "w", 2))]
    )
    assert [each.pods for each in summarize(simulation).missing] == [1]


def test_a_pod_of_time_0_gives_back_what_its_workloads_template_says() -> None:
    """Its own limits are not kept of a dump; a pod of the template asks for as much as it does."""
    web = workload("ReplicaSet", "web", 1, grace=0)
    web["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "3"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    pod = make_pod("web-1").request(cpu="1").labels(app="web").on("n1", started=1).metadata(ownerReferences=[owner]).obj
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    hard = stored({"limits.cpu": "3"}, {"limits.cpu": "3"})
    simulation = simulated([make_node("n1").obj, web, pod, hard], [Arrival(0.0, "delete", pod)])
    assert not summarize(simulation).missing
    assert [event.event for event in simulation.timeline.events if event.pod and event.t >= 0][-1] == "scheduled"


@pytest.mark.parametrize("change", ["Pod deleted", "quota raised"])
@pytest.mark.parametrize(
    ("since", "retry"),
    [
        ("2025-12-31T23:59:00Z", 120),
        ("2025-12-31T23:52:40Z", 500),
        ("2025-12-31T20:00:00Z", 1000),
        ("2026-01-01T06:00:00Z", 1000),
        (None, 1000),
        ("yesterday", 1000),
    ],
)
def test_a_workload_rejected_before_time_0_tries_again_after_as_long(
    since: str | None, retry: float, change: str
) -> None:
    """Time 0 is at 00:01:00. Without a known time, it is after the longest back-off."""
    web, raised = workload("ReplicaSet", "web", 1), stored({"pods": "2"}, None)
    failing = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota", "lastTransitionTime": since}
    web["status"] = {"conditions": [failing]}
    other = make_pod("other").on("n1").metadata(creationTimestamp="2026-01-01T00:00:00Z").obj
    arrival = Arrival(60.0, "delete", other) if change == "Pod deleted" else Arrival(60.0, "update", raised)
    full = stored({"pods": "1"}, {"pods": "1"})
    simulation = simulated([make_node("n1").obj, web, other, full], [arrival], until=3600.0)
    created = [event.t for event in simulation.timeline.events if event.event == "created"]
    assert created == [pytest.approx(retry, abs=1)]
