"""A decision on an admission request: the response, and values for logs and metrics."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from forewarn.policies.copies import replace
from forewarn.policies.findings import Action, Finding, one_line
from forewarn.policies.rules import RULES
from forewarn.policies.rules.support.details import ONLY_IN_FINDINGS
from forewarn.webhook.admission import impact_annotation
from forewarn.webhook.admission.messages import audit_of, denial_of, is_shortened, warnings_of
from forewarn.webhook.admission.review import AdmissionRequest, AdmissionResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.webhook.admission.impact_annotation import Written
    from forewarn.webhook.pod_expectations import Expectation
    from forewarn.webhook.workload_expectations import WorkloadExpectation


_CACHE_RULES: Final = [rule for rule in RULES if rule.ACTION is not None and rule.DEPENDS_ON.stored]
RESTS_ON_THE_CACHE: Final = frozenset(rule.ID for rule in _CACHE_RULES if rule.DEPENDS_ON.is_confirmed)
"""Rules that depend on PriorityClasses in the cache: a live GET confirms their denials and warnings."""
COUNTS_THE_CACHE: Final = frozenset(rule.ID for rule in _CACHE_RULES) - RESTS_ON_THE_CACHE
"""Rules that depend on other objects in the cache: with a stale cache, their denials become warnings."""


def depends_on_cache(findings: tuple[Finding, ...]) -> bool:
    """Report whether a denial depends on the watch cache; without denials, whether a warning does."""
    action = Action.DENY if any(finding.action is Action.DENY for finding in findings) else Action.WARN
    return any(finding.action is action and finding.rule in RESTS_ON_THE_CACHE for finding in findings)


_UNASKED: Final = {
    Action.DENY: "Allowed: the API server did not confirm this",
    Action.WARN: "Not confirmed by the API server",
}
_STALE_LISTS: Final = {
    Action.DENY: "Allowed: the cluster state is stale",
    Action.WARN: "The cluster state is stale",
}


def unproven(finding: Finding) -> Finding:
    """Return the finding that the API server did not confirm: a denial becomes a warning; a warning gets a caveat.

    Findings that do not depend on the watch cache are unchanged.
    """
    why = _UNASKED.get(finding.action)
    return _warned(finding, why) if why and finding.rule in RESTS_ON_THE_CACHE else finding


def doubted(finding: Finding) -> Finding:
    """Return the finding if the cache is stale: a denial becomes a warning; a warning gets a caveat.

    Findings of rules that do not count cached objects are unchanged.
    """
    why = _STALE_LISTS.get(finding.action)
    return _warned(finding, why) if why and finding.rule in COUNTS_THE_CACHE else finding


def _warned(finding: Finding, why: str) -> Finding:
    return finding.with_texts(lambda text: text.with_caveat(why))._replace(action=Action.WARN)


def with_classes(cluster: ClusterSnapshot, classes: Mapping[str, PriorityClass]) -> ClusterSnapshot:
    """Return the cluster state with these PriorityClasses; the same object if they are equal."""
    return cluster if classes == cluster.priority_classes else dataclasses.replace(cluster, priority_classes=classes)


VISIBLE: Final = (Action.DENY, Action.WARN)
"""Actions whose messages the requester reads."""


class Verdict(StrEnum):
    """The result of a request, as a label of metrics and logs."""

    ALLOWED = "allowed"
    PATCHED = "patched"
    WARNED = "warned"
    DENIED = "denied"
    EXEMPT = "exempt"


@dataclass(frozen=True, slots=True)
class Decision:
    """The response, and values for logs and metrics."""

    response: AdmissionResponse
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    exemption: str = ""
    outcome: str = ""
    """The outcome of the prediction for `/validate`; empty without a prediction."""
    expected: Expectation | WorkloadExpectation | None = None
    """The predicted outcome, to compare with kube-scheduler's decisions later."""
    predicting: float = 0.0
    """Seconds that the last evaluation of the rules took, including its prediction."""
    unassigned: bool = False
    """True if the default PriorityClass of the namespace is not in the cache."""
    written: Written | None = None
    """The annotation that `/mutate` writes."""
    is_cut_short: bool = False
    """True if the deadline stopped a prediction."""
    brings: int = 0
    """The number of new Pods of the object; 0 if a rollout replaces Pods."""
    withholds: bool = False
    """True if an access review could allow the requester to read more names."""

    @property
    def unconfirmed(self) -> bool:
        """True if the decision depends on PriorityClasses that were read only from the cache."""
        return self.unassigned or depends_on_cache(self.findings)

    def cut_short_if(self, time_was_up: bool) -> Decision:
        """Return the decision, marked as incomplete if `time_was_up`."""
        return replace(self, is_cut_short=True) if time_was_up and not self.is_cut_short else self

    def plain(self) -> Decision:
        """The decision without the findings' details, to send it from one process to another."""
        return replace(self, findings=tuple(finding._replace(detail={}) for finding in self.findings))

    def audited(self, key: str, text: str) -> Decision:
        """The decision with one more audit annotation, unless the text is empty."""
        if not text:
            return self
        return replace(self, response=replace(self.response, audit={**self.response.audit, key: text}))


def passed(uid: str, exemption: str) -> Decision:
    """Return the decision on a request that forewarn does not evaluate.

    `exemption`: the reason of a named exemption; "" without one (see `directions.exemption_of`).
    """
    if not exemption:
        return Decision(AdmissionResponse(uid), Verdict.ALLOWED)
    return Decision(AdmissionResponse(uid, audit={"exempt": one_line(exemption)}), Verdict.EXEMPT, exemption=exemption)


def decision_of(uid: str, findings: tuple[Finding, ...], staleness: str = "") -> Decision:
    """The decision for these findings: denial, warnings and audit annotations. `staleness`: see `context.Time`."""
    by_action = defaultdict[Action, list[Finding]](list)
    for finding in findings:
        by_action[finding.action].append(finding)
    in_full = [finding for finding in findings if finding.action in VISIBLE and finding.for_requester]
    in_full += [finding for finding in by_action[Action.WARN] if not finding.for_requester and is_shortened(finding)]
    audit = audit_of([*by_action[Action.AUDIT], *in_full])
    about = impact_annotation.ABOUT_PREDICTIONS
    if detail := next((finding.detail for finding in findings if finding.rule in about), None):
        impact = {key: value for key, value in detail.items() if key not in ONLY_IN_FINDINGS}
        audit[impact_annotation.AUDIT_KEY] = impact_annotation.text_of(impact, bool(staleness))
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


def in_full(request: AdmissionRequest, decision: Decision) -> Decision:
    """Return the decision for a requester with permission to read all names."""
    findings = tuple(finding._replace(for_requester=None) for finding in decision.findings)
    response = decision_of(request.uid, findings).response
    audit = {**response.audit, **decision.response.audit}
    return replace(decision, response=replace(response, audit=audit), findings=findings, withholds=False)
