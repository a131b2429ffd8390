"""Two PriorityClasses have globalDefault: true.

Why: kube-apiserver rejects the second default class. If users create both classes at the same moment, kube-apiserver
can store both. The class with the lower value is then the default, also if it is the newer class. forewarn audit
reports each other class.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: normal
    value: 100
    globalDefault: true
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: standard
    value: 200
    globalDefault: true

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: normal
    value: 100
    globalDefault: true
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: standard
    value: 200

Fix: set globalDefault: false in one of the two classes. To replace the default class of a cluster, first set
globalDefault: false in the current default class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, quote
from forewarn.policies.kube_apiserver.priority import already_default
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_of, elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "global-default-not-unique"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "the other default may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if a global default exists already, in the cluster or earlier in the change set."""
    new = class_of(subject)
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
    yield Problem(
        already_default(name) + elsewhere(other.locate(field)),
        field,
        f"set globalDefault: false here, or first on {quote(name)}",
        detail={"default": name},
    )
