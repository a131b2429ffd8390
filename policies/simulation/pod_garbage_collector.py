"""Pod garbage collection: rounds that delete the Pods on nodes that do not exist.

Source: kubernetes `pkg/controller/podgc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.pod_gc import CHECK_PERIOD, collect

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from forewarn.policies.simulation.controller_writes import ControllerWrites

FIRST_COLLECTION: Final = 5.7
"""Seconds until the first garbage collection of Pods."""


class PodGarbageCollector:
    """Runs rounds of Pod garbage collection after a node was removed, until no Pod is on a node that does not exist."""

    def __init__(self, writes: ControllerWrites, due: Callable[[], None]) -> None:
        """`due`: called at the time of the next round. The callee then has to run `collect`."""
        self._writes, self._due = writes, due
        self._quarantine: Mapping[str, float] = {}
        self._runs = False
        self._collected_for = 0.0
        """Seconds that all rounds have taken so far: each begins a period after the end of the previous round."""

    def node_removed(self) -> None:
        """Start the rounds of garbage collection, unless they are running."""
        if not self._runs:
            self._runs = True
            self._arrange()

    def _arrange(self) -> None:
        clock, first = self._writes.clock, FIRST_COLLECTION + self._collected_for
        rounds = max(-(-(clock.now - first) // CHECK_PERIOD), 0)
        time = first + CHECK_PERIOD * rounds
        clock.at(time if time > clock.now else time + CHECK_PERIOD, self._due)

    def collect(self) -> Generator[float | None, None, None]:
        """Run one round of garbage collection, and schedule the next round if needed."""
        api, clock, grows_only = self._writes.api, self._writes.clock, self._writes.grows_only
        pods, begun = api.strays(), clock.now
        deletes, self._quarantine = collect(pods, api.nodes, self._quarantine, api.seconds)
        for action in sorted(deletes, key=lambda action: self._writes.view.lot(action.name)):
            if not grows_only:  # its phase comes first. Source: `markFailedAndDeletePod`
                yield self._writes.latencies.write("patch", f"{action.namespace}/{action.name}")
            pod = api.pod(action.namespace, action.name)
            bound = pod is not None and bool(pod.node_name)
            reason = "pod garbage collector"
            yield from self._writes.delete(action.namespace, action.name, force=True, message=reason, disrupted=bound)
        if not grows_only:  # Source: `wait.UntilWithContext`, which waits when it is through
            self._collected_for += clock.now - begun
        if self._quarantine or any(state.pod.node_name for state in pods):
            self._arrange()
        else:
            self._runs = False
