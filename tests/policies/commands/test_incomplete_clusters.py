"""Cluster files without lists or Nodes: a command refuses, or its answer says what it assumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from forewarn.policies.cli.commands.cluster_command import REQUIRED_LISTS
from forewarn.policies.cli.terminal import as_kubectl_plugin
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, NODE, POD, PRIORITY_CLASS, empty_list
from tests.builders import Made, make_budget, make_claim, make_node, make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS: Final = {
    "audit": ("audit",),
    "classes": ("classes",),
    "classes plan": ("classes", "plan", "--delete", "gold"),
    "headroom": ("headroom", "-f", "{pod}"),
    "lint": ("lint", "{pod}"),
    "predict": ("predict", "-f", "{pod}"),
    "risk": ("risk",),
    "test": ("test", "{expectations}"),
    "ui": ("ui", "--no-browser"),
    "webhook review": ("webhook", "review", "-f", "{pod}"),
    "whatif": ("whatif", "lose", "node", "n1"),
    "whatif apply": ("whatif", "apply", "-f", "{pod}"),
    "whatif class": ("whatif", "class", "gold", "--value", "7"),
    "whatif events": ("whatif", "events", "-f", "{pod}"),
    "whatif --each": ("whatif", "lose", "--each", "node"),
    "whatif pressure": ("whatif", "pressure", "n1", "--shutdown", "0=30"),
}
REQUIRED: Final = {
    **REQUIRED_LISTS,
    **dict.fromkeys(("risk", "whatif", "whatif --each"), (NODE, POD)),
    **dict.fromkeys(("whatif apply", "whatif events"), (POD,)),
    "whatif class": (NODE, POD, PRIORITY_CLASS),
}
KINDS: Final = {NODE: "Nodes", POD: "Pods", PRIORITY_CLASS: "PriorityClasses"}


def gold() -> dict[str, Any]:
    return {**Made("scheduling.k8s.io/v1", "PriorityClass", "gold").obj, "value": 5}


def written(directory: Path, *objects: dict[str, Any]) -> dict[str, Path]:
    texts = {
        "cluster": json.dumps({"kind": "List", "items": objects}),
        "pod": json.dumps(make_pod("new").request(cpu="1").obj),
        "expectations": json.dumps([{"name": "a", "expect": {"run": {}}}]),
    }
    paths = {name: directory / f"{name}.json" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    return paths


def answer(command: str | tuple[str, ...], paths: dict[str, Path], *more: str) -> tuple[int, str, str]:
    words = COMMANDS[command] if isinstance(command, str) else command
    done = forewarn(*(word.format(**paths) for word in words), "--cluster", paths["cluster"], *more)
    return done.returncode, done.stdout, done.stderr


def state(absent: str = "") -> list[dict[str, Any]]:
    """A node with a Pod, without objects of the kind `absent`."""
    running = make_pod("old").request(cpu="1").priority(5).on("n1")
    running.spec(priorityClassName="gold")
    objects = {NODE: make_node("n1").obj, POD: running.obj, PRIORITY_CLASS: gold()}
    return [obj for kind, obj in objects.items() if kind != absent]


@pytest.mark.parametrize(
    ("command", "kind"), [(command, kind) for command, kinds in REQUIRED.items() for kind in kinds]
)
def test_a_command_refuses_a_cluster_without_the_list_that_it_requires(command: str, kind: str, tmp_path: Path) -> None:
    paths = written(tmp_path, *state(absent=kind))
    status, out, err = answer(command, paths)
    assert (status, out) == (3, "")
    assert f"{paths['cluster']}: no list of {KINDS[kind]}, which the answer depends on. Fix: " in err


@pytest.mark.parametrize("command", ["audit", "whatif pressure"])
def test_the_kubectl_plugin_refuses_it_too(command: str, tmp_path: Path) -> None:
    with as_kubectl_plugin(COMMANDS):
        assert "no list of Pods, which" in answer(command, written(tmp_path, *state(absent=POD)))[2]


@pytest.mark.parametrize("command", [*(name for name in REQUIRED if POD in REQUIRED[name] and name != "ui")])
def test_an_empty_list_is_a_cluster_without_pods(command: str, tmp_path: Path) -> None:
    paths = written(tmp_path, *state(absent=POD), empty_list(BY_GROUP_KIND[POD]))
    assert "no list of" not in answer(command, paths)[2]


@pytest.mark.parametrize("command", ["headroom", "predict", "risk", "test", "whatif"])
def test_classes_that_pods_name_are_required(command: str, tmp_path: Path) -> None:
    paths = written(tmp_path, *state(absent=PRIORITY_CLASS))
    assert "no list of PriorityClasses, which" in answer(command, paths)[2]
    nameless = make_pod("old").request(cpu="1").on("n1").obj
    status, _, err = answer(command, written(tmp_path, make_node("n1").obj, nameless))
    assert (status, err) in ((0, ""), (1, ""))


def _verbose(command: str) -> tuple[str, ...]:
    """The option with which an answer has everything that it assumes."""
    return ("-v",) if command.startswith(("headroom", "predict", "risk", "whatif")) else ()


@pytest.mark.parametrize("command", ["headroom", "predict", "risk", "test", "whatif", "whatif apply", "whatif events"])
def test_pods_on_nodes_that_are_missing_are_counted(command: str, tmp_path: Path) -> None:
    elsewhere = [make_pod(f"p{number}").request(cpu="1").on(f"n{number}").obj for number in (2, 3, 3)]
    elsewhere[2]["metadata"]["name"] = "p4"
    paths = written(tmp_path, *state(), *elsewhere)
    assert "3 Pods do not run: their 2 nodes are missing" in answer(command, paths, *_verbose(command))[1]


def test_requests_on_missing_nodes_are_no_requests(tmp_path: Path) -> None:
    elsewhere = make_pod("p2").request(cpu="4").on("n2").obj
    _, out, _ = answer("classes", written(tmp_path, *state(), elsewhere))
    assert "cpu requested 25 % | memory requested 0 %" in out


LIMITED: Final = {
    "headroom": ("headroom", "-f", "{pod}"),
    "predict": ("predict", "-f", "{pod}"),
    "whatif apply": ("whatif", "apply", "-f", "{pod}"),
}


@pytest.mark.parametrize("command", LIMITED)
@pytest.mark.parametrize("known", [(), ("hard",)], ids=["no status", "no used"])
def test_a_quota_without_status_counts_the_pods(command: str, known: tuple[str, ...], tmp_path: Path) -> None:
    hard = {"pods": "1", "requests.cpu": "2"}
    quota = Made("v1", "ResourceQuota", "q", "default").spec(hard=hard).obj
    ended = {**make_pod("ended").request(cpu="1").on("n1").obj, "status": {"phase": "Succeeded"}}
    whole = {"hard": hard, "used": {"pods": "1", "requests.cpu": "1"}}
    found, expected = (
        answer(LIMITED[command], written(tmp_path, *state(), ended, {**quota, "status": status}), *_verbose(command))[1]
        for status in ({key: whole[key] for key in known}, whole)
    )
    assert "exceeded quota q: 1 + 1 of 1 pods" in " ".join(expected.split())
    clause = "1 ResourceQuota without complete status: usage counted from requests of Pods, not limits or other objects"
    words, others = " ".join(found.split()), " ".join(expected.split())
    assert words.replace(f" {clause}" if _verbose(command) else f"; {clause}", "") == others != words


@pytest.mark.parametrize("least", [0, 1])
def test_a_pdb_without_status_counts_the_pods(least: int, tmp_path: Path) -> None:
    low = make_pod("low").request(cpu="4").labels(app="a").on("n1", started=0)
    low.status(conditions=[{"type": "Ready", "status": "True"}])
    cluster = [make_node("n1").has(cpu="4").obj, gold(), low.obj]
    pdb = make_budget("a", 1 - least, app="a").spec(minAvailable=least).obj
    paths, answers = written(tmp_path, *cluster, {**pdb, "status": {}}), []
    paths["pod"].write_text(json.dumps(make_pod("new").request(cpu="1").of_class("gold").obj))
    for status in ({}, {**pdb["status"], "currentHealthy": 1, "desiredHealthy": least}):
        paths["cluster"].write_text(json.dumps({"kind": "List", "items": [*cluster, {**pdb, "status": status}]}))
        answers.append(answer("predict", paths, "-v")[1])
    found, expected = answers
    clause = "       1 PodDisruptionBudget without status: allowed disruptions counted from Pods\n"
    assert (clause in found, found.replace(clause, "")) == (True, expected)
    assert ("PDBs violated 1" in found) == bool(least)


@pytest.mark.parametrize(("least", "count"), [(1, 1), ("one", 0)])
def test_only_a_pdb_whose_pods_can_be_counted_counts(least: int | str, count: int, tmp_path: Path) -> None:
    pdb = make_budget("a", 0, app="a").spec(minAvailable=least).obj
    paths = written(tmp_path, make_node("n1").obj, {**pdb, "status": {}})
    assert load_cluster(str(paths["cluster"])).snapshot().objects.counted_pdbs == count


@pytest.mark.parametrize("command", LIMITED)
def test_no_class_is_missing_from_a_cluster_without_a_list_of_classes(command: str, tmp_path: Path) -> None:
    paths = written(tmp_path, make_node("n1").obj, empty_list(BY_GROUP_KIND[POD]))
    new = make_pod("new").spec(priorityClassName="gold")
    del new.obj["spec"]["priority"]
    paths["pod"].write_text(json.dumps(new.obj))
    status, out, err = answer(LIMITED[command], paths)
    assert (status, out) == (3, "")
    assert "no list of PriorityClasses, which the answer depends on. Fix: " in err


@pytest.mark.parametrize("command", [*LIMITED, "lint", "whatif lose"])
def test_no_claim_is_missing_from_a_cluster_without_a_list_of_claims(command: str, tmp_path: Path) -> None:
    """A Pending Pod of the cluster is ignored in simulations, and reported."""
    paths = written(tmp_path, *state())
    pod = make_pod("new").claim("data").obj
    if command == "whatif lose":
        paths = written(tmp_path, *state(), pod)
    paths["pod"].write_text(json.dumps(pod))
    words = {**LIMITED, "lint": ("lint", "{pod}"), "whatif lose": ("whatif", "lose", "node", "n1")}[command]
    _, out, err = answer(words, paths)
    assert 'the cluster state has no list of PersistentVolumeClaims, and the Pod uses "data"' in out + err


@pytest.mark.parametrize("command", LIMITED)
def test_no_volume_is_missing_from_a_cluster_without_a_list_of_volumes(command: str, tmp_path: Path) -> None:
    paths = written(tmp_path, *state(), make_claim("data", "volume-1").obj)
    paths["pod"].write_text(json.dumps(make_pod("new").claim("data").obj))
    _, out, err = answer(LIMITED[command], paths)
    assert 'no list of PersistentVolumes, and the Pod uses claim "data", which is bound' in out + err
    assert "not found" not in out
    assert ("1 Pending Pod ignored: " in out) == (command == "whatif lose")
