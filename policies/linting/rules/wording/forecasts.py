"""Texts about forecasts: their gaps, and the cascade after a preemption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import OPEN, Audience
from forewarn.policies.base.findings import plural
from forewarn.policies.prediction.forecast.impact import BY_CHOICE, BY_TIMING, WITHOUT_CLAIMS, Cascade, Impact

if TYPE_CHECKING:
    from forewarn.policies.prediction.forecast.placement import Placement

MISSING_ONLY: Final = "only missing Pods are predicted; `forewarn whatif apply` also simulates existing Pods"
"""The scope of the counts for a workload that already has Pods."""
FREED: Final = "victims of the same namespace free quota: more Pods may be created after these terminate"


def placement_notes(placement: Placement) -> tuple[str, ...]:
    """The assumptions of a placement, in addition to the caveats of each prediction."""
    following = placement.rollout or placement.following
    cascade = following.cascade if following is not None else None
    why = (f"not predicted: {cascade.not_predicted}",) if cascade is not None and cascade.not_predicted else ()
    if placement.rollout is not None:
        return (*why, *rollout_notes(placement.rollout))
    beyond = f"only the first {len(placement.predictions)} new Pods are evaluated, {placement.omitted} more are not"
    notes = (
        (placement.without_claims, WITHOUT_CLAIMS),
        (placement.existing > 0, MISSING_ONLY),
        (placement.omitted > 0, beyond),
        (placement.frees_quota, FREED),
    )
    return (*why, *_chance_lines(following), *(note for matches, note in notes if matches))


def _chance_lines(impact: Impact | None) -> Iterator[str]:
    """Yield what decides how many Pods preempt, apart from equal nodes and victims."""
    if impact is not None and impact.by_chance not in ("", BY_CHOICE) and not impact.is_estimate:
        yield f"how many Pods preempt depends on {impact.by_chance}"


def rollout_notes(impact: Impact) -> Iterator[str]:
    """Yield the assumptions of a rollout's prediction, in addition to the caveats of each Pod's prediction."""
    if impact.new == 0 and not impact.replaces_none:
        yield "the controller creates the new Pods after existing Pods are ready; this is not evaluated"
    if impact.depends_on_timing:
        yield BY_TIMING.format("Pods" if impact.is_close else "Pods of the same workload")
    if impact.delay:
        yield f"new Pods are rejected at first by {impact.delay}, and the controller retries"
    yield from _chance_lines(impact)
    if impact.by_waiting:
        victims = plural(sum(len(prediction.victims) for prediction in impact.by_waiting), "Pod")
        yield f"{plural(len(impact.by_waiting), 'Pending Pod')} would use capacity of old Pods, and preempt {victims}"
    yield from unfinished(impact)


def unfinished(impact: Impact, audience: Audience = OPEN) -> tuple[str, ...]:
    """Return the reason why a prediction is incomplete as a sentence in lower case, such as `time ran out after 3 of 10
    new Pods`; empty if it is complete.
    """
    if impact.first_only or impact.rest != "unknown":
        return ("the rollout is too large to predict it to its end",) if impact.first_only else ()
    if impact.excess is not None:
        after = "" if audience.coarse else f" after {impact.predicted} of {impact.new} new Pods"
        return (f"not evaluated{after}: {impact.excess.problem}",)
    if audience.coarse:
        return ("time ran out before all new Pods were predicted",)
    return (f"time ran out after {impact.predicted} of {impact.new} new Pods",)


def cascade_phrases(cascade: Cascade, *, coarse: bool = False) -> tuple[str, ...]:
    """Return the effects of a preemption as phrases, the worst first: `replacements preempt 3 more Pods`, `1 not
    recreated`.

    `coarse`: only the worst effect, without numbers.
    """
    if cascade.incomplete:
        return ("cascade not predicted",)
    if coarse:
        worst = (
            (cascade.preempted, "replacements preempt more Pods"),
            (cascade.pending, "replacements stay Pending"),
            (cascade.rejected_by_quota, "replacements rejected by a quota"),
            (cascade.replaced, "replacements fit"),
            (cascade.not_replaced, "assumed not recreated" if cascade.controller_unknown else "not recreated"),
        )
        return tuple(text for number, text in worst if number)[:1]
    fit = ("replacement fits" if cascade.replaced == 1 else "replacements fit",) if cascade.replaced else ()
    phrases = tuple(_effects(cascade)) or fit
    ignored = cascade.pending_not_evaluated
    return (*phrases, f"{plural(ignored, 'Pending Pod')} ignored") if ignored else phrases


def _effects(cascade: Cascade) -> Iterator[str]:
    """Yield all effects of a preemption except replacement Pods that fit."""
    if cascade.preempted:
        depth = f" in a cascade of depth {cascade.cascade_depth}" if cascade.cascade_depth > 1 else ""
        yield f"replacements preempt {plural(cascade.preempted, 'more Pod')}{depth}"
    if cascade.pending:
        is_one = cascade.pending == 1 and (cascade.replaced == 1 or bool(cascade.preempted))
        yield f"{_replacements(cascade, cascade.pending)} {'stays' if is_one else 'stay'} Pending"
    if cascade.rejected_by_quota:
        yield f"{_replacements(cascade, cascade.rejected_by_quota)} rejected by a quota"
    if cascade.not_replaced:
        yield _lost(cascade)


def _lost(cascade: Cascade) -> str:
    """Return a phrase about victims without replacement: `not recreated`, `2 assumed not recreated`."""
    number = f"{cascade.not_replaced} " if cascade.replaced else ""
    if cascade.controller_unknown in (0, cascade.not_replaced):
        return f"{number}{'assumed ' if cascade.controller_unknown else ''}not recreated"
    return f"{cascade.not_replaced} not recreated ({cascade.controller_unknown} assumed)"


def _replacements(cascade: Cascade, count: int) -> str:
    """Return a phrase for `count` replacement Pods: `replacement`, `replacements`, `2 of 3 replacements`."""
    if cascade.preempted:
        return plural(count, "replacement")
    if cascade.replaced == 1:
        return "replacement"
    return "replacements" if count == cascade.replaced else f"{count} of {cascade.replaced} replacements"
