"""A user deletes a PriorityClass while workloads use it.

Why: running Pods keep their priority. After the next restart, node failure or rollout, kube-apiserver rejects every new
Pod of these workloads.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: reports
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: batch

Bad (DELETE):

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10

Good (DELETE):

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: unused
    value: 10

Fix: move the workloads to another class before you delete this class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, ObjectRef, Problem, Severity
from forewarn.policies.kinds.registry import BY_GROUP_KIND, GROUP_TEMPLATES, POD_GROUP
from forewarn.policies.objects.fields import InvalidObject, at
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import ClassInUse
from forewarn.policies.rules.support.rule_text import class_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.objects.pod_group import GroupTemplates, PodGroup
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "class-still-in-use"
TARGETS: Final = (Target.DELETED_PRIORITY_CLASS,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("pods", "workloads"), "the Pods and workloads that it counts may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem with the workloads, and the Pods without an owner, that name the class."""
    name = subject.ref.name
    users = sorted(_workloads_naming(name, context), key=str)
    named = any(other == name for other, _ in context.pod_counts_by_priority)
    pods = [p for p in context.pods if p.priority_class_name == name and not p.terminal] if named else []
    without_owner = sorted(ObjectRef("v1", "Pod", p.namespace, p.name) for p in pods if p.owner is None)
    if users or without_owner:
        yield Problem(ClassInUse(users, without_owner, len(pods)))


def _workloads_naming(name: str, context: Context) -> Iterator[ObjectRef]:
    """Yield the top-level workloads that name the class, without workloads whose controller is another workload."""
    for workload in context.cluster.workloads.values() if context.cluster else ():
        references = at(workload.object, "metadata", "ownerReferences") or ()
        if any(isinstance(r, dict) and r.get("controller") for r in references):
            continue
        try:
            template = pod_template_of(workload.object, context.options.pod_template_paths)
        except InvalidObject:
            continue
        if template is not None and class_name(template) == name:
            yield workload.ref
    yield from _groups_naming(name, context)


def _groups_naming(name: str, context: Context) -> Iterator[ObjectRef]:
    """The PodGroups, and the Workloads with templates, that name the class."""
    if context.cluster is None:
        return
    tables: dict[str, Mapping[tuple[str, str], PodGroup | GroupTemplates]] = {
        POD_GROUP: context.cluster.objects.pod_groups,
        GROUP_TEMPLATES: context.cluster.objects.group_templates,
    }
    for kind, table in tables.items():
        spec = BY_GROUP_KIND[kind]
        for found in table.values():
            if name in found.class_names:
                yield ObjectRef(spec.api_version, spec.kind, found.namespace, found.name)
