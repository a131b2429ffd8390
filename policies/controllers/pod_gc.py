"""The collector of pods whose node is gone. Source: pkg/controller/podgc/gc_controller.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.controllers.actions import DeletePod

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from policies.controllers.view import PodState

CHECK_PERIOD: Final = 20.0
"""Seconds between two rounds."""
QUARANTINE: Final = 40.0
"""Seconds that a node must be missing."""
_SAME_TIME: Final = 1e-5
"""Seconds within which two times are one: of a calendar's times the last digits are lost."""


def collect(
    pods: Iterable[PodState], nodes: Container[str], quarantine: Mapping[str, float], now: float
) -> tuple[list[DeletePod], Mapping[str, float]]:
    """One round: (the pods that are removed by force, the quarantine for the next round).

    `pods`: all that there are, in order of creation, or those of them without a node or on one that is not there.
    `quarantine`: missing node -> when it may be taken for gone: the round must come later than that, so that it is the
    third one after the one that first missed the node, or the second where a round between them took its time.
    Source: `gcOrphaned`, `discoverDeletedNodes`, `gcUnscheduledTerminating`.
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
