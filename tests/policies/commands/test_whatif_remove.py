"""`forewarn whatif remove`: which nodes can go, compared with all choices in small clusters."""

from __future__ import annotations

import json
import re
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import forewarn
from forewarn.policies.prediction.simulation.summary import random_of
from forewarn.policies.questions.application import removal, whatif_answer
from forewarn.policies.questions.application.simulated import world_with
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.effects import effects_of
from forewarn.policies.questions.whatif.questions import drained
from forewarn.policies.questions.whatif.repetition import RUNS, without_names
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod
from tests.cases import cases
from tests.in_process import forewarn as run
from tests.policies.small_clusters import BATCHES, compared, compared_without_forks, small_cluster

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "docs/examples/whatif/cluster.yaml"
COSTS = ("blocked", "preempted", "pending", "lost", "rejected", "jobs_failed", "pdbs_violated")
MOST = 4


def _is_free(cluster: forewarn.Cluster, names: tuple[str, ...]) -> bool:
    """Whether the drain of these nodes costs nothing, by the answers of all runs that `whatif` shows."""
    question = drained(cluster.snapshot, names)
    world = world_with(cluster.cache, question.arrivals, 3600.0)
    unnamed = without_names(world)
    worlds = [(world, None), *((unnamed, random_of(0, run)) for run in range(1, 1 + RUNS))]
    runs = (ask(question, each, without=False, random=random) for each, random in worlds)
    return not any(getattr(effects_of(answer), name) for answer in runs for name in COSTS)


def _compare(seed: int, path: Path) -> int:
    """Check that the nodes of the answer can go, and no choice of more nodes, up to MOST; return their number."""
    path.write_text(cluster_text(small_cluster(Random(seed))))
    cluster = forewarn.load(path)
    result = forewarn.whatif(cluster, forewarn.Remove(min(MOST, len(cluster.nodes))), tries_fixes=False)
    assert result.answer.removal is not None
    nodes = result.answer.removal.nodes
    assert not nodes or _is_free(cluster, tuple(nodes)), seed
    for size in range(len(nodes) + 1, min(MOST, len(cluster.nodes)) + 1):
        for names in combinations(cluster.nodes, size):
            assert not _is_free(cluster, names), (seed, names)
    return len(nodes)


