"""kube-scheduler's cache in a simulation: the stored objects, and its own decisions that are not stored yet.

Source: kubernetes `pkg/scheduler/backend/cache/cache.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import zip_longest
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from forewarn.policies.base.copies import replace
from forewarn.policies.base.cow_table import GroupedTable, Overlay, Table
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.kubernetes.objects.workload import Workload
from forewarn.policies.kubernetes.scheduling.cache import PodsByNode
from forewarn.policies.kubernetes.scheduling.find_nodes import MIN_FEASIBLE_NODES, framework_of
from forewarn.policies.kubernetes.scheduling.framework import Code, Status, foreign_at
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects, NodeInfo
from forewarn.policies.kubernetes.scheduling.not_predicted import unmodelled, victims_tie, without_gang_scheduling
from forewarn.policies.kubernetes.scheduling.plugins.dynamic_resources import DynamicResources
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import PodVolumes, VolumeBinding
from forewarn.policies.kubernetes.scheduling.pod_group_cycle import NO_NODES, MemberStatus, NotModelled, place_member
from forewarn.policies.kubernetes.scheduling.preemption import Candidate, Decision
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import Entity, discard
from forewarn.policies.kubernetes.scheduling.reasons import FitError
from forewarn.policies.kubernetes.scheduling.recurring_cycle import RecurringCycle, RecurringCycles
from forewarn.policies.kubernetes.scheduling.schedule_one import NO_PREEMPTION, Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import (
    Cycle,
    found_in_order,
    num_nodes_after_pre_filter,
    percentage_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.controllers.view import WorkloadState
    from forewarn.policies.kubernetes.objects.devices import ResourceClaim
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.kubernetes.releases.semantics import Profile

Key = tuple[str, str]
"""(namespace, name) of a PodGroup."""


class PodGroupStates:
    """The Pods of each PodGroup: all Pods, and those that are bound or assumed. Includes terminating Pods."""

    def __init__(self) -> None:
        self._all: dict[Key, dict[str, Pod]] = {}
        self._scheduled: dict[Key, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> None:
        """Add a Pod, change a Pod, or assume a Pod on its node."""
        if not pod.spec.pod_group:
            return
        key = pod.namespace, pod.spec.pod_group
        self._all.setdefault(key, {})[pod.uid] = pod
        if pod.node_name:
            self._scheduled.setdefault(key, {})[pod.uid] = pod
        else:
            discard(self._scheduled, key, pod.uid)

    def remove(self, pod: Pod) -> None:
        """Remove a Pod."""
        if pod.spec.pod_group:
            for pods in (self._all, self._scheduled):
                discard(pods, (pod.namespace, pod.spec.pod_group), pod.uid)

    def count(self, key: Key) -> int:
        return len(self._all.get(key, ()))

    def scheduled(self, key: Key) -> Sequence[Pod]:
        return list(self._scheduled.get(key, {}).values())


_ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeTree:
    """The names of nodes by zone. Zones and nodes are in the order of creation."""

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[str, None]] = {}
        self._zone_of: dict[str, tuple[str, str]] = {}
        self._listed: list[str] | None = None

    def put(self, node: Node) -> None:
        """Add or change a node. A node that changes its zone becomes the last node of the new zone."""
        labels = node.labels
        zone = labels.get(_REGION[0], labels.get(_REGION[1], "")), labels.get(_ZONE[0], labels.get(_ZONE[1], ""))
        if self._zone_of.get(node.name) == zone:
            return
        self.remove(node.name)
        self._zones.setdefault(zone, {})[node.name] = None
        self._zone_of[node.name] = zone

    def remove(self, name: str) -> None:
        """Remove a node; a zone without nodes is removed, too."""
        self._listed = None
        zone = self._zone_of.pop(name, None)
        if zone is not None:
            discard(self._zones, zone, name)

    def list(self) -> Sequence[str]:
        """Return the names of the nodes, one of each zone in turn."""
        if self._listed is None:
            rounds = zip_longest(*self._zones.values())
            self._listed = [name for names in rounds for name in names if name is not None]
        return self._listed


def node_tree_of(snapshot: Snapshot) -> NodeTree:
    """Return the NodeTree of a Snapshot, which all simulations of these nodes share. Do not change it."""
    derived, nodes = snapshot.derived, snapshot.objects.nodes
    with derived.locked():
        if derived.node_tree is None or derived.node_tree[0] is not nodes:
            charge(2 * len(snapshot.node_infos))
            tree = NodeTree()
            for info in snapshot.node_infos:
                tree.put(info.node)
            derived.node_tree = nodes, tree
        shared: NodeTree = derived.node_tree[1]
    return shared


def top_place(best: Sequence[int] | NDArray[np.intp]) -> int:
    """Return the index of the element that ends on top of the heap, among elements that are equally good. `best`:
    indices, ascending.

    `heap.Init` sifts down from the last parent to the first, and swaps only if a child is better; the right child only
    if it is better than the left. So a parent remains above equal children, and the left child moves up first: the
    first element in preorder. The path to index p is the binary number p + 1 without its first digit. Padded with zeros
    to equal length, the paths sort in preorder; among equal paths, the shorter comes first.
    """
    if best[0] == 0 or len(best) == 1:
        return int(best[0])
    numbers = np.asarray(best, np.int64) + 1
    digits = np.frexp(numbers)[1]
    return int(numbers[np.argmin(numbers << (digits[-1] - digits))]) - 1


_TABLES: Final = (
    "pods_by_node", "nominated", "nodes", "pdbs", "workloads", "claims", "volumes", "resource_claims", "pod_groups",
)  # fmt: skip
"""The fields of ClusterObjects that change during a simulation."""


class SchedulerCache:
    """The Pods on nodes (bound or assumed), nominated Pods, nodes, and all other input of plugins."""

    def __init__(self, base: ClusterObjects | None = None) -> None:
        """Start without Pods and nodes. `base`: constant objects, and the initial claims, volumes and PodGroups."""
        self.base = base or ClusterObjects()
        self.claims: Overlay[tuple[str, str], PersistentVolumeClaim] = Overlay(self.base.claims)
        """PersistentVolumeClaims, as stored or as assumed by the scheduler. Volumes and ResourceClaims are, too."""
        self.volumes: Overlay[tuple[str, str], PersistentVolume] = Overlay(self.base.volumes)
        self.resource_claims: Overlay[tuple[str, str], ResourceClaim] = Overlay(self.base.resource_claims)
        self.pod_groups: Overlay[tuple[str, str], PodGroup] = Overlay(self.base.pod_groups)
        self.group_states = PodGroupStates()
        self._nodes: Table[tuple[str, str], Node] = Table()
        self._pdbs: Table[tuple[str, str], PodDisruptionBudget] = Table()
        self._workloads: GroupedTable[tuple[str, str, str], Workload] = GroupedTable(place=1)
        self._read: dict[tuple[str, str], tuple[ApiObject, PodDisruptionBudget]] = {}
        """Parsed PDBs. Caches use the identity of a selector, which a change of the status must not replace."""
        self._pods_by_node = PodsByNode()
        self._overlays: Mapping[str, Any] = {
            "claims": self.claims,
            "volumes": self.volumes,
            "resource_claims": self.resource_claims,
            "pod_groups": self.pod_groups,
        }
        by_node, nominated = self._pods_by_node.by_node, self._pods_by_node.nominated
        tables = by_node, nominated, self._nodes, self._pdbs, self._workloads, *self._overlays.values()
        self._freezing = [table.freeze for table in tables]
        self.node_tree = NodeTree()
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._last: Snapshot | None = None
        self._frozen: Sequence[Any] = ()
        """The `_TABLES` of the last Snapshot."""

    def snapshot(self) -> Snapshot:
        """Return the Snapshot for the next cycle, or the last one if nothing changed. Do not use earlier Snapshots."""
        frozen = [freeze() for freeze in self._freezing]
        if self._last is None or any(map(is_not, frozen, self._frozen)):
            objects = replace(self.base, **dict(zip(_TABLES, frozen, strict=True)))
            changed = self._pods_by_node.take_changed()
            self._frozen, self._last = frozen, Snapshot.build(objects, self._last, changed, in_place=True)
        return self._last

    # Pods

    def add_pod(self, pod: Pod) -> None:
        """Add a Pod that the API server stores as bound, whether the Pod was assumed before or not."""
        self._assumed.discard(pod.uid)
        self.group_states.put(pod)
        self._change(self._pods.get(pod.uid), pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a bound Pod."""
        self._assumed.discard(pod.uid)
        self.group_states.remove(pod)
        self._change(self._pods.get(pod.uid), None)

    def assume(self, pod: Pod, node: str) -> None:
        """Treat a Pod as bound until the API server confirms or rejects the binding."""
        self._assumed.add(pod.uid)
        labels = self._nodes.get(("", node))
        assumed = pod.bound_to(node, labels.labels if labels else {})
        self.group_states.put(assumed)
        self._change(None, assumed)

    def forget(self, pod: Pod) -> bool:
        """Remove an assumed Pod that will not be bound; return whether the Pod was assumed."""
        if pod.uid not in self._assumed:
            return False
        self.remove_pod(pod)
        self.group_states.put(pod)
        return True

    def is_assumed(self, pod: Pod) -> bool:
        """Report whether a Pod is assumed, but the API server has not confirmed the binding."""
        return pod.uid in self._assumed

    def nominate(self, old: Pod | None, new: Pod | None) -> None:
        """Replace the nomination of a Pod. `old`, `new`: the nominated Pod before and after; None: no nomination."""
        self._pods_by_node.change_pod(old, new)

    def _change(self, old: Pod | None, new: Pod | None) -> None:
        self._pods_by_node.change_pod(old, new)
        if new is not None:
            self._pods[new.uid] = new
        elif old is not None:
            del self._pods[old.uid]

    # Other objects

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup of a Pod; None if the Pod has none or the PodGroup does not exist."""
        return self.pod_groups.get((pod.namespace, pod.spec.pod_group)) if pod.spec.pod_group else None

    def put_node(self, node: Node) -> None:
        """Add or change a node."""
        self._nodes.put(("", node.name), node)
        self.node_tree.put(node)
        self._pods_by_node.change_node(node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._nodes.pop(("", name))
        self.node_tree.remove(name)
        self._pods_by_node.change_node(name)

    def put_workload(self, state: WorkloadState) -> None:
        """Add or change a workload or PDB."""
        kind, namespace, name = state.key
        if kind == DISRUPTION_BUDGET:
            pdb = self._pdb(state)
            if self._pdbs.get((namespace, name)) != pdb:
                self._pdbs.put((namespace, name), pdb)
        else:
            self._workloads.put(state.key, Workload.from_api(state.object))

    def remove_workload(self, state: WorkloadState) -> None:
        """Remove a workload or PDB."""
        kind, namespace, name = state.key
        if kind == DISRUPTION_BUDGET:
            self._pdbs.pop((namespace, name))
            self._read.pop((namespace, name), None)
        else:
            self._workloads.pop(state.key)

    def _pdb(self, state: WorkloadState) -> PodDisruptionBudget:
        key, status = state.key[1:], cast("Any", state.status)
        cached = self._read.get(key)
        if cached is None or cached[0] is not state.object:
            cached = self._read[key] = state.object, PodDisruptionBudget.from_api(state.object)
        pdb = cached[1]
        return replace(pdb, surplus=status.disruptions_allowed, stale=False) if status else pdb


NO_CLAIMS: Final = "no new claims to deallocate"
_BEFORE_CYCLE: Final = (("queueSort", "sorts the queue"), ("preEnqueue", "may keep the Pod from the queue"))
_AFTER_CYCLE: Final = tuple((at, "may keep the Pod from its node") for at in ("reserve", "permit", "preBind", "bind"))
"""Pairs of an extension point that simulations do not run, and what its plugins may do."""


class NotPredicted(InvalidObject):
    """The error if the result of a cycle depends on something that forewarn does not model."""


class Fits(NamedTuple):
    """The result of a cycle in which the Pod fits on a node."""

    node: str


class Rejected(NamedTuple):
    """The result of a cycle in which the Pod is unschedulable.

    `plugins`: the plugins that rejected the Pod; empty for an error. `nominated`: the node to set in the Pod's status;
    "": clear; None: no change. `candidate`: the victims to evict. `decision`: the nodes that may be nominated.
    """

    message: str
    plugins: frozenset[str] = frozenset()
    nominated: str | None = None
    candidate: Candidate | None = None
    error: bool = False
    decision: Decision = Decision()


_MAX_EQUAL: Final = 16
"""Maximum number of recorded candidates that equal a chosen one."""
_MAX_WITH_EQUAL: Final = 64
"""Maximum number of preemptions for which equal candidates are recorded: each requires an evaluation of its victims."""


class SchedulingAlgorithm:
    """The scheduling algorithm, with state from cycle to cycle.

    `choose`: selects one of several equal candidates for preemption; upstream uses the order of a Go map. `tie`:
    selects one of several nodes with the best score; None: as upstream.
    """

    def __init__(
        self, nodes: NodeTree, choose: Callable[[Sequence[str]], str], tie: Callable[[Sequence[str]], str] | None = None
    ) -> None:
        self._nodes, self._choose, self.tie = nodes, choose, tie
        self._next_start = 0
        """The position in the order of nodes at which the next cycle starts (upstream `nextStartNodeIndex`)."""
        self._snapshot: Snapshot | None = None
        """The Snapshot of the last cycle."""
        self._rejected_there: dict[Hashable, tuple[Pod, Rejected]] = {}
        """For Pods that preemption does not help: what equal Pods share -> (one of them, its result); this Snapshot."""
        self._order: tuple[Sequence[str], NDArray[np.intp]] | None = None
        self.recurring = RecurringCycles()
        self.explains = True
        """Whether texts say why preemption helps on no node."""
        self.equal: list[list[Candidate]] | None = None
        """Chosen preemption candidates, each followed by equal ones, any of which kube-scheduler may choose; None: not
        recorded.
        """
        self.has_more_equal = False
        """Whether more equal candidates exist than `equal` has, or kube-scheduler evaluates only a random part of the
        nodes.
        """
        self.is_drawn: bool | None = None
        """Whether kube-scheduler chose between nodes, victims or Pods that differ beyond names; None: unknown."""

    def schedule_pod(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        """Return the result of a cycle for one Pod. Raises NotPredicted."""
        if self._snapshot is not snapshot:
            self._snapshot = snapshot
            self._rejected_there.clear()
        identity = pod.effective_priority, pod.preemption_policy, pod.namespace, pod.owner, pod.device_claims
        alike = id(pod.spec), id(pod.labels), *identity
        is_like_others = not (pod.nominated_node_name or any(volume.ephemeral for volume in pod.spec.volumes))
        if is_like_others and alike in self._rejected_there:
            return self._rejected_there[alike][1]
        if why := pod.spec.too_large or unmodelled(pod, snapshot):
            raise NotPredicted(f"not predicted: Pod {pod.key}: {why}")
        _check_plugins(snapshot, pod)
        result = self._decide(snapshot, pod)
        if isinstance(result, Fits):
            _check_plugins(snapshot, pod, fits=True)
        elif result.candidate is None and is_like_others:
            self._rejected_there[alike] = pod, result
        return result

    def place(self, snapshot: Snapshot, pod: Pod) -> MemberStatus:
        """Find a node for one Pod of a PodGroup, without preemption. Raises NotPredicted."""
        _check_plugins(snapshot, pod, fits=True)
        if reason := without_gang_scheduling(pod, snapshot.semantics):
            raise NotPredicted(f"not predicted: Pod {pod.key}: {reason}")
        host = self._common_result(snapshot, pod, member=True) if snapshot.node_infos else None
        if isinstance(host, Fits):
            return MemberStatus(host.node)
        if host is not None:
            return MemberStatus(message=host.message, plugins=host.plugins)
        try:
            return place_member(snapshot, pod, self._host, _message_of)
        except NotModelled as why:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {why}") from why

    def _decide(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        if not snapshot.node_infos:
            return Rejected(NO_NODES, nominated="")
        if result := self._common_result(snapshot, pod):
            return result
        prediction = Prediction(snapshot, pod)
        if prediction.not_predicted:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {prediction.not_predicted}")
        node = self._host(prediction)
        return Fits(node) if node else self._rejected(prediction)

    def _common_result(self, snapshot: Snapshot, pod: Pod, *, member: bool = False) -> Fits | Rejected | None:
        """Return the result, computed for all nodes together, or None. `member`: of a PodGroup, and never preempts."""
        with snapshot.derived.locked(), suppress(NotValid):
            outcome, evaluated = self._in_columns(snapshot, pod, member=member)
            self._advance_start(snapshot, min(evaluated, num_nodes_after_pre_filter(snapshot, pod)))
            return outcome
        return None

    def _in_columns(self, snapshot: Snapshot, pod: Pod, *, member: bool) -> tuple[Fits | Rejected, int]:
        """Return (result, evaluated nodes). Raises NotValid, also if only plugins that run node by node can preempt."""
        recurring = None if member else self.recurring.cycle(snapshot, pod)
        cycle = recurring or Cycle(snapshot, pod)
        if cycle.fits_on(pod.nominated_node_name):
            return Fits(pod.nominated_node_name), 0
        rows, evaluated = cycle.find(self._rows(snapshot))
        if len(rows):
            return Fits(self._best(snapshot, rows, cycle.scores)), evaluated
        if member:
            plugins, reasons = cycle.rejection()
            return Rejected(fit_error(len(cycle.snapshot.node_infos), reasons), plugins), evaluated
        if not cycle.preempts:
            raise NotValid
        return self._reject_and_preempt(cycle), evaluated

    def _rows(self, snapshot: Snapshot) -> NDArray[np.intp]:
        """Return the row numbers of the nodes in the order in which this cycle evaluates them. Do not modify it."""
        names = self._nodes.list()
        if self._order is None or self._order[0] is not names:
            rows = np.fromiter((snapshot.rows[name] for name in names), np.intp, len(names))
            self._order = names, np.concatenate((rows, rows))
        start = self._next_start % len(names)
        return self._order[1][start : start + len(names)]

    def _best(
        self, snapshot: Snapshot, rows: NDArray[np.intp], scores: Callable[[NDArray[np.intp]], NDArray[np.int64]]
    ) -> str:
        """Return the node with the best score. `rows`: row numbers of the feasible nodes in the order of the search."""
        infos = snapshot.node_infos
        if len(rows) == 1:
            return infos[int(rows[0])].name
        totals = scores(rows)
        best = np.flatnonzero(totals == totals.max())
        self._note_draw([infos[row] for row in rows[best].tolist()])
        if self.tie is not None and len(best) > 1:
            return self.tie(sorted(infos[row].name for row in rows[best].tolist()))
        return infos[int(rows[top_place(best)])].name

    def _reject_and_preempt(self, cycle: Cycle | RecurringCycle) -> Rejected:
        """Return the rejection and the preemption of a Pod that fits on no node. Raises NotValid."""
        snapshot, ineligible = cycle.snapshot, cycle.ineligible_reason
        decision = Decision() if ineligible else cycle.decision
        plugins, reasons = cycle.rejection()
        message = fit_error(len(snapshot.node_infos), reasons)
        if decision.best_nodes:
            return self._preempting(snapshot, message, plugins, decision, cycle.candidate_on)
        text = _with_preemption(snapshot, message, ineligible or self._unhelped(cycle))
        return Rejected(text, plugins, None if ineligible else "")

    def _preempting(
        self,
        snapshot: Snapshot,
        message: FitError,
        plugins: frozenset[str],
        decision: Decision,
        candidate_on: Callable[[str], Candidate],
    ) -> Rejected:
        """Return the rejection with one of the best nodes and its victims. `candidate_on`: by node name."""
        node = self._choose(decision.best_nodes)
        candidate = candidate_on(node)
        self._record_equal(snapshot, candidate, decision.best_nodes, candidate_on)
        self.has_more_equal |= decision.is_sampled
        return Rejected(_with_candidate(snapshot, message, candidate), plugins, node, candidate, decision=decision)

    def _unhelped(self, cycle: Cycle | RecurringCycle) -> FitError:
        nodes = len(cycle.snapshot.node_infos)
        if self.explains and nodes <= MIN_FEASIBLE_NODES:
            return fit_error(nodes, cycle.unhelped())
        return FitError(f"0/{nodes} nodes are available: no node is helped by it.")

    def _note_draw(self, infos: Sequence[NodeInfo]) -> None:
        """Record whether equally good nodes differ in their Pods."""
        if self.is_drawn is False and len(infos) > 1:
            first = _count_kinds(infos[0].pods)
            self.is_drawn = any(_count_kinds(info.pods) != first for info in infos[1:])

    def note_order(self, first: Entity, second: Entity | None) -> None:
        """Record whether two differing Pods or PodGroups may be tried in any order. `second`: the next one, if any."""
        if self.is_drawn is False and second is not None and first.priority == second.priority:
            one, other = (_count_kinds(member.pod for member in each.members) for each in (first, second))
            self.is_drawn = one != other

    def _record_equal(
        self, snapshot: Snapshot, chosen: Candidate, best: Sequence[str], candidate_on: Callable[[str], Candidate]
    ) -> None:
        if self.equal is not None:
            self._note_draw([snapshot.node_infos[snapshot.rows[name]] for name in best])
            if self.is_drawn is False:
                self.is_drawn = victims_tie(chosen, snapshot)
            others = [name for name in best if name != chosen.node_name]
            recorded = others[:_MAX_EQUAL] if len(self.equal) < _MAX_WITH_EQUAL else []
            self.equal.append([chosen, *map(candidate_on, recorded)])
            self.has_more_equal |= len(others) > len(recorded)

    def _advance_start(self, snapshot: Snapshot, evaluated: int) -> None:
        self._next_start = (self._next_start + evaluated) % len(snapshot.node_infos)

    def _host(self, prediction: Prediction) -> str:
        """Return the node of the Pod: its nominated node, or the best of the nodes that kube-scheduler finds before it
        stops; "" if the Pod does not fit. Raises NotPredicted if their scores are unknown.
        """
        snapshot, own = prediction.snapshot, prediction.pod.nominated_node_name
        feasible = prediction.feasible
        if not feasible:
            if prediction.pre_filter is None:
                self._advance_start(snapshot, prediction.evaluated_nodes)
            return ""
        if own in feasible:
            return own
        is_feasible = np.zeros(len(snapshot.node_infos), np.bool_)
        is_feasible[[snapshot.rows[name] for name in feasible]] = True
        hosts = found_in_order(is_feasible, self._rows(snapshot), percentage_of(prediction.framework))
        self._advance_start(snapshot, min(hosts.evaluated, prediction.evaluated_nodes))
        if prediction.error:
            return ""
        return self._best(snapshot, hosts.rows, partial(_total_scores, prediction))

    def _rejected(self, prediction: Prediction) -> Rejected:
        snapshot, rejection = prediction.snapshot, prediction.rejection
        if rejection.error:
            return Rejected(rejection.error, nominated="", error=True)
        preemption = prediction.preemption
        plugins = rejection.plugins
        message = _message_of(prediction)
        if preemption.best_candidates:
            candidates = {candidate.node_name: candidate for candidate in preemption.best_candidates}
            return self._preempting(snapshot, message, plugins, preemption.decision, candidates.__getitem__)
        if preemption.ineligible_reason == NO_PREEMPTION:
            nominated = None if prediction.framework.profile.plugins_at("postFilter") else ""
            return Rejected(_without_preemption(prediction, message), plugins, nominated)
        if preemption.ineligible_reason:
            return Rejected(_with_preemption(snapshot, message, preemption.ineligible_reason), plugins)
        errors = [status for status in preemption.statuses.values() if status.code is Code.ERROR]
        if errors:
            return Rejected(_with_preemption(snapshot, message, errors[0].reasons[0]), plugins)
        nodes = len(snapshot.node_infos)
        why = fit_error(nodes, preemption.reasons(nodes))
        return Rejected(_with_preemption(snapshot, message, why), plugins, nominated="")


def _count_kinds(pods: Iterable[Pod]) -> Counter[tuple[Any, ...]]:
    """Count the Pods by the properties that distinguish them, apart from names."""
    return Counter(
        (pod.namespace, pod.owner, pod.effective_priority, pod.start_time, pod.terminating, id(pod.spec))
        for pod in pods
    )


def _total_scores(prediction: Prediction, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the total score for each node in `rows`. Raises NotPredicted if the scores are unknown."""
    scored = prediction.score(rows)
    if scored.unknown:
        raise NotPredicted(f"not predicted: Pod {prediction.pod.key}: {scored.unknown}")
    return np.array([row["total"] for row in scored.scores.values()])


