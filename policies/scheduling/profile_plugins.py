"""The plugins of a profile, made, and by extension point.

Source: kubernetes `pkg/scheduler/framework/runtime/framework.go` (`NewFramework`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import proxy

from forewarn.policies.scheduling.plugin import columns_of, foreign_at
from forewarn.policies.scheduling.status import failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.profiles import Profile
    from forewarn.policies.scheduling.extension_points import (
        BindPlugin,
        PermitPlugin,
        PostBindPlugin,
        PostFilterPlugin,
        PreBindPlugin,
        PreEnqueuePlugin,
        PreFilterExtensions,
        PreFilterPlugin,
        PreScorePlugin,
        QueueSortPlugin,
        ReservePlugin,
    )
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.status import CycleState, Status


class ProfilePlugins:
    """The plugins of one profile over one Snapshot, made when they are first asked for.

    It is what plugins see of the world, too. They do not keep it alive: what is worked out for one answer is gone with
    it, and does not wait for a collector.
    """

    def __init__(self, snapshot: Snapshot, profile: Profile) -> None:
        self.snapshot, self.profile = snapshot, profile
        self._made: dict[str, Any] = {}

    def plugin(self, name: str) -> Any:
        """A plugin of the profile, made when it is first asked for."""
        made: Any = self._made.get(name)
        if made is None:
            made = self._made[name] = self.profile.plugins[name](proxy(self), self.profile.args.get(name))
        return made

    @property
    def without_columns(self) -> str:
        """The plugin that keeps this profile from being answered in columns; empty where there is none."""
        return columns_of(self.profile).without

    @property
    def preempts(self) -> bool:
        """Whether a PostFilter preempts, for a profile with columns."""
        return columns_of(self.profile).preempts

    def beyond_columns(self, pod: Pod) -> str:
        """Return the plugin that excludes such a Pod from columns; empty if none."""
        return next((name for name, beyond in columns_of(self.profile).beyond if beyond(pod.spec)), "")

    @property
    def column_plugins(self) -> list[Any]:
        """The plugins that put what pods on nodes decide into columns."""
        return [self.plugin(name) for name in columns_of(self.profile).plugins]

    @property
    def static_plugins(self) -> list[Any]:
        """The plugins that look at nodes alone."""
        return [self.plugin(name) for name in columns_of(self.profile).static]

    @property
    def has_foreign_columns(self) -> bool:
        """Whether one of the plugins is not kube-scheduler's own."""
        return bool(foreign_at(self.profile, "filter"))

    @property
    def late_static_plugins(self) -> list[Any]:
        """Those of them that are asked after plugins that look at pods."""
        return [self.plugin(name) for name in columns_of(self.profile).late]

    def _at(self, point: str) -> list[Any]:
        return [self.plugin(name) for name in self.profile.at(point)]

    @cached_property
    def pre_enqueues(self) -> list[PreEnqueuePlugin]:
        """The PreEnqueue plugins, in order. Those of other points likewise."""
        return self._at("preEnqueue")

    @cached_property
    def queue_sort(self) -> QueueSortPlugin:
        """The one plugin that orders the queue."""
        found: QueueSortPlugin = self._at("queueSort")[0]
        return found

    @cached_property
    def pre_filters(self) -> list[PreFilterPlugin]:
        """See `pre_enqueues`; those that have nothing to do there are left out."""
        return [plugin for plugin in self._at("preFilter") if hasattr(plugin, "pre_filter")]

    @cached_property
    def extensions(self) -> list[PreFilterExtensions]:
        """The PreFilter plugins that keep their state true on trial."""
        return [plugin for plugin in self._at("preFilter") if hasattr(plugin, "remove_pod")]

    @cached_property
    def filters(self) -> list[tuple[str, Callable[[CycleState, Pod, NodeInfo], Status | None]]]:
        """(name, Filter) in order; a plugin whose PreFilter the profile lacks fails as upstream's does."""
        prepared = self.profile.at("preFilter")
        found = []
        for plugin in self._at("filter"):
            lacks = getattr(plugin, "needs_pre_filter", "") and plugin.name not in prepared
            found.append((plugin.name, _failing(plugin.needs_pre_filter) if lacks else plugin.filter))
        return found

    @cached_property
    def post_filters(self) -> list[PostFilterPlugin]:
        """See `pre_enqueues`."""
        return self._at("postFilter")

    @cached_property
    def pre_scores(self) -> list[PreScorePlugin]:
        """See `pre_enqueues`."""
        return self._at("preScore")

    @cached_property
    def scores(self) -> list[Any]:
        """The Score plugins, in order; some normalize too."""
        return self._at("score")

    @cached_property
    def reserves(self) -> list[ReservePlugin]:
        """See `pre_enqueues`."""
        return self._at("reserve")

    @cached_property
    def permits(self) -> list[PermitPlugin]:
        """See `pre_enqueues`."""
        return self._at("permit")

    @cached_property
    def pre_binds(self) -> list[PreBindPlugin]:
        """See `pre_enqueues`."""
        return self._at("preBind")

    @cached_property
    def binds(self) -> list[BindPlugin]:
        """See `pre_enqueues`."""
        return self._at("bind")

    @cached_property
    def post_binds(self) -> list[PostBindPlugin]:
        """See `pre_enqueues`."""
        return self._at("postBind")


def _failing(reason: str) -> Callable[[CycleState, Pod, NodeInfo], Status | None]:
    status = failed(reason)
    return lambda state, pod, node_info: status  # noqa: ARG005
