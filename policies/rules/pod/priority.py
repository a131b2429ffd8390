"""Rules about the priority fields in the spec of Pods and Pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Action, Problem, Severity, cut, quote
from forewarn.policies.kube_apiserver.priority import preemption_policy_mismatch as policy_rejection
from forewarn.policies.kube_apiserver.priority import priority_mismatch as priority_rejection
from forewarn.policies.objects.fields import at
from forewarn.policies.objects.priority_class import POLICIES, SYSTEM_CLASSES
from forewarn.policies.rules.support.context import Context, DependsOn, Phase, Target, rule
from forewarn.policies.rules.support.names import is_reserved, meant_elsewhere, meant_system_class, nearest
from forewarn.policies.rules.support.rule_text import (
    NAMING,
    class_name,
    class_or_default,
    integer,
    is_earlier_than_the_default,
    is_template_variable,
    resolved,
)

if TYPE_CHECKING:
    from forewarn.policies.objects.reviewed_object import ReviewedObject


@rule(
    Target.POD,
    Target.TEMPLATE,
    Target.PART,
    severity=Severity.ERROR,
    action=Action.DENY,
    depends_on=DependsOn(("classes",), "a class may have been deleted and created with another value"),
    reads_parts=True,
)
def priority_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """`spec.priority` differs from the value of the class, or from the default priority of a Pod without a class.

    Why: kube-apiserver computes the priority from the class, and rejects a Pod that sets another value.

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

          Pod team/web
          spec:
            priorityClassName: gold
        -   priority: 5

    Fix: remove `spec.priority`. kube-apiserver sets this field from the class.
    """
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is None or given is None:
        return
    computed = resolved(template, context)
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name, rejected = class_name(template), "Pods" if template.is_template else "the Pod"
        other = f"the value of class {quote(name)}" if name else "the default"
        yield Problem(
            f"priority {given} differs from {other} ({computed.priority}); {rejected} will be rejected",
            template.at("priority"),
            "remove priority",
            detail={
                "given": given,
                "computed": computed.priority,
                "rejection": priority_rejection(given, computed.priority),
            },
        )


_LONGEST_POLICY: Final = 40


@rule(
    Target.POD,
    Target.TEMPLATE,
    Target.PART,
    severity=Severity.ERROR,
    action=Action.DENY,
    depends_on=DependsOn(("classes",), "a class may have been deleted and created with another policy"),
    reads_parts=True,
)
def preemption_policy_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """`spec.preemptionPolicy` differs from the policy of the Pod's class.

    Why: kube-apiserver reads the policy from the class, and rejects a Pod that sets another policy. Without a class,
    the policy of the global default applies, or `PreemptLowerPriority`.

    Details: the linter also reports an invalid policy if the class is unknown.

    Cluster:

        PriorityClass batch
        value: 10
        preemptionPolicy: Never

    Example:

          Pod team/report
          spec:
            priorityClassName: batch
        -   preemptionPolicy: PreemptLowerPriority

    Fix: remove `spec.preemptionPolicy`. kube-apiserver sets this field from the class.
    """
    template = context.template(subject)
    given = template.spec.get("preemptionPolicy") if template else None
    if template is None or not isinstance(given, str):
        return
    computed = resolved(template, context)
    rejected = "Pods" if template.is_template else "the Pod"
    is_invalid = given not in POLICIES and not is_template_variable(given, subject, context)
    differs = computed is not None and given != computed.preemption_policy
    if is_invalid and not differs and context.phase is Phase.LINT:
        shown = quote(cut(given, _LONGEST_POLICY))
        hint = nearest(given.capitalize(), POLICIES)
        yield Problem(
            f"{rejected[0].upper()}{rejected[1:]} will be rejected: unsupported preemptionPolicy {shown}{hint}",
            template.at("preemptionPolicy"),
            "remove it",
        )
    if computed is not None and differs:
        yield Problem(
            f"preemptionPolicy differs from the class's ({computed.preemption_policy}); {rejected} will be rejected",
            template.at("preemptionPolicy"),
            "remove it",
            detail={"rejection": policy_rejection(given, computed.preemption_policy)},
        )


@rule(Target.TEMPLATE, Target.PART, Target.POD, severity=Severity.WARNING, action=Action.WARN, reads_parts=True)
def pinned_priority(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod template, or a Pod without a class, sets `spec.priority`.

    Why: kube-apiserver computes the priority from the class, and rejects a Pod that sets any other priority. If the
    class has another value in another cluster, or after you recreate it, kube-apiserver rejects new Pods of the
    template.

    Details: the rule accepts a system class with its value, which never changes. If the default class is unknown, the
    linter reports each Pod that has no class and a priority other than 0. Otherwise, priority-mismatch reports wrong
    values of Pods.

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

          Job team/report
          spec:
            template:
              spec:
                priorityClassName: gold
        -       priority: 1000

    Fix: remove `spec.priority`. kube-apiserver sets this field from the class.
    """
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is None or given is None:
        return
    if any((system.name, system.value) == (class_name(template), given) for system in SYSTEM_CLASSES):
        return
    if template.is_template:
        message = f"template sets priority {given}; Pods are rejected if the class has another value"
    elif given and context.phase is Phase.LINT and not class_name(template) and resolved(template, context) is None:
        message = f"priority {given} without a class; the Pod is rejected unless the default class has this value"
    else:
        return
    yield Problem(message, template.at("priority"), "remove priority")