def test_no_choice_of_up_to_4_nodes_is_better(tmp_path: Path) -> None:
    compared(_compare, range(cases(8)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: str(seeds.start))
def test_no_choice_of_up_to_4_nodes_is_better_in_200_clusters(seeds: range, tmp_path: Path) -> None:
    compared_without_forks(_compare, seeds, tmp_path)


def _roomy(path: Path, *more: Made) -> Path:
    """Four nodes with a small Pod on each; any three can go, as far as `more` allows."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True, "uid": "web"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    web = Made("apps/v1", "ReplicaSet", "web", "default")
    made = [web.spec(replicas=4, selector={"matchLabels": {"app": "web"}}, template=template)]
    for number in range(4):
        made.append(make_node(f"n{number}").has(cpu="4").label("pool", "even" if number % 2 == 0 else "odd"))
        pod = make_pod(f"web-{number}").request(cpu="1").labels(app="web").on(f"n{number}")
        ready = [{"type": "Ready", "status": "True"}]
        made.append(pod.metadata(ownerReferences=[owner]).status(conditions=ready))
    path.write_text(cluster_text([*made, *more]))
    return path


def test_nodes_that_a_pdb_blocks_are_tried_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest node is blocked; with it first, the search would end before it tries another one."""
    monkeypatch.setattr(removal, "_MAX_KEPT", 1)
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    pod = make_pod("alone").request(cpu="100m").labels(app="alone").on("a")
    pdb = make_budget("alone", 0, "default", app="alone").spec(maxUnavailable=0)
    path = _roomy(tmp_path / "c.json", make_node("a").has(cpu="4"), pod, pdb)
    answer = json.loads(run("whatif", "remove", "2", "--cluster", path, "-o", "json").stdout)
    assert (answer["status"], len(answer["removal"]["nodes"]), answer["removal"]["kept"]) == ("OK", 2, [])


def test_all_names_of_up_to_20_nodes_are_shown_in_lines_of_110_columns(tmp_path: Path) -> None:
    nodes = [make_node(f"a-node-with-a-long-name-{number}").has(cpu="4").label("pool", "even") for number in range(20)]
    path = tmp_path / "c.json"
    path.write_text(cluster_text(nodes))
    out = run("whatif", "remove", "20", "--cluster", path).stdout
    assert set(re.findall(r"a-node-\S+-\d+", out)) == {node.name for node in nodes}
    assert max(map(len, out.splitlines())) <= 110


def test_all_wanted_nodes_can_go(tmp_path: Path) -> None:
    path = _roomy(tmp_path / "c.json")
    assert (
        "after the removal: forewarn whatif lose --each zone" in run("whatif", "remove", "3", "--cluster", path).stdout
    )
    answer = json.loads(run("whatif", "remove", "3", "--cluster", path, "-o", "json").stdout)
    assert (answer["question"], answer["clause"].partition(",")[0]) == ("removal of 3 of 4 nodes", "all can go")
    assert answer["removal"] == {"wanted": 3, "nodes": ["n0", "n1", "n2"], "kept": []}
    assert answer["counters"]["preempted"] == answer["counters"]["pending"] == answer["counters"]["blocked"] == 0


@pytest.mark.parametrize(
    ("prices", "clause"),
    [
        ({"even": "10 EUR", "odd": "20.50 EUR"}, "all can go, 51 EUR per month less"),
        ({"even": "10 EUR"}, "all can go"),
    ],
)
def test_the_price_of_the_nodes_is_saved(prices: dict[str, str], clause: str, tmp_path: Path) -> None:
    """The dearest nodes go first, also with more Pods: n3, n1 and n0; without a price for n1, the sum is unknown."""
    status = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    groups = [
        {"name": pool, "pricePerMonth": price, "template": {"metadata": {"labels": {"pool": pool}}, "status": status}}
        for pool, price in prices.items()
    ]
    (tmp_path / "g.json").write_text(json.dumps(groups))
    path = _roomy(tmp_path / "c.json", *_on("n1"))
    done = run("whatif", "remove", "3", "--cluster", path, "--node-templates", tmp_path / "g.json", "-o", "json")
    assert re.split(r", \d workload", json.loads(done.stdout)["clause"])[0] == clause


def test_dearer_nodes_that_were_not_tried_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pods of n1 and n3 fit only there: after n1, those of other pools are tried."""
    monkeypatch.setattr(removal, "_IN_A_ROW", 1)
    status = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    groups = [
        {"name": pool, "pricePerMonth": price, "template": {"metadata": {"labels": {"pool": pool}}, "status": status}}
        for pool, price in {"even": "10 EUR", "odd": "20.50 EUR"}.items()
    ]
    (tmp_path / "g.json").write_text(json.dumps(groups))
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    pinned = (each for node in ("n1", "n3") for each in _on(node, containers=[container], nodeSelector={"pool": "odd"}))
    path = _roomy(tmp_path / "c.json", *pinned)
    done = run("whatif", "remove", "1", "--cluster", path, "--node-templates", tmp_path / "g.json", "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["removal"]["nodes"], answer["clause"].partition(", 1 workload")[0]) == (
        ["n0"],
        "all can go, 10 EUR per month less",
    )
    assert "1 dearer node was not tried: others may save more" in answer["warnings"]


def test_fewer_can_go_and_the_answer_says_why(tmp_path: Path) -> None:
    done = run("whatif", "remove", "4", "--cluster", _roomy(tmp_path / "c.json"))
    assert done.stdout.startswith("BLOCKED  removal of 4 of 4 nodes: 3 can go; n3 stops the next")
    assert "n3               4 Pods stay Pending, 4 replicas lost" in done.stdout
    assert "WARN  no FIX: no edit of a quota, PDB, rollout or Job applies" in done.stdout
    blocked = _roomy(tmp_path / "d.json", make_budget("web", 0, app="web").spec(minAvailable="100%"))
    done = run("whatif", "remove", "1", "--cluster", blocked)
    assert done.stdout.startswith("BLOCKED  removal of 1 of 4 nodes: 0 can go; n0 stops the next")
    assert "n0               PDB default/web blocks the drain" in done.stdout
    assert "no FIX" not in done.stdout, "the edit of the PDB"


def test_only_nodes_of_a_pool_go(tmp_path: Path) -> None:
    path = _roomy(tmp_path / "c.json")
    answer = json.loads(run("whatif", "remove", "2", "--pool", "pool=odd", "--cluster", path, "-o", "json").stdout)
    assert answer["removal"]["nodes"] == ["n1", "n3"]


def _on(node: str, kind: str = "ReplicaSet", replicas: int = 1, **pod: Any) -> list[Made]:
    """A workload with all replicas on this node."""
    name, spec = f"on-{node}", {"containers": [{"name": "c", "image": "i"}], **pod}
    labels, owner = (
        {"app": name},
        {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True, "uid": name},
    )
    workload = Made("apps/v1", kind, name, "default").metadata(uid=name)
    workload.spec(
        replicas=replicas, selector={"matchLabels": labels}, template={"metadata": {"labels": labels}, "spec": spec}
    )
    pods = (make_pod(f"{name}-{number}").labels(**labels).spec(**spec).on(node) for number in range(replicas))
    return [workload, *(each.metadata(ownerReferences=[owner]) for each in pods)]


@pytest.mark.usefixtures("few_runs", "no_fixes")
def test_two_nodes_can_go_instead_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pod of the smallest node takes both ports that are free, which those of two other nodes need."""
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    monkeypatch.setattr(removal, "_MAX_DRAWN", 30)
    made: list[Made] = [make_node(name).has(cpu="4") for name in "abc"]
    made += [make_node("r").has(cpu="4").label("free", "yes"), *_on("r", nodeSelector={"free": "yes"})]
    for node, cpu, ports in (("a", "100m", (80, 81)), ("b", "200m", (80,)), ("c", "300m", (81,))):
        used = [{"containerPort": port, "hostPort": port} for port in ports]
        container = {"name": "c", "image": "i", "ports": used, "resources": {"requests": {"cpu": cpu}}}
        made += _on(node, containers=[container], nodeSelector={"free": "yes"})
    path = tmp_path / "c.json"
    path.write_text(cluster_text(made))
    found = json.loads(run("whatif", "remove", "3", "--cluster", path, "-o", "json").stdout)["removal"]
    assert sorted(found["nodes"]) == ["b", "c"]
    assert {"node": "a", "why": "two other nodes go in its place", "cause": ""} in found["kept"]


@pytest.mark.usefixtures("few_runs", "no_fixes")
def test_nodes_with_many_small_pods_can_go_instead_of_one_large_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that restarts fewest Pods takes the room of two others."""
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    monkeypatch.setattr(removal, "_MAX_DRAWN", 0)
    made: list[Made] = [make_node(name).has(cpu="4") for name in "abc"]
    made += [make_node("r").has(cpu="4").label("free", "yes"), *_on("r", nodeSelector={"free": "yes"})]
    for node, cpu, replicas in (("a", "3", 1), ("b", "1", 2), ("c", "1", 2)):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        made += _on(node, replicas=replicas, containers=[container], nodeSelector={"free": "yes"})
    path = tmp_path / "c.json"
    path.write_text(cluster_text(made))
    found = json.loads(run("whatif", "remove", "2", "--cluster", path, "-o", "json").stdout)["removal"]
    assert sorted(found["nodes"]) == ["b", "c"]


def test_nodes_without_replicas_that_would_be_down_go_first(tmp_path: Path) -> None:
    """The replica of a StatefulSet is recreated when the old one has terminated, those of a ReplicaSet at once."""
    nodes = [*(make_node(name).has(cpu="4").label("pool", "old") for name in "ab"), make_node("new").has(cpu="4")]
    made = [*nodes, *_on("a", "StatefulSet", terminationGracePeriodSeconds=600), *_on("b", replicas=3)]
    path = tmp_path / "c.json"
    path.write_text(cluster_text(made))
    answer = json.loads(run("whatif", "remove", "1", "--pool", "pool=old", "--cluster", path, "-o", "json").stdout)
    assert (answer["removal"]["nodes"], answer["counters"]["down"]) == (["b"], 0)


def test_what_happens_anyway_does_not_keep_a_node(tmp_path: Path) -> None:
    """A Pending Pod that preempts without any drain costs no node its removal."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    urgent = make_pod("urgent").priority(1000).request(cpu="4").spec(nodeSelector={"pool": "x"})
    only = make_node("x").has(cpu="4").label("pool", "x")
    path = _roomy(tmp_path / "c.json", urgent, only, *_on("x", containers=[container]))
    answer = json.loads(run("whatif", "remove", "1", "--cluster", path, "-o", "json").stdout)
    assert len(answer["removal"]["nodes"]) == 1


def _of_jobs(path: Path) -> Path:
    """Five nodes; on each a running Pod of a Job, and on the first a succeeded one."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    made: list[Made] = []
    for number in range(5):
        name = f"job-{number}"
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, "completions": 2}
        job = Made("batch/v1", "Job", name, "default").metadata(uid=name).spec(**spec)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True, "uid": name}
        pods = [make_pod(f"{name}-x").request(cpu="1").on(f"n{number}")]
        pods += [make_pod(f"{name}-done").request(cpu="1").on(f"n{number}").status(phase="Succeeded")] * (not number)
        made += [make_node(f"n{number}").has(cpu="8"), job]
        made += [pod.metadata(ownerReferences=[owner]) for pod in pods]
    path.write_text(cluster_text(made))
    return path


def test_pods_of_jobs_near_their_backoff_limit_and_nodes_with_more_pods_are_tried_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a second try: one of n0 to n2 can go, whose Job may lose one more Pod, and the node with fewest Pods."""
    monkeypatch.setattr(removal, "_MAX_KEPT", 1)
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    made: list[Made] = []
    for name, limit, failed, pods in (("near", 2, 1, (1, 1, 1, 0, 0, 0)), ("far", 6, 0, (0, 0, 0, 3, 2, 2))):
        job = Made("batch/v1", "Job", name, "default").metadata(uid=name)
        made.append(job.spec(template=template, parallelism=9, backoffLimit=limit).status(failed=failed))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True, "uid": name}
        for node, number in enumerate(pods):
            pods_of = [make_pod(f"{name}-{node}-{each}").on(f"n{node}") for each in range(number)]
            made += [pod.metadata(ownerReferences=[owner]) for pod in pods_of]
    path = tmp_path / "c.json"
    path.write_text(cluster_text([*(make_node(f"n{number}").has(cpu="8") for number in range(6)), *made]))
    answer = json.loads(run("whatif", "remove", "3", "--cluster", path, "-o", "json").stdout)
    assert (answer["removal"]["nodes"], answer["removal"]["kept"]) == (["n0", "n4", "n5"], [])


