"""The Pods of each PodGroup in the simulated scheduler's cache.

Source: kubernetes `pkg/scheduler/backend/cache/podgroupstate.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.pod import Pod

Key = tuple[str, str]
"""(namespace, name) of a PodGroup."""


class PodGroupStates:
    """The Pods of each PodGroup: all Pods, and those that are bound or assumed. Includes terminating Pods."""

    def __init__(self) -> None:
        self._all: dict[Key, dict[str, Pod]] = {}
        self._scheduled: dict[Key, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> None:
        """Add a Pod, change a Pod, or assume a Pod on its node."""
        if not pod.spec.pod_group:
            return
        key = _key(pod)
        self._all.setdefault(key, {})[pod.uid] = pod
        if pod.node_name:
            self._scheduled.setdefault(key, {})[pod.uid] = pod
        else:
            _discard(self._scheduled, pod)

    def remove(self, pod: Pod) -> None:
        """Remove a Pod."""
        if pod.spec.pod_group:
            _discard(self._all, pod)
            _discard(self._scheduled, pod)

    def count(self, key: Key) -> int:
        """Return the number of Pods of a PodGroup. Source: upstream `AllPodsCount`."""
        return len(self._all.get(key, ()))

    def scheduled(self, key: Key) -> Sequence[Pod]:
        """Return the Pods of a PodGroup that are bound or assumed."""
        return list(self._scheduled.get(key, {}).values())


def _key(pod: Pod) -> Key:
    return pod.namespace, pod.spec.pod_group


def _discard(table: dict[Key, dict[str, Pod]], pod: Pod) -> None:
    pods = table.get(_key(pod))
    if pods is not None:
        pods.pop(pod.uid, None)
        if not pods:
            del table[_key(pod)]
