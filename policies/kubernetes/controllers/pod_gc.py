"""Garbage collection of Pods on nodes that no longer exist. Source: pkg/controller/podgc/gc_controller.go."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from forewarn.policies.kubernetes.controllers.view import DeletePod, PodState

CHECK_PERIOD: Final = 20.0
"""Seconds between two rounds of garbage collection."""
QUARANTINE: Final = 40.0
"""Seconds for which a node must be missing before its Pods are deleted."""
_SAME_TIME: Final = 1e-5
"""Seconds within which two times are equal, because floats since 1970 are not more exact."""


def collect(
    pods: Iterable[PodState], nodes: Container[str], quarantine: Mapping[str, float], now: float
) -> tuple[list[DeletePod], Mapping[str, float]]:
    """Return the Pods that one round deletes by force, and the quarantine for the next round.

    `pods`: all Pods in order of creation, or only the Pods without an existing node. `nodes`: names of the existing
    nodes. `quarantine`: missing node -> the time after which the node counts as deleted. So the deletion happens in the
    third round after the round that first missed the node, or in the second if a round was slow. Source: `gcOrphaned`,
    `discoverDeletedNodes`, `gcUnscheduledTerminating`.
    """
    every = list(pods)
    missing = {name for pod in every if (name := pod.pod.node_name) and name not in nodes}
    due = {**dict.fromkeys(sorted(missing), now + QUARANTINE), **quarantine}
    ripe = frozenset(name for name, at in due.items() if at + _SAME_TIME < now)
    lost = {name for name in ripe if name not in nodes}
    doomed = [pod for pod in every if pod.pod.node_name in lost]
    doomed += [pod for pod in every if pod.terminating and not pod.pod.node_name]
    deletes = [DeletePod(pod.pod.namespace, pod.pod.name, force=True) for pod in doomed]
    return deletes, {name: at for name, at in due.items() if name not in ripe}
