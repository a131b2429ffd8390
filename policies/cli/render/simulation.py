"""The result of a simulation as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import duration, listed, plural
from forewarn.policies.prediction.simulation.summary import Summary, preemption_text, unsettled

if TYPE_CHECKING:
    from forewarn.policies.questions.whatif.answer import Preemption

_MAX_NAMED: Final = 10


def settled(summary: Summary, which: str = "") -> str:
    """A sentence with the time of the steady state. `which`: of several simulations."""
    steady = f"steady state{which} after {duration(summary.settled_at)}"
    if summary.is_changing and not (summary.expects_more or summary.is_cut_off):
        end, fix = duration(summary.horizon), unsettled("", summary.horizon)[1]
        return f"{steady} if nothing follows after the simulated {end}. Fix: {fix}"
    if not summary.settled:
        what, fix = unsettled(summary.stopped, summary.horizon)
        last = duration(summary.settled_at)
        when = f", at {last}" if summary.stopped else f" (last event after {last})"
        return f"simulation {what}{when}; results are as of then. Fix: {fix}"
    return steady


def pair(key: tuple[str, int, str, int], preemptions: list[Preemption]) -> str:
    """Return a line about the preemptions between two workloads. `key`: name and priority of the preemptor, then of
    the victim.
    """
    by, by_priority, victim, priority = key
    victims = listed([preemption.victim.rpartition("/")[2] for preemption in preemptions], _MAX_NAMED)
    text = preemption_text(by, by_priority, f"{plural(len(preemptions), 'Pod')} of {victim}", priority)
    return text if victim == preemptions[0].victim else f"{text}: {victims}"
