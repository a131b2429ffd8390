"""kube-scheduler in a simulation: its loop, its binding cycles, and its reactions to changes.

Source: kubernetes `pkg/scheduler/schedule_one.go`, `eventhandlers.go`.
"""

from __future__ import annotations

from functools import partial
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.copies import replace
from forewarn.policies.releases.semantics import DEFAULT
from forewarn.policies.scheduling.arguments import VolumeBindingArgs
from forewarn.policies.scheduling.configuration import configuration_of
from forewarn.policies.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.scheduling.filtering import SCHEDULER_ERROR
from forewarn.policies.scheduling.pdb_violations import matching
from forewarn.policies.scheduling.plugins.dynamic_resources import DynamicResources
from forewarn.policies.scheduling.plugins.scheduling_gates import SchedulingGates
from forewarn.policies.scheduling.queue.backoff_queue import seconds_of_backoff
from forewarn.policies.scheduling.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    CLAIM_ADD,
    CLAIM_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    RESOURCE_CLAIM_UPDATE,
    UNSCHEDULED_POD_ADD,
    VOLUME_ADD,
    VOLUME_UPDATE,
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from forewarn.policies.scheduling.queue.nominator import Nominator
from forewarn.policies.scheduling.queue.pod_info import QueuedPodGroupInfo
from forewarn.policies.scheduling.queue.priority_queue import (
    FLUSH_PERIOD,
    MAX_IN_UNSCHEDULABLE_PODS,
    PriorityQueue,
    le_priority_pre_check,
)
from forewarn.policies.scheduling.queue.registrations import QueueingHints
from forewarn.policies.simulation.api_server import PDB
from forewarn.policies.simulation.cycle import Rejected, SchedulingAlgorithm, volumes_on
from forewarn.policies.simulation.device_claims import DeviceClaims, devices_on
from forewarn.policies.simulation.pod_group_scheduling import PodGroupScheduling
from forewarn.policies.simulation.preemption_executor import PreemptionExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from forewarn.policies.controllers.view import PodState
    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.plugins.storage_score import PodVolumes
    from forewarn.policies.scheduling.pod_group_preemption import GroupPreemption
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.queue.pod_info import Entity, QueuedPodInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.simulation.api_server import ApiServer, Change
    from forewarn.policies.simulation.clock import Clock, Latencies
    from forewarn.policies.simulation.device_claims import ClaimUpdate
    from forewarn.policies.simulation.scheduler_cache import SchedulerCache


class ViolatedPdbs:
    """Counts the violations of a simulation.

    A cycle may choose victims that an earlier cycle chose, because they are still terminating: each counts once.
    Several cycles may evict Pods of a PDB before its status changes: all of them count against this status.
    """

    def __init__(self) -> None:
        """Start without evictions."""
        self.counts: dict[str, int] = {}
        """`namespace/name` of a PDB -> number of evicted Pods beyond its allowed disruptions."""
        self._evicted: set[tuple[str, str]] = set()
        """(`namespace/name`, uid) of all victims."""
        self._since: dict[str, tuple[PodDisruptionBudget, int]] = {}
        """`namespace/name` of a PDB -> (its last state, number of victims that this state does not include)."""

    def add(self, snapshot: Snapshot, victims: Sequence[Pod]) -> None:
        """Count the violations by the eviction of these victims. `snapshot`: before the eviction."""
        for victim in victims:
            identity = victim.key, victim.uid
            if victim.terminating or identity in self._evicted:
                continue
            self._evicted.add(identity)
            for pdb in matching(victim, snapshot.pdbs.get(victim.namespace, ())):
                if victim.name not in pdb.disrupted_pods:
                    self._count(pdb)

    def _count(self, pdb: PodDisruptionBudget) -> None:
        name = f"{pdb.namespace}/{pdb.name}"
        state, evicted = self._since.get(name, (pdb, 0))
        if state is not pdb:
            # The new status may lack the last evictions: it includes as many as it allows fewer than before.
            fewer = state.disruptions_allowed - pdb.disruptions_allowed
            evicted = max(evicted - fewer, 0) if fewer > 0 else 0
        evicted += 1
        self._since[name] = pdb, evicted
        if evicted > pdb.disruptions_allowed:
            self.counts[name] = self.counts.get(name, 0) + 1


