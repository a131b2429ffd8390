"""`forewarn predict`: one pod, a workload, a batch."""

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.cluster import load_cluster as load_the_cluster
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.prediction.forecast.impact import BY_NODES
from tests.builders import Made, make_budget, make_claim, make_node, make_pod, make_priority_class
from tests.in_process import captured

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

TEMPLATE_OF_CLASS_5 = {
    "selector": {"matchLabels": {"app": "x"}},
    "template": {
        "metadata": {"labels": {"app": "x"}},
        "spec": make_pod("x").of_class(5).request(cpu="1").obj["spec"],
    },
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_cluster(*sources: str, into: Cache | None = None) -> Cache:
        if sources != ("dump.json",):
            return load_the_cluster(*sources, into=into)
        cache = into or Cache()
        for made in CLUSTER:
            cache.add(made.obj)
        return cache

    monkeypatch.setattr("forewarn.policies.inputs.sources.cluster.load_cluster", load_cluster)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return captured(capsys, "preempt" if "--batch" in arguments else "predict", *arguments)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The document of the answer."""
    return json.loads(run(capsys, *arguments, "-o", "json")[1])


def counters(document: Any) -> dict[str, int]:
    """The counters that are not 0."""
    return {name: number for name, number in document["counters"].items() if number}


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
        ([], 2, "no Pod given. Fix: pass -f FILE"),
        (["-f", "README.md", "--replicas", "-1"], 2, "must be between 0 and"),
        (["-f", "README.md", "--replicas", "9" * 30], 2, "--replicas: must be between 0 and"),
        (["-f", "README.md", "--replicas", "two"], 2, '--replicas: must be a whole number, not "two"'),
        (["-f", "README.md"], 3, "no kubeconfig found"),
        (["-f", "no-such-file", "--cluster", "dump.json"], 2, "no-such-file: no such file or directory"),
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
def test_a_new_pod_has_its_node_and_victims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "pod.json", make_pod("new").of_class(5).request(cpu="2"))
    status, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    assert status == 0
    assert [line for line in out.splitlines() if not line.startswith("INPUT")] == [
        "HARM  Pod default/new: the new Pod runs on n1 by preemption",
        "      victims 1 | Pending 0 | PDBs violated 1 | preempt 1 | grace period up to 45 s",
        "WARN  1 Pending Pod ahead in the queue may use the capacity first: team/waiting",
        "",
        "VICTIM       CLASS       NODE  PREEMPTOR",
        "default/old  (no class)  n1    default/new",
        "",
        "PDB VIOLATED",
        "default/keep",
        "MORE   -v workloads | -vv Pods | forewarn whatif apply: downtime of victims",
    ]
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert counters(document) == {"victims": 1, "preempted": 1, "pdbsViolated": 1}
    assert document["pods"][0]["violatedPDBs"] == ["default/keep"]
    assert document["victims"] == [{"workload": "default/old", "priorityClass": "", "priority": 0, "pods": 1}]


@pytest.mark.parametrize(
    ("cpu", "fail_on", "status"),
    [
        ("1", "victims", 1),
        ("1", "pending", 0),
        ("5", "pending", 1),
        ("5", "victims", 0),
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
    """A terminating victim violates no PDB again."""
    path = write(tmp_path / "web.json", deployment(1, "2"))
    document = told(capsys, "-f", path, "--cluster", "dump.json", "--replicas", "4")
    assert document["clause"] == "2 of 4 new Pods run, 1 of them by preemption"
    assert document["outcomes"] == {"preempts": 1, "waits": 1, "pending": 2}
    assert counters(document) == {"victims": 1, "preempted": 1, "pending": 2, "pdbsViolated": 1}
    why = (
        "fits on no node (1 node: insufficient cpu even after preempting all Pods of lower priority and 1 more reason)"
    )
    assert [(each["number"], each["reason"]) for each in document["why"]["causes"]] == [(2, why)]


@pytest.mark.usefixtures("cluster")
def test_of_many_replicas_single_pods_are_only_told_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "web.json", deployment(1, "2"))
    arguments = ("-f", path, "--cluster", "dump.json", "--replicas", "30")
    assert (told(capsys, *arguments)["pods"], len(told(capsys, *arguments, "-vv")["pods"])) == ([], 30)
    assert "default/web-22" not in run(capsys, *arguments, "-v")[1]
    assert "default/web-22" in run(capsys, *arguments, "-vv")[1]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("replicas", "says"),
    [
        (0, "no new Pods: 0 replicas"),
        (1, "no new Pods: 1 of 1 exist"),
    ],
)
def test_a_workload_that_lacks_no_pods_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replicas: int, says: str
) -> None:
    workload = deployment(replicas, "1").spec(selector={"matchLabels": {"app": "old"}})
    workload.obj["spec"]["template"]["metadata"]["labels"] = {"app": "old"}
    path = write(tmp_path / "web.json", workload)
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json")
    assert out.splitlines()[0] == f"OK  Deployment default/web: {says}"


@pytest.mark.usefixtures("cluster")
def test_of_several_objects_each_finds_what_those_before_it_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [make_pod(name).of_class(5).request(cpu="2") for name in ("a", "b", "c")]
    path = write(tmp_path / "three.json", *pods)
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert [(a["id"], a["outcome"]) for a in document["pods"]] == [
        ("default/a", "preempts"),
        ("default/b", "preempts"),
        ("default/c", "pending"),
    ]
    assert document["question"] == "3 objects"
    assert [[row["object"], row["preempt"], row["pending"], row["victims"]] for row in document["rows"]] == [
        ["Pod default/c", 0, 1, 0],
        ["Pod default/a", 1, 0, 1],
        ["Pod default/b", 0, 0, 0],
    ]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("is_several", [True, False])
def test_the_numbers_of_several_workloads_depend_on_their_controllers(
    is_several: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [make_pod(name).of_class(5).request(cpu="2") for name in ("a", "b")]
    warning = "the numbers depend on when controllers create the Pods: `forewarn whatif apply` simulates it"
    of_pods = told(capsys, "-f", write(tmp_path / "pods.json", *pods), "--cluster", "dump.json")
    path = write(tmp_path / "both.json", deployment(2, "2"), *(pods if is_several else ()))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert [warning in each["warnings"] for each in (of_pods, document)] == [False, is_several]


def test_no_time_is_promised_for_pods_that_terminate_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make_pod("old").request(cpu="4").on("n1").spec(terminationGracePeriodSeconds=45)
    old.metadata(deletionTimestamp="2026-01-01T00:00:00Z")
    cluster = write(tmp_path / "cluster.json", make_node("n1"), make_priority_class(5), old)
    path = write(tmp_path / "new.json", make_pod("a").of_class(5).request(cpu="2"))
    first, counts, *_ = run(capsys, "-f", path, "--cluster", cluster)[1].splitlines()
    assert first == "WARN  Pod default/a: the new Pod waits for terminating Pods on n1"
    assert counts.strip() == "victims 0 | Pending 0 | wait for terminating Pods 1"


def test_only_violated_pdbs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = make_pod("old").labels(app="old").request(cpu="4").on("n1")
    pdbs = [make_budget(name, allowed, app="old") for name, allowed in (("bad", 0), ("ok", 1))]
    cluster = write(tmp_path / "cluster.json", make_node("n1"), make_priority_class(5), old, *pdbs)
    path = write(tmp_path / "new.json", make_pod("a").of_class(5).request(cpu="2"))
    _, out, _ = run(capsys, "-f", path, "--cluster", cluster)
    assert "PDB VIOLATED\ndefault/bad\n" in out
    assert "default/ok" not in out


def on_one_node(monkeypatch: pytest.MonkeyPatch, *more: Made) -> None:
    def load_cluster(*_: str, into: Cache) -> Cache:
        for made in (make_node("n1"), make_priority_class(9), *more):
            into.add(made.obj)
        return into

    monkeypatch.setattr("forewarn.policies.inputs.sources.cluster.load_cluster", load_cluster)


def test_a_pod_that_a_later_one_preempts_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    path = write(tmp_path / "a.json", make_pod("low").request(cpu="3"), make_pod("high").of_class(9).request(cpu="3"))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    low, high = document["pods"]
    assert (low["outcome"], low["preemptedBy"]) == ("fits", "default/high")
    assert high["candidates"]["n1"]["victims"] == ["default/low"]
    assert document["clause"] == "1 of 2 new Pods run, 1 of them by preemption"
    assert document["outcomes"] == {"preempted": 1, "preempts": 1}


def _deployment(name: str, priority: int, replicas: int) -> Made:
    pod = make_pod(name).of_class(priority).request(cpu="2").obj["spec"]
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    made = Made("apps/v1", "Deployment", name, "default")
    return made.spec(replicas=replicas, selector={"matchLabels": {"app": name}}, template=template)


@pytest.mark.parametrize(
    ("old", "outcomes", "victims"),
    [
        (4, {"preempts": 1, "pending": 1, "waits": 1}, 4),
        (2, {"fits": 1, "pending": 1, "waits": 1}, 2),
    ],
    ids=["both preempt, one is overtaken", "one fits, one is overtaken"],
)
def test_a_pod_whose_place_a_later_object_takes_stays_pending(
    old: int,
    outcomes: dict[str, int],
    victims: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The node has room for two of the three new Pods."""
    stored = [make_pod(f"old-{number}").request(cpu="1").on("n1") for number in range(old)]
    on_one_node(monkeypatch, make_priority_class(5), *stored)
    low = [make_pod(f"low-{number}").of_class(5).request(cpu="2") for number in range(2)]
    path = write(tmp_path / "a.json", *low, make_pod("high").of_class(9).request(cpu="2"))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert document["outcomes"] == outcomes
    assert counters(document) == {"victims": victims, "preempted": victims, "pending": 1}


def test_pods_that_controllers_create_at_once_are_tried_by_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch, make_priority_class(5), make_pod("old").request(cpu="2").on("n1"))
    path = write(tmp_path / "a.json", _deployment("low", 5, 1), _deployment("high", 9, 1))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert [each["outcomes"] for each in document["objects"]] == [{"preempts": 1}, {"fits": 1}]


