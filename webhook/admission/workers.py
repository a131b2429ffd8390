"""Everything that works beside the event loop: who judges, who asks the API server, who predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from webhook.admission.lanes import Cost, Lane
from webhook.admission.prediction_process import PredictionProcess, Predictors, forked_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from webhook.admission.endpoint import Later, Reply

_WAITING: Final = 1024
_ASKING: Final = 8
"""Threads that may wait for the API server at the same time."""
_FORK_SECONDS: Final = 10.0
"""How long what nobody waits for may wait for a process."""


class Workers:
    """`processes`: how many predictions that take long run at a time, in processes of their own; 0: none of them."""

    def __init__(self, processes: int = 0) -> None:
        self._judging = Lane("judge", _WAITING)
        self._asking = Lane("ask", _WAITING, threads=_ASKING)
        self.predictors = Predictors(self._judging, processes) if processes else None

    def give_way(self, cost: Cost) -> bool:
        """On the thread that judges: first what is cheaper and waits; whether there was anything."""
        return self._judging.give_way(cost)

    def fork(self, run: Callable[[Any], Any]) -> PredictionProcess:
        """A process beside those for predictions, for what is nobody's request. Raises Unanswered."""
        return forked_by(self._judging, run, _FORK_SECONDS)

    @property
    def predictions(self) -> int:
        """How many of them wait for a process."""
        return self.predictors.lane.length if self.predictors else 0

    def submit(self, later: Later) -> Future[Reply | Later] | None:
        """Let it run where it belongs; None where there is no room for it."""
        from webhook.admission.endpoint import Where

        if later.where is Where.ASK:
            return self._asking.submit(later.cost, later.run)
        if later.where is Where.PREDICT and self.predictors is not None:
            return self.predictors.lane.submit(later.cost, later.run, later.within)
        return self._judging.submit(later.cost, later.run)

    def stop(self) -> None:
        """Take nothing more."""
        for lane in (self._judging, self._asking):
            lane.stop()
        if self.predictors is not None:
            self.predictors.stop()
