"""Rules about predictions for new Pods, and about selectors, PDBs and Jobs: evictions that they block or fail with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Action, Path, Problem, Severity, Text, cut, plural, quote
from forewarn.policies.forecast.impact import Impact, newly_preempted, victims_of
from forewarn.policies.kinds.registry import CRON_JOB, DEPLOYMENT, DISRUPTION_BUDGET, JOB, JOB_TEMPLATE, STATEFUL_SET
from forewarn.policies.manifests.deploy_order import is_recreated
from forewarn.policies.metering import CutShort, each
from forewarn.policies.objects.fields import NOTHING, ApiObject, InvalidObject, at, group_kind, int32, list_at, text
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.objects.workload import PodTemplate, is_fragment
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Phase, Target, rule
from forewarn.policies.rules.support.details import (
    Cause,
    GroupPending,
    GroupPreemption,
    NotPredicted,
    Preemption,
    StaysPending,
)
from forewarn.policies.rules.support.names import is_misspelt
from forewarn.policies.rules.support.predictions import is_placeholder, needs_class, predicted_of, reasons_of
from forewarn.policies.rules.support.rule_text import Labelled, class_name, naming, resolved, selected, workloads_in
from forewarn.policies.selectors import InvalidSelector, parse_label_selector

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import Promise
    from forewarn.policies.scheduling.reasons import Reason
    from forewarn.policies.scheduling.schedule_one import Prediction

    _Pods = tuple[str, str, str]
    _Preemption = tuple[Prediction, Pod]


_LONGEST_LABELS: Final = 60
_BUDGETS: Final = {Target.OTHER: "PodDisruptionBudgets"}
_SELECT_PODS: Final = "set selector.matchLabels to labels of the workload's Pods"


@rule(
    Target.POD,
    Target.TEMPLATE,
    Target.PART,
    Target.OTHER,
    severity=Severity.WARNING,
    reads_parts=True,
    objects=_BUDGETS,
)
def empty_selector(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A label selector of a PodDisruptionBudget or a topology spread constraint is empty or absent.

    Why: an absent selector selects no Pod. The empty selector `{}` selects all Pods of the namespace, not only the Pods
    of the workload. If two PodDisruptionBudgets select a running Pod, the Eviction API rejects its eviction.
    kube-scheduler up to 1.37 handles `{}` differently: a topology spread constraint counts no Pod, and preemption
    ignores the PodDisruptionBudget.

    Details: the finding is a warning for an absent selector, and for a topology spread constraint without effect. It is
    also a warning for a PodDisruptionBudget with `{}` if the input has another one with a selector in this namespace.
    Otherwise, it is a note. If the release is unknown, the rule assumes a release up to 1.37.

    Example:

          Deployment web
          spec:
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                topologySpreadConstraints:
                - maxSkew: 1
                  topologyKey: topology.kubernetes.io/zone
                  whenUnsatisfiable: DoNotSchedule
        -         labelSelector: {}
        +         labelSelector:
        +           matchLabels:
        +             app: web
          ---
          PodDisruptionBudget web
          spec:
            maxUnavailable: 1
        +   selector:
        +     matchLabels:
        +       app: web

    Fix: write the labels of the workload's Pods into the selector. If you want one PodDisruptionBudget for all Pods of
    the namespace, suppress the finding.
    """
    if group_kind(subject.object) == DISRUPTION_BUDGET:
        yield from _of_pdb(subject, context)
    if subject.is_partial:
        return
    template = context.template(subject)
    constraints = template.spec.get("topologySpreadConstraints") if template else None
    if template is None or not isinstance(constraints, list):
        return
    fix = _with_labels(template.object)
    for number, constraint in enumerate(constraints):
        message = _fault_of_constraint(constraint, context) if isinstance(constraint, dict) else None
        if message:
            path = template.at("topologySpreadConstraints", number, *_present(constraint, "labelSelector"))
            yield Problem(message, path, fix, severity=Severity.NOTE if _counts_all(constraint, context) else None)


