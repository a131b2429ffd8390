"""Where groups of pods play a part, which is not modelled: so that nobody predicts past them.

Source: kubernetes 1.37 `pkg/scheduler/schedule_one_podgroup.go`, `framework/preemption/types.go`
(`getCrossNodesVictims`); gate GenericWorkload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.objects.priority_class import PREEMPT_NEVER

if TYPE_CHECKING:
    from policies.objects.pod import Pod
    from policies.scheduling.cluster_objects import ClusterObjects
    from policies.scheduling.snapshot import Snapshot


def are_on(objects: ClusterObjects) -> bool:
    """Whether the cluster has groups of pods: the gate says so, or something of them is stored.

    With the gate off the API server serves no PodGroup, and drops `schedulingGroup` from every new pod.
    """
    given = objects.semantics.pods_are_grouped
    return bool(objects.pod_groups or objects.grouped_pods) if given is None else given


def of_a_group(pod: Pod, snapshot: Snapshot) -> str:
    """Why a pod is not predicted that belongs to a group; empty for any other."""
    if not pod.spec.pod_group or not are_on(snapshot.objects):
        return ""
    return f"the Pod belongs to PodGroup {pod.spec.pod_group}; kube-scheduler schedules the group as a whole"


def taken_by(pod: Pod, snapshot: Snapshot) -> str:
    """Why it is not predicted whom a pod preempts; empty where it can take no pod of a group."""
    objects, lowest = snapshot.objects, snapshot.lowest_grouped_priority
    if lowest is None or pod.effective_priority <= lowest or pod.preemption_policy == PREEMPT_NEVER:
        return ""
    return preempted_together(objects)


def preempted_together(objects: ClusterObjects) -> str:
    """Why it is not predicted who preempts the pods of groups; empty where there are none, or no group counts."""
    is_asked = objects.semantics.groups_are_preempted_together and are_on(objects)
    if not is_asked or not any(pod.node_name for pod in objects.grouped_pods.values()):
        return ""
    return "preemption could take Pods of a PodGroup; kube-scheduler compares and preempts them by group"
