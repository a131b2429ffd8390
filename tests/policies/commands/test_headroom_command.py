"""`forewarn headroom`: what it counts is what one prediction after the other comes to."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import forewarn
from forewarn.policies.base.documents import to_dict
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.cluster.cache import Cache, head_of
from forewarn.policies.kubernetes.kube_apiserver.quota import check_request
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import Settings
from forewarn.policies.questions.application.headroom import HeadroomResult, ObjectHeadroom
from forewarn.policies.questions.whatif.autoscalers import Autoscaling
from forewarn.policies.questions.whatif.headroom import _NOT_FILLED, Headroom, headroom, quota_room
from forewarn.policies.questions.whatif.node_groups import read_node_groups
from tests.builders import Made, cluster, cluster_text, make_budget, make_node, make_pod
from tests.cases import cases
from tests.in_process import captured
from tests.in_process import forewarn as in_process
from tests.policies.autoscaling.test_discovery import status
from tests.policies.test_new_nodes_arrive import ZONAL, autoscaler, labelled

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from tests.builders import MadePod

SHOWN = ("-f", "docs/examples/headroom/cache.yaml", "--cluster", "docs/examples/whatif/cluster.yaml")
ZONE = "topology.kubernetes.io/zone"
NOT_LOCAL = ("spread over zones", "apart from others", "near others")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return captured(capsys, "headroom", *arguments)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The answer as JSON."""
    return json.loads(run(capsys, *arguments, "-o", "json")[1])


def rows(text: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text.splitlines()]


def test_plugins_after_the_choice_of_a_node_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugins = {"permit": {"enabled": [{"name": "Coscheduling"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    (tmp_path / "scheduler.json").write_text(json.dumps(config))
    found = asked(capsys, *SHOWN, "--scheduler-config", str(tmp_path / "scheduler.json"))
    assert found["warnings"] == ["not predicted whether Pods that fit are bound: third-party plugins (Coscheduling)"]


def made(cpu: int, memory: int, priority: int, how: str, port: bool) -> MadePod:
    """The pod that is asked about."""
    pod = make_pod("new").priority(priority).request(cpu=str(cpu), memory=f"{memory}Gi").labels(app="new")
    selector = {"matchLabels": {"app": "new"}}
    if how == "spread over zones":
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        pod.spec(topologySpreadConstraints=[spread])
    elif how in NOT_LOCAL:
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "old"}}}
        kind = "podAffinity" if how == "near others" else "podAntiAffinity"
        pod.spec(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    if port:
        pod.obj["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return pod


def one_by_one(cluster: ClusterSnapshot, obj: Any, *, preempting: bool) -> int:
    """How many fit until one stays Pending."""
    snapshot, pod, count = cluster.scheduling, admitted(obj, cluster), 0
    while True:
        prediction = Prediction(snapshot, replace(pod, name=f"new-{count}", uid=""), reasons=True)
        if not (prediction.fits or (preempting and prediction.outcome == "preempts")):
            return count
        snapshot, count = prediction.final_snapshot(), count + 1


def test_pending_pods_ahead_in_the_queue_are_noted() -> None:
    state = cluster(
        make_node("n1").has(cpu="8"),
        *(make_pod(f"ahead-{number}").priority(50).request(cpu="8") for number in range(2)),
        make_pod("behind").priority(5),
    )
    found = headroom(state, make_pod("new").priority(10).request(cpu="1").obj)
    note = "2 Pending Pods ahead in the queue may use the capacity first: default/ahead-0, default/ahead-1"
    assert (found.without.pods, list(found.notes)) == (8, [note])


@pytest.mark.parametrize(("nodes", "budget", "price"), [(2, False, (2, 0)), (2, True, (2, 1)), (60, False, None)])
def test_the_price_of_preemption_is_told(nodes: int, budget: bool, price: tuple[int, int] | None) -> None:
    low = make_pod("low").priority(1).labels(app="low").request(cpu="1")
    there = [
        made
        for number in range(nodes)
        for made in (
            make_node(f"n{number}").has(cpu="2"),
            copy.deepcopy(low).metadata(name=f"low-{number}").on(f"n{number}"),
        )
    ]
    pdbs = [make_budget("b", 1, app="low")] if budget else []
    found = headroom(cluster(*there, *pdbs), make_pod("new").priority(10).request(cpu="1").obj)
    assert (found.more, found.preempted) == ((nodes, 2 * nodes), price)


def test_no_price_is_told_if_it_depends_on_which_of_equal_pods_are_preempted() -> None:
    """Two Pods with 1 and 2 cpus, or three Pods with 1 cpu."""
    low = [make_pod(f"low-{n}").priority(1).request(cpu=cpu).on("n") for n, cpu in enumerate(("2", "1", "1", "1"))]
    state = cluster(make_node("n").has(cpu="5"), *low)
    found = headroom(state, make_pod("new").priority(10).request(cpu="3").obj)
    assert (found.preempting.pods, found.preempted) == (1, None)


@settings(max_examples=cases(75), deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8), st.booleans()), min_size=1, max_size=5),
    others=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 10, 20])), max_size=8
    ),
    budget=st.booleans(),
    cpu=st.integers(1, 3),
    memory=st.integers(1, 3),
    priority=st.sampled_from([0, 10, 15, 30]),
    how=st.sampled_from(["", "", "", *NOT_LOCAL]),
    port=st.booleans(),
)
def test_the_count_is_that_of_repeated_prediction(
    nodes: list[tuple[int, int, bool]],
    others: list[tuple[int, int, int, int]],
    budget: bool,
    cpu: int,
    memory: int,
    priority: int,
    how: str,
    port: bool,
) -> None:
    cache = Cache()
    for number, (cpus, size, tainted) in enumerate(nodes):
        node = make_node(f"n{number}").label(ZONE, "ab"[number % 2])
        node.status(allocatable={"cpu": str(cpus), "memory": f"{size}Gi", "pods": "5"})
        cache.add((node.taint("dedicated") if tainted else node).obj)
    for number, (node_number, cpus, size, level) in enumerate(others):
        old = make_pod(f"old-{number}").priority(level).labels(app="old").request(cpu=str(cpus), memory=f"{size}Gi")
        cache.add(old.on(f"n{node_number % len(nodes)}").obj)
    if budget:
        spec = {"selector": {"matchLabels": {"app": "old"}}, "minAvailable": 1}
        meta = {"name": "b", "namespace": "default"}
        cache.add({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})
    cluster, obj = cache.snapshot(), made(cpu, memory, priority, how, port).obj
    found: Headroom = headroom(cluster, obj)
    assert found.without.pods == one_by_one(cluster, obj, preempting=False)
    assert found.preempting.pods == one_by_one(cluster, obj, preempting=True)
    assert found.without.is_exact
    assert sum((found.without.by_node or {}).values()) == found.without.pods
    assert found.without.pods <= found.preempting.pods or how


