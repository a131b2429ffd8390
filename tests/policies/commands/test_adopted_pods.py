"""Pods without ownerReferences belong to the workload that adopts them, in every command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.sources.cluster import load_cluster
from tests.builders import Made, cluster_text, make_node, make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

WEB = {"app": "web"}


def workload(kind: str, **metadata: str) -> Made:
    """A workload "web" of one Pod, with the selector app=web."""
    version = {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    selector = WEB if kind == "ReplicationController" else {"matchLabels": WEB}
    template = {"metadata": {"labels": WEB}, "spec": make_pod("").request(cpu="2").obj["spec"]}
    made = Made(version, kind, "web", "default").metadata(uid="u", **metadata)
    return made.spec(replicas=1, selector=selector, template=template)


@pytest.mark.parametrize(
    ("made", "name", "labels", "owner"),
    [
        (workload("Deployment"), "web-1", WEB, "ReplicaSet"),
        (workload("ReplicaSet"), "web-1", WEB, "ReplicaSet"),
        (workload("ReplicationController"), "web-1", WEB, "ReplicationController"),
        (workload("StatefulSet"), "web-1", WEB, "StatefulSet"),
        (workload("DaemonSet"), "web-1", WEB, "DaemonSet"),
        (workload("Job"), "web-1", WEB, "Job"),
        (workload("StatefulSet"), "db-1", WEB, ""),
        (workload("ReplicaSet"), "web-1", {"app": "db"}, ""),
        (workload("ReplicaSet").spec(selector={}), "web-1", WEB, ""),
        (workload("ReplicaSet").spec(selector="web"), "web-1", WEB, ""),
        (workload("ReplicaSet", deletionTimestamp="2026-01-01T00:00:00Z"), "web-1", WEB, ""),
        (workload("ReplicaSet", namespace="other"), "web-1", WEB, ""),
        (workload("CronJob"), "web-1", WEB, ""),
    ],
)
def test_a_pod_without_a_controller_is_adopted(
    made: Made, name: str, labels: dict[str, str], owner: str, tmp_path: Path
) -> None:
    pods = [
        make_pod(name),
        make_pod(f"0{name}").terminating(),
        make_pod(f"1{name}").status(phase="Succeeded"),
        make_pod(f"2{name}").metadata(ownerReferences=[{"kind": "Tool", "name": "t", "uid": "t", "controller": True}]),
    ]
    (tmp_path / "cluster.json").write_text(cluster_text([made, *(pod.labels(**labels) for pod in pods)]))
    found = load_cluster(str(tmp_path / "cluster.json")).snapshot().pods
    owners = {key[1]: pod.owner.kind if pod.owner else "" for key, pod in found.items()}
    assert owners == {name: owner, f"0{name}": "", f"1{name}": "", f"2{name}": "Tool"}


def test_lint_says_what_whatif_simulates(tmp_path: Path) -> None:
    running = make_pod("web-1").request(cpu="2").labels(**WEB).priority(-1).on("n1")
    cluster = [make_node("n1").has(cpu="2"), workload("Deployment"), running]
    (tmp_path / "cluster.json").write_text(cluster_text(cluster))
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("new").request(cpu="2").obj))
    given = str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "cluster.json")
    assert "web-1 (priority -1, replacement stays Pending" in forewarn("lint", *given).stdout
    assert "preempted 1 | Pending 1 | lost 1 of 1\n" in forewarn("whatif", "apply", "-f", *given).stdout
