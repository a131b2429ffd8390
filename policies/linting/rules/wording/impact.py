"""Texts about predictions: preemptions, and Pods that stay Pending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.disclosure import Audience, ShownPods, shown_count, shown_pods, shown_seconds
from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import Text, capital, cut, duration, listed, plural, quote
from forewarn.policies.kubernetes.objects.pod_loss import PodLoss, loss_phrases
from forewarn.policies.kubernetes.scheduling.reasons import Reason, shorten
from forewarn.policies.linting.rules.support.details import Cause
from forewarn.policies.linting.rules.support.predictions import (
    CHECK_PROFILE,
    CLASS_FOR_DAEMONS,
    ROLL,
    SHOWN_REASONS,
    fix_of,
)
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS, naming
from forewarn.policies.linting.rules.wording import forecasts
from forewarn.policies.linting.rules.wording.phrases import counted, minimum_phrase, namespaces_phrase, priorities
from forewarn.policies.prediction.forecast.impact import (
    BY_CHOICE,
    MAX_NAMED,
    MAX_SHOWN,
    Impact,
    Least,
    NewNodes,
    NodeReason,
    Victims,
    victim_nodes,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.options import Promise
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.linting.rules.support.details import (
        GroupPending,
        GroupPreemption,
        NotPredicted,
        Preemption,
        StaysPending,
    )

_MAX_EFFECT_LENGTH: Final = 60
_MAX_NAME_LENGTH: Final = 40
"""Maximum number of characters of the name of an expectation."""
_MINUTES: Final = 5
_A_PDB: Final = " a PDB"
_PREDICT: Final = "run `forewarn predict` for the reason on each node"


def preemption(details: Preemption, audience: Audience) -> Text:
    """The text of a preemption: `would preempt 2 Pods on node-1: batch/a, batch/b (priority 0, 30s grace)`."""
    impact, cause = details.impact, details.cause
    if cause is Cause.STARTED:  # many of these Pods do not exist yet, and have no names
        number = counted(shown_count(len(details.victims), audience), "Pod")
        return Text(f"its rollout may preempt {number}: Pending Pods start before its new Pods", fix=details.fix)
    noun = "placeholder Pod" if _are_placeholders(details) else "Pod"
    facts = tuple(_facts(details, audience)) if details.grace_seconds is not None else ()
    gaps = capitalized(forecasts.unfinished(impact, audience)) if cause is not Cause.PENDING_PODS else ()
    why = impact.cascade.not_predicted if impact.cascade is not None and audience.sees_all else ""
    more = (*_chance(impact, cause), *((capital(why),) if why else ()), *gaps)
    losses = [loss for loss in details.losses if audience.may_name(loss.namespace)]
    facts = (*failing(losses), *facts)
    least, head = _least(details), _head(details, audience)
    text = victims_text(head, details.preempting, details.victims, audience, facts, noun, least)
    if details.workload and least is None and audience.may_name(details.victims[0].namespace):
        number = counted(shown_pods(details.victims, audience).number, noun)
        text = text._replace(shorter=(*_workload_versions(details, head, number, facts, audience), *text.shorter))
    if details.expectation is not None:
        text = text._replace(shorter=(*text.shorter, f"violates expectation {_name_of(details.expectation, audience)}"))
    return text._replace(
        fix=details.fix, more=(*text.more, *loss_phrases(losses, MAX_NAMED, "Preempting"), *more), caveats=gaps
    )


def _workload_versions(
    details: Preemption, head: str, number: str, facts: Sequence[str], audience: Audience
) -> Iterator[str]:
    """Yield versions with the workload instead of names, most facts first; each also without `all new Pods`."""
    all_new = new_pods_phrase(details.impact.new, details.impact, audience)
    for count in range(len(facts), 0, -1):
        for start in (head, head.removeprefix(all_new)):
            yield f"{start} {number} of {details.workload} ({', '.join(facts[:count])})"


def _chance(impact: Impact, cause: Cause) -> tuple[str, ...]:
    """Return a sentence about what decides whether the Pods preempt; empty if the preemption is certain."""
    if impact.depends_on_timing if cause is Cause.OWN_ROLLOUT else cause is Cause.NEW_PODS and impact.is_close:
        return ("It depends on which old Pods terminate first",)
    return (f"It depends on {impact.by_chance}",) if impact.by_chance and cause is not Cause.PENDING_PODS else ()


def _least(details: Preemption) -> Least | None:
    """Return the minimum numbers of preemptors and victims if the totals are uncertain and the text is about all
    preemptions by new Pods; otherwise None.
    """
    if details.cause is not Cause.NEW_PODS or details.expectation is not None:
        return None
    least = details.impact.least if details.impact.by_chance == BY_CHOICE else None
    if least and least.victims:
        if not details.placeholders or _are_placeholders(details):
            return least
        return least._replace(victims=len(details.victims), is_estimate=True)
    cascade = details.impact.cascade
    if cascade is None or not (cascade.pending_not_evaluated or cascade.not_predicted):
        return None
    return Least(len(details.preempting), len(details.preempting), len(details.victims))


def failing(losses: Sequence[PodLoss]) -> tuple[str, ...]:
    """Return a phrase about the workloads that fail without the victims; empty if none fails."""
    fail = [loss for loss in losses if loss.fails]
    if not fail:
        return ()
    return (cut(fail[0].effect, _MAX_EFFECT_LENGTH) if len(fail) == 1 else f"fails {len(fail)} jobs",)


def _head(details: Preemption, audience: Audience) -> str:
    """Return the sentence before the number of victims: `during its rollout, 2 of 3 new Pods would preempt`."""
    impact = details.impact
    if details.cause is Cause.RESTART:
        return f"a restart now {'may' if impact.by_chance else 'would'} preempt"
    if details.cause is Cause.OWN_ROLLOUT:
        return f"its own rollout {'may' if impact.depends_on_timing or impact.by_chance else 'would'} preempt"
    if details.cause is Cause.PENDING_PODS:
        pods = counted(shown_count(len(details.preempting), audience), "Pending Pod")
        return f"when its rollout terminates old Pods, {pods} would preempt"
    least = _least(details)
    verb = "may" if impact.is_close or (impact.by_chance and not least) else "would"
    new = _preemptors(details, least, audience)
    new = f"at least {new}" if new and least and not least.is_estimate and not audience.coarse else new
    if details.expectation is not None:
        return f"violates expectation {_name_of(details.expectation, audience)}: {new}{verb} preempt"
    return f"during its rollout, {new or 'a new Pod '}{verb} preempt" if impact.keeps_old else f"{new}{verb} preempt"


def _preemptors(details: Preemption, least: Least | None, audience: Audience) -> str:
    """Return the Pods that preempt as the start of a sentence: new Pods, and those of the old template."""
    old = sum(prediction in details.impact.by_old_template for prediction in details.preempting)
    new = new_pods_phrase(least.pods if least else len(details.preempting) - old, details.impact, audience)
    if not old:
        return new
    of_old = f"{counted(shown_count(old, audience), 'Pod')} of its old template "
    return f"{new.rstrip()} and {of_old}" if len(details.preempting) > old else of_old


def _name_of(expectation: Promise, audience: Audience) -> str:
    return quote(cut(expectation.name, _MAX_NAME_LENGTH)) if audience.sees_all else str(expectation.number)


def _are_placeholders(details: Preemption) -> bool:
    """Report whether all victims are placeholder Pods."""
    return bool(details.placeholders) and list(details.placeholders) == list(details.victims)


def _facts(details: Preemption, audience: Audience) -> Iterator[str]:
    """Yield the facts for the parentheses after the priorities: PDBs, placeholder Pods, cascade, grace period."""
    victims, violations = len(details.victims), details.pdb_violations
    later = details.impact.pdb_violations_in_cascade if details.cause is Cause.NEW_PODS else 0
    if (violations and victims == violations == 1) or (audience.coarse and violations + later):
        yield f"violates{_A_PDB}"
    elif violations:
        yield f"{plural(violations, 'violates', 'violate')}{_A_PDB}"
    if later and not audience.coarse:
        yield f"{later} in the cascade {'violates' if later == 1 else 'violate'}{_A_PDB}"
    if details.placeholders and not _are_placeholders(details):
        count = sum(audience.may_name(victim.namespace) for victim in details.placeholders)
        yield from (f"also {plural(count, 'placeholder')}",) if count else ()
    if details.impact.cascade is not None:
        yield from forecasts.cascade_phrases(details.impact.cascade, coarse=audience.coarse)
    longest = shown_seconds(details.grace_seconds or 0, audience).highest
    if longest is None:
        yield f"more than {_MINUTES} minutes grace"
    else:
        yield f"{longest}s grace" if victims == 1 and not audience.coarse else f"up to {longest}s grace"


def _number(shown: ShownPods, least: Least | None, audience: Audience, noun: str) -> str:
    if least is None or (least.is_estimate and audience.coarse):
        return counted(shown.number, noun)
    number = shown_count(least.victims, audience)
    return f"about {counted(number, noun)}" if least.is_estimate else minimum_phrase(number, noun)


def victims_text(
    head: str,
    preempting: tuple[Prediction, ...],
    victims: Sequence[Pod],
    audience: Audience,
    facts: Sequence[str] = (),
    noun: str = "Pod",
    least: Least | None = None,
) -> Text:
    """Return the text with victims: `HEAD 2 Pods on node-1: batch/a, batch/b (priority 0, 30s grace)`.

    `least`: what is certain, if the number of `victims` is not.

    Names are omitted until the sentence is short enough. If one name is too long, the facts become the next sentence.
    Contains `possibly` if kube-scheduler may select other victims.
    """
    shown = shown_pods(victims, audience)
    number = _number(shown, least, audience, noun)
    # A node's name shows where other Pods run: not for an audience that may not see all names.
    start = f"{head} {number}{f' on {_nodes_of(preempting)}' if audience.sees_all else ''}"
    phrases = priorities(shown.priorities), *facts
    behind, *fewer = (f" ({', '.join(phrases[:count])})" for count in range(len(phrases), 0, -1))
    if not shown.named:
        start = f"{start}{namespaces_phrase(shown)}"
        fits = len(start) + len(behind) <= MAX_CHARACTERS
        problem, more = (start + behind, ()) if fits else (start, capitalized((behind[2:-1],)))
        return _with_versions(problem, more, (*(start + some for some in fewer), start), start, facts)
    before, unplaced = f"{start}: ", f"{head} {number}: "
    after = f", {counted(shown.others, 'Pod')}{namespaces_phrase(shown)}" if shown.other_priorities else ""
    certain = set[str]() if audience.coarse else certain_of(shown.named, preempting)
    ordered = sorted(shown.named, key=lambda name: name not in certain)
    names = [f"{'possibly ' * (place == len(certain))}{name}" for place, name in enumerate(ordered[:MAX_NAMED])]
    count = len(ordered)
    first = f"{names[0] if count == 1 else f'{names[0]} and {count - 1} more'}{after}"
    fits = len(before) + len(first) + len(behind) <= MAX_CHARACTERS
    more = () if fits else capitalized((behind[2:-1],))
    problem = naming(before, names, count, after + behind if fits else after, MAX_NAMED)
    versions = (f"{named}{first}{some}" for named in (before, unplaced) for some in (*fewer, ""))
    return _with_versions(problem, more, (*versions, start, f"{head} {number}"), unplaced + first, facts)


def certain_of(names: Sequence[str], preempting: Sequence[Prediction]) -> set[str]:
    """Return the names of the victims that do not depend on ties, which may change the victims of later Pods."""
    if not any(prediction.may_be_others for prediction in preempting[:MAX_SHOWN]):
        return {*names}
    certain = set[str]()
    for prediction in preempting[:MAX_SHOWN]:
        certain.update(victim.key for victim in prediction.certain_victims)
        if prediction.may_be_others and not prediction.pod.spec.node_affinity.only_node:
            break
    return certain.intersection(names)


def _with_versions(
    problem: str, more: tuple[str, ...], versions: tuple[str, ...], least: str, facts: Sequence[str]
) -> Text:
    """Return the text with shorter versions: first those that say whether victims violate a PDB. `least`: the start of
    the shortest of these.
    """
    violation = next((fact for fact in facts if fact.endswith(_A_PDB)), "")
    if violation:
        versions = tuple(sorted((*versions, f"{least} ({violation})"), key=lambda version: violation not in version))
    return Text(problem, more=more, shorter=tuple(version for version in versions if len(version) < len(problem)))


def _nodes_of(predictions: tuple[Prediction, ...]) -> str:
    """Return the nodes of the victims, `node-1`, or `node-1 or node-2` if several are equally suitable for one Pod."""
    nodes, shown = sorted(victim_nodes(predictions)), predictions[:MAX_SHOWN]
    tied = sorted({name for prediction in shown for name in prediction.best_nodes} - {*nodes})
    if any(prediction.is_sampled for prediction in shown) and (len(predictions) > 1 or len(tied) != 1):
        return f"{', '.join(nodes[:2])} or {'others' if len(nodes) > 1 else 'another node'}"
    if not tied:
        return listed(nodes, 2)
    others = [*nodes[2:], *tied]
    return f"{', '.join(nodes[:2])} or {others[0] if len(others) == 1 else plural(len(others), 'other node')}"


def new_pods_phrase(count: int, impact: Impact, audience: Audience) -> str:
    """Return the start of a sentence with a trailing space: `1 of 3 new Pods `; "" for a single new Pod.

    For an audience that sees only ranges, `some new Pods ` or `all new Pods `.
    """
    if impact.new == 1:
        return ""
    if audience.coarse:
        return "all new Pods " if count == impact.new else "some new Pods "
    if count == impact.new:
        return "both new Pods " if count == 2 else f"all {count} new Pods "
    return f"{count} of {impact.new} new Pods "


def capitalized(sentences: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(capital, sentences))


def preemption_document(details: Preemption) -> dict[str, Any]:
    """Return as JSON: the impact, the number and priorities of the victims, and the longest grace period."""
    values = [victim.effective_priority for victim in details.victims]
    violations, losses = details.pdb_violations, details.losses[:MAX_SHOWN]
    placeholders = len(details.placeholders)
    victims = Victims(len(values), min(values), max(values), placeholders, violations, losses, details.grace_seconds)
    return document(details, victims=victims, expectation=details.expectation and details.expectation.name)


def document(
    details: Preemption | NotPredicted | StaysPending | GroupPreemption | GroupPending, **more: Any
) -> dict[str, Any]:
    """Return the impact as JSON, with the source of the number of new Pods (`basis`), and more fields."""
    return to_dict(details.impact.document()._replace(basis="rollout", **more))


def pending_document(details: StaysPending) -> dict[str, Any]:
    """The impact with the number of nodes for each reason, as JSON."""
    reasons = [NodeReason(*reason) for reason in details.reasons[:MAX_SHOWN]]
    return document(details, reasons=reasons, new_nodes=details.new_nodes)


def not_predicted(details: NotPredicted, audience: Audience) -> Text:
    """The text of a missing prediction: `not predicted (1 of 3 new Pods): …`.

    Without this text, a reader would assume that the new Pods preempt no Pod.
    """
    impact, new = details.impact, details.impact.new
    if details.is_restart:
        return Text(f"a restart is not predicted: {impact.why_not}", details.fix)
    if details.expectations:
        only = f"only {impact.predicted} of {plural(new, 'new Pod')} predicted in time"
        why = f"not predicted: {impact.why_not}" if impact.why_not else only
        return Text(f"{plural(details.expectations, 'expectation')} not checked: {why}", details.fix)
    if not details.is_stale:
        pods = "" if new == 1 else f" ({new - impact.predicted} of {new} new Pods)"
        return Text(f"not predicted{pods}: {impact.why_not}", details.fix)
    if audience.coarse:
        problem = "time ran out: some new Pods may preempt other Pods"
    elif impact.rest != "unknown":
        problem = "the rollout is too large to predict it to its end; its first new Pods preempt no Pod"
    elif not impact.predicted:
        admitted = new - impact.rejected
        pods = "its Pod" if new == 1 else f"each of {admitted} new Pods" if admitted > 1 else "a new Pod"
        problem = f"time ran out: {pods} may preempt other Pods"
    else:
        problem = f"time ran out after {impact.predicted} of {new} new Pods; no preemption until then"
    return Text(problem, details.fix)


def stays_pending(details: StaysPending, audience: Audience) -> Text:
    """The text for Pending Pods: `2 of 3 new Pods stay Pending even with preemption: 0/3 nodes fit (2 insufficient cpu,
    1 cordoned)`.
    """
    impact, stuck, gaps = details.impact, details.stuck, capitalized(forecasts.unfinished(details.impact, audience))
    if details.is_restart:
        return _stays_pending_after_restart(details, audience)
    pods = new_pods_phrase(impact.pending, impact, audience)
    is_certain = not (impact.by_chance and impact.rejected)
    start = f"{pods}{'may stay' if not is_certain else 'stays' if impact.new == 1 else 'stay'} Pending"
    start = _rollout_clause(start, impact, audience) if impact.is_blocked_rollout and is_certain else start
    brief = start.partition(",")[0]
    if not details.reasons:
        why = "no known node fits; time ran out before the reasons were predicted"
        return Text(f"{start} even with preemption: {why}", _PREDICT)
    fix = (CLASS_FOR_DAEMONS if details.needs_class else fix_of(details.reasons)) or _PREDICT
    more = (*_terminated(impact, audience), *gaps)
    if stuck.error or stuck.pre_filter is not None:
        why = details.reasons[0][0].short if audience.sees_all else details.reasons[0][0]
        return Text(f"{start}: {why}", CHECK_PROFILE if stuck.error else fix, more, (start,), gaps)
    later = "" if stuck.pod.spec.node_affinity.only_node else f", unless an autoscaler adds one{details.elsewhere}"
    if details.cause and not details.needs_class:
        problem = f"{start}: {details.cause.short if audience.sees_all else details.cause}"
        shorter = (problem, f"{start}: {details.cause}", f"{brief}: {details.cause}", start)
        return Text(problem + later, fix_of([(details.cause, 0)]) or _PREDICT, more, shorter, gaps)
    reason = stuck.preemption.ineligible_reason
    even = f"and may not preempt ({shorten(reason)})" if reason else "even with preemption"
    nodes = f"{start} {even}: {nodes_that_fit(details.reasons, audience)}"
    return Text(nodes + later, fix, more, (nodes, f"{start} {even}", start), gaps)


def _stays_pending_after_restart(details: StaysPending, audience: Audience) -> Text:
    impact, gaps = details.impact, capitalized(forecasts.unfinished(details.impact, audience))
    which = "it" if impact.new == 1 else new_pods_phrase(impact.pending, impact, audience).rstrip()
    stay = "The rollout is blocked" if impact.deleted_first else "The old Pods stay, and the rollout is blocked"
    after = (*_terminated(impact, audience), stay) if impact.keeps_old else ()
    problem = f"a restart now would leave {which} Pending: {nodes_that_fit(details.reasons, audience)}"
    problem += _on_new_nodes(details.new_nodes)
    first = fix_of(details.reasons)
    first = "uncordon or free capacity" if first == "uncordon" else first
    fix = first if first.startswith(ROLL) else f"{first} first" if first else "run `forewarn whatif restart`"
    return Text(problem, CLASS_FOR_DAEMONS if details.needs_class else fix, (*after, *gaps), caveats=gaps)


def _rollout_clause(start: str, impact: Impact, audience: Audience) -> str:
    """Return a clause about a rollout that does not finish: `rollout blocked: 0 of 3 new Pods run, 1 stays Pending`.

    `start`: the clause about the Pending Pods. Without the number that run if chance decides, or for ranges.
    """
    if audience.coarse or impact.by_chance:
        return f"rollout blocked: {start}"
    running, verb = impact.outcomes["fits"] + impact.outcomes["preempts"], "runs" if impact.new == 1 else "run"
    pending = plural(impact.pending, "stays Pending", "stay Pending")
    return f"rollout blocked: {running} of {plural(impact.new, 'new Pod')} {verb}, {pending}"


def _on_new_nodes(new_nodes: NewNodes | None) -> str:
    """A phrase such as `; 2 new nodes help 3 Pods after 3 min 10 s`; "" without node groups."""
    if new_nodes is None:
        return ""
    if new_nodes.not_predicted:
        return f"; new nodes not predicted: {new_nodes.not_predicted}"
    if not new_nodes.pods:
        return "; no new node helps"
    nodes = plural(new_nodes.nodes, "new node helps", "new nodes help")
    return f"; {nodes} {plural(new_nodes.pods, 'Pod')} after {duration(new_nodes.seconds)}"


def _terminated(impact: Impact, audience: Audience) -> tuple[str, ...]:
    if not impact.deleted_first:
        return ()
    pods = "old Pods" if audience.coarse else plural(impact.deleted_first, "old Pod")
    return (f"Its rollout terminates {pods} before that",)


def nodes_that_fit(reasons: Sequence[tuple[Reason, int]], audience: Audience) -> str:
    """Return a phrase with the reasons: `0/3 nodes fit (2 insufficient cpu, 1 cordoned)`.

    No numbers for an audience that sees only ranges. For a reason about no single node: `no node can fit (reason)`.
    """
    shown = [(reason.short, count) for reason, count in reasons[:SHOWN_REASONS]]
    more = ", …" if len(reasons) > SHOWN_REASONS else ""
    if audience.coarse or not reasons[0][1]:
        return f"no node can fit ({', '.join(sorted(reason for reason, _ in shown))}{more})"
    text = shown[0][0] if len(reasons) == 1 else ", ".join(f"{count} {reason}" for reason, count in shown)
    return f"0/{sum(count for _, count in reasons)} nodes fit ({text}{more})"