def test_json_says_what_runs_out(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *SHOWN, "-o", "json")
    answer = json.loads(out)
    (told,) = answer["objects"]
    assert (status, err, answer["status"]) == (0, "", "OK")
    assert answer["counts"] == {"fit": 4, "fitWithPreemption": 8, "podsPreemptedForThem": 4}
    assert (told["withoutPreemption"]["pods"], told["withPreemption"]["pods"]) == (4, 8)
    assert told["reasons"] == {"Insufficient cpu": 4}
    assert told["stranded"] == [{"insufficient": ["cpu"], "nodes": 4, "milliCpu": 0, "memory": 40 * 2**30}]
    assert [(each["class"], each["pods"]) for each in told["byClass"]] == [("batch", 4), ("gold", 8)]


def test_a_workload_of_the_cluster_needs_no_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "deployment/web", "-n", "shop", *SHOWN[2:])
    assert [each["object"] for each in found["objects"]] == ["Deployment shop/web"]
    assert run(capsys, "deployment/web", *SHOWN)[0] == 2


@pytest.mark.parametrize(("stored", "command"), [(True, "whatif scale"), (False, "whatif apply -f FILE")])
def test_the_command_that_counts_preempted_pods_exists_for_the_object(stored: bool, command: str) -> None:
    room = forewarn.headroom(forewarn.load(SHOWN[-1]), SHOWN[1]).objects[0].headroom
    room = room._replace(preempted=None, preempting=room.preempting._replace(pods=room.without.pods + 1, quota=None))
    result = HeadroomResult(head_of(cluster()), cluster(), [ObjectHeadroom(room)], is_stored=stored)
    assert f"Fix: run forewarn {command}, or predict" in "".join(result.document.warnings)


def test_without_an_object_each_pool_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, *SHOWN[2:])
    (pool,) = found["pools"]
    assert (found["status"], found["clause"]) == ("OK", "88 % of cpu and 0 % of memory requested")
    assert (pool["pool"], pool["nodes"], pool["pods"]) == ("web", 4, 8)
    assert (found["rows"][0]["freeCpu"], found["rows"][0]["mostOnANode"]) == ("2", "0.5 or 16Gi")
    assert run(capsys, *SHOWN[2:], "--at-least", "1")[0] == 2


