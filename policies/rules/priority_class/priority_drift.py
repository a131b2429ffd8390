"""Pods carry another number than their class has now.

Why: the number is copied into a pod when it is created. After a class was deleted and created again with another value,
old and new pods of one workload differ, and the scheduler goes by the number, not by the name.

Cluster:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
    spec:
      priorityClassName: gold
      priority: 1000
      nodeName: node-1

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 500

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Fix: restart the workloads of these pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.objects.priority_class import PriorityClass
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import class_of, priorities_of, summary_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-drift"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("pods",), "the pods that it counts may be gone")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The pods of the cluster that name this class and have another number."""
    new = class_of(subject)
    value = PriorityClass.from_api(subject.old).value if subject.old else new.value  # a changed one is refused
    if any(name == new.name and priority not in (None, value) for name, priority in context.pod_counts_by_priority):
        pods = [
            p
            for p in context.pods
            if p.priority_class_name == new.name and p.priority not in (None, value) and not p.terminal
        ]
        have = "has" if len(pods) == 1 else "have"
        yield Problem(
            lambda audience: (
                f"{summary_of_pods(pods, audience)} of this class {have} priority {priorities_of(pods)}, not {value}; "
                "a pod keeps the number it was created with"
            ),
            ("value",),
            "restart their workloads",
            detail={"pods": len(pods), "value": value},
        )
