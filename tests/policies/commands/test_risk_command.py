"""`forewarn risk`: each thing that it says of a workload is what the question, asked alone, comes to."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class
from tests.in_process import captured as run

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

SHOWN = "docs/examples/whatif/cluster.yaml"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
Obj = dict[str, Any]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, err = run(capsys, "risk", *arguments, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def made(seed: int) -> list[Obj]:
    """Nodes in two zones with pods of three classes; one class more ranks above all, one never preempts.

    Two idle nodes do not count: the Pods do not tolerate the taint of one, and the other one is cordoned.
    """
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
    idle = [make_node(name).has(cpu="64", memory="64Gi", pods="110") for name in ("gpu", "cordoned")]
    items += [idle[0].taint("gpu", "present", "NoSchedule").obj, idle[1].spec(unschedulable=True).obj]
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
        assert [by["class"] for by in risk["mayBePreemptedBy"]] == above[risk["priorityClass"]]
        for by in risk["mayBePreemptedBy"]:
            least, most = by["moreThan"]["milliCpu"], by["upTo"]["milliCpu"]
            asks = make_pod("new").spec(priorityClassName=by["class"])
            prediction = predict(cluster, asks.request(cpu=f"{least}m").priority(by["priority"]).obj)
            assert prediction.outcome in ("fits", "preempts")
            assert all(victim.effective_priority < risk["priority"] for victim in prediction.victims)
            larger = predict(cluster, asks.request(cpu=f"{least + 1}m").obj)
            assert (
                larger.outcome == "pending"
                or max(each.effective_priority for each in larger.victims) >= risk["priority"]
            )
            asks.request(cpu=f"{most}m").spec(nodeSelector={"name": node})
            prediction = predict(cluster, asks.obj)
            assert prediction.outcome == "preempts"
            assert risk["workload"] in {victim.key for victim in prediction.victims}
            asks.request(cpu=f"{most + 1}m")
            assert predict(cluster, asks.obj).outcome == "pending"


def amounts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, items: list[Obj], name: str, *arguments: str
) -> set[int]:
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    found = told(capsys, "--cluster", str(tmp_path / "cluster.json"), "--most", "0", *arguments)
    return {by[name]["milliCpu"] for risk in found["workloads"] for by in risk["mayBePreemptedBy"]}


def pods_of(items: list[Obj]) -> list[Obj]:
    return [item for item in items if item["kind"] == "Pod"]


@pytest.mark.parametrize("key", ["gpu", "node.kubernetes.io/unschedulable"])
def test_free_nodes_count_if_the_workload_may_run_there(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = made(0)
    for pod in pods_of(items):
        pod["spec"]["tolerations"] = [{"key": key, "operator": "Exists"}]
    assert amounts(capsys, tmp_path, items, "moreThan") == {64_000}


ADDED = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["none"]}]}]}


@pytest.mark.parametrize(
    ("profile", "scheduler", "least"),
    [
        ({"plugins": {"filter": {"disabled": [{"name": "NodeUnschedulable"}]}}}, "", {64_000}),
        (
            {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {REQUIRED: ADDED}}}]},
            "",
            {0},
        ),
        ({"plugins": {"filter": {"disabled": [{"name": "NodeUnschedulable"}]}}}, "another", {64_000}),
    ],
    ids=["a disabled plugin", "added affinity", "another scheduler"],
)
def test_the_profile_of_the_workload_counts(
    profile: Obj, scheduler: str, least: set[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = made(0)
    for pod in pods_of(items):
        pod["spec"]["schedulerName"] = scheduler
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "config.yaml").write_text(json.dumps({**config, "profiles": [profile]}))
    options = ("--scheduler-config", str(tmp_path / "config.yaml"))
    assert amounts(capsys, tmp_path, items, "moreThan", *options) == least


def test_pods_on_a_cordoned_node_are_preempted_if_they_tolerate_its_taint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [item for item in made(0) if item["kind"] == "PriorityClass"]
    tolerant = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    pod = make_pod("low").priority(10).request(cpu="1").on("n").spec(tolerations=[tolerant])
    items += [make_node("n").has(cpu="4", memory="8Gi", pods="110").spec(unschedulable=True).obj, pod.obj]
    assert amounts(capsys, tmp_path, items, "upTo") == {4000}
    del pod.obj["spec"]["tolerations"]
    assert amounts(capsys, tmp_path, items, "upTo") == {0}


def test_the_losses_are_those_of_whatif(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--cluster", SHOWN)
    losses = {risk["workload"]: risk["losesReplicasWith"] for risk in found["workloads"]}
    assert losses["shop/web"] == {}
    for what, lost in losses["reports/nightly"].items():
        status, out, _ = run(capsys, "whatif", "lose", *what.split(), "--cluster", SHOWN, "-o", "json")
        (standing,) = (each for each in json.loads(out)["workloads"] if each["workload"] == "reports/nightly")
        assert (status, standing["running"]["before"] - standing["running"]["after"]) == (0, lost)
    assert found["simulated"] == found["total"] == {"zones": 2, "nodes": 4}


def test_replicas_that_pending_pods_preempt_anyway_are_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [
        *(make_node(node).has(cpu="4", memory="8Gi", pods="110").label(ZONE, node).obj for node in ("a", "b")),
        make_pod("low").priority(1).request(cpu="4").on("a").obj,
        make_pod("same").priority(5).request(cpu="4").on("b").obj,
        make_pod("high").priority(5).request(cpu="4").obj,
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": made}))
    found = told(capsys, "--cluster", str(path))
    assert found["withoutLoss"] == {"default/low": 1}
    losses = {risk["workload"]: risk["losesReplicasWith"] for risk in found["workloads"]}
    assert losses["default/low"] == dict.fromkeys(("zone a", "zone b", "node a", "node b"), 1)
    warning = "without any loss, 1 workload loses replicas to Pending Pods, default/low 1; the numbers include these"
    assert found["warnings"] == [warning]
    for arguments in (["--most", "0"], ["--class", "none"]):
        assert "without any loss" not in run(capsys, "risk", "--cluster", str(path), *arguments)[1]
    assert "withoutLoss" not in told(capsys, "--cluster", SHOWN)


def test_only_so_many_losses_are_tried_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--cluster", SHOWN, "--most", "1")["warnings"] == [
        "losses simulated: 1 of 2 zones, 1 of 4 nodes. Fix: --most N"
    ]
    nothing = told(capsys, "--cluster", SHOWN, "--most", "0")
    assert (nothing["status"], nothing["clause"]) == ("WARN", "no loss simulated")


def test_workloads_can_be_chosen_and_a_loss_can_fail_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "risk", "--cluster", SHOWN, "-n", "shop", "--fail-on", "loss")
    assert (status, "reports" in out) == (0, False)
    status, out, err = run(capsys, "risk", "--cluster", SHOWN, "--class", "batch", "--fail-on", "loss")
    assert (status, "shop/web" in out) == (1, False)
    assert err == "forewarn: fails on loss (--fail-on)\n"


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        (["-n", "default"], "no running workload in namespace default"),
        (["-n", "shop", "--class", ""], "no running workload without a class in namespace shop"),
    ],
)
def test_where_no_workload_is_chosen_that_is_said_and_nothing_is_promised(
    chosen: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "risk", "--cluster", SHOWN, *chosen, "--fail-on", "loss")
    assert (status, out, err) == (3, "", f"forewarn risk: {named}\n")


def test_a_name_that_is_spelled_wrong_is_refused_before_any_loss_is_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.policies.questions.whatif.risk.risks", None)
    assert run(capsys, "risk", "--cluster", SHOWN, "-n", "shpo")[0] == 2


def test_a_cluster_without_workloads_risks_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text(cluster_text([make_node("a")]))
    status, out, _ = run(capsys, "risk", "--cluster", str(tmp_path / "empty.yaml"), "-o", "json")
    assert (status, json.loads(out)["workloads"]) == (0, [])


@pytest.mark.parametrize("given", ["-1", "x", "1000000", "1e3"])
def test_a_bound_that_is_none_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "risk", "--cluster", SHOWN, f"--most={given}")
    assert (status, out) == (2, "")
    assert "must be" in err


def replicas(name: str, count: int, nodes: list[str]) -> list[Obj]:
    """A ReplicaSet with its pods, one after the other on these nodes."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": make_pod(name).request(cpu="1").obj["spec"]}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
    pods = [make_pod(f"{name}-{n}").request(cpu="1").labels(app=name).on(nodes[n % len(nodes)]) for n in range(count)]
    owned = [pod.metadata(ownerReferences=[owner]).obj for pod in pods]
    return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}, *owned]


