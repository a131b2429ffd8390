"""The base class of plugins, and which plugins of a profile the numpy implementation (`vectorized`) supports."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


class ProfileInColumns(NamedTuple):
    """How the numpy implementation (`vectorized`) evaluates the plugins of a profile.

    `without`: the plugin because of which the implementation does not support the profile; "" if it does. `plugins`:
    plugins with an `in_columns` method. `static`: plugins that filter by the node alone; `late_static`: those of
    `static` that follow a plugin in `plugins`. `scores`: whether the implementation supports the Score plugins.
    """

    without: str = ""
    plugins: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    late_static: tuple[str, ...] = ()
    preempts: bool = False
    scores: bool = False


@lru_cache(64)
def foreign_at(profile: Profile, point: str) -> tuple[str, ...]:
    """Return the plugins of an extension point (`point`) that are not part of kube-scheduler."""
    return tuple(name for name in profile.at(point) if getattr(profile.plugins[name], "foreign", False))


@lru_cache(64)
def columns_of(profile: Profile) -> ProfileInColumns:
    """Return how the numpy implementation evaluates the plugins of a profile; cached for each profile."""
    plugins, static, late = list[str](), list[str](), list[str]()
    before, filters = profile.at("preFilter"), profile.at("filter")
    for name in (*profile.at("preScore"), *profile.at("score")):
        if _may_fail_to_score(profile, name):
            return ProfileInColumns(name)
    for name in dict.fromkeys((*filters, *before)):
        plugin = profile.plugins[name]
        halved = (hasattr(plugin, "pre_filter") and name not in before) or name not in filters
        if halved or not any(hasattr(plugin, way) for way in ("in_columns", "static_filter")):
            return ProfileInColumns(name)
        if hasattr(plugin, "in_columns"):
            plugins.append(name)
        if hasattr(plugin, "static_filter"):
            static.append(name)
            late += [name] if plugins else []
    preempts = False
    for name in profile.at("postFilter"):
        makes_room: bool | None = getattr(profile.plugins[name], "frees_capacity_in_columns", None)
        if makes_room is None:
            return ProfileInColumns(name)
        preempts = preempts or makes_room
    return ProfileInColumns("", tuple(plugins), tuple(static), tuple(late), preempts, _scores_in_columns(profile))


def _may_fail_to_score(profile: Profile, name: str) -> bool:
    """Report whether the profile may lack the PreFilter or PreScore that a plugin needs to score."""
    plugin = profile.plugins[name]
    needed = (("preFilter", plugin.scores_what_pre_filter_found), ("preScore", plugin.needs_pre_score))
    return any(error and name not in profile.at(point) for point, error in needed)


def _scores_in_columns(profile: Profile) -> bool:
    """Report whether all PreScore and Score plugins are part of kube-scheduler, and those at Score also at PreScore."""
    before = profile.at("preScore")
    plugins = {name: profile.plugins[name] for name in (*before, *profile.at("score"))}
    return not any(p.foreign or (name not in before and hasattr(p, "pre_score")) for name, p in plugins.items())
