"""What many losses come to, one after the other: a cluster is loaded once, and each loss is tried in a forked process.

To load a cluster of 150,000 pods takes longer than what the loss of one node brings about. A fork has all of it at
once, and what it changes there nobody sees; so each answer is that of a simulation of its own.
"""

from __future__ import annotations

import gc
import json
import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from policies.commands.forks import cores, forked
from policies.scheduling.bulk import prepare_for_all
from policies.simulation.simulation import Simulation
from policies.whatif.comparison import Losses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policies.simulation.scenario import World
    from policies.whatif.questions import Question


class Counting(Protocol):
    """What is counted: made of a simulation that has not run, and asked of others of its cluster that have."""

    def of(self, simulation: Simulation) -> dict[str, Any]:
        """What JSON can say of it."""


def lost_replicas(world: World, asked: Sequence[Question]) -> Iterator[Mapping[str, int]]:
    """For each of these questions, in their order: workload -> how many replicas fewer run in the end.

    `world`: without arrivals. As many are tried at once as there are cores.
    """
    return counted(world, asked, Losses)


def counted(
    world: World, asked: Sequence[Question], counting: Callable[[Simulation], Counting]
) -> Iterator[Mapping[str, Any]]:
    """The same of anything that is counted."""
    if not asked:
        return
    simulation = Simulation(world)
    prepare_for_all(simulation.cache.snapshot())  # which those after a loss go on from
    losses = counting(simulation)
    gc.collect()
    gc.freeze()
    started: deque[tuple[Question, tuple[int, int] | None]] = deque()
    try:
        for question in asked:
            started.append((question, _fork(question, simulation, losses)))
            if len(started) >= cores():
                yield _answer(*started.popleft(), world, losses)
        while started:
            yield _answer(*started.popleft(), world, losses)
    finally:
        gc.unfreeze()
        for _, process in started:
            if process is not None:
                _told(*process)


def _fork(question: Question, simulation: Simulation, losses: Counting) -> tuple[int, int] | None:
    """A process that tries a loss, and the pipe by which it tells; None where there can be none."""

    def try_it(pipe: int) -> None:
        simulation.expect(question.arrivals)
        simulation.run()
        with os.fdopen(pipe, "w", encoding="utf-8") as stream:
            json.dump(losses.of(simulation), stream)

    return forked(try_it)


def _answer(question: Question, process: tuple[int, int] | None, world: World, losses: Counting) -> Mapping[str, Any]:
    """What a process told; where there was none, or it ended early, the same is worked out here."""
    found = None if process is None else _told(*process)
    if found is None:
        simulation = Simulation(world._replace(arrivals=question.arrivals))
        simulation.run()
        found = losses.of(simulation)
    return found


def _told(process: int, pipe: int) -> Mapping[str, Any] | None:
    with os.fdopen(pipe, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(process, 0)
    with suppress(ValueError):
        found: Mapping[str, Any] = json.loads(text)
        return found
    return None
