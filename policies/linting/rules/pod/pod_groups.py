"""Rules about PodGroups, Workloads and the Pods of PodGroups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Action, Problem, Severity, Text, plural, quote
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds.class_paths import GROUPS
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, POD_GROUP, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import InvalidObject, at, group_kind, int32, list_at, mapping, text_at
from forewarn.policies.kubernetes.objects.priority_class import HIGHEST_USER_DEFINABLE_PRIORITY, SYSTEM_CLASSES
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, parts_of
from forewarn.policies.linting.rules.support import rule_text
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, POD_SPECS, Context, Target, rule

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError


GATE: Final = "PodGroups need the feature gate GenericWorkload (1.37: beta, off by default)"


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


def _groups(context: Context) -> dict[tuple[str, str], GroupToBe]:
    """Return the PodGroups of the change set, by namespace and name."""
    groups: dict[tuple[str, str], GroupToBe] = {}
    for subject in context.of_kind(POD_GROUP):
        with suppress(InvalidObject):
            from forewarn.policies.kubernetes.objects.pod_group import PodGroup  # only if there is a PodGroup

            group, namespace = PodGroup.from_api(subject.object), subject.effective_namespace
            name = next(iter(group.class_names), "")
            priority = rule_text.integer(group.spec.get("priority"))
            if priority is None:
                priority = priority_of(name, context)
            groups[namespace, group.name] = GroupToBe(namespace, group.name, name, priority, group.min_count, subject)
    return groups


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
    group = context.once(_groups).get(key)
    stored = context.cluster.objects.pod_groups.get(key) if group is None and context.cluster else None
    if stored is None:
        return group
    name = next(iter(stored.class_names), "")
    return GroupToBe(stored.namespace, stored.name, name, stored.priority, stored.min_count)


class _Members:
    """The number of Pods that the change set adds to each PodGroup; None if unknown."""

    def __init__(self, context: Context) -> None:
        self.found: dict[tuple[str, str], int | None] = {}
        self.subjects: set[str] = set()
        """`namespace/name` of the Pods and workloads."""
        for subject in context.change_set.subjects:
            if subject.operation is not Operation.DELETE:
                with suppress(InvalidObject):
                    template = context.template(subject)
                    parts = () if template else parts_of(subject.object, context.options.class_paths)
                    for part in (template,) if template else parts:
                        if name := group_name(part):
                            self.subjects.add(f"{subject.effective_namespace}/{rule_text.name_of(subject)}")
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
    from forewarn.policies.kubernetes.controllers.own_pods import replicas_of  # only if there is a PodGroup

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
    values = rule_text.resolved_class(name, context)
    return None if values is None else values.priority


def priority_to_be(template: PodTemplate, subject: ReviewedObject, context: Context) -> tuple[str, int | None]:
    """Return the PriorityClass of the subject's new Pods, and their priority (None if unknown)."""
    name = rule_text.class_to_be(template, subject.effective_namespace, context)
    given = None if template.is_template else rule_text.integer(template.spec.get("priority"))
    return name or rule_text.class_name(template), priority_of(name, context) if given is None else given


_FIXES: Final = (
    ("immutable", "restore the field, or delete the object and create it again"),
    ("cannot be", "restore the field, or delete the object and create it again"),
    ("may not be", "restore the templates, or delete the object and create it again"),
    ("exactly one", "remove all but one"),
    ("one of", "add one"),
    ("multiple priority", "use one PriorityClass in all templates"),
    ("Required", "add this field"),
)
"""The fix by a part of kube-apiserver's message."""


@rule(Target.POD_GROUP, *POD_OR_TEMPLATE, severity=Severity.ERROR, action=Action.DENY, depends_on=("classes",))
def pod_group_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kube-apiserver rejects this PodGroup, Workload or `schedulingGroup`.

    Why: for example, a PodGroup with two scheduling policies and a gang with `minCount: 0` are invalid. Some fields,
    such as the class, are immutable.

    Details: PodGroups need the feature gate GenericWorkload, which is off by default in Kubernetes 1.37.

    Bad:

        PodGroup team/model
        spec:
          schedulingPolicy: {gang: {minCount: 0}}

    Good:

        PodGroup team/model
        spec:
          schedulingPolicy: {gang: {minCount: 4}}

    Fix: correct the field. To change an immutable field, delete the object and create it again. A PodGroup stays until
    its Pods have finished or are deleted.
    """
    template = context.template(subject)
    faults = _faults(subject, context) if template is None else _template_errors(template)
    for message in dict.fromkeys((str(fault), fault.path) for fault in faults):
        text, path = message
        fix = next((fix for part, fix in _FIXES if part in text), "correct this field")
        yield Problem(rule_text.api_text(text), path, fix, detail={"rejection": text})


def _template_errors(template: PodTemplate) -> Iterable[FieldError]:
    """The errors in a Pod's `schedulingGroup`. Raises InvalidObject."""
    if template.spec.get("schedulingGroup") is None:
        return ()
    # The linter starts without it.
    from forewarn.policies.kubernetes.kube_apiserver.validation.pod import validate_scheduling_group

    mapping(template.object, "spec", "schedulingGroup")
    group = template.spec["schedulingGroup"]
    spec = {"schedulingGroup": {key: value for key, value in group.items() if isinstance(value, str)}}
    where = len(("spec",))
    return [type(f)(template.at(*f.path[where:]), f.text) for f in validate_scheduling_group(spec)]


