"""Functions that return the scheduler's Snapshot after Pods were created or deleted."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from forewarn.policies.forecast.bounds import MAX_PLACED, too_many_pods
from forewarn.policies.metering import each, meter
from forewarn.policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.controllers.pod_sequences import DaemonPods
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot


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
