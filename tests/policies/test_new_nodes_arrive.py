"""Nodes arrive in simulations: `whatif lose` with node groups."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import forewarn
from forewarn.policies.cli.main import main
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.whatif import arrivals, autoscalers, questions
from forewarn.policies.questions.whatif.arrivals import Worst
from forewarn.policies.questions.whatif.comparison import count_by_workload
from forewarn.policies.questions.whatif.new_nodes import namer
from tests.builders import Made, cluster_text, make_node, make_pod
from tests.cases import cases
from tests.policies.autoscaling.test_discovery import status
from tests.policies.commands.test_whatif_command import random_cluster
from tests.policies.test_karpenter_nodes_arrive import instance_type, node_pool, stateful_set

if TYPE_CHECKING:
    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("few_runs", "no_fixes")

CLUSTER = "docs/examples/whatif/cluster.yaml"
GROUPS = ("--node-templates", "docs/examples/whatif/node-groups.yaml")


def lost(capsys: Capture, *more: str, cluster: str = CLUSTER, zone: str = "a") -> Any:
    assert main(["whatif", "lose", "zone", zone, "--cluster", cluster, "-o", "json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_lost_replicas_run_again_on_new_nodes(capsys: Capture) -> None:
    answer = lost(capsys, *GROUPS)
    assert answer["running"] == {"before": 8, "after": 4}
    arrived = answer["withNewNodes"]
    assert arrived["nodes"] == {"spot-large": 2}
    assert (arrived["running"], arrived["pending"]) == (8, 0)
    assert (arrived["lost"], arrived["worst"]["running"]) == (0, 2)
    (back,) = arrived["workloads"]
    assert (back["workload"], back["before"], back["worst"], back["after"]) == ("reports/nightly", 4, 0, 4)
    assert back["withoutNewNodes"] == 0
    assert back["at"] > arrived["firstNodeAt"] - 1 > 180


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_text_has_a_workload_before_at_worst_and_with_new_nodes(form: str, capsys: Capture) -> None:
    assert main(["whatif", "lose", "zone", "a", "--cluster", CLUSTER, *GROUPS, "-v", "-o", form]) == 0
    text = capsys.readouterr().out
    clause = "2 Pods preempted at once; 2 new nodes after 4 min 15 s leave no Pod Pending"
    assert f"HARM: zone a lost (2 of 4 nodes): {clause}" in text.replace("HARM  ", "HARM: ")
    rows = [line.replace("|", " ").split() for line in text.splitlines()]
    assert any(row[:2] == ["reports/nightly", "4"] and row[-5:] == ["after", "4", "min", "15", "s"] for row in rows)


def test_text_names_what_no_node_helps_and_why(capsys: Capture, tmp_path: Path) -> None:
    low = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "low", "namespace": "reports"}}
    low["spec"] = {"priority": -99, "containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
    main(["whatif", "lose", "zone", "a", "--cluster", labelled(tmp_path, ZONAL, low), *GROUPS, "-v"])
    text = capsys.readouterr().out
    assert any(line.split()[:1] == ["reports/low"] for line in text.partition("WITH NEW NODES")[2].splitlines())
    assert "\npriority below cutoff -10     1" in text.partition("NO NEW NODE BECAUSE")[2]


@pytest.mark.parametrize("seed", range(cases(6)))
def test_the_worst_moment_has_the_lowest_numbers_at_any_time(seed: int) -> None:
    cache = DumpCache()
    for obj in random_cluster(seed):
        cache.add(obj)
    changes = questions.zone_lost(cache.snapshot(), "a").arrivals
    more = [
        Arrival(200.0, "create", obj) for obj in random_cluster(seed + 100) if obj["kind"] in ("Node", "ReplicaSet")
    ]
    simulation = Simulation(world_of(cache, [*changes, *more], until=900.0))
    running = [running_in(simulation)]
    simulation.api.watchers.append(lambda _: running.append(running_in(simulation)))
    simulation.run()
    worst = Worst.from_simulation(simulation)
    assert worst.moment.running == min(counts.total() for counts in running)
    for workload in {workload for counts in running for workload in counts}:
        assert worst.by_workload.get(workload, 0) == min(counts[workload] for counts in running)


def running_in(simulation: Simulation) -> Counter[tuple[str, str]]:
    return Counter({workload: count.running for workload, count in count_by_workload(simulation).items()})


def test_a_group_adds_nodes_again_up_to_its_maximum(capsys: Capture, tmp_path: Path) -> None:
    """Each Pod of the StatefulSet is created when the one before runs, and needs a node of its own."""
    (tmp_path / "cluster.yaml").write_text(
        Path(CLUSTER).read_text() + yaml.safe_dump_all(stateful_set(5), explicit_start=True)
    )
    taint = {"key": "for", "value": "db", "effect": "NoSchedule"}
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "20"}
    template = {"metadata": {"labels": {"for": "db"}}, "spec": {"taints": [taint]}, "status": {"allocatable": amounts}}
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump([{"name": "db", "maxSize": 3, "template": template}]))
    answer = lost(capsys, "--node-templates", str(tmp_path / "groups.yaml"), cluster=str(tmp_path / "cluster.yaml"))
    assert answer["withNewNodes"]["nodes"] == {"db": 3}
    assert [up["nodes"] for up in answer["autoscalers"]["nodeGroups"]["scaleUps"]] == [1, 1, 1]


def test_preemption_does_not_wait_for_nodes(capsys: Capture) -> None:
    assert lost(capsys, *GROUPS)["preempted"] == lost(capsys)["preempted"]


def test_the_delay_of_nodes(capsys: Capture) -> None:
    usual, soon = (lost(capsys, *GROUPS, *more)["withNewNodes"]["firstNodeAt"] for more in ((), ("--node-delay", "60")))
    assert usual - soon == pytest.approx(120)


def test_no_autoscaler_gives_the_answer_without_new_nodes(capsys: Capture) -> None:
    answer = lost(capsys, *GROUPS, "--no-autoscaler")
    assert "withNewNodes" not in answer
    assert answer["running"] == lost(capsys, *GROUPS)["running"]


def test_the_number_of_new_nodes_is_bounded(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscalers, "MAX_NODES", 1)
    answer = lost(capsys, *GROUPS)
    assert "withNewNodes" not in answer
    reached = "further nodes (limit of nodes or rounds reached)"
    assert answer["autoscalers"]["nodeGroups"]["notPredicted"] == reached


@pytest.mark.forks
@pytest.mark.parametrize("delay", ["0", "7", "180", "2000"])
@pytest.mark.parametrize("zone", ["a", "b"])
def test_a_fork_that_continues_has_the_same_answer_as_a_new_simulation(
    delay: str, zone: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    continued = lost(capsys, *GROUPS, "--node-delay", delay, zone=zone)
    monkeypatch.setattr(arrivals, "forked", lambda _: None)
    assert continued == lost(capsys, *GROUPS, "--node-delay", delay, zone=zone)


@pytest.mark.forks
def test_a_sweep_without_forks_has_the_same_rows(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = ["whatif", "lose", "--each", "zone", "--cluster", CLUSTER, *GROUPS, "-o", "json"]
    assert main(sweep) == 0
    forked = capsys.readouterr().out
    assert '"backAt"' in forked
    monkeypatch.setattr(arrivals, "forked", lambda _: None)
    assert main(sweep) == 0
    assert capsys.readouterr().out == forked


def test_new_nodes_have_names_of_their_own() -> None:
    name_of = namer({"a-new-1", "a-new-3"})
    assert [name_of(group) for group in ("x/a", "y/a", "a", "b")] == ["a-new-2", "a-new-4", "a-new-5", "b-new-1"]


def labelled(tmp_path: Path, groups: dict[str, str], *more: Any) -> str:
    """The example's cluster as a file: nodes in these groups of kops, and more objects."""
    import yaml

    with open(CLUSTER, encoding="utf-8") as text:
        documents = [document for document in yaml.safe_load_all(text) if document]
    items = [item for document in documents for item in document.get("items", [document])]
    for item in items:
        if item["kind"] == "Node":
            name = item["metadata"]["name"]
            item["metadata"].setdefault("labels", {})["kops.k8s.io/instancegroup"] = groups[name]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, *more]}, default=str))
    return str(file)


