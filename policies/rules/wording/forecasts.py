"""Texts about forecasts: their gaps, and the cascade after a preemption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import OPEN, Audience
from forewarn.policies.findings import plural
from forewarn.policies.forecast.impact import BY_CHOICE, WITHOUT_CLAIMS, Impact, least

if TYPE_CHECKING:
    from forewarn.policies.forecast.aftermath import Aftermath
    from forewarn.policies.forecast.placement import Placement

ONE_BY_ONE: Final = (
    "Pods are placed one after the other, on the first of tied nodes by name; while victims terminate, the preemptor "
    "waits and their PDBs allow that many fewer disruptions"
)

MISSING_ONLY: Final = (
    "counts cover the missing Pods only; --cascade and `forewarn whatif apply` also simulate existing Pods"
)
"""The scope of the counts for a workload that already has Pods."""

_PDBS_AT_ONCE: Final = (
    "each victim counts for its PDBs at once. With --cascade and `forewarn whatif apply`, it counts when the disruption"
    " controller has noticed it"
)
NOT_CREATED: Final = "not created until Pending Pods run"
"""The outcome of Pods that a workload creates only after Pods that are Pending."""
NOT_CREATED_AFTER_REJECTED: Final = "not created until rejected Pods run"
FREED: Final = "victims of the same namespace free quota: more Pods may be created after these terminate; see --cascade"


def placement_notes(placement: Placement) -> tuple[str, ...]:
    """The assumptions of a placement, in addition to the caveats of each prediction."""
    if placement.rollout is not None:
        return tuple(rollout_notes(placement.rollout))
    evaluated = len(placement.predictions)
    beyond = f"only the first {evaluated} new Pods are evaluated, {placement.omitted} more are not"
    notes = (
        (placement.without_claims, WITHOUT_CLAIMS),
        (placement.existing > 0, MISSING_ONLY),
        (evaluated > 1, ONE_BY_ONE),
        (least(placement.predictions) is not None, f"how many Pods preempt depends on {BY_CHOICE}"),
        (placement.omitted > 0, beyond),
        (placement.frees_quota, FREED),
        (placement.ahead != 0, _alone(placement)),
    )
    return tuple(note for matches, note in notes if matches)


def _alone(placement: Placement) -> str:
    """The note about Pending Pods before a Pending Pod in the queue."""
    if placement.ahead is None:
        return "predicted alone; more Pending Pods than forewarn evaluates are before it in the queue"
    are = plural(placement.ahead, "Pending Pod is", "Pending Pods are")
    return f"predicted alone; {are} before it in the queue: `forewarn why {placement.name}` predicts after them"


def rollout_notes(impact: Impact) -> Iterator[str]:
    """Return the assumptions of a prediction for several Pods, in addition to the caveats of each Pod's prediction."""
    if impact.replaces_none:
        yield "existing Pods keep the old template until you delete them (OnDelete) or lower the partition"
    elif impact.new == 0:
        yield "the controller creates the new Pods after existing Pods are ready; this is not evaluated"
    if impact.by_timing:
        yield "the new Pods preempt Pods of the same workload only if they are scheduled before the old Pods terminate"
    if impact.delay:
        yield f"new Pods are rejected at first by {impact.delay}, and the controller retries"
    if impact.by_chance:
        yield f"how many Pods preempt depends on {impact.by_chance}"
    if impact.by_waiting:
        victims = plural(sum(len(prediction.victims) for prediction in impact.by_waiting), "Pod")
        yield f"{plural(len(impact.by_waiting), 'Pending Pod')} would use capacity of old Pods, and preempt {victims}"
    if impact.displacing:
        fit = plural(impact.displacing, "new Pod fits after it preempts", "new Pods fit after they preempt")
        yield f"{fit} Pods that start later, such as replacement Pods"
    if impact.aftermath is not None and impact.aftermath.preempted:
        yield ", ".join(cascade(impact.aftermath))
    if impact.why_not:
        yield f"not predicted: {impact.why_not}"
    yield from unfinished(impact)
    if impact.preempted:
        violating = f", {impact.num_pdb_violations} violating a PDB" if impact.num_pdb_violations else ""
        yield f"in all, the rollout and its cascade preempt {plural(impact.preempted, 'Pod')}{violating}"
    if impact.num_pdb_violations:
        yield _PDBS_AT_ONCE


