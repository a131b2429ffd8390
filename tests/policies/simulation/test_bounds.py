"""No input keeps `forewarn whatif events` busy for good: it is rejected, or given up, with a message."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Made, cluster_text, make_node, make_pod
from tests.in_process import captured

Obj = dict[str, Any]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def workload(kind: str, name: str, replicas: int = 2, owner: tuple[str, str] | None = None) -> Obj:
    metadata: Obj = {"name": name, "namespace": "default"}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}
        ]
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def cron_job() -> Obj:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"parallelism": 1, "template": TEMPLATE}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "often", "namespace": "default"},
        "spec": spec,
    }


class Run:
    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory, self._capsys = directory, capsys

    def file(self, name: str, text: str) -> str:
        path = self._directory / name
        path.write_text(text)
        return str(path)

    def __call__(
        self, *options: str, new: list[Obj] | None = None, cluster: list[Obj] | None = None
    ) -> tuple[int, str, str]:
        nodes = [make_node("n1").obj, make_node("n2").obj]
        arguments = [
            "events",
            "--cluster",
            self.file("cluster.json", cluster_text([*nodes, *(cluster or [])])),
            *options,
        ]
        arguments += [] if "-o" in options else ["--timeline"]
        if new:
            arguments += ["-f", self.file("new.json", _list(new))]
        return captured(self._capsys, "whatif", *arguments)


def _list(objects: list[Obj]) -> str:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_more_replicas_than_are_simulated(run: Run, kind: str) -> None:
    status, _, err = run(new=[workload(kind, "many", 2_000_000_000)])
    assert status == 3
    assert f"{kind} many: replicas 2,000,000,000 is more than the 100,000 simulated" in err


@pytest.mark.parametrize(("replicas", "kind"), [("2", "string"), (1e308, "number")])
def test_replicas_that_are_no_integer(run: Run, replicas: Any, kind: str) -> None:
    status, out, err = run(new=[workload("Deployment", "web"), workload("Deployment", "odd", replicas)])
    assert (status, out) == (3, f"REJECTED  Deployment default/odd: replicas: must be an integer, not {kind}\n")
    assert f"Deployment default/odd: spec.replicas: must be an integer, not {kind}" in err


def test_a_job_with_more_pods_than_are_simulated(run: Run) -> None:
    huge = cron_job()
    huge["spec"]["jobTemplate"]["spec"]["parallelism"] = 2**31 - 1
    status, _, err = run(new=[huge])
    assert status == 3
    assert "CronJob often: parallelism 2,147,483,647 is more than" in err


def test_a_workload_of_the_cluster_that_asks_for_so_many(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.MAX_PODS", 100)
    status, out, _ = run(
        "--until", "1h", new=[workload("Deployment", "new")], cluster=[workload("ReplicaSet", "many", 2 * 10**9)]
    )
    assert status == 3
    assert "simulation stopped after 100 new Pods: " in out
    assert "default/new: 2 Pods bound to n1, n2" in out


HUGE = 2**31 - 1
WHY = "they stay Pending like its others"


def job(parallelism: int, **spec: Any) -> Obj:
    about = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "many", "namespace": "default"}}
    return about | {"spec": {"parallelism": parallelism, "completions": parallelism, "template": TEMPLATE} | spec}


@pytest.mark.parametrize(
    ("stored", "name", "pods"),
    [
        (workload("Deployment", "many", HUGE), "Deployment default/many", HUGE),
        (workload("ReplicaSet", "many", HUGE), "ReplicaSet default/many", HUGE),
        (workload("ReplicaSet", "of", HUGE, ("Rollout", "many")), "Rollout default/many", HUGE),
        (job(HUGE), "Job default/many", HUGE),
        (job(HUGE, completionMode="Indexed"), "Job default/many", HUGE),
    ],
    ids=["Deployment", "ReplicaSet", "Rollout", "Job", "indexed Job"],
)
@pytest.mark.usefixtures("few_runs")
def test_pods_that_would_stay_pending_are_counted_and_not_simulated(
    run: Run, monkeypatch: pytest.MonkeyPatch, stored: Obj, name: str, pods: int
) -> None:
    monkeypatch.setattr("forewarn.policies.prediction.simulation.pod_limit.MIN_OF_WORKLOAD", 300)
    answer = run.file("answer.json", "")
    status, out, _ = run("-o", "text", "-o", f"json={answer}", new=[workload("Deployment", "new", 1)], cluster=[stored])
    assert status == 0
    assert f"not simulated: {name}: {pods - 300:,} of {pods:,} Pods ({WHY})" in " ".join(out.split())
    document = json.loads(Path(answer).read_text())
    (many,) = (each for each in document["workloads"] if each["workload"] == name.split()[1])
    assert many["running"]["after"] + many["pending"]["after"] == pods
    assert document["pending"]["byWorkload"] == {many["workload"]: many["pending"]["after"]}
    assert "stopped" not in out


def test_pods_beyond_the_limit_that_may_run_make_an_answer_incomplete(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.policies.prediction.simulation.pod_limit.MIN_OF_WORKLOAD", 5)
    monkeypatch.setattr("forewarn.policies.prediction.simulation.pod_limit.MAX_OF_WORKLOAD", 5)
    objects = {"new": [workload("Deployment", "new", 1)], "cluster": [workload("Deployment", "many", HUGE)]}
    answer = run.file("answer.json", "")
    status, out, _ = run("-o", "text", "-o", f"json={answer}", **objects)
    assert status == 3
    assert out.startswith("NO ANSWER  ")
    assert f"not simulated: Deployment default/many: {HUGE - 5:,} of {HUGE:,} Pods (more than a simulation" in out
    document = json.loads(Path(answer).read_text())
    assert document["incomplete"] is True
    assert document["status"] == "NO ANSWER"


def test_a_daemon_set_that_the_limit_cuts_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MIN_OF_WORKLOAD", 5), ("MAX_OF_WORKLOAD", 5), ("MIN_IN_ALL", 5), ("MAX_IN_ALL", 5)):
        monkeypatch.setattr(f"forewarn.policies.prediction.simulation.pod_limit.{name}", limit)
    monkeypatch.setattr("forewarn.policies.prediction.simulation.pod_limit.ALWAYS", 2)
    nodes = [make_node(f"m{number}").obj for number in range(6)]
    new = [workload("Deployment", "web", 5), workload("DaemonSet", "agent")]
    del new[1]["spec"]["replicas"]
    status, out, _ = run(new=new, cluster=nodes)
    assert status == 3
    assert "not simulated: DaemonSet default/agent: " in out


def test_many_large_workloads_leave_room_for_small_ones(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MIN_OF_WORKLOAD", 300), ("MIN_IN_ALL", 400), ("ALWAYS", 5)):
        monkeypatch.setattr(f"forewarn.policies.prediction.simulation.pod_limit.{name}", limit)
    there = [workload("Deployment", f"many-{number}", HUGE) for number in range(20)]
    events = [{"at": 30, "create": workload("Deployment", "late", 4)}]
    status, out, _ = run("--events", run.file("events.json", json.dumps(events)), cluster=there)
    assert status == 0
    assert out.startswith("PENDING  1 event: 0 of 4 new Pods run, 42,949,672,936 stay Pending\n")
    assert out.count("WARN  not simulated: Deployment default/many-") == 2
    assert "18 more warnings: -v\n" in out


def test_a_replaced_pod_does_not_count(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIN_OF_WORKLOAD", "MAX_OF_WORKLOAD", "MIN_IN_ALL", "MAX_IN_ALL", "ALWAYS"):
        monkeypatch.setattr(f"forewarn.policies.prediction.simulation.pod_limit.{name}", 0)
    there = [workload("ReplicaSet", "web", 4), *(owned("ReplicaSet", "web", number) for number in range(4))]
    events = [{"at": 1, "drain": "n1"}]
    status, out, _ = run("--events", run.file("events.json", json.dumps(events)), cluster=there)
    assert status == 0
    assert "not simulated" not in out
    assert "default/web: 4 Pods bound to n2" in out


def test_scaling_to_more_than_are_simulated(run: Run) -> None:
    events = [{"at": 0, "scale": {"kind": "Deployment", "name": "web", "replicas": 2**31 - 1}}]
    status, _, err = run("--events", run.file("events.json", json.dumps(events)))
    assert status == 2
    assert "scale to 2,147,483,647 replicas; the limit is 100,000" in err


@pytest.mark.parametrize("runs", ["1000000000", "0", "-1", "9" * 5000])
def test_more_runs_than_there_may_be(run: Run, runs: str) -> None:
    status, _, err = run("--runs", runs, new=[workload("Deployment", "web")])
    assert status == 2
    assert "--runs" in err


@pytest.mark.parametrize("until", ["9999h", "1e400", "99999999999999999999", "-5", "999999999h"])
def test_a_time_that_is_too_far(run: Run, until: str) -> None:
    status, _, err = run(f"--until={until}", new=[workload("Deployment", "web")])
    assert status == 2
    assert "--until" in err


def test_a_job_every_minute_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.MAX_STEPS", 3000)
    status, out, _ = run("--until", "744h", new=[cron_job()])
    assert status == 3
    assert "simulation stopped after 3,000 steps: " in out
    assert "at once" in out


@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize("pods", [1, 100])
def test_who_loads_more_may_ask_for_more(run: Run, monkeypatch: pytest.MonkeyPatch, pods: int) -> None:
    """A number that a large cluster's question exceeds protects nobody: its bound goes by the nodes and pods of it."""
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.MAX_STEPS", 3000)
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.STEPS_EACH", 100)
    there = [workload("ReplicaSet", "web", pods), *(owned("ReplicaSet", "web", number) for number in range(pods))]
    status, out, _ = run("--until", "744h", new=[cron_job()], cluster=there)
    assert status == 3
    assert f"simulation stopped after {max(3000, 100 * (pods + 2)):,} steps: " in out


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_an_events_file_of_a_million_lines(run: Run, suffix: str) -> None:
    line = "- {at: 1, cordon: n1}\n" if suffix == "yaml" else '{"at": 1, "cordon": "n1"},\n'
    text = line * 1_000_000 if suffix == "yaml" else f'[{line * 1_000_000}{{"at": 1, "cordon": "n1"}}]'
    started = time.process_time()
    status, _, err = run("--events", run.file(f"events.{suffix}", text))
    assert status == 3
    assert "larger than 4 MiB" in err
    assert time.process_time() - started < 2


