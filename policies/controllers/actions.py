"""The requests of a controller to the API server. Each action is one write; the order of actions matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.controllers.view import Key
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Owner, Pod
    from forewarn.policies.objects.storage import PersistentVolumeClaim


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
    """Create a workload of another workload: a Deployment's ReplicaSet, or a CronJob's Job.

    `object` contains the name.
    """

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
    """Update a workload that has changed since the controller read it.

    The API server rejects the update, and the sync ends.
    """

    key: Key


class DeleteWorkload(NamedTuple):
    """Delete a workload. Garbage collection deletes its Pods."""

    key: Key


class SetStatus(NamedTuple):
    """Set the status of an object. The next sync reads the status as `WorkloadState.status`."""

    key: Key
    status: Any


class ReleasePod(NamedTuple):
    """Remove the Job's finalizer from a Pod that the Job has counted.

    `View.pods_of` may then omit the Pod after its deletion.
    """

    key: Key
    uid: str


class Requeue(NamedTuple):
    """Sync the object again at the time `at` (seconds since 1970), even without a change.

    Of several requests, the earliest counts.
    """

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