def unfinished(impact: Impact, audience: Audience = OPEN) -> tuple[str, ...]:
    """Return the reason why a prediction is incomplete as a sentence in lower case, such as `time ran out after 3 of 10
    new Pods`; empty if it is complete.
    """
    if impact.rest != "unknown":
        return ("the rollout is too large to predict it to its end",) if impact.first_only else ()
    if impact.excess is not None:
        after = "" if audience.coarse else f" after {impact.predicted} of {impact.new} new Pods"
        return (f"not evaluated{after}: {impact.excess.problem}",)
    if audience.coarse:
        return ("time ran out before all new Pods were predicted",)
    return (f"time ran out after {impact.predicted} of {impact.new} new Pods",)


def cascade(aftermath: Aftermath, *, coarse: bool = False) -> tuple[str, ...]:
    """Return the effects of a preemption as phrases, the worst first: `replacements preempt 3 more Pods`, `1 not
    recreated`.

    `coarse`: only the worst effect, without numbers.
    """
    if aftermath.incomplete:
        return ("cascade not predicted",)
    if coarse:
        worst = (
            (aftermath.preempted, "replacements preempt more Pods"),
            (aftermath.pending, "replacements stay Pending"),
            (aftermath.rejected_by_quota, "replacements rejected by a quota"),
            (aftermath.replaced, "replacements fit"),
            (1, "assumed not recreated" if aftermath.controller_unknown else "not recreated"),
        )
        return (next(text for number, text in worst if number),)
    phrases = tuple(_effects(aftermath)) or ("replacement fits" if aftermath.replaced == 1 else "replacements fit",)
    ignored = aftermath.pending_not_evaluated
    return (*phrases, f"{ignored:,} Pending Pods ignored") if ignored else phrases


def _effects(aftermath: Aftermath) -> Iterator[str]:
    """Yield all effects of a preemption except replacement Pods that fit."""
    if aftermath.preempted:
        depth = f" in a cascade of depth {aftermath.cascade_depth}" if aftermath.cascade_depth > 1 else ""
        yield f"replacements preempt {plural(aftermath.preempted, 'more Pod')}{depth}"
    if aftermath.pending:
        is_one = aftermath.pending == 1 and (aftermath.replaced == 1 or bool(aftermath.preempted))
        yield f"{_replacements(aftermath, aftermath.pending)} {'stays' if is_one else 'stay'} Pending"
    if aftermath.rejected_by_quota:
        yield f"{_replacements(aftermath, aftermath.rejected_by_quota)} rejected by a quota"
    if aftermath.not_replaced or not aftermath.replaced:
        yield _lost(aftermath)


def _lost(aftermath: Aftermath) -> str:
    """Return a phrase about victims without replacement: `not recreated`, `2 assumed not recreated`."""
    number = f"{aftermath.not_replaced} " if aftermath.replaced else ""
    if aftermath.controller_unknown in (0, aftermath.not_replaced):
        return f"{number}{'assumed ' if aftermath.controller_unknown else ''}not recreated"
    return f"{aftermath.not_replaced} not recreated ({aftermath.controller_unknown} assumed)"


def _replacements(aftermath: Aftermath, count: int) -> str:
    """Return a phrase for `count` replacement Pods: `replacement`, `replacements`, `2 of 3 replacements`."""
    if aftermath.preempted:
        return plural(count, "replacement")
    if aftermath.replaced == 1:
        return "replacement"
    return "replacements" if count == aftermath.replaced else f"{count} of {aftermath.replaced} replacements"
