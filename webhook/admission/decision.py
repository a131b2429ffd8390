"""The decision on one admission request: pure, in the order direction, exemption, patch or rules, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.disclosure import EXACT, Audience, Shown
from policies.evaluator import Phase, evaluate, impact_of, may_deny
from policies.findings import NO_OBJECT, NOWHERE, Action, Finding, Severity, one_line
from policies.kinds import BY_GROUP_KIND, NAMESPACE, PRIORITY_CLASS, plurals
from policies.metering import TooLarge
from policies.objects.fields import NOTHING, InvalidObject, at
from policies.objects.namespace import DEFAULT_CLASS_ANNOTATION, EXEMPT_UNTIL_ANNOTATION, Namespace
from policies.objects.priority_class import PriorityClass
from policies.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from policies.rules.namespace import unknown_default_class
from policies.rules.priority_class import global_default_not_unique
from policies.rules.support.context import Target
from webhook.accuracy import expectation_of
from webhook.admission import impact_annotation, several_defaults
from webhook.admission.json_patch import PatchOperation, apply_patch, drop, set_value
from webhook.admission.messages import audit_of, denial_of, warnings_of
from webhook.admission.mutation import CLASS, NO_MUTATION, mutate, with_class
from webhook.admission.prediction_access import is_on_behalf, without_prediction
from webhook.admission.review import AdmissionRequest, AdmissionResponse
from webhook.admission.stale_cache import doubted, rests_on_the_cache, unproven
from webhook.admission.unchanged import without_repeats

if TYPE_CHECKING:
    from datetime import datetime

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.objects.fields import ApiObject
    from policies.rules.support.impact import Impact
    from policies.rules.support.impact import Recall as Impacts
    from webhook.accuracy import Expectation
    from webhook.admission.impact_annotation import Written
    from webhook.workload_accuracy import WorkloadExpectation

Confirm = Callable[[], Mapping[str, PriorityClass]]
"""The classes that the API server has this moment, by name: one live GET. Raises OSError where it fails."""

LATE: Final = "stale-cache"
"""Key of the audit annotation on what was answered by an old cache."""
NOT_EVALUATED: Final = "not-evaluated"
"""Key of the audit annotation, and id of the finding, on an object that can't be read."""
NOT_EXEMPT: Final = "not-exempt"
"""Key of the audit annotation on what a namespace's annotation would exempt, were its end not too far away."""


class Hook(StrEnum):
    """The two webhooks, by the last part of their path."""

    MUTATE = "mutate"
    VALIDATE = "validate"


class Verdict(StrEnum):
    """How a request came out; a closed set, for metrics and logs."""

    ALLOWED = "allowed"
    PATCHED = "patched"
    WARNED = "warned"
    DENIED = "denied"
    EXEMPT = "exempt"


class DefaultCandidate(NamedTuple):
    """A class that is to become the global default, and which request wants that: `create UID`, `update UID VERSION`.

    The version is the one that admission was shown: the update is stored over no other.
    """

    name: str
    request: str


AnnotationLookup = Callable[[ReviewedObject, Callable[[], str | None]], str | None]
"""Gives the annotation of an object: the one that was written a moment ago, or what is worked out now."""


def worked_out(_: ReviewedObject, work_out: Callable[[], str | None]) -> str | None:
    """The `recall` of who remembers nothing."""
    return work_out()


Reserve = Callable[[DefaultCandidate, float], str]
"""Reserves the place of the global default, within so many seconds. Why it may not be had; empty where it is held.

Raises OSError where the API server cannot be asked.
"""


class Direction(Enum):
    """What is done with a request before anything is known about its object."""

    PASS = "pass"
    """Allowed, and nothing is looked at."""
    JUDGE = "judge"
    """The object in the request is judged."""
    LOOK_UP = "look up"
    """The object in the request stands for another one, which is looked up in the cluster and judged."""


class DirectionRow(NamedTuple):
    """One row of docs/reference/failure-modes.md: which requests, and what is done with them."""

    id: str
    applies: Callable[[AdmissionRequest, Config], bool]
    direction: Direction


_JUDGED: Final = frozenset(spec.group_kind for spec in BY_GROUP_KIND.values() if spec.is_judged)


