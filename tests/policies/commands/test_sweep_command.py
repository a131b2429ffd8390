"""`forewarn whatif --each`: each row is what the question alone comes to; parts put together are the whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli import main
from forewarn.policies.cluster.cache import Cache, head_of
from forewarn.policies.commands.shards import COMPLETIONS, INDEX, Shard, shard_of
from forewarn.policies.render.sweep import MAX_ROWS, markdown, render, verdict
from forewarn.policies.whatif.answer import Causes
from forewarn.policies.whatif.interruptions import Interruption
from forewarn.policies.whatif.sweep import Needs, PlaceholderPods, Row, RunningAndPending, Sweep, from_dict, worst_first
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import forewarn
from tests.policies.commands.test_whatif_command import random_cluster
from tests.policies.test_html import HOSTILE, check_alone

pytestmark = pytest.mark.forks

HEAD = head_of(Cache().snapshot())
SHOWN = "docs/examples/whatif/cluster.yaml"
SINGLE = {"node": ("lose", "node"), "zone": ("lose", "zone")}
SWEEPS = {"node": ("lose", "--each", "node"), "zone": ("lose", "--each", "zone")}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(list(arguments))
    except SystemExit as exit_:
        status = int(str(exit_.code))
    out, err = capsys.readouterr()
    return status, out, err


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, err = run(capsys, "whatif", *arguments, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def written(path: Path, objects: list[dict[str, Any]]) -> str:
    (path / "cluster.json").write_text(cluster_text(objects))
    return str(path / "cluster.json")


def classes() -> list[dict[str, Any]]:
    """Three, of which one is the default."""
    told = {"low": (0, False), "mid": (10, True), "high": (1000, False)}
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": default,
        }
        for name, (value, default) in told.items()
    ]


def by_name(name: str, replicas: int, cpu: str, class_name: str, node: str) -> list[dict[str, Any]]:
    """A Deployment's worth of pods of a class by name (empty: of none), and the ReplicaSet that makes them."""
    template = make_pod(name).request(cpu=cpu).labels(app=name)
    template.obj["spec"].pop("priority", None)  # admission adds that of its class
    if class_name:
        template.obj["spec"]["priorityClassName"] = class_name
    meta: dict[str, object] = {"name": name, "namespace": "default"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template.obj["spec"]},
    }
    found = [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}]
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True}
    owned = {**meta, "ownerReferences": [deployment]}
    found.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned, "spec": spec})
    number = {"": 10, "low": 0, "mid": 10, "high": 1000}[class_name]
    for count in range(replicas):
        pod = make_pod(f"{name}-{count}").priority(number).request(cpu=cpu).labels(app=name).on(node)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
        found.append(pod.metadata(ownerReferences=[owner]).obj)
    return found


def daemons(nodes: list[str]) -> list[dict[str, Any]]:
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": make_pod("agent").request(cpu="10m").obj["spec"]}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    meta = {"name": "agent", "namespace": "default"}
    found = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec}]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": True}
    for node in nodes:
        pod = make_pod(f"agent-{node}").request(cpu="10m").labels(app="agent").on(node)
        found.append(pod.metadata(ownerReferences=[owner]).obj)
    return found


def cluster_of(seed: int) -> list[dict[str, Any]]:
    objects = [*random_cluster(seed), *classes()]
    nodes = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node"]
    objects += by_name("named", 1 + seed % 2, "300m", ("low", "mid", "", "high")[seed % 4], nodes[-1])
    objects += by_name("plain", 1, "200m", "", nodes[0])
    objects += daemons(nodes) if seed % 3 else []
    if seed % 5 == 4:
        objects.append(make_pod("waits").priority(5).request(cpu="3500m").obj)
    return objects


