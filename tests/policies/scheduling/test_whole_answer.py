"""The whole answer in columns, reasons and all candidates, against every plugin on every node."""

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from forewarn import policies
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction, nomination_probabilities
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Candidates
from tests.benchmarks.clusters import Size, objects, pod, preemptor, workload
from tests.builders import Made, cluster, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.comparing import node_by_node
from tests.policies.scheduling.random_changes import World, objects_of
from tests.policies.scheduling.random_clusters import random_case
from tests.policies.scheduling.test_vectorized import said as decided

SEED = os.environ.get("FOREWARN_SEED", "1")


def said(prediction: Prediction) -> dict[str, Any]:
    """All of it, in its order."""
    answer = prediction.to_dict()
    orders = {key: list(answer.get(key) or ()) for key in ("statuses", "candidates", "dryRunStatuses")}
    odds = list(prediction.nomination_probabilities.items())
    # A plugin that gives nothing may be left out.
    scores = {node: {name: n for name, n in row.items() if n} for node, row in answer.get("scores", {}).items()}
    return {**answer, "orders": orders, "odds": odds, "rejection": prediction.rejection, "scores": scores}


def same(snapshot: policies.ClusterSnapshot, asked: Any, where: object) -> bool:
    """Whether columns told it, which then also decide without reasons as the walk."""
    with node_by_node():
        walked = policies.predict(snapshot, asked, reasons=True)
        want = said(walked)
        assert walked.in_columns is None
    told = policies.predict(snapshot, asked, reasons=True)
    assert said(told) == want, where
    if told.in_columns is None:
        return False
    assert decided(policies.predict(snapshot, asked)) == decided(walked), where
    return True


def test_random_clusters_get_the_whole_answer_of_the_walk() -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for number in range(cases(200)):
        case = random_case(f"whole {SEED}.{number}")
        cache = policies.Cache()
        for obj in objects_of(case):
            cache.add(obj)
        snapshot = cache.snapshot()
        told = same(snapshot, case["pod"], case["id"])
        seen[policies.predict(snapshot, case["pod"]).outcome, told] += 1
    assert seen["preempts", True] > cases(50), seen
    assert min(seen["pending", True], seen["fits", True]) > cases(10), seen


@pytest.mark.parametrize("number", range(cases(2)))
def test_a_cluster_that_changes_gets_the_whole_answer_of_the_walk(number: int) -> None:
    """What is kept of nodes from one question to the next follows them."""
    world = World(f"whole {SEED}.{number}")
    cache = policies.Cache()
    for obj in world.objects.values():
        cache.add(obj)
    told = Counter[bool]()
    asked = [make_pod("small").priority(10).request(cpu="1").obj, *(world.case()["pod"] for _ in range(2))]
    for step in range(40):
        how, obj = world.change()
        (cache.remove if how == "remove" else cache.add)(obj)
        for each in asked:
            told[same(cache.snapshot(), each, step)] += 1
    assert told[True] >= 40, told


@pytest.mark.parametrize("kind", ["plain", "anti-affinity", "spread"])
def test_larger_clusters_get_the_whole_answer_of_the_walk(kind: str) -> None:
    rng = random.Random(f"{SEED} {kind}")
    cache = policies.Cache()
    for obj in objects(Size(nodes=130, pods_per_node=20, workloads=24, pdbs=16)):
        cache.add(obj)
    apps = [workload(number, random.Random(number)) for number in range(10)]
    outcomes = Counter[str]()
    for number in range(8):
        cache.add(pod(rng.choice(apps), f"n{rng.randrange(130):05}", 10**6 + number, rng))
        asked = preemptor(kind, number, rng.choice(("2", "4", "6", "9")), rng.choice((1, 101, 5000, 20_000)))
        assert same(cache.snapshot(), asked, number)
        outcomes[policies.predict(cache.snapshot(), asked).outcome] += 1
    assert outcomes["preempts"], outcomes


def test_a_candidate_is_found_by_its_place() -> None:
    nodes: list[Made] = [make_node(f"n{number}").has(cpu="1") for number in range(3)]
    pods: list[Made] = [make_pod(f"p{n}").request(cpu="1").priority(n).on(f"n{n}") for n in range(3)]
    asked = make_pod("new").priority(10).request(cpu="1").obj
    found = policies.predict(cluster(*nodes, *pods), asked, reasons=True).candidates
    assert [found[place].node_name for place in (0, 2, -1, -3)] == ["n0", "n2", "n2", "n0"]
    place: Any = np.int64(1)
    assert found[place].node_name == "n1"
    part = found[1:]
    assert isinstance(part, Candidates)
    assert [candidate.node_name for candidate in part] == part.names == ["n1", "n2"]
    assert nomination_probabilities(part, 3) == {"n1": 1.0}
    with pytest.raises(IndexError):
        found[3]
    assert len(found) == 3