def _changes_a_namespace(request: AdmissionRequest) -> bool:
    """Whether our annotations are changed by way of a subresource, whose strategies take metadata as it comes.

    Source: pkg/registry/core/namespace/strategy.go.
    """
    if request.kind.group_kind != NAMESPACE or request.subresource not in ("status", "finalize"):
        return False
    ours, before = (
        [
            at(obj or NOTHING, "metadata", "annotations", key)
            for key in (DEFAULT_CLASS_ANNOTATION, EXEMPT_UNTIL_ANNOTATION)
        ]
        for obj in (request.object, request.old)
    )
    return ours != before


ROWS: Final = (
    DirectionRow("connect", lambda request, _: request.operation is Operation.CONNECT, Direction.PASS),
    DirectionRow("scale", lambda request, _: request.subresource == "scale", Direction.LOOK_UP),
    DirectionRow("namespace-subresource", lambda request, _: _changes_a_namespace(request), Direction.JUDGE),
    DirectionRow("other-subresource", lambda request, _: bool(request.subresource), Direction.PASS),
    DirectionRow("unknown-kind", lambda request, config: not _is_evaluated(request, config), Direction.PASS),
    DirectionRow("delete-without-object", lambda request, _: not (request.object or request.old), Direction.PASS),
    DirectionRow("delete", lambda request, _: request.operation is Operation.DELETE, Direction.JUDGE),
    DirectionRow("update", lambda request, _: request.operation is Operation.UPDATE, Direction.JUDGE),
    DirectionRow("create", lambda _request, _config: True, Direction.JUDGE),
)
"""The first row that applies decides."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The response, and what is told of it to logs and metrics."""

    response: AdmissionResponse
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    exemption: str = ""
    outcome: str = ""
    """What the prediction for `/validate` came to, whether or not it is worth a word; empty where there was none."""
    expected: Expectation | WorkloadExpectation | None = None
    """What is to be remembered of that, to compare it with what the scheduler does."""
    predicting: float = 0.0
    """Seconds that the rules and their prediction took, the last time where it was worked out twice."""
    unassigned: bool = False
    """Whether `/mutate` would have given the pod a class that is not known."""
    written: Written | None = None
    """The annotation that `/mutate` writes."""
    is_cut_short: bool = False
    """Whether there was no time for all that was asked."""
    brings: int = 0
    """How many Pods the object has once its controller has created all; 0 where a rollout replaces them."""
    withholds: bool = False
    """Whether the user is not told something that his rights may let him be told: they have not been asked about."""

    @property
    def unconfirmed(self) -> bool:
        """Whether the cache alone stands for what is told, or left undone."""
        return self.unassigned or rests_on_the_cache(self.findings)

    def cut_short_if(self, time_was_up: bool) -> Decision:
        """The same, marked as incomplete if time was up before it was made."""
        return replace(self, is_cut_short=True) if time_was_up and not self.is_cut_short else self

    def plain(self) -> Decision:
        """The same, of nothing but texts and numbers: to be sent from one process to another."""
        return replace(self, findings=tuple(finding._replace(detail={}) for finding in self.findings))


class Time(NamedTuple):
    """The wall clock's time (UTC), and whether the time for what takes long is used up.

    `late`: how long cluster state has been without news, in words, where that is too long.
    `clock`: seconds from any beginning; without one nothing is timed.
    """

    now: datetime
    expired: Callable[[], bool]
    late: str = ""
    clock: Callable[[], float] = lambda: 0.0


def row_of(request: AdmissionRequest, config: Config) -> DirectionRow:
    """The row of the table of directions that the request falls under."""
    return next(row for row in ROWS if row.applies(request, config))


def decide(
    request: AdmissionRequest,
    hook: Hook,
    cluster: ClusterSnapshot | None,
    config: Config,
    time: Time,
    confirm: Confirm | None = None,
    recall: AnnotationLookup = worked_out,
    impacts: Impacts | None = None,
    shown: Callable[[], Shown] = lambda: EXACT,
) -> Decision:
    """Answer one request. With `confirm`, what rests on the cache is told only if the live classes agree.

    `recall` gives the annotation of an object that was annotated a moment ago, so that asking again changes nothing.
    `impacts` gives those that are known by this state already; `shown`: how much of them is shown, once one is given.
    """
    decision = let_pass(request, cluster, config, time.now)
    return (
        look_at(request, hook, cluster, config, time, confirm, recall, impacts, shown) if decision is None else decision
    )


