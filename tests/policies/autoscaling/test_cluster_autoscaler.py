"""cluster-autoscaler's scale-up: recorded cases of upstream's own loop, and hostile numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.cluster_autoscaler.expanders import Option, best_options
from forewarn.policies.autoscaling.cluster_autoscaler.node_group import NodeGroup, from_node, from_provider
from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import balanced
from tests.builders import make_node
from tests.recorded.cluster_autoscaler import answer_case
from tests.work import steps

RECORDED = Path(__file__).parent / "cases" / "cluster-autoscaler.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_first_scale_up_is_one_of_those_recorded(case: Any) -> None:
    ups = [[up["group"], up["nodes"]] for up in answer_case(case)["scaleUps"]]
    assert sorted(ups) in case["outcomes"]


def groups_of(*sizes: tuple[int, int]) -> list[NodeGroup]:
    """Groups a, b, … of these sizes and maximum sizes."""
    node = make_node("n").has(cpu="4", memory="8Gi", pods="10").obj
    return [from_provider("abcdef"[index], size, most, node) for index, (size, most) in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "new_nodes", "added"),
    [
        ([(1, 9)], 3, {"a": 3}),
        ([(1, 9), (1, 9)], 3, {"a": 2, "b": 1}),
        ([(5, 9), (1, 9)], 3, {"b": 3}),
        ([(5, 9), (1, 9)], 6, {"b": 5, "a": 1}),
        ([(1, 2), (1, 9)], 5, {"a": 1, "b": 4}),
        ([(2, 2), (1, 1)], 5, {}),
        ([(2, 3), (1, 2)], 5, {"a": 1, "b": 1}),
        ([(0, 1), (0, 2), (0, 9)], 8, {"a": 1, "b": 2, "c": 5}),
    ],
)
def test_similar_groups_grow_evenly(sizes: list[tuple[int, int]], new_nodes: int, added: dict[str, int]) -> None:
    assert {group.name: number for group, number in balanced(groups_of(*sizes), new_nodes)} == added


@pytest.mark.parametrize(
    ("expanders", "best"),
    [
        (["least-waste"], ["b"]),
        (["most-pods"], ["a", "c"]),
        (["least-nodes"], ["a", "b"]),
        (["most-pods", "least-nodes"], ["a"]),
        (["random"], ["a", "b", "c"]),
    ],
)
def test_expanders(expanders: list[str], best: list[str]) -> None:
    options = [Option("a", 1, 3, 0.5), Option("b", 1, 2, 0.4), Option("c", 2, 3, 0.6)]
    assert [option.group for option in best_options(options, expanders)] == best


def test_an_expander_that_is_not_modelled_is_named() -> None:
    with pytest.raises(NotPredicted, match='expander "price" is not modelled'):
        best_options([Option("a", 1, 1, 0)], ["price"])


def test_a_template_from_a_node_keeps_its_labels_and_loses_its_state() -> None:
    node = make_node("n").has(cpu="4", memory="8Gi", pods="10").zone("z").label("kubernetes.io/hostname", "n")
    made = from_node("g", 1, 2, node.taint("node.kubernetes.io/not-ready", "NoExecute").obj, [])
    assert made.node.taints == ()
    assert made.node.labels["kubernetes.io/hostname"] == made.node.name == "template-node-for-g"
    assert "failure-domain.beta.kubernetes.io/zone" not in made.node.labels


def hostile(**changes: Any) -> Any:
    case = json.loads(json.dumps(CASES[0]))
    for group in case["groups"]:
        group.update(changes)
    return case


def test_no_loop_grows_with_a_number_that_somebody_wrote() -> None:
    usual = steps(lambda: answer_case(hostile(size=1, maxSize=100)))
    huge = steps(lambda: answer_case(hostile(size=1, maxSize=2**31 - 1)))
    assert huge < 1.2 * usual
    with pytest.raises(NotPredicted, match="more than 1000 nodes are on their way"):
        answer_case(hostile(size=2**31 - 2, maxSize=2**31 - 1))
