"""Which potential victims would break a PodDisruptionBudget. Source: upstream `filterPodsWithPDBViolation`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from forewarn.policies.metering import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.victim import Victim


def matching(pod: Pod, budgets: Sequence[PodDisruptionBudget]) -> Iterator[PodDisruptionBudget]:
    """Those of a namespace's budgets that preemption counts for a pod."""
    return (budget for budget in each(budgets, 1.5) if budget.matches(pod.namespace, pod.labels))


def filter_pods_with_pdb_violation(
    pods: Iterable[Pod],
    budgets: Mapping[str, tuple[PodDisruptionBudget, ...]],
    matching: Callable[[Pod, Sequence[PodDisruptionBudget]], Iterable[PodDisruptionBudget]] = matching,
    *,
    first_ends_the_count: bool = False,
) -> tuple[list[Pod], list[Pod]]:
    """(violating, not violating), each in the order given; `budgets` by namespace.

    `matching`: which of a namespace's budgets match a pod, if that is known already. Every pod that matches uses
    up its budgets, also those that will be reprieved later, and all that match at once; `first_ends_the_count`: none
    of those after the first that it violates. Upstream has no order of budgets: where one pod has several, its answer
    may differ from one time to the next. Here they go by name.
    """
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod, violated in violations(pods, budgets, matching, first_ends_the_count=first_ends_the_count):
        (violating if violated else others).append(pod)
    return violating, others


def filter_victims_with_pdb_violation(
    victims: Iterable[Victim],
    budgets: Mapping[str, tuple[PodDisruptionBudget, ...]],
    *,
    first_ends_the_count: bool = False,
) -> tuple[list[tuple[Victim, int]], list[Victim]]:
    """(violating victims, each with the number of its Pods that violate a budget; the others), in the order given.

    Source: upstream `FilterVictimsWithPDBViolation`.
    """
    victims = list(victims)
    found = violations(
        (pod for victim in victims for pod in victim.pods), budgets, first_ends_the_count=first_ends_the_count
    )
    counts = [sum(bool(violated) for _, violated in islice(found, len(victim.pods))) for victim in victims]
    violating = [(victim, count) for victim, count in zip(victims, counts, strict=True) if count]
    return violating, [victim for victim, count in zip(victims, counts, strict=True) if not count]


def violations(
    pods: Iterable[Pod],
    budgets: Mapping[str, tuple[PodDisruptionBudget, ...]],
    matching: Callable[[Pod, Sequence[PodDisruptionBudget]], Iterable[PodDisruptionBudget]] = matching,
    *,
    first_ends_the_count: bool = False,
) -> Iterator[tuple[Pod, Sequence[PodDisruptionBudget]]]:
    """Each pod with the budgets that its eviction after those before it violates; arguments as above.

    A terminating pod uses up its budgets like any other; one in `status.disruptedPods`, whose eviction the API server
    has accepted, does not.
    """
    allowed: dict[tuple[str, str], int] = {}
    for pod in pods:
        violated: Sequence[PodDisruptionBudget] = ()
        for budget in matching(pod, budgets.get(pod.namespace, ())):
            if pod.name not in budget.disrupted_pods:
                key = budget.namespace, budget.name
                left = allowed[key] = allowed.get(key, budget.disruptions_allowed) - 1
                if left < 0:
                    violated = (*violated, budget)
                if violated and first_ends_the_count:
                    break
        yield pod, violated
