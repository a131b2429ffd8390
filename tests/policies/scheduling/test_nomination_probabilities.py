"""The odds of a search that looks at a random part of the nodes."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.arguments import DefaultPreemptionArgs
from forewarn.policies.kubernetes.scheduling.preemption import Candidate
from forewarn.policies.kubernetes.scheduling.schedule_one import class_probabilities, nomination_probabilities

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def by_brute_force(sizes: list[int], harmless: int, candidates: int) -> list[float]:
    """What upstream's search comes to, over every order of the nodes."""
    classes = [number for number, size in enumerate(sizes) for _ in range(size)]
    counts: Counter[int] = Counter()
    orders = 0
    for order in permutations(range(len(classes))):
        good: list[int] = []
        bad: list[int] = []
        for node in order:
            kept = good if node < harmless else bad
            if len(kept) < candidates:
                kept.append(node)
            if good and len(good) + len(bad) >= candidates:
                break
        counts[min(classes[node] for node in good or bad)] += 1
        orders += 1
    return [counts[number] / orders for number in range(len(sizes))]


@pytest.mark.parametrize(
    ("sizes", "harmless", "candidates"),
    [
        ([1, 2, 3], 6, 2),
        ([2, 2, 2], 4, 1),
        ([1, 1, 4], 2, 3),
        ([1, 5], 1, 3),
        ([3, 4], 0, 2),
        ([2, 1, 2], 0, 1),
        ([1, 2, 1], 3, 9),
        ([6], 6, 2),
    ],
)
def test_the_closed_form_is_what_every_order_of_the_nodes_comes_to(
    sizes: list[int], harmless: int, candidates: int
) -> None:
    assert class_probabilities(sizes, harmless, candidates) == pytest.approx(
        by_brute_force(sizes, harmless, candidates)
    )


@given(SIZES, st.integers(0, 12), st.integers(1, 200))
def test_the_odds_sum_to_one(sizes: list[int], harmless_classes: int, candidates: int) -> None:
    found = class_probabilities(sizes, sum(sizes[:harmless_classes]), candidates)
    assert sum(found) == pytest.approx(1)
    assert all(chance >= -1e-12 for chance in found)


@given(SIZES)
def test_who_looks_at_all_nodes_takes_the_best(sizes: list[int]) -> None:
    assert class_probabilities(sizes, 0, sum(sizes))[0] == pytest.approx(1)


@pytest.mark.parametrize(("nodes", "want"), [(0, 0), (7, 7), (100, 100), (101, 100), (1000, 100), (1500, 150)])
def test_how_many_candidates_end_the_search(nodes: int, want: int) -> None:
    assert DefaultPreemptionArgs().num_candidates(nodes) == want


def candidate(name: str, priority: int, violations: int = 0) -> Candidate:
    return Candidate(name, (Pod("default", f"p-{name}", priority=priority, start_time=1),), violations)


def test_up_to_a_hundred_nodes_the_best_ones_share_everything() -> None:
    candidates = [candidate("a", 5), candidate("b", 5), candidate("c", 9), candidate("d", 0, 1)]
    assert nomination_probabilities(candidates, 100) == {"a": 0.5, "b": 0.5}


def test_no_candidate_has_no_odds() -> None:
    assert nomination_probabilities([], 500) == {}
