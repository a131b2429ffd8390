"""The threads and processes besides the event loop: the evaluating thread, request threads, prediction processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.webhook.admission.lanes import Cost, Lane
from forewarn.webhook.admission.prediction_process import PredictionProcess, Predictors, forked_by
from forewarn.webhook.admission.steps import Where

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from forewarn.webhook.admission.replies import Reply
    from forewarn.webhook.admission.steps import Step

_WAITING: Final = 1024
_REQUESTING: Final = 8
"""Number of threads that may block for the API server."""
_FORK_SECONDS: Final = 10.0
"""Maximum seconds to wait for a process, for a task that no request waits for."""


class Workers:
    """`processes`: the number of prediction processes; 0: the evaluating thread completes all predictions."""

    def __init__(self, processes: int = 0) -> None:
        self._evaluating = Lane("evaluate", _WAITING)
        self._requesting = Lane("request", _WAITING, threads=_REQUESTING)
        self.predictors = Predictors(self._evaluating, processes) if processes else None

    def give_way(self, cost: Cost) -> bool:
        """Run cheaper steps first, on the evaluating thread; returns true if there were any."""
        return self._evaluating.give_way(cost)

    def fork(self, run: Callable[[Any], Any]) -> PredictionProcess:
        """Fork a process for a task that no request waits for. Raises Unanswered."""
        return forked_by(self._evaluating, run, _FORK_SECONDS)

    @property
    def predictions(self) -> int:
        """The number of predictions that wait for a process."""
        return self.predictors.lane.length if self.predictors else 0

    def submit(self, step: Step) -> Future[Reply | Step] | None:
        """Queue a step on its thread or process, and return its future; None if the queue is full."""
        if step.where is Where.REQUEST:
            return self._requesting.submit(step.cost, step.run)
        if step.where is Where.PREDICT and self.predictors is not None:
            return self.predictors.lane.submit(step.cost, step.run, step.within)
        return self._evaluating.submit(step.cost, step.run)

    def stop(self) -> None:
        """Accept no more steps."""
        for lane in (self._evaluating, self._requesting):
            lane.stop()
        if self.predictors is not None:
            self.predictors.stop()