@pytest.mark.parametrize(
    ("allocatable", "scarce", "free"),
    [
        ({"cpu": "9", "ephemeral_storage": "1Gi"}, ["ephemeral-storage"], "1  6         2Gi"),
        ({"cpu": "3", "ephemeral_storage": "1Gi"}, ["cpu", "ephemeral-storage"], "1  2Gi"),
        ({"cpu": "9", "example.com/gpu": "1"}, ["example.com/gpu"], "1  6         2Gi"),
        ({"cpu": "9", "memory": "2Gi", "pods": "1"}, ["pods", "memory"], "1  6         0Gi"),
        ({"cpu": "3", "memory": "2Gi"}, ["cpu", "memory"], "1"),
    ],
)
def test_stranded_capacity_is_beside_what_the_scheduler_lacks(
    allocatable: dict[str, str], scarce: list[str], free: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of `fitsRequest`: one Pod fits, the next one does not."""
    node = make_node("n1").has(**{"memory": "4Gi", "ephemeral_storage": "9Gi", "example.com/gpu": "9", **allocatable})
    new = make_pod("new").request(cpu="3", memory="2Gi", ephemeral_storage="1Gi", **{"example.com/gpu": "1"})
    (tmp_path / "cluster.json").write_text(cluster_text([node.obj]))
    (tmp_path / "new.json").write_text(json.dumps(new.obj))
    words = ("-f", str(tmp_path / "new.json"), "--cluster", str(tmp_path / "cluster.json"))
    (told,) = asked(capsys, *words)["objects"]
    assert told["withoutPreemption"]["pods"] == 1
    assert [each["insufficient"] for each in told["stranded"]] == [scarce]
    lines = run(capsys, *words)[1].splitlines()
    assert lines[[line.startswith("NODES WITH") for line in lines].index(True) + 1].endswith(f"  {free}")


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ({"cpu": "500m", "memory": "6Gi"}, "; 0.5 cpu, 6Gi memory"),
        ({"cpu": "1"}, "priority 0; 1 cpu"),
        ({"memory": "1Gi"}, "priority 0; 1Gi memory"),
        ({"cpu": "1" + "0" * 400}, "priority 0; 9223372036854775 cpu"),
        ({"cpu": "999999500m"}, "priority 0; 999999 cpu"),
        ({"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "4"}, "4 cpu, 16Gi memory, 4 nvidia.com/gpu"),
        (
            {"cpu": "1"} | dict.fromkeys(("a/a", "a/b", "a/c", "a/d"), "2"),
            "1 cpu, 2 a/a, 2 a/b and 2 more",
        ),
        ({f"{'a' * 60}/b": "2"}, f"priority 0; 2 {'a' * 39}…"),
        ({}, "priority 0; no cpu or memory request"),
    ],
)
@pytest.mark.parametrize("output", ["text", "html"])
def test_what_each_asks_for_is_told_and_nothing_else(
    output: str, requests: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("one").request(**requests).obj))
    arguments = "-f", str(tmp_path / "pod.json"), "--cluster", "docs/examples/whatif/cluster.yaml", "-o", output
    out = run(capsys, *arguments)[1]
    assert said in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((*SHOWN, "--at-least", "4"), 0, ""),
        (
            (*SHOWN, "--at-least", "5"),
            1,
            "forewarn: Deployment shop/cache: 4 of 5 Pods fit without preemption (--at-least)\n",
        ),
        ((*SHOWN, "--at-least", "9", "--preempting"), 1, "8 of 9 Pods fit with preemption (--at-least)\n"),
        ((*SHOWN, "--at-least", "8", "--preempting"), 0, ""),
        ((*SHOWN, "--at-least", "-1"), 2, "must be between 0 and"),
        ((*SHOWN, "--preempting"), 2, "--preempting goes with --at-least"),
        (SHOWN[:2], 3, "no kubeconfig found"),
        (
            ("-f", "docs/examples/whatif/cluster.yaml", "--cluster", "docs/examples/whatif/cluster.yaml"),
            3,
            "the Pod names its node",
        ),
        ((*SHOWN, "-o", "markdown"), 0, ""),
        (("-f", "docs/guides/audit.md", "--cluster", "docs/examples/whatif/cluster.yaml"), 3, ""),
    ],
)
def test_exit_status(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, said: str) -> None:
    found, _, err = run(capsys, *arguments)
    assert found == status
    assert said in err
    assert "internal error" not in err


def test_what_is_placed_one_after_the_other_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.questions.whatif.headroom.MAX_SEQUENTIAL", 3)
    monkeypatch.setattr("forewarn.policies.questions.whatif.headroom.capacity_for", lambda *_, **__: None)
    cache = Cache()
    cache.add(make_node("n1").obj)
    found = headroom(cache.snapshot(), make_pod("new").request(cpu="100m").obj)
    assert found.without == (3, False, {"n1": 3}, None)
    assert found.reasons == []


def test_a_quota_hides_neither_a_lower_bound_nor_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of Pods that nodes take is a lower bound, although the quota admits fewer."""
    monkeypatch.setattr("forewarn.policies.questions.whatif.headroom.MAX_SEQUENTIAL", 3)
    monkeypatch.setattr("forewarn.policies.questions.whatif.headroom.capacity_for", lambda *_, **__: None)
    state = cluster(quota_of({"pods": "2"}, {"pods": "0"}), class_of("gold", 9), make_node("n1"))
    found = headroom(state, make_pod("new").request(cpu="100m").obj)
    document = HeadroomResult(head_of(state), state, [ObjectHeadroom(found)]).document
    assert document.clause == "2 more Pods fit, as many as quota team admits"
    assert (document.why, document.warnings) == (None, [_NOT_FILLED])
    assert [row[2:] for row in document.tables[0].rows] == [[2, "3 or more", 2, "yes"]]
    of_class = to_dict(found.by_class[0])
    assert (of_class["nodes"], of_class["nodesAtLeast"], of_class["atLeast"]) == (3, True, False)


def test_a_class_above_that_of_the_workload_is_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of the workload that runs would have the class, too: they are no victims, and chance decides nothing."""
    monkeypatch.setattr("forewarn.policies.questions.whatif.headroom._one_by_one", NotImplemented)
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "topologySpreadConstraints": [spread],
    }
    web = Made("apps/v1", "Deployment", "web", "default")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**spec, "priorityClassName": "silver"}}
    web.spec(selector={"matchLabels": {"app": "web"}}, template=template)
    nodes = [make_node(zone).label(ZONE, zone).has(cpu="4", memory="8Gi", pods="9") for zone in "ab"]
    pods = [
        make_pod(name).on(node).priority(value).request(cpu="1").labels(app=app)
        for name, node, value, app in [("web-a", "a", 10, "web"), ("low-a", "a", 1, "low"), ("low-b", "b", 1, "low")]
    ]
    found = headroom(cluster(*nodes, *pods, class_of("silver", 10), class_of("gold", 1000), web), web.obj)
    assert [(each.class_, *each.fitting[:2]) for each in found.by_class] == [("silver", 7, True), ("gold", 7, True)]


def test_a_daemon_set_has_none(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec}
    (tmp_path / "d.json").write_text(json.dumps(daemons))
    status, _, err = run(capsys, "-f", str(tmp_path / "d.json"), "--cluster", "docs/examples/whatif/cluster.yaml")
    assert status == 3
    assert "does not scale" in err


def test_the_first_line_has_a_few_short_reasons(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = [make_node("n1").has(cpu="1"), make_node("n2").has(cpu="1"), make_node("n3").taint("gpu")]
    (tmp_path / "cluster.json").write_text(cluster_text(nodes))
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("new").priority(0).request(cpu="2").obj))
    found = asked(capsys, "-f", str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "cluster.json"))
    assert (found["status"], found["clause"]) == ("PENDING", "no more Pods fit")
    reasons = [[each["number"], each["reason"]] for each in found["why"]["causes"]]
    assert reasons == [[2, "insufficient cpu"], [1, "untolerated taint"]]


def test_the_first_line_names_rejected_objects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text(json.dumps(make_pod("new").of_class("none").obj))
    files = ("-f", "docs/examples/headroom/cache.yaml", "-f", str(tmp_path / "new.json"))
    status, out, _ = run(capsys, *files, "--cluster", "docs/examples/whatif/cluster.yaml", "-o", "json")
    found = json.loads(out)
    assert (status, found["status"], found["notCounted"]) == (3, "REJECTED", ["Pod default/new"])
    assert found["warnings"] == ["rejected: Pod default/new (no PriorityClass with name none was found)"]


@pytest.mark.parametrize("pods", [300_000, 2_000_000_000, 2**62])
def test_a_node_that_claims_to_hold_any_number_of_pods_costs_no_more(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pods: int
) -> None:
    boundless = make_node("boundless").has(cpu="4", memory="4Gi", pods=str(pods)).obj
    cluster, new = tmp_path / "cluster.json", tmp_path / "new.json"
    cluster.write_text(cluster_text([boundless]))
    new.write_text(json.dumps(make_pod("new").obj))
    found = asked(capsys, "-f", str(new), "--cluster", str(cluster))
    assert found["counts"]["fit"] == min(pods, 2**31)
    assert found["warnings"] == ["too many fit to determine what runs out first"]


def test_a_pod_whose_claims_will_be_made_with_it_is_counted_without_them() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    pod = make_pod("new").request(cpu="1").spec(volumes=[scratch])
    cache = Cache()
    cache.add(make_node("a").obj)
    found = headroom(cache.snapshot(), pod.obj)
    assert found.without.pods == 4
    assert found.notes == ["volumes of claims that are created with the Pods are ignored"]


def of_group(found: Headroom) -> tuple[int, bool, str]:
    """(pods, whole, why not) of the only group."""
    (group,) = found.node_groups or ()
    return group.more.pods, group.more.is_exact, group.reason


def one_group(
    most: int | None, cpu: int, pods: int = 110, taint: str = "", labels: dict[str, str] | None = None
) -> tuple[NodeGroup, ...]:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    capacity = {"cpu": str(cpu), "memory": "8Gi", "pods": str(pods)}
    template = {"metadata": {"labels": labels or {}}, "spec": {"taints": taints}, "status": {"capacity": capacity}}
    entry = {"name": "g", "template": template, **({} if most is None else {"maxSize": most})}
    return read_node_groups(json.dumps([entry]), "g.yaml")


@settings(max_examples=cases(30), deadline=None)
@given(
    nodes=st.integers(1, 3),
    most=st.integers(1, 4),
    group_cpu=st.integers(1, 6),
    zone=st.sampled_from("abc"),
    cpu=st.integers(1, 3),
    how=st.sampled_from(["", "", NOT_LOCAL[0]]),
    port=st.booleans(),
    daemon=st.booleans(),
)
def test_what_a_group_brings_is_what_fits_when_its_nodes_are_there(
    nodes: int, most: int, group_cpu: int, zone: str, cpu: int, how: str, port: bool, daemon: bool
) -> None:
    cache = Cache()
    for number in range(nodes):
        cache.add(make_node(f"n{number}").label(ZONE, "ab"[number % 2]).has(cpu="4", memory="8Gi", pods="9").obj)
    if daemon:
        requests = {"containers": [{"name": "d", "resources": {"requests": {"cpu": "1"}}}]}
        template = {"metadata": {"labels": {"app": "d"}}, "spec": {**requests, "nodeSelector": {"new": "yes"}}}
        spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
        cache.add({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec})
    obj = made(cpu, 1, 0, how, port).obj
    before = headroom(
        cache.snapshot(), obj, Autoscaling(groups=one_group(most, group_cpu, labels={"new": "yes", ZONE: zone}))
    )
    snapshot, pod = cache.snapshot().scheduling, admitted(obj, cache.snapshot())
    for number in range(before.without.pods):
        prediction = Prediction(snapshot, replace(pod, name=f"one-{number}", uid=""))
        snapshot = prediction.final_snapshot()
        cache.add(made(cpu, 1, 0, how, port).on(prediction.node).metadata(name=f"one-{number}").obj)
    for number in range(most):
        new = make_node(f"new-{number}").label(ZONE, zone).label("new", "yes")
        cache.add(new.has(cpu=str(group_cpu), memory="8Gi", pods="110").obj)
        if daemon:
            cache.add(make_pod(f"d-{number}").request(cpu="1").on(f"new-{number}").obj)
    more, whole, why = of_group(before)
    assert whole
    assert (0 if why else more) == headroom(cache.snapshot(), obj).without.pods


@pytest.mark.parametrize(
    ("groups", "nodes", "more", "limit"),
    [
        (one_group(10, 4), "10", 20, ""),
        (one_group(1, 4), "1", 2, ""),
        (one_group(None, 4), "1,000", 2000, "limit of one scale-up"),
        (one_group(0, 4), "-", 0, "max node group size reached"),
        (one_group(3, 4, taint="gpu"), "-", 0, "node(s) had untolerated taint(s)"),
        (one_group(3, 1), "-", 0, "Insufficient cpu"),
    ],
)
def test_a_group_has_a_row_of_its_own(
    groups: tuple[NodeGroup, ...],
    nodes: str,
    more: int,
    limit: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("forewarn.policies.questions.whatif.node_groups.load_node_groups", lambda _: groups)
    cluster, new = tmp_path / "cluster.json", tmp_path / "new.json"
    cluster.write_text(cluster_text([make_node("n1").has(cpu="4", memory="8Gi", pods="110").obj]))
    new.write_text(json.dumps(make_pod("new").request(cpu="2").obj))
    words = ("-f", str(new), "--cluster", str(cluster), "--node-templates", str(new))
    row = ["g", *([nodes] if nodes != "-" else []), *([f"{more:,}"] if more else []), *limit.split()]
    assert row in [[word for word in line if word != "-"] for line in rows(run(capsys, *words)[1])]
    (told,) = asked(capsys, *words)["objects"][0]["nodeGroups"]
    assert (told["pods"], bool(told.get("reason"))) == (more, not more)


@settings(max_examples=cases(30), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3), min_size=2, max_size=3),
    cpu=st.integers(1, 5),
    how=st.sampled_from(["", NOT_LOCAL[0]]),
    total=st.sampled_from([0, 5]),
)
def test_what_groups_bring_together_is_what_fits_when_all_their_nodes_are_there(
    sizes: list[int], cpu: int, how: str, total: int
) -> None:
    cache = Cache()
    for number in range(2):
        cache.add(make_node(f"n{number}").label(ZONE, "ab"[number]).has(cpu="4", memory="8Gi", pods="9").obj)
    named = zip("abb", sizes, strict=False)
    groups = [group for zone, size in named for group in one_group(size, 4, labels={ZONE: zone})]
    groups = [group._replace(name=str(n), node=replace(group.node, name=f"t{n}")) for n, group in enumerate(groups)]
    obj, limits = made(cpu, 1, 0, how, False).obj, Settings(max_nodes_total=total)
    before = headroom(cache.snapshot(), obj, Autoscaling(groups=groups, settings=limits))
    snapshot, pod = cache.snapshot().scheduling, admitted(obj, cache.snapshot())
    for number in range(before.without.pods):
        prediction = Prediction(snapshot, replace(pod, name=f"one-{number}", uid=""))
        snapshot = prediction.final_snapshot()
        cache.add(made(cpu, 1, 0, how, False).on(prediction.node).metadata(name=f"one-{number}").obj)
    left = total - 2 if total else 9
    for n, (zone, size) in enumerate(zip("abb", sizes, strict=False)):
        for number in range(min(size, left)):
            new = make_node(f"new-{n}-{number}").label(ZONE, zone)
            cache.add(new.has(cpu="4", memory="8Gi", pods="110").obj)
        left -= min(size, left)
    found, more = before.all_node_groups, headroom(cache.snapshot(), obj).without.pods
    if found is None:
        assert sum(map(bool, sizes)) < 2 or cpu > 4 or not more
    else:
        assert found.more.pods == more
        assert found.more.is_exact or how


@pytest.mark.parametrize(
    ("more", "noted"),
    [(["--cores-total=0:64"], "the limits --cores-total and --memory-total are not modelled"), ([], "")],
)
def test_limits_of_cluster_autoscaler_that_do_not_count_are_named(
    more: list[str], noted: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    objects = (status(("a", 2, 0, 9), ("b", 2, 0, 9)), *map(autoscaler, more))
    words = ("-f", "docs/examples/headroom/cache.yaml", "--cluster", labelled(tmp_path, ZONAL, *objects))
    assert asked(capsys, *words)["warnings"] == [noted] * bool(noted)


@pytest.mark.parametrize(("more", "is_noted"), [([], True), (["--no-autoscaler"], False)])
def test_new_nodes_of_karpenter_are_not_counted(
    more: list[str], is_noted: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("new").request(cpu="1").obj))
    words = ("-f", str(tmp_path / "pod.json"), "--cluster", "docs/examples/karpenter/cluster.yaml", *more)
    assert ("new nodes of Karpenter are not counted" in asked(capsys, *words)["warnings"]) is is_noted


def test_all_groups_together_are_told_after_each_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A constraint across zones lets no group alone help much."""
    cluster = labelled(tmp_path, ZONAL, status(("a", 2, 0, 9), ("b", 2, 0, 9)))
    obj = yaml.safe_load(Path("docs/examples/headroom/cache.yaml").read_text())
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    labels = obj["spec"]["template"]["metadata"]["labels"]
    obj["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {**constraint, "labelSelector": {"matchLabels": labels}}
    ]
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(obj))
    words = ("-f", str(tmp_path / "new.yaml"), "--cluster", cluster)
    out = run(capsys, *words, "--placeholders", "20", "-v")[1]
    assert "fit on new nodes 28 (all groups)" in out
    assert "FOR THE OTHER 16 PLACEHOLDER PODS\n" in out
    assert [line for line in rows(out) if line[:2] in (["a", "7"], ["all", "together"])] == [
        ["a", "7", "1"],
        ["all", "together", "14", "28"],
        ["all", "together", "14", "28"],
    ]
    assert asked(capsys, *words)["objects"][0]["allNodeGroups"]["pods"] == 28