def test_more_events_than_are_simulated(run: Run) -> None:
    events = [{"at": 1, "cordon": "n1"}] * 10_001
    status, _, err = run("--events", run.file("events.json", json.dumps(events)))
    assert status == 2
    assert "10,001 events; the limit is 10,000" in err


def test_workloads_that_control_each_other(run: Run) -> None:
    circle = [
        workload("Deployment", "a", owner=("ReplicaSet", "b")),
        workload("ReplicaSet", "b", owner=("Deployment", "a")),
        workload("ReplicaSet", "itself", owner=("ReplicaSet", "itself")),
    ]
    status, out, _ = run(new=circle)
    assert status == 0
    assert "WARN  " not in out
    assert run(new=[workload("Deployment", "c")], cluster=circle)[0] == 0


def owned(kind: str, name: str, number: int, **metadata: Any) -> Obj:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
    pod = (
        make_pod(f"{name}-{number}").labels(app=name).on("n1").status(conditions=[{"type": "Ready", "status": "True"}])
    )
    return pod.metadata(ownerReferences=[owner], **metadata).obj


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_stateful_set_whose_pod_has_a_huge_number(run: Run, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """A thousand million places between two pods are not gone through, nor held."""
    monkeypatch.setattr("forewarn.policies.prediction.simulation.pod_limit.MIN_OF_WORKLOAD", 100)
    many = workload("StatefulSet", "w", 2**31 - 1)
    many["spec"]["podManagementPolicy"] = policy
    started = time.process_time()
    status, out, _ = run(
        "--until", "1", new=[workload("Deployment", "c", 1)], cluster=[many, owned("StatefulSet", "w", 999_999_999)]
    )
    assert status == 0
    assert "default/w" in out
    assert time.process_time() - started < 20


@pytest.mark.parametrize("created", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_times_at_the_ends_of_the_calendar(run: Run, created: str) -> None:
    often = cron_job()
    often["metadata"]["creationTimestamp"] = created
    pod = owned("ReplicaSet", "web", 0, creationTimestamp=created)
    status, out, _ = run("--until", "3m", new=[workload("Deployment", "c", 1)], cluster=[often, pod])
    assert status == 0
    assert "default/c" in out


def test_schedules_of_every_kind_come_to_an_end(run: Run) -> None:
    for schedule in (
        "* * * * *",
        "0 0 30 2 *",
        "0 0 29 2 *",
        "0,1 0 1 1 *",
        "*/1 " * 5000,
        "@every 1s",
        "0-59/1,*/1 * * * *",
    ):
        often = cron_job()
        often["spec"]["schedule"] = schedule
        often["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z"
        started = time.process_time()
        assert run("--until", "3m", new=[workload("Deployment", "c", 1)], cluster=[often])[0] == 0
        assert time.process_time() - started < 5, schedule


@pytest.mark.parametrize("seconds", ["nan", "-nan", "inf", "-inf", "1e309", "-1", "x" * 100_000])
def test_an_annotation_that_is_no_duration(run: Run, seconds: str) -> None:
    web = workload("ReplicaSet", "web", 2)
    web["spec"]["template"]["metadata"]["annotations"] = {"terminationSeconds": seconds}
    events = [{"at": 5, "scale": {"kind": "ReplicaSet", "name": "web", "replicas": 0}}]
    status, out, _ = run("-o", "json", "--events", run.file("events.json", json.dumps(events)), new=[web])
    assert status == 0
    (outcome,) = json.loads(out, parse_constant=pytest.fail)["outcomes"]
    gone = [event["t"] for event in outcome["timeline"] if event["event"] == "gone"]
    assert len(gone) == 2
    assert all(35 <= time_ < 36 for time_ in gone), "its grace period"


@pytest.mark.parametrize("grace", [10**9, 2**63 - 1, -1])
def test_a_grace_period_of_centuries(run: Run, grace: int) -> None:
    web = workload("ReplicaSet", "web", 2)
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    events = [{"at": 5, "scale": {"kind": "ReplicaSet", "name": "web", "replicas": 0}}]
    status, out, _ = run("--until", "1h", "--events", run.file("events.json", json.dumps(events)), new=[web])
    assert status == 0
    assert ("without a steady state" in out) == (grace > 0)


def test_a_cron_job_has_no_steady_state(run: Run) -> None:
    often = cron_job()
    often["spec"]["schedule"] = "*/10 * * * *"
    out = " ".join(run("--until", "1h", new=[often])[1].split())
    assert "creates Jobs at each scheduled time, so the simulation has no steady state: the numbers are those " in out
    assert "without a steady state" not in out


def test_a_job_that_starts_after_the_end(run: Run) -> None:
    later = cron_job()
    later["spec"]["schedule"] = "0 0 1 1 *"
    later["metadata"]["creationTimestamp"] = "2026-05-04T08:00:00Z"
    out = run("--until", "1h", new=[workload("ReplicaSet", "web")], cluster=[later])[1]
    assert "without a steady state" not in out


@pytest.mark.parametrize("field", ["activeDeadlineSeconds", "completions", "backoffLimit", "ttlSecondsAfterFinished"])
@pytest.mark.parametrize("number", [2**31 - 1, -(2**31)])
def test_a_job_of_large_numbers(run: Run, field: str, number: int) -> None:
    spec = {"parallelism": 2, "completionMode": "Indexed", "completions": 2, "template": TEMPLATE, field: number}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec}
    assert run("--until", "1h", new=[job])[0] in (0, 3)


@pytest.mark.parametrize(("deadline", "is_simulated"), [(2**63 - 1, True), (2**63, False)])
def test_a_stored_deadline_of_more_than_64_bits(run: Run, deadline: int, is_simulated: bool) -> None:
    spec = {"template": TEMPLATE, "activeDeadlineSeconds": deadline}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec}
    out = run(new=[workload("Deployment", "c", 1)], cluster=[job])[1]
    assert ("not simulated: Job default/j" in out) == (not is_simulated)


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63), 0])
def test_a_taint_that_is_tolerated_for_centuries(run: Run, seconds: int) -> None:
    pod = owned("ReplicaSet", "web", 0)
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    pod["spec"]["tolerations"] = [toleration]
    tainted = make_node("n1").spec(taints=[{"key": "k", "effect": "NoExecute"}]).obj
    events = [{"at": 1, "update": tainted}]
    _, out, _ = run(
        "--events", run.file("events.json", json.dumps(events)), cluster=[workload("ReplicaSet", "web", 1), pod]
    )
    assert ("Pod deleted (taint of n1)" in out) == (seconds <= 0)


