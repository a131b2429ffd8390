"""The first line of `whatif apply` about rollouts and quotas: what the change blocks, not what was so before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.cli import main

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


def _first_line(
    cluster: list[dict[str, Any]], change: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    return _answer(cluster, change, folder, capsys).splitlines()[0]


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
    line = _first_line(cluster, _default_cpu(after), tmp_path, capsys)
    text = "new Pods of x/set rejected by LimitRanges (1 running Pod cannot be recreated); "
    assert (text in line, "cannot be recreated" in line) == (blocked, blocked)


@pytest.mark.parametrize(
    ("image", "replicas", "first"),
    [("a", 1, "1 Pod of x/set removed"), ("a", 3, "rejected: Pods of "), ("b", 1, "rejected: Pods of ")],
)
def test_a_stored_limit_range_rejects_only_new_pods(
    image: str, replicas: int, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [_pod(f"set-{n}", node=f"n{n + 1}", owner="StatefulSet") for n in range(2)]
    cluster = [_set("StatefulSet", "a", replicas=2), *own, _default_cpu("2")]
    assert _first_line(cluster, _set("StatefulSet", image, replicas=replicas), tmp_path, capsys).startswith(first)


@pytest.mark.parametrize(("others", "which"), [(0, "1 object"), (1, "2 objects")])
def test_the_first_line_names_the_limit_range_of_replicas_that_are_not_replaced(
    others: int, which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {**_set("StatefulSet", "a", replicas="1"), "metadata": {"name": "(LimitRange bad)", "namespace": "x"}}
    own = [_set("StatefulSet", "a", replicas=1), _pod("set-0", node="n1", owner="StatefulSet"), *[bad] * others]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node, *own, _default_cpu("2")]))
    main(["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.yaml")])
    count = "1 " if others else ""
    assert f"{which} not simulated ({count}because of LimitRange defaults)" in capsys.readouterr().out.splitlines()[0]


def test_the_first_line_is_not_split_in_the_message_of_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"name": f"a; without: {'long, ' * 60}", "namespace": "x"}
    bad = {**_set("StatefulSet", "a", replicas="1"), "metadata": metadata}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node, bad, _pod("a")]))
    main(["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.yaml")])
    assert len(capsys.readouterr().out.splitlines()[0]) > 240


def test_rows_tell_a_limit_range_from_a_quota(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [_default_cpu("2"), _quota(0, 2)]}
    cluster = [_set("DaemonSet", "a"), _pod("set-0", node="n1", owner="DaemonSet"), _pod("other", node="n2")]
    out = _answer(cluster, both, tmp_path, capsys)
    assert out.startswith("new Pods of x/other and x/set rejected by quota x/q and LimitRanges (2 running Pods cannot")
    assert "x/set: a LimitRange rejects new Pods (1 running Pod cannot be recreated): requests: Invalid value" in out
    assert "x/other: a ResourceQuota rejects new Pods (1 running Pod cannot be recreated): exceeded quota: q" in out


def test_json_has_pdbs_that_block_drains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}}
    pdb = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "x"}}
    answer = _answer([_pod("a", node="n1")], {**pdb, "spec": spec}, tmp_path, capsys, "-o", "json")
    (blocker,) = json.loads(answer)["blocks"]["drains"]
    assert (blocker["budget"], blocker["nodes"], blocker["never"]) == ("x/p", ["n1"], True)


_OWN = [_pod("set-0", node="n1", owner="StatefulSet"), _pod("set-1", node="n2", owner="StatefulSet")]


@pytest.mark.parametrize(
    ("required", "others", "after", "line"),
    [
        (
            2,
            [_pod("set-2", node="n2", owner="StatefulSet")],
            _set("StatefulSet", "a", replicas=1),
            "2 Pods of x/set removed; PDB x/p with too few healthy Pods blocks drains of node n1 from now on: ",
        ),
        (
            1,
            [_pod("waiting")],
            _set("StatefulSet", "b", replicas=2),
            "1 of 2 replicas of x/set lost (Pending), PDB x/p blocks drains of node n1 from now on",
        ),
        (
            2,
            [_pod("waiting")],
            _set("StatefulSet", "b", replicas=2),
            "PDB x/p with too few healthy Pods",
        ),
    ],
    ids=["scaled down", "not restarted", "blocked before"],
)
def test_a_pdb_that_then_blocks_drains_is_named_once(
    required: int,
    others: list[dict[str, Any]],
    after: dict[str, Any],
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pdb = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "x"}}
    spec = {"minAvailable": required, "selector": {"matchLabels": {"app": "set"}}}
    before = 2 + sum("ownerReferences" in each["metadata"] for each in others)
    cluster = [_set("StatefulSet", "a", replicas=before), *_OWN, *others, {**pdb, "spec": spec}]
    assert line in _first_line(cluster, after, tmp_path, capsys)


def test_rejected_new_pods_follow_those_that_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    line = _first_line([high, *running, _quota(1, 0)], change, tmp_path, capsys)
    assert line.startswith("1 of 2 new Pods of x/new run; 1 Pod rejected by quota x/q, 1 replica of low/lost-n")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("whatif apply", "1 Pod of x/new rejected by quota x/q (must specify limits.cpu, limits.memory): "),
        ("predict", "1 rejected by quota x/q (must specify limits.cpu, limits.memory)"),
    ],
)
def test_lines_name_what_quotas_require(
    command: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = _quota(3, 0)
    hard = {"limits.cpu": "9", "limits.memory": "9Gi"}
    quota["spec"]["hard"], quota["status"] = hard, {"hard": hard, "used": dict.fromkeys(hard, "0")}
    _answer([quota, _pod("a", node="n1")], _pod("new"), tmp_path, capsys)
    main([*command.split(), "-f", str(tmp_path / "change.yaml"), "--cluster", str(tmp_path / "cluster.yaml")])
    assert line in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(("desired", "text"), [(1, "needs all 1"), (3, "1, needs 3")])
def test_rows_have_what_pdbs_need(desired: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def pdb(name: str) -> dict[str, Any]:
        spec = {"minAvailable": desired, "selector": {"matchLabels": {"app": name}}}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "x"},
            "spec": spec,
        }

    out = _answer([_pod("a", node="n1"), _pod("b", node="n2"), pdb("b")], pdb("a"), tmp_path, capsys)
    assert "after the change, 1 more PDB blocks evictions, on 1 of 2 nodes:" in out
    assert f"x/a  {text} " in out


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
def test_a_changed_template_without_new_pods_is_answered(
    kind: str, strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec: dict[str, Any] = {"updateStrategy": {"type": strategy}}
    if kind == "StatefulSet":
        spec |= {"replicas": 1, "serviceName": "set"}
    pods = [_pod("big", node="n1"), _pod("other", node="n2"), _pod("set-0", owner=kind)]
    line = _first_line([_set(kind, "a", **spec), *pods], _set(kind, "b", **spec), tmp_path, capsys)
    assert ("rollout of x/set blocked" in line) == (strategy == "RollingUpdate")


def test_a_quota_is_not_blamed_for_what_was_so_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [_pod("a", node="n1"), _pod("b", node="n2")]
    said = "new Pods of x/a and x/b rejected by quota x/q (1 running Pod cannot be recreated)"
    assert _first_line([*pods, _quota(5, 2)], _quota(1, 2), tmp_path, capsys).startswith(said)
    assert "rejected" not in _first_line([*pods, _quota(0, 2)], _quota(1, 2), tmp_path, capsys)


def test_pods_that_a_lower_quota_still_admits_can_be_recreated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of four Pods that are all recreated, a quota of 2 Pods rejects two; a quota of 3 already rejected one."""
    pods = [_pod(name, node="n1") for name in "abcd"]
    assert "(2 running Pods cannot be recreated)" in _first_line([*pods, _quota(4, 4)], _quota(2, 4), tmp_path, capsys)
    less = _first_line([*pods, _quota(3, 4)], _quota(1, 4), tmp_path, capsys)
    assert less.startswith("new Pods of x/b and x/c rejected by quota x/q (2 running Pods cannot be recreated)")


