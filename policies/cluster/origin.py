"""Where a cluster state comes from, and its time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from forewarn.policies.documents import Always, Hidden, in_json

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The format of times in UTC, as in metav1.Time."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a cluster state.

    `cluster`: kubeconfig context or files of the cluster; empty without a cluster. `time`: time of the cluster state;
    empty if unknown. `is_read`: whether the state was read at `time`.
    """

    cluster: Always[str] = ""
    time: Always[str] = ""
    is_read: Hidden[bool] = False

    @in_json
    def time_of(self) -> Literal["read", "newest object", ""]:
        """`read`: forewarn read the state at `time`; `newest object`: `time` is the newest timestamp in the state."""
        return "read" if self.is_read else "newest object" if self.time else ""


def age_of(origin: Origin, now: datetime) -> float | None:
    """The age of a cluster state in seconds; None if its time is unknown."""
    if not origin.time:
        return None
    return (now - datetime.strptime(origin.time, TIME).replace(tzinfo=UTC)).total_seconds()
