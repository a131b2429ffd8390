"""New Pods would preempt running Pods.

Why: to free capacity for a Pod, kube-scheduler preempts Pods with a lower priority. It reports the preemption only
afterwards.

Details: forewarn runs kube-scheduler's algorithm on every node. If several nodes or victims are equally suitable, or if
kube-scheduler tries only a random part of the nodes, the message contains "or another node" and "possibly". For a
changed template, forewarn predicts all new Pods. A Deployment starts new Pods while old Pods run. A StatefulSet or
DaemonSet replaces each old Pod with a new Pod. If topology spread constraints or affinity concern Pods of the same
workload, or if victims free quota, forewarn also predicts the retries of its Pods. If time remains, forewarn also
predicts whether controllers recreate the victims, and whether the replacement Pods fit, stay Pending or preempt more
Pods. The message names the custom resources and Jobs that fail without a victim, as a SparkApplication without its
driver. If all victims are placeholder Pods, the finding is a note and the webhook does not warn. `placeholderPods` in
the configuration selects placeholder Pods. By default, placeholder Pods are Pods with a negative priority and only the
pause image. If a rollout terminates old Pods, Pending Pods of other workloads may use the free capacity. The rule
reports these Pending Pods only if they preempt running Pods, and are not themselves preempted by new Pods of the
rollout. The rule does not evaluate changes that create no Pods, such as a smaller number of replicas or a deletion. To
see which Pending Pods start after such a change, run `forewarn whatif scale` or `forewarn whatif delete`. For a Pod of
a PodGroup, the rule reports the victims of the whole group, with its Pending Pods in the cluster. If the time for the
prediction runs out before a victim is known, the id of the message is `prediction-incomplete`, and the webhook warns
even if this rule denies.

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
        resources: {requests: {cpu: "1"}}

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

Fix: lower the requests, use a lower class, or set preemptionPolicy: Never in the class. `forewarn predict` shows the
victims and other candidate nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.forecast.impact import victims_of
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from forewarn.policies.rules.support.details import Cause, GroupPreemption, NotPredicted, Preemption
from forewarn.policies.rules.support.placeholders import is_placeholder
from forewarn.policies.rules.support.predictions import predicted_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.scheduling.schedule_one import Prediction

ID: Final = "preempts-running-pods"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")
_FIX: Final = "lower requests or priority"
_PLACEHOLDERS_FIX: Final = "none needed: placeholder Pods reserve this capacity"
_UNMODELLED_FIX: Final = "keep enough capacity free, or use a PriorityClass that never preempts"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for the Pods of other workloads that a subject's new Pods preempt."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    if impact.group is not None:
        if impact.group.units:
            path = template.at("schedulingGroup", "podGroupName")
            yield Problem(GroupPreemption(impact, impact.group, _FIX), path)
        return
    preempting, own, path = impact.preempting, impact.own | impact.let_in, template.at("priorityClassName")
    if own:
        preempting = tuple(p for p in preempting if any(v.identity not in own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if not own or victim.identity not in own]
    if waiting := impact.by_waiting:
        fix = "free capacity for the pending Pods first"
        yield Problem(Preemption(Cause.PENDING_PODS, impact, waiting, victims_of(waiting), fix), path)
    if impact.why_not:
        yield Problem(NotPredicted(impact, _UNMODELLED_FIX), path)
    if victims:
        yield _preemption(impact, preempting, victims, path, context)
    elif impact.is_incomplete and not (impact.preempting or (impact.pending and impact.first_only)):
        impact.check_bounds()
        is_late = impact.rest == "unknown"
        yield Problem(NotPredicted(impact, "run `forewarn predict`", is_stale=True), path, is_incomplete=is_late)


def _preemption(
    impact: Impact, preempting: tuple[Prediction, ...], victims: list[Pod], path: Path, context: Context
) -> Problem:
    from forewarn.policies.objects.pod import wait_seconds  # the linter starts without it
    from forewarn.policies.objects.pod_loss import losses_of

    placeholders = [victim for victim in victims if is_placeholder(victim, context.options)]
    are_placeholders = len(placeholders) == len(victims)
    details = Preemption(
        Cause.NEW_PODS,
        impact,
        preempting,
        victims,
        _PLACEHOLDERS_FIX if are_placeholders else _FIX,
        placeholders,
        sum(prediction.num_pdb_violations for prediction in preempting),
        wait_seconds(victims),
        losses=losses_of(victims, context.cluster.workload) if context.cluster is not None else (),
    )
    return Problem(details, path, severity=Severity.NOTE if are_placeholders else None)