_POLL_SECONDS: Final = 1.0
"""Seconds between two checks whether all claims are bound."""


class VolumeBinder:
    """Writes the selected volumes and nodes of a Pod's claims to the API server, and waits until the claims are
    bound.
    """

    def __init__(
        self, clock: Clock, api: ApiServer, cache: SchedulerCache, latencies: Latencies, semantics: Semantics
    ) -> None:
        self._clock, self._api, self._cache, self._latencies = clock, api, cache, latencies
        self._semantics = semantics

    def assume(self, volumes: PodVolumes, node: str) -> None:
        """Assume that the claims are bound to their volumes, and that volumes are provisioned for `node`, until the API
        server confirms it.

        Source: upstream `AssumePodVolumes`.
        """
        for claim, volume in volumes.matched:
            self._cache.put_volume(_bound(volume, claim))
        for claim in volumes.to_provision:
            self._cache.put_claim(replace(claim, selected_node=node))

    def revert(self, volumes: PodVolumes) -> None:
        """Undo `assume`: use the stored volumes and claims again. Source: upstream `RevertAssumedPodVolumes`."""
        for _, volume in volumes.matched:
            stored_volume = self._api.storage.volume(volume.name)
            if stored_volume is not None:
                self._cache.put_volume(stored_volume)
        for claim in volumes.to_provision:
            stored = self._api.storage.claim(claim.key)
            if stored is not None:
                self._cache.put_claim(stored)

    def bind(self, pod: Pod, node: str, volumes: PodVolumes) -> Generator[float | None, None, str]:
        """Bind the volumes of a Pod; return why this failed, or "" when all claims are bound.

        A volume or claim that changed since the scheduling cycle causes a conflict. Source: upstream `BindPodVolumes`.
        """
        for claim, volume in volumes.matched:
            yield self._latencies.write("update", f"/{volume.name}")
            stored_volume = self._api.storage.volume(volume.name)
            if stored_volume is not volume:
                return f'volume "{volume.name}" has changed'
            self._api.storage.put_volume(_bound(stored_volume, claim))
        for claim in volumes.to_provision:
            yield self._latencies.write("update", "/".join(claim.key))
            stored = self._api.storage.claim(claim.key)
            if stored is not claim:
                return f'claim "{"/".join(claim.key)}" has changed'
            self._api.storage.put_claim(replace(stored, selected_node=node))
        until = self._clock.now + self._timeout(pod)
        while self._clock.now + _POLL_SECONDS <= until:
            yield _POLL_SECONDS
            problem = self._problem(pod, node, volumes)
            if problem is None:
                return ""
            if problem:
                return f"binding volumes: {problem}"
        return "binding volumes: context deadline exceeded"

    def _timeout(self, pod: Pod) -> float:
        profile = configuration_of(self._semantics).profile(pod.spec.scheduler_name)
        args = None if profile is None else profile.args.get("VolumeBinding")
        return float((args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()).bind_timeout_seconds)

    def _problem(self, pod: Pod, node: str, volumes: PodVolumes) -> str | None:
        """Return why binding fails; "" while it is pending; None if all claims are bound. Source: upstream
        `checkBindings`.
        """
        target = self._api.nodes.get(node)
        if target is None:
            return f'failed to get node "{node}": node "{node}" not found'
        if self._api.pod(pod.namespace, pod.name) is None:
            return "pod does not exist any more"
        every = True
        for claim in (*(claim for claim, _ in volumes.matched), *volumes.to_provision):
            stored = self._api.storage.claim(claim.key)
            if stored is None:
                return f'failed to check binding: could not find object "{"/".join(claim.key)}"'
            every = every and stored.fully_bound
        for claim in volumes.to_provision:
            stored = self._api.storage.claim(claim.key)
            if stored is None or stored.selected_node != node:
                return f'provisioning failed for PVC "{claim.name}"'
            volume = self._api.storage.volume(stored.volume_name)
            if volume is not None and not volume.reachable_from(target.labels):
                return f'pv "{volume.name}" node affinity doesn\'t match node "{node}"'
        return None if every else ""


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    return replace(volume, claim=_reference(claim))


