"""cluster-autoscaler's scale-up: recorded cases of upstream's own loop, and hostile numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import forewarn
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.prediction.autoscaling import NotPredicted
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, from_node, from_provider
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import (
    Expression,
    InvalidExpression,
    Option,
    Priorities,
    balanced,
    best_options,
)
from tests.builders import make_node, make_pod
from tests.recorded.cluster_autoscaler import answer_case
from tests.recorded.scale_down import answer_scans
from tests.work import steps


def recorded(name: str) -> list[Any]:
    data = (Path(__file__).parent / "cases" / f"{name}.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]


CASES = recorded("cluster-autoscaler")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_first_scale_up_is_one_of_those_recorded(case: Any) -> None:
    ups = [[up["group"], up["nodes"]] for up in answer_case(case)["scaleUps"]]
    assert sorted(ups) in case["outcomes"]


@pytest.mark.parametrize("case", recorded("cluster-autoscaler-scale-down"), ids=lambda case: case["id"])
def test_the_scans_of_scale_down_are_among_those_recorded(case: Any) -> None:
    assert answer_scans(case) in case["outcomes"]


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


@pytest.mark.parametrize(
    ("priorities", "best"),
    [
        ("10: [.*]\n50: [^b, c$]", ["b", "c"]),
        ("10: [a]\n20: [z]", ["a"]),
        ("10: [a, b]\n20: [a]", ["a"]),
        ("-1: [a]\n-2: [b]", ["a"]),
        ("-2: [a]\n-3: [b]", ["a", "b", "c"]),
        ("10: []\n20:", ["a", "b", "c"]),
        ("10: [z]", ["a", "b", "c"]),
        ("10: [a]\n20: ['*b']", ["a", "b", "c"]),
        ("10: a", ["a", "b", "c"]),
        ("10: [[a]]", ["a", "b", "c"]),
        ("high: [a]", ["a", "b", "c"]),
        ("[a]", ["a", "b", "c"]),
        ("{", ["a", "b", "c"]),
        ("", ["a", "b", "c"]),
    ],
)
def test_the_expander_priority(priorities: str, best: list[str]) -> None:
    options = [Option(name, 1, 1, 0) for name in "abc"]
    assert [option.group for option in best_options(options, ["priority"], Priorities(priorities))] == best


def test_priorities_are_of_the_id_in_the_cloud_provider() -> None:
    options, ids = [Option("a", 1, 1, 0), Option("b", 1, 1, 0)], {"b": "https://x/b"}
    assert best_options(options, ["priority"], Priorities("1: [.*]\n2: ['/b$']"), ids) == options[1:]


@pytest.mark.parametrize(
    ("priorities", "told"),
    [
        (None, "needs the ConfigMap cluster-autoscaler-priority-expander"),
        ("1: ['(?i)A']", r'expression "\(\?i\)A" .* is not modelled'),
        ("1: ['a{2}']", "is not modelled"),
        ("1: ['" + "(" * 99 + "']", "is not modelled"),
        ("1: [" + "a, " * 30_000 + "]", "more than 65536 characters"),
    ],
)
def test_priorities_that_are_not_modelled_are_named(priorities: str | None, told: str) -> None:
    with pytest.raises(NotPredicted, match=told):
        best_options([Option("a", 1, 1, 0)], ["priority"], None if priorities is None else Priorities(priorities))


EXPRESSIONS = r"""
    .*          : web ""
    .*t2\.large.*: asg-t2.large-a / asg-t2xlarge
    ^spot-      : spot-1 / a-spot-1
    -(a|b)$     : web-a web-b / web-c web-a1
    (?:ab)+?c   : ababc / ac
    ^(ab)?c$    : c abc / ab
    ^[^a-c\d]+$ : xyz / xaz x1
    ^[]a-]+$    : ]a- / b
    ^\w\.\D\S$  : a.bc / a.1c
    ^(|a)*$     : "" aaa / b
    a|^$|b      : a b "" / c
    ^}]$        : }]
"""


@pytest.mark.parametrize("line", EXPRESSIONS.strip().splitlines())
def test_expressions_match_as_in_go(line: str) -> None:
    text, _, rest = line.rpartition(":") if line.count(":") == 1 else line.strip().rpartition(" : ")
    expression, (inside, _, outside) = Expression(text.strip()), rest.partition(" / ")
    assert [name for name in inside.split() if not expression.is_in(name.strip('"'))] == []
    assert [name for name in outside.split() if expression.is_in(name.strip('"'))] == []


@pytest.mark.parametrize("text", ["*a", "a**", "a|+", "(a", "a)", "(*)"])
def test_expressions_that_go_rejects(text: str) -> None:
    with pytest.raises(InvalidExpression):
        Expression(text)


@pytest.mark.parametrize("text", ["[a", r"\pL", r"\Qa", r"\b", "a\\", "[[:alpha:]]", "(?P<n>a)", r"[a-\d]", "[z-a]"])
def test_expressions_that_are_not_modelled(text: str) -> None:
    with pytest.raises(NotPredicted):
        Expression(text)


def test_the_work_of_an_expression_is_bounded() -> None:
    hostile = Expression("((((a*)*b*)*c*)*.*)*z")
    assert steps(lambda: hostile.is_in("abc" * 80)) < 2_000_000
    with pytest.raises(CutShort), metered(lambda: False, 1_000):
        hostile.is_in("abc" * 80)


def test_an_expander_that_is_not_modelled_is_named() -> None:
    with pytest.raises(NotPredicted, match='expander "price" is not modelled'):
        best_options([Option("a", 1, 1, 0)], ["price"])


def test_the_filters_that_read_one_node_say_so() -> None:
    """Estimates share their PreFilter results among equal Pods."""
    pod = make_pod("new").obj
    cluster = forewarn.load("docs/examples/whatif/cluster.yaml").snapshot
    assert framework_of(cluster.scheduling, Pod.from_api(pod)).reads_one_node == {
        *("NodeAffinity", "NodeDeclaredFeatures", "NodeName", "NodePorts", "NodeResourcesFit", "NodeUnschedulable"),
        "TaintToleration",
    }


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
