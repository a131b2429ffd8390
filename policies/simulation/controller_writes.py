"""The writes of kube-controller-manager: executes each action of a controller as a request to the API server."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.actions import (
    CreateClaim,
    CreatePod,
    CreateWorkload,
    DeletePod,
    DeleteWorkload,
    ReleasePod,
    Report,
    Requeue,
    SetClaimOwner,
    SetStatus,
    UpdateConflict,
    UpdateWorkload,
)
from forewarn.policies.controllers.view import WorkloadState
from forewarn.policies.copies import replace
from forewarn.policies.kinds.registry import DAEMON_SET, JOB
from forewarn.policies.metering import charge
from forewarn.policies.objects.fields import group_kind, text
from forewarn.policies.objects.pod import Owner
from forewarn.policies.simulation.timeline import BY_WORKLOAD
from forewarn.policies.simulation.workload_index import PDB

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from forewarn.policies.controllers.actions import Action
    from forewarn.policies.controllers.view import Key
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import PersistentVolumeClaim
    from forewarn.policies.simulation.api_server import ApiServer
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.controller_view import ControllerView
    from forewarn.policies.simulation.latencies import Latencies


_BACK_OFF: Final = (0.005, 1000.0)
"""(first, longest) back-off in seconds; it doubles with each failure."""
_JOB_BACK_OFF: Final = (1.0, 60.0)
_MAX_DOUBLINGS: Final = 20


class RejectedWorkload(NamedTuple):
    """A workload whose new Pods a quota rejects.

    `failures`: consecutive failed syncs. `missing`: Pods that the last sync could not create. `message`: of the quota.
    `given_back`: number of Pods subtracted from quotas until the last sync.
    """

    failures: int
    missing: int
    message: str
    given_back: int


class Rejections:
    """The workloads whose last sync failed because a quota rejected a Pod, and the running syncs."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._syncs: dict[Key, _Sync] = {}
        self._now: dict[Key, RejectedWorkload] = {}

    def begin(self, key: Key, wanted: int) -> None:
        """Begin a sync that creates `wanted` Pods."""
        if self._api.quotas is not None:
            self._syncs[key] = _Sync(wanted)

    def rejected(self, key: Key, message: str) -> None:
        """Record that a quota rejected a Pod in the current sync."""
        sync = self._syncs.get(key)
        if sync is None:
            return
        if key not in self._now and not sync.message:
            self._api.timeline.add("refused", message=f"{self.group(key)}: {message}")
        sync.message = message

    def created(self, key: Key, stored: bool) -> None:
        """Record that the current sync sent a Pod. `stored`: whether the API server created the Pod."""
        sync = self._syncs.get(key)
        if sync is not None:
            sync.created += stored

    def stops(self, key: Key) -> bool:
        """Report whether the current sync creates no more Pods, because a quota rejected one."""
        sync = self._syncs.get(key)
        return sync is not None and bool(sync.message)

    def back_off(self, key: Key) -> float | None:
        """End the current sync: return the seconds until the retry, or None if no quota rejected a Pod."""
        sync, before = self._syncs.pop(key, None), self._now.get(key)
        if sync is None or not sync.message:
            self._now.pop(key, None)
            return None
        failures = before.failures if before is not None else 0
        given_back = self._api.quotas.given_back if self._api.quotas is not None else 0
        self._now[key] = RejectedWorkload(failures + 1, sync.wanted - sync.created, sync.message, given_back)
        first, longest = _JOB_BACK_OFF if key[0] == "batch/Job" else _BACK_OFF
        return float(min(first * 2 ** min(failures, _MAX_DOUBLINGS), longest))

    def is_rejected(self, key: Key) -> bool:
        """Report whether the previous sync of the workload failed because of a quota."""
        return key in self._now

    def group(self, key: Key) -> str:
        """Return `namespace/name` of the top workload: the controller of this workload, or the workload itself."""
        return self._workload(key)[1]

    def _workload(self, key: Key) -> tuple[str, str]:
        state = self._api.workloads.get(key)
        kind, *names = state.controller if state is not None and state.controller else key
        return kind, "/".join(names)

    @property
    def may_be_over(self) -> bool:
        """Whether a Pod was subtracted from quotas since the last rejection, so that a retry may succeed."""
        quotas = self._api.quotas
        return quotas is not None and any(
            value.given_back < quotas.given_back for key, value in self._now.items() if key in self._api.workloads
        )

    def by_workload(self) -> Iterator[tuple[tuple[str, str], RejectedWorkload]]:
        """Yield ((kind, `namespace/name`) of the top workload, RejectedWorkload) for each existing workload, in
        no order.
        """
        return ((self._workload(key), value) for key, value in self._now.items() if key in self._api.workloads)


