"""What has happened, in order: the recordings' format, and what a summary is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.controllers.recreated import Again

if TYPE_CHECKING:
    from policies.simulation.clock import Clock


class Origin(NamedTuple):
    """Whose a pod is, by whatever is told of it after it is gone. `group`: its top workload, or itself, as
    `namespace/name`; `again`: what creates it again; `before`: it was there at time 0; `grace`: seconds. `kind`: that
    workload's, empty of a pod that stands alone: workloads of several kinds may have one name."""

    group: str
    namespace: str
    priority: int
    priority_class: str
    again: Again
    before: bool
    grace: int
    kind: str = ""

    @property
    def controlled(self) -> bool:
        """Whether its controller creates it again."""
        return self.again is Again.CONTROLLER

    @property
    def workload(self) -> tuple[str, str]:
        """Its top workload: (kind, `namespace/name`)."""
        return self.kind, self.group


class Event(NamedTuple):
    """Something that happened at `t` seconds. `origin`: of `pod`, `by_origin`: of `by`, None where there is none.
    `change`: of a node that is updated: cordoned and the like, empty where it is something else. Not recorded.
    """

    t: float
    event: str
    pod: str = ""
    node: str = ""
    by: str = ""
    message: str = ""
    origin: Origin | None = None
    by_origin: Origin | None = None
    change: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As recordings have it: seconds to a tenth of a millisecond, and no empty fields."""
        rest = {key: value for key, value in self._asdict().items() if value and key in _WRITTEN}
        return {"t": round(self.t, 4), **rest}


_WRITTEN: Final = frozenset(("event", "pod", "node", "by", "message"))


class Timeline:
    """Events in order. `last`: when something other than a failed attempt happened last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events: list[Event] = []
        self.last = 0.0
        self.origins: dict[str, Origin] = {}
        """Of the pods that there are, and of the last of each name that was."""

    def add(
        self, event: str, pod: str = "", node: str = "", *, by: str = "", message: str = "", change: str = ""
    ) -> None:
        """Something happens now."""
        origins = self.origins.get(pod), self.origins.get(by)
        self.events.append(Event(self._clock.now, event, pod, node, by, message, *origins, change))
        if event != "unschedulable":
            self.last = self._clock.now
