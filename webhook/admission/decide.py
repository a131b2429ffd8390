"""Decides on one admission request, without side effects: exemption, patch or rules, response. forewarn admits a new
global default only after it has reserved it in a Lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.disclosure import Audience
from forewarn.policies.base.findings import NO_LOCATION, NO_OBJECT, Action, Finding, Severity, Text, listed, quote
from forewarn.policies.base.metering import TooLarge
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver import priority
from forewarn.policies.kubernetes.kube_apiserver.priority import class_by_namespace, default_priority_class
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    InvalidObject,
    at,
    group_kind,
    string_map,
    text,
    text_at,
)
from forewarn.policies.kubernetes.objects.fields import namespace_of as namespace_in
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION, EXEMPT_UNTIL_ANNOTATION, Namespace
from forewarn.policies.kubernetes.objects.patches import PatchOperation, apply_patch, drop, set_value
from forewarn.policies.kubernetes.objects.pod import MIRROR_ANNOTATION
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.linting.evaluation.evaluator import (
    EvaluationRequest,
    Phase,
    evaluate,
    impact_of,
    strictest_action,
)
from forewarn.policies.linting.rules.namespace import unknown_default_class
from forewarn.policies.linting.rules.priority_class import global_default_not_unique
from forewarn.policies.linting.rules.support.allowed_classes import CONTROLLERS
from forewarn.policies.linting.rules.support.context import Target
from forewarn.webhook.accuracy import expectation_of
from forewarn.webhook.admission import impact_annotation, prediction_access
from forewarn.webhook.admission.decision import (
    VISIBLE,
    Decision,
    Verdict,
    decision_of,
    depends_on_cache,
    doubted,
    passed,
    unproven,
    warned,
    with_classes,
)
from forewarn.webhook.admission.review import STORING, AdmissionRequest, AdmissionResponse, Hook

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.prediction.forecast.impact import Impact
    from forewarn.webhook.admission.impact_annotation import Written


class DefaultCandidate(NamedTuple):
    """A PriorityClass that becomes the global default with a request. `request`: `create UID` or `update UID
    VERSION`.

    The API server stores the update only if the stored object still has this resourceVersion.
    """

    name: str
    request: str


Reserve = Callable[[DefaultCandidate, float], str]
"""Reserves the global default within a number of seconds; returns why that is impossible, or "".

