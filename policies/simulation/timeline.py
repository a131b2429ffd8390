"""The events of a simulation in order. Summaries and recorded answers consist of these events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.controllers.recreated import Recreator
from forewarn.policies.documents import to_dict

if TYPE_CHECKING:
    from forewarn.policies.controllers.view import Key
    from forewarn.policies.documents import Hidden
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.simulation.clock import Clock


class Origin(NamedTuple):
    """The origin of a Pod: its workload and what recreates it. Available after the removal of the Pod, too.

    `group`: the top workload of the Pod, or the Pod itself, as `namespace/name`. `again`: what recreates the Pod.
    `before`: whether the Pod existed at time 0. `grace`: termination grace period in seconds. `kind`: of the top
    workload, "" for a Pod without a controller; workloads of several kinds may have the same name.
    """

    group: str
    namespace: str
    priority: int
    priority_class: str
    again: Recreator
    before: bool
    grace: int
    kind: str = ""

    @property
    def controlled(self) -> bool:
        return self.again is Recreator.CONTROLLER

    @property
    def workload(self) -> tuple[str, str]:
        """The Pod's top workload: (kind, `namespace/name`)."""
        return self.kind, self.group


BY_WORKLOAD: Final = "by its workload"


class Event(NamedTuple):
    """An event `t` seconds after the start.

    `origin`, `by_origin`: of the Pods `pod` and `by`; None without such a Pod. `change`: of an updated node, for
    example "cordoned"; BY_WORKLOAD for a Pod that its own workload deletes; otherwise ""; not part of recorded answers.
    `group`: a PodGroup; `status`, `reason`: of its condition.
    """

    t: float
    event: str
    pod: str = ""
    node: str = ""
    by: str = ""
    message: str = ""
    origin: Hidden[Origin | None] = None
    by_origin: Hidden[Origin | None] = None
    change: Hidden[str] = ""
    group: str = ""
    status: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The event in the format of recorded answers."""
        return to_dict(self)


class Timeline:
    """The events of a simulation in order. `last`: time of the last event other than a failed scheduling attempt."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events: list[Event] = []
        self.last = 0.0
        self.origins: dict[str, Origin] = {}
        """`namespace/name` of a Pod -> its origin; of removed Pods, the last one with this name."""

    def add(
        self,
        event: str,
        pod: str = "",
        node: str = "",
        *,
        by: str = "",
        message: str = "",
        change: str = "",
        group: str = "",
        condition: tuple[str, str] = ("", ""),
    ) -> None:
        """Add an event at the current time. `condition`: (status, reason) of a PodGroup."""
        origins = self.origins.get(pod), self.origins.get(by)
        self.events.append(Event(self._clock.now, event, pod, node, by, message, *origins, change, group, *condition))
        if event not in ("unschedulable", "groupCondition"):
            self.last = self._clock.now


def origin_of(pod: Pod, top: Key | None, recreator: Recreator, *, before: bool) -> Origin:
    """Return the origin of a new Pod."""
    kind, name = ("", pod.key) if top is None else (top[0], "/".join(top[1:]))
    if recreator is Recreator.KUBELET:
        name = pod.key
    grace = pod.spec.termination_grace_period
    return Origin(name, pod.namespace, pod.effective_priority, pod.priority_class_name, recreator, before, grace, kind)


def node_change(old: Node, new: Node) -> str:
    """Return the change of a node in kubectl's words; "" if neither cordon nor taints changed."""
    if old.unschedulable != new.unschedulable:
        return "cordoned" if new.unschedulable else "uncordoned"
    if set(new.taints) - set(old.taints):
        return "tainted"
    return "untainted" if set(old.taints) - set(new.taints) else ""
