"""Pods below a priority are put in order where somebody asks: the same order as in tables that are made anew."""

import random
from dataclasses import replace

import numpy as np
import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import lower_priority_pods_of
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pod_matrix_of
from tests.builders import Made, cluster, make_budget, make_node, make_pod
from tests.policies.scheduling.consistency import check


@pytest.mark.parametrize("seed", range(12))
def test_what_is_ordered_late_is_ordered_as_in_tables_made_anew(seed: int) -> None:
    """Pods that come in turn charge budgets; then all is asked again from the start, and budgets allow more again."""
    rng = random.Random(seed)
    names = [f"n{number:02}" for number in range(rng.randint(8, 14))]
    made: list[Made] = [make_node(name) for name in names]
    for number in range(8 * len(names)):
        old = make_pod(f"old-{number}").priority(rng.choice([1, 2, 3, 50])).request(cpu=f"{rng.choice([200, 500])}m")
        made.append(old.labels(app=f"a{rng.randint(0, 5)}", tier=str(rng.randint(0, 2))).on(rng.choice(names)))
    for number in range(6):
        matched = {"app": f"a{rng.randint(0, 5)}"} if number % 2 else {"tier": str(rng.randint(0, 2))}
        made.append(make_budget(f"b{number}", rng.choice([0, 1, 1, 2, 5]), **matched))
    state = cluster(*made)
    pod = predict(state, make_pod("new").priority(9).request(cpu="2500m").obj).pod
    preempting = 0
    for _ in range(2):
        snapshot = state.scheduling
        for number in range(10):
            prediction = Prediction(snapshot, replace(pod, uid=f"new-{number}"))
            anew = Prediction(Snapshot.build(snapshot.objects), replace(pod, uid=f"new-{number}"))
            assert (prediction.outcome, prediction.best_nodes) == (anew.outcome, anew.best_nodes)
            assert prediction.victims == anew.victims
            assert prediction.num_pdb_violations == anew.num_pdb_violations
            preempting += prediction.outcome == "preempts"
            snapshot = prediction.snapshot_after()
        check(snapshot)
    assert preempting


def test_nodes_that_cannot_be_cleared_are_not_ordered() -> None:
    """A budget that has been spent changes the order on every node with its pods: few of them matter."""
    full = [make_pod(f"vip-{n}").priority(50).request(cpu="3").on(n) for n in "cdefghij"]
    pods = [make_pod(f"old-{n}").priority(1).request(cpu="1").labels(app="old").on(n) for n in "abcdefghij"]
    room = [make_pod(f"low-{n}").priority(1).request(cpu="2").on(n) for n in "ab"]
    state = cluster(*(make_node(n) for n in "abcdefghij"), *full, *pods, *room, make_budget("one", 1, app="old"))
    first = predict(state, make_pod("new").priority(9).request(cpu="4").obj)
    assert {victim.name for victim in first.victims} == {"low-a", "old-a"}
    second = Prediction(first.snapshot_after(), replace(first.pod, uid="second"))
    assert (second.node, second.num_pdb_violations) == ("b", 1)
    matrix = pod_matrix_of(second.snapshot)
    stale = np.flatnonzero(lower_priority_pods_of(matrix, second.snapshot, 9).stale)
    assert ["abcdefghij"[row] for row in stale] == list("acdefghij")
