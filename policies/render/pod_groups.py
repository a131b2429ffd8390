"""Forecasts for PodGroups, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.findings import listed, plural

if TYPE_CHECKING:
    from forewarn.policies.forecast.pod_groups import GroupForecast


def line_of_group(found: GroupForecast) -> str:
    """A forecast as a line: `PodGroup ml/trainer (minCount 2): would preempt 4 Pods of 1 PodGroup: ml/experiment-0,
    …`.
    """
    return f"PodGroup {found.group.key} ({found.policy}): {_outcome(found)}"


def _outcome(found: GroupForecast) -> str:
    if found.missing:
        return f"waits for {plural(found.missing, 'more Pod')}"
    if found.outcome == "fits":
        bound = sum(found.nodes.values())
        places = listed([f"{node} ({count})" for node, count in sorted(found.nodes.items())])
        rest = f"; {plural(len(found.pods) - bound, 'Pod')} Pending" if bound < len(found.pods) else ""
        return f"{plural(bound, 'Pod fits', 'Pods fit')}: {places}{rest}"
    if found.outcome == "not-predicted":
        return f"not predicted: {found.message}"
    if found.outcome == "pending":
        return f"Pending: {found.message}"
    groups = {(pod.namespace, pod.spec.pod_group) for pod in found.victims if pod.spec.pod_group}
    whole = groups and all(pod.spec.pod_group for pod in found.victims)
    of_groups = f" of {plural(len(groups), 'PodGroup')}" if whole else ""
    named = listed([pod.key for pod in found.victims])
    return f"would preempt {plural(len(found.victims), 'Pod')}{of_groups}: {named}"
