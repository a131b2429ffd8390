"""Workloads of several kinds that have one name: each command tells them apart, and names kinds nowhere else."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.prediction.simulation.summary import Names
from tests.builders import make_node, make_pod, make_priority_class

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]
REPLICA_SET, STATEFUL_SET = "ReplicaSet default/web", "StatefulSet default/web"


def node(name: str, cpu: str = "4") -> Obj:
    return make_node(name).has(cpu=cpu, memory="8Gi", pods="110").obj


def workload(kind: str, app: str, on: list[str], cpu: str = "1500m", name: str = "web") -> list[Obj]:
    """With a running pod on each of these nodes. `app`: a label of its own, as two may not own the same pods."""

    def pod(of: str) -> Any:
        return make_pod(of).request(cpu=cpu).labels(app=app)

    template = {"metadata": {"labels": {"app": app}}, "spec": pod("").obj["spec"]}
    spec: Obj = {"selector": {"matchLabels": {"app": app}}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = len(on)
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": True}
    ready = [{"type": "Ready", "status": "True"}]
    first = name if kind == "StatefulSet" else app
    pods = [pod(f"{first}-{n}").on(where) for n, where in enumerate(on)]
    owned = [made.metadata(ownerReferences=[owner]).status(phase="Running", conditions=ready).obj for made in pods]
    return [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec},
        *owned,
    ]


def run(path: Path, capsys: pytest.CaptureFixture[str], items: list[Obj], command: str, *arguments: str) -> str:
    cluster = path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    main([command, *arguments, "--cluster", str(cluster)])
    out, err = capsys.readouterr()
    assert not err
    return out


def full() -> list[Obj]:
    """Each on nodes of its own; what is lost of them finds no room."""
    several = [*workload("ReplicaSet", "front", ["a", "a"]), *workload("StatefulSet", "db", ["b"], "3")]
    return [node("a"), node("b"), *several]


def test_whatif_has_a_row_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(run(tmp_path, capsys, full(), "whatif", "lose", "node", "a", "-o", "json"))
    (row,) = answer["workloads"]
    assert (row["workload"], row["running"]) == (REPLICA_SET, {"before": 2, "after": 0})
    assert answer["pending"]["byWorkload"] == {REPLICA_SET: 2}
    assert "Insufficient cpu" in row["message"]


def test_a_name_of_one_kind_is_told_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a disruption budget has it: no pod is its."""
    budget: Obj = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    budget["metadata"]["namespace"] = "default"
    budget["spec"] = {"minAvailable": 0, "selector": {"matchLabels": {"app": "front"}}}
    items = [node("a"), node("b"), *workload("ReplicaSet", "front", ["a"]), budget]
    items += workload("StatefulSet", "db", ["b"], "3", name="db")
    answer = json.loads(run(tmp_path, capsys, items, "whatif", "lose", "node", "a", "-o", "json"))
    assert [row["workload"] for row in answer["workloads"]] == ["default/web"]


def test_risk_has_what_each_loses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(tmp_path, capsys, full(), "risk", "-o", "json"))["workloads"]
    assert {each["workload"]: (each["pods"], each["losesReplicasWith"]) for each in told} == {
        REPLICA_SET: (2, {"node a": 2}),
        STATEFUL_SET: (1, {"node b": 1}),
    }


def beside_a_daemon_set() -> list[Obj]:
    several = [*workload("ReplicaSet", "front", ["a"], "3"), *workload("DaemonSet", "agent", ["a", "b"], "1")]
    return [node("a"), node("b", "2"), *several]


def test_risk_passes_over_a_daemon_set_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(tmp_path, capsys, beside_a_daemon_set(), "risk", "-o", "json"))["workloads"]
    assert {each["workload"]: each["losesReplicasWith"] for each in told} == {
        REPLICA_SET: {"node a": 1},
        "DaemonSet default/web": {},
    }


def test_a_sweep_passes_over_a_daemon_set_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(tmp_path, capsys, beside_a_daemon_set(), "whatif", "lose", "--each", "node", "-o", "json"))[
        "cases"
    ]
    assert {row["case"]: row["counters"].get("lost", 0) for row in rows} == {"node a": 1, "node b": 0}


