"""New Pods would stay Pending, because they fit on no node, even after preemption.

Why: kube-apiserver accepts the workload, but its Pods do not run until a node is added or other Pods terminate.

Details: forewarn considers only the current nodes. An autoscaler may add nodes. If a rollout terminates old Pods and
its new Pods then stay Pending, the message shows how many old Pods the rollout terminates. A Pod
of a PodGroup stays Pending with its group, for example until the group has `minCount` Pods.

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
        resources: {requests: {cpu: 1500m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: "3"}}

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: 400m}}

Fix: lower the requests below the allocatable resources of the largest node, or change node selectors, affinity or
tolerations. If Pods of a DaemonSet fit only without other Pods on their nodes, use a higher PriorityClass. `forewarn
predict` shows for each node why a Pod does not fit.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.metering import CutShort
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from forewarn.policies.rules.support.details import GroupPending, StaysPending
from forewarn.policies.rules.support.pending_reasons import needs_class, reasons_of
from forewarn.policies.rules.support.predictions import predicted_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.scheduling.reasons import Reason

ID: Final = "fits-nowhere"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.WARNING
_MAX_CHECKED: Final = 100
"""Maximum number of Pods with one possible node whose reasons are read."""
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for the new Pods that fit on no node."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    if impact.group is not None:
        if impact.group.outcome == "pending":
            yield Problem(GroupPending(impact, impact.group), template.at("schedulingGroup", "podGroupName"))
        return
    if not impact.pending:
        impact.check_bounds()
        return
    pending = [prediction for prediction in impact.predictions if prediction.outcome == "pending"][:_MAX_CHECKED]
    reasons: Sequence[tuple[Reason, int]] = ()
    is_class_needed = False
    with suppress(CutShort):
        reasons = reasons_of(pending)
        is_class_needed = needs_class(pending[0])
    details = StaysPending(impact, pending[0], reasons, needs_class=is_class_needed)
    yield Problem(details, template.at("priorityClassName" if is_class_needed else "containers"))
