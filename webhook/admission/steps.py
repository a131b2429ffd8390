"""The steps to a response, each on the thread where it belongs.

A generator yields a step, receives the result of its function, and returns the reply at its end. So the way of a
request reads from top to bottom although several threads and a process work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from forewarn.webhook.admission.lanes import Cost

if TYPE_CHECKING:
    from forewarn.webhook.admission.replies import Reply

T = TypeVar("T")


class Where(Enum):
    """The thread or process of a step; never the event loop."""

    EVALUATE = "evaluate"
    """The evaluating thread, cheapest step first: no step uses it for more than a few milliseconds."""
    REQUEST = "request"
    """A thread that may wait for the API server."""
    PREDICT = "predict"
    """A prediction process, for long predictions."""


class Step(NamedTuple):
    """`run`: the function of the step. `otherwise`: runs instead, at once, if the queue is full; without it the request
    is rejected. `within`: seconds in which the step must start.
    """

    run: Callable[[], Any]
    where: Where = Where.EVALUATE
    cost: Cost = Cost.RULES
    otherwise: Callable[[], Any] | None = None
    within: float = inf


Steps = Generator[Step, Any, T]
"""Yields steps; returns a result."""


def advance(steps: Steps[Reply], guard: Callable[[Callable[[], Reply | Step]], Reply | Step]) -> Reply | Step:
    """Run the generator to its next step; that step's `run` also continues the generator, on the same thread.

    `guard` calls a function and turns its exceptions into a reply.
    """
    return _resumed(steps, guard, _nothing)


def _nothing() -> None:
    """The result that starts a generator."""


def _resumed(
    steps: Steps[Reply], guard: Callable[[Callable[[], Reply | Step]], Reply | Step], run: Callable[[], Any]
) -> Reply | Step:
    def resume() -> Reply | Step:
        try:
            step = steps.send(run())
        except StopIteration as end:
            reply: Reply = end.value
            return reply
        otherwise = step.otherwise and partial(_resumed, steps, guard, step.otherwise)
        run_and_resume = partial(_resumed, steps, guard, step.run)
        return Step(run_and_resume, step.where, step.cost, otherwise, step.within)

    return guard(resume)
