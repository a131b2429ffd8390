"""A Pod template sets spec.priority, or a Pod sets spec.priority without a class.

Why: kube-apiserver computes the priority from the class, and rejects a Pod that sets any other priority. If you
recreate the class with another value, or use the template in another cluster, kube-apiserver rejects every new Pod.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: batch/v1
    kind: Job
    metadata:
      name: report
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold
          priority: 1000

Good:

    apiVersion: batch/v1
    kind: Job
    metadata:
      name: report
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold

Fix: remove spec.priority. kube-apiserver sets this field from the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Phase, Target
from forewarn.policies.rules.support.rule_text import class_name, integer, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "pinned-priority"
TARGETS: Final = (
    Target.TEMPLATE,
    Target.PART,
    Target.POD,
)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for any priority in a template, and for a Pod's priority without a known class."""
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is None or given is None:
        return
    if template.is_template:
        message = f"template sets priority {given}; Pods are rejected where the class has another value"
    elif given and context.phase is Phase.LINT and not class_name(template) and resolved(template, context) is None:
        message = f"priority {given} without a class; the Pod is rejected unless the default class has this value"
    else:
        return
    yield Problem(message, template.at("priority"), "remove priority")