@rule(Target.UPDATED_POD, severity=Severity.ERROR, action=Action.DENY)
def priority_field_changed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An update changes `priority`, `priorityClassName` or `preemptionPolicy` of a Pod.

    Why: kube-apiserver rejects the update, because these fields are immutable.

    Details: the linter needs `--cluster`, or an earlier definition of the Pod in the input.

    Cluster:

        PriorityClass gold
        value: 1000
        ---
        Pod team/web
        spec:
          priority: 0
          preemptionPolicy: PreemptLowerPriority

    Bad:

        Pod team/web
        spec:
          priorityClassName: gold

    Good:

        Pod team/web
        spec:
          activeDeadlineSeconds: 600

    Fix: delete the Pod, and create it again with the new class.
    """
    old = subject.old or {}
    stored_class = at(old, "spec", "priorityClassName") or None
    for name, may_be_absent in (
        ("priorityClassName", _is_default(stored_class, subject, context)),
        ("priority", True),
        ("preemptionPolicy", True),
    ):
        new, stored = at(subject.object, "spec", name), at(old, "spec", name)
        if may_be_absent and new is None:
            continue
        if name == "priorityClassName":
            new, stored = new or None, stored_class
        if new != stored:
            before = "unset" if stored in (None, "") else stored
            yield Problem(
                f"spec.{name} of a Pod cannot be changed; it is {before}",
                ("spec", name),
                "delete the Pod and create it again",
            )


def _is_default(stored_class: Any, subject: ReviewedObject, context: Context) -> bool:
    """Report whether the stored class is the default, which `kubectl apply` keeps if the manifest names no class."""
    template = context.template(subject) if stored_class and context.phase is Phase.LINT else None
    return template is not None and stored_class == class_or_default(template, subject.effective_namespace, context)


@rule(
    Target.POD,
    action=Action.DENY,
    depends_on=DependsOn(("classes",), "a class may have been deleted and created with another value"),
)
def final_priority_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Mutating webhooks give a new Pod a priority that differs from the value of its class.

    Why: after kube-apiserver has called a mutating webhook again (`reinvocationPolicy: IfNeeded`), it does not check
    whether the Pod's priority still matches its class. kube-scheduler does not read PriorityClasses.

    Details: the rule accepts a Pod that has priority 0 and no class. kube-apiserver can create such Pods for a short
    time after the global default was created.

    Cluster:

        PriorityClass gold
        value: 1000

    Example (validate):

          Pod team/web
          spec:
            priorityClassName: gold
        +   priority: 1000
        +   preemptionPolicy: PreemptLowerPriority

    Fix: change the webhook that mutates the Pod. A webhook that sets `priorityClassName` must remove `priority` and
    `preemptionPolicy`.
    """
    template = context.template(subject)
    if context.phase is not Phase.VALIDATE or template is None:
        return
    computed, given = resolved(template, context), at(subject.object, "spec", "priority")
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name = class_name(template)
        left = "no spec.priority" if given is None else f"spec.priority={given}"
        right = f"class {quote(name)} is {computed.priority}" if name else f"the default is {computed.priority}"
        yield Problem(
            f"a mutating webhook left {left}; {right}",
            ("spec", "priority"),
            "clear priority and preemptionPolicy when setting priorityClassName",
            detail={"given": given, "computed": computed.priority},
        )


@rule(Target.POD, Target.TEMPLATE, Target.PART, Target.UNRENDERED, severity=Severity.NOTE, objects=NAMING)
def priority_class_not_checked(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """forewarn cannot check whether a PriorityClass exists.

    Why: without this note, you could believe that the linter checked the class.

    Details: the rule reports a name if you pass no cluster, and no PriorityClass of the input applies to the directory
    of the object. unknown-priority-class reports names that are probably misspelled. The option `--closed` and
    `knownClasses` disable this rule.

    Bad:

        Pod team/web
        spec:
          priorityClassName: gold

    Good:

        Pod team/web
        spec: {}

    Fix: also lint the manifests of the PriorityClasses (`forewarn lint classes.yaml web.yaml`), or pass a cluster
    (`--cluster FILE`).
    """
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or context.classes_known or context.is_known(name):
        return
    if is_reserved(name) or is_template_variable(name, subject, context):
        return
    if name in context.options.deleted_classes or meant_system_class(name, context) or meant_elsewhere(name, context):
        return  # unknown-priority-class
    is_elsewhere = name in context.options.input_classes
    yield Problem(
        f"can't verify PriorityClass {quote(name)}" + (": only other directories define it" if is_elsewhere else ""),
        template.at("priorityClassName"),
        "pass --cluster, or --one-apply" if is_elsewhere else "pass --cluster or include the class manifests",
        detail={"class": name},
    )
