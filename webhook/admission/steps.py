"""The steps to a response, each on its own kind of thread or process.

A generator yields a step, receives the result of the step's function, and returns the reply at its end. Thus the code
for one request reads from top to bottom, although several threads and a process run it.
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
    """The thread or process of a step."""

    LOOP = "loop"
    """The event loop, cheapest step first, one step in each iteration."""
    EVALUATE = "evaluate"
    """The evaluating thread, cheapest step first: no step uses it for more than a few milliseconds."""
    REQUEST = "request"
    """A thread that may block for the API server."""
    PREDICT = "predict"
    """A prediction process, for long predictions."""


class Step(NamedTuple):
    """One step of a request. `run`: its function.

    `otherwise`: the function to run immediately if the queue is full; None: reject the request. `within`: seconds in
    which the step must start. `holds_up`: as in `lanes.LoopResult`.
    """

    run: Callable[[], Any]
    where: Where = Where.EVALUATE
    cost: Cost = Cost.RULES
    otherwise: Callable[[], Any] | None = None
    within: float = inf
    holds_up: bool = False


Steps = Generator[Step, Any, T]
"""A generator that yields steps and returns a result."""
Guard = Callable[[Callable[[], "Reply | Step"]], "Reply | Step"]
"""Calls a function and converts its exceptions into a reply."""


def advance(steps: Steps[Reply], guard: Guard) -> Reply | Step:
    """Run the generator to its next step, and return this step, or the reply at the end.

    The `run` of the returned step also continues the generator, on the same thread.
    """
    return _resumed(steps, guard, _nothing)


def _nothing() -> None:
    """Return None, the value that starts a generator."""


def _resumed(steps: Steps[Reply], guard: Guard, run: Callable[[], Any]) -> Reply | Step:
    def resume() -> Reply | Step:
        try:
            step = steps.send(run())
        except StopIteration as end:
            reply: Reply = end.value
            return reply
        otherwise = step.otherwise and partial(_resumed, steps, guard, step.otherwise)
        run_and_resume = partial(_resumed, steps, guard, step.run)
        return step._replace(run=run_and_resume, otherwise=otherwise)

    return guard(resume)
