"""`forewarn classes` and `forewarn classes plan`: tables, exit statuses and wrong usage."""

from __future__ import annotations

import json
import signal
import sys
import threading
from io import StringIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli import terminal
from forewarn.policies.cli.main import main
from forewarn.policies.cli.terminal import counting
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.questions.application.classes import classes
from tests.builders import Made, cluster, cluster_text, make_node, make_pod
from tests.in_process import captured

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = ("--cluster", "docs/examples/classes/cluster.yaml")
CLASSES = ("-f", "docs/examples/classes/classes.yaml")
WORKLOADS = ("-f", "docs/examples/classes/workloads.yaml")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return captured(capsys, "classes", *arguments)


def made_class(name: str, value: int, **fields: Any) -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", name)
    made.obj.update({**PriorityClass(name, value).to_api(), **fields})
    return made


def small_quota(**hard: str) -> Made:
    return Made("v1", "ResourceQuota", "small", "prod").spec(hard=hard)


def levels(*made: Made) -> dict[tuple[str, int], tuple[bool | None, int, int]]:
    """(class, value) -> whether it preempts, its running Pods, the Pods that it could displace."""
    return {
        (level.class_, level.value): (
            level.new_pods and level.new_pods.preempt,
            level.running.pods,
            level.could_displace.pods,
        )
        for level in classes(cluster(*made)).classes
        if level.value < 10**9
    }


def test_levels_are_classes_and_other_priorities_of_pods() -> None:
    old = make_pod("old").priority(5).on("n1").spec(priorityClassName="gold")
    new = make_pod("new").priority(10).on("n1").spec(priorityClassName="gold")
    bare, waiting = make_pod("bare").on("n1"), make_pod("waiting").priority(10).spec(priorityClassName="gold")
    silver = made_class("silver", 7, preemptionPolicy="Never")
    assert levels(make_node("n1"), made_class("gold", 10), silver, old, new, bare, waiting) == {
        ("gold", 10): (True, 1, 2),
        ("silver", 7): (False, 0, 0),
        ("gold", 5): (None, 1, 0),
        ("", 0): (True, 1, 0),
    }


def test_pods_with_an_old_value_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = [make_pod(name).priority(5).spec(priorityClassName="gold") for name in ("old", "waiting")]
    made = [make_node("n1"), made_class("gold", 10), old[0].on("n1"), old[1], make_pod("bare")]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    found = json.loads(run(capsys, "--cluster", str(tmp_path / "cluster.json"), "-o", "json")[1])
    counts = {"runningPods": 1, "podsPendingNow": 2, "withAnOldValueOfTheirClass": 2, "withoutAClass": 1}
    assert (found["status"], found["counts"]) == ("WARN", {"cpuRequested": 0, "memoryRequested": 0, **counts})
    assert [row["note"] for row in found["rows"] if row["class"] == "gold"] == ["", "old value"]


