"""A rollout would push out its own old pods.

Why: when the new template has a higher priority than the pods that run, the pods of the new revision preempt those of
the old one, all at once and without regard to maxUnavailable. If maxUnavailable lets the Deployment end old pods at
once, it depends on timing which of them are preempted: the text says `may`.

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

Fix: make room first, use the strategy Recreate, or raise the priority at a time when the gap does not hurt.
maxSurge: 0 is no help: a new pod comes while the old one is still ending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import described, on_nodes, predicted_of, shortened, victims_heading, victims_of
from policies.rules.support.rule_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "rollout-preempts-itself"
TARGETS: Final = (Target.TEMPLATE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the room that it misses may be there")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The victims among a workload's own pods."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    preempting = tuple(p for p in impact.preempting if any(v.identity in impact.own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if victim.identity in impact.own]
    if victims:
        name = shortened(subject.ref.name)
        timing = ", depending on which old pods end before" if impact.by_timing else ""
        verb = "may" if timing else "would"
        yield Problem(
            lambda audience: (
                f"{name} (priority {impact.priority}): its rollout {verb} preempt "
                f"{counted(len(victims), 'pod', audience)} of its own{timing}{on_nodes(preempting, audience)}. "
                f"{victims_heading(preempting, audience)}{described(victims, audience)}{impact.cut_short(audience)}"
            ),
            template.at("priorityClassName"),
            "make room first, or use the strategy Recreate" if subject.ref.kind == "Deployment" else "make room first",
            detail=impact.to_dict(),
        )
    else:
        impact.check_bounds()
