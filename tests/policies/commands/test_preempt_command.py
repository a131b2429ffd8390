"""`forewarn predict`: one pod, a workload, a batch."""

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli import main
from forewarn.policies.cluster.cache import Cache
from forewarn.policies.sources.cluster import load_cluster as load_the_cluster
from tests.builders import Made, make_budget, make_claim, make_node, make_pod, make_priority_class
from tests.in_process import without_head

CASE = {
    "id": "one",
    "nodes": [make_node("n1").obj],
    "pods": [make_pod("old").request(cpu="4").on("n1").obj],
    "pod": make_pod("new").priority(1).request(cpu="1").obj,
}
CLUSTER = [
    make_priority_class(5),
    make_node("n1"),
    make_node("n2").taint("dedicated"),
    make_pod("old").request(cpu="4").labels(app="old").on("n1").spec(terminationGracePeriodSeconds=45),
    make_budget("keep", 0, app="old"),
    make_pod("waiting", "team").priority(7).request(cpu="2"),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_cluster(*sources: str, into: Cache | None = None) -> Cache:
        if sources != ("dump.json",):
            return load_the_cluster(*sources, into=into)
        cache = into or Cache()
        for made in CLUSTER:
            cache.add(made.obj)
        return cache

    monkeypatch.setattr("forewarn.policies.sources.cluster.load_cluster", load_cluster)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(["preempt" if "--batch" in arguments else "predict", *arguments])
    except SystemExit as exit_:
        status = int(str(exit_.code))
    out, err = capsys.readouterr()
    return status, out, err


def write(path: Path, *made: Made) -> str:
    path.write_text("\n".join(f"---\n{json.dumps(one.obj)}" for one in made))
    return str(path)


def batch(path: Path, lines: Sequence[Any]) -> str:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.jsonl.gz"])
def test_a_batch_answers_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, err = run(capsys, "--batch", batch(tmp_path / name, [CASE, "", {**CASE, "id": 2}]))
    answers = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert [a["id"] for a in answers] == ["one", 2]
    assert answers[0]["candidates"] == {"n1": {"victims": ["default/old"], "pdbViolations": 0}}
    assert answers[0]["selected"] == ["n1"]
    assert answers[0]["eligible"] is True


def test_a_batch_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress(json.dumps(CASE).encode())))

    monkeypatch.setattr("sys.stdin", Stdin)
    status, out, _ = run(capsys, "--batch", "-")
    assert (status, json.loads(out)["selected"]) == (0, ["n1"])


@pytest.mark.parametrize(
    ("line", "case_id", "error"),
    [
        ("{", None, "line 1: Expecting property name"),
        ("[]", None, "line 1: a case must be an object, not array"),
        ({"id": 7}, 7, "line 1: pod must be an object, not null"),
        ({**CASE, "nodes": 5}, "one", "line 1: nodes must be a list, not number"),
        ({**CASE, "nodes": [None]}, "one", "line 1: nodes must hold objects, not null"),
        ({**CASE, "pod": make_pod("new").request(cpu="x").obj}, "one", "Pod default/new: spec.containers[0].resources"),
    ],
)
def test_a_malformed_line_is_answered_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: Any, case_id: Any, error: str
) -> None:
    status, out, _ = run(capsys, "--batch", batch(tmp_path / "cases", [line, CASE]))
    first, second = map(json.loads, out.splitlines())
    assert status == 1
    assert first["id"] == case_id
    assert first["error"].startswith(error)
    assert second["selected"] == ["n1"]


