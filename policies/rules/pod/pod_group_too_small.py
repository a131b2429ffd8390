"""The minCount of a PodGroup is higher than the count of its Pods in the input.

Why: kube-scheduler does not schedule any Pod of a gang until minCount Pods exist. The Pods stay gated, without a
condition and without an Event.

Details: the rule adds up the replicas (for Jobs, the parallelism) of all workloads in the input that name the
PodGroup. If you pass a cluster, the rule adds the stored Pods of the group. The rule does not report groups with
members in DaemonSets, in custom resources or in suspended Jobs. PodGroups need the feature gate GenericWorkload
(Kubernetes 1.37: beta, off by default).

Bad:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
      schedulingPolicy: {gang: {minCount: 8}}
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

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
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

Fix: lower minCount, or create as many Pods as minCount.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, Text, plural
from forewarn.policies.objects.fields import int32
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.pod_groups import GATE, groups_are_off, members_of
from forewarn.policies.rules.support.rule_text import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "pod-group-too-small"
TARGETS: Final = (Target.POD_GROUP,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("pods",), "further Pods of the group may have been created")
_MIN_COUNT: Final = ("spec", "schedulingPolicy", "gang", "minCount")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a gang with fewer Pods than minCount."""
    least = int32(subject.object, *_MIN_COUNT) if subject.ref.kind == "PodGroup" else None
    if not least or groups_are_off(context):
        return
    found = members_of(subject.effective_namespace, name_of(subject), context)
    if found and found < least:
        yield Problem(
            Text(
                f"minCount is {least}, but the group has {plural(found, 'Pod')}; they stay gated",
                f"lower minCount to {found}, or create {least} Pods",
                (GATE,),
            ),
            _MIN_COUNT,
            detail={"minCount": least, "pods": found},
        )
