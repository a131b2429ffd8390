"""The state that controllers read: objects with their times, as in the caches of informers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from forewarn.policies.kubernetes.objects.fields import ApiObject, group_kind, ref_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Owner, Pod
    from forewarn.policies.kubernetes.objects.storage import PersistentVolumeClaim
    from forewarn.policies.kubernetes.releases.semantics import Semantics

Key = tuple[str, str, str]
"""(`group/Kind`, namespace, name)."""


def workload_key(obj: ApiObject) -> Key:
    """Return the key of a workload. Raises InvalidObject."""
    ref = ref_of(obj, "default")
    return group_kind(obj), ref.namespace, ref.name


def controller_of(pod: Pod) -> Key | None:
    """Return the key of the controller of a Pod, even if the controller does not exist; None for a Pod without one."""
    return None if pod.owner is None else _key_of(pod.owner, pod.namespace)


@lru_cache(maxsize=16384)
def _key_of(owner: Owner, namespace: str) -> Key:
    return owner.group_kind, namespace, owner.name


@dataclass(frozen=True, slots=True)
class PodState:
    """A Pod with its times, in seconds since 1970.

    - `created`: in whole seconds, as stored. `ready`: since when the Pod is ready, or None. `deleted`: the time of its
      deletion, in whole seconds, or None. `finished`: when its containers terminated by themselves, or None.
    - `removed`: the API server no longer stores the Pod; only Jobs see such Pods.
    - `disrupted`: the Pod has the condition DisruptionTarget from a component other than kube-scheduler (see
      `Pod.preempted`).
    - `restarts`: maximum restarts of a container, and of a sidecar. `index_failures`: earlier failures of the index
      of a Job's Pod. `template`: the Pod's template, if known.
    """

    pod: Pod
    created: float = 0.0
    ready: float | None = None
    deleted: float | None = None
    finished: float | None = None
    removed: bool = False
    disrupted: bool = False
    restarts: tuple[int, int] = (0, 0)
    deletion_cost: int = 0
    index_failures: int = 0
    template: ApiObject | None = None

    @property
    def terminating(self) -> bool:
        return self.pod.terminating or self.deleted is not None

    @property
    def active(self) -> bool:
        """Whether the Pod is neither terminal nor terminating. Source: pkg/controller `IsPodActive`."""
        return not self.pod.terminal and not self.terminating

    def available(self, min_ready_seconds: int, now: float) -> bool:
        """Report whether the Pod has been ready for this many seconds. Source: pkg/api/v1/pod `IsPodAvailable`."""
        return self.ready is not None and (min_ready_seconds == 0 or self.ready + min_ready_seconds <= now)


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """A stored workload or PDB. `status`: the last one that its controller set; None before the first sync.

    `created`: seconds since 1970. `controller`: key of the owner, or None.
    """

    key: Key
    object: ApiObject
    status: Any = None
    created: float = 0.0
    controller: Key | None = None


class PodCounts(NamedTuple):
    """The numbers of active and of ready Pods of a workload."""

    active: int = 0
    ready: int = 0


class Tally:
    """The Pods of a namespace with the same labels: their number, the healthy ones, and the numbers by controller."""

    __slots__ = ("healthy", "labels", "owners", "pods")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels, self.pods, self.healthy = labels, 0, 0
        self.owners: dict[Key, int] = {}

    def count(self, state: PodState, sign: int) -> None:
        """Add (`sign` 1) or remove (-1) a Pod."""
        self.pods += sign
        self.healthy += sign * (state.ready is not None and not state.terminating)
        key = controller_of(state.pod)
        if key is not None:
            left = self.owners.get(key, 0) + sign
            if left:
                self.owners[key] = left
            else:
                self.owners.pop(key, None)


class Selected(Protocol):
    """The part of a View for PDBs."""

    def workload(self, key: Key, /) -> WorkloadState | None:
        """Return the workload or PDB with this key, or None."""

    def selected(self, state: WorkloadState, /) -> Iterable[Tally]:
        """Return the tallies of the Pods that a PDB selects in its namespace. Raises InvalidObject."""


class View(Selected, Protocol):
    """The state that a caller of `reconcile` provides to controllers. Sequences are in order of creation."""

    @property
    def semantics(self) -> Semantics:
        """Return the release of kube-controller-manager."""

    def owned(self, key: Key, /) -> Sequence[WorkloadState]:
        """Return the workloads whose controller has this key: a Deployment's ReplicaSets, a CronJob's Jobs."""

    def pods_of(self, key: Key, /) -> Sequence[PodState]:
        """Return the Pods of a workload, including terminal and terminating ones; removed Pods of a Job until
        ReleasePod.
        """

    def counts(self, key: Key, /) -> PodCounts | None:
        """Return the numbers of active and ready Pods of a workload; None if they are not counted."""

    def claim(self, namespace: str, name: str, /) -> PersistentVolumeClaim | None:
        """Return the PersistentVolumeClaim with this name, or None."""

    def default_storage_class(self) -> str:
        """Return the StorageClass that admission sets for claims without one; "" if there is no default."""

    def pods_on(self, node: str, /) -> Sequence[PodState]:
        """Return the Pods that are bound to a node, even if the node does not exist."""

    def lot(self, name: str, /) -> float:
        """Return a random number, as a sort key where upstream iterates over a Go map; 0 for a fixed order."""

    def nodes(self) -> Mapping[str, Node]:
        """Return all nodes by name."""

    def admit(self, template: ApiObject, make: Callable[[], ApiObject], /) -> Pod:
        """Admit the API object that `make` returns, and return it as a Pod. Raises InvalidObject.

        `template`: equal templates give equal Pods, so the result may be cached.
        """


class CreatePod(NamedTuple):
    """Create a Pod.

    `generate_name`: the prefix of a generated name; `pod` then has no name. `template`: the Pod template, for its
    annotations. `claims`: PersistentVolumeClaims to create before the Pod. `claim_owners`: changes of claims after it.
    """

    owner: Key
    pod: Pod
    template: ApiObject
    generate_name: str = ""
    claims: Sequence[PersistentVolumeClaim] = ()
    claim_owners: Sequence[SetClaimOwner] = ()


class CreateClaim(NamedTuple):
    """Create a PersistentVolumeClaim."""

    claim: PersistentVolumeClaim


class SetClaimOwner(NamedTuple):
    """Change the owner of a PersistentVolumeClaim. Garbage collection deletes the claim together with its owner."""

    namespace: str
    name: str
    owner: Owner | None


class DeletePod(NamedTuple):
    """Delete a Pod. `force`: with a grace period of 0. `owner`: the object whose controller deletes the Pod."""

    namespace: str
    name: str
    owner: Key | None = None
    force: bool = False


class CreateWorkload(NamedTuple):
    """Create a workload of another one: a Deployment's ReplicaSet, or a CronJob's Job. `object` contains the name."""

    object: ApiObject
    owner: Key


class UpdateWorkload(NamedTuple):
    """Update fields of a workload other than its Pod template: replicas, annotations, minReadySeconds.

    `may_fail`: if the API server rejects the update, the sync skips later updates, but still writes the status.
    """

    key: Key
    object: ApiObject
    may_fail: bool = False


class UpdateConflict(NamedTuple):
    """Update a workload that has changed since it was read: the API server rejects this, and the sync ends."""

    key: Key


class DeleteWorkload(NamedTuple):
    """Delete a workload. Garbage collection deletes its Pods."""

    key: Key


class SetStatus(NamedTuple):
    """Set the status of an object. The next sync reads the status as `WorkloadState.status`."""

    key: Key
    status: Any


class ReleasePod(NamedTuple):
    """Remove the Job's finalizer from a counted Pod. `View.pods_of` may then omit the Pod after its deletion."""

    key: Key
    uid: str


class Requeue(NamedTuple):
    """Sync the object again at `at` (seconds since 1970), even without a change; of several, the earliest counts."""

    key: Key
    at: float


class Report(NamedTuple):
    """Report an event or a change of a condition, with its reason and message."""

    key: Key
    reason: str
    message: str


Action = (
    CreatePod
    | CreateClaim
    | SetClaimOwner
    | DeletePod
    | CreateWorkload
    | UpdateWorkload
    | UpdateConflict
    | DeleteWorkload
    | SetStatus
    | ReleasePod
    | Requeue
    | Report
)