def test_the_work_of_jobs_is_lost_and_succeeded_pods_are_not_evicted(tmp_path: Path) -> None:
    done = run("whatif", "remove", "2", "--cluster", _of_jobs(tmp_path / "c.json")).stdout
    assert "Pods evicted 2" in done
    lost = "2 Pods of Jobs start again, and what was done so far is lost: default/job-0 1, default/job-1 1"
    assert lost in " ".join(done.split())


def test_nodes_that_stay_for_the_same_cause_are_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _roomy(tmp_path / "c.json", make_budget("web", 0, app="web").spec(minAvailable="100%"))
    assert "n0               PDB default/web blocks the drain" in run("whatif", "remove", "4", "--cluster", path).stdout
    monkeypatch.setattr(whatif_answer, "_MAX_KEPT", 3)
    done = run("whatif", "remove", "4", "--cluster", path).stdout
    assert "NODES THAT STAY  SUCH AS  ITS REMOVAL COSTS" in done
    assert "4  n0       PDB default/web blocks the drain" in done


@pytest.mark.usefixtures("few_runs", "no_fixes")
def test_the_nodes_that_go_stay_or_were_not_tried_are_all_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_MAX_KEPT", 1)
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    monkeypatch.setattr(whatif_answer, "_MAX_KEPT", 2)
    quota = Made("v1", "ResourceQuota", "few", "default").spec(hard={"pods": "1"})
    pdb = make_budget("web", 0, app="web").spec(minAvailable="100%")
    rich = make_node("rich").has(**{"cpu": "4", "nvidia.com/gpu": "2"})
    user = make_pod("user").request(**{"nvidia.com/gpu": "3"}).on("used")
    gpus = rich, make_node("used").has(**{"cpu": "4", "nvidia.com/gpu": "4"}), user
    path = _roomy(tmp_path / "c.json", pdb, quota.status(hard={"pods": "1"}, used={"pods": "5"}), *gpus)
    answer = tmp_path / "answer.json"
    shown = run("whatif", "remove", "5", "--cluster", path, "-o", "text", "-o", f"json={answer}").stdout
    found = json.loads(answer.read_text())["removal"]
    assert (found["nodes"], [each["node"] for each in found["kept"]]) == (["rich"], ["used"])
    assert {each["why"] for each in found["untried"]} == {
        "not tried: a PDB forbids evictions now, and a quota is exceeded"
    }
    assert re.search(r"^rich .* nvidia.com/gpu 2$", shown, re.MULTILINE)
    assert "WARN  afterwards, Pods request 3 of 4 nvidia.com/gpu" in shown
    assert "              5  total" in shown


