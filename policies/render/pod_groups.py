"""Forecasts for PodGroups, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.findings import listed, plural

if TYPE_CHECKING:
    from forewarn.policies.forecast.pod_groups import GroupForecast


def line_of_group(group_forecast: GroupForecast) -> str:
    """A forecast as a line: `PodGroup ml/trainer (minCount 2): would preempt 4 Pods of 1 PodGroup: ml/experiment-0,
    …`.
    """
    return f"PodGroup {group_forecast.group.key} ({group_forecast.policy}): {_outcome(group_forecast)}"


def _outcome(group_forecast: GroupForecast) -> str:
    if group_forecast.missing:
        return f"waits for {plural(group_forecast.missing, 'more Pod')}"
    if group_forecast.outcome == "fits":
        bound = sum(group_forecast.nodes.values())
        places = listed([f"{node} ({count})" for node, count in sorted(group_forecast.nodes.items())])
        rest = (
            f"; {plural(len(group_forecast.pods) - bound, 'Pod')} Pending" if bound < len(group_forecast.pods) else ""
        )
        return f"{plural(bound, 'Pod fits', 'Pods fit')}: {places}{rest}"
    if group_forecast.outcome == "not-predicted":
        return f"not predicted: {group_forecast.message}"
    if group_forecast.outcome == "pending":
        return f"Pending: {group_forecast.message}"
    groups = {(pod.namespace, pod.spec.pod_group) for pod in group_forecast.victims if pod.spec.pod_group}
    whole = groups and all(pod.spec.pod_group for pod in group_forecast.victims)
    of_groups = f" of {plural(len(groups), 'PodGroup')}" if whole else ""
    named = listed([pod.key for pod in group_forecast.victims])
    return f"would preempt {plural(len(group_forecast.victims), 'Pod')}{of_groups}: {named}"
