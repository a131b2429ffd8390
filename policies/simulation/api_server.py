"""The API server: what is stored, and who hears of it. Each method is one write, at the moment when it is stored.

Source: kubernetes `pkg/registry/core/pod` (storage.go: `setPodNodeAndMetadata`; strategy.go: `CheckGracefulDelete`).
"""

from __future__ import annotations

from functools import partial
from itertools import count
from math import floor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.controllers.recreated import Again, again
from policies.controllers.view import PodCounts, PodState, Tally, WorkloadState
from policies.copies import replace
from policies.cow_table import Overlay
from policies.objects.disruption_budget import PodDisruptionBudget
from policies.scheduling.cluster_objects import ClusterObjects
from policies.simulation.timeline import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from policies.controllers.view import Key
    from policies.objects.fields import ApiObject
    from policies.objects.node import Node
    from policies.objects.pod import Pod
    from policies.objects.storage import PersistentVolume, PersistentVolumeClaim
    from policies.simulation.clock import Clock
    from policies.simulation.quotas import Quotas
    from policies.simulation.timeline import Timeline

PodKey = tuple[str, str]
BUDGET: Final = "policy/PodDisruptionBudget"
EPOCH: Final = 1780272000.0
"""Time 0 of a simulation without a clock of its own: 2026-06-01T00:00:00Z, in seconds since 1970."""
TERMINATION_SECONDS: Final = "terminationSeconds"
"""Annotation of a pod's template in a simulation: how long it takes to end, where that is less than its grace."""
_GROUPS: Final = {"v1": "", "apps/v1": "apps", "batch/v1": "batch"}


class Change(NamedTuple):
    """One object has come (`old` None), changed, or gone (`new` None). `kind`: Pod, Node, Workload, Status, Claim or
    Volume. If only the condition PodScheduled of a pod has changed, `new` is `old`."""

    kind: str
    old: Any
    new: Any


class Stored(NamedTuple):
    """What the API server keeps of a pod beside what others read: when it was told to end, to the fraction of a second,
    and its last condition PodScheduled: (reason, message)."""

    told: float | None = None
    condition: tuple[str, str] = ("", "")


_NOTHING_STORED: Final = Stored()
_NO_BUDGETS: Final = ("Node", "Claim", "Volume")
"""Kinds that no disruption budget depends on."""


