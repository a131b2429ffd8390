"""Several clusters in one run: one table, each report as it is alone, and no cluster that hides the others."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from forewarn.policies.base.process_pool import Lost, pooled
from forewarn.policies.cli.commands import audit, many_clusters
from forewarn.policies.cli.main import main
from forewarn.policies.cli.render.openreports import rename_for_cluster, without_answer
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.in_process import captured as run
from tests.in_process import without_head

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs/examples"
WEB = ("-f", str(EXAMPLES / "headroom/cache.yaml"))
COMMAND_LINES = {"audit": ("audit",), "whatif": ("whatif", "apply", *WEB)}


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    """One cluster with errors, one with warnings, and a file without objects."""
    there = tmp_path / "snapshots"
    there.mkdir()
    copy(EXAMPLES / "audit/cluster.yaml", there / "prod-a.yaml")
    copy(EXAMPLES / "whatif/cluster.yaml", there / "prod-b.yaml")
    (there / "prod-c.yaml").write_text("nonsense\n")
    return there


def table_of(text: str) -> list[dict[str, str]]:
    """The rows of the table of clusters by column head."""
    table = text.split("\n\n")[1].partition("\nINPUT")[0]
    heads, *rows = re.sub(r"\n +", " ", table).splitlines()  # the last cell may continue on the next line
    return [dict(zip(*(re.split(r" {2,}", line) for line in (heads, row)), strict=True)) for row in rows]


def first_words(text: str) -> list[str]:
    return [row["CLUSTER"] for row in table_of(text)]


@pytest.mark.forks
def test_the_worst_cluster_is_first_and_a_broken_one_hides_no_other(
    snapshots: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "audit", "--clusters", f"{snapshots}/*")
    assert status == 3
    assert first_words(out) == ["prod-c", "prod-a", "prod-b"]
    assert [row["STATUS"] for row in table_of(out)] == ["NO ANSWER", "HARM", "WARN"]
    assert out.startswith("NO ANSWER  3 clusters: worst is prod-c: ")
    why = f"{snapshots}/prod-c.yaml: no Kubernetes objects found. Fix: pass the output of `forewarn snapshot`"
    out = run(capsys, "audit", "--clusters", f"{snapshots}/*", "-v")[1]
    assert f"\n\nprod-c\n{why}\n\nprod-a\nHARM  audit of 11 objects: 1 error, unknown-priority-class\n" in out


@pytest.mark.forks
@pytest.mark.parametrize("command", COMMAND_LINES)
def test_the_report_on_a_cluster_is_that_of_the_command_alone(
    command: str, snapshots: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = COMMAND_LINES[command]
    _, out, _ = run(capsys, *line, "--clusters", f"{snapshots}/prod-[ab].yaml", "-o", "json")
    found = json.loads(out)
    combined = run(capsys, *line, "--clusters", f"{snapshots}/prod-[ab].yaml", "-v")[1]
    assert (found["version"], found["command"]) == (1, command)
    assert sorted(each["cluster"] for each in found["clusters"]) == ["prod-a", "prod-b"]
    for each in found["clusters"]:
        status, alone, _ = run(capsys, *line, "--cluster", each["source"], "-o", "json")
        assert each["status"] == status
        if "reason" in each:  # the manifest names a class that one cluster lacks
            name, why = "Pods of Deployment shop/cache", "no PriorityClass with name gold was found"
            assert run(capsys, *line, "--cluster", each["source"])[1] == f"REJECTED  {name}: {why}\n"
            assert each["reason"] == f"rejected: {name} ({why})"
            continue
        assert each["report"] == json.loads(alone)
        text = run(capsys, *line, "--cluster", each["source"], "--color", "never", "-v")[1]
        assert text in combined


def test_the_losses_of_each_node_are_compared_by_their_worst(
    snapshots: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ("whatif", "lose", "--each", "node")
    alone = json.loads(run(capsys, *line, "--cluster", f"{snapshots}/prod-b.yaml", "-o", "json")[1])
    status, out, _ = run(capsys, *line, "--clusters", f"{snapshots}/prod-[ab].yaml", "-o", "json")
    (of_b,) = (each for each in json.loads(out)["clusters"] if each["cluster"] == "prod-b")
    headline = f"{alone['question']}: {alone['clause']}"
    assert (status, of_b["report"], of_b["headline"]) == (0, alone, headline)
    worst = of_b["report"]["cases"][0]
    assert (of_b["row"]["WORST CASE"], of_b["row"]["LOST"]) == (worst["case"], worst["counters"]["lost"])
    assert of_b["rank"][1:3] == [1, worst["priority"]]


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_markdown_has_the_table_and_each_report(
    command: str, snapshots: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = COMMAND_LINES[command]
    out = run(capsys, *line, "--clusters", f"{snapshots}/*", "-o", "markdown")[1]
    assert out.startswith("### ❔ NO ANSWER: 3 clusters: worst is prod-c: ")
    assert "| prod-c | NO ANSWER | " in out
    alone = run(capsys, *line, "--cluster", f"{snapshots}/prod-b.yaml", "-o", "markdown")[1]
    assert f"## prod-b\n\n{alone.strip()}" in out


def test_sarif_has_a_run_for_each_cluster(snapshots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "audit", "-q", "--clusters", f"{snapshots}/*", "-o", "sarif")
    runs = json.loads(out)["runs"]
    assert status == 3
    assert [each["automationDetails"]["id"] for each in runs] == [f"forewarn/prod-{name}/" for name in "cab"]
    assert runs[0]["invocations"][0]["executionSuccessful"] is False
    assert len(runs[1]["results"]) == 7
    assert "warning" in capsys.readouterr().err or runs[2]["results"]


def test_openreports_are_a_report_for_each_cluster(snapshots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (alone,) = json.loads(run(capsys, "audit", "--cluster", f"{snapshots}/prod-a.yaml", "-o", "openreports")[1])[
        "items"
    ]
    assert (alone["kind"], alone["metadata"]["name"]) == ("ClusterReport", "forewarn-audit")
    assert alone["summary"] == {"pass": 0, "fail": 1, "warn": 6, "error": 0, "skip": 0}
    status, out, _ = run(capsys, "audit", "--clusters", f"{snapshots}/*", "-o", "openreports")
    broken, first, second = json.loads(out)["items"]
    assert status == 3
    annotations = [each["metadata"]["annotations"] for each in (broken, first, second)]
    assert [each["forewarn.dev/cluster"] for each in annotations] == [f"prod-{name}" for name in "cab"]
    assert ["forewarn.dev/answer-head" in each for each in annotations] == [False, True, True]
    assert first["results"] == alone["results"]
    assert broken["summary"]["error"] == 1
    assert "no Kubernetes objects found" in broken["results"][0]["message"]


@pytest.mark.parametrize(
    "name", ["prod", "Prod", "prod/", "\x1b[2J", "", "x" * 5_000, "arn:aws:eks:eu:1:cluster/a", "\ud800"]
)
def test_names_of_reports_are_valid_and_differ(name: str) -> None:
    made = rename_for_cluster(without_answer("no reason"), name)["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", made)
    assert len(made) <= 63
    assert made != rename_for_cluster(without_answer("no reason"), f"{name}-2")["metadata"]["name"]


def test_the_status_is_the_worst_of_all_clusters(snapshots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (("--clusters", f"{snapshots}/prod-{name}.yaml") for name in "ab")
    assert [run(capsys, "audit", *given)[0] for given in (a, b, (*a, *b))] == [1, 0, 1]
    status, out, _ = run(capsys, "whatif", "class", "batch", "--delete", *a, *b)
    assert (status, first_words(out)[0]) == (2, "prod-a")
    assert out.startswith('NO ANSWER  2 clusters: worst is prod-a: PriorityClass "batch" not found')


def test_changes_since_an_earlier_report_are_those_of_each_cluster(
    snapshots: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tmp_path / "before.json"
    given = ("--clusters", f"{snapshots}/prod-[ab].yaml")
    run(capsys, "audit", *given, "-o", f"json={before}")
    copy(EXAMPLES / "whatif/cluster.yaml", snapshots / "prod-a.yaml")
    copy(EXAMPLES / "whatif/cluster.yaml", snapshots / "prod-ax.yaml")
    out = run(capsys, "audit", "--clusters", f"{snapshots}/prod-[ab]*.yaml", "--since", str(before), "-o", "json")[1]
    changes = {each["cluster"]: each["report"].get("changes") for each in json.loads(out)["clusters"]}
    assert {each["change"] for each in changes["prod-a"]} >= {"gone"}
    assert changes["prod-b"] == []
    assert changes["prod-ax"] is None
    alone = run(capsys, "audit", "--cluster", str(snapshots / "prod-a.yaml"), "-o", "json")[1]
    before.write_text(alone)
    status, out, err = run(capsys, "audit", *given, "--since", str(before))
    assert (status, err) == (2, f"forewarn audit: {before}: not a report on several clusters: no list clusters\n")
    assert out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit", "--clusters", "{there}/prod-x*.yaml"), "no file matches; did you mean"),
        (("audit", "--clusters", "{there}/none.yaml"), "no such file or directory"),
        (("audit", "--clusters", "{there}/*", "--cluster", "{there}/prod-a.yaml"), "pass --clusters"),
        (("diff", "--clusters", "{there}/*", "--cluster", "{there}/prod-a.yaml"), "pass --clusters"),
        (("audit", "--clusters", "{there}/*", "-o", "html"), "takes one cluster"),
        (("audit", "--clusters", "{there}/*", "--baseline", "{there}/prod-a.yaml"), "--baseline: takes one cluster"),
        (("audit", "--clusters", "{there}/*", "--write-baseline", "{there}/b"), "--write-baseline: takes one cluster"),
        (("whatif", "apply", "-f", "-", "--clusters", "{there}/*"), "read it only once"),
        (("whatif", "apply", "-f", "{there}/none", "--clusters", "{there}/*"), "none: no such file"),
        (("audit", "--clusters", "{there}/*", "--jobs", "0"), "between 1 and 64"),
        (
            ("why", "default/p", "--context", "a", "--context", "b"),
            "one context. Fix: pass one; commands with the option --clusters take several",
        ),
        (
            ("whatif", "lose", "--each", "zone", "--shard", "1/2", "--clusters", "{there}/*"),
            "--shard: takes one cluster",
        ),
        (("whatif", "upgrade", "--clusters", "{there}/*", "-o", "html"), "-o html: takes one cluster"),
        *(
            ((*command, "--clusters", "{there}/*"), "--clusters")
            for command in (("classes",), ("headroom", *WEB), ("lint",), ("predict", *WEB), ("risk",))
        ),
        (("risk", "--context", "prod-*"), "takes one context"),
        (("snapshot", "-o", "x", "--context", "prod-*"), "takes one context"),
    ],
)
def test_wrong_usage(
    arguments: tuple[str, ...], message: str, snapshots: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *(each.replace("{there}", str(snapshots)) for each in arguments))
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


CONTEXTS = ["staging", "prod-eu-1", "prod-eu-2", "prod-us-1", "arn:aws:eks:eu:1:cluster/x", "\x1b[2Jprod\n::error::"]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig with these contexts."""
    monkeypatch.setattr("forewarn.policies.inputs.sources.cluster.contexts_of", lambda _: CONTEXTS)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (("prod-*",), ["prod-eu-1", "prod-eu-2", "prod-us-1"]),
        (("prod-us-1", "prod-*"), ["prod-us-1", "prod-eu-1", "prod-eu-2"]),
        (("*-eu-?", "staging"), ["prod-eu-1", "prod-eu-2", "staging"]),
        (("arn:*", "staging"), ["arn:aws:eks:eu:1:cluster/x", "staging"]),
        (("*error*",), ["\x1b[2Jprod\n::error::"]),
        (("*",), CONTEXTS),
    ],
)
@pytest.mark.usefixtures("known")
def test_contexts_by_name_and_pattern(given: tuple[str, ...], chosen: list[str]) -> None:
    assert [cluster.source for cluster in many_clusters._contexts(given)] == [f"live:{name}" for name in chosen]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("prod-ue-*",), 'forewarn audit: --context "prod-ue-*": matches no context; did you mean "prod-us-1"?'),
        (("staging", "stagin"), '--context "stagin": no such context in the kubeconfig; did you mean "staging"?'),
        (
            ("zzz*",),
            "; known: [2Jprod ::error::, arn:aws:eks:eu:1:cluster/x, prod-eu-1, prod-eu-2, prod-us-1, staging",
        ),
        (("\x1b]0;x\x07*",), "matches no context"),
        (("x" * 10_000 + "*",), "matches no context"),
    ],
)
@pytest.mark.usefixtures("known")
def test_a_pattern_that_matches_no_context_is_wrong_usage(
    given: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "audit", *(word for name in given for word in ("--context", name)))
    assert (status, out) == (2, "")
    assert message in err
    assert err.removesuffix("\n").isprintable()
    assert len(err) < 700