def _reference(claim: PersistentVolumeClaim) -> tuple[str, str, str]:
    return claim.namespace, claim.name, claim.uid


QUEUE_STARTS: Final = -0.5
"""The time at which the periodic flushes of the queue begin, in simulated seconds."""
UNSCHEDULABLE: Final = "Unschedulable"
"""The reason in the condition PodScheduled of a Pod that fits on no node."""
Steps = "Generator[float | None, None, None]"


class Scheduler:
    """A simulated kube-scheduler.

    `choose`, `tie`: see SchedulingAlgorithm. `semantics`: of its release and configuration.
    """

    def __init__(
        self,
        clock: Clock,
        api: ApiServer,
        cache: SchedulerCache,
        latencies: Latencies,
        choose: Callable[[Sequence[str]], str],
        tie: Callable[[Sequence[str]], str] | None = None,
        semantics: Semantics = DEFAULT,
        *,
        has_pod_groups: bool = False,
    ) -> None:
        """Start the loop and watch the API server. `has_pod_groups`: whether Pods are scheduled by their PodGroups."""
        self._names, self._announces = semantics.scheduler_names, semantics.expected_bindings_are_announced
        self._binder = VolumeBinder(clock, api, cache, latencies, semantics)
        self.clock, self.api, self.cache, self.latencies = clock, api, cache, latencies
        self.algorithm = SchedulingAlgorithm(cache.node_tree, choose, tie)
        self.nominator = Nominator(api.pod, cache.nominate)
        executor = PreemptionExecutor(
            clock, api, latencies, self._nominated, cache.group_of if has_pod_groups else lambda _: None
        )
        self._executor, self._devices = executor, DeviceClaims(cache)
        self.ignored: set[str] = set()
        """Identities of Pods that were Pending at the start, and whose devices forewarn does not model."""
        self._groups = PodGroupScheduling(self)
        plugins = (SchedulingGates, executor, *([self._groups] if has_pod_groups else ()))
        gates = {
            name: [plugin for plugin in plugins if plugin.name in profile.at("preEnqueue")]
            for name, profile in configuration_of(semantics).profiles.items()
        }
        waits, hints = seconds_of_backoff(semantics), QueueingHints.of_profiles(semantics)
        self.queue = PriorityQueue(
            lambda: clock.now, self.nominator, hints, gates, backoff=waits, has_pod_groups=has_pod_groups
        )
        self.violated_pdbs = ViolatedPdbs()
        self.before_preemption: Callable[[Rejected, Candidate, Pod], None] | None = None
        """Called for each preemption before the evictions: the decision, its victims and the preemptor."""
        self.late = 0
        """How many times a Pod fits or preempts only after MAX_IN_UNSCHEDULABLE_PODS: races decide whether it waits."""
        self._flush_due = self._backoff_due = float("inf")
        self._attempting: Entity | None = None
        """The entity with which the loop continues, popped before the last write was reported."""
        api.watchers.append(self.handle)
        self._loop = clock.spawn(self._run())

    def _nominated(self, node: str) -> list[Pod]:
        """Return the queued Pods that are nominated to a node, as the API server stores them. Source:
        `nominatedPodToInfo`.
        """
        infos = (self.queue.get(pod) for pod in self.nominator.pods_for_node(node))
        return [info.pod for info in infos if info is not None]

    # The loop

    def _run(self) -> Generator[float | None, None, None]:
        while True:
            info, self._attempting = self._attempting or self.queue.pop(), None
            if info is None:
                self._arrange_flushes()
                yield None
            elif isinstance(info, QueuedPodGroupInfo):
                yield from self._groups.schedule_one(info)
            elif self.cache.is_assumed(info.pod):
                self.queue.done(info.pod)
            else:
                yield from self._schedule_one(info)

    def _schedule_one(self, info: QueuedPodInfo) -> Generator[float | None, None, None]:
        yield self.latencies.cycle(info.pod.key)
        snapshot = self.cache.snapshot()
        result = self.algorithm.schedule_pod(snapshot, info.pod)
        is_late = self.clock.now - info.timestamp > MAX_IN_UNSCHEDULABLE_PODS
        self.late += is_late and (not isinstance(result, Rejected) or result.candidate is not None)
        if isinstance(result, Rejected):
            if result.candidate is not None:
                self.violated_pdbs.add(snapshot, result.candidate.victims)
                if self.before_preemption is not None:
                    self.before_preemption(result, result.candidate, info.pod)
                self._executor.prepare_candidate(result.candidate, info.pod)
            if DynamicResources.name in result.plugins:
                self._claims_changed(self._devices.deallocate_unavailable(snapshot, info.pod))
            patch = self.fail(info, result)
            if patch is not None:
                yield self.latencies.write("patch", info.pod.key)
                self.take_next()  # before informers report the write
                patch()
            return
        volumes = volumes_on(snapshot, info.pod, result.node)
        devices = devices_on(snapshot, info.pod, result.node)
        self.assume(info, result.node)
        if volumes is not None:
            self._binder.assume(volumes, result.node)
        reserved = self._devices.reserve(info.pod, devices)
        self.clock.spawn(self._bind(info, result.node, volumes, reserved))

    # What cycles of PodGroups need

    def assume(self, info: QueuedPodInfo, node: str) -> None:
        """Treat a Pod as bound to this node from now on."""
        self.cache.assume(info.pod, node)
        self.nominator.delete(info.pod)
        self.queue.done(info.pod)

    def bind(self, info: QueuedPodInfo, node: str) -> None:
        """Bind a Pod of a PodGroup, which has no volumes to bind, concurrently with the loop."""
        self.clock.spawn(self._bind(info, node, None, ()))

    def preempt_for_group(self, preemption: GroupPreemption, group: PodGroup) -> None:
        """Evict the victims of the preemption for a PodGroup, and record the violated PDBs."""
        self.violated_pdbs.add(self.cache.snapshot(), preemption.pods)
        self._executor.prepare_for_group(preemption.pods, group)

    def take_next(self) -> None:
        """Pop the next Pod or PodGroup for the loop, before informers report the last write."""
        self._attempting = self.queue.pop()

    def _bind(
        self, info: QueuedPodInfo, node: str, volumes: PodVolumes | None, reserved: Sequence[ClaimUpdate]
    ) -> Generator[float | None, None, None]:
        """Run the binding cycle of a Pod, concurrently with the loop.

        `volumes`: to bind first; None: none. `reserved`: see `DeviceClaims.reserve`.
        """
        pod, message = info.pod, ""
        waits = pod.uid in self._groups.waiting
        if (volumes is not None or waits) and self._announces and pod.nominated_node_name != node:
            yield self.latencies.write("patch", pod.key)
            self.api.patch_pod_status((pod.namespace, pod.name), None, node)
        if waits:
            message = yield from self._groups.waiting.wait(pod.uid, self.clock.running)
        if volumes is not None:
            message = yield from self._binder.bind(pod, node, volumes)
        for _ in reserved if not message else ():
            yield self.latencies.write("update", pod.key)
        self._claims_changed(reserved)
        if not message:
            yield self.latencies.write("bind", pod.key)
            if not (why := self.api.bind(pod, node)):
                return
            message = f"binding rejected: pod {pod.key} {why}"
        if volumes is not None:
            self._binder.revert(volumes)
        self._claims_changed(self._devices.release(pod))
        if self.cache.forget(pod):
            self._move(ASSIGNED_POD_DELETE, pod.bound_to(node, {}), None)
        patch = self.fail(info, Rejected(message, nominated="", error=True))
        if patch is not None:
            yield self.latencies.write("patch", pod.key)
            patch()

    def fail(self, info: QueuedPodInfo, result: Rejected) -> Callable[[], None] | None:
        """Requeue a rejected Pod. Returns a function that stores the Pod's new status; None if the status does not
        change.

        Source: upstream `handleSchedulingFailure`.
        """
        info.unschedulable_plugins, info.pending_plugins = set(result.plugins), set()
        stored = self.api.pod(info.pod.namespace, info.pod.name)
        if stored is not None and not stored.node_name:
            if stored.uid != info.pod.uid:
                self.queue.done(info.pod)
                return None
            info.pod = stored
            self.queue.add_unschedulable_if_not_present(info)
            self._woken()
        else:
            self.queue.done(info.pod)
        pod = info.pod
        self.nominator.add(pod, result.nominated)
        self.api.timeline.add("unschedulable", pod.key, message=result.message)
        condition = (SCHEDULER_ERROR if result.error else UNSCHEDULABLE, result.message)
        is_unchanged = self.api.conditions.get(pod.uid) == condition
        nominates = result.nominated is not None and result.nominated != pod.nominated_node_name
        if is_unchanged and not nominates:
            return None
        nominated = result.nominated if nominates else None
        return partial(self.api.patch_pod_status, (pod.namespace, pod.name), condition, nominated)

    # News

    def handle(self, change: Change) -> None:
        """Handle a stored change as upstream's event handlers do."""
        if change.kind == "Pod":
            old, new = change.old, change.new
            if old is not None and new is not None and new.pod.terminal:
                new = None  # upstream's informer does not list terminated Pods
            if not (new or old).pod.terminal:
                self._handle_pod(old, new)
        elif change.kind == "Node":
            self._handle_node(change.old, change.new)
        elif change.kind == "Claim":
            self._handle_claim(change.old, change.new)
        elif change.kind == "PodGroup":
            self._groups.handle(change.old, change.new)
        elif change.kind == "Volume":
            self.cache.put_volume(change.new)
            self._move(VOLUME_ADD if change.old is None else VOLUME_UPDATE, change.old, change.new)
        elif change.new is None:
            self.cache.remove_workload(change.old)
        elif change.kind != "Status" or change.new.key[0] == PDB:  # of others plugins read no status
            self.cache.put_workload(change.new)
        self._woken()

    def _handle_pod(self, old: PodState | None, new: PodState | None) -> None:
        """Handle a change of a Pod that has not terminated; None: it did not exist or no longer exists."""
        if new is None:
            if old is not None:
                self._pod_deleted(old.pod)
        elif old is None:
            self._pod_added(new.pod)
        elif old.pod.node_name:
            self._bound_pod_changed(old.pod, new.pod)
        elif new.pod.node_name:
            self.cache.add_pod(new.pod)
            self._move(ASSIGNED_POD_ADD, None, new.pod)
            self.queue.delete(old.pod)
        elif self._is_simulated(old.pod):
            self._waiting_pod_changed(old.pod, new.pod)

    def _pod_added(self, pod: Pod) -> None:
        if pod.node_name:
            self.cache.add_pod(pod)
            self._move(ASSIGNED_POD_ADD, None, pod)
        elif self._is_simulated(pod):
            self.cache.group_states.put(pod)
            self.queue.add(pod)
            if self.queue.groups is not None:
                self._move(UNSCHEDULED_POD_ADD, None, pod)

    def _is_simulated(self, pod: Pod) -> bool:
        return responsible_for_pod(pod, self._names) and pod.identity not in self.ignored

    def _pod_deleted(self, pod: Pod) -> None:
        if pod.node_name:
            self.cache.remove_pod(pod)
            self._move(ASSIGNED_POD_DELETE, pod, None)
            if self._devices.has(pod):
                self.clock.spawn(self._release_devices(pod))
            return
        self.queue.delete(pod)
        if self.cache.is_assumed(pod):
            self.cache.forget(pod)
            self.cache.group_states.remove(pod)
            self._move(ASSIGNED_POD_DELETE, pod, None)
            return
        self.cache.group_states.remove(pod)
        if pod.nominated_node_name:
            self._move(ASSIGNED_POD_DELETE, pod, None, le_priority_pre_check(pod))

    def _release_devices(self, pod: Pod) -> Generator[float | None, None, None]:
        yield self.latencies.write("update", pod.key)
        self._claims_changed(self._devices.release(pod))
        self._woken()

    def _claims_changed(self, changes: Iterable[ClaimUpdate]) -> None:
        for old, new in changes:
            self._move(RESOURCE_CLAIM_UPDATE, old, new)

    def _bound_pod_changed(self, old: Pod, new: Pod) -> None:
        self.cache.add_pod(new)
        for event in pod_scheduling_properties_change(new, old):
            self._move(event, old, new)

    def _waiting_pod_changed(self, old: Pod, new: Pod) -> None:
        """Handle the change of a Pod without a node. Source: upstream `updatePodInSchedulingQueue`."""
        if self.cache.is_assumed(new):
            return
        self.queue.update(old, new)
        if old.nominated_node_name and old.nominated_node_name != new.nominated_node_name:
            self._move(ASSIGNED_POD_DELETE, old, None, le_priority_pre_check(old))

    def _handle_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._move(NODE_DELETE, old, None)
                self.cache.remove_node(old.name)
            return
        self.cache.put_node(new)
        events = [NODE_ADD] if old is None else node_scheduling_properties_change(new, old)
        for event in events:
            self._move(event, old, new)

    def _handle_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self.cache.put_claim(new)
            self._move(CLAIM_ADD if old is None else CLAIM_UPDATE, old, new)
        elif old is not None:
            self.cache.remove_claim(old)

    def _move(self, event: Any, old: Any, new: Any, check: Callable[[Pod], bool] | None = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, check)

    # Time

    def _woken(self) -> None:
        """Wake the idle loop if there is an entity to pop or a flush to schedule."""
        if not self._loop.parked:
            return
        if self.queue.has_next or self._backoff_to_arrange() is not None or self._flush_is_to_arrange():
            self._loop.wake()

    def _arrange_flushes(self) -> None:
        """Schedule the next flushes of the queue for the time when a Pod is due.

        Upstream flushes every whole second (back-off) and every 30 s (unschedulable Pods).
        """
        now, due = self.clock.now, self._backoff_to_arrange()
        if due is not None:
            self._backoff_due = max(due, floor(now) + 1.0)
            self.clock.at(self._backoff_due, self._flush_backoff)
        if self._flush_is_to_arrange():
            rounds = floor((now - QUEUE_STARTS) / FLUSH_PERIOD) + 1
            oldest = min(info.timestamp for info in self.queue.unschedulable.values()) + MAX_IN_UNSCHEDULABLE_PODS
            rounds = max(rounds, ceil((oldest - QUEUE_STARTS) / FLUSH_PERIOD))
            self._flush_due = QUEUE_STARTS + FLUSH_PERIOD * rounds
            self.clock.at(self._flush_due, self._flush_unschedulable)

    def _backoff_to_arrange(self) -> float | None:
        """Return the second at which a flush finds the first expired back-off; None without back-offs, or if a
        flush is scheduled.
        """
        due = self.queue.backoff.first_completed()
        return None if due is None or self.clock.now <= self._backoff_due <= due + 1 else due + 1

    def _flush_is_to_arrange(self) -> bool:
        return bool(self.queue.unschedulable) and not self.clock.now < self._flush_due < float("inf")

    def _flush_backoff(self) -> None:
        self._backoff_due = float("inf")
        self.queue.flush_backoff_completed()
        self._woken()

    def _flush_unschedulable(self) -> None:
        self._flush_due = float("inf")
        self.queue.flush_unschedulable_leftover()
        self._woken()
