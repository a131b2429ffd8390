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

from policies.findings import Action, Problem, Severity, plural
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import victims_of, victims_text
from policies.rules.support.placeholders import is_placeholder
from policies.rules.support.restarts import restarts_of
from policies.rules.support.rule_text import naming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject
    from policies.rules.support.restarts import Restart
    from policies.scheduling.schedule_one import Prediction

ID: Final = "restart-preempts"
TARGETS: Final = (Target.CLUSTER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")
_NAMED: Final = 3
"""Workloads that the note names."""
_MOST: Final = 100
"""Workloads in the detail for programs."""


def check(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The workloads whose restart preempts Pods of others; those that preempt only placeholder Pods in one note."""
    of_placeholders: list[tuple[Restart, list[Pod]]] = []
    for restart in restarts_of(context):
        own = restart.impact.own
        preempting = tuple(p for p in restart.impact.preempting if any(v.identity not in own for v in p.victims))
        victims = [victim for victim in victims_of(preempting) if victim.identity not in own]
        if restart.impact.why_not:
            yield _not_predicted(restart)
        elif not victims:
            continue
        elif all(is_placeholder(victim, context.options) for victim in victims):
            of_placeholders.append((restart, victims))
        else:
            yield _problem(restart, preempting, victims)
    if of_placeholders:
        yield _note(of_placeholders)


def _note(found: list[tuple[Restart, list[Pod]]]) -> Problem:
    """What the restarts of several workloads, each alone, do to placeholder Pods."""
    most = max(len(victims) for _, victims in found)
    told = plural(most, "placeholder Pod") if len(found) == 1 else f"at most {plural(most, 'placeholder Pod')} each"
    workloads = plural(len(found), "workload")

    def message(audience: Audience) -> str:
        named = [f"{r.ref.namespace}/{r.ref.name}" for r, _ in found if audience.is_told_of(r.ref.namespace)]
        before, after = f"restarts of {workloads}", f" would preempt {told}"
        return naming(f"{before} (", named, len(found), f"){after}", _NAMED) if named else f"{before}{after}"

    return Problem(
        message,
        remediation="none needed: placeholder Pods reserve this capacity",
        detail={"workloads": [str(restart.ref) for restart, _ in found[:_MOST]]},
        severity=Severity.NOTE,
    )


def _not_predicted(restart: Restart) -> Problem:
    return Problem(
        f"a restart is not predicted: {restart.impact.why_not}",
        remediation="restart it while its nodes have enough free capacity for the new Pods",
        object=restart.ref,
        detail=restart.impact.to_dict(),
        severity=Severity.NOTE,
    )


def _problem(restart: Restart, preempting: tuple[Prediction, ...], victims: list[Pod]) -> Problem:
    surges = restart.ref.kind != "StatefulSet"
    return Problem(
        lambda audience: (
            f"{victims_text('a restart now would preempt', preempting, victims, audience)}"
            f"{restart.impact.cut_short(audience)}"
        ),
        remediation="free capacity first, or set maxSurge: 0" if surges else "free capacity first",
        object=restart.ref,
        detail=restart.impact.to_dict(),
    )