@pytest.mark.usefixtures("known")
def test_more_clusters_than_the_limit_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(many_clusters, "MAX_CLUSTERS", 5)
    assert run(capsys, "audit", "--context", "*")[0] == 2


def test_names_are_paths_if_two_files_have_the_same_name(snapshots: Path) -> None:
    (snapshots / "old").mkdir()
    copy(snapshots / "prod-a.yaml", snapshots / "old/prod-a.json")
    found = many_clusters._snapshots([f"{snapshots}/prod-[ab].yaml", f"{snapshots}/old/*"])
    a, b, old = (cluster.name for cluster in found)
    assert (a, b, old) == (f"{snapshots}/prod-a.yaml", "prod-b", f"{snapshots}/old/prod-a.json")


@pytest.mark.usefixtures("few_runs")
def test_hostile_names_are_printed_on_one_short_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "c"
    there.mkdir()
    names = ["\x1b[2J\x07\n::error::x", "\u202egnp", "x" * 240]
    for name in names:
        copy(EXAMPLES / "classes/cluster.yaml", there / f"{name}.yaml")
    for form in ("text", "markdown"):
        line = ("whatif", "lose", "node", "node-1", "--clusters", f"{there}/*")
        status, out, _ = run(capsys, *line, "-o", form, "--color", "never")
        assert status == 0
        assert all(line.isprintable() and not line.startswith("::") for line in out.splitlines())
        assert max(map(len, without_head(out).splitlines())) < 400
    found = json.loads(run(capsys, *line, "-o", "json")[1])
    assert {each["cluster"] for each in found["clusters"]} == set(names)