class _Sync:
    """One sync of a workload: the numbers of Pods to create and of created Pods, and the message of a rejection."""

    __slots__ = ("created", "message", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted, self.created, self.message = wanted, 0, ""


REVISED: Final = ("apps/StatefulSet", DAEMON_SET)
"""Kinds with ControllerRevision objects."""


class ControllerWrites:
    """Executes the actions of controllers as requests to the simulated API server."""

    def __init__(
        self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies, *, grows_only: bool = False
    ) -> None:
        """`grows_only`: use the rules of recorded scenarios, in which writes have other durations."""
        self.grows_only = grows_only
        self.clock, self.api, self.view, self.latencies = clock, api, view, latencies
        self._numbers: dict[Key, int] = {}
        """Number of Pods that each workload has created so far."""
        self.rejections = Rejections(api)

    def _requeue(self, key: Key, time: float) -> None:
        """Schedule a sync of a workload at this time; an earlier scheduled sync replaces it."""
        raise NotImplementedError

    def _wake_controller(self, key: Key) -> None:
        """Schedule a sync of the controller of a workload after a change of the workload."""
        raise NotImplementedError

    def _apply(self, action: Action) -> Generator[float | None, None, None]:
        if isinstance(action, CreatePod):
            yield from self._create(action)
        elif isinstance(action, DeletePod):
            change = BY_WORKLOAD if action.owner is not None else ""
            message = _requester(action.owner)
            yield from self.delete(action.namespace, action.name, force=action.force, message=message, change=change)
        elif isinstance(action, CreateClaim):
            yield from self._create_claim(action.claim)
        elif isinstance(action, SetClaimOwner):
            yield self.latencies.write("update", f"{action.namespace}/{action.name}")
            claim = self.api.storage.claim((action.namespace, action.name))
            if claim is not None:
                self.api.storage.put_claim(replace(claim, owner=action.owner))
        elif isinstance(action, SetStatus):
            if action.key[0] == PDB:
                yield self.latencies.write(*self._named("status", action.key))
            self._store_status(action)
        elif isinstance(action, ReleasePod):
            self.view.release(action.key, action.uid)
        elif isinstance(action, Requeue):
            self._requeue(action.key, action.at - self.api.epoch)
        elif isinstance(action, Report):
            self._report(action)
        elif isinstance(action, UpdateConflict):
            yield self.latencies.write(*self._named("update", action.key))
        else:
            yield from self._change_workload(action)

    def _store_status(self, action: SetStatus) -> None:
        self.api.set_status(action.key, action.status)
        self._wake_controller(action.key)

    def _report(self, action: Report) -> None:
        if action.key[0] == JOB and action.reason == "Failed":
            self.api.timeline.add("jobFailed", message=f"{action.key[1]}/{action.key[2]}: {action.message}")

    def _change_workload(
        self, action: CreateWorkload | UpdateWorkload | DeleteWorkload
    ) -> Generator[float | None, None, None]:
        if isinstance(action, CreateWorkload):
            metadata = action.object["metadata"]
            key = (group_kind(action.object), text(metadata, "namespace"), text(metadata, "name"))
            yield self.latencies.write(*self._named("create", key))
            if key not in self.api.workloads:
                now = float(int(self.api.seconds))
                self.api.put_workload(WorkloadState(key, action.object, created=now, controller=action.owner))
            return
        verb = "update" if isinstance(action, UpdateWorkload) else "delete"
        yield self.latencies.write(*self._named(verb, action.key))
        state = self.api.workloads.get(action.key)
        if state is None:
            return
        if isinstance(action, UpdateWorkload):
            self.api.put_workload(replace(state, object=action.object))
        else:
            self.api.remove_workload(action.key)

    def _named(self, verb: str, key: Key) -> tuple[str, str]:
        """Return the (verb, name) that determine the duration of a write."""
        return ("create" if verb == "create" else "update", key[2]) if self.grows_only else (verb, f"{key[1]}/{key[2]}")

    def _create_claim(self, claim: PersistentVolumeClaim) -> Generator[float | None, None, None]:
        if claim.key in self.api.storage.unlisted:
            return
        yield self.latencies.write("create", "/".join(claim.key))
        if self.api.storage.claim(claim.key) is None:
            self.api.storage.put_claim(claim)

    def _create(self, action: CreatePod) -> Generator[float | None, None, None]:
        for claim in action.claims:
            yield from self._create_claim(claim)
        pod = action.pod
        if not pod.name:
            pod = replace(pod, name=self._name(action))
        yield self._creating(action, pod.key)
        self._store(pod, action)
        for owner in action.claim_owners:
            yield from self._apply(owner)

    def _creating(self, action: CreatePod, name: str) -> float:
        """Return the seconds from the request to create a Pod until the API server stores the Pod."""
        takes = self.latencies.replacement if action.owner[0] in REVISED else partial(self.latencies.write, "create")
        return takes(name)

    def _store(self, pod: Pod, action: CreatePod) -> None:
        """Store a new Pod, if its workload still exists and no quota rejects the Pod."""
        key = action.owner
        state = self.api.workloads.get(key)
        if state is None:
            return
        rejection = self.api.rejection(pod, action.template)
        if rejection:
            self.rejections.rejected(key, rejection)
            return
        owner = pod.owner or Owner(key[0].rpartition("/")[2], key[2], text(state.object, "metadata", "uid"))
        pod = pod if pod.name else replace(pod, name=self._name(action))
        self.rejections.created(key, self.api.create_pod(replace(pod, owner=owner), action.template))

    def _name(self, action: CreatePod) -> str:
        if action.owner[0] == DAEMON_SET:
            return self._free_name(action.owner[1], f"{action.owner[2]}-{action.pod.spec.node_affinity.only_node}")
        number = self._numbers[action.owner] = self._numbers.get(action.owner, 0) + 1
        stem = action.generate_name.removesuffix("-")
        return f"{stem}-{number}"

    def _free_name(self, namespace: str, name: str) -> str:
        """Return the name, or the name with a number appended if a Pod has this name.

        During a rollout with surge, a DaemonSet has two Pods on a node.
        """
        if (namespace, name) not in self.api.pods:
            return name
        for number in count(2):
            charge()  # a dump may have pods of any names
            if (namespace, f"{name}-{number}") not in self.api.pods:
                return f"{name}-{number}"
        raise AssertionError("numbers do not end")

    def _count_pods(self, key: Key) -> None:
        self._numbers[key] = len(self.api.by_controller.get(key, {}))

    def delete(
        self, namespace: str, name: str, *, force: bool, message: str, change: str = "", disrupted: bool = False
    ) -> Generator[float | None, None, None]:
        """Delete a Pod, after the duration of a write. See `ApiServer.delete_pod`."""
        yield self.latencies.write("delete", f"{namespace}/{name}")
        self.api.delete_pod(
            (namespace, name), "deleted", message=message, change=change, force=force, disrupted=disrupted
        )


def _requester(owner: Key | None) -> str:
    return "pod garbage collector" if owner is None else f"{owner[0].rpartition('/')[2]} {owner[2]}"