Raises OSError if the API server does not answer.
"""


def default_candidate_of(request: AdmissionRequest, hook: Hook, config: Config) -> DefaultCandidate | None:
    """Return the PriorityClass for which forewarn must reserve the global default; None if no reservation is
    necessary.

    A dry run reserves nothing.
    """
    stores = hook is Hook.VALIDATE and not request.dry_run and request.operation in STORING
    if not stores or request.kind.group_kind != registry.PRIORITY_CLASS or request.subresource:
        return None
    old = request.old or NOTHING
    becomes = at(request.object, "globalDefault") is True and at(old, "globalDefault") is not True
    if not becomes or config.action(global_default_not_unique, Target.PRIORITY_CLASS) is not Action.DENY:
        return None
    name = request.name or text_at(request.object, "metadata", "name")
    if not name:
        return None  # The API server stores no PriorityClass without a name.
    uid, version = text_at(request.object, "metadata", "uid"), text_at(old, "metadata", "resourceVersion")
    text = f"create {uid}" if request.operation is Operation.CREATE else f"update {uid} {version}" if version else ""
    return DefaultCandidate(name, text if uid else "")


def needs_reservation(decision: Decision) -> bool:
    """Report whether the rules allow the request without an exemption; only then is the global default reserved."""
    return decision.response.allowed and decision.verdict is not Verdict.EXEMPT


def deny_default(request: AdmissionRequest, decision: Decision, why: str) -> Decision:
    """Return the denial of a class because the global default is reserved, with the audit annotations of the
    decision.
    """
    subject = request.subject
    location, ref = subject.locate(("globalDefault",)), subject.ref
    rule, remedy = global_default_not_unique.ID, "try again, or set globalDefault: false"
    finding = Finding(location, Severity.ERROR, rule, ref, Text(why, remedy), Action.DENY, "globalDefault")
    denied = decision_of(request.uid, (*decision.findings, finding))
    audit = {**decision.response.audit, **denied.response.audit}
    return replace(denied, response=replace(denied.response, audit=audit))


AUDIT_KEY: Final = "multiple-global-defaults"


def several(classes: Iterable[PriorityClass]) -> str:
    """Return a message with all classes marked as global default and the effective one; "" with fewer than two."""
    defaults = [matching for matching in classes if matching.global_default]
    counts = default_priority_class(defaults)
    if counts is None or len(defaults) < 2:
        return ""
    names = listed(sorted(matching.name for matching in defaults), 10)
    return f"{names} are all marked as the global default; {counts.name}, with the lowest value, takes effect"


def audit_text(subject: ReviewedObject, cluster: ClusterSnapshot, config: Config) -> str:
    """Return the audit text if an object's new Pods get the default PriorityClass while several classes are marked as
    global default; "" otherwise.

    Pods that name the effective default also count: the API server sets this name before it calls webhooks.
    """
    text = several(cluster.priority_classes.values())
    return text if text and _takes_it(subject, cluster, config) else ""


def _takes_it(subject: ReviewedObject, cluster: ClusterSnapshot, config: Config) -> bool:
    try:
        template = pod_template_of(subject.object, config.options.pod_template_paths)
    except InvalidObject:
        return False
    if template is None:
        return False
    name, classes = at(template.object, "spec", "priorityClassName") or "", cluster.priority_classes
    if not template.is_template:
        counts = default_priority_class(classes.values())
        return subject.operation is Operation.CREATE and name in ("", counts.name if counts else "")
    return name == "" and class_by_namespace("", cluster.namespace(subject.ref.namespace), classes) not in classes


class Direction(StrEnum):
    """What decides a request: a row of docs/internals/failure-modes.md."""

    CONNECT = "connect"
    SCALE = "scale"
    """The stored workload is evaluated."""
    NAMESPACE_SUBRESOURCE = "namespace-subresource"
    OTHER_SUBRESOURCE = "other-subresource"
    UNKNOWN_KIND = "unknown-kind"
    REVISION = "revision"
    """The Pod template in a ControllerRevision is evaluated."""
    WITHOUT_OBJECT = "delete-without-object"
    DELETE = "delete"
    UPDATE = "update"
    CREATE = "create"


PASSED: Final = frozenset(
    (Direction.CONNECT, Direction.OTHER_SUBRESOURCE, Direction.UNKNOWN_KIND, Direction.WITHOUT_OBJECT)
)
"""Requests that are allowed without reading the object."""
_OF_OBJECTS: Final = {operation: Direction(operation.value.lower()) for operation in Operation}

_EVALUATED: Final = frozenset(spec.group_kind for spec in registry.BY_GROUP_KIND.values() if spec.is_evaluated)


def is_evaluated(request: AdmissionRequest, config: Config) -> bool:
    """Report whether a rule exists for the object's kind."""
    kind = request.kind.group_kind
    return kind in _EVALUATED or kind == registry.CONTROLLER_REVISION or kind in config.options.pod_template_paths


def _changes_a_namespace(request: AdmissionRequest) -> bool:
    """Report whether a subresource request changes forewarn's annotations of a Namespace.

    The subresources `status` and `finalize` also store metadata. Source: pkg/registry/core/namespace/strategy.go.
    """
    if request.kind.group_kind != registry.NAMESPACE or request.subresource not in ("status", "finalize"):
        return False
    path, keys = ("metadata", "annotations"), (DEFAULT_CLASS_ANNOTATION, EXEMPT_UNTIL_ANNOTATION)
    return any(at(request.object, *path, key) != at(request.old or NOTHING, *path, key) for key in keys)


