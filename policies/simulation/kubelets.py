"""The simulated kubelets: they remove deleted Pods when the Pods have terminated."""

from __future__ import annotations

from functools import partial
from math import floor
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.controllers.view import controller_of
from forewarn.policies.copies import replace
from forewarn.policies.kinds.registry import JOB
from forewarn.policies.simulation.controller_queue import PodFinished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.controllers.view import PodState
    from forewarn.policies.simulation.api_server import ApiServer
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.controller_view import ControllerView
    from forewarn.policies.simulation.latencies import Latencies


TERMINATION_SECONDS: Final = "terminationSeconds"
"""Annotation of a Pod template in a simulation: seconds until a Pod has terminated, if less than its grace period."""


def termination_seconds(state: PodState) -> float:
    """Return the seconds from the deletion of a Pod until it has terminated: the grace period, or less by
    TERMINATION_SECONDS.
    """
    grace = float(state.pod.spec.termination_grace_period)
    template: Mapping[str, Any] = state.template or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        seconds = float(annotations[TERMINATION_SECONDS])
    except (KeyError, TypeError, ValueError):
        return grace
    return seconds if 0 <= seconds < grace else grace  # who writes `nan` or less than nothing has said nothing


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(
        self,
        clock: Clock,
        api: ApiServer,
        view: ControllerView,
        latencies: Latencies,
        due: Callable[[PodFinished], None] | None,
    ) -> None:
        """`due`: in recorded scenarios, called when a Pod has terminated; the callee then calls `pod_terminated`."""
        self._clock, self._api, self._view, self._latencies, self._due = clock, api, view, latencies, due
        self.terminations: dict[str, float] = {}
        """uid of a deleted Pod -> time in simulated seconds at which it has terminated."""

    def pod_deleted(self, state: PodState) -> None:
        """Schedule the removal of a Pod for the time when it has terminated. The kubelet notices the deletion now."""
        uid, key = state.pod.uid, (state.pod.namespace, state.pod.name)
        ends = self._clock.now + termination_seconds(state)
        self.terminations[uid] = ends
        if self._due is not None:
            self._clock.at(ends, partial(self._due, PodFinished(key, uid)))
        else:
            seconds = self._latencies.write("kubelet", state.pod.key)
            self._clock.at(ends + seconds, partial(self.pod_terminated, key, uid))

    def pod_terminated(self, key: tuple[str, str], uid: str) -> None:
        """Remove a Pod from the stored objects."""
        self.terminations.pop(uid, None)
        self._api.remove_pod(key, uid)

    def pod_removed(self, state: PodState) -> None:
        """Store a removed Pod for its Job, with the time at which its kubelet reported the termination. Source:
        pkg/controller/job `getFinishedTime`.
        """
        owner = controller_of(state.pod)
        if owner is not None and owner[0] == JOB and owner in self._api.workloads:
            ended = float(floor(self._api.seconds)) if self._due is None else state.finished
            self._view.keep(owner, replace(state, removed=True, finished=ended))
