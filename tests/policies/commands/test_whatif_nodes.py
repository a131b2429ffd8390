"""`forewarn whatif add` and `whatif restart`: new nodes, and DaemonSets under pressure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import forewarn
from forewarn.policies.kubernetes.objects.node import HOSTNAME
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import from_provider
from forewarn.policies.prediction.simulation.scenario import DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.questions import added
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class
from tests.in_process import captured

if TYPE_CHECKING:
    from pathlib import Path

STARVED = "docs/examples/whatif/starved.yaml"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return captured(capsys, "whatif", *arguments)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, cluster: str = STARVED) -> Any:
    status, out, err = run(capsys, *arguments, "--cluster", cluster, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def starved_cluster(agent: int, waiting: int) -> DumpCache:
    """A full node, a DaemonSet of priority `agent`, and two Pending Pods of priority `waiting`."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    daemon = Made("apps/v1", "DaemonSet", "agent", "default").spec(
        selector={"matchLabels": {"app": "agent"}},
        template={"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container], "priority": agent}},
    )
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": True}
    own = make_pod("agent-1").priority(agent).request(cpu="1").labels(app="agent").on("n1")
    made = [make_node("n1").zone("a"), daemon, own.metadata(ownerReferences=[owner])]
    made += [make_pod("big").priority(1000).request(cpu="3").on("n1")]
    made += [make_pod(f"w{n}").priority(waiting).request(cpu="2").status(phase="Pending") for n in range(2)]
    cache = DumpCache()
    for one in made:
        cache.add(one.obj)
    return cache


@pytest.mark.parametrize(("agent", "starved"), [(10, True), (20, True), (30, False)])
def test_a_daemon_set_that_ranks_no_higher_than_its_neighbours_stays_pending(agent: int, starved: bool) -> None:
    cache = starved_cluster(agent, 20)
    question = added(cache.snapshot(), "node", "n1", 1)
    answer = ask(question, world_of(cache, question.arrivals, until=3600.0))
    assert answer.after.new_nodes is not None
    assert [(each.workload, each.ranks_too_low) for each in answer.after.new_nodes.pending_daemon_sets] == (
        [("default/agent", True)] if starved else []
    )
    assert [first.workload for first in answer.after.new_nodes.scheduled][:2] == ["default/w0", "default/w1"]
    assert len(answer.after.preempted) == (0 if starved else 1)


@pytest.mark.parametrize("agent", [10, 30])
def test_an_added_node_is_what_its_manifest_is(agent: int) -> None:
    """The same as `whatif apply` with a Node of the same labels, allocatable resources and name."""
    ends = []
    for manifest in (False, True):
        cache = starved_cluster(agent, 20)
        (arrival,) = added(cache.snapshot(), "node", "n1", 1).arrivals
        if manifest:
            same = make_node("new-1").zone("a").obj
            arrival = arrival._replace(object=same, node=None)
        simulation = Simulation(world_of(cache, [arrival], until=3600.0))
        simulation.run()
        ends.append(simulation.final())
    assert ends[0] == ends[1]


def test_new_nodes_are_ready_empty_and_have_names_of_their_own() -> None:
    cache = DumpCache()
    cordoned = make_node("new-1").label("pool", "x").spec(unschedulable=True)
    cache.add(cordoned.taint("node.kubernetes.io/unschedulable").taint("gpu").obj)
    cache.add(make_node("n2").label("pool", "x").obj)
    question = added(cache.snapshot(), "pool", "pool=x", 3)
    nodes = [arrival.node for arrival in question.arrivals if arrival.node]
    assert [node.name for node in nodes] == list(question.added) == ["new-2", "new-3", "new-4"]
    assert [[taint.key for taint in node.taints] for node in nodes] == [[], ["gpu"], []]
    assert [node.labels["kubernetes.io/hostname"] for node in nodes] == ["new-2", "new-3", "new-4"]
    assert not any(node.unschedulable for node in nodes)


