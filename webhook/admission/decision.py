"""A decision on an admission request: the response, and values for logs and metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Action, Finding, Text, cut, grouped, joined, one_line, plural
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.details import ONLY_IN_FINDINGS
from forewarn.webhook.admission import impact_annotation
from forewarn.webhook.admission.review import AdmissionRequest, AdmissionResponse, Cause

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
    from forewarn.webhook.accuracy import Expectation
    from forewarn.webhook.admission.impact_annotation import Written
    from forewarn.webhook.workload_accuracy import WorkloadExpectation

MAX_WARNINGS: Final = 3
MAX_WARNING: Final = 256
BEST: Final = 120
"""Recommended maximum of characters of a warning before the id of the rule. Source: the documentation of Kubernetes."""
MAX_AUDIT_KEY: Final = 63
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: those that deny before those that warn, then by severity."""
    result = list(findings)
    if len(result) > 1:
        result.sort(key=lambda finding: (_RANKS[finding.action], finding.severity, finding.order))
    return result


_RANKS: Final = {action: rank for rank, action in enumerate(Action)}
"""Action -> its rank; the worst action has rank 0."""


def warnings_of(findings: Iterable[Finding], is_named: Callable[[Finding], bool] = lambda _: False) -> tuple[str, ...]:
    """Return at most three different warnings, the worst first; the last warning also counts the omitted ones.

    `is_named`: reports whether the warning of a finding begins with the object's name. kubectl prints equal warnings
    only once.
    """
    rules: dict[str, str] = {}
    for finding in worst_first(finding.as_shown for finding in findings if finding.is_shown):
        name = name_of(finding) if is_named(finding) else ""
        limit = MAX_WARNING - len(finding.rule) - _MAX_COUNT
        rules.setdefault(_fitted(_on_one_line(finding.text), limit, name), finding.rule)
    warnings = [f"{text} [{rule}]" for text, rule in [*rules.items()][:MAX_WARNINGS]]
    if more := len(rules) - len(warnings):
        warnings[-1] += f" (and {plural(more, 'more warning')})"
    return tuple(warnings)


_MAX_COUNT: Final = len(" [] (and 9999 more warnings)")


def name_of(finding: Finding) -> str:
    """Return the object as the start of a warning, `Deployment shop/web: `; the middle of a long name is omitted."""
    name = _without_middle(one_line(str(finding.object)), MAX_NAME)
    return f"{name}: " if name else ""


def _without_middle(name: str, limit: int) -> str:
    return f"{name[: limit // 2]}…{name[1 - limit // 2 :]}" if len(name) > limit else name


MAX_NAME: Final = 60
_SHORT_NAME: Final = 34


def _on_one_line(text: Text) -> Text:
    """Return the text with each part on one line, except `shorter`, which `shortened` makes printable."""
    more = tuple(map(one_line, text.more))
    return Text(one_line(text.problem), one_line(text.fix), more, text.shorter, tuple(map(one_line, text.caveats)))


