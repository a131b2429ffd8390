"""One scheduling cycle on a large cluster, all nodes at once: where a pod goes, or who rejects it.

The same as plugin by plugin and node by node (tests hold them to each other), for pods of which a fast path is valid.
Source: kubernetes `pkg/scheduler/schedule_one.go` (`findNodesThatPassFilters`, `numFeasibleNodesToFind`), the Score
plugins of the default profile.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.metering import charge
from policies.objects.resources import CPU, MEMORY, NON_ZERO_DEFAULTS, as_resource
from policies.objects.taints import PREFER_NO_SCHEDULE, tolerations_tolerate_taint, untolerated_taint
from policies.scheduling.configuration import configuration_of
from policies.scheduling.filtering import num_feasible_nodes_to_find
from policies.scheduling.framework import MAX_NODE_SCORE, CycleState, Framework
from policies.scheduling.plugins import node_affinity, node_unschedulable, taint_toleration
from policies.scheduling.plugins.default_selector import controller_of
from policies.scheduling.plugins.image_locality import ImageLocality, normalized_image_name
from policies.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from policies.scheduling.plugins.inter_pod_affinity_columns import affinity_scores
from policies.scheduling.plugins.node_affinity import NodeAffinity, named_nodes, preference
from policies.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from policies.scheduling.plugins.node_resources_fit import NodeResourcesFit
from policies.scheduling.plugins.node_unschedulable import UNSCHEDULABLE_TAINT, NodeUnschedulable
from policies.scheduling.plugins.pod_topology_spread import PodTopologySpread, default_constraints, schedule_anyway
from policies.scheduling.plugins.pod_topology_spread_columns import spread_scores
from policies.scheduling.plugins.taint_toleration import TaintToleration, of_preferences, untolerated_preferences
from policies.scheduling.status import unresolvable
from policies.scheduling.vectorized.node_fit import NodeFit
from policies.scheduling.vectorized.nodes import said_of_nodes
from policies.scheduling.vectorized.pod_matrix import PodMatrix, pod_matrix_of
from policies.scheduling.vectorized.problem import NotValid
from policies.scheduling.vectorized.rejections import Present, first_rejections, rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from policies.objects.node import Node
    from policies.objects.node_selector import PreferredSchedulingTerm
    from policies.objects.pod import Pod
    from policies.objects.pod_spec import PodSpec
    from policies.scheduling.framework import Status
    from policies.scheduling.plugins.pod_topology_spread import Constraints
    from policies.scheduling.preemption import Candidate
    from policies.scheduling.snapshot import Snapshot
    from policies.scheduling.vectorized.resource_scores import ResourceScores

_KEPT: Final = 512
_KEPT_CONSTRAINTS: Final = 8192
NOT_NAMED: Final = f"node(s) didn't satisfy plugin(s) [{NodeAffinity.name}]"


class Found(NamedTuple):
    """Feasible nodes, as rows, in the order in which they are found; `evaluated`: how many nodes were looked at."""

    rows: NDArray[np.intp]
    evaluated: int


def found_in_order(feasible: NDArray[np.bool_], order: NDArray[np.intp]) -> Found:
    """The nodes that a scheduler finds that goes through them in this order. `feasible`: [row]."""
    most = num_feasible_nodes_to_find(len(order))
    if 4 * most < len(order):  # most nodes of a large cluster need not be looked at
        places = np.flatnonzero(feasible[order[: 2 * most]])
        if len(places) > most:
            return Found(order[places[:most]], int(places[most]))
    places = np.flatnonzero(feasible[order])
    if len(places) <= most:
        return Found(order[places], len(order))
    return Found(order[places[:most]], int(places[most]))


class Cycle:
    """One pod on one snapshot. Use it with `snapshot.derived.taken()`."""

    def __init__(self, snapshot: Snapshot, pod: Pod) -> None:
        """Raises NotValid: the plugins must be asked one by one."""
        self.snapshot, self.pod = snapshot, pod
        self.matrix: PodMatrix = pod_matrix_of(snapshot)
        semantics = snapshot.semantics
        if semantics.scheduler is not None or not semantics.balanced_allocation_scores_the_change:
            raise NotValid  # scores are those of the default profile, since 1.36
        self.framework = _framework(snapshot, pod)
        self.node_fit = NodeFit(snapshot, pod, self.matrix, self.framework)
        self.feasible: NDArray[np.bool_] = self.node_fit.feasible

    def fits_on(self, name: str) -> bool:
        """Whether a node, which need not exist, can run it."""
        row = self.snapshot.rows.get(name)
        return row is not None and bool(self.feasible[row])

    def find(self, order: NDArray[np.intp]) -> Found:
        """The nodes that the scheduler finds, going through them in this order; none where it finds none."""
        return found_in_order(self.feasible, order)

    def waits(self) -> bool:
        """Whether victims of an earlier preemption are leaving."""
        return self.node_fit.waits()

    def best_nodes(self) -> list[str]:
        """The nodes that may be nominated, by name; none where preemption does not help."""
        return self.node_fit.answer().best_nodes

    def candidate_on(self, name: str) -> Candidate:
        """Who would have to go on a node that may be nominated."""
        return next(self.node_fit.candidates(np.array([self.snapshot.rows[name]])))

    def rejection(self) -> tuple[frozenset[str], Counter[str]]:
        """(plugins that reject it, reason -> number of nodes). Raises NotValid."""
        if not all(hasattr(plugin, "rejections_in_columns") for plugin in self.framework.column_plugins):
            raise NotValid
        plugins, reasons, left = self.static_rejections()
        found = first_rejections(self.node_fit, rejected(~left, unresolvable()), Present())
        counts = np.bincount(found.codes[left & (found.codes >= 0)], minlength=len(found.statuses))
        plugins, reasons = set(plugins), reasons.copy()
        for code in np.flatnonzero(counts).tolist():
            status = found.statuses[code]
            plugins.add(status.plugin)
            for reason in status.reasons:
                reasons[reason] += int(counts[code])
        return frozenset(plugins), reasons

    def static_rejections(self) -> tuple[set[str], Counter[str], NDArray[np.bool_]]:
        """(who rejects nodes whatever runs there, reasons, the nodes that are left); worked out once for a spec.

        Not to be changed. Raises NotValid.
        """
        spec, table = self.pod.spec, self.snapshot.objects.nodes
        kept = self.matrix.static_rejections
        known = kept.get(id(spec))
        if known is None or known[1] is not table:
            if len(kept) >= _KEPT:
                kept.clear()
            known = kept[id(spec)] = spec, table, self._of_nodes_alone(table)
        found: tuple[set[str], Counter[str], NDArray[np.bool_]] = known[2]
        return found

    def _of_nodes_alone(self, table: object) -> tuple[set[str], Counter[str], NDArray[np.bool_]]:
        """The same for all specs that say the same of nodes, where they do not choose among them by labels."""
        kept, said = self.matrix.rejections_of_nodes, said_of_nodes(self.pod.spec)
        if said is None:
            return self._work_out_static()
        known = kept.get(said)
        if known is None or known[0] is not table:
            if len(kept) >= _KEPT:
                kept.clear()
            known = kept[said] = table, self._work_out_static()
        found: tuple[set[str], Counter[str], NDArray[np.bool_]] = known[1]
        return found

    def _work_out_static(self) -> tuple[set[str], Counter[str], NDArray[np.bool_]]:
        spec, infos = self.pod.spec, self.snapshot.node_infos
        left, plugins, reasons = np.ones(len(infos), np.bool_), set[str](), Counter[str]()
        names = named_nodes(spec.node_affinity.required)
        if names is not None:
            left = np.zeros(len(infos), np.bool_)
            left[[self.snapshot.rows[name] for name in names if name in self.snapshot.rows]] = True
            plugins.add(NodeAffinity.name)
            reasons[NOT_NAMED] += len(infos) - int(left.sum())
        for row in np.flatnonzero(left & ~self.node_fit.static).tolist():
            left[row] = False
            plugin, status = _first(spec, infos[row].node)
            plugins.add(plugin)
            reasons.update(status.reasons)
        return plugins, reasons, left

    def scores_by_plugin(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
        """Plugin -> [place in `rows`]: its weighted score; without those that give nothing. Raises NotValid."""
        return Scores(self.snapshot, self.pod, self.matrix).by_plugin(rows)

    def scores(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """What the nodes are worth, less what all have in common. Raises NotValid."""
        return Scores(self.snapshot, self.pod, self.matrix).of(rows)


class _Wanted(NamedTuple):
    """What a spec asks for, as scoring counts it. `resources`: shared by all that request the same; `images`: names."""

    spec: PodSpec
    resources: ResourceScores
    images: frozenset[str]


class Scores:
    """What nodes are worth for a pod, by the default profile. Use it with `snapshot.derived.taken()`."""

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix) -> None:
        self.snapshot, self.pod, self.matrix = snapshot, pod, matrix

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """What the nodes are worth, less what all have in common. Raises NotValid."""
        wanted = self._wanted()
        scores = wanted.resources.of(rows, self.snapshot)
        for _, worth in self._of_others(rows, wanted):
            scores += worth
        return scores

    def by_plugin(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
        """Plugin -> [place in `rows`]: its weighted score; without those that give nothing. Raises NotValid."""
        wanted = self._wanted()
        least, balance = wanted.resources.parts_of(rows, self.snapshot)
        found = {NodeResourcesFit.name: least, NodeResourcesBalancedAllocation.name: balance}
        for name, worth in self._of_others(rows, wanted):
            found[name] = np.broadcast_to(np.asarray(worth, np.int64), len(rows))
        avoided = found.get(TaintToleration.name, np.zeros(len(rows), np.int64))
        found[TaintToleration.name] = avoided + 3 * MAX_NODE_SCORE
        return {name: worth for name, worth in found.items() if worth.any()}

    def _of_others(self, rows: NDArray[np.intp], wanted: _Wanted) -> Iterator[tuple[str, NDArray[np.int64] | int]]:
        """What plugins give that do not look at resources; TaintToleration what it takes away. Raises NotValid."""
        charge(len(rows) // 8)
        spec = self.pod.spec
        if spec.has_storage and self.snapshot.semantics.storage_capacity_is_scored:
            raise NotValid
        yield ImageLocality.name, self._images(rows, wanted)
        yield PodTopologySpread.name, 2 * self._spread(rows)
        if spec.pod_affinity.has_preferred or self.matrix.attracting_kinds:
            worth = affinity_scores(self.pod, rows, self.matrix, self.snapshot)
            yield InterPodAffinity.name, 2 * worth
        if spec.node_affinity.preferred is not None:
            yield NodeAffinity.name, 2 * self._preferred(rows, spec.node_affinity.preferred)
        if self.matrix.nodes.anywhere(_is_to_be_avoided):
            yield TaintToleration.name, -3 * self._avoided(rows)

    def _preferred(
        self, rows: NDArray[np.intp], preferred: Sequence[PreferredSchedulingTerm]
    ) -> NDArray[np.int64] | int:
        """Upstream NodeAffinity."""
        nodes = self.matrix.nodes
        return _normalized(nodes.amounts("preferred", self.pod.spec, partial(preference, preferred))[rows])

    def _avoided(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Upstream TaintToleration, the other way round: the fewer the better."""
        spec, nodes = self.pod.spec, self.matrix.nodes
        if not nodes.where(_is_to_be_avoided)[rows].any():
            return 0
        count = partial(untolerated_preferences, of_preferences(spec.tolerations))
        return _normalized(nodes.amounts("avoided", spec, count)[rows])

    def _spread(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Upstream PodTopologySpread by the pod's own constraints, of which one is enough, or by the defaults."""
        constraints = schedule_anyway(self.pod) if self.pod.spec.topology_spread else self._default_constraints()
        return spread_scores(self.pod, constraints, rows, self.matrix) if constraints else 0

    def _wanted(self) -> _Wanted:
        spec, kept = self.pod.spec, self.matrix.wanted
        found: _Wanted | None = kept.get(id(spec))
        if found is None:
            if len(kept) >= _KEPT:
                kept.clear()
            amounts = spec.requests.total(use_status=False, skip_pod_level=True, non_missing=NON_ZERO_DEFAULTS)
            least = as_resource({name: amounts.get(name, 0) for name in (CPU, MEMORY)})
            amounts = spec.requests.total(use_status=True)
            own = as_resource({name: amounts.get(name, 0) for name in (CPU, MEMORY)})
            balance = (own.milli_cpu, own.memory) if own.milli_cpu or own.memory else None
            names = [*spec.images, *(volume.image for volume in spec.volumes if volume.image)]
            images = frozenset(map(normalized_image_name, names))
            resources = self.matrix.scores_of_resources((least.milli_cpu, least.memory), balance)
            found = kept[id(spec)] = _Wanted(spec, resources, images)
        return found

    def _images(self, rows: NDArray[np.intp], wanted: _Wanted) -> NDArray[np.int64] | int:
        """Upstream ImageLocality; nodes without one of the images are worth nothing."""
        if not self.matrix.nodes.anywhere(_has_images):
            return 0
        there = self.matrix.nodes.where(_has_images)[rows]
        if not there.any():
            return 0
        infos, framework = self.snapshot.node_infos, _framework(self.snapshot, self.pod)
        found = np.zeros(len(rows), np.int64)
        plugin: ImageLocality = framework.plugin(ImageLocality.name)
        state = CycleState()
        for place in np.flatnonzero(there).tolist():
            info = infos[rows[place]]
            if not wanted.images.isdisjoint(info.node.images):
                found[place] = plugin.score(state, self.pod, info)
        return found

    def _default_constraints(self) -> Constraints:
        """Those of the pod, kept as long as its Services and its controller are the same."""
        pod, objects, kept = self.pod, self.snapshot.objects, self.matrix.default_constraints
        controller = controller_of(pod, objects)
        key = pod.namespace, id(pod.labels), pod.owner
        known = kept.get(key)
        if known is None or known[1] is not objects.services or known[2] is not controller:
            if len(kept) >= _KEPT_CONSTRAINTS:
                kept.clear()
            known = kept[key] = pod.labels, objects.services, controller, default_constraints(pod, objects)
        found: Constraints = known[3]
        return found


def _framework(snapshot: Snapshot, pod: Pod) -> Framework:
    """Of the pod's profile. Raises NotValid."""
    profile = configuration_of(snapshot.semantics).profile(pod.spec.scheduler_name)
    if profile is None:
        raise NotValid
    return Framework(snapshot, profile)


def _normalized(worth: NDArray[np.int64]) -> NDArray[np.int64] | int:
    """From 0 to 100. Source: upstream `helper.DefaultNormalizeScore`."""
    largest = int(worth.max(initial=0))
    return MAX_NODE_SCORE * worth // largest if largest > 0 else 0


def _is_to_be_avoided(node: Node) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in node.taints)


def _has_images(node: Node) -> bool:
    return bool(node.images)


def _first(spec: PodSpec, node: Node) -> tuple[str, Status]:
    """The first plugin that rejects a node for its own sake. Raises NotValid where it is none of these."""
    if node.unschedulable and not tolerations_tolerate_taint(spec.tolerations, UNSCHEDULABLE_TAINT):
        return NodeUnschedulable.name, node_unschedulable.REASON
    if node.taints and untolerated_taint(node.taints, spec.tolerations) is not None:
        return TaintToleration.name, taint_toleration.REASON
    if not spec.node_affinity.matches(node.labels, node.name):
        return NodeAffinity.name, node_affinity.REASON
    raise NotValid
