"""Which of equally good nodes is on top of Go's heap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.simulation.node_tree import top_of_heap


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
    assert top_of_heap(range(len(scores)), scores) == heap_init(scores)[0]
