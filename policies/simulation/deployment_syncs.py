"""Syncs of Deployments that are not repeated while the Deployment and its ReplicaSets do not change.

A Deployment syncs after each change of its Pods. Many syncs read the same objects as the sync before (see the rows of
`whatif lose zone` in docs/internals/performance.md).
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.controllers import reconcile
from forewarn.policies.controllers.actions import Action, Requeue
from forewarn.policies.controllers.replica_set import ReplicaSetStatus
from forewarn.policies.controllers.replica_set_sizes import is_rolling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.controllers.view import Key, View

_NEVER: Final = float("inf")


class _Sync(NamedTuple):
    """A sync of a Deployment that wrote nothing, so that its result can be reused while the objects are unchanged.

    `read`: the Deployment and its ReplicaSets at the sync. `actions`: the result. `until`: the time of the earliest
    Requeue, from which the sync must run again.
    """

    read: Sequence[Any]
    actions: Sequence[Action]
    until: float


class DeploymentSyncs:
    """The last sync of each Deployment, if it wrote nothing and depended only on the stored objects."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._last: dict[Key, _Sync] = {}

    def actions(self, key: Key, now: float) -> Sequence[Action]:
        """Return what `reconcile` returns. Raises InvalidObject."""
        read = (self._view.workload(key), *self._view.owned(key))
        last = self._last.get(key)
        if last is not None and now < last.until and len(last.read) == len(read) and all(map(is_, last.read, read)):
            return last.actions
        actions = reconcile(self._view, key, now)
        if _is_repeatable(read, actions):
            due = min((action.at for action in actions if isinstance(action, Requeue)), default=_NEVER)
            self._last[key] = _Sync(read, actions, due)
        return actions


def _is_repeatable(read: Sequence[Any], actions: Sequence[Action]) -> bool:
    """True without writes, and if the sync read no Pods, which Recreate and ReplicaSets without a status need."""
    deployment, *owned = read
    return (
        all(isinstance(action, Requeue) for action in actions)
        and all(isinstance(state.status, ReplicaSetStatus) for state in owned)
        and deployment is not None
        and is_rolling(deployment.object)
    )
