"""Nodes leave and arrive: the next snapshot takes over the tables of the others, which equal new ones."""

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from forewarn.policies.base.metering import CutShort
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.bulk import prepare_for_all
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import lower_priority_pods_of
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle
from tests.builders import Made, cluster, make_budget, make_node, make_pod
from tests.policies.scheduling.consistency import check

SEED = os.environ.get("FOREWARN_SEED", "1")


@pytest.mark.parametrize("arrivals", [0.0, 0.08])
@pytest.mark.parametrize("number", range(8))
def test_what_is_known_of_the_other_nodes_stays(number: int, arrivals: float) -> None:
    rng = random.Random(f"{SEED} removed {number}")
    names = [f"n{n:02}" for n in range(12)]
    made: list[Made] = [make_node(name).zone(rng.choice("abc")).has(cpu="3", memory="9Gi") for name in names]
    for n in range(70):
        old = make_pod(f"old-{n}").priority(rng.choice([1, 2, 3, 50])).request(cpu=f"{rng.choice([200, 500])}m")
        made.append(old.labels(app=f"a{rng.randint(0, 4)}").on(rng.choice(names)))
    made += [make_budget(f"b{n}", rng.choice([0, 1, 2]), app=f"a{n}") for n in range(3)]
    snapshot = cluster(*made).scheduling
    asked = [
        predict(cluster(*made), new.obj).pod
        for new in (
            make_pod("new").priority(9).request(cpu="1800m"),
            make_pod("apart").priority(3).request(cpu="700m"),
        )
    ]
    prepare_for_all(snapshot)
    for pod in asked:
        Prediction(snapshot, pod).node  # noqa: B018  (which makes tables)
    matrix = snapshot.derived.matrix
    spare = cluster(*(make_node(f"m{n:02}").zone(rng.choice("abd")).has(cpu="2", memory="9Gi") for n in range(9)))
    every = {**spare.scheduling.objects.nodes, **snapshot.objects.nodes}
    while len(names) > 2:
        gone = rng.sample(names, rng.randint(1, 2))
        names = [name for name in names if name not in gone]
        changed = rng.choice(names)
        arriving = [name for _, name in every if name not in (*names, *gone) and rng.random() < arrivals]
        names += arriving
        nodes = {key: node for key, node in every.items() if key[1] in names}
        pods = {name: pods for name, pods in snapshot.objects.pods_by_node.items() if name in names}
        pods[changed] = pods.get(changed, ())[1:]
        objects = replace(snapshot.objects, nodes=nodes, pods_by_node=pods)
        before, snapshot = snapshot, Snapshot.build(objects, snapshot, frozenset((*gone, changed, *arriving)))
        assert snapshot.derived.matrix is matrix
        assert before.derived.matrix is None
        check(snapshot)
        anew = Snapshot.build(objects)
        for pod in asked:
            found, fresh = Prediction(snapshot, pod), Prediction(anew, pod)
            assert (found.outcome, found.node, found.victims) == (fresh.outcome, fresh.node, fresh.victims)
            assert found.best_nodes == fresh.best_nodes
        lower = lower_priority_pods_of(pod_matrix_of(snapshot), snapshot, 9)
        assert len(lower.count) == len(names) == len(lower.serials)
        assert np.array_equal(lower.serials, snapshot.columns.serials)
    assert Prediction(before, asked[0]).outcome  # an older one makes its tables anew
    check(before)


def test_pods_are_counted_on_the_nodes_that_are_left() -> None:
    """Those of many kinds and those of one, which are counted in another way, of nodes with few pods and many."""
    names = [f"n{n}" for n in range(5)]
    made: list[Made] = [make_node(name).has(cpu="64", memory="99Gi", pods="200") for name in names]
    made += [make_pod(f"p{n}").labels(app=f"a{n % 3}").on(names[n // 140]) for n in range(160)]
    snapshot = cluster(*made).scheduling
    matrix = pod_matrix_of(snapshot)

    def counted() -> None:
        for apps in ({"a1"}, {"a0", "a2"}, set[str]()):

            def counts(pod: Pod, apps: set[str] = apps) -> int:
                return int(pod.labels["app"] in apps)

            found = matrix.counts(str(apps), None, counts, ("default",))
            anew = [sum(pod.labels["app"] in apps for pod in info.pods) for info in snapshot.node_infos]
            assert found.here.tolist() == anew

    counted()
    snapshot = snapshot.with_other_nodes(snapshot.objects, ["n0", "n3"])
    assert pod_matrix_of(snapshot) is matrix
    counted()


def test_pods_that_say_the_same_of_nodes_share_what_comes_of_it() -> None:
    nodes = [make_node("plain"), make_node("tainted").taint("dedicated", "gpu"), make_node("old").labels(gen="1")]
    snapshot = cluster(*nodes).scheduling
    tolerating = {"tolerations": [{"operator": "Exists"}]}
    pods = [make_pod("a"), make_pod("b").request(cpu="1"), make_pod("c").spec(**tolerating)]
    pods += [make_pod(f"s{gen}").spec(nodeSelector={"gen": gen}) for gen in ("1", "2")]
    static = [Cycle(snapshot, predict(cluster(*nodes), pod.obj).pod).node_fit.static for pod in pods]
    names = [info.name for info in snapshot.node_infos]
    open_nodes = [{name for name, passes in zip(names, each, strict=True) if passes} for each in static]
    assert open_nodes == [{"plain", "old"}, {"plain", "old"}, set(names), {"old"}, set()]
    assert static[0] is static[1]


def test_counts_that_were_cut_short_are_made_anew() -> None:
    """A selector may be so long that time is up while it is matched; the pods of the node are in their places then."""
    nodes: list[Made] = [make_node(name).has(cpu="9", memory="99Gi") for name in ("a", "b")]
    old = [make_pod(f"old-{n}").labels(app="x").on("a") for n in range(2)]
    new = [make_pod(f"new-{n}").labels(app="x", other=str(n)).on("b") for n in range(2)]
    matrix = pod_matrix_of(cluster(*nodes, *old).scheduling)
    late = {"new-1"}

    def counted(pod: Pod) -> int:
        if pod.name in late:
            late.clear()
            raise CutShort("time is up")
        return 1

    assert matrix.counts("all", None, counted, ("default",)).here.tolist() == [2, 0]
    after = cluster(*nodes, *old, *new).scheduling
    with pytest.raises(CutShort):
        matrix.sync(after)
    matrix.sync(after)
    assert matrix.counts("all", None, counted, ("default",)).here.tolist() == [2, 2]


def test_conditions_that_no_pod_matches_share_their_counts_until_one_matches() -> None:
    nodes: list[Made] = [make_node(name).has(cpu="9", memory="99Gi") for name in ("a", "b")]
    matrix = pod_matrix_of(cluster(*nodes).scheduling)
    conditions = {app: (lambda pod, app=app: int(pod.labels.get("app") == app)) for app in "xy"}

    def counts() -> dict[str, list[int]]:
        return {app: matrix.counts(app, None, of, ("default",)).here.tolist() for app, of in conditions.items()}

    assert counts() == {"x": [0, 0], "y": [0, 0]}
    matrix.sync(cluster(*nodes, make_pod("new").labels(app="x").on("b")).scheduling)
    assert counts() == {"x": [0, 1], "y": [0, 0]}
    matrix.sync(cluster(*nodes).scheduling)
    matrix.rearrange(np.arange(1, len(matrix.serials)))
    assert matrix.counts("z", None, conditions["x"], ("default",)).here.tolist() == [0]
