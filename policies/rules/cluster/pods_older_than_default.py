"""Pods without a class are older than the global default, and those that replace them rank otherwise.

Why: a default counts for new pods alone. As long as old ones run beside them, whatever is made anew can push out what
was there before, and so one restart can set off the next: in 2019 this was half an hour of outage
(docs/simulate.md).

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

Fix: restart their workloads one after the other while there is room; `forewarn whatif` shows what comes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, ObjectRef, Problem, Severity
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import priorities_of, summary_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.pod import Pod
    from policies.objects.priority_class import PriorityClass
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "pods-older-than-default"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("classes", "pods"), "the pods that it counts may be gone")


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The pods that named no class, with another number than the default gives now."""
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
    may = " and may push them out" if above and default.preemption_policy != "Never" else ""
    have = "has" if len(pods) == 1 else "have"
    return Problem(
        lambda audience: (
            f"{summary_of_pods(pods, audience)} without a class {have} priority {priorities_of(pods)} from before this "
            f"default; new pods get {default.value}{may}"
        ),
        remediation="restart their workloads while there is room",
        object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", default.name),
        detail={"pods": len(pods), "value": default.value},
    )
