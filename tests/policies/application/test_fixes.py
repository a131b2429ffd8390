"""A fix is printed with the effect that the same question has with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import forewarn
from forewarn.policies.base.documents.answer import Effects, Range
from forewarn.policies.kubernetes.objects.fields import NOTHING
from forewarn.policies.prediction.forecast.pod_groups import MAX_REHEARSED
from forewarn.policies.questions.application import fixes, whatif_answer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONTAINERS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]
READY = [{"type": "Ready", "status": "True"}]


def object_of(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, **fields}


def cluster_of(
    path: Path, *others: dict[str, Any], pods: int = 4, priority_class: str = "", priority: int = 0
) -> forewarn.Cluster:
    """Two nodes, and a Deployment with Pods on them."""
    own: dict[str, Any] = {"containers": CONTAINERS}
    own |= {"priorityClassName": priority_class} if priority_class else {}
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "50"}
    nodes = [object_of("v1", "Node", f"n{number}", status={"allocatable": allocatable}) for number in (1, 2)]
    for node in nodes:
        node["metadata"]["labels"] = {"kubernetes.io/os": "linux"}
    spec = {"replicas": pods, "selector": {"matchLabels": {"a": "b"}}}
    spec["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": own}
    web = object_of("apps/v1", "Deployment", "web", spec=spec)
    replica_set = object_of("apps/v1", "ReplicaSet", "web-1", spec=spec)
    replica_set["metadata"] |= {"labels": {"a": "b"}, "ownerReferences": [owner("Deployment", "web")]}
    running = []
    for number in range(pods):
        assigned = {"nodeName": f"n{number % 2 + 1}", **own, "priority": priority}
        pod = object_of("v1", "Pod", f"web-1-{number}", spec=assigned)
        pod["metadata"] |= {"labels": {"a": "b"}, "ownerReferences": [owner("ReplicaSet", "web-1")]}
        pod["status"] = {"phase": "Running", "conditions": READY}
        running.append(pod)
    file = path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*nodes, web, replica_set, *running, *others]))
    return forewarn.load(file)


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True, "uid": name}


def pdb(**limit: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"a": "b"}}, **limit}
    return object_of("policy/v1", "PodDisruptionBudget", "web", spec=spec)


def quota(pods: int, used: int) -> dict[str, Any]:
    hard = {"pods": str(pods)}
    return object_of(
        "v1", "ResourceQuota", "q", spec={"hard": hard}, status={"hard": hard, "used": {"pods": str(used)}}
    )


def shown(result: forewarn.WhatIf | forewarn.PredictResult) -> list[tuple[str, str]]:
    return [(fix.action, fix.effect) for fix in result.document.fix]


def test_a_blocked_upgrade_names_the_limit_with_which_it_ends(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, pdb(maxUnavailable=0))
    blocked = forewarn.whatif(cluster, forewarn.Upgrade())
    assert shown(blocked) == [("maxUnavailable: 1 in PDB shop/web", "blocked 2 → 0")]
    assert blocked.to_dict()["fix"] == [{"action": "maxUnavailable: 1 in PDB shop/web", "effect": "blocked 2 → 0"}]
    after = forewarn.whatif(cluster, forewarn.Upgrade(assume_pdbs="maxUnavailable=1"))
    assert after.document.counters is not None
    assert after.document.counters.blocked == 0
    assert "1 PDB with maxUnavailable 1" in after.document.question


def test_a_blocked_drain_has_a_fix_too(tmp_path: Path) -> None:
    result = forewarn.whatif(cluster_of(tmp_path, pdb(minAvailable=4)), forewarn.Drain(["n1"]))
    assert shown(result) == [("maxUnavailable: 1 in PDB shop/web", "blocked 1 → 0")]


def test_a_quota_that_rejects_replacements_is_raised_as_far_as_needed(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, quota(pods=2, used=4))
    result = forewarn.whatif(cluster, forewarn.LoseNodes(["n1"]))
    assert result.document.counters is not None
    assert result.document.counters.rejected == 2
    assert shown(result) == [("quota shop/q: pods 2 → 4", "lost 2 → 0, rejected 2 → 0")]


def applied(kind: str, group: str, pods: int, **spec: Any) -> dict[str, Any]:
    """A new workload that wants so many Pods, with labels that the quota and the anti-affinity of the tests select."""
    own = {"containers": CONTAINERS, **({"restartPolicy": "Never"} if kind == "Job" else {}), **spec}
    template = {"metadata": {"labels": {"app": "new"}}, "spec": own}
    field = {"parallelism": pods} if kind == "Job" else {"replicas": pods, "selector": {"matchLabels": {"app": "new"}}}
    return object_of(f"{group}/v1", kind, "new", spec={**field, "template": template})


@pytest.mark.parametrize(
    ("kind", "group", "field"), [("Job", "batch", "parallelism"), ("Deployment", "apps", "replicas")]
)
def test_as_many_pods_as_a_quota_admits_are_a_fix(tmp_path: Path, kind: str, group: str, field: str) -> None:
    cluster, manifest = cluster_of(tmp_path, quota(pods=6, used=4)), applied(kind, group, 5)
    admitted = f"{kind} shop/new: {field} 5 → 2", "rejected 3 → 0"
    raised = "quota shop/q: pods 6 → 9", "rejected 3 → 0"
    assert shown(forewarn.whatif(cluster, forewarn.Apply(manifest))) == [raised, admitted]
    assert shown(forewarn.predict(cluster, manifest)) == [admitted]
    assert forewarn.predict(cluster, forewarn.PredictRequest(manifest, replicas=5)).document.fix == []
    scaled = forewarn.whatif(cluster, forewarn.Scale("deploy/web", 9, "shop"))
    assert shown(scaled)[1] == ("Deployment shop/web: replicas 9 → 6", "rejected 3 → 0")


def test_fewer_pods_or_another_topology_are_fixes_of_anti_affinity(tmp_path: Path) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "kubernetes.io/os"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster, manifest = cluster_of(tmp_path), applied("Deployment", "apps", 2, affinity=affinity)
    manifest["spec"]["template"]["spec"]["containers"] = [{**CONTAINERS[0], "resources": {"requests": {"cpu": "3"}}}]
    found = [
        ("Deployment shop/new: anti-affinity with topologyKey kubernetes.io/hostname", "Pending 1 → 0"),
        ("Deployment shop/new: replicas 2 → 1", "Pending 1 → 0"),
    ]
    assert shown(forewarn.whatif(cluster, forewarn.Apply(manifest))) == found
    prediction = forewarn.predict(cluster, manifest)
    assert shown(prediction) == found[::-1]
    assert prediction.document.why is not None
    (cause,) = prediction.document.why.causes
    assert (cause.number, cause.reason) == (1, "violates its Pod anti-affinity")
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(manifest))
    linted = forewarn.lint(tmp_path / "new.yaml", cluster=cluster)
    (finding,) = (each for each in linted.findings if each.rule == "fits-nowhere")
    assert "unless an autoscaler adds one in another kubernetes.io/os" in finding.message
    assert finding.fix == "run fewer replicas or use topologyKey kubernetes.io/hostname"


def test_whatif_and_predict_name_a_host_port_and_the_replicas_that_fit(tmp_path: Path) -> None:
    cluster, manifest = cluster_of(tmp_path), applied("Deployment", "apps", 3)
    manifest["spec"]["template"]["spec"]["containers"] = [
        {"name": "c", "image": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}
    ]
    for answer in (forewarn.predict(cluster, manifest), forewarn.whatif(cluster, forewarn.Apply(manifest))):
        assert answer.document.why is not None
        (cause,) = answer.document.why.causes
        reason = "host port 80 in use by another replica: at most one per node"
        assert (cause.number, cause.reason.removesuffix(": shop/new")) == (1, reason)
        assert ("Deployment shop/new: replicas 3 → 2", "Pending 1 → 0") in shown(answer)


def autoscaler(least: int, most: int, target: str = "web") -> dict[str, Any]:
    spec: dict[str, Any] = {"minReplicas": least, "maxReplicas": most}
    spec |= {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}
    return object_of("autoscaling/v2", "HorizontalPodAutoscaler", f"{target}-scaler", spec=spec)


@pytest.mark.parametrize(("least", "change"), [(3, "maxReplicas 9 → 6"), (8, "minReplicas 8 → 6, maxReplicas 9 → 6")])
def test_fewer_replicas_of_a_scaled_workload_are_a_limit_of_its_autoscaler(
    tmp_path: Path, least: int, change: str
) -> None:
    cluster = cluster_of(tmp_path, quota(pods=6, used=4), autoscaler(least, 9))
    action = f"HorizontalPodAutoscaler shop/web-scaler: {change}"
    assert shown(forewarn.whatif(cluster, forewarn.MaxReplicas()))[1] == (action, "rejected 3 → 0")


@pytest.mark.parametrize(
    ("target", "fix"),
    [("web", "run forewarn whatif scale deployment/web 9 -n shop"), ("new", "apply Jobs or workloads with them")],
)
def test_an_autoscaler_alone_names_the_command_that_answers(tmp_path: Path, target: str, fix: str) -> None:
    with pytest.raises(forewarn.InvalidInput, match="only objects of Kueue or autoscalers") as caught:
        forewarn.whatif(cluster_of(tmp_path), forewarn.Apply(autoscaler(1, 9, target)))
    assert caught.value.fix == fix


def test_pending_pods_have_the_class_of_their_update(tmp_path: Path) -> None:
    batch = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "batch"}, "value": 7}
    cluster = cluster_of(tmp_path, batch, priority=50)
    changed = applied("Deployment", "apps", 4, priorityClassName="batch", nodeSelector={"gpu": "true"})
    changed["metadata"]["name"], changed["spec"]["selector"] = "web", {"matchLabels": {"a": "b"}}
    changed["spec"]["template"]["metadata"]["labels"] = {"a": "b"}
    (row,) = forewarn.whatif(cluster, forewarn.Apply(changed)).workloads
    assert (row.workload, row.pending > 0, row.priority_class, row.priority) == ("shop/web", True, "batch", 7)


def test_no_missing_fix_is_reported_beside_the_fix_of_a_cause(tmp_path: Path) -> None:
    manifest = applied("Deployment", "apps", 1, nodeSelector={"kubernetes.io/os": "windows"})
    document = forewarn.whatif(cluster_of(tmp_path), forewarn.Apply(manifest)).document
    assert document.why is not None
    assert document.why.causes[0].reason.endswith("Fix: change nodeSelector or nodeAffinity")
    assert not [each for each in document.warnings if each.startswith("no FIX")]


@pytest.mark.parametrize(
    ("replicas", "clause", "ended"),
    [(14, "2 of 10 new Pods run (8 removed again)", 4), (2, "1 of 1 new Pod runs", 0)],
    ids=["it also deletes old Pods", "it creates Pods again"],
)
def test_new_pods_add_up_if_an_autoscaler_changes_their_number(
    tmp_path: Path, replicas: int, clause: str, ended: int
) -> None:
    cluster = cluster_of(tmp_path, autoscaler(3, 6))
    answer = forewarn.whatif(cluster, forewarn.Scale("deployment/web", replicas, "shop"))
    assert (answer.document.clause, answer.answer.after.summary.new_pods_ended) == (clause, ended)


def test_a_prediction_covers_more_replicas_than_the_webhook_simulates(tmp_path: Path) -> None:
    """The first victim makes later attempts differ from the first ones."""
    spread: dict[str, Any] = {"maxSkew": 1, "topologyKey": "kubernetes.io/os", "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "new"}}
    manifest = applied("Deployment", "apps", MAX_REHEARSED + 20, topologySpreadConstraints=[spread])
    cluster = cluster_of(tmp_path, priority=-10)
    outcomes = forewarn.predict(cluster, manifest).outcomes
    assert outcomes.total() == MAX_REHEARSED + 20
    assert outcomes["preempts"]
    assert outcomes.keys() == {"fits", "preempts", "pending"}


CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp2", "resources": {"requests": {"storage": "1Gi"}}}
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
GP3 = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"}, "provisioner": "d"}


@pytest.mark.parametrize(
    ("spec", "fix"),
    [
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "change nodeSelector or nodeAffinity"),
        ({"nodeSelector": {"kubernetes.io/os": "spot"}}, "add a toleration"),
        ({"volumes": VOLUMES}, 'use storageClassName "gp3" or create it'),
    ],
)
def test_commands_and_the_linter_name_the_same_fix(tmp_path: Path, spec: dict[str, Any], fix: str) -> None:
    spot = object_of("v1", "Node", "n3", spec={"taints": [{"key": "spot", "effect": "NoSchedule"}]})
    spot["metadata"]["labels"] = {"kubernetes.io/os": "spot"}
    spot["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "50"}}
    pod = object_of("v1", "Pod", "waiting", spec={"containers": CONTAINERS, "priority": 0, **spec})
    pod["status"] = {"phase": "Pending"}
    pod["metadata"]["ownerReferences"] = [owner("ReplicaSet", "web-1")]
    claim = object_of("v1", "PersistentVolumeClaim", "data", spec=CLAIM, status={"phase": "Pending"})
    cluster, manifest = cluster_of(tmp_path, spot, GP3, pod, claim), applied("Deployment", "apps", 1, **spec)
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(manifest))
    answers = [
        forewarn.predict(cluster, manifest),
        forewarn.whatif(cluster, forewarn.Apply(manifest)),
        forewarn.why(cluster, "shop/waiting"),
    ]
    for answer in answers:
        assert answer.document.why is not None
        assert answer.document.why.causes[0].reason.endswith(f". Fix: {fix}")
    linted = forewarn.lint(tmp_path / "new.yaml", cluster=cluster)
    assert [each.fix for each in linted.findings if each.rule == "fits-nowhere"] == [fix]


def test_a_workload_whose_pods_are_all_rejected_counts_in_the_new_pods(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, quota(4, used=4))
    fitting = applied("Deployment", "apps", 2)
    fitting["metadata"] = {"name": "fitting", "namespace": "other"}
    result = forewarn.whatif(cluster, forewarn.Apply([applied("Deployment", "apps", 3), fitting]))
    assert result.document.clause == "2 of 5 new Pods run, 3 Pods rejected"


def test_a_fix_without_effect_is_left_out(tmp_path: Path) -> None:
    cluster = cluster_of(
        tmp_path, pdb(minAvailable=4), pdb(minAvailable=4) | {"metadata": {"name": "x", "namespace": "shop"}}
    )
    result = forewarn.whatif(cluster, forewarn.Drain(["n1"]))
    assert result.document.fix == [], "two PDBs select the same Pods, so every eviction fails"


def test_large_clusters_get_no_fix_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixes, "MAX_NODES", 1)
    result = forewarn.whatif(cluster_of(tmp_path, pdb(maxUnavailable=0)), forewarn.Upgrade())
    assert result.document.fix == []


@pytest.mark.parametrize("spec", ["maxUnavailable", "replicas=1", "maxUnavailable=x", "minAvailable=9999999"])
def test_a_wrong_assumption_is_rejected(tmp_path: Path, spec: str) -> None:
    with pytest.raises(ValueError, match="write maxUnavailable=1"):
        forewarn.whatif(cluster_of(tmp_path), forewarn.Upgrade(assume_pdbs=spec))


def without_room(path: Path, *others: dict[str, Any]) -> forewarn.Cluster:
    """Two nodes; each has no room for the Pods of the other, and a quota rejects replacements."""
    full = object_of("v1", "Pod", "full", spec={"nodeName": "n2", "containers": [{"name": "c", "image": "i"}]})
    full["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    full["status"] = {"phase": "Running", "conditions": READY}
    return cluster_of(path, quota(pods=3, used=5), full, *others)


def test_a_quota_whose_pods_are_only_pending_then_is_a_fix_with_nodes(tmp_path: Path) -> None:
    result = forewarn.whatif(without_room(tmp_path), forewarn.LoseNodes(["n1"]))
    assert result.document.effects.rejected == 2
    assert shown(result) == [("quota shop/q: pods 3 → 5; add nodes: 1 like n2", "lost 2 → 0, rejected 2 → 0")]


def test_a_fix_that_does_more_harm_is_named_if_no_other_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixes, "_node_edits", lambda *_: [])
    result = forewarn.whatif(without_room(tmp_path), forewarn.LoseNodes(["n1"]))
    assert shown(result) == [("more harm than help: quota shop/q: pods 3 → 5", "rejected 2 → 0, but Pending 0 → 2")]


def test_the_nodes_of_a_combined_fix_are_those_that_all_its_pods_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas, jobs = fixes.Edit("a quota", [{"a": 1}], "rejected"), fixes.Edit("for Jobs", [{"b": 1}], "jobs_failed")
    few, many = (fixes.Edit(f"{count} nodes", (), "pending", nodes=[count]) for count in (2, 9))  # type: ignore[list-item]
    after = {
        "": ([quotas, few, jobs], Effects(rejected=4, pending=2, jobs_failed=3, lost=9)),
        "2 nodes": ([quotas, jobs], Effects(rejected=5, jobs_failed=3, lost=8)),
        "a quotafor Jobs": ([many], Effects(pending=9, lost=9, preempted=1)),
        "a quotafor Jobs9 nodes": ([], Effects(preempted=2)),
    }
    for name, is_new in (("_edits", False), ("_node_edits", True)):

        def edits(cluster: Any, _: Any, is_new: bool = is_new) -> list[fixes.Edit]:
            edits, _ = after[cluster if isinstance(cluster, str) else ""]
            return [each for each in edits if bool(each.nodes) is is_new]

        monkeypatch.setattr(fixes, name, edits)
    monkeypatch.setattr(fixes, "with_edits", lambda _, edits: "".join(each.action for each in edits))
    answer = answer_with(events=9)
    tested = fixes.tested_fixes(
        cluster_of(tmp_path), answer, after[""][1], lambda other, _: (answer, after[str(other)][1])
    )
    assert [(fix.action, fix.effect) for fix in tested] == [
        (
            "a quota; for Jobs; 9 nodes",
            "lost 9 → 0, Jobs failed 3 → 0, Pending 2 → 0, rejected 4 → 0, but preempted 0 → 2",
        ),
        ("2 nodes", "lost 9 → 8, Pending 2 → 0, but rejected 4 → 5"),
    ]


def answer_with(events: int, **fields: Any) -> Any:
    """An answer of so many simulated events."""
    world = SimpleNamespace(arrivals=())
    simulation = SimpleNamespace(timeline=SimpleNamespace(events=range(events)), world=world)
    after = SimpleNamespace(simulation=simulation, summary=SimpleNamespace(names=None), workloads=())
    return SimpleNamespace(typical_of=None, after=after, placeholders=(), **{"removal": None} | fields)


def objects_of_job() -> list[Any]:
    """A Job that fails once a Pod fails, with a Pod on each of two nodes."""
    template: dict[str, Any] = {
        "metadata": {"labels": {"job": "x"}},
        "spec": {"containers": CONTAINERS, "restartPolicy": "OnFailure"},
    }
    spec = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template}
    job = object_of("batch/v1", "Job", "etl", spec=spec, status={"active": 2})
    own = [object_of("v1", "Pod", f"etl-{n}", spec={"nodeName": f"n{n}", **template["spec"]}) for n in (1, 2)]
    for pod in own:
        pod["metadata"] |= {
            "labels": {"job": "x"},
            "ownerReferences": [owner("Job", "etl") | {"apiVersion": "batch/v1"}],
        }
        pod["status"] = {"phase": "Running", "conditions": READY}
    return [job, *own]


IGNORED = "podFailurePolicy that ignores DisruptionTarget in 1 Job (recreated with restartPolicy: Never)"


def test_jobs_that_fail_by_a_loss_get_a_policy_that_ignores_disruptions(tmp_path: Path) -> None:
    result = forewarn.whatif(cluster_of(tmp_path, *objects_of_job()), forewarn.LoseNodes(["n1"]))
    assert shown(result) == [(IGNORED, "lost 2 → 0, Jobs failed 1 → 0")]


def test_jobs_that_keep_nodes_get_the_policy_too(tmp_path: Path) -> None:
    """The exceeded quota of a namespace without Pods on the nodes does not."""
    other = quota(pods=2, used=4)
    other["metadata"]["namespace"] = "other"
    result = forewarn.whatif(cluster_of(tmp_path, other, *objects_of_job()), forewarn.Remove(1))
    assert shown(result) == [(IGNORED, "blocked 1 → 0")]


def test_a_workload_that_is_down_completely_is_named_if_it_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses no replica at the end."""
    cluster = cluster_of(tmp_path, pods=1)
    warning = "no replica runs for a time: shop/web"
    assert warning not in forewarn.whatif(cluster, forewarn.LoseNodes(["n1"])).document.warnings, "it has a row"
    monkeypatch.setattr(whatif_answer, "MAX_ROWS", 0)
    document = forewarn.whatif(cluster, forewarn.LoseNodes(["n1"])).document
    assert (document.effects.down, document.effects.lost) == (1, 0)
    assert warning in document.warnings


