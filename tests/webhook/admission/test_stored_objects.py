"""Requests about stored objects that are too large to be kept: never evaluated by half, never silent."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.decision import Decision
from forewarn.webhook.admission.review import Hook
from tests.policies.objects.test_bounded import terms, variables
from tests.webhook.admission.test_failure_directions import NODE, _asking, _doing, _running, denied_by
from tests.webhook.builders import cluster, decided, deployment, priority_class, review

Obj = dict[str, Any]
WHY = "not evaluated: Deployment team/web exceeds what forewarn keeps (64 KiB)"


def large(part: str, **metadata: Any) -> Obj:
    """A stored Deployment with too much of something that the scheduler reads (`terms`), or does not (`variables`)."""
    asking = _asking("1")
    template = asking["spec"]["template"]
    if part == "terms":
        template["spec"]["affinity"] = terms(100_000)
    else:
        template["spec"]["containers"][0]["env"] = variables(5000)[0]["env"]
    return {**asking, "metadata": {**asking["metadata"], **metadata}}


def scaled(obj: Obj, replicas: int, action: str = "deny", *more: Obj, rule: str = "violates-expectation") -> Decision:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    given = review({**scale, "spec": {"replicas": replicas}}, "UPDATE", oldObject=scale, subResource="scale")
    state = cluster(NODE, _running(), obj, *more)
    return decided(Hook.VALIDATE, given, state=state, config=_doing(action, rule), expired=lambda: False)


@pytest.mark.parametrize("rule", ["violates-expectation", "preempts-running-pods", "fits-nowhere"])
def test_a_workload_whose_template_is_not_kept_gets_nothing_past_a_denial(rule: str) -> None:
    decision = scaled(large("terms"), 9, rule=rule)
    assert denied_by(decision) == {rule}
    assert WHY in {finding.message for finding in decision.findings}
    assert scaled(large("terms"), 0, rule=rule).response.allowed


def test_where_nothing_is_denied_it_is_said() -> None:
    decision = scaled(large("terms"), 9, "warn")
    assert decision.response.allowed
    assert any(warning.startswith(WHY) for warning in decision.response.warnings)


@pytest.mark.parametrize("replicas", [9, 0])
def test_what_nobody_reads_may_be_large(replicas: int) -> None:
    retained, small = scaled(large("variables"), replicas), scaled(_asking("1"), replicas)
    assert [f.message for f in retained.findings] == [f.message for f in small.findings]
    assert denied_by(retained) == ({"violates-expectation"} if replicas else set())


def test_the_rollout_of_what_nobody_reads_is_predicted() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}

    def found(stored: Obj) -> list[str]:
        old_set = {**stored, "kind": "ReplicaSet", "metadata": {**stored["metadata"], "name": "web-1"}}
        old_set["metadata"] |= {"ownerReferences": [owner]}
        stored = {**stored, "metadata": {**stored["metadata"], "uid": "u"}}
        template = {**stored["spec"]["template"], "metadata": {"labels": {"app": "web", "v": "2"}}}
        new = {**stored, "spec": {**stored["spec"], "template": template}}
        given = review(new, "UPDATE", oldObject=stored)
        state = cluster(NODE, _running(), old_set, stored)
        return [f.message for f in decided(Hook.VALIDATE, given, state=state, expired=lambda: False).findings]

    assert found(large("variables")) == found(_asking("1")) != []


def test_its_class_is_read_all_the_same() -> None:
    stored = {**deployment("gold"), "metadata": {"name": "web", "namespace": "team"}}
    stored["spec"]["template"]["spec"]["affinity"] = terms(100_000)
    given = review(None, "DELETE", oldObject=priority_class("gold", 1000))
    decision = decided(Hook.VALIDATE, given, state=cluster(stored), config=_doing("deny", "class-still-in-use"))
    assert denied_by(decision) == {"class-still-in-use"}
    assert "Deployment team/web" in decision.findings[0].message


def test_a_custom_workload_of_which_nothing_is_kept_is_not_let_pass() -> None:
    kind = "example.com/Many"
    config = _doing("deny", "violates-expectation")
    config = config._replace(
        options=config.options._replace(
            pod_template_paths={**config.options.pod_template_paths, kind: ("spec", "template")}
        )
    )
    obj = {**large("terms"), "apiVersion": "example.com/v1", "kind": "Many"}
    obj["spec"] |= {f"f{n}": [{}] * 999 for n in range(100)}
    from forewarn.policies.kubernetes.cluster.cache import Cache

    cache = Cache(templates=config.options.pod_template_paths)
    for each in (NODE, _running(), priority_class("gold", 1000), obj):
        cache.add(each)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    given = review({**scale, "spec": {"replicas": 3}}, "UPDATE", oldObject=scale, subResource="scale")
    given["request"]["resource"] = {"group": "example.com", "version": "v1", "resource": "manies"}
    decision = decided(Hook.VALIDATE, given, state=cache.snapshot(), config=config, expired=lambda: False)
    assert "violates-expectation" in denied_by(decision)
    assert isinstance(config, Config)


def hiding(namespace: str) -> Obj:
    """A running Pod with more anti-affinity than is kept."""
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term] * 3000}}
    obj = _running(name="hiding", namespace=namespace)
    return {**obj, "spec": {**obj["spec"], "affinity": affinity, "nodeName": "node-2", "containers": [{"name": "c"}]}}


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (hiding("team"), "Pod team/hiding exceeds what forewarn keeps (64 KiB)"),
        (
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "team"},
             "spec": {"limits": [{} for _ in range(9000)]}},
            "LimitRange team/l exceeds what forewarn keeps (256 KiB)",
        ),
        (
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"},
             "spec": {"hard": {f"count/r{n}": "1" for n in range(9000)}}},
            "ResourceQuota team/q exceeds what forewarn keeps (256 KiB)",
        ),
    ],
    ids=["Pod", "LimitRange", "ResourceQuota"],
)  # fmt: skip
def test_what_a_tenant_stores_in_his_namespace_gets_nothing_past_a_denial(obj: Obj, why: str) -> None:
    def found(stored: Obj) -> Decision:
        state, config = cluster(NODE, _running(), stored), _doing("deny", "violates-expectation")
        return decided(Hook.VALIDATE, review(_asking("0")), state=state, config=config, expired=lambda: False)

    assert denied_by(found(obj)) == {"violates-expectation"}
    assert f"not evaluated: {why}" in {finding.message for finding in found(obj).findings}
    elsewhere = {**obj, "metadata": {**obj["metadata"], "namespace": "other"}}
    assert found(elsewhere).response.allowed
    assert not any(finding.not_evaluated for finding in found(elsewhere).findings)