def row_of(answer: Any, nodes: int) -> dict[str, Any]:
    """The counts that a row is to have, of the whole answer to its question, for which so many nodes are lost."""
    pdbs = answer["pdbs"]
    lost = [(s["running"], nodes if s["workload"] == "default/agent" else 0) for s in answer["workloads"]]
    return {
        "fewer": sum(max(running["before"] - running["after"] - daemons, 0) for running, daemons in lost),
        "pending": sum(answer["pending"]["byWorkload"].values()),
        "preempted": len(answer["preempted"]),
        "violatedPDBs": len({*pdbs["violatedByPreemption"], *pdbs["tooFewHealthy"]}),
        "settledAt": answer["settledAt"],
        "settled": answer["settled"],
    }


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("seed", range(cases(4)))
def test_each_row_is_what_its_question_comes_to(
    kind: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = cluster_of(seed)
    cluster = written(tmp_path, objects)
    zones = [o["metadata"]["labels"]["topology.kubernetes.io/zone"] for o in objects if o["kind"] == "Node"]
    sweep = asked(capsys, *SWEEPS[kind], "--cluster", cluster)
    assert {row["case"].partition(" ")[0] for row in sweep["rows"]} == {kind}
    for row in sweep["rows"]:
        what, name = row["case"].split(" ")
        answer = asked(capsys, *SINGLE[kind], name, "--cluster", cluster)
        nodes = {"node": 1, "zone": zones.count(name)}[what]
        lost = {
            each["workload"].rpartition(" ")[2]: each["priority"]
            for each in answer["workloads"]
            if each["running"]["before"] - each["running"]["after"] > nodes * (each["workload"] == "default/agent")
        }
        names = [name.rpartition(" ")[2] for name in row.get("workloads", ())]
        assert {*names} == lost.keys()
        assert [lost[name] for name in names] == sorted(lost.values(), reverse=True)
        assert row.get("priority") == max(lost.values(), default=None)
        budgets = answer["pdbs"]
        unhealthy = sorted(budgets["tooFewHealthy"].keys() - budgets["violatedByPreemption"])
        assert row.get("unhealthyPDBs", []) == unhealthy
        assert row.get("interruptions") == answer.get("interruptions")
        of_names = {"case", "workloads", "victims", "causes", "unhealthyPDBs", "priority", "interruptions"}
        of_names |= {"rivals", "equalVictims"}
        assert {k: value for k, value in row.items() if k not in of_names} == row_of(answer, nodes), name
        assert all(row.get(key) == answer.get(key) for key in ("rivals", "equalVictims")), name
        victims = {each["victim"]["workload"].rpartition(" ")[2] for each in answer["preempted"]}
        assert {name.rpartition(" ")[2] for name in row.get("victims", ())} == victims
        assert sweep["before"]["running"] == answer["running"]["before"]
        assert ("withoutChange" in sweep) is ("withoutChange" in answer)
        if "withoutChange" in sweep:
            assert sweep["withoutChange"]["preempted"] == answer["withoutChange"]["preempted"]


@pytest.mark.parametrize("cpu", ["100m", "3500m"], ids=["room beside it", "room in its place"])
def test_a_daemons_pod_goes_with_its_node_and_is_missed_where_another_takes_its_place(
    cpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four commands that tell of the same loss, and end alike."""
    nodes = [make_node(name).has(cpu="4", memory="8Gi", pods="10").obj for name in ("n0", "n1")]
    agents = daemons(["n0", "n1"])
    for agent in (agents[0]["spec"]["template"], *agents[1:]):
        agent["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "600m"}}
    taken = cpu == "3500m"
    cluster = written(tmp_path, [*nodes, *classes()[2:], *agents, *by_name("web", 1, cpu, "high", "n0")])
    promise = tmp_path / "promise.json"
    promise.write_text(json.dumps([{"name": "all run", "when": {"lost": {"node": "any"}}, "expect": {"run": {}}}]))
    for arguments in (
        ("whatif", "lose", "node", "n0", "--fail-on", "fewer"),
        ("whatif", "lose", "--each", "node", "--fail-on", "fewer"),
        ("risk", "--fail-on", "loss"),
        ("test", str(promise)),
    ):
        assert run(capsys, *arguments, "--cluster", cluster)[0] == taken, arguments
    assert [row["fewer"] for row in asked(capsys, "lose", "--each", "node", "--cluster", cluster)["rows"]] == [
        int(taken),
        0,
    ]


def test_what_controllers_do_anyway_is_told_apart_from_the_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No pod waits, but one of a ReplicaSet is missing, and pushes another out as soon as it is made."""
    nodes = [make_node(name).has(cpu="4", memory="8Gi", pods="10").obj for name in ("n0", "n1", "empty")]
    nodes[2]["spec"] = {"unschedulable": True}
    (low, *low_pods), (web, *web_pods) = (
        by_name("low", 1, "3", "low", "n0")[1:],
        by_name("web", 1, "3", "high", "n1")[1:],
    )
    web["spec"] = web["spec"] | {"replicas": 2}
    cluster = written(tmp_path, [*nodes, *classes(), low, *low_pods, web, *web_pods])
    anyway = {"preempted": 1, "pending": {"default/low": 1}}
    answer = asked(capsys, "lose", "node", "empty", "--cluster", cluster)
    assert {key: answer["withoutChange"][key] for key in anyway} == anyway
    assert (len(answer["preempted"]), answer["pending"]["byWorkload"]) == (1, anyway["pending"])
    sweep = asked(capsys, "lose", "--each", "node", "--cluster", cluster)
    assert (sweep["withoutChange"]["preempted"], sweep["withoutChange"]["pending"]) == (1, 1)


def test_so_are_pods_that_are_too_many_and_those_that_a_taint_ends_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ReplicaSet of one has two pods; the other's have five minutes on a node that is not ready."""
    nodes = [make_node(name).has(cpu="4", memory="8Gi", pods="10").obj for name in ("n0", "n1", "empty")]
    for node, effect in ((nodes[1], "NoExecute"), (nodes[2], "NoSchedule")):
        node["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": effect}]}
    (many, *pods), (web, *web_pods) = by_name("many", 2, "1", "low", "n0")[1:], by_name("web", 1, "3", "high", "n1")[1:]
    many["spec"] = many["spec"] | {"replicas": 1}
    for pod in (web["spec"]["template"], *web_pods):
        stays = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}
        pod["spec"] = pod["spec"] | {"tolerations": [{**stays, "effect": "NoExecute"}]}
    cluster = written(tmp_path, [*nodes, *classes(), many, *pods, web, *web_pods])
    without = asked(capsys, "lose", "node", "empty", "--cluster", cluster)["withoutChange"]
    sweep = asked(capsys, "lose", "--each", "node", "--cluster", cluster)["withoutChange"]
    assert without["fewer"] == sweep["fewer"] > 0
    assert (without["preempted"], sum(without["pending"].values())) == (sweep["preempted"], sweep["pending"])
    assert "replica lost" in run(capsys, "whatif", "lose", "node", "empty", "--cluster", cluster)[1]