# The pool


@pytest.mark.forks
def test_results_of_many_items_and_never_more_processes_than_allowed(tmp_path: Path) -> None:
    started = tmp_path / "running"
    started.mkdir()

    def work(item: int) -> list[int]:
        own = started / str(item)
        own.touch()
        count = len(list(started.iterdir()))
        own.unlink()
        return [item * item, count]

    found = dict(pooled(range(30), work, 4, 600))
    assert {item: result[0] for item, result in found.items()} == {item: item * item for item in range(30)}
    assert 1 <= max(count for _, count in found.values()) <= 4


def is_alive(process: str) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.forks
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_a_process_that_hangs_or_dies_is_lost_and_the_others_are_not(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()

    def work(item: str) -> str:
        if item == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "hangs":
            child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
            (pids / str(child.pid)).touch()
            child.wait(timeout=600)
        if item == "reads":
            return str(len(os.read(0, 10)))
        return item

    found = dict(pooled(["hangs", "killed", "reads", "a", "b"], work, 2, 3))
    assert found["hangs"] == Lost("timeout after 3 s")
    assert isinstance(found["killed"], Lost)
    assert (found["reads"], found["a"], found["b"]) == ("0", "a", "b")
    (child,) = pids.iterdir()
    deadline = time.monotonic() + 10  # A busy machine delivers the signal late.
    while is_alive(child.name):
        assert time.monotonic() < deadline


@pytest.mark.forks
def test_a_platform_without_fork_evaluates_one_cluster_after_the_other(
    snapshots: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("audit", "--clusters", f"{snapshots}/*", "-o", "json")
    forked = run(capsys, *given)
    monkeypatch.setattr("forewarn.policies.base.process_pool.forked", lambda _: None)
    assert run(capsys, *given) == forked


@pytest.mark.forks
def test_an_internal_error_about_one_cluster_is_its_reason(
    snapshots: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = audit._printed

    def fails(*arguments: Any) -> Any:
        printed = original(*arguments)
        if "launch-day" in str(printed.data()):
            raise KeyError("of a bug")
        return printed

    monkeypatch.setattr(audit, "_printed", fails)
    status, out, _ = run(capsys, "audit", "-v", "--clusters", f"{snapshots}/prod-[ab].yaml", "-o", "json")
    first, second = json.loads(out)["clusters"]
    assert (status, first["cluster"]) == (3, "prod-a")
    assert first["reason"] == "internal error: KeyError: 'of a bug'"
    assert "report" in second


def reported(tmp_path: Path, name: str, *arguments: str, command: str = "audit") -> str:
    path = tmp_path / f"{name}.json"
    assert main([command, *arguments, "-o", f"json={path}"]) in (0, 1, 3)
    return str(path)


EUROPE = ("--clusters", "docs/examples/audit/cluster.yaml")
AMERICA = ("--clusters", "docs/examples/whatif/cluster.yaml")


def test_reports_on_different_clusters_are_merged_as_one_run_on_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [reported(tmp_path, "america", *AMERICA), reported(tmp_path, "europe", *EUROPE)]
    at_once = json.loads(Path(reported(tmp_path, "all", *EUROPE, *AMERICA)).read_text())
    capsys.readouterr()
    assert main(["whatif", "merge", *files, "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == at_once
    main(["audit", *EUROPE, *AMERICA])
    text = capsys.readouterr().out
    assert main(["whatif", "merge", *files]) == 1
    assert capsys.readouterr().out == text
    worst = "HARM  2 clusters: worst is docs/examples/audit/cluster.yaml: "
    assert text.startswith(f"{worst}1 error, unknown-priority-class")
    assert main(["whatif", "merge", *files, "-o", "markdown"]) == 1
    assert capsys.readouterr().out.startswith("### 🔴 HARM: 2 clusters: worst is docs/examples/audit/cluster.yaml: ")


def test_a_cluster_without_an_answer_stays_the_first_of_merged_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text("{")
    files = [reported(tmp_path, "a", *AMERICA), reported(tmp_path, "b", "--clusters", str(tmp_path / "broken.yaml"))]
    capsys.readouterr()
    assert main(["whatif", "merge", *files]) == 3
    assert table_of(capsys.readouterr().out)[0]["STATUS"] == "NO ANSWER"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda told: told, "docs/examples/audit/cluster.yaml: also in"),
        (lambda told: {**told, "command": "risk"}, "a report of forewarn risk, unlike"),
        (lambda _: {"clusters": [1]}, "not the report of forewarn on several clusters"),
        (lambda told: {**told, "clusters": [{**told["clusters"][0], "row": {}}]}, "incomplete report"),
        (
            lambda told: {**told, "clusters": [{**told["clusters"][0], "row": {"STATUS": "OK", "X": 1}}]},
            "a table with other columns than",
        ),
        (
            lambda told: {**told, "clusters": [{**told["clusters"][0], "row": {"STATUS": "FINE"}}]},
            "not a report of forewarn",
        ),
        (
            lambda told: {**told, "clusters": [{**told["clusters"][0], "row": {"STATUS": "OK", "\u202e": 1}}]},
            "not a report of forewarn",
        ),
        (lambda told: {**told, "clusters": [{**told["clusters"][0], "rank": "1"}]}, "incomplete report"),
        (lambda told: {**told, "clusters": [{**told["clusters"][0], "rank": [[]]}]}, "not a report of forewarn"),
        (lambda _: {"rows": []}, "not a report on several clusters, unlike"),
    ],
)
def test_reports_that_do_not_belong_together_are_not_merged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, reason: str
) -> None:
    first = reported(tmp_path, "a", *EUROPE)
    other = tmp_path / "b.json"
    other.write_text(json.dumps(change(json.loads(Path(first).read_text()))))
    capsys.readouterr()
    assert main(["whatif", "merge", first, str(other)]) == 3
    out, err = capsys.readouterr()
    assert (out, reason in err) == ("", True), err


def test_a_report_of_another_kind_is_compared_with_one_on_several_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "b.json"
    other.write_text('{"rows": []}')
    first = reported(tmp_path, "a", *EUROPE)
    capsys.readouterr()
    assert main(["whatif", "merge", str(other), first]) == 3
    assert capsys.readouterr().err.endswith(f"{other}: not a report on several clusters, unlike {first}\n")


def test_a_rejection_in_all_clusters_is_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text(Path("webhook/sample/cluster.yaml").read_text())
    status, out, _ = run(capsys, "whatif", "apply", *WEB, "--clusters", f"{tmp_path}/*")
    rejected = "Pods of Deployment shop/cache (no PriorityClass with name gold was found)"
    assert (status, out.splitlines()[0]) == (3, f"REJECTED  2 clusters: all alike: {rejected}")
    assert [row["STATUS"] for row in table_of(out)] == ["REJECTED", "REJECTED"]


QUOTA = Made("v1", "ResourceQuota", "q").spec(hard={"pods": "2"})
DEFAULT = make_priority_class(7, globalDefault=True)
GOLD = make_priority_class(9, "gold")
NEVER = make_budget("never", 0, app="web").spec(minAvailable="100%")


def of_web(replicas: int, *others: Made, **of_pods: Any) -> str:
    """A cluster with the running Pods of a Deployment."""
    pods = [make_pod(f"web-{number}").labels(app="web").request(cpu="1").on("n1") for number in range(replicas)]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [pods[0].container], **of_pods}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = Made("apps/v1", "Deployment", "web").spec(**spec)
    return cluster_text([make_node("n1").has(cpu="8"), web, *pods, *others])


