"""A PriorityClass has no label `owner`.

Why: the platform team must know who to ask before it changes the value of a class.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
      labels:
        owner: payments
    value: 1000

Fix: add the label.
"""

from collections.abc import Iterator

from forewarn import Context, Problem, ReviewedObject, Severity, Target

ID = "company.class-label"
TARGETS = (Target.PRIORITY_CLASS,)
SEVERITY = Severity.WARNING


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A class without the label."""
    labels = subject.object.get("metadata", {}).get("labels") or {}
    if "owner" not in labels:
        yield Problem("no label owner", ("metadata", "name"), "add the label owner: TEAM")
