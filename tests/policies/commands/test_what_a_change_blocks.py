"""`whatif apply` about rollouts and quotas: what the change blocks, not what was so before."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

REJECTED = "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"


def _set(kind: str, image: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "3"}}}
    template = {"metadata": {"labels": {"app": "set"}}, "spec": {"containers": [container]}}
    metadata = {"name": "set", "namespace": "x", "uid": "u"}
    spec = {"selector": {"matchLabels": {"app": "set"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _pod(name: str, *, owner: str = "", node: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "x",
        "uid": name,
        "labels": {"app": "set" if owner else name},
    }
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "set", "uid": "u", "controller": True}
        metadata["ownerReferences"] = [reference]
    spec = {"priority": 0, "containers": [{"name": "c", "image": "a", "resources": {"requests": {"cpu": "3"}}}]}
    if node:
        spec["nodeName"] = node
    status = {"phase": "Running" if node else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _quota(pods: int, used: int) -> dict[str, Any]:
    hard = {"pods": str(pods)}
    metadata = {"name": "q", "namespace": "x"}
    status = {"hard": hard, "used": {"pods": str(used)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, "status": status}


def _answer(
    cluster: list[dict[str, Any]], change: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str], *form: str
) -> str:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}
        for name in ("n1", "n2")
    ]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all([*nodes, *cluster]))
    (folder / "change.yaml").write_text(yaml.safe_dump(change))
    main(["whatif", "apply", "-f", str(folder / "change.yaml"), "--cluster", str(folder / "cluster.yaml"), *form])
    out, err = capsys.readouterr()
    assert "internal error" not in err
    return out


def _recreation(
    cluster: list[dict[str, Any]], change: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, tuple[str, int]]:
    """By workload, the kind of object that rejects its new Pods, and the number of running Pods."""
    blocks = json.loads(_answer(cluster, change, folder, capsys, "-o", "json"))["blocks"]
    return {name: (each["by"], each["pods"]) for name, each in blocks.get("recreation", {}).items()}


def _status_lines(
    cluster: list[dict[str, Any]], change: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """The status and the counters."""
    return _answer(cluster, change, folder, capsys).splitlines()[:2]


@pytest.mark.parametrize(
    ("cluster", "change", "blocks"),
    [
        (
            [_pod("a", node="n1"), _quota(5, 1)],
            _quota(0, 1),
            {
                "recreation": {
                    "x/a": {
                        "pods": 1,
                        "message": "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
                        "by": "ResourceQuota",
                    }
                }
            },
        ),
        (
            [
                _pod("big", node="n1"),
                _pod("other", node="n2"),
                _set("DaemonSet", "a"),
                _pod("set-0", owner="DaemonSet"),
            ],
            _set("DaemonSet", "b"),
            {"rollouts": ["x/set"]},
        ),
        ([_pod("a", node="n1")], _pod("b"), {}),
    ],
)
def test_json_has_what_a_change_blocks(
    cluster: list[dict[str, Any]],
    change: dict[str, Any],
    blocks: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert json.loads(_answer(cluster, change, tmp_path, capsys, "-o", "json"))["blocks"] == blocks


def _default_cpu(cpu: str) -> dict[str, Any]:
    metadata = {"name": "l", "namespace": "x"}
    limits = [{"type": "Container", "default": {"cpu": cpu}}]
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}


@pytest.mark.parametrize(("before", "after", "blocked"), [("", "2", True), ("2", "2", False), ("", "3", False)])
def test_a_new_limit_range_blocks_replacements(
    before: str, after: str, blocked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = [_set("DaemonSet", "a"), _pod("set-0", node="n1", owner="DaemonSet")]
    cluster += [_default_cpu(before)] if before else []
    expected = {"x/set": ("LimitRange", 1)} if blocked else {}
    assert _recreation(cluster, _default_cpu(after), tmp_path, capsys) == expected


@pytest.mark.parametrize(("image", "replicas", "is_rejected"), [("a", 1, False), ("a", 3, True), ("b", 1, True)])
def test_a_stored_limit_range_rejects_only_new_pods(
    image: str, replicas: int, is_rejected: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [_pod(f"set-{n}", node=f"n{n + 1}", owner="StatefulSet") for n in range(2)]
    cluster = [_set("StatefulSet", "a", replicas=2), *own, _default_cpu("2")]
    out = _answer(cluster, _set("StatefulSet", image, replicas=replicas), tmp_path, capsys)
    assert out.startswith("REJECTED  Pods of " if is_rejected else "OK  StatefulSet x/set applied: ")


def test_an_object_that_is_not_simulated_makes_the_answer_doubtful(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [_set("StatefulSet", "a", replicas=1), _pod("set-0", node="n1", owner="StatefulSet")]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node, *own, _default_cpu("2")]))
    main(["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.yaml"), "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    (warning,) = [each for each in answer["warnings"] if each.startswith("not simulated: ")]
    assert warning == f"not simulated: {answer['notSimulated'][0]}"


def test_a_limit_range_and_a_quota_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [_default_cpu("2"), _quota(0, 2)]}
    cluster = [_set("DaemonSet", "a"), _pod("set-0", node="n1", owner="DaemonSet"), _pod("other", node="n2")]
    assert _recreation(cluster, both, tmp_path, capsys) == {"x/set": ("LimitRange", 1), "x/other": ("ResourceQuota", 1)}
    assert "WARN  a LimitRange or ResourceQuota rejects new Pods of 2 workloads: 2 running Pods cannot be" in _answer(
        cluster, both, tmp_path, capsys
    )


def test_json_has_pdbs_that_block_drains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}}
    pdb = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "x"}}
    answer = _answer([_pod("a", node="n1")], {**pdb, "spec": spec}, tmp_path, capsys, "-o", "json")
    (blocker,) = json.loads(answer)["blocks"]["drains"]
    assert (blocker["budget"], blocker["nodes"], blocker["never"]) == ("x/p", ["n1"], True)


_OWN = [_pod("set-0", node="n1", owner="StatefulSet"), _pod("set-1", node="n2", owner="StatefulSet")]


@pytest.mark.parametrize(
    ("required", "others", "after", "counters"),
    [
        (
            2,
            [_pod("set-2", node="n2", owner="StatefulSet")],
            _set("StatefulSet", "a", replicas=1),
            "preempted 0 | Pending 0 | lost 0 | PDBs short 1",
        ),
        (
            1,
            [_pod("waiting")],
            _set("StatefulSet", "b", replicas=2),
            "preempted 0 | Pending 1 | lost 1 of 2 | blocked 1",
        ),
        (
            2,
            [_pod("waiting")],
            _set("StatefulSet", "b", replicas=2),
            "preempted 0 | Pending 1 | lost 1 of 2 | PDBs short 1 | blocked 1",
        ),
    ],
    ids=["scaled down", "not restarted", "blocked before"],
)
def test_a_pdb_with_too_few_healthy_pods_is_counted(
    required: int,
    others: list[dict[str, Any]],
    after: dict[str, Any],
    counters: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pdb = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "x"}}
    spec = {"minAvailable": required, "selector": {"matchLabels": {"app": "set"}}}
    before = 2 + sum("ownerReferences" in each["metadata"] for each in others)
    cluster = [_set("StatefulSet", "a", replicas=before), *_OWN, *others, {**pdb, "spec": spec}]
    assert counters in _status_lines(cluster, after, tmp_path, capsys)[1]


def test_rejected_new_pods_are_counted_beside_those_that_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 5,
    }
    pod = _pod("new")
    template = {"metadata": pod["metadata"], "spec": {**pod["spec"], "priorityClassName": "high", "priority": 5}}
    change = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "new", "namespace": "x"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "new"}}, "template": template},
    }
    running = [_pod(f"lost-{node}", node=node) for node in ("n1", "n2")]
    for each in running:
        each["metadata"]["namespace"] = "low"
    status, counters = _status_lines([high, *running, _quota(1, 0)], change, tmp_path, capsys)
    assert status == "HARM  ReplicaSet x/new applied: 1 of 2 new Pods run, 1 Pod preempted"
    assert counters.strip() == "preempted 1 | Pending 0 | lost 1 of 2 | rejected 1"


def test_the_reason_names_what_a_quota_requires(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quota = _quota(3, 0)
    hard = {"limits.cpu": "9", "limits.memory": "9Gi"}
    quota["spec"]["hard"], quota["status"] = hard, {"hard": hard, "used": dict.fromkeys(hard, "0")}
    answer = json.loads(_answer([quota, _pod("a", node="n1")], _pod("new"), tmp_path, capsys, "-o", "json"))
    (cause,) = answer["why"]["causes"]
    assert cause == {
        "number": 1,
        "kind": "quota",
        "reason": "by quota x/q (must specify limits.cpu, limits.memory)",
    }
    main(["predict", "-f", str(tmp_path / "change.yaml"), "--cluster", str(tmp_path / "cluster.yaml")])
    assert "    1  by quota x/q (must specify limits.cpu, limits.memory)\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
def test_a_changed_template_without_new_pods_is_answered(
    kind: str, strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec: dict[str, Any] = {"updateStrategy": {"type": strategy}}
    if kind == "StatefulSet":
        spec |= {"replicas": 1, "serviceName": "set"}
    pods = [_pod("big", node="n1"), _pod("other", node="n2"), _pod("set-0", owner=kind)]
    line, _ = _status_lines([_set(kind, "a", **spec), *pods], _set(kind, "b", **spec), tmp_path, capsys)
    assert ("1 rollout does not finish" in line) == (strategy == "RollingUpdate")


def test_a_quota_is_not_blamed_for_what_was_so_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [_pod("a", node="n1"), _pod("b", node="n2")]
    new = _recreation([*pods, _quota(5, 2)], _quota(1, 2), tmp_path, capsys)
    assert sorted(new.values()) == [("ResourceQuota", 1), ("ResourceQuota", 1)]
    assert _recreation([*pods, _quota(0, 2)], _quota(1, 2), tmp_path, capsys) == {}


def test_no_pod_can_be_recreated_until_usage_is_below_a_lower_quota(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quota of 3 Pods already rejects them; a lower one for longer."""
    pods = [_pod(name, node="n1") for name in "abcd"]
    for before, after, excess in ((4, 2, 2), (3, 1, 3)):
        cluster = [*pods, _quota(before, 4)]
        found = _recreation(cluster, _quota(after, 4), tmp_path, capsys)
        assert found == {f"x/{name}": ("ResourceQuota", 1) for name in "abcd"}
        warned = " ".join(_answer(cluster, _quota(after, 4), tmp_path, capsys).split())
        assert f"4 running Pods cannot be recreated until usage of pods falls by {excess}" in warned


