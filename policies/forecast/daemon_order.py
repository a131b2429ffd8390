"""The order in which the controller of a DaemonSet visits nodes, which is random: upstream iterates over a Go map.

The order matters if a quota admits only some Pods, if Pending Pods stop a rollout, or if victims' replacements use the
capacity of old Pods. Predictions then assume an order with many preemptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.scheduling.bulk import on_each_node

if TYPE_CHECKING:
    from forewarn.policies.controllers.pod_sequences import DaemonPods
    from forewarn.policies.scheduling.snapshot import Snapshot


class NodeOrder(NamedTuple):
    """The nodes of new Pods by outcome: `preempting` other Pods, staying `pending`, or `fitting`."""

    preempting: tuple[str, ...]
    pending: tuple[str, ...]
    fitting: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, those with the worst outcome first."""
        return self.preempting + self.pending + self.fitting

    def counts_by_chance(self, created: int) -> bool:
        """Report whether chance decides how many of `created` Pods, on any of the nodes, preempt or stay Pending."""
        every = len(self.nodes)
        return 0 < created < every and every not in map(len, self)


def order_of(snapshot: Snapshot, pods: DaemonPods) -> NodeOrder | None:
    """Return the order of the nodes of these Pods; None if their outcomes depend on each other. Raises CutShort."""
    on_each = on_each_node(snapshot, pods.anywhere, pods.nodes)
    if on_each is None:
        return None
    others = list(on_each.others)
    return NodeOrder(
        tuple(node for node, candidate in others if candidate is not None),
        tuple(node for node, candidate in others if candidate is None),
        tuple(node for node in pods.nodes if node in on_each.fits),
    )