def test_every_node_and_zone_is_asked_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = written(tmp_path, [*cluster_of(1), make_node("of-no-zone").obj])
    nodes = {row["case"] for row in asked(capsys, "lose", "--each", "node", "--cluster", cluster)["rows"]}
    assert "node of-no-zone" in nodes
    assert {row["case"] for row in asked(capsys, "lose", "--each", "zone", "--cluster", cluster)["rows"]} == {
        "zone a",
        "zone b",
    }


def no_fork() -> int:
    raise BlockingIOError("no more processes")


@pytest.mark.parametrize("kind", SINGLE)
def test_where_nothing_can_be_forked_all_is_the_same(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = written(tmp_path, cluster_of(7))
    forked = asked(capsys, *SWEEPS[kind], "--cluster", cluster)
    monkeypatch.setattr(os, "fork", no_fork)
    assert asked(capsys, *SWEEPS[kind], "--cluster", cluster) == forked


def rows(count: int, fewer: int = 0, pending: int = 0, preempted: int = 0, pdbs: int = 0) -> list[Row]:
    return [Row(f"node n{number}", fewer, pending, preempted, pdbs, 1.0, True) for number in range(count)]


def test_the_worst_comes_first() -> None:
    found = worst_first([*rows(1, preempted=9), *rows(1, pdbs=1), *rows(1, pending=1), *rows(1, fewer=1)])
    assert [row[1:5] for row in found] == [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), (0, 0, 9, 0)]
    by_priority = [row._replace(priority=-5 if row.fewer > 1 else 10) for row in (*rows(1, fewer=1), *rows(1, fewer=3))]
    assert [row.fewer for row in worst_first([*rows(1, pending=9), *by_priority])] == [1, 3, 0]
    late = [Row("node a", 0, 0, 0, 0, 5.0, True), Row("node b", 0, 0, 0, 0, 3600.0, False)]
    assert [row.case for row in worst_first(late)] == ["node b", "node a"]


def test_the_verdict_names_cases_that_are_as_bad_as_the_worst() -> None:
    found = Sweep(HEAD, "node", RunningAndPending(9, 0), worst_first([*rows(3, fewer=1), *rows(1, fewer=1, pending=1)]))
    assert "; worst: node n0: 1 replica lost" in verdict(found, list(found.rows))
    found = Sweep(HEAD, "node", RunningAndPending(9, 0), worst_first(rows(9, fewer=1)))
    assert "; worst: node n0 (equal: n1, n2, n3 and 5 more): 1 replica lost" in verdict(found, list(found.rows))


def test_what_lasts_comes_before_what_ends() -> None:
    outage = Interruption("x/a", 0, 1, 2, 0, 60, 60, 1, 60, 1, 60)
    worst = rows(1, fewer=1, pdbs=2)[0]._replace(interruptions=[outage], unhealthy_pdbs=["x/b"])
    found = Sweep(HEAD, "node", RunningAndPending(9, 0), [worst])
    effects = (
        "1 replica lost, PDB x/b with too few healthy Pods, 1 of 2 replicas of x/a down for 1 min, and 1 more effect"
    )
    assert verdict(found, [worst]).endswith(f": {effects}")


