"""Pods of DaemonSets: victims are named as such, and a higher PriorityClass is the fix for one that does not fit."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import Made, MadePod, cluster_text, make_node, make_pod, make_priority_class
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

FIX = "Fix: give the DaemonSet a PriorityClass that preempts Pods on its nodes"


def daemon_set(name: str, cpu: str, **spec: Any) -> Made:
    labels, pod = {"app": name}, make_pod("").request(cpu=cpu).obj["spec"]
    template = {"metadata": {"labels": labels}, "spec": {**pod, **spec}}
    return Made("apps/v1", "DaemonSet", name, "ops").spec(selector={"matchLabels": labels}, template=template)


def daemon(node: str, cpu: str, priority: int = 0) -> MadePod:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}
    pod = make_pod(f"agent-{node}", "ops").request(cpu=cpu).labels(app="agent").priority(priority).on(node)
    return pod.metadata(ownerReferences=[owner])


def asked(directory: Path, cluster: list[Made], new: Made, *command: str) -> str:
    (directory / "cluster.json").write_text(cluster_text(cluster))
    (directory / "new.json").write_text(json.dumps(new.obj))
    given = ["-f", directory / "new.json"] if command[0] != "lint" else [directory / "new.json"]
    return forewarn(*command, *given, "--cluster", directory / "cluster.json").stdout


def test_victims_of_daemon_sets_are_named(tmp_path: Path) -> None:
    other = make_pod("other").request(cpu="2").on("n1")
    cluster = [make_node("n1").has(cpu="4"), make_priority_class(9), daemon_set("agent", "2"), daemon("n1", "2"), other]
    new = make_pod("new").request(cpu="4").of_class(9)
    text = asked(tmp_path, cluster, new, "predict")
    assert text.count("DaemonSet") == text.count("its DaemonSet recreates it on n1 only") == 1
    (pod,) = json.loads(asked(tmp_path, cluster, new, "predict", "-o", "json"))["pods"]
    assert pod["daemonSetVictims"] == [{"pod": "ops/agent-n1", "daemonSet": "ops/agent", "node": "n1"}]


@pytest.mark.parametrize("command", [("whatif", "apply"), ("whatif", "restart", "daemonset/agent", "-n", "ops")])
def test_the_rollout_of_a_daemon_set_may_take_longer_than_other_simulations(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """8 nodes, one after the other; each Pod terminates within 10 minutes."""
    grace = {"terminationGracePeriodSeconds": 600}
    old, new = daemon_set("agent", "1", **grace), daemon_set("agent", "2", **grace)
    nodes = [f"n{number}" for number in range(8)]
    pods = [daemon(node, "1").spec(**grace) for node in nodes]
    (tmp_path / "cluster.json").write_text(cluster_text([*map(make_node, nodes), old, *pods]))
    (tmp_path / "new.json").write_text(json.dumps(new.obj))
    manifest = ("-f", str(tmp_path / "new.json")) if command[1] == "apply" else ()
    asked = (*command, *manifest, "--cluster", str(tmp_path / "cluster.json"), "-o", "json")
    answer = json.loads(forewarn(*asked).stdout)
    assert answer["steady"]
    assert 4_200 < answer["steadyAt"] < 7_200
    assert json.loads(forewarn(*asked, "--until", "1h").stdout)["steady"] is False


@pytest.mark.parametrize(
    ("cpu", "other", "spec", "fix"),
    [
        ("3", 0, {}, FIX),
        ("3", 5, {}, FIX),
        ("3", -5, {"priorityClassName": "never"}, FIX),
        ("5", 0, {}, "Fix: add such nodes or lower requests"),
        ("3", 2_000_001_000, {}, "Fix: lower requests"),
    ],
    ids=["equal priority", "higher priority", "never preempts", "larger than the node", "system-node-critical"],
)
def test_a_class_is_the_fix_if_it_helps(cpu: str, other: int, spec: dict[str, Any], fix: str, tmp_path: Path) -> None:
    never = make_priority_class(0, "never", preemptionPolicy="Never")
    cluster = [make_node("n1").has(cpu="4"), never, make_pod("other").request(cpu="2").priority(other).on("n1")]
    new = daemon_set("logs", cpu, **spec)
    assert fix in asked(tmp_path, cluster, new, "lint")
    assert (FIX in asked(tmp_path, cluster, new, "predict", "-o", "json")) is (fix == FIX)


def test_preemption_by_a_daemon_set_and_its_class_ask_for_no_opposite_fixes(tmp_path: Path) -> None:
    cluster: list[Made] = [
        make_node("n1").has(cpu="4"),
        make_priority_class(9, "agents"),
        make_priority_class(99, "top"),
    ]
    cluster += [
        make_pod("low").request(cpu="2").priority(0).on("n1"),
        make_pod("top").request(cpu="1").priority(99).spec(priorityClassName="top").on("n1"),
    ]
    new = daemon_set("logs", "3", priorityClassName="agents")
    del new.obj["spec"]["template"]["spec"]["priority"]
    report = asked(tmp_path, cluster, new, "lint", "-v")
    fixes = [line.partition("Fix: ")[2] for line in report.splitlines() if "Fix: " in line]
    assert {"lower requests", "use a class above 99"} <= {*fixes}, report


def test_a_class_is_no_fix_for_other_workloads(tmp_path: Path) -> None:
    cluster: list[Made] = [make_node("n1").has(cpu="4"), make_pod("other").request(cpu="2").on("n1")]
    new = daemon_set("logs", "3")
    new.obj["kind"] = "ReplicaSet"
    assert FIX not in asked(tmp_path, cluster, new, "lint") + asked(tmp_path, cluster, new, "predict")


def test_the_audit_names_the_class_for_a_restart(tmp_path: Path) -> None:
    waits = make_pod("waits").request(cpu="3").priority(5)
    made = [make_node("n1").has(cpu="4"), daemon_set("agent", "2"), daemon("n1", "2"), waits]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    assert FIX.removeprefix("Fix: ") in forewarn("audit", "-v", "--cluster", tmp_path / "cluster.json").stdout


def test_a_pending_pod_of_a_daemon_set_names_its_only_node(tmp_path: Path) -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    pod = daemon("", "4").affinity("nodeAffinity", field).metadata(name="agent-p")
    pod.obj["spec"].pop("nodeName")
    others = [make_node(name).has(cpu="8") for name in ("n1", "n2", "n3")]
    (tmp_path / "cluster.json").write_text(cluster_text([*others, make_pod("full").request(cpu="8").on("n1"), pod]))
    text = forewarn("why", "ops/agent-p", "--cluster", tmp_path / "cluster.json").stdout
    assert "fits on no node (its only node n1: insufficient cpu; no Pod of lower priority)" in " ".join(text.split())


def test_preempted_replacements_are_a_number_that_simulations_have(tmp_path: Path) -> None:
    """On half of the nodes, each Pod of a ReplicaSet is preempted; its replacement runs elsewhere for a moment."""
    nodes = [f"n{number}" for number in range(10)]
    pod = make_pod("b").request(cpu="2").obj["spec"]
    template = {"metadata": {"labels": {"app": "b"}}, "spec": pod}
    labels = {"matchLabels": {"app": "b"}}
    old = Made("apps/v1", "ReplicaSet", "b", "default").spec(replicas=5, selector=labels, template=template)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b", "uid": "uid-b", "controller": True}
    batch = [make_pod(f"b-{node}").request(cpu="2").labels(app="b").on(node) for node in nodes[:5]]
    others = [make_pod(f"x-{node}").priority(99).request(cpu="2").on(node) for node in nodes]
    new = daemon_set("agent", "2")
    new.obj["spec"]["template"]["spec"] = make_pod("").of_class(50).request(cpu="2").obj["spec"]
    cluster = [*map(make_node, nodes), old, *(pod.metadata(ownerReferences=[owner]) for pod in batch), *others]
    cluster.append(make_priority_class(50))
    predicted = json.loads(asked(tmp_path, cluster, new, "predict", "-o", "json"))["counters"]["preempted"]
    lines = asked(tmp_path, cluster, new, "whatif", "apply").splitlines()
    low, high = re.findall(r"preempted [0-9]+ \((\d+) to (\d+)\)", lines[1])[0]
    assert int(low) <= predicted <= int(high)
    (fix,) = [line for line in lines if "add nodes: " in line]
    assert "Pending 5 → 0" in fix, "a new node also has a Pod of the DaemonSet"


@pytest.mark.parametrize(
    ("nodes", "others", "counts"),
    [
        (2, 0, {"replacementsPending": 2}),
        (2, 1, {"replacements": None}),
        (101, 0, {"replacementsPending": 101}),
    ],
    ids=["one object", "two objects", "more Pods than the webhook simulates"],
)
def test_replacements_are_counted_or_not_predicted(
    nodes: int, others: int, counts: dict[str, int | None], tmp_path: Path
) -> None:
    """A missing number would read as 0."""
    labels, owner = {"app": "b"}, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b", "uid": "u"}
    old = Made("apps/v1", "ReplicaSet", "b", "default").metadata(uid="u")
    old.spec(replicas=nodes, selector={"matchLabels": labels}, template={"metadata": {"labels": labels}})
    old.obj["spec"]["template"]["spec"] = make_pod("").request(cpu="2").obj["spec"]
    names = [f"n{number}" for number in range(nodes)]
    running = [make_pod(f"b-{name}").request(cpu="2").labels(**labels).on(name) for name in names]
    owned = [pod.metadata(ownerReferences=[{**owner, "controller": True}]) for pod in running]
    made = [make_priority_class(50), old, *owned, *(make_node(name).has(cpu="2") for name in names)]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    new = [daemon_set("agent", "2"), *(make_pod("other").request(cpu="1") for _ in range(others))]
    new[0].obj["spec"]["template"]["spec"] = make_pod("").of_class(50).request(cpu="2").obj["spec"]
    (tmp_path / "new.yaml").write_text("\n---\n".join(json.dumps(each.obj) for each in new))
    asked = ("predict", "-f", tmp_path / "new.yaml", "--cluster", tmp_path / "cluster.json")
    document = json.loads(forewarn(*asked, "-o", "json").stdout)
    assert {name: number for name, number in document["counts"].items() if "replacements" in name} == counts
    assert ("replacements not predicted" in forewarn(*asked).stdout) is (None in counts.values())
    assert any("whatif apply" in each for each in document["warnings"]) is (None in counts.values())
