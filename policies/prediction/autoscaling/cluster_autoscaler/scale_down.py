"""The nodes that cluster-autoscaler removes: those whose Pods fit on other nodes for long enough.

Sources: core/scaledown (planner, eligibility, unneeded, unremovable, budgets, pdb), simulator/cluster.go,
simulator/drainability/rules, simulator/utilization, utils/drain, and processors/scaledowncandidates. The delay after a
failure is not modelled: only a node that cannot be tainted causes it. Pods in simulations terminate within their grace
period, so that no Pod is terminating for too long. Recently evicted Pods count once their controllers have created them
again. Options of single node groups are unknown.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, STATEFUL_SET
from forewarn.policies.kubernetes.objects.node import NO_SCHEDULE, Taint
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo, footprint
from forewarn.policies.kubernetes.scheduling.not_predicted import not_predicted
from forewarn.policies.kubernetes.scheduling.snapshot import Columns, Snapshot
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import Prepared
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.flags import Number, Seconds, Share, Switch, flags_of
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import is_daemon_pod, is_mirror_pod
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import with_all_placed

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.pod import Pod

TO_BE_DELETED: Final = Taint("ToBeDeletedByClusterAutoscaler", "", NO_SCHEDULE)
"""The taint of a node that is being removed."""
DISABLED: Final = "annotation scale-down-disabled"
UNREADY_DISABLED: Final = "not ready"
UNREADABLE: Final = "no cpu or memory"
UTILIZED: Final = "utilization above the threshold"
RECENT: Final = "unremovable at an earlier scan"
NO_PLACE: Final = "Pods fit on no other node"
NOT_LONG_ENOUGH: Final = "not unneeded for long enough"
NOT_UNREADY_LONG_ENOUGH: Final = "not unready for long enough"
MIN_SIZE: Final = "minimum size of the node group"
ON_COMPLETION: Final = "Pod with the annotation safe-to-evict: on-completion"
"""Reasons why a node stays."""
NO_CONTROLLER: Final = "Pod whose controller does not exist"
TOO_FEW_REPLICAS: Final = "Pod of a workload with too few replicas"
NOT_REPLICATED: Final = "Pod without a controller that creates it again"
SYSTEM: Final = "Pod of kube-system without PDB"
NOT_SAFE: Final = "Pod with the annotation safe-to-evict: false"
LOCAL_STORAGE: Final = "Pod with local storage"
PDB: Final = "Pod whose PDB allows no disruptions"
"""Reasons why a Pod prevents the removal of its node."""
_REPLICATED: Final = {
    "ReplicationController": "/ReplicationController",
    "Job": "batch/Job",
    "ReplicaSet": "apps/ReplicaSet",
    "StatefulSet": "apps/StatefulSet",
}
"""Kinds of controllers that recreate Pods -> the form in which cluster-autoscaler looks them up."""
_COUNTED: Final = ("ReplicationController", "ReplicaSet")
"""The kinds whose number of replicas counts."""
_GPUS: Final = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")
_SHORTEST: Final = 1e-9


class ScaleDownSettings(NamedTuple):
    """Flags of cluster-autoscaler; times in seconds. `not_predicted`: why removals are unknown, or ""."""

    enabled: Annotated[Switch, "scale-down-enabled"] = True
    unready_enabled: Annotated[Switch, "scale-down-unready-enabled"] = True
    threshold: Annotated[Share, "scale-down-utilization-threshold"] = 0.5
    gpu_threshold: Annotated[Share, "scale-down-gpu-utilization-threshold"] = 0.5
    unneeded_time: Annotated[Seconds, "scale-down-unneeded-time"] = 600.0
    unready_time: Annotated[Seconds, "scale-down-unready-time"] = 1200.0
    delay_after_add: Annotated[Seconds, "scale-down-delay-after-add"] = 600.0
    delay_after_delete: Annotated[Seconds, "scale-down-delay-after-delete"] = 0.0
    recheck: Annotated[Seconds, "unremovable-node-recheck-timeout"] = 300.0
    max_parallel: Annotated[Number, "max-scale-down-parallelism"] = 10
    max_drains: Annotated[Number, "max-drain-parallelism"] = 1
    ignores_daemon_sets: Annotated[Switch, "ignore-daemonsets-utilization"] = False
    ignores_mirror_pods: Annotated[Switch, "ignore-mirror-pods-utilization"] = False
    skips_system_pods: Annotated[Switch, "skip-nodes-with-system-pods"] = True
    skips_local_storage: Annotated[Switch, "skip-nodes-with-local-storage"] = True
    skips_custom_controllers: Annotated[Switch, "skip-nodes-with-custom-controller-pods"] = True
    min_replicas: Annotated[Number, "min-replica-count"] = 0
    system_pod_timeout: Annotated[Seconds, "blocking-system-pod-distruption-timeout"] = 3600.0
    cordons: Annotated[Switch, "cordon-node-before-terminating"] = True
    delay_after_taint: Annotated[Seconds, "node-delete-delay-after-taint"] = 5.0
    max_eviction_time: Annotated[Seconds, "max-pod-eviction-time"] = 120.0
    max_grace_period: Annotated[Number, "max-graceful-termination-sec"] = 600
    deletion_delay: Annotated[Seconds, "node-deletion-delay-timeout"] = 120.0
    not_predicted: str = ""


SCALE_DOWN_FLAGS: Final = flags_of(ScaleDownSettings)


class GroupSize(NamedTuple):
    """The target size of a node group, and its minimum."""

    target: int
    least: int


@dataclass(frozen=True)
class Scene:
    """The cluster at a scan.

    - `snapshot`: without expendable Pods, with upcoming nodes, and with Pending Pods on nodes on which they fit.
    - `pdbs`: by namespace. `nodes`: the registered nodes in order. `groups`: node -> its group. `sizes`: group -> its
      sizes.
    - `disabled`, `unready`: nodes with the annotation scale-down-disabled, and nodes that are not ready.
    - `deleting`: node that is being removed -> whether it is drained.
    - `created`: returns the creation time of a Pod, or None. `replicas`: returns the desired replicas of a controller
      (`group/Kind`, namespace, name), 1 if unset; None if it does not exist.
    """

    snapshot: Snapshot
    pdbs: Mapping[str, Sequence[PodDisruptionBudget]]
    nodes: Sequence[str]
    groups: Mapping[str, str]
    sizes: Mapping[str, GroupSize]
    disabled: Collection[str]
    unready: Collection[str]
    deleting: Mapping[str, bool]
    created: Callable[[Pod], float | None]
    replicas: Callable[[str, str, str], int | None]

    def count_removals(self, group: str) -> int:
        """Return the number of nodes of a group that are being removed."""
        return sum(self.groups.get(name) == group for name in self.deleting)


class Removable(NamedTuple):
    """A node that may be removed. `pods`: those that move. `risky`: whether PDBs do not allow all evictions at the same
    time. `waits`: whether a Pod with the annotation safe-to-evict: on-completion runs.
    """

    since: float
    pods: Sequence[Pod]
    risky: bool
    waits: bool


class _Moves(NamedTuple):
    """The Pods of a node. `blocked`: why a Pod prevents the removal, or None."""

    pods: Sequence[Pod] = ()
    waits: bool = False
    blocked: str | None = None


class _Budgets:
    """The disruptions that PDBs still allow. Source: `basicRemainingPdbTracker`."""

    def __init__(self, pdbs: Mapping[str, Sequence[PodDisruptionBudget]]) -> None:
        self._pdbs = pdbs
        self._left: dict[tuple[str, str], int] = {}

    def matching(self, pod: Pod) -> list[tuple[str, str]]:
        """Return the PDBs that protect a Pod."""
        own = self._pdbs.get(pod.namespace, ())
        charge(len(own))
        found = [pdb for pdb in own if pdb.selects(pod.labels)]
        for pdb in found:
            self._left.setdefault((pdb.namespace, pdb.name), pdb.disruptions_allowed)
        return [(pdb.namespace, pdb.name) for pdb in found]

    def blocks(self, pod: Pod) -> bool:
        return any(self._left[key] < 1 for key in self.matching(pod))

    def allow_at_once(self, pods: Iterable[Pod]) -> bool:
        counts = Counter(key for pod in pods for key in self.matching(pod))
        return all(self._left[key] >= count for key, count in counts.items())

    def charge(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            for key in self.matching(pod):
                self._left[key] -= 1


@dataclass
class ScaleDown:
    """Decides which nodes to remove, scan by scan. Source: core/scaledown/planner.

    `unneeded`: the nodes that may be removed now or later. `kept`: node -> why it stays.
    """

    settings: ScaleDownSettings
    unneeded: dict[str, Removable] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    is_limited: bool = False
    """Whether the last scan ended before it had checked all nodes, because it had found enough."""
    interval: float | None = None
    """The shortest time between two scans."""
    _recent: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Node -> time until which it counts as unremovable, and why."""
    _hints: dict[str, str] = field(default_factory=dict)
    _last: float | None = None
    _row: int = 0

    def update(self, scene: Scene, now: float) -> None:
        """Find the unneeded nodes. Source: `UpdateClusterState`."""
        interval = max(self.settings.unneeded_time, _SHORTEST) if self.interval is None else self.interval
        self.interval = interval if self._last is None else min(interval, now - self._last)
        self._last, rows = now, scene.snapshot.rows
        self._recent = {name: recent for name, recent in self._recent.items() if recent[0] > now and name in rows}
        self.kept = {}
        removal = _Removal(scene, self.settings, now, self._hints, self._row)
        found: dict[str, Removable] = {}
        eligible = [name for name in self._candidates(removal) if self._is_eligible(removal, name)]
        self.is_limited = False
        for name in eligible:
            if len(found) >= self._limit():
                self.is_limited = True
                break
            moves, problem = removal.simulate(name)
            if problem:
                self.kept[name], self._recent[name] = problem, (now + self.settings.recheck, problem)
                continue
            before = self.unneeded.get(name)
            risky = not removal.budgets.allow_at_once(moves.pods)
            removal.budgets.charge(moves.pods)
            found[name] = Removable(before.since if before else now, moves.pods, risky, moves.waits)
        self.unneeded, self._hints, self._row = found, removal.placed, removal.last

    def _candidates(self, removal: _Removal) -> list[str]:
        """Return the nodes whose groups are above their minimum size, in the order in which they are tried: empty ones
        first.

        Sources: `PreFilteringScaleDownNodeProcessor`, emptycandidates, previouscandidates.
        """
        scene, found = removal.scene, []
        for name in scene.nodes:
            group = scene.groups.get(name)
            if group is None or name in scene.deleting:
                continue
            size = scene.sizes[group]
            if size.target <= size.least:
                self.kept[name] = MIN_SIZE
                continue
            found.append((*removal.emptiness(name), name not in self.unneeded, name))
        return [name for *_, name in sorted(found, key=lambda item: item[:-1])]

    def _is_eligible(self, removal: _Removal, name: str) -> bool:
        problem = RECENT if name in self._recent else removal.ineligible(name)
        if problem:
            self.kept[name] = problem
        return not problem

    def _limit(self) -> int:
        """Return the number of unneeded nodes after which a scan ends. Source: `unneededNodesLimit`."""
        most, interval = self.settings.max_parallel, max(self.interval or 0.0, _SHORTEST)
        loops = int(max(self.settings.unneeded_time, interval) / interval)
        return min(most * loops + most, len(self.unneeded) + 2 * most)

    def nodes_to_delete(self, scene: Scene) -> tuple[list[str], list[str]]:
        """Return the nodes to remove after `update`: empty ones, and those to drain.

        Sources: `NodesToDelete`, `RemovableAt`, `CropNodes`.
        """
        now, left = self._last or 0.0, {name: size.target for name, size in scene.sizes.items()}
        removable: list[str] = []
        for name in sorted(self.unneeded, key=lambda name: bool(self.unneeded[name].pods)):
            group = scene.groups[name]
            if problem := self._too_early(scene, name, now):
                self.kept[name] = problem
            elif left[group] - scene.count_removals(group) <= scene.sizes[group].least:
                self.kept[name] = MIN_SIZE
            else:
                left[group] -= 1
                if self.unneeded[name].waits:
                    self.kept[name] = ON_COMPLETION
                else:
                    removable.append(name)
        empty = [name for name in removable if not self.unneeded[name].pods]
        drained = [name for name in removable if self.unneeded[name].pods]
        drained.sort(key=lambda name: self.unneeded[name].risky)
        budget = max(self.settings.max_parallel - len(scene.deleting), 0)
        empty = _sort_by_group(empty, scene.groups)[:budget]
        drains = min(self.settings.max_drains - sum(scene.deleting.values()), budget - len(empty))
        return empty, _sort_by_group(drained, scene.groups)[: max(drains, 0)]

    def _too_early(self, scene: Scene, name: str, now: float) -> str:
        unready = name in scene.unready
        least = self.settings.unready_time if unready else self.settings.unneeded_time
        if least > 0 and self.unneeded[name].since + least >= now:
            return NOT_UNREADY_LONG_ENOUGH if unready else NOT_LONG_ENOUGH
        return ""

    def reasons(self) -> dict[str, str]:
        """Return why each node stays; for nodes skipped since an earlier scan, the reason found then."""
        return {name: self._recent[name][1] if why == RECENT else why for name, why in self.kept.items()}

    def next_change(self, scene: Scene) -> float | None:
        """Return the time after which the next scan may decide differently although the cluster stays the same."""
        times = [time for time, _ in self._recent.values()]
        for name, removable in self.unneeded.items():
            least = self.settings.unready_time if name in scene.unready else self.settings.unneeded_time
            times.append(removable.since + least)
        return min((time for time in times if time >= (self._last or 0.0)), default=None)