def test_the_usage_of_several_quotas_must_fall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = [_pod("a", node="n1"), _pod("b", node="n1"), _quota(2, 2)]
    z = copy.deepcopy(x)
    for each in z:
        each["metadata"] |= {"namespace": "z", "uid": f"z-{each['metadata']['name']}"}
    new = [{**each, "spec": {"hard": {"pods": "1"}}} for each in (x[-1], z[-1])]
    both = {"apiVersion": "v1", "kind": "List", "items": new}
    warned = " ".join(_answer([*x, *z], both, tmp_path, capsys).split())
    assert "4 running Pods cannot be recreated until usage of 2 quotas falls" in warned


def _cron_job(pods: int = 1, **spec: Any) -> dict[str, Any]:
    pod = {
        "containers": [{"name": "c", "image": "a", "resources": {"requests": {"cpu": "1"}}}],
        "restartPolicy": "Never",
    }
    job = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    spec = {"schedule": "0 9 * * *", "jobTemplate": {"spec": job}, **spec}
    metadata = {"name": "report", "namespace": "x", "creationTimestamp": "2026-01-01T02:00:00Z"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


def _limit_range(cpu: str) -> dict[str, Any]:
    limits = {"limits": [{"type": "Container", "default": {"memory": cpu}, "defaultRequest": {"memory": cpu}}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "x"}, "spec": limits}


_OFTEN = _cron_job(schedule="*/5 * * * *")
_OFTEN["metadata"]["name"] = "often"
_NEXT = {"x/report": ("ResourceQuota", 0)}
_MEMORY = {**_quota(2, 1), "spec": {"hard": {"requests.memory": "1Gi"}}}
_RECENT = _pod("a", node="n1")
_RECENT["metadata"]["creationTimestamp"] = "2026-01-01T02:00:00Z"


@pytest.mark.usefixtures("few_runs", "no_fixes")
@pytest.mark.parametrize(
    ("cluster", "change", "blocked"),
    [
        ([_cron_job(), _quota(2, 1)], _quota(1, 1), _NEXT),
        ([_quota(1, 1)], _cron_job(), _NEXT),
        ([_cron_job(), _quota(2, 1)], _pod("b"), _NEXT),
        ([_cron_job(), _MEMORY, _limit_range("1Gi")], _limit_range("2Gi"), _NEXT),
        ([_cron_job(), _quota(1, 1)], _quota(0, 1), {"x/a": ("ResourceQuota", 1)}),
        ([_cron_job(suspend=True), _quota(2, 1)], _quota(1, 1), {}),
        ([_cron_job()], _default_cpu("0.5"), {"x/report": ("LimitRange", 0)}),
        ([_cron_job(suspend=True)], _default_cpu("0.5"), {}),
        ([_cron_job(), _quota(3, 1)], _quota(2, 1), {}),
        ([_cron_job(3), _OFTEN, _quota(9, 1)], _quota(3, 1), _NEXT),
        ([_cron_job(), _OFTEN, _quota(3, 1)], _pod("b"), {}),
    ],
    ids=[
        "lowered",
        "new CronJob",
        "used by another Pod",
        "LimitRange",
        "before as well",
        "suspended",
        "LimitRange of CPU",
        "suspended, LimitRange of CPU",
        "enough",
        "lowered beside another",
        "started in the simulation",
    ],
)
def test_the_next_job_of_a_cron_job_is_blocked(
    cluster: list[dict[str, Any]],
    change: dict[str, Any],
    blocked: dict[str, tuple[str, int]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _recreation([_RECENT, *cluster], change, tmp_path, capsys) == blocked


def test_predict_has_in_json_what_blocks_later_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec: dict[str, Any] = {"replicas": 2, "serviceName": "set"}
    change = _set("StatefulSet", "a", **spec)
    status, _ = _status_lines([_pod("a", node="n1"), _pod("b", node="n2")], change, tmp_path, capsys)
    assert status == "PENDING  StatefulSet x/set applied: 0 of 2 new Pods run, 1 stays Pending"
    main(["predict", "-f", str(tmp_path / "change.yaml"), "--cluster", str(tmp_path / "cluster.yaml"), "-o", "json"])
    (each,) = json.loads(capsys.readouterr().out)["objects"]
    assert (each["outcomes"], each["blocked"]) == ({"pending": 1, "later": 1}, True)
