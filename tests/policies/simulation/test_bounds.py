"""What somebody wrote does not keep `forewarn simulate` busy for good: it is refused, or given up, with a message."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from policies.commands.simulate import main
from tests.builders import make_node

Obj = dict[str, Any]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def workload(kind: str, name: str, replicas: int = 2, owner: tuple[str, str] | None = None) -> Obj:
    metadata: Obj = {"name": name, "namespace": "default"}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True}
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
        arguments = ["--cluster", self.file("cluster.json", _list([*nodes, *(cluster or [])])), *options]
        if new:
            arguments += ["-f", self.file("new.json", _list(new))]
        try:
            status = main(arguments)
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        said = self._capsys.readouterr()
        return status, said.out, said.err


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


def test_a_job_with_more_pods_than_are_simulated(run: Run) -> None:
    huge = cron_job()
    huge["spec"]["jobTemplate"]["spec"]["parallelism"] = 2**31 - 1
    status, _, err = run(new=[huge])
    assert status == 3
    assert "CronJob often: parallelism 2,147,483,647 is more than" in err


def test_a_workload_of_the_cluster_that_asks_for_so_many(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.simulation.simulation.MOST_PODS", 1500)
    status, out, _ = run(
        "--until", "1h", new=[workload("Deployment", "new")], cluster=[workload("ReplicaSet", "many", 2 * 10**9)]
    )
    assert status == 0
    assert "given up after 1,500 new pods, at " in out
    assert "new pods get a node" in out


def test_scaling_to_more_than_are_simulated(run: Run) -> None:
    events = [{"at": 0, "scale": {"kind": "Deployment", "name": "web", "replicas": 2**31 - 1}}]
    status, _, err = run("--events", run.file("events.json", json.dumps(events)))
    assert status == 3
    assert "scale asks for 2,147,483,647 replicas, more than the 100,000" in err


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
    monkeypatch.setattr("policies.simulation.simulation.MOST_STEPS", 3000)
    status, out, _ = run("--until", "744h", new=[cron_job()])
    assert status == 0
    assert "given up after 3,000 steps, at " in out


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_an_events_file_of_a_million_lines(run: Run, suffix: str) -> None:
    line = "- {at: 1, cordon: n1}\n" if suffix == "yaml" else '{"at": 1, "cordon": "n1"},\n'
    text = line * 1_000_000 if suffix == "yaml" else f'[{line * 1_000_000}{{"at": 1, "cordon": "n1"}}]'
    started = time.process_time()
    status, _, err = run("--events", run.file(f"events.{suffix}", text))
    assert status == 3
    assert "more than 4 MiB" in err
    assert time.process_time() - started < 2


def test_more_events_than_are_simulated(run: Run) -> None:
    events = [{"at": 1, "cordon": "n1"}] * 10_001
    status, _, err = run("--events", run.file("events.json", json.dumps(events)))
    assert status == 3
    assert "10,001 events are more than the 10,000 that are simulated" in err


def test_workloads_that_control_each_other(run: Run) -> None:
    circle = [
        workload("Deployment", "a", owner=("ReplicaSet", "b")),
        workload("ReplicaSet", "b", owner=("Deployment", "a")),
        workload("ReplicaSet", "itself", owner=("ReplicaSet", "itself")),
    ]
    status, out, _ = run(new=circle)
    assert status == 0
    assert "settled after" in out
    assert run(new=[workload("Deployment", "c")], cluster=circle)[0] == 0