ZONAL = {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b"}


def test_groups_come_from_the_cluster(tmp_path: Path, capsys: Capture) -> None:
    cluster = labelled(tmp_path, ZONAL, status(("a", 2, 0, 9), ("b", 2, 0, 9)))
    answer = lost(capsys, cluster=cluster)
    assert answer["autoscalers"]["nodeGroups"]["lostGroups"] == ["a"]
    assert list(answer["withNewNodes"]["nodes"]) == ["b"]
    assert answer["withNewNodes"]["pending"] == 0


def test_a_group_over_several_zones_grows_in_the_zones_that_are_left(tmp_path: Path, capsys: Capture) -> None:
    answer = lost(capsys, cluster=labelled(tmp_path, dict.fromkeys(ZONAL, "all"), status(("all", 4, 0, 9))))
    assert answer["autoscalers"]["nodeGroups"]["lostGroups"] == []
    assert answer["withNewNodes"]["pending"] == 0


def test_pods_of_daemon_sets_on_new_nodes_are_counted_apart(tmp_path: Path, capsys: Capture) -> None:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    agent = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "shop"}, "spec": spec}
    cluster = labelled(tmp_path, ZONAL, status(("a", 2, 0, 9), ("b", 2, 0, 9)), agent)
    answer = lost(capsys, cluster=cluster)
    arrived, nodes = answer["withNewNodes"], sum(answer["withNewNodes"]["nodes"].values())
    assert arrived["running"] == 8 + 2 + nodes


