"""Pods have a PriorityClass that does not exist any more.

Why: they keep their number while they run. Whatever is made in their place is refused, at the next restart, rollout or
loss of a node, as long as its template names the class.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
    spec:
      priorityClassName: gold
      priority: 1000
      nodeName: node-1

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
      ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]
    spec:
      priorityClassName: gold
      priority: 1000
      nodeName: node-1

Fix: create the class again with the number that they have, or move their workloads to another class and restart them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, ObjectRef, Problem, Severity
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import priorities_of, summary_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "pods-of-missing-class"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("classes", "pods"), "the class may have been created a moment ago")


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Each class that pods have and that is not there."""
    names = {name for name, _ in context.pod_counts_by_priority if name and not context.is_known(name)}
    pods: dict[str, list[Pod]] = {name: [] for name in sorted(names)}
    for pod in context.pods if names else ():
        if pod.priority_class_name in names and not pod.terminal:
            pods[pod.priority_class_name].append(pod)
    for name, found in pods.items():
        yield _problem(name, found)


def _problem(name: str, pods: list[Pod]) -> Problem:
    have = "has" if len(pods) == 1 else "have"
    return Problem(
        lambda audience: (
            f"it does not exist, and {summary_of_pods(pods, audience)} {have} it, with priority {priorities_of(pods)}"
        ),
        remediation="create it with that value, or move their workloads to another class",
        object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", name),
        detail={"class": name, "pods": len(pods)},
    )
