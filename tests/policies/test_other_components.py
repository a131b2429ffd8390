"""If a component that is not simulated decides what follows, an answer names it and has no number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import Made, cluster, cluster_text, make_node, make_pod
from tests.in_process import forewarn
from tests.policies.test_cascade import controlled, evaluated, workload

if TYPE_CHECKING:
    from tests.builders import MadePod

KNOWN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another scheduler": ({}, {"schedulerName": "bin-packing"}, 'scheduler "bin-packing" may bind the replacement'),
    "a Job with `backoffLimitPerIndex`": ({"backoffLimitPerIndex": 0}, {}, "has backoffLimitPerIndex"),
    "the controller in `managedBy` of a Job": (
        {"managedBy": "example.com/queue"},
        {},
        "is managed by example.com/queue",
    ),
}
"""Row of the table -> fields of the victim's Job and of the victim, and the reason."""


def victim(job: dict[str, Any], pod: dict[str, Any]) -> list[Made]:
    spec = {**make_pod("").request(cpu="2").obj["spec"], **pod}
    return [make_node("n1").has(cpu="2"), workload("Job", "w", 1, spec).spec(**job), _running(pod)]


def _running(spec: dict[str, Any]) -> MadePod:
    return controlled(make_pod("w-0").request(cpu="2").spec(**spec).on("n1"), "Job", "w")


NEW = make_pod("new").priority(1).request(cpu="2")


@pytest.mark.parametrize("row", KNOWN)
def test_the_component_is_named_instead_of_a_number(row: str, tmp_path: Path) -> None:
    job, pod, reason = KNOWN[row]
    made = victim(job, pod)
    (warning,) = (text for text in evaluated(cluster(*made), NEW) if "would preempt" in text)
    assert "would preempt at least 1 Pod" in warning
    assert "cascade not predicted" in warning
    assert "replacement" not in warning.partition("(")[2].partition(")")[0]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    new = {**NEW.obj, "spec": {key: value for key, value in NEW.obj["spec"].items() if key != "priority"}}
    new["spec"]["priorityClassName"] = "system-node-critical"
    new["metadata"] = {**new["metadata"], "namespace": "kube-system"}
    (tmp_path / "new.json").write_text(json.dumps(new))
    answer = forewarn("predict", "-f", tmp_path / "new.json", "--cluster", tmp_path / "cluster.json").stdout
    assert f"WARN  not predicted: {'Job default/w ' if 'scheduler' not in row else ''}{reason}" in answer
    answer = forewarn("whatif", "apply", "-f", tmp_path / "new.json", "--cluster", tmp_path / "cluster.json").stdout
    if "PerIndex" not in row:  # whatif simulates it
        assert f"WARN  not simulated: {'Job default/w ' if 'scheduler' not in row else ''}{reason}" in answer
        assert "run again" not in answer


def test_a_component_decides_about_a_victim_of_a_replacement() -> None:
    """The new Pod preempts a Pod of `mid`, whose replacement preempts the Pod of another scheduler."""
    spec = make_pod("").request(cpu="2").priority(5).obj["spec"]
    mid = controlled(make_pod("mid-0").request(cpu="2").priority(5).on("n1"), "ReplicaSet", "mid")
    spec_of_other = {"schedulerName": "bin-packing"}
    other = [victim({}, spec_of_other)[1], _running(spec_of_other).on("n2")]
    nodes = [make_node("n1").has(cpu="2").labels(disk="ssd"), make_node("n2").has(cpu="2")]
    new = make_pod("new").priority(9).request(cpu="2").spec(nodeSelector={"disk": "ssd"})
    state = cluster(*nodes, workload("ReplicaSet", "mid", 1, spec), mid, *other)
    (warning,) = (text for text in evaluated(state, new) if "would preempt" in text)
    assert "cascade not predicted" in warning
    assert 'Scheduler "bin-packing" may bind the replacement of default/w-0' in warning


def test_a_suspended_job_of_kueue_has_no_answer(tmp_path: Path) -> None:
    job = workload("Job", "train", 3, make_pod("").obj["spec"]).spec(suspend=True)
    job.obj["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    del job.obj["spec"]["template"]["spec"]["priority"]
    job.labels(**{"kueue.x-k8s.io/queue-name": "team"})
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1")]))
    (tmp_path / "job.json").write_text(json.dumps(job.obj))
    done = forewarn("predict", "-f", tmp_path / "job.json", "--cluster", tmp_path / "cluster.json")
    assert done.stdout.startswith(
        "NO ANSWER  Job default/train: Kueue is not predicted (its LocalQueue is not in the input); 3 of 3 new Pods"
    )
    assert 'Kueue starts the Job by its queue "team"' in done.stdout
    assert done.returncode == 3


def test_the_guide_names_each_component() -> None:
    table = Path("docs/guides/predict.md").read_text().partition("### What other components decide")[2]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows == [*KNOWN, "Kueue", "a controller that forewarn does not know"]
