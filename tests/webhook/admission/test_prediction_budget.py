"""Budgets of predictions: exact, then coarse, then none; recovering evenly; in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.linting.config.model import Budget
from forewarn.webhook.admission.prediction_access import Level, PredictionBudget

TEN = Budget(2, 3)
E, C, N = Level


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_call_takes_half_a_prediction_of_every_bucket_and_the_worst_decides() -> None:
    budget = PredictionBudget(Clock())
    namespace = Budget(2, 0)
    assert [budget.take({"user a": Budget(1, 1), "x": namespace}) for _ in range(5)] == [E, E, C, C, N]
    assert budget.take({"user b": Budget(1, 1), "x": namespace}) is N  # coarse answers took its exact ones
    assert budget.take({"user b": Budget(1, 1)}) is E


def test_a_bucket_of_nothing_shows_nothing() -> None:
    assert PredictionBudget(Clock()).take({"user a": Budget(0, 0)}) is N


@given(st.lists(st.tuples(st.floats(0, 2000), st.integers(1, 9)), min_size=1, max_size=30))
def test_no_hour_shows_more_than_twice_the_budget(steps: list[tuple[float, int]]) -> None:
    """A full bucket, and what recovers in that hour."""
    clock = Clock()
    budget, shown = PredictionBudget(clock), []
    for wait, calls in steps:
        clock.now += wait
        shown += [(clock.now, budget.take({"user a": TEN})) for _ in range(calls)]
    for since, _ in shown:
        within = [level for at, level in shown if since <= at < since + 3600]
        assert within.count(E) <= 2 * 2 * TEN.exact
        assert within.count(C) <= 2 * 2 * TEN.coarse


@given(st.floats(0, 7200))
def test_what_has_been_taken_recovers_evenly(seconds: float) -> None:
    clock = Clock()
    budget = PredictionBudget(clock)
    while budget.take({"user a": Budget(100, 0)}) is E:
        pass
    clock.now = seconds
    recovered = 0
    while budget.take({"user a": Budget(100, 0)}) is E:
        recovered += 1
    assert abs(recovered / 2 - min(seconds / 36, 100)) <= 0.51


def test_a_flood_of_new_users_stays_in_bounds_and_resets_nobody_who_has_asked_more() -> None:
    clock = Clock()
    budget = PredictionBudget(clock, remembered=64)
    spent = {"user attacker": TEN, "namespace his": TEN}
    while budget.take(spent) is not N:
        pass
    sizes = set()
    for number in range(10_000):
        budget.take({f"user system:serviceaccount:his:{number}": TEN})
        sizes.add(len(budget._buckets))
    assert max(sizes) <= 64
    assert budget.level({"user attacker": TEN}) is N
    assert budget.level({"namespace his": TEN}) is N


def test_a_smaller_budget_holds_at_once() -> None:
    budget = PredictionBudget(Clock())
    assert {budget.take({"user a": Budget(100, 0)}) for _ in range(100)} == {E}
    assert budget.level({"user a": Budget(10, 0)}) is N
    assert budget.level({"user a": Budget(1000, 0)}) is E
