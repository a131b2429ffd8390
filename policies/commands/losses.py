"""What many losses come to, one after the other: a cluster is loaded once, and each loss is tried in a forked process.

To load a cluster of 150,000 pods takes longer than what the loss of one node brings about. A fork has all of it at
once, and what it changes there nobody sees; so each answer is that of a simulation of its own. What happens before a
loss, and what controllers look at first where nothing else happens, is done before the forks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from policies.commands.forks import mapped
from policies.scheduling.bulk import prepare_for_all
from policies.simulation.simulation import Simulation
from policies.whatif.comparison import at_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policies.simulation.scenario import World
    from policies.whatif.questions import Question


class Counting(Protocol):
    """What is counted: made of a simulation that has not run, and asked of others of its cluster that have."""

    def of(self, simulation: Simulation) -> dict[str, Any]:
        """What JSON can say of it."""


def counted(
    world: World, asked: Sequence[Question], counting: Callable[[Simulation], Counting]
) -> Iterator[Mapping[str, Any]]:
    """What is counted after each of these questions, in their order.

    `world`: without arrivals. As many are tried at once as there are cores.
    """
    if not asked:
        return
    simulation = Simulation(world)
    losses = counting(simulation)
    simulation.begin()
    ahead = at_rest(world) and all(map(_is_loss, asked)) and _would_be_quiet(simulation)
    if ahead:
        simulation.look_around()
    prepare_for_all(simulation.cache.snapshot())  # which those after a loss go on from

    def tried(question: Question) -> Mapping[str, Any]:
        simulation.expect(question.arrivals)
        simulation.run()
        if ahead and not simulation.is_as_if_new:
            raise ValueError("a new simulation has to tell")
        return losses.of(simulation)

    def tried_anew(question: Question) -> Mapping[str, Any]:
        own = Simulation(world._replace(arrivals=question.arrivals))
        own.run()
        return losses.of(own)

    yield from mapped(asked, tried, tried_anew)


def _is_loss(question: Question) -> bool:
    return all(arrival.op == "lost" for arrival in question.arrivals)


def _would_be_quiet(simulation: Simulation) -> bool:
    """Whether nothing happens while controllers look around: asked of a fork, as what has happened cannot be undone."""
    (quiet,) = mapped([simulation], Simulation.look_around, lambda _: False)
    return bool(quiet)
