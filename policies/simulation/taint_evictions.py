"""Pods that leave their node for its NoExecute taints, at once or when they have tolerated them for long enough.

Source: kubernetes `pkg/controller/tainteviction`; plugin DefaultTolerationSeconds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from policies.controllers.taint_eviction import Eviction, evict, evict_scheduled
from policies.objects.taints import NO_EXECUTE, Toleration, tolerations_tolerate_taint

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from policies.controllers.view import PodState
    from policies.objects.taints import Taint
    from policies.simulation.api_server import ApiServer, Change, PodKey
    from policies.simulation.clock import Clock
    from policies.simulation.latencies import Latencies

DEFAULT_SECONDS: Final = 300
"""For how long admission has every pod tolerate a node that does not answer."""
NODE_FAILURES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_A_MOMENT: Final = 1e-6
"""Seconds: times since 1970 are no more exact than that."""
RETRIES: Final = 5
"""How often an eviction is tried."""
BETWEEN_RETRIES: Final = 0.01
"""Seconds."""


class TaintEvictions:
    """Watches nodes and the pods that are bound to them."""

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies) -> None:
        self._clock, self._api, self._latencies = clock, api, latencies
        self._scheduled: dict[str, Mapping[str, Eviction]] = {}
        self._evicted: set[str] = set()
        """The uids of pods that are evicted, or were."""

    def start(self) -> None:
        """Look at every node, and from now on at what changes."""
        self._api.watchers.append(self.handle)
        for name in list(self._api.nodes):
            self._look(name)

    def handle(self, change: Change) -> None:
        """Something was stored."""
        if change.kind == "Node":
            self._look((change.new or change.old).name)
        elif change.kind == "Pod" and change.new is not None:
            node = change.new.pod.node_name
            if node and not (change.old is not None and change.old.pod.node_name):
                self._look(node)

    def _look(self, name: str) -> None:
        node, scheduled = self._api.nodes.get(name), self._scheduled.pop(name, {})
        taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE] if node else []
        if not taints and (node is not None or not scheduled):
            return
        now, here = self._api.seconds, self._api.by_node.get(name, {}).values()
        pods = [state for state in here if state.pod.uid not in self._evicted]
        deletes, left = (
            evict(taints, [with_default_seconds(state, taints) for state in pods], scheduled, now)
            if taints
            else evict_scheduled(pods, scheduled, now)
        )
        for action in deletes:
            key = action.namespace, action.name
            self._evicted.add(self._api.pods[key].pod.uid)
            self._clock.spawn(self._delete(key, name))
        if left:
            self._scheduled[name] = left
            due = min(eviction.due for eviction in left.values())
            self._clock.at(due - self._api.epoch + _A_MOMENT, partial(self._look, name))

    def _delete(self, key: PodKey, node: str) -> Generator[float | None, None, None]:
        """Say why, then DELETE; by name, so it may be a successor of that name. Source: upstream `deletePodHandler`,
        `addConditionAndDeletePod`."""
        name = "/".join(key)
        for _ in range(RETRIES):
            state = self._api.pods.get(key)
            if state is not None:
                yield self._latencies.write("patch", name)
                if self._api.disrupt(key, state.pod.uid):
                    yield self._latencies.write("delete", name)
                    if self._api.delete_pod(key, "deleted", message=f"taint of {node}"):
                        return
            yield BETWEEN_RETRIES


def with_default_seconds(state: PodState, taints: Iterable[Taint]) -> PodState:
    """The pod with the tolerations that admission adds where it has none for a node's failure."""
    own = state.pod.spec.tolerations
    added = tuple(
        Toleration(taint.key, "Exists", "", NO_EXECUTE, DEFAULT_SECONDS)
        for taint in taints
        if taint.key in NODE_FAILURES and not tolerations_tolerate_taint(own, taint)
    )
    if not added:
        return state
    return replace(state, pod=replace(state.pod, spec=replace(state.pod.spec, tolerations=(*own, *added))))
