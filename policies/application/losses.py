"""The effects of many losses: the cluster is loaded once, and each loss is simulated in a fork.

Loading a cluster of 150,000 Pods takes longer than the simulation of one lost node. A fork has the complete state
immediately, and changes stay in the fork, so each result equals a separate simulation. The events before a loss, and
the first syncs of controllers, happen before the forks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from forewarn.policies.process_pool import mapped
from forewarn.policies.scheduling.bulk import prepare_for_all
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.whatif.comparison import at_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.questions import Question


class Counting(Protocol):
    """Measures a completed simulation; created from a simulation of the same cluster before it runs."""

    def of(self, simulation: Simulation, question: Question) -> dict[str, Any]:
        """Return the measured values of a completed simulation of the question as JSON data."""


def counted(
    world: World, asked: Sequence[Question], counting: Callable[[Simulation], Counting]
) -> Iterator[Mapping[str, Any]]:
    """Yield the values of `counting` after the simulation of each question, in order.

    `world`: the cluster without arrivals. Runs one simulation per core at a time.
    """
    if not asked:
        return
    simulation = Simulation(world)
    losses = counting(simulation)
    simulation.begin()
    ahead = at_rest(world) and all(map(_is_loss, asked)) and _would_be_quiet(simulation)
    if ahead:
        simulation.run_first_syncs()
    prepare_for_all(simulation.cache.snapshot())  # which those after a loss go on from

    def in_shared_simulation(question: Question) -> Mapping[str, Any]:
        simulation.expect(question.arrivals)
        simulation.run()
        if ahead and not simulation.is_as_if_new:
            raise ValueError("a new simulation has to tell")
        return losses.of(simulation, question)

    def in_new_simulation(question: Question) -> Mapping[str, Any]:
        own = Simulation(world._replace(arrivals=question.arrivals))
        own.run()
        return losses.of(own, question)

    yield from mapped(asked, in_shared_simulation, in_new_simulation)


def _is_loss(question: Question) -> bool:
    return all(arrival.op == "lost" for arrival in question.arrivals)


def _would_be_quiet(simulation: Simulation) -> bool:
    """Report whether the first syncs of controllers cause no events; tested in a fork, because events cannot be
    undone.
    """
    (quiet,) = mapped([simulation], Simulation.run_first_syncs, lambda _: False)
    return bool(quiet)