def test_nodes_of_similar_groups_are_no_alternatives(tmp_path: Path, capsys: Capture) -> None:
    groups = {"a-1": "b-3", "a-2": "b-3", "b-1": "b-1", "b-2": "b-2"}
    more = (status(("b-1", 1, 0, 9), ("b-2", 1, 0, 9)), autoscaler("--balance-similar-node-groups"))
    main(["whatif", "lose", "zone", "a", "--cluster", labelled(tmp_path, groups, *more), "-v"])
    assert "\nb-1, b-2          2     4\n" in capsys.readouterr().out


def test_groups_without_known_sizes_are_not_used(tmp_path: Path, capsys: Capture) -> None:
    answer = lost(capsys, cluster=labelled(tmp_path, ZONAL))
    assert "nodeGroups" not in answer["autoscalers"]


def autoscaler(*flags: str) -> Any:
    """The Deployment of cluster-autoscaler."""
    container = {"name": "c", "command": ["./cluster-autoscaler", *flags]}
    spec = {"replicas": 0, "selector": {}, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "ca", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("priorities", "group"), [("1: [.*]\n9: [b-1]", "b-1"), ("1: [.*]\n9: [b-2]", "b-2")])
def test_the_expander_priority_reads_its_config_map(
    priorities: str, group: str, tmp_path: Path, capsys: Capture
) -> None:
    metadata = {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"priorities": priorities}}
    of_a_tenant = {**config_map, "metadata": {**metadata, "namespace": "team"}, "data": {"priorities": "9: [a]"}}
    groups = {"a-1": "a", "a-2": "a", "b-1": "b-1", "b-2": "b-2"}
    sizes = status(("b-1", 1, 0, 9), ("b-2", 1, 0, 9))
    more = (sizes, autoscaler("--expander=priority"), config_map, of_a_tenant)
    assert list(lost(capsys, cluster=labelled(tmp_path, groups, *more))["withNewNodes"]["nodes"]) == [group]


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--expander=price", 'expander "price" is not modelled'),
        (
            "--expander=priority",
            'expander "priority" needs the ConfigMap cluster-autoscaler-priority-expander of cluster-autoscaler',
        ),
        ("--cores-total=0:9", "the limits --cores-total and --memory-total are not modelled"),
        ("--cores-total=0:320000", ""),
    ],
)
def test_what_is_not_modelled_is_named(flag: str, told: str, tmp_path: Path, capsys: Capture) -> None:
    answer = lost(capsys, cluster=labelled(tmp_path, ZONAL, status(("b", 2, 0, 9)), autoscaler(flag)))
    assert ("withNewNodes" in answer) == (not told)
    assert answer["autoscalers"]["nodeGroups"]["notPredicted"] == told


