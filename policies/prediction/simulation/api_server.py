"""The simulated API server: stored objects, and watchers of changes. Each method is one write at the current time.

Source: kubernetes `pkg/registry/core/pod` (storage.go: `setPodNodeAndMetadata`; strategy.go: `CheckGracefulDelete`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, islice
from math import floor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.base.cow_table import Overlay
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.cluster.admission import counted_by_requests
from forewarn.policies.kubernetes.controllers.own_pods import Recreator, again
from forewarn.policies.kubernetes.controllers.view import Key, PodCounts, PodState, Tally, WorkloadState, controller_of
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET, JOB
from forewarn.policies.kubernetes.kube_apiserver.quota import (
    PODS,
    FaultKind,
    RepeatedPods,
    check_request,
    given_back,
    recalculated,
)
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, mapping
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
from forewarn.policies.prediction.simulation.clock import Clock, Latencies, Origin, Steps, Timeline

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.objects.resources import ResourceList
    from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.kubernetes.releases.semantics import Semantics


class WorkloadIndex:
    """The keys of stored workloads and PDBs, in the order of creation."""

    def __init__(self) -> None:
        self._owned: dict[Key, dict[Key, None]] = {}
        self._by_kind: dict[str, dict[Key, None]] = {}
        self._pdbs: dict[str, dict[Key, PodDisruptionBudget]] = {}
        self._pdbs_of: dict[tuple[str, int], tuple[Mapping[str, str], list[Key]]] = {}
        """(namespace, id of labels) -> (the labels, which keeps their id unique; the keys of matching PDBs)."""

    def keys_of_kind(self, kind: str) -> list[Key]:
        return list(self._by_kind.get(kind, ()))

    def owned(self, key: Key) -> list[Key]:
        return list(self._owned.get(key, ()))

    def pdbs_of(self, namespace: str, labels: Mapping[str, str]) -> list[Key]:
        """Return the keys of the PDBs of a namespace that select Pods with these labels."""
        pdbs = self._pdbs.get(namespace)
        if not pdbs:
            return []
        cached = self._pdbs_of.get((namespace, id(labels)))
        if cached is None:
            keys = [key for key, pdb in pdbs.items() if pdb.selects(labels)]
            cached = self._pdbs_of[namespace, id(labels)] = labels, keys
        return cached[1]

    def put(self, old: WorkloadState | None, new: WorkloadState) -> None:
        """Add a workload or PDB, or change it from `old`. Raises InvalidObject for an invalid PDB."""
        key = new.key
        if old is not None and old.controller is not None and old.controller != new.controller:
            self._owned[old.controller].pop(key, None)
        if new.controller is not None:
            self._owned.setdefault(new.controller, {})[key] = None
        self._by_kind.setdefault(key[0], {})[key] = None
        if key[0] == DISRUPTION_BUDGET:
            self._pdbs.setdefault(key[1], {})[key] = PodDisruptionBudget.from_api(new.object)
            self._pdbs_of.clear()

    def remove(self, old: WorkloadState) -> None:
        """Remove a workload or PDB."""
        key = old.key
        self._by_kind[key[0]].pop(key, None)
        if old.controller is not None:
            self._owned[old.controller].pop(key, None)
        if key[0] == DISRUPTION_BUDGET:
            self._pdbs.get(key[1], {}).pop(key, None)
            self._pdbs_of.clear()


_MAX_LENGTH: Final = 512
"""Maximum characters of a rejection: a quota may limit many resources with long names."""


_CHECKING: Final = 50
"""Units of work (`policies.base.metering`) to compare a Pod with a quota."""


class Quotas:
    """The ResourceQuotas of all namespaces. They count a Pod until one write after its removal: upstream `QuotaV1Pod`
    counts a terminating Pod until its grace period ends.
    """

    def __init__(
        self,
        clock: Clock,
        latencies: Latencies,
        quotas_of: Callable[[str], Sequence[ResourceQuota]],
        defaulted: Callable[[ApiObject], ApiObject],
        template_for: Callable[[Pod], ApiObject | None],
    ) -> None:
        """Start with the usage at time 0.

        `quotas_of`: returns the quotas of a namespace, by name. `defaulted`: returns the object of a new Pod with
        defaults of LimitRanges. `template_for`: returns the probable template of a Pod that exists at time 0, None if
        unknown; may raise InvalidObject.
        """
        self._clock, self._latencies, self._defaulted = clock, latencies, defaulted
        self._quotas_of, self._template_for, self._pods = quotas_of, template_for, RepeatedPods()
        self.now: dict[str, tuple[ResourceQuota, ...]] = {}
        """Namespace -> its quotas with the current usage; only namespaces that were read."""
        self._counted_pods: dict[tuple[int, str], tuple[object, ApiObject]] = {}
        """(id of a template or of requests, PriorityClass) -> (that object, which keeps the id unique; the Pod object
        for quotas).
        """
        self.given_back = 0
        """Number of Pods subtracted from the usage, and of changed quotas: a retry may succeed afterwards."""

    def changes(self) -> Iterator[tuple[ResourceQuota, ResourceQuota]]:
        """Yield (initial quota, current quota) for each quota whose usage or limits have changed."""
        for namespace, quotas in self.now.items():
            initial = {quota.name: quota for quota in self._quotas_of(namespace)}
            for quota in quotas:
                before = initial.get(quota.name, quota)
                if (before.used, before.hard) != (quota.used, quota.hard):
                    yield before, quota

    def put(self, quota: ResourceQuota, pods: Iterable[PodState]) -> None:
        """Add or change a quota. Its usage is that of `pods`, the Pods of its namespace."""
        counted = []
        for state in pods:
            with suppress(InvalidObject):
                counted += [] if state.pod.terminal else [self._counted(state)]
        others = (other for other in self._quotas_in(quota.namespace) if other.name != quota.name)
        quotas = (*others, recalculated(quota, counted))
        self.now[quota.namespace] = tuple(sorted(quotas, key=lambda other: other.name))
        self.given_back += 1

    def rejection(self, pod: Pod, template: ApiObject | None) -> str:
        """Return upstream's message if a quota rejects a new Pod. If no quota does, charge the quotas and return ""."""
        if not self._quotas_in(pod.namespace):
            return ""
        try:
            return self._rejection(pod.namespace, self._counted_pod(pod, template))
        except InvalidObject as error:
            return str(error)[:_MAX_LENGTH]

    def _rejection(self, namespace: str, pod: ApiObject) -> str:
        """Return upstream's message if a quota rejects the object of a new Pod; otherwise, charge the quotas.

        A quota without a status rejects nothing.
        """
        quotas = self._quotas_in(namespace)
        charge(_CHECKING * len(quotas))
        check = check_request(pod, quotas, evaluator=self._pods)
        message = next((fault.message for fault in check.faults if fault.kind is not FaultKind.STATUS_UNKNOWN), "")
        if not message:
            self.now[namespace] = check.quotas
        return message if len(message) <= _MAX_LENGTH else message[:_MAX_LENGTH]

    def usage(self, pod: Pod, template: ApiObject | None) -> ResourceList:
        """Return what a new Pod uses. Raises InvalidObject."""
        return PODS.usage(self._counted_pod(pod, template))

    def rejection_if_recreated(self, state: PodState) -> str:
        """Return upstream's message if a quota rejects the Pod once it alone is deleted and recreated, or if the Pod is
        unreadable; otherwise "".
        """
        namespace = state.pod.namespace
        before = self._quotas_in(namespace)
        try:
            pod = self._counted(state)
            self._subtract(namespace, pod)
            return self._rejection(namespace, pod)
        except InvalidObject as error:
            return str(error)[:_MAX_LENGTH]
        finally:
            self.now[namespace] = before

    def pod_deleted(self, state: PodState) -> None:
        """Subtract a removed Pod from the usage of its namespace."""
        if not state.pod.terminal and self._quotas_in(state.pod.namespace):
            self._clock.spawn(self._give_back(state))

    def _give_back(self, state: PodState) -> Steps:
        yield self._latencies.write("status", state.pod.namespace)
        try:
            self._subtract(state.pod.namespace, self._counted(state))
        except InvalidObject:
            return
        self.given_back += 1

    def _subtract(self, namespace: str, pod: ApiObject) -> None:
        charge(_CHECKING * len(self._quotas_in(namespace)))
        self.now[namespace] = given_back(self._quotas_in(namespace), pod, self._pods.usage(pod))

    def _quotas_in(self, namespace: str) -> tuple[ResourceQuota, ...]:
        if namespace not in self.now:
            self.now[namespace] = tuple(self._quotas_of(namespace))
        return self.now[namespace]

    def _counted(self, state: PodState) -> ApiObject:
        template = self._template_for(state.pod) if state.template is None else state.template
        return self._counted_pod(state.pod, template)

    def _counted_pod(self, pod: Pod, template: ApiObject | None) -> ApiObject:
        """Return a Pod as an object with only the fields that quotas read: namespace, PriorityClass name and spec.

        The spec is the template's, with defaults. Without a template: one container with the cpu and memory requests
        that kube-scheduler counts, and no limits.
        """
        about = pod.occupies if template is None else template
        counted_pod = self._counted_pods.get((id(about), pod.priority_class_name))
        if counted_pod is None:
            counted = counted_by_requests(pod) if template is None else self._template_pod(pod, template)
            counted_pod = self._counted_pods[id(about), pod.priority_class_name] = about, counted
        return counted_pod[1]

    def _template_pod(self, pod: Pod, template: ApiObject) -> ApiObject:
        metadata = {"namespace": pod.namespace}
        spec = mapping(self._defaulted({"metadata": metadata, "spec": dict(mapping(template, "spec"))}), "spec")
        return {"metadata": metadata, "spec": {**spec, "priorityClassName": pod.priority_class_name}}


