"""The priority of a Pod differs from the priority of its PodGroup.

Why: kube-apiserver accepts the Pod. kube-scheduler 1.37 compares the priorities, and does not schedule any Pod of the
group. The Pods and the PodGroup get the reason SchedulerError, and kube-scheduler tries again for ever.

Details: the rule needs the PodGroup in the input or in the cluster, and the values of both classes. PodGroups need the
feature gate GenericWorkload (Kubernetes 1.37: beta, off by default).

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: training
    value: 1000
    ---
    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
      priorityClassName: training
      schedulingPolicy: {gang: {minCount: 4}}
    ---
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: model
      namespace: team
    spec:
      parallelism: 4
      completions: 4
      template:
        spec:
          schedulingGroup: {podGroupName: model}
          restartPolicy: Never
          containers:
          - name: worker
            image: worker

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: training
    value: 1000
    ---
    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
      priorityClassName: training
      schedulingPolicy: {gang: {minCount: 4}}
    ---
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: model
      namespace: team
    spec:
      parallelism: 4
      completions: 4
      template:
        spec:
          priorityClassName: training
          schedulingGroup: {podGroupName: model}
          restartPolicy: Never
          containers:
          - name: worker
            image: worker

Fix: use the PriorityClass of the PodGroup in all Pods of the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, Text, quote
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.pod_groups import GATE, GroupToBe, named_group, priority_to_be

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "pod-group-priority-mismatch"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("classes", "podgroups"), "the PodGroup may have been recreated with another class")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the Pod's priority differs from the PodGroup's."""
    template = context.template(subject)
    group = named_group(template, subject, context) if template else None
    if template is None or group is None or group.is_of_1_36:
        return
    name, priority = priority_to_be(template, subject, context)
    if (name == group.class_name and group.subject is not None) or None in (priority, group.priority):
        return
    if priority != group.priority:
        yield Problem(
            Text(
                f"priority {priority} differs from PodGroup {quote(group.name)} ({group.priority}); "
                "its Pods will not be scheduled",
                _fix(group),
                (GATE,),
            ),
            template.at("priorityClassName"),
            detail={"podGroup": group.name, "priority": priority, "groupPriority": group.priority},
        )


def _fix(group: GroupToBe) -> str:
    if group.class_name:
        return f"use priorityClassName {quote(group.class_name)}"
    return "use one PriorityClass in the PodGroup and its Pods"
