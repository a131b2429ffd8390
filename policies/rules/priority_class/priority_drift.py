"""The priority of Pods differs from the value of their class.

Why: kube-apiserver copies the priority into a Pod when it creates the Pod. If you delete a class and recreate it with
another value, old and new Pods of one workload have different priorities. kube-scheduler uses the priority of each Pod.

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

Fix: restart the workloads of these Pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import PodsWithPriority
from forewarn.policies.rules.support.rule_text import class_of, priorities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-drift"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("pods",), "the Pods that it counts may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem with the Pods of the cluster that have this class and another priority."""
    new = class_of(subject)
    value = PriorityClass.from_api(subject.old).value if subject.old else new.value  # a change is rejected
    if any(name == new.name and priority not in (None, value) for name, priority in context.pod_counts_by_priority):
        pods = [
            p
            for p in context.pods
            if p.priority_class_name == new.name and p.priority not in (None, value) and not p.terminal
        ]
        have = "has" if len(pods) == 1 else "have"
        after = f" of this class {have} priority {priorities_of(pods)}, not {value}"
        yield Problem(PodsWithPriority(pods, after, "restart their workloads", value), ("value",))