def test_placeholder_pods_are_no_victims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pause = make_pod("pause").priority(-5).request(cpu="4").on("n1")
    pause.obj["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    on_one_node(monkeypatch, pause)
    path = write(tmp_path / "a.json", make_pod("new").of_class(9).request(cpu="3"))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert (document["status"], counters(document), document["victims"]) == ("WARN", {"placeholders": 1}, [])


def test_a_pod_that_wants_to_be_near_one_that_comes_later_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    near = make_pod("near").affinity(
        "podAffinity", {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    )
    path = write(tmp_path / "a.json", near, make_pod("db").labels(app="db"))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert (document["pods"][0]["outcome"], document["pods"][0]["attempts"]) == ("fits", 2)
    assert document["warnings"] == ["several scheduling attempts: Pods applied later change where it fits"]


@pytest.mark.parametrize(
    ("stored", "cpu", "outcome", "overtaken"),
    [(("2", "2"), "4", "pending", False), (("4",), "4", "pending", True), (("4",), "1", "preempts", False)],
)
def test_a_nominated_pod_may_be_overtaken(
    stored: tuple[str, ...],
    cpu: str,
    outcome: str,
    overtaken: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without Pods to evict, upstream's executor leaves the nomination."""
    there = (make_pod(f"x{place}").request(cpu=amount).on("n1") for place, amount in enumerate(stored))
    on_one_node(monkeypatch, make_priority_class(5), *there)
    pods = [make_pod("mid").of_class(5).request(cpu="2"), make_pod("high").of_class(9).request(cpu=cpu)]
    document = told(capsys, "-f", write(tmp_path / "a.json", *pods), "--cluster", "dump.json")
    mid, high = document["pods"]
    assert (high["outcome"], mid["outcome"], "overtaken" in mid) == ("preempts", outcome, overtaken)
    assert ("take the capacity of the victims" in str(document["warnings"])) == overtaken


def test_pods_that_are_nameless_or_wanted_several_times_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_one_node(monkeypatch)
    nameless = make_pod("").metadata(generateName="job-").request(cpu="1")
    path = write(tmp_path / "a.json", nameless, nameless, make_pod("web").request(cpu="1"), make_pod("web"))
    names = [each["id"] for each in told(capsys, "-f", path, "--cluster", "dump.json")["pods"]]
    assert names == ["default/job-*", "default/job-*+2", "default/web"]
    path = write(tmp_path / "a.json", nameless, make_pod("web").request(cpu="3"))
    document = told(capsys, "-f", path, "--cluster", "dump.json", "--replicas", "2")
    assert [(each["id"], each["outcome"]) for each in document["pods"]] == [
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
    assert out.startswith("REJECTED  3 objects: 2 objects rejected, the new Pod runs on n1\n")
    assert "WHY 2 OBJECTS ARE REJECTED\n    1  PriorityClass gold (value: " in out
    assert "\n    1  not predicted; see the errors\n" in out
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
    document = told(capsys, "-f", path, "--cluster", "dump.json", "-n", "team")
    assert [each["id"] for each in document["pods"]] == ["team/new", "team/web-0", "kept/job-*"]


@pytest.mark.usefixtures("cluster")
def test_classes_and_claims_of_the_file_come_with_its_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = make_pod("new").of_class("gold").request(cpu="1").volume(persistentVolumeClaim={"claimName": "data"})
    path = write(tmp_path / "all.json", pod, make_priority_class(1000, "gold"), make_claim("data"))
    document = told(capsys, "-f", path, "--cluster", "dump.json")
    assert document["question"] == "Pod default/new with new PriorityClass gold (value 1000)"
    assert (document["newClasses"], document["counters"]["victims"]) == (["gold (value 1000)"], 1)
    assert "volumes of claims that are created with the Pods are ignored" in document["warnings"]
    assert "volumes of claims that are created with the Pods are ignored" in document["objects"][0]["standing"]


@pytest.mark.usefixtures("cluster")
def test_a_class_that_the_cluster_has_counts_more_than_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The value of a class cannot be changed."""
    pod = make_pod("new").of_class("system-node-critical")
    path = write(tmp_path / "all.json", make_priority_class(1, "system-node-critical"), pod)
    _, out, _ = run(capsys, "-f", path, "--cluster", "dump.json", "-v")
    assert "default/new  2,000,001,000" in out


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
    ("policy", "reason"),
    [
        ("PreemptLowerPriority", "fits on no node (1 node: insufficient cpu; no Pod of lower priority)"),
        ("Never", "fits on no node (1 node: insufficient cpu) and may not preempt: preemptionPolicy is Never"),
    ],
)
def test_pending_pods_of_a_workload_have_their_reason(
    policy: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    five = make_priority_class(5, preemptionPolicy=policy)
    full = [make_node("n1"), make_pod("old").priority(9).request(cpu="4").on("n1"), five]
    web = Made("apps/v1", "ReplicaSet", "web", "default").spec(replicas=200, **TEMPLATE_OF_CLASS_5)
    dump, file = write(tmp_path / "c.yaml", *full), write(tmp_path / "f.yaml", web)
    document = told(capsys, "-f", file, "--cluster", dump)
    assert document["status"] == "PENDING"
    assert document["clause"] == "0 of 200 new Pods run, 200 stay Pending"
    assert document["why"]["causes"] == [{"number": 200, "kind": "capacity", "reason": reason}]


def test_rejected_objects_are_explained_before_pending_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = [make_node("n1"), make_pod("old").priority(9).request(cpu="4").on("n1"), make_priority_class(5)]
    other = Made("v1", "Pod", "no-class", "default").spec(priorityClassName="gone", containers=[])
    new = make_pod("a").of_class(5).request(cpu="1")
    dump, file = write(tmp_path / "c.yaml", *full), write(tmp_path / "f.yaml", new, other)
    document = told(capsys, "-f", file, "--cluster", dump)
    assert (document["status"], counters(document)) == ("REJECTED", {"pending": 1, "rejected": 1})
    assert document["why"]["causes"][0]["reason"].startswith("Pod default/no-class (")


def test_pods_of_a_daemon_set_have_the_reason_of_their_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [make_node(name) for name in ("n1", "n2")]
    full = [make_pod(f"old-{name}").priority(9).request(cpu="4").on(name) for name in ("n1", "n2")]
    agent = Made("apps/v1", "DaemonSet", "agent", "default").spec(**TEMPLATE_OF_CLASS_5)
    dump, file = write(tmp_path / "c.yaml", *nodes, *full, make_priority_class(5)), write(tmp_path / "f.yaml", agent)
    causes = told(capsys, "-f", file, "--cluster", dump)["why"]["causes"]
    fix = "give the DaemonSet a PriorityClass that preempts Pods on its nodes"
    assert causes == [
        {
            "number": 2,
            "kind": "capacity",
            "reason": f"fits on no node (its only node: insufficient cpu; no Pod of lower priority). Fix: {fix}",
        }
    ]


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside another object"])
def test_a_quota_admits_pods_of_a_daemon_set_on_random_nodes(
    others: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node(name) for name in ("n1", "n2", "n3")]
    old = [make_pod(f"old-{name}", "other").request(cpu="4").on(name) for name in ("n2", "n3")]
    quota = Made("v1", "ResourceQuota", "q", "default").spec(hard={"pods": "2"})
    agent = Made("apps/v1", "DaemonSet", "agent", "default").spec(**TEMPLATE_OF_CLASS_5)
    dump = write(tmp_path / "c.yaml", *nodes, *old, quota, make_priority_class(5))
    file = write(tmp_path / "f.yaml", agent, *[make_pod("small", "other")] * others)
    document = told(capsys, "-f", file, "--cluster", dump)
    assert counters(document) == {"victims": 2, "preempted": 2, "rejected": 1}
    assert f"how many Pods preempt depends on {BY_NODES}" in document["warnings"]
    assert document["outcomes"].get("fits", 0) == others, "which no chance decides"