@pytest.mark.parametrize(
    ("change", "clusters", "first", "columns"),
    [
        (
            ("scale", "deployment/web", "3"),
            [of_web(1), of_web(1, QUOTA)],
            "HARM  2 clusters: worst is b: Deployment default/web scaled to 3 replicas: 1 of 2 new Pods ",
            {"STATUS": ["HARM", "OK"], "REJECTED": ["1", "0"]},
        ),
        (
            ("apply", "-f", "quota.json"),
            [of_web(2), of_web(3)],
            "WARN  2 clusters: all alike: ResourceQuota default/q applied: no Pod preempted, ",
            {"STATUS": ["WARN", "OK"]},
        ),
        (
            ("apply", "-f", "one.json", "-f", "golden.json"),
            [of_web(1, GOLD), of_web(1)],
            "REJECTED  2 clusters: worst is b: 2 objects applied: 1 object rejected, ",
            {"STATUS": ["REJECTED", "OK"], "REJECTED": ["1", "0"]},
        ),
        (
            ("upgrade",),
            [of_web(1), of_web(1, NEVER)],
            "BLOCKED  2 clusters: worst is b: upgrade of 1 node, 1 at a time: stops at n1 (node 1); ",
            {"STATUS": ["BLOCKED", "HARM"], "BLOCKED": ["1", "0"]},
        ),
        (
            ("upgrade", "--fail-on", "down", "--away", "10m"),
            [of_web(1), of_web(1, NEVER)],
            "BLOCKED  2 clusters: worst is b: upgrade of 1 node, 1 at a time: stops at n1 (node 1); ",
            {"STATUS": ["BLOCKED", "HARM"], "DOWN": ["0", "1"]},
        ),
        (
            ("lose", "--each", "node"),
            [of_web(1), of_web(1, make_node("n2").has(cpu="8"))],
            "HARM  2 clusters: worst is a: each of 1 node lost alone: 1 does harm; worst node n1: ",
            {"CASES": ["1", "2"], "STATUS": ["HARM", "HARM"]},
        ),
        (
            ("lose", "node", "n2"),
            [of_web(1, make_node("n2")), of_web(2, make_node("n2"))],
            "OK  2 clusters: all alike: node n2 lost: no Pod preempted, newly Pending or lost",
            {"STATUS": ["OK", "OK"]},
        ),
    ],
)
def test_the_most_affected_cluster_comes_first(
    change: tuple[str, ...],
    clusters: list[str],
    first: str,
    columns: dict[str, list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in zip("abc", clusters, strict=False):
        Path(f"{name}.yaml").write_text(text)
    Path("quota.json").write_text(json.dumps(QUOTA.obj))
    Path("one.json").write_text(json.dumps(make_pod("one").of_class("").obj))
    Path("golden.json").write_text(json.dumps(make_pod("golden").of_class("gold").obj))
    out = run(capsys, "whatif", *change, "--clusters", "*.yaml")[1]
    assert out.startswith(first)
    assert {name: [row[name] for row in table_of(out)] for name in columns} == columns


@pytest.mark.parametrize("arguments", ["whatif lose node n1", "whatif lose --each node"])
def test_the_worst_cluster_loses_replicas_of_the_highest_priority(
    arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one that loses most."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(cluster_text([make_node("n1"), *(make_pod(name).on("n1") for name in "xyz")]))
    Path("b.yaml").write_text(cluster_text([make_node("n1"), make_pod("db").priority(1_000_000).on("n1")]))
    out = run(capsys, *arguments.split(), "--clusters", "*.yaml")[1]
    assert out.startswith("HARM  2 clusters: worst is b: ")
