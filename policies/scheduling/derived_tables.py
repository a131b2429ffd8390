"""Values that Snapshots with the same nodes share, such as the arrays of the numpy implementation."""

from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

from forewarn.policies.metering import holding_lock, limited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class DerivedTables:
    """Values derived from one set of nodes, shared by Snapshots of these nodes.

    Hold `lock` to read a value, and update the value first: another Snapshot may have changed it.
    """

    __slots__ = ("lock", "matrix", "recurring")

    def __init__(self) -> None:
        self.lock = RLock()
        self.matrix: Any = None
        self.recurring: Any = None
        """The repeated cycles that simulations of these nodes share (recurring_cycle.py)."""

    def locked(self) -> AbstractContextManager[object]:
        """Hold the lock as a context manager, and report to a meter with limits that other threads wait."""
        return self._reported() if limited() else self.lock

    @contextmanager
    def _reported(self) -> Iterator[None]:
        with self.lock, holding_lock():
            yield
