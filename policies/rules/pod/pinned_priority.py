"""A pod template carries a number in spec.priority.

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
from policies.rules.support.context import NOTHING_STORED, Context, Target
from policies.rules.support.rule_text import integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "pinned-priority"
TARGETS: Final = (
    Target.TEMPLATE,
    Target.PART,
)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Any number in a template, right or wrong."""
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is not None and given is not None:
        yield Problem(
            f"the template pins priority {given}: the API server computes it from the class, and refuses any other",
            template.at("priority"),
            "leave priority out",
        )
