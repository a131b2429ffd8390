"""Changes whose outcome on a live control plane earlier predictions contradicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.in_process import forewarn
from tests.webhook.admission.test_pods_to_come import World, is_preempted

CASES = Path(__file__).parents[1] / "cases/live"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((CASES / "expected.yaml").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_warnings_and_annotation_predict_what_happened(name: str) -> None:
    review, cluster = (CASES / f"{name}-{file}.json" for file in ("review", "cluster"))
    options = ("-f", review, "--cluster", cluster, "--phase", "validate", "--kubernetes-version", "1.36")
    response = json.loads(forewarn("webhook", "review", *options, "-o", "json").stdout)["review"]["response"]
    impact = json.loads(response.get("auditAnnotations", {}).get("preemption-impact", "{}"))
    impact.pop("assumes", None)
    assert {"warnings": response.get("warnings", []), "impact": impact} == EXPECTED[name]


def cluster_and_apply(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    cluster, apply = (json.loads((CASES / f"{name}-{file}.json").read_text())["items"] for file in ("cluster", "apply"))
    return cluster, apply


def test_the_pods_of_a_cron_job_do_not_exist_when_the_next_object_arrives() -> None:
    files = ("-f", CASES / "cronjob-apply.json", "--cluster", CASES / "cronjob-cluster.json")
    pods = json.loads(forewarn("predict", *files, "-o", "json").stdout)["pods"]
    rows = {pod["id"]: pod["outcome"] for pod in pods}
    assert rows == {f"default/once-a-year-{n}": "preempts" for n in range(4)} | {"default/high": "fits"}
    linted = forewarn("lint", files[1], "--cluster", files[3], "--select", "preempts-running-pods", "-o", "json")
    assert [finding["object"]["kind"] for finding in json.loads(linted.stdout)["findings"]] == ["CronJob"]
    cluster, apply = cluster_and_apply("cronjob")
    world = World(*cluster)
    assert not world.asks(apply[0])
    apply[1]["spec"]["priority"] = 1000  # as the plugin Priority sets it
    assert not is_preempted(world.asks(apply[1]))


@pytest.mark.parametrize("replicas", [(), ("--replicas", "8")])
def test_predict_follows_the_pods_of_a_workload_to_the_end(tmp_path: Path, replicas: tuple[str, ...]) -> None:
    deployment = json.loads((CASES / "spread-review.json").read_text())["request"]["object"]
    (tmp_path / "web.json").write_text(json.dumps({**deployment, "spec": {**deployment["spec"], "replicas": 8}}))
    files = ("-f", tmp_path / "web.json", "--cluster", CASES / "spread-cluster.json")
    answer = forewarn("predict", *files, *replicas, "--kubernetes-version", "1.36", "-o", "json")
    document = json.loads(answer.stdout)
    assert (document["outcomes"], document["counters"]["victims"]) == ({"preempts": 8}, 8)


def test_every_command_counts_the_preemptions_of_a_pod_that_is_overtaken(tmp_path: Path) -> None:
    """Three Pending Pods, which never preempt, take the capacity of each victim before the new Pod does."""
    review = json.loads((CASES / "overtaken-review.json").read_text())
    (tmp_path / "pod.json").write_text(json.dumps(review["request"]["object"]))
    files = (
        "-f",
        tmp_path / "pod.json",
        "--cluster",
        CASES / "overtaken-cluster.json",
        "-o",
        "json",
        "--kubernetes-version",
        "1.36",
    )
    answers = [json.loads(forewarn(*command, *files).stdout) for command in (("predict",), ("whatif", "apply"))]
    assert [answer["counters"]["preempted"] for answer in answers] == [4, 4]


def test_predict_says_that_pods_of_several_objects_may_be_overtaken(tmp_path: Path) -> None:
    pod = json.loads((CASES / "overtaken-review.json").read_text())["request"]["object"]
    other = {**pod, "metadata": {**pod["metadata"], "name": "other"}}
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, other]}))
    answer = forewarn("predict", "-f", tmp_path / "pods.json", "--cluster", CASES / "overtaken-cluster.json").stdout
    assert "Pending Pods ahead in the queue may use the capacity first: " in answer