def test_without_groups_nothing_is_said_of_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert "GROUP" not in run(capsys, *SHOWN)[1]
    assert "nodeGroups" not in run(capsys, *SHOWN, "-o", "json")[1]


def test_a_pod_below_the_cutoff_is_brought_no_node() -> None:
    cache = Cache()
    cache.add(make_node("a").obj)
    found = headroom(cache.snapshot(), make_pod("new").priority(-20).obj, Autoscaling(groups=one_group(1, 4)))
    assert found.node_groups is not None
    assert [(group.more.pods, group.reason) for group in found.node_groups] == [(0, "priority below cutoff -10")]


def test_a_template_that_claims_to_hold_any_number_of_pods_costs_no_more() -> None:
    cache = Cache()
    cache.add(make_node("a").has(cpu="1", memory="1Gi", pods="1").obj)
    boundless = one_group(None, 4, pods=2**31 - 1)
    assert of_group(headroom(cache.snapshot(), make_pod("new").obj, Autoscaling(groups=boundless)))[:2] == (
        2_000_000,
        False,
    )


def test_too_many_groups_to_work_out_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.questions.whatif.headroom.MAX_WORK", 1000)
    cache = Cache()
    cache.add(make_node("a").obj)
    found = headroom(cache.snapshot(), make_pod("new").request(cpu="1m").obj, Autoscaling(groups=one_group(3, 4) * 500))
    assert len(found.node_groups or ()) == 500
    assert (found.node_groups or ())[-1].reason == "estimate limit reached"


