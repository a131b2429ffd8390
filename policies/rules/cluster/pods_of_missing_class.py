"""Running Pods have a PriorityClass that was deleted.

Why: the Pods keep their priority while they run. If a workload still names the class, kube-apiserver rejects its
replacement Pods after the next restart, rollout or node failure.

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

Fix: recreate the class with the priority of these Pods as its value. Or move the workloads of these Pods to another
class, and restart the workloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, ObjectRef, Problem, Severity
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import keys_of, naming, pods_text, priorities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "pods-of-missing-class"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("classes", "pods"), "the class may have been created a moment ago")


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Each class that Pods have and that does not exist."""
    names = {name for name, _ in context.pod_counts_by_priority if name and not context.is_known(name)}
    pods: dict[str, list[Pod]] = {name: [] for name in sorted(names)}
    for pod in context.pods if names else ():
        if pod.priority_class_name in names and not pod.terminal:
            pods[pod.priority_class_name].append(pod)
    for name, found in pods.items():
        yield _problem(name, found)


def _problem(name: str, pods: list[Pod]) -> Problem:
    return Problem(
        lambda audience: _message(pods, audience),
        remediation=f"recreate with value {priorities_of(pods)}, or change the template",
        object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", name),
        detail={"class": name, "pods": len(pods)},
    )


def _message(pods: list[Pod], audience: Audience) -> str:
    names = keys_of(pods, audience)
    if len(pods) == 1:
        after = " still uses it; its replacement will be rejected"
        return naming("deleted, but ", names, 1, after) if names else f"deleted, but 1 Pod{after}"
    return f"deleted, but {pods_text(pods, audience, ' still use it; their replacements will be rejected')}"
