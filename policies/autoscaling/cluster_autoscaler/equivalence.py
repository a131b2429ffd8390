"""Group Pods that are equal for scheduling. Source: core/scaleup/equivalence/groups.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.metering import charge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.objects.pod import Pod

_MAX_PER_CONTROLLER: Final = 10
"""Maximum groups of equal Pods per controller. Source: maxEquivalenceGroupsByController."""


class EquivalenceGroup:
    """Pods that are equal for scheduling. `reasons`: why no Pod fits, by node group. Source: equivalence `PodGroup`."""

    def __init__(self, pods: list[Pod]) -> None:
        self.pods = pods
        self.reasons: dict[str, str] = {}


def group_by_scheduling_properties(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """Group equal Pods by controller, labels and spec. Source: upstream `groupPodsBySchedulingProperties`."""
    equivalence_groups: list[EquivalenceGroup] = []
    of_controller: dict[tuple[str, ...], list[EquivalenceGroup]] = {}
    for pod in pods:
        known: list[EquivalenceGroup] = []
        if pod.owner is not None:
            known = of_controller.setdefault((pod.namespace, pod.owner.kind, pod.owner.name, pod.owner.uid), [])
            charge(1 + len(known))
        same = next((equivalence_group for equivalence_group in known if _same(equivalence_group.pods[0], pod)), None)
        if same is not None:
            same.pods.append(pod)
            continue
        equivalence_groups.append(EquivalenceGroup([pod]))
        if pod.owner is not None and len(known) < _MAX_PER_CONTROLLER:
            known.append(equivalence_groups[-1])
    return equivalence_groups


def _same(one: Pod, other: Pod) -> bool:
    return (
        one.labels == other.labels
        and one.spec == other.spec
        and one.device_claims == other.device_claims
        and one.effective_priority == other.effective_priority
    )
