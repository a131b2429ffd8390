"""The syncs of kube-controller-manager: one module for each controller, as pure functions of the state and the time.

`reconcile` returns the writes of one sync of one object. The caller applies the writes in order, and calls `reconcile`
again when an object that belongs to the workload changes. No function here blocks, reads a clock or uses random
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import Action, Key, View, WorkloadState

CONTROLLERS: Final[Mapping[str, str]] = {
    "apps/Deployment": "deployment",
    "apps/ReplicaSet": "replica_set",
    "/ReplicationController": "replica_set",
    "apps/StatefulSet": "stateful_set",
    "apps/DaemonSet": "daemon_set",
    "batch/Job": "job",
    "batch/CronJob": "cron_job",
    "policy/PodDisruptionBudget": "disruption",
}
"""`group/Kind` -> the module of its controller, imported on first use."""

SYNC_DELAY: Final[Mapping[str, float]] = {"batch/Job": 1.0}
"""Seconds between a change of an object's Pod and the sync; 0 for other kinds.

Further changes do not extend the delay. Source: pkg/controller/job `SyncJobBatchPeriod`.
"""


def reconcile(view: View, key: Key, now: float) -> list[Action]:
    """Return the writes of one sync of an object; none for a deleted object, or for a kind without a controller here.
    Raises InvalidObject if a field that the controller reads, or a Pod template, is invalid.
    """
    state = view.workload(key) if key[0] in CONTROLLERS else None
    if state is None:
        return []
    sync: Callable[[View, WorkloadState, float], list[Action]] = _module(CONTROLLERS[key[0]]).reconcile
    return sync(view, state, now)


@cache
def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