@pytest.mark.usefixtures("few_runs")
def test_pdbs_of_nodes_that_were_not_tried_are_fixed_and_the_most_frequent_reason_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Pod of the only node without a PDB fits only there; it requests more than others."""
    monkeypatch.setattr(removal, "_MAX_KEPT", 1)
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    pods = _on("a", containers=[container], nodeSelector={"free": "yes"})
    pinned = make_node("a").has(cpu="4").label("free", "yes"), *pods
    path = _roomy(tmp_path / "c.json", make_budget("web", 0, app="web").spec(minAvailable="100%"), *pinned)
    shown = run("whatif", "remove", "1", "--cluster", path).stdout
    assert "1  maxUnavailable: 1 in PDB default/web" in shown
    assert re.search(r"^ +4  n0 .*\n +1  a ", shown, re.MULTILINE)


def test_nodes_that_cannot_go_do_not_end_the_search_of_other_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Pods of the two smallest nodes fit only there; with both first, the search would end."""
    monkeypatch.setattr(removal, "_MAX_KEPT", 2)
    monkeypatch.setattr(removal, "_IN_A_ROW", 1)
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "pin", "controller": True, "uid": "pin"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"containers": [container], "nodeSelector": {"pool": "pinned"}}
    template = {"metadata": {"labels": {"app": "pin"}}, "spec": spec}
    pin = Made("apps/v1", "ReplicaSet", "pin", "default").metadata(uid="pin")
    made = [pin.spec(replicas=2, selector={"matchLabels": {"app": "pin"}}, template=template)]
    for name in ("a0", "a1"):
        made.append(make_node(name).has(cpu="100m").label("pool", "pinned"))
        pod = make_pod(f"pin-{name}").request(cpu="100m").labels(app="pin").on(name)
        made.append(pod.metadata(ownerReferences=[owner]))
    path = _roomy(tmp_path / "c.json", *made)
    answer = json.loads(run("whatif", "remove", "1", "--cluster", path, "-o", "json").stdout)
    assert answer["removal"]["nodes"] == ["n0"]