def _faults(subject: ReviewedObject, context: Context) -> list[FieldError]:
    """Return the errors of a PodGroup or Workload, without errors that other rules report."""
    from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, admit_pod_group
    from forewarn.policies.kubernetes.kube_apiserver.validation import pod as validation
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError

    if subject.object.get("apiVersion") not in validation.group_versions():
        return []
    if fault := validation.group_decode_error(subject.object):
        return [fault]
    old = subject.old and {**subject.old, "apiVersion": subject.object["apiVersion"], "kind": subject.object["kind"]}
    if old and validation.group_decode_error(old):
        return []
    semantics = context.semantics
    spec = validation.defaulted_group(subject.object, semantics)
    if spec.get("compositePodGroupTemplates"):
        return []
    name, given = spec.get("priorityClassName") or "", spec.get("priority")
    is_known = name in context.classes if name else context.cluster is not None or context.classes_known
    is_on, with_policy = validation.admission_gates(subject.object, semantics)
    if is_known and is_on and old is None and group_kind(subject.object) == POD_GROUP:
        try:
            spec = admit_pod_group(spec, context.classes, with_policy=with_policy)
        except Forbidden as rejection:
            return [FieldError(rejection.path, str(rejection))]
    faults, _ = validation.validate_group(rule_text.completed(subject), spec, old, semantics)
    by_class = given is None and old is None
    return [fault for fault in faults if not (by_class and fault.path == ("spec", "priority"))]


