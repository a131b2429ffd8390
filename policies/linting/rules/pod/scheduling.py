"""Rules about the prediction for new Pods: where they fit, and which Pods they preempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Action, Path, Problem, Severity, Text, cut, grouped, listed, plural, quote
from forewarn.policies.base.light import later
from forewarn.policies.base.metering import CutShort, charging
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, found_at
from forewarn.policies.kubernetes.kinds.registry import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    ROLLOUT,
    SCHEDULER_CONFIGURATION,
    STATEFUL_SET,
    VOLUME,
)
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    PREFERRED,
    REQUIRED,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    list_at,
    mapping_at,
    namespace_of,
    string_map,
    text_at,
)
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.workload import PodTemplate, is_fragment
from forewarn.policies.kubernetes.selectors import selector_or_error
from forewarn.policies.linting.rules.support.context import (
    ALL_SCHEDULED,
    POD_OR_TEMPLATE,
    POD_SPECS,
    Context,
    Phase,
    Target,
    rule,
)
from forewarn.policies.linting.rules.support.details import (
    Cause,
    GroupPending,
    GroupPreemption,
    NotPredicted,
    Preemption,
    StaysPending,
)
from forewarn.policies.linting.rules.support.names import Lookups, Names, is_misspelt
from forewarn.policies.linting.rules.support.predictions import (
    ROLL,
    Predicted,
    is_placeholder,
    needs_class,
    reasons_of,
    with_rollout_fix,
)
from forewarn.policies.linting.rules.support.rule_text import (
    AFFINITY_TERMS,
    MAX_WORKLOADS,
    Comparisons,
    Labelled,
    autoscaler_of,
    class_name,
    diagnostics,
    integer,
    is_template_variable,
    namespace_of_others,
    only_on_workload,
    resolved,
    satisfying,
    selected,
    workloads_in,
)
from forewarn.policies.linting.rules.support.scalers import scalers_of_workloads
from forewarn.policies.prediction.forecast.impact import Impact, newly_preempted, victims_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.options import Promise
    from forewarn.policies.kubernetes.scheduling.reasons import Reason
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    _Pods = tuple[str, str, str]
    _Preemption = tuple[Prediction, Pod]


_NEW_PODS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
_MAX_CHECKED: Final = 100
"""Maximum number of Pods with one possible node whose reasons are read."""


@rule(*_NEW_PODS, severity=Severity.WARNING, action=Action.WARN, depends_on=ALL_SCHEDULED)
def fits_nowhere(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods would stay Pending, because they fit on no node, and preemption does not help.

    Why: kube-apiserver accepts the workload, but its Pods stay Pending until they fit on a node.

    Details: the linter needs `--cluster`. The prediction uses the current nodes; an autoscaler may add others. The
    linter also reports a Deployment whose Pods fit now, but whose rollouts would be blocked. That happens if host ports
    or a required anti-affinity permit one Pod per node, all nodes have one, and `maxUnavailable` is 0.

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

    Fix: lower the requests, or change node selectors, affinity or tolerations. `forewarn predict` shows why a Pod does
    not fit.
    """
    impact, template = context.once(Predicted).impact_of(subject), context.template(subject)
    if impact is None or template is None:
        return
    if impact.group is not None:
        if impact.group.outcome == "pending":
            yield Problem(GroupPending(impact, impact.group), template.at("schedulingGroup", "podGroupName"))
        return
    if not impact.pending:
        impact.check_bounds()
        yield from _later_rollouts(template, subject, context)
        return
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import validate  # the linter starts without it

    pending = [prediction for prediction in impact.predictions if prediction.outcome == "pending"][:_MAX_CHECKED]
    if context.phase is Phase.LINT and pending[0].error and validate(subject.object, context.semantics):
        return  # kube-apiserver rejects it
    reasons: Sequence[tuple[Reason, int]] = ()
    is_class_needed, of_all, elsewhere = False, None, ""
    from forewarn.policies.kubernetes.scheduling.plugins.one_node import CHANGE_SELECTOR  # the linter starts without
    from forewarn.policies.prediction.forecast.why_not import cause, fixes_of_topology, other_topology

    with suppress(CutShort):
        reasons = reasons_of(pending)
        is_class_needed = needs_class(pending[0])
        of_all, topology = cause(pending[0]), other_topology(pending[0])
        if topology is not None:
            elsewhere = f" in another {topology}"
            fixes = [*fixes_of_topology(pending[0])]
            reasons = [(reason.with_fixes(*fixes), nodes) for reason, nodes in reasons]
        reasons = with_rollout_fix(reasons, pending[0], impact, subject.ref.kind)
    details = StaysPending(impact, pending[0], reasons, needs_class=is_class_needed, cause=of_all, elsewhere=elsewhere)
    field = "priorityClassName" if is_class_needed else "containers"
    if of_all is not None and CHANGE_SELECTOR in of_all.fixes and "nodeSelector" in template.spec:
        field = "nodeSelector"
    yield Problem(details, template.at(field))


