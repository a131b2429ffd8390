"""A pod or template uses a class that allowedClasses of the configuration does not allow there.

Why: quotas alone make poor permissions: they say how much, and whoever may write a quota may take a class. A class
that some entry of allowedClasses names may be used only where one of the entries that name it holds: all that an
entry gives must hold, of a list one item. Classes that no entry names are free. Users and groups are asked when a
workload takes its class, not of the controllers of kube-system that make pods of it: to enforce them, set the action
to deny. Where a verdict depends on who applies, or on labels of a namespace that is not known, the linter says
nothing and counts it in its summary.

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

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, quote
from policies.objects.workload import pod_template_of
from policies.rules.context import About, Context
from policies.rules.wording import class_to_be, resolved
from policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.subject import Subject
    from policies.objects.workload import PodTemplate
    from policies.options import AllowedClasses

ID: Final = "class-not-allowed"
ABOUT: Final = (About.POD, About.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY

_KINDS: Final = ("deployment", "replicaset", "replication", "statefulset", "daemon-set", "job", "cronjob")
CONTROLLERS: Final = frozenset(
    ("system:kube-controller-manager", *(f"system:serviceaccount:kube-system:{kind}-controller" for kind in _KINDS))
)
"""Who makes pods of workloads. Source: pkg/controlplane, bootstrappolicy `controller_policy.go`."""


def check(subject: Subject, context: Context) -> Iterator[Problem]:
    """A class that is named by entries of which none holds."""
    template = context.template(subject) if context.options.allowed_classes else None
    if template is None or _is_allowed(subject, template, context) is not False:
        return
    name, asks_who = (
        _class_of(subject, template, context),
        any(e.asks_who for e in _entries(subject, template, context)),
    )
    who = f" by {subject.user.name}" if subject.user and asks_who else ""
    yield Problem(
        f"class {quote(name)} may not be used{who} in namespace {_namespace(subject)}",
        template.at("priorityClassName"),
        "use another class, or ask for an entry in allowedClasses",
        detail={"class": name},
    )


def is_open(subject: Subject, context: Context) -> bool:
    """Whether it depends on what is not known: who applies, or labels of the namespace. Raises InvalidObject."""
    template = context.template(subject)
    return template is not None and _is_allowed(subject, template, context) is None


def _is_allowed(subject: Subject, template: PodTemplate, context: Context) -> bool | None:
    """None: not known."""
    answers = [_holds(entry, subject, template, context) for entry in _entries(subject, template, context)]
    return True if not answers or True in answers else None if None in answers else False


def _entries(subject: Subject, template: PodTemplate, context: Context) -> list[AllowedClasses]:
    name = _class_of(subject, template, context)
    return [entry for entry in context.options.allowed_classes if name and one_of(entry.classes, name)]


def _holds(entry: AllowedClasses, subject: Subject, template: PodTemplate, context: Context) -> bool | None:
    """Whether all that an entry gives holds; None: not known."""
    name = _namespace(subject)
    answers: list[bool | None] = [not entry.namespaces or one_of(entry.namespaces, name)]
    if entry.namespace_selector is not None:
        namespace = context.namespace(name)
        answers.append(None if namespace is None else entry.namespace_selector.matches(namespace.labels))
    if entry.asks_who:
        answers.append(_is_among(entry, subject, template, context))
    return False if False in answers else None if None in answers else True


def _is_among(entry: AllowedClasses, subject: Subject, template: PodTemplate, context: Context) -> bool | None:
    """Whether whoever asks is one of the users, and in one of the groups."""
    if subject.user is None:
        return None
    if subject.user.name in CONTROLLERS or _had_it(subject, template, context):
        return True
    in_group = not entry.groups or any(one_of(entry.groups, group) for group in subject.user.groups)
    return in_group and (not entry.users or one_of(entry.users, subject.user.name))


def _had_it(subject: Subject, template: PodTemplate, context: Context) -> bool:
    """Whether the stored object has this class: somebody was asked then, and an autoscaler need not be."""
    old = pod_template_of(subject.old, context.options.pod_template_paths) if subject.old else None
    return old is not None and _class_of(subject, old, context) == _class_of(subject, template, context)


def _class_of(subject: Subject, template: PodTemplate, context: Context) -> str:
    """The class that the pods will have: a default where none is named and that is known."""
    name = class_to_be(template, _namespace(subject), context)
    found = None if name else resolved(template, context)
    return found.priority_class_name if found else name


def _namespace(subject: Subject) -> str:
    return subject.ref.namespace or "default"
