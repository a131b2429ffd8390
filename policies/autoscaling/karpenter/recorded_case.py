"""The answer to a recorded case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.autoscaling.autoscaler import NotPredicted

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject


def answer_case(_case: ApiObject) -> ApiObject:
    """Return the decision for a case in the form of the recordings. Raises NotPredicted, InvalidObject, ValueError."""
    raise NotPredicted("scale-up is not modelled")