def _later_rollouts(template: PodTemplate, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report replicas that exclude each other from nodes, and need all of them, if rollouts delete no Pod first."""
    replicas = _surging(subject, context) if context.phase is Phase.LINT else 0
    if context.cluster is None or not replicas or autoscaler_of(context.cluster):
        return
    from forewarn.policies.kubernetes.controllers.templates import made_of
    from forewarn.policies.kubernetes.objects.node import untolerated_taint
    from forewarn.policies.kubernetes.objects.pod import Pod

    spec = Pod.from_api(made_of(subject.effective_namespace, subject.object, template.object)).spec
    for key, selector in _exclusions(template.spec):
        places = set[str]()
        for info in charging(context.cluster.scheduling.node_infos if _selects_updated(selector, subject) else ()):
            lasting = (taint for taint in info.node.taints if not taint.key.startswith(_OF_CONDITIONS))
            is_possible = spec.node_affinity.matches(info.node.labels, info.name)
            if is_possible and not untolerated_taint(lasting, spec.tolerations):
                places.add(info.node.labels.get(key, ""))
                if "" in places or len(places) > replicas:
                    break
        if len(places) == replicas and "" not in places:
            yield _blocked_rollouts(replicas, key, subject, "add a node")
            return


_OF_CONDITIONS: Final = "node.kubernetes.io/"
"""The prefix of taints that last for a time."""
_HOSTNAME: Final = "kubernetes.io/hostname"


def _surging(subject: ReviewedObject, context: Context) -> int:
    """Return the replicas of a Deployment whose rollouts create a Pod before they delete one; 0 for other objects."""
    if group_kind(subject.object) != DEPLOYMENT:
        return 0
    from forewarn.policies.kubernetes.controllers.deployment import is_rolling, max_unavailable

    scalers = context.once(scalers_of_workloads).get((subject.effective_namespace, subject.ref.name), ())
    replicas = at(subject.object, "spec", "replicas")
    replicas = integer((scalers[0].minimum if scalers else 1) if replicas is None else replicas)
    with suppress(InvalidObject):
        is_surging = (
            bool(replicas) and is_rolling(subject.object) and not max_unavailable(subject.object, replicas or 0)
        )
        return max(replicas or 0, 0) if is_surging else 0
    return 0


def _blocked_rollouts(replicas: int, key: str, subject: ReviewedObject, fix: str) -> Problem:
    """Return the problem of a Deployment whose Pods exclude new ones from all values of a label. `fix`: another one."""
    path = ("spec", "strategy", "rollingUpdate", "maxUnavailable")
    value = at(subject.object, *path)
    places = plural(replicas, *(("node",) if key == _HOSTNAME else (f"value of {key}", f"values of {key}")))
    exclude = f"rollouts would be blocked: running Pods exclude new ones from {replicas} of {places}"
    message = f"{exclude}, and maxUnavailable {'is' if str(value) in _NONE else 'rounds down to'} 0"
    return Problem(message, ("spec", "replicas") if value is None else path, f"{ROLL}, or {fix}")


def _exclusions(spec: ApiObject) -> Iterator[tuple[str, ApiObject | None]]:
    """Yield the topology keys in which a Pod excludes others: all with its host ports (None), or those that a label
    selector selects.
    """
    if next(_host_ports(spec), 0):
        yield _HOSTNAME, None
    for _, term in found_at(spec, ("affinity", "podAntiAffinity", REQUIRED, ITEMS)):
        if term.keys() == {"topologyKey", "labelSelector"}:
            yield text_at(term, "topologyKey"), mapping_at(term, "labelSelector")


def _selects(selector: ApiObject | None, labels: Mapping[str, str]) -> bool:
    return selector is None or ((parsed := selector_or_error(selector)[0]) is not None and parsed.matches(labels))


def _selects_updated(selector: ApiObject | None, subject: ReviewedObject) -> bool:
    """Report whether a selector selects the Pods of a workload after an update, by labels that are immutable."""
    return _selects(selector, string_map(subject.object, "spec", "selector", "matchLabels"))


_PREEMPTION_FIX: Final = "lower requests or priority"
_DAEMONS_FIX: Final = "lower requests"  # daemon-set-without-class asks for a priority above other workloads
_PLACEHOLDERS_FIX: Final = "none needed: placeholder Pods reserve this capacity"
_UNMODELLED_FIX: Final = "keep enough capacity free, or use a PriorityClass that never preempts"


@rule(*_NEW_PODS, severity=Severity.WARNING, action=Action.WARN, depends_on=ALL_SCHEDULED)
def preempts_running_pods(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods would preempt running Pods.

    Why: Kubernetes does not announce a preemption: the Event and the condition of the victim appear when it happens.

    Details: the linter needs `--cluster`. Words such as "possibly", "about" or "another node" in the message mean that
    kube-scheduler can choose other nodes or victims. If all victims are placeholder Pods (`placeholderPods` in the
    configuration), the finding is usually a note, and the webhook does not warn. If a prediction takes too long and
    shows no victim, the webhook warns with `[prediction-incomplete]`.

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
    the victims and how many other candidate nodes exist.
    """
    impact, template = context.once(Predicted).impact_of(subject), context.template(subject)
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
        fix = _DAEMONS_FIX if group_kind(subject.object) == DAEMON_SET else _PREEMPTION_FIX
        yield _preemption(impact, preempting, victims, path, context, fix)
    elif started := _started_victims(impact, context):
        yield Problem(Preemption(Cause.STARTED, impact, (), started, "free capacity for the Pending Pods first"), path)
    elif impact.is_incomplete and not (impact.preempting or (impact.pending and impact.first_only)):
        impact.check_bounds()
        is_late = impact.rest == "unknown"
        yield Problem(NotPredicted(impact, "run `forewarn predict`", is_stale=True), path, is_incomplete=is_late)


def _started_victims(impact: Impact, context: Context) -> list[Pod]:
    """Return the preempted Pods of a rollout that preempts none of those that ran before; [] for other rollouts."""
    if impact.preempting or impact.by_waiting:
        return []
    return [pod for pod in impact.evicted if not is_placeholder(pod, context.options)]


def _preemption(
    impact: Impact, preempting: tuple[Prediction, ...], victims: list[Pod], path: Path, context: Context, fix: str
) -> Problem:
    from forewarn.policies.kubernetes.objects.pod import wait_seconds  # the linter starts without it
    from forewarn.policies.kubernetes.objects.pod_loss import losses_of

    placeholders = [victim for victim in victims if is_placeholder(victim, context.options)]
    are_placeholders = len(placeholders) == len(victims)
    if placeholders and not are_placeholders:  # as in `Predicted.effects`, they are no part of another counter
        reserved = {placeholder.identity for placeholder in placeholders}
        victims = [victim for victim in victims if victim.identity not in reserved]
    workloads = set[str]()
    if context.cluster is not None and not any(prediction.may_be_others for prediction in preempting):
        workloads = {context.cluster.top_workload_of(victim) for victim in victims}
    details = Preemption(
        Cause.NEW_PODS,
        impact,
        preempting,
        victims,
        _PLACEHOLDERS_FIX if are_placeholders else fix,
        placeholders,
        sum(prediction.num_pdb_violations for prediction in preempting),
        wait_seconds(victims),
        losses=losses_of(victims, context.cluster.workload) if context.cluster is not None else (),
        workload=workloads.pop() if len(workloads) == 1 < len(victims) else "",
    )
    return Problem(details, path, severity=Severity.NOTE if are_placeholders else None)


@rule(Target.TEMPLATE, severity=Severity.WARNING, action=Action.WARN, depends_on=ALL_SCHEDULED)
def rollout_preempts_itself(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A rollout would preempt old Pods of the same workload.

    Why: if the new template has a higher priority than the running Pods, new Pods can preempt old Pods.
    `maxUnavailable` does not limit preemption.

    Details: the linter needs `--cluster`.

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

    Fix: free capacity before the rollout, or use the strategy Recreate in a Deployment.
    """
    impact, template = context.once(Predicted).impact_of(subject), context.template(subject)
    if impact is None or template is None:
        return
    preempting = tuple(p for p in impact.preempting if any(v.identity in impact.own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if victim.identity in impact.own]
    if victims:
        fix = f"free capacity first{', or use strategy Recreate' if subject.ref.kind == 'Deployment' else ''}"
        yield Problem(Preemption(Cause.OWN_ROLLOUT, impact, preempting, victims, fix), template.at("priorityClassName"))
    else:
        impact.check_bounds()


@rule(*_NEW_PODS, severity=Severity.ERROR, action=Action.WARN, depends_on=ALL_SCHEDULED)
def violates_expectation(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods would preempt Pods that an expectation of the configuration protects.

    Why: an expectation names Pods that must not be preempted. Kubernetes does not enforce it.

    Details: the linter needs `--cluster`. Unlike `forewarn test`, the rule ignores Pods that replacement Pods preempt.
    It does not check new Pods of PodGroups. With `actions: {violates-expectation: deny}`, the webhook denies
    violations, and objects that are too large for a prediction. While its cluster state is stale, it only warns. It
    also does not deny updates that only remove replicas, or violations that an incomplete prediction does not show.

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
    impact, template = (
        (context.once(Predicted).impact_of(subject), context.template(subject)) if promises else (None, None)
    )
    if impact is None or template is None or context.cluster is None:
        return
    preempted, not_broken = _preempted(impact, subject, template, context.cluster), 0
    for promise in promises:
        hit = list(_broken_promises(promise, preempted))
        if hit:
            yield _broken(promise, hit, impact, subject, template)
        else:
            not_broken += 1
    if not_broken and (impact.is_incomplete or impact.why_not):
        impact.check_bounds()
        details = NotPredicted(impact, "run `forewarn predict`", expectations=not_broken)
        yield Problem(details, template.at("priorityClassName"), severity=Severity.NOTE)  # it never denies


def _preempted(
    impact: Impact, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot
) -> dict[tuple[_Pods, _Pods], list[_Preemption]]:
    """The victims and their preemptors, grouped by the properties that expectations select, because most are equal."""
    preemptors = ((p, _preemptor(p.pod, subject, template, cluster)) for p in impact.preempting)
    return grouped(
        ((by, (victim.namespace, victim.priority_class_name, cluster.top_workload_of(victim))), (prediction, victim))
        for prediction, by in preemptors
        for victim in charging(prediction.victims)
    )


def _broken_promises(
    promise: Promise, preempted: dict[tuple[_Pods, _Pods], list[_Preemption]]
) -> Iterator[_Preemption]:
    for by, victims in charging(list(preempted)):
        if promise.by.matches(*by) and promise.preempted.matches(*victims):
            yield from preempted[by, victims]


def _preemptor(pod: Pod, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot) -> _Pods:
    """Return what expectations select of a new Pod: namespace, PriorityClass, top-level workload."""
    if not template.is_template:
        return pod.namespace, pod.priority_class_name, cluster.top_workload_of(pod)
    from forewarn.policies.kubernetes.objects.pod import Owner  # the linter starts without it

    owner = Owner.from_api(subject.object)
    name = owner.name if owner else subject.ref.name
    return pod.namespace, pod.priority_class_name, f"{pod.namespace}/{name}"


def _scales_down(subject: ReviewedObject) -> bool:
    """Report whether an update only reduces the replicas: its new Pods are then Pods that were missing before."""
    new, old = mapping_at(subject.object, "spec"), mapping_at(subject.old or NOTHING, "spec")
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


_MAX_TERMS: Final = 20


@rule(*POD_OR_TEMPLATE, severity=Severity.WARNING, depends_on=("classes",))
def affinity_to_lower_priority(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods require affinity to Pods of a lower priority.

    Why: to find victims, kube-scheduler evaluates a node without its Pods of lower priority. If only these Pods satisfy
    the affinity, preemption does not help on this node, and the new Pod can stay Pending.

    Details: the rule reports a required affinity term if all Pods and built-in workloads in the input that satisfy it
    have a known, lower priority. It ignores terms with `namespaceSelector`, and Pods that never preempt.

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
    template = context.template(subject)
    terms = list_at(template.spec, *AFFINITY_TERMS) if template else ()
    own = resolved(template, context, subject.effective_namespace) if template and terms else None
    if template is None or own is None or own.preemption_policy == PREEMPT_NEVER:
        return
    for number, term in enumerate(terms[:_MAX_TERMS]):
        others = satisfying(term, subject, context)
        known = [resolved(w.template, context, w.subject.effective_namespace) for w in others]
        priorities = [other.priority for other in known if other]
        if len(priorities) == len(others) > 0 and max(priorities) < own.priority:
            message = (
                f"required affinity to {others[0].subject.ref} of priority {max(priorities)}, below {own.priority}"
            )
            text = Text(message, f"give it priority {own.priority}, or use preferred affinity")
            yield Problem(text, template.at(*AFFINITY_TERMS, number))


_HIGH: Final = 1_000_000


@rule(*POD_OR_TEMPLATE, severity=Severity.NOTE, depends_on=("classes",))
def high_class_without_requests(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods of a high PriorityClass have no requests for cpu or memory.

    Why: a Pod without requests preempts no Pods for cpu or memory. Under memory pressure, the kubelet usually first
    evicts Pods that use more memory than they request.

    Details: a class is high if its value is at least 1000000. The rule ignores classes that never preempt, and
    namespaces with a LimitRange.

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
    template = context.template(subject)
    if template is None or not class_name(template) or is_fragment(subject.object, template):
        return
    own = resolved(template, context)
    if own is None or own.priority < _HIGH or own.preemption_policy == PREEMPT_NEVER:
        return
    parts = [template.spec, *list_at(template.spec, "initContainers"), *list_at(template.spec, "containers")]
    kinds = [(field, name) for field in ("requests", "limits") for name in ("cpu", "memory")]
    has_requests = any(at(part, "resources", *kind) for part in parts for kind in kinds)
    if len(parts) > 1 and not has_requests and not context.limit_ranges_of(subject.effective_namespace):
        message = f"priority {own.priority}, but no requests: it preempts no Pods for cpu or memory"
        yield Problem(message, template.at("containers"), "set requests for cpu and memory")


@rule(Target.TEMPLATE, severity=Severity.WARNING, objects={Target.TEMPLATE: "DaemonSets"})
def host_port_with_surge(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A DaemonSet with a host port has maxSurge, so its rollout never ends.

    Why: with `maxSurge`, the new Pod of a node starts before the old one stops. The old Pod holds the host port, so the
    new Pod stays Pending, whatever its PriorityClass is.

    Example:

          DaemonSet edge/proxy
          spec:
            updateStrategy:
              rollingUpdate:
        -       maxSurge: 1
        -       maxUnavailable: 0
        +       maxSurge: 0
        +       maxUnavailable: 1
            selector:
              matchLabels:
                app: proxy
            template:
              metadata:
                labels:
                  app: proxy
              spec:
                priorityClassName: system-node-critical
                containers:
                - name: proxy
                  image: proxy
                  ports:
                  - containerPort: 80
                    hostPort: 80
                  resources:
                    requests:
                      cpu: 100m

    Fix: set `maxSurge: 0` and `maxUnavailable: 1`.
    """
    if group_kind(subject.object) != DAEMON_SET:
        return
    template = context.template(subject)
    strategy = at(subject.object, "spec", "updateStrategy")
    surge = at(strategy, "rollingUpdate", "maxSurge")
    if template is None or surge in (None, 0, *_NONE) or at(strategy, "type") == "OnDelete":
        return
    if port := next(_host_ports(template.spec), 0):
        message = f"host port {port} and maxSurge {surge}: a new Pod cannot start beside the old one on its node"
        path = ("spec", "updateStrategy", "rollingUpdate", "maxSurge")
        yield Problem(message, path, "set maxSurge: 0 and maxUnavailable: 1")


@rule(
    Target.FILE,
    Target.TEMPLATE,
    Target.PART,
    severity=Severity.WARNING,
    objects={
        Target.FILE: "kustomizations, Helm charts",
        Target.TEMPLATE: "StatefulSets",
        Target.PART: "Rollouts of Argo Rollouts",
    },
)
def update_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An update strategy, a part of a kustomization, or a value of a Helm chart has no effect.

    Why: a StatefulSet updates only Pods whose ordinal is `partition` or higher. Argo Rollouts rejects a canary strategy
    with `maxSurge: 0` and `maxUnavailable: 0`, and without image, as a strategic merge patch can leave the containers.
    kustomize ignores a patch whose target matches no object.
    namePrefix and nameSuffix rename PriorityClasses and workloads, but not their names in ResourceQuotas, ScaledObjects
    and other custom resources. Without its PriorityClass, a workload has no Pods: a kustomization may delete or rename
    the class, or not list its file. A PodDisruptionBudget or autoscaler that no kustomization lists has no effect.

    Details: of a Helm chart, the rule reports values that no template reads while a template reads a similar key, or
    the same key elsewhere, without a value. In objects of Argo CD and Flux, and in kustomizations, it reports all
    values that the named chart of the input does not read. It also reports values 0 and false that `default` replaces,
    and the text "false" in conditions, where it counts as true.

    Example:

          StatefulSet data/db
          spec:
            serviceName: db
            replicas: 3
            updateStrategy:
              rollingUpdate:
        -       partition: 3
        +       partition: 2
            selector:
              matchLabels: {app: db}
            template:
              metadata:
                labels: {app: db}
              spec:
                containers: [{name: c, image: "db:2"}]

    Fix: lower `partition`, set `maxUnavailable: 1`, or correct the kustomization.
    """
    yield from diagnostics("update-without-effect", context) if not subject.object else ()
    if group_kind(subject.object) == ROLLOUT:
        yield from _rollout_problems(subject)
        return
    path = ("spec", "updateStrategy", "rollingUpdate", "partition")
    replicas, partition = (integer(at(subject.object, *field)) for field in (("spec", "replicas"), path))
    is_used = group_kind(subject.object) == STATEFUL_SET and at(subject.object, *path[:2], "type") != "OnDelete"
    if is_used and replicas and partition is not None and partition >= replicas:
        message = f"partition {partition} with {plural(replicas, 'replica')}: an update changes no Pod"
        yield Problem(message, path, f"set partition: 0, or {replicas - 1} to update one Pod first")


def _rollout_problems(subject: ReviewedObject) -> Iterator[Problem]:
    """Report what Argo Rollouts rejects."""
    canary = at(subject.object, "spec", "strategy", "canary")
    if all(str(at(canary, field)) in _NONE for field in ("maxSurge", "maxUnavailable")):
        message = "maxSurge and maxUnavailable are 0: Argo Rollouts rejects the Rollout, and updates no Pod"
        yield Problem(message, ("spec", "strategy", "canary", "maxUnavailable"), "set maxUnavailable: 1")
    for path, container in found_at(subject.object, ("spec", "template", "spec", "containers", ITEMS)):
        if subject.overlay and not at(container, "image"):
            message = "no image: a strategic merge patch replaces the whole list in custom resources"
            yield Problem(message, path, "write a JSON Patch, or all fields of the containers")


_NONE: Final = ("0", "0%")


def _host_ports(spec: ApiObject) -> Iterator[int]:
    """Yield the ports of the node that a Pod uses; with hostNetwork, also those of its containers."""
    fields = ("hostPort", "containerPort") if spec.get("hostNetwork") is True else ("hostPort",)
    sidecars = (c for c in list_at(spec, "initContainers") if text_at(c, "restartPolicy") == "Always")
    for container in (*list_at(spec, "containers"), *sidecars):
        for port in list_at(container, "ports"):
            yield from filter(None, (integer(at(port, field)) for field in fields))


@rule(*POD_SPECS, severity=Severity.WARNING, depends_on=("pods",))
def pods_not_scheduled(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The scheduler of Pods has a name that is similar to a known one, or Pods have a scheduling gate.

    Why: kube-apiserver accepts each `schedulerName`. If no scheduler has this name, the Pods stay Pending without an
    event. Pods with scheduling gates wait until a controller removes all of them.

    Details: known schedulers are default-scheduler, the profiles of the input's KubeSchedulerConfigurations, also in
    ConfigMaps, schedulers of other projects, such as volcano, and with `--cluster` those of scheduled Pods. A name is
    also compared with one that more workloads of the input use. A scheduling gate is a note. Gates of Kueue, GKE, Grove
    and the Multiarch Tuning Operator are not reported.

    Example:

          apiVersion: kubescheduler.config.k8s.io/v1
          kind: KubeSchedulerConfiguration
          profiles:
          - schedulerName: bin-packing-scheduler
          ---
          Pod team/features
          spec:
        -   schedulerName: binpacking-scheduler
        +   schedulerName: bin-packing-scheduler
            containers:
            - name: c
              image: features

    Fix: write the name of a profile of a scheduler, or remove the gate.
    """
    template = context.template(subject)
    if template is None:
        return
    name = text_at(template.spec, "schedulerName")
    is_known = not name or name in context.once(_schedulers) or is_template_variable(name, subject, context)
    meant = "" if is_known else _meant_scheduler(name, context.once(_schedulers), context)
    if meant and not any(pod.spec.scheduler_name == name and pod.node_name for pod in context.pods):
        message = (
            f"Pods stay Pending: no known scheduler is named {quote(cut(name, _SHOWN))}. Did you mean {quote(meant)}?"
        )
        yield Problem(message, template.at("schedulerName"), f"write schedulerName: {meant}")
    for path, gate in found_at(template.spec, ("schedulingGates", ITEMS, "name")):
        if (
            isinstance(gate, str)
            and not _OF_CONTROLLER.match(gate)
            and not is_template_variable(gate, subject, context)
        ):
            message = f"Pods stay Pending until something removes the scheduling gate {cut(gate, _SHOWN)}"
            fix = "remove the gate, or run a controller that removes it"
            yield Problem(message, template.at(*path), fix, severity=Severity.NOTE)


_OTHER_SCHEDULERS: Final = (
    *("hami-scheduler", "kai-scheduler", "koord-scheduler", "kube-batch", "runai-scheduler", "secondary-scheduler"),
    *("scheduler-plugins-scheduler", "stork", "topo-aware-scheduler", "volcano", "yunikorn"),
)
_SUFFIX: Final = "-scheduler"
_OF_CONTROLLER: Final = later(r"kueue\.x-k8s\.io/|gke\.io/|grove\.io/|multiarch\.openshift\.io/")
"""Scheduling gates that known controllers remove."""


def _schedulers(context: Context) -> Names:
    """Return the known names of schedulers."""
    from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER  # the linter starts without it

    profiles = (p for each in context.of_kind(SCHEDULER_CONFIGURATION) for p in list_at(each.object, "profiles"))
    names = {DEFAULT_SCHEDULER, *_OTHER_SCHEDULERS, *(text_at(profile, "schedulerName") for profile in profiles)}
    names |= context.semantics.scheduler_names if context.cluster is not None else set()
    return Names(names - {""}, context.once(Lookups))


def _meant_scheduler(name: str, schedulers: Names, context: Context) -> str:
    """Return the known scheduler, or one of several other workloads, of which a name is a misspelling; "" for none."""
    other = name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else f"{name}{_SUFFIX}"
    if other in schedulers:
        return other
    near = schedulers.nearest_name(name)
    if near and is_misspelt(name, near):
        return near
    uses = context.once(_scheduler_uses)
    often = [each for each, count in uses.items() if count > max(uses[name], 1)]
    near = Names(often, context.once(Lookups)).nearest_name(name)
    return near if near and is_misspelt(name, near) else ""


def _scheduler_uses(context: Context) -> Counter[str]:
    """Count the workloads of the input by the name of their scheduler."""
    uses = Counter[str]()
    for subject in context.change_set.subjects:
        with suppress(InvalidObject):
            if template := context.template(subject):
                uses[text_at(template.spec, "schedulerName")] += 1
    return uses


_SHOWN: Final = 60


@rule(*POD_OR_TEMPLATE, severity=Severity.WARNING, depends_on=("pods",))
def constraint_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A scheduling constraint of a Pod matches no Pod or node, or not the Pod itself, or Karpenter ignores it.

    Why: kube-scheduler accepts such constraints. A topology spread constraint counts only Pods that its selector
    matches, so it must match the Pods that it spreads. A term of an affinity without selector matches no Pod. With a
    required affinity to Pods that do not exist, Pods stay Pending. So do replicas that exclude each other from the few
    nodes that they select, and Pods whose node selector contradicts their affinity. If there is exactly one such node
    for each replica, and `maxUnavailable` is 0, rollouts are blocked. Karpenter reads the annotation
    `karpenter.sh/do-not-evict` only in releases that support no current release of Kubernetes.

    Example:

          Deployment team/web
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
                  labelSelector:
                    matchLabels:
        -             app: frontend
        +             app: web
                affinity:
                  podAffinity:
                    requiredDuringSchedulingIgnoredDuringExecution:
                    - topologyKey: topology.kubernetes.io/region
                      labelSelector:
                        matchLabels:
                          app: web
                containers:
                - name: web
                  image: web

    Fix: write labels of the Pods into the selector, or an integer as the value of `Gt` and `Lt`. Write the annotation
    `karpenter.sh/do-not-disrupt`.
    """
    template = context.template(subject)
    if template is None:
        return
    annotations = mapping_at(template.object, "metadata", "annotations")
    if annotations.get(_DO_NOT_EVICT) == "true" and _DO_NOT_DISRUPT not in annotations:
        message = f"Karpenter ignores the annotation {_DO_NOT_EVICT}, and disrupts the Pods"
        place = (*template.path, "metadata", "annotations", _DO_NOT_EVICT)
        yield Problem(message, place, f"write {_DO_NOT_DISRUPT}")
    yield from _volumes_elsewhere(template, subject, context)
    yield from _on_no_node(template, subject, context)
    labels = {key: str(value) for key, value in mapping_at(template.object, "metadata", "labels").items()}
    yield from _exclusion_problems(template, labels, subject, context)
    if template.spec.keys().isdisjoint(("topologySpreadConstraints", "affinity")):
        return
    for path, selector in found_at(template.spec, ("topologySpreadConstraints", ITEMS, "labelSelector")):
        if not _may_match(selector, labels, subject, context):
            own = [Labelled(subject, template, labels)]
            which, fix = only_on_workload(mapping_at(selector, "matchLabels"), own, context)
            message = which or "the labelSelector does not match the labels of the Pod"
            yield Problem(f"{message}: its Pods are not spread", template.at(*path), fix or "write labels of the Pod")
    for path, term in _pod_terms(template.spec):
        if at(term, "labelSelector") is None and not list_at(term, "matchLabelKeys"):
            message = f"a term of {path[1]} without labelSelector matches no Pod"
            yield Problem(message, template.at(*path), "set labelSelector.matchLabels")
    yield from _without_pods(template, subject, context)
    for path, expression in _node_expressions(template.spec):
        operator, values = at(expression, "operator"), list_at(expression, "values")
        wrong = next((value for value in values if not _INTEGER.fullmatch(str(value))), None)
        if operator in ("Gt", "Lt") and wrong is not None and not is_template_variable(str(wrong), subject, context):
            message = f"{operator} {quote(cut(str(wrong), _SHOWN))} matches no node: it compares integers"
            yield Problem(message, template.at(*path), "write an integer in quotes")


def _exclusion_problems(
    template: PodTemplate, labels: Mapping[str, str], subject: ReviewedObject, context: Context
) -> Iterator[Problem]:
    """Report replicas that exclude each other from the few nodes or zones that a node selector or affinity requires."""
    replicas = at(subject.object, "spec", "replicas")
    for key, selector in _exclusions(template.spec):
        places = _places(template.spec, key)
        if not places or not _selects(selector, labels):
            continue
        if isinstance(replicas, int) and replicas > len(places):
            count = "one" if len(places) == 1 else f"one of {len(places)} values of"
            message = (
                f"{len(places)} of {replicas} Pods can run: all require {count} {key}, where they exclude each other"
            )
            in_selector = key in mapping_at(template.spec, "nodeSelector")
            place = template.at("nodeSelector", key) if in_selector else template.at("affinity", "nodeAffinity")
            yield Problem(message, place, "select a label of several nodes, or prefer the anti-affinity")
        elif len(places) == _surging(subject, context) and _selects_updated(selector, subject):
            yield _blocked_rollouts(len(places), key, subject, "select more nodes")


def _places(spec: ApiObject, key: str) -> Collection[str]:
    """Return the values of a label that the node selector or the required node affinity permits; empty for any."""
    if (selected_value := mapping_at(spec, "nodeSelector").get(key)) is not None:
        return {str(selected_value)}
    values = [
        {str(value) for each in list_at(term, "matchExpressions") for value in _permitted(each, key)}
        for term in list_at(spec, *_NODE_TERMS)
    ]
    return set().union(*values) if all(values) else ()


def _permitted(expression: ApiObject, key: str) -> Sequence[Any]:
    is_about = text_at(expression, "key") == key and at(expression, "operator") == "In"
    return list_at(expression, "values") if is_about else ()


def _on_no_node(template: PodTemplate, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report a node selector that contradicts each term of the required node affinity."""
    selector, terms = mapping_at(template.spec, "nodeSelector"), list_at(template.spec, *_NODE_TERMS)
    excluded = [*filter(None, (next(_excluded(selector, term), None) for term in terms if selector))]
    if excluded and len(excluded) == len(terms):
        key, values = excluded[0]
        if not any(is_template_variable(text, subject, context) for text in (str(selector[key]), values)):
            message = f"Pods stay Pending: the required node affinity permits only {key} {values}"
            yield Problem(message, template.at("nodeSelector", key), "remove it, or permit its value there")


def _volumes_elsewhere(template: PodTemplate, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report a node selector that excludes the nodes of a PersistentVolume that the Pod uses through its claim."""
    selector = mapping_at(template.spec, "nodeSelector")
    volumes = context.once(_bound_volumes) if selector else {}
    for _, claim in found_at(template.spec, ("volumes", ITEMS, "persistentVolumeClaim", "claimName")):
        name, volume = volumes.get((subject.effective_namespace, str(claim)), ("", NOTHING))
        terms = list_at(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
        excluded = [*filter(None, (next(_excluded(selector, term), None) for term in terms))]
        if excluded and len(excluded) == len(terms):
            key, values = excluded[0]
            message = f"Pods stay Pending: PersistentVolume {cut(name, _SHOWN)} is only on nodes with {key} {values}"
            yield Problem(message, template.at("nodeSelector", key), f"write {key}: {values}, or use another claim")


def _excluded(selector: Mapping[str, Any], term: ApiObject) -> Iterator[tuple[str, str]]:
    """Yield the labels, with the permitted values, of which a term permits other values than a node selector."""
    for expression in list_at(term, "matchExpressions"):
        key, values = text_at(expression, "key"), list_at(expression, "values")
        if at(expression, "operator") == "In" and values and key in selector and selector[key] not in values:
            yield key, listed([str(value) for value in values])


def _bound_volumes(context: Context) -> Mapping[tuple[str, str], tuple[str, ApiObject]]:
    """Return the name and the object of the PersistentVolume by namespace and name of the claim that names it."""
    volumes = {each.ref.name: each.object for each in context.of_kind(VOLUME)}
    claims = ((each, text_at(each.object, "spec", "volumeName")) for each in context.of_kind(CLAIM))
    return {(c.effective_namespace, c.ref.name): (name, volumes[name]) for c, name in claims if name in volumes}


def _without_pods(template: PodTemplate, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report affinities to Pods that the input lacks, if a workload itself has the labels or a similar one, or if the
    affinity is required and the Pods are in another namespace.
    """
    namespace = subject.effective_namespace
    for path, term in _pod_terms(template.spec):
        selector, wanted = mapping_at(term, "labelSelector"), _simple_labels(term)
        labels = {key: value for key, (value, _) in wanted.items()}
        is_unread = not context.options.unread_names.isdisjoint(labels.values())
        if not labels or is_unread or any(labels.items() <= pod.labels.items() for pod in context.pods):
            continue
        if not selected(selector, [namespace], context):
            is_required = path[1:3] == ("podAffinity", REQUIRED)
            effect = "Pods stay Pending" if is_required else f"a term of {path[1]} matches no Pod"
            severity = Severity.NOTE if PREFERRED in path else None
            which, fix = only_on_workload(labels, [*workloads_in([namespace], context)], context)
            if which:
                yield Problem(f"{effect}: {which}", template.at(*path, "labelSelector"), fix, severity=severity)
                continue
            near = next(_near_labels(labels, namespace, context, is_certain=not is_required), None)
            others = namespace_of_others(selector, namespace, context) if namespace_of(subject.object) else ""
            if near is not None:
                key, right = near
                shown = f"{key}: {cut(labels[key], _SHOWN)}"
                message = f"{effect}: no workload of the input has the label {shown}. Did you mean {right}?"
                place = template.at(*path, "labelSelector", *wanted[key][1])
                yield Problem(message, place, f"write {right}", severity=severity)
            elif others and is_required:
                message = f"Pods stay Pending: namespace {namespace} has no Pod with these labels, but {others} has"
                yield Problem(message, template.at(*path, "labelSelector"), f"add namespaces: [{others}] to the term")


def _simple_labels(term: ApiObject) -> Mapping[str, tuple[str, Path]]:
    """Return the labels that a term of an affinity requires, each with the path of its value in the selector; empty if
    the term has other conditions, too.
    """
    selector = mapping_at(term, "labelSelector")
    labels: dict[str, tuple[str, Path]] = {
        str(key): (str(value), ("matchLabels", key)) for key, value in mapping_at(selector, "matchLabels").items()
    }
    for number, expression in enumerate(list_at(selector, "matchExpressions")):
        values = list_at(expression, "values")
        if at(expression, "operator") != "In" or len(values) != 1:
            return {}
        labels[text_at(expression, "key")] = str(values[0]), ("matchExpressions", number, "values", 0)
    return labels if term.keys() <= {"labelSelector", "topologyKey"} else {}


def _near_labels(
    labels: Mapping[str, str], namespace: str, context: Context, *, is_certain: bool
) -> Iterator[tuple[str, str]]:
    """Yield the labels for which a workload with all other ones has a similar value, or the value for a similar key,
    with the right label. `is_certain`: only misspelled values.
    """
    context.once(Comparisons).charge(MAX_WORKLOADS * len(labels))
    for key, value in labels.items():
        rest = labels.items() - {(key, value)}
        alike = [each.labels for each in workloads_in([namespace], context) if rest <= each.labels.items()]
        known = {own[key] for own in alike if key in own}
        meant = Names(known, context.once(Lookups)).meant(value)
        if meant and (is_misspelt(value, meant) or not is_certain):
            yield key, f"{key}: {meant}"
        elif not known:
            keys = {other for own in alike for other in own if own[other] == value and _is_similar_key(key, other)}
            yield from ((key, f"{other}: {value}") for other in sorted(keys))


def _is_similar_key(one: str, other: str) -> bool:
    """Report whether two keys of labels mean the same, or one is a misspelling of the other."""
    names = {each.rpartition("/")[2] for each in (one, other)}
    return len(names) == 1 or names <= _NAMES_OF_APPS or is_misspelt(one, other)


_NAMES_OF_APPS: Final = frozenset(("app", "k8s-app", "name"))
"""Keys, without their prefix, of the label that names an application."""
_NODE_TERMS: Final = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
_DO_NOT_EVICT: Final = "karpenter.sh/do-not-evict"
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_INTEGER: Final = later(r"[+-]?[0-9]{1,19}")


def _pod_terms(spec: ApiObject) -> Iterator[tuple[Path, ApiObject]]:
    """Yield the terms of the affinities of a Pod to other Pods."""
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from found_at(spec, ("affinity", kind, REQUIRED, ITEMS))
        yield from found_at(spec, ("affinity", kind, PREFERRED, ITEMS, "podAffinityTerm"))


def _node_expressions(spec: ApiObject) -> Iterator[tuple[Path, ApiObject]]:
    """Yield the expressions about labels of nodes in the node affinity of a Pod."""
    for terms in ((REQUIRED, "nodeSelectorTerms", ITEMS), (PREFERRED, ITEMS, "preference")):
        yield from found_at(spec, ("affinity", "nodeAffinity", *terms, "matchExpressions", ITEMS))


_OF_CONTROLLERS: Final = {
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-name",
    "job-name",
    "statefulset.kubernetes.io/pod-name",
}
"""Labels that controllers add to Pods."""


def _may_match(selector: Any, labels: Mapping[str, str], subject: ReviewedObject, context: Context) -> bool:
    """Report whether a selector matches labels, or is unknown or empty (empty-selector)."""
    texts = (str(value) for value in (*labels.values(), *mapping_at(selector, "matchLabels").values()))
    if not _OF_CONTROLLERS.isdisjoint(mapping_at(selector, "matchLabels")):
        return True
    if not labels or not isinstance(selector, Mapping) or any(is_template_variable(t, subject, context) for t in texts):
        return True
    parsed, error = selector_or_error(selector)
    return bool(error) or parsed is None or not mapping_at(selector, "matchLabels") or parsed.matches(labels)