def test_pods_with_another_policy_than_their_recreated_class_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`audit` and `classes` count the same Pods. The policy of Pods without the field, as in examples, is unknown."""
    never = {"priorityClassName": "gold", "preemptionPolicy": "Never"}
    old = [make_pod(name).priority(10).spec(**never) for name in ("old", "waiting")]
    new = [make_pod(name).priority(10).on("n1").spec(priorityClassName="gold") for name in ("new", "newer")]
    made = [make_node("n1"), made_class("gold", 10), old[0].on("n1"), old[1], *new, make_pod("bare").on("n1")]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    found = json.loads(run(capsys, "--cluster", str(tmp_path / "cluster.json"), "-o", "json")[1])
    assert found["counts"]["withAnOldPreemptionPolicy"] == 2
    noted = [(row["class"], row["note"]) for row in found["rows"] if row["note"]]
    assert noted == [("gold", "2 Pods with an old preemption policy")]
    main(["audit", "--cluster", str(tmp_path / "cluster.json")])
    assert "Pods with an old preemption policy 2" in capsys.readouterr().out


def test_with_a_default_class_no_new_pod_is_without_a_class() -> None:
    found = levels(make_node("n1"), made_class("gold", 10, globalDefault=True), make_pod("bare").on("n1"))
    assert found == {("gold", 10): (True, 0, 1), ("", 0): (None, 1, 0)}


def test_classes_of_one_value_do_not_preempt_each_other() -> None:
    pod = make_pod("p").priority(10).on("n1").spec(priorityClassName="gold")
    found = levels(make_node("n1"), made_class("gold", 10), made_class("iron", 10), pod)
    assert (found["gold", 10][2], found["iron", 10][2]) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((*CLASSES, *WORKLOADS, "--fail-on", "preemption", "--fail-on", "unfinished"), 0),
        (("--delete", "gold"), 2),
        ((), 2),
    ],
)
def test_exit_statuses_of_a_plan(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int) -> None:
    assert run(capsys, "plan", *arguments, *CLUSTER)[0] == status


def test_a_plan_names_all_classes_and_what_it_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    example = "docs/examples/classes"
    files = ("-f", f"{example}/classes.yaml", "-f", f"{example}/workloads.yaml")
    out = " ".join(run(capsys, "plan", *files, "--cluster", f"{example}/cluster.yaml")[1].split())
    assert "create 4 PriorityClasses; critical (100000, Never); high (50000, Never); low (100); medium (1000) 2" in out
    assert "WARN the steps alone are counted: afterwards, 2 workloads with another priority may change" in out


def test_a_plan_without_a_change_has_no_steps(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plan", "-f", "docs/examples/headroom/cache.yaml", *CLUSTER)
    assert status == 0
    assert out.startswith("WARN  change of PriorityClasses in 0 steps: nothing to change\n")
    assert "\nWARN  ignored, because no workload of the cluster: Deployment shop/cache\n" in out


def test_a_plan_names_the_objects_that_it_ignores(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(json.dumps(make_pod("p").obj))
    out = run(capsys, "plan", "-f", str(tmp_path), "--cluster", "docs/examples/whatif/cluster.yaml")[1]
    assert "\nWARN  ignored, because no workload of the cluster: Pod default/p\n" in out


def test_a_plan_fails_on_preemption(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """PriorityClass medium exists and only becomes the default: it cannot get preemptionPolicy Never first."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(PriorityClass("medium", 1000).to_api()))
    new.write_text(json.dumps(PriorityClass("medium", 1000, True).to_api()))
    asked = ("plan", "-f", str(new), "--cluster", str(old), *CLUSTER, "-o", "json")
    status, out, _ = run(capsys, *asked, "--fail-on", "preemption")
    printed = json.loads(out)
    assert (status, printed["preempted"] > 0, printed["alternative"]) == (1, True, None)


@pytest.mark.parametrize(
    ("made", "fix"),
    [
        ([small_quota(pods="3")], "raise quota prod/small"),
        ([small_quota(**{"limits.cpu": "100"})], "meet quota prod/small (must specify limits.cpu)"),
        (
            [make_node(f"node-{each}").spec(unschedulable=True) for each in (1, 2, 3)],
            "add capacity, or allow maxUnavailable in its rollout",
        ),
    ],
)
def test_the_fix_of_a_blocked_rollout(
    made: list[Made], fix: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "more.json").write_text(cluster_text(made))
    found = json.loads(
        run(capsys, "plan", *CLASSES, *CLUSTER, "--cluster", str(tmp_path / "more.json"), "-o", "json")[1]
    )
    assert (found["status"], found["counters"]["blocked"]) == ("BLOCKED", 2)
    stuck = f"no progress for 10 min in the rollout of prod/ingester, prod/web. Fix: {fix}"
    assert any(warning.endswith(stuck) for warning in found["warnings"])


