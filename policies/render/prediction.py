"""Predictions as text."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.application.places import left_out, naming
from forewarn.policies.disclosure import OPEN
from forewarn.policies.findings import fitting, listed, plural
from forewarn.policies.forecast.apply_order import Applied, Attempts
from forewarn.policies.forecast.impact import BY_CHOICE, MAX_SHOWN, Least, least, newly_preempted, victims_of
from forewarn.policies.forecast.placement import Placement, outcomes, waits_for_victims
from forewarn.policies.forecast.why_not import (
    by_nodes,
    cause,
    ending_on_nominated_node,
    explanations,
    on_no_node,
    waits_for,
    why_not,
)
from forewarn.policies.kube_apiserver.quota import rejecting
from forewarn.policies.objects.pod import Pod, wait_seconds
from forewarn.policies.objects.pod_loss import Consequences, losses_of
from forewarn.policies.render import Painter, autoscalers, plain
from forewarn.policies.render.table import MAX_LINES
from forewarn.policies.rules.support.predictions import (
    CLASS_FOR_DAEMONS,
    cycle_error,
    is_placeholder,
    needs_class,
    reasons_of,
    volume_fix,
)
from forewarn.policies.rules.wording.forecasts import (
    NOT_CREATED,
    NOT_CREATED_AFTER_REJECTED,
    ONE_BY_ONE,
    placement_notes,
)
from forewarn.policies.rules.wording.impact import failing, victims_text
from forewarn.policies.rules.wording.phrases import violating
from forewarn.policies.scheduling.reasons import in_short, joined
from forewarn.policies.scheduling.responsible import why_group_not_predicted
from forewarn.policies.scheduling.schedule_one import Prediction, explanation_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from forewarn.policies.application.predict import PredictResult
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.pod_groups import GroupForecast


_WAITS: Final = "waits for"
TOGETHER: Final = f"{ONE_BY_ONE}; replacement Pods are not included: see --cascade"
GROUPS: Final = "`forewarn whatif apply -f` simulates the Pods of a PodGroup together"


def lines(result: PredictResult, paint: Painter = plain) -> Iterator[str]:
    """The result of `forewarn predict` as text lines, without the head; none if all objects are rejected."""
    if not (texts := [*_lines(result, paint)]):
        return
    first, *rest = texts
    noun = "PriorityClass" if len(result.new_classes) == 1 else "PriorityClasses"
    first = "; ".join([first, *naming(f"with new {noun}", result.new_classes)])
    start, end = fitting(first, left_out(result.faults))
    yield f"{start}{first}{end}"
    yield from rest


def _lines(result: PredictResult, paint: Painter) -> Iterator[str]:
    for group in result.groups:
        yield line_of_group(group)
        if group.victims:
            yield from _about_victims(
                group.victims, group.num_pdb_violations, group.violated_pdbs(result.cluster.scheduling), result.cluster
            )
        yield from (f"  note: {note}" for note in group.notes)
    if len(result.placements) > 1:
        yield from _together(result, paint)
    elif result.placements:
        yield from _of_object(result.placements[0], result, paint)
    if result.autoscalers:
        yield from (f"  note: {line}" for line in autoscalers.lines(result.autoscalers))


def _of_object(
    placement: Placement, result: PredictResult, paint: Painter, applied: Applied | None = None
) -> Iterator[str]:
    """The predictions for an object's Pods as text lines. `applied`: the objects applied together."""
    predictions, cluster = placement.predictions, result.cluster
    if not predictions and placement.rollout is None and not placement.without_prediction:
        existing = f"{placement.existing} of {plural(placement.wanted, 'Pod')} exist; no new Pods"
        yield f"{placement.name}: {existing if placement.wanted else f'it creates no Pods ({placement.none})'}"
        return
    yield from _heading(placement, result, applied, paint)
    shown = Counter[str]()
    for number, prediction in enumerate(predictions, 1):
        shown[prediction.outcome] += 1
        if shown[prediction.outcome] > MAX_LINES:
            continue
        if number > 1 and _same(prediction, predictions[number - 2]):
            yield f"{_title(prediction)}: same as above"
            continue
        yield from _one(prediction, result, paint)
        yield from _reasons(prediction, cluster, applied, first=number == 1)
        how = explanation_of(prediction) if result.explain else None
        yield from (f"  how: {line}" for line in (how,) if line is not None)
    omitted = [f"{count - MAX_LINES} {OUTCOMES[outcome]}" for outcome, count in shown.items() if count > MAX_LINES]
    if omitted:
        yield f"and more Pods: {', '.join(omitted)}; use -o json for all"
    yield from (f"  note: {line}" for line in _caveats(placement, applied))