def test_nodes_of_a_group_have_unused_names() -> None:
    cache, group = DumpCache(), from_provider("g", 1, 9, make_node("n").obj)
    cache.add(make_node("new-1").obj)
    question = added(cache.snapshot(), "pool", "g", 2, [group])
    nodes = [arrival.node for arrival in question.arrivals if arrival.node]
    assert [node.name for node in nodes] == list(question.added) == ["new-2", "new-3"]
    assert [dict(node.labels) for node in nodes] == [{HOSTNAME: "new-2"}, {HOSTNAME: "new-3"}]


def test_a_pool_may_be_a_node_group(capsys: pytest.CaptureFixture[str]) -> None:
    groups = ("--node-templates", "docs/examples/whatif/node-groups.yaml")
    answer = asked(
        capsys, "add", "pool", "spot-large", *groups, "--count", "2", cluster="docs/examples/whatif/cluster.yaml"
    )
    assert len(answer["newNodes"]["nodes"]) == 2


def test_a_restarted_daemon_set_loses_its_place_to_pending_pods(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "restart", "ds/agent")
    assert answer["pending"]["byWorkload"] == {"default/agent": 1, "default/web": 3}
    assert answer["pendingDaemonSets"] == [{"workload": "default/agent", "priority": 0, "pods": 1, "ranksTooLow": True}]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("add", "node", "n9"), 'node "n9" not found'),
        (("add", "pool", "x"), "invalid selector"),
        (("add", "zone", "a"), "; known: node, pool"),
        (("restart", "job/x"), "not a workload of a supported kind"),
        (("restart", "deployment/agent"), "not found"),
        (("add", "node", "n1", "--count", "0"), "must be between 1 and"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str) -> None:
    status, _, err = run(capsys, *arguments, "--cluster", STARVED)
    assert status == 2
    assert problem in err


def test_the_daemon_sets_whose_pods_stay_pending_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "add", "node", "n1", "--cluster", STARVED)
    assert status == 0
    assert "default/agent              1  no Pod on a node has a lower priority\n" in out


def pools(agent: int, services: int) -> list[dict[str, Any]]:
    """A cluster of six nodes in two pools and three zones: services fill the pool web and wait for more of it, a
    DaemonSet of priority `agent` runs on every node."""
    made: list[Made] = [
        make_node(f"{pool}-{number}").zone("abc"[number]).label("pool", pool).has(cpu="4", memory="16Gi", pods="110")
        for pool in ("web", "data")
        for number in range(3)
    ]
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}
    spec = {"containers": [container], "priorityClassName": f"class-{agent}"}
    template = {"metadata": {"labels": {"app": "log"}}, "spec": spec}
    made.append(make_priority_class(agent))
    made.append(
        Made("apps/v1", "DaemonSet", "log", "ops").spec(
            selector={"matchLabels": {"app": "log"}},
            template=template,
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        )
    )
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "controller": True}
    for node in [one.obj["metadata"]["name"] for one in made[:6]]:
        pod = make_pod(f"log-{node}", "ops").priority(agent).request(cpu="500m").labels(app="log").on(node)
        made.append(pod.metadata(ownerReferences=[owner]))
    for number in range(33):
        pod = (
            make_pod(f"svc-{number}", "shop").priority(services).request(cpu="500m").spec(nodeSelector={"pool": "web"})
        )
        made.append(pod.on(f"web-{number // 7}") if number < 21 else pod.status(phase="Pending"))
    return [one.obj for one in made]


@pytest.mark.usefixtures("few_runs", "no_fixes")
@pytest.mark.parametrize("agent", [100, 200])
@pytest.mark.parametrize("change", [("add", "pool", "pool=web"), ("restart", "daemonset/log", "-n", "ops")])
def test_pools_with_a_daemon_set_of_equal_or_higher_priority(
    change: tuple[str, ...], agent: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"items": pools(agent, 100)}))
    formats = ("-o", "text", "-o", f"json={tmp_path}/answer.json")
    status, out, _ = run(capsys, *change, "--cluster", str(cluster), *formats)
    assert status == 0
    answer = json.loads((tmp_path / "answer.json").read_text())
    found = answer.get("newNodes", answer).get("pendingDaemonSets", [])
    if agent > 100:
        assert found == []
        assert [each["victim"]["namespace"] for each in answer["preempted"]] != []
        return
    (starved,) = found
    assert (starved["workload"], starved["ranksTooLow"]) == ("ops/log", True)
    assert starved["pods"] == answer["pending"]["byNamespace"]["ops"] > 0
    assert answer["preempted"] == []
    assert re.search(r"^ops/log +100 +\d+ +no Pod on a node has a lower priority$", out, re.MULTILINE)