def look_at(
    request: AdmissionRequest,
    hook: Hook,
    cluster: ClusterSnapshot | None,
    config: Config,
    time: Time,
    confirm: Confirm | None = None,
    recall: AnnotationLookup = worked_out,
    impacts: Impacts | None = None,
    shown: Callable[[], Shown] = lambda: EXACT,
) -> Decision:
    """The same, for one that is not let pass."""
    if hook is Hook.MUTATE:
        decision = _patch(request, cluster, config, time, confirm, recall, impacts, shown)
    else:
        subject = subject_of(request, cluster, config)
        if subject is None:
            return Decision(AdmissionResponse(request.uid), Verdict.ALLOWED)
        decision = _judge(request, subject._replace(subresource=""), cluster, config, time, confirm, impacts, shown)
    return _marked(decision, cluster, time, config.not_honoured(_namespace(request, cluster), time.now))


def subject_of(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config) -> ReviewedObject | None:
    """The object that is judged: the one in the request, or the workload that `…/scale` is about; None where that is
    not known."""
    looked_up = row_of(request, config).direction is Direction.LOOK_UP
    return _scaled(request, cluster, config) if looked_up else request.subject


def let_pass(
    request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config, now: datetime
) -> Decision | None:
    """The decision on a request whose object is not looked at: nobody's concern, or exempt; None for any other."""
    exemption = exemption_of(request, cluster, config, now)
    return None if exemption is None else passed(request.uid, exemption)


def exemption_of(
    request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config, now: datetime
) -> str | None:
    """Why the request's object is not looked at: empty where it is nobody's concern, None where it is looked at."""
    if row_of(request, config).direction is Direction.PASS:
        return ""
    return config.exemption(request.user, _namespace(request, cluster), now) or None


def passed(uid: str, exemption: str) -> Decision:
    """The decision on what is let pass, for what `exemption_of` says."""
    if not exemption:
        return Decision(AdmissionResponse(uid), Verdict.ALLOWED)
    return Decision(AdmissionResponse(uid, audit={"exempt": one_line(exemption)}), Verdict.EXEMPT, exemption=exemption)


def not_evaluated(
    request: AdmissionRequest, hook: Hook, cluster: ClusterSnapshot | None, config: Config, now: datetime, why: str
) -> Decision:
    """The decision on a request whose objects can't be read: denied if a rule that is in force could deny it."""
    ours = not request.subresource or request.kind.group_kind == NAMESPACE
    if not (ours and _is_evaluated(request, config)) or request.operation is Operation.CONNECT:
        return passed(request.uid, "")
    if exemption := config.exemption(request.user, _namespace(request, cluster), now):
        return passed(request.uid, exemption)
    if hook is Hook.MUTATE:  # /validate denies it
        return Decision(AdmissionResponse(request.uid, audit={NOT_EVALUATED: why}), Verdict.ALLOWED)
    action = Action.DENY if may_deny(request.kind.group_kind, request.operation, config) else Action.WARN
    message, remedy = f"not evaluated: {why}", "make the object smaller or less nested, or try again"
    finding = Finding(NOWHERE, Severity.ERROR, NOT_EVALUATED, NO_OBJECT, message, remedy, action)
    return _answer(request.uid, (finding,))


def _marked(decision: Decision, cluster: ClusterSnapshot | None, time: Time, not_honoured: str) -> Decision:
    """A decision by late cluster state says so, and one that a namespace's annotation would have exempted."""
    if not_honoured:
        decision = replace(audited(decision, NOT_EXEMPT, not_honoured), exemption=f"not applied: {not_honoured}")
    return audited(decision, LATE, time.late if cluster is not None else "")


def audited(decision: Decision, key: str, said: str) -> Decision:
    """The decision with one more audit annotation, where there is something to say."""
    if not said:
        return decision
    audit = {**decision.response.audit, key: said}
    return replace(decision, response=replace(decision.response, audit=audit))


def default_candidate_of(request: AdmissionRequest, hook: Hook, config: Config) -> DefaultCandidate | None:
    """What must be reserved before the request is allowed; None: nothing. Dry runs reserve nothing."""
    asked = hook is Hook.VALIDATE and not request.dry_run and request.operation in _STORING
    if not asked or request.kind.group_kind != PRIORITY_CLASS or request.subresource:
        return None
    before = request.old or NOTHING
    becomes = at(request.object, "globalDefault") is True and at(before, "globalDefault") is not True
    if not becomes or config.action(global_default_not_unique, Target.PRIORITY_CLASS) is not Action.DENY:
        return None
    name = request.name or _text_at(request.object, "metadata", "name")
    if not name:
        return None  # the API server stores no class without a name
    uid, version = _text_at(request.object, "metadata", "uid"), _text_at(before, "metadata", "resourceVersion")
    told = f"create {uid}" if request.operation is Operation.CREATE else f"update {uid} {version}" if version else ""
    return DefaultCandidate(name, told if uid else "")