def _heading(placement: Placement, result: PredictResult, applied: Applied | None, paint: Painter) -> Iterator[str]:
    """The counts of the object's new Pods, unless one prediction says it all."""
    if len(placement.predictions) != 1 or placement.existing or placement.rollout or placement.without_prediction:
        overview = f"{placement.name}: {_overview(placement, result, applied)}"
        one = _cause(placement)
        whys = (one or _first_reason(placement, result.cluster), one)
        yield paint(overview + _fitting(overview, (why and f": {why}" for why in whys), result), "bold")
    if placement.rejection:
        yield f"  rejected: {placement.rejection}"


def _cause(placement: Placement) -> str:
    """The one cause of the Pending Pods, which have the same template; "" without one."""
    return next((cause(p).short for p in placement.predictions if p.outcome == "pending"), "")


def _first_reason(placement: Placement, cluster: ClusterSnapshot) -> str:
    """The reason of the Pending Pods; if it is not that of all, of the first one; "" without Pending Pods."""
    pending = [p for p in placement.predictions if p.outcome == "pending"]
    if pending and pending[0].pod.spec.node_affinity.only_node:
        return listed(by_nodes(reasons_of(pending[:MAX_LINES])), 1)
    reasons = [_why_pending(prediction, cluster) for prediction in pending[:MAX_LINES]]
    are_equal = len({*reasons}) == 1 and len(pending) == len(reasons)
    return reasons[0] if are_equal else f"the first: {reasons[0]}" if reasons else ""


def _fitting(text: str, ends: Iterable[str], result: PredictResult) -> str:
    """The first of these ends that leaves space for the objects that the answer leaves out; "" if none does."""
    return fitting(text + "".join(left_out(result.faults)[-1]), [*ends, ""])


def _caveats(placement: Placement, applied: Applied | None) -> Iterator[str]:
    """The caveats of all predictions, each once."""
    predictions = placement.predictions
    grouped = (p for p in predictions if p.not_predicted and p.pod.spec.pod_group)
    if any(not why_group_not_predicted(p.pod, p.snapshot) for p in grouped):
        yield GROUPS
    if not predictions or not all(prediction.not_predicted for prediction in predictions):
        yield from (line for line in placement_notes(placement) if applied is None or line is not ONE_BY_ONE)


def _reasons(
    prediction: Prediction, cluster: ClusterSnapshot, applied: Applied | None, *, first: bool
) -> Iterator[str]:
    """Yield lines with the reasons why a Pod does not run immediately, and the caveats of the Pod's prediction."""
    if prediction.outcome == "pending" or (prediction.outcome == "preempts" and first):
        yield from _why_not_lines(prediction)
    if prediction.outcome in ("pending", "preempts"):
        yield from (f"  note: {line}" for line in explanations(prediction, cluster))
    if fix := CLASS_FOR_DAEMONS if needs_class(prediction) else volume_fix(prediction):
        yield f"  Fix: {fix}"
    caveats = () if prediction.not_predicted else prediction.caveats
    yield from (f"  note: {line}" for line in (*_attempts(prediction, applied), *caveats))


def _together(result: PredictResult, paint: Painter) -> Iterator[str]:
    """The predictions for several objects as text lines, in the order of their application."""
    placements, applied = result.placements, result.applied
    apart = [placement for placement in placements if placement.rollout]
    new, counts = plural(sum(map(_new, placements)), "new Pod"), _counted(placements, result, applied) or "none"
    blocked = sum(placement.is_blocked_rollout for placement in apart)
    stuck = f" ({plural(blocked, 'rollout')} blocked)" if blocked else ""
    more = f"; {plural(len(apart), 'object')}{stuck} evaluated without the others" if apart else ""
    causes = [f"{_pending_of(placement)}: {why}" for placement in placements if (why := _cause(placement))]
    reasons = [f"{_pending_of(each)}: {why}" for each in placements if (why := _first_reason(each, result.cluster))]
    text = f"{len(placements)} objects, {new}{'' if apart else ', one after the other'}: {counts}{more}"
    ends = (f"; {listed(whys, 1)}" for whys in (causes, reasons) if whys)
    yield paint(text + _fitting(text, ends, result), "bold")
    for placement in placements:
        yield from _of_object(placement, result, paint, applied)
    yield f"  note: {TOGETHER}"


