"""A Pod or a Pod template, or a Namespace as its default, uses a class that `allowedClasses` does not permit.

Why: by default, all users who may create Pods can use any class. A ResourceQuota limits only how much of a class a
namespace may use. Users who may create ResourceQuotas can use any class.

Details: if entries of `allowedClasses` name a class, at least one of these entries must match. An entry matches if all
its conditions hold. A condition with a list holds if one item of the list matches. All users may use a class that no
entry names. When a user creates a workload or changes its class, the rule checks the user and groups. When a controller
of kube-system creates the Pods of the workload, the rule does not check users and groups again. The StatefulSet
controller also creates Pods from ControllerRevisions, so the rule checks their templates like workloads. For workloads,
the webhook warns by default. To deny workloads, set the action of the rule to deny. If a Namespace has the annotation
forewarn.dev/default-priority-class, the rule treats the Namespace like a Pod of this class. The linter does not know
the user, or the labels of unknown Namespaces. If a condition needs a user or an unknown label, the linter only counts
the object in its summary.

Options:

    allowedClasses:
    - classes: [gold]
      namespaces: [shop, shop-*]

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: shop-berlin
    spec:
      template:
        spec:
          priorityClassName: gold

Fix: use another class, or add an entry to allowedClasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import Action, Problem, Severity, quote
from forewarn.policies.kinds.registry import NAMESPACE
from forewarn.policies.kube_apiserver.priority import SYSTEM_NAMESPACE
from forewarn.policies.objects.fields import NOTHING, group_kind, text_at
from forewarn.policies.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.rules.support.allowed_classes import entries_of, is_allowed
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_to_be, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate

ID: Final = "class-not-allowed"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART, Target.NAMESPACE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("namespaces", "classes"), "the namespace may have the label by now, or another default")


class _Use(NamedTuple):
    """A PriorityClass that an object uses for Pods of a namespace, and the path of the field.

    `had`: the old object already used the class.
    """

    name: str
    namespace: str
    path: Path
    had: bool


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if entries of allowedClasses name the class, and none of these entries matches."""
    use = _use_of(subject, context)
    if use is None or _is_allowed(subject, use, context) is not False:
        return
    depends_on_user = any(entry.depends_on_user for entry in entries_of(use.name, context))
    for_user = f" for user {subject.user.name}" if subject.user and depends_on_user else ""
    yield Problem(
        f"class {quote(use.name)} is not allowed in namespace {use.namespace}{for_user}",
        use.path,
        "use another class, or ask for an entry in allowedClasses",
        detail={"class": use.name},
    )


def is_open(subject: ReviewedObject, context: Context) -> bool:
    """True if the result depends on unknown facts: the requester, or labels of the namespace. Raises InvalidObject."""
    use = _use_of(subject, context)
    return use is not None and _is_allowed(subject, use, context) is None


def _use_of(subject: ReviewedObject, context: Context) -> _Use | None:
    """Return the class that a Pod or template uses, or that a Namespace has as default; None without one."""
    if not context.options.allowed_classes:
        return None
    if group_kind(subject.object) == NAMESPACE:
        return _given(subject)
    template = context.template(subject)
    if template is None:
        return None
    name, old = _class_of(subject, template, context), None
    if subject.old:
        old = pod_template_of(subject.old, context.options.pod_template_paths)
    had = old is not None and _class_of(subject, old, context) == name
    return _Use(name, subject.effective_namespace, template.at("priorityClassName"), had)


def _given(subject: ReviewedObject) -> _Use | None:
    """The default class of a Namespace; None without one. `had` is true for an unchanged default."""
    path = ("metadata", "annotations", DEFAULT_CLASS_ANNOTATION)
    given, namespace = text_at(subject.object, *path), subject.ref.name
    if not given or namespace == SYSTEM_NAMESPACE:
        return None
    return _Use(given, namespace, path, had=given == text_at(subject.old or NOTHING, *path))


def _is_allowed(subject: ReviewedObject, use: _Use, context: Context) -> bool | None:
    """True if the class is permitted; None if unknown."""
    return is_allowed(subject, use.name, use.namespace, context, had=use.had)


def _class_of(subject: ReviewedObject, template: PodTemplate, context: Context) -> str:
    """Return the class of the Pods: the named class, otherwise the default if known."""
    name = class_to_be(template, subject.effective_namespace, context)
    found = None if name else resolved(template, context)
    return found.priority_class_name if found else name