def _is_revision(request: AdmissionRequest) -> bool:
    return request.kind.group_kind == registry.CONTROLLER_REVISION


def direction_of(request: AdmissionRequest, config: Config) -> Direction:
    if request.operation is Operation.CONNECT:
        return Direction.CONNECT
    if request.subresource == "scale":
        return Direction.SCALE
    if request.subresource:
        return Direction.NAMESPACE_SUBRESOURCE if _changes_a_namespace(request) else Direction.OTHER_SUBRESOURCE
    if not is_evaluated(request, config):
        return Direction.UNKNOWN_KIND
    if _is_revision(request):
        return Direction.REVISION
    return _OF_OBJECTS[request.operation] if request.object or request.old else Direction.WITHOUT_OBJECT


def exemption_of(
    request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config, now: datetime
) -> str | None:
    """Return why the request is not evaluated ("" if no named exemption is the reason); None if it is evaluated."""
    if direction_of(request, config) in PASSED:
        return ""
    return config.exemption(request.user, namespace_of(request, cluster), now) or None


def namespace_of(request: AdmissionRequest, cluster: ClusterSnapshot | None) -> Namespace | None:
    """Return the stored Namespace of the object; None for cluster-scoped objects.

    For a request about a Namespace, the result has no annotations: a request must not exempt itself.
    """
    if not request.namespace:
        return None
    namespace = cluster.namespace(request.namespace) if cluster else None
    namespace = namespace or Namespace(request.namespace, {}, {})
    return namespace._replace(annotations={}) if request.kind.group_kind == registry.NAMESPACE else namespace


def subject_of(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config) -> ReviewedObject | None:
    """Return the object to evaluate, for `scale` the workload and for a ControllerRevision the template; None if
    unknown.
    """
    if _is_revision(request):
        return _template_in(request)
    return _scaled(request, cluster, config) if request.subresource == "scale" else request.subject


def _template_in(request: AdmissionRequest) -> ReviewedObject | None:
    """Return the Pod template in a new ControllerRevision, as a PodTemplate; None without one.

    None for requests of controllers, which copy templates that were admitted: a denial would stop the workload.
    """
    template = at(request.object, *_REVISED)
    if template is None or request.operation is not Operation.CREATE or request.user.name in CONTROLLERS:
        return None
    obj = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": request.object.get("metadata"), "template": template}
    return request.subject._replace(object=obj)


_REVISED: Final = ("data", "spec", "template")
_CLASS_PATH: Final = (*_REVISED[1:], "spec", "priorityClassName")


def misspelled_in(request: AdmissionRequest) -> str | None:
    """Return a key in the data of a ControllerRevision that differs only in case from a key on the path to the class;
    None if there is none. The StatefulSet controller would read it: it applies the data as a patch (`ApplyRevision`),
    and decodes the result with Go's encoding/json, which ignores case.
    """
    data = request.object.get("data") if _is_revision(request) else None
    for name in _CLASS_PATH:
        if not isinstance(data, dict):
            break
        for key in data:
            if key != name and key.casefold() == name.casefold():
                return str(key)
        data = data.get(name)
    return None


def _scaled(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config) -> ReviewedObject | None:
    """Return the stored workload of a `scale` request, with the requested replicas; None if the workload is unknown."""
    resource = request.resource
    for kind in config.options.pod_template_paths if cluster else ():
        if kind.rpartition("/")[0] == resource.group and resource.resource in registry.plurals(kind):
            assert cluster is not None
            workload = cluster.workload(kind, request.namespace, request.name)
            if workload is None:
                return None
            try:
                spec = {**(at(workload.object, "spec") or {}), "replicas": at(request.object, "spec", "replicas")}
            except TooLarge:  # The cache has no content of this object: each rule reports that it was not evaluated.
                return request.subject._replace(object=workload.object, old=None, subresource="")
            return request.subject._replace(
                object={**workload.object, "spec": spec}, old=workload.object, subresource=""
            )
    return None