def budget(number: int, **limit: Any) -> Obj:
    made = Made("policy/v1", "PodDisruptionBudget", f"b{number}", "default")
    return made.spec(selector={"matchLabels": {"app": "web"}}, **limit).obj


@pytest.mark.parametrize("limit", [2**31, 2**63, -5, f"{'9' * 18}%", f"{'9' * 5000}%", "-1%", "%", "1e3%", "٣%"])
def test_a_budget_of_any_number_or_percentage(run: Run, limit: object) -> None:
    there = [workload("ReplicaSet", "web", 1), owned("ReplicaSet", "web", 0)]
    for field in ("minAvailable", "maxUnavailable"):
        status, out, err = run(new=[workload("Deployment", "c", 1)], cluster=[*there, budget(0, **{field: limit})])
        assert status == 0
        assert len(out) + len(err) < 8000


def test_a_thousand_budgets_of_one_pod(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at one is a step: a run is given up, and does not last."""
    monkeypatch.setattr("forewarn.policies.prediction.simulation.simulation.MAX_STEPS", 2_000)
    there = [workload("ReplicaSet", "web", 4), *(owned("ReplicaSet", "web", number) for number in range(4))]
    pdbs = [budget(number, maxUnavailable=1) for number in range(1_000)]
    events = [{"at": 5, "scale": {"kind": "ReplicaSet", "name": "web", "replicas": 6}}]
    started = time.process_time()
    status, out, _ = run("--events", run.file("events.json", json.dumps(events)), cluster=[*there, *pdbs])
    assert status == 3
    assert "simulation stopped after 2,000 steps" in out
    assert time.process_time() - started < 3