def _pending_of(placement: Placement) -> str:
    """The name of an object with Pending Pods, and their number if other new Pods of it do not stay Pending."""
    pending, new = sum(each.outcome == "pending" for each in placement.predictions), _new(placement)
    return placement.name if pending == new else f"{placement.name}, {pending} of {new} new Pods"


def _attempts(prediction: Prediction, applied: Applied | None) -> Iterator[str]:
    """Lines about events before or after the predicted scheduling cycle."""
    turn = applied.attempts_of(prediction) if applied else Attempts()
    if turn.preempted_by:
        yield f"preempted again by {turn.preempted_by}, which is applied later"
    if turn.overtaken:
        yield "overtaken: Pods of higher priority that are applied later take the capacity while the victims terminate"
    if turn.attempts:
        yield f"{turn.attempts} scheduling attempts: Pods applied later changed where it fits"


def _overview(placement: Placement, result: PredictResult, applied: Applied | None) -> str:
    counts = _counted([placement], result, applied)
    if placement.rollout is not None:
        none = "the updateStrategy replaces no existing Pod" if placement.rollout.replaces_none else "none created yet"
        rollout = "rollout blocked, " if placement.is_blocked_rollout else "rollout, " if placement.rollout.own else ""
        pods, delay = f"{rollout}{plural(placement.wanted, 'new Pod')}", placement.rollout.delay
        delayed = delay and f", some rejected at first by {delay}"
        return f"{pods}{_fitting(f'{placement.name}: {pods}: {counts}', [delayed], result)}: {counts or none}"
    there = f"{placement.existing} of {placement.wanted} exist; " if placement.existing else ""
    return f"{there}{plural(_new(placement), 'new Pod')}: {counts or 'none'}"


def _new(placement: Placement) -> int:
    return sum(placement.outcomes.values())


def _rest(placement: Placement, result: PredictResult) -> Counter[str]:
    """The number of new Pods without a prediction by outcome, instead of "later" with how other Pods block those, and
    with the numbers of further Pods that a simulation preempts.
    """
    counts = Counter(placement.without_prediction)
    blocked = "after-rejected" if "refused" in counts else "blocked"
    counts += Counter({blocked if placement.is_blocked else "later": counts.pop("later", 0)})
    if rollout := placement.rollout:
        more = 0 if result.cascade else rollout.preempted - len(newly_preempted(rollout.predictions))
        beyond = min(rollout.pdb_violations_in_cascade, more)
        counts += Counter({"displacing": rollout.displacing, "in-cascade": more, "violating": beyond})
        counts -= Counter(fits=rollout.displacing)
    return counts


class _Counts(NamedTuple):
    """The outcomes of Pods whose predictions depend on each other. `verb`: "may" if chance decides about the outcomes.

    `preempting`: the certain preemptions. `uncertain`: how many of their victims other choices may save.
    """

    verb: str
    numbers: Counter[str]
    preempting: tuple[Prediction, ...]
    uncertain: int
    is_estimate: bool


def _counted(placements: Sequence[Placement], result: PredictResult, applied: Applied | None) -> str:
    """Return the outcomes as a phrase: `2 would fit, 1 would stay Pending`. Pods that later Pods preempt again count
    separately.
    """
    predictions = (p for placement in placements for p in placement.predictions)
    lost = {id(p) for p in predictions if applied and applied.attempts_of(p).preempted_by}
    in_turn = [each for each in placements if each.rollout is None]
    apart = [[each] for each in placements if each.rollout]
    counts = [_counts(each, lost, result) for each in (in_turn, *apart)]
    by = rejecting([(_namespace(each), each.rejection) for each in placements if each.rejection])
    texts = {**OUTCOMES, "refused": f"rejected by {by}"}.items()
    phrases = chain.from_iterable(_phrases(outcome, text, counts, result) for outcome, text in texts)
    again = f"{len(lost)} would be preempted again" if lost else ""
    return ", ".join(filter(None, (*phrases, again)))


