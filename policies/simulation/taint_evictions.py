"""Evictions of Pods because of NoExecute taints of their node or devices, at once or after the tolerated time.

Source: kubernetes `pkg/controller/tainteviction`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.taint_eviction import (
    Eviction,
    evict,
    evict_scheduled,
    eviction_time,
    taints_of_devices,
)
from forewarn.policies.kube_apiserver.defaults import missing_tolerations
from forewarn.policies.objects.taints import NO_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from forewarn.policies.controllers.view import PodState
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.simulation.api_server import ApiServer, Change, PodKey
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies

_A_MOMENT: Final = 1e-6
"""Seconds added to due times, because times since 1970 are not more exact."""
RETRIES: Final = 5
"""Maximum number of attempts of an eviction."""
BETWEEN_RETRIES: Final = 0.01
"""Seconds between attempts."""


class TaintEvictions:
    """Evicts Pods for NoExecute taints of their nodes in a simulation."""

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies) -> None:
        self._clock, self._api, self._latencies = clock, api, latencies
        self._scheduled: dict[str, Mapping[str, Eviction]] = {}
        self._evicted: set[str] = set()
        """uids of the Pods whose eviction has started."""

    def start(self) -> None:
        """Process every node, and watch changes from now on."""
        self._api.watchers.append(self.handle)
        for name in list(self._api.nodes):
            self._check(name)

    def handle(self, change: Change) -> None:
        """Process the changed node, or the node of a newly bound Pod."""
        if change.kind == "Node":
            self._check((change.new or change.old).name)
        elif change.kind == "Pod" and change.new is not None:
            node = change.new.pod.node_name
            if node and not (change.old is not None and change.old.pod.node_name):
                self._check(node)

    def _check(self, name: str) -> None:
        node, scheduled = self._api.nodes.get(name), self._scheduled.pop(name, {})
        taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE] if node else []
        if not taints and (node is not None or not scheduled):
            return
        now, here = self._api.seconds, self._api.by_node.get(name, {}).values()
        pods = [state for state in here if state.pod.uid not in self._evicted]
        deletes, left = (
            evict(taints, [*map(_with_default_tolerations, pods)], scheduled, now)
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
            self._clock.at(due - self._api.epoch + _A_MOMENT, partial(self._check, name))

    def _delete(self, key: PodKey, node: str) -> Generator[float | None, None, None]:
        return delete_for_taint(self._api, self._latencies, key, f"taint of {node}")


class DeviceTaintEvictions:
    """Evicts Pods for the taints of their devices, which do not change in a simulation.

    Source: kubernetes `pkg/controller/devicetainteviction`.
    """

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies, base: ClusterObjects) -> None:
        self._clock, self._api, self._latencies, self._base = clock, api, latencies, base

    def start(self) -> None:
        """Schedule the evictions of Pods that have devices now. New Pods get devices without taints, or tolerate
        them: that such a toleration ends is not simulated.
        """
        base = self._base
        if not base.semantics.enabled("DRADeviceTaints"):
            return
        having = [state.pod for state in self._api.pods.values() if state.pod.node_name and state.pod.device_claims]
        taints = taints_of_devices(base.resource_slices.values()) if having else {}
        rules = base.device_taint_rules.values() if base.semantics.device_taint_rules_apply else ()
        for pod in having:
            due = eviction_time(pod, base.resource_claims, taints, rules)
            if due is not None:
                when = max(due, self._api.seconds) - self._api.epoch
                self._clock.at(when, partial(self._evict, (pod.namespace, pod.name), pod.uid))

    def _evict(self, key: PodKey, uid: str) -> None:
        state = self._api.pods.get(key)
        if state is not None and state.pod.uid == uid and not state.pod.terminal:
            self._clock.spawn(delete_for_taint(self._api, self._latencies, key, "taint of a device"))


def delete_for_taint(
    api: ApiServer, latencies: Latencies, key: PodKey, why: str
) -> Generator[float | None, None, None]:
    """Set the condition DisruptionTarget of a Pod, then delete the Pod; retry if the Pod does not exist.

    Both requests are by name, so they may affect a replacement Pod with the same name. Source: upstream
    `deletePodHandler`, `addConditionAndDeletePod`.
    """
    name = "/".join(key)
    for _ in range(RETRIES):
        state = api.pods.get(key)
        if state is not None:
            yield latencies.write("patch", name)
            if api.disrupt(key, state.pod.uid):
                yield latencies.write("delete", name)
                if api.delete_pod(key, "deleted", message=why):
                    return
        yield BETWEEN_RETRIES


def _with_default_tolerations(state: PodState) -> PodState:
    """Return the Pod with the tolerations that admission adds, which Pods of manifests and recorded cases lack."""
    own = state.pod.spec.tolerations
    added = missing_tolerations(own)
    if not added:
        return state
    return replace(state, pod=replace(state.pod, spec=replace(state.pod.spec, tolerations=(*own, *added))))