@pytest.mark.parametrize(
    ("flags", "first", "further"),
    [
        ((), 10, 10),
        (("--scan-interval=4s",), 4, 4),
        (("--scan-interval=1m",), 60, 10),
        (("--scan-interval=1m", "--frequent-loops-enabled=false"), 60, 60),
    ],
)
def test_the_time_of_scans(
    flags: tuple[str, ...], first: float, further: float, tmp_path: Path, capsys: Capture
) -> None:
    """Two Pods need nodes of one group each, and a scan scales up one group."""
    pods: list[Any] = []
    groups: list[Any] = []
    for name in ("x", "z"):
        pod = make_pod(name).request(cpu="1").obj
        pod["spec"]["nodeSelector"] = {"for": name}
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "20"}
        template = {"metadata": {"labels": {"for": name}}, "status": {"allocatable": amounts}}
        pods, groups = [*pods, pod], [*groups, {"name": name, "maxSize": 3, "template": template}]
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump(groups))
    cluster = labelled(tmp_path, ZONAL, *pods, autoscaler(*flags))
    answer = lost(capsys, "--node-templates", str(tmp_path / "groups.yaml"), cluster=cluster)
    times = sorted(row["at"] for row in answer["withNewNodes"]["workloads"] if row["workload"].endswith(("/x", "/z")))
    assert times[1] - times[0] == pytest.approx(further, abs=1)
    assert times[0] - 180 == pytest.approx(first, abs=6)


def test_the_head_names_flags_that_are_not_modelled(tmp_path: Path, capsys: Capture) -> None:
    flags = ("--salvo-scale-up", "--enforce-node-group-min-size", "--v=4")
    clause = "no effect of --salvo-scale-up, --enforce-node-group-min-size of cluster-autoscaler (not modelled)"
    answer = lost(capsys, cluster=labelled(tmp_path, ZONAL, status(("b", 2, 0, 9)), autoscaler(*flags)))
    assert clause in answer["head"]["assumes"]
    assert clause not in lost(capsys, cluster=labelled(tmp_path, ZONAL, autoscaler(*flags)))["head"]["assumes"]


def test_an_unhealthy_cluster_gets_no_nodes(tmp_path: Path, capsys: Capture) -> None:
    cluster = labelled(tmp_path, ZONAL, status(("b", 2, 0, 9)), autoscaler("--ok-total-unready-count=0"))
    snapshot = json.loads(Path(cluster).read_text())
    node = next(obj for obj in snapshot["items"] if obj["metadata"]["name"] == "b-1")
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    Path(cluster).write_text(json.dumps(snapshot))
    answer = lost(capsys, cluster=cluster)
    (left,) = answer["autoscalers"]["nodeGroups"]["noScaleUp"]
    assert left["reasons"] == {"b": "cluster-autoscaler halts while 1 of 2 nodes are not ready"}
    assert "withNewNodes" not in answer


