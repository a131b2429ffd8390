"""Controllers that forewarn does not simulate, but that recreate removed Pods, by data about kinds or by the
configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.controllers.recreated import Recreator, again, has_lost_owner
from forewarn.policies.controllers.view import controller_of
from forewarn.policies.copies import replace

if TYPE_CHECKING:
    from collections.abc import Generator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.simulation.api_server import ApiServer, Change
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies


class Recreation:
    """Watches Pods, and recreates removed ones with the same name for controllers that are not simulated."""

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies) -> None:
        self._clock, self._api, self._latencies = clock, api, latencies

    def start(self) -> None:
        """Watch Pods from now on."""
        self._api.watchers.append(self.handle)

    def handle(self, change: Change) -> None:
        """Recreate a removed Pod if its controller is not simulated but known to recreate its Pods (see
        `ApiServer.recreated`).
        """
        if change.kind != "Pod" or change.new is not None or change.old.pod.terminal:
            return
        pod: Pod = change.old.pod
        if pod.owner is None or controller_of(pod) in self._api.workloads:
            return
        if again(pod, self._api.recreated, is_there=False) is Recreator.CONTROLLER and not has_lost_owner(
            pod, self._runs
        ):
            self._clock.spawn(self._create(pod))

    def _runs(self, namespace: str, name: str) -> bool:
        found = self._api.pods.get((namespace, name))
        return found is not None and not found.terminating and not found.pod.terminal

    def _create(self, deleted: Pod) -> Generator[float | None, None, None]:
        yield self._latencies.write("create", deleted.key)
        pod = replace(deleted, node_name="", nominated_node_name="", start_time=None, phase="Pending")
        self._api.create_pod(replace(pod, uid="", terminating=False, preempted=False), None)
