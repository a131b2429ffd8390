"""`forewarn whatif hpa`: every HorizontalPodAutoscaler at its maxReplicas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import forewarn
from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.prediction.simulation.scenario import MAX_REPLICAS
from forewarn.policies.questions.application.autoscaler_tables import tables_of
from forewarn.policies.questions.whatif.autoscalers import Autoscalers, Considered, Launches, NoLaunch
from forewarn.policies.questions.whatif.effects import effects_of
from tests.builders import cluster_text, make_node, make_pod, make_priority_class

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.questions.application.changes import Change

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
    assert main(["whatif", "hpa", "--cluster", CLUSTER[0], "--cluster", CLUSTER[1], "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["change"] == "1 HorizontalPodAutoscaler at maxReplicas (4 → 8 replicas)"
    assert len(answer["preempted"]) == 4


def test_the_help_of_each_change_says_what_the_namespace_does(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for change in ("hpa", "restart", "lose"):
        with pytest.raises(SystemExit):
            main(["whatif", change, "--help"])
        texts.append(" ".join(capsys.readouterr().out.split()))
    of_autoscalers = "only HorizontalPodAutoscalers of this namespace (default: of all namespaces)"
    named = [[text in shown for shown in texts] for text in (of_autoscalers, "of objects that name none")]
    assert named == [[True, False, False], [False, True, True]]


def test_a_namespace_selects_autoscalers(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["whatif", "hpa", "--cluster", CLUSTER[0], "--cluster", CLUSTER[1], "-o", "json", "-n"]
    statuses = [main([*line, namespace]) for namespace in ("shop", "reports")]
    out, err = capsys.readouterr()
    assert (statuses, json.loads(out)["change"][:27]) == ([0, 2], "1 HorizontalPodAutoscaler a")
    assert err.startswith("forewarn whatif: no HorizontalPodAutoscaler in namespace reports")


@pytest.mark.parametrize(
    ("sizes", "pending", "nodes", "because"),
    [
        (None, 4, 0, ""),
        ({}, 0, 2, ""),
        ({"size": 1, "maxSize": 2}, 2, 1, "max node group size reached (new)"),
        ({"size": 1, "maxSize": 1}, 4, 0, "max node group size reached (new)"),
    ],
)
def test_the_nodes_and_limits_of_groups_decide_the_status(
    sizes: dict[str, int] | None,
    pending: int,
    nodes: int,
    because: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    (tmp_path / "g.json").write_text(
        json.dumps([{"name": "new", "template": {"status": {"capacity": capacity}}, **(sizes or {})}])
    )
    groups = () if sizes is None else ("--node-templates", str(tmp_path / "g.json"))
    arguments = ["whatif", "hpa", "--cluster", CLUSTER[0], "--cluster", CLUSTER[1], "--fail-on", "pending"]
    assert main([*arguments, *groups, "-v"]) == int(pending > 0)
    out = capsys.readouterr().out
    assert ("NO NEW NODE BECAUSE" in out, because in out) == (bool(because), True)
    main([*arguments, *groups, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    end = answer.get("countersWithNewNodes", answer["counters"])
    assert (end["pending"], end["newNodes"]) == (pending, nodes)


def test_an_answer_without_effects_is_ok(tmp_path: Path) -> None:
    result = asked(tmp_path, workload("a"), autoscaler("a", 1))
    assert (result.document.status, result.document.clause) == ("OK", "1 of 1 new Pod runs")
    assert result.answer.replicas == (1, 1)


def test_a_new_pod_in_place_of_a_preempted_one_is_no_more_replica(tmp_path: Path) -> None:
    """The new Pod of "low" runs on "n", but its Pod on "other" is preempted, and the replacement stays Pending."""
    high, low = workload("high", 0), workload("low", kind="ReplicaSet")
    high["spec"]["template"]["spec"] |= {"priorityClassName": "gold", "nodeSelector": {"pool": "x"}}
    objects = [high, low, autoscaler("high", 1, minReplicas=0), autoscaler("low", 2, kind="ReplicaSet")]
    objects += [make_priority_class(9, "gold").obj, make_node("other").has(cpu="1").label("pool", "x").obj]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "low", "controller": True}
    old = make_pod("low-1", "team").request(cpu="1").labels(app="low").on("other").metadata(ownerReferences=[owner])
    filling = make_pod("filling").priority(9).request(cpu="31").on("n")
    result = asked(tmp_path, *objects, old.obj, filling.obj)
    assert result.document.clause.startswith("1 of 2 new Pods run")


def test_pods_without_a_new_node_are_grouped_by_reason() -> None:
    why = "all available instance types exceed limits for nodepool (NodePool=general)"
    launches = Launches(
        [], [NoLaunch("a", 2, why), NoLaunch("b", 1, "no instance type"), NoLaunch("c", 1, why)], "", []
    )
    nothing = Considered(0, {}, 4)
    (table,) = (each for each in tables_of(Autoscalers(nothing, nothing, None, launches)) if each.rows)
    assert table.rows == [[why, 3, "a, c"], ["no instance type", 1, "b"]]


def test_each_kind_reaches_its_maximum(tmp_path: Path) -> None:
    objects = [workload("a"), workload("b", None, "StatefulSet"), workload("c", 9)]
    scalers = [autoscaler("a", 3), autoscaler("b", 2, kind="StatefulSet"), autoscaler("c", 2)]
    result = asked(tmp_path, *objects, *scalers)
    assert result.answer.change == "3 HorizontalPodAutoscalers at maxReplicas (11 → 7 replicas)"
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
    monkeypatch.setattr("forewarn.policies.questions.whatif.questions.MAX_REPLICAS", 5)
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
    note = "HPA team/a allows 1 to 3 replicas; its changes are not simulated"
    assert (note in result.notes) is noted


@pytest.mark.parametrize(
    ("replicas", "same", "notes"),
    [
        (1, " (unchanged)", []),
        (2, "", ["HPA team/a allows 1 to 3 replicas; its changes are not simulated"]),
        (6, "", ["HPA team/a sets replicas to 3 within 15 s"]),
    ],
)
def test_an_applied_number_of_replicas_names_the_autoscaler_too(
    replicas: int, same: str, notes: list[str], tmp_path: Path
) -> None:
    changed = workload("a")
    changed["spec"] = changed["spec"] | {"replicas": replicas}
    result = asked(tmp_path, workload("a"), autoscaler("a", 3), change=forewarn.Apply([changed]))
    assert list(result.notes) == notes
    assert result.answer.title.endswith(f" applied{same}")


def test_the_notes_about_autoscalers_of_applied_workloads_are_bounded(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(13)]
    stored = [each for name in names for each in (workload(name), autoscaler(name, 3))]
    changed = [workload(name, 2) for name in names]
    result = asked(tmp_path, *stored, change=forewarn.Apply(changed))
    assert result.notes[10:] == ["3 more such changes by HorizontalPodAutoscalers"]


def running(result: forewarn.WhatIf, name: str) -> int:
    states = result.answer.after.simulation.api.pods.values()
    return sum(state.active and state.pod.labels.get("app") == name for state in states)


@pytest.mark.parametrize("stored", [True, False])
def test_the_limits_of_an_applied_autoscaler_decide_the_replicas(stored: bool, tmp_path: Path) -> None:
    state = [workload("a")] if stored else [workload("b")]
    scaler = autoscaler("a", 9, minReplicas=5)
    result = asked(tmp_path, *state, change=forewarn.Apply([workload("a"), scaler]))
    assert "HPA team/a sets replicas to 5 within 15 s" in result.notes
    assert running(result, "a") == 5


def test_a_workload_without_replicas_has_those_of_its_applied_autoscaler(tmp_path: Path) -> None:
    new = workload("a")
    del new["spec"]["replicas"]
    manifests, note = [new, autoscaler("a", 9, minReplicas=5)], "HPA team/a sets replicas to 5 within 15 s"
    result = asked(tmp_path, change=forewarn.Apply(manifests))
    assert (list(result.notes), running(result, "a")) == ([note], 5)
    predicted = forewarn.predict(forewarn.load(str(tmp_path / "cluster.yaml")), manifests)
    rest = "this is not predicted. Fix: use `forewarn whatif apply`"
    assert f"{note}; {rest}" in predicted.document.warnings


@pytest.mark.parametrize(
    ("event", "title", "kept", "pods"),
    [
        ({"at": 60, "scale": {"kind": "Deployment", "namespace": "team", "name": "a", "replicas": 9}}, "1 event", 5, 5),
        ({"at": 60, "scale": {"kind": "Deployment", "namespace": "team", "name": "a", "replicas": 4}}, "1 event", 0, 4),
        ({"at": 60, "delete": workload("a", 9)}, "1 event", 0, 0),
        ({"delete": workload("a", 4)}, "1 event", 0, 0),
        ({"at": 60, "update": workload("a", 9)}, "1 event", 5, 5),
        ({"at": 60, "update": workload("a", 4)}, "1 event (unchanged)", 0, 4),
    ],
)
def test_an_autoscaler_acts_after_the_events_that_set_replicas(
    event: Any, title: str, kept: int, pods: int, tmp_path: Path
) -> None:
    (tmp_path / "events.json").write_text(json.dumps([event]), encoding="utf-8")
    change = forewarn.Events(str(tmp_path / "events.json"))
    result = asked(tmp_path, workload("a", 4), autoscaler("a", 5, minReplicas=3), change=change)
    notes = [note for note in result.notes if "sets replicas" in note]
    assert notes == [f"HPA team/a sets replicas to {kept} within 15 s"] * bool(kept)
    assert (result.answer.title, running(result, "a")) == (title, pods)


def test_applied_autoscalers_are_named_in_order(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(9, 0, -1)]
    scalers = [autoscaler(name, 9, minReplicas=5) for name in names]
    result = asked(tmp_path, *map(workload, names), change=forewarn.Apply(scalers))
    assert list(result.notes) == [f"HPA team/{name} sets replicas to 5 within 15 s" for name in sorted(names)]


@pytest.mark.parametrize("alone", [True, False])
def test_an_applied_autoscaler_scales_another_workload(alone: bool, tmp_path: Path) -> None:
    manifests = [*[workload("b")][alone:], autoscaler("a", 9, minReplicas=5)]
    result = asked(tmp_path, workload("a"), change=forewarn.Apply(manifests))
    assert (list(result.notes), running(result, "a")) == (["HPA team/a sets replicas to 5 within 15 s"], 5)


@pytest.mark.parametrize(
    "change",
    [
        forewarn.Apply([workload("a", 5)]),
        forewarn.Events(manifests=[workload("a", 5)]),
        forewarn.Scale("deployment/a", 5, "team"),
    ],
)
def test_the_autoscalers_of_a_running_cluster_are_listed(
    change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "forewarn.policies.questions.application.whatif.objects_of"
    monkeypatch.setattr(listed, lambda _source, name: [autoscaler("a", 2)] if name == "autoscalers" else [])
    assert running(result := asked(tmp_path, workload("a"), change=change), "a") == 2
    assert "ignored" not in "".join(result.notes)

    def denied(_source: str, _name: str) -> list[dict[str, Any]]:
        raise SourceError("live", "cannot list horizontalpodautoscalers: 403")

    monkeypatch.setattr(listed, denied)
    ignored = "limits of HorizontalPodAutoscalers are ignored: live: cannot list horizontalpodautoscalers: 403"
    assert ignored in asked(tmp_path, workload("a"), change=change).document.warnings
    lost = asked(tmp_path, workload("a"), change=forewarn.LoseNodes(["n"]))
    assert "ignored" not in "".join(lost.notes)


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
def test_scaling_a_workload_names_once_what_its_autoscaler_does(
    least: int | None, most: Any, told: str, kept: int | None, tmp_path: Path
) -> None:
    scaler = autoscaler("a", most, minReplicas=least)
    result = asked(tmp_path, workload("a"), scaler, change=forewarn.Scale("deployment/a", 2, "team"))
    note = f"HPA team/a {told}; its changes are not simulated"
    if kept:
        note = f"HPA team/a sets replicas to {kept} within 15 s"
    assert list(result.notes) == [note]
    assert result.answer.change == "Deployment team/a scaled to 2 replicas"
    two = asked(
        tmp_path, workload("a"), scaler, autoscaler("b", 1, "a"), change=forewarn.Scale("deployment/a", 2, "team")
    )
    assert "set replicas" not in "".join(two.notes), "two autoscalers change nothing"


def test_placeholder_pods_are_in_no_other_counter() -> None:
    change = forewarn.Scale("deployment/web", 9, "shop")
    answer = forewarn.whatif(forewarn.load("docs/examples/whatif/cluster.yaml"), change).answer
    summary = answer.after.summary._replace(violated_pdbs={"shop/web": 2})
    after = answer.after._replace(summary=summary, pdbs={"shop/web": (1, 2), "shop/db": (0, 1)})
    answer = answer._replace(after=after)
    effects = effects_of(answer)
    assert (effects.lost, effects.preempted, effects.placeholders) == (4, 4, 0)
    assert (effects.pdbs_violated, effects.pdbs_short) == (1, 2)
    effects = effects_of(answer._replace(placeholders=["reports/nightly"]))
    assert (effects.lost, effects.preempted, effects.placeholders) == (0, 0, 4)


@pytest.mark.parametrize(
    ("change", "noted"),
    [
        ("lose node n", True),
        ("lose --each node", True),
        ("lose --each node --shard 0/1 -o json", True),
        ("drain n", True),
        ("restart deployment/a", False),
    ],
)
def test_a_namespace_without_effect_is_noted(
    change: str, noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(tmp_path, workload("a"), autoscaler("a", 3))
    main(["whatif", *change.split(), "-n", "team", "--cluster", str(tmp_path / "cluster.yaml")])
    assert ("-n has no effect" in capsys.readouterr().err) is noted
