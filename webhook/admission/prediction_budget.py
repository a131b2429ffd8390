"""The number of predictions that a user and a namespace may see in an hour: token buckets in bounded memory."""

from __future__ import annotations

from enum import IntEnum
from heapq import nsmallest
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.config.model import Budget

COST: Final = 0.5
"""Cost of one webhook call. Each created or changed object causes two calls, one for each webhook."""
REMEMBERED: Final = 8_192
"""Maximum number of buckets, about 300 bytes each. Above it, the eighth that recovers first is removed."""
_HOUR: Final = 3600.0


class Level(IntEnum):
    """The detail of predictions that the budget allows."""

    EXACT = 0
    COARSE = 1
    NOTHING = 2


class _Bucket(NamedTuple):
    """The use of one budget: the shown predictions that have not recovered at the time `at`.

    `full_at`: the time at which the whole budget is available again.
    """

    exact: float = 0.0
    coarse: float = 0.0
    at: float = 0.0
    full_at: float = 0.0

    def recovered(self, budget: Budget, now: float) -> _Bucket:
        """The bucket at a later time. Predictions recover evenly over the hour."""
        hours = max(now - self.at, 0.0) / _HOUR
        exact, coarse = self.exact - budget.exact * hours, self.coarse - budget.coarse * hours
        return _Bucket(max(exact, 0.0), max(coarse, 0.0), now, self.full_at)

    def level(self, budget: Budget) -> Level:
        """The level that the remaining budget allows."""
        if self.exact + COST <= budget.exact:
            return Level.EXACT
        return Level.COARSE if self.coarse + COST <= budget.coarse else Level.NOTHING

    def after_call(self, level: Level, budget: Budget) -> _Bucket:
        """Return the bucket after one more prediction. A coarse prediction uses the exact budget if the coarse budget
        is empty.
        """
        takes_exact = level is Level.EXACT or self.coarse + COST > budget.coarse
        exact = min(self.exact + COST * takes_exact, budget.exact)
        coarse = min(self.coarse + COST * (not takes_exact), budget.coarse)
        hours = max(exact / max(budget.exact, 1), coarse / max(budget.coarse, 1))
        return _Bucket(exact, coarse, self.at, self.at + _HOUR * hours)


_FULL: Final = _Bucket()


class PredictionBudget:
    """Token buckets of the prediction budget, by key (user or namespace). Thread-safe.

    Above the maximum number of buckets, the buckets that recover first are removed.
    """

    def __init__(self, clock: Callable[[], float], remembered: int = REMEMBERED) -> None:
        self._clock, self._remembered = clock, remembered
        self._buckets: dict[str, _Bucket] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def level(self, wanted: Mapping[str, Budget]) -> Level:
        """Return the level that all of these buckets allow. `wanted`: bucket key -> its budget."""
        with self._lock:
            return self._level(self._now(wanted), wanted)

    def take(self, wanted: Mapping[str, Budget]) -> Level:
        """Take one prediction from each of these buckets, and return the level that all of them allow.

        `wanted`: bucket key -> its budget.
        """
        with self._lock:
            buckets = self._now(wanted)
            level = self._level(buckets, wanted)
            if level is not Level.NOTHING:
                self._buckets |= {key: buckets[key].after_call(level, budget) for key, budget in wanted.items()}
                if len(self._buckets) > self._remembered:
                    self._forget()
        return level

    def _now(self, wanted: Mapping[str, Budget]) -> dict[str, _Bucket]:
        now = self._clock()
        return {key: self._buckets.get(key, _FULL).recovered(budget, now) for key, budget in wanted.items()}

    @staticmethod
    def _level(buckets: Mapping[str, _Bucket], wanted: Mapping[str, Budget]) -> Level:
        return max(buckets[key].level(budget) for key, budget in wanted.items())

    def _forget(self) -> None:
        buckets = self._buckets
        for key in nsmallest(max(self._remembered // 8, 1), buckets, key=lambda key: buckets[key].full_at):
            del buckets[key]
