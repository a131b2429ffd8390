"""`forewarn` without a command: a line for each standing question, with numbers that other commands confirm."""

from __future__ import annotations

import json
import re
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.documents.answer import AnswerStatus, Effects
from forewarn.policies.questions.application import overview
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.in_process import forewarn
from tests.policies.small_clusters import replica_set
from tests.policies.test_one_answer import random_state

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "docs/examples/whatif/cluster.yaml"
NO_CLUSTER = {"KUBECONFIG": "/nowhere/config", "HOME": "/nowhere", "PATH": "/usr/bin"}


def _lines(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    """Topic -> its line."""
    done = forewarn(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return {each["topic"]: each for each in json.loads(done.stdout)["lines"]}


def _risky(path: Path) -> Path:
    """A cluster with each risk: a PDB, a full quota, Pods without a class, one of them Pending, and an Event."""
    running = make_pod("web-0", "shop").request(cpu="3").labels(app="web").on("n1")
    quota = Made("v1", "ResourceQuota", "team", "shop").spec(hard={"pods": "2"})
    event = Made("v1", "Event", "web-9.1", "shop")
    event.obj |= {
        "reason": "Preempted",
        "message": "Preempted by pod 11111111-1111-1111-1111-111111111111 on node n1",
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-9", "uid": "u"},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    made = [
        *(make_node(name).has(cpu="4") for name in ("n1", "n2")),
        make_priority_class(1000, "gold"),
        running.status(conditions=[{"type": "Ready", "status": "True"}]),
        make_pod("big", "shop").request(cpu="64"),
        quota.status(hard={"pods": "2"}, used={"pods": "2"}),
        make_budget("web", 0, "shop", app="web").spec(minAvailable="100%"),
        event,
    ]
    path.write_text(cluster_text(made))
    return path


def _rule(action: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_without_a_cluster_it_prints_the_help() -> None:
    done = forewarn(environment=NO_CLUSTER)
    assert done.returncode == 2
    assert done.stdout.startswith("Predict which Pods Kubernetes will preempt")


def test_with_a_kubeconfig_it_asks_about_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{}")
    done = forewarn(environment=NO_CLUSTER | {"KUBECONFIG": str(tmp_path / "config")})
    assert done.returncode == 3
    assert done.stderr.startswith("forewarn overview: ")


def test_options_alone_are_those_of_the_overview() -> None:
    assert forewarn("--cluster", CLUSTER).stdout == forewarn("overview", "--cluster", CLUSTER).stdout
    wrong = forewarn("--clutser", CLUSTER)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "did you mean --cluster?" in wrong.stderr


def test_the_worst_losses_are_those_of_whatif_lose() -> None:
    lines = _lines("--cluster", CLUSTER)
    for topic, kind in (("worst zone", "zone"), ("worst node", "node")):
        cases = json.loads(forewarn("whatif", "lose", "--each", kind, "--cluster", CLUSTER, "-o", "json").stdout)[
            "cases"
        ]
        worst = cases[0]["counters"]
        assert lines[topic]["number"] == worst["lost"] + worst["preempted"] + worst["pending"] > 0
        command = ["whatif", "lose", *cases[0]["case"].split()]
        assert lines[topic]["command"] == " ".join(command)
        done = json.loads(forewarn(*command, "--cluster", CLUSTER, "-o", "json").stdout)
        assert {name: done["counters"][name] for name in ("lost", "preempted", "pending")} == {
            name: worst[name] for name in ("lost", "preempted", "pending")
        }
        assert lines[topic]["finding"].endswith(f"; highest class {done['rows'][0]['class']}")


@pytest.mark.usefixtures("few_runs", "no_fixes")
def test_the_worst_loss_is_the_most_frequent_of_several_runs(tmp_path: Path) -> None:
    """The first run of this cluster has other numbers."""
    contended = tmp_path / "cluster.json"
    contended.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": random_state(Random(34)).objects}))
    lines = _lines("--cluster", contended)
    assert not lines["worst node"].get("sample"), "all nodes of a small cluster are simulated"
    line = lines["worst zone"]
    done = forewarn(*line["command"].split(), "--cluster", contended, "-o", "json")
    counters = json.loads(done.stdout)["counters"]
    sweep = json.loads(forewarn("whatif", "lose", "--each", "zone", "--cluster", contended, "-o", "json").stdout)
    first_run = next(each["counters"] for each in sweep["cases"] if line["command"].endswith(each["case"]))
    numbers = [sum(each[name] for name in ("lost", "preempted", "pending")) for each in (counters, first_run)]
    assert line["number"] == numbers[0] != numbers[1]
    assert line["finding"].startswith("about ")


@pytest.mark.parametrize(
    ("harmful", "status", "finding"),
    [
        (1, "HARM", "1 Pod preempted; highest class gold"),
        (2, "HARM", "; highest class gold"),
        (9, "WARN", " in some runs"),
    ],
)
def test_a_loss_without_harm_in_most_runs_is_not_the_worst(
    harmful: int, status: str, finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`harmful`: how many losses were repeated when the first one does harm."""
    repeated = list[object]()

    def most_frequent(_cluster: object, change: object, **_more: object) -> SimpleNamespace:
        repeated.append(change)
        counters = Effects(preempted=int(len(repeated) == harmful))
        document = SimpleNamespace(status=AnswerStatus.HARM, shown=[])
        upgrade = SimpleNamespace(after=SimpleNamespace(workloads=[]))
        of_upgrade = SimpleNamespace(upgrade_answer=upgrade)
        hit = [SimpleNamespace(priority_class=name, priority=len(name)) for name in ("", "gold")]
        parts = {"answer": of_upgrade, "workloads": [], "preemptions": hit}
        return SimpleNamespace(counters=counters, document=document, **parts)

    monkeypatch.setattr(overview, "whatif", most_frequent)
    line = _lines("--cluster", CLUSTER)["worst zone"]
    assert (line["status"], line["finding"].endswith(finding)) == (status, True)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_only_job_that_fails_by_drains_has_its_name(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [
        SimpleNamespace(workload=f"shop/etl-{number}", failures=["BackoffLimitExceeded"]) for number in range(jobs)
    ]
    upgrade = SimpleNamespace(after=SimpleNamespace(workloads=failing))
    document = SimpleNamespace(status=AnswerStatus.OK, shown=[])
    answer = SimpleNamespace(counters=Effects(), document=document, answer=SimpleNamespace(upgrade_answer=upgrade))
    monkeypatch.setattr(overview, "whatif", lambda *_, **_more: answer)
    assert _lines("--cluster", CLUSTER)["upgrade"]["finding"] == ("Job shop/etl-0 fails", "2 Jobs fail")[jobs - 1]


def test_the_worst_lines_come_first_in_the_table(tmp_path: Path) -> None:
    done = json.loads(forewarn("--cluster", _risky(tmp_path / "c.json"), "-o", "json").stdout)
    statuses = [AnswerStatus(row["status"]) for row in done["rows"]]
    assert statuses == sorted(statuses, key=lambda status: status.rank)
    assert done["status"] == statuses[0] == "BLOCKED"
    assert {row["about"]: row["status"] for row in done["rows"]} == {
        line["topic"]: line["status"] for line in done["lines"]
    }


def test_each_risk_has_its_line(tmp_path: Path) -> None:
    lines = _lines("--cluster", _risky(tmp_path / "c.json"))
    found = {topic: (each["status"], each["number"], each["finding"], each["command"]) for topic, each in lines.items()}
    assert {topic: found[topic] for topic in ("upgrade", "quotas", "without class", "Pending", "preempted")} == {
        "upgrade": ("BLOCKED", 1, "1 PDB blocks 1 of 2 nodes", "whatif upgrade"),
        "quotas": ("WARN", 1, "1 above 90 %; shop/team: pods 2 of 2", "headroom"),
        "without class": ("WARN", 2, "2 Pods; may be preempted by gold", "classes suggest"),
        "Pending": ("PENDING", 1, "1: requests 64 cpu, more than any node has (4)", "why shop/big"),
        "preempted": ("WARN", 1, "1 Pod in 24 h, most of shop/web-9", "why"),
    }


@pytest.mark.parametrize(
    ("spec", "failed", "fails"),
    [
        ({"backoffLimit": 1}, 0, 1),
        ({"backoffLimit": 6}, 0, 0),
        ({"backoffLimit": 2}, 1, 1),
        ({"backoffLimit": 0, "podFailurePolicy": {"rules": [_rule("Ignore")]}}, 0, 0),
        ({"podFailurePolicy": {"rules": [_rule("FailJob")]}}, 0, 1),
    ],
)
def test_an_upgrade_that_fails_a_job_is_harm_as_in_whatif(
    spec: dict[str, Any], failed: int, fails: int, tmp_path: Path
) -> None:
    job = Made("batch/v1", "Job", "etl", "shop")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job.spec(parallelism=2, completions=2, template=template, **spec).status(failed=failed, active=2)
    job.obj["metadata"]["uid"] = "u"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "etl", "uid": "u", "controller": True}
    pods = [make_pod(f"etl-{node}", "shop").metadata(ownerReferences=[owner]).on(node) for node in ("n1", "n2")]
    path = tmp_path / "c.json"
    path.write_text(cluster_text([*(make_node(name).has(cpu="4") for name in ("n1", "n2", "n3")), job, *pods]))
    line = _lines("--cluster", path)["upgrade"]
    assert (line["status"], line["number"]) == ("HARM" if fails else "OK", fails)
    done = forewarn(*line["command"].split(), "--cluster", path, "-o", "json")
    assert json.loads(done.stdout)["counters"]["jobsFailed"] == fails


def test_jobs_whose_pods_are_evicted_twice_are_those_of_whatif_too(tmp_path: Path) -> None:
    """Its Pod moves to a node that is upgraded later."""
    job = Made("batch/v1", "Job", "etl", "shop")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job.spec(parallelism=1, completions=1, backoffLimit=1, template=template).status(active=1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "etl", "controller": True}
    path = tmp_path / "c.json"
    nodes = [make_node(name).has(cpu="4") for name in ("n1", "n2")]
    path.write_text(cluster_text([*nodes, job, make_pod("etl-1", "shop").metadata(ownerReferences=[owner]).on("n1")]))
    line = _lines("--cluster", path)["upgrade"]
    assert (line["status"], line["finding"]) == ("HARM", "Job shop/etl fails")


def test_every_line_of_the_table_has_a_command_that_runs(tmp_path: Path) -> None:
    path = _risky(tmp_path / "c.json")
    for line in _lines("--cluster", path).values():
        assert forewarn(*line["command"].split(), "--cluster", path).returncode == 0, line


def test_what_is_not_simulated_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "losses simulated" not in forewarn("--cluster", CLUSTER).stdout
    monkeypatch.setattr(overview, "MAX_LOST_PODS", 1)
    done = forewarn("--cluster", CLUSTER, "--most", "1").stdout
    assert "losses simulated: 1 of 2 zones and 1 of 4 nodes, those with most Pods" in done
    assert re.search("whatif lose zone a ", done)
    assert "; zone b not simulated, see whatif lose --each zone" in " ".join(done.split())
    assert "worst node" not in forewarn("--cluster", CLUSTER, "--most", "0").stdout


def test_changes_since_an_earlier_report(tmp_path: Path) -> None:
    path, report = _risky(tmp_path / "c.json"), tmp_path / "last.json"
    assert forewarn("--cluster", path, "-o", f"json={report}").returncode == 0
    assert "changes 0" in forewarn("--cluster", path, "--since", report).stdout
    earlier = json.loads(report.read_text())
    by_topic = {each["topic"]: each for each in earlier["lines"]}
    by_topic["Pending"] |= {"number": 0, "finding": "no Pod is Pending"}
    by_topic["quotas"] |= {"number": 3, "finding": "3 exceeded"}
    by_topic["preempted"] |= {"number": None, "finding": "unknown: no Events"}
    earlier["lines"] = [each for topic, each in by_topic.items() if topic != "upgrade"]
    report.write_text(json.dumps(earlier))
    done = json.loads(forewarn("--cluster", path, "--since", report, "-o", "json").stdout)
    assert done["changes"] == [
        {"change": "not evaluated", "what": "upgrade", "why": "not evaluated in the earlier report"},
        {"change": "better", "what": "quotas", "why": "was: 3 exceeded"},
        {"change": "worse", "what": "Pending", "why": "was: no Pod is Pending"},
        {"change": "not evaluated", "what": "preempted", "why": "not evaluated in the earlier report"},
    ]


def test_losses_of_other_samples_are_not_compared(tmp_path: Path) -> None:
    report, worst = tmp_path / "last.json", "1 Pod preempted; 2 Pods stay Pending; 2 replicas lost; highest class batch"
    assert forewarn("--cluster", CLUSTER, "-o", f"json={report}", "--most", "1").returncode == 0
    for most, change, why in (
        ("1", None, ""),
        (
            "2",
            "changed",
            f"not comparable, other losses were simulated; was: {worst}",
        ),
        ("0", "not evaluated", "not evaluated in this report"),
    ):
        done = forewarn("--cluster", CLUSTER, "--since", report, "--most", most, "-o", "json")
        expected = [{"change": change, "what": "worst node", "why": why}] if change else []
        assert json.loads(done.stdout)["changes"] == expected


def test_no_preemption_is_known_only_since_the_oldest_event(tmp_path: Path) -> None:
    assert _lines("--cluster", CLUSTER)["preempted"]["finding"] == "unknown: no Events"
    event = Made("v1", "Event", "web-9.1", "shop")
    event.obj |= {"reason": "Scheduled", "message": "", "lastTimestamp": "2026-01-01T00:00:00Z"}
    (tmp_path / "c.json").write_text(cluster_text([make_node("n1"), event, make_pod("a").on("n1")]))
    found = _lines("--cluster", tmp_path / "c.json")["preempted"]
    assert found["finding"] == "none since 2026-01-01T00:00:00Z, the oldest Event"


def test_a_quota_that_allows_nothing_and_is_not_used_is_no_risk(tmp_path: Path) -> None:
    quota = Made("v1", "ResourceQuota", "team", "shop").spec(hard={"services.nodeports": "0"})
    quota.status(hard={"services.nodeports": "0"}, used={"services.nodeports": "0"})
    (tmp_path / "c.json").write_text(cluster_text([make_node("n1"), make_priority_class(1, "gold"), quota]))
    assert _lines("--cluster", tmp_path / "c.json")["quotas"]["finding"] == "none above 90 %"


@pytest.mark.parametrize("text", ["[]", "{}", '{"lines": [1]}'])
def test_another_file_as_the_earlier_report_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "last.json").write_text(text)
    done = forewarn("--cluster", CLUSTER, "--since", tmp_path / "last.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "report" in done.stderr


def test_a_cluster_without_nodes_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(cluster_text([make_pod("a"), make_priority_class(1, "gold")]))
    done = forewarn("--cluster", tmp_path / "c.json")
    assert done.returncode == 3
    assert "no" in done.stderr


def test_pods_with_only_the_default_class_are_counted(tmp_path: Path) -> None:
    default = make_priority_class(0, "standard")
    default.obj["globalDefault"] = True
    made = [make_node("n0").has(cpu="4"), default, make_priority_class(10, "gold")]
    made += replica_set("web", 1, [0, 0], {"priority": 0}) + replica_set("db", 1, [0], {"priorityClassName": "gold"})
    for pod in (each.obj for each in made if each.obj["metadata"]["name"].startswith("web-")):
        pod["spec"]["priorityClassName"] = "standard"
    (tmp_path / "c.json").write_text(cluster_text(made))
    line = _lines("--cluster", tmp_path / "c.json")["without class"]
    assert (line["status"], line["finding"]) == ("OK", "2 Pods have only the default class standard")
