"""New Pods would preempt Pods that an expectation of the configuration protects.

Why: with an expectation, you guarantee tenants that certain other Pods never preempt the tenants' Pods. Kubernetes does
not enforce such a guarantee.

Details: each entry of `expectations` selects protected Pods and preemptors, as in `forewarn test`. The rule uses the
same prediction as the rule `preempts-running-pods`. This prediction contains the Pods that the new Pods preempt, but
not the Pods that replacement Pods then preempt; `forewarn test` checks both. If several nodes tie, the rule uses the
first node by name. By default, the webhook warns. With `actions: {violates-expectation: deny}`, it denies Pods and
workloads. It also denies a Pod that exceeds a limit for predictions, and names the field and the limit. The webhook
does not deny an update that only removes replicas, or a request for which the prediction took too long. In these two
cases, forewarn writes a note to the audit log.

Options:

    expectations:
    - name: reports never preempt the shop
      expect:
        noPreemption: {namespace: shop}
        by: {class: reports}

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
      name: reports
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: shop
    spec:
      nodeName: node-1
      priority: 0
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: 1500m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

Bad (also preempts-running-pods):

    apiVersion: v1
    kind: Pod
    metadata:
      name: nightly
      namespace: reports
    spec:
      priorityClassName: reports
      containers:
      - name: c
        image: nightly
        resources: {requests: {cpu: "1"}}

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: nightly
      namespace: reports
    spec:
      priorityClassName: reports
      containers:
      - name: c
        image: nightly
        resources: {requests: {cpu: 400m}}

Fix: lower the requests, use a lower class, or ask the owner of the expectation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.forecast.impact import victims_of
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import NOTHING, at
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from forewarn.policies.rules.support.details import Cause, NotPredicted, Preemption
from forewarn.policies.rules.support.predictions import predicted_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate
    from forewarn.policies.options import Promise
    from forewarn.policies.scheduling.schedule_one import Prediction

    _Pods = tuple[str, str, str]
    _Preemption = tuple[Prediction, Pod]

ID: Final = "violates-expectation"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each expectation that a subject's new Pods violate."""
    promises = context.options.promises
    impact, template = (predicted_of(context).of(subject), context.template(subject)) if promises else (None, None)
    if impact is None or template is None or context.cluster is None:
        return
    preempted, not_broken = _preempted(impact, subject, template, context.cluster), 0
    for promise in promises:
        hit = list(_against(promise, preempted))
        if hit:
            yield _broken(promise, hit, impact, subject, template)
        else:
            not_broken += 1
    if not_broken and (impact.is_incomplete or impact.why_not):
        impact.check_bounds()
        yield _not_known(not_broken, impact, template)


def _preempted(
    impact: Impact, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot
) -> dict[tuple[_Pods, _Pods], list[_Preemption]]:
    """Return the victims and their preemptors, grouped by the properties that expectations select, because most are
    equal.
    """
    found: dict[tuple[_Pods, _Pods], list[_Preemption]] = {}
    for prediction in impact.preempting:
        by = _preemptor(prediction.pod, subject, template, cluster)
        for victim in each(prediction.victims):
            group = victim.namespace, victim.priority_class_name, cluster.top_workload_of(victim)
            found.setdefault((by, group), []).append((prediction, victim))
    return found


def _against(promise: Promise, preempted: dict[tuple[_Pods, _Pods], list[_Preemption]]) -> Iterator[_Preemption]:
    for by, victims in each(list(preempted)):
        if promise.by.matches(*by) and promise.preempted.matches(*victims):
            yield from preempted[by, victims]


def _preemptor(pod: Pod, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot) -> _Pods:
    """Return the properties of a new Pod that expectations select: namespace, PriorityClass, workload.

    The workload is the top-level workload.
    """
    if not template.is_template:
        return pod.namespace, pod.priority_class_name, cluster.top_workload_of(pod)
    from forewarn.policies.objects.pod import Owner  # the linter starts without it

    owner = Owner.from_api(subject.object)
    name = owner.name if owner else subject.ref.name
    return pod.namespace, pod.priority_class_name, f"{pod.namespace}/{name}"


def _scales_down(subject: ReviewedObject) -> bool:
    """Report whether an update only reduces the replicas: its new Pods are then Pods that were missing before."""
    new, old = at(subject.object, "spec"), at(subject.old or NOTHING, "spec")
    if not isinstance(new, dict) or not isinstance(old, dict):
        return False
    count, before = new.get("replicas"), old.get("replicas", 1)
    fewer = isinstance(count, int) and isinstance(before, int) and count < before
    return fewer and {**new, "replicas": 0} == {**old, "replicas": 0}


def _broken(
    promise: Promise,
    hit: list[_Preemption],
    impact: Impact,
    subject: ReviewedObject,
    template: PodTemplate,
) -> Problem:
    preempting = tuple({id(prediction): prediction for prediction, _ in hit}.values())
    protected = {victim.identity for _, victim in hit}
    victims = [victim for victim in victims_of(preempting) if victim.identity in protected]

    details = Preemption(
        Cause.NEW_PODS,
        impact,
        preempting,
        victims,
        "lower requests or priority, or ask its owner",
        expectation=promise,
    )
    severity = Severity.NOTE if _scales_down(subject) else None
    return Problem(details, template.at("priorityClassName"), severity=severity)


def _not_known(not_broken: int, impact: Impact, template: PodTemplate) -> Problem:
    """Return the note about `not_broken` expectations that were not checked. A missing prediction never denies."""
    details = NotPredicted(impact, "run `forewarn predict`", expectations=not_broken)
    return Problem(details, template.at("priorityClassName"), severity=Severity.NOTE)