def _namespace(placement: Placement) -> str:
    return placement.name.rpartition(" ")[2].partition("/")[0]


OUTCOMES: Final = {
    "fits": "would fit",
    "displacing": "would preempt only Pods that start later",
    "preempts": "would preempt other Pods",
    "by-chance": "may preempt more Pods, depending on kube-scheduler's choice",
    "in-cascade": "more preempted in the cascade",
    "violating": "violating a PDB",
    "waits": "would wait for terminating Pods",
    "in-vain": "would preempt other Pods and stay Pending",
    "not-predicted": "not predicted",
    "unknown": "not predicted",
    "later": "created later, when the Pods before them are ready",
    "refused": "rejected by a ResourceQuota",
    "after-rejected": NOT_CREATED_AFTER_REJECTED,
    "pending": "would stay Pending",
    "blocked": NOT_CREATED,
}
"""In the order of a text, which gives the reason of the Pending Pods at its end."""


def _counts(placements: Sequence[Placement], lost: Collection[int], result: PredictResult) -> _Counts:
    """Count the outcomes of these objects. `lost`: `id`s of predictions that do not count."""
    predictions = [p for placement in placements for p in placement.predictions if id(p) not in lost]
    numbers = sum((_rest(each, result) for each in placements), Counter(outcomes(predictions)))
    in_vain = {p.pod.uid for p in predictions if p.outcome == "pending"} - {""}
    verb = _verb(placements)
    certain = None if verb == "may" else least(predictions)
    if certain:
        by_chance = [p for p in predictions[certain.number :] if p.outcome != "pending" and p.pod.uid not in in_vain]
        numbers = numbers - Counter(outcomes(by_chance)) + Counter({"by-chance": len(by_chance)})
        predictions = predictions[: certain.number]
    may_run = (p for p in predictions if p.outcome == "preempts" and p.pod.uid not in in_vain)
    preempting = tuple(p for p in may_run if not waits_for_victims(p))
    uncertain = max(len(newly_preempted(preempting)) - certain.victims, 0) if certain else 0
    return _Counts(verb, numbers, preempting, uncertain, bool(certain and certain.is_estimate))


def _verb(placements: Sequence[Placement]) -> str:
    is_by_chance = any(each.rollout and each.rollout.by_chance not in ("", BY_CHOICE) for each in placements)
    return "may" if is_by_chance else "would"  # the impact is one with many preemptions


def _phrases(outcome: str, text: str, counts: Sequence[_Counts], result: PredictResult) -> Iterator[str]:
    """Yield the number of Pods with this outcome, and of those for which chance decides about it."""
    names_victims = outcome == "preempts"
    for verb in ("would", "may") if text.startswith("would ") else ("",):
        those = [each for each in counts if verb in (each.verb, "")]
        if number := sum(each.numbers[outcome] for each in those):
            head = f"{number} {verb}"
            yield _preemptions(f"{head} preempt", those, result) if names_victims else head + text.removeprefix("would")
            names_victims = False  # of both, the line would be too long


def _preemptions(head: str, counts: Sequence[_Counts], result: PredictResult) -> str:
    """Return the phrase about all preemptions that these results have."""
    in_order = sorted(counts, key=lambda each: any(p.may_be_others for p in each.preempting[:MAX_SHOWN]))
    preempting = tuple(chain.from_iterable(each.preempting for each in in_order))  # a tie affects only those after it
    new, uncertain = newly_preempted(preempting), sum(each.uncertain for each in counts)
    victims = [victim for victim in victims_of(preempting) if victim.identity in new]
    is_estimate = any(each.is_estimate for each in counts)
    least = Least(0, 0, len(victims) - uncertain, is_estimate) if uncertain or is_estimate else None
    return _victims_text(head, preempting, victims, result, least)


def _same(prediction: Prediction, before: Prediction) -> bool:
    """Report whether both Pods stay Pending, or are not predicted, for the same reasons."""
    if prediction.not_predicted:
        return prediction.not_predicted == before.not_predicted
    both_pending = prediction.outcome == before.outcome == "pending"
    return both_pending and why_not(prediction) == why_not(before)


