"""If a workload restarted now, new Pods would stay Pending, or the rollout would not finish.

Why: while the workload runs, you do not notice that replacement Pods fit on no node, or that a ResourceQuota would
reject them. The nodes of the running Pods are cordoned or deleted, or no node has enough free capacity.

Details: forewarn simulates `kubectl rollout restart` in the current cluster, for one workload at a time. The simulation
adds no nodes, although an autoscaler may add nodes.

Cluster:

    apiVersion: v1
    kind: Node
    metadata:
      name: node-1
    spec: {unschedulable: true}
    status:
      allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: db-0
      namespace: team
      labels: {app: db}
      ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true}]
    spec:
      nodeName: node-1
      priority: 0
      containers:
      - name: c
        image: db
        resources: {requests: {cpu: 500m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

Bad:

    apiVersion: apps/v1
    kind: StatefulSet
    metadata:
      name: db
      namespace: team
    spec:
      replicas: 1
      selector: {matchLabels: {app: db}}
      template:
        metadata: {labels: {app: db}}
        spec:
          containers:
          - name: c
            image: db
            resources: {requests: {cpu: 500m}}

Good:

    apiVersion: apps/v1
    kind: StatefulSet
    metadata:
      name: db
      namespace: team
    spec:
      replicas: 1
      selector: {matchLabels: {app: db}}
      template:
        metadata: {labels: {app: db}}
        spec:
          tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]
          containers:
          - name: c
            image: db
            resources: {requests: {cpu: 500m}}

Fix: uncordon nodes, free capacity or raise the quota before you restart the workload. Or set maxUnavailable, so that a
Deployment terminates old Pods first. `forewarn predict` shows for each node why a Pod does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from forewarn.policies.rules.support.details import StaysPending
from forewarn.policies.rules.support.pending_reasons import needs_class
from forewarn.policies.rules.support.restarts import restarts_of
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "restart-stays-pending"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")
_QUOTA_FIX: Final = "raise the quota, or delete other Pods of the namespace before you restart the workload"


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each workload whose restart would not finish, because of Pending or rejected Pods."""
    restarts = restarts_of(context)
    for restart in restarts.found:
        if restart.is_blocked:
            pending = next(found for found in restart.impact.predictions if found.outcome == "pending")
            details = StaysPending(restart.impact, pending, restart.reasons, True, needs_class(pending))
            yield Problem(details, object=restart.ref)
        elif restart.rejection:
            problem = f"a restart now would not finish: {cut(restart.rejection, MAX_CHARACTERS)}"
            yield Problem(problem, remediation=_QUOTA_FIX, object=restart.ref)
    restarts.require_all()