def quota_of(hard: dict[str, str], used: dict[str, str], namespace: str = "default", **spec: Any) -> Made:
    return Made("v1", "ResourceQuota", "team", namespace).spec(hard=hard, **spec).status(hard=hard, used=used)


def class_of(name: str, value: int) -> Made:
    made_class = Made("scheduling.k8s.io/v1", "PriorityClass", name)
    made_class.obj["value"] = value
    return made_class


GOLD = {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}


@pytest.mark.parametrize(
    ("quota", "admitted_pods", "message"),
    [
        (quota_of({"pods": "5"}, {"pods": "5"}), 0, "exceeded quota: team, requested: pods=1"),
        (quota_of({"pods": "8"}, {"pods": "5"}), 3, "exceeded quota: team, requested: pods=1"),
        (quota_of({"requests.cpu": "2"}, {"requests.cpu": "500m"}), 1, "requested: requests.cpu=1"),
        (quota_of({"limits.cpu": "9"}, {"limits.cpu": "0"}), 0, "must specify limits.cpu"),
        (quota_of({"pods": "0"}, {"pods": "0"}, scopeSelector={"matchExpressions": [GOLD]}), 0, "exceeded quota"),
        (quota_of({"pods": "0"}, {"pods": "0"}, scopes=["BestEffort"]), None, ""),
        (quota_of({"count/secrets": "0"}, {"count/secrets": "0"}), None, ""),
    ],
    ids=["used up", "three left", "cpu", "no limits", "its class", "another scope", "other objects"],
)
def test_the_smaller_of_nodes_and_quota_counts(quota: Made, admitted_pods: int | None, message: str) -> None:
    node, pod = make_node("n1"), make_pod("new").request(cpu="1")
    pod.spec(priorityClassName="gold")
    found = headroom(cluster(node, quota, class_of("gold", 1000), class_of("silver", 10)), pod.obj)
    assert found.without.pods == 4
    assert found.more == ((4, 4) if admitted_pods is None else (admitted_pods, admitted_pods))
    assert (found.quota and found.quota.pods) == admitted_pods
    assert message in (found.quota.message if found.quota else "")
    assert [(each.class_, each.fitting.quota_) for each in found.by_class] == [
        ("silver", None if "scopeSelector" in quota.obj["spec"] else admitted_pods),
        ("gold", admitted_pods),
    ]