def may_stand(decision: Decision) -> bool:
    """Whether the decision would let the object be stored by our rules."""
    return decision.response.allowed and decision.verdict is not Verdict.EXEMPT


def refuse_default(request: AdmissionRequest, decision: Decision, why: str) -> Decision:
    """The decision on a class whose place as global default is taken; the audit log is told what it was to be told."""
    subject = request.subject
    location, ref = subject.locate(("globalDefault",)), subject.ref
    rule, remedy = global_default_not_unique.ID, "try again, or set globalDefault: false"
    finding = Finding(location, Severity.ERROR, rule, ref, why, remedy, Action.DENY, "globalDefault")
    denied = _answer(request.uid, (*decision.findings, finding))
    audit = {**decision.response.audit, **denied.response.audit}
    return replace(denied, response=replace(denied.response, audit=audit))


def _text_at(obj: ApiObject, *path: str) -> str:
    value = at(obj, *path)
    return value if isinstance(value, str) else ""


_STORING: Final = (Operation.CREATE, Operation.UPDATE)


def _is_evaluated(request: AdmissionRequest, config: Config) -> bool:
    kind = request.kind.group_kind
    return kind in _JUDGED or kind in config.options.pod_template_paths


def _namespace(request: AdmissionRequest, cluster: ClusterSnapshot | None) -> Namespace | None:
    """The namespace as stored: a request about a namespace cannot exempt itself, nor make its exemption longer."""
    if not request.namespace:
        return None
    known = cluster.namespace(request.namespace) if cluster else None
    known = known or Namespace(request.namespace, {}, {})
    return known._replace(annotations={}) if request.kind.group_kind == NAMESPACE else known


def _patch(
    request: AdmissionRequest,
    cluster: ClusterSnapshot | None,
    config: Config,
    time: Time,
    confirm: Confirm | None,
    recall: AnnotationLookup,
    impacts: Impacts | None,
    shown: Callable[[], Shown],
) -> Decision:
    unanswered = False
    try:
        mutation = mutate(request, cluster)
        if mutation.missing and confirm is not None and cluster is not None:
            classes = _asked(confirm, time)
            unanswered = classes is None
            cluster = cluster if classes is None else _with_classes(cluster, classes)
            mutation = mutate(request, cluster)
    except InvalidObject:
        mutation = NO_MUTATION  # not ours to say: the API server decodes and validates
    findings, kept_from = _missing_default(request, mutation.missing, config), ""
    if cluster is not None and (denied := _denials_of(request, mutation.assigned, cluster, config, time)):
        findings, kept_from = denied, mutation.assigned
        mutation = mutate(request, cluster, assign=False)
    annotated = _annotated(request, mutation.patch, cluster, config, time, recall, impacts, shown)
    operations = (*mutation.patch, *annotated.patch)
    answered = _answer(request.uid, tuple(map(unproven, findings)) if unanswered else findings)
    audit = dict(answered.response.audit)
    if mutation.assigned:
        audit["assigned-priority-class"] = f"{mutation.assigned}, the default of namespace {request.namespace}"
    if kept_from:
        audit["priority-class-not-assigned"] = (
            f"{kept_from}, the default of namespace {request.namespace}: not allowed for this Pod"
        )
    response = replace(answered.response, patch=operations, audit=audit)
    verdict = Verdict.PATCHED if operations else answered.verdict
    return replace(
        answered,
        response=response,
        verdict=verdict,
        unassigned=bool(mutation.missing),
        written=annotated.written,
        is_cut_short=annotated.cut,
    )


def _with_classes(cluster: ClusterSnapshot, classes: Mapping[str, PriorityClass]) -> ClusterSnapshot:
    """The cluster with the live classes; the same one where it has them."""
    return cluster if classes == cluster.priority_classes else replace(cluster, priority_classes=classes)


def _asked(confirm: Confirm, time: Time) -> Mapping[str, PriorityClass] | None:
    """The live classes; None where there is no answer, or no time to ask."""
    try:
        return None if time.expired() else confirm()
    except OSError:
        return None


