"""Where chance decides who is pushed out, a warning does not tell one name as if it were certain."""

from __future__ import annotations

import json

import pytest

from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from tests.builders import Made, MadePod, cluster, make_node, make_pod
from tests.policies.test_cascade import warned, workload


def nodes_with_a_pod(count: int, *starts: int) -> list[Made]:
    """Nodes of 1 cpu with a pod each, started at these seconds in turn."""
    made: list[Made] = [make_node(f"n{number}").has(cpu="1") for number in range(count)]
    return made + [
        make_pod(f"old-{number}").request(cpu="1").on(f"n{number}", started=starts[number % len(starts)])
        for number in range(count)
    ]


def new(pods: int = 1) -> Made:
    spec = make_pod("").request(cpu="1").priority(1).obj["spec"]
    return workload("ReplicaSet", "new", pods, spec)


@pytest.mark.parametrize(
    ("made", "pods", "text"),
    [
        (nodes_with_a_pod(2, 5, 9), 1, "1 Pod on n1: default/old-1"),
        (nodes_with_a_pod(2, 5), 1, "1 Pod on n0 or n1: possibly default/old-0"),
        (nodes_with_a_pod(3, 5), 2, "2 Pods on n0, n1 or n2: possibly default/old-0"),
        (nodes_with_a_pod(3, 5), 3, "3 Pods on n0, n1, n2: possibly default/old-0"),
        (nodes_with_a_pod(2, 5, 9), 2, "2 Pods on n0, n1: default/old-0"),
        (nodes_with_a_pod(100, *range(100)), 1, "1 Pod on n99: default/old-99"),
        (nodes_with_a_pod(101, *range(101)), 1, "1 Pod on n100 or another node: possibly default/old-100"),
    ],
)
def test_of_nodes_that_tie_or_are_many(made: list[Made], pods: int, text: str) -> None:
    (warning,) = warned(cluster(*made), new(pods))
    assert text in warning


def on(name: str, started: int) -> MadePod:
    return make_pod(name).request(cpu="1").on("n", started=started)


@pytest.mark.parametrize(("started", "certain"), [((5, 9), True), ((5, 5), False)])
def test_of_pods_on_one_node_that_tie(started: tuple[int, int], certain: bool) -> None:
    state = cluster(make_node("n").has(cpu="2"), on("a", started[0]), on("b", started[1]))
    (warning,) = warned(state, new())
    assert ("n: default/b" in warning) is certain
    assert ("n: possibly default/" in warning) is not certain
    impact = impact_of(ReviewedObject(new().obj), state, Config())
    assert impact is not None
    assert ('"byChance": true' in json.dumps(impact.to_dict())) is not certain
