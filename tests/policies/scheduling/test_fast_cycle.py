"""A cycle over all nodes at once against the plugins one by one: the same nodes, scores, and plugins that reject."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from forewarn import policies
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.find_nodes import num_feasible_nodes_to_find
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle, found_in_order
from tests.benchmarks.clusters import Size, objects, pod, workload
from tests.builders import cluster, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.consistency import check
from tests.policies.scheduling.profiles import random_config, semantics
from tests.policies.scheduling.random_changes import objects_of
from tests.policies.scheduling.random_clusters import random_case

SEED = os.environ.get("FOREWARN_SEED", "1")


def compare(snapshot: policies.ClusterSnapshot, asked: Any, where: object) -> str:
    prediction = policies.predict(snapshot, asked)
    if prediction.not_predicted:
        return "not predicted"
    with snapshot.scheduling.derived.locked():
        try:
            cycle = Cycle(snapshot.scheduling, prediction.pod)
            return fits(cycle, prediction, where) if cycle.feasible.any() else rejected(cycle, prediction, where)
        except NotValid:
            return "not valid"


def fits(cycle: Cycle, prediction: Prediction, where: object) -> str:
    rows = np.flatnonzero(cycle.feasible)
    names = [cycle.snapshot.node_infos[row].name for row in rows.tolist()]
    assert names == prediction.feasible, where
    if len(rows) == 1:
        return "fits"
    mine, theirs = cycle.scores(rows), [prediction.scores[name]["total"] for name in names]
    assert (mine - mine[0]).tolist() == [score - theirs[0] for score in theirs], where
    return "scored"


def rejected(cycle: Cycle, prediction: Prediction, where: object) -> str:
    assert not prediction.fits, where
    plugins, reasons = cycle.rejection()
    rejection = prediction.rejection
    assert plugins == rejection.plugins, where
    if prediction.pre_filter is None:
        counted = Counter(reason for status in rejection.statuses for reason in status.reasons)
        assert reasons == counted, where
    return "rejected"


def test_random_clusters() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(120)):
        seed = f"{SEED} cycle {number}"
        case = random_case(seed)
        snapshot = cluster_of(case)
        outcomes[compare(snapshot, case["pod"], seed)] += 1
    assert outcomes["scored"] > cases(5), outcomes
    assert outcomes["rejected"] > cases(10), outcomes


@pytest.mark.parametrize("minor", [34, 35, None])
def test_random_clusters_of_other_releases_and_profiles(minor: int | None) -> None:
    """`minor`: of the release with its default profile; None: random profiles."""
    outcomes: Counter[str] = Counter()
    for number in range(cases(100)):
        seed = f"{SEED} cycle of {minor} {number}"
        meant = semantics(random_config(random.Random(seed))) if minor is None else Semantics(minor)
        case = random_case(seed)
        outcomes[compare(cluster_of(case, meant), case["pod"], seed)] += 1
    assert outcomes["scored"] > cases(4), outcomes
    assert outcomes["rejected"] > cases(8), outcomes


def cluster_of(case: dict[str, Any], meant: Semantics = DEFAULT) -> policies.ClusterSnapshot:
    cache = policies.Cache(semantics=meant)
    for obj in objects_of(case):
        cache.add(obj)
    return cache.snapshot()


def test_spreading_by_the_controller_counts_every_node_of_a_zone() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "rs"}}},
    }
    nodes = [make_node(f"n{n}").zone("a" if n < 3 else "b").has(cpu=str(4 + n)) for n in range(5)]
    pods = [make_pod(f"p{n}").labels(app="rs").request(cpu="1").on(f"n{n % 4}") for n in range(9)]
    snapshot = cluster(*nodes, *pods)
    cache = policies.Cache()
    for made in (*nodes, *pods):
        cache.add(made.obj)
    cache.add(replica_set)
    snapshot = cache.snapshot()
    asked = make_pod("new").labels(app="rs").request(cpu="1").metadata(ownerReferences=[owner])
    assert compare(snapshot, asked.obj, "spread") == "scored"


def test_larger_clusters_score_as_plugin_by_plugin() -> None:
    rng = random.Random(f"{SEED} cycle")
    cache = policies.Cache()
    for obj in objects(Size(nodes=60, pods_per_node=12, workloads=20, pdbs=0)):
        cache.add(obj)
    for number in range(20):
        name = f"app-{number}"
        spec = {"selector": {"matchLabels": {"app": name}}}
        metadata = {"name": name, "namespace": f"team-{number % 40}"}
        cache.add({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    outcomes: Counter[str] = Counter()
    for number in range(12):
        app = workload(rng.randrange(20), rng)
        asked = pod(app, "", 10_000 + number, rng)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app["app"], "controller": True}
        asked["metadata"]["ownerReferences"] = [owner]
        outcomes[compare(cache.snapshot(), asked, number)] += 1
    assert outcomes["scored"] > 8, outcomes


def test_counts_for_spreading_are_kept_while_pods_and_zones_change() -> None:
    rng = random.Random(f"{SEED} kept counts")
    cache = policies.Cache()
    for name in ("one", "two"):
        spec = {"selector": {"matchLabels": {"app": name}}}
        metadata = {"name": name, "namespace": "default"}
        cache.add({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    nodes = [f"n{number}" for number in range(12)]
    for name in nodes:
        cache.add(make_node(name).zone(rng.choice("abc")).has(cpu="30").obj)
    outcomes: Counter[str] = Counter()
    for number in range(60):
        app = rng.choice(("one", "two"))
        there = make_pod(f"p{rng.randrange(25)}").labels(app=app).request(cpu="1").on(rng.choice(nodes))
        change = rng.random()
        if change < 0.6:
            cache.add((there.terminating() if change < 0.1 else there).obj)
        elif change < 0.9:
            cache.remove(there.obj)
        else:
            node = make_node(rng.choice(nodes)).has(cpu="30")
            cache.add((node if change < 0.92 else node.zone(rng.choice("abc"))).obj)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True}
        snapshot = cache.snapshot()
        asked = make_pod("new").labels(app=app).request(cpu="1").metadata(ownerReferences=[owner])
        outcomes[compare(snapshot, asked.obj, number)] += 1
        check(snapshot.scheduling)
    assert outcomes["scored"] == 60, outcomes


@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("nodes", [90, 700, 5000])
def test_a_large_cluster_is_looked_at_up_to_where_enough_is_found(nodes: int, share: float) -> None:
    rng = np.random.default_rng(nodes)
    feasible, order = rng.random(nodes) < share, rng.permutation(nodes)
    places = [place for place, row in enumerate(order.tolist()) if feasible[row]]
    most = num_feasible_nodes_to_find(nodes)
    found = found_in_order(feasible, order)
    assert found.rows.tolist() == order[places[:most]].tolist()
    assert found.evaluated == (places[most] if len(places) > most else nodes)


def test_how_many_nodes_are_enough() -> None:
    found = {nodes: num_feasible_nodes_to_find(nodes) for nodes in (99, 100, 200, 1000, 5000, 15000)}
    assert found == {99: 99, 100: 100, 200: 100, 1000: 420, 5000: 500, 15000: 750}


def test_the_search_goes_on_where_the_last_one_ended() -> None:
    nodes = [make_node(f"n{n:03}") for n in range(150)]
    snapshot = cluster(*nodes).scheduling
    asked = policies.predict(cluster(*nodes), make_pod("p").request(cpu="1").obj).pod
    with snapshot.derived.locked():
        found = Cycle(snapshot, asked).find(np.roll(np.arange(150), -60))
    assert found.rows.tolist() == [*range(60, 150), *range(10)]
    assert found.evaluated == 100
