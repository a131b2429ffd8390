"""Promises of the configuration: which pods break them, what becomes of these, and what nobody is denied."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.options import Promise
from forewarn.policies.kubernetes.selectors import PodPattern
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.rules.pod.scheduling import violates_expectation
from forewarn.webhook.admission.decision import Decision
from forewarn.webhook.admission.review import Hook
from tests.builders import cluster_text, make_pod, make_priority_class
from tests.policies.commands.test_whatif_command import random_cluster
from tests.webhook.admission.test_impact_annotation import NODE, _with_cpu
from tests.webhook.builders import cluster, decided, deployment, pod, review

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]
ASKING = _with_cpu(pod("gold", 1000), "1")
MADE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "nightly-6d5f", "controller": True}
SET: Obj = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {
        "name": "nightly-6d5f",
        "namespace": "batch",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nightly", "controller": True}],
    },
    "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": pod()["spec"]}},
}


def running(**metadata: Any) -> Obj:
    """A pod of namespace batch and class batch-low that has all of the node's cpu."""
    found = _with_cpu(pod("batch-low", -5, **{"name": "victim", "namespace": "batch", **metadata}), "1")
    found["spec"] |= {"nodeName": "node-1", "preemptionPolicy": "Never"}
    return found


STATE = cluster(NODE, SET, running(ownerReferences=[MADE]))


def promising(preempted: str, by: str = "{}", action: str = "deny") -> Config:
    expect = f"{{noPreemption: {preempted}, by: {by}}}"
    text = f"actions: {{violates-expectation: {action}}}\n"
    text += "expectations:\n- name: n\n  expect: {noPreemption: {class: x}}\n"
    return read_config(f"{text}- name: the nights are quiet\n  expect: {expect}\n", "c")


def answered(given: Obj, config: Config, **how: Any) -> Decision:
    return decided(Hook.VALIDATE, given, state=how.pop("state", STATE), config=config, **how)


def breaks(decision: Decision) -> list[str]:
    return [finding.action.value for finding in decision.findings if finding.rule == violates_expectation.ID]


@pytest.mark.parametrize(
    ("preempted", "by", "broken"),
    [
        ("{}", "{}", True),
        ("{namespace: batch}", "{namespace: team}", True),
        ("{namespace: 'b*'}", "{class: gold}", True),
        ("{namespace: shop}", "{}", False),
        ("{class: batch-low}", "{}", True),
        ("{class: ''}", "{}", False),
        ("{workload: batch/nightly}", "{}", True),
        ("{workload: batch/nightly-6d5f}", "{}", False),
        ("{workload: batch/victim}", "{}", False),
        ("{}", "{namespace: shop}", False),
        ("{}", "{class: ''}", False),
        ("{}", "{class: gold, workload: team/p}", True),
        ("{}", "{workload: team/q}", False),
    ],
)
def test_whom_it_is_about(preempted: str, by: str, broken: bool) -> None:
    assert breaks(answered(review(ASKING), promising(preempted, by))) == (["deny"] if broken else [])


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_pods_of_a_workload_are_its_own(kind: str) -> None:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    asking = _with_cpu(deployment(), "1") | {"apiVersion": group, "kind": kind}
    assert breaks(answered(review(asking), promising("{}", "{workload: team/web}"))) == ["deny"]
    if kind == "ReplicaSet":
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "controller": True}
        asking["metadata"] = {**asking["metadata"], "ownerReferences": [owner]}
        assert breaks(answered(review(asking), promising("{}", "{workload: team/shop}"))) == ["deny"]


def test_a_promise_that_is_broken_is_told_and_denied_as_it_is_configured() -> None:
    denied = answered(review(ASKING), promising("{namespace: batch}"))
    assert (denied.response.allowed, denied.response.code) == (False, 403)
    warned = answered(review(ASKING), promising("{namespace: batch}", action="warn"))
    assert warned.response.allowed
    (warning,) = [text for text in warned.response.warnings if "violates-expectation" in text]
    assert warning.startswith("violates expectation 2: would preempt 1 Pod of another namespace")
    by_default = promising("{}")._replace(actions={})
    assert breaks(answered(review(ASKING), by_default)) == ["warn"]
    assert breaks(answered(review(_with_cpu(deployment(), "1")), promising("{}"))) == ["deny"], "workloads too"
    assert breaks(answered(review(ASKING), Config())) == []


def test_what_fits_breaks_nothing() -> None:
    assert breaks(answered(review(_with_cpu(pod("gold", 1000), "0")), promising("{}"))) == []


@pytest.mark.parametrize("disclose", Disclose)
def test_its_name_and_those_of_victims_are_for_who_may_read_them(disclose: Disclose) -> None:
    config = promising("{}")._replace(disclose=disclose)
    decision = answered(review(ASKING), config)
    message, audit = decision.response.message, decision.response.audit
    names = ("the nights are quiet", "batch/victim", "node-1")
    for name in names:
        assert (name in message) is (disclose is Disclose.NAMES), message
    assert "violates expectation" in message
    assert ("violates expectation 2:" in message) is (disclose is not Disclose.NAMES)
    if disclose is not Disclose.NAMES:
        assert 'violates expectation "the nights are quiet":' in audit["violates-expectation"]
        masters = {"username": "root", "groups": ["system:masters"]}
        assert all(name in answered(review(ASKING, userInfo=masters), config).response.message for name in names)


