"""The decision of `/validate`: the findings of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.copies import replace
from forewarn.policies.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.objects.reviewed_object import ChangeSet
from forewarn.webhook.admission import impact_annotation, several_defaults
from forewarn.webhook.admission.decision import VISIBLE, Decision, decision_of
from forewarn.webhook.admission.prediction_access import is_on_behalf, without_prediction
from forewarn.webhook.admission.stale_cache import depends_on_cache, doubted, unproven, with_classes
from forewarn.webhook.admission.unchanged import without_repeats
from forewarn.webhook.expectations import expectation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.findings import Finding
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.webhook.admission.context import ReviewContext


def decide_validation(review: ReviewContext, subject: ReviewedObject) -> Decision:
    """The findings about the object, confirmed by the API server if they depend on the cache."""
    request, cluster, config, time = review.request, review.cluster, review.config, review.time
    impacts: list[Impact] = []
    seconds = 0.0

    def found(cluster: ClusterSnapshot | None) -> tuple[Finding, ...]:
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

        def of_stored(stored: ReviewedObject) -> list[Finding]:
            old = new._replace(change_set=ChangeSet((stored,)), predicted=lambda _: None, recall=None)
            return evaluate(old)

        findings = without_repeats(subject, evaluate(new), config.options.pod_template_paths, of_stored)
        seconds = time.clock() - started
        return tuple(doubted(finding) if time.staleness else finding for finding in findings)

    findings = found(cluster)
    if review.confirm is not None and cluster is not None and depends_on_cache(findings):
        classes = review.live_classes()
        if classes is None:
            findings = tuple(unproven(finding) for finding in findings)
        else:
            live = with_classes(cluster, classes)
            findings = findings if live is cluster else found(live)
    if impacts and (why := review.shown().not_predicted):
        findings = without_prediction(findings, subject, config, why)
    withheld = any(finding.for_requester and finding.action in VISIBLE for finding in findings)
    if withheld and config.disclose_to.covers(request.user):
        withheld, findings = False, tuple(finding._replace(for_requester=None) for finding in findings)
    decision = replace(
        decision_of(request.uid, findings, time.staleness),
        withholds=withheld and config.disclose_to.by_access_review and not is_on_behalf(request.user, request.object),
        predicting=seconds,
        **_of_impacts(subject, impacts, staleness=bool(time.staleness)),
    )
    text = several_defaults.audit_text(subject, cluster, config) if cluster is not None else ""
    return decision.audited(several_defaults.AUDIT_KEY, text)


def _of_impacts(subject: ReviewedObject, impacts: Sequence[Impact], *, staleness: bool) -> dict[str, Any]:
    """The fields of a decision with the values of the latest prediction; none without a prediction.

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
