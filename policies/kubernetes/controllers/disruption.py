"""The disruptions that a PodDisruptionBudget allows. Source: pkg/controller/disruption/disruption.go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from forewarn.policies.kubernetes.controllers.replica_set import spec_replicas
from forewarn.policies.kubernetes.controllers.templates import scaled
from forewarn.policies.kubernetes.controllers.view import Action, Key, Selected, SetStatus, Tally, View, WorkloadState
from forewarn.policies.kubernetes.objects.fields import ApiObject, at


class PdbStatus(NamedTuple):
    """The status of a PDB: counts of the Pods that the PDB selects."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:  # noqa: ARG001 - as every controller
    """Return the write of the PDB's status, if it changed. Upstream `trySync`. Raises InvalidObject."""
    status = pdb_status(view, state)
    return [] if status == state.status else [SetStatus(state.key, status)]


def pdb_status(view: Selected, state: WorkloadState) -> PdbStatus:
    """Return the current status of the PDB. Raises InvalidObject.

    If the scale of a Pod's controller is required but unknown, no disruptions are allowed: upstream `failSafe`.
    """
    pods = [tally for tally in view.selected(state) if tally.pods]
    counted = _expected(view, state.object, pods)
    if counted is None:
        known = state.status if isinstance(state.status, PdbStatus) else PdbStatus()
        return known._replace(disruptions_allowed=0)
    expected, desired = counted
    healthy = sum(tally.healthy for tally in pods)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    return PdbStatus(allowed, healthy, desired, expected)


def _expected(view: Selected, pdb: ApiObject, pods: Sequence[Tally]) -> tuple[int, int] | None:
    """Return (number of expected Pods, of healthy ones needed); None if unknown. Source: `getExpectedPodCount`."""
    least = at(pdb, "spec", "minAvailable")
    if at(pdb, "spec", "maxUnavailable") is not None:
        expected = expected_scale(view, pods)
        if expected is None:
            return None
        return expected, max(expected - scaled(pdb, ("spec", "maxUnavailable"), expected, up=True), 0)
    if least is None:
        return 0, 0
    if isinstance(least, int):
        return sum(tally.pods for tally in pods), least
    expected = expected_scale(view, pods)
    return None if expected is None else (expected, scaled(pdb, ("spec", "minAvailable"), expected, up=True))


SCALED = ("apps/Deployment", "apps/ReplicaSet", "apps/StatefulSet", "/ReplicationController")


def expected_scale(view: Selected, pods: Sequence[Tally]) -> int | None:
    """Return the sum of `spec.replicas` of the Pods' controllers; None if a controller has no scale.

    Source: `getExpectedScale`, which ignores Pods without a controller.
    """
    scales: dict[Key, int] = {}
    for key in dict.fromkeys(owner for tally in pods for owner in tally.owners):
        if key in scales:
            continue
        state = view.workload(key) if key[0] in SCALED else None
        if state is None:
            return None
        above = view.workload(state.controller) if state.controller else None
        scales[key] = 0 if above and above.key in scales else spec_replicas((above or state).object)
        if above:
            scales[above.key] = 0
    return sum(scales.values())
