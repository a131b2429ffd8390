"""A pod template carries a number in spec.priority, or a pod brings one without a class.

Why: the number is right only as long as it is the class's value. On the day the class is created again with another
value, or the template moves to another cluster, every new pod is refused.

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

Fix: leave spec.priority out of templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import NOTHING_STORED, Context, Phase, Target
from policies.rules.support.rule_text import class_name, integer, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

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
    """Any number in a template, right or wrong; in a pod one that nothing here stands for."""
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is None or given is None:
        return
    if template.is_template:
        message = (
            f"the template pins priority {given}: the API server computes it from the class, and refuses any other"
        )
    elif given and context.phase is Phase.LINT and not class_name(template) and resolved(template, context) is None:
        message = f"priority {given} without a class: the API server refuses it unless the default class stands for it"
    else:
        return
    yield Problem(message, template.at("priority"), "leave priority out")
