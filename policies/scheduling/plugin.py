"""The base class of plugins, their form in columns, and what the plugins of a profile support."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from forewarn.policies.scheduling.extension_points import (
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    implements,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.profiles import Profile
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.snapshot import Snapshot

MAX_NODE_SCORE: Final = 100


class PluginFault(Exception):
    """The error of a plugin that failed or returned an invalid result.

    Outcomes that depend on the plugin are not predicted.
    """

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"plugin {plugin} {why}")
        self.plugin, self.why = plugin, why


class PluginHandle(Protocol):
    """The object that plugins get: gives access to the Snapshot and to the framework that runs the plugins."""

    snapshot: Snapshot
    framework: Any


class Plugin:
    """A plugin of a profile; its methods determine its extension points.

    `args`: its arguments in the profile. `needs_pre_filter`, `needs_pre_score`: upstream's error at Filter and at Score
    if the plugin's PreFilter or PreScore is not in the profile; "" if the plugin works without.
    """

    name: ClassVar[str]
    needs_pre_filter: ClassVar[str] = ""
    needs_pre_score: ClassVar[str] = ""
    scores_what_pre_filter_found: str = ""
    """Upstream's error at Score if the plugin's PreFilter is not in the profile; "" if Score works without."""
    foreign: ClassVar[bool] = False
    """True for plugins that are not part of kube-scheduler."""
    reads_whole_pod: ClassVar[bool] = False
    """Whether `static_filter` reads more of the Pod than `node_constraints_of` returns: labels, namespace, priority or
    other fields of the spec. Pods share its results if what it reads is equal.
    """
    frees_capacity_in_columns: ClassVar[bool | None] = None
    """Whether columns compute the preemption of this PostFilter plugin.

    False: the plugin does nothing for Pods in columns. None: columns do not apply to a profile with the plugin.
    """

    def __init__(self, handle: PluginHandle, args: Any = None) -> None:
        self.handle, self.args = handle, args
        self.snapshot = handle.snapshot
        self.semantics = handle.snapshot.semantics

    @classmethod
    def not_in(cls, semantics: Semantics) -> frozenset[str]:  # noqa: ARG003
        """Return the extension points that the plugin lacks in this release, although the class has methods for
        them.
        """
        return frozenset()

    @classmethod
    def also_at(cls, semantics: Semantics) -> frozenset[str]:  # noqa: ARG003
        """Return the extension points that upstream's plugin has in this release, although the class has no methods for
        them.

        Upstream's plugin does nothing at these points for Pods that forewarn predicts, but a profile may enable the
        plugin there.
        """
        return frozenset()

    def scores_in_columns(
        self,
        pod: Pod,  # noqa: ARG002
        rows: NDArray[np.intp],  # noqa: ARG002
        matrix: Any,  # noqa: ARG002
    ) -> NDArray[np.int64] | int | None:
        """Return [index in `rows`]: the normalized scores of PreScore, Score and NormalizeScore for these nodes,
        given as row numbers; an integer if all nodes have the same score.

        None: only the methods for single nodes support the Pod or the arguments. `matrix`: the PodMatrix of the
        Snapshot; hold `snapshot.derived.locked()`.
        """
        return None


def default_normalize_score(scores: dict[str, int], *, reverse: bool) -> None:
    """Scale scores as `default_normalized` does, in place."""
    values = default_normalized(np.fromiter(scores.values(), np.int64, len(scores)), reverse=reverse)
    scores.update(zip(scores, values.tolist(), strict=True))


def default_normalized(scores: NDArray[np.int64], *, reverse: bool) -> NDArray[np.int64]:
    """Return scores from 0…max scaled to 0…100, or to 100…0 with `reverse`.

    Source: upstream `helper.DefaultNormalizeScore`.
    """
    largest = int(scores.max(initial=0))
    scaled = MAX_NODE_SCORE * scores // max(largest, 1)
    return MAX_NODE_SCORE - scaled if reverse else scaled


class StaticFilter(NamedTuple):
    """The filter of a plugin for one Pod that reads only the node, not its Pods.

    `may_reject`: True for the nodes that the plugin may reject for any Pod (for example, nodes with taints); None: all.
    `in_columns`: the NodeTables -> `passes` of all nodes, as [node], bool; None: call `passes` for each node.
    """

    passes: Callable[[Node], bool]
    may_reject: Callable[[Node], bool] | None = None
    in_columns: Callable[[Any], NDArray[np.bool_]] | None = None


class StaticFilterPlugin(Protocol):
    """A Filter plugin that reads only the node, not its Pods. Results are cached: see `Plugin.reads_whole_pod`."""

    name: ClassVar[str]

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, with any Pods on it; None if all nodes pass."""

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter | None:
        """Return `static_filter` for all nodes at once."""
        passes = self.static_filter(pod)
        return None if passes is None else StaticFilter(passes)