def origin_of(pod: Pod, top: Key | None, recreator: Recreator, *, before: bool) -> Origin:
    """Return the origin of a new Pod."""
    kind, name = ("", pod.key) if top is None else (top[0], "/".join(top[1:]))
    if recreator is Recreator.KUBELET:
        name = pod.key
    grace = pod.spec.termination_grace_period
    return Origin(name, pod.namespace, pod.effective_priority, pod.priority_class_name, recreator, before, grace, kind)


def node_change(old: Node, new: Node) -> str:
    """Return the change of a node in kubectl's words; "" if neither cordon nor taints changed."""
    if old.unschedulable != new.unschedulable:
        return "cordoned" if new.unschedulable else "uncordoned"
    if set(new.taints) - set(old.taints):
        return "tainted"
    return "untainted" if set(old.taints) - set(new.taints) else ""


class PodTally:
    """The numbers of stored Pods by controller and by labels."""

    def __init__(self) -> None:
        self.by_controller: dict[Key, PodCounts] = {}
        self.by_labels: dict[str, dict[int, Tally]] = {}
        """Namespace -> id of labels -> tally; entries are never removed."""

    def count(self, state: PodState | None, sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) a Pod; None: do nothing."""
        if state is None:
            return
        tallies, labels = self.by_labels.setdefault(state.pod.namespace, {}), state.pod.labels
        tally = tallies.get(id(labels))
        if tally is None:  # keeps the labels alive, so that their id stays unique
            tally = tallies[id(labels)] = Tally(labels)
        tally.count(state, sign)
        owner = controller_of(state.pod) if state.active else None
        if owner is not None:
            active, ready = self.by_controller.get(owner, PodCounts())
            self.by_controller[owner] = PodCounts(active + sign, ready + sign * (state.ready is not None))


ClaimKey = tuple[str, str]


class StoredClaims:
    """All claims and volumes. `notify`: called for each change with the kind, and the object before and after."""

    def __init__(
        self, base: ClusterObjects, pods: Mapping[ClaimKey, PodState], notify: Callable[[str, Any, Any], None]
    ) -> None:
        """Start with the claims and volumes of `base`. `pods`: all stored Pods."""
        self._pods, self._notify = pods, notify
        self._claims: Overlay[ClaimKey, PersistentVolumeClaim] = Overlay(base.claims)
        self._volumes: Overlay[ClaimKey, PersistentVolume] = Overlay(base.volumes)
        self.pods_of_claim: dict[ClaimKey, dict[ClaimKey, None]] = {}
        """Key of a claim -> the keys of the Pods that use it."""
        self._created = count(1)
        self.unlisted: frozenset[ClaimKey] = frozenset()
        """Claims that Pods on nodes use but whose volumes are unknown: new Pods are created without these claims."""

    def pod_changed(self, state: PodState | None) -> None:
        """Update the claims in use after a Pod was created or removed."""
        if state is None:
            return
        for claim in claims_of(state.pod):
            key, users = (state.pod.namespace, state.pod.name), self.pods_of_claim.setdefault(claim, {})
            if key in self._pods:
                users[key] = None
            else:
                users.pop(key, None)

    def claim(self, key: ClaimKey) -> PersistentVolumeClaim | None:
        return self._claims.get(key)

    def claims(self) -> Mapping[ClaimKey, PersistentVolumeClaim]:
        return self._claims.freeze()

    def note_unlisted(self) -> None:
        """Set `unlisted`: claims of running Pods must exist, so missing ones were not listed."""
        used = (
            key
            for key, pods in self.pods_of_claim.items()
            if any(self._pods[pod].pod.node_name and self._pods[pod].active for pod in pods)
        )
        self.unlisted = frozenset(key for key in used if not self._is_listed(key))

    def _is_listed(self, key: ClaimKey) -> bool:
        claim = self.claim(key)
        return claim is not None and (not claim.fully_bound or self.volume(claim.volume_name) is not None)

    def without_unlisted_claims(self, pod: Pod) -> Pod:
        """Return the Pod without volumes whose claims are unlisted."""
        unlisted = self.unlisted.intersection(claims_of(pod)) if self.unlisted else ()
        if not unlisted:
            return pod
        names = {name for _, name in unlisted}
        volumes = tuple(volume for volume in pod.spec.volumes if volume.claim_of(pod.name) not in names)
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(("", name))

    def volumes(self) -> Mapping[ClaimKey, PersistentVolume]:
        return self._volumes.freeze()

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        """Create or change a claim, and notify. A new claim gets a uid."""
        old = self._claims.get(claim.key)
        new = claim if claim.uid else replace(claim, uid=f"claim-{next(self._created)}")
        self._claims.put(claim.key, new)
        self._notify("Claim", old, new)

    def delete_claim(self, key: ClaimKey) -> None:
        """Delete a claim. A claim of a Pod on a node is only marked as deleting until the Pod is removed.

        Source: plugin StorageObjectInUseProtection, kubernetes `pkg/controller/volume/pvcprotection`.
        """
        old = self._claims.get(key)
        if old is None:
            return
        users = (self._pods.get(pod) for pod in self.pods_of_claim.get(key, ()))
        if any(state is not None and state.pod.node_name and not state.pod.terminal for state in users):
            if not old.deleting:
                self.put_claim(replace(old, deleting=True))
            return
        self._claims.pop(key)
        self._notify("Claim", old, None)

    def put_volume(self, volume: PersistentVolume) -> None:
        """Create or change a volume."""
        old = self._volumes.get(("", volume.name))
        self._volumes.put(("", volume.name), volume)
        self._notify("Volume", old, volume)


def claims_of(pod: Pod) -> list[ClaimKey]:
    """Return the keys of the claims that a Pod uses, existing or not."""
    names = (volume.claim_of(pod.name) for volume in pod.spec.volumes)
    return [(pod.namespace, name) for name in names if name]


_PROTECTION: float = 1e-3
"""Seconds that a write of the protection controller takes."""


def name_of_group(group: PodGroup) -> str:
    return f"PodGroup:{group.key}"


class Condition(NamedTuple):
    """The condition PodGroupInitiallyScheduled of a PodGroup."""

    status: str = ""
    reason: str = ""
    message: str = ""


class StoredPodGroups:
    """All PodGroups. `notify`: called for each change with the PodGroup before and after; None if it does not exist."""

    def __init__(
        self, clock: Clock, timeline: Timeline, pods: Callable[[], Iterable[Pod]], notify: Callable[[Any, Any], None]
    ) -> None:
        """Start without PodGroups. `pods`: returns all stored Pods."""
        self._clock, self._timeline, self._pods, self._notify = clock, timeline, pods, notify
        self._groups: dict[tuple[str, str], PodGroup] = {}
        self._conditions: dict[tuple[str, str], Condition] = {}
        self._deleting: set[tuple[str, str]] = set()
        self._uids = count(1)

    def get(self, key: tuple[str, str]) -> PodGroup | None:
        return self._groups.get(key)

    def condition(self, group: PodGroup) -> Condition:
        """Return the stored condition of a PodGroup."""
        scheduled = Condition("True", "Scheduled") if group.initially_scheduled else Condition()
        return self._conditions.get((group.namespace, group.name), scheduled)

    def put(self, group: PodGroup) -> None:
        """Create or change a PodGroup."""
        key = group.namespace, group.name
        old = self._groups.get(key)
        uid = group.uid or f"group-{next(self._uids)}"
        new = replace(group, uid=uid if old is None else old.uid)
        self._groups[key] = new
        self._timeline.add("groupCreated" if old is None else "groupUpdated", group=group.key)
        about = f"PodGroup {group.key}", group.namespace, group.priority, next(iter(group.class_names), "")
        self._timeline.origins[name_of_group(group)] = Origin(*about, Recreator.UNKNOWN, self._clock.now < 0, 0)
        self._notify(old, new)

    def delete(self, key: tuple[str, str]) -> None:
        """Delete a PodGroup. The PodGroup remains while Pods that have not terminated refer to it."""
        group = self._groups.get(key)
        if group is not None and key not in self._deleting:
            self._deleting.add(key)
            self._timeline.add("groupDeleted", group=group.key)
            self._release(key)

    def pod_deleted(self, pod: Pod) -> None:
        """Remove the PodGroup of a removed Pod, if the PodGroup is being deleted and no other Pod uses it."""
        key = pod.namespace, pod.spec.pod_group
        if key in self._deleting:
            self._release(key)

    def _release(self, key: tuple[str, str]) -> None:
        self._clock.schedule(self._clock.now + _PROTECTION, lambda: self._remove(key))

    def _remove(self, key: tuple[str, str]) -> None:
        group = self._groups.get(key)
        if group is None or key not in self._deleting or self._is_in_use(key):
            return
        self._deleting.discard(key)
        self._conditions.pop(key, None)
        del self._groups[key]
        self._timeline.add("groupGone", group=group.key)
        self._notify(group, None)

    def _is_in_use(self, key: tuple[str, str]) -> bool:
        return any((pod.namespace, pod.spec.pod_group) == key and not pod.terminal for pod in self._pods())

    def set_condition(self, key: tuple[str, str], condition: Condition) -> None:
        """Set the condition of a PodGroup, as kube-scheduler does."""
        group = self._groups.get(key)
        if group is not None:
            self._conditions[key] = condition
            self._timeline.add("groupCondition", message=condition.message, group=group.key, condition=condition[:2])
            self._notify(group, group)


PodKey = tuple[str, str]
EPOCH: Final = 1780272000.0
"""Time 0 of a simulation if no other is set: 2026-06-01T00:00:00Z, in seconds since 1970."""


class Change(NamedTuple):
    """A created (`old` None), changed, or deleted (`new` None) object.

    `kind`: Pod, Node, Workload, Status, Claim, Volume or PodGroup. If only the condition PodScheduled of a Pod changed,
    `new` is the same object as `old`.
    """

    kind: str
    old: Any
    new: Any


_WITHOUT_PDBS: Final = ("Node", "Claim", "Volume", "PodGroup")
"""Kinds whose changes do not affect PDBs."""


class ApiServer:
    """The stored objects of the simulated cluster. Each change calls all `watchers` in order."""

    def __init__(
        self, clock: Clock, timeline: Timeline, epoch: float = EPOCH, base: ClusterObjects | None = None
    ) -> None:
        """Start without objects, except for the PersistentVolumeClaims and PersistentVolumes of `base`.

        `epoch`: time 0 of the simulation in seconds since 1970.
        """
        self.clock, self.timeline, self.epoch = clock, timeline, epoch
        self.recreated: Collection[str] = ()
        """The `group/Kind`s of controllers that are not simulated and recreate their Pods."""
        self.pods: dict[PodKey, PodState] = {}
        self.storage = StoredClaims(base or ClusterObjects(), self.pods, self._notify)
        self.conditions: dict[str, tuple[str, str]] = {}
        """uid -> the last condition PodScheduled of the Pod, (reason, message); missing before the first."""
        self._never_bound: set[PodKey] = set()
        """Keys of Pods that were deleted before the start without ever having a node."""
        self.by_controller: dict[Key, dict[PodKey, PodState]] = {}
        self.tally = PodTally()
        self.evictions = 0
        """The number of Pods that the Eviction API has deleted."""
        self.by_node: dict[str, dict[PodKey, PodState]] = {}
        self.nodes: dict[str, Node] = {}
        self.replaced_nodes: dict[str, str] = {}
        """Name of a new node -> name of the node of the same group that it replaces."""
        self.workloads: dict[Key, WorkloadState] = {}
        self.revision = 0
        """Number of changes of Pods, workloads and PDBs."""
        self._index = WorkloadIndex()
        self.keys_of, self.pdbs_of = self._index.keys_of_kind, self._index.pdbs_of
        self.watchers: list[Callable[[Change], None]] = []
        self._uids = 0
        self.quotas: Quotas | None = None
        """The ResourceQuotas; None without any."""
        self.rejected: dict[PodKey, str] = {}
        """Pods without a controller that a quota rejects -> the message."""
        self.created = 0
        """Number of created Pods."""
        self.pod_groups = StoredPodGroups(
            clock, timeline, lambda: (state.pod for state in self.pods.values()), partial(self._notify, "PodGroup")
        )
        self.seconds_to_start: Callable[[], float] | None = None
        """Returns the seconds between the binding of a Pod and its readiness; None if a Pod is ready immediately."""

    @property
    def seconds(self) -> float:
        """The current time in seconds since 1970."""
        return self.epoch + self.clock.now

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return the Pod with this name, or None."""
        state = self.pods.get((namespace, name))
        return None if state is None else state.pod

    # Pods

    def rejection(self, pod: Pod, template: ApiObject | None) -> str:
        """Return why a ResourceQuota rejects a new Pod; "" if none does.

        If no quota rejects the Pod, this call charges the quotas, so the caller must store the Pod next.
        """
        if self.quotas is None or (pod.namespace, pod.name) in self.pods:
            return ""
        return self.quotas.rejection(pod, template)

    def create_pod(self, pod: Pod, template: ApiObject | None, **times: Any) -> bool:
        """Store a new Pod; return False if its name is in use. `times`: fields of PodState."""
        if (pod.namespace, pod.name) in self.pods:
            return False
        self._uids += 1
        self.created += 1
        pod = self.storage.without_unlisted_claims(pod)
        state = PodState(
            pod=replace(pod, uid=f"{self._uids:08d}", ready=False),
            created=floor(self.seconds),
            template=template,
            **times,
        )
        self._note_origin(pod, before=False)
        self.timeline.add("created", pod.key)
        self._put(None, state)
        return True

    def load_pod(self, state: PodState) -> None:
        """Store a Pod that exists at time 0."""
        self._uids += 1
        self._note_origin(state.pod, before=True)
        if not state.pod.uid:
            state = replace(state, pod=replace(state.pod, uid=f"{self._uids:08d}"))
        self._put(None, state)
        if state.terminating and not state.pod.node_name:
            self._never_bound.add((state.pod.namespace, state.pod.name))

    def bind(self, pod: Pod, node: str) -> str:
        """Bind a Pod to a node. The kubelet starts the Pod immediately. The Pod is ready immediately, or after
        `seconds_to_start`.

        Returns "", or why the API server rejects the binding. Source: `BindingREST.setPodNodeAndMetadata`.
        """
        key = pod.namespace, pod.name
        state = self.pods.get(key)
        if state is None or state.pod.uid != pod.uid or state.pod.node_name or state.terminating:
            return "is being deleted or gone"
        if state.pod.spec.gated:
            return "has non-empty .spec.schedulingGates"
        target = self.nodes.get(node)
        bound = state.pod.bound_to(node, target.labels if target else {})
        self.timeline.add("scheduled", pod.key, node)
        self.conditions.pop(state.pod.uid, None)
        started = replace(bound, start_time=floor(self.seconds))
        if self.seconds_to_start is None:
            self._run(state, started)
        else:
            self._put(state, replace(state, pod=started))
            self.clock.schedule(self.clock.now + self.seconds_to_start(), partial(self._have_run, key, pod.uid))
        return ""

    def _have_run(self, key: PodKey, uid: str) -> None:
        """Set a Pod to ready, unless it is terminating or no longer exists."""
        state = self.pods.get(key)
        if state is not None and state.pod.uid == uid and not state.terminating:
            self._run(state, state.pod)

    def _run(self, state: PodState, started: Pod) -> None:
        running = replace(started, phase="Running", ready=True)
        self._put(state, replace(state, pod=running, ready=float(floor(self.seconds))))

    def patch_pod_status(self, key: PodKey, condition: tuple[str, str] | None, nominated: str | None) -> None:
        """Set PodScheduled (reason, message) and the nominated node ("" clears it); None: no change."""
        state = self.pods.get(key)
        if state is None:
            return
        if condition is not None:
            self.conditions[state.pod.uid] = condition
        pod = state.pod
        if nominated is not None and nominated != pod.nominated_node_name:
            event = "nominated" if nominated else "nominationCleared"
            self.timeline.add(event, pod.key, nominated or pod.nominated_node_name)
            pod = replace(pod, nominated_node_name=nominated)
        if pod is state.pod:  # only the condition changed, which is stored separately
            self._notify("Pod", state, state)
        else:
            self._put(state, replace(state, pod=pod))

    def disrupt(self, key: PodKey, uid: str = "", *, preempted: bool = False) -> bool:
        """Set the condition DisruptionTarget of a Pod; return False if the Pod no longer exists.

        A Pod has one such condition, and the last reason counts: a preemption (`preempted`), or another one. `uid`: see
        `remove_pod`.
        """
        state = self.pods.get(key)
        if state is None or (uid and state.pod.uid != uid):
            return False
        if preempted or state.pod.preempted or not state.disrupted:
            disrupted = state.disrupted or not preempted
            self._put(state, replace(state, pod=replace(state.pod, preempted=preempted), disrupted=disrupted))
        return True

    def update_pod(self, new: Pod, template: ApiObject | None) -> None:
        """Apply a user's change of labels, tolerations or scheduling gates to a stored Pod."""
        state = self.pods.get((new.namespace, new.name))
        if state is None:
            return
        spec = replace(state.pod.spec, tolerations=new.spec.tolerations, gated=new.spec.gated)
        pod = replace(state.pod, labels=new.labels, spec=spec)
        self._put(state, replace(state, pod=pod, template=template))

    def delete_pod(
        self,
        key: PodKey,
        event: str,
        *,
        by: str = "",
        message: str = "",
        change: str = "",
        force: bool = False,
        disrupted: bool = False,
    ) -> bool:
        """Delete a Pod, gracefully if it is on a node; return False if the Pod no longer exists. A second deletion has
        no effect.

        `event`: name of the deletion in the timeline. `by`: the preemptor. `change`: see Event. `force`: remove the Pod
        immediately. `disrupted`: set the condition DisruptionTarget first, if the Pod is removed immediately.
        """
        state = self.pods.get(key)
        if state is None:
            return False
        first = not state.terminating
        if first or event == "preempted":
            self.timeline.add(event, state.pod.key, state.pod.node_name, by=by, message=message, change=change)
        if not state.pod.node_name or force or state.pod.spec.termination_grace_period == 0:
            self.remove_pod(key, disrupted=disrupted)
        elif first:
            ending = replace(state.pod, terminating=True)
            self._put(state, replace(state, pod=ending, deleted=float(floor(self.seconds))))
        return True

    def complete_pod(self, key: PodKey, uid: str) -> None:
        """Let a Pod's containers exit with status 0; do nothing if it is terminating, or it or its node is gone."""
        state = self.pods.get(key)
        if state is None or state.pod.uid != uid or not state.active or state.pod.node_name not in self.nodes:
            return
        self.timeline.add("succeeded", state.pod.key, state.pod.node_name)
        if self.quotas is not None:
            self.quotas.pod_deleted(state)
        done = replace(state.pod, phase="Succeeded", ready=False)
        self._put(state, replace(state, pod=done, ready=None, finished=self.seconds))

    def remove_pod(self, key: PodKey, uid: str = "", *, disrupted: bool = False) -> None:
        """Remove a Pod. `uid`: only if it has this uid; "": any. `disrupted`: see `delete_pod`."""
        state = self.pods.get(key)
        if state is None or (uid and state.pod.uid != uid):
            return
        self.timeline.add("gone", state.pod.key, state.pod.node_name)
        self.conditions.pop(state.pod.uid, None)
        if state.deleted is None or disrupted != state.disrupted:
            deleted = float(floor(self.seconds)) if state.deleted is None else state.deleted
            state = replace(state, deleted=deleted, disrupted=disrupted or state.disrupted)
        self._put(state, None)
        self.pod_groups.pod_deleted(state.pod)
        if self.quotas is not None:
            self.quotas.pod_deleted(state)

    def _note_origin(self, pod: Pod, *, before: bool) -> None:
        owner = controller_of(pod)
        state = self.workloads.get(owner) if owner else None
        recreator = again(pod, self.recreated, is_there=state is not None)
        top = state.controller if state and state.controller else owner
        self.timeline.origins[pod.key] = origin_of(pod, top, recreator, before=before)

    def _put(self, old: PodState | None, new: PodState | None) -> None:
        """Store a new or changed Pod, or remove one (`new` None), and notify the watchers.

        A changed Pod does not change its position in the tables, which are in the order of creation.
        """
        if old is not None:  # the stored state may be newer than `old`
            self.tally.count(self.pods.get((old.pod.namespace, old.pod.name)), -1)
        if new is not None:
            for table in self._tables_of(new.pod):
                table[new.pod.namespace, new.pod.name] = new
        elif old is not None:
            for table in self._tables_of(old.pod):
                table.pop((old.pod.namespace, old.pod.name), None)
        if new is None or old is None:
            self.storage.pod_changed(old or new)
        self.tally.count(new, 1)
        self._notify("Pod", old, new)

    def _tables_of(self, pod: Pod) -> list[dict[PodKey, PodState]]:
        tables = [self.pods]
        if pod.node_name:
            tables.append(self.by_node.setdefault(pod.node_name, {}))
        owner = controller_of(pod)
        if owner is not None:
            tables.append(self.by_controller.setdefault(owner, {}))
        return tables

    def strays(self) -> list[PodState]:
        """Return Pods on missing nodes, and terminating Pods that never had a node, in the order of creation."""
        return [
            state
            for key, state in self.pods.items()
            if key in self._never_bound or (state.pod.node_name and state.pod.node_name not in self.nodes)
        ]

    # Nodes, workloads and budgets

    def put_node(self, node: Node, *, in_timeline: bool = True) -> None:
        """Create or change a node. `in_timeline`: whether a change is an event of the timeline."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if old is None:
            self.timeline.add("nodeAdded", node=node.name)
        elif in_timeline:
            self.timeline.add("nodeUpdated", node=node.name, change=node_change(old, node))
        self._notify("Node", old, node)

    def remove_node(self, name: str) -> None:
        """Delete a node. The Pods on the node remain until Pod garbage collection."""
        old = self.nodes.pop(name, None)
        if old is not None:
            self.timeline.add("nodeRemoved", node=name)
            self._notify("Node", old, None)

    def owned(self, key: Key) -> list[WorkloadState]:
        return [self.workloads[item] for item in self._index.owned(key)]

    def put_workload(self, state: WorkloadState) -> None:
        """Create a workload or PDB, or change its spec. Raises InvalidObject for an invalid PDB."""
        old = self.workloads.get(state.key)
        self.workloads[state.key] = state
        self._index.put(old, state)
        self._notify("Workload", old, state)

    def set_status(self, key: Key, status: Any) -> None:
        """Set the status of a workload or PDB, if it exists."""
        old = self.workloads.get(key)
        if old is not None:
            self.workloads[key] = replace(old, status=status)
            self._notify("Status", old, self.workloads[key])

    def remove_workload(self, key: Key) -> None:
        """Delete a workload or PDB. Pods of a workload are deleted later, by garbage collection."""
        old = self.workloads.pop(key, None)
        if old is not None:
            self._index.remove(old)
            self._notify("Workload", old, None)

    def _notify(self, kind: str, old: Any, new: Any) -> None:
        self.revision += kind not in _WITHOUT_PDBS
        change = Change(kind, old, new)
        for watcher in self.watchers:
            watcher(change)


class ControllerView:
    """The View (see `policies.kubernetes.controllers.view`) of the simulated API server."""

    def __init__(
        self,
        api: ApiServer,
        semantics: Semantics,
        admission: Callable[[ApiObject], Pod],
        draw: Callable[[], float] | None = None,
        default_class: str = "",
    ) -> None:
        """Create the view. `admission`: converts an API object to a Pod with defaults; may raise InvalidObject. `draw`:
        returns random numbers for choices that upstream leaves open; None: fixed choices. `default_class`: the default
        StorageClass.
        """
        self.semantics = semantics
        self._default_class = default_class
        self._draw = draw
        self.order: Mapping[str, int] = {}
        """Sort keys by name for `lot` with fixed choices."""
        self._api, self._admission = api, admission
        self.workload, self.owned = api.workloads.get, api.owned
        self._selected: dict[Key, _Selected] = {}
        self._admitted: dict[int, tuple[ApiObject, Pod]] = {}
        self._deleted: dict[Key, dict[str, PodState]] = {}
        self._released: dict[Key, set[str]] = {}

    def admit_by(self, admission: Callable[[ApiObject], Pod]) -> None:
        """Replace the function that admits new Pods."""
        self._admission = admission
        self._admitted.clear()

    def keep(self, key: Key, state: PodState) -> None:
        """Store a Job's removed Pod until the Job has counted it; do nothing if it has already."""
        released = self._released.get(key, set())
        if state.pod.uid in released:
            released.discard(state.pod.uid)
        else:
            self._deleted.setdefault(key, {})[state.pod.uid] = state

    def release(self, key: Key, uid: str) -> None:
        """Record that a Job has counted a terminated Pod, which may still exist for a while."""
        if self._deleted.get(key, {}).pop(uid, None) is None:
            self._released.setdefault(key, set()).add(uid)

    def forget(self, key: Key) -> None:
        """Drop the Pods of a deleted workload: a new Job of this name does not count them."""
        self._deleted.pop(key, None)
        pods = self._api.by_controller.get(key, {}).values() if key[0] == JOB else ()
        self._released[key] = {state.pod.uid for state in pods}

    def pods_of(self, key: Key, /) -> Sequence[PodState]:
        """Return a workload's Pods; for a Job including removed Pods, but without Pods that it has counted."""
        present = self._api.by_controller.get(key, {}).values()
        deleted, released = self._deleted.get(key, {}), self._released.get(key)
        if not deleted and not released:
            return list(present)
        return [*deleted.values(), *(state for state in present if state.pod.uid not in (released or ()))]

    def counts(self, key: Key, /) -> PodCounts | None:
        return self._api.tally.by_controller.get(key, PodCounts())

    def selected(self, state: WorkloadState, /) -> Iterable[Tally]:
        """Return the counts of the Pods that a PDB selects, one Tally for all Pods with the same labels."""
        cached = self._selected.get(state.key)
        if cached is None or cached.object is not state.object:
            cached = self._selected[state.key] = _Selected(state.object)
        return cached.select(self._api.tally.by_labels.get(state.key[1], {}))

    def pods_on(self, node: str, /) -> Sequence[PodState]:
        return list(self._api.by_node.get(node, {}).values())

    def claim(self, namespace: str, name: str, /) -> PersistentVolumeClaim | None:
        return self._api.storage.claim((namespace, name))

    def default_storage_class(self) -> str:
        """Return the name of the default StorageClass; "" for none."""
        return self._default_class

    @property
    def draws(self) -> bool:
        """Whether choices that upstream leaves open are random."""
        return self._draw is not None

    def lot(self, name: str, /) -> float:
        """Return a random number, as a sort key for choices that upstream leaves to the order of a Go map; for fixed
        choices, the number in `order`, or 0.
        """
        return self.order.get(name, 0) if self._draw is None else self._draw()

    def nodes(self) -> Mapping[str, Node]:
        return self._api.nodes

    def admit(self, template: ApiObject, make: Callable[[], ApiObject], /) -> Pod:
        """Return the Pod of a template after admission; computed once for each template."""
        cached = self._admitted.get(id(template))
        if cached is None:
            cached = self._admitted[id(template)] = template, self._admission(make())
        return cached[1]


class _Selected:
    """The tallies of a namespace that the selector of a PDB matches. Tallies are never removed."""

    def __init__(self, obj: ApiObject) -> None:
        self.object, self._pdb = obj, PodDisruptionBudget.from_api(obj)
        self._looked_at, self._found = 0, list[Tally]()

    def select(self, tallies: Mapping[int, Tally]) -> Sequence[Tally]:
        """Return the matching tallies. `tallies`: all of the namespace, including those of the last call."""
        if self._looked_at < len(tallies):
            new = islice(tallies.values(), self._looked_at, None)
            self._found += [tally for tally in new if self._pdb.selects(tally.labels)]
            self._looked_at = len(tallies)
        return self._found