def _of_pdb(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    spec = at(subject.object, "spec")
    if not isinstance(spec, dict):
        return
    is_removed = subject.object.get("apiVersion") != "policy/v1"  # there, the selector {} selects no Pod
    if subject.is_partial and ("selector" in spec or subject.whole != ("spec",)):
        return
    path = ("spec", *_present(spec, "selector"))
    if spec.get("selector") is None:
        yield Problem("no selector: the PodDisruptionBudget selects no Pod", path, _SELECT_PODS)
    elif _is_empty(spec["selector"]) and not is_removed:
        if any(_selects_too(other, subject) for other in context.of_kind(DISRUPTION_BUDGET)):
            message = "selector {} selects Pods with another PodDisruptionBudget: their evictions fail"
            yield Problem(message, path, _SELECT_PODS)
            return
        message = "selector {} selects all Pods of the namespace"
        if release := _ignoring(context):
            message += f"; preemption up to Kubernetes {release} ignores it"
        yield Problem(message, path, _SELECT_PODS, severity=Severity.NOTE)


def _selects_too(other: ReviewedObject, subject: ReviewedObject) -> bool:
    same = other.effective_namespace == subject.effective_namespace
    return same and other.ref.name != subject.ref.name and at(other.object, "spec", "selector") is not None


def _fault_of_constraint(constraint: ApiObject, context: Context) -> str:
    """The problem of a topology spread constraint; "" if there is none."""
    if constraint.get("labelSelector") is None:
        return "topology spread constraint without labelSelector counts no Pod: it has no effect"
    if not _is_empty(constraint["labelSelector"]) or constraint.get("matchLabelKeys"):
        return ""
    if release := _ignoring(context):
        return (
            f"labelSelector {{}} counts no Pod up to Kubernetes {release}: the topology spread constraint has no effect"
        )
    return "labelSelector {} counts all Pods of the namespace, not only those of the workload"


def _counts_all(constraint: ApiObject, context: Context) -> bool:
    return constraint.get("labelSelector") is not None and not _ignoring(context)


def _ignoring(context: Context) -> str:
    """The last release that ignores Pods that {} selects; "" if the given release counts them."""
    from forewarn.policies.releases.semantics import Semantics

    counts = context.minor is not None and Semantics(context.minor).empty_selectors_count
    return "" if counts else Semantics.empty_selectors_count.before


def _is_empty(selector: Any) -> bool:
    return isinstance(selector, dict) and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _present(obj: ApiObject, field: str) -> tuple[str, ...]:
    """The path of a field; if the field is absent, the path of the object itself."""
    return (field,) if field in obj else ()


def _with_labels(pod: ApiObject) -> str:
    labels = at(pod, "metadata", "labels") or NOTHING
    shown = ", ".join(f"{key}: {value}" for key, value in labels.items()) if isinstance(labels, dict) else ""
    if not shown or len(shown) > _LONGEST_LABELS:
        return "set labelSelector.matchLabels to labels of the workload's Pods"
    return f"set labelSelector.matchLabels to labels of the Pods, such as {{{cut(shown, _LONGEST_LABELS)}}}"


_ALLOW_ONE: Final = {
    "maxUnavailable": "set maxUnavailable: 1",
    "minAvailable": "replace minAvailable with maxUnavailable: 1",
}
_SCALED: Final = (DEPLOYMENT, STATEFUL_SET)


@rule(Target.OTHER, severity=Severity.WARNING, reads_parts=True, objects=_BUDGETS)
def evictions_blocked(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PodDisruptionBudget allows no evictions.

    Why: the Eviction API rejects evictions of Ready Pods. By default, `kubectl drain` then retries without end.
    kube-scheduler can still preempt these Pods.

    Details: the finding is a warning if `minAvailable` is at least the sum of the `replicas` of all selected workloads.
    The rule compares them only if all workloads are Deployments or StatefulSets with `replicas`. The finding is a note
    for `maxUnavailable: 0` and `minAvailable: 100%`, which are often intended. The rule also reports a
    PodDisruptionBudget with `minAvailable` and `maxUnavailable`, which kube-apiserver rejects.

    Example:

          PodDisruptionBudget team/web
          spec:
        -   minAvailable: 2
        +   maxUnavailable: 1
            selector:
              matchLabels:
                app: web
          ---
          Deployment team/web
          spec:
            replicas: 2
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                containers:
                - name: web
                  image: web

    Fix: replace `minAvailable` with `maxUnavailable: 1`, or run more replicas.
    """
    if group_kind(subject.object) != DISRUPTION_BUDGET:
        return

    from forewarn.policies.objects.workload import NO_EVICTION

    limits = [field for field in ("minAvailable", "maxUnavailable") if at(subject.object, "spec", field) is not None]
    if len(limits) > 1:
        message = "kube-apiserver rejects minAvailable and maxUnavailable together"
        yield Problem(message, ("spec", limits[0]), f"remove {limits[0]}")
    for field in ("maxUnavailable", "minAvailable"):
        value = at(subject.object, "spec", field)
        if (field, str(value)) in NO_EVICTION:
            message = f"{field} {value} allows no eviction: kubectl drain retries without end"
            yield Problem(
                message, ("spec", field), f"{_ALLOW_ONE[field]}, or suppress the finding", severity=Severity.NOTE
            )
    least = at(subject.object, "spec", "minAvailable")
    if not isinstance(least, int) or isinstance(least, bool) or least < 1 or subject.is_partial:
        return
    selector, namespace = at(subject.object, "spec", "selector"), subject.effective_namespace
    workloads = [workload for workload, _, _ in selected(selector, [namespace], context)]
    replicas = [at(w.object, "spec", "replicas") if group_kind(w.object) in _SCALED else None for w in workloads]
    total = sum(number for number in replicas if isinstance(number, int))
    if all(isinstance(number, int) for number in replicas) and 0 < total <= least:
        names = [f"{workload.ref.kind} {workload.ref.name}" for workload in workloads]
        message = naming(
            f"minAvailable {least} allows no eviction of the {plural(total, 'replica')} of ", names, len(names)
        )
        yield Problem(Text(message, f"{_ALLOW_ONE['minAvailable']}, or run more replicas"), ("spec", "minAvailable"))


_JOBS: Final = {JOB: (), CRON_JOB: JOB_TEMPLATE}
"""Kind -> path of the Job in an object of this kind."""


@rule(Target.TEMPLATE, severity=Severity.NOTE, reads_parts=True, objects={Target.TEMPLATE: "Jobs, CronJobs"})
def job_fails_on_eviction(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Job can fail if its Pods are evicted or preempted.

    Why: by default, a preempted or evicted Pod counts as failed. A Job fails if more of its Pods fail than
    `backoffLimit` (6 by default; unlimited with `backoffLimitPerIndex`).

    Details: the rule reports a Job with `backoffLimit: 0` or `backoffLimitPerIndex: 0`, or with more parallel Pods than
    `backoffLimit`. In a `podFailurePolicy`, `action: Ignore` for the Pod condition DisruptionTarget prevents the
    failure. The rule also reports `action: FailJob` for this condition, or for exit code 137 or 143. The first match
    in the policy counts.

    Example:

          Job team/report
          spec:
            backoffLimit: 0
        +   podFailurePolicy:
        +     rules:
        +     - action: Ignore
        +       onPodConditions:
        +       - type: DisruptionTarget
            template:
              spec:
                restartPolicy: Never
                containers:
                - name: c
                  image: report

    Fix: add `action: Ignore` for the Pod condition DisruptionTarget as the first rule of the `podFailurePolicy`. A
    `podFailurePolicy` needs `restartPolicy: Never` in the Pod template.
    """
    path = _JOBS.get(group_kind(subject.object))
    job = None if path is None else at(subject.object, *path) if path else subject.object
    if path is None or not isinstance(job, dict):
        return
    from forewarn.policies.objects.workload import IGNORE_DISRUPTIONS as FIX

    try:
        fault = _fault_of_job(job)
    except InvalidObject:
        return  # the API server rejects it
    if fault:
        message, field = fault
        never = text(job, "spec", "template", "spec", "restartPolicy") == "Never"
        yield Problem(message, (*path, "spec", field), FIX if never else f"{FIX}, with restartPolicy: Never")


@rule(
    Target.TEMPLATE,
    severity=Severity.ERROR,
    objects={Target.TEMPLATE: "Jobs"},
    depends_on=DependsOn(("workloads",), "the Job may have been deleted"),
)
def job_field_changed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An apply changes immutable fields of a Job, such as its Pod template.

    Why: kube-apiserver rejects the update, except for some fields of suspended Jobs.

    Details: the linter needs `--cluster`. The rule ignores hooks of Helm and Argo CD, and Jobs that Argo CD
    (`Force=true`) or Flux (`kustomize.toolkit.fluxcd.io/force`) deletes and recreates.

    Cluster:

        Job team/report
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: c, image: "report:1"}]

    Bad:

        Job team/report
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: c, image: "report:2"}]

    Good:

        Job team/report-2
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: c, image: "report:2"}]

    Fix: delete the Job first, or name it differently.
    """
    if context.cluster is None or group_kind(subject.object) != JOB or subject.is_patched:
        return
    if is_recreated(subject.object):
        return
    stored = context.cluster.workload(JOB, subject.effective_namespace, subject.ref.name)
    if stored is None:
        return
    from forewarn.policies.kube_apiserver.validation.job import FIX, validate_job_update
    from forewarn.policies.objects.workload import applied_to

    new = applied_to(stored.object, subject.object)
    for fault in validate_job_update(new, stored.object, context.cluster.semantics):
        yield Problem(str(fault), fault.path, FIX)


def _fault_of_job(job: ApiObject) -> tuple[str, str] | None:
    """Return the problem and the field of the Job's spec to report; None if there is none. Raises InvalidObject."""
    from forewarn.policies.objects.workload import backoff_limit, disruption_action, wanted_active

    action = disruption_action(job)
    if action == "FailJob":
        return (
            "eviction or preemption of one Pod fails the Job: a podFailurePolicy rule matches",
            "podFailurePolicy",
        )
    if action == "Ignore":
        return None
    limit, at_once = backoff_limit(job), wanted_active(job, 0, 0)
    if limit == 0:
        return "eviction or preemption of one Pod fails the Job: backoffLimit is 0", "backoffLimit"
    if at_once > limit:
        return (
            f"eviction or preemption of all {at_once} Pods at once fails the Job: backoffLimit is {limit}",
            "parallelism",
        )
    if int32(job, "spec", "backoffLimitPerIndex") == 0:
        fault = "eviction or preemption of one Pod fails its index: backoffLimitPerIndex is 0"
        return fault, "backoffLimitPerIndex"
    return None


