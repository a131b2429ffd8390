"""`forewarn whatif --each`: each row is what the question alone comes to; parts put together are the whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from forewarn.policies.base.documents.answer import Effects
from forewarn.policies.cli.commands.shards import COMPLETIONS, INDEX, Shard, shard_of
from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.cache import Cache, head_of
from forewarn.policies.questions.whatif.interruptions import Interruption
from forewarn.policies.questions.whatif.sweep import Needs, Row, Sweep, from_dict, worst_first
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import captured as run
from tests.in_process import forewarn
from tests.policies.commands.test_whatif_command import random_cluster
from tests.policies.test_html import HOSTILE, check_alone

HEAD = head_of(Cache().snapshot())
SHOWN = "docs/examples/whatif/cluster.yaml"
SINGLE = {"node": ("lose", "node"), "zone": ("lose", "zone")}
SWEEPS = {"node": ("lose", "--each", "node"), "zone": ("lose", "--each", "zone")}


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


def assert_in_ranges(counters: Mapping[str, int], answer: Mapping[str, Any]) -> None:
    """The counters of one run are those of the answer, or in the ranges of its runs."""
    ranges = answer["typicalOf"]["counters"] if "typicalOf" in answer else {}
    for name in counters.keys() - {"downSeconds"}:
        counts = ranges.get(name, {"least": answer["counters"][name], "most": answer["counters"][name]})
        assert counts["least"] <= counters[name] <= counts["most"], name


@pytest.mark.forks
@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("seed", range(cases(4)))
def test_each_row_is_what_its_question_comes_to(
    kind: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = cluster_of(seed)
    cluster = written(tmp_path, objects)
    zones = [o["metadata"]["labels"]["topology.kubernetes.io/zone"] for o in objects if o["kind"] == "Node"]
    sweep = asked(capsys, *SWEEPS[kind], "--cluster", cluster)
    assert {row["case"].partition(" ")[0] for row in sweep["cases"]} == {kind}
    for row in sweep["cases"]:
        what, name = row["case"].split(" ")
        answer = asked(capsys, *SINGLE[kind], name, "--cluster", cluster)
        if "typicalOf" in answer:  # several runs, of which a row has one
            assert_in_ranges(row["counters"], answer)
            continue
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
        assert row["counters"] == answer["counters"], name
        same = ("steady", "interruptions", "rivals", "equalVictims")
        assert all(row.get(key) == answer.get(key) for key in same), name
        victims = {each["victim"]["workload"].rpartition(" ")[2] for each in answer["preempted"]}
        assert {name.rpartition(" ")[2] for name in row.get("victims", ())} == victims
        assert sweep["running"] == answer["running"]["before"]
        assert ("withoutChange" in sweep) is ("withoutChange" in answer)
        if "withoutChange" in sweep:
            assert sweep["withoutChange"]["counters"]["preempted"] == answer["withoutChange"]["preempted"]


@pytest.mark.parametrize("cpu", ["100m", "3500m"], ids=["room beside it", "room in its place"])
def test_a_daemons_pod_goes_with_its_node_and_is_lost_where_another_takes_its_place(
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
        ("whatif", "lose", "node", "n0", "--fail-on", "lost"),
        ("whatif", "lose", "--each", "node", "--fail-on", "lost"),
        ("risk", "--fail-on", "loss"),
        ("test", str(promise)),
    ):
        assert run(capsys, *arguments, "--cluster", cluster)[0] == taken, arguments
    every = asked(capsys, "lose", "--each", "node", "--cluster", cluster)["cases"]
    assert [row["counters"]["lost"] for row in every] == [int(taken), 0]


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
    counters = sweep["withoutChange"]["counters"]
    assert (counters["preempted"], counters["pending"]) == (1, 1)


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
    alone = asked(capsys, "lose", "--each", "node", "--cluster", cluster)["withoutChange"]["counters"]
    assert without["lost"] == alone["lost"] > 0
    assert (without["preempted"], sum(without["pending"].values())) == (alone["preempted"], alone["pending"])
    assert "1 replica lost" in run(capsys, "whatif", "lose", "node", "empty", "--cluster", cluster)[1]


def test_every_node_and_zone_is_asked_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = written(tmp_path, [*cluster_of(1), make_node("of-no-zone").obj])
    nodes = {row["case"] for row in asked(capsys, "lose", "--each", "node", "--cluster", cluster)["cases"]}
    assert "node of-no-zone" in nodes
    assert {row["case"] for row in asked(capsys, "lose", "--each", "zone", "--cluster", cluster)["cases"]} == {
        "zone a",
        "zone b",
    }


def no_fork() -> int:
    raise BlockingIOError("no more processes")


@pytest.mark.forks
@pytest.mark.parametrize("kind", SINGLE)
def test_where_nothing_can_be_forked_all_is_the_same(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = written(tmp_path, cluster_of(7))
    forked = asked(capsys, *SWEEPS[kind], "--cluster", cluster)
    monkeypatch.setattr(os, "fork", no_fork)
    assert asked(capsys, *SWEEPS[kind], "--cluster", cluster) == forked


def rows(count: int, **counters: int) -> list[Row]:
    return [Row(f"node n{number}", Effects(**counters), True) for number in range(count)]


def swept(*found: Row, without_change: Row | None = None, kind: str = "node") -> Sweep:
    return Sweep(HEAD, kind, 9, found, without_change)


def test_the_worst_comes_first() -> None:
    found = worst_first([*rows(1, preempted=9), *rows(1, pdbs_violated=1), *rows(1, pending=1), *rows(1, lost=1)])
    counters = [row.counters for row in found]
    assert counters == [Effects(lost=1), Effects(preempted=9), Effects(pending=1), Effects(pdbs_violated=1)]
    both = (*rows(1, lost=1), *rows(1, lost=3))
    by_priority = [row._replace(priority=-5 if row.counters.lost > 1 else 10) for row in both]
    assert [row.counters.lost for row in worst_first([*rows(1, pending=9), *by_priority])] == [1, 3, 0]
    late = [Row("node a", Effects(), True), Row("node b", Effects(), False)]
    assert [row.case for row in worst_first(late)] == ["node b", "node a"]


def test_the_answer_is_about_the_worst_case() -> None:
    document = swept(*worst_first([*rows(3, lost=1), *rows(1, lost=1, pending=1)]), *rows(2)).document
    assert (document.status, document.question) == ("HARM", "each of 6 nodes lost alone")
    assert document.clause == "4 do harm; worst node n0: 1 replica lost"
    assert document.counters == Effects(lost=1, pending=1)
    assert len(document.tables[0].rows) == 4


def test_many_cases_with_the_same_effects_are_one_row() -> None:
    many = [
        row._replace(case=f"node {number}", priority=7)
        for number, row in enumerate([*rows(9, lost=3), *rows(2, lost=1)])
    ]
    by_effect, each = swept(*worst_first([*many, *rows(1, preempted=4)])).document.tables
    heads = ("NODES", "WORST", "VALUE", "PREEMPTED", "LOST")
    shown = [[row[by_effect.columns.index(head)] for head in heads] for row in by_effect.rows]
    assert shown == [[11, "0", 7, 0, "1 to 3"], [1, "n0", "", 4, 0]]
    assert (by_effect.total[:2], len(each.rows), each.detail) == ([12, "total"], 12, 1)


def test_only_an_order_by_priority_value_is_explained() -> None:
    of_pods, of_replicas = rows(2, preempted=1), [row._replace(priority=7) for row in rows(2, lost=1)]
    assert [swept(*found).document.tables[0].title[:11] for found in (of_pods, of_replicas)] == ["", "WORST FIRST"]


@pytest.mark.parametrize(
    ("found", "status", "clause"),
    [
        (swept(*rows(3)), "OK", "no Pod preempted, newly Pending or lost"),
        (swept(*rows(1, placeholders=2)), "WARN", "no Pod preempted, newly Pending or lost"),
        (
            swept(*rows(2, preempted=1), without_change=rows(1, preempted=1)[0]),
            "OK",
            "no more harm than without a loss",
        ),
    ],
)
def test_cases_without_harm(found: Sweep, status: str, clause: str) -> None:
    assert (found.document.status, found.document.clause, found.document.tables) == (status, clause, [])


def test_hostile_names_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [make_node(f"n{name}").label("topology.kubernetes.io/zone", name).obj for name in HOSTILE]
    objects += [make_pod(f"p{number}").on(f"n{name}").obj for number, name in enumerate(HOSTILE)]
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
            assert form == "text" or "<img" not in out.replace("\\<img", "")


@pytest.mark.parametrize(
    ("happening", "kind", "status"),
    [("lost", "node", 1), ("preempted", "node", 1), ("pdbs-violated", "node", 0), ("pending", "zone", 1)],
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


def in_forms(capsys: pytest.CaptureFixture[str], forms: tuple[str, ...], *command: str) -> tuple[int, str, list[str]]:
    """The exit status of a command, its errors, and its answer in each format."""
    with TemporaryDirectory() as folder:
        files = [Path(folder) / form for form in forms]
        status, _, err = run(capsys, *command, *(word for file in files for word in ("-o", f"{file.name}={file}")))
        return status, err, [file.read_text() for file in files]


@pytest.mark.forks
@pytest.mark.parametrize("name", COMMANDS)
def test_parts_put_together_are_the_whole(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = str(with_a_lost_pod(tmp_path_factory.mktemp("cluster"))) if name == "node" else SHOWN
    parts = parts_of(tmp_path, name, 3, cluster)
    forms = ("text", "json", "junit") if name == "test" else ("text", "json", "markdown", "html")
    status, err, texts = in_forms(capsys, forms, *COMMANDS[name], "--cluster", cluster)
    for form, text in zip(forms, texts, strict=True):
        assert name != "node" or "1 Pod is not replaced" in text
        assert run(capsys, "whatif", "merge", *reversed(parts), "-o", form) == (status, text, err)
    assert run(capsys, "whatif", "merge", str(tmp_path)) == (status, texts[0], err)
    assert {path.name for path in tmp_path.iterdir()} == {Path(part).name for part in parts}


def test_there_may_be_more_parts_than_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = parts_of(tmp_path, "zone", 4)
    assert run(capsys, "whatif", "merge", *parts) == run(capsys, "whatif", "lose", "--each", "zone", "--cluster", SHOWN)


def test_fail_on_is_asked_of_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = parts_of(tmp_path, "node", 2)
    assert run(capsys, "whatif", "merge", *parts, "--fail-on", "preempted")[0] == 1
    assert run(capsys, "whatif", "merge", *parts, "--fail-on", "pdbs-violated")[0] == 0


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
    assert few == "forewarn whatif merge: 0.json: it does not have the 4 cases that part 0 has\n"
    twice = rejected(changed("0.json", index=0), nodes[1])
    assert twice.startswith("forewarn whatif merge: node-1.json: node ")
    assert twice.endswith(": also in another part\n")
    before = json.loads(Path(nodes[1]).read_text()) | {"running": 7}
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
SWEEP = f'{{{SHARD}: {{}}}}, "version": 2, "sweep": "node", '


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
        '{"shard": {"index": 0, "count": 1, "of": 0, "cluster": "", "asked": {}}, "cases": []}',
        SWEEP + '"running": -1, "cases": [{}]}',
        SWEEP + '"running": 1, "cases": [{"case": "node a"}]}',
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
    nothing, preempting = (Effects(), Effects(down=1, down_seconds=95, placeholders=1))
    for change, effects in ((("--each", "node"), preempting), (("node", "n1"), nothing), (("node", "n2"), preempting)):
        answer = asked(capsys, "lose", *change, "--cluster", cluster, "-c", str(tmp_path / "config.yaml"))
        assert [*answer["counters"].values()] == [*effects]


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


@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize("seed", range(cases(2)))
@pytest.mark.parametrize("kind", ["node", "zone"])
def test_the_nodes_needed_are_those_of_the_question_alone(
    kind: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = written(tmp_path, cluster_of(seed))
    every = asked(capsys, *SWEEPS[kind], "--cluster", cluster, "--node-templates", GROUPS)["cases"]
    for row in every:
        single = asked(capsys, *SINGLE[kind], row["case"].split()[1], "--cluster", cluster, "--node-templates", GROUPS)
        plan, nodes = single["autoscalers"].get("nodeGroups", {}), dict[str, int]()
        for each in plan.get("scaleUps", ()):
            nodes[each["group"]] = nodes.get(each["group"], 0) + each["nodes"]
        left = sum(each["pods"] for each in plan.get("noScaleUp", ()))
        needs, arrived = row["nodeGroups"], "withNewNodes" in single
        assert (needs["nodes"], needs["noScaleUp"], needs["truncated"]) == (nodes, left, False)
        assert ("countersWithNewNodes" in row) == arrived
        for name in ("pending", "lost", "preempted", "newNodes") if arrived else ():
            if "typicalOf" not in single:
                assert row["countersWithNewNodes"][name] == single["countersWithNewNodes"][name], name
    if (kind, seed) == ("zone", 0):
        assert any(row["nodeGroups"]["nodes"] for row in every)


def test_parts_with_node_groups_are_the_whole_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("whatif", "lose", "--each", "zone", "--cluster", SHOWN, "--node-templates", GROUPS)
    parts = [str(tmp_path / f"{number}.json") for number in range(2)]
    for number, part in enumerate(parts):
        assert run(capsys, *command, "--shard", f"{number}/2", "-o", f"json={part}") == (0, "", "")
    forms = ("text", "json", "markdown", "html")
    for form, text in zip(forms, in_forms(capsys, forms, *command)[2], strict=True):
        assert run(capsys, "whatif", "merge", *parts, "-o", form) == (0, text, ""), form
        assert "spot" in text, form
    other = str(tmp_path / "1.json")
    assert run(capsys, *command[:6], "--shard", "1/2", "-o", f"json={other}")[0] == 0
    status, out, err = run(capsys, "whatif", "merge", parts[0], other)
    assert (status, out) == (3, "")
    assert "node templates was" in err


def test_of_equal_cases_one_that_new_nodes_do_not_help_is_worse() -> None:
    two, one = Effects(lost=2, pending=2), Effects(lost=1, pending=2)
    helped = Row("zone a", two, True, Effects(new_nodes=1), Needs({"spot": 1}, 0, False, 200.0))
    others = [Row(f"zone {name}", lost, True, None, Needs({}, 2)) for name, lost in (("b", two), ("c", one))]
    assert [row.name for row in worst_first([helped, *others])] == ["b", "a", "c"]


def test_every_field_of_a_row_is_read_again() -> None:
    """The values are not the defaults, so that a field that `merge` drops makes a difference."""
    needs = Needs({"spot": 2}, 3, True, back_at=9.5)
    row = Row(
        "node a",
        Effects(*range(1, len(Effects._fields) + 1)),
        False,
        Effects(lost=1),
        needs,
        ["team/a"],
        ["team/b"],
        -7,
        {"team/f": 4},
        2,
        [Interruption("team/c", 100, 1, 2, 0, 60, 60, 1, 1, 60)],
        ["team/d"],
        ["team/e"],
        True,
    )
    for part in (needs, row):
        read = {name: default for name, default in part._field_defaults.items() if name != "lost"}  # not in JSON
        assert all(getattr(part, name) != default for name, default in read.items())
    again = from_dict(json.loads(json.dumps(swept(row, without_change=row).to_dict())), HEAD)
    assert (again.cases, again.without_change) == ([row], row)


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
    assert {(row["counters"]["lost"], row["counters"]["pending"]) for row in answer["cases"]} == {(0, 0)}
    assert answer["notes"] == ['not simulated: new Pods of reports/nightly for another scheduler, "volcano"']


def test_outages_meet_fail_on_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replacement waits for the grace period of a placeholder Pod."""

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
        assert main(["whatif", "lose", *which, "--cluster", str(cluster), "--fail-on", "down"]) == 1
        assert " | down 1" in capsys.readouterr().out
