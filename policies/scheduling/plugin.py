"""The base class of plugins, and the column form of a profile."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.releases.profiles import Profile
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.snapshot import Snapshot

MAX_NODE_SCORE: Final = 100


class PluginFault(Exception):
    """A plugin cannot answer, or not in a way that makes sense: what rests on it cannot be predicted."""

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"plugin {plugin} {why}")
        self.plugin, self.why = plugin, why


class PluginHandle(Protocol):
    """The world as plugins see it: the snapshot, and the framework that runs them."""

    snapshot: Snapshot
    framework: Any


class Plugin:
    """A plugin of a profile; its methods determine its extension points.

    `args`: its arguments in the profile. `needs_pre_filter`, `needs_pre_score`: upstream's error at Filter and at Score
    if the profile lacks its PreFilter or PreScore; "" if the plugin works without.
    """

    name: ClassVar[str]
    needs_pre_filter: ClassVar[str] = ""
    needs_pre_score: ClassVar[str] = ""
    scores_what_pre_filter_found: str = ""
    """Upstream's error at Score if the profile lacks its PreFilter."""
    foreign: ClassVar[bool] = False
    """True for plugins that are not part of kube-scheduler."""
    makes_room_in_columns: ClassVar[bool | None] = None
    """Of a PostFilter: whether columns work out what it does, or it does nothing for the pods that they are for; None:
    neither."""

    def __init__(self, handle: PluginHandle, args: Any = None) -> None:
        self.handle, self.args = handle, args
        self.snapshot = handle.snapshot
        self.semantics = handle.snapshot.semantics

    @classmethod
    def not_in(cls, semantics: Semantics) -> frozenset[str]:  # noqa: ARG003
        """The extension points that it has methods for, and does not extend in this release."""
        return frozenset()

    @classmethod
    def also_at(cls, semantics: Semantics) -> frozenset[str]:  # noqa: ARG003
        """The extension points that upstream's plugin extends in this release, and does nothing at for such pods as are
        predicted: it can be named there."""
        return frozenset()


def default_normalize_score(scores: dict[str, int], *, reverse: bool) -> None:
    """Bring scores from 0…max to 0…100, or 100…0. Source: upstream `helper.DefaultNormalizeScore`."""
    largest = max(scores.values(), default=0)
    for name, score in scores.items():
        scaled = MAX_NODE_SCORE * score // largest if largest > 0 else 0
        scores[name] = MAX_NODE_SCORE - scaled if reverse else scaled


class ProfileInColumns(NamedTuple):
    """The column form of a profile: the plugins with columns (`late`: static ones behind others), or the one without.

    `beyond`: by plugin, whether columns do not apply to a Pod with this spec.
    """

    without: str = ""
    plugins: tuple[str, ...] = ()
    beyond: tuple[tuple[str, Callable[[PodSpec], bool]], ...] = ()
    static: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    preempts: bool = False


@lru_cache(64)
def foreign_at(profile: Profile, point: str) -> tuple[str, ...]:
    """The plugins of an extension point that are not kube-scheduler's own."""
    return tuple(name for name in profile.at(point) if getattr(profile.plugins[name], "foreign", False))


@lru_cache(64)
def columns_of(profile: Profile) -> ProfileInColumns:
    """Computed once for a profile. None if a plugin is not at all of its extension points."""
    plugins, static, late = list[str](), list[str](), list[str]()
    beyond = []
    before, filters = profile.at("preFilter"), profile.at("filter")
    for name in dict.fromkeys((*filters, *before)):
        plugin = profile.plugins[name]
        halved = (hasattr(plugin, "pre_filter") and name not in before) or name not in filters
        if halved or not any(hasattr(plugin, way) for way in ("in_columns", "static_filter", "beyond_columns")):
            return ProfileInColumns(name)
        if hasattr(plugin, "beyond_columns"):
            beyond.append((name, plugin.beyond_columns))
        if hasattr(plugin, "in_columns"):
            plugins.append(name)
        if hasattr(plugin, "static_filter"):
            static.append(name)
            late += [name] if plugins else []
    preempts = False
    for name in profile.at("postFilter"):
        makes_room: bool | None = getattr(profile.plugins[name], "makes_room_in_columns", None)
        if makes_room is None:
            return ProfileInColumns(name)
        preempts = preempts or makes_room
    return ProfileInColumns("", tuple(plugins), tuple(beyond), tuple(static), tuple(late), preempts)