@rule(
    Target.OTHER,
    severity=Severity.WARNING,
    depends_on=DependsOn(("pods",), "the Pods may have been created a moment ago"),
    objects=_BUDGETS,
)
def selector_without_pods(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The selector of a PodDisruptionBudget matches no Pod of the workloads in the input.

    Why: a PodDisruptionBudget without Pods protects nothing. `kubectl drain` can then evict all Pods of a workload at
    once.

    Details: the finding is a warning if a misspelled value of `matchLabels` is the only difference from the labels of a
    workload in the namespace. Otherwise, it is a note, because a controller may create the Pods. The rule ignores
    selectors without `matchLabels`, namespaces without workloads in the input, and PodDisruptionBudgets that select
    Pods of the cluster.

    Example:

          PodDisruptionBudget team/web
          spec:
            maxUnavailable: 1
            selector:
              matchLabels:
        -       app: webb
        +       app: web
          ---
          Deployment team/web
          spec:
            replicas: 2
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                containers:
                - name: web
                  image: web

    Fix: write the labels of the workload's Pods into the selector.
    """
    if group_kind(subject.object) != DISRUPTION_BUDGET or subject.is_partial or context.phase is not Phase.LINT:
        return
    selector, namespace = at(subject.object, "spec", "selector"), subject.effective_namespace
    labels = at(selector, "matchLabels")
    if not isinstance(labels, dict) or not labels or selected(selector, [namespace], context):
        return
    workloads = list(workloads_in([namespace], context))
    if not workloads or _is_used(selector, namespace, context):
        return
    message = "selects no Pod of the workloads in this input"
    for key, value in labels.items():
        rest = {**selector, "matchLabels": {k: v for k, v in labels.items() if k != key}}
        others = workloads if len(labels) == 1 else selected(rest, [namespace], context)
        for workload in others:
            meant = workload.labels.get(key)
            if isinstance(meant, str) and isinstance(value, str) and is_misspelt(value, meant):
                path = ("spec", "selector", "matchLabels", key)
                yield Problem(f"{message}. Did you mean {quote(meant)}?", path, f"write {key}: {meant}")
                return
    yield Problem(message, ("spec", "selector"), "write labels of the workload's Pods", severity=Severity.NOTE)


def _is_used(selector: object, namespace: str, context: Context) -> bool:
    """Report whether Pods of the cluster match a selector."""
    try:
        parsed = parse_label_selector(selector)  # type: ignore[arg-type]  # raises for other types
    except InvalidSelector:
        return True
    return any(parsed and pod.namespace == namespace and parsed.matches(pod.labels) for pod in context.pods)


_MAX_CHECKED: Final = 100
"""Maximum number of Pods with one possible node whose reasons are read."""


@rule(
    Target.POD,
    Target.UPDATED_POD,
    Target.TEMPLATE,
    severity=Severity.WARNING,
    action=Action.WARN,
    depends_on=DependsOn(ALL_SCHEDULED, "the missing capacity may be free"),
)
def fits_nowhere(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods would stay Pending, because they fit on no node, and preemption does not help.

    Why: kube-apiserver accepts the workload, but its Pods stay Pending until they fit on a node.

    Details: the linter needs `--cluster`. forewarn considers only the current nodes. An autoscaler may add nodes. All
    Pods of a PodGroup can stay Pending together, for example if fewer than `minCount` Pods fit.

    Cluster:

        Node node-1
        status:
          allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
        ---
        PriorityClass gold
        value: 1000
        ---
        Pod batch/report
        spec:
          nodeName: node-1
          priority: 0
          containers:
          - name: c
            image: report
            resources: {requests: {cpu: 1500m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

    Example:

          Pod team/web
          spec:
            priorityClassName: gold
            containers:
            - name: c
              image: web
        -     resources: {requests: {cpu: "3"}}
        +     resources: {requests: {cpu: 400m}}

    Fix: lower the requests, or change node selectors, affinity or tolerations. If Pods of a DaemonSet fit only without
    other Pods on their nodes, use a higher PriorityClass. `forewarn predict` shows why a Pod does not fit.
    """
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
    is_class_needed, of_all = False, None
    from forewarn.policies.forecast.why_not import cause  # the linter starts without it

    with suppress(CutShort):
        reasons = reasons_of(pending)
        is_class_needed = needs_class(pending[0])
        of_all = cause(pending[0])
    details = StaysPending(impact, pending[0], reasons, needs_class=is_class_needed, cause=of_all)
    yield Problem(details, template.at("priorityClassName" if is_class_needed else "containers"))


_PREEMPTION_FIX: Final = "lower requests or priority"
_PLACEHOLDERS_FIX: Final = "none needed: placeholder Pods reserve this capacity"
_UNMODELLED_FIX: Final = "keep enough capacity free, or use a PriorityClass that never preempts"


@rule(
    Target.POD,
    Target.UPDATED_POD,
    Target.TEMPLATE,
    severity=Severity.WARNING,
    action=Action.WARN,
    depends_on=DependsOn(ALL_SCHEDULED, "the missing capacity may be free"),
)
def preempts_running_pods(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods would preempt running Pods.

    Why: to free capacity for a Pod, kube-scheduler can preempt Pods with a lower priority. Kubernetes does not announce
    a preemption: the Event and the condition of the victim appear when it happens.

    Details: the linter needs `--cluster`. If kube-scheduler can choose others, a message that names nodes or victims of
    a Pod or workload contains, for example, "node-1 or node-2", "or another node" or "possibly". If all victims are
    placeholder Pods, the finding is a note, and the webhook does not warn. By default, placeholder Pods have a
    negative priority and only the pause image (`placeholderPods` in the configuration). The rule also warns if a
    rollout terminates old Pods, and Pending Pods would then preempt running Pods. For a Pod of a PodGroup, the rule
    warns about all victims of the group, even if they are placeholder Pods. If the prediction takes too long and
    shows no victim, the webhook warns with
    `[prediction-incomplete]`.

    Cluster:

        Node node-1
        status:
          allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
        ---
        PriorityClass gold
        value: 1000
        ---
        Pod batch/report
        spec:
          nodeName: node-1
          priority: 0
          containers:
          - name: c
            image: report
            resources: {requests: {cpu: 1500m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

    Example:

          Pod team/web
          spec:
            priorityClassName: gold
            containers:
            - name: c
              image: web
        -     resources: {requests: {cpu: "1"}}
        +     resources: {requests: {cpu: 400m}}

    Fix: lower the requests, use a lower class, or use a class with `preemptionPolicy: Never`. `forewarn predict` shows
    the victims and other candidate nodes.
    """
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    if impact.group is not None:
        if impact.group.units:
            path = template.at("schedulingGroup", "podGroupName")
            yield Problem(GroupPreemption(impact, impact.group, _PREEMPTION_FIX), path)
        return
    preempting, own, path = impact.preempting, impact.own | impact.let_in, template.at("priorityClassName")
    preempting = tuple(p for p in preempting if any(v.identity not in own and not v.terminating for v in p.victims))
    new = newly_preempted(preempting) - own
    victims = [victim for victim in victims_of(preempting) if victim.identity in new]
    if waiting := impact.by_waiting:
        fix = "free capacity for the Pending Pods first"
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
        _PLACEHOLDERS_FIX if are_placeholders else _PREEMPTION_FIX,
        placeholders,
        sum(prediction.num_pdb_violations for prediction in preempting),
        wait_seconds(victims),
        losses=losses_of(victims, context.cluster.workload) if context.cluster is not None else (),
    )
    return Problem(details, path, severity=Severity.NOTE if are_placeholders else None)


@rule(
    Target.TEMPLATE,
    severity=Severity.WARNING,
    action=Action.WARN,
    depends_on=DependsOn(ALL_SCHEDULED, "the missing capacity may be free"),
)
def rollout_preempts_itself(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A rollout would preempt old Pods of the same workload.

    Why: if the new template has a higher priority than the running Pods, new Pods can preempt old Pods.
    `maxUnavailable` does not limit preemption.

    Details: the linter needs `--cluster`. If `maxUnavailable` allows the Deployment to terminate old Pods at once, the
    message contains "may" instead of "would".

    Cluster:

        Node node-1
        status:
          allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
        ---
        PriorityClass gold
        value: 1000
        ---
        Pod team/web-1
          labels: {app: web}
        spec:
          nodeName: node-1
          priority: 0
          containers:
          - name: c
            image: web
            resources: {requests: {cpu: 1500m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

    Example:

          Deployment team/web
          spec:
            replicas: 1
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec:
        -       priorityClassName: gold
                containers:
                - name: c
                  image: web
        -         resources: {requests: {cpu: 1500m}}
        +         resources: {requests: {cpu: 400m}}

    Fix: free capacity before the rollout, or use the strategy Recreate. Or change the class when the workload may have
    fewer Pods for a short time.
    """
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    preempting = tuple(p for p in impact.preempting if any(v.identity in impact.own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if victim.identity in impact.own]
    if victims:
        fix = "free capacity first"
        fix = f"{fix}, or use strategy Recreate" if subject.ref.kind == "Deployment" else fix
        details = Preemption(Cause.OWN_ROLLOUT, impact, preempting, victims, fix)
        yield Problem(details, template.at("priorityClassName"))
    else:
        impact.check_bounds()


@rule(
    Target.POD,
    Target.UPDATED_POD,
    Target.TEMPLATE,
    severity=Severity.ERROR,
    action=Action.WARN,
    depends_on=DependsOn(ALL_SCHEDULED, "the missing capacity may be free"),
)
def violates_expectation(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods would preempt Pods that an expectation of the configuration protects.

    Why: an expectation names Pods that must not be preempted. Kubernetes does not enforce it.

    Details: the linter needs `--cluster`. Each entry of `expectations` selects protected Pods and preemptors. Unlike
    `forewarn test`, the rule ignores Pods that replacement Pods preempt. It does not check new Pods of PodGroups. With
    `actions: {violates-expectation: deny}`, the webhook denies Pods and workloads that violate an expectation, and
    objects that are too large for a prediction. It does not deny updates that only remove replicas. If a prediction is
    incomplete or not modelled, it denies only known violations.

    Options:

        expectations:
        - name: reports never preempt the shop
          expect:
            noPreemption: {namespace: shop}
            by: {class: reports}

    Cluster:

        Node node-1
        status:
          allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
        ---
        PriorityClass reports
        value: 1000
        ---
        Pod shop/web
        spec:
          nodeName: node-1
          priority: 0
          containers:
          - name: c
            image: web
            resources: {requests: {cpu: 1500m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

    Example (also preempts-running-pods):

          Pod reports/nightly
          spec:
            priorityClassName: reports
            containers:
            - name: c
              image: nightly
        -     resources: {requests: {cpu: "1"}}
        +     resources: {requests: {cpu: 400m}}

    Fix: lower the requests, use a lower class, or ask the owner of the expectation.
    """
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
    """The victims and their preemptors, grouped by the properties that expectations select, because most are equal."""
    by_properties: dict[tuple[_Pods, _Pods], list[_Preemption]] = {}
    for prediction in impact.preempting:
        by = _preemptor(prediction.pod, subject, template, cluster)
        for victim in each(prediction.victims):
            group = victim.namespace, victim.priority_class_name, cluster.top_workload_of(victim)
            by_properties.setdefault((by, group), []).append((prediction, victim))
    return by_properties


def _against(promise: Promise, preempted: dict[tuple[_Pods, _Pods], list[_Preemption]]) -> Iterator[_Preemption]:
    for by, victims in each(list(preempted)):
        if promise.by.matches(*by) and promise.preempted.matches(*victims):
            yield from preempted[by, victims]


def _preemptor(pod: Pod, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot) -> _Pods:
    """Return what expectations select of a new Pod: namespace, PriorityClass, top-level workload."""
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
    promise: Promise, hit: list[_Preemption], impact: Impact, subject: ReviewedObject, template: PodTemplate
) -> Problem:
    preempting = tuple({id(prediction): prediction for prediction, _ in hit}.values())
    protected = {victim.identity for _, victim in hit}
    victims = [victim for victim in victims_of(preempting) if victim.identity in protected]

    details = Preemption(
        Cause.NEW_PODS, impact, preempting, victims, "lower requests or priority, or ask its owner", expectation=promise
    )
    severity = Severity.NOTE if _scales_down(subject) else None
    return Problem(details, template.at("priorityClassName"), severity=severity)


def _not_known(not_broken: int, impact: Impact, template: PodTemplate) -> Problem:
    """Return the note about `not_broken` expectations that were not checked. A missing prediction never denies."""
    details = NotPredicted(impact, "run `forewarn predict`", expectations=not_broken)
    return Problem(details, template.at("priorityClassName"), severity=Severity.NOTE)


_TERMS: Final = ("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_MAX_TERMS: Final = 20


@rule(
    Target.POD,
    Target.TEMPLATE,
    severity=Severity.WARNING,
    depends_on=DependsOn(("classes",), "the class may be deleted and created with another value"),
)
def affinity_to_lower_priority(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods require affinity to Pods of a lower priority.

    Why: to find victims, kube-scheduler evaluates a node without its Pods of lower priority. If only these Pods satisfy
    the affinity, preemption does not help on this node, and the new Pod can stay Pending. Kubernetes recommends
    affinity only to Pods of equal or higher priority.

    Details: the rule compares required Pod affinity with the workloads of the input. It reports an affinity term if all
    workloads that satisfy the term have a known, lower priority. It ignores Pods that never preempt, and terms with
    `namespaceSelector`.

    Bad:

        PriorityClass gold
        value: 1000
        ---
        Pod team/cache
          labels:
            app: cache
        spec:
          containers:
          - name: cache
            image: cache
        ---
        Pod team/web
        spec:
          priorityClassName: gold
          affinity:
            podAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    app: cache
          containers:
          - name: web
            image: web

    Good:

        PriorityClass gold
        value: 1000
        ---
        Pod team/cache
          labels:
            app: cache
        spec:
          priorityClassName: gold
          containers:
          - name: cache
            image: cache
        ---
        Pod team/web
        spec:
          priorityClassName: gold
          affinity:
            podAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    app: cache
          containers:
          - name: web
            image: web

    Fix: give the other Pods at least the same priority, or use preferred affinity.
    """
    template = context.template(subject) if context.phase is Phase.LINT else None
    terms = at(template.spec, *_TERMS) if template else None
    namespace = subject.effective_namespace
    own = resolved(template, context, namespace) if template and isinstance(terms, list) else None
    if template is None or terms is None or own is None or own.preemption_policy == PREEMPT_NEVER:
        return
    for number, term in enumerate(terms[:_MAX_TERMS]):
        others = _satisfying(term, subject, context)
        known = [resolved(w.template, context, w.subject.effective_namespace) for w in others]
        priorities = [other.priority for other in known if other]
        if len(priorities) == len(others) > 0 and max(priorities) < own.priority:
            message = (
                f"required affinity to {others[0].subject.ref} of priority {max(priorities)}, below {own.priority}"
            )
            text = Text(message, f"give it priority {own.priority}, or use preferred affinity")
            yield Problem(text, template.at(*_TERMS, number))


def _satisfying(term: Any, subject: ReviewedObject, context: Context) -> list[Labelled]:
    """The workloads that a term selects; none if its own Pods satisfy it, or with a namespaceSelector (unknown)."""
    names = [name for name in list_at(term, "namespaces") if isinstance(name, str)]
    namespaces = () if at(term, "namespaceSelector") is not None else names or [subject.effective_namespace]
    workloads = selected(at(term, "labelSelector"), namespaces, context)
    return [] if any(workload.subject is subject for workload in workloads) else workloads


_HIGH: Final = 1_000_000


@rule(
    Target.POD,
    Target.TEMPLATE,
    severity=Severity.NOTE,
    depends_on=DependsOn(("classes",), "the class may be deleted and created with another value"),
)
def high_class_without_requests(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods of a high class that can preempt have no requests for cpu or memory.

    Why: a Pod without requests fits even on nodes without free cpu and memory, so it preempts no Pods for cpu or
    memory. Under memory pressure, the kubelet first evicts Pods that use more memory than they request, and of these
    first those of lower priority. It never evicts Pods with priority 2000000000 or higher.

    Details: a class is high if its value is at least 1000000. The rule reports a Pod without any request or limit for
    cpu or memory in its containers and in `spec.resources`. It ignores namespaces with a LimitRange.

    Bad:

        Pod kube-system/agent
        spec:
          priorityClassName: system-node-critical
          containers:
          - name: agent
            image: agent

    Good:

        Pod kube-system/agent
        spec:
          priorityClassName: system-node-critical
          containers:
          - name: agent
            image: agent
            resources:
              requests:
                cpu: 100m
                memory: 64Mi

    Fix: set requests for cpu and memory.
    """
    template = context.template(subject) if context.phase is Phase.LINT else None
    if template is None or not class_name(template) or (template.is_template and is_fragment(subject.object, template)):
        return
    own = resolved(template, context)
    if own is None or own.priority < _HIGH or own.preemption_policy == PREEMPT_NEVER:
        return
    parts = [template.spec, *list_at(template.spec, "initContainers"), *list_at(template.spec, "containers")]
    if len(parts) > 1 and not any(map(_requests, parts)) and not context.limit_ranges_of(subject.effective_namespace):
        message = f"priority {own.priority}, but no requests: it preempts no Pods for cpu or memory"
        yield Problem(message, template.at("containers"), "set requests for cpu and memory")


def _requests(part: ApiObject) -> bool:
    return any(at(part, "resources", field, name) for field in ("requests", "limits") for name in ("cpu", "memory"))
