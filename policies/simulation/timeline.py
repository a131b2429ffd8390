"""What has happened, in order: the recordings' format, and what a summary is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from policies.simulation.clock import Clock


class Event(NamedTuple):
    """Something that happened at `t` seconds."""

    t: float
    event: str
    pod: str = ""
    node: str = ""
    by: str = ""
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As recordings have it: seconds to a tenth of a millisecond, and no empty fields."""
        rest = {key: value for key, value in self._asdict().items() if value and key != "t"}
        return {"t": round(self.t, 4), **rest}


class Timeline:
    """Events in order. `last`: when something other than a failed attempt happened last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events: list[Event] = []
        self.last = 0.0

    def add(self, event: str, pod: str = "", node: str = "", *, by: str = "", message: str = "") -> None:
        """Something happens now."""
        self.events.append(Event(self._clock.now, event, pod, node, by, message))
        if event != "unschedulable":
            self.last = self._clock.now