def quota(pods: int) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "pods", "namespace": "default"},
        "spec": {"hard": {"pods": str(pods)}},
        "status": {"hard": {"pods": str(pods)}, "used": {"pods": "5"}},
    }


@pytest.mark.parametrize(
    ("allowed", "lost"), [(5, {}), (4, {"node a": 1, "node b": 1}), (3, {"node a": 2, "node b": 2})]
)
def test_a_quota_that_refuses_replacements_loses_them(
    allowed: int, lost: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quota that was lowered since lets pods be that are there, and refuses those that come for them."""
    nodes = [make_node(name).has(cpu="9", memory="8Gi", pods="110").obj for name in "abc"]
    items = [*nodes, *replicas("web", 5, ["a", "b"]), quota(allowed)]
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    found = told(capsys, "--cluster", str(dump))
    (web,) = found["workloads"]
    assert web["losesReplicasWith"] == web["rejectedByQuota"] == lost
    assert found["status"] == ("HARM" if lost else "OK")
    assert found["rows"][0]["with"] == ("node a, 1 more, by quota" if lost else "")
    for what, count in lost.items():
        answer = json.loads(run(capsys, "whatif", "lose", *what.split(), "--cluster", str(dump), "-o", "json")[1])
        assert answer["rejectedByQuota"] == {"default/web": count}


def test_of_what_is_lost_a_quota_may_refuse_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = [make_node("a").has(cpu="3", memory="8Gi", pods="110"), make_node("b").has(cpu="2", memory="8Gi", pods="9")]
    items = [*(node.obj for node in small), *replicas("web", 5, ["a", "b", "a", "b", "a"]), quota(4)]
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    (web,) = told(capsys, "--cluster", str(dump))["workloads"]
    assert web["losesReplicasWith"] == {"node a": 3, "node b": 2}
    assert web["rejectedByQuota"] == {"node a": 1, "node b": 1}
    out = run(capsys, "risk", "-vv", "--cluster", str(dump))[1]
    assert ["default/web", "node", "a", "3", "1"] in [line.split() for line in out.splitlines()]


def test_a_loss_that_does_not_settle_in_time_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--cluster", SHOWN, "--until", "30s")
    assert set(found["unfinished"]) == {"zone a", "zone b", "node a-1", "node a-2", "node b-1", "node b-2"}
    assert found["unfinished"]["zone a"] == {"stopped": "", "at": 30.0}
    assert told(capsys, "--cluster", SHOWN)["unfinished"] == {}
    (warning,) = found["warnings"]
    which = "zone a, zone b, node a-1, node a-2, node b-1, node b-2"
    assert warning.startswith(f"6 simulations without a steady state after 30 s ({which})")
    assert warning.endswith("Fix: increase the simulated time (until)")


def test_a_loss_that_is_given_up_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.MAX_STEPS", 10)
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.STEPS_EACH", 12)
    status, text, _ = run(capsys, "risk", "--cluster", SHOWN, "-o", "json")
    found = json.loads(text)
    assert status == 3
    assert found["unfinished"]["zone a"]["stopped"] == "after 144 steps"
    assert found["status"] == "NO ANSWER"
    assert "simulations stopped after 144 steps (zone a" in found["warnings"][0]


def test_a_comment_and_a_page_have_a_row_for_each_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "risk", "--cluster", SHOWN, "-o", "markdown")
    rows = [line.replace("\\", "") for line in out.splitlines() if line.startswith("| ")]
    assert rows[1] == "| reports/nightly | batch | 100 | 4 | 4 | zone a, 5 more | - | - | gold |"
    assert rows[-1] == "| reports/nightly | gold | 100,000 | - | more than 0.5 and up to 2 cpu |"
    _, page, err = run(capsys, "risk", "--cluster", SHOWN, "-o", "html")
    assert (err, "zone a, 5 more" in page) == ("", True)
    hostile = make_pod("x\x1b[2J|<b>").priority(1).on("n1").obj
    items = [make_node("n1").obj, make_node("n2").zone("<script>").obj, hostile]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    for form in ("markdown", "html"):
        _, out, _ = run(capsys, "risk", "--cluster", str(tmp_path / "cluster.json"), "-o", form)
        assert "\x1b" not in out
        assert "<b>" not in out
        assert "|<" not in out


def test_a_pod_that_only_full_nodes_endanger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Pod of the class that needs room fits on the other node: not this one is preempted next, but later."""
    objects = [make_node(name).has(cpu="4", memory="8Gi", pods="9") for name in ("n1", "n2")]
    low = make_pod("low").priority(1).request(cpu="1", memory="1Gi").on("n1")
    (tmp_path / "cluster.json").write_text(cluster_text([*objects, low, make_priority_class(9, "high")]))
    found = told(capsys, "--cluster", str(tmp_path / "cluster.json"))
    assert found["counts"]["mayBePreempted"] == 0
    assert found["rows"][0]["preemptedBy"] == "high if full"


def test_what_changed_since_an_earlier_report_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = told(capsys, "--cluster", SHOWN)
    nightly, web = before["workloads"]
    nightly["losesReplicasWith"] = {"zone a": 1, "zone b": 9}
    nightly["mayBePreemptedBy"] = [{"class": "other"}]
    web["priority"] = 5
    before["workloads"].append({"workload": "old/\x1bone", "namespace": "old", "priorityClass": ""})
    (tmp_path / "before.json").write_text(json.dumps(before))
    since = ["risk", "--cluster", SHOWN, "--since", str(tmp_path / "before.json")]
    changes = [[*each.values()] for each in json.loads(run(capsys, *since, "-o", "json")[1])["changes"]]
    for change in (
        ["worse", "reports/nightly", "loses 4 (was 1) with zone a"],
        ["worse", "reports/nightly", "may now be preempted by gold"],
        ["better", "reports/nightly", "loses 4 (was 9) with zone b"],
        ["better", "reports/nightly", "may no longer be preempted by other"],
        ["changed", "shop/web", "priority 100000 (was 5)"],
        ["gone", "old/ one", "no running Pods"],
    ):
        assert change in changes
    assert f"changes {len(changes)}\n" in run(capsys, *since)[1]
    assert "old/" not in run(capsys, *since, "-n", "shop")[1]
    (tmp_path / "before.json").write_text(json.dumps(told(capsys, "--cluster", SHOWN)))
    assert "changes 0\n" in run(capsys, *since)[1]


def test_losses_that_one_report_does_not_simulate_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every, some = tmp_path / "every.json", tmp_path / "some.json"
    every.write_text(json.dumps(told(capsys, "--cluster", SHOWN)))
    some.write_text(json.dumps(told(capsys, "--cluster", SHOWN, "--most", "1")))
    for since, most, where in ((every, "1", "this report"), (some, "100", "the earlier report")):
        changes = told(capsys, "--cluster", SHOWN, "--most", most, "--since", str(since))["changes"]
        assert {each["change"] for each in changes} == {"not evaluated"}
        assert all(each["why"].endswith(f" not simulated in {where}") for each in changes)


@pytest.mark.parametrize("report", ["[]", "{}", '{"workloads": [5]}', "[" * 5000, "x", '{"workloads": {"a": 1}}'])
def test_what_is_no_earlier_report_is_wrong_usage(
    report: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "before.json").write_text(report)
    status, out, err = run(capsys, "risk", "--cluster", SHOWN, "--since", str(tmp_path / "before.json"))
    assert (status, out) == (2, "")
    assert "before.json: not a report" in err


def test_of_equal_priorities_the_largest_share_is_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lost node costs `b` its only Pod, and `a` one of two."""
    items = [make_node(name).has(cpu="2", memory="8Gi", pods="9").obj for name in ("n1", "n2")]
    for workload, nodes in (("a", ("n1", "n2")), ("b", ("n1",))):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "controller": True, "uid": workload}
        labels = {"app": workload}
        template = {"metadata": {"labels": labels}, "spec": make_pod("p").request(cpu="1").obj["spec"]}
        made_of = {"replicas": len(nodes), "selector": {"matchLabels": labels}, "template": template}
        items.append(Made("apps/v1", "ReplicaSet", workload, "default").spec(**made_of).obj)
        items += [
            make_pod(f"{workload}-{node}")
            .request(cpu="1")
            .labels(app=workload)
            .on(node)
            .metadata(ownerReferences=[owner])
            .obj
            for node in nodes
        ]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    rows = told(capsys, "--cluster", str(tmp_path / "cluster.json"))["workloads"]
    assert [row["workload"] for row in rows] == ["default/b", "default/a"]


def test_workloads_that_may_lose_replicas_instead_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Pod with a class preempts one of three equal Pods, of which two are of one workload."""
    large = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
    workloads = [replicas("web", 1, ["a"]), replicas("api", 1, ["b"]), replicas("db", 2, ["c", "d"])]
    for workload, *pods in workloads:
        high = {"priority": 9, "priorityClassName": "high"} if workload["metadata"]["name"] == "web" else {}
        for pod in (workload["spec"]["template"], *pods):
            pod["spec"] |= large | high
    made = [make_priority_class(9, "high"), *(make_node(name).has(cpu="4") for name in "abcd")]
    objects = [*(each.obj for each in made), *(obj for each in workloads for obj in each)]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    found = told(capsys, "--cluster", str(tmp_path / "cluster.json"))["workloads"]
    rivals = {each["workload"]: each["rivals"] for each in found if "rivals" in each}
    assert rivals == {"default/api": {"node a": ["default/db"]}}


def test_a_rival_of_one_loser_is_none_of_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two new Pods with priority 0, one fits; the Pod of `big` fits nowhere."""
    workloads = [replicas("big", 1, ["a"]), replicas("web", 1, ["b"]), replicas("api", 1, ["b"])]
    for workload, *pods in workloads:
        is_big = workload["metadata"]["name"] == "big"
        requests = {"requests": {"cpu": "4" if is_big else "2"}}
        for pod in (workload["spec"]["template"], *pods):
            pod["spec"] |= {"containers": [{"name": "c", "resources": requests}]}
            pod["spec"] |= {"priority": 9, "priorityClassName": "high"} if is_big else {}
    nodes = [*(make_node(name).has(cpu="4").zone("a") for name in "ab"), make_node("c").has(cpu="2").zone("b")]
    objects = [
        make_priority_class(9, "high").obj,
        *(node.obj for node in nodes),
        *(o for each in workloads for o in each),
    ]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    cluster = ("--cluster", str(tmp_path / "cluster.json"))
    rivals = {each["workload"]: each.get("rivals") for each in told(capsys, *cluster)["workloads"]}
    assert rivals["default/big"] is None
    assert rivals["default/api"] or rivals["default/web"]


def test_workloads_whose_replicas_are_in_one_place_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"zonal": ("a-1", "a-2"), "alone": ("b-1", "b-1"), "spread": ("a-1", "b-1"), "single": ("a-1",)}
    items = [make_node(f"{zone}-{n}").has(cpu="4", pods="110").label(ZONE, zone).obj for zone in "ab" for n in (1, 2)]
    for kind, names in {"ReplicaSet": [*where], "DaemonSet": ["agent"]}.items():
        for name in names:
            items.append(Made("apps/v1", kind, name, "default").obj)
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
            for n, node in enumerate(where.get(name, ("a-1", "a-2"))):
                items.append(make_pod(f"{name}-{n}").on(node).metadata(ownerReferences=[owner]).obj)
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text(items))
    found = told(capsys, "--cluster", str(path))
    alone = {risk["workload"]: risk["onlyIn"] for risk in found["workloads"] if "onlyIn" in risk}
    assert alone == {"default/zonal": "zone a", "default/alone": "node b-1", "default/single": "node a-1"}
    assert (found["counts"]["oneReplica"], found["counts"]["allReplicasInOneZone"]) == (1, 2)
    _, out, _ = run(capsys, "risk", "-v", "--cluster", str(path))
    assert "one replica 1" in out
    assert "all replicas in one zone 2 (1 on one node)" in out
    assert "WARN  all replicas in one zone: default/alone, default/zonal\nWARN  one replica: default/single\n" in out
    assert re.search(r"^default/alone +\(no class\) +2  node b-1$", out, re.MULTILINE)
