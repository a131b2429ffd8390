"""Run a simulation several times with random latencies, and count the distinct outcomes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.timeline import Event

Signature = tuple[Any, ...]


class Outcome:
    """A run, and the number of runs with the same outcome."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.count = simulation, 1

    def to_dict(self) -> dict[str, Any]:
        return {**self.simulation.outcome(), "count": self.count}


def explore(make: Callable[[Random | None], Simulation], runs: int, seed: int = 0) -> list[Outcome]:
    """Run a simulation `runs` times and return the distinct outcomes."""
    outcomes: dict[Signature, Outcome] = {}
    for simulation in _run(make, runs, seed):
        outcome = outcomes.setdefault(signature(simulation), Outcome(simulation))
        outcome.count += outcome.simulation is not simulation
    return list(outcomes.values())


def _run(make: Callable[[Random | None], Simulation], runs: int, seed: int) -> Iterator[Simulation]:
    for number in range(max(runs, 1)):
        simulation = make(Random(f"{seed} {number}") if number else None)
        simulation.run()
        yield simulation


def signature(simulation: Simulation) -> Signature:
    """Return a key for comparing outcomes: the final state, and the events of each Pod with node, preemptor and
    whole second.
    """
    final = tuple((name, tuple(entry.items())) for name, entry in simulation.final().items())
    return final, tuple(sorted(_by_pod(simulation.timeline.events).items()))


def _by_pod(events: Iterable[Event]) -> dict[str, tuple[Any, ...]]:
    result: dict[str, tuple[Any, ...]] = {}
    for event in events:
        if event.pod and event.event != "unschedulable":
            entry = (int(event.t), event.event, event.node, event.by)
            result[event.pod] = (*result.get(event.pod, ()), entry)
    return result
