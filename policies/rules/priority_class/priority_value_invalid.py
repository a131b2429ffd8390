"""The value of a PriorityClass is not a 32-bit integer.

Why: kube-apiserver cannot decode other values, such as text, fractions, or numbers above 2147483647.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: high
    value: "1000"

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: high
    value: 1000

Fix: write an integer without quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-value-invalid"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a value that cannot be decoded, with kube-apiserver's message."""
    from forewarn.policies.kube_apiserver.validation.priority_class import (
        decode_error,  # only where there is a class: pods start without it
    )

    fault = decode_error(subject.object)
    if fault is not None and fault.path == ("value",):
        yield Problem(fault.text, fault.path, "write an integer from -2147483648 to 1000000000, without quotes")