def test_limit_ranges_add_to_the_quota_of_each_pod() -> None:
    limits = Made("v1", "LimitRange", "defaults", "default")
    limits.spec(limits=[{"type": "Container", "defaultRequest": {"cpu": "500m"}}])
    quota = quota_of({"requests.cpu": "2"}, {"requests.cpu": "0"})
    pod = make_pod("new").obj
    pod["spec"]["containers"] = [{"name": "c"}]
    del pod["metadata"]["uid"]  # a new Pod
    found = headroom(cluster(make_node("n1"), limits, quota), pod)
    assert found.more == (4, 4)


@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["pods", "requests.cpu", "count/pods"]))
def test_the_quota_admits_as_many_pods_as_its_admission_plugin(hard: int, used: int, resource: str) -> None:
    state = cluster(quota_of({resource: str(hard)}, {resource: str(used)}), make_node("n1"))
    pod, quotas = make_pod("new").request(cpu="500m").obj, tuple(state.quotas_of("default"))
    room = quota_room(state, pod, "default", "")
    assert room is not None
    for _ in range(room.pods):
        check = check_request(pod, quotas)
        assert not check.faults
        quotas = check.quotas
    assert check_request(pod, quotas).faults


def test_a_used_up_quota_fails_at_least_and_all_formats_show_both_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "quota.json").write_text(json.dumps(quota_of({"pods": "4"}, {"pods": "4"}, "shop").obj))
    given_quota = (*SHOWN, "--cluster", str(tmp_path / "quota.json"))
    status, out, err = run(capsys, *given_quota, "--at-least", "1", "-o", "json")
    found = json.loads(out)
    assert (status, found["status"], found["clause"]) == (1, "PENDING", "no more Pods fit: quota team admits none")
    assert found["warnings"][0].startswith("quota team admits only 0 more Pods: exceeded quota team: 4 + 1 of 4 pods")
    assert (found["rows"][-1]["nodesAdmit"], found["rows"][-1]["quotaAdmits"]) == (8, 0)
    assert "0 of 1 Pods fit without preemption (--at-least)" in err
    (written,) = found["objects"]
    assert {key: written["withPreemption"][key] for key in ("pods", "nodes", "quota")} == {
        "pods": 0,
        "nodes": 8,
        "quota": 0,
    }