class ApiServer:
    """Everything that is stored. `watchers` are told of each change, in the order given, when it is stored."""

    def __init__(
        self, clock: Clock, timeline: Timeline, epoch: float = EPOCH, base: ClusterObjects | None = None
    ) -> None:
        """`base`: the claims and volumes of time 0."""
        base = base or ClusterObjects()
        self._claims: Overlay[PodKey, PersistentVolumeClaim] = Overlay(base.claims)
        self._volumes: Overlay[PodKey, PersistentVolume] = Overlay(base.volumes)
        self.pods_of_claim: dict[PodKey, dict[PodKey, None]] = {}
        """The pods that use each claim."""
        self._claims_made = count(1)
        self.unlisted_claims: frozenset[PodKey] = frozenset()
        """Claims that pods on nodes use, and that are not known with their volumes: new pods go without them."""
        self.clock, self.timeline, self.epoch = clock, timeline, epoch
        self.recreated: Collection[str] = ()
        """The `group/Kind` of controllers that are not simulated, and create their pods again."""
        self.pods: dict[PodKey, PodState] = {}
        self.stored: dict[str, Stored] = {}
        self._places: dict[PodKey, int] = {}
        """In the order of creation."""
        self._numbers = count()
        self._never_bound: set[PodKey] = set()
        """Pods that were told to end when all began, and had no node."""
        self.by_controller: dict[Key, dict[PodKey, PodState]] = {}
        self.counts: dict[Key, PodCounts] = {}
        """Of the pods of each controller."""
        self.by_node: dict[str, dict[PodKey, PodState]] = {}
        self.nodes: dict[str, Node] = {}
        self._missing_nodes: set[str] = set()
        """Nodes that are in `by_node` and not there."""
        self.workloads: dict[Key, WorkloadState] = {}
        self.tallies: dict[str, dict[int, Tally]] = {}
        """Of the pods of each namespace, by what their labels are; none goes when its last pod does."""
        self.revision = 0
        """How many changes of pods, workloads and budgets there were."""
        self._owned: dict[Key, dict[Key, None]] = {}
        self._by_kind: dict[str, dict[Key, None]] = {}
        self._budgets: dict[str, dict[Key, PodDisruptionBudget]] = {}
        self._budgets_of: dict[tuple[str, int], tuple[Mapping[str, str], list[Key]]] = {}
        """By namespace and what the labels are, which are kept so that no others have their identity."""
        self.watchers: list[Callable[[Change], None]] = []
        self._uids = 0
        self.quotas: Quotas | None = None
        """Who may refuse new pods, None where nobody does."""
        self.created = 0
        """How many pods were new."""
        self.seconds_to_start: Callable[[], float] | None = None
        """From when a pod is bound until it is ready; None: none."""

    @property
    def seconds(self) -> float:
        """Now, in seconds since 1970."""
        return self.epoch + self.clock.now

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name, None where there is none."""
        state = self.pods.get((namespace, name))
        return None if state is None else state.pod

    # Pods

    def refusal(self, pod: Pod, template: ApiObject | None) -> str:
        """Why a quota refuses a new pod; empty where none does, and the pod is charged: it is stored next."""
        if self.quotas is None or (pod.namespace, pod.name) in self.pods:
            return ""
        return self.quotas.refusal(pod, template)

    def create_pod(self, pod: Pod, template: ApiObject | None, **times: Any) -> bool:
        """Store a new pod; False where its name is taken."""
        key = pod.namespace, pod.name
        if key in self.pods:
            return False
        self._uids += 1
        self.created += 1
        pod = self._without_unlisted_claims(pod)
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
        """A pod that was there before anything happened."""
        self._uids += 1
        self._note_origin(state.pod, before=True)
        if not state.pod.uid:
            state = replace(state, pod=replace(state.pod, uid=f"{self._uids:08d}"))
        self._put(None, state)
        if state.terminating and not state.pod.node_name:
            self._never_bound.add((state.pod.namespace, state.pod.name))

    def bind(self, pod: Pod, node: str) -> bool:
        """Bind a pod; its kubelet starts it at once, and it is ready then or a moment later. False where it is gone,
        bound, or about to end."""
        key = pod.namespace, pod.name
        state = self.pods.get(key)
        if state is None or state.pod.uid != pod.uid or state.pod.node_name or state.terminating:
            return False
        found = self.nodes.get(node)
        bound = state.pod.bound_to(node, found.labels if found else {})
        self.timeline.add("scheduled", pod.key, node)
        self._keep(state.pod.uid, condition=("", ""))
        started = replace(bound, start_time=floor(self.seconds))
        if self.seconds_to_start is None:
            self._run(state, started)
        else:
            self._put(state, replace(state, pod=started))
            self.clock.at(self.clock.now + self.seconds_to_start(), partial(self._have_run, key, pod.uid))
        return True

    def _have_run(self, key: PodKey, uid: str) -> None:
        """A pod is ready, unless it is to end, or gone."""
        state = self.pods.get(key)
        if state is not None and state.pod.uid == uid and not state.terminating:
            self._run(state, state.pod)

    def _run(self, state: PodState, started: Pod) -> None:
        running = replace(started, phase="Running", ready=True)
        self._put(state, replace(state, pod=running, ready=float(floor(self.seconds))))

    def patch_pod_status(self, key: PodKey, condition: tuple[str, str] | None, nominated: str | None) -> None:
        """Set the condition PodScheduled (reason, message) and the nominated node, each unless None."""
        state = self.pods.get(key)
        if state is None:
            return
        if condition is not None:
            self._keep(state.pod.uid, condition=condition)
        pod = state.pod
        if nominated is not None and nominated != pod.nominated_node_name:
            event = "nominated" if nominated else "nominationCleared"
            self.timeline.add(event, pod.key, nominated or pod.nominated_node_name)
            pod = replace(pod, nominated_node_name=nominated)
        if pod is state.pod:  # only the condition is another one, which is kept beside
            self._tell("Pod", state, state)
        else:
            self._put(state, replace(state, pod=pod))

    def patch_disruption_target(self, key: PodKey) -> bool:
        """Say that the scheduler preempts a pod; False where it is gone."""
        state = self.pods.get(key)
        if state is None:
            return False
        self._put(state, replace(state, pod=replace(state.pod, preempted=True)))
        return True

    def disrupt(self, key: PodKey, uid: str) -> bool:
        """Say that somebody else ends a pod, whether the scheduler preempts it or not: a pod has one condition
        DisruptionTarget, and the last reason counts. False where that very pod is gone."""
        state = self.pods.get(key)
        if state is None or state.pod.uid != uid:
            return False
        if state.pod.preempted or not state.disrupted:
            self._put(state, replace(state, pod=replace(state.pod, preempted=False), disrupted=True))
        return True

    def update_pod(self, new: Pod, template: ApiObject | None) -> None:
        """A person's change of a pod: labels, tolerations, gates, annotations."""
        state = self.pods.get((new.namespace, new.name))
        if state is None:
            return
        spec = replace(state.pod.spec, tolerations=new.spec.tolerations, gated=new.spec.gated)
        pod = replace(state.pod, labels=new.labels, spec=spec)
        self._put(state, replace(state, pod=pod, template=template))

    def delete_pod(
        self, key: PodKey, event: str, *, by: str = "", message: str = "", force: bool = False, disrupted: bool = False
    ) -> bool:
        """DELETE a pod. `event`: what the timeline calls it; `disrupted`: that it gets the condition DisruptionTarget
        before, where it is gone at once. False where it is gone already; a second one changes nothing."""
        state = self.pods.get(key)
        if state is None:
            return False
        first = not state.terminating
        if first or event == "preempted":
            self.timeline.add(event, state.pod.key, state.pod.node_name, by=by, message=message)
        if not state.pod.node_name or force or state.pod.spec.termination_grace_period == 0:
            self.remove_pod(key, disrupted=disrupted)
        elif first:
            self._keep(state.pod.uid, told=self.clock.now)
            ending = replace(state.pod, terminating=True)
            self._put(state, replace(state, pod=ending, deleted=float(floor(self.seconds))))
        return True

    def remove_pod(self, key: PodKey, uid: str = "", *, disrupted: bool = False) -> None:
        """A pod is gone. `uid`: only that one of this name; `disrupted`: see `delete_pod`."""
        state = self.pods.get(key)
        if state is None or (uid and state.pod.uid != uid):
            return
        self.timeline.add("gone", state.pod.key, state.pod.node_name)
        self.stored.pop(state.pod.uid, None)
        if state.deleted is None or disrupted != state.disrupted:
            deleted = float(floor(self.seconds)) if state.deleted is None else state.deleted
            state = replace(state, deleted=deleted, disrupted=disrupted or state.disrupted)
        self._put(state, None)
        if self.quotas is not None:
            self.quotas.pod_gone(state)

    def _note_origin(self, pod: Pod, *, before: bool) -> None:
        owner, kind, name = controller_of(pod), "", pod.key
        state = self.workloads.get(owner) if owner else None
        if owner is not None:
            kind, *names = state.controller if state and state.controller else owner
            name = "/".join(names)
        priority, grace = pod.effective_priority, pod.spec.termination_grace_period
        found = again(owner[0] if owner else "", self.recreated, is_there=state is not None)
        if found is Again.KUBELET:
            name = pod.key  # the owner is its node
        self.timeline.origins[pod.key] = Origin(
            name, pod.namespace, priority, pod.priority_class_name, found, before, grace, kind
        )

    def _keep(self, uid: str, **changed: Any) -> None:
        told, known = self.stored.get(uid, _NOTHING_STORED)
        self.stored[uid] = Stored(changed.get("told", told), changed.get("condition", known))

    def _put(self, old: PodState | None, new: PodState | None) -> None:
        """What changes keeps its place in the tables, which is the order of creation."""
        if old is not None:  # which may have been given its end meanwhile
            self._count(self.pods.get((old.pod.namespace, old.pod.name)), -1)
        if new is not None:
            if old is None:
                self._places[new.pod.namespace, new.pod.name] = next(self._numbers)
            for table in self._tables_of(new.pod):
                table[new.pod.namespace, new.pod.name] = new
        elif old is not None:
            for table in self._tables_of(old.pod):
                table.pop((old.pod.namespace, old.pod.name), None)
            self._places.pop((old.pod.namespace, old.pod.name), None)
        if new is None or old is None:
            self._count_claims(old or new)
        self._count(new, 1)
        self._tell("Pod", old, new)

    def _count_claims(self, state: PodState | None) -> None:
        """A pod has come or gone that may use claims."""
        if state is None:
            return
        for claim in claims_of(state.pod):
            key, users = (state.pod.namespace, state.pod.name), self.pods_of_claim.setdefault(claim, {})
            if key in self.pods:
                users[key] = None
            else:
                users.pop(key, None)

    def _count(self, state: PodState | None, sign: int) -> None:
        if state is None:
            return
        tallies, labels = self.tallies.setdefault(state.pod.namespace, {}), state.pod.labels
        tally = tallies.get(id(labels))
        if tally is None:  # which keeps the labels, so that no others have their identity
            tally = tallies[id(labels)] = Tally(labels)
        tally.count(state, sign)
        owner = controller_of(state.pod) if state.active else None
        if owner is not None:
            active, ready = self.counts.get(owner, PodCounts())
            self.counts[owner] = PodCounts(active + sign, ready + sign * (state.ready is not None))

    def _tables_of(self, pod: Pod) -> list[dict[PodKey, PodState]]:
        tables = [self.pods]
        if pod.node_name:
            tables.append(self._on_node(pod.node_name))
        owner = controller_of(pod)
        if owner is not None:
            tables.append(self.by_controller.setdefault(owner, {}))
        return tables

    def _on_node(self, name: str) -> dict[PodKey, PodState]:
        if name not in self.by_node:
            self.by_node[name] = {}
            if name not in self.nodes:
                self._missing_nodes.add(name)
        return self.by_node[name]

    def strays(self) -> list[PodState]:
        """The pods on nodes that are not there, and those that ended without one, in the order of creation."""
        lost = (self.by_node[node].keys() for node in self._missing_nodes)
        keys = {key for key in self._never_bound if key in self.pods}.union(*lost)
        return [self.pods[key] for key in sorted(keys, key=self._places.__getitem__)]

    # Claims and volumes

    def claim(self, key: PodKey) -> PersistentVolumeClaim | None:
        """The claim of this (namespace, name)."""
        return self._claims.get(key)

    def claims(self) -> Mapping[PodKey, PersistentVolumeClaim]:
        """All claims, as they are now."""
        return self._claims.freeze()

    def note_unlisted_claims(self) -> None:
        """Pods that run have their claims, and these their volumes: what is missing now is not in the snapshot."""
        used = (
            key
            for key, pods in self.pods_of_claim.items()
            if any(self.pods[pod].pod.node_name and self.pods[pod].active for pod in pods)
        )
        self.unlisted_claims = frozenset(key for key in used if not self._is_listed(key))

    def _is_listed(self, key: PodKey) -> bool:
        claim = self.claim(key)
        return claim is not None and (not claim.fully_bound or self.volume(claim.volume_name) is not None)

    def _without_unlisted_claims(self, pod: Pod) -> Pod:
        unlisted = self.unlisted_claims.intersection(claims_of(pod)) if self.unlisted_claims else ()
        if not unlisted:
            return pod
        names = {name for _, name in unlisted}
        volumes = tuple(volume for volume in pod.spec.volumes if volume.claim_of(pod.name) not in names)
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume of this name."""
        return self._volumes.get(("", name))

    def volumes(self) -> Mapping[PodKey, PersistentVolume]:
        """All volumes, as they are now."""
        return self._volumes.freeze()

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        """A claim comes or changes."""
        old = self._claims.get(claim.key)
        new = claim if claim.uid else replace(claim, uid=f"claim-{next(self._claims_made)}")
        self._claims.put(claim.key, new)
        self._tell("Claim", old, new)

    def delete_claim(self, key: PodKey) -> None:
        """DELETE a claim. One that a pod on a node uses stays until that pod is gone.

        Source: plugin StorageObjectInUseProtection, kubernetes `pkg/controller/volume/pvcprotection`.
        """
        old = self._claims.get(key)
        if old is None:
            return
        users = (self.pods.get(pod) for pod in self.pods_of_claim.get(key, ()))
        if any(state is not None and state.pod.node_name and not state.pod.terminal for state in users):
            if not old.deleting:
                self.put_claim(replace(old, deleting=True))
            return
        self._claims.pop(key)
        self._tell("Claim", old, None)

    def put_volume(self, volume: PersistentVolume) -> None:
        """A volume comes or changes."""
        old = self._volumes.get(("", volume.name))
        self._volumes.put(("", volume.name), volume)
        self._tell("Volume", old, volume)

    # Nodes, workloads and budgets

    def put_node(self, node: Node) -> None:
        """A node comes or changes."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        self._missing_nodes.discard(node.name)
        if old is None:
            self.timeline.add("nodeAdded", node=node.name)
        else:
            self.timeline.add("nodeUpdated", node=node.name, change=_change(old, node))
        self._tell("Node", old, node)

    def remove_node(self, name: str) -> None:
        """A node goes; its pods stay until they are collected."""
        old = self.nodes.pop(name, None)
        if old is not None:
            if name in self.by_node:
                self._missing_nodes.add(name)
            self.timeline.add("nodeRemoved", node=name)
            self._tell("Node", old, None)

    def keys_of(self, kind: str) -> list[Key]:
        """The workloads of a kind."""
        return list(self._by_kind.get(kind, ()))

    def owned(self, key: Key) -> list[WorkloadState]:
        """The workloads that one controls."""
        return [self.workloads[each] for each in self._owned.get(key, ())]

    def budgets(self) -> list[Key]:
        """All disruption budgets."""
        return self.keys_of(BUDGET)

    def budgets_of(self, namespace: str, labels: Mapping[str, str]) -> list[Key]:
        """The disruption budgets that select pods of a namespace with these labels."""
        budgets = self._budgets.get(namespace)
        if not budgets:
            return []
        known = self._budgets_of.get((namespace, id(labels)))
        if known is None:
            found = [key for key, budget in budgets.items() if budget.selects(labels)]
            known = self._budgets_of[namespace, id(labels)] = labels, found
        return known[1]

    def put_workload(self, state: WorkloadState) -> None:
        """A workload or a budget comes, or changes in its spec. Raises InvalidObject: a budget that cannot be read."""
        old = self.workloads.get(state.key)
        self.workloads[state.key] = state
        if old is not None and old.controller is not None and old.controller != state.controller:
            self._owned[old.controller].pop(state.key, None)
        if state.controller is not None:
            self._owned.setdefault(state.controller, {})[state.key] = None
        self._by_kind.setdefault(state.key[0], {})[state.key] = None
        if state.key[0] == BUDGET:
            self._budgets.setdefault(state.key[1], {})[state.key] = PodDisruptionBudget.from_api(state.object)
            self._budgets_of.clear()
        self._tell("Workload", old, state)

    def set_status(self, key: Key, status: Any) -> None:
        """What a controller says of its object."""
        old = self.workloads.get(key)
        if old is not None:
            self.workloads[key] = replace(old, status=status)
            self._tell("Status", old, self.workloads[key])

    def remove_workload(self, key: Key) -> None:
        """A workload or a budget goes; its pods follow in the background."""
        old = self.workloads.pop(key, None)
        if old is not None:
            self._by_kind[key[0]].pop(key, None)
            if old.controller is not None:
                self._owned[old.controller].pop(key, None)
            self._budgets.get(key[1], {}).pop(key, None)
            self._budgets_of.clear()
            self._tell("Workload", old, None)

    def _tell(self, kind: str, old: Any, new: Any) -> None:
        self.revision += kind not in _NO_BUDGETS
        change = Change(kind, old, new)
        for watcher in self.watchers:
            watcher(change)


