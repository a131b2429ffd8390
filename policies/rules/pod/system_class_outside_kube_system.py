"""A Pod outside kube-system uses a system class.

Why: Pods with the class system-cluster-critical or system-node-critical can preempt all your workloads, and
kube-apiserver allows these classes in every namespace. Both classes are meant for components that the cluster needs to
work.

Details: many components outside kube-system use these classes on purpose, so the finding of the linter is a note. The
linter reports only objects whose namespace is known from `metadata.namespace`, `-n`, a kustomization or `render` in the
configuration.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: system-cluster-critical

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: dns
      namespace: kube-system
    spec:
      priorityClassName: system-cluster-critical

Fix: use a PriorityClass of your own, with a value of at most 1000000000.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.kinds.registry import DEFAULT_NAMESPACE, RELEASE_NAMESPACE
from forewarn.policies.objects.fields import at
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Phase, Target
from forewarn.policies.rules.support.rule_text import class_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "system-class-outside-kube-system"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED
_ALLOWED: Final = ("kube-system", RELEASE_NAMESPACE)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SYSTEM: Final = {c.name for c in SYSTEM_CLASSES}


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a system class in any known namespace other than kube-system."""
    template = context.template(subject)
    if template is None or class_name(template) not in _SYSTEM:
        return
    if (template.namespace or subject.ref.namespace) in _ALLOWED:
        return
    if context.phase is Phase.LINT and not (template.namespace or _is_known(subject, context)):
        return
    yield Problem(
        f"class {class_name(template)} outside kube-system: its Pods can preempt all your workloads",
        template.at("priorityClassName"),
        "use a class of your own",
    )


def _is_known(subject: ReviewedObject, context: Context) -> bool:
    """Report whether a file or `-n` sets the namespace to a valid name, not a template variable or kubectl's
    default.
    """
    own = at(subject.object, "metadata", "namespace")
    is_given = own or context.options.namespace or subject.namespace != DEFAULT_NAMESPACE
    return bool(is_given) and bool(_NAME.fullmatch(subject.ref.namespace))
