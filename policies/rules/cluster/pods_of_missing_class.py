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

from forewarn.policies.findings import Action, ObjectRef, Problem, Severity
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import PodsOfMissingClass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "pods-of-missing-class"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("classes", "pods"), "the class may have been created a moment ago")


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each missing class that Pods of the cluster have."""
    names = {name for name, _ in context.pod_counts_by_priority if name and not context.is_known(name)}
    pods: dict[str, list[Pod]] = {name: [] for name in sorted(names)}
    for pod in context.pods if names else ():
        if pod.priority_class_name in names and not pod.terminal:
            pods[pod.priority_class_name].append(pod)
    for name, found in pods.items():
        ref = ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", name)
        yield Problem(PodsOfMissingClass(name, found), object=ref)