def risks(capsys: Capture, *more: str) -> Any:
    assert main(["risk", "--cluster", CLUSTER, "-o", "json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_risk_has_what_remains_after_new_nodes_as_the_question_alone(capsys: Capture) -> None:
    rows = {row["workload"]: row for row in risks(capsys, *GROUPS)["workloads"]}
    nightly = rows["reports/nightly"]
    assert nightly["withNewNodes"].keys() == nightly["losesReplicasWith"].keys()
    for zone in "ab":
        arrived = lost(capsys, *GROUPS, zone=zone).get("withNewNodes")
        after = nightly["withNewNodes"][f"zone {zone}"]
        if arrived is None:
            assert after == {"replicas": nightly["losesReplicasWith"][f"zone {zone}"]}
            continue
        (back,) = arrived["workloads"]
        assert after["replicas"] == back["before"] - back["after"]
        assert after["backAt"] == back["at"]
    assert rows["shop/web"]["withNewNodes"] == {}


def test_risk_names_the_node_groups_it_assumes(capsys: Capture) -> None:
    assert "nodes of spot-large" in " ".join(risks(capsys, *GROUPS)["head"]["assumes"])


REMOVALS = "no scale-down (not predicted)"


def test_the_heads_of_simulations_with_new_nodes_say_that_no_node_is_removed(capsys: Capture) -> None:
    assert REMOVALS in lost(capsys, *GROUPS)["head"]["assumes"]
    assert REMOVALS in risks(capsys, *GROUPS)["head"]["assumes"]
    assert main(["whatif", "lose", "--each", "zone", "--cluster", CLUSTER, *GROUPS, "-o", "json"]) == 0
    assert REMOVALS in json.loads(capsys.readouterr().out)["head"]["assumes"]
    assert REMOVALS not in str(lost(capsys, *GROUPS, "--no-autoscaler"))
    assert REMOVALS not in str(lost(capsys))
    assert REMOVALS not in str(audited(capsys, *GROUPS))


def test_risk_without_autoscaler_gives_the_answer_without_new_nodes(capsys: Capture) -> None:
    assert risks(capsys, *GROUPS, "--no-autoscaler") == risks(capsys)
    assert "withNewNodes" not in json.dumps(risks(capsys))


@pytest.mark.parametrize(
    ("groups", "condition", "status"),
    [
        (GROUPS, "loss", 1),
        (GROUPS, "lasting-loss", 0),
        ((), "lasting-loss", 1),
        ((*GROUPS, "--no-autoscaler"), "lasting-loss", 1),
    ],
)
def test_risk_fails_on_a_lasting_loss_only_if_new_nodes_do_not_help(
    groups: tuple[str, ...], condition: str, status: int, capsys: Capture
) -> None:
    assert main(["risk", "--cluster", CLUSTER, "--fail-on", condition, *groups]) == status
    assert (f"fails on {condition} (--fail-on)" in capsys.readouterr().err) == bool(status)


HPA = "--cluster", "docs/examples/whatif/autoscalers.yaml", "hpa"


@pytest.mark.parametrize("event", [("lose", "zone", "a"), ("lose", "--each", "zone"), HPA])
@pytest.mark.parametrize(
    ("groups", "fails"),
    [
        ((), ["lost", "pending", "preempted"]),
        ((*GROUPS, "--no-autoscaler"), ["lost", "pending", "preempted"]),
        (GROUPS, ["preempted"]),
    ],
)
def test_whatif_fails_on_what_is_lost_at_the_end_with_new_nodes(
    event: tuple[str, ...], groups: tuple[str, ...], fails: list[str], capsys: Capture
) -> None:
    conditions = [part for name in ("lost", "pending", "preempted") for part in ("--fail-on", name)]
    at = event.index("hpa") if "hpa" in event else 0
    assert main(["whatif", *event[at:], *event[:at], "--cluster", CLUSTER, *conditions, *groups]) == 1
    failing = capsys.readouterr().err.rpartition("fails on ")[2]
    assert failing == f"{', '.join(fails)} (--fail-on)\n"


def changes(capsys: Capture, tmp_path: Path, earlier: Any) -> list[str]:
    report = tmp_path / "earlier.json"
    report.write_text(json.dumps(earlier), encoding="utf-8")
    rows = risks(capsys, *GROUPS, "--since", str(report))["changes"]
    return [f"{row['change']} {row['what']}: {row.get('why')}" for row in rows]


def test_risk_compares_lasting_losses_with_those_of_an_earlier_report(tmp_path: Path, capsys: Capture) -> None:
    earlier = risks(capsys, *GROUPS)
    assert changes(capsys, tmp_path, earlier) == []
    after = next(row["withNewNodes"] for row in earlier["workloads"] if row["workload"] == "reports/nightly")
    after["zone a"]["replicas"] = 3
    better = "better reports/nightly: with new nodes, still loses 0 (was 3) with zone a"
    assert changes(capsys, tmp_path, earlier) == [better]


def test_risk_names_an_earlier_report_without_new_nodes(tmp_path: Path, capsys: Capture) -> None:
    only = "changed new nodes: only this report simulates them, lasting losses not compared"
    assert changes(capsys, tmp_path, risks(capsys)) == [only]


def test_risk_counts_losses_that_last_with_new_nodes(capsys: Capture) -> None:
    assert main(["risk", "--cluster", CLUSTER, *GROUPS]) == 0
    text = capsys.readouterr().out
    assert "lose with new nodes too 0 (all run again within" in text
    assert "all run " in text


AUDITED = "docs/examples/audit/cluster.yaml"


def audited(capsys: Capture, *more: str, form: str = "json") -> Any:
    main(["audit", "--cluster", AUDITED, "-o", form, *more])
    out = capsys.readouterr().out
    return json.loads(out) if form == "json" else out


def blocked(report: Any) -> Any:
    (finding,) = (each for each in report["findings"] if each["rule"] == "restart-stays-pending")
    return finding


def test_audit_has_the_nodes_that_a_blocked_restart_would_get(capsys: Capture) -> None:
    finding = blocked(audited(capsys, *GROUPS))
    assert finding["detail"]["newNodes"] == {"nodes": 1, "pods": 1, "seconds": 190}
    assert finding["severity"] == "note"
    assert finding["message"].endswith("; 1 new node helps 1 Pod after 3 min 10 s")
    text = audited(capsys, *GROUPS, form="text")
    assert "blocked restarts that new nodes help 1 of 1" in text


def test_audit_names_restarts_that_no_node_helps(tmp_path: Path, capsys: Capture) -> None:
    taints = {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}
    allocatable = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
    file = tmp_path / "groups.json"
    file.write_text(json.dumps([{"name": "gpu", "maxSize": 9, "template": {**taints, **allocatable}}]))
    finding = blocked(audited(capsys, "--node-templates", str(file)))
    assert finding["severity"] == "warning"
    assert finding["message"].endswith("; no new node helps")


def test_audit_without_autoscaler_gives_the_answer_without_new_nodes(capsys: Capture) -> None:
    usual = audited(capsys)
    assert audited(capsys, *GROUPS, "--no-autoscaler") == usual
    assert "newNodes" not in json.dumps(usual)


def manifest(tmp_path: Path, priority: str, cpu: str) -> str:
    """A file with a Pod of the class `priority`."""
    spec = {"priorityClassName": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "reports"}, "spec": spec}
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod))
    return str(file)


