"""Which Pods enter a scheduling queue. Source: kubernetes `pkg/scheduler/eventhandlers.go`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER, Semantics

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod

SCHEDULING_GATES: Final = "SchedulingGates"
"""The plugin that keeps Pods with scheduling gates out of the queue."""


def responsible_for_pod(pod: Pod, scheduler_names: Collection[str]) -> bool:
    """Report whether one of these profiles schedules the Pod. Source: upstream `responsibleForPod`."""
    return (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in scheduler_names


def is_pending(pod: Pod, scheduler_names: Collection[str]) -> bool:
    """Report whether a Pod is Pending for one of these profiles: active, without a node, and perhaps gated. Source:
    upstream metric `pending_pods`, of which one queue is `gated`.
    """
    return not (pod.node_name or pod.terminal or pod.terminating) and responsible_for_pod(pod, scheduler_names)


def is_gated(pod: Pod, semantics: Semantics) -> bool:
    """Report whether the plugin SchedulingGates keeps a Pod out of the scheduling queue.

    True for a gated Pod of another scheduler, because kube-apiserver binds no gated Pod. False if the profile disables
    the plugin: then kube-scheduler tries the Pod and may preempt for it. Source: upstream `runPreEnqueuePlugins`,
    `BindingREST.setPodNodeAndMetadata`.
    """
    if not pod.spec.gated:
        return False
    profile = semantics.scheduler.profile(pod.spec.scheduler_name) if semantics.scheduler is not None else None
    return profile is None or SCHEDULING_GATES in profile.plugins_at("preEnqueue")