def test_a_text_tells_so_many_and_of_the_others_how_many() -> None:
    sweep = Sweep(HEAD, "node", RunningAndPending(9, 0), [*rows(MAX_ROWS + 5, fewer=1), *rows(70)])
    lines = list(render(sweep))
    assert sum(line.startswith("  node n") for line in lines) == MAX_ROWS
    assert lines[-2:] == [
        "  and 5 more; use -o json for all",
        "  70 others: no Pods lost, Pending or preempted",
    ]
    assert markdown(sweep).count("| node n") == MAX_ROWS
    waited = Sweep(HEAD, "node", RunningAndPending(9, 2), rows(3, pending=2))
    said = "no Pods lost or preempted, no more Pending Pods than before"
    assert list(render(waited))[-1] == f"  3 cases: {said}"
    assert markdown(waited).endswith(f"3 cases: {said}.\n")
    assert list(render(Sweep(HEAD, "node", RunningAndPending(9, 0), rows(1))))[-1].startswith("  1 case: no Pods")


def test_hostile_names_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [make_node(f"n{name}").label("topology.kubernetes.io/zone", name).obj for name in HOSTILE]
    cluster = written(tmp_path, objects)
    for kind in ("node", "zone"):
        _, page, _ = run(capsys, "whatif", *SWEEPS[kind], "--cluster", cluster, "-o", "html")
        read = check_alone(page)
        assert sum(name == "script" for name, _ in read.tags) == 1
        assert any("<script>" in text for tag, text in read.texts if tag == "th")
        for form in ("text", "markdown"):
            _, out, _ = run(capsys, "whatif", *SWEEPS[kind], "--cluster", cluster, "-o", form)
            assert out.isascii() or out.replace("…", "").isprintable() or "\x1b" not in out
            assert "\x1b" not in out
            assert "\u202e" not in out
            assert form == "text" or "<img" not in out


@pytest.mark.parametrize(
    ("happening", "kind", "status"),
    [
        ("fewer", "node", 1),
        ("preemption", "node", 1),
        ("pdb", "node", 0),
        ("pending", "zone", 1),
    ],
)
def test_fail_on_looks_at_every_row(happening: str, kind: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    found, _, err = run(capsys, "whatif", *SWEEPS[kind], "--cluster", SHOWN, "--fail-on", happening)
    assert (found, err) == (status, f"forewarn: fails on {happening} (--fail-on)\n" if status else "")


def test_a_cluster_without_zones_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = written(tmp_path, [make_node("a").obj])
    status, _, err = run(capsys, "whatif", "lose", "--each", "zone", "--cluster", cluster)
    fix = "Fix: lose nodes or a pool, or label the nodes with topology.kubernetes.io/zone"
    assert (status, err) == (3, f"forewarn whatif: the cluster has no zones. {fix}\n")


# Parts


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        (None, {}, None),
        ("0/4", {}, Shard(0, 4)),
        ("3/4", {INDEX: "1", COMPLETIONS: "9"}, Shard(3, 4)),
        (None, {INDEX: "1", COMPLETIONS: "9"}, Shard(1, 9)),
        (None, {COMPLETIONS: "9"}, None),
        ("/4", {INDEX: "2"}, Shard(2, 4)),
        ("0/1", {INDEX: "2"}, None),
        (None, {INDEX: "0", COMPLETIONS: "1"}, Shard(0, 1)),
    ],
)
def test_which_part(given: str | None, environment: dict[str, str], expected: Shard | None) -> None:
    assert shard_of(given, environment) == expected


