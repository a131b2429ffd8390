"""The core against the reference: thousands of random clusters, and clusters that change step by step.

    FOREWARN_SEED=7 pytest tests/policies/scheduling/test_stress.py            other cases
    FOREWARN_CASE=1.3.17 pytest tests/policies/scheduling/test_stress.py   this case alone, or this sequence of changes

A failure names its case, and prints the smallest part of it in which the two still differ.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from forewarn import policies
from tests.cases import cases
from tests.policies.scheduling.comparing import Part, differences, recorded, smallest, told
from tests.policies.scheduling.consistency import check
from tests.policies.scheduling.random_changes import World, objects_of
from tests.policies.scheduling.random_clusters import random_case
from tests.policies.scheduling.reference import CannotAnswer, answer

SEED = os.environ.get("FOREWARN_SEED", "1")
CASE = os.environ.get("FOREWARN_CASE")
STEPS = 12
CASES = Path(__file__).parent / "cases"


def cache_of(case: dict[str, Any]) -> policies.Cache:
    cache = policies.Cache()
    for obj in objects_of(case):
        cache.add(obj)
    return cache


def predicted(case: dict[str, Any]) -> dict[str, Any]:
    return policies.predict(cache_of(case).snapshot(), case["pod"]).to_dict()


def disagreement(case: dict[str, Any], got: dict[str, Any] | None = None) -> list[Part]:
    """Where they differ. Where upstream's own cycle ends with an error, some answer must come all the same."""
    given = predicted(case) if got is None else got
    try:
        want = answer(case)
    except CannotAnswer:
        return []
    return differences(case, want, given)


def still_disagrees(case: dict[str, Any]) -> bool:
    """An object that has lost too much is refused, or trips the reference: that is another matter."""
    try:
        return bool(disagreement(case))
    except Exception:
        return False


def report(seed: str, case: dict[str, Any], wrong: list[Part]) -> str:
    text = f"FOREWARN_CASE={seed}: core (got) and reference (want) differ\n{told(wrong)}"
    if not still_disagrees(case):
        return text
    least = smallest(case, still_disagrees)
    return f"{text}\nthe smallest case:\n{json.dumps(least)}\n{told(disagreement(least))}"


@pytest.mark.parametrize(
    ("case", "want"), [pytest.param(*row, id=row[0]["id"]) for row in recorded(CASES / "disagreements.jsonl")]
)
def test_what_was_got_wrong_before_is_as_upstream_has_it(case: dict[str, Any], want: dict[str, Any]) -> None:
    wrong = differences(case, want, predicted(case))
    assert not wrong, told(wrong)


def seeds(seed: str, chunk: int, count: int) -> list[str]:
    return [CASE] if CASE else [f"{seed}.{chunk}.{i}" for i in range(count)]


def compare_clusters(seed: str, chunk: int, count: int) -> None:
    for name in seeds(seed, chunk, count):
        case = random_case(name)
        wrong = disagreement(case)
        assert not wrong, report(name, case, wrong)


@pytest.mark.parametrize("chunk", range(1 if CASE else cases(4)))
def test_random_clusters_are_predicted_as_the_reference_has_them(chunk: int) -> None:
    compare_clusters(SEED, chunk, 200)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(1 if CASE else 20))
def test_fresh_random_clusters_are_predicted_as_the_reference_has_them(chunk: int) -> None:
    seed = os.environ.get("FOREWARN_SEED") or str(random.SystemRandom().randrange(10**6))
    print(f"FOREWARN_SEED={seed}")
    compare_clusters(seed, chunk, 1000)


def in_one_order(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "feasible": sorted(found["feasible"])}


def follow_changes(name: str) -> None:
    """After each change: the invariants hold, and a cache made anew and the reference give the same answer."""
    world = World(name)
    first = world.case()
    cache = cache_of(first)
    kept = cache.snapshot()
    before = policies.predict(kept, first["pod"]).to_dict()
    for step in range(STEPS):
        told_of = []
        for _ in range(world.rng.choice((1, 1, 2, 5))):
            how, obj = world.change()
            told_of.append((how, obj["kind"], obj["metadata"]["name"]))
            cache.add(obj) if how == "add" else cache.remove(obj)
        where = f"FOREWARN_CASE={name}, step {step}, {told_of}"
        case = world.case()
        snapshot = cache.snapshot()
        check(snapshot.scheduling)
        got = policies.predict(snapshot, case["pod"]).to_dict()
        assert in_one_order(got) == in_one_order(predicted(case)), f"{where}: differs from a cache made anew"
        wrong = disagreement(case, got)
        assert not wrong, f"{where}\n{report(name, case, wrong)}"
    assert policies.predict(kept, first["pod"]).to_dict() == before, f"FOREWARN_CASE={name}: an old snapshot changed"


@pytest.mark.parametrize("chunk", range(1 if CASE else cases(2)))
def test_a_cluster_that_changes_is_predicted_as_one_made_anew(chunk: int) -> None:
    for name in seeds(SEED, chunk, 12):
        follow_changes(name)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(1 if CASE else 10))
def test_fresh_clusters_that_change_are_predicted_as_ones_made_anew(chunk: int) -> None:
    seed = os.environ.get("FOREWARN_SEED") or str(random.SystemRandom().randrange(10**6))
    print(f"FOREWARN_SEED={seed}")
    for name in seeds(seed, chunk, 100):
        follow_changes(name)
