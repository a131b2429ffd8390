"""The reasons why a Pod of a PodGroup is Pending: kube-scheduler schedules the PodGroup as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import listed, plural
from forewarn.policies.forecast.pod_groups import group_forecast

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod

_BACK_OFF: Final = "no event shortens the back-off of a PodGroup: kube-scheduler tries it again when the back-off ends"


def of_its_group(cluster: ClusterSnapshot, pod: Pod) -> tuple[tuple[str, str, str], ...]:
    """Return the (id, message, help) of each reason that the Pod's PodGroup gives; empty if forewarn does not
    predict the PodGroup.
    """
    found = group_forecast(cluster.scheduling, (pod,))
    if found is None:
        return ()
    name = f"PodGroup {found.group.name} ({found.policy})"
    if found.outcome == "not-predicted":
        return (("not-predicted", f"{name}: {found.message}", ""),)
    if found.missing:
        missing = plural(found.missing, "more Pod")
        return (("group-waits", f"{name} waits for {missing}", "create the missing Pods, or lower minCount"),)
    if found.outcome == "pending":
        remedy = "lower requests or minCount, or add nodes"
        return (("group-unschedulable", f"{name} is unschedulable: {found.message}", remedy),)
    if found.outcome == "preempts":
        victims = f"{plural(len(found.victims), 'Pod')}: {listed([victim.key for victim in found.victims])}"
        return (("group-will-preempt", f"{name} will preempt {victims}", _BACK_OFF),)
    return (("group-not-tried-yet", f"{name} fits, and kube-scheduler has not tried it since", _BACK_OFF),)