@rule(*POD_SPECS, severity=Severity.NOTE, depends_on=("podgroups",))
def pod_group_missing(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod or a template names a PodGroup that does not exist.

    Why: kube-apiserver accepts the Pod. With the feature gate GenericWorkload, kube-scheduler does not schedule the Pod
    before the PodGroup exists, and reports no condition or Event.

    Details: the linter needs `--cluster` or `--closed`.

    Cluster:

        PodGroup other-team/model
        spec:
          schedulingPolicy: {gang: {minCount: 1}}

    Example:

        + PodGroup team/model
        + spec:
        +   schedulingPolicy: {gang: {minCount: 1}}
        + ---
          Pod team/worker
          spec:
            schedulingGroup: {podGroupName: model}
            containers:
            - name: worker
              image: worker

    Fix: create the PodGroup in the namespace of the Pod, or correct the name.
    """
    template = context.template(subject)
    if template is not None and is_known_missing(template, subject, context):
        name, pods = group_name(template), "Pods are" if template.is_template else "the Pod is"
        yield Problem(
            Text(f"PodGroup {quote(name)} not found; {pods} not scheduled", "create it, or correct the name", (GATE,)),
            template.at("schedulingGroup", "podGroupName"),
            detail={"podGroup": name},
        )


_MIN_COUNT: Final = ("spec", "schedulingPolicy", "gang", "minCount")


@rule(
    Target.POD_GROUP,
    Target.OTHER,
    severity=Severity.WARNING,
    depends_on=("pods",),
    objects={Target.POD_GROUP: "PodGroups", Target.OTHER: "Jobs of Volcano"},
)
def pod_group_too_small(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PodGroup has fewer Pods than its `minCount`.

    Why: with the feature gate GenericWorkload, kube-scheduler does not schedule the Pods of a gang before `minCount`
    Pods exist. Until then, they stay Pending, without a condition or Event.

    Details: the rule counts Pods and replicas in the input, and stored Pods of the cluster. It ignores groups that have
    no Pods in the input, or an unknown number. It also compares `minAvailable` of a Job of Volcano with its tasks.

    Example:

          PodGroup team/model
          spec:
        -   schedulingPolicy: {gang: {minCount: 8}}
        +   schedulingPolicy: {gang: {minCount: 4}}
          ---
          Job team/model
          spec:
            parallelism: 4
            completions: 4
            template:
              spec:
                schedulingGroup: {podGroupName: model}
                restartPolicy: Never
                containers:
                - name: worker
                  image: worker

    Fix: lower `minCount`, or create as many Pods as `minCount`.
    """
    if group_kind(subject.object) == _VOLCANO_JOB:
        yield from _volcano_problems(subject)
        return
    least = int32(subject.object, *_MIN_COUNT) if group_kind(subject.object) == POD_GROUP else None
    if not least or groups_are_off(context):
        return
    members = members_of(subject.effective_namespace, rule_text.name_of(subject), context)
    if members and members < least:
        yield Problem(
            Text(
                f"minCount is {least}, but the group has {plural(members, 'Pod')}; they stay Pending",
                f"lower minCount to {members}, or create {least} Pods",
                (GATE,),
            ),
            _MIN_COUNT,
            detail={"minCount": least, "pods": members},
        )


_VOLCANO_JOB: Final = "batch.volcano.sh/Job"


def _volcano_problems(subject: ReviewedObject) -> Iterator[Problem]:
    """Yield a Job of Volcano that needs more Pods than its tasks have."""
    least = rule_text.integer(at(subject.object, "spec", "minAvailable"))
    tasks = list_at(subject.object, "spec", "tasks")
    replicas = [rule_text.integer(at(task, "replicas")) if at(task, "replicas") is not None else 1 for task in tasks]
    if least is None or not tasks or None in replicas:
        return
    total = sum(number or 0 for number in replicas)
    if total < least:
        message = f"minAvailable is {least}, but the tasks have {plural(total, 'Pod')}: Volcano rejects the Job"
        yield Problem(message, ("spec", "minAvailable"), f"lower minAvailable to {total}")


@rule(*POD_SPECS, severity=Severity.ERROR, action=Action.WARN, depends_on=("classes", "podgroups"))
def pod_group_priority_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The priority of a Pod differs from the priority of its PodGroup.

    Why: kube-apiserver accepts the Pod. With the feature gate GenericWorkload, kube-scheduler 1.37 schedules no Pod of
    the group.

    Example:

          PriorityClass training
          value: 1000
          ---
          PodGroup team/model
          spec:
            priorityClassName: training
            schedulingPolicy: {gang: {minCount: 4}}
          ---
          Job team/model
          spec:
            parallelism: 4
            completions: 4
            template:
              spec:
        +       priorityClassName: training
                schedulingGroup: {podGroupName: model}
                restartPolicy: Never
                containers:
                - name: worker
                  image: worker

    Fix: use one PriorityClass in the PodGroup and all its Pods.
    """
    template = context.template(subject)
    group = named_group(template, subject, context) if template else None
    if template is None or group is None:
        return
    if group.subject is not None and group.subject.ref.api_version == "scheduling.k8s.io/v1alpha2":
        return  # kube-scheduler 1.36 does not compare priorities of groups
    name, priority = priority_to_be(template, subject, context)
    if (name == group.class_name and group.subject is not None) or None in (priority, group.priority):
        return
    if priority != group.priority:
        other = f"use priorityClassName {quote(group.class_name)}"
        yield Problem(
            Text(
                f"priority {priority} differs from PodGroup {quote(group.name)} ({group.priority}); "
                "its Pods will not be scheduled",
                other if group.class_name else "use one PriorityClass in the PodGroup and its Pods",
                (GATE,),
            ),
            template.at("priorityClassName"),
            detail={"podGroup": group.name, "priority": priority, "groupPriority": group.priority},
        )


_TOO_HIGH: Final = {c.name: c for c in SYSTEM_CLASSES if c.value > HIGHEST_USER_DEFINABLE_PRIORITY}
"""The system classes above the limit. No other PriorityClass can have such a value."""


@rule(Target.PART, severity=Severity.ERROR, action=Action.WARN, objects={Target.PART: "PodGroups and Workloads"})
def group_priority_too_high(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PodGroup, or a template of PodGroups, names a PriorityClass with a value above 1000000000.

    Why: kube-apiserver rejects a PodGroup with such a class, so the Pods of the group stay Pending.

    Example:

          PodGroup kube-system/training
          spec:
        -   priorityClassName: system-cluster-critical
            schedulingPolicy: {gang: {minCount: 4}}

    Fix: use a PriorityClass with a value of at most 1000000000.
    """
    template = context.template(subject)
    if template is None or group_kind(subject.object) not in GROUPS:
        return
    higher = _TOO_HIGH.get(rule_text.class_name(template))
    if higher is not None:
        yield Problem(
            f"{higher.name} has value {higher.value}; a PodGroup may have {HIGHEST_USER_DEFINABLE_PRIORITY} at most",
            template.at("priorityClassName"),
            "use a lower PriorityClass",
        )
