"""A PodDisruptionBudget of an apply allows what its controller counts for the stored Pods."""

from __future__ import annotations

import pytest

from forewarn.policies.kubernetes.controllers.applied import with_applied
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from tests.builders import cluster, make_budget, make_pod
from tests.work import steps

PODS = (*(make_pod(f"web-{n}").labels(app="web") for n in range(3)), make_pod("web", "other").labels(app="web"))


@pytest.mark.parametrize(("least", "surplus"), [(0, 3), (1, 2), (3, 0), (5, -2)])
def test_a_new_budget_counts_the_stored_pods(least: int, surplus: int) -> None:
    budget = make_budget("web", 0, app="web").spec(minAvailable=least).obj
    faults = list[InvalidObject]()
    after = with_applied(cluster(*PODS), [budget], faults)
    assert not faults
    assert after.objects.pdbs["default", "web"].surplus == surplus


def test_the_pods_of_many_budgets_are_counted_in_linear_time() -> None:
    assert _steps_of_all(400) < 3 * _steps_of_all(200)


def _steps_of_all(number: int) -> int:
    pods = [make_pod(f"web-{n}").labels(all="a", app=f"web-{n}") for n in range(number)]
    budgets = [make_budget(f"web-{n}", 0, all="a", app=f"web-{n}").spec(minAvailable=1).obj for n in range(number)]
    state = cluster(*pods)
    return steps(lambda: with_applied(state, budgets, []))
