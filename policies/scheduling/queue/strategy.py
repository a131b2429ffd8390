"""Decide in which queue kube-scheduler puts a rejected Pod or PodGroup after an event."""

from __future__ import annotations

from enum import IntEnum


class Strategy(IntEnum):
    """Where to put a rejected Pod or PodGroup after an event: unschedulable (SKIP), backoffQ, or activeQ (IMMEDIATELY).

    Source: upstream `queueingStrategy`.
    """

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2