class _Annotated(NamedTuple):
    """What becomes of the annotation. `cut`: there was no time to say it all."""

    patch: tuple[PatchOperation, ...] = ()
    written: Written | None = None
    cut: bool = False


def _annotated(
    request: AdmissionRequest,
    patch: tuple[PatchOperation, ...],
    cluster: ClusterSnapshot | None,
    config: Config,
    time: Time,
    recall: AnnotationLookup,
    impacts: Impacts | None,
    shown: Callable[[], Shown],
) -> _Annotated:
    """The annotation of the object as the patch makes it: set, taken away where there is nothing to say, or left."""
    if request.operation not in _STORING or request.subresource:
        return _Annotated()
    subject, text = request.subject._replace(object=apply_patch(request.object, patch)), None
    told: list[Impact | None] = []

    def work_out() -> str | None:
        assert cluster is not None
        told.append(impact_of(subject, cluster, config, time.expired, impacts))
        audience = Audience(config.disclose, request.namespace, shown=shown())
        return impact_annotation.annotation(told[-1], bool(time.late), audience)

    if cluster is not None and impact_annotation.wanted(subject, config):
        remembered = worked_out if request.dry_run else recall  # what a dry run was told must not outlive it
        with suppress(InvalidObject):
            text = remembered(subject, work_out)
    cut = any(found.is_cut_short for found in told if found)
    written = impact_annotation.written(subject, text) if told and text and not request.dry_run else None
    if text is None:
        text = impact_annotation.kept(subject, config)
    if not text:
        return _Annotated(tuple(drop(request.object, impact_annotation.PATH)), None, cut)
    if text == at(request.object, *impact_annotation.PATH):
        return _Annotated((), written, cut)
    return _Annotated((set_value(request.object, impact_annotation.PATH, text),), written, cut)


def _missing_default(request: AdmissionRequest, name: str, config: Config) -> tuple[Finding, ...]:
    """What there is to say of a default class that does not exist. It is the namespace's fault: no pod is denied."""
    action = config.action(unknown_default_class, Target.POD)
    if not name or action is Action.OFF:
        return ()
    message = f'PriorityClass "{name}", the default of namespace "{request.namespace}", not found; none assigned'
    remedy = f"create the PriorityClass, or change the namespace's annotation {DEFAULT_CLASS_ANNOTATION}"
    subject, told = request.subject, Action.WARN if action is Action.DENY else action
    location, rule = subject.locate(()), unknown_default_class.ID
    return (Finding(location, Severity.WARNING, rule, subject.ref, message, remedy, told),)


def _denials_of(
    request: AdmissionRequest, assigned: str, cluster: ClusterSnapshot, config: Config, time: Time
) -> tuple[Finding, ...]:
    """What the rules deny the pod and its requester for, with the class that it would be given, and not without it.

    They are warnings: the pod comes, but without that class.
    """
    if not assigned:
        return ()
    own = _text_at(request.object, *CLASS)
    config = config._replace(actions={**config.actions, **dict.fromkeys(impact_annotation.PREDICTING, Action.OFF)})

    def denied(name: str) -> dict[str, Finding]:
        subject = request.subject._replace(object=with_class(request.object, name, cluster))
        found = evaluate(
            ChangeSet((subject,)),
            cluster,
            config,
            phase=Phase.VALIDATE,
            now=time.now,
            expired=time.expired,
            disclose=config.disclose,
        )
        told = (doubted(finding) if time.late else finding for finding in found)
        return {finding.rule: finding for finding in told if finding.action is Action.DENY}

    with_it = denied(assigned)
    without = denied(own) if with_it and own in (*cluster.priority_classes, "") else {}
    why = f"The Pod is admitted without this default of namespace {request.namespace}"
    return tuple(_not_given(finding, why) for rule, finding in with_it.items() if rule not in without)


def _not_given(finding: Finding, why: str) -> Finding:
    """The denial as a warning, in both of its wordings."""
    remedy = "set another priorityClassName"
    told = finding.for_requester and finding.for_requester._replace(
        message=f"{finding.for_requester.message}. {why}", remediation=remedy
    )
    message = f"{finding.message}. {why}"
    return finding._replace(action=Action.WARN, message=message, remediation=remedy, for_requester=told)