def _sort_by_group(names: Sequence[str], groups: Mapping[str, str]) -> list[str]:
    """Return the nodes group by group, otherwise in the same order."""
    order = {group: turn for turn, group in enumerate(dict.fromkeys(groups[name] for name in names))}
    return sorted(names, key=lambda name: order[groups[name]])


class _Removal:
    """Simulates removals of nodes, one after the other. `placed`: Pod -> the node on which it fits.

    `last`: index of the node that the last search found, without removed nodes.
    """

    def __init__(
        self, scene: Scene, settings: ScaleDownSettings, now: float, hints: Mapping[str, str], last: int = 0
    ) -> None:
        self.scene, self.budgets, self.placed = scene, _Budgets(scene.pdbs), dict[str, str]()
        self.last = last
        self._settings, self._now, self._hints = settings, now, ChainMap(self.placed, dict(hints))
        self._snapshot = scene.snapshot
        self._removed = set[str]()
        """Removed nodes that the Snapshot still has."""
        self._destinations = {name for name in scene.nodes if name not in scene.deleting}

    def _info(self, name: str) -> NodeInfo:
        return self._snapshot.node_infos[self._snapshot.rows[name]]

    def emptiness(self, name: str) -> tuple[bool, bool]:
        """Return (whether Pods of a node must move; if none must, whether the removal waits for Pods to complete)."""
        pods = [pod for pod in self._info(name).pods if not is_mirror_pod(pod) and not is_daemon_pod(pod)]
        charge(1 + len(pods))
        empty = all(pod.safe_to_evict == "on-completion" for pod in pods)
        return not empty, empty and bool(pods)

    def ineligible(self, name: str) -> str | None:
        """Return why a node is not considered, or None. Source: `unremovableReasonAndNodeUtilization`."""
        info, settings = self._info(name), self._settings
        if name in self.scene.disabled:
            return DISABLED
        # Labels of cloud providers for GPUs do not count. Source: utils/gpu.
        gpu = next((name for name in _GPUS if info.node.allocatable.scalars.get(name)), "")
        utilization = self._utilization(info, gpu)
        if utilization is None:
            return UNREADABLE
        if name in self.scene.unready and not settings.unready_enabled:
            return UNREADY_DISABLED
        return UTILIZED if utilization > (settings.gpu_threshold if gpu else settings.threshold) else None

    def _utilization(self, info: NodeInfo, gpu: str) -> float | None:
        """Return the utilization of a node; None without cpu or memory. Source: utilization `Calculate`."""
        charge(1 + len(info.pods))
        allocatable, settings = info.node.allocatable, self._settings
        skipped = [
            footprint(pod, info.semantics).resource
            for pod in info.pods
            if (settings.ignores_daemon_sets and is_daemon_pod(pod))
            or (settings.ignores_mirror_pods and is_mirror_pod(pod))
        ]
        if gpu:
            without = sum(resource.scalars.get(gpu, 0) for resource in skipped)
            return _share(info.scalars.get(gpu, 0) - without, allocatable.scalars.get(gpu, 0), without) or 0.0
        cpu, memory = (sum(getattr(each, what) for each in skipped) for what in ("milli_cpu", "memory"))
        of_cpu = _share(info.milli_cpu - cpu, allocatable.milli_cpu, cpu)
        of_memory = _share(info.memory - memory, allocatable.memory, memory)
        return None if of_cpu is None or of_memory is None else max(of_memory, of_cpu)

    def simulate(self, name: str) -> tuple[_Moves, str | None]:
        """Return the Pods that move if a node is removed, and why it cannot be removed, or None.

        The removed node stays removed. Source: `SimulateNodeRemoval`.
        """
        moves = self.moves(name)
        if moves.blocked:
            return moves, moves.blocked
        self._destinations.discard(name)
        problem = self._move(name, moves.pods)
        if problem:
            self._destinations.add(name)
        else:
            self._removed.add(name)
        return moves, problem

    def moves(self, name: str) -> _Moves:
        """Return the Pods that move if a node is removed. Source: simulator/drain.go, `GetPodsToMove`."""
        pods, waits = list["Pod"](), False
        for pod in self._info(name).pods:
            if is_mirror_pod(pod):
                continue
            if problem := self._without_controller(pod):
                return _Moves(blocked=problem)
            if is_daemon_pod(pod):
                continue
            if pod.safe_to_evict == "on-completion":
                waits = True
                continue
            if pod.safe_to_evict != "true" and (problem := self._blocked(pod)):
                return _Moves(blocked=problem)
            pods.append(pod)
        return _Moves(pods, waits)

    def _without_controller(self, pod: Pod) -> str | None:
        """Return why the Pod's controller prevents the removal of its node, or None. Source: rules/replicacount."""
        settings, owner = self._settings, pod.owner
        if owner is None or not settings.skips_custom_controllers:
            return None
        kind = _REPLICATED.get(owner.kind, "")
        if kind != "/ReplicationController" and is_daemon_pod(pod):
            kind = DAEMON_SET
        if not kind or (kind in (DAEMON_SET, STATEFUL_SET) and owner.group_kind != kind):
            return None
        replicas = self.scene.replicas(kind, pod.namespace, owner.name)
        if replicas is None:
            return NO_CONTROLLER
        return TOO_FEW_REPLICAS if owner.kind in _COUNTED and replicas < settings.min_replicas else None

    def _blocked(self, pod: Pod) -> str | None:
        """Return why a Pod prevents the removal of its node, or None. Source: the blocking checks in rules.go."""
        settings = self._settings
        if pod.owner is None or (settings.skips_custom_controllers and pod.owner.kind not in _REPLICATED):
            return NOT_REPLICATED
        if settings.skips_system_pods and pod.namespace == "kube-system" and not self.budgets.matching(pod):
            created = self.scene.created(pod)
            return None if created is not None and created + settings.system_pod_timeout < self._now else SYSTEM
        if pod.safe_to_evict == "false":
            return NOT_SAFE
        if settings.skips_local_storage and pod.has_local_storage:
            return LOCAL_STORAGE
        return PDB if self.budgets.blocks(pod) else None

    def _move(self, name: str, pods: Sequence[Pod]) -> str | None:
        """Move the Pods of a removed node to others; return why this is impossible, or None. Source: `findPlaceFor`."""
        if not pods:
            return None
        unbound = [replace(pod, node_name="") for pod in pods]
        if why := next(filter(None, (not_predicted(pod, self._snapshot) for pod in unbound)), ""):
            return f"not predicted: {why}"
        if self._removed and not all(Prepared(self._snapshot, pod).holds for pod in unbound):
            self._snapshot, self._removed = _without_nodes(self._snapshot, self._removed), set()
        ghost, rows = _with_ghost(self._snapshot, name), sorted(self._snapshot.rows[each] for each in self._removed)
        after, self.last = with_all_placed(ghost, unbound, self._destinations, rows, self._hints, self.last)
        if after is None:
            return NO_PLACE
        self._snapshot = after
        return None


