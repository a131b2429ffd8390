"""Whose pod it is: which profile decides, and who else has a say that cannot be asked.

Source: kubernetes `pkg/scheduler/eventhandlers.go` (`responsibleForPod`), `pkg/scheduler/extender.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.profiles import DEFAULT_SCHEDULER
from policies.scheduling.caveats import named
from policies.scheduling.configuration import configuration_of
from policies.scheduling.devices.claims import not_modelled
from policies.scheduling.framework import Framework
from policies.scheduling.pod_groups import of_a_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.pod import Pod
    from policies.profiles import Extender
    from policies.scheduling.snapshot import Snapshot


def framework_of(snapshot: Snapshot, pod: Pod) -> Framework:
    """The plugins that decide about a pod, which is one of ours."""
    profile = configuration_of(snapshot.semantics).profile(pod.spec.scheduler_name)
    assert profile is not None
    return Framework(snapshot, profile)


def not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Why no honest prediction can be made for a pod, empty if one can."""
    return not_scheduled(pod, snapshot) or unmodelled(pod, snapshot)


def unmodelled(pod: Pod, snapshot: Snapshot) -> str:
    """What kube-scheduler would go by that is not modelled, of a pod that it schedules; empty where nothing is."""
    return of_a_group(pod, snapshot) or not_modelled(
        pod, snapshot.objects, snapshot.extended_resources, snapshot.device_selectors
    )


def not_scheduled(pod: Pod, snapshot: Snapshot) -> str:
    """Why kube-scheduler, as it is known here, does not look at a pod."""
    semantics = snapshot.semantics
    if semantics.unknown:
        return semantics.unknown
    spec = pod.spec
    if spec.too_large:
        return spec.too_large
    profile = configuration_of(semantics).profile(spec.scheduler_name)
    if profile is None:
        return f'the pod is for another scheduler, "{spec.scheduler_name or DEFAULT_SCHEDULER}"'
    if pod.node_name:
        return f'the pod names its node, "{pod.node_name}": the scheduler does not see it'
    if spec.gated:
        return "the pod has scheduling gates: it is not scheduled until they are removed"
    return ""


def asked_of_extenders(extenders: Sequence[Extender], *, fits: bool, preempts: bool) -> str:
    """What an extender may decide of an outcome, as a reason not to predict it; empty where it is not asked."""
    for extender in extenders:
        if fits and extender.filter_verb:
            return f"{named(extender)} may reject the nodes that the plugins leave, and cannot be asked"
        if preempts and extender.preempt_verb:
            return f"{named(extender)} may choose other victims, and cannot be asked"
    return ""