def test_a_search_that_ends_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "MAX_CHOICES", 0)
    done = run("whatif", "remove", "4", "--cluster", _roomy(tmp_path / "c.json"))
    assert "not all sets of 4 nodes were tried: others may allow more" in done.stdout
    assert "at least 3 can go" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("5",), "5 nodes to remove, but the cluster has 4"),
        (("3", "--pool", "topology.kubernetes.io/zone=a"), "3 nodes to remove, but the cluster has 2 with topology"),
        (("1", "--pool", "zone"), 'invalid selector "zone"'),
        (("1", "--pool", "pool=x"), "no node matches pool=x"),
        (("0",), "must be between 1 and 100000"),
        ((), "the following arguments are required: N"),
    ],
)
def test_bad_input_is_a_clear_error(arguments: tuple[str, ...], problem: str) -> None:
    done = run("whatif", "remove", *arguments, "--cluster", CLUSTER)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def _zones(path: Path) -> Path:
    """Zone a has the full node a; zone b has the full node b, and c, which is empty."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    web = Made("apps/v1", "ReplicaSet", "web", "default")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True, "uid": "web"}
    made = [web.spec(replicas=2, selector={"matchLabels": {"app": "web"}}, template=template)]
    for name, zone in (("a", "a"), ("b", "b"), ("c", "b")):
        made.append(make_node(name).has(cpu="2").label("topology.kubernetes.io/zone", zone))
    ready = [{"type": "Ready", "status": "True"}]
    for number, node in enumerate("ab"):
        pod = make_pod(f"web-{number}").request(cpu="2").labels(app="web").on(node)
        made.append(pod.metadata(ownerReferences=[owner]).status(conditions=ready))
    path.write_text(cluster_text(made))
    return path


@pytest.mark.parametrize("most", [3, 1])
def test_losses_of_zones_that_cost_more_after_the_removal(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Pod of zone a has no other node without the empty one; the loss of zone b costs a Pod either way."""
    monkeypatch.setattr(removal, "_MAX_ZONES", most)
    answer = json.loads(run("whatif", "remove", "1", "--cluster", _zones(tmp_path / "c.json"), "-o", "json").stdout)
    assert (answer["status"], answer["removal"]["nodes"]) == ("WARN", ["c"])
    which = "zone a" if most == 3 else "zone a (1 of 2 zones simulated)"
    assert f"after the removal, losses cost more: {which}: lost 0 → 1, Pending 0 → 1" in answer["warnings"]


def test_nodes_of_equal_price_are_taken_evenly_from_zones(tmp_path: Path) -> None:
    """Those of zone a restart fewest Pods, and most nodes are in zone b."""
    nodes = [make_node(f"{zone}{number}").has(cpu="4") for zone, most in (("a", 3), ("b", 4)) for number in range(most)]
    made = [node.label("topology.kubernetes.io/zone", node.name[0]) for node in nodes]
    pods = [pod for node in nodes if node.name[0] == "b" for pod in _on(node.name)]
    path = tmp_path / "c.json"
    path.write_text(cluster_text([*made, *pods]))
    answer = json.loads(run("whatif", "remove", "3", "--cluster", path, "-o", "json").stdout)
    assert answer["removal"]["nodes"] == ["b0", "a0", "b1"]
