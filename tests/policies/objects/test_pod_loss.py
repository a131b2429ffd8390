"""What the loss of a Pod does, by the table of owners: every row has a Pod as its project creates it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from forewarn.policies.base.disclosure import OPEN, Audience, Disclose
from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.controllers.own_pods import again
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.pod_loss import ROLES, losses_of, role_of
from forewarn.policies.linting.rules.support.details import Cause, Preemption
from forewarn.policies.linting.rules.wording.impact import preemption, preemption_document
from forewarn.policies.prediction.forecast.impact import Impact
from tests.builders import make_node, make_pod

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "cases" / "owners.yaml").read_text())
WORKLOADS = ("batch/v1", "apps/v1")


GOLD = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000}
STRICT = SimpleNamespace(object={"spec": {"backoffLimit": 0}})
"""A Job that fails with its first failed Pod."""
TOLERANT = SimpleNamespace(object={"spec": {}})


def pod_of(case: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": case["labels"], "uid": case["name"]}
    if case["owner"]:
        version, kind, name = case["owner"].split()
        owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
        metadata["ownerReferences"] = [owner]
    made = make_pod(case["name"], "data").request(cpu="1").priority(0).on("node-1")
    return made.metadata(**metadata).obj


@cache
def cluster() -> list[dict[str, Any]]:
    nodes = [make_node(name).has(cpu="64", pods="110").obj for name in ("node-1", "node-2")]
    return [*nodes, *(pod_of(case) for case in CASES if not case["owner"].startswith(WORKLOADS))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_each_case(case: dict[str, Any]) -> None:
    pod = Pod.from_api(pod_of(case))
    assert str(again(pod, (), is_there=case["owner"].startswith(WORKLOADS))) == case["replaced"]
    assert [loss.sentence for loss in losses_of([pod], lambda *_: STRICT)] == [case["effect"]][: bool(case["effect"])]


def test_a_job_that_tolerates_failures_continues() -> None:
    pods = [Pod.from_api(pod_of(case)) for case in CASES if "batch/v1" in case["owner"]]
    assert len(pods) == 2
    assert losses_of(pods, lambda *_: TOLERANT) == []
    assert losses_of(pods, lambda *_: None) == []


def test_every_row_has_a_case_and_a_source() -> None:
    pods = [Pod.from_api(pod_of(case)) for case in CASES]
    used = [role_of(pod.owner.group_kind if pod.owner else "", pod.labels) for pod in pods]
    assert [role for role in ROLES if role not in used] == []
    assert [role for role in ROLES if not all(role.sources) or not role.sources] == []


def test_one_entry_for_each_affected_workload() -> None:
    steps = next(case for case in CASES if case["name"] == "steps-main-1")
    pods = [Pod.from_api(pod_of({**steps, "name": name})) for name in ("b", "a")]
    (loss,) = losses_of(pods, lambda *_: None)
    assert (loss.kind, loss.name, loss.pod) == ("Workflow", "steps", "data/b")


def test_a_name_of_hostile_size_is_cut() -> None:
    spark = {**CASES[0], "owner": f"sparkoperator.k8s.io/v1beta2 SparkApplication {'x' * 100_000}"}
    (loss,) = losses_of([Pod.from_api(pod_of(spark))], lambda *_: None)
    assert len(loss.name) == 253


def output(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    (tmp_path / "cluster.json").write_text(json.dumps({"items": cluster()}))
    assert main([*arguments, "--cluster", str(tmp_path / "cluster.json")]) in (0, 1)
    return capsys.readouterr().out


def expected() -> list[str]:
    return sorted(
        f"data/{case['name']}" for case in CASES if case["effect"] and not case["owner"].startswith(WORKLOADS)
    )


def test_whatif_names_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = output(tmp_path, capsys, "whatif", "lose", "node", "node-1")
    assert re.search("^data/spark-pi-driver +fails SparkApplication spark-pi, unless", lost, re.MULTILINE)
    assert "no controller recreates them" in lost
    found = json.loads(output(tmp_path, capsys, "whatif", "lose", "node", "node-1", "-o", "json"))
    assert sorted(loss["pod"] for loss in found["podLosses"]) == expected()
    replaced = {each["workload"]: each["replacedBy"] for each in found["workloads"]}
    assert replaced["data/spark-pi"] == "never"
    for form in ("markdown", "html"):
        assert "fails TaskRun build" in output(tmp_path, capsys, "whatif", "lose", "node", "node-1", "-o", form)


@pytest.mark.parametrize(("node", "running"), [("node-1", 0), ("node-2", 2)])
def test_executors_are_replaced_while_their_driver_runs(
    node: str, running: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [obj for obj in cluster() if obj["metadata"]["name"].startswith(("node", "spark-pi-exec"))]
    driver = pod_of(CASES[0])
    items.append({**driver, "spec": {**driver["spec"], "nodeName": node}})
    (tmp_path / "cluster.json").write_text(json.dumps({"items": items}))
    main(["whatif", "lose", "node", "node-1", "--cluster", str(tmp_path / "cluster.json"), "-o", "json"])
    assert json.loads(capsys.readouterr().out)["running"]["after"] == running


def test_risk_names_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = output(tmp_path, capsys, "risk")
    assert "fail with one Pod" in table
    assert "data/spark-pi-driver  fails SparkApplication spark-pi, unless" in output(tmp_path, capsys, "risk", "-v")
    found = json.loads(output(tmp_path, capsys, "risk", "-o", "json"))["workloads"]
    losses = [loss["pod"] for each in found for loss in each.get("podLosses", ())]
    assert sorted(losses) == expected()


def test_predict_and_lint_name_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [GOLD, make_node("node-1").has(cpu="1", pods="9").obj, pod_of(CASES[0])]
    (tmp_path / "cluster.json").write_text(json.dumps({"items": items}))
    new = make_pod("web", "shop").request(cpu="1").spec(priorityClassName="gold").obj
    new["spec"].pop("priority", None)
    (tmp_path / "web.json").write_text(json.dumps(new))
    common = ("--cluster", str(tmp_path / "cluster.json"))
    main(["predict", "-f", str(tmp_path / "web.json"), *common])
    assert "  fails SparkApplication spark-pi\n" in capsys.readouterr().out
    main(["lint", str(tmp_path / "web.json"), *common, "--select", "preempts-running-pods"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "fails SparkApplication spark-pi" in printed
    main(["lint", str(tmp_path / "web.json"), *common, "--select", "preempts-running-pods", "-o", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["detail"]["victims"]["losses"][0]["name"] == "spark-pi"


def test_why_names_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driver = {**pod_of(CASES[0]), "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low"}}
    items = [make_node("node-1").obj, driver]
    (tmp_path / "cluster.json").write_text(json.dumps({"items": items}))
    arguments = ["why", "data/spark-pi-driver", "--cluster", str(tmp_path / "cluster.json")]
    assert main([*arguments, "--fail-on", "workload-fails"]) == 1
    assert "the loss of this Pod fails SparkApplication spark-pi, unless" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("audience", "is_named"),
    [
        (OPEN, True),
        (Audience(Disclose.OWN_NAMESPACE, "data"), True),
        (Audience(Disclose.OWN_NAMESPACE, "shop"), False),
        (Audience(Disclose.COUNTS, "data"), False),
    ],
)
def test_only_readers_of_the_namespace_see_what_fails(audience: Audience, is_named: bool) -> None:
    cluster = Cache()
    for obj in (GOLD, make_node("node-1").has(cpu="1", pods="9").obj, pod_of(CASES[0])):
        cluster.add(obj)
    new = make_pod("web", "shop").request(cpu="1").priority(1000).obj
    prediction = predict(cluster.snapshot(), new)
    losses = losses_of(prediction.victims, cluster.snapshot().workload)
    impact = Impact((prediction,), 1, 1000)
    found = Preemption(Cause.NEW_PODS, impact, (prediction,), prediction.victims, "", (), 0, 30, None, losses)
    text = preemption(found, audience)
    shown = " ".join((text.problem, *text.shorter, *text.more))
    assert ("fails SparkApplication spark-pi" in text.problem) is is_named
    assert ("Preempting data/spark-pi-driver fails SparkApplication" in shown) is is_named
    assert ("spark" in shown) is is_named
    assert preemption_document(found)["victims"]["losses"][0]["effect"] == "fails"


def test_the_losses_of_a_prediction_are_in_its_json(capsys: pytest.CaptureFixture[str]) -> None:
    of = "docs/examples/custom-controllers"
    main(["predict", "-f", f"{of}/web.yaml", "--cluster", f"{of}/cluster.yaml", "-o", "json"])
    (loss,) = json.loads(capsys.readouterr().out)["pods"][0]["losses"]
    told = [loss[key] for key in ("pod", "effect", "kind", "name")]
    assert told == ["batch/spark-pi-driver", "fails", "SparkApplication", "spark-pi"]


def test_the_losses_of_a_preemption_by_a_pod_group_are_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = yaml.safe_load(Path("docs/examples/pod-groups/cluster.yaml").read_text())
    (job,) = (obj for obj in state["items"] if obj["kind"] == "Job")
    job["spec"] |= {"backoffLimit": 0, "completions": 4, "parallelism": 4}
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    asked = ("predict", "-f", "docs/examples/pod-groups/trainer.yaml", "--cluster", str(tmp_path / "cluster.json"))
    main([*asked, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert document["counters"]["jobsFailed"] == 1
    (loss,) = document["podGroups"][0]["losses"]
    assert loss == {"pod": "ml/experiment-0", "effect": "fails", "kind": "Job", "name": "experiment"}