def decide_validation(review: prediction_access.ReviewContext, subject: ReviewedObject) -> Decision:
    """Return the findings about the object, confirmed by the API server if they depend on the cache."""
    request, cluster, config, time = review.request, review.cluster, review.config, review.time
    impacts: list[Impact] = []
    seconds = 0.0

    def findings_of(cluster: ClusterSnapshot | None) -> tuple[Finding, ...]:
        nonlocal seconds
        started = time.clock()
        new = EvaluationRequest(
            ChangeSet((subject,)),
            cluster,
            config,
            Phase.VALIDATE,
            time.now,
            time.expired,
            predicted=impacts.append,
            recall=review.impacts,
            disclose=config.disclose,
            shown=review.shown,
        )

        def stored_findings(stored: ReviewedObject) -> list[Finding]:
            return evaluate(new._replace(change_set=ChangeSet((stored,)), predicted=lambda _: None, recall=None))

        findings = prediction_access.without_repeats(
            subject, evaluate(new), config.options.pod_template_paths, stored_findings
        )
        seconds = time.clock() - started
        return tuple(doubted(finding) if time.staleness else finding for finding in findings)

    findings = findings_of(cluster)
    if review.live is not None and cluster is not None and depends_on_cache(findings):
        if review.live.classes is None:
            findings = tuple(unproven(finding) for finding in findings)
        else:
            live = with_classes(cluster, review.live.classes)
            findings = findings if live is cluster else findings_of(live)
    if impacts and (why := review.shown().not_predicted):
        findings = prediction_access.without_prediction(findings, subject, config, why)
    withheld = any(finding.for_requester and finding.action in VISIBLE for finding in findings)
    if withheld and config.disclose_to.covers(request.user):
        withheld, findings = False, tuple(finding._replace(for_requester=None) for finding in findings)
    decision = replace(
        decision_of(request.uid, findings, time.staleness),
        withholds=withheld
        and config.disclose_to.subject_access_review
        and not prediction_access.is_on_behalf(request.user, request.object),
        predicting=seconds,
        **_impact_fields(subject, impacts, staleness=bool(time.staleness)),
    )
    return decision.audited(AUDIT_KEY, audit_text(subject, cluster, config) if cluster is not None else "")


def _impact_fields(subject: ReviewedObject, impacts: Sequence[Impact], *, staleness: bool) -> dict[str, Any]:
    """Return the fields of a decision that describe the latest prediction; none without a prediction.

    A prediction that missed the deadline is not compared with kube-scheduler's decision.
    """
    if not impacts:
        return {}
    latest = impacts[-1]
    return {
        "outcome": impact_annotation.outcome_of(latest),
        "expected": None if staleness else expectation_of(subject, latest),
        "is_cut_short": any(impact.is_cut_short for impact in impacts),
        "brings": latest.brings,
    }


NODE_USER_PREFIX: Final = "system:node:"
NODES_GROUP: Final = "system:nodes"
CLASS: Final = ("spec", "priorityClassName")
PRIORITY: Final = ("spec", "priority")
POLICY: Final = ("spec", "preemptionPolicy")


class Mutation(NamedTuple):
    """The patch of a Pod.

    `assigned`: the namespace's default class, if the patch assigns it. `missing`: the namespace's default class, if it
    does not exist.
    """

    patch: tuple[PatchOperation, ...] = ()
    assigned: str = ""
    missing: str = ""


NO_MUTATION: Final = Mutation()