def test_nodes_that_another_zone_takes_along_are_for_one_loss_only() -> None:
    cluster = forewarn.load("docs/examples/whatif/cluster.yaml")
    document = forewarn.whatif(cluster, forewarn.LoseZone("a")).document
    assert [each.action for each in document.fix] == ["add nodes: 2 like web b (for this loss only)"]
    assert "headroom --survive zone" in document.more


def test_nodes_for_pods_that_stay_pending_are_tried(tmp_path: Path) -> None:
    result = forewarn.whatif(cluster_of(tmp_path, pods=14, priority=1), forewarn.LoseNodes(["n1"]))
    assert result.document.effects.pending == 6
    assert shown(result) == [("add nodes: 1 like n2", "lost 6 → 0, Pending 6 → 0")]


@pytest.mark.usefixtures("few_runs")
def test_no_more_nodes_are_tried_than_the_cluster_has(tmp_path: Path) -> None:
    spec = {"parallelism": 200, "template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}
    cluster = cluster_of(tmp_path, object_of("batch/v1", "Job", "many", spec=spec))
    result = forewarn.whatif(cluster, forewarn.LoseNodes(["n1"]))
    assert result.document.effects.lost
    assert shown(result) == []


def test_all_limits_that_keep_nodes_are_tried_in_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [fixes.Edit("a PDB", [{"a": 1}], "blocked"), fixes.Edit("a quota", [{"b": 1}], "blocked")]
    monkeypatch.setattr(fixes, "_pdb_edits", lambda *_: limits[:1])
    monkeypatch.setattr(fixes, "quota_edits", lambda *_: limits[1:])
    for others in ("_surge_edits", "_job_edits", "_node_edits"):
        monkeypatch.setattr(fixes, others, lambda *_: [])
    monkeypatch.setattr(fixes, "with_edits", lambda _, edits: str(edits[0].objects))
    answer = answer_with(events=9, removal=True)
    after = {"[{'a': 1}, {'b': 1}]": Effects(blocked=1)}
    cluster, ask = cluster_of(tmp_path), lambda other, _: (answer, after[str(other)])
    found = fixes.tested_fixes(cluster, answer, Effects(blocked=3), ask)
    assert [(fix.action, fix.effect) for fix in found] == [("a PDB; a quota", "blocked 3 → 1")]
    after = {"[{'a': 1}, {'b': 1}]": Effects(blocked=1, new_nodes=2)}  # as many nodes as without the fix
    (found_none,) = fixes.tested_fixes(cluster, answer, Effects(blocked=3), ask)
    assert found_none == ("more harm than help: a PDB; a quota", "blocked 3 → 1, but new nodes 0 → 2")


def test_counters_that_rise_are_told_too() -> None:
    def difference(after: Effects, ranges: dict[str, Range], varies: Mapping[str, Range] = NOTHING) -> str:
        trial = fixes.Trial([fixes.Edit("a PDB", [], "blocked")], after, [], 0, varies)
        return trial.fix(Effects(blocked=3, lost=7), ranges).effect

    text, by_chance = "blocked 3 → 0, lost 7 → 5", {"preempted": Range(0, 1)}
    assert difference(Effects(lost=9, pending=1), {}) == "blocked 3 → 0, but lost 7 → 9, Pending 0 → 1"
    assert difference(Effects(lost=5, preempted=1), {}) == f"{text}, but preempted 0 → 1"
    assert difference(Effects(lost=5, preempted=1), by_chance) == text
    assert difference(Effects(lost=5, preempted=2), by_chance) == f"{text}, but preempted 0 → 2"
    assert (
        difference(Effects(lost=5, placeholders=2, pdbs_short=1), {})
        == f"{text}, but placeholders 0 → 2, PDBs short 0 → 1"
    )
    assert difference(Effects(lost=5), {}, {"lost": Range(3, 6)}) == f"{text} (3 to 6)"


def test_counters_of_the_headline_are_named_whenever_they_change() -> None:
    trial = fixes.Trial([fixes.Edit("nodes", [], "pending")], Effects(lost=4, preempted=1, rejected=10, down=8), [], 0)
    before = Effects(lost=9, preempted=5, pending=3, rejected=1)
    text = trial.fix(before, {}).effect
    assert text == "lost 9 → 4, preempted 5 → 1, Pending 3 → 0, but rejected 1 → 10, down 0 → 8"
    trial = trial._replace(after=Effects(lost=10, rejected=10, down=8, preempted=5, pending=3))
    assert trial.fix(before, {}).effect == "rejected 1 → 10, down 0 → 8, lost 9 → 10"


@pytest.mark.parametrize(
    ("after", "helps"),
    [
        (Effects(lost=34, preempted=26, pending=27), True),
        (Effects(lost=35, preempted=26, pending=27), False),  # although fewer Pods in all are lost or preempted
        (Effects(lost=30, preempted=35, pending=26), True),
        (Effects(lost=33, preempted=40, pending=26), False),
    ],
)
def test_a_fix_of_preemption_does_not_leave_more_pods_missing(after: Effects, helps: bool) -> None:
    trial = fixes.Trial([fixes.Edit("nodes", [], "preempted")], after, [], 0)
    found = fixes._fixes_of([trial], Effects(lost=34, preempted=32, pending=26), answer_with(events=1))
    assert [fix.action == "nodes" for fix in found] == [helps] * (helps or after.preempted < 32)


@pytest.mark.parametrize(("lost", "first"), [(40, "edit"), (46, "nodes")], ids=["a fifth", "less than a tenth"])
def test_a_fix_without_new_nodes_comes_first_unless_it_changes_little(lost: int, first: str) -> None:
    node = SimpleNamespace(name="new-1")
    edit = fixes.Trial([fixes.Edit("edit", (), "lost")], Effects(lost=lost), (), 1)
    nodes = fixes.Trial([fixes.Edit("nodes", (), "pending", nodes=[node])], Effects(lost=9), (), 1)  # type: ignore[list-item]
    found = fixes._fixes_of([nodes, edit], Effects(lost=50), answer_with(events=1))
    assert next(found).action == first
    raising = edit._replace(after=Effects(lost=lost, pending=1))
    assert next(fixes._fixes_of([nodes, raising], Effects(lost=50), answer_with(events=1))).action == "nodes"


def test_a_pdb_without_spec_has_a_fix_and_no_traceback() -> None:
    assert fixes.relaxed({"kind": "PodDisruptionBudget", "status": {}}) == {
        "kind": "PodDisruptionBudget",
        "spec": {"maxUnavailable": 1},
    }


def test_all_resources_of_an_exceeded_quota_are_named(tmp_path: Path) -> None:
    hard, used = {"pods": "2", "requests.cpu": "900m"}, {"pods": "1971", "requests.cpu": "1422500m"}
    spent = object_of("v1", "ResourceQuota", "q", spec={"hard": hard}, status={"hard": hard, "used": used})
    result = forewarn.whatif(cluster_of(tmp_path, spent), forewarn.LoseNodes(["n1"]))
    usage = "1,971 of 2 pods, 1,422.5 of 0.9 requests.cpu"
    assert f"before the change: quota shop/q is exceeded ({usage})" in result.document.warnings


PDBS, QUOTAS = fixes.Edit("a PDB", [{"a": 1}], "blocked"), fixes.Edit("a quota", [{"b": 1}], "rejected")
BOTH, MORE = ("a PDB; a quota", "blocked 4 → 0, rejected 2 → 0, but Jobs failed 0 → 3"), "a PDB; a quota; for Jobs"


@pytest.mark.parametrize(
    ("together", "events", "shown"),
    [
        (Effects(), 9, [(MORE, "blocked 4 → 0, rejected 2 → 0"), BOTH]),
        (Effects(jobs_failed=3), 9, [BOTH]),
        (Effects(), fixes._MIN_EVENTS, [BOTH]),
    ],
)
def test_a_fix_is_also_tried_with_those_of_what_it_leaves_or_causes_within_the_work_of_the_answer(
    together: Effects, events: int, shown: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = fixes.Edit("for Jobs", [{"c": 1}], "jobs_failed")
    monkeypatch.setattr(fixes, "_edits", lambda *_: [PDBS, QUOTAS, jobs])
    monkeypatch.setattr(fixes, "_node_edits", lambda *_: [])
    monkeypatch.setattr(fixes, "with_edits", lambda _, edits: "".join(each.action for each in edits))
    after = {"a PDBa quota": Effects(jobs_failed=3), "a PDBa quotafor Jobs": together}
    cluster, ask = cluster_of(tmp_path), lambda other, _: (answer_with(events), after[str(other)])
    tested = fixes.tested_fixes(cluster, answer_with(events=9), Effects(blocked=4, rejected=2), ask)
    assert [(fix.action, fix.effect) for fix in tested] == shown


def test_limits_that_keep_nodes_are_fixes_of_a_removal(tmp_path: Path) -> None:
    result = forewarn.whatif(cluster_of(tmp_path, quota(pods=2, used=4)), forewarn.Remove(1))
    assert (result.document.status, result.document.effects.blocked) == ("BLOCKED", 1)
    assert [(fix.action, fix.effect) for fix in result.document.fix] == [("quota shop/q: pods 2 → 4", "blocked 1 → 0")]
    result = forewarn.whatif(cluster_of(tmp_path, pdb(maxUnavailable=0)), forewarn.Remove(1))
    assert [(fix.action, fix.effect) for fix in result.document.fix] == [
        ("maxUnavailable: 1 in PDB shop/web", "blocked 1 → 0")
    ]


def test_a_change_of_class_says_what_may_be_preempted_and_which_quota_ends(tmp_path: Path) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 10), ("high", 100))
    ]
    by_class = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}]}
    limited = quota(pods=9, used=4)
    limited["spec"] |= {"scopeSelector": by_class}
    cluster = cluster_of(tmp_path, *classes, limited, priority_class="low", priority=10)
    change = forewarn.ChangeClass("other", value=50, workloads=["deployment/web"], namespace="shop")
    document = forewarn.whatif(cluster, change).document
    assert [[*row] for table in document.tables if table.columns[0] == "QUOTA" for row in table.rows] == [
        ["shop/q", "pods", "4", "0", "9"]
    ]
    document = forewarn.whatif(cluster, forewarn.ChangeClass("low", value=500)).document
    rows = [[*row] for table in document.tables if table.columns[0] == "NEW POD OF" for row in table.rows]
    assert rows == [["high", 4, 4, 0, "-4 low"], ["low", 0, 4, 0, "none"]]
    document = forewarn.whatif(cluster, forewarn.ChangeClass("high", value=5)).document
    assert document.clause == "no Pod preempted, newly Pending or lost"
    document = forewarn.whatif(cluster, forewarn.ChangeClass("low", value=-5)).document
    assert document.clause == "4 of 4 new Pods run, Pods without a class may preempt 4 more running Pods"


def test_all_limits_of_a_quota_that_would_be_exceeded_are_raised(tmp_path: Path) -> None:
    hard, used = {"pods": "3", "requests.cpu": "1"}, {"pods": "4", "requests.cpu": "2"}
    both = object_of("v1", "ResourceQuota", "q", spec={"hard": hard}, status={"hard": hard, "used": used})
    result = forewarn.whatif(cluster_of(tmp_path, both), forewarn.LoseNodes(["n1"]))
    assert [(fix.action, fix.effect) for fix in result.document.fix] == [
        ("quota shop/q: pods 3 → 4, requests.cpu 1 → 2", "lost 2 → 0, rejected 2 → 0")
    ]
