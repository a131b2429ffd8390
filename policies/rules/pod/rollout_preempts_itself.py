"""A rollout would preempt old Pods of the same workload.

Why: if the new template has a higher priority than the running Pods, new Pods can preempt all old Pods at once,
regardless of maxUnavailable.

Details: if maxUnavailable allows the Deployment to terminate old Pods immediately, timing determines which old Pods are
preempted. The message then contains "may" instead of "would". maxSurge: 0 does not prevent the preemption, because the
Deployment creates the new Pod while the old Pod still terminates.

Cluster:

    apiVersion: v1
    kind: Node
    metadata:
      name: node-1
    status:
      allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
      labels: {app: web}
    spec:
      nodeName: node-1
      priority: 0
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: 1500m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          priorityClassName: gold
          containers:
          - name: c
            image: web
            resources: {requests: {cpu: 1500m}}

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
          - name: c
            image: web
            resources: {requests: {cpu: 400m}}

Fix: free capacity before the rollout, or use the strategy Recreate. Or raise the priority at a time when the workload
may have fewer Pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.forecast.impact import victims_of
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from forewarn.policies.rules.support.details import Cause, Preemption
from forewarn.policies.rules.support.predictions import predicted_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "rollout-preempts-itself"
TARGETS: Final = (Target.TEMPLATE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for the workload's own Pods that its rollout preempts."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    preempting = tuple(p for p in impact.preempting if any(v.identity in impact.own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if victim.identity in impact.own]
    if victims:
        fix = "free capacity first"
        fix = f"{fix}, or use strategy Recreate" if subject.ref.kind == "Deployment" else fix
        details = Preemption(Cause.OWN_ROLLOUT, impact, preempting, victims, fix)
        yield Problem(details, template.at("priorityClassName"))
    else:
        impact.check_bounds()