def mutate(request: AdmissionRequest, cluster: ClusterSnapshot | None, *, assign: bool = True) -> Mutation:
    """Return the patch for a new Pod; an empty one for other requests. Raises InvalidObject.

    `assign`: false to never assign the default class of the namespace.
    """
    if cluster is None or request.operation is not Operation.CREATE or request.kind.group_kind != registry.POD:
        return NO_MUTATION
    wanted = ""
    if assign and not _is_mirror(request):  # the default of the namespace, without a class or with the global default
        namespace, classes = cluster.namespace(request.namespace), cluster.priority_classes
        wanted = priority.class_by_namespace(text(request.object, *CLASS), namespace, classes)
    if not wanted or wanted not in cluster.priority_classes:
        return Mutation(_fill_in(request.object, text(request.object, *CLASS), cluster), missing=wanted)
    if at(request.object, *PRIORITY) is None:
        return Mutation(_fill_in(request.object, wanted, cluster), assigned=wanted)
    pod = request.object
    return Mutation((set_value(pod, CLASS, wanted), *drop(pod, PRIORITY), *drop(pod, POLICY)), assigned=wanted)


def _is_mirror(request: AdmissionRequest) -> bool:
    """Report whether the Pod is the mirror Pod of a static Pod: users may write the annotation, but only nodes create
    mirror Pods.

    Source: plugin/pkg/admission/noderestriction, and pkg/auth/nodeidentifier/default.go.
    """
    by_node = request.user.name.startswith(NODE_USER_PREFIX) and NODES_GROUP in request.user.groups
    return by_node and MIRROR_ANNOTATION in string_map(request.object, "metadata", "annotations")


def with_class(pod: ApiObject, class_name: str, cluster: ClusterSnapshot) -> ApiObject:
    """Return the Pod as stored with this class and its priority. Raises Forbidden if the class does not exist."""
    spec = pod.get("spec")
    resolved = priority.establish_priority(class_name, cluster.priority_classes)
    return {**pod, "spec": priority.resolved_spec(spec if isinstance(spec, dict) else {}, resolved)}


def _fill_in(pod: ApiObject, class_name: str, cluster: ClusterSnapshot) -> tuple[PatchOperation, ...]:
    """Return a patch with the fields of the Priority plugin if the plugin did not run; empty for an unknown class."""
    if at(pod, *PRIORITY) is not None:
        return ()
    try:
        resolved = priority.establish_priority(class_name, cluster.priority_classes)
    except priority.Forbidden:
        return ()
    values = {CLASS: resolved.priority_class_name, PRIORITY: resolved.priority, POLICY: resolved.preemption_policy}
    if not isinstance(pod.get("spec"), dict):
        spec = {path[-1]: value for path, value in values.items() if value != ""}
        return (set_value(pod, ("spec",), spec),)
    absent = at(pod, *POLICY) is None
    return tuple(
        set_value(pod, path, value)
        for path, value in values.items()
        if value != (at(pod, *path) or "") and (path != POLICY or absent)
    )


def decide_mutation(review: prediction_access.ReviewContext) -> Decision:
    """Return the decision on a request to `/mutate`: the patch, and warnings about it."""
    request, unanswered = review.request, False
    try:
        mutation = mutate(request, review.cluster)
        if mutation.missing and review.live is not None and review.cluster is not None:
            if (classes := review.live.classes) is not None:
                review = review._replace(cluster=with_classes(review.cluster, classes))
            unanswered, mutation = classes is None, mutate(request, review.cluster)
    except InvalidObject:
        mutation = NO_MUTATION  # The API server decodes and validates the object.
    findings, denied = _missing_default(review, mutation.missing), ""
    if denials := _denials_of(review, mutation.assigned):
        findings, denied = denials, mutation.assigned
        mutation = mutate(request, review.cluster, assign=False)
    annotated = _annotated(review, mutation.patch)
    operations = (*mutation.patch, *annotated.patch)
    decision = decision_of(request.uid, tuple(map(unproven, findings)) if unanswered else findings)
    if mutation.assigned:
        text = f"{mutation.assigned}, the default of namespace {request.namespace}"
        decision = decision.audited("assigned-priority-class", text)
    if denied:
        text = f"{denied}, the default of namespace {request.namespace}: not allowed for this Pod"
        decision = decision.audited("priority-class-not-assigned", text)
    return replace(
        decision,
        response=replace(decision.response, patch=operations),
        verdict=Verdict.PATCHED if operations else decision.verdict,
        unassigned=bool(mutation.missing),
        written=annotated.written,
        is_cut_short=annotated.is_cut_short,
    )


