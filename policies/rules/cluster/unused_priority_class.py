"""No workload uses a PriorityClass, and at most one Pod without a controller uses it.

Why: users can select an unused class by mistake. Often, an unused class has the highest value of all classes.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: urgent
    value: 900000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: urgent
    value: 900000
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: urgent

Fix: delete the class, or suppress the finding and give the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, ObjectRef, Problem, Severity
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_name, naming

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "unused-priority-class"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.NOTE
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("classes", "workloads", "pods"), "a user of the class may have been created")
_SYSTEM: Final = {c.name for c in SYSTEM_CLASSES}


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each unused class, and each class that only one Pod without a controller uses."""
    cluster = context.cluster
    if cluster is None:
        return
    named = {*_named_by_workloads(context), *_named_by_groups(cluster), *_named_by_namespaces(cluster)}
    left = [c for name, c in sorted(cluster.priority_classes.items()) if name not in named | _SYSTEM]
    left = [c for c in left if not c.global_default]
    pods = _pods_of({c.name for c in left}, cluster)
    for unused in left:
        users = pods[unused.name]
        if not users or (len(users) == 1 and users[0].owner is None):
            yield _problem(unused, users[0] if users else None)


def _problem(unused: PriorityClass, user: Pod | None) -> Problem:
    what = f"no Pod and no workload uses this class (value {unused.value})"
    if user is not None:
        after = f" uses this class (value {unused.value}), and no controller recreates it"
        what = naming("only Pod ", [user.key], 1, after)
    return Problem(
        what,
        remediation="delete it, or suppress this finding with a reason",
        object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", unused.name),
        detail={"class": unused.name, "pods": [user.key] if user else []},
    )


def _named_by_workloads(context: Context) -> Iterator[str]:
    for workload in context.cluster.workloads.values() if context.cluster else ():
        try:
            template = pod_template_of(workload.object, context.options.pod_template_paths)
        except InvalidObject:
            continue
        if template is not None:
            yield class_name(template)


def _named_by_groups(cluster: ClusterSnapshot) -> Iterator[str]:
    for group in cluster.objects.pod_groups.values():
        yield from group.class_names
    for templates in cluster.objects.group_templates.values():
        yield from templates.class_names


def _named_by_namespaces(cluster: ClusterSnapshot) -> Iterator[str]:
    for namespace in cluster.namespaces.values():
        yield namespace.annotations.get(DEFAULT_CLASS_ANNOTATION, "")


def _pods_of(names: set[str], cluster: ClusterSnapshot) -> Mapping[str, list[Pod]]:
    """The Pods of these classes that have not terminated."""
    found: dict[str, list[Pod]] = {name: [] for name in names}
    if any(name in names for name, _ in cluster.pod_counts_by_priority):
        for pod in cluster.pods.values():
            if pod.priority_class_name in names and not pod.terminal:
                found[pod.priority_class_name].append(pod)
    return found
