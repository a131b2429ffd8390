"""Rules about PriorityClasses: their fields, and their effect on Pods, on other classes and on autoscalers."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Action, ObjectRef, Path, Problem, Severity, cut, grouped, plural, quote
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.deploy_order import is_recreated
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import already_default
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, has_controller, list_at
from forewarn.policies.kubernetes.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    POLICIES,
    PREEMPT_NEVER,
    SERVED_VERSION,
    SYSTEM_NAMES,
    SYSTEM_PRIORITY_CLASS_PREFIX,
    PriorityClass,
)
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.linting.rules.support import rule_text
from forewarn.policies.linting.rules.support.context import POD_SPECS, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.details import ClassInUse, PodsWithPriority, PreemptingClasses
from forewarn.policies.linting.rules.support.names import is_impossible_name, nearest
from forewarn.policies.linting.rules.support.predictions import only_reserves

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod_group import GroupTemplates, PodGroup
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject


_MAX_BASE_LENGTH: Final = 40
_RESTART: Final = "restart the workloads that should get the new priority"
_FLAG: Final = "--expendable-pods-priority-cutoff"
_DEFAULT: Final = Options().autoscaler_cutoff


def autoscaler_cutoff(context: Context) -> int:
    """Return the configured cutoff, or that of a cluster-autoscaler in the change set (the lowest of several)."""
    configured = context.options.autoscaler_cutoff
    return configured if configured != _DEFAULT else context.once(_apply_priority)


def _apply_priority(context: Context) -> int:
    deployments = context.of_kind(registry.DEPLOYMENT)
    return min((value for deployment in deployments for value in _flags(deployment.object)), default=_DEFAULT)


def _flags(deployment: ApiObject) -> Iterator[int]:
    """The values of the cutoff flag in a Deployment's containers: `--flag=-20`, or `--flag` and the next argument."""
    for container in list_at(deployment, "spec", "template", "spec", "containers"):
        for field in ("command", "args"):
            words = [word for word in list_at(container, field) if isinstance(word, str)]
            for word, following in zip(words, (*words[1:], ""), strict=False):
                flag, equals, value = word.partition("=")
                if flag in (_FLAG, _FLAG[1:]):
                    with suppress(ValueError):
                        yield int(value if equals else following)


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR)
def priority_value_missing(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PriorityClass has no value.

    Why: kube-apiserver stores the class with value 0. Often, the field is misspelled or at the wrong level.

    Bad:

        PriorityClass high
        description: goes first

    Good:

        PriorityClass high
        value: 0
        description: an ordinary class, on purpose

    Fix: add the field `value` at the top level of the object.
    """
    if subject.object.get("value") is None and subject.old is None:  # webhooks get value 0
        message = "no value: it is stored with 0, the priority of Pods without a class"
        yield Problem(message, (), "add value at the top level")


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR, action=Action.DENY, reads_parts=True)
def priority_value_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The value of a PriorityClass is not a 32-bit integer.

    Why: kube-apiserver cannot decode other values, such as text, fractions, or numbers above 2147483647.

    Bad:

        PriorityClass high
        value: "1000"

    Good:

        PriorityClass high
        value: 1000

    Fix: write an integer without quotes.
    """
    # Only where there is a class: pods start without it.
    from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import decode_error

    fault = decode_error(subject.object)
    is_variable = rule_text.is_template_variable(str(subject.object.get("value")), subject, context)
    if fault is not None and fault.path == ("value",) and not is_variable:
        yield Problem(fault.text, fault.path, "write an integer from -2147483648 to 1000000000, without quotes")


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR, action=Action.DENY, reads_parts=True)
def priority_value_too_high(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The value of a PriorityClass is above 1000000000.

    Why: higher values are for the two system classes. kube-apiserver rejects other classes with such values.

    Bad:

        PriorityClass top
        value: 2000000000

    Good:

        PriorityClass top
        value: 1000000000

    Fix: use a value of at most 1000000000.
    """
    value = rule_text.integer(subject.object.get("value")) or 0
    if subject.old is not None or value <= HIGHEST_USER_DEFINABLE_PRIORITY:
        return
    # Only where there is a class: pods start without it.
    from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class

    for fault in validate_priority_class(subject.object):
        if fault.path == ("value",):
            yield Problem(str(fault), fault.path, f"use a value of {HIGHEST_USER_DEFINABLE_PRIORITY} or less")


_MAX_POLICY_LENGTH: Final = 40


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR, action=Action.DENY, reads_parts=True)
def preemption_policy_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """`preemptionPolicy` is neither `PreemptLowerPriority` nor `Never`.

    Why: kube-apiserver rejects any other value, including `never` in lowercase.

    Bad:

        PriorityClass batch
        value: 10
        preemptionPolicy: never

    Good:

        PriorityClass batch
        value: 10
        preemptionPolicy: Never

    Fix: write `PreemptLowerPriority` or `Never`. If you remove the field, `PreemptLowerPriority` applies.
    """
    policy = subject.object.get("preemptionPolicy")
    if subject.old is not None or not isinstance(policy, str) or policy in POLICIES:
        return
    if rule_text.is_template_variable(policy, subject, context, str(POLICIES)):
        return
    hint = nearest(policy.capitalize(), POLICIES)
    shown = quote(cut(policy, _MAX_POLICY_LENGTH)) if policy else "empty string"
    message = f"unsupported preemptionPolicy: {shown}{hint}"
    yield Problem(message, ("preemptionPolicy",), "write PreemptLowerPriority or Never")


@rule(
    Target.PRIORITY_CLASS,
    *POD_SPECS,
    Target.UNRENDERED,
    Target.STATIC_POD,
    severity=Severity.ERROR,
    action=Action.DENY,
    reads_parts=True,
    objects=rule_text.NAMING,
)
def priority_class_name_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The name of a PriorityClass is not a DNS subdomain.

    Why: kube-apiserver rejects a PriorityClass with an invalid name, and every object that names such a class.

    Details: a template that prints a map or a list of the chart's values as the name prints `map[]` or `[]`.

    Bad:

        PriorityClass Very_High
        value: 1000

    Good:

        PriorityClass very-high
        value: 1000

    Fix: use at most 253 lowercase letters, digits, "-" and ".". Begin and end each part between dots with a letter or
    digit.
    """
    if group_kind(subject.object) != registry.PRIORITY_CLASS:
        yield from _invalid_use(subject, context)
        return
    metadata = subject.object.get("metadata") or {}
    if subject.old is not None or not isinstance(metadata, Mapping) or metadata.get("generateName"):
        return
    name = metadata.get("name") or ""
    # Only where there is a class: pods start without it.
    from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import name_faults

    if not isinstance(name, str) or (subject.is_partial and not name):
        return
    path = ("metadata", "name")
    if not name:
        yield Problem("no name", path, "set metadata.name")
    elif len(name) > _MAX_NAME_LENGTH:
        yield Problem(f"name too long: at most {_MAX_NAME_LENGTH} characters", path, "shorten it")
    elif name_faults(name) and not rule_text.is_template_variable(name, subject, context):
        shown = quote(cut(name, _SHOWN_CHARACTERS))
        yield Problem(f'invalid name {shown}: use lowercase letters, digits, "-", "."', path, _valid_name(name))


def _invalid_use(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a name that no class can have, of a Pod or template that names it."""
    template = context.template(subject)
    name = rule_text.class_name(template) if template else ""
    if template is None or not is_impossible_name(name) or rule_text.is_template_variable(name, subject, context):
        return
    shown, rejected = quote(cut(name, _SHOWN_CHARACTERS)), "Pods" if subject.part else subject.ref.kind or "Pods"
    near = _valid_name(name)
    fix = "set a name in the values, or none" if name in ("map[]", "[]") else near
    fix = f"write {near}" if fix == near and not is_impossible_name(near) else fix
    message = f"PriorityClass {shown}: no class can have this name; kube-apiserver rejects the {rejected}"
    yield Problem(message, template.at("priorityClassName"), fix)


def _valid_name(name: str) -> str:
    """Return a similar valid name; if there is none, a description of valid names."""
    near = _NOT_IN_A_NAME.sub("-", name.lower()).strip("-.")
    return near if near and not _EMPTY_PART.search(near) else "begin and end each part between dots with a-z or 0-9"


_MAX_NAME_LENGTH: Final = 253
_SHOWN_CHARACTERS: Final = 40
_NOT_IN_A_NAME: Final = later(r"[^a-z0-9.-]+")
_EMPTY_PART: Final = later(r"[-.]\.|\.-")


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR, action=Action.DENY, reads_parts=True)
def reserved_system_name(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The name of a user-defined PriorityClass begins with "system-".

    Why: kube-apiserver creates system-cluster-critical and system-node-critical itself, and rejects other classes with
    this prefix.

    Bad:

        PriorityClass system-batch
        value: 1000

    Good:

        PriorityClass batch-system
        value: 1000

    Fix: choose a name without the prefix "system-".
    """
    if subject.old is not None or not rule_text.name_of(subject).startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        return
    priority_class = rule_text.class_of(subject)
    # Only where there is a class: pods start without it.
    from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import system_class_fault

    if fault := system_class_fault(priority_class.name, priority_class.value, priority_class.global_default):
        detail = f": {fault}" if priority_class.name in SYSTEM_NAMES else ""
        message = f'prefix "{SYSTEM_PRIORITY_CLASS_PREFIX}" is reserved for Kubernetes{detail}'
        yield Problem(message, ("metadata", "name"), f'use a name without the prefix "{SYSTEM_PRIORITY_CLASS_PREFIX}"')


_MAX_VERSION_LENGTH: Final = 60


@rule(
    Target.PRIORITY_CLASS,
    Target.POD_GROUP,
    Target.TEMPLATE,
    Target.OTHER,
    Target.FILE,
    severity=Severity.ERROR,
    action=Action.DENY,
    reads_parts=True,
    objects={Target.OTHER: "PodDisruptionBudgets, HorizontalPodAutoscalers"},
)
def removed_api_version(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Kubernetes has removed the `apiVersion` of a PriorityClass, workload or related object.

    Why: kubectl and kube-apiserver reject the object. For example, Kubernetes 1.22 removed v1beta1 of PriorityClasses.

    Details: if a supported release still serves the version, the rule needs a known release (`--kubernetes-version` or
    a cluster).

    Bad:

        apiVersion: scheduling.k8s.io/v1beta1
        kind: PriorityClass
        metadata:
          name: batch
        value: 10

    Good:

        PriorityClass batch
        value: 10

    Fix: write the version that the finding names. `apps/v1` also requires `spec.selector`.
    """
    version = subject.object.get("apiVersion")
    if not subject.object:
        yield from rule_text.diagnostics("removed-api-version", context)
    elif group_kind(subject.object) != registry.PRIORITY_CLASS:
        kind = subject.object.get("kind")
        removed = registry.removed_version(version, kind, context.minor)
        if removed:
            also = ", also in the object and its other patches" if subject.is_patch else ""
            yield Problem(removed.problem(version, kind), ("apiVersion",), removed.fix + also)
    elif version != SERVED_VERSION:
        shown = quote(cut(str(version), _MAX_VERSION_LENGTH))
        message = f"no PriorityClass in version {shown}: Kubernetes 1.22 removed all but v1"
        yield Problem(message, ("apiVersion",), f"write apiVersion: {SERVED_VERSION}")


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR, action=Action.DENY)
def immutable_field_changed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An update changes the value or the `preemptionPolicy` of a PriorityClass.

    Why: kube-apiserver rejects the update, for example in `helm upgrade`.

    Details: the linter compares a class with the class in the cluster, at the commit of `--base`, or in an earlier
    object of the same directory or group. If another directory has another value, the finding is a note. If an
    annotation of Argo CD, Flux or Helm makes them recreate the class, the finding is a warning.

    Cluster:

        PriorityClass batch
        value: 10

    Bad:

        PriorityClass batch
        value: 20

    Good:

        PriorityClass batch
        value: 10
        description: nightly work

    Fix: create a class with another name, and move the workloads to it. Or delete and recreate the class: running Pods
    then keep the old priority.
    """
    if subject.old is None:
        if context.phase is Phase.LINT:
            yield from _other_values(subject, context)
        return
    # Only where there is a class: pods start without it.
    from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class_update

    new, old = rule_text.class_of(subject), PriorityClass.from_api(subject.old)
    is_new = context.phase is Phase.LINT and is_recreated(subject.object)
    stored = {"value": old.value, "preemptionPolicy": old.preemption_policy}
    offline = context.phase is Phase.LINT and context.cluster is None
    holder = "an earlier object of the input has" if offline else "the cluster has"
    holder = f"{cut(context.options.base, _MAX_BASE_LENGTH)} has" if offline and context.options.base else holder
    for fault in validate_priority_class_update(new, old):
        name = str(fault.path[0])
        message = f"{str(fault).rstrip('.')}; {holder} {stored[name]}"
        if is_new:
            message = (
                f"the class is deleted and recreated: meanwhile its Pods are rejected; running ones keep {stored[name]}"
            )
        fix = f"keep {name}: {stored[name]}, or create a class with another name"
        yield Problem(message, fault.path, fix, severity=Severity.WARNING if is_new else None)


def _other_values(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a note if another change set of the input defines the class with another value."""
    new, here = rule_text.integer(subject.object.get("value")), os.path.dirname(subject.locate(()).file)
    for value, location in context.options.class_values.get(rule_text.name_of(subject), {}).items():
        if new is not None and value != new and os.path.dirname(location.file) != here:
            where = rule_text.location_suffix(location)
            message = f"another directory defines the value {value}{where}: one cluster rejects one"
            yield Problem(message, ("value",), "define the class once", severity=Severity.NOTE)
            return


@rule(Target.PRIORITY_CLASS, severity=Severity.ERROR, action=Action.DENY, depends_on=("classes",))
def global_default_not_unique(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Two PriorityClasses have `globalDefault: true`.

    Why: kube-apiserver rejects the second default class. If users create both at the same moment, it can store both;
    the class with the lower value is then the default.

    Example:

          PriorityClass normal
          value: 100
          globalDefault: true
          ---
          PriorityClass standard
          value: 200
        - globalDefault: true

    Fix: set `globalDefault: false` in one of the two classes. To replace the default class of a cluster, first set
    `globalDefault: false` in the current one.
    """
    new = rule_text.class_of(subject)
    other = context.default_before(subject) if new.global_default else None
    if other is None or (subject.old is not None and other.priority_class.name == new.name):
        return
    name = other.priority_class.name
    if subject.old is None and name == new.name and other.locate().line:
        return  # the same object twice in one apply: the second one is an update
    field = ("globalDefault",)
    if subject.old is subject.object:
        yield Problem(
            f"a second global default; new Pods get PriorityClass {name} (value {other.priority_class.value}), "
            "the lower value",
            field,
            f"set globalDefault: false here (changes no new Pod), or on {quote(name)} to make this class the default",
            detail={"default": name},
        )
        return
    message = already_default(name) + rule_text.location_suffix(other.locate(field))
    yield Problem(message, field, f"set globalDefault: false here, or first on {quote(name)}", detail={"default": name})


@rule(Target.PRIORITY_CLASS, severity=Severity.WARNING, action=Action.WARN, depends_on=("pods",))
def default_not_retroactive(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A new global default does not change the priority of existing Pods.

    Why: kube-apiserver sets the priority when a Pod is created. Existing Pods without a class keep their priority, and
    new Pods of a higher priority can preempt them.

    Details: the linter needs `--cluster` or `--base`.

    Cluster:

        Pod team/web-1
        spec:
          priority: 0
          nodeName: node-1

    Bad:

        PriorityClass normal
        value: 100
        globalDefault: true

    Good:

        PriorityClass normal
        value: 100

    Fix: create the class, then restart the workloads that should get the new priority.
    """
    new = rule_text.class_of(subject)
    before = subject.old is not None and PriorityClass.from_api(subject.old).global_default
    if context.options.base and new.global_default is not before:
        text = f"get {new.value}" if new.global_default else f"no longer get {new.value}"
        message = f"new Pods without a class {text}; running Pods keep their priority"
        yield Problem(message, ("globalDefault",), _RESTART)
    if not new.global_default or before:
        return
    counts = context.pod_counts_by_priority.items()
    unchanged = sum(count for (name, value), count in counts if not name and (value or 0) != new.value)
    if unchanged:
        message = f"only new Pods get {new.value}, not the {plural(unchanged, 'Pod')} without a class"
        yield Problem(message, ("globalDefault",), _RESTART, detail={"pods": unchanged, "value": new.value})


@rule(Target.DELETED_PRIORITY_CLASS, severity=Severity.WARNING, action=Action.WARN, depends_on=("pods", "workloads"))
def class_still_in_use(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A user deletes a PriorityClass while workloads use it.

    Why: running Pods keep their priority, but kube-apiserver rejects new Pods of these workloads.

    Details: the linter reports such workloads as unknown-priority-class if you pass `--base`.

    Cluster:

        PriorityClass batch
        value: 10
        ---
        Deployment team/reports
        spec:
          template:
            spec:
              priorityClassName: batch

    Bad (DELETE):

        PriorityClass batch
        value: 10

    Good (DELETE):

        PriorityClass unused
        value: 10

    Fix: move the workloads to another class before you delete this class.
    """
    name = subject.ref.name
    users = sorted(_workloads_naming(name, context), key=str)
    named = any(other == name for other, _ in context.pod_counts_by_priority)
    pods = context.pods_of_class(name) if named else []
    without_owner = sorted(ObjectRef("v1", "Pod", p.namespace, p.name) for p in pods if p.owner is None)
    if users or without_owner:
        yield Problem(ClassInUse(users, without_owner, len(pods)))


def _workloads_naming(name: str, context: Context) -> Iterator[ObjectRef]:
    """Yield the top-level workloads that name the class, without workloads whose controller is another workload."""
    for workload, named in rule_text.class_names_of_workloads(context):
        if named == name and not has_controller(workload.object):
            yield workload.ref
    yield from _groups_naming(name, context)


def _groups_naming(name: str, context: Context) -> Iterator[ObjectRef]:
    """The PodGroups, and the Workloads with templates, that name the class."""
    if context.cluster is None:
        return
    tables: dict[str, Mapping[tuple[str, str], PodGroup | GroupTemplates]] = {
        registry.POD_GROUP: context.cluster.objects.pod_groups,
        registry.GROUP_TEMPLATES: context.cluster.objects.group_templates,
    }
    for kind, table in tables.items():
        spec = registry.BY_GROUP_KIND[kind]
        for group in table.values():
            if name in group.class_names:
                yield ObjectRef(spec.api_version, spec.kind, group.namespace, group.name)


@rule(Target.PRIORITY_CLASS, severity=Severity.WARNING, action=Action.WARN, depends_on=("pods",))
def priority_drift(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The priority of Pods differs from the value of their class.

    Why: kube-apiserver sets the priority when a Pod is created. If you recreate a class with another value, existing
    Pods keep the old priority.

    Details: the linter needs `--cluster`.

    Cluster (Bad):

        Pod team/web-1
        spec:
          priorityClassName: gold
          priority: 1000
          nodeName: node-1

    Bad:

        PriorityClass gold
        value: 500

    Cluster (Good):

        Pod team/web-2
        spec:
          priorityClassName: gold
          priority: 500
          nodeName: node-1

    Good:

        PriorityClass gold
        value: 500

    Fix: restart the workloads of these Pods.
    """
    new = rule_text.class_of(subject)
    value = PriorityClass.from_api(subject.old).value if subject.old else new.value  # a change is rejected
    if any(name == new.name and priority not in (None, value) for name, priority in context.pod_counts_by_priority):
        pods = [pod for pod in context.pods_of_class(new.name) if pod.priority not in (None, value)]
        have = "has" if len(pods) == 1 else "have"
        after = f" of this class {have} priority {rule_text.priorities_of(pods)}, not {value}"
        yield Problem(PodsWithPriority(pods, after, "restart the workloads of these Pods", value), ("value",))


@rule(Target.PRIORITY_CLASS, severity=Severity.WARNING, depends_on=("classes", "workloads"))
def default_above_class(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The global default has a higher value than a class that workloads name.

    Why: each Pod without a class gets the value of the global default. On full nodes, it preempts Pods whose class has
    a lower value.

    Details: if the class has no name of important workloads, such as `web-critical`, the finding is a note. Names
    such as `low` and `batch`, classes of Jobs alone, and negative values are not reported.

    Example:

          PriorityClass standard
        - value: 1000000
        + value: 1000
          globalDefault: true
          ---
          PriorityClass web-critical
          value: 100000
          ---
          Pod team/web
          spec:
            priorityClassName: web-critical
            containers:
            - name: web
              image: web

    Fix: give the global default a lower value, or `preemptionPolicy: Never`.
    """
    new = rule_text.class_of(subject)
    if not new.global_default or new.preemption_policy == PREEMPT_NEVER:
        return
    used = (context.classes.get(name) for name in context.once(_classes_of_services))
    below = [c for c in used if c and 0 <= c.value < new.value and not _UNIMPORTANT.search(c.name)]
    important = [c for c in below if _IMPORTANT.search(c.name)]
    shown = sorted(important or below, key=lambda c: (-c.value, c.name))
    if shown:
        names = [f"{c.name} ({c.value})" for c in shown]
        message = rule_text.naming(f"Pods without a class ({new.value}) can preempt Pods of class ", names, len(names))
        fix = f"set a value of at most {shown[-1].value}, or preemptionPolicy: Never"
        yield Problem(message, ("value",), fix, severity=None if important else Severity.NOTE)


_IMPORTANT: Final = later(
    r"critical|high|important|urgent|essential|premium|gold|\b(?:prod|production|tier-?[01])\b", re.IGNORECASE
)
_UNIMPORTANT: Final = later(
    r"non-?critical|un-?important|best-?effort|overprovision"
    r"|\b(?:low\w*|batch\w*|preempt\w*|spot|background|dev|development|tests?|staging|optional|idle|bulk)\b",
    re.IGNORECASE,
)


def _classes_of_services(context: Context) -> Sequence[str]:
    """Return the classes that workloads other than Jobs name."""
    names = {name for workload, name in rule_text.class_names_of_workloads(context) if _is_service(workload.object)}
    for subject in context.change_set.subjects:
        with suppress(InvalidObject):
            if _is_service(subject.object) and (template := context.template(subject)) is not None:
                names.add(rule_text.class_name(template))
    return sorted(names)


def _is_service(obj: ApiObject) -> bool:
    return group_kind(obj) not in (registry.JOB, registry.CRON_JOB)


@rule(Target.PRIORITY_CLASS, severity=Severity.NOTE, action=Action.AUDIT, depends_on=("classes",))
def non_preempting_above_preempting(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A class that never preempts has a higher value than a class that preempts.

    Why: Pods of the preempting class can preempt other Pods. Pods of the non-preempting class stay Pending until
    capacity is free, although they come first in the queue.

    Example:

          PriorityClass analytics
        - value: 1000
        + value: 100
          preemptionPolicy: Never
          ---
          PriorityClass web
          value: 500

    Details: classes of negative value, which placeholder Pods use, count only if such Pods exist: Pods of the
    non-preempting class cannot use the capacity that the placeholder Pods reserve.

    Fix: give the non-preempting class a lower value than all preempting classes, unless it should only change the order
    of the queue. If its Pods should use the capacity of placeholder Pods, remove `preemptionPolicy`.
    """
    new = rule_text.class_of(subject)
    if new.preemption_policy != PREEMPT_NEVER:
        return
    preempting = context.once(_preempting)
    above = bisect_right(preempting, -new.value, key=lambda c: -c.value)
    if above < len(preempting):
        yield Problem(PreemptingClasses(preempting, above), ("preemptionPolicy",))
    elif new.value >= 0 and (reserving := context.once(_placeholder_class)):
        message = f"never preempts, so its Pods cannot use the capacity of placeholder Pods (class {quote(reserving)})"
        yield Problem(message, ("preemptionPolicy",), "remove preemptionPolicy, or reserve with a CapacityBuffer")


def _preempting(context: Context) -> Sequence[PriorityClass]:
    """The preempting classes that are not negative, the highest value first."""
    classes = (c for c in context.classes.values() if c.value >= 0 and c.preemption_policy != PREEMPT_NEVER)
    return sorted(classes, key=lambda c: (-c.value, c.name))


def _placeholder_class(context: Context) -> str:
    """A class of placeholder Pods of the change set; "" if there are none."""
    for subject in context.change_set.subjects:
        with suppress(InvalidObject):
            template = context.template(subject)
            used = context.classes.get(rule_text.class_name(template)) if template else None
            if template and used and used.value < 0 and only_reserves(template, context.options):
                return used.name
    return ""


@rule(Target.PRIORITY_CLASS, severity=Severity.NOTE, action=Action.AUDIT)
def below_autoscaler_cutoff(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """cluster-autoscaler adds no nodes for Pods of a class, because the value of the class is below the cutoff.

    Why: when cluster-autoscaler adds or removes nodes, it ignores Pods with a priority below
    `--expendable-pods-priority-cutoff` (default: -10). Karpenter has no cutoff: it adds nodes for Pods of every class.

    Bad:

        PriorityClass filler
        value: -100

    Good:

        PriorityClass filler
        value: -10

    Fix: if Pods of this class should get new nodes, use a value that is not below the cutoff. If your cluster uses
    another cutoff, set `autoscalerCutoff`.
    """
    value, cutoff = rule_text.integer(subject.object.get("value")), autoscaler_cutoff(context)
    if value is not None and value < cutoff:
        yield Problem(*_cutoff_problem(value, cutoff, context))


def _cutoff_problem(value: int, cutoff: int, context: Context) -> tuple[str, Path, str]:
    """Return the problem for the autoscaler of the cluster; without one, for both."""
    if context.options.has_cutoff is False:
        message = f"value {value} does not keep Karpenter from adding nodes for these Pods: it has no cutoff"
        return message, ("value",), "delete Pods that should use only free capacity, or limit the NodePool"
    is_unknown = context.options.has_cutoff is None and context.phase is Phase.LINT
    other = "; Karpenter does" if is_unknown else ""
    message = f"value {value} is below cluster-autoscaler's cutoff ({cutoff}): it adds no nodes for these Pods{other}"
    return message, ("value",), f"use {cutoff} or higher if these Pods should get new nodes"


@rule(Target.PRIORITY_CLASS, severity=Severity.NOTE, on_request=True)
def class_without_description(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PriorityClass has no description.

    Why: users choose a class by its name and description.

    Details: the rule is off unless you select (`--select`) or configure it.

    Options:

        severities:
          class-without-description: note

    Bad:

        PriorityClass batch
        value: 10

    Good:

        PriorityClass batch
        value: 10
        description: Jobs that may wait for hours

    Fix: describe for which workloads the class is.
    """
    if not subject.object.get("description"):
        yield Problem("no description", (), "describe for which workloads the class is")


@rule(Target.PRIORITY_CLASS, severity=Severity.NOTE, depends_on=("classes",), on_request=True)
def equal_class_values(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Two PriorityClasses have the same value.

    Why: Pods of both classes have equal priority, so neither preempts the other. Often, one class is superfluous, or
    its value is a mistake.

    Details: the rule is off unless you select (`--select`) or configure it. It ignores classes with different
    preemption policies.

    Options:

        severities:
          equal-class-values: note

    Bad:

        PriorityClass batch
        value: 10
        ---
        PriorityClass reports
        value: 10

    Good:

        PriorityClass batch
        value: 10
        ---
        PriorityClass reports
        value: 20

    Fix: remove one of the classes, or change a value.
    """
    new = rule_text.class_of(subject)
    others = context.once(_names_by_value).get((new.value, new.preemption_policy), [])
    names = [name for name in others if name != new.name]
    if names:
        message = rule_text.naming(f"value {new.value} is also the value of ", names, len(names))
        yield Problem(message, ("value",), "change one of the values")


def _names_by_value(context: Context) -> Mapping[tuple[int, str], list[str]]:
    """The names of all classes by value and policy."""

    return grouped(((each.value, each.preemption_policy), name) for name, each in sorted(context.classes.items()))
