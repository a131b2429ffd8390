"""The scores of nodes for a Pod, computed with numpy for all nodes at once.

The result equals that of running each Score plugin on each node (tests compare them). Source: the Score plugins of
kubernetes `pkg/scheduler/framework/plugins`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.objects.resources import CPU, MEMORY, NON_ZERO_DEFAULTS, as_resource
from forewarn.policies.objects.taints import PREFER_NO_SCHEDULE
from forewarn.policies.scheduling.extension_points import NormalizeScorePlugin
from forewarn.policies.scheduling.framework import MAX_NODE_SCORE, Code, CycleState
from forewarn.policies.scheduling.plugins.dynamic_resources import DynamicResources
from forewarn.policies.scheduling.plugins.image_locality import ImageLocality, normalized_image_name
from forewarn.policies.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from forewarn.policies.scheduling.plugins.inter_pod_affinity_columns import affinity_scores
from forewarn.policies.scheduling.plugins.node_affinity import NodeAffinity, preference
from forewarn.policies.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from forewarn.policies.scheduling.plugins.node_resources_fit import NodeResourcesFit
from forewarn.policies.scheduling.plugins.pod_topology_spread import (
    PodTopologySpread,
    default_constraints,
    schedule_anyway,
)
from forewarn.policies.scheduling.plugins.pod_topology_spread_columns import spread_scores
from forewarn.policies.scheduling.plugins.taint_toleration import (
    TaintToleration,
    of_preferences,
    untolerated_preferences,
)
from forewarn.policies.scheduling.responsible import framework_in_columns
from forewarn.policies.scheduling.score_plan import ScorePlan, score_plan_of
from forewarn.policies.scheduling.vectorized.problem import NotValid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.node_selector import PreferredSchedulingTerm
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.resource_scores import ResourceScores

_CACHE_SIZE: Final = 512


class _Wanted(NamedTuple):
    """The parts of a Pod spec that scores depend on.

    `resources`: scores by requests, shared by all specs with equal requests. `images`: names of the images.
    """

    spec: PodSpec
    plan: ScorePlan
    resources: ResourceScores
    images: frozenset[str]


class Scores:
    """The scores of nodes for a Pod, by its profile. Hold the lock `snapshot.derived.locked()` while you use Scores."""

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix) -> None:
        """Raises NotValid if the numpy implementation lacks a Score plugin of the profile."""
        self.snapshot, self.pod, self.matrix = snapshot, pod, matrix
        self._framework = framework_in_columns(snapshot, pod)
        plan = score_plan_of(self._framework.profile)
        if plan is None:
            raise NotValid
        self._plan = plan

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return [index in `rows`]: the total scores, minus terms that are equal for all nodes.

        `rows`: row numbers of the nodes to score. Raises NotValid.
        """
        wanted = self._wanted()
        scores = wanted.resources.of(rows, self.snapshot)
        for _, worth in self._of_others(rows, wanted):
            scores += worth
        return scores

    def by_plugin(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
        """Return plugin -> [index in `rows`] weighted score, without plugins that score 0 on all nodes.

        `rows`: row numbers of the nodes to score. Raises NotValid.
        """
        wanted = self._wanted()
        weights = self._plan.weights
        least, balance = wanted.resources.parts_of(rows, self.snapshot)
        found = {
            NodeResourcesFit.name: weights[NodeResourcesFit.name] * least,
            NodeResourcesBalancedAllocation.name: weights[NodeResourcesBalancedAllocation.name] * balance,
        }
        for name, worth in self._of_others(rows, wanted):
            found[name] = np.broadcast_to(np.asarray(worth, np.int64), len(rows))
        avoided = found.get(TaintToleration.name, np.zeros(len(rows), np.int64))
        found[TaintToleration.name] = avoided + weights[TaintToleration.name] * MAX_NODE_SCORE
        return {name: worth for name, worth in found.items() if worth.any()}

    def _of_others(self, rows: NDArray[np.intp], wanted: _Wanted) -> Iterator[tuple[str, NDArray[np.int64] | int]]:
        """Yield (plugin, weighted scores) for plugins that do not score resources. Raises NotValid.

        Scores of TaintToleration are reduced by the maximum score, so they are zero or negative.
        """
        charge(len(rows) // 8)
        spec, weights = self.pod.spec, self._plan.weights
        if spec.has_storage and self.snapshot.semantics.storage_capacity_is_scored:
            raise NotValid
        if weights[ImageLocality.name]:
            yield ImageLocality.name, weights[ImageLocality.name] * self._images(rows, wanted)
        if weights[PodTopologySpread.name]:
            yield PodTopologySpread.name, weights[PodTopologySpread.name] * self._spread(rows)
        if weights[InterPodAffinity.name] and (spec.pod_affinity.has_preferred or self.matrix.attractive.numbers()):
            worth = affinity_scores(self.pod, rows, self.matrix, self.snapshot)
            yield InterPodAffinity.name, weights[InterPodAffinity.name] * worth
        if weights[NodeAffinity.name] and spec.node_affinity.preferred is not None:
            yield NodeAffinity.name, weights[NodeAffinity.name] * self._preferred(rows, spec.node_affinity.preferred)
        if weights[TaintToleration.name] and self.matrix.nodes.anywhere(_is_to_be_avoided):
            yield TaintToleration.name, -weights[TaintToleration.name] * self._avoided(rows)
        yield from self._of_each_node(rows)

    def _of_each_node(self, rows: NDArray[np.intp]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (plugin, weighted scores) for plugins that run on each node. Raises NotValid if a plugin fails."""
        infos, state, framework = self.snapshot.node_infos, CycleState(), self._framework
        names = (*self._plan.node_by_node, *self._of_devices())
        nodes = [infos[row] for row in rows.tolist()] if names else []
        for name in names:
            plugin = framework.plugin(name)
            if name == DynamicResources.name:
                state = plugin.allocate_on(self.pod, nodes)
            status = plugin.pre_score(state, self.pod, nodes) if hasattr(plugin, "pre_score") else None
            if status is not None and status.code is not Code.SKIP:
                raise NotValid
            if status is not None:
                continue
            charge(len(nodes))
            scores = {node.name: plugin.score(state, self.pod, node) for node in nodes}
            if isinstance(plugin, NormalizeScorePlugin):
                plugin.normalize_score(state, self.pod, scores)
            yield name, framework.profile.weights[name] * np.fromiter(scores.values(), np.int64, len(nodes))

    def _of_devices(self) -> tuple[str, ...]:
        """Return the plugin that scores the nodes by the alternatives of device requests; empty if all score 0."""
        name = DynamicResources.name
        if not self.pod.spec.claims_devices or name not in self._framework.profile.at("score"):
            return ()
        return (name,) if self._framework.plugin(name).has_alternatives(self.pod) else ()

    def _preferred(
        self, rows: NDArray[np.intp], preferred: Sequence[PreferredSchedulingTerm]
    ) -> NDArray[np.int64] | int:
        """Return the normalized scores of upstream's NodeAffinity."""
        nodes = self.matrix.nodes
        return _normalized(nodes.amounts("preferred", self.pod.spec, partial(preference, preferred))[rows])

    def _avoided(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Return the amounts that upstream's TaintToleration subtracts from the maximum score: 100 for the most
        untolerated taints.
        """
        spec, nodes = self.pod.spec, self.matrix.nodes
        if not nodes.where(_is_to_be_avoided)[rows].any():
            return 0
        count = partial(untolerated_preferences, of_preferences(spec.tolerations))
        return _normalized(nodes.amounts("avoided", spec, count)[rows])

    def _spread(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Return the scores of upstream's PodTopologySpread, by the Pod's own constraints, or by the defaults if
        the Pod has none.
        """
        own, objects = bool(self.pod.spec.topology_spread), self.snapshot.objects
        constraints = schedule_anyway(self.pod) if own else default_constraints(self.pod, objects)
        return spread_scores(self.pod, constraints, rows, self.matrix) if constraints else 0

    def _wanted(self) -> _Wanted:
        spec, cache = self.pod.spec, self.matrix.wanted
        wanted: _Wanted | None = cache.get(id(spec))
        if wanted is None or wanted.plan is not self._plan:
            if len(cache) >= _CACHE_SIZE:
                cache.clear()
            amounts = spec.requests.total(use_status=False, skip_pod_level=True, non_missing=NON_ZERO_DEFAULTS)
            least = as_resource({name: amounts.get(name, 0) for name in (CPU, MEMORY)})
            amounts = spec.requests.total(use_status=True)
            own = as_resource({name: amounts.get(name, 0) for name in (CPU, MEMORY)})
            balance = (own.milli_cpu, own.memory) if own.milli_cpu or own.memory else None
            names = [*spec.images, *(volume.image for volume in spec.volumes if volume.image)]
            images = frozenset(map(normalized_image_name, names))
            weights = self._plan.weights
            resources = self.matrix.scores_of_resources(
                (least.milli_cpu, least.memory),
                balance,
                (weights[NodeResourcesFit.name], weights[NodeResourcesBalancedAllocation.name]),
            )
            wanted = cache[id(spec)] = _Wanted(spec, self._plan, resources, images)
        return wanted

    def _images(self, rows: NDArray[np.intp], wanted: _Wanted) -> NDArray[np.int64] | int:
        """Return the scores of upstream's ImageLocality; 0 for nodes without any of the images."""
        if not self.matrix.nodes.anywhere(_has_images):
            return 0
        with_images = self.matrix.nodes.where(_has_images)[rows]
        infos, framework = self.snapshot.node_infos, self._framework
        found = np.zeros(len(rows), np.int64)
        plugin: ImageLocality = framework.plugin(ImageLocality.name)
        state = CycleState()
        for place in np.flatnonzero(with_images).tolist():
            info = infos[rows[place]]
            if not wanted.images.isdisjoint(info.node.images):
                found[place] = plugin.score(state, self.pod, info)
        return found


def _normalized(worth: NDArray[np.int64]) -> NDArray[np.int64] | int:
    """Scale scores to 0…100. Source: upstream `helper.DefaultNormalizeScore`."""
    largest = int(worth.max(initial=0))
    return MAX_NODE_SCORE * worth // largest if largest > 0 else 0


def _is_to_be_avoided(node: Node) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in node.taints)


def _has_images(node: Node) -> bool:
    return bool(node.images)
