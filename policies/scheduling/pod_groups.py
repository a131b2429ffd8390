"""Find out whether kube-scheduler schedules a Pod as part of a PodGroup.

Source: kubernetes 1.37 `pkg/scheduler/schedule_one_podgroup.go`; gate GenericWorkload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import POD_GROUP

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.snapshot import Snapshot

CLAIMS: Final = "kube-scheduler must bind volumes or allocate devices of its Pods"


def is_scheduled_by_group(pod: Pod, snapshot: Snapshot) -> bool:
    """Report whether kube-scheduler schedules the Pod only together with its PodGroup."""
    return bool(pod.spec.pod_group) and snapshot.objects.has_pod_groups


def of_a_group(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn does not predict a Pod of a PodGroup alone; "" for Pods without a PodGroup."""
    if not is_scheduled_by_group(pod, snapshot):
        return ""
    why = why_group_not_predicted(pod, snapshot) or "kube-scheduler schedules the group as a whole"
    return f"the Pod belongs to PodGroup {pod.spec.pod_group}; {why}"


def why_group_not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn does not predict the PodGroup of a Pod; "" if forewarn does."""
    objects = snapshot.objects
    if not objects.semantics.groups_are_preempted_together:
        return f"PodGroups are predicted for Kubernetes 1.37, not for {objects.semantics.release}"
    if why := without_gang_scheduling(pod, objects.semantics):
        return why
    group = objects.pod_groups.get((pod.namespace, pod.spec.pod_group))
    if group is None:
        if POD_GROUP in objects.unlisted:
            return "the cluster state has no list of PodGroups"
        return "the PodGroup does not exist, so kube-scheduler does not try its Pods"
    return unmodelled_fields(group)


def unmodelled_fields(group: PodGroup) -> str:
    """Return the fields of a PodGroup that forewarn does not model, as a sentence; "" without such fields."""
    fields = " and ".join(group.other_features)
    return f"the PodGroup has {fields}, which forewarn does not model" if fields else ""


def without_gang_scheduling(pod: Pod, semantics: Semantics) -> str:
    """Return why forewarn does not predict a PodGroup if the profile disables GangScheduling; "" if it does not."""
    profile = semantics.scheduler.profile(pod.spec.scheduler_name) if semantics.scheduler is not None else None
    if profile is None or all("GangScheduling" in profile.at(point) for point in ("preEnqueue", "permit")):
        return ""
    return f'the profile "{profile.scheduler_name}" disables GangScheduling, and forewarn does not model this'