def test_what_is_simulated_tells_them_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The StatefulSet's pods push out those of the ReplicaSet, whose replacements wait."""
    items = [make_priority_class(100).obj, node("a"), *workload("ReplicaSet", "front", ["a", "a"])]
    arrives, _ = workload("StatefulSet", "db", ["a"], "3")
    arrives["spec"]["template"]["spec"] |= {"priorityClassName": "class-100", "priority": 100}
    new = tmp_path / "new.json"
    new.write_text(json.dumps(arrives))
    (outcome,) = json.loads(run(tmp_path, capsys, items, "whatif", "events", "-f", str(new), "-o", "json"))["outcomes"]
    assert outcome["summary"]["byWorkload"] == outcome["summary"]["pending"] == {REPLICA_SET: 2}
    out = run(tmp_path, capsys, items, "whatif", "events", "-f", str(new), "--timeline")
    assert f"{STATEFUL_SET} (priority 100) preempts 2 Pods of {REPLICA_SET} (priority 0) on a" in out
    assert re.search(rf"^{REPLICA_SET} .* 2 → 0 +2 +2 ", out, re.MULTILINE)


def test_what_a_quota_refuses_is_told_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "pods", "namespace": "default"},
        "spec": {"hard": {"pods": "0"}},
        "status": {"hard": {"pods": "0"}, "used": {"pods": "3"}},
    }
    items = [*full(), node("c", "9"), quota]
    answer = json.loads(run(tmp_path, capsys, items, "whatif", "lose", "node", "a", "-o", "json"))
    assert answer["rejectedByQuota"] == {REPLICA_SET: 2}
    told = json.loads(run(tmp_path, capsys, items, "risk", "-o", "json"))["workloads"]
    assert {each["workload"]: each["rejectedByQuota"] for each in told} == {
        REPLICA_SET: {"node a": 2},
        STATEFUL_SET: {"node b": 1},
    }


def test_nodes_are_brought_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = tmp_path / "groups.json"
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    template = {"metadata": {"labels": {"group": "a"}}, "status": {"capacity": allocatable, "allocatable": allocatable}}
    groups.write_text(json.dumps([{"name": "large", "template": template}]))
    told = run(tmp_path, capsys, full(), "whatif", "lose", "node", "a", "--node-templates", str(groups), "-o", "json")
    (brought,) = json.loads(told)["autoscalers"]["nodeGroups"]["scaleUps"]
    assert [(each["workload"], each["pods"]) for each in brought["workloads"]] == [(REPLICA_SET, 2)]


def test_an_expectation_names_workloads_of_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern is of `namespace/name`, and fits both."""
    lost = {"lost": {"node": "a"}}
    expectations = [
        {"name": workload, "when": lost, "expect": {"noPending": {"workload": workload}}}
        for workload in ("default/web", "default/db")
    ]
    path = tmp_path / "expectations.json"
    path.write_text(json.dumps(expectations))
    told = json.loads(run(tmp_path, capsys, full(), "test", str(path), "--allow-empty", "-o", "json"))["expectations"]
    assert [each["met"] for each in told] == [False, True]
    assert REPLICA_SET in told[0]["failures"][0]


@pytest.mark.parametrize(
    ("workloads", "told"),
    [
        ([("apps/Deployment", "a/b")], ["a/b"]),
        ([("apps/Deployment", "a/b"), ("apps/Deployment", "a/c")], ["a/b", "a/c"]),
        ([("apps/Deployment", "a/b"), ("", "a/b")], ["Deployment a/b", "Pod a/b"]),
        ([("/ReplicationController", "a/b"), ("", "a/b")], ["ReplicationController a/b", "Pod a/b"]),
        (
            [("/ReplicationController", "a/b"), ("x.io/ReplicationController", "a/b")],
            ["ReplicationController a/b", "ReplicationController.x.io a/b"],
        ),
        (
            [("apps/Deployment", "a/b"), ("x.io/Deployment", "a/b"), ("apps/DaemonSet", "a/b")],
            ["Deployment.apps a/b", "Deployment.x.io a/b", "DaemonSet a/b"],
        ),
    ],
)
def test_the_kind_is_told_where_it_is_needed(workloads: list[tuple[str, str]], told: list[str]) -> None:
    names = Names(workloads)
    assert [names.name_of(each) for each in workloads] == told
    assert [names.group(name) for name in told] == [group for _, group in workloads]
