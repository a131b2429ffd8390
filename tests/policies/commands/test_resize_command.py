"""`forewarn whatif resize`: what kube-apiserver, the kubelet and kube-scheduler make of an in-place resize."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli import main
from tests.builders import Made, MadePod, cluster_text, make_node, make_pod
from tests.in_process import without_head

if TYPE_CHECKING:
    from pathlib import Path

GATE = ("--feature-gates", "InPlacePodVerticalScalingSchedulerPreemption=true")
WEB, LOW = "default/web", ["default/low"]


def web() -> MadePod:
    return make_pod("web").priority(10).request(cpu="1", memory="1Gi").on("a")


def critical() -> Made:
    return web().spec(priority=2_000_000_000)


def never() -> Made:
    return web().spec(preemptionPolicy="Never")


def with_port() -> Made:
    return web().port(80)


def guaranteed() -> Made:
    pod = web()
    pod.obj["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "1Gi"}
    return pod


def on_windows(node: Made) -> Made:
    return node.label("kubernetes.io/os", "windows")


def without_preemption(node: Made) -> Made:
    return node.spec(podPreemptionPolicy={"disableResizePreemption": ["Deferred"]})


def same(made: Made) -> Made:
    return made


def resized(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str, pod: Made, node: Made) -> Any:
    """Of a node with 4 cpus, on which a Pod of lower priority uses 2."""
    low = make_pod("low").priority(1).request(cpu="2").on("a")
    file = path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node.obj, low.obj, pod.obj]}))
    try:
        status = main(["whatif", "resize", "web", "--cluster", str(file), "-o", "json", *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    out, err = capsys.readouterr()
    return json.loads(out)["pods"][0] if status == 0 else (status, err)


@pytest.mark.parametrize(
    ("arguments", "pod", "node", "verdict", "reason"),
    [
        (["--requests", "cpu=2"], web, same, "accepted", ""),
        (["--requests", "cpu=500m"], web, same, "accepted", ""),
        (["--requests", "cpu=2"], with_port, same, "accepted", ""),
        (["--requests", "cpu=3"], web, same, "deferred", "insufficient cpu"),
        (["--requests", "cpu=3,memory=9Gi"], web, same, "rejected", "exceed the node's allocatable memory"),
        (
            ["--requests", "cpu=5", "--kubernetes-version", "1.35"],
            web,
            same,
            "infeasible",
            "exceed the node's allocatable cpu",
        ),
        (["--requests", "cpu=4"], web, same, "deferred", "insufficient cpu"),
        (["--requests", "cpu=2", "--limits", "cpu=1"], web, same, "rejected", "the cpu request exceeds the limit"),
        (["--requests", "cpu=500m"], guaranteed, same, "rejected", "QoS class would change from Guaranteed"),
        (["--requests", "cpu=2", "--limits", "cpu=2"], guaranteed, same, "accepted", ""),
        (["--requests", "cpu=2"], web, on_windows, "rejected", "does not run Linux"),
        (["--requests", "cpu=2", "--kubernetes-version", "1.35"], web, on_windows, "accepted", ""),
        (["--requests", "cpu=3"], critical, same, "accepted", "the kubelet evicts"),
        (["--requests", "cpu=3", *GATE], critical, same, "deferred", "insufficient cpu"),
        (["--requests", "cpu=3", *GATE], web, without_preemption, "deferred", "disables preemption"),
        (["--requests", "cpu=3", *GATE], never, same, "deferred", "may not preempt (preemptionPolicy: Never)"),
    ],
)
def test_verdicts(
    arguments: list[str],
    pod: Any,
    node: Any,
    verdict: str,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = resized(tmp_path, capsys, *arguments, pod=pod(), node=node(make_node("a")))
    assert (found["pod"], found["node"], found["verdict"]) == (WEB, "a", verdict)
    assert reason in found["reason"]
    assert bool(found["evicted"]) == ("evicts" in reason)


def test_the_kubelet_may_evict_an_equal_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = (make_pod(name).priority(1).request(cpu="1500m").on("a") for name in ("low", "other"))
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("a").has(cpu="4"), critical(), *pods]))
    assert main(["whatif", "resize", "web", "--requests", "cpu=2", "--cluster", str(tmp_path / "cluster.json")]) == 0
    first = (
        "Pod default/web on a: accepted: critical Pod: the kubelet evicts Pods (or default/other with equal requests)"
    )
    assert capsys.readouterr().out.splitlines()[0] == first


@pytest.mark.parametrize("arguments", [(), GATE])
def test_who_is_in_the_way_of_a_deferred_resize(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = make_node("a").taint("dedicated")
    found = resized(tmp_path, capsys, "--requests", "cpu=3", *arguments, pod=web(), node=node)
    assert found["insufficient"] == {"cpu": 1000}
    assert (found["preempted"], found["inTheWay"]) == ((LOW, []) if arguments else ([], LOW))
    lowest = resized(tmp_path, capsys, "--requests", "cpu=3", *arguments, pod=web().spec(priority=0), node=node)
    assert lowest["reason"] == "insufficient cpu; no Pods of lower priority free enough resources"
    assert (lowest["preempted"], lowest["inTheWay"]) == ([], [])


@pytest.mark.parametrize(
    ("pod", "cpu", "reason", "in_the_way"),
    [
        (web().spec(nodeSelector={"disk": "ssd"}), "2", "Predicate NodeAffinity failed: node(s)", []),
        (
            critical().spec(tolerations=[]),
            "3",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
            LOW,
        ),
    ],
)
def test_the_kubelet_defers_a_resize_that_a_predicate_rejects(
    pod: Made, cpu: str, reason: str, in_the_way: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: `canAdmitPod`, which is the admission of new Pods. A critical Pod preempts nothing then."""
    node = make_node("a").taint("leaving", effect="NoExecute")
    pod.obj["spec"].setdefault("tolerations", [{"operator": "Exists"}])
    found = resized(tmp_path, capsys, "--requests", f"cpu={cpu}", pod=pod, node=node)
    assert found["reason"].startswith(reason)
    assert (found["verdict"], found["inTheWay"]) == ("deferred", in_the_way)


