"""A Pod or a template does not set requests or limits that a ResourceQuota of its namespace requires.

Why: if a ResourceQuota limits cpu or memory, kube-apiserver rejects every Pod with a container that does not set cpu or
memory. Default values from a LimitRange also count.

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

Fix: set the fields that the message names, in each container or for the Pod as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "quota-requirement-missing"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("quotas", "classes"), "the quota may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem with the requirements of the first ResourceQuota that the Pod does not satisfy."""
    if not context.has_quotas(subject):
        return
    from forewarn.policies.rules.support.quota_use import quota_use_of

    use = quota_use_of(context).of(subject)
    fault = use.faults[0] if use is not None and use.faults else None
    if use is None or fault is None or fault.kind != "must-specify":
        return
    rejected = "Pods" if use.template.is_template else "the Pod"
    yield Problem(
        cut(f"{rejected} will be rejected: {fault.message}", MAX_CHARACTERS),
        use.template.at("containers"),
        "set them, or add a LimitRange with defaults to the namespace",
        detail={"quota": fault.quota, "rejection": fault.message},
    )
