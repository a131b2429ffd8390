"""cluster-autoscaler removes nodes in simulations: `whatif … --until`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.prediction.autoscaling.cluster_autoscaler import scale_down
from forewarn.policies.questions.whatif import arrivals
from forewarn.policies.questions.whatif import scale_down as removals
from tests.policies.autoscaling.test_discovery import status

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("no_fixes")

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
TIME = "2026-05-04T09:00:00Z"


def node(name: str, group: str, cpu: str = "4") -> Any:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {"kops.k8s.io/instancegroup": group, "kubernetes.io/hostname": name}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    }


def replica_set(name: str, cpu: str, *nodes: str) -> list[Any]:
    """A ReplicaSet with a Pod on each of these nodes, and with local storage `data` in memory."""
    labels, uid = {"app": name}, f"uid-{name}"
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}]}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = {"replicas": len(nodes), "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": "shop", "uid": uid}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": "shop",
                "labels": labels,
                "creationTimestamp": TIME,
                "ownerReferences": [owner],
            },
            "spec": {**spec, "nodeName": where},
            "status": {"phase": "Running", "startTime": TIME},
        }
        for number, where in enumerate(nodes)
    ]
    return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": replicas}, *pods]


def cluster(least: int = 0) -> list[Any]:
    """Nodes a to d of one group: `a` is full, `b` has little use, `c` is empty, and the loss of `d` changes nothing."""
    nodes = [node(name, "g") for name in "abcd"]
    pods = [*replica_set("web", "3", "a"), *replica_set("api", "500m", "b")]
    return [*nodes, *pods, status(("g", 4, least, 9))]


def flags(*given: str) -> Any:
    """The Deployment of cluster-autoscaler."""
    container = {"name": "c", "command": ["./cluster-autoscaler", *given]}
    spec = {"replicas": 0, "selector": {}, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "ca", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def run(tmp_path: Path, objects: list[Any], *more: str, form: str = "json") -> list[str]:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return ["whatif", "lose", "node", "d", "--cluster", str(file), "-o", form, *more]


def answer(capsys: Capture, tmp_path: Path, objects: list[Any], *more: str) -> Any:
    assert main(run(tmp_path, objects, *(more or ("--until", "40m")))) == 0
    return json.loads(capsys.readouterr().out)


def removed(answer: Any) -> list[str]:
    return [each["node"] for each in answer["autoscalers"]["scaleDown"]["removed"]]


def test_nodes_are_removed_only_with_a_time(tmp_path: Path, capsys: Capture) -> None:
    found = answer(capsys, tmp_path, cluster())
    down = found["autoscalers"]["scaleDown"]
    assert removed(found) == ["c", "b"]
    assert [(each["group"], each["evicted"]) for each in down["removed"]] == [("g", 0), ("g", 1)]
    assert [600 < each["at"] < 700 for each in down["removed"]] == [True, True]
    assert down["kept"] == {scale_down.UTILIZED: 1}
    assert (found["withNewNodes"]["nodes"], found["withNewNodes"]["firstNodeAt"]) == ({}, None)
    assert (found["withNewNodes"]["running"], found["withNewNodes"]["pending"]) == (2, 0)
    assert "cluster-autoscaler removes nodes that are not needed for 10 min" in found["head"]["assumes"]
    without = answer(capsys, tmp_path, cluster(), "--node-delay", "180")
    assert "scaleDown" not in without["autoscalers"]
    assert "no scale-down (not predicted)" in without["head"]["assumes"]
    assert "withNewNodes" not in without


def test_removed_nodes_are_counted_and_have_a_row(tmp_path: Path, capsys: Capture) -> None:
    assert main([*run(tmp_path, cluster(), "--until", "40m", form="text"), "-v"]) == 0
    text = capsys.readouterr().out
    assert " | removed nodes 2\n" in text
    assert (
        "\ng                     2             -  from 10 min" in text
        or "\ng  " in text.partition("REMOVED NODES OF")[2]
    )
    assert "\nutilization above the threshold      1\n" in text.partition("NODES NOT REMOVED BECAUSE")[2]


def test_no_node_is_removed_before_the_end(tmp_path: Path, capsys: Capture) -> None:
    found = answer(capsys, tmp_path, cluster(), "--until", "9m")
    assert removed(found) == []
    assert found["autoscalers"]["scaleDown"]["kept"] == {
        scale_down.UTILIZED: 1,
        scale_down.NOT_LONG_ENOUGH: 2,
    }


def test_new_nodes_of_an_upgrade_belong_to_the_group(tmp_path: Path, capsys: Capture) -> None:
    given = run(tmp_path, cluster(), "--until", "3h", "--max-surge", "1")
    assert main([given[0], "upgrade", *given[4:]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(removed(found)) == 3
    assert {each["group"] for each in found["autoscalers"]["scaleDown"]["removed"]} == {"g"}
    assert all(name.endswith("-new") for name in removed(found))


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "api", "namespace": "shop"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "api"}}},
    "status": {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": 0},
}


def changed(objects: list[Any], what: str) -> list[Any]:
    """The cluster with a change of the Pod on node b, or of the node."""
    pod = next(obj for obj in objects if obj["metadata"]["name"] == "api-0")
    (b,) = (obj for obj in objects if obj["metadata"]["name"] == "b")
    if what == "no owner":
        del pod["metadata"]["ownerReferences"], pod["metadata"]["labels"]
    elif what == "not safe":
        pod["metadata"]["annotations"] = {SAFE: "false"}
    elif what == "on completion":
        pod["metadata"]["annotations"] = {SAFE: "on-completion"}
    elif what == "empty directory":
        pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    elif what == "safe directory":
        pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
        pod["metadata"]["annotations"] = {f"{SAFE}-local-volumes": "logs,data"}
    elif what == "safe":
        pod["spec"]["volumes"] = [{"name": "data", "hostPath": {"path": "/"}}]
        pod["metadata"]["annotations"] = {SAFE: "true"}
    elif what == "disabled":
        b["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    elif what == "budget":
        objects = [*objects, BUDGET]
    elif what == "elsewhere":
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "b"}
    elif what == "expendable":
        pod["spec"] |= {"priority": -20, "volumes": [{"name": "data", "emptyDir": {}}]}
    return objects


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("no owner", scale_down.NOT_REPLICATED),
        ("not safe", scale_down.NOT_SAFE),
        ("on completion", scale_down.ON_COMPLETION),
        ("empty directory", scale_down.LOCAL_STORAGE),
        ("disabled", scale_down.DISABLED),
        ("budget", scale_down.PDB),
        ("elsewhere", scale_down.NO_PLACE),
        ("safe directory", ""),
        ("safe", ""),
        ("expendable", ""),
    ],
)
def test_why_a_node_stays(what: str, why: str, tmp_path: Path, capsys: Capture) -> None:
    found = answer(capsys, tmp_path, changed(cluster(), what))
    assert ("b" in removed(found)) == (not why)
    down = found["autoscalers"]["scaleDown"]
    assert down["kept"].get(why, 0) == bool(why)
    assert [each["expendable"] for each in down["removed"] if each["node"] == "b"] == [what == "expendable"][: not why]


def test_a_group_keeps_its_minimum(tmp_path: Path, capsys: Capture) -> None:
    found = answer(capsys, tmp_path, cluster(least=2))
    assert removed(found) == ["c"]
    assert found["autoscalers"]["scaleDown"]["kept"] == {scale_down.MIN_SIZE: 2}


@pytest.mark.parametrize(("given", "later"), [((), 120), (("--node-deletion-delay-timeout=30s",), 30)])
def test_an_annotation_delays_a_removal(given: tuple[str, ...], later: float, tmp_path: Path, capsys: Capture) -> None:
    times = []
    for values in ({}, {"delay-deletion.cluster-autoscaler.kubernetes.io/logs": "x"}):
        objects = [*cluster(), flags(*given)]
        objects[2]["metadata"]["annotations"] = values
        down = answer(capsys, tmp_path, objects)["autoscalers"]["scaleDown"]
        times.append(next(each["at"] for each in down["removed"] if each["node"] == "c"))
    assert times[1] - times[0] == pytest.approx(later)


def test_the_scan_interval(tmp_path: Path, capsys: Capture) -> None:
    times = [
        answer(capsys, tmp_path, [*cluster(), flags(f"--scan-interval={seconds}s")])["autoscalers"]["scaleDown"]
        for seconds in (10, 45)
    ]
    assert [each["removed"][0]["at"] for each in times] == [625, 680]


@pytest.mark.parametrize(
    ("unready", "given", "halts"),
    [
        (3, [], False),
        (4, [], True),
        (4, ["--max-total-unready-percentage=60"], False),
        (4, ["--ok-total-unready-count=4"], False),
        (1, ["--ok-total-unready-count=0", "--max-total-unready-percentage=20"], True),
    ],
)
def test_an_unhealthy_cluster(unready: int, given: list[str], halts: bool, tmp_path: Path, capsys: Capture) -> None:
    more = [node(f"u-{number}", "") for number in range(unready)]
    for each in more:
        each["status"]["conditions"][0]["status"] = "Unknown"
        each["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}
    found = answer(capsys, tmp_path, [*cluster(), *more, flags(*given)])
    kept = found["autoscalers"]["scaleDown"]["kept"]
    why = f"cluster-autoscaler halts while {unready} of {3 + unready} nodes are not ready"
    assert (removed(found) == [], kept.get(why)) == ((True, 3) if halts else (False, None))


@pytest.mark.parametrize(
    ("given", "nodes", "assumed"),
    [
        (["--scale-down-enabled=false"], None, "no scale-down (not predicted: --scale-down-enabled is false)"),
        (["--drain-priority-config=x"], None, "no scale-down (not predicted: --drain-priority-config is not modelled)"),
        (
            ["--scale-down-unneeded-time=soon"],
            None,
            "no scale-down (not predicted: --scale-down-unneeded-time has an unreadable value)",
        ),
        (
            ["--gpu-total=nvidia.com/gpu:1:9", "--gpu-total=amd.com/gpu:0:9"],
            None,
            "no scale-down (not predicted: the minimum of --gpu-total is not modelled)",
        ),
        (["--gpu-total=amd.com/gpu:0:9"], ["c", "b"], ""),
        (["--cores-total=4:9000"], None, "no scale-down (not predicted: the minimum of --cores-total is not modelled)"),
        (
            ["--scale-down-unneeded-time=2m"],
            ["c", "b"],
            "cluster-autoscaler removes nodes that are not needed for 2 min",
        ),
        (["--scale-down-utilization-threshold=0.1"], ["c"], ""),
        (["--scale-down-utilization-threshold=1"], ["c", "a"], ""),
        (["--max-scale-down-parallelism=0"], [], ""),
        (["--max-drain-parallelism=0"], ["c"], ""),
    ],
)
def test_flags_of_cluster_autoscaler(
    given: list[str], nodes: list[str] | None, assumed: str, tmp_path: Path, capsys: Capture
) -> None:
    found = answer(capsys, tmp_path, [*cluster(), flags(*given)])
    assert not assumed or assumed in found["head"]["assumes"]
    assert ("scaleDown" in found["autoscalers"]) == (nodes is not None)
    assert nodes is None or removed(found) == nodes


@pytest.mark.parametrize(("cordons", "until"), [("true", 660), ("false", 720)])
def test_a_pod_that_tolerates_the_taint_returns_to_a_node_that_is_not_cordoned(
    cordons: str, until: int, tmp_path: Path, capsys: Capture
) -> None:
    objects, tolerated = cluster(), [{"key": scale_down.TO_BE_DELETED.key, "operator": "Exists"}]
    for obj in (obj for obj in objects if obj["metadata"]["name"].startswith("api")):
        spec = obj["spec"]["template"]["spec"] if obj["kind"] == "ReplicaSet" else obj["spec"]
        spec["tolerations"] = tolerated
    found = answer(capsys, tmp_path, [*objects, flags(f"--cordon-node-before-terminating={cordons}")])
    assert removed(found) == ["c", "b"]
    assert until <= found["withNewNodes"]["steadyAt"] < until + 10


def test_no_removal_soon_after_a_scale_up(tmp_path: Path, capsys: Capture) -> None:
    """The Pod of the lost node needs a new node, after which cluster-autoscaler waits for 10 minutes."""
    nodes = [*(node(name, "g") for name in "abd"), node("e", "h", cpu="1")]
    known = [status(("g", 3, 0, 9), ("h", 1, 0, 1)), flags("--scale-down-unneeded-time=1m")]
    for lost, least, most in (
        (replica_set("web", "3", "a", "b", "d"), 610, 700),
        (replica_set("web", "3", "a"), 60, 90),
    ):
        found = answer(capsys, tmp_path, [*nodes, *lost, *known])
        (at,) = (each["at"] for each in found["autoscalers"]["scaleDown"]["removed"] if each["node"] == "e")
        assert least < at < most


def test_a_file_of_node_groups_does_not_name_their_nodes(tmp_path: Path, capsys: Capture) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps([{"name": "g", "maxSize": 9, "template": node("t", "g")}]))
    found = answer(capsys, tmp_path, cluster(), "--until", "40m", "--node-templates", str(groups))
    assert "scaleDown" not in found["autoscalers"]
    why = "no scale-down (not predicted: the node templates do not name the nodes of groups)"
    assert why in found["head"]["assumes"]


@pytest.mark.forks
def test_the_answer_is_the_same_without_forks(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    forked = answer(capsys, tmp_path, cluster())
    monkeypatch.setattr(arrivals, "forked", lambda _: None)
    assert answer(capsys, tmp_path, cluster()) == forked


def test_the_work_is_bounded(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removals, "MAX_WORK", 1)
    found = answer(capsys, tmp_path, [*cluster(), *(node(f"n{number}", "g") for number in range(400))])
    assert removed(found) == []
    assert found["autoscalers"]["scaleDown"]["notPredicted"] == "further removals (they take too much work)"