def test_facts_of_the_kubelet_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--requests", "memory=2Gi", "--limits", "memory=2Gi")
    found = resized(tmp_path, capsys, *more, pod=guaranteed(), node=make_node("a"))
    assert [each.partition(" if ")[0] for each in found["dependsOn"]] == ["infeasible", "infeasible"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no new resources given. Fix: pass --requests"),
        (("--requests", "gpu=1"), "must be cpu=AMOUNT"),
        (("--requests", "cpu=-1"), "must be cpu=AMOUNT"),
        (("--requests", "cpu=1", "-c", "other"), 'no container "other"'),
        (("--requests", "cpu=1", "--kubernetes-version", "1.36", *GATE), "came with Kubernetes 1.37"),
        (("--requests", "cpu=1", "-n", "other"), "other/web: Pod not found in the cluster; known: default/web"),
    ],
)
def test_wrong_usage(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = resized(tmp_path, capsys, *arguments, pod=web(), node=make_node("a"))
    assert status in (2, 3)
    assert message in err


def test_the_pods_of_a_workload_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of two Pods gets the last free cpu: the Pod of higher priority."""
    metadata = {"name": "web", "namespace": "default", "uid": "s"}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": True}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": make_pod("x").obj["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    pods = [make_pod(f"web-{n}").labels(app="web").priority(n).request(cpu="1500m").on("a") for n in range(2)]
    items = [make_node("a").obj, stateful, *(pod.metadata(ownerReferences=[owner]).obj for pod in pods)]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["whatif", "resize", "sts/web", "--requests", "cpu=2500m", "--cluster", str(file)]) == 0
    lines = without_head(capsys.readouterr().out).splitlines()
    assert lines[:4] == [
        "1 accepted (default/web-1); 1 deferred: insufficient cpu (default/web-0): resize of 2 Pods",
        "Pod default/web-1 on a: accepted",
        "Pod default/web-0 on a: deferred: insufficient cpu; no Pods of lower priority free enough resources",
        "  lacks cpu 1000m",
    ]


def test_a_namespace_may_have_the_name_of_a_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    pod = make_pod("web", "jobs").request(cpu="1").on("a")
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [make_node("a").obj, pod.obj]}))
    assert main(["whatif", "resize", "jobs/web", "--requests", "cpu=2", "--cluster", str(file)]) == 0
    assert capsys.readouterr().out.startswith("Pod jobs/web on a: accepted\n")


def limited(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}


def quota(name: str, hard: dict[str, str], used: dict[str, str]) -> dict[str, Any]:
    return limited("ResourceQuota", name, spec={"hard": hard}, status={"hard": hard, "used": used})


def limit_range(**item: Any) -> dict[str, Any]:
    return limited("LimitRange", "bounds", spec={"limits": [{"type": "Container", **item}]})


CPU_OF_6 = quota("q", {"requests.cpu": "6"}, {"requests.cpu": "4"})


@pytest.mark.parametrize(
    ("limits", "cpu", "first"),
    [
        (CPU_OF_6, "2500m", "2 rejected by quota default/q (default/web-2 and default/web-3); 2 accepted"),
        (CPU_OF_6, "500m", "4 accepted"),
        (quota("other", {"services": "1"}, {"services": "1"}), "3", "4 accepted"),
        (
            limit_range(min={"cpu": "1"}),
            "500m",
            "4 rejected: minimum cpu usage per Container is 1, but request is 500m",
        ),
        (limit_range(max={"cpu": "2"}), "2", "4 accepted"),
        (limit_range(default={"cpu": "2"}), "2500m", "4 rejected: container c: the cpu request exceeds the limit"),
    ],
)
def test_quotas_and_limit_ranges_reject_resizes(
    limits: dict[str, Any], cpu: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: `Handles` of the Pods' quota evaluator, and `SupportsAttributes` of LimitRanger."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": True}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": make_pod("x").obj["spec"]}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": "default", "uid": "s"}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    pods = [make_pod(f"web-{n}").labels(app="web").request(cpu="1500m").on("a") for n in range(4)]
    owned = [pod.metadata(ownerReferences=[owner], uid=f"u{n}").obj for n, pod in enumerate(pods)]
    items = [make_node("a").has(cpu="16").obj, stateful, limits, *owned]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["whatif", "resize", "sts/web", "--requests", f"cpu={cpu}", "--cluster", str(file)]) == 0
    assert capsys.readouterr().out.startswith(first)