def _scaled(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config) -> ReviewedObject | None:
    """The workload that `…/scale` is about, with the replicas asked for; None where it is not known."""
    resource = request.resource
    for kind in config.options.pod_template_paths if cluster else ():
        group = kind.rpartition("/")[0]
        if group == resource.group and resource.resource in plurals(kind):
            assert cluster is not None
            found = cluster.workload(kind, request.namespace, request.name)
            if found is None:
                return None
            try:
                spec = {**(at(found.object, "spec") or {}), "replicas": at(request.object, "spec", "replicas")}
            except TooLarge:  # nothing of it is kept: each rule says that it was not evaluated
                return request.subject._replace(object=found.object, old=None, subresource="")
            return request.subject._replace(object={**found.object, "spec": spec}, old=found.object, subresource="")
    return None


def _judge(
    request: AdmissionRequest,
    subject: ReviewedObject,
    cluster: ClusterSnapshot | None,
    config: Config,
    time: Time,
    confirm: Confirm | None,
    known: Impacts | None,
    shown: Callable[[], Shown],
) -> Decision:
    told: list[Impact] = []
    seconds = 0.0

    def found(cluster: ClusterSnapshot | None) -> tuple[Finding, ...]:
        nonlocal seconds
        begun = time.clock()
        judge = partial(
            evaluate,
            cluster=cluster,
            config=config,
            phase=Phase.VALIDATE,
            now=time.now,
            expired=time.expired,
            disclose=config.disclose,
            shown=shown,
        )
        findings = without_repeats(
            subject,
            judge(ChangeSet((subject,)), predicted=told.append, recall=known),
            config.options.pod_template_paths,
            lambda stored: judge(ChangeSet((stored,))),
        )
        seconds = time.clock() - begun
        return tuple(doubted(finding) if time.late else finding for finding in findings)

    findings = found(cluster)
    if confirm is not None and cluster is not None and rests_on_the_cache(findings):
        classes = _asked(confirm, time)
        if classes is None:
            findings = tuple(unproven(finding) for finding in findings)
        else:
            live = _with_classes(cluster, classes)
            findings = findings if live is cluster else found(live)
    if told and (why := shown().not_predicted):
        findings = without_prediction(findings, subject, config, why)
    withheld = any(finding.for_requester and finding.action in _SPOKEN for finding in findings)
    if withheld and config.disclose_to.covers(request.user):
        withheld, findings = False, tuple(finding._replace(for_requester=None) for finding in findings)
    answered = replace(
        _answer(request.uid, findings, time.late),
        withholds=withheld and config.disclose_to.by_access_review and not is_on_behalf(request.user, request.object),
        outcome=impact_annotation.outcome_of(told[-1]) if told else "",
        expected=expectation_of(subject, told[-1]) if told and not time.late else None,
        predicting=seconds,
        is_cut_short=any(found.is_cut_short for found in told),
        brings=told[-1].brings if told else 0,
    )
    said = several_defaults.said_of(subject, cluster, config) if cluster is not None else ""
    return audited(answered, several_defaults.AUDIT_KEY, said)


_SPOKEN: Final = (Action.DENY, Action.WARN)


def in_full(request: AdmissionRequest, decision: Decision) -> Decision:
    """The decision as it is told to who may see everything."""
    findings = tuple(finding._replace(for_requester=None) for finding in decision.findings)
    told = _answer(request.uid, findings).response
    audit = {**told.audit, **decision.response.audit}
    return replace(decision, response=replace(told, audit=audit), findings=findings, withholds=False)


def _answer(uid: str, findings: tuple[Finding, ...], late: str = "") -> Decision:
    """One set of findings, rendered as denial, warnings or audit annotations. `late`: as in Time."""
    by_action: dict[Action, list[Finding]] = {action: [] for action in Action}
    for finding in findings:
        by_action[finding.action].append(finding)
    withheld = [finding for finding in findings if finding.for_requester and finding.action in _SPOKEN]
    audit = audit_of([*by_action[Action.AUDIT], *withheld])
    if told := next((finding.detail for finding in findings if finding.rule in impact_annotation.PREDICTING), None):
        audit[impact_annotation.AUDIT_KEY] = impact_annotation.text_of(told, bool(late))
    if denied := by_action[Action.DENY]:
        message, causes = denial_of(denied)
        response = AdmissionResponse(uid, False, 403, "Forbidden", message, causes, audit=audit)
        return Decision(response, Verdict.DENIED, findings)
    warnings = warnings_of(by_action[Action.WARN])
    return Decision(
        AdmissionResponse(uid, warnings=warnings, audit=audit),
        Verdict.WARNED if warnings else Verdict.ALLOWED,
        findings,
    )
