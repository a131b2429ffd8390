"""Values that snapshots of the same nodes share."""

from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

from forewarn.policies.metering import holding_lock

if TYPE_CHECKING:
    from collections.abc import Iterator


class DerivedTables:
    """Values derived from one set of nodes, shared by snapshots of the same nodes.

    Hold `lock` to read a value, and update it first: another snapshot may have changed it.
    """

    __slots__ = ("lock", "matrix", "recurring")

    def __init__(self) -> None:
        self.lock = RLock()
        self.matrix: Any = None
        self.recurring: Any = None
        """The repeated cycles that simulations of these nodes share (recurring_cycle.py)."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock as a context manager, and report to the metering that other threads wait."""
        with self.lock, holding_lock():
            yield
