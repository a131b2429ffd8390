"""New pods would fit on no node, even after preemption.

Why: they stay pending until a node is added or something else goes. Only the nodes known now are looked at; an
autoscaler may bring one. Where a rollout ends old pods before that shows, it says how many.

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

Fix: ask for less than the largest node has, or mend selectors, affinity and tolerations; `forewarn predict` says what
each node lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, plural
from policies.metering import CutShort
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import listed_reasons, node_of, of_new_pods, predicted_of, reasons_of, shortened

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
"""Of so many pods that have a node each, the reasons are looked at."""
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the room that it misses may be there")
_FIX: Final = "forewarn predict says what each node lacks"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The new pods that no node can take."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    if not impact.pending:
        impact.check_bounds()
        return
    try:
        yield _told(subject, impact, template)
    except CutShort:
        what = "would fit on none of the nodes known now; why was not worked out in the time there was"
        yield Problem(
            lambda audience: f"{_who(subject, impact, audience)} {what}",
            template.at("containers"),
            _FIX,
            detail=impact.to_dict(),
        )


def _who(subject: ReviewedObject, impact: Impact, audience: Audience) -> str:
    pods = of_new_pods(impact.pending, impact, audience)
    return f"{shortened(subject.ref.name)} (priority {impact.priority}): {pods}"


def _told(subject: ReviewedObject, impact: Impact, template: PodTemplate) -> Problem:
    """With the reasons. Raises CutShort."""
    pending = [prediction for prediction in impact.predictions if prediction.outcome == "pending"][:_LOOKED_AT]
    reasons = reasons_of(pending)
    return Problem(
        lambda audience: (
            f"{_who(subject, impact, audience)} "
            f"{_why(pending[0], impact, listed_reasons(reasons, audience), audience)}{impact.cut_short(audience)}"
        ),
        template.at("containers"),
        "" if pending[0].pre_filter is not None else _FIX,
        detail=impact.to_dict(),
    )


def _why(stuck: Prediction, impact: Impact, reasons: str, audience: Audience) -> str:
    """What stands in the way of a pod that stays pending."""
    if stuck.pre_filter is not None:
        what = f"would fit on no node, whatever is free: {reasons}"
    else:
        reason = stuck.preemption.ineligible_reason
        never = f" It may not preempt: {reason.rstrip('.')}." if reason else ""
        count = len(stuck.statuses)
        nodes = f"fit on none of the {count} nodes known now" if count > 1 else "not fit on the only node known now"
        nodes = "fit on none of the nodes known now" if audience.coarse else nodes
        later = "; an autoscaler may bring a node"
        if node_of(stuck.pod):
            nodes, later = f"not fit on {'its node' if impact.pending == 1 else 'their nodes'}", ""
        what = f"would {nodes}{'' if reason else ', even after preemption'}.{never} {reasons}{later}"
    if impact.ended_first:
        ended = "old pods" if audience.coarse else plural(impact.ended_first, "old pod")
        what += f". Its rollout would end {ended} before that shows"
    return what
