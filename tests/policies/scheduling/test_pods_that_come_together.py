"""Small cases in which a live cluster once did not do what was told: pods that come together, rollouts, quotas."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from tests.builders import Made, Obj, cluster, make_budget, make_node, make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _class(name: str, value: int) -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", name)
    made.obj["value"] = value
    return made


CLASSES = (_class("low", 10), _class("mid", 50), _class("high", 100))


def workload(kind: str, cpu: str, class_name: str = "high", replicas: int | None = 2, **spec: Any) -> Made:
    resources = {"requests": {"cpu": cpu}}
    pod = {"priorityClassName": class_name, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    given = {} if replicas is None else {"replicas": replicas}
    made = Made("apps/v1", kind, "web", "default")
    return made.spec(selector={"matchLabels": {"app": "web"}}, template=template, **given, **spec)


def on(
    node: str, name: str, cpu: str, priority: int = 10, owner: str = "", start: str = "2025-01-01T00:00:00Z"
) -> Made:
    made = make_pod(name).priority(priority).request(cpu=cpu).on(node).labels(app="web" if owner else name)
    made.status(startTime=start, phase="Running")
    if owner:
        made.metadata(ownerReferences=[{"apiVersion": "apps/v1", "kind": owner, "name": "web", "controller": True}])
    return made


def told(new: Made, *state: Made, old: Made | None = None) -> dict[str, str]:
    """Rule -> message of what the linter says."""
    before: Obj | None = old.obj if old else None
    subject = ReviewedObject(object=new.obj, operation=Operation.UPDATE if old else Operation.CREATE, old=before)
    seen = cluster(*CLASSES, *state, *([old] if old else []))
    findings = evaluate(EvaluationRequest(ChangeSet((subject,)), seen, Config(), phase=Phase.LINT, now=NOW))
    return {finding.rule: finding.message for finding in findings}


def test_the_second_pod_sees_the_first_one_s_victims_still_there() -> None:
    young = "2025-06-01T00:00:00Z"
    state = (
        make_node("ra").has(cpu="4"),
        make_node("rb").has(cpu="4"),
        on("ra", "a1", "2", start=young),
        on("ra", "a2", "2", start=young),
        on("rb", "b1", "2"),
        on("rb", "stays", "2", 1000),
    )
    message = told(workload("Deployment", "1500m"), *state)["preempts-running-pods"]
    assert "both new Pods would preempt 2 Pods on ra, rb: possibly default/a2, default/b1" in message


def test_one_victim_makes_room_for_two() -> None:
    state = (make_node("n").has(cpu="4"), on("n", "v", "4"))
    assert "preempt 1 Pod on n: default/v" in told(workload("Deployment", "2"), *state)["preempts-running-pods"]


OLD = workload("Deployment", "1", "mid")
STRANGER = (make_node("n").has(cpu="4"), on("n", "stranger", "1"))
RUNNING = (on("n", "web-1", "1", 50, "Deployment"), on("n", "web-2", "1", 50, "Deployment"))


@pytest.mark.parametrize("rolling", [{"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}])
def test_a_later_wave_of_a_rollout_pushes_out_a_stranger(rolling: dict[str, int]) -> None:
    new = workload("Deployment", "1", "high", strategy={"rollingUpdate": rolling})
    message = told(new, *STRANGER, *RUNNING, old=OLD)["preempts-running-pods"]
    assert message.startswith("during its rollout, 1 of 2 new Pods would preempt 1 Pod")
    assert "default/stranger (priority 10" in message


def test_recreated_pods_find_the_room_of_the_old_ones() -> None:
    new = workload("Deployment", "1", "high", strategy={"type": "Recreate"})
    assert told(new, *STRANGER, *RUNNING, old=OLD) == {}


def test_a_stateful_set_ends_a_pod_for_nothing() -> None:
    state = (make_node("n").has(cpu="2"), *(on("n", f"web-{n}", "1", 50, "StatefulSet") for n in range(2)))
    new = workload("StatefulSet", "8", "high")
    message = told(new, *state, old=workload("StatefulSet", "1", "mid"))["fits-nowhere"]
    assert message.startswith(
        "rollout blocked: 0 of 2 new Pods run, 1 stays Pending: requests 8 cpu, more than any node"
    )
    assert message.endswith("Its rollout terminates 1 old Pod before that")


def test_a_stateful_set_s_new_pod_has_the_room_of_its_old_one() -> None:
    state = (make_node("n").has(cpu="2"), *(on("n", f"web-{n}", "1", 50, "StatefulSet") for n in range(2)))
    old = workload("StatefulSet", "1", "mid")
    assert told(workload("StatefulSet", "1", "high"), *state, old=old) == {}


@pytest.mark.parametrize(("unavailable", "ends"), [(1, "1 old Pod"), (2, "2 old Pods")])
def test_a_daemon_set_ends_pods_for_nothing(unavailable: int, ends: str) -> None:
    state = [made for n in "ab" for made in (make_node(n).has(cpu="2"), on(n, f"web-{n}", "1", 50, "DaemonSet"))]
    strategy = {"rollingUpdate": {"maxUnavailable": unavailable}}
    new = workload("DaemonSet", "8", "high", None, updateStrategy=strategy)
    message = told(new, *state, old=workload("DaemonSet", "1", "mid", None))["fits-nowhere"]
    assert message.endswith(f"Its rollout terminates {ends} before that")


def test_a_daemon_that_grows_pushes_out_a_stranger() -> None:
    state = (make_node("n").has(cpu="3"), on("n", "web-n", "1", 50, "DaemonSet"), on("n", "stranger", "2"))
    new = workload("DaemonSet", "2", "high", None)
    message = told(new, *state, old=workload("DaemonSet", "1", "mid", None))["preempts-running-pods"]
    assert "default/stranger" in message


def test_scale_and_class_at_once_makes_new_replicas_of_the_old_template_first() -> None:
    state = (make_node("n").has(cpu="4"), on("n", "web-1", "1", 50, "Deployment"), on("n", "x", "1", 60))
    old = workload("Deployment", "1", "mid", 1)
    new = workload("Deployment", "1", "high", 4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    found = told(new, *state, old=old)
    assert found["fits-nowhere"].startswith(
        "rollout blocked: 2 of 7 new Pods run, 1 stays Pending even with preemption"
    )


def quota(pods: int, used: int) -> Made:
    made = Made("v1", "ResourceQuota", "few", "default").spec(hard={"pods": str(pods)})
    return made.status(hard={"pods": str(pods)}, used={"pods": str(used)})


def test_pods_that_a_quota_rejects_preempt_nothing_until_victims_free_the_quota() -> None:
    state = (make_node("n").has(cpu="4"), on("n", "a", "2"), on("n", "b", "2"))
    message = told(workload("Deployment", "2", replicas=3), *state, quota(3, 2))["preempts-running-pods"]
    assert "2 of 3 new Pods would preempt 2 Pods" in message
    none = told(workload("Deployment", "2", replicas=3), *state, quota(2, 2))
    assert "quota-exceeded" in none
    assert "preempts-running-pods" not in none
    assert "fits-nowhere" not in none


def test_a_budget_that_the_first_pod_spends_is_spent_for_the_second() -> None:
    state = (
        *(make_node(n).has(cpu="2") for n in "abc"),
        *(on(n, f"x{n}", "2").labels(app="x") for n in "ab"),
        on("c", "y", "2", 60),
        make_budget("x", 1, app="x"),
    )
    message = told(workload("Deployment", "2"), *state)["preempts-running-pods"]
    assert "default/y" in message


def test_a_stateful_set_s_new_pod_may_push_out_the_next_one_to_go() -> None:
    """Which has gone already then when its turn comes."""
    state = (make_node("n").has(cpu="2"), *(on("n", f"web-{n}", "1", 50, "StatefulSet") for n in range(2)))
    found = told(workload("StatefulSet", "2", "high"), *state, old=workload("StatefulSet", "1", "mid"))
    assert ": default/web-0 (" in found["rollout-preempts-itself"]
    assert found["fits-nowhere"].startswith(
        "rollout blocked: 1 of 2 new Pods run, 1 stays Pending even with preemption"
    )


def test_a_recreated_deployment_that_grows_makes_new_pods_alone() -> None:
    state = (make_node("n").has(cpu="4"), on("n", "web-1", "1", 50, "Deployment"), on("n", "x", "1", 60))
    new = workload("Deployment", "1", "high", 3, strategy={"type": "Recreate"})
    assert told(new, *state, old=workload("Deployment", "1", "mid", 1)) == {}
