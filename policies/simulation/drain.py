"""A node that is drained: cordoned, and its pods evicted as their budgets allow. Source: kubectl `pkg/drain`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from policies.simulation.api_server import controller_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.controllers.view import PodState
    from policies.simulation.api_server import ApiServer
    from policies.simulation.clock import Clock
    from policies.simulation.latencies import Latencies

RETRY: Final = 5.0
"""Seconds after which an eviction that a budget forbade is tried again."""


def drain(clock: Clock, api: ApiServer, latencies: Latencies, name: str) -> None:
    """Drain a node as `kubectl drain --ignore-daemonsets --force` does."""
    node = api.nodes.get(name)
    if node is not None:
        api.put_node(replace(node, unschedulable=True))
        clock.spawn(_drain(api, latencies, name))


def _drain(api: ApiServer, latencies: Latencies, name: str) -> Generator[float | None, None, None]:
    while name in api.nodes:
        left = [
            state for state in api.by_node.get(name, {}).values() if not state.terminating and not _is_daemon(state)
        ]
        if not left:
            return
        for state in left:
            if allowed(api, state):
                yield latencies.write("evict", state.pod.key)
                api.delete_pod((state.pod.namespace, state.pod.name), "deleted", message=f"drain of {name}")
        yield RETRY


def _is_daemon(state: PodState) -> bool:
    owner = controller_of(state.pod)
    return owner is not None and owner[0] == "apps/DaemonSet"


def allowed(api: ApiServer, state: PodState) -> bool:
    """Whether every budget of a pod allows its eviction; a pod that is not ready costs them nothing."""
    if state.ready is None:
        return True
    budgets = api.budgets_of(state.pod.namespace, state.pod.labels)
    return all(getattr(api.workloads[key].status, "disruptions_allowed", 0) > 0 for key in budgets)
