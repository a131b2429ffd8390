"""`forewarn risk`: each thing that it says of a workload is what the question, asked alone, comes to."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from policies.cli import main
from policies.cluster import Cache, predict
from tests.builders import make_node, make_pod

if TYPE_CHECKING:
    from pathlib import Path

    from policies.cluster import ClusterSnapshot

SHOWN = "docs/whatif/cluster.yaml"
ZONE = "topology.kubernetes.io/zone"
Obj = dict[str, Any]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main([*arguments])
    except SystemExit as exit_:
        status = int(str(exit_.code))
    out, err = capsys.readouterr()
    return status, out, err


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, err = run(capsys, "risk", *arguments, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def made(seed: int) -> list[Obj]:
    """Nodes in two zones with pods of three classes; one class more ranks above all, one never preempts."""
    rng = random.Random(seed)
    values = {"low": 10, "middle": 100, "high": 1000, "higher": 5000, "idle": 9000}
    items: list[Obj] = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in values.items()
    ]
    items[-1]["preemptionPolicy"] = "Never"
    for number in range(rng.randint(2, 5)):
        node = f"n{number}"
        made_node = make_node(node).has(cpu="4", memory="8Gi", pods="110").label(ZONE, "ab"[number % 2])
        items.append(made_node.label("name", node).obj)
        free = 4000
        for place in range(rng.randint(1, 5)):
            cpu, name = rng.choice((300, 700, 1100)), rng.choice(("low", "middle", "high"))
            if cpu <= free:
                free -= cpu
                pod = make_pod(f"{node}-{place}").priority(values[name]).request(cpu=f"{cpu}m").on(node)
                items.append(pod.spec(priorityClassName=name).obj)
    return items


def cluster_of(items: list[Obj]) -> ClusterSnapshot:
    cache = Cache()
    for item in items:
        cache.add(item)
    return cache.snapshot()


@pytest.mark.parametrize("seed", range(8))
def test_who_may_push_out_and_how_large_it_must_be_is_what_the_scheduler_does(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = made(seed)
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    found = told(capsys, "--cluster", str(tmp_path / "cluster.json"), "--most", "0")
    cluster = cluster_of(items)
    assert found["workloads"]
    for risk in found["workloads"]:
        node = risk["workload"].partition("/")[2].partition("-")[0]
        above = {"low": ["middle", "high", "higher"], "middle": ["high", "higher"], "high": ["higher"]}
        assert [by["class"] for by in risk["mayBePushedOutBy"]] == above[risk["priorityClass"]]
        for by in risk["mayBePushedOutBy"]:
            least, most = by["moreThan"]["milliCpu"], by["upTo"]["milliCpu"]
            asks = make_pod("new").spec(priorityClassName=by["class"])
            assert predict(cluster, asks.request(cpu=f"{least}m").priority(by["priority"]).obj).outcome == "fits"
            asks.request(cpu=f"{most}m").spec(nodeSelector={"name": node})
            prediction = predict(cluster, asks.obj)
            assert prediction.outcome == "preempts"
            assert risk["workload"] in {victim.key for victim in prediction.victims}
            asks.request(cpu=f"{most + 1}m")
            assert predict(cluster, asks.obj).outcome == "pending"


def test_the_losses_are_those_of_whatif(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--cluster", SHOWN)
    losses = {risk["workload"]: risk["losesReplicasWith"] for risk in found["workloads"]}
    assert losses["shop/web"] == {}
    for what, lost in losses["reports/nightly"].items():
        status, out, _ = run(capsys, "whatif", *what.split(), "--cluster", SHOWN, "-o", "json")
        (standing,) = (each for each in json.loads(out)["workloads"] if each["workload"] == "reports/nightly")
        assert (status, standing["running"]["before"] - standing["running"]["after"]) == (0, lost)
    assert found["lossesTried"] == found["there"] == {"zones": 2, "nodes": 4}


def test_only_so_many_losses_are_tried_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "risk", "--cluster", SHOWN, "--most", "1")
    assert "of 2 zones the loss of 1 was simulated: --most N" in out
    assert "of 4 nodes the loss of 1 was simulated: --most N" in out


def test_the_kubelet_passes_over_critical_and_static_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "controller": True}
    pods = [
        make_pod("static").priority(-5).on("a").metadata(ownerReferences=[owner]),
        make_pod("critical").priority(2_000_000_000).on("a"),
        make_pod("plain").priority(7).on("a"),
        make_pod("better").priority(8).on("a"),
    ]
    items = [make_node("a").obj, *(pod.obj for pod in pods)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    found = told(capsys, "--cluster", str(tmp_path / "cluster.json"), "--most", "0")
    first = {risk["workload"] for risk in found["workloads"] if risk["evictedFirstOn"]["nodes"]}
    assert first == {"default/plain"}


def test_workloads_can_be_chosen_and_a_loss_can_fail_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "risk", "--cluster", SHOWN, "-n", "shop", "--fail-on", "loss")
    assert (status, "reports" in out) == (0, False)
    status, out, _ = run(capsys, "risk", "--cluster", SHOWN, "--class", "batch", "--fail-on", "loss")
    assert (status, "shop/web (" in out) == (1, False)


@pytest.mark.parametrize("given", ["-1", "x", "1000000", "1e3"])
def test_a_bound_that_is_none_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "risk", "--cluster", SHOWN, f"--most={given}")
    assert (status, out) == (2, "")
    assert "must be between 0 and 100000" in err
