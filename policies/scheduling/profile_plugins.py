"""The plugins of a profile as objects, by extension point.

Source: kubernetes `pkg/scheduler/framework/runtime/framework.go` (`NewFramework`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import proxy

from forewarn.policies.scheduling.plugin import FilterInColumns, Plan, StaticFilterPlugin, foreign_at, plan_of
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
        ReservePlugin,
    )
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.status import CycleState, Status


class ProfilePlugins:
    """The plugins of one profile for one Snapshot, created on first use.

    Plugins get a weak reference to this object as their handle, so Python frees both without a garbage collection.
    """

    def __init__(self, snapshot: Snapshot, profile: Profile) -> None:
        self.snapshot, self.profile = snapshot, profile
        self.plan: Plan = plan_of(profile)
        self._made: dict[str, Any] = {}

    def plugin(self, name: str) -> Any:
        """Return the plugin `name` of the profile; create the plugin on first use."""
        known: Any = self._made.get(name)
        if known is None:
            known = self._made[name] = self.profile.plugins[name](proxy(self), self.profile.args.get(name))
        return known

    @property
    def without_columns(self) -> str:
        """The reason why the numpy implementation (`vectorized`) does not support the profile, as text after "because";
        "" if it does.
        """
        plugin = self.plan.without
        return f"of plugin {plugin}, which does not say how it looks in columns" if plugin else ""

    @property
    def preempts(self) -> bool:
        """Whether a PostFilter plugin preempts, if the numpy implementation (`vectorized`) supports the profile."""
        return self.plan.preempts

    @property
    def scores_in_columns(self) -> bool:
        """Whether the numpy implementation (`vectorized`) supports the Score plugins of the profile."""
        return self.plan.scores

    @property
    def column_plugins(self) -> list[FilterInColumns]:
        """The plugins that filter all nodes at once by the Pods on the nodes."""
        return [self.plugin(name) for name in self.plan.columns]

    @property
    def static_plugins(self) -> list[StaticFilterPlugin]:
        """The plugins that filter by the node alone."""
        return [self.plugin(name) for name in self.plan.static]

    @property
    def has_foreign_columns(self) -> bool:
        """Whether a Filter plugin of the profile is not part of kube-scheduler."""
        return bool(foreign_at(self.profile, "filter"))

    @property
    def late_static_plugins(self) -> list[StaticFilterPlugin]:
        """The plugins of `static_plugins` that run after a plugin of `column_plugins`."""
        return [self.plugin(name) for name in self.plan.late_static]

    def _at(self, point: str) -> list[Any]:
        return [self.plugin(name) for name in self.profile.at(point)]

    @cached_property
    def pre_enqueues(self) -> list[PreEnqueuePlugin]:
        """The PreEnqueue plugins in the order of the profile."""
        return self._at("preEnqueue")

    @cached_property
    def pre_filters(self) -> list[PreFilterPlugin]:
        """The PreFilter plugins in the order of the profile, without those that have no `pre_filter` method."""
        return [self.plugin(name) for name in self.plan.pre_filters]

    @cached_property
    def extensions(self) -> list[PreFilterExtensions]:
        """The PreFilter plugins with `add_pod` and `remove_pod`, which update their state in dry runs
        (PreFilterExtensions).
        """
        return [self.plugin(name) for name in self.plan.extensions]

    @cached_property
    def filters(self) -> list[tuple[str, Callable[[CycleState, Pod, NodeInfo], Status | None]]]:
        """(name, Filter method) in the order of the profile.

        The method of a plugin that needs its PreFilter, but whose PreFilter is not in the profile, returns an error, as
        in upstream.
        """
        prepared = self.profile.at("preFilter")
        found = []
        for plugin in self._at("filter"):
            lacks = plugin.needs_pre_filter and plugin.name not in prepared
            found.append((plugin.name, _failing(plugin.needs_pre_filter) if lacks else plugin.filter))
        return found

    @cached_property
    def post_filters(self) -> list[PostFilterPlugin]:
        """The PostFilter plugins in the order of the profile."""
        return self._at("postFilter")

    @cached_property
    def pre_scores(self) -> list[PreScorePlugin]:
        """The PreScore plugins in the order of the profile."""
        return self._at("preScore")

    @cached_property
    def scores(self) -> list[Any]:
        """The Score plugins in the order of the profile. Some are also NormalizeScore plugins."""
        return self._at("score")

    @cached_property
    def reserves(self) -> list[ReservePlugin]:
        """The Reserve plugins in the order of the profile."""
        return self._at("reserve")

    @cached_property
    def permits(self) -> list[PermitPlugin]:
        """The Permit plugins in the order of the profile."""
        return self._at("permit")

    @cached_property
    def pre_binds(self) -> list[PreBindPlugin]:
        """The PreBind plugins in the order of the profile."""
        return self._at("preBind")

    @cached_property
    def binds(self) -> list[BindPlugin]:
        """The Bind plugins in the order of the profile."""
        return self._at("bind")

    @cached_property
    def post_binds(self) -> list[PostBindPlugin]:
        """The PostBind plugins in the order of the profile."""
        return self._at("postBind")


def _failing(reason: str) -> Callable[[CycleState, Pod, NodeInfo], Status | None]:
    status = failed(reason)
    return lambda state, pod, node_info: status  # noqa: ARG005
