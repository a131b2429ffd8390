"""PodGroups in the simulated API server, and the finalizer because of which a PodGroup exists while Pods refer to it.

Source: kubernetes `pkg/controller/scheduling/podgroupprotection`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.controllers.recreated import Recreator
from forewarn.policies.simulation.timeline import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.timeline import Timeline

_PROTECTION: float = 1e-3
"""Seconds of the controller's write."""


def name_of_group(group: PodGroup) -> str:
    """Return the name of a PodGroup in the timeline, which differs from the names of all Pods."""
    return f"PodGroup:{group.key}"


class Condition(NamedTuple):
    """The condition PodGroupInitiallyScheduled of a PodGroup."""

    status: str = ""
    reason: str = ""
    message: str = ""


class StoredPodGroups:
    """All PodGroups. `notify`: called for each change with the PodGroup before and after; None if it does not exist."""

    def __init__(
        self, clock: Clock, timeline: Timeline, pods: Callable[[], Iterable[Pod]], notify: Callable[[Any, Any], None]
    ) -> None:
        """`pods`: returns all stored Pods."""
        self._clock, self._timeline, self._pods, self._notify = clock, timeline, pods, notify
        self._groups: dict[tuple[str, str], PodGroup] = {}
        self._conditions: dict[tuple[str, str], Condition] = {}
        self._deleting: set[tuple[str, str]] = set()
        self._uids = count(1)

    def __iter__(self) -> Iterator[PodGroup]:
        return iter(self._groups.values())

    def get(self, key: tuple[str, str]) -> PodGroup | None:
        """Return the PodGroup with this (namespace, name), or None."""
        return self._groups.get(key)

    def condition(self, group: PodGroup) -> Condition:
        """Return the stored condition of a PodGroup."""
        scheduled = Condition("True", "Scheduled") if group.initially_scheduled else Condition()
        return self._conditions.get((group.namespace, group.name), scheduled)

    def put(self, group: PodGroup) -> None:
        """Create or change a PodGroup."""
        key = group.namespace, group.name
        old = self._groups.get(key)
        uid = group.uid or f"group-{next(self._uids)}"
        new = group._replace(uid=uid if old is None else old.uid)
        self._groups[key] = new
        self._timeline.add("groupCreated" if old is None else "groupUpdated", group=group.key)
        shown, classes = f"PodGroup {group.key}", group.class_names
        self._timeline.origins[name_of_group(group)] = Origin(
            shown,
            group.namespace,
            group.priority,
            classes[0] if classes else "",
            Recreator.UNKNOWN,
            self._clock.now < 0,
            0,
        )
        self._notify(old, new)

    def delete(self, key: tuple[str, str]) -> None:
        """Delete a PodGroup. The PodGroup remains while Pods that have not terminated refer to it."""
        group = self._groups.get(key)
        if group is not None and key not in self._deleting:
            self._deleting.add(key)
            self._timeline.add("groupDeleted", group=group.key)
            self._release(key)

    def pod_deleted(self, pod: Pod) -> None:
        """Remove the PodGroup of a removed Pod, if the PodGroup is being deleted and no other Pod uses it."""
        key = pod.namespace, pod.spec.pod_group
        if key in self._deleting:
            self._release(key)

    def _release(self, key: tuple[str, str]) -> None:
        self._clock.at(self._clock.now + _PROTECTION, lambda: self._remove(key))

    def _remove(self, key: tuple[str, str]) -> None:
        group = self._groups.get(key)
        if group is None or key not in self._deleting or self._is_in_use(key):
            return
        self._deleting.discard(key)
        self._conditions.pop(key, None)
        del self._groups[key]
        self._timeline.add("groupGone", group=group.key)
        self._notify(group, None)

    def _is_in_use(self, key: tuple[str, str]) -> bool:
        return any((pod.namespace, pod.spec.pod_group) == key and not pod.terminal for pod in self._pods())

    def set_condition(self, key: tuple[str, str], condition: Condition) -> None:
        """Set the condition of a PodGroup, as kube-scheduler does."""
        group = self._groups.get(key)
        if group is not None:
            self._conditions[key] = condition
            self._timeline.add("groupCondition", message=condition.message, group=group.key, condition=condition[:2])
            self._notify(group, group)
