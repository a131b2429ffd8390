"""Restarting a workload now would leave it short of pods, or its rollout standing still.

Why: it runs, so nobody looks at it. But its nodes are cordoned or gone, others have its room, or it asks for more than
any node has left: what is made in the place of its pods finds none. Each workload is restarted alone, as `kubectl
rollout restart` does it, on the cluster as it is; an autoscaler may bring a node.

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

Fix: make room before it is restarted, or let a Deployment end old pods first (maxUnavailable); `forewarn predict` says
what each node lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import listed_reasons, of_new_pods, reasons_of
from policies.rules.support.restarts import restarts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject
    from policies.rules.support.restarts import Restart

ID: Final = "restart-stays-pending"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the room that it misses may be there")
_LOOKED_AT: Final = 100
"""Of so many pods that have a node each, the reasons are looked at."""


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The workloads whose restart comes to pods that fit nowhere."""
    for restart in restarts_of(context):
        if restart.stands_still:
            yield _problem(restart)


def _problem(restart: Restart) -> Problem:
    impact = restart.impact
    pending = [prediction for prediction in impact.predictions if prediction.outcome == "pending"]
    after = "; the old ones stay, and the rollout stands still" if impact.beside_old else ""
    return Problem(
        f"restarted now, {of_new_pods(impact.pending, impact)} (priority {impact.priority}) would stay pending: "
        f"{listed_reasons(reasons_of(pending[:_LOOKED_AT]))}{after}{impact.cut_short()}",
        remediation="make room first; forewarn predict says what each node lacks",
        object=restart.ref,
        detail=impact.to_dict(),
    )