@pytest.mark.parametrize(
    ("given", "environment", "said"),
    [
        ("4", {}, "write I/N"),
        ("4/4", {}, "part 4 of 4: must be between 0 and 3"),
        ("/4", {}, "JOB_COMPLETION_INDEX is not set"),
        ("-1/4", {}, "must be a whole number"),
        ("1/0", {}, "between 1 and"),
        ("1/٤", {}, "must be a whole number"),
        ("1/9999999999", {}, "must be a whole number"),
        (None, {INDEX: "1"}, "is set without the number of parts"),
        (None, {INDEX: "x", COMPLETIONS: "2"}, "must be a whole number"),
    ],
)
def test_what_is_no_part_is_said(given: str | None, environment: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        shard_of(given, environment)


def test_each_question_is_in_one_part() -> None:
    for count in (1, 2, 3, 7, 20):
        parts = [Shard(index, count).part_of(range(11)) for index in range(count)]
        assert sorted(number for part in parts for number in part) == list(range(11))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


EXPECTATIONS = "docs/examples/test/expectations.yaml"
COMMANDS = {
    **{name: ("whatif", *words) for name, words in SWEEPS.items()},
    "test": ("test", EXPECTATIONS),
}


def parts_of(path: Path, name: str, count: int, cluster: str = SHOWN, *more: str) -> list[str]:
    """The parts of a run, each written as a Pod of an Indexed Job has it."""
    found = []
    for index in range(count):
        file = path / f"{name}-{index}.json"
        environment = {**os.environ, INDEX: str(index), COMPLETIONS: str(count)}
        done = forewarn(*COMMANDS[name], "--cluster", cluster, "-o", f"json={file}", *more, environment=environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        found.append(str(file))
    return found


def with_a_lost_pod(path: Path) -> Path:
    """The cluster of the demo, and a pod whose workload is not in the dump: that makes a note."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "lost", "controller": True}
    lost = make_pod("lost-1").on("node-a").metadata(ownerReferences=[owner]).obj
    found = path / "cluster.yaml"
    found.write_text(f"{Path('webhook/sample/cluster.yaml').read_text()}\n---\n{json.dumps(lost)}\n")
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_parts_put_together_are_the_whole(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = str(with_a_lost_pod(tmp_path_factory.mktemp("cluster"))) if name == "node" else SHOWN
    parts = parts_of(tmp_path, name, 3, cluster)
    forms = ("text", "json", "junit") if name == "test" else ("text", "json", "markdown", "html")
    for form in forms:
        whole = run(capsys, *COMMANDS[name], "--cluster", cluster, "-o", form)
        assert name != "node" or "1 Pod is not replaced" in whole[1]
        assert run(capsys, "whatif", "merge", *reversed(parts), "-o", form) == whole
    assert run(capsys, "whatif", "merge", str(tmp_path)) == run(capsys, *COMMANDS[name], "--cluster", cluster)
    assert {path.name for path in tmp_path.iterdir()} == {Path(part).name for part in parts}


def test_there_may_be_more_parts_than_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = parts_of(tmp_path, "zone", 4)
    assert run(capsys, "whatif", "merge", *parts) == run(capsys, "whatif", "lose", "--each", "zone", "--cluster", SHOWN)


def test_fail_on_is_asked_of_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = parts_of(tmp_path, "node", 2)
    assert run(capsys, "whatif", "merge", *parts, "--fail-on", "preemption")[0] == 1
    assert run(capsys, "whatif", "merge", *parts, "--fail-on", "pdb")[0] == 0


def test_what_is_not_all_of_one_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rejected(*files: str) -> str:
        status, out, err = run(capsys, "whatif", "merge", *files)
        assert (status, out) == (3, "")
        return err.replace(f"{tmp_path}/", "")

    def changed(name: str, **told: Any) -> str:
        value = json.loads(Path(nodes[1]).read_text())
        (tmp_path / name).write_text(json.dumps({**value, "shard": {**value["shard"], **told}}))
        return str(tmp_path / name)

    nodes, zones = parts_of(tmp_path, "node", 2), parts_of(tmp_path, "zone", 2)
    fix = "pass all files of the run; --shard 1/2 writes part 1"
    assert rejected(nodes[0]) == f"forewarn whatif merge: node-0.json: one of 2 parts; part 1 missing. Fix: {fix}\n"
    assert "node-0.json: part 0 is duplicated" in rejected(nodes[0], nodes[1], nodes[0])
    assert 'command was "each node" there, and is "each zone" here' in rejected(nodes[0], zones[1])
    assert "one of 2 parts, and this one of 3" in rejected(nodes[0], changed("count.json", count=3))
    assert "another state of the cluster" in rejected(nodes[0], changed("cluster.json", cluster="x"))
    assert "of 4 cases, and this one of 5" in rejected(nodes[0], changed("of.json", of=5))
    few = rejected(changed("1.json", of=8), changed("0.json", index=0, of=8))
    assert few == "forewarn whatif merge: 0.json: it does not have the 4 rows that part 0 has\n"
    twice = rejected(changed("0.json", index=0), nodes[1])
    assert twice.startswith("forewarn whatif merge: node-1.json: node ")
    assert twice.endswith(": also in another part\n")
    before = json.loads(Path(nodes[1]).read_text()) | {"before": {"running": 7, "pending": 0}}
    Path(nodes[1]).write_text(json.dumps(before))
    assert "differs from node-0.json about the cluster before" in rejected(*nodes)
    (tmp_path / "first.json").write_text(Path(nodes[0]).read_text())
    later = parts_of(tmp_path, "node", 2, SHOWN, "--until", "30m")
    assert "until was 3600.0 there, and is 1800.0 here" in rejected(str(tmp_path / "first.json"), later[1])
    (tmp_path / "config.yaml").write_text("placeholderPods: {matchLabels: {app: web}}")
    other = parts_of(tmp_path, "node", 2, SHOWN, "--config", str(tmp_path / "config.yaml"))
    assert "is from another run: configuration was" in rejected(str(tmp_path / "first.json"), other[1])


SHARD = '"shard": {"index": 0, "count": 1, "of": 1, "cluster": "", "asked"'
TEST = f'{{{SHARD}: {{"command": "test"}}}}, '
SWEEP = f'{{{SHARD}: {{}}}}, "version": 1, "sweep": "node", '


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "3",
        '{"shard": 3}',
        '{"shard": {}}',
        "[" * 100_000,
        '{"shard": {"index": -1}}',
        '{"shard": {"index": 0, "count": 1, "of": 1, "cluster": "", "asked": {}}}',
        TEST + '"expectations": [3]}',
        TEST + '"expectations": [{"name": "x", "cases": 1, "met": true, "failures": ["x"]}]}',
        '{"shard": {"index": 0, "count": 1, "of": 0, "cluster": "", "asked": {}}, "rows": []}',
        SWEEP + '"before": {"running": 1, "pending": -1}, "rows": [{}]}',
        SWEEP + '"before": {"running": 1, "pending": 0}, "rows": [{"case": "node a"}]}',
        '{"shard": {"index": 0, "count": 1e3, "of": true, "cluster": "", "asked": {}}}',
    ],
)
def test_a_file_that_forewarn_did_not_write_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "part.json").write_text(text)
    (tmp_path / "lost+found").mkdir()
    status, out, err = run(capsys, "whatif", "merge", str(tmp_path / "part.json"))
    assert (status, out) == (3, "")
    assert "part.json" in err
    assert "internal error" not in err
    assert run(capsys, "whatif", "merge", str(tmp_path)) == (status, out, err), "and nothing else of the directory"
    assert "no .json files found" in run(capsys, "whatif", "merge", str(tmp_path / "lost+found"))[2]


def test_what_is_told_can_be_read_again() -> None:
    sweep = Sweep(
        HEAD, "zone", RunningAndPending(9, 1), rows(3, fewer=2), Row("nothing", 0, 1, 0, 0, 0.0, True), ["so"]
    )
    assert from_dict(json.loads(json.dumps(sweep.to_dict())), HEAD) == sweep


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"placeholders": {"fewer": 3, "pending": 0, "preempted": 0}}, "more placeholder Pods than Pods"),
        ({"nodeGroups": {"nodes": {}, "noScaleUp": 0, "truncated": False, "backAt": 5}}, "need fewer and pending"),
    ],
)
def test_a_row_that_contradicts_itself_is_rejected(wrong: dict[str, Any], problem: str) -> None:
    document = json.loads(json.dumps(Sweep(HEAD, "zone", RunningAndPending(9, 1), rows(3, fewer=2)).to_dict()))
    document["rows"][0] |= wrong
    with pytest.raises(ValueError, match=problem):
        from_dict(document, HEAD)


@pytest.mark.parametrize(
    ("image", "config"),
    [("registry.k8s.io/pause:3.10", "{}"), ("reserve:1", "placeholderPods: {matchLabels: {app: reserve}}")],
)
def test_placeholder_pods_are_counted_apart(
    image: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node(name).has(cpu="4", memory="8Gi", pods="10").obj for name in ("n1", "n2")]
    pause = make_pod("pause").priority(-5).request(cpu="3").labels(app="reserve").on("n1")
    pause.obj["spec"]["containers"][0]["image"] = image
    (tmp_path / "config.yaml").write_text(config)
    cluster = written(tmp_path, [*nodes, pause.obj, *by_name("web", 1, "3", "", "n2")[1:]])
    down = "1 replica of default/web down for 1 min 35 s"
    for change, first in (
        (("--each", "node"), f"1 of 2 nodes does harm if lost; worst: node n2: {down}, 1 placeholder Pod preempted"),
        (("node", "n1"), "only 1 placeholder Pod lost: loss of node n1 with 1 Pod"),
        (
            ("node", "n2"),
            f"{down}, 1 placeholder Pod preempted: loss of node n2 with 1 Pod",
        ),
    ):
        _, out, _ = run(capsys, "whatif", "lose", *change, "--cluster", cluster, "-c", str(tmp_path / "config.yaml"))
        assert out.partition("\n")[0] == first


def test_a_part_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "whatif", "lose", "--each", "node", "--cluster", SHOWN, "--shard", "0/2", "-o", "text")
    assert status == 2
    assert "-o text: a part is written as json, which `forewarn whatif merge` reads" in err
    status, _, err = run(capsys, "whatif", "lose", "--each", "node", "--cluster", SHOWN, "-o", "pdf")
    assert status == 2
    assert "-o pdf: unknown format; known: text, json, markdown, html" in err


def test_what_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "not-there" / "x.json"
    status, _, err = run(capsys, "whatif", "lose", "--each", "zone", "--cluster", SHOWN, "-o", f"json={file}")
    assert (status, err) == (3, f"forewarn whatif: {file}: no such file or directory. Fix: create its directory\n")


GROUPS = "docs/examples/whatif/node-groups.yaml"


@pytest.mark.parametrize("seed", range(cases(2)))
@pytest.mark.parametrize("kind", ["node", "zone"])
def test_the_nodes_needed_are_those_of_the_question_alone(
    kind: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = written(tmp_path, cluster_of(seed))
    swept = asked(capsys, *SWEEPS[kind], "--cluster", cluster, "--node-templates", GROUPS)
    for row in swept["rows"]:
        single = asked(capsys, *SINGLE[kind], row["case"].split()[1], "--cluster", cluster, "--node-templates", GROUPS)
        plan, nodes = single["autoscalers"].get("nodeGroups", {}), dict[str, int]()
        for each in plan.get("scaleUps", ()):
            nodes[each["group"]] = nodes.get(each["group"], 0) + each["nodes"]
        left = sum(each["pods"] for each in plan.get("noScaleUp", ()))
        needs, arrived = row["nodeGroups"], single.get("withNewNodes")
        assert (needs["nodes"], needs["noScaleUp"], needs["truncated"]) == (nodes, left, False)
        assert needs.get("pending") == (arrived["pending"] if arrived else None)
        assert needs.get("fewer") == (arrived["fewer"] if arrived else None)
    if (kind, seed) == ("zone", 0):
        assert any(row["nodeGroups"]["nodes"] for row in swept["rows"])


def test_parts_with_node_groups_are_the_whole_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("whatif", "lose", "--each", "zone", "--cluster", SHOWN, "--node-templates", GROUPS)
    parts = [str(tmp_path / f"{number}.json") for number in range(2)]
    for number, part in enumerate(parts):
        assert run(capsys, *command, "--shard", f"{number}/2", "-o", f"json={part}") == (0, "", "")
    for form in ("text", "json", "markdown", "html"):
        whole = run(capsys, *command, "-o", form)
        assert run(capsys, "whatif", "merge", *parts, "-o", form) == whole, form
        assert "spot" in whole[1], form
    other = str(tmp_path / "1.json")
    assert run(capsys, *command[:6], "--shard", "1/2", "-o", f"json={other}")[0] == 0
    status, out, err = run(capsys, "whatif", "merge", parts[0], other)
    assert (status, out) == (3, "")
    assert "node templates was" in err


def test_of_equal_cases_one_that_new_nodes_do_not_help_is_worse() -> None:
    helped = Row("zone a", 2, 2, 0, 0, 1.0, True, Needs({"spot": 1}, 0, False, 0, 0, 200.0))
    others = [Row(f"zone {name}", lost, 2, 0, 0, 1.0, True, Needs({}, 2)) for name, lost in (("b", 2), ("c", 1))]
    rows = sorted([helped, *others], key=lambda row: tuple(row.harm))
    assert [row.name for row in rows] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("needs", "is_told"), [(Needs({}, 5), True), (Needs({}, 5, True), False), (Needs({"spot": 2}, 3), False)]
)
def test_the_first_line_names_a_worst_case_without_new_nodes(needs: Needs, *, is_told: bool) -> None:
    rows = [Row("node a", 5, 5, 0, 0, 1.0, True, needs), Row("node b", 1, 1, 0, 0, 1.0, True, Needs({"spot": 1}, 0))]
    first = next(render(Sweep(HEAD, "node", RunningAndPending(9, 0), rows)))
    assert first.endswith("; no new nodes help") == is_told


def test_what_no_group_helps_and_what_is_not_worked_out_is_told() -> None:
    row = Row("node a", 5, 5, 0, 0, 1.0, True, node_groups=Needs({"spot": 2, "gpu": 1}, 3, True))
    sweep = Sweep(HEAD, "node", RunningAndPending(9, 0), [row])
    assert "2 of spot, 1 of gpu; none for 3 Pods; estimate incomplete" in "\n".join(render(sweep))
    assert sweep.to_dict()["rows"][0]["nodeGroups"] == {
        "nodes": {"spot": 2, "gpu": 1},
        "noScaleUp": 3,
        "truncated": True,
    }
    assert from_dict(sweep.to_dict(), HEAD).rows == [row]


def test_counts_with_new_nodes_name_placeholder_pods() -> None:
    needs = Needs({"g": 1}, 1, False, fewer=1, pending=1, back_at=255.0)
    row = Row("zone b", 2, 2, 1, 0, 95.0, True, needs, PlaceholderPods(1, 1, 1), ["default/web"])
    first = next(render(Sweep(HEAD, "zone", RunningAndPending(3, 0), [row])))
    assert first.endswith("; with new nodes 1 fewer, 1 Pending (with placeholder Pods) after 4 min 15 s")


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        (PlaceholderPods(fewer=0, pending=0, preempted=2), "2 placeholder Pods preempted"),
        (PlaceholderPods(fewer=1, pending=1, preempted=2), "2 placeholder Pods preempted (1 Pending at the end)"),
        (PlaceholderPods(fewer=1, pending=0, preempted=0), "1 placeholder Pod lost"),
    ],
)
def test_the_first_line_tells_preempted_from_lost_placeholder_pods(pods: PlaceholderPods, told: str) -> None:
    row = Row("node a", 3, 2, 3, 0, 1.0, True, placeholders=pods, workloads=["default/web"])
    first = next(render(Sweep(HEAD, "node", RunningAndPending(9, 2), [row])))
    assert first.endswith(f", {told}")


def test_every_field_of_a_row_is_read_again() -> None:
    """The values are not the defaults, so that a field that `merge` drops makes a difference."""
    needs = Needs({"spot": 2}, 3, True, fewer=1, pending=2, back_at=9.5)
    row = Row(
        "node a",
        5,
        4,
        3,
        2,
        1.5,
        False,
        needs,
        PlaceholderPods(1, 0, 1),
        ["team/a"],
        ["team/b"],
        Causes(1, 2, 3, 4),
        2,
        ["team/b"],
        -7,
        [Interruption("team/c", 100, 1, 2, 0, 60, 60, 1, 60, 1, 60)],
        ["team/d"],
        ["team/e"],
    )
    for part in (needs, row):
        assert all(getattr(part, name) != default for name, default in part._field_defaults.items())
    sweep = Sweep(HEAD, "node", RunningAndPending(9, 1), [row], row)
    again = from_dict(json.loads(json.dumps(sweep.to_dict())), HEAD)
    assert (again.rows, again.without_change) == ([row], row)


def test_a_command_that_knows_no_node_groups_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("test", "docs/examples/test/expectations.yaml")
    status, out, err = run(capsys, *command, "--cluster", SHOWN, "--node-templates", GROUPS)
    assert (status, out) == (2, "")
    assert "--node-templates: " in err
    assert "use `forewarn whatif" in err


def test_pods_of_another_scheduler_are_not_pending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(SHOWN).read_text()
    template = "      spec:\n        priorityClassName: batch\n"
    assert template in text
    (tmp_path / "cluster.yaml").write_text(text.replace(template, f"{template}        schedulerName: volcano\n"))
    answer = asked(capsys, "lose", "--each", "zone", "--cluster", str(tmp_path / "cluster.yaml"))
    assert {(row["fewer"], row["pending"]) for row in answer["rows"]} == {(0, 0)}
    assert answer["notes"] == ['not simulated: new Pods of reports/nightly for another scheduler, "volcano"']


def test_long_outages_meet_fail_on_fewer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replacement waits for the grace period of a placeholder Pod, which is longer than 5 minutes."""

    def pods(name: str, node: str, cpu: str, **spec: Any) -> list[Made]:
        pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}
        template = {"metadata": {"labels": {"app": name}}, "spec": pod}
        selector = {"matchLabels": {"app": name}}
        made = Made("apps/v1", "Deployment", name, "default").spec(replicas=1, selector=selector, template=template)
        return [made, make_pod(f"{name}-1").labels(app=name).on(node).spec(**pod)]

    cheap = {"priority": -10, "priorityClassName": "cheap", "terminationGracePeriodSeconds": 600}
    nodes = [make_node(name).has(cpu="4") for name in ("n1", "n2")]
    made = [make_priority_class(-10, "cheap"), *nodes, *pods("web", "n1", "2"), *pods("slow", "n2", "4", **cheap)]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [each.obj for each in made]}))
    for which in (["node", "n1"], ["--each", "node"]):
        assert main(["whatif", "lose", *which, "--cluster", str(cluster), "--fail-on", "fewer"]) == 1
        assert "1 replica of default/web down for " in capsys.readouterr().out
