"""Simulate many questions about one cluster, one fork for each: loading a cluster takes longer than one lost node.

A fork has the complete state immediately, and changes stay in the fork, so each result equals a separate simulation.
The events before a loss, and the first syncs of controllers, happen before the forks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.scheduling.bulk import prepare_for_all
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.whatif.comparison import at_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from forewarn.policies.prediction.simulation.scenario import World
    from forewarn.policies.questions.whatif.questions import Question
    from forewarn.policies.questions.whatif.repetition import Counting


def counted(
    world: World,
    asked: Sequence[Question],
    counting: Callable[[Simulation], Counting],
    report: Callable[..., None] | None = None,
) -> Generator[Any]:
    """Yield the values of `counting` after the simulation of each question, in order.

    `world`: the cluster without arrivals. Runs one simulation per core at a time. `report`: called now and then.
    """
    if not asked:
        return
    simulation = Simulation(world)
    losses = counting(simulation)
    simulation.begin()
    loses = all(arrival.op == "lost" for question in asked for arrival in question.arrivals)
    ahead = at_rest(world) and loses and _would_be_quiet(simulation, report)
    if ahead:
        simulation.run_first_syncs()
    if report is not None:
        report()
    prepare_for_all(simulation.cache.snapshot())  # which those after a loss go on from

    def in_shared_simulation(question: Question) -> Any:
        simulation.expect(question.arrivals)
        values = losses.measure(simulation, question)
        if ahead and not simulation.is_as_if_new:
            raise ValueError("a new simulation has to tell")
        return values

    def in_new_simulation(question: Question) -> Any:
        return losses.measure(Simulation(world._replace(arrivals=question.arrivals), progress=report), question)

    yield from mapped(asked, in_shared_simulation, in_new_simulation, report)


def _would_be_quiet(simulation: Simulation, report: Callable[..., None] | None) -> bool:
    """Report whether the first syncs of controllers cause no events; tested in a fork, because events cannot be
    undone.
    """
    (quiet,) = mapped([simulation], Simulation.run_first_syncs, lambda _: False, report)
    return bool(quiet)