@pytest.mark.parametrize(("hard", "left"), [(4, 0), (6, 2), (50, 10)])
def test_a_quota_counts_for_node_groups_after_the_pods_that_fit_now(hard: int, left: int) -> None:
    state = cluster(make_node("n1"), quota_of({"pods": str(hard)}, {"pods": "0"}))
    found = headroom(state, make_pod("new").request(cpu="1").obj, Autoscaling(groups=one_group(5, 2)))
    (group,) = found.node_groups or ()
    assert (found.without.pods, group.more.pods) == (4, 10)
    document = to_dict(group)
    assert (document["pods"], document["podsWithoutQuota"], document["quota"]) == (left, 10, hard - 4)


@pytest.mark.parametrize(
    ("state", "more", "limits"),
    [
        ("NoActivity", [], {"a": (14, ""), "b": (0, "max node group size reached")}),
        ("Backoff", [], dict.fromkeys("ab", (0, "in backoff after failed scale-up"))),
        ("NoActivity", ["--no-autoscaler"], {}),
    ],
)
def test_the_node_groups_of_the_cluster(
    state: str, more: list[str], limits: dict[str, tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = labelled(tmp_path, ZONAL, status(("a", 2, 0, 9), ("b", 2, 0, 2), state=state))
    found = asked(capsys, "-f", "docs/examples/headroom/cache.yaml", "--cluster", cluster, *more)["objects"][0]
    groups = {each["group"]: (each["pods"], each.get("reason", "")) for each in found.get("nodeGroups", ())}
    assert groups == limits


def test_programs_get_the_node_groups_of_the_cluster_too(tmp_path: Path) -> None:
    loaded = forewarn.load(labelled(tmp_path, ZONAL, status(("a", 2, 0, 9))))
    (result,) = forewarn.headroom(loaded, "docs/examples/headroom/cache.yaml").objects
    assert [(group.group, group.nodes, group.more.pods) for group in result.headroom.node_groups or ()] == [
        ("a", 7, 14)
    ]


def test_without_an_object_quotas_and_cordoned_nodes_are_shown(tmp_path: Path) -> None:
    made: list[Made] = [make_node(name).has(cpu="4", pods="9").spec(unschedulable=name == "a") for name in "ab"]
    for name, used in (("full", "1900m"), ("free", "200m")):
        quota, hard = Made("v1", "ResourceQuota", name, "shop"), {"requests.cpu": "2"}
        made.append(quota.spec(hard=hard).status(hard=hard, used={"requests.cpu": used}))
    (tmp_path / "cluster.json").write_text(cluster_text([each.obj for each in made]))
    capacity = json.loads(in_process("headroom", "--cluster", tmp_path / "cluster.json", "-o", "json").stdout)
    assert [(each["quota"], each["used"], each["hard"], each["percent"]) for each in capacity["quotas"]] == [
        ("full", "1900m", "2", 95),
        ("free", "200m", "2", 10),
    ]
    assert (capacity["status"], capacity["counts"]["quotasNearlyFull"]) == ("WARN", 1)
    text = in_process("headroom", "--cluster", tmp_path / "cluster.json").stdout
    assert re.search(r"^shop/full +requests.cpu +1.9 +2 +95$", text, re.MULTILINE)
    assert "; 1 node cordoned: a" in text


def test_pending_placeholder_pods_are_counted_apart(tmp_path: Path) -> None:
    reserve = make_pod("reserve").priority(-5)
    reserve.container["image"] = "registry.k8s.io/pause:3.10"
    (tmp_path / "c.json").write_text(cluster_text([make_node("n1").has(cpu="4"), reserve, make_pod("web")]))
    shown = in_process("headroom", "--cluster", tmp_path / "c.json").stdout
    assert "Pods Pending now 1 | placeholders Pending 1\n" in shown
