"""Which of equally good nodes is on top of Go's heap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.prediction.simulation.scheduler_cache import top_place
from tests.recorded.commands import answer_scenario


def heap_init(scores: list[int]) -> list[int]:
    """Go's `container/heap` `Init`, the largest first, on the places of the scores."""
    heap = list(range(len(scores)))
    for start in range(len(heap) // 2 - 1, -1, -1):
        place = start
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and scores[heap[child + 1]] > scores[heap[child]]:
                child += 1
            if scores[heap[child]] <= scores[heap[place]]:
                break
            heap[place], heap[child] = heap[child], heap[place]
            place = child
    return heap


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200))
def test_the_top_is_what_sifting_down_leaves_there(scores: list[int]) -> None:
    best = [place for place, score in enumerate(scores) if score == max(scores)]
    assert top_place(best) == heap_init(scores)[0]


def running(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize(("names_its_node", "found"), [(True, True), (False, False)])
def test_a_pod_that_names_its_node_moves_the_start_of_the_next_cycle_by_one(names_its_node: bool, found: bool) -> None:
    """Of 120 nodes, a cycle stops after 100 feasible ones. Source: `findNodesThatFitPod` (`processedNodes`)."""
    nodes = [
        {"metadata": {"name": f"n{n:03}"}, "status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "9"}}}
        for n in range(120)
    ]
    here = {"key": "metadata.name", "operator": "In", "values": ["n000"]}
    required = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    first = running("first", "1", **({"affinity": affinity} if names_its_node else {"nodeName": "n000"}))
    case = {
        "id": "a",
        "quietSeconds": 5,
        "nodes": nodes,
        "pods": [running(f"old-{n}", "2", nodeName=f"n{n:03}") for n in range(120) if n != 100],
        "arrivals": [
            {"at": 1, "op": "create", "object": first},
            {"at": 2, "op": "create", "object": running("second", "1")},
        ],
    }
    (outcome,) = answer_scenario(case)["outcomes"]
    assert (outcome["final"]["default/second"]["node"] == "n100") is found
