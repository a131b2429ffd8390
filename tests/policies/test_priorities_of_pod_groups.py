"""The priority of a PodGroup decides whether its Pods may be preempted, wherever forewarn names such Pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.releases.release import semantics_of
from forewarn.policies.prediction.forecast.placement import place
from forewarn.policies.prediction.forecast.why_not import explanations, why_not
from forewarn.policies.questions.whatif.headroom import headroom
from forewarn.policies.questions.whatif.placeholders import placeholders
from tests.builders import Made, MadePod, make_budget, make_node, make_pod
from tests.policies.scheduling.profiles import cluster

if TYPE_CHECKING:
    from pathlib import Path

SEMANTICS = semantics_of(37, {"GenericWorkload": True})


def group(priority: int, **spec: object) -> Made:
    made = Made("scheduling.k8s.io/v1beta1", "PodGroup", "g", "default")
    return made.spec(schedulingPolicy={"basic": {}}, priority=priority, **spec)


def grouped(pod: MadePod) -> MadePod:
    return pod.spec(schedulingGroup={"podGroupName": "g"})


def placeholder(name: str) -> MadePod:
    pod = make_pod(name).priority(-5).request(cpu="2").on("n1")
    pod.container["image"] = "pause:3.10"
    return pod


def why(tmp_path: Path, capsys: pytest.CaptureFixture[str], *made: Made) -> str:
    dump = tmp_path / "dump.json"
    dump.write_text("\n".join(json.dumps(one.obj) for one in made))
    options = ("--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true")
    main(["why", "web", "--cluster", str(dump), *options])
    return capsys.readouterr().out


@pytest.mark.parametrize(("priority", "existing"), [(-5, 2), (10, 1)])
def test_placeholder_pods_that_may_not_be_preempted_reserve_nothing(priority: int, existing: int) -> None:
    made = [make_node("n1").has(cpu="4"), group(priority), grouped(placeholder("a")), placeholder("b")]
    state, new = cluster(SEMANTICS, *made), make_pod("new").priority(10).request(cpu="2").obj
    found = placeholders(state, new, headroom(state, new), 2, Options(), -10)
    assert (found.existing.pods, found.existing.reserve) == (existing, existing)


def test_a_placeholder_pod_that_takes_other_pods_with_it_reserves_nothing() -> None:
    other = grouped(make_pod("other").priority(-5).request(cpu="2").on("n1"))
    whole = group(-5, disruptionMode={"all": {}})
    new = make_pod("new").priority(10).request(cpu="2").obj
    for node in "n1", "removed":
        state = cluster(SEMANTICS, make_node("n1").has(cpu="4"), whole, grouped(placeholder("a")), other.on(node))
        found = placeholders(state, new, headroom(state, new), 2, Options(), -10)
        assert (found.existing.pods, found.existing.reserve) == (0, 0)


def test_the_pod_in_the_way_may_have_a_lower_priority_than_its_group() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
    new = make_pod("web").labels(app="web").priority(10).affinity("podAntiAffinity", term)
    there = grouped(make_pod("other").labels(app="web").priority(0).on("n1"))
    state = cluster(SEMANTICS, make_node("n1").label("host", "n1"), group(10), there)
    (found,) = why_not(place(state, new.obj).predictions[0])
    assert found == (1, "anti-affinity with a Pod there of equal or higher priority (default/other)")


@pytest.mark.parametrize(("of_pod", "of_group", "notes"), [(0, 5, 1), (9, 2, 0)])
def test_a_victim_is_costlier_than_protected_pods_by_the_priority_of_its_group(
    of_pod: int, of_group: int, notes: int
) -> None:
    victim = grouped(make_pod("victim").priority(of_pod).request(cpu="1").on("n1"))
    protected = make_pod("protected").labels(app="a").priority(3).request(cpu="1").on("n1")
    new = make_pod("web").priority(10).request(cpu="1").obj
    node = make_node("n1").has(cpu="2")
    state = cluster(SEMANTICS, node, group(of_group), victim, protected, make_budget("b", 0, app="a"))
    prediction = place(state, new).predictions[0]
    assert [pod.name for pod in prediction.victims] == ["victim"]
    lines = list(explanations(prediction, state))
    assert len(lines) == notes
    assert all(line.startswith(f"preempts a Pod of priority {of_group} although") for line in lines)


def test_a_daemon_set_pod_counts_the_pods_that_it_may_not_preempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    pending = make_pod("web").priority(5).request(cpu="1").affinity("nodeAffinity", term)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    pending.metadata(ownerReferences=[owner])
    there = grouped(make_pod("x").priority(0).request(cpu="4").on("n1"))
    out = why(tmp_path, capsys, pending, make_node("n1").has(cpu="4"), group(5), there)
    assert "DaemonSet agent creates it for n1 only: 1 Pod there of equal or higher priority" in out


def test_the_preemptor_of_a_pod_outranks_its_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = grouped(make_pod("web").priority(0).on("n1")).terminating()
    victim.status(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}])
    lower, higher = (make_pod(name).priority(value).nominated("n1") for name, value in (("a", 5), ("b", 9)))
    assert "the preemptor is unknown" in why(tmp_path, capsys, make_node("n1"), group(5), victim, lower)
    assert "by default/b (priority 9" in why(tmp_path, capsys, make_node("n1"), group(5), victim, lower, higher)


@pytest.mark.parametrize(("priority", "reason"), [(0, "waits for termination"), (5, "overtaken")])
def test_a_nominated_pod_waits_for_pods_that_it_may_preempt(
    priority: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = make_pod("web").priority(5).request(cpu="4").nominated("n1")
    there = grouped(make_pod("x").priority(0).request(cpu="4").on("n1")).terminating()
    out = why(tmp_path, capsys, make_node("n1").has(cpu="4"), group(priority), new, there)
    assert reason in out
    text = "nominated to n1, but Pods of equal or higher priority use the capacity: default/x"
    assert (text in " ".join(out.split())) == (reason == "overtaken")
