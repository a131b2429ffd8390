"""The requests of a controller to the API server: one write each, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.controllers.view import Key
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Owner, Pod
    from forewarn.policies.objects.storage import PersistentVolumeClaim


class CreatePod(NamedTuple):
    """A new pod. `generate_name`: its name's beginning, where the API server makes up the rest; `pod` then has none.

    `template`: what it is made of, for its annotations. `claims`: created before it;
    `claim_owners`: written after it.
    """

    owner: Key
    pod: Pod
    template: ApiObject
    generate_name: str = ""
    claims: Sequence[PersistentVolumeClaim] = ()
    claim_owners: Sequence[SetClaimOwner] = ()


class CreateClaim(NamedTuple):
    """A new PersistentVolumeClaim."""

    claim: PersistentVolumeClaim


class SetClaimOwner(NamedTuple):
    """Another controller for a PersistentVolumeClaim: what deletes it."""

    namespace: str
    name: str
    owner: Owner | None


class DeletePod(NamedTuple):
    """A DELETE of a pod. `force`: with a grace period of 0. `owner`: the object whose controller asks for it."""

    namespace: str
    name: str
    owner: Key | None = None
    force: bool = False


class CreateWorkload(NamedTuple):
    """A new workload: a Deployment's ReplicaSet, a CronJob's Job. Its name is in it."""

    object: ApiObject
    owner: Key


class UpdateWorkload(NamedTuple):
    """An update of a workload other than its Pod template: replicas, annotations, minReadySeconds.

    `may_fail`: if the API server rejects the update, the sync skips later updates, but still writes the status.
    """

    key: Key
    object: ApiObject
    may_fail: bool = False


class UpdateConflict(NamedTuple):
    """An update of a workload that has changed since it was read: the API server refuses it, and the sync ends."""

    key: Key


class DeleteWorkload(NamedTuple):
    """A workload that is let go; its pods go with it."""

    key: Key


class SetStatus(NamedTuple):
    """The status that the controller reports for an object. Its next sync reads it as `WorkloadState.status`."""

    key: Key
    status: Any


class ReleasePod(NamedTuple):
    """A Job has counted a Pod and removes its finalizer: `View.pods_of` need not return the Pod after its deletion."""

    key: Key
    uid: str


class Requeue(NamedTuple):
    """Another sync at `at` (seconds since 1970), whatever happens; of several the earliest comes, and then the next."""

    key: Key
    at: float


class Report(NamedTuple):
    """An event or a change of a condition; `reason` is the reason of the event or condition."""

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