def _message_of(prediction: Prediction) -> FitError:
    reasons = Counter(reason for status in prediction.rejection.statuses for reason in status.reasons)
    return fit_error(len(prediction.snapshot.node_infos), reasons, prediction.pre_filter)


def _check_plugins(snapshot: Snapshot, pod: Pod, *, fits: bool = False) -> None:
    """Raise NotPredicted for third-party plugins that are not simulated. `fits`: include those after the choice."""
    configuration = snapshot.semantics.scheduler
    profile = None if configuration is None else configuration.profile(pod.spec.scheduler_name)
    if profile is not None:
        what = _not_simulated(profile, _BEFORE_CYCLE) or (_not_simulated(profile, _AFTER_CYCLE) if fits else "")
        if what:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {what}")


@lru_cache(64)
def _not_simulated(profile: Profile, points: Sequence[tuple[str, str]]) -> str:
    """Return the first third-party plugin of a profile at these extension points, as a sentence; "" without one.

    `points`: extension point, and what its plugins may do. DefaultBinder binds every Pod, so only the first Bind plugin
    matters.
    """
    for point, effect in points:
        names = profile.plugins_at(point)[:1] if point == "bind" else profile.plugins_at(point)
        if foreign := [name for name in foreign_at(profile, point) if name in names]:
            return f"plugin {foreign[0]} of the profile {effect} ({point}), and is not simulated"
    return ""