def predicted(capsys: Capture, *arguments: str) -> Any:
    assert main(["predict", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_predict_says_which_group_of_the_cluster_helps_a_pending_pod(tmp_path: Path, capsys: Capture) -> None:
    groups = {"a-1": "a", "a-2": "a", "b-1": "b-1", "b-2": "b-2"}
    cluster = labelled(tmp_path, groups, status(("a", 2, 0, 2), ("b-1", 1, 0, 9), ("b-2", 1, 0, 1)))
    asked = ("-f", manifest(tmp_path, "batch", "3"), "--cluster", cluster)
    (scale_up,) = predicted(capsys, *asked)["autoscalers"]["nodeGroups"]["scaleUps"]
    assert (scale_up["group"], scale_up["nodes"], scale_up["pods"]) == ("b-1", 1, 1)
    assert main(["predict", *asked]) == 0
    assert " | new nodes 1" in capsys.readouterr().out
    assert "nodeGroups" not in predicted(capsys, *asked, "--no-autoscaler")["autoscalers"]
    too_large = predicted(capsys, "-f", manifest(tmp_path, "batch", "5"), "--cluster", cluster)
    (left,) = too_large["autoscalers"]["nodeGroups"]["noScaleUp"]
    assert left["reasons"] == {"a": "max node group size reached", "b-1": "Insufficient cpu"} | {
        "b-2": "max node group size reached"
    }


def test_node_groups_do_not_change_the_victims_of_predict(tmp_path: Path, capsys: Capture) -> None:
    cluster = labelled(tmp_path, ZONAL, status(("a", 2, 0, 9), ("b", 2, 0, 9)))
    asked = ("-f", manifest(tmp_path, "gold", "2"), "--cluster", cluster)
    found = predicted(capsys, *asked)
    assert found["outcomes"] == {"preempts": 1}
    assert [fix["action"] for fix in found.pop("fix")] == ["class like gold with preemptionPolicy: Never"]
    without = predicted(capsys, *asked, "--no-autoscaler")
    assert without.pop("fix") == []
    assert found == without


def test_python_programs_get_the_node_groups_of_a_cluster(tmp_path: Path) -> None:
    cluster = forewarn.load(labelled(tmp_path, ZONAL, status(("a", 2, 0, 9), ("b", 2, 0, 9))))
    reaction = forewarn.predict(cluster, [manifest(tmp_path, "batch", "3")]).autoscalers
    assert reaction is not None
    assert reaction.node_groups is not None
    assert [each.group for each in reaction.node_groups.scale_ups] == ["a"]


def job(name: str, parallelism: int, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    jobs = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "reports"}, "spec": jobs}


def asked_events(tmp_path: Path, *events: dict[str, Any], cluster: str = CLUSTER) -> tuple[str, ...]:
    (tmp_path / "events.yaml").write_text(yaml.safe_dump(list(events)))
    return ("whatif", "events", "--events", str(tmp_path / "events.yaml"), "--cluster", cluster, *GROUPS)


def test_no_node_arrives_before_the_pod_for_which_it_is_added(tmp_path: Path, capsys: Capture) -> None:
    events = ({"at": 0, "create": job("early", 1, "3")}, {"at": "20m", "create": job("late", 2, "3")})
    assert main([*asked_events(tmp_path, *events), "-o", "json"]) == 0
    arrived = json.loads(capsys.readouterr().out)["withNewNodes"]
    assert arrived["nodes"] == {"spot-large": 3}
    back = {row["workload"]: round(row["at"] / 60) for row in arrived["workloads"]}
    assert back == {"reports/early": 3, "reports/late": 23}


def test_pods_that_are_pending_only_for_a_while_get_nodes(tmp_path: Path, capsys: Capture) -> None:
    """The Job is deleted before the node arrives."""
    free = {"at": "2m", "delete": job("early", 1, "3")}
    assert main([*asked_events(tmp_path, {"at": 0, "create": job("early", 1, "3")}, free), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (scale_up,) = answer["autoscalers"]["nodeGroups"]["scaleUps"]
    assert (scale_up["group"], scale_up["nodes"]) == ("spot-large", 1)
    assert (answer["withNewNodes"]["nodes"], answer["withNewNodes"]["pending"]) == ({"spot-large": 1}, 0)
    assert answer["clause"].startswith("1 new Pod is removed again at once; 1 new node after ")


def test_equal_scale_ups_are_one_row(tmp_path: Path, capsys: Capture) -> None:
    """Another Pod runs on the first new node when the StatefulSet creates its Pod again."""
    template = {"metadata": {"labels": {"app": "db"}}, "spec": make_pod("db").request(cpu="4").obj["spec"]}
    db = Made("apps/v1", "StatefulSet", "db", "default")
    db.spec(replicas=1, selector={"matchLabels": {"app": "db"}}, template=template)
    scale = {"kind": "StatefulSet", "namespace": "default", "name": "db"}
    events: list[dict[str, Any]] = [
        {"at": 0, "create": db.obj},
        {"at": "20m", "scale": scale | {"replicas": 0}},
        {"at": "21m", "create": make_pod("other").request(cpu="4").obj},
        {"at": "30m", "scale": scale | {"replicas": 1}},
    ]
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1").has(cpu="1")]))
    assert main([*asked_events(tmp_path, *events, cluster=str(tmp_path / "cluster.json")), "-v"]) == 0
    rows = capsys.readouterr().out.partition("\nNEW NODES OF")[2].partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[:3] for row in rows] == [["spot-large", "2", "2"]]


@pytest.mark.parametrize(("until", "is_cut_off"), [("2m", True), ("5m", False), ("20m", False)])
def test_a_short_simulation_that_ends_quietly_may_be_steady(until: str, *, is_cut_off: bool, capsys: Capture) -> None:
    assert main(["whatif", "lose", "zone", "a", "--cluster", CLUSTER, *GROUPS, "--until", until]) == 0
    warning = "WARN  simulation without a steady state after 2 min: the numbers are those of this moment. "
    assert (warning in capsys.readouterr().out) is is_cut_off


@pytest.mark.forks
def test_an_upgrade_gets_nodes(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["whatif", "upgrade", "--cluster", CLUSTER, *GROUPS]
    assert main([*asked, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["withNewNodes"]["upgraded"] == 4
    assert answer["withNewNodes"]["upgradedAt"] == pytest.approx(625, abs=1)
    monkeypatch.setattr(arrivals, "forked", lambda _: None)
    assert main([*asked, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert main(asked) == 0
    first, counters, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("HARM  upgrade of 4 nodes, 1 at a time: all nodes upgraded in 10 min, 2 Pods preempted")
    assert counters.strip().startswith("preempted 2 | Pending 0 | lost 0 | down 1 workload in part, up to 3 min 10 s")
    assert (answer["withNewNodes"]["preempted"], len(answer["preempted"])) == (2, 5)


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_every_format_tells_what_an_upgrade_does_with_new_nodes(form: str, capsys: Capture) -> None:
    assert main(["whatif", "upgrade", "--cluster", CLUSTER, *GROUPS, "-o", form]) == 0
    text = capsys.readouterr().out
    assert "all nodes upgraded in 10 min, 2 Pods preempted" in text
    assert "preempted</dt><dd>2</dd>" in text if form == "html" else "preempted 2" in text


def test_an_upgrade_that_new_nodes_unblock_is_not_blocked(tmp_path: Path, capsys: Capture) -> None:
    """One of 3 replicas is Pending, so the PDB allows no disruption until a node is added."""
    ready = [{"type": "Ready", "status": "True"}]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    pods = [make_pod(f"web-{number}").labels(app="web").request(cpu="1") for number in range(3)]
    running = [pod.on(f"n{number}").status(conditions=ready) for number, pod in enumerate(pods[:2])]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pods[2].obj["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    made = Made("apps/v1", "ReplicaSet", "web", "default").spec(replicas=3, selector=selector, template=template)
    pdb = Made("policy/v1", "PodDisruptionBudget", "web", "default").spec(minAvailable=2, selector=selector)
    owned = [pod.metadata(ownerReferences=[owner]) for pod in (*running, pods[2])]
    nodes = [make_node(f"n{number}").has(cpu="1", memory="1Gi", pods="9") for number in range(2)]
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, made, pdb, *owned]))
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump([{"name": "new", "template": nodes[0].obj}]))
    asked = ["whatif", "upgrade", "--cluster", str(tmp_path / "cluster.json"), "--fail-on", "blocked"]
    assert main(asked) == 1
    assert capsys.readouterr().out.startswith(
        "BLOCKED  upgrade of 2 nodes, 1 at a time: stops at n0 (node 1); 1 PDB blocks"
    )
    assert main([*asked, "--node-templates", str(tmp_path / "groups.yaml"), "--timeline"]) == 0
    out = capsys.readouterr().out
    assert "  upgrade of 2 nodes, 1 at a time: all nodes upgraded in " in out.splitlines()[0]
    assert "\nTIMELINE from 00:01:00Z without new nodes\n" in out


def test_a_job_that_fails_only_with_new_nodes_is_counted(tmp_path: Path, capsys: Capture) -> None:
    """Its Pod runs on the new node, where another Pod preempts it."""
    fails = job("fails", 1, "3")
    fails["spec"]["backoffLimit"] = 0
    high = job("high", 1, "3")
    high["spec"]["template"]["spec"]["priorityClassName"] = "gold"
    asked = asked_events(tmp_path, {"at": 0, "create": fails}, {"at": "10m", "create": high})
    assert main([*asked, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["counters"]["jobsFailed"], answer["countersWithNewNodes"]["jobsFailed"]) == (0, 1)


@pytest.mark.parametrize(("image", "lost", "placeholders"), [("nightly", 2, 0), ("registry.k8s.io/pause:3.10", 0, 2)])
def test_placeholder_pods_on_new_nodes_are_no_replicas(
    image: str, lost: int, placeholders: int, tmp_path: Path, capsys: Capture
) -> None:
    text = Path(CLUSTER).read_text().replace("image: nightly", f"image: {image}").replace("value: 100\n", "value: -5\n")
    text = text.replace("priority: 100\n", "priority: -5\n")
    (tmp_path / "cluster.yaml").write_text(text)
    groups = yaml.safe_load(Path(GROUPS[1]).read_text())
    (tmp_path / "groups.json").write_text(json.dumps([{**groups[0], "size": 1, "maxSize": 2}]))
    given = ("--cluster", str(tmp_path / "cluster.yaml"), "--node-templates", str(tmp_path / "groups.json"))
    assert main(["whatif", "lose", "zone", "a", *given, "-o", "json"]) == 0
    end = json.loads(capsys.readouterr().out)["countersWithNewNodes"]
    assert (end["lost"], end["placeholders"], end["newNodes"]) == (lost, placeholders, 1)


@pytest.mark.forks
def test_karpenters_nodes_arrive_in_time_beside_node_groups(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Karpenter's node is there after 181 s, and cluster-autoscaler's first one could be after 190 s."""
    types = tmp_path / "types.json"
    types.write_text(json.dumps([instance_type(4)]))
    (tmp_path / "pool.yaml").write_text(yaml.safe_dump(node_pool()))
    groups = [{"name": "useless", "template": {"status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "5"}}}}]
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump(groups))
    events = ({"at": 0, "create": job("big", 1, "3")}, {"at": 187, "create": job("tiny", 1, "10m")})
    asked = (*asked_events(tmp_path, *events)[:-2], "--cluster", str(tmp_path / "pool.yaml"), "-o", "json")
    options = ("--instance-types", str(types), "--node-templates", str(tmp_path / "groups.yaml"))

    def answer() -> Any:
        assert main([*asked, *options]) == 0
        return json.loads(capsys.readouterr().out)["withNewNodes"]

    continued = answer()
    monkeypatch.setattr(arrivals, "forked", lambda _: None)
    assert continued == answer()
    assert [round(row["at"]) for row in continued["workloads"] if row["workload"] == "reports/big"] == [181]