def test_objects_of_a_batch_need_not_say_their_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {key: [{k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in value]
            for key, value in CASE.items() if isinstance(value, list)}  # fmt: skip
    _, out, _ = run(capsys, "--batch", batch(tmp_path / "cases", [{**CASE, **bare}]))
    assert json.loads(out)["selected"] == ["n1"]


@pytest.mark.parametrize(
    ("flags", "feasible"), [((), []), (("--nominated", "count"), []), (("--nominated", "ignore"), ["n1"])]
)
def test_nominated_pods_of_a_batch_count_unless_they_are_to_be_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], feasible: list[str]
) -> None:
    ahead = make_pod("ahead").priority(9).request(cpu="4").nominated("n1").obj
    path = batch(tmp_path / "cases", [{**CASE, "pods": [ahead]}])
    _, out, _ = run(capsys, "--batch", path, *flags)
    assert json.loads(out)["feasible"] == feasible


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "no Pod given. Fix: pass -f FILE or --pod"),
        (["-f", "README.md", "--pod", "b"], 2, "two Pods given. Fix: pass -f FILE"),
        (["--pod", "b", "--replicas", "2"], 2, "--replicas goes with -f"),
        (["-f", "README.md", "--replicas", "-1"], 2, "must be between 0 and"),
        (["-f", "README.md", "--replicas", "9" * 30], 2, "--replicas: must be between 0 and"),
        (["-f", "README.md", "--replicas", "two"], 2, '--replicas: must be a whole number, not "two"'),
        (["-f", "README.md"], 3, "no kubeconfig found"),
        (["--pod", "x"], 3, "no kubeconfig found"),
        (["-f", "no-such-file", "--cluster", "dump.json"], 2, "no-such-file: no such file or directory"),
        (["--pod", "team/none", "--cluster", "dump.json"], 2, "--pod team/none: Pod not found in the cluster"),
        (["--pod", "old", "--cluster", "dump.json"], 2, "--pod default/old: not Pending: it is bound to node n1"),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_wrong_usage_and_what_cannot_be_done_are_told_apart(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (status, "")
    assert message in err


@pytest.mark.usefixtures("cluster")
def test_a_pending_pod_is_told_what_it_would_cost(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--pod", "team/waiting", "--cluster", "dump.json")
    assert status == 0
    assert without_head(out) == (
        "team/waiting (priority 7): would preempt 1 Pod on n1: default/old (priority 0), 1 victim violates a PDB\n"
        "  - default/old  priority 0, started 2026-01-01 00:00\n"
        "  PDB: 1 victim violates a PDB with no disruptions allowed (default/keep)\n"
        "  wait: up to 45 seconds until the victims have terminated\n"
        "  not on the other nodes:\n"
        "    1 node: untolerated taint dedicated:NoSchedule\n"
    )
    told = json.loads(run(capsys, "--pod", "team/waiting", "--cluster", "dump.json", "-o", "json")[1])
    assert (told["violatedPDBs"], "blocked" in told) == (["default/keep"], False)


@pytest.mark.parametrize(
    ("cpu", "fail_on", "status"),
    [
        ("1", "preemption", 1),
        ("1", "pending", 0),
        ("5", "pending", 1),
        ("5", "preemption", 0),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_fail_on_sets_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cpu: str, fail_on: str, status: int
) -> None:
    path = write(tmp_path / "pod.json", make_pod("new").of_class(5).request(cpu=cpu))
    found, _, err = run(capsys, "-f", path, "--cluster", "dump.json", "--fail-on", fail_on)
    assert (found, err) == (status, f"forewarn: fails on {fail_on} (--fail-on)\n" if status else "")


def deployment(replicas: int, cpu: str) -> Made:
    template = make_pod("x").of_class(5).request(cpu=cpu).labels(app="web").obj
    selector = {"matchLabels": {"app": "web"}}
    return Made("apps/v1", "Deployment", "web", "default").spec(
        replicas=replicas, selector=selector, template={"metadata": template["metadata"], "spec": template["spec"]}
    )


@pytest.mark.usefixtures("cluster")
def test_replicas_are_placed_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "web.json", deployment(1, "2"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "--replicas", "4")
    assert out.splitlines()[0] == (
        "Deployment default/web: 4 new Pods: 1 would preempt 1 Pod on n1: default/old (priority 0), "
        "1 victim violates a PDB, 1 would wait for terminating Pods, 2 would stay Pending"
    )
    assert "  PDB: 1 victim violates a PDB with no disruptions allowed" in out
    assert "default/web-1 (priority 5): waits for 1 terminating Pod on n1: default/old (priority 0)\n" in out
    assert out.count("PDB: ") == 1, "a terminating victim violates no PDB again"
    assert "default/web-3 (priority 5): same as above" in out
    assert "Pods are placed one after the other" in out


@pytest.mark.parametrize(("priority", "ahead"), [(9, 0), (4, 1), (3, 2)])
def test_a_pending_pod_names_the_number_of_pods_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], priority: int, ahead: int
) -> None:
    pods = [make_pod(name).priority(level).request(cpu="1") for name, level in (("a", 5), ("c", 4), ("d", 3))]
    path = write(tmp_path / "dump.json", make_node("n1").has(cpu="1", memory="1Gi", pods="9"), *pods)
    made = [make_pod("b").priority(priority).request(cpu="1")]
    more = write(tmp_path / "more.json", *made)
    arguments = ("--pod", "default/b", "--cluster", path, "--cluster", more)
    told = {
        0: [],
        1: ["predicted alone; 1 Pending Pod is before it in the queue: `forewarn why default/b` predicts after them"],
        2: ["predicted alone; 2 Pending Pods are before it in the queue: `forewarn why default/b` predicts after them"],
    }[ahead]
    out = run(capsys, *arguments)[1]
    assert [line for line in out.splitlines() if "predicted alone" in line] == [f"  note: {line}" for line in told]
    standing = json.loads(run(capsys, *arguments, "-o", "json")[1])["standing"]
    assert [line for line in standing if "predicted alone" in line] == told


@pytest.mark.usefixtures("cluster")
def test_of_many_replicas_the_first_of_each_outcome_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "web.json", deployment(1, "2"))
    arguments = ("-f", path, "--cluster", "dump.json", "--replicas", "30")
    out = run(capsys, *arguments)[1]
    assert out.count("same as above") == 19
    assert "default/web-22 (priority 5)" not in out
    assert "and more Pods: 8 would stay Pending; use -o json for all\n" in out
    assert len(run(capsys, *arguments, "-o", "json")[1].splitlines()) == 30


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("replicas", "says"),
    [
        (0, "it creates no Pods (0 replicas)"),
        (1, "1 of 1 Pod exist; no new Pods"),
    ],
)
def test_a_workload_that_lacks_no_pods_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replicas: int, says: str
) -> None:
    workload = deployment(replicas, "1").spec(selector={"matchLabels": {"app": "old"}})
    workload.obj["spec"]["template"]["metadata"]["labels"] = {"app": "old"}
    path = write(tmp_path / "web.json", workload)
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    assert out.splitlines()[0] == f"Deployment default/web: {says}"


