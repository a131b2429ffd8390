"""Where a cluster state comes from, and its time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The format of times in UTC, as in metav1.Time."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a cluster state. `cluster`: kubeconfig contexts or files. `time`: in RFC 3339; "" if unknown.
    `is_read`: whether the state was read at `time`; otherwise, `time` is the newest timestamp in its objects.
    """

    cluster: str = ""
    time: str = ""
    is_read: bool = False


def age_of(origin: Origin, now: datetime) -> float | None:
    """The age of a cluster state in seconds; None if its time is unknown."""
    if not origin.time:
        return None
    return (now - datetime.strptime(origin.time, TIME).replace(tzinfo=UTC)).total_seconds()
