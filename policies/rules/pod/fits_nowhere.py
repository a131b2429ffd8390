"""New Pods would stay Pending, because they fit on no node, even after preemption.

Why: kube-apiserver accepts the workload, but its Pods do not run until a node is added or other Pods terminate.

Details: forewarn considers only the current nodes. An autoscaler may add nodes. If a rollout terminates old Pods and
its new Pods then stay Pending, the message shows how many old Pods the rollout terminates.

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
tolerations. `forewarn predict` shows for each node why a Pod does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, plural
from policies.metering import CutShort
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import (
    fix_of,
    node_of,
    nodes_that_fit,
    of_new_pods,
    predicted_of,
    reasons_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.reviewed_object import ReviewedObject
    from policies.objects.workload import PodTemplate
    from policies.rules.support.impact import Impact
    from policies.scheduling.schedule_one import Prediction

ID: Final = "fits-nowhere"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.WARNING
_LOOKED_AT: Final = 100
"""Pods with a node each whose reasons are read."""
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")
_PREDICT: Final = "run `forewarn predict` for the reason on each node"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The new Pods that no node can take."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    if not impact.pending:
        impact.check_bounds()
        return
    try:
        yield _told(impact, template)
    except CutShort:
        what = "even with preemption: no known node fits; time ran out before the reasons were predicted"
        yield Problem(
            lambda audience: f"{_stay(impact, audience)} {what}",
            template.at("containers"),
            _PREDICT,
            detail=impact.to_dict(),
        )


def _stay(impact: Impact, audience: Audience) -> str:
    return f"{of_new_pods(impact.pending, impact, audience)}{'stays' if impact.new == 1 else 'stay'} Pending"


def _told(impact: Impact, template: PodTemplate) -> Problem:
    """The problem with its reasons. Raises CutShort."""
    pending = [prediction for prediction in impact.predictions if prediction.outcome == "pending"][:_LOOKED_AT]
    reasons = reasons_of(pending)
    stuck = pending[0]
    later = "" if node_of(stuck.pod) else ", unless an autoscaler adds one"

    def why(audience: Audience) -> str:
        if stuck.pre_filter is not None:
            return f": {reasons[0][0]}"
        return f" {_even(stuck)}: {nodes_that_fit(reasons, audience)}{later}"

    return Problem(
        lambda audience: (
            f"{_stay(impact, audience)}{why(audience)}{_rolled_out(impact, audience)}{impact.cut_short(audience)}"
        ),
        template.at("containers"),
        fix_of(reasons) or _PREDICT,
        detail=impact.to_dict(),
    )


def _even(stuck: Prediction) -> str:
    """Why preemption does not help."""
    reason = stuck.preemption.ineligible_reason
    return f"and may not preempt ({_reason(reason)})" if reason else "even with preemption"


def _reason(text: str) -> str:
    """kube-scheduler's reason, without how its sentence begins."""
    return text.rstrip(".").removeprefix("not eligible due to ")


def _rolled_out(impact: Impact, audience: Audience) -> str:
    if not impact.ended_first:
        return ""
    terminated = "old Pods" if audience.coarse else plural(impact.ended_first, "old Pod")
    return f". Its rollout terminates {terminated} before that"