def claims_of(pod: Pod) -> list[PodKey]:
    """The claims that a pod uses, there or not."""
    names = (volume.claim_of(pod.name) for volume in pod.spec.volumes)
    return [(pod.namespace, name) for name in names if name]


def controller_of(pod: Pod) -> Key | None:
    """The identity of the workload that controls a pod."""
    owner = pod.owner
    if owner is None:
        return None
    group = _GROUPS.get(owner.api_version, owner.api_version.rpartition("/")[0])
    return f"{group}/{owner.kind}", pod.namespace, owner.name


def termination_seconds(state: PodState) -> float:
    """How long a pod takes to end once it is told to: its grace period, less where its annotation says so."""
    grace = float(state.pod.spec.termination_grace_period)
    template: Mapping[str, Any] = state.template or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        seconds = float(annotations[TERMINATION_SECONDS])
    except (KeyError, TypeError, ValueError):
        return grace
    return seconds if 0 <= seconds < grace else grace  # who writes `nan` or less than nothing has said nothing


def _change(old: Node, new: Node) -> str:
    """What becomes of a node, in kubectl's word; empty where that is neither its cordon nor its taints."""
    if old.unschedulable != new.unschedulable:
        return "cordoned" if new.unschedulable else "uncordoned"
    if set(new.taints) - set(old.taints):
        return "tainted"
    return "untainted" if set(old.taints) - set(new.taints) else ""