class _Annotated(NamedTuple):
    """The change of the impact annotation, as a patch. `is_cut_short`: whether the deadline stopped the prediction."""

    patch: tuple[PatchOperation, ...] = ()
    written: Written | None = None
    is_cut_short: bool = False


def _annotated(review: prediction_access.ReviewContext, patch: tuple[PatchOperation, ...]) -> _Annotated:
    """Return the change of the impact annotation on the patched object: set, remove or keep it."""
    request, cluster, config = review.request, review.cluster, review.config
    if request.operation not in STORING or request.subresource:
        return _Annotated()
    subject, text = request.subject._replace(object=apply_patch(request.object, patch)), None
    impacts: list[Impact | None] = []

    def compute() -> str | None:
        assert cluster is not None
        impacts.append(impact_of(subject, cluster, config, review.time.expired, review.impacts))
        audience = Audience(config.disclose, request.namespace, shown=review.shown())
        return impact_annotation.annotation(impacts[-1], bool(review.time.staleness), audience)

    if cluster is not None and impact_annotation.wanted(subject, config):
        with suppress(InvalidObject):  # a later request must not get the annotation of a dry run
            text = compute() if request.dry_run else review.recall(subject, compute)
    is_cut_short = any(impact.is_cut_short for impact in impacts if impact)
    written = impact_annotation.written(subject, text) if impacts and text and not request.dry_run else None
    if text is None:
        text = impact_annotation.retained(subject, config)
    if not text:
        return _Annotated(tuple(drop(request.object, impact_annotation.PATH)), None, is_cut_short)
    if text == at(request.object, *impact_annotation.PATH):
        return _Annotated((), written, is_cut_short)
    return _Annotated((set_value(request.object, impact_annotation.PATH, text),), written, is_cut_short)


def _missing_default(review: prediction_access.ReviewContext, name: str) -> tuple[Finding, ...]:
    """Return a warning that the namespace's default class does not exist; empty if `name` is "".

    The Pod is admitted nevertheless, because its owner cannot fix the namespace.
    """
    request = review.request
    action = review.config.action(unknown_default_class, Target.POD)
    if not name or action is Action.OFF:
        return ()
    message = f'PriorityClass "{name}", the default of namespace "{request.namespace}", not found; none assigned'
    remedy = f"create the PriorityClass, or change the namespace's annotation {DEFAULT_CLASS_ANNOTATION}"
    subject, action = request.subject, Action.WARN if action is Action.DENY else action
    location, rule = subject.locate(()), unknown_default_class.ID
    return (Finding(location, Severity.WARNING, rule, subject.ref, Text(message, remedy), action),)


def _denials_of(review: prediction_access.ReviewContext, assigned: str) -> tuple[Finding, ...]:
    """Return the denials that only the assigned default class causes, as warnings."""
    request, cluster, config, time = review.request, review.cluster, review.config, review.time
    if not assigned or cluster is None:
        return ()
    own = text_at(request.object, *CLASS)
    config = config._replace(actions={**config.actions, **dict.fromkeys(impact_annotation.PREDICTING, Action.OFF)})

    def denied(name: str) -> dict[str, Finding]:
        change = ChangeSet((request.subject._replace(object=with_class(request.object, name, cluster)),))
        new = EvaluationRequest(
            change, cluster, config, Phase.VALIDATE, time.now, time.expired, disclose=config.disclose
        )
        findings = (doubted(finding) if time.staleness else finding for finding in evaluate(new))
        return {finding.rule: finding for finding in findings if finding.action is Action.DENY}

    with_it = denied(assigned)
    without = denied(own) if with_it and own in (*cluster.priority_classes, "") else {}
    why, fix = "The Pod is admitted without this default", "set another priorityClassName"
    return tuple(warned(finding, why, fix) for rule, finding in with_it.items() if rule not in without)