@pytest.mark.usefixtures("cluster")
def test_of_several_objects_each_finds_what_those_before_it_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [make_pod(name).of_class(5).request(cpu="2") for name in ("a", "b", "c")]
    path = write(tmp_path / "three.json", *pods)
    _, out, err = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [(a["id"], a["outcome"]) for a in answers] == [
        ("default/a", "preempts"),
        ("default/b", "preempts"),
        ("default/c", "pending"),
    ]
    assert err == ""
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    assert out.splitlines()[0] == (
        "3 objects, 3 new Pods, one after the other: 1 would preempt 1 Pod on n1: default/old (priority 0), "
        "1 victim violates a PDB, 1 would wait for terminating Pods, "
        "1 would stay Pending"
    )
    assert "default/b (priority 5): waits for 1 terminating Pod on n1" in out
    assert out.endswith(
        "see --cascade\n  note: cluster-autoscaler or Karpenter would try to scale up for the Pending Pod\n"
    )
    assert "default/b (priority 5): waits for 1 terminating Pod on n1" in out
    assert out.endswith(
        "see --cascade\n  note: cluster-autoscaler or Karpenter would try to scale up for the Pending Pod\n"
    )


def test_no_time_is_promised_for_pods_that_terminate_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make_pod("old").request(cpu="4").on("n1").spec(terminationGracePeriodSeconds=45)
    old.metadata(deletionTimestamp="2026-01-01T00:00:00Z")
    cluster = write(tmp_path / "cluster.json", make_node("n1"), make_priority_class(5), old)
    path = write(tmp_path / "new.json", make_pod("a").of_class(5).request(cpu="2"))
    _, out, _ = run(capsys, "-f", path, "--cluster", cluster)
    assert "  wait: until the victims have terminated, 45 seconds after their deletion or later\n" in out


