"""If a workload restarted now, it would preempt Pods of other workloads.

Why: while the workload runs, you do not notice that its next restart, rollout or node failure would preempt other Pods.
Either other Pods use the capacity that a restart needs, or the priority of the workload changed after its Pods were
created.

Details: forewarn simulates `kubectl rollout restart` in the current cluster, for one workload at a time. A single note
counts the workloads whose restart preempts only placeholder Pods (`placeholderPods` in the configuration).

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
      name: report
      namespace: batch
    spec:
      nodeName: node-1
      priority: 0
      containers:
      - name: c
        image: report
        resources: {requests: {cpu: 1200m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web-1
      namespace: team
      labels: {app: web}
    spec:
      nodeName: node-1
      priorityClassName: gold
      priority: 1000
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: 500m}}
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
            resources: {requests: {cpu: 500m}}

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
          priorityClassName: gold
          containers:
          - name: c
            image: web
            resources: {requests: {cpu: 200m}}

Fix: free capacity before you restart the workload, set maxSurge: 0 in the workload, or use a lower class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.forecast.impact import victims_of
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from forewarn.policies.rules.support.details import Cause, NotPredicted, PlaceholdersPreempted, Preemption
from forewarn.policies.rules.support.placeholders import is_placeholder
from forewarn.policies.rules.support.restarts import restarts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import ObjectRef
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "restart-preempts"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each workload whose restart preempts other Pods, and one note about placeholder Pods."""
    of_placeholders: list[ObjectRef] = []
    most, restarts = 0, restarts_of(context)
    for restart in restarts.found:
        own = restart.impact.own
        preempting = tuple(p for p in restart.impact.preempting if any(v.identity not in own for v in p.victims))
        victims = [victim for victim in victims_of(preempting) if victim.identity not in own]
        if restart.impact.why_not:
            details = NotPredicted(restart.impact, _NOT_PREDICTED_FIX, is_restart=True)
            yield Problem(details, object=restart.ref, severity=Severity.NOTE)
        elif not victims:
            continue
        elif all(is_placeholder(victim, context.options) for victim in victims):
            of_placeholders.append(restart.ref)
            most = max(most, len(victims))
        else:
            fix = "free capacity first" if restart.ref.kind == "StatefulSet" else _SURGE_FIX
            yield Problem(Preemption(Cause.RESTART, restart.impact, preempting, victims, fix), object=restart.ref)
    if of_placeholders:
        yield Problem(PlaceholdersPreempted(of_placeholders, most), severity=Severity.NOTE)
    restarts.require_all()


_NOT_PREDICTED_FIX: Final = "restart it while its nodes have enough free capacity for the new Pods"
_SURGE_FIX: Final = "free capacity first, or set maxSurge: 0"
