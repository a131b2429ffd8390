"""The weights of a profile's Score plugins, and which of them the numpy implementation supports."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.scheduling.arguments import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
)
from forewarn.policies.scheduling.plugins.image_locality import ImageLocality
from forewarn.policies.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from forewarn.policies.scheduling.plugins.node_affinity import NodeAffinity
from forewarn.policies.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from forewarn.policies.scheduling.plugins.node_resources_fit import NodeResourcesFit
from forewarn.policies.scheduling.plugins.pod_topology_spread import PodTopologySpread
from forewarn.policies.scheduling.plugins.taint_toleration import TaintToleration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.releases.profiles import Profile

_DEFAULT_ARGS: Final = {
    ImageLocality.name: None,
    InterPodAffinity.name: InterPodAffinityArgs(),
    NodeAffinity.name: NodeAffinityArgs(),
    NodeResourcesBalancedAllocation.name: NodeResourcesBalancedAllocationArgs(),
    NodeResourcesFit.name: NodeResourcesFitArgs(),
    PodTopologySpread.name: PodTopologySpreadArgs(),
    TaintToleration.name: None,
}
"""Score plugin with columns -> the arguments for which its columns are valid."""
_SCORE_NOTHING: Final = frozenset({"DynamicResources", "VolumeBinding"})
"""Score plugins that score 0 for Pods without device claims, if storage capacity is not scored."""


class ScorePlan(NamedTuple):
    """The Score plugins of a profile.

    `weights`: plugin of _DEFAULT_ARGS -> weight; 0 if the plugin is not in the profile, or has other arguments.
    `node_by_node`: plugins that score one node after the other. Plugins that always score 0 are in neither.
    """

    weights: Mapping[str, int]
    node_by_node: tuple[str, ...]


@lru_cache(64)
def score_plan_of(profile: Profile) -> ScorePlan | None:
    """Return the Score plugins of a profile, cached.

    None if a PreScore or Score plugin is not part of kube-scheduler, or may need a PreFilter or PreScore that is not in
    the profile.
    """
    weights, others, before = dict.fromkeys(_DEFAULT_ARGS, 0), list[str](), profile.at("preScore")
    prepared = _SCORE_NOTHING.intersection((*before, *profile.at("score")))
    if not prepared.issubset(profile.at("preFilter")) or any(profile.plugins[name].foreign for name in before):
        return None
    for name in profile.at("score"):
        plugin = profile.plugins[name]
        if plugin.foreign or (hasattr(plugin, "pre_score") and name not in before):
            return None
        if name in _SCORE_NOTHING:
            continue
        if name in _DEFAULT_ARGS and profile.args.get(name, _DEFAULT_ARGS[name]) == _DEFAULT_ARGS[name]:
            weights[name] = profile.weights[name]
        else:
            others.append(name)
    return ScorePlan(weights, tuple(others))
