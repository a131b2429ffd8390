"""`forewarn whatif hpa --max`: every HorizontalPodAutoscaler at its maxReplicas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import forewarn
from forewarn.policies.cli import main
from forewarn.policies.render.autoscalers import limits_of
from forewarn.policies.render.whatif import effects_of, headline, render
from forewarn.policies.simulation.scenario import MAX_REPLICAS
from forewarn.policies.whatif.autoscalers import Autoscalers, Considered, Launches, NoLaunch
from tests.builders import cluster_text, make_node

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.application.changes import Change

CLUSTER = "docs/examples/whatif/cluster.yaml", "docs/examples/whatif/autoscalers.yaml"


def workload(name: str, replicas: int | None = 1, kind: str = "Deployment") -> Any:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def autoscaler(name: str, most: Any, target: Any = None, kind: str = "Deployment", **spec: Any) -> Any:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": target or name}
    spec = {"maxReplicas": most, "scaleTargetRef": reference, **spec}
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def asked(tmp_path: Path, *objects: Any, change: Change | None = None) -> forewarn.WhatIf:
    empty = [{"apiVersion": "v1", "kind": f"{kind}List", "items": []} for kind in ("Pod", "ResourceQuota")]
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster_text([make_node("n").has(cpu="32").obj, *objects, *empty]), encoding="utf-8")
    return forewarn.whatif(forewarn.load(str(file)), change or forewarn.MaxReplicas())


def test_the_workloads_of_all_autoscalers_are_scaled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", "hpa", "--max", "--cluster", CLUSTER[0], "--cluster", CLUSTER[1], "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["change"] == "1 HorizontalPodAutoscaler at maxReplicas"
    assert len(answer["preempted"]) == 4


TITLE = "1 HorizontalPodAutoscaler at maxReplicas"
RUN = "all 4 new Pods of shop/web run"
HARM = f"{RUN}; 4 of 4 replicas of reports/nightly lost (all Pending), 4 Pods preempted"
LIMIT = "limits hit: max node group size reached (new)"
TWO_NODES = (
    f"with 2 new nodes of new, {RUN}, 4 of 4 replicas of reports/nightly down for 3 min 10 s, 4 Pods of reports/nightly"
    " preempted and replaced, no Pod Pending after 3 min 10 s; without: 4 of 4 replicas of reports/nightly lost"
)
ONE_NODE = (
    f"with 1 new node of new, {RUN}, 2 of 4 replicas of reports/nightly lost (all Pending), the other 2 replicas down"
    " for 3 min 10 s, 4 Pods preempted; without: 4 of 4 replicas lost (all Pending): "
    f"{TITLE}"
)


@pytest.mark.parametrize(
    ("sizes", "line"),
    [
        (None, f"{HARM}: {TITLE}"),
        ({}, TWO_NODES),
        ({"size": 1, "maxSize": 2}, ONE_NODE),
        ({"size": 1, "maxSize": 1}, f"{HARM}; no new nodes help, {LIMIT}: {TITLE}"),
    ],
)
def test_the_first_line_has_the_nodes_and_limits_and_decides_the_status(
    sizes: dict[str, int] | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    (tmp_path / "g.json").write_text(
        json.dumps([{"name": "new", "template": {"status": {"capacity": capacity}}, **(sizes or {})}])
    )
    groups = () if sizes is None else ("--node-templates", str(tmp_path / "g.json"))
    arguments = ["whatif", "hpa", "--max", "--cluster", CLUSTER[0], "--cluster", CLUSTER[1], "--fail-on", "pending"]
    assert main([*arguments, *groups]) == int("no Pod Pending" not in line)
    first, _, rest = capsys.readouterr().out.partition("\n")
    assert ("needed nodes not predicted without node groups" in rest) is (sizes is None)
    assert first == line
    assert ("max node group size reached (new)" in rest) is ("maxSize" in (sizes or {}))


def test_the_first_line_says_that_nothing_happens(tmp_path: Path) -> None:
    result = asked(tmp_path, workload("a"), autoscaler("a", 1))
    assert headline(result.answer) == "1 new Pod of team/a runs; no replica lost, no Pod preempted or newly Pending"
    assert result.answer.replicas == (1, 1)


def test_limits_of_node_pools_are_named() -> None:
    why = "all available instance types exceed limits for nodepool (NodePool=general)"
    launches = Launches(
        [], [NoLaunch("a", 2, why), NoLaunch("b", 1, "no instance type"), NoLaunch("c", 1, why)], "", []
    )
    nothing = Considered(0, {}, 4)
    assert limits_of(Autoscalers(nothing, nothing, None, launches)) == [why]


def test_each_kind_reaches_its_maximum(tmp_path: Path) -> None:
    objects = [workload("a"), workload("b", None, "StatefulSet"), workload("c", 9)]
    scalers = [autoscaler("a", 3), autoscaler("b", 2, kind="StatefulSet"), autoscaler("c", 2)]
    result = asked(tmp_path, *objects, *scalers)
    assert result.answer.change == "3 HorizontalPodAutoscalers at maxReplicas"
    assert sum(row.after + row.pending for row in result.workloads) == 7


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([autoscaler("a", 3)], "its workload is not in the cluster"),
        ([autoscaler("a", 3, kind="Rollout")], "scales another kind than"),
        ([workload("a"), autoscaler("a", 3), autoscaler("b", 5, "a")], "another one scales the same workload"),
        ([workload("a", 0), autoscaler("a", 3)], "a workload with 0 replicas disables it"),
        ([workload("a"), autoscaler("a", 2**31 - 1)], f"more than {MAX_REPLICAS:,} replicas"),
        ([workload("a"), autoscaler("a", "many")], "an invalid maxReplicas"),
        ([workload("a"), autoscaler("a", 3, scaleTargetRef=[])], "scales another kind than"),
    ],
)
def test_autoscalers_that_scale_nothing_are_named(objects: Any, told: str, tmp_path: Path) -> None:
    result = asked(tmp_path, *objects)
    assert result.answer.change.startswith("0 of ")
    assert any(told in note and "not simulated" in note and "team/a" in note for note in result.notes)


def test_a_workload_that_may_have_no_replicas_is_scaled(tmp_path: Path) -> None:
    assert asked(tmp_path, workload("a", 0), autoscaler("a", 3, minReplicas=0)).answer.replicas == (0, 3)


def test_the_total_is_bounded_and_small_workloads_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.whatif.questions.MAX_REPLICAS", 5)
    objects = [workload(name) for name in "abc"] + [autoscaler("a", 4), autoscaler("b", 2), autoscaler("c", 3)]
    result = asked(tmp_path, *objects)
    assert "2 of 3 HorizontalPodAutoscalers at maxReplicas" in result.answer.change
    assert [note for note in result.notes if "team/a" in note]


def test_without_autoscalers_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(forewarn.SourceError, match="no HorizontalPodAutoscalers"):
        asked(tmp_path, workload("a"))


@pytest.mark.parametrize(("replicas", "scaler", "noted"), [(2, "a", True), (0, "a", False), (2, "b", False)])
def test_scaling_a_workload_names_the_autoscaler_that_may_change_it_again(
    replicas: int, scaler: str, noted: bool, tmp_path: Path
) -> None:
    change = forewarn.Scale("deployment/a", replicas, "team")
    result = asked(tmp_path, workload("a"), workload("b"), autoscaler(scaler, 3), change=change)
    note = "HorizontalPodAutoscaler team/a allows 1 to 3 replicas; its changes are not simulated"
    assert (note in result.notes) is noted


@pytest.mark.parametrize(
    ("replicas", "notes", "undone"),
    [(1, 0, " (unchanged)"), (2, 1, ""), (6, 1, " (stored HPA team/a would set replicas back to 3)")],
)
def test_an_applied_number_of_replicas_names_the_autoscaler_too(
    replicas: int, notes: int, undone: str, tmp_path: Path
) -> None:
    changed = workload("a")
    changed["spec"] = changed["spec"] | {"replicas": replicas}
    result = asked(tmp_path, workload("a"), autoscaler("a", 3), change=forewarn.Apply([changed]))
    assert len(result.notes) == notes
    assert result.answer.title.endswith(f" applied{undone}")


def test_the_notes_about_autoscalers_of_applied_workloads_are_bounded(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(13)]
    stored = [each for name in names for each in (workload(name), autoscaler(name, 3))]
    changed = [workload(name, 2) for name in names]
    result = asked(tmp_path, *stored, change=forewarn.Apply(changed))
    assert result.notes[10:] == ["changes of 3 more HorizontalPodAutoscalers are not simulated"]


@pytest.mark.parametrize(
    ("least", "most", "told", "kept"),
    [
        (0, 2, "allows 0 to 2 replicas", None),
        (None, 1, "allows 1 to 1 replica", 1),
        (4, 6, "allows 4 to 6 replicas", 4),
        (None, None, "has invalid maxReplicas", None),
        (5, 3, "has invalid maxReplicas", None),
        (None, "9", "has invalid maxReplicas", None),
    ],
)
def test_scaling_a_workload_names_what_its_autoscaler_allows(
    least: int | None, most: Any, told: str, kept: int | None, tmp_path: Path
) -> None:
    scaler = autoscaler("a", most, minReplicas=least)
    result = asked(tmp_path, workload("a"), scaler, change=forewarn.Scale("deployment/a", 2, "team"))
    assert list(result.notes) == [f"HorizontalPodAutoscaler team/a {told}; its changes are not simulated"]
    undone = f" (HPA team/a would set it back to {kept})" if kept else ""
    assert result.answer.change == f"Deployment team/a scaled to 2 replicas{undone}"
    two = asked(
        tmp_path, workload("a"), scaler, autoscaler("b", 1, "a"), change=forewarn.Scale("deployment/a", 2, "team")
    )
    assert two.answer.change == "Deployment team/a scaled to 2 replicas", "two autoscalers change nothing"


def test_a_brief_line_tells_of_violated_pdbs_pdbs_with_too_few_pods_and_placeholder_pods() -> None:
    change = forewarn.Scale("deployment/web", 9, "shop")
    answer = forewarn.whatif(forewarn.load("docs/examples/whatif/cluster.yaml"), change).answer
    summary = answer.summary._replace(violated_pdbs={"shop/web": 2})
    answer = answer._replace(summary=summary, pdbs={"shop/web": (1, 2), "shop/db": (0, 1)})
    pdbs = ["PDB shop/db with too few healthy Pods", "1 PDB violated"]
    lost = "4 of 4 replicas of reports/nightly lost (all Pending)"
    assert effects_of(answer, most=3) == [lost, *pdbs, "4 Pods preempted"]
    answer = answer._replace(placeholders=["reports/nightly"])
    reserving = "4 placeholder Pods preempted (4 Pending at the end)"
    assert effects_of(answer, most=3) == [pdbs[0], f"{pdbs[1]}, {reserving}"]


def test_the_shortest_line_counts_failed_jobs_and_the_row_counts_new_pods_as_the_line() -> None:
    change = forewarn.Scale("deployment/web", 9, "shop")
    answer = forewarn.whatif(forewarn.load("docs/examples/whatif/cluster.yaml"), change).answer
    failed = answer._replace(workloads=[each._replace(failure="f" * bool(each.missed)) for each in answer.workloads])
    assert effects_of(failed, most=2)[0] == "4 of 4 replicas of reports/nightly lost (1 failed Job)"
    more_pending = [each._replace(pending=each.pending + each.not_started) for each in answer.workloads]
    first, *rows = render(answer._replace(workloads=more_pending))
    assert first.startswith("3 of 5 new Pods")
    assert "  3 of 5 new Pods scheduled" in rows