def pods_to_move(scene: Scene, settings: ScaleDownSettings, name: str, now: float) -> tuple[Sequence[Pod], str | None]:
    """Return the Pods that move if a node is removed now, and why it cannot be removed, or None."""
    moves = _Removal(scene, settings, now, {}).moves(name)
    return moves.pods, moves.blocked or (ON_COMPLETION if moves.waits else None)


def _share(requested: int, allocatable: int, skipped: int) -> float | None:
    """Return the used share of a resource; None if the node has none. Source: `CalculateUtilizationOfResource`."""
    if allocatable == 0:
        return None
    left = allocatable - skipped
    return requested / left if left else (float("inf") if requested else float("nan"))


def _with_ghost(snapshot: Snapshot, name: str) -> Snapshot:
    """Return the cluster with the node tainted and without Pods. Source: `replaceWithTaintedGhostNode`."""
    node = snapshot.node_infos[snapshot.rows[name]].node
    ghost = NodeInfo(replace(node, taints=(*node.taints, TO_BE_DELETED)), (), snapshot.semantics)
    objects = replace(
        snapshot.objects,
        nodes={**snapshot.objects.nodes, ("", name): ghost.node},
        pods_by_node={**snapshot.objects.pods_by_node, name: ()},
    )
    return snapshot.with_node_infos(objects, {snapshot.rows[name]: ghost})


def _without_nodes(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """Return the cluster without nodes and their Pods. Does not change the tables of the given Snapshot."""
    infos = [info for info in snapshot.node_infos if info.name not in names]
    charge(len(snapshot.node_infos))
    objects = replace(
        snapshot.objects,
        nodes={key: node for key, node in snapshot.objects.nodes.items() if key[1] not in names},
        pods_by_node={name: pods for name, pods in snapshot.objects.pods_by_node.items() if name not in names},
    )
    return Snapshot(objects, infos, Columns.build(infos))
