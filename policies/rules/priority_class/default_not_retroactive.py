"""A new global default does not change the priority of existing Pods.

Why: kube-apiserver writes the priority into a Pod when it creates the Pod. Existing Pods without a class keep priority
0. New Pods of the same workload then have another priority, and can preempt the old Pods.

Cluster:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
    spec:
      priority: 0
      nodeName: node-1

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: normal
    value: 100
    globalDefault: true

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: normal
    value: 100

Fix: restart the workloads (kubectl rollout restart) after you create the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, plural
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "default-not-retroactive"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("pods",), "the Pods that it counts may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem with the number of Pods without a class and with another priority than the new default."""
    new = class_of(subject)
    before = subject.old is not None and PriorityClass.from_api(subject.old).global_default
    if not new.global_default or before:
        return
    unchanged = sum(
        count
        for (name, value), count in context.pod_counts_by_priority.items()
        if not name and (value or 0) != new.value
    )
    if unchanged:
        yield Problem(
            f"{plural(unchanged, 'Pod')} without a class {'keeps its' if unchanged == 1 else 'keep their'} priority; "
            f"only new Pods get {new.value}",
            ("globalDefault",),
            "restart the workloads that should get it",
            detail={"pods": unchanged, "value": new.value},
        )
