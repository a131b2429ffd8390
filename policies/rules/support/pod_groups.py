"""PodGroups after the change set, and the Pods and templates that refer to them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import DAEMON_SET, POD_GROUP, POD_TEMPLATE_PATHS
from forewarn.policies.kube_apiserver.priority import Forbidden, establish_priority
from forewarn.policies.objects.fields import InvalidObject, group_kind, text_at
from forewarn.policies.objects.pod_group import PodGroup
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.objects.workload import parts_of
from forewarn.policies.rules.support.rule_text import class_name, class_to_be, integer, name_of

if TYPE_CHECKING:
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate
    from forewarn.policies.rules.support.context import Context

GATE: Final = "It needs the feature gate GenericWorkload (1.37: beta, off by default)"


class GroupToBe(NamedTuple):
    """A PodGroup of the change set or the cluster. `priority`: None if unknown. `subject`: None for a stored
    PodGroup.
    """

    namespace: str
    name: str
    class_name: str
    priority: int | None
    min_count: int
    subject: ReviewedObject | None = None

    @property
    def is_of_1_36(self) -> bool:
        """True for the API version of Kubernetes 1.36, whose kube-scheduler does not compare priorities of groups."""
        return self.subject is not None and self.subject.ref.api_version == "scheduling.k8s.io/v1alpha2"


class _Groups:
    """The PodGroups of the change set, by namespace and name."""

    def __init__(self, context: Context) -> None:
        self.found: dict[tuple[str, str], GroupToBe] = {}
        for subject in context.of_kind(POD_GROUP):
            with suppress(InvalidObject):
                group = PodGroup.from_api(subject.object)
                names = (*group.class_names, "")
                priority = integer(group.spec.get("priority"))
                if priority is None:
                    priority = priority_of(names[0], context)
                details = GroupToBe(
                    subject.effective_namespace, group.name, names[0], priority, group.min_count, subject
                )
                self.found[details.namespace, details.name] = details


def groups_are_off(context: Context) -> bool:
    """True if the cluster is known to ignore PodGroups."""
    if context.cluster is None:
        return dict(context.options.gates).get("GenericWorkload") is False
    return context.cluster.semantics.pods_are_grouped is False


def group_name(template: PodTemplate) -> str:
    """The name of the PodGroup in a Pod or template; "" without one."""
    return text_at(template.spec, "schedulingGroup", "podGroupName")


def named_group(template: PodTemplate, subject: ReviewedObject, context: Context) -> GroupToBe | None:
    """Return the PodGroup that a Pod or template refers to; None if unknown."""
    key = subject.effective_namespace, group_name(template)
    if not key[1] or groups_are_off(context):
        return None
    group = context.once(_Groups).found.get(key)
    stored = context.cluster.objects.pod_groups.get(key) if group is None and context.cluster else None
    if stored is None:
        return group
    names = (*stored.class_names, "")
    return GroupToBe(stored.namespace, stored.name, names[0], stored.priority, stored.min_count)


class _Members:
    """The number of Pods that the change set adds to each PodGroup; None if unknown."""

    def __init__(self, context: Context) -> None:
        self.found: dict[tuple[str, str], int | None] = {}
        self.subjects: set[str] = set()
        """`namespace/name` of the Pods and workloads."""
        for subject in context.change_set.subjects:
            if subject.operation is not Operation.DELETE:
                with suppress(InvalidObject):
                    self._add(subject, context)

    def _add(self, subject: ReviewedObject, context: Context) -> None:
        template = context.template(subject)
        parts = () if template else parts_of(subject.object, context.options.class_paths)
        for part in (template,) if template else parts:
            if name := group_name(part):
                self.subjects.add(f"{subject.effective_namespace}/{name_of(subject)}")
                key = subject.effective_namespace, name
                before = self.found.get(key, 0)
                pods = _pods_of(subject, part)
                self.found[key] = None if before is None or pods is None else before + pods


def _pods_of(subject: ReviewedObject, template: PodTemplate) -> int | None:
    """The number of Pods that a Pod or workload adds; None if unknown. Raises InvalidObject."""
    if not template.is_template:
        return 1
    if group_kind(subject.object) not in _COUNTED:
        return None
    from forewarn.policies.controllers.new_pods import replicas_of  # only if there is a PodGroup

    return replicas_of(subject.object) or None


_COUNTED: Final = frozenset(POD_TEMPLATE_PATHS) - {DAEMON_SET, "/PodTemplate"}


def members_of(namespace: str, name: str, context: Context) -> int | None:
    """The number of Pods in a PodGroup after the change set, including stored Pods of other workloads.

    None if unknown, or if the change set adds no Pod to the group.
    """
    members, cluster = context.once(_Members), context.cluster
    pods = members.found.get((namespace, name))
    if pods is None or cluster is None:
        return pods
    stored = (p for p in cluster.objects.grouped_pods.values() if (p.namespace, p.spec.pod_group) == (namespace, name))
    return pods + sum(not {pod.key, cluster.top_workload_of(pod)} & members.subjects for pod in stored)


def is_known_missing(template: PodTemplate, subject: ReviewedObject, context: Context) -> bool:
    """Report whether a Pod or template refers to a PodGroup that is known not to exist."""
    if not group_name(template) or groups_are_off(context) or named_group(template, subject, context) is not None:
        return False
    if context.cluster is None:
        return context.options.closed
    return POD_GROUP not in context.cluster.objects.unlisted


def priority_of(name: str, context: Context) -> int | None:
    """The value of a PriorityClass, or of the global default for ""; None if unknown."""
    if not name and context.cluster is None and not context.classes_known:
        return None  # a cluster may have a default
    try:
        return establish_priority(name, context.classes).priority
    except Forbidden:
        return None


def priority_to_be(template: PodTemplate, subject: ReviewedObject, context: Context) -> tuple[str, int | None]:
    """Return the PriorityClass of the subject's new Pods, and their priority (None if unknown)."""
    name = class_to_be(template, subject.effective_namespace, context)
    given = None if template.is_template else integer(template.spec.get("priority"))
    return name or class_name(template), priority_of(name, context) if given is None else given