def test_the_largest_pods_are_recreated_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [_pod(name, node="n1") for name in "abc"]
    for pod, cpu in zip(pods, "112", strict=True):
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    hard = {"requests.cpu": "2"}
    quota = {**_quota(0, 0), "spec": {"hard": hard}, "status": {"hard": hard, "used": {"requests.cpu": "4"}}}
    assert "(2 running Pods cannot be recreated)" in _first_line(pods, quota, tmp_path, capsys)


def _cron_job(pods: int = 1, **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}
    job = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    spec = {"schedule": "0 9 * * *", "jobTemplate": {"spec": job}, **spec}
    metadata = {"name": "report", "namespace": "x", "creationTimestamp": "2026-01-01T02:00:00Z"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


def _limit_range(cpu: str) -> dict[str, Any]:
    limits = {"limits": [{"type": "Container", "default": {"memory": cpu}, "defaultRequest": {"memory": cpu}}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "x"}, "spec": limits}


_OFTEN = _cron_job(schedule="*/5 * * * *")
_OFTEN["metadata"]["name"] = "often"
_LOWERED = "new Pods of x/report rejected by quota x/q; no replica lost"
_MEMORY = {**_quota(2, 1), "spec": {"hard": {"requests.memory": "1Gi"}}}
_RECENT = _pod("a", node="n1")
_RECENT["metadata"]["creationTimestamp"] = "2026-01-01T02:00:00Z"


@pytest.mark.parametrize(
    ("cluster", "change", "first"),
    [
        ([_cron_job(), _quota(2, 1)], _quota(1, 1), _LOWERED),
        ([_quota(1, 1)], _cron_job(), _LOWERED),
        (
            [_cron_job(), _quota(2, 1)],
            _pod("b"),
            "Pod x/b runs, new Pods of x/report rejected by quota x/q; no replica lost",
        ),
        ([_cron_job(), _MEMORY, _limit_range("1Gi")], _limit_range("2Gi"), _LOWERED),
        ([_cron_job(), _quota(1, 1)], _quota(0, 1), "new Pods of x/a rejected by quota x/q (1 running Pod"),
        ([_cron_job(suspend=True), _quota(2, 1)], _quota(1, 1), "no replica lost"),
        ([_cron_job()], _default_cpu("0.5"), "new Pods of x/report rejected by LimitRanges; no replica lost"),
        ([_cron_job(suspend=True)], _default_cpu("0.5"), "no replica lost"),
        ([_cron_job(), _quota(3, 1)], _quota(2, 1), "no replica lost"),
        (
            [_cron_job(3), _OFTEN, _quota(9, 1)],
            _quota(3, 1),
            "2 of 8 new Pods of x/often run, new Pods of x/report rejected by quota x/q; 6 Pods",
        ),
        ([_cron_job(), _OFTEN, _quota(3, 1)], _pod("b"), "2 of 3 new Pods of 2 workloads run; 1 Pod of x/often "),
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
    first: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _first_line([_RECENT, *cluster], change, tmp_path, capsys).startswith(first)


def test_predict_has_in_json_what_blocks_later_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec: dict[str, Any] = {"replicas": 2, "serviceName": "set"}
    change = _set("StatefulSet", "a", **spec)
    text = _answer([_pod("a", node="n1"), _pod("b", node="n2")], change, tmp_path, capsys)
    assert "0 of 2 new Pods of x/set run, 1 stays Pending" in text
    main(["predict", "-f", str(tmp_path / "change.yaml"), "--cluster", str(tmp_path / "cluster.yaml"), "-o", "json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["outcome"], each.get("blocked")) for each in lines] == [("pending", True), ("later", True)]