def _fitted(text: Text, limit: int, name: str) -> str:
    """Return the text in at most BEST characters if possible, and never more than `limit`.

    Caveats and the fix stay complete even above BEST; only `limit` can shorten them. Further sentences are removed
    first, starting with the last one. Then the problem is shortened, to no less than _SHORTEST characters.
    """
    if name:
        return _named(text, min(limit, BEST), name)
    fix, caveats = text.advice, joined(text.caveats)
    if len(fix) > (room := limit - _SHORTEST - len(caveats) - 3):
        fix = truncated_text(fix, min(room, limit // 2))
        fix = fix if len(fix) > _MIN_FIX else ""
    most = min(limit, max(BEST, _SHORTEST + 1 + len(joined((caveats, fix)))))
    for kept in _with_fewer_sentences(text):
        others = joined((*kept, fix))
        room = most - len(others) - 2 if others else most
        if len(text.problem) <= room:
            break
    return cut(joined((shortened(text, max(room, _SHORTEST)), others)), limit)


def _with_fewer_sentences(text: Text) -> Iterator[list[str]]:
    """Yield the further sentences, then the same without the last one, and so on; caveats are kept."""
    for count in range(len(text.more), -1, -1):
        yield [sentence for place, sentence in enumerate(text.more) if place < count or sentence in text.caveats]


def _named(text: Text, limit: int, name: str) -> str:
    """Return the name and the text in at most `limit` characters.

    What does not fit is omitted in this order: further sentences, the fix, the middle of the name, the problem.
    """
    names, versions = (name, _without_middle(name, _SHORT_NAME)), (text.problem, *map(one_line, text.shorter))
    caveats = joined(text.caveats)
    room = limit - (len(caveats) + len(". ") if caveats else 0)
    fitting = ((shown, problem) for problem in versions for shown in names if len(shown + problem) <= room)
    shown, problem = next(fitting, (names[-1], ""))
    problem = problem or truncated_text(min(versions, key=len), room - len(names[-1]))
    for sentences in _with_fewer_sentences(text):
        if len(line := shown + joined((problem, *sentences, text.advice))) <= limit:
            return line
    kept = (problem, *sentences)
    end = _clause_end(text.fix, limit - len(shown + joined((*kept, "Fix: …"))))
    return cut(shown + joined((*kept, f"Fix: {text.fix[:end]}…" if end else "")), limit)


def is_shortened(finding: Finding) -> bool:
    """Report whether the warning may omit a part of the finding's text."""
    text = finding.as_shown.text
    return len(one_line(joined((text.message, text.advice)))) > BEST


def shortened(text: Text, limit: int) -> str:
    """Return the problem in at most `limit` characters: the first version that fits, or the start of the shortest."""
    versions = (text.problem, *map(one_line, text.shorter))
    fitting = (version for version in versions if len(version) <= limit)
    return next(fitting, None) or truncated_text(min(versions, key=len), limit)


def truncated_text(text: str, limit: int) -> str:
    """Return the text in at most `limit` characters, cut after a clause or list item; after a word if a cut at a
    clause would remove more than half.
    """
    if len(text) <= limit:
        return text
    end = _clause_end(text, limit)
    if end < limit // 2:
        blank = text.rfind(" ", 0, limit)
        return f"{text[:blank].rstrip()}…" if blank >= limit // 3 else cut(text, limit)
    return f"{text[:end]}…" if end else ""


def _clause_end(text: str, limit: int) -> int:
    """Return the position of the last end of a clause within `limit` characters; 0 if there is none."""
    return max((match.start() for match in _AFTER_A_CLAUSE.finditer(text, 0, max(limit + 1, 0))), default=0)


_SHORTEST: Final = 24
"""Minimum number of characters of a problem."""
_MIN_FIX: Final = len("Fix: do it")
_AFTER_A_CLAUSE: Final = re.compile(r"; |, | \(|: |\. ")


def audit_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Return audit annotations, one for each rule, with all its messages in full on one line."""
    annotations: dict[str, list[str]] = {}
    for finding in worst_first(findings):
        messages = annotations.setdefault(audit_key(finding.rule), [])
        where = f"{finding.path}: " if finding.path else ""
        if (text := one_line(where + finding.message)) not in messages:
            messages.append(text)
    return {key: "; ".join(messages) for key, messages in annotations.items()}


@lru_cache(maxsize=512)
def audit_key(text: str) -> str:
    """Return a valid key of an audit annotation: the API server drops invalid keys and everything past 63
    characters.
    """
    return _NOT_IN_A_KEY.sub("-", text)[:MAX_AUDIT_KEY].strip("-_.") or "finding"


def denial_of(findings: Sequence[Finding]) -> tuple[str, tuple[Cause, ...]]:
    """Return a denial's message (a problem for each field, with its rules), and the causes for programs."""
    ordered = worst_first(finding.as_shown for finding in findings)
    by_field = grouped((finding.path or finding.message, finding) for finding in ordered)
    parts = [
        f"{one_line(joined((same[0].message, same[0].text.advice)))} [{', '.join(dict.fromkeys(f.rule for f in same))}]"
        for same in by_field.values()
    ]
    causes = tuple(Cause(finding.rule, one_line(finding.message), one_line(finding.path)) for finding in ordered)
    return "; ".join(parts), causes


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
_STALE_LISTS: Final = {Action.DENY: "Allowed: the cluster state is stale", Action.WARN: "The cluster state is stale"}


def unproven(finding: Finding) -> Finding:
    """Return a finding that the API server did not confirm: a denial becomes a warning, and a warning gets a caveat.
    Findings that do not depend on the watch cache are unchanged.
    """
    why = _UNASKED.get(finding.action)
    return warned(finding, why) if why and finding.rule in RESTS_ON_THE_CACHE else finding


def doubted(finding: Finding) -> Finding:
    """Return the finding for a stale cache: a denial becomes a warning, and a warning gets a caveat. Findings of rules
    that do not count cached objects are unchanged.
    """
    why = _STALE_LISTS.get(finding.action)
    return warned(finding, why) if why and finding.rule in COUNTS_THE_CACHE else finding


def warned(finding: Finding, why: str, fix: str = "") -> Finding:
    """Return the finding as a warning with a caveat, and with another fix unless `fix` is ""."""
    doubtful = finding.with_texts(lambda text: text.with_caveat(why)._replace(fix=fix or text.fix))
    return doubtful._replace(action=Action.WARN)


def with_classes(cluster: ClusterSnapshot, classes: Mapping[str, PriorityClass]) -> ClusterSnapshot:
    """Return the cluster state with these PriorityClasses; the same object if they are equal."""
    return cluster if classes == cluster.priority_classes else replace(cluster, priority_classes=classes)


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
    """True if the requester could read more names after an access review."""

    @property
    def unconfirmed(self) -> bool:
        """True if the decision depends on PriorityClasses that were read only from the cache."""
        return self.unassigned or depends_on_cache(self.findings)

    def cut_short_if(self, time_was_up: bool) -> Decision:
        """Return the decision, marked as incomplete if `time_was_up`."""
        return replace(self, is_cut_short=True) if time_was_up and not self.is_cut_short else self

    def plain(self) -> Decision:
        """Return the decision without the findings' details, to send it from one process to another."""
        return replace(self, findings=tuple(finding._replace(detail={}) for finding in self.findings))

    def audited(self, key: str, text: str) -> Decision:
        """Return the decision with one more audit annotation, unless the text is empty."""
        if not text:
            return self
        return replace(self, response=replace(self.response, audit={**self.response.audit, key: text}))


def passed(uid: str, exemption: str) -> Decision:
    """Return the decision on a request that forewarn does not evaluate.

    `exemption`: the reason of a named exemption; "" without one (see `exemption_of`).
    """
    if not exemption:
        return Decision(AdmissionResponse(uid), Verdict.ALLOWED)
    return Decision(AdmissionResponse(uid, audit={"exempt": one_line(exemption)}), Verdict.EXEMPT, exemption=exemption)


def decision_of(uid: str, findings: tuple[Finding, ...], staleness: str = "") -> Decision:
    """Return the decision for these findings: denial, warnings and audit annotations. `staleness`: see `Time`."""
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


def unredacted(request: AdmissionRequest, decision: Decision) -> Decision:
    """Return the decision for a requester with permission to read all names."""
    findings = tuple(finding._replace(for_requester=None) for finding in decision.findings)
    response = decision_of(request.uid, findings).response
    audit = {**response.audit, **decision.response.audit}
    return replace(decision, response=replace(response, audit=audit), findings=findings, withholds=False)
