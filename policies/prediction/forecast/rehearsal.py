"""Simulate new Pods within an admission request. The result equals that of a simulation of the whole cluster.

Loads only the relevant Pods and workloads: those of the changed workload, Pending Pods, and victims with the
workloads that act when they are preempted. The scheduler uses the existing Snapshot with all Pods. PDBs start with
their current allowed disruptions, which change with the healthy Pods that the PDBs select. Pods count as ready since
their start, without restarts and deletion costs.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.base.cow_table import derived
from forewarn.policies.base.metering import CutShort, charge
from forewarn.policies.kubernetes.cluster.admission import admitted, with_default_resources
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, seconds_of
from forewarn.policies.kubernetes.controllers.own_pods import (
    Adoption,
    controlled,
    controller_in,
    is_rolled_out,
    owned_pods_of,
    pods_of,
)
from forewarn.policies.kubernetes.controllers.templates import template_of
from forewarn.policies.kubernetes.controllers.view import Key, PodState, WorkloadState, controller_of
from forewarn.policies.kubernetes.kinds.registry import CRON_JOB, DAEMON_SET, DEPLOYMENT, POD
from forewarn.policies.kubernetes.objects.extent import check_extent, check_metadata_extent
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, group_kind, int32, mapping, ref_of
from forewarn.policies.kubernetes.objects.workload import Workload
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.not_predicted import victims_tie
from forewarn.policies.kubernetes.scheduling.preemption import Candidate, Decision
from forewarn.policies.kubernetes.scheduling.recurring_cycle import recurring_cycles_of
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot, changed_pdbs
from forewarn.policies.kubernetes.scheduling.ties import fewest_of, fewest_victims
from forewarn.policies.prediction.forecast.impact import Cascade
from forewarn.policies.prediction.simulation.clock import CLOSE, Clock
from forewarn.policies.prediction.simulation.scenario import MINUTE, Arrival, World, completed, quiet_for, read_workload
from forewarn.policies.prediction.simulation.scheduler import QUEUE_STARTS
from forewarn.policies.prediction.simulation.scheduler_cache import Rejected, SchedulerCache, node_tree_of
from forewarn.policies.prediction.simulation.simulation import Simulation, seldom_collected
from forewarn.policies.prediction.simulation.summary import Eviction, Levels, in_vain

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.prediction.forecast.why_not import Waiting


_CLONING: Final = 8


class CacheOverSnapshot(SchedulerCache):
    """A SchedulerCache that stores only the changes to the Snapshot of a whole cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.objects)
        self.node_tree = node_tree_of(snapshot)
        self._now = snapshot
        self._infos: dict[str, NodeInfo] = {}
        """Node name -> changed NodeInfo since the latest snapshot."""
        self._nominated: dict[str, tuple[Pod, ...]] = {}
        self._health: list[tuple[Pod, int]] = []
        """Changes of Pods since the latest snapshot, see `changed_pdbs`."""
        self._condemned: set[str] = set()
        self._more: dict[Key, Workload] = {}
        """New or changed workloads, on top of those at the start."""
        self._known = snapshot.objects.workloads
        self._has_more = False
        """Whether workloads changed since the latest snapshot."""
        self.bound_pods: set[str] = set()
        """Identities of Pods that were assigned to a node."""

    def snapshot(self) -> Snapshot:
        """Return the Snapshot for the next cycle. The returned Snapshot never changes."""
        now = self._now.objects
        overlays: dict[str, Any] = {name: overlay.freeze() for name, overlay in self._overlays.items()}
        changed = {name: table for name, table in overlays.items() if table is not getattr(now, name)}
        if self._has_more:
            charge(len(self._more) // 4)
            changed["workloads"] = ChainMap({**self._more}, self._known)  # type: ignore[arg-type]
            self._has_more = False
        if changed:
            self._now = self._now.with_node_infos(replace(now, **changed), {})
        charged = changed_pdbs(self._now.pdbs, self._health)
        self._health.clear()
        if self._infos or self._nominated or charged:
            charge(len(self._now.objects.nominated) // 4)
            nominated = {**self._now.objects.nominated, **self._nominated}
            left = {node: pods for node, pods in nominated.items() if pods}
            self._now = self._now.with_node_states(self._infos, left, charged)
            self._infos, self._nominated = {}, {}
        return self._now

    def present(self, pod: Pod) -> Pod | None:
        """Return the Pod with the same identity on the Pod's node; None if the node no longer has the Pod."""
        info = self._infos.get(pod.node_name) or self._now.get(pod.node_name)
        if info is None:
            return None
        charge(1 + len(info.pods) // 8)
        identity = pod.identity
        return next((other for other in info.pods if other.identity == identity), None)

    def add_pod(self, pod: Pod) -> None:
        """Add a bound Pod; remove a Pod that has terminated."""
        self._assumed.discard(pod.uid)
        self._swap(pod, None if pod.terminal else pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a Pod from its node."""
        self._assumed.discard(pod.uid)
        self._swap(pod, None)

    def assume(self, pod: Pod, node: str) -> None:
        """Treat a Pod as bound to a node, and record the Pod in `bound_pods`."""
        self._assumed.add(pod.uid)
        self.bound_pods.add(pod.identity)
        self._swap(pod, self._now.bound(pod, node))

    def pods_on(self, name: str) -> Sequence[Pod]:
        """Return the Pods on a node."""
        info = self._infos.get(name) or self._now.get(name)
        return info.pods if info is not None else ()

    def _swap(self, pod: Pod, new: Pod | None) -> None:
        old = self._pods.get(pod.uid) or self.present(pod)
        if old is new:
            return
        self._pods.pop(pod.uid, None)
        if old is not None:
            self._change_of(old.node_name).remove_pod(old)
        if new is not None and self._now.get(new.node_name) is not None:
            self._pods[pod.uid] = new
            self._change_of(new.node_name).add_pod(new)
        if pod.identity not in self._condemned:
            self._health.append((pod, _is_healthy(new) - _is_healthy(old)))

    def condemn(self, pods: Iterable[Pod]) -> None:
        """Count victims as deleted: their PDBs allow fewer disruptions from now on."""
        new = [pod for pod in pods if pod.identity not in self._condemned]
        self._condemned.update(pod.identity for pod in new)
        self._health += [(pod, -_is_healthy(pod)) for pod in new]

    def _change_of(self, node: str) -> NodeInfo:
        if node not in self._infos:
            charge(_CLONING)
            self._infos[node] = self._now.node_infos[self._now.rows[node]].clone()
        return self._infos[node]

    def nominate(self, old: Pod | None, new: Pod | None) -> None:
        """Replace the nomination of a Pod. `old`, `new`: the nominated Pod before and after; None: no nomination."""
        for pod in (old, new):
            if pod is not None and pod.nominated_node_name:
                info = self._on(pod.nominated_node_name)
                self._nominated[pod.nominated_node_name] = tuple(p for p in info if p.identity != pod.identity)
        if new is None or new.node_name or not (node := new.nominated_node_name):
            return
        if responsible_for_pod(new, self._now.semantics.scheduler_names):
            self._nominated[node] = (*self._on(node), new)

    def _on(self, node: str) -> Sequence[Pod]:
        nominated = self._nominated.get(node)
        return self._now.objects.nominated.get(node, ()) if nominated is None else nominated

    def put_workload(self, state: WorkloadState) -> None:
        """Add or change a workload."""
        self._more[state.key] = Workload.from_api(state.object)
        self._has_more = True

    def remove_workload(self, state: WorkloadState) -> None:
        """Do nothing: removed workloads remain readable."""


def _is_healthy(pod: Pod | None) -> int:
    return int(pod is not None and pod.healthy)


MAX_PER_OBJECT: Final = 500
"""Maximum number of Pods of a workload, or nodes for a DaemonSet: each sync of its controller reads all of them."""
MAX_STEPS: Final = 50_000
_LOADING: Final = 20
"""Units of work to load a Pod or a workload."""
_STEP: Final = 20
"""Units of work of a simulation step, without scheduling, which is charged separately."""
_COMPARING: Final = 2
"""Units of work to compare a node, besides its Pods."""
_MAX_COMPARED: Final = 100
"""Maximum number of equal nodes that are compared; if there are more, the first ones by name."""
_MAX_LEVELS: Final = 3
"""Maximum number of owners followed above the controller of a Pod."""


class QuotaEffect(NamedTuple):
    """The effect of quotas on the new Pods of a simulation.

    `rejected`: number of Pods that a quota rejects at the end. `message`: upstream's message about one of them.
    `delay`: the quota that delays Pods; "" for none. `is_contested`: whether quotas also reject Pods of other workloads
    in the namespace, so that chance decides which controller is the first to retry.
    """

    rejected: int
    message: str
    delay: str
    is_contested: bool


class Rehearsal(NamedTuple):
    """The result of a simulated rollout.

    - `created`: number of Pods that the workload created and that exist at the end; `deleted_again`: number of those
      that it created and that no longer exist. `evicted`: all preempted Pods.
    - `preempting`, `by_old_template`, `by_waiting`: predictions of Pods that the workload has at the end, of its Pods
      that are deleted again, and of other Pending Pods, with the running Pods that they preempted.
    - `pending`: predictions of created Pods without a node at the end.
    - `num_pdb_violations`: number of all Pods that are preempted beyond the allowed disruptions of their PDBs.
    - `let_in`: identities of Pending Pods that got a node.
    - `cascade`: see `Cascade`. `snapshot`: the cluster at the end.
    """

    created: int
    preempting: tuple[Prediction, ...]
    by_old_template: tuple[Prediction, ...]
    by_waiting: tuple[Prediction, ...]
    pending: tuple[Prediction, ...]
    let_in: frozenset[str]
    cascade: Cascade
    snapshot: Snapshot
    quota: QuotaEffect
    evicted: tuple[Pod, ...] = ()
    deleted_again: int = 0
    num_pdb_violations: int = 0
    has_unknown_volumes: bool = False
    """True if Pods stay Pending only in the simulation, because an unknown provisioner decides about their volumes."""
    is_close: bool = False
    """True if a Pod preempts less than CLOSE seconds before old Pods of the workload have terminated."""
    depends_on_pdbs: bool = False
    """True if the victims of a Pod of the workload depend on how soon it sees the changed status of PDBs."""

    @property
    def victims(self) -> list[Pod]:
        return [victim for one in (*self.preempting, *self.by_old_template, *self.by_waiting) for victim in one.victims]

    @property
    def outcome(self) -> tuple[Counter[object], int, int, int]:
        """The victims by controller, and the numbers of Pending, rejected and all preempted Pods."""
        controllers = (controller_of(victim) or victim.key for victim in self.victims)
        return Counter(controllers), len(self.pending), self.quota.rejected, len(self.evicted)


@seldom_collected  # until the simulation is freed
def rehearse(
    cluster: ClusterSnapshot,
    snapshot: Snapshot,
    arrivals: Sequence[Arrival],
    waiting: Waiting,
    *,
    nodes: Sequence[str] = (),
    quotas_of: Callable[[str], Sequence[ResourceQuota]] | None = None,
    by_chance: bool = False,
    explains: bool = False,
    recreated: Collection[str] = (),
    is_placeholder: Callable[[Pod], bool] = lambda _: False,
) -> Rehearsal:
    """Simulate a changed workload or new Pods. Raises CutShort and InvalidObject.

    `snapshot`: the scheduler's state of the cluster. `arrivals`: the new or changed workload, or new Pods. `waiting`:
    Pending Pods of other workloads. `nodes`: the order in which the controller of a DaemonSet visits nodes.
    `quotas_of`: returns the quotas of a namespace, by default those of the cluster. `by_chance`: whether chance decides
    which Pods are created, and therefore the victims. `explains`: whether predictions keep the Snapshots of their
    cycles in memory, to explain the decisions. `recreated`: see `again`. `is_placeholder`: as in
    `Forecast`.
    """
    run = _Run(cluster, snapshot, arrivals, waiting, quotas_of, frozenset(recreated), is_placeholder)
    run.controllers.view.order = {name: place for place, name in enumerate(nodes)}
    run.by_chance, run.explains = by_chance, explains
    return run.rehearsal()


_Numbers = dict[str, list[int]]
"""uid of a preemptor -> numbers of its preemptions."""


class _Preempting(NamedTuple):
    """A preemption by `pod`. `candidate`: node and victims. `answer`: the outcome of the Pod's scheduling cycle.

    `snapshot`: the input of the cycle, or the Snapshot at the start. `violating`: identities of the victims whose
    preemption violates a PDB.
    """

    pod: Pod
    candidate: Candidate
    answer: Decision
    snapshot: Snapshot
    violating: Collection[str]


class _Run(Simulation):
    """One simulation of new Pods with the relevant part of the cluster."""

    simulates_pod_groups = False

    def __init__(
        self,
        cluster: ClusterSnapshot,
        snapshot: Snapshot,
        arrivals: Sequence[Arrival],
        waiting: Waiting,
        quotas_of: Callable[[str], Sequence[ResourceQuota]] | None,
        recreated: frozenset[str],
        is_placeholder: Callable[[Pod], bool],
    ) -> None:
        self._is_placeholder = is_placeholder
        self._cluster, self._snapshot, self._waiting = cluster, snapshot, waiting
        self._adoption = Adoption(cluster)
        self._own = {_workload_of(arrival.object) for arrival in arrivals}
        """(kind, `namespace/name`) of the changed workload, or of each new Pod."""
        self._over = CacheOverSnapshot(snapshot)
        self._loaded: dict[Key, None] = {}
        """Keys of the workloads that are loaded with their Pods, in the order of loading."""
        self._preemptions: list[_Preempting] = []
        self._evicted: set[tuple[str, str]] = set()
        """Pairs of preemptor and victim, as `namespace/name`; `_in_vain`: the pairs that help no Pod."""
        self._in_vain: set[tuple[str, str]] = set()
        self._before_burst, self._burst_ends = snapshot, float("-inf")
        """The Snapshot before preemptions that are less than CLOSE seconds apart, and the end of this time."""
        self.by_chance = self.explains = self._depends_on_pdbs = False
        latest = max(derived(cluster.pods, _latest_start), default=0.0)
        world = World(
            nodes=(),
            workloads=(),
            pods=(),
            arrivals=[arrival._replace(object=_without_owner(arrival.object)) for arrival in arrivals],
            horizon=float("inf"),
            quiet=quiet_for(arrival.object for arrival in arrivals),
            epoch=max(latest + MINUTE, seconds_of(cluster.origin)),
            base=snapshot.objects,
            admission=lambda obj: admitted(obj, cluster),
            asks_webhooks=True,
            quotas_of=quotas_of or (cluster.quotas_of if cluster.resource_quotas else None),
            defaulted=lambda obj: with_default_resources(obj, cluster),
            pods_take_time_to_start=True,
            recreated=recreated,
        )
        super().__init__(world, cache=self._over, clock=_Clock(QUEUE_STARTS), choose=self._first_by_pods)
        self.scheduler.algorithm.tie = self._first_by_pods
        self.scheduler.algorithm.explains = False
        self.scheduler.before_preemption = self._record_preemption
        self.scheduler.algorithm.recurring = recurring_cycles_of(snapshot)
        self.max_steps = MAX_STEPS

    # Loading

    def _load(self, _random: object) -> None:
        charge(len(self._snapshot.node_infos) // 4)
        self.api.nodes.update((info.name, info.node) for info in self._snapshot.node_infos)
        for arrival in self.world.arrivals:
            if group_kind(arrival.object) == POD:
                continue
            _check(arrival.object)
            stored = self._stored(read_workload(arrival.object).key)
            if stored is not None:
                self._load_all_of(replace(stored, controller=None))
            elif arrival.op != "create":
                raise CutShort("what is stored of it is not known")
        charge(len(self._cluster.waiting_pods) // 4)
        nominated = [pod for pod in self._cluster.waiting_pods.values() if pod.nominated_node_name]
        for pod in (*self._waiting.pods, *nominated):
            charge(_LOADING)
            self._take_in(pod)
            self._load_pod(pod)
        self.timeline.events.clear()
        self.controllers.set_statuses()

    def _stored(self, key: Key) -> WorkloadState | None:
        workload = self._cluster.workload(*key)
        return None if workload is None else read_workload(workload.object)

    def _take_in(self, pod: Pod) -> bool:
        """Load the top workload that recreates a Pod, with all its Pods; return False if the workload is unknown."""
        owner = controller_in(self._cluster, self._adoption.adopt(pod))
        top = None if owner is None or owner in self._loaded else self._stored(owner)
        if top is None:
            return owner in self._loaded
        for _ in range(_MAX_LEVELS):  # ownerReferences may form a cycle
            by_the_clock = top.controller is not None and top.controller[0] == CRON_JOB  # a CronJob recreates no Pods
            above = None if top.controller is None or by_the_clock else self._stored(top.controller)
            if above is None or (above.key[0] == DEPLOYMENT and is_rolled_out(self._cluster, above.object, top.object)):
                break
            top = above
        if top.key not in self._loaded:
            self._load_all_of(top)
        return True

    def _load_all_of(self, top: WorkloadState) -> None:
        """Load a workload, the workloads that it controls, and their Pods. Raises CutShort and InvalidObject."""
        workloads = [top, *(read_workload(workload.object) for workload in controlled(self._cluster, top.object))]
        pods = owned_pods_of(self._cluster, top.object) or pods_of(self._cluster, top.object)
        looked_at = len(self.api.nodes) if top.key[0] == DAEMON_SET else len(pods)
        if looked_at > MAX_PER_OBJECT:
            raise CutShort("a workload has too many pods, or nodes, to look at")
        charge(_LOADING * (len(workloads) + len(pods)))
        for rejection in workloads:
            _check(rejection.object)
        if top.key[0] == DEPLOYMENT and any(controller_of(pod) == top.key for pod in pods):
            raise InvalidObject("a Deployment has Pods that are in no ReplicaSet")
        states = [state for pod in pods if (state := self._state_of(pod)) is not None]
        for rejection in completed(workloads, states):
            self._loaded[rejection.key] = None
            self.api.put_workload(rejection)
        for one in sorted(states, key=lambda state: (state.created, state.pod.key)):
            if (one.pod.namespace, one.pod.name) not in self.api.pods:
                self.api.load_pod(one)

    def _load_pod(self, pod: Pod) -> None:
        key = pod.namespace, pod.name
        if key not in self.api.pods and (state := self._state_of(pod)) is not None:
            self.api.load_pod(state)

    def _state_of(self, pod: Pod) -> PodState | None:
        """Return the current state of the Pod; None if the Pod is terminating or no longer on its node."""
        if pod.terminating:
            return None
        if pod.node_name and not pod.terminal:
            present = self._over.present(pod)
            if present is None or present.terminating:
                return None
            pod = present
        started = float(pod.start_time or 0)
        ready = started if pod.node_name and pod.ready and not pod.terminal else None
        if not pod.uid or (pod.ready and not pod.node_name):
            pod = replace(pod, uid=pod.identity, ready=pod.ready and bool(pod.node_name))
        return PodState(self._adoption.adopt(pod), created=float(pod.created or started), ready=ready)

    # Events

    def _first_by_pods(self, names: Sequence[str]) -> str:
        """Return one of several equal nodes independently of their names: the first by its Pods, and if possible one
        without terminating Pods, so that a preemption deletes running Pods.
        """
        if len(names) == 1:
            return names[0]
        charge(sum(_COMPARING + len(self._over.pods_on(name)) for name in names[:_MAX_COMPARED]))
        return min(names[:_MAX_COMPARED], key=lambda name: _kinds_of(self._over.pods_on(name)))

    def _record_preemption(self, rejected: Rejected, candidate: Candidate, preemptor: Pod) -> None:
        """Record a preemption, and load the victims' workloads. This causes no events: the Snapshot contains them."""
        snapshot, found = self.cache.snapshot(), rejected.decision._replace(candidate=candidate)
        is_elsewhere = len(found.best_nodes) > 1 or found.is_sampled
        by_chance = is_elsewhere or victims_tie(candidate, snapshot)
        fewest = fewest_victims(preemptor, found, framework_of(snapshot, preemptor))
        answer = Decision([], list(found.best_nodes), candidate, is_elsewhere, by_chance, fewest=fewest)
        kept = snapshot if self.explains else self._snapshot
        victims = Prediction(snapshot, preemptor, answer).violating if candidate.num_pdb_violations else ()
        violating = {victim.identity for victim in victims}
        self._note_race(Prediction(snapshot, preemptor, answer))
        self._preemptions.append(_Preempting(preemptor, candidate, answer, kept, violating))
        self._over.condemn(candidate.victims)
        watchers, self.api.watchers = self.api.watchers, []
        before = len(self._loaded)
        for victim in candidate.victims:
            has_workload = self._take_in(victim)
            self._load_pod(victim)
            if not has_workload and victim.owner is not None and victim.owner_kind == POD:
                owner = self._cluster.pods.get((victim.namespace, victim.owner.name))
                if owner is not None:
                    self._load_pod(owner)
        self.api.watchers = watchers
        self.controllers.take_on([*islice(self._loaded, before, None)])

    def _note_race(self, prediction: Prediction) -> None:
        """Record whether a Pod of the workload that preempts right after others may see an outdated status of PDBs."""
        if self.clock.now > self._burst_ends:
            self._before_burst = prediction.snapshot
        elif self._is_own(prediction.pod.key) and not self._depends_on_pdbs:
            self._depends_on_pdbs = prediction.depends_on_pdbs_since(self._before_burst)
        self._burst_ends = self.clock.now + CLOSE

    def rehearsal(self) -> Rehearsal:
        """Run the simulation and return the result. Raises CutShort if the simulation does not settle."""
        self.run()
        if not self.steady:
            raise CutShort("too much happens")
        levels = Levels()
        evictions = [level for event in self.timeline.events if (level := levels.next(event)) is not None]
        self._evicted = {(eviction.by, eviction.victim) for eviction in evictions}
        self._in_vain = {(eviction.by, eviction.victim) for eviction in in_vain(self.timeline, evictions)}
        charge(len(self._cluster.waiting_pods) // 4)
        waited = {pod.identity for pod in self._cluster.waiting_pods.values()}
        ours = [state.pod for state in self.api.pods.values() if self._is_own(state.pod.key)]
        own, again, others = self._preempting(waited, {pod.uid for pod in ours})
        created = [pod for pod in ours if not self.timeline.origins[pod.key].before]
        pending = [Prediction(self.cache.snapshot(), pod) for pod in created if not pod.node_name]
        return Rehearsal(
            len(created),
            tuple(map(self._together, own.values())),
            tuple(map(self._together, again.values())),
            tuple(map(self._together, others.values())),
            tuple(pending),
            frozenset(waited & self._over.bound_pods),
            self._cascade([*own.values(), *again.values(), *others.values()], evictions),
            self.cache.snapshot(),
            self._quota_effect(),
            self._evicted_pods(),
            sum(one.workload in self._own and not one.before for one in self.timeline.origins.values()) - len(created),
            sum(self.scheduler.violated_pdbs.counts.values()),
            bool(self.storage.not_modelled),
            self.timeline.has_close_preemptions(),
            self._depends_on_pdbs,
        )

    def _quota_effect(self) -> QuotaEffect:
        rejections = self.controllers.rejections
        rejected = [rejection for one, rejection in rejections.rejected_workloads() if one in self._own]
        contested = {name.partition("/")[0] for _, name in rejections.ever & self._own}
        return QuotaEffect(
            sum(rejection.missing for rejection in rejected),
            next((rejection.message for rejection in rejected), ""),
            next((rejections.delaying[one] for one in sorted(self._own) if one in rejections.delaying), ""),
            any(name.partition("/")[0] in contested for _, name in rejections.ever - self._own),
        )

    def _evicted_pods(self) -> tuple[Pod, ...]:
        """Return all preempted Pods, each once."""
        found: dict[str, Pod] = {}
        for pod, candidate, *_ in self._preemptions:
            for victim in candidate.victims:
                if (pod.key, victim.key) in self._evicted:
                    found.setdefault(victim.identity, victim)
        return tuple(found.values())

    def _preempting(self, waited: Collection[str], ours: Collection[str]) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Return the preemptions by Pods that the workload has at the end (uids `ours`), by its Pods that are deleted
        again, and by other Pending Pods (identities `waited`).
        """
        own, again, others = _Numbers(), _Numbers(), _Numbers()
        for number, (pod, candidate, *_) in enumerate(self._preemptions):
            if self._running_victims(pod, candidate):
                if self._is_own(pod.key):
                    (own if pod.uid in ours else again).setdefault(pod.uid, []).append(number)
                elif pod.identity in waited:
                    others.setdefault(pod.uid, []).append(number)
        return own, again, others

    def _is_own(self, key: str) -> bool:
        return self.timeline.origins[key].workload in self._own

    def _running_victims(self, preemptor: Pod, candidate: Candidate) -> list[Pod]:
        """Return the victims that ran at the start and that this preemption deleted, not an earlier deletion."""
        evicted = (victim for victim in candidate.victims if (preemptor.key, victim.key) in self._evicted)
        return [victim for victim in evicted if victim.identity not in self._over.bound_pods]

    def _together(self, numbers: Sequence[int]) -> Prediction:
        """Merge several preemptions by one Pod into one prediction: all running victims, and the node at the end."""
        preemptions = [self._preemptions[number] for number in numbers]
        pod, last = preemptions[-1].pod, preemptions[-1].candidate
        deleted = [(victim, one) for one in preemptions for victim in self._running_victims(one.pod, one.candidate)]
        violations = sum(victim.identity in one.violating for victim, one in deleted)
        candidate = Candidate(last.node_name, tuple(victim for victim, _ in deleted), violations)
        by_chance = self.by_chance or any(preemption.answer.by_chance for preemption in preemptions)
        fewest = fewest_of(one.answer.fewest for one in preemptions)
        state = self.api.pods.get((pod.namespace, pod.name))
        answer = preemptions[-1].answer._replace(
            candidate=candidate,
            by_chance=by_chance,
            fewest=fewest,
            bound=state.pod.node_name if state else "",
            in_vain=[victim for victim in candidate.victims if (pod.key, victim.key) in self._in_vain],
        )
        return Prediction(preemptions[-1].snapshot, pod, answer)

    def _cascade(self, firsts: Iterable[Sequence[int]], evictions: Sequence[Eviction]) -> Cascade:
        """Return the cascade after these preemptions, without Pods of the workload itself and placeholder Pods.

        `firsts`: numbers of the first preemptions. `evictions`: all evictions of the simulation.
        """
        preemptors = {self._preemptions[number].pod.key for numbers in firsts for number in numbers}
        victims = chain.from_iterable(preemption.candidate.victims for preemption in self._preemptions)
        ignored = {victim.key for victim in victims if self._is_placeholder(victim)}
        others = [each for each in evictions if each.origin.workload not in self._own and each.victim not in ignored]
        deleted = Counter(eviction.origin.workload for eviction in others)
        more = [one for one in evictions if one.by not in preemptors and not self._is_own(one.by)]
        origins = self.timeline.origins
        created = Counter(origins[event.pod].workload for event in self.timeline.events if event.event == "created")
        missing = self._missing()
        replaced = (deleted & (created + missing)).total()
        return Cascade(
            replaced,
            deleted.total() - replaced,
            len(more),
            max((max(eviction.level - 1, 1) for eviction in more), default=0),
            min(replaced, sum(map(self._is_pending_replacement, self.api.pods.values()))),
            rejected_by_quota=(deleted & missing).total(),
            pending_not_evaluated=self._waiting.omitted,
            controller_unknown=sum(eviction.origin.again.is_assumption for eviction in others),
        )

    def _is_pending_replacement(self, state: PodState) -> bool:
        """Report whether a new Pod of another workload is Pending and not a placeholder."""
        pod = state.pod
        is_left_out = self._is_own(pod.key) or self.timeline.origins[pod.key].before or self._is_placeholder(pod)
        return not (is_left_out or pod.node_name or pod.terminal or state.terminating)

    def _missing(self) -> Counter[tuple[str, str]]:
        """Return how many Pods of each other workload quotas reject at the end."""
        missing = Counter[tuple[str, str]]()
        for workload, rejection in self.controllers.rejections.rejected_workloads():
            if workload not in self._own:
                missing[workload] += rejection.missing
        return missing


class _Clock(Clock):
    """A simulated clock that charges work for each step; raises CutShort above the limit of work."""

    def advance(self) -> Callable[[], object]:
        """Advance to the next event. Charges work; raises CutShort."""
        charge(_STEP)
        return super().advance()


def _kinds_of(pods: Iterable[Pod]) -> list[tuple[Any, ...]]:
    """Return a sort key for a node's Pods that ignores names; nodes with terminating Pods come last."""
    kinds = sorted(
        (pod.terminating, pod.priority or 0, pod.occupies.resource.milli_cpu, pod.owner_kind, pod.start_time or 0)
        for pod in pods
    )
    return [(sum(pod.terminating for pod in pods),), *kinds]


def _latest_start(pods: Mapping[Any, Pod]) -> float:
    charge(len(pods) // 4)
    return float(max((pod.start_time or pod.created or 0 for pod in pods.values()), default=0))


def _workload_of(obj: ApiObject) -> tuple[str, str]:
    """Return (kind, `namespace/name`) of a workload, or of a Pod without a controller, whose kind is ""."""
    if group_kind(obj) == POD:
        ref = ref_of(obj, "default")
        return "", f"{ref.namespace}/{ref.name}"
    kind, *names = read_workload(obj).key
    return kind, "/".join(names)


def _without_owner(obj: ApiObject) -> ApiObject:
    """Return an object without its owner, which is not simulated and would count as the workload of the new Pods."""
    return {**obj, "metadata": {**mapping(obj, "metadata"), "ownerReferences": []}}


def _check(obj: ApiObject) -> None:
    """Raise CutShort if a workload has too many Pods or too large fields."""
    for field in ("replicas", "parallelism", "completions"):
        if (int32(obj, "spec", field) or 0) > MAX_PER_OBJECT:
            raise CutShort("a workload asks for too many pods")
    template = template_of(obj)
    check_extent(at(template, "spec"))
    check_metadata_extent(at(template, "metadata"))
    check_metadata_extent(at(obj, "metadata"))
