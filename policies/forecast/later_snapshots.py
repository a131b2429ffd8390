"""The scheduler's Snapshot after Pods were created or deleted, and the order in which DaemonSets create Pods."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.forecast.bounds import MAX_PLACED, too_many_pods
from forewarn.policies.metering import each, meter
from forewarn.policies.scheduling.bulk import on_each_node
from forewarn.policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.controllers.pod_sequences import DaemonPods
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot


class NodeOrder(NamedTuple):
    """The nodes of new Pods by outcome: `preempting` other Pods, staying `pending`, or `fitting`.

    The controller of a DaemonSet visits nodes in a random order: upstream iterates over a Go map. The order matters if
    a quota admits only some Pods, if Pending Pods stop a rollout, or if victims' replacements use the capacity of old
    Pods. Predictions then assume an order with many preemptions.
    """

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


BINDING: Final = 12
"""Units of work to create a Pod and bind it."""


def with_all(snapshot: Snapshot, pods: Sequence[Pod]) -> Snapshot:
    """Return the Snapshot after scheduling these Pods one after the other. Raises TooLarge above MAX_PLACED Pods."""
    if len(pods) > MAX_PLACED:
        raise too_many_pods(MAX_PLACED)
    for pod in pods:
        snapshot = Prediction(snapshot, pod).snapshot_after()
    return snapshot


def filled(snapshot: Snapshot, pods: Sequence[Pod], by_node: Mapping[str, int]) -> Snapshot:
    """Return the Snapshot with the Pods bound: `by_node[name]` Pods on each node. The numbers must match."""
    places = chain.from_iterable(repeat(node, count) for node, count in by_node.items())
    bound, work = [], meter()
    for pod, node in zip(pods, places, strict=True):
        work.charge(BINDING)
        bound.append(snapshot.bound(pod, node))
    return snapshot.with_pods(bound, ())


def with_daemons(
    snapshot: Snapshot, pods: DaemonPods, nodes: Sequence[str], predictions: Sequence[Prediction]
) -> Snapshot:
    """Return the Snapshot with the Pods of a DaemonSet: bound on `nodes`, and nominated with their victims for
    `predictions`.
    """
    pushing = [p for p in predictions if p.outcome == "preempts"]
    placed = snapshot.with_pods([snapshot.bound(pods.named_for(node), node) for node in each(nodes, 2 * BINDING)], ())
    return placed.with_preemptions([(p.pod, p.node, p.victims) for p in each(pushing, BINDING)])


def without(snapshot: Snapshot, deleted: Sequence[Pod]) -> Snapshot:
    """Return the Snapshot without these Pods, found by identity and node."""
    remaining: list[Pod] = []
    for name in {pod.node_name for pod in deleted}:
        info = snapshot.get(name)
        identities = {pod.identity for pod in deleted if pod.node_name == name}
        remaining += [pod for pod in info.pods if pod.identity in identities] if info is not None else []
    return snapshot.with_pods((), remaining)
