"""Controllers that are known by name alone: they create each Pod again that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.copies import replace
from forewarn.policies.simulation.api_server import controller_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.simulation.api_server import ApiServer, Change
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies


class Recreation:
    """Watches Pods. `kinds`: the `group/Kind` of controllers that create the same Pod again, under its name."""

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies, kinds: Collection[str]) -> None:
        self._clock, self._api, self._latencies, self._kinds = clock, api, latencies, kinds

    def start(self) -> None:
        """From now on."""
        self._api.watchers.append(self.handle)

    def handle(self, change: Change) -> None:
        """Something was stored."""
        if change.kind != "Pod" or change.new is not None or change.old.pod.terminal:
            return
        controller = controller_of(change.old.pod)
        if controller is not None and controller[0] in self._kinds and controller not in self._api.workloads:
            self._clock.spawn(self._create(change.old.pod))

    def _create(self, gone: Pod) -> Generator[float | None, None, None]:
        yield self._latencies.write("create", gone.key)
        pod = replace(gone, node_name="", nominated_node_name="", start_time=None, phase="Pending")
        self._api.create_pod(replace(pod, uid="", terminating=False, preempted=False), None)