def needing(tmp_path: Path, *workloads: tuple[str, int, str]) -> Path:
    """A cluster with an empty node of 4 cpus, and workloads (kind, replicas, cpu of a Pod) without Pods."""
    objects: list[Any] = [make_node("n1").obj]
    for number, (kind, replicas, cpu) in enumerate(workloads):
        labels = {"app": f"a{number}"}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": f"a{number}", "namespace": "default"}
        objects.append({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    empty = [
        {"apiVersion": "v1", "kind": f"{kind}List", "items": []} for kind in ("Pod", "ResourceQuota", "LimitRange")
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster_text([*objects, *empty]), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("workloads", "nodes", "pending", "note", "run"),
    [
        ([], 0, 0, "", 0),
        ([("Deployment", 4, "1")], 0, 0, "", 0),
        ([("Deployment", 12, "1")], 2, 0, "", 8),
        ([("Deployment", 2, "64")], 0, 2, "no number of these nodes", 0),
        ([("StatefulSet", 4, "3")], 3, 0, "", 1),
        ([("StatefulSet", 40, "3")], 4, 1, "more nodes may be needed", 1),
        (
            [("Deployment", 5, "1"), ("Deployment", 2, "64")],
            1,
            2,
            "no number of these nodes helps 2 Pending Pods: default/a1: ",
            1,
        ),
    ],
)
def test_as_many_nodes_as_pending_pods_need(
    workloads: list[tuple[str, int, str]], nodes: int, pending: int, note: str, run: int, tmp_path: Path
) -> None:
    cluster = forewarn.load(str(needing(tmp_path, *workloads)))
    result = forewarn.whatif(cluster, forewarn.Add(node="n1", until_scheduled=True))
    assert (result.answer.change.split()[0], result.counters.pending) == (str(nodes), pending)
    now = [counter.value for counter in result.document.shown if counter.name == "run only with new nodes"]
    assert now == ([run] if nodes else [])
    assert any(note in each for each in result.notes) if note else not result.notes


@pytest.mark.parametrize(
    ("workloads", "run"),
    [
        ([("Deployment", 4, "1")], 0),
        ([("StatefulSet", 4, "2")], 1),
        ([("Deployment", 4, "64")], 0),
        ([("Deployment", 8, "1")], 4),
        ([("StatefulSet", 3, "3")], 1),
        ([("Deployment", 12, "1")], 4),
    ],
)
def test_pods_that_run_only_with_an_added_node_are_counted(
    workloads: list[tuple[str, int, str]], run: int, tmp_path: Path
) -> None:
    """Not the Pods on it, which may run without it, too."""
    assert number_that_needs_the_added_node(needing(tmp_path, *workloads)) == run


def test_the_order_of_the_queue_decides_how_many_pods_need_the_added_node(tmp_path: Path) -> None:
    """Without it, either four small Pods run or the large one; with it, all of them but one small Pod."""
    cluster = needing(tmp_path, ("Deployment", 5, "1"), ("Deployment", 2, "64"), ("Deployment", 1, "4"))
    assert number_that_needs_the_added_node(cluster) in (1, 4)


def number_that_needs_the_added_node(cluster: Path) -> int | None:
    shown = forewarn.whatif(forewarn.load(str(cluster)), forewarn.Add(node="n1")).document.shown
    (number,) = (each.value for each in shown if each.name == "run only with new nodes")
    return number


def test_a_pod_that_the_daemon_set_of_a_new_node_preempts_needs_no_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node has room for both, but then not for the DaemonSet Pod, and nothing replaces the Pod that it preempts."""
    big = make_pod("big").priority(100000).request(cpu="2500m")
    small = make_pod("small").priority(100).request(cpu="1200m").spec(preemptionPolicy="Never")
    (tmp_path / "pods.json").write_text(cluster_text([big, small]))
    sources = ("--cluster", "webhook/sample/cluster.yaml", "--cluster", str(tmp_path / "pods.json"))
    status, counters, *_ = run(capsys, "add", "node", "node-c", "--until-scheduled", *sources)[1].splitlines()
    assert status == "HARM  1 node like node node-c added: 1 Pod runs only because of it, 1 Pod preempted"
    assert counters.strip() == "preempted 1 | Pending 0 | lost 0 | run only with new nodes 1"


def test_the_number_of_nodes_until_all_pods_are_scheduled_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.policies.questions.application.changes.MAX_ADDED", 2)
    cluster = forewarn.load(str(needing(tmp_path, ("Deployment", 40, "1"))))
    result = forewarn.whatif(cluster, forewarn.Add(node="n1", until_scheduled=True))
    assert result.answer.change.startswith("2 nodes")
    assert result.notes == ["more nodes may be needed: the limit of the search is reached"]


def test_pods_of_daemon_sets_do_not_count_as_pending_pods_that_now_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {
        "selector": {"matchLabels": {"a": "d"}},
        "template": {"metadata": {"labels": {"a": "d"}}, "spec": {"containers": []}},
    }
    daemons = Made("apps/v1", "DaemonSet", "agent", "default").spec(**spec)
    for pending, run_only in ((3, 3), (0, 0)):
        pods = [make_pod(f"p{number}").request(cpu="2").spec(nodeSelector={"new": ""}) for number in range(pending)]
        node = make_node("n1").has(cpu="4").label("new", "")
        full = make_pod("full").request(cpu="4").on("n1")
        (tmp_path / "cluster.json").write_text(cluster_text([node, full, daemons, *pods]))
        _, out, _ = run(capsys, "add", "node", "n1", "--count", "2", "-v", "--cluster", str(tmp_path / "cluster.json"))
        assert out.startswith("OK  2 nodes like node n1 added: ")
        assert f"preempted 0 | Pending 0 | lost 0 | run only with new nodes {run_only}\n" in out
        assert "default/agent              2  0 s\n" in out


def test_a_group_without_enough_room_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = needing(tmp_path, ("Deployment", 40, "1"))
    template = {"metadata": {}, "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
    (tmp_path / "groups.json").write_text(json.dumps([{"name": "g", "maxSize": 3, "template": template}]))
    groups = ("--node-templates", str(tmp_path / "groups.json"))
    answer = asked(capsys, "add", "pool", "g", "--until-scheduled", *groups, cluster=str(cluster))
    assert len(answer["newNodes"]["nodes"]) == 9
    assert answer["change"] == "9 nodes like group g added (node group g has room for 3 of these nodes)"


def test_further_new_nodes_run_pods_that_stay_pending_with_the_added_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = needing(tmp_path, ("Deployment", 12, "1"), ("Deployment", 2, "64"))
    template = {"metadata": {}, "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
    (tmp_path / "groups.json").write_text(json.dumps([{"name": "g", "maxSize": 3, "template": template}]))
    answer = asked(capsys, "add", "pool", "g", "--node-templates", str(tmp_path / "groups.json"), cluster=str(cluster))
    assert (answer["withNewNodes"]["nodes"], answer["countersWithNewNodes"]["newNodes"]) == ({"g": 1}, 1)
    assert answer["pending"]["byWorkload"]["default/a0"] == 4


def test_a_number_of_nodes_and_until_scheduled_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "add", "node", "n1", "--count", "1", "--until-scheduled", "--cluster", STARVED)
    assert (status, "--count and --until-scheduled are given. Fix: pass one of them" in err) == (2, True)


def test_no_fewer_nodes_would_do_than_until_scheduled_says() -> None:
    """cluster-autoscaler's estimate is 2: it reserves room for the DaemonSet Pod, which kube-scheduler places last."""
    result = forewarn.whatif(forewarn.load(STARVED), forewarn.Add(node="n1", until_scheduled=True))
    assert result.answer.change.startswith("1 node ")
    assert {row.workload: row.pending for row in result.workloads if row.workload == "default/web"} in (
        {},
        {"default/web": 0},
    )