STALE_CACHE_KEY: Final = "stale-cache"
"""Key of the audit annotation if the cluster state is too old."""
NOT_EVALUATED: Final = "not-evaluated"
"""Key of the audit annotation, and id of the finding, if forewarn cannot read the object."""
NOT_EXEMPT: Final = "not-exempt"
"""Key of the audit annotation if a namespace's exemption ends too far in the future."""


def decide(review: prediction_access.ReviewContext) -> Decision:
    """Return the decision on any request: an exemption, or the result of an evaluation."""
    exemption = exemption_of(review.request, review.cluster, review.config, review.time.now)
    return evaluate_review(review) if exemption is None else passed(review.request.uid, exemption)


def evaluate_review(review: prediction_access.ReviewContext) -> Decision:
    """Return the decision on a request without exemption."""
    request, cluster, config, time = review.request, review.cluster, review.config, review.time
    if review.hook is Hook.MUTATE:
        decision = decide_mutation(review)
    elif contradiction := _contradiction(request):
        decision = decide_unread(request, review.hook, cluster, config, time.now, *contradiction)
    else:
        subject = subject_of(request, cluster, config)
        if subject is None:
            return Decision(AdmissionResponse(request.uid), Verdict.ALLOWED)
        decision = decide_validation(review, subject._replace(subresource="") if subject.subresource else subject)
    if not_honoured := config.not_honoured(namespace_of(request, cluster), time.now):
        decision = replace(decision.audited(NOT_EXEMPT, not_honoured), exemption=f"not applied: {not_honoured}")
    return decision.audited(STALE_CACHE_KEY, time.staleness if cluster is not None else "")


def _contradiction(request: AdmissionRequest) -> tuple[str, str] | None:
    """Return (problem, fix) if a request's objects differ from what the API server stores; otherwise None."""
    objects = [obj for obj in (request.object, request.old) if obj]
    for obj in objects:
        if (name := namespace_in(obj)) not in ("", request.namespace):
            return f"its namespace {quote(name)} is not that of the request", "remove metadata.namespace"
    if any(group_kind(obj) != request.kind.group_kind for obj in objects):
        return "its kind is not that of the request", "set apiVersion and kind to those of the resource"
    if key := misspelled_in(request):
        return f"the key {quote(key)} in its data has the wrong case", "correct the key"
    return None


def decide_unread(
    request: AdmissionRequest,
    hook: Hook,
    cluster: ClusterSnapshot | None,
    config: Config,
    now: datetime,
    why: str,
    remedy: str = "make the object smaller or less nested, or try again",
) -> Decision:
    """Return the decision on a request whose objects forewarn cannot read: the strictest action
    of the enabled rules for the request.
    """
    is_covered = not request.subresource or request.kind.group_kind == registry.NAMESPACE
    if not (is_covered and is_evaluated(request, config)) or request.operation is Operation.CONNECT:
        return passed(request.uid, "")
    if exemption := config.exemption(request.user, namespace_of(request, cluster), now):
        return passed(request.uid, exemption)
    if hook is Hook.MUTATE:  # `/validate` denies the request.
        return Decision(AdmissionResponse(request.uid, audit={NOT_EVALUATED: why}), Verdict.ALLOWED)
    action = strictest_action(request.kind.group_kind, request.operation, config)
    text = Text(f"not evaluated: {why}", remedy)
    return decision_of(request.uid, (Finding(NO_LOCATION, Severity.ERROR, NOT_EVALUATED, NO_OBJECT, text, action),))
