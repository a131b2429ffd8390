"""Background tasks: each runs when due, independent of failures of other tasks."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from forewarn.webhook.apiserver.typed_client import ObjectApiError
from forewarn.webhook.controllers.serving_certificate import BadSecret
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.metrics import Metrics


class Tasks:
    """Runs tasks by name. `faults`: task -> current error. Not thread-safe."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = monotonic) -> None:
        self._metrics, self._clock = metrics, clock
        self._due: dict[str, float] = {}
        self.faults: dict[str, str] = {}
        """Reasons of the last failures, by task."""

    def attempt(self, task: str, seconds: float, run: Callable[[], object]) -> None:
        """Run a task if it is due; the next run is due after `seconds`, or immediately after a failure.

        Raises nothing.
        """
        now = self._clock()
        if now < self._due.get(task, now):
            return
        try:
            run()
            self._due[task] = now + seconds
            self.faults.pop(task, None)
        except (ObjectApiError, BadSecret) as error:
            self._failed(task, str(error))
            log_event("background task failed", {"task": task, "reason": str(error)}, logging.WARNING)
        except Exception as error:
            self._failed(task, f"{type(error).__name__}; see the log")
            LOGGER.exception("background task failed")

    def _failed(self, task: str, why: str) -> None:
        self._metrics.count(self._metrics.task_failures, task)
        self.faults[task] = why
