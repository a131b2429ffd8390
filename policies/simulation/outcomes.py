"""Several runs of one scenario: what they come to, and how often."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.timeline import Event

Signature = tuple[Any, ...]


class Outcome:
    """A run, and how many others came to the same."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.count = simulation, 1

    def to_dict(self) -> dict[str, Any]:
        """As recordings have it."""
        return {**self.simulation.outcome(), "count": self.count}


def explore(make: Callable[[Random | None], Simulation], runs: int, seed: int = 0) -> list[Outcome]:
    """The outcomes of so many runs, the first that of fixed latencies; in the others ties and jitter are diced for.

    `make`: a simulation with these dice; it is run here.
    """
    outcomes: dict[Signature, Outcome] = {}
    for simulation in _run(make, runs, seed):
        known = outcomes.setdefault(signature(simulation), Outcome(simulation))
        known.count += known.simulation is not simulation
    return list(outcomes.values())


def _run(make: Callable[[Random | None], Simulation], runs: int, seed: int) -> Iterator[Simulation]:
    for number in range(max(runs, 1)):
        simulation = make(Random(f"{seed} {number}") if number else None)
        simulation.run()
        yield simulation


def signature(simulation: Simulation) -> Signature:
    """Equal for runs that are one outcome: the same end, and for each pod the same events in the same whole seconds."""
    final = tuple((name, tuple(entry.items())) for name, entry in simulation.final().items())
    return final, tuple(sorted(_by_pod(simulation.timeline.events).items()))


def _by_pod(events: Iterable[Event]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for event in events:
        if event.pod and event.event != "unschedulable":
            entry = (int(event.t), event.event, event.node, event.by)
            found[event.pod] = (*found.get(event.pod, ()), entry)
    return found
