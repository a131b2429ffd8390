"""The work items of the simulated controllers: changes, due syncs and arrivals; which objects to sync, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers import SYNC_DELAY
from forewarn.policies.controllers.deployment import is_recreate
from forewarn.policies.findings import ObjectRef
from forewarn.policies.kinds.registry import DEPLOYMENT
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.simulation.api_server import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.controllers.view import Key
    from forewarn.policies.simulation.api_server import ApiServer

_MANY: Final = 500
_SYNC_SECONDS_PER_POD: Final = 25e-6
"""Seconds to read one Pod, for a workload with very many."""


class Sync(NamedTuple):
    """A due sync of a workload or PodDisruptionBudget: its controller compares the desired and the actual state."""

    key: Key


class Collect(NamedTuple):
    """A due round of Pod garbage collection."""


class PodFinished(NamedTuple):
    """The end of the termination of a Pod, for the kubelet to remove the Pod."""

    key: tuple[str, str]
    uid: str


class Arrive(NamedTuple):
    """A user's change. `change`: applies it, and returns the resulting changes of objects other than Pods."""

    change: Callable[[], list[Change]]


Due = Change | Sync | Collect | PodFinished | Arrive
NOT_WATCHED: Final = ("Status", "Claim", "Volume", "PodGroup")
"""Kinds of changes that controllers ignore."""


def delay_of(api: ApiServer, key: Key) -> float:
    """Return the seconds between a change of a Pod and the sync of its workload."""
    return SYNC_DELAY.get(key[0], 0.0) + seconds_to_read(api, key)


def seconds_to_read(api: ApiServer, key: Key) -> float:
    """Return the seconds that a controller needs to read the Pods of a workload; 0 unless there are very many."""
    count = len(api.by_controller.get(key, ()))
    return count * _SYNC_SECONDS_PER_POD if count > _MANY else 0.0


def reader_of(api: ApiServer, key: Key) -> Key | None:
    """Return the key of the Deployment of a ReplicaSet, if the Deployment reads Pods; otherwise None. Source:
    pkg/controller/deployment `deletePod`.
    """
    state = api.workloads.get(key)
    above = None if state is None or state.controller is None else api.workloads.get(state.controller)
    return above.key if above is not None and above.key[0] == DEPLOYMENT and is_recreate(above.object) else None


def error_message(api: ApiServer, key: Key, error: InvalidObject) -> str:
    """Return the message of an error in a workload.

    If a Pod without a name has the error, the message names the top workload.
    """
    if error.ref is not None and error.ref.name:
        return str(error)
    state = api.workloads.get(key)
    kind, namespace, name = (state and state.controller) or key
    ref = ObjectRef("", kind.rpartition("/")[2], namespace, name)
    return str(InvalidObject(error.problem, error.path, ref))
