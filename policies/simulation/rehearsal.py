"""A rollout played through within an admission request: what a simulation of the whole cluster would come to.

Of the cluster's pods and workloads only those are loaded that play a part: the changed workload's own, those that wait,
and those of whoever is pushed out, when that happens. The scheduler goes by the snapshot that there is, which holds all
pods. Of a disruption budget no more is known than what it allows: that changes with the healthy pods that it selects.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.aftermath import Aftermath
from policies.cluster import admitted
from policies.controllers.own_pods import controlled, owned_pods_of
from policies.controllers.templates import template_of
from policies.controllers.view import PodState
from policies.cow_table import derived
from policies.extent import check_extent, check_metadata_extent
from policies.kube_apiserver.validation.limit_ranger import with_limit_range_defaults
from policies.metering import CutShort, charge
from policies.objects.fields import InvalidObject, at, int32, text
from policies.objects.workload import Workload
from policies.scheduling.preemption import Candidate
from policies.scheduling.schedule_one import Prediction
from policies.scheduling.vectorized.node_fit import VectorizedAnswer
from policies.simulation.adoption import DEPLOYMENT, completed
from policies.simulation.api_server import controller_of
from policies.simulation.clock import Clock
from policies.simulation.controller_manager import DAEMON_SET
from policies.simulation.dump import MINUTE, QUIET
from policies.simulation.scenario import Arrival, World, read_workload
from policies.simulation.scheduler import QUEUE_STARTS, is_responsible_for
from policies.simulation.scheduler_cache import SchedulerCache
from policies.simulation.simulation import Simulation
from policies.simulation.summary import Levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.controllers.view import Key, WorkloadState
    from policies.objects.disruption_budget import PodDisruptionBudget
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo
    from policies.scheduling.snapshot import Snapshot
    from policies.simulation.summary import Eviction
    from policies.waiting import Waiting

MOST_OF_ONE: Final = 500
"""Pods of one workload, or nodes for a DaemonSet: each look of its controller goes through them."""
MOST_STEPS: Final = 50_000
_LOADING: Final = 20
"""Units that it costs to load a pod or a workload."""
_STEP: Final = 20
"""Units that a step costs, besides the scheduling that is charged where it is done."""
_CLONING: Final = 8
_MOST_LEVELS: Final = 3
"""Workloads above the one that makes a pod."""
_BY_THE_CLOCK: Final = ("batch/CronJob",)
"""What makes workloads when it is time, and not for pods that go."""


class Rehearsal(NamedTuple):
    """What a rollout came to. `made`: how many of the workload's pods were made and are there. `preempting`,
    `by_waiting`: pods of the workload and others that waited, each with all whom it pushed out of those that run now;
    `pending`: of the pods that were made those without a node in the end.
    `let_in`: identities of pods that waited and got a node; `aftermath`: None where a victim's workload is not known,
    so that nothing is known of its replacement. `snapshot`: the cluster in the end. `refused`: how many of its
    pods a quota rejects in the end."""

    made: int
    preempting: tuple[Prediction, ...]
    by_waiting: tuple[Prediction, ...]
    pending: tuple[Prediction, ...]
    let_in: frozenset[str]
    aftermath: Aftermath | None
    snapshot: Snapshot
    refused: int = 0
    has_unknown_volumes: bool = False
    """Whether a provisioner decides what is not known, so that Pods stay Pending in the simulation alone."""


def rehearse(
    cluster: ClusterSnapshot, snapshot: Snapshot, change: ApiObject, waiting: Waiting, *, creates: bool = False
) -> Rehearsal:
    """Roll a workload's `change` out. `snapshot`: the cluster as the scheduler has it; `waiting`: who waits beside its
    own pods; `creates`: a workload that is not stored is created. Raises CutShort and InvalidObject."""
    return _Run(cluster, snapshot, change, waiting, creates=creates).rehearsal()


class _Preempting(NamedTuple):
    """A preemption. `answer`: what it came to at that moment."""

    pod: Pod
    candidate: Candidate
    answer: VectorizedAnswer


class _Run(Simulation):
    """One run, over a part of the cluster."""

    def __init__(
        self, cluster: ClusterSnapshot, snapshot: Snapshot, change: ApiObject, waiting: Waiting, *, creates: bool
    ) -> None:
        _check(change)
        self._cluster, self._change, self._begun, self._waiting = cluster, change, snapshot, waiting
        self._creates = creates
        kind, *names = read_workload(change).key
        self._own = kind, "/".join(names)
        self._over = _CacheOverSnapshot(snapshot)
        self._loaded: set[Key] = set()
        """Workloads that are there, with their pods."""
        self._waited: Counter[tuple[str, str]] = Counter()
        """Pods that waited when it began, by workload."""
        self._preemptions: list[_Preempting] = []
        self._evicted: set[tuple[str, str]] = set()
        """Who pushed out whom, by `namespace/name`."""
        self._unknown = False
        """Whether a victim's workload is not known."""
        world = World(
            nodes=(),
            workloads=(),
            pods=(),
            arrivals=(Arrival(0.0, "create" if creates else "update", change),),
            horizon=float("inf"),
            quiet=QUIET,
            epoch=max((latest for latest in derived(cluster.pods, _latest_start)), default=0.0) + MINUTE,
            base=snapshot.objects,
            admission=lambda obj: admitted(obj, cluster),
            asks_webhooks=True,
            quotas_of=cluster.quotas_of if cluster.resource_quotas else None,
            defaulted=self._defaulted,
            pods_take_time_to_start=True,
        )
        super().__init__(world, cache=self._over, clock=_Clock(QUEUE_STARTS))
        self.scheduler.before_preemption = self._before_preemption
        self.most_steps = MOST_STEPS

    def _defaulted(self, obj: ApiObject) -> ApiObject:
        return with_limit_range_defaults(obj, self._cluster.limit_ranges_of(text(obj, "metadata", "namespace")))

    # What is loaded

    def _load(self, _random: object) -> None:
        for info in self._begun.node_infos:
            charge(2)
            self.api.nodes[info.name] = info.node
            self.cache.node_tree.put(info.node)
        stored = self._stored(read_workload(self._change).key)
        if stored is not None:
            self._load_all_of(stored)
        elif not self._creates:
            raise CutShort("what is stored of it is not known")
        charge(len(self._cluster.waiting_pods) // 4)
        nominated = [pod for pod in self._cluster.waiting_pods.values() if pod.nominated_node_name]
        for pod in (*self._waiting.pods, *nominated):
            charge(_LOADING)
            self._take_in(pod)
            self._load_pod(pod)
        self._waited = self._who_waits()
        self.timeline.events.clear()
        self.controllers.set_statuses()

    def _stored(self, key: Key) -> WorkloadState | None:
        found = self._cluster.workload(*key)
        return None if found is None else read_workload(found.object)

    def _take_in(self, pod: Pod) -> bool:
        """Load the workload that makes a pod anew, with all of its pods; False where it is not known."""
        owner = controller_of(pod)
        top = None if owner is None else self._stored(owner)
        if top is None:
            return False
        for _ in range(_MOST_LEVELS):  # who owns whom is what somebody wrote
            above = (
                None if top.controller is None or top.controller[0] in _BY_THE_CLOCK else self._stored(top.controller)
            )
            if above is None:
                break
            top = above
        if top.key not in self._loaded:
            self._load_all_of(top)
        return True

    def _load_all_of(self, top: WorkloadState) -> None:
        """A workload, those that it controls, and their pods."""
        workloads = [top, *(read_workload(workload.object) for workload in controlled(self._cluster, top.object))]
        pods = owned_pods_of(self._cluster, top.object)
        looked_at = len(self.api.nodes) if top.key[0] == DAEMON_SET else len(pods)
        if looked_at > MOST_OF_ONE:
            raise CutShort("a workload has too many pods, or nodes, to look at")
        charge(_LOADING * (len(workloads) + len(pods)))
        for each in workloads:
            _check(each.object)
        if top.key[0] == DEPLOYMENT and any(controller_of(pod) == top.key for pod in pods):
            raise InvalidObject("a Deployment has Pods that are in no ReplicaSet")
        states = [state for pod in pods if (state := self._state_of(pod)) is not None]
        every, states = completed(workloads, states)
        for each in every:
            self._loaded.add(each.key)
            self.api.put_workload(each)
        for one in sorted(states, key=lambda state: (state.created, state.pod.key)):
            if (one.pod.namespace, one.pod.name) not in self.api.pods:
                self.api.load_pod(one)

    def _load_pod(self, pod: Pod) -> None:
        state = self._state_of(pod)
        if state is not None and (pod.namespace, pod.name) not in self.api.pods:
            self.api.load_pod(state)

    def _state_of(self, pod: Pod) -> PodState | None:
        """The pod as it is now; None where it is on its way out, or gone: what is left of it is on its node."""
        if pod.terminating:
            return None
        if pod.node_name and not pod.terminal:
            there = self._over.present(pod)
            if there is None or there.terminating:
                return None
            pod = there
        started = float(pod.start_time or 0)
        ready = started if pod.node_name and pod.ready and not pod.terminal else None
        if not pod.uid or (pod.ready and not pod.node_name):
            pod = replace(pod, uid=pod.identity, ready=pod.ready and bool(pod.node_name))
        return PodState(pod, created=float(pod.created or started), ready=ready)

    # What happens

    def _before_preemption(self, candidate: Candidate, preemptor: Pod) -> None:
        """Load the workloads of those who go, without a word to anybody: for the scheduler they are there."""
        found = Prediction(self.cache.snapshot(), preemptor)
        answer = VectorizedAnswer([], found.best_nodes, candidate, found.may_be_elsewhere, found.may_be_others)
        self._preemptions.append(_Preempting(preemptor, candidate, answer))
        self._over.condemn(candidate.victims)
        watchers, self.api.watchers = self.api.watchers, []
        before = set(self._loaded)
        for victim in candidate.victims:
            if not self._take_in(victim):
                self._load_pod(victim)
                self._unknown = self._unknown or (victim.owner is not None and victim.owner.kind != "Node")
        self.api.watchers = watchers
        self.controllers.take_on([key for key in self._loaded if key not in before])

    def rehearsal(self) -> Rehearsal:
        """Run it, and say what it came to. Raises CutShort where it came to no end."""
        self.run()
        if not self.settled:
            raise CutShort("too much happens")
        levels = Levels()
        evictions = [found for event in self.timeline.events if (found := levels.next(event)) is not None]
        self._evicted = {(each.by, each.victim) for each in evictions}
        charge(len(self._cluster.waiting_pods) // 4)
        waited = {pod.identity for pod in self._cluster.waiting_pods.values()}
        own: dict[str, list[int]] = {}
        others: dict[str, list[int]] = {}
        for number, (pod, candidate, _) in enumerate(self._preemptions):
            if self._who_ran(pod, candidate):
                if self._is_own(pod.key):
                    own.setdefault(pod.uid, []).append(number)
                elif pod.identity in waited:
                    others.setdefault(pod.uid, []).append(number)
        ours = [state.pod for state in self.api.pods.values() if self._is_own(state.pod.key)]
        made = [pod for pod in ours if not self.timeline.origins[pod.key].before]
        pending = [Prediction(self.cache.snapshot(), pod) for pod in made if not pod.node_name]
        return Rehearsal(
            len(made),
            tuple(map(self._together, own.values())),
            tuple(map(self._together, others.values())),
            tuple(pending),
            frozenset(waited & self._over.came),
            None if self._unknown else self._aftermath({*own, *others}, evictions),
            self.cache.snapshot(),
            sum(each.missing for one, each in self.controllers.refusals.by_workload() if one == self._own),
            bool(self.storage.not_modelled),
        )

    def _is_own(self, key: str) -> bool:
        return self.timeline.origins[key].workload == self._own

    def _who_ran(self, preemptor: Pod, candidate: Candidate) -> list[Pod]:
        """Those of its victims who ran when all began, and whom nobody else had told to end before."""
        evicted = (victim for victim in candidate.victims if (preemptor.key, victim.key) in self._evicted)
        return [victim for victim in evicted if victim.identity not in self._over.came]

    def _together(self, numbers: Sequence[int]) -> Prediction:
        """All that one pod did, where it preempted more than once: the victims, and the last node."""
        made = [self._preemptions[number] for number in numbers]
        pod, last = made[-1].pod, made[-1].candidate
        gone = [victim for each in made for victim in self._who_ran(pod, each.candidate)]
        candidate = Candidate(last.node_name, tuple(gone), sum(each.candidate.num_pdb_violations for each in made))
        by_chance = any(each.answer.by_chance for each in made)
        return Prediction(self._begun, pod, made[-1].answer._replace(candidate=candidate, by_chance=by_chance))

    def _aftermath(self, firsts: Iterable[str], evictions: Sequence[Eviction]) -> Aftermath:
        """What becomes of those whom these preemptors pushed out, but for pods of the workload itself."""
        first = set(firsts)
        preemptors = {pod.key for pod, *_ in self._preemptions if pod.uid in first}
        gone = [each for each in evictions if each.by in preemptors and each.origin.workload != self._own]
        more = [each for each in evictions if each.by not in preemptors and not self._is_own(each.by)]
        replaced = sum(each.origin.controlled for each in gone)
        waiting = self._who_waits()
        pending = (max(count - self._waited[one], 0) for one, count in waiting.items() if one != self._own)
        missing = sum(each.missing for one, each in self.controllers.refusals.by_workload() if one != self._own)
        return Aftermath(
            replaced,
            len(gone) - replaced,
            len(more),
            max((max(each.level - 1, 1) for each in more), default=0),
            sum(pending),
            refused=missing,
            left_out=self._waiting.left_out,
        )

    def _who_waits(self) -> Counter[tuple[str, str]]:
        """Pods without a node, by workload."""
        origins, pods = self.timeline.origins, (state.pod for state in self.api.pods.values())
        return Counter(origins[pod.key].workload for pod in pods if not pod.node_name and not pod.terminal)


class _Clock(Clock):
    """One whose steps are charged."""

    def advance(self) -> None:
        """See Clock. Raises CutShort."""
        charge(_STEP)
        super().advance()


class _CacheOverSnapshot(SchedulerCache):
    """What changes is laid over a snapshot of the whole cluster, which stays as it is."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.objects)
        self._now = snapshot
        self._infos: dict[str, NodeInfo] = {}
        """Nodes that have changed since the snapshot of now."""
        self._nominated: dict[str, tuple[Pod, ...]] = {}
        self._allowed: dict[tuple[str, str], int] = {}
        """What budgets would allow, less than nothing too."""
        self._charged: dict[tuple[str, str], PodDisruptionBudget] = {}
        self._condemned: set[str] = set()
        self._more: dict[Key, Workload] = {}
        """All that have come or changed; a copy is laid over those of the beginning."""
        self._known = snapshot.objects.workloads
        self._has_more = False
        """Whether any has since the snapshot of now."""
        self.came: set[str] = set()
        """Identities of pods that have been put on a node."""

    def snapshot(self) -> Snapshot:
        """See SchedulerCache; each stays as it is."""
        if self._has_more:
            charge(len(self._more) // 4)
            workloads = ChainMap({**self._more}, self._known)  # type: ignore[arg-type]
            self._now = self._now.with_node_infos(replace(self._now.objects, workloads=workloads), {})
            self._has_more = False
        claims, volumes = self._claims.freeze(), self._volumes.freeze()
        if claims is not self._now.objects.claims or volumes is not self._now.objects.volumes:
            self._now = self._now.with_node_infos(replace(self._now.objects, claims=claims, volumes=volumes), {})
        if self._infos or self._nominated or self._charged:
            charge(len(self._now.objects.nominated) // 4)
            nominated = {**self._now.objects.nominated, **self._nominated}
            left = {node: pods for node, pods in nominated.items() if pods}
            self._now = self._now.with_node_states(self._infos, left, self._charged)
            self._infos, self._nominated, self._charged = {}, {}, {}
        return self._now

    def present(self, pod: Pod) -> Pod | None:
        """The pod as its node has it; None where it is not there."""
        info = self._infos.get(pod.node_name) or self._now.get(pod.node_name)
        if info is None:
            return None
        charge(1 + len(info.pods) // 8)
        return next((other for other in info.pods if other.identity == pod.identity), None)

    def add_pod(self, pod: Pod) -> None:
        """See SchedulerCache."""
        self._assumed.discard(pod.uid)
        self._swap(pod, None if pod.terminal else pod)

    def remove_pod(self, pod: Pod) -> None:
        """See SchedulerCache."""
        self._assumed.discard(pod.uid)
        self._swap(pod, None)

    def assume(self, pod: Pod, node: str) -> None:
        """See SchedulerCache."""
        self._assumed.add(pod.uid)
        self.came.add(pod.identity)
        self._swap(pod, self._now.bound(pod, node))

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
            self._count(pod, _is_healthy(new) - _is_healthy(old))

    def condemn(self, pods: Iterable[Pod]) -> None:
        """These are told to end: budgets allow that much less from now on. By the time that the next pod is tried the
        disruption controller has mostly said so."""
        for pod in pods:
            if pod.identity not in self._condemned:
                self._condemned.add(pod.identity)
                self._count(pod, -_is_healthy(pod))

    def _change_of(self, node: str) -> NodeInfo:
        if node not in self._infos:
            charge(_CLONING)
            self._infos[node] = self._now.node_infos[self._now.rows[node]].clone()
        return self._infos[node]

    def _count(self, pod: Pod, healthy: int) -> None:
        """So many more healthy pods of these labels."""
        for budget in self._now.budgets.get(pod.namespace, ()) if healthy else ():
            charge()
            if budget.selects(pod.labels):
                key = budget.namespace, budget.name
                allowed = self._allowed[key] = self._allowed.get(key, budget.disruptions_allowed) + healthy
                self._charged[key] = replace(self._charged.get(key, budget), disruptions_allowed=max(allowed, 0))

    def nominate(self, old: Pod | None, new: Pod | None) -> None:
        """See SchedulerCache."""
        for pod in (old, new):
            if pod is not None and pod.nominated_node_name:
                there = self._on(pod.nominated_node_name)
                self._nominated[pod.nominated_node_name] = tuple(p for p in there if p.identity != pod.identity)
        if new is not None and new.nominated_node_name and not new.node_name:
            names = self._now.semantics.scheduler_names
            if is_responsible_for(new, names):
                node = new.nominated_node_name
                self._nominated[node] = (*self._on(node), new)

    def _on(self, node: str) -> Sequence[Pod]:
        found = self._nominated.get(node)
        return self._now.objects.nominated.get(node, ()) if found is None else found

    def put_workload(self, state: WorkloadState) -> None:
        """See SchedulerCache."""
        self._more[state.key] = Workload.from_api(state.object)
        self._has_more = True

    def remove_workload(self, state: WorkloadState) -> None:
        """See SchedulerCache. Whoever asks for what is gone finds what it was."""


def _latest_start(pods: Mapping[Any, Pod]) -> float:
    charge(len(pods) // 4)
    return float(max((pod.start_time or pod.created or 0 for pod in pods.values()), default=0))


def _is_healthy(pod: Pod | None) -> int:
    return int(pod is not None and pod.ready and not pod.terminating)


def _check(obj: ApiObject) -> None:
    """Raises CutShort where an object is too much to look at."""
    for field in ("replicas", "parallelism", "completions"):
        if (int32(obj, "spec", field) or 0) > MOST_OF_ONE:
            raise CutShort("a workload asks for too many pods")
    template = template_of(obj)
    check_extent(at(template, "spec"))
    check_metadata_extent(at(template, "metadata"))
    check_metadata_extent(at(obj, "metadata"))
