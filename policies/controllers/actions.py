"""What a controller asks of the API server: one write each, in the order given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.controllers.view import Key
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Owner, Pod
    from policies.objects.storage import PersistentVolumeClaim


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
    """A workload in another size, or with other annotations; the pod template in it is the same object. `may_fail`: the
    sync goes on with its status where the API server refuses it."""

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
    """What the controller remembers and tells of an object: handed to it at its next sync as `WorkloadState.status`."""

    key: Key
    status: Any


class ReleasePod(NamedTuple):
    """A Job has counted a pod (its finalizer goes): `View.pods_of` need not show it once it is gone."""

    key: Key
    uid: str


class Requeue(NamedTuple):
    """Another sync at `at` (seconds since 1970), whatever happens; of several the earliest comes, and then the next."""

    key: Key
    at: float


class Report(NamedTuple):
    """Something that people are told: `reason` is the condition's or the event's."""

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
