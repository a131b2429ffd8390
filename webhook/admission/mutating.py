"""The decision of `/mutate`: the patch, the impact annotation, and warnings about the default class."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.copies import replace
from forewarn.policies.disclosure import Audience
from forewarn.policies.evaluation.evaluator import EvaluationRequest, Phase, evaluate, impact_of
from forewarn.policies.findings import Action, Finding, Severity, Text
from forewarn.policies.objects.fields import InvalidObject, at, text_at
from forewarn.policies.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.objects.reviewed_object import ChangeSet
from forewarn.policies.rules.namespace import unknown_default_class
from forewarn.policies.rules.support.context import Target
from forewarn.webhook.admission import impact_annotation
from forewarn.webhook.admission.context import ReviewContext, computed
from forewarn.webhook.admission.decision import Decision, Verdict, decision_of
from forewarn.webhook.admission.json_patch import PatchOperation, apply_patch, drop, set_value
from forewarn.webhook.admission.mutation import CLASS, NO_MUTATION, mutate, with_class
from forewarn.webhook.admission.review import STORING
from forewarn.webhook.admission.stale_cache import doubted, unproven, with_classes

if TYPE_CHECKING:
    from forewarn.policies.forecast.impact import Impact
    from forewarn.webhook.admission.impact_annotation import Written


def decide_mutation(review: ReviewContext) -> Decision:
    """The decision on a request to `/mutate`: the patch, and warnings about it."""
    request, unanswered = review.request, False
    try:
        mutation = mutate(request, review.cluster)
        if mutation.missing and review.confirm is not None and review.cluster is not None:
            classes = review.live_classes()
            unanswered = classes is None
            review = review if classes is None else review._replace(cluster=with_classes(review.cluster, classes))
            mutation = mutate(request, review.cluster)
    except InvalidObject:
        mutation = NO_MUTATION  # The API server decodes and validates the object.
    findings, denied = _missing_default(review, mutation.missing), ""
    if found := _denials_of(review, mutation.assigned):
        findings, denied = found, mutation.assigned
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
    """The change of the impact annotation, as a patch. `is_cut_short`: the deadline stopped the prediction."""

    patch: tuple[PatchOperation, ...] = ()
    written: Written | None = None
    is_cut_short: bool = False


def _annotated(review: ReviewContext, patch: tuple[PatchOperation, ...]) -> _Annotated:
    """The change of the impact annotation on the patched object: set, remove or leave it."""
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
        recall = computed if request.dry_run else review.recall  # A later request must not get a dry run's annotation.
        with suppress(InvalidObject):
            text = recall(subject, compute)
    is_cut_short = any(found.is_cut_short for found in impacts if found)
    written = impact_annotation.written(subject, text) if impacts and text and not request.dry_run else None
    if text is None:
        text = impact_annotation.retained(subject, config)
    if not text:
        return _Annotated(tuple(drop(request.object, impact_annotation.PATH)), None, is_cut_short)
    if text == at(request.object, *impact_annotation.PATH):
        return _Annotated((), written, is_cut_short)
    return _Annotated((set_value(request.object, impact_annotation.PATH, text),), written, is_cut_short)


def _missing_default(review: ReviewContext, name: str) -> tuple[Finding, ...]:
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


def _denials_of(review: ReviewContext, assigned: str) -> tuple[Finding, ...]:
    """Return the findings of the rules that deny the Pod with the assigned default class, but not without it, as
    warnings.
    """
    request, cluster, config, time = review.request, review.cluster, review.config, review.time
    if not assigned or cluster is None:
        return ()
    own = text_at(request.object, *CLASS)
    config = config._replace(actions={**config.actions, **dict.fromkeys(impact_annotation.PREDICTING, Action.OFF)})

    def denied(name: str) -> dict[str, Finding]:
        subject = request.subject._replace(object=with_class(request.object, name, cluster))
        found = evaluate(
            EvaluationRequest(
                ChangeSet((subject,)),
                cluster,
                config,
                phase=Phase.VALIDATE,
                now=time.now,
                expired=time.expired,
                disclose=config.disclose,
            )
        )
        findings = (doubted(finding) if time.staleness else finding for finding in found)
        return {finding.rule: finding for finding in findings if finding.action is Action.DENY}

    with_it = denied(assigned)
    without = denied(own) if with_it and own in (*cluster.priority_classes, "") else {}
    why = "The Pod is admitted without this default"
    return tuple(_not_assigned(finding, why) for rule, finding in with_it.items() if rule not in without)


def _not_assigned(finding: Finding, why: str) -> Finding:
    """Turn a denial into a warning, with the reason and a fix."""
    remedy = "set another priorityClassName"
    return finding.with_texts(lambda text: text.with_caveat(why)._replace(fix=remedy))._replace(action=Action.WARN)
