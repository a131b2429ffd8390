"""The nominations of Pending Pods in kube-scheduler's memory. The API server stores nominations later.

Source: kubernetes `pkg/scheduler/backend/queue/nominator.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.copies import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.pod import Pod


class Nominator:
    """The nominations in kube-scheduler's memory, by Pod and by node."""

    def __init__(
        self, lister: Callable[[str, str], Pod | None], nominate: Callable[[Pod | None, Pod | None], None]
    ) -> None:
        """Start without nominations. `lister`: (namespace, name) -> the Pod in the API server, or None.

        `nominate`: called for each change with the Pod before and after the change; None means no nomination.
        """
        self._lister, self._nominate = lister, nominate
        self._by_pod: dict[str, Pod] = {}
        """Identity -> Pod with its nomination, or with an empty one that is cleared but not stored yet."""
        self._by_node: dict[str, dict[str, Pod]] = {}

    def add(self, pod: Pod, node: str | None = None) -> None:
        """Nominate a Pod to a node; None: to the node in the Pod's status, if any.

        A Pod that is bound or deleted in the API server loses its nomination.
        """
        if node is None:
            node = pod.nominated_node_name or None
        stored = None if node is None else self._lister(pod.namespace, pod.name)
        if node is None or stored is None or stored.node_name:
            self.delete(pod)
            return
        new = pod if pod.nominated_node_name == node else replace(pod, nominated_node_name=node)
        nomination = self._by_pod.get(pod.identity)
        if nomination is new or nomination == new:
            self._move_to_the_end(new)
            return
        self.delete(pod)
        self._keep(new)

    def _move_to_the_end(self, pod: Pod) -> None:
        """Move an unchanged nomination to the end of its node's nominations. Does not call `nominate`."""
        pods = self._by_node.get(pod.nominated_node_name)
        if pods is not None:
            pods[pod.identity] = pods.pop(pod.identity)

    def _keep(self, pod: Pod) -> None:
        self._by_pod[pod.identity] = pod
        if pod.nominated_node_name:
            self._by_node.setdefault(pod.nominated_node_name, {})[pod.identity] = pod
            self._nominate(None, pod)

    def update(self, old: Pod, new: Pod) -> None:
        """Update the nomination of a changed Pod. A nomination that the API server has not stored yet remains."""
        node = None
        if not old.nominated_node_name and not new.nominated_node_name and old.identity in self._by_pod:
            node = self._by_pod[old.identity].nominated_node_name
        if old.identity != new.identity:
            self.delete(old)
        self.add(new, node)

    def delete(self, pod: Pod) -> None:
        """Remove the nomination of a Pod, if any."""
        nomination = self._by_pod.pop(pod.identity, None)
        if nomination is None or not nomination.nominated_node_name:
            return
        pods = self._by_node[nomination.nominated_node_name]
        del pods[nomination.identity]
        if not pods:
            del self._by_node[nomination.nominated_node_name]
        self._nominate(nomination, None)

    def pods_for_node(self, node: str) -> list[Pod]:
        return list(self._by_node.get(node, {}).values())