def _title(prediction: Prediction) -> str:
    return f"{prediction.pod.key} (priority {prediction.pod.effective_priority})"


def _one(prediction: Prediction, result: PredictResult, paint: Painter) -> Iterator[str]:
    title = paint(_title(prediction), "bold")
    if prediction.outcome == "not-predicted":
        yield f"{title}: {paint('not predicted', 'warning')}: {prediction.not_predicted}"
        return
    if prediction.outcome == "fits":
        yield f"{title}: {paint('fits', 'good')} on {_nodes(prediction)}; no preemption"
    elif prediction.outcome == "preempts":
        yield from _preempts(title, prediction, result, paint)
    elif prediction.pod.nominated_node_name and (ending := ending_on_nominated_node(prediction)):
        yield f"{title}: {paint(waits_for(ending, prediction.pod.nominated_node_name), 'warning')}"
    else:
        yield f"{title}: {paint('stays Pending', 'error')}: {_why_pending(prediction, result.cluster)}"


def _nodes(prediction: Prediction) -> str:
    others = len(prediction.feasible) - 1
    return prediction.node + (f" ({plural(others, 'other node also fits', 'other nodes also fit')})" if others else "")


def _victims_text(
    head: str,
    preempting: tuple[Prediction, ...],
    victims: Sequence[Pod],
    result: PredictResult,
    least: Least | None = None,
) -> str:
    reserving = sum(is_placeholder(victim, result.options) for victim in victims)
    noun = "terminating Pod" if head == _WAITS else "placeholder Pod" if reserving == len(victims) else "Pod"
    facts = failing(losses_of(victims, result.cluster.workload))
    facts += (plural(reserving, "placeholder"),) if 0 < reserving < len(victims) else ()
    violations = violating(sum(prediction.num_pdb_violations for prediction in preempting))
    text = victims_text(head, preempting, victims, OPEN, facts, noun, least).problem
    return ", ".join(filter(None, (text, violations)))


def _preempts(title: str, prediction: Prediction, result: PredictResult, paint: Painter) -> Iterator[str]:
    victims = prediction.victims
    going = [victim for victim in victims if not victim.terminating]
    text = _victims_text("would preempt" if going else _WAITS, (prediction,), going or victims, result)
    yield f"{title}: {paint(text, 'warning')}"
    yield from _about_victims(victims, prediction.num_pdb_violations, prediction.violated_pdbs, result.cluster)
    others = [name for name in prediction.best_nodes if name != prediction.nominated_node]
    if others:
        yield f"  equally likely nodes: {listed(others)}"
    if prediction.preemption.may_stop_early:
        yield f"  probabilities: {'; '.join(probabilities_of(prediction)[:4])}"
    more = len(prediction.candidates) - len(prediction.best_nodes)
    if more:
        yield f"  other candidates: {plural(more, 'node')}, at a higher cost"


def _about_victims(
    victims: Sequence[Pod], num_violations: int, violated: list[str], cluster: ClusterSnapshot
) -> Iterator[str]:
    """Lines about the victims: each of them, PDBs, what their workloads lose, and how long the preemptor waits."""
    width = max(len(victim.key) for victim in victims)
    for victim in victims:
        ending = ", already terminating" if victim.terminating else ""
        yield f"  - {victim.key:{width}}  priority {victim.effective_priority}{_started(victim)}{ending}"
    if num_violations:
        yield f"  PDB: {violating(num_violations)} with no disruptions allowed ({listed(violated)})"
    elif pdbs := pdbs_of([victim for victim in victims if not victim.terminating], cluster):
        yield f"  {listed([f'PDB {pdb}' for pdb in pdbs])} allow{'s' if len(pdbs) == 1 else ''} this disruption"
    yield from (f"  {line}" for line in Consequences.from_victims(victims, cluster.workload).phrases())
    seconds = plural(wait_seconds(victims), "second")
    stored = (cluster.pods.get((victim.namespace, victim.name)) for victim in victims)
    if any(pod is not None and pod.terminating for pod in stored):  # since when, or held by a finalizer, is not known
        yield f"  wait: until the victims have terminated, {seconds} after their deletion or later"
    else:
        yield f"  wait: up to {seconds} until the victims have terminated"


