"""The queue in which kube-scheduler puts a rejected Pod or PodGroup after an event."""

from __future__ import annotations

from enum import IntEnum


class Strategy(IntEnum):
    """The next queue of a rejected Pod after an event. Source: upstream `queueingStrategy`."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2
