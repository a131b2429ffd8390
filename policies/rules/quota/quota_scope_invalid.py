"""The API server refuses this ResourceQuota: its scopes do not go with its resources, or with each other.

Why: a quota with a PriorityClass scope may limit pods, cpu and memory alone of the standard resources; other scopes
have other lists, and an operator wants values or none. The messages are the API server's own, for names and amounts
too.

Bad:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: gold-quota
      namespace: team
    spec:
      hard:
        pods: 10
        services: 5
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: In
          values: [gold]

Good:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: gold-quota
      namespace: team
    spec:
      hard:
        pods: 10
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: In
          values: [gold]

Fix: move what the scope does not limit into a quota without scopes; give In and NotIn values, Exists and DoesNotExist
none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.fields import ApiObject
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "quota-scope-invalid"
TARGETS: Final = (Target.RESOURCE_QUOTA,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Every fault that the API server finds, in its words."""
    # Only where there is a quota: linting starts without these.
    from policies.kube_apiserver.validation.field_errors import MOST_FAULTS
    from policies.kube_apiserver.validation.resource_quota import (
        validate_resource_quota,
        validate_resource_quota_update,
    )

    context.quota_of(subject)
    quota = _completed(subject)
    faults = validate_resource_quota_update(quota, subject.old) if subject.old else validate_resource_quota(quota)
    for fault in faults[:MOST_FAULTS]:
        yield Problem(str(fault).rstrip("."), fault.path)


def _completed(subject: ReviewedObject) -> ApiObject:
    """The object with its namespace, and a name where one is generated."""
    metadata = dict(subject.object.get("metadata") or {})
    metadata["namespace"] = subject.effective_namespace
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName'][:58]}xxxxx"
    return {**subject.object, "metadata": metadata}
