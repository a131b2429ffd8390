"""The priority of Pods without a class differs from the priority that the global default gives to new Pods.

Why: a global default applies only to new Pods. Replacement Pods get a different priority than old Pods. If the new
priority is higher, replacement Pods can preempt old Pods, and then the replacement Pods of these victims can preempt
further old Pods.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: normal
    value: 1000
    globalDefault: true
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
    spec:
      priority: 0
      nodeName: node-1

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: normal
    value: 1000
    globalDefault: true
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
    spec:
      priorityClassName: normal
      priority: 1000
      nodeName: node-1

Fix: restart the workloads of these Pods one after the other while nodes have free capacity. To see which restarts would
preempt Pods, run `forewarn audit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, ObjectRef, Problem, Severity
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import PodsWithPriority
from forewarn.policies.rules.support.rule_text import priorities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "pods-older-than-default"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("classes", "pods"), "the Pods that it counts may be deleted")


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem with the Pods without class whose priority differs from that of the current global default."""
    default = context.classes.default if context.cluster else None
    if default is None or not any(_is_older(n, p, default) for n, p in context.pod_counts_by_priority):
        return
    pods = [
        pod for pod in context.pods if _is_older(pod.priority_class_name, pod.priority, default) and not pod.terminal
    ]
    yield _problem(default, pods)


def _is_older(class_name: str, priority: int | None, default: PriorityClass) -> bool:
    return not class_name and (priority or 0) != default.value


def _problem(default: PriorityClass, pods: list[Pod]) -> Problem:
    above = all(pod.effective_priority < default.value for pod in pods)
    may = " and may preempt them" if above and default.preemption_policy != "Never" else ""
    keep = "keeps" if len(pods) == 1 else "keep"
    after = f" without a class {keep} priority {priorities_of(pods)}; new Pods get {default.value}{may}"
    return Problem(
        PodsWithPriority(pods, after, "restart their workloads while nodes have free capacity", default.value),
        object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", default.name),
    )
