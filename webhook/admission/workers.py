"""The threads and processes besides the event loop: the evaluating thread, request threads, prediction processes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final

from forewarn.webhook.admission.lanes import Cost, Lane, LoopLane, LoopResult, Step, Where
from forewarn.webhook.admission.prediction_access import PredictionProcess, Predictors, forked_by

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from forewarn.webhook.admission.replies import Reply

_WAITING: Final = 1024
_REQUESTING: Final = 8
"""Number of threads that may block for the API server."""
_FORK_SECONDS: Final = 10.0
"""Maximum seconds to wait for a process, for a task that no request waits for."""


class Workers:
    """The threads and processes besides the event loop.

    `processes`: the number of prediction processes; 0: the evaluating thread completes all predictions.
    """

    def __init__(self, processes: int = 0) -> None:
        self._evaluating = LoopLane("evaluate", _WAITING)
        self._requesting = Lane("request", _WAITING, threads=_REQUESTING)
        self.predictors = Predictors(self._evaluating, processes) if processes else None

    def give_way(self, cost: Cost) -> bool:
        """Run queued steps of lower cost first, on the evaluating thread; return true if there were any."""
        return self._evaluating.give_way(cost)

    def fork(self, run: Callable[[Any], Any]) -> PredictionProcess:
        """Fork a process for a task that no request waits for. Raises Unanswered."""
        return forked_by(self._evaluating, run, _FORK_SECONDS)

    @property
    def predictions(self) -> int:
        """The number of predictions that wait for a process."""
        return self.predictors.lane.length if self.predictors else 0

    def submit(self, step: Step, loop: AbstractEventLoop) -> Future[Reply | Step] | None:
        """Queue a step, and return its future on the event loop; None if the queue is full. Call only on this loop."""
        result, within = LoopResult(loop, holds_up=step.holds_up), inf
        if step.where is Where.LOOP:
            return result.future if self._evaluating.queue_short(step.cost, step.run, result) else None
        lane = self._requesting if step.where is Where.REQUEST else self._evaluating
        if step.where is Where.PREDICT and self.predictors is not None:
            lane, within = self.predictors.lane, step.within
        return result.future if lane.queue(step.cost, step.run, result, within) else None

    def stop(self) -> None:
        """Accept no more steps."""
        for lane in (self._evaluating, self._requesting):
            lane.stop()
        if self.predictors is not None:
            self.predictors.stop()
