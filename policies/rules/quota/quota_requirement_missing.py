"""A pod or template leaves out requests or limits that a ResourceQuota of its namespace demands.

Why: where a quota limits cpu or memory, the API server refuses every pod with a container that does not set them. What
a LimitRange of the namespace, or of the same input, fills in counts as set.

Cluster:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: compute
      namespace: team
    spec:
      hard:
        requests.cpu: 8
        limits.memory: 32Gi
    status:
      hard:
        requests.cpu: 8
        limits.memory: 32Gi
      used:
        requests.cpu: 2
        limits.memory: 8Gi

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          containers:
          - name: web
            resources:
              requests:
                cpu: 500m

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          containers:
          - name: web
            resources:
              requests:
                cpu: 500m
              limits:
                memory: 1Gi

Fix: set what is named, in each container or for the pod as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import Context, DependsOn, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "quota-requirement-missing"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("quotas", "classes"), "the quota may be gone")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """What the first quota that is not satisfied wants to be set."""
    if not context.has_quotas(subject):
        return
    from policies.rules.support.quota_use import quota_use_of

    use = quota_use_of(context).of(subject)
    fault = use.faults[0] if use is not None and use.faults else None
    if use is None or fault is None or fault.kind != "must-specify":
        return
    consequence = "its pods will be refused: " if use.template.is_template else ""
    yield Problem(
        consequence + fault.message,
        use.template.at("containers"),
        "set them, or give the namespace a LimitRange with defaults",
        detail={"quota": fault.quota},
    )
