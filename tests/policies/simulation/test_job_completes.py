"""Jobs whose Pods run for a known time: the event `run` of `whatif events`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import make_node, make_pod, make_priority_class

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

HOUR_START = "2026-05-04T09:00:00Z"
"""Time 0 is a minute later."""


def job(name: str, cpu: str = "1", class_name: str = "", owner: Any = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "priorityClassName": class_name, "containers": [container]}}
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    metadata |= {"ownerReferences": [{**owner, "controller": True}]} if owner else {}
    spec = {"template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def pod_of(name: str, job_name: str, node: str, cpu: str = "1") -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job_name, "uid": f"uid-{job_name}", "controller": True}
    pod = make_pod(name).request(cpu=cpu).on(node).metadata(ownerReferences=[owner], creationTimestamp=HOUR_START).obj
    return {**pod, "status": {"phase": "Running", "startTime": HOUR_START}}


def node(name: str, cpu: str) -> dict[str, Any]:
    obj = make_node(name).obj
    return {**obj, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}}


IDLE = make_pod("idle").on("n").obj


def run(name: str, seconds: Any = 600) -> dict[str, Any]:
    return {"run": {"name": name, "durationSeconds": seconds}}


@pytest.fixture
def answer(tmp_path: Path, capsys: Capture) -> Any:
    def ask(objects: list[Any], events: list[Any], *more: str) -> Any:
        (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        (tmp_path / "events.json").write_text(json.dumps(events))
        files = ("--events", str(tmp_path / "events.json"), "--cluster", str(tmp_path / "cluster.json"))
        assert main(["whatif", "events", *files, "--timeline", "-o", "json", *more]) == 0
        return json.loads(capsys.readouterr().out.partition("\n")[0])

    return ask


def times(answer: Any, event: str, name: str = "") -> list[int]:
    entries = answer["timeline"]
    return [round(e["t"]) for e in entries if e["event"] == event and e["pod"].startswith(f"default/{name}")]


def test_a_waiting_pod_starts_when_a_job_completes(answer: Any) -> None:
    objects = [node("n", "2"), job("first", "2"), pod_of("first-x", "first", "n", "2")]
    found = answer(objects, [run("first"), {"create": job("second", "1")}])
    assert times(found, "succeeded") == times(found, "scheduled", "second") == [540]
    assert times(found, "deleted") == []
    assert (found["counters"]["lost"], found["completed"], found["running"]) == (0, 1, {"before": 1, "after": 1})


@pytest.mark.parametrize(
    ("events", "lost", "when"),
    [
        ([run("first")], "Pending 0 | lost 0", "9 min"),
        ([{"delete": make_pod("first-x").obj}], "Pending 1 | lost 1 of 1", "30 s"),
    ],
)
def test_the_counters_tell_that_a_pending_pod_runs(
    events: list[Any], lost: str, when: str, tmp_path: Path, capsys: Capture
) -> None:
    second = make_pod("second").request(cpu="2").obj
    objects = [node("n", "2"), job("first", "2"), pod_of("first-x", "first", "n", "2"), second]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    (tmp_path / "events.json").write_text(json.dumps(events))
    files = ["--events", str(tmp_path / "events.json"), "--cluster", str(tmp_path / "cluster.json")]
    main(["whatif", "events", *files, "--timeline"])
    out, err = capsys.readouterr()
    assert out.splitlines()[1].strip() == f"preempted 0 | {lost} | Pending Pods that now run 1", out + err
    assert f"\n{when}  default/second: 1 Pod bound to n\n" in out


def test_a_job_creates_pods_until_all_completions(answer: Any) -> None:
    new = job("new", "1", parallelism=2, completions=5)
    found = answer([node("n", "9"), IDLE], [{"create": new}, run("new", "1m")])
    assert times(found, "succeeded") == pytest.approx([60, 60, 121, 121, 182], abs=1)
    assert len(times(found, "created")) == 5
    assert found["running"] == {"before": 1, "after": 1}


def test_a_preempted_pod_runs_again_from_the_start(answer: Any) -> None:
    objects = [make_priority_class(10).obj, node("n", "2"), job("low", "2"), pod_of("low-x", "low", "n", "2")]
    high = job("high", "2", "class-10")
    found = answer(objects, [run("low"), {"at": 100, "create": high}, {"at": 100, **run("high", 200)}])
    (ends,) = times(found, "succeeded", "low")
    (starts,) = times(found, "scheduled", "low")
    assert starts > 300
    assert ends - starts == pytest.approx(600, abs=1)


def test_pods_on_a_lost_node_do_not_complete(answer: Any) -> None:
    objects = [node("n", "2"), node("m", "2"), job("one", "2"), pod_of("one-x", "one", "n", "2")]
    found = answer(objects, [{"at": 0, "lost": "n"}, run("one", 65)])
    assert [e["node"] for e in found["timeline"] if e["event"] == "succeeded"] == ["m"]


def test_a_quota_does_not_count_completed_pods(answer: Any) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    quota |= {"spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
    objects = [node("n", "9"), job("first"), pod_of("first-x", "first", "n"), quota]
    found = answer(objects, [run("first", 300), {"create": job("second")}])
    (created,) = times(found, "created", "second")
    assert created >= 240
    assert found["rejectedByQuota"] == {}


def test_pods_of_a_cron_job_that_complete_are_not_lost(answer: Any) -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "default", "uid": "c"}}
    cron["spec"] = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job("x")["spec"]}}
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c"}
    objects = [node("n", "2"), cron, job("c-1", owner=owner), pod_of("c-1-x", "c-1", "n")]
    found = answer(objects, [run("c-1")])
    assert [each["workload"] for each in found["workloads"]] == ["default/c"]
    assert (found["counters"]["lost"], found["scaledDown"], found["completed"]) == (0, 0, 1)


CRON = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c"}


def past(name: str, minutes: int, owner: Any = CRON, **more: Any) -> dict[str, Any]:
    """A completed Job of a CronJob."""
    times = {"startTime": "2026-05-04T08:00:00Z", "completionTime": f"2026-05-04T08:{minutes:02}:00Z"}
    spec = more.pop("spec", {})
    conditions = [{"type": "Complete", "status": "True"}]
    return {**job(name, owner=owner, **spec), "status": {"succeeded": 1, "conditions": conditions, **times, **more}}


HISTORY = [past("c-1", 10), past("c-2", 20), past("c-3", 25)]


@pytest.mark.parametrize(
    ("history", "runs", "note"),
    [
        (HISTORY, 20, "Job default/c-9 runs for 20 min: the median of 3 completed Jobs of CronJob default/c"),
        ([past("c-1", 10), past("other", 25, owner={**CRON, "name": "d"})], 10, "the median of 1 completed Job of"),
        ([past("c-1", 10), past("c-2", 50, failed=1)], 10, "the median of 1 completed Job of"),
        ([past("c-1", 10), past("c-2", 50, spec={"completions": 3})], 10, "the median of 1 completed Job of"),
        ([past("c-1", 10), past("c-2", 50, completionTime="never")], 10, "the median of 1 completed Job of"),
        ([past("c-1", 10, owner={**CRON, "kind": "Workflow"})], None, "no completed Job of CronJob default/c)"),
        (
            [],
            None,
            "not predicted: when Job default/c-9 completes (no durationSeconds, no completed Job of CronJob default/c)",
        ),
    ],
)
def test_a_job_runs_as_long_as_completed_jobs_of_its_cron_job(
    history: list[Any], runs: int | None, note: str, answer: Any
) -> None:
    objects = [node("n", "2"), *history, job("c-9", owner=CRON), pod_of("c-9-x", "c-9", "n")]
    found = answer(objects, [{"run": {"name": "c-9"}}])
    assert times(found, "succeeded") == ([] if runs is None else [60 * runs - 60])
    assert note in " ".join(found["notes"])


def test_the_run_time_of_a_job_without_a_cron_job_is_not_predicted(answer: Any) -> None:
    found = answer([node("n", "2"), *HISTORY, job("one"), pod_of("one-x", "one", "n")], [{"run": {"name": "one"}}])
    assert times(found, "succeeded") == []
    why = "no durationSeconds, no completed Job of the same CronJob"
    assert f"not predicted: when Job default/one completes ({why})" in found["notes"]


def test_a_created_job_has_the_run_time_of_its_cron_job(answer: Any) -> None:
    created = [{"create": job("c-9", owner=CRON)}, {"run": {"name": "c-9"}}]
    found = answer([node("n", "2"), IDLE, *HISTORY], created)
    assert times(found, "succeeded") == pytest.approx([1200], abs=2)


def test_text_names_completed_pods(answer: Any, capsys: Capture, tmp_path: Path) -> None:
    answer([node("n", "2"), job("one"), pod_of("one-x", "one", "n")], [run("one")])
    files = ("--events", str(tmp_path / "events.json"), "--cluster", str(tmp_path / "cluster.json"))
    assert main(["whatif", "events", *files, "--timeline"]) == 0
    assert "9 min  default/one: 1 Pod completed on n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"run": {"durationSeconds": 5}}, "run needs the name of a Job"),
        ({"run": {"kind": "Pod", "name": "p", "durationSeconds": 5}}, "run needs the name of a Job"),
        ({"run": {"name": "one", "durationSeconds": -1}}, "durationSeconds must be seconds"),
        ({"run": {"name": "none", "durationSeconds": 1}}, "Job default/none not found in the cluster"),
    ],
)
def test_invalid_events(event: Any, problem: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "c.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n", "2"), job("one"), IDLE]})
    )
    (tmp_path / "e.json").write_text(json.dumps([event]))
    files = ("--events", str(tmp_path / "e.json"), "--cluster", str(tmp_path / "c.json"))
    assert main(["whatif", "events", *files]) in (2, 3)
    assert problem in capsys.readouterr().err