class FilterInColumns(Protocol):
    """A Filter plugin that filters all nodes at once by the Pods on the nodes.

    `problem`: the NodeFit of a Pod. `amounts`: the amounts in use (`Present`).
    """

    name: ClassVar[str]

    def in_columns(self, problem: Any) -> None:
        """Add the constraints of the Pod to the problem. Raises NotValid."""

    def rejections_in_columns(self, problem: Any, amounts: Any) -> Iterator[Any]:
        """Yield the Rejections of nodes in the order of the plugin's checks. Raises NotValid."""

    def rejections_without_nominated(self, problem: Any, amounts: Any) -> Iterator[Any]:  # noqa: ARG002
        """Yield the Rejections that occur only if nominated Pods do not count. Raises NotValid."""
        return iter(())


class Plan(NamedTuple):
    """What the plugins of a profile implement besides their extension points, and how the numpy implementation
    (`vectorized`) evaluates them.

    `pre_filters`, `extensions`: the PreFilter plugins that implement PreFilter and PreFilterExtensions. `without`: the
    plugin because of which `vectorized` does not support the profile; "" if it does. `columns`, `static`: the plugins
    with the protocols FilterInColumns and StaticFilterPlugin; `late_static`: those of `static` that follow a plugin in
    `columns`. `reads_whole_pod`: of any Filter plugin. `preempts`: whether a PostFilter plugin preempts. `scores`:
    whether `vectorized` supports the Score plugins.
    """

    pre_filters: tuple[str, ...]
    extensions: tuple[str, ...]
    without: str = ""
    columns: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    late_static: tuple[str, ...] = ()
    reads_whole_pod: bool = False
    preempts: bool = False
    scores: bool = False


@lru_cache(64)
def foreign_at(profile: Profile, point: str) -> tuple[str, ...]:
    """Return the plugins of an extension point (`point`) that are not part of kube-scheduler."""
    return tuple(name for name in profile.at(point) if profile.plugins[name].foreign)


@lru_cache(64)
def plan_of(profile: Profile) -> Plan:
    """Return what the plugins of a profile implement; cached for each profile."""
    plugins, before = profile.plugins, profile.at("preFilter")
    pre_filters = tuple(name for name in before if implements(plugins[name], PreFilterPlugin))
    extensions = tuple(name for name in before if implements(plugins[name], PreFilterExtensions))
    without = _without_columns(profile)
    if without:
        return Plan(pre_filters, extensions, without)
    filters = profile.at("filter")
    columns = tuple(name for name in filters if implements(plugins[name], FilterInColumns))
    static = tuple(name for name in filters if implements(plugins[name], StaticFilterPlugin))
    first = next((place for place, name in enumerate(filters) if name in columns), len(filters))
    late = tuple(name for name in static if filters.index(name) >= first)
    whole = any(plugins[name].reads_whole_pod for name in filters)
    preempts = any(plugins[name].frees_capacity_in_columns for name in profile.at("postFilter"))
    return Plan(pre_filters, extensions, "", columns, static, late, whole, preempts, _scores_in_columns(profile))


def _without_columns(profile: Profile) -> str:
    plugins, before, filters = profile.plugins, profile.at("preFilter"), profile.at("filter")
    for name in (*profile.at("preScore"), *profile.at("score")):
        if _may_fail_to_score(profile, name):
            return name
    for name in dict.fromkeys((*filters, *before)):
        is_halved = (implements(plugins[name], PreFilterPlugin) and name not in before) or name not in filters
        if is_halved or not any(implements(plugins[name], form) for form in (FilterInColumns, StaticFilterPlugin)):
            return name
    return next((name for name in profile.at("postFilter") if plugins[name].frees_capacity_in_columns is None), "")


def _may_fail_to_score(profile: Profile, name: str) -> bool:
    plugin = profile.plugins[name]
    needed = (("preFilter", plugin.scores_what_pre_filter_found), ("preScore", plugin.needs_pre_score))
    return any(error and name not in profile.at(point) for point, error in needed)


def _scores_in_columns(profile: Profile) -> bool:
    before = profile.at("preScore")
    plugins = {name: profile.plugins[name] for name in (*before, *profile.at("score"))}
    return not any(
        plugin.foreign or (name not in before and implements(plugin, PreScorePlugin))
        for name, plugin in plugins.items()
    )