def test_an_update_is_denied_only_for_the_pods_that_it_asks_for_anew() -> None:
    stored = _with_cpu(deployment(), "1")
    labelled, three = copy.deepcopy(stored), copy.deepcopy(stored)
    labelled["metadata"]["labels"] = {"a": "b"}
    three["spec"]["replicas"] = 3
    config = promising("{}")
    assert breaks(answered(review(labelled, "UPDATE", oldObject=stored), config)) == []
    assert breaks(answered(review(stored, "UPDATE", oldObject=three), config)) == ["audit"], "what is missing still"
    assert breaks(answered(review(three, "UPDATE", oldObject=stored), config)) == ["deny"]
    other = copy.deepcopy(stored)
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    assert breaks(answered(review(other, "UPDATE", oldObject=three), config)) == ["deny"]


def test_scaling_breaks_a_promise_too() -> None:
    stored = _with_cpu(deployment(), "1")
    stored["spec"]["replicas"] = 0
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    given = review(scale | {"spec": {"replicas": 1}}, "UPDATE", subResource="scale", name="web", namespace="team")
    state = cluster(NODE, running(), stored)
    assert breaks(answered(given, promising("{}"), state=state)) == ["deny"]


def test_a_pod_that_was_not_predicted_is_denied_to_nobody() -> None:
    decision = answered(review(ASKING), promising("{}"), expired=True)
    assert (decision.response.allowed, breaks(decision)) == (True, ["audit"])
    assert (
        "2 expectations not checked: only 0 of 1 new Pod predicted in time"
        in decision.response.audit["violates-expectation"]
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_linter_and_forewarn_test_agree_on_what_a_pod_itself_pushes_out(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One predicts, the other simulates; by a pod of no workload there is no cascade to tell apart."""
    random = Random(seed)
    objects = list(random_cluster(seed))
    value = random.choice((5, 50, 500, 5000))
    asking = make_pod("new").of_class(value).request(cpu=f"{random.randint(1, 8) * 500}m").obj
    name = random.choice([obj["metadata"]["name"] for obj in objects if obj["kind"] == "ReplicaSet"])
    spared = random.choice(
        [{"workload": f"default/{name}"}, {"class": ""}, {"namespace": "default"}, {"namespace": "x"}]
    )
    expect = {"noPreemption": spared, "by": {"workload": "default/new"}}
    files = {
        "cluster": json.loads(cluster_text([*objects, make_priority_class(value)])),
        "pod": asking,
        "config": {"expectations": [{"name": "it", "expect": expect}]},
        "expectations": [{"name": "it", "when": {"apply": "pod.json"}, "expect": expect}],
    }
    for file, value in files.items():
        (tmp_path / f"{file}.json").write_text(json.dumps(value))
    cluster_file = ("--cluster", str(tmp_path / "cluster.json"))
    simulated = main(["test", str(tmp_path / "expectations.json"), "--allow-empty", *cluster_file])
    assert simulated in (0, 1)
    capsys.readouterr()
    main(["lint", str(tmp_path / "pod.json"), *cluster_file, "-c", str(tmp_path / "config.json"), "-o", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [f["rule"] for f in found if f["rule"] == "violates-expectation"] == ["violates-expectation"] * simulated


def test_without_cluster_state_nothing_is_judged() -> None:
    assert breaks(answered(review(ASKING), promising("{}"), state=None)) == []


def test_a_default_class_that_would_break_one_is_given_all_the_same() -> None:
    """What is predicted is asked of the pod as it comes, not for each class that it could have."""
    decision = decided(Hook.MUTATE, review(pod(namespace="batch")), state=STATE, config=promising("{}"))
    assert [operation.value for operation in decision.response.patch if "Class" in str(operation.path[-1])] == [
        "batch-low"
    ]


def test_thousands_of_victims_are_gone_through_in_the_time_there_is() -> None:
    promises = tuple(Promise(f"p{n}", n, PodPattern(f"shop-{n}*"), PodPattern()) for n in range(100))
    many = {**NODE, "status": {"allocatable": {"cpu": "3000", "memory": "900Gi", "pods": "5000"}}}
    victims = [running(name=f"v{number}", namespace=f"team-{number}") for number in range(3000)]
    asking = _with_cpu(pod("gold", 1000), "2999")
    config = Config(options=Config().options._replace(promises=promises))
    calls = iter(range(100_000_000))
    decision = answered(review(asking), config, state=cluster(many, *victims), expired=lambda: next(calls) > 200)
    assert decision.response.allowed


def test_the_linter_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(pod("gold") | {"spec": {**ASKING["spec"], "priority": None}}))
    items = [NODE, running(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}]
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000}
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, gold]}))
    (tmp_path / "c.yaml").write_text("expectations: [{name: quiet, expect: {noPreemption: {namespace: batch}}}]")
    files = (str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "cluster.json"), "-c", str(tmp_path / "c.yaml"))
    assert main(["lint", *files]) == 1
    out = capsys.readouterr().out
    assert 'error: Pod team/p: violates expectation "quiet": would preempt 1 Pod on node-1' in out
