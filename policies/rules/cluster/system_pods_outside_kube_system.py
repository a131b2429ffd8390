"""Running Pods outside kube-system have the priority of system components.

Why: a Pod with priority 2000000000 or higher can preempt all your workloads. The kubelet does not evict such a Pod
under node pressure, and terminates it last at node shutdown.

Details: the rule system-class-outside-kube-system reports Pod templates that name a system class. This rule reports
running Pods with the priority of a system class, even if their template is unknown or has changed.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
    spec:
      priorityClassName: system-cluster-critical
      priority: 2000000000
      nodeName: node-1

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: dns-1
      namespace: kube-system
    spec:
      priorityClassName: system-cluster-critical
      priority: 2000000000
      nodeName: node-1

Fix: use a PriorityClass of your own in the workload, and restart the workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, ObjectRef, Problem, Severity
from forewarn.policies.objects.fields import InvalidObject, group_kind
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import PodsWithPriority
from forewarn.policies.rules.support.rule_text import class_name, priorities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "system-pods-outside-kube-system"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("pods", "workloads"), "the Pods that it counts may be deleted")
_SYSTEM: Final = {c.name for c in SYSTEM_CLASSES}
_LEAST: Final = min(c.value for c in SYSTEM_CLASSES)


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each namespace with running Pods of system priority, except Pods whose template another
    rule reports.
    """
    if not any((priority or 0) >= _LEAST for _, priority in context.pod_counts_by_priority):
        return
    from forewarn.policies.controllers.view import controller_of  # the linter starts without it

    reported = set(_reported(context))
    by_namespace: dict[str, list[Pod]] = {}
    for pod in context.pods:
        is_counted = pod.effective_priority >= _LEAST and pod.namespace != "kube-system" and not pod.terminal
        if is_counted and controller_of(pod) not in reported:
            by_namespace.setdefault(pod.namespace, []).append(pod)
    for namespace, pods in sorted(by_namespace.items()):
        yield _problem(namespace, pods)


def _problem(namespace: str, pods: list[Pod]) -> Problem:
    have = "has" if len(pods) == 1 else "have"
    after = f" {have} priority {priorities_of(pods)} and can preempt all your workloads"
    fix = "use a class of your own, and restart the workload"
    details = PodsWithPriority(pods, after, fix, is_in_namespace=True)
    return Problem(details, object=ObjectRef("v1", "Namespace", "", namespace))


def _reported(context: Context) -> Iterator[tuple[str, str, str]]:
    """The keys of the workloads whose template names a system class, and of their ReplicaSets."""
    for workload in context.cluster.workloads.values() if context.cluster else ():
        try:
            template = pod_template_of(workload.object, context.options.pod_template_paths)
        except InvalidObject:
            continue
        if template is not None and class_name(template) in _SYSTEM:
            yield group_kind(workload.object), workload.ref.namespace, workload.ref.name
