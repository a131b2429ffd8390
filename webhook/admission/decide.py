"""Decides on one admission request, without side effects: exemption, patch or rules, response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.copies import replace
from forewarn.policies.evaluation.evaluator import may_deny
from forewarn.policies.findings import NO_LOCATION, NO_OBJECT, Action, Finding, Severity, Text, quote
from forewarn.policies.kinds.registry import NAMESPACE
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.fields import namespace_of as namespace_in
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.webhook.admission.call import Hook
from forewarn.webhook.admission.decision import Decision, Verdict, decision_of, passed
from forewarn.webhook.admission.directions import exemption_of, is_evaluated, misspelled_in, namespace_of, subject_of
from forewarn.webhook.admission.mutating import decide_mutation
from forewarn.webhook.admission.review import AdmissionResponse
from forewarn.webhook.admission.validating import decide_validation

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.webhook.admission.context import ReviewContext
    from forewarn.webhook.admission.review import AdmissionRequest

STALE_CACHE_KEY: Final = "stale-cache"
"""Key of the audit annotation if the cluster state is too old."""
NOT_EVALUATED: Final = "not-evaluated"
"""Key of the audit annotation, and id of the finding, if forewarn cannot read the object."""
NOT_EXEMPT: Final = "not-exempt"
"""Key of the audit annotation if a namespace's exemption ends too far in the future."""


def decide(review: ReviewContext) -> Decision:
    """The decision on any request: an exemption, or the result of an evaluation."""
    exemption = exemption_of(review.request, review.cluster, review.config, review.time.now)
    return evaluate_review(review) if exemption is None else passed(review.request.uid, exemption)


def evaluate_review(review: ReviewContext) -> Decision:
    """The decision on a request without exemption."""
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
    """What makes the objects of a request differ from what is stored, as problem and fix; None if nothing does."""
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
    """Return the decision on a request whose objects forewarn cannot read: a denial if an enabled rule could deny the
    request, otherwise a warning.
    """
    is_covered = not request.subresource or request.kind.group_kind == NAMESPACE
    if not (is_covered and is_evaluated(request, config)) or request.operation is Operation.CONNECT:
        return passed(request.uid, "")
    if exemption := config.exemption(request.user, namespace_of(request, cluster), now):
        return passed(request.uid, exemption)
    if hook is Hook.MUTATE:  # `/validate` denies the request.
        return Decision(AdmissionResponse(request.uid, audit={NOT_EVALUATED: why}), Verdict.ALLOWED)
    action = Action.DENY if may_deny(request.kind.group_kind, request.operation, config) else Action.WARN
    text = Text(f"not evaluated: {why}", remedy)
    finding = Finding(NO_LOCATION, Severity.ERROR, NOT_EVALUATED, NO_OBJECT, text, action)
    return decision_of(request.uid, (finding,))