def _with_preemption(snapshot: Snapshot, message: FitError, why: str) -> str:
    claims = "" if snapshot.semantics.successful_preemptions_are_reported else f"{NO_CLAIMS}, "
    return FitError(f"{message} {claims}preemption: {why}", message.reasons, why)


def _without_preemption(prediction: Prediction, message: FitError) -> str:
    """Return the message for a profile without a plugin that preempts."""
    returns_claims = DynamicResources.name in prediction.framework.profile.plugins_at("postFilter")
    is_silent = prediction.snapshot.semantics.successful_preemptions_are_reported
    return FitError(f"{message} {NO_CLAIMS}", message.reasons) if returns_claims and not is_silent else message


def _with_candidate(snapshot: Snapshot, message: FitError, candidate: Candidate) -> FitError:
    """Return the message with the result of preemption; unchanged in releases that do not report this result."""
    if not snapshot.semantics.successful_preemptions_are_reported:
        return message
    text = f"found a potential placement for pod on node {candidate.node_name}"
    return FitError(f"{message} preemption: {text}, preempting {len(candidate.victims)} victims", message.reasons)


def volumes_on(snapshot: Snapshot, pod: Pod, node: str) -> PodVolumes | None:
    """Return the volumes to bind or provision before a Pod is bound to its node; None if there are none."""
    info = snapshot.get(node)
    if info is None or not pod.spec.has_storage:
        return None
    plugins = framework_of(snapshot, pod).pre_filters
    return next((plugin.volumes_on(pod, info) for plugin in plugins if isinstance(plugin, VolumeBinding)), None)


def fit_error(nodes: int, reasons: Mapping[str, int], pre_filter: Status | None = None) -> FitError:
    """Return upstream's exact message for an unschedulable Pod. `reasons`: reason -> number of nodes.

    `nodes`: number of all nodes. `pre_filter`: the status with which PreFilter rejected the Pod, or None. The text
    matters because kube-scheduler does not write a condition again if the message is the same.
    """
    message = f"0/{nodes} nodes are available:"
    if pre_filter is not None:
        return FitError(f"{message} {', '.join(pre_filter.reasons)}.", dict.fromkeys(pre_filter.reasons, 0))
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return FitError(f"{message} {', '.join(counted)}." if counted else message, reasons)
