"""Drain a node: cordon it, and evict its Pods when their PDBs allow it.

Sources: kubectl `pkg/drain`; kubernetes `pkg/registry/core/pod/storage/eviction.go`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.disruption import PdbStatus
from forewarn.policies.controllers.view import controller_of
from forewarn.policies.objects.fields import at

if TYPE_CHECKING:
    from collections.abc import Generator

    from forewarn.policies.controllers.view import Key, PodState
    from forewarn.policies.simulation.api_server import ApiServer
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies

RETRY: Final = 5.0
"""Seconds between attempts of an eviction that a PDB blocks."""


def drain(clock: Clock, api: ApiServer, latencies: Latencies, name: str) -> None:
    """Drain a node as `kubectl drain --ignore-daemonsets --force` does."""
    node = api.nodes.get(name)
    if node is not None:
        api.put_node(replace(node, unschedulable=True))
        for state in [state for state in api.by_node.get(name, {}).values() if not is_skipped(state)]:
            clock.spawn(_evicts(api, latencies, state, f"drain of {name}"))


def _evicts(api: ApiServer, latencies: Latencies, state: PodState, message: str) -> Generator[float | None, None, None]:
    """Evict one Pod as soon as its PDBs allow the eviction, concurrently with other Pods.

    Source: kubectl `pkg/drain` (`GetPodsForDeletion`, `evictPods`).
    """
    key = state.pod.namespace, state.pod.name
    while (stored := api.pods.get(key)) is not None and stored.pod.uid == state.pod.uid:
        yield latencies.write("evict", state.pod.key)
        if evict(api, state, message):
            return
        yield RETRY


def is_skipped(state: PodState) -> bool:
    """Report whether drain skips a Pod: a Pod of a DaemonSet, or the mirror Pod of a static Pod."""
    owner = controller_of(state.pod)
    return owner is not None and owner[0] in ("apps/DaemonSet", "/Node")


def evict(api: ApiServer, state: PodState, message: str) -> bool:
    """Evict a Pod, and charge its PDB at once; return False if the Pod no longer exists or a PDB blocks the
    eviction.
    """
    key = state.pod.namespace, state.pod.name
    stored = api.pods.get(key)
    if stored is None or stored.pod.uid != state.pod.uid or not _is_allowed(api, stored):
        return False
    _charge(api, stored)
    api.disrupt(key, stored.pod.uid)
    return api.delete_pod(key, "deleted", message=message)


def remaining_on(api: ApiServer, name: str) -> list[str]:
    """Return the Pods (`namespace/name`) that are still on a node, without those that drain skips."""
    return [state.pod.key for state in api.by_node.get(name, {}).values() if not is_skipped(state)]


def forbidden_by(api: ApiServer, state: PodState) -> list[str]:
    """Return the PDBs (`namespace/name`) that block the eviction of a Pod; empty if the eviction is allowed."""
    if _is_allowed(api, state):
        return []
    pdbs = api.pdbs_of(state.pod.namespace, state.pod.labels)
    forbid = [key for key in pdbs if len(pdbs) > 1 or not _status(api, key).disruptions_allowed]
    return sorted("/".join(key[1:]) for key in forbid)


def _charge(api: ApiServer, state: PodState) -> None:
    pdbs = [] if _ignores_pdbs(state) else api.pdbs_of(state.pod.namespace, state.pod.labels)
    for key in pdbs:
        status = _status(api, key)
        if not _is_free(api, state, key):
            api.set_status(key, status._replace(disruptions_allowed=status.disruptions_allowed - 1))


def _is_allowed(api: ApiServer, state: PodState) -> bool:
    if _ignores_pdbs(state):
        return True
    pdbs = api.pdbs_of(state.pod.namespace, state.pod.labels)
    if len(pdbs) > 1:
        return False  # upstream: "more than one PodDisruptionBudget, which the eviction subresource does not support"
    return all(_is_free(api, state, key) or _status(api, key).disruptions_allowed > 0 for key in pdbs)


def _ignores_pdbs(state: PodState) -> bool:
    """Report whether PDBs do not protect a Pod, because it is terminal, Pending or terminating.

    Source: `canIgnorePDB`.
    """
    return state.pod.terminal or state.pod.phase == "Pending" or state.terminating


def _is_free(api: ApiServer, state: PodState, key: Key) -> bool:
    """Report whether the PDB with this key allows the eviction of a Pod even without allowed disruptions.

    That is the case for a Pod that is not ready, if enough other Pods are healthy, or with `unhealthyPodEvictionPolicy:
    AlwaysAllow`.
    """
    if state.ready is not None:
        return False
    status = _status(api, key)
    if at(api.workloads[key].object, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return status.current_healthy >= status.desired_healthy > 0


def _status(api: ApiServer, key: Key) -> PdbStatus:
    status = api.workloads[key].status
    return status if isinstance(status, PdbStatus) else PdbStatus()
