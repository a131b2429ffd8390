"""A PodDisruptionBudget of an apply allows what its controller counts for the stored Pods."""

from __future__ import annotations

import pytest

from forewarn.policies.controllers.applied import with_applied
from forewarn.policies.objects.fields import InvalidObject
from tests.builders import cluster, make_budget, make_pod

PODS = (*(make_pod(f"web-{n}").labels(app="web") for n in range(3)), make_pod("web", "other").labels(app="web"))


@pytest.mark.parametrize(("least", "surplus"), [(0, 3), (1, 2), (3, 0), (5, -2)])
def test_a_new_budget_counts_the_stored_pods(least: int, surplus: int) -> None:
    budget = make_budget("web", 0, app="web").spec(minAvailable=least).obj
    faults = list[InvalidObject]()
    after = with_applied(cluster(*PODS), [budget], faults)
    assert not faults
    assert after.objects.pdbs["default", "web"].surplus == surplus