def pdbs_of(victims: Sequence[Pod], cluster: ClusterSnapshot) -> list[str]:
    """The PDBs that select these Pods, as sorted `namespace/name`."""
    return sorted(
        {
            f"{pdb.namespace}/{pdb.name}"
            for victim in victims
            for pdb in cluster.scheduling.pdbs.get(victim.namespace, ())
            if pdb.matches(victim.namespace, victim.labels)
        }
    )


def probabilities_of(prediction: Prediction) -> list[str]:
    """The probabilities of outcomes, the most likely first, for example `92 %: 1 Pod of priority 0`."""
    chances: dict[str, float] = {}
    for candidate in prediction.candidates:
        priorities = Counter(victim.effective_priority for victim in candidate.victims)
        pods = [
            f"{plural(count, 'Pod')} of priority {priority}" for priority, count in sorted(priorities.items())[::-1]
        ]
        broken = f", {candidate.num_pdb_violations} violating a PDB" if candidate.num_pdb_violations else ""
        outcome = " and ".join(pods) + broken
        chances[outcome] = chances.get(outcome, 0.0) + prediction.nomination_probabilities.get(candidate.node_name, 0.0)
    ranked = sorted(chances.items(), key=lambda item: (-item[1], item[0]))
    return [f"{_percent(chance)}: {outcome}" for outcome, chance in ranked if chance > 0]


def _percent(chance: float) -> str:
    return "under 1 %" if chance < 0.005 else "over 99 %" if 0.995 <= chance < 1 else f"{chance:.0%}".replace("%", " %")


def _started(pod: Pod) -> str:
    if pod.start_time is None:
        return ", not started yet"
    return f", started {datetime.fromtimestamp(pod.start_time, UTC):%Y-%m-%d %H:%M}"


def _why_pending(prediction: Prediction, cluster: ClusterSnapshot) -> str:
    if not cluster.objects.nodes:
        return "the cluster has no nodes"
    if prediction.pre_filter is not None:
        return joined(prediction.pre_filter.reasons, "; ").short
    if prediction.error:
        return cycle_error(prediction)
    if found := cause(prediction):
        return found.short
    if prediction.preemption.ineligible_reason:
        never = in_short(prediction.preemption.ineligible_reason)
        return f"fits on no node{on_no_node(prediction)} and may not preempt: {never}"
    return f"fits on no current node{on_no_node(prediction)}"


def _why_not_lines(prediction: Prediction) -> Iterator[str]:
    lines = by_nodes((why, count) for count, why in why_not(prediction))
    if lines:
        yield "  not on the other nodes:" if prediction.candidates else "  nodes:"
    yield from (f"    {line}" for line in lines)


def line_of_group(group_forecast: GroupForecast) -> str:
    """A forecast as a line: `PodGroup ml/trainer (minCount 2): would preempt 4 Pods of 1 PodGroup: ml/experiment-0,
    …`.
    """
    return f"PodGroup {group_forecast.group.key} ({group_forecast.policy}): {_outcome(group_forecast)}"


def _outcome(group_forecast: GroupForecast) -> str:
    if group_forecast.missing:
        return f"waits for {plural(group_forecast.missing, 'more Pod')}"
    if group_forecast.outcome == "fits":
        bound = sum(group_forecast.nodes.values())
        places = listed([f"{node} ({count})" for node, count in sorted(group_forecast.nodes.items())])
        left = len(group_forecast.pods) - bound
        rest = f"; {plural(left, 'Pod')} Pending" if left > 0 else ""
        return f"{plural(bound, 'Pod fits', 'Pods fit')}: {places}{rest}"
    if group_forecast.outcome == "not-predicted":
        return f"not predicted: {group_forecast.message}"
    if group_forecast.outcome == "pending":
        return f"Pending: {in_short(group_forecast.message)}"
    groups = {(pod.namespace, pod.spec.pod_group) for pod in group_forecast.victims if pod.spec.pod_group}
    whole = groups and all(pod.spec.pod_group for pod in group_forecast.victims)
    of_groups = f" of {plural(len(groups), 'PodGroup')}" if whole else ""
    named = listed([pod.key for pod in group_forecast.victims])
    text = f"would preempt {plural(len(group_forecast.victims), 'Pod')}{of_groups}: {named}"
    return ", ".join(filter(None, (text, violating(group_forecast.num_pdb_violations))))