def test_only_violated_pdbs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = make_pod("old").labels(app="old").request(cpu="4").on("n1")
    pdbs = [make_budget(name, allowed, app="old") for name, allowed in (("bad", 0), ("ok", 1))]
    cluster = write(tmp_path / "cluster.json", make_node("n1"), make_priority_class(5), old, *pdbs)
    path = write(tmp_path / "new.json", make_pod("a").of_class(5).request(cpu="2"))
    _, out, _ = run(capsys, "-f", path, "--cluster", cluster)
    assert "  PDB: 1 victim violates a PDB with no disruptions allowed (default/bad)\n" in out


def on_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache()
    for made in (make_node("n1"), make_priority_class(9)):
        cache.add(made.obj)
    monkeypatch.setattr("forewarn.policies.sources.cluster.load_cluster", lambda *_, **__: cache)


def test_a_pod_that_a_later_one_pushes_out_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    path = write(tmp_path / "a.json", make_pod("low").request(cpu="3"), make_pod("high").of_class(9).request(cpu="3"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    low, high = map(json.loads, out.splitlines())
    assert (low["outcome"], low["preemptedBy"]) == ("fits", "default/high")
    assert high["candidates"]["n1"]["victims"] == ["default/low"]
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    victims = "1 would preempt 1 Pod on n1: default/low (priority 0)"
    assert f"2 new Pods, one after the other: {victims}, 1 would be preempted again\n" in out
    assert "  note: preempted again by default/high, which is applied later\n" in out


def test_a_pod_that_wants_to_be_near_one_that_comes_later_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    near = make_pod("near").affinity(
        "podAffinity", {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    )
    path = write(tmp_path / "a.json", near, make_pod("db").labels(app="db"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    first, _ = map(json.loads, out.splitlines())
    assert (first["outcome"], first["attempts"]) == ("fits", 2)
    assert "2 scheduling attempts" in run(capsys, "-f", path, "--cluster", "dump.json")[1]


def test_a_nominated_pod_that_is_overtaken_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = Cache()
    there = (make_pod(name).request(cpu="2").on("n1") for name in ("x", "y"))
    for made in (make_node("n1"), make_priority_class(5), make_priority_class(9), *there):
        cache.add(made.obj)
    monkeypatch.setattr("forewarn.policies.sources.cluster.load_cluster", lambda *_, **__: cache)
    pods = [make_pod("mid").of_class(5).request(cpu="2"), make_pod("high").of_class(9).request(cpu="4")]
    _, out, _ = run(capsys, "-f", write(tmp_path / "a.json", *pods), "--cluster", "dump.json", "-o", "json")
    mid, high = map(json.loads, out.splitlines())
    assert (high["outcome"], mid["outcome"], mid["attempts"]) == ("preempts", "pending", 2)


@pytest.mark.parametrize(("cpu", "overtaken"), [("4", True), ("1", False)])
def test_a_nominated_pod_whose_room_a_later_one_takes_is_told_so(
    cpu: str, overtaken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Upstream's executor has nobody to evict then, and leaves the nomination."""
    cache = Cache()
    there = make_pod("x").request(cpu="4").on("n1")
    for made in (make_node("n1"), make_priority_class(5), make_priority_class(9), there):
        cache.add(made.obj)
    monkeypatch.setattr("forewarn.policies.sources.cluster.load_cluster", lambda *_, **__: cache)
    pods = [make_pod("mid").of_class(5).request(cpu="2"), make_pod("high").of_class(9).request(cpu=cpu)]
    path = write(tmp_path / "a.json", *pods)
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    mid, high = map(json.loads, out.splitlines())
    assert (high["outcome"], mid["outcome"], "overtaken" in mid) == ("preempts", "preempts", overtaken)
    assert ("  note: overtaken: " in run(capsys, "-f", path, "--cluster", "dump.json")[1]) == overtaken


def test_pods_that_are_nameless_or_wanted_several_times_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    nameless = make_pod("").metadata(generateName="job-").request(cpu="1")
    path = write(tmp_path / "a.json", nameless, nameless, make_pod("web").request(cpu="1"), make_pod("web"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    names = [json.loads(line)["id"] for line in out.splitlines()]
    assert names == ["default/job-*", "default/job-*+2", "default/web"]
    path = write(tmp_path / "a.json", nameless, make_pod("web").request(cpu="3"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "--replicas", "2", "-o", "json")
    answers = [(json.loads(line)["id"], json.loads(line)["outcome"]) for line in out.splitlines()]
    assert answers == [
        ("default/job-*", "fits"),
        ("default/job-*+2", "fits"),
        ("default/web", "pending"),
        ("default/web+2", "pending"),
    ]


def test_one_bad_file_of_a_directory_leaves_the_others_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    (tmp_path / "bad.yaml").write_text("a: [1\n")
    write(tmp_path / "class.yaml", make_priority_class(2**40, "gold"))
    write(tmp_path / "good.yaml", make_pod("web"))
    status, out, err = run(capsys, "-f", str(tmp_path), "--cluster", "dump.json")
    assert status == 3
    assert "; default/web (priority 0): fits on n1" in out
    bad, rejected = err.splitlines()
    assert "bad.yaml:" in bad
    assert "PriorityClass gold" in rejected


@pytest.mark.usefixtures("cluster")
def test_what_is_not_named_yet_has_the_namespace_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod, workload = make_pod("new", "").of_class(5), deployment(1, "1")
    del workload.obj["metadata"]["namespace"]
    nameless = make_pod("", "kept").metadata(generateName="job-").of_class(5)
    path = write(tmp_path / "all.json", pod, workload, nameless)
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-n", "team", "-o", "json")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["team/new", "team/web-0", "kept/job-*"]


@pytest.mark.usefixtures("cluster")
def test_classes_and_claims_of_the_file_come_with_its_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = make_pod("new").of_class("gold").request(cpu="1").volume(persistentVolumeClaim={"claimName": "data"})
    path = write(tmp_path / "all.json", pod, make_priority_class(1000, "gold"), make_claim("data"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    first = "default/new (priority 1000): would preempt 1 Pod on n1: default/old (priority 0), 1 victim violates a PDB"
    assert out.startswith(f"{first}; with new PriorityClass: gold (value 1000)\n")
    assert "volumes of claims that are created with the Pods are ignored" in out
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    assert "volumes of claims that are created with the Pods are ignored" in json.loads(out)["standing"]


@pytest.mark.usefixtures("cluster")
def test_a_class_that_the_cluster_has_counts_more_than_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The value of a class cannot be changed."""
    pod = make_pod("new").of_class("system-node-critical")
    path = write(tmp_path / "all.json", make_priority_class(1, "system-node-critical"), pod)
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    assert "default/new (priority 2000001000)" in out


@pytest.mark.usefixtures("cluster")
def test_json_has_one_line_for_every_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "web.json", deployment(2, "2"))
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-o", "json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [(a["id"], a["outcome"], a["nominatedNode"]) for a in answers] == [
        ("default/web-0", "preempts", "n1"),
        ("default/web-1", "preempts", "n1"),
    ]


@pytest.mark.usefixtures("cluster")
@pytest.mark.usefixtures("cluster")
def test_explain_says_what_decided_and_how_it_was_worked_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for pod, told in (
        (make_pod("plain"), "all nodes at once, in columns"),
        (make_pod("stored").spec(volumes=claims), "plugin by plugin on every node, because of plugin Volume"),
    ):
        (tmp_path / "pod.json").write_text(json.dumps(pod.obj))
        given = ["-f", str(tmp_path / "pod.json"), "--cluster", "dump.json", "--kubernetes-version", "1.35"]
        text = run(capsys, *given, "--explain")[1]
        assert f"  how: as kube-scheduler 1.35 with its profile default-scheduler; {told}" in text
        assert "how" not in run(capsys, *given)[1]
        answer = json.loads(run(capsys, *given, "--explain", "-o", "json")[1])
        assert (answer["how"]["kubernetes"], bool(answer["how"]["because"])) == ("1.35", "because" in told)


def test_a_file_without_a_pod_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "node.json", make_node("n9"))
    assert run(capsys, "-f", path, "--cluster", path)[0] == 3


def test_a_batch_may_be_of_any_known_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {"id": "a", "nodes": [make_node("n").obj], "pods": [], "pod": make_pod("p").obj}
    batch = tmp_path / "cases.jsonl"
    batch.write_text(json.dumps(case) + "\n")
    for release in ("1.34", "v1.37.1"):
        assert main(["preempt", "--batch", str(batch), "--kubernetes-version", release]) == 0
    assert [json.loads(line)["feasible"] for line in capsys.readouterr().out.splitlines()] == [["n"]] * 2
    with pytest.raises(SystemExit, match="2"):
        main(["preempt", "--batch", str(batch), "--kubernetes-version", "1.20"])
    assert "known: 1.34" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("replicas", "policy", "reason"),
    [
        (
            2,
            "PreemptLowerPriority",
            "2 would stay Pending: fits on no current node (1 node: insufficient cpu; no Pod of lower priority",
        ),
        (2, "Never", "2 would stay Pending: fits on no node (1 node: insufficient cpu"),
        (
            21,
            "PreemptLowerPriority",
            "21 would stay Pending: the first: fits on no current node (1 node: insufficient cpu",
        ),
    ],
)
def test_the_first_line_about_a_workload_has_the_reason_of_its_pending_pods(
    replicas: int, policy: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    five = make_priority_class(5, preemptionPolicy=policy)
    full = [make_node("n1"), make_pod("old").priority(9).request(cpu="4").on("n1"), five]
    template = {"spec": make_pod("x").of_class(5).request(cpu="1").obj["spec"]}
    web = Made("apps/v1", "ReplicaSet", "web", "default").spec(replicas=replicas, template=template)
    other = Made("v1", "Pod", "no-class", "default").spec(priorityClassName="gone", containers=[])
    dump, file = write(tmp_path / "c.yaml", *full), write(tmp_path / "f.yaml", web, other)
    first, *_ = run(capsys, "-f", file, "--cluster", dump)[1].splitlines()
    assert f"{replicas} new Pods: {reason}" in first
    assert len(first) <= 256
    assert first.startswith("rejected: Pod default/no-class")


def test_the_first_line_about_a_daemon_set_has_the_reason_of_its_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node(name) for name in ("n1", "n2")]
    full = [make_pod(f"old-{name}").priority(9).request(cpu="4").on(name) for name in ("n1", "n2")]
    template = {"spec": make_pod("x").of_class(5).request(cpu="1").obj["spec"]}
    agent = Made("apps/v1", "DaemonSet", "agent", "default").spec(template=template)
    dump, file = write(tmp_path / "c.yaml", *nodes, *full, make_priority_class(5)), write(tmp_path / "f.yaml", agent)
    first, *_ = run(capsys, "-f", file, "--cluster", dump)[1].splitlines()
    assert first == "DaemonSet default/agent: 2 new Pods: 2 would stay Pending: 2 nodes: insufficient cpu"


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside another object"])
def test_a_quota_admits_pods_of_a_daemon_set_on_random_nodes(
    others: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node(name) for name in ("n1", "n2", "n3")]
    old = [make_pod(f"old-{name}", "other").request(cpu="4").on(name) for name in ("n2", "n3")]
    quota = Made("v1", "ResourceQuota", "q", "default").spec(hard={"pods": "2"})
    template = {"spec": make_pod("x").of_class(5).request(cpu="1").obj["spec"]}
    agent = Made("apps/v1", "DaemonSet", "agent", "default").spec(template=template)
    dump = write(tmp_path / "c.yaml", *nodes, *old, quota, make_priority_class(5))
    file = write(tmp_path / "f.yaml", agent, *[make_pod("small", "other")] * others)
    first, *_ = run(capsys, "-f", file, "--cluster", dump)[1].splitlines()
    assert (
        "2 may preempt 2 Pods on n2, n3: possibly other/old-n2, other/old-n3 (priority 0), 1 rejected by quota" in first
    )
    assert ("4 new Pods: 1 would fit, 2 may " in first) is bool(others), "which no chance decides"
