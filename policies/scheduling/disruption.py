"""Which potential victims would break a PodDisruptionBudget. Source: upstream `filterPodsWithPDBViolation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.objects.disruption_budget import PodDisruptionBudget
    from policies.objects.pod import Pod


def filter_pods_with_pdb_violation(
    pods: Iterable[Pod], budgets: Mapping[str, tuple[PodDisruptionBudget, ...]]
) -> tuple[list[Pod], list[Pod]]:
    """(violating, not violating), each in the order given; `budgets` by namespace.

    Every pod that matches uses up its budgets, also those that will be reprieved later, and all that match at once.
    """
    violating: list[Pod] = []
    others: list[Pod] = []
    allowed: dict[tuple[str, str], int] = {}
    for pod in pods:
        violated = False
        for budget in budgets.get(pod.namespace, ()):
            if budget.matches(pod.namespace, pod.labels) and pod.name not in budget.disrupted_pods:
                key = budget.namespace, budget.name
                allowed[key] = allowed.get(key, budget.disruptions_allowed) - 1
                violated = violated or allowed[key] < 0
        (violating if violated else others).append(pod)
    return violating, others
