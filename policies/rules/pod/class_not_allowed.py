"""A pod, a template or a namespace's default uses a class that allowedClasses does not allow there.

Why: quotas are a poor means to say who may use a class: they limit amounts, and whoever may write a quota may take
any class. A class that some entry of allowedClasses names may be used only where one of these entries holds: all
conditions that the entry gives, and one item of each list. Everybody may use a class that no entry names. Users and
groups are checked when a workload is created or its class changes, not for the controllers of kube-system that create
its pods; for workloads the rule warns by default: set the action to deny to enforce it. Setting a class as the default
of a namespace (annotation forewarn.dev/default-priority-class) is checked like naming it in a pod there. Where it
depends on who applies, or on labels of a namespace that is not known, the linter says nothing and counts the object in
its summary.

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

Fix: use another class, or have an entry of allowedClasses name the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.findings import Action, Problem, Severity, quote
from policies.kinds import NAMESPACE
from policies.kube_apiserver.priority import SYSTEM_NAMESPACE
from policies.objects.fields import NOTHING, group_kind
from policies.objects.namespace import DEFAULT_CLASS_ANNOTATION
from policies.objects.workload import pod_template_of
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import class_to_be, resolved, text_at
from policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.findings import Path
    from policies.objects.reviewed_object import ReviewedObject
    from policies.objects.workload import PodTemplate
    from policies.options import AllowedClasses

ID: Final = "class-not-allowed"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART, Target.NAMESPACE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(
    ("namespaces", "classes"), "the namespace may have got its label, the default may be another"
)

_KINDS: Final = ("deployment", "replicaset", "replication", "statefulset", "daemon-set", "job", "cronjob")
CONTROLLERS: Final = frozenset(
    ("system:kube-controller-manager", *(f"system:serviceaccount:kube-system:{kind}-controller" for kind in _KINDS))
)
"""Who makes pods of workloads. Source: pkg/controlplane, bootstrappolicy `controller_policy.go`."""


class _Use(NamedTuple):
    """A class that the pods of a namespace shall have, and where that is said. `had`: the stored object said it too."""

    name: str
    namespace: str
    path: Path
    had: bool


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A class that is named by entries of which none holds."""
    use = _use_of(subject, context)
    if use is None or _is_allowed(subject, use, context) is not False:
        return
    asks_who = any(entry.asks_who for entry in _entries(use, context))
    who = f" by {subject.user.name}" if subject.user and asks_who else ""
    yield Problem(
        f"class {quote(use.name)} may not be used{who} in namespace {use.namespace}",
        use.path,
        "use another class, or ask for an entry in allowedClasses",
        detail={"class": use.name},
    )


def is_open(subject: ReviewedObject, context: Context) -> bool:
    """Whether it depends on what is not known: who applies, or labels of the namespace. Raises InvalidObject."""
    use = _use_of(subject, context)
    return use is not None and _is_allowed(subject, use, context) is None


def _use_of(subject: ReviewedObject, context: Context) -> _Use | None:
    """The class that a pod or template asks for, or that a Namespace gives to pods which ask for none."""
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
    """The default class of a Namespace; what is stored already was asked for when it was set."""
    path = ("metadata", "annotations", DEFAULT_CLASS_ANNOTATION)
    given, namespace = text_at(subject.object, *path), subject.ref.name
    if not given or namespace == SYSTEM_NAMESPACE:
        return None
    return _Use(given, namespace, path, had=given == text_at(subject.old or NOTHING, *path))


def _is_allowed(subject: ReviewedObject, use: _Use, context: Context) -> bool | None:
    """None: not known."""
    answers = [_holds(entry, subject, use, context) for entry in _entries(use, context)]
    return True if not answers or True in answers else None if None in answers else False


def _entries(use: _Use, context: Context) -> list[AllowedClasses]:
    return [entry for entry in context.options.allowed_classes if use.name and one_of(entry.classes, use.name)]


def _holds(entry: AllowedClasses, subject: ReviewedObject, use: _Use, context: Context) -> bool | None:
    """Whether all that an entry gives holds; None: not known."""
    answers: list[bool | None] = [not entry.namespaces or one_of(entry.namespaces, use.namespace)]
    if entry.namespace_selector is not None:
        namespace = context.namespace(use.namespace)
        answers.append(None if namespace is None else entry.namespace_selector.matches(namespace.labels))
    if entry.asks_who:
        answers.append(_is_among(entry, subject, use))
    return False if False in answers else None if None in answers else True


def _is_among(entry: AllowedClasses, subject: ReviewedObject, use: _Use) -> bool | None:
    """Whether whoever asks is one of the users, and in one of the groups.

    Not asked where the stored object has this class: somebody was asked then, and an autoscaler need not be.
    """
    if subject.user is None:
        return None
    if subject.user.name in CONTROLLERS or use.had:
        return True
    in_group = not entry.groups or any(one_of(entry.groups, group) for group in subject.user.groups)
    return in_group and (not entry.users or one_of(entry.users, subject.user.name))


def _class_of(subject: ReviewedObject, template: PodTemplate, context: Context) -> str:
    """The class that the pods will have: a default where none is named and that is known."""
    name = class_to_be(template, subject.effective_namespace, context)
    found = None if name else resolved(template, context)
    return found.priority_class_name if found else name