def test_workloads_of_deleted_classes_have_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ("--cluster", "docs/examples/whatif/cluster.yaml")
    _, out, _ = run(capsys, "plan", "--delete", "gold", "--delete", "batch", *cluster, "-o", "json")
    (warning,) = (each for each in json.loads(out)["warnings"] if each.startswith("admission rejects"))
    assert warning.startswith("admission rejects new Pods of 2 workloads: ")
    assert sorted(warning.partition(": ")[2].partition(";")[0].split(", ")) == ["reports/nightly", "shop/web"]


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("command", [(), ("plan", *CLASSES)])
def test_tables(capsys: pytest.CaptureFixture[str], form: str, command: tuple[str, ...]) -> None:
    status, out, err = run(capsys, *command, "-o", form, *CLUSTER)
    assert (status, err) == (0, "")
    assert ("|---|" in out) == (form == "markdown")


def test_a_terminal_shows_what_is_read_from_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["classes", "--cluster", "webhook/sample/cluster.yaml"]) == 0
    assert "read" not in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["classes", "--cluster", "webhook/sample/cluster.yaml"]) == 0
    shown = capsys.readouterr().err.split("\r\033[K")
    assert (shown[1], shown[-1]) == ("objects read: 0", "")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_elapsed_time_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: now))
    stream, threads = Terminal(), threading.active_count()
    with counting("predicting", stream):
        now = 1.0
        signal.raise_signal(signal.SIGALRM)
        assert threading.active_count() == threads, "Python warns of a fork in a process with threads"
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 1
    assert stream.getvalue().endswith("\r\033[Kpredicting: 1 s\r\033[K")
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    pipe = StringIO()
    with counting("predicting", pipe) as show:
        assert show is None
    assert not pipe.getvalue()


def test_all_commands_count_the_pending_pods_of_kube_scheduler(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    large = {"priority": 0, "containers": [{"name": "c", "resources": {"requests": {"cpu": "64"}}}]}
    waiting = [make_pod("large"), make_pod("gated"), make_pod("foreign"), make_pod("deleted"), make_pod("ended")]
    specs: list[dict[str, Any]] = [{}, {"schedulingGates": [{"name": "g"}]}, {"schedulerName": "volcano"}, {}, {}]
    pods = [pod.spec(**large | spec) for pod, spec in zip(waiting, specs, strict=True)]
    pods[3].metadata(deletionTimestamp="2026-01-01T00:00:00Z")
    pods[4].status(phase="Failed")
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), *pods]))
    (tmp_path / "gold.json").write_text(json.dumps(made_class("gold", 1000).obj))
    given = ("--cluster", str(tmp_path / "cluster.json"))
    _, out, _ = run(capsys, *given, "-o", "json")
    told = json.loads(out)
    assert (sum(each["pending"] for each in told["classes"]), told["pendingOfOtherSchedulers"]) == (2, 1)
    assert told["counts"]["pendingForOtherSchedulers"] == 1
    _, out, _ = run(capsys, "plan", "-f", str(tmp_path / "gold.json"), *given, "-o", "json")
    assert (json.loads(out)["pendingBefore"], [each["pending"] for each in json.loads(out)["steps"]]) == (2, [2])
    main(["audit", *given])
    assert "Pods 4 | Pods Pending now 2 | Pending for other schedulers 1\n" in capsys.readouterr().out
    change = ("whatif", "apply", "-f", str(tmp_path / "gold.json"), *given, "-o", "json")
    main(change)
    rows = {each["workload"]: each["message"] for each in json.loads(capsys.readouterr().out)["workloads"]}
    assert rows.keys() == {"default/large", "default/gated"}
    assert rows["default/gated"] == "kept out of the scheduling queue by scheduling gates"


def test_a_counter_names_the_class_that_new_pods_without_a_class_get(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [make_node("n1"), made_class("gold", 10, globalDefault=True), make_pod("bare").on("n1")]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    out = run(capsys, "--cluster", str(tmp_path / "cluster.json"))[1]
    assert "without a class 1 (new ones get gold)\n" in out
