"""The scheduling framework: runs the plugins of a profile at every extension point, as upstream does.

Source: kubernetes `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from weakref import proxy

from forewarn.policies.metering import charge, meter
from forewarn.policies.scheduling.extension_points import (
    NormalizeScorePlugin,
    extends,
)
from forewarn.policies.scheduling.plugin import (
    MAX_NODE_SCORE,
    FilterInColumns,
    Plan,
    Plugin,
    PluginFault,
    StaticFilterPlugin,
    default_normalize_score,
    plan_of,
)
from forewarn.policies.scheduling.reasons import Reason
from forewarn.policies.scheduling.status import (
    SKIP,
    Code,
    CycleState,
    NodeToStatus,
    PermitResult,
    PostFilterResult,
    PreFilterResult,
    Status,
    failed,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "Code",
    "CycleState",
    "Framework",
    "NodeToStatus",
    "PermitResult",
    "Plugin",
    "PluginFault",
    "PostFilterResult",
    "PreFilterResult",
    "Status",
    "default_normalize_score",
    "extends",
    "failed",
    "unresolvable",
    "unschedulable",
]

FILTERS: Final = 6
"""Units of work for the filters of one node, without costs that grow with the Pod, which plugins charge themselves."""


class Framework:
    """The plugins of one profile over one Snapshot, created on first use and run in the order of the profile.

    Plugins get a weak reference to this object as their handle, so Python frees both without a garbage collection.
    """

    def __init__(self, snapshot: Snapshot, profile: Profile) -> None:
        self.snapshot, self.profile = snapshot, profile
        self.plan: Plan = plan_of(profile)
        self._made: dict[str, Any] = {}

    @property
    def framework(self) -> Framework:
        return self

    def plugin(self, name: str) -> Any:
        """Return the plugin `name` of the profile; create the plugin on first use."""
        result: Any = self._made.get(name)
        if result is None:
            result = self._made[name] = self.profile.plugins[name](proxy(self), self.profile.args.get(name))
        return result

    @property
    def without_columns(self) -> str:
        """The reason why the numpy implementation (`vectorized`) does not support the profile, as text after "because";
        "" if it does.
        """
        plugin = self.plan.without
        return f"of plugin {plugin}, which does not say how it looks in columns" if plugin else ""

    @property
    def column_plugins(self) -> list[FilterInColumns]:
        """The plugins that filter all nodes at once by the Pods on the nodes."""
        return [self.plugin(name) for name in self.plan.columns]

    @property
    def static_plugins(self) -> list[StaticFilterPlugin]:
        return [self.plugin(name) for name in self.plan.static]

    @property
    def late_static_plugins(self) -> list[StaticFilterPlugin]:
        """The plugins of `static_plugins` that run after a plugin of `column_plugins`."""
        return [self.plugin(name) for name in self.plan.late_static]

    def _at(self, point: str) -> list[Any]:
        return [self.plugin(name) for name in self.profile.at(point)]

    @cached_property
    def pre_enqueues(self) -> list[PreEnqueuePlugin]:
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
        result = []
        for plugin in self._at("filter"):
            lacks = plugin.needs_pre_filter and plugin.name not in prepared
            result.append((plugin.name, _failing(plugin.needs_pre_filter) if lacks else plugin.filter))
        return result

    @cached_property
    def post_filters(self) -> list[PostFilterPlugin]:
        return self._at("postFilter")

    @cached_property
    def pre_scores(self) -> list[PreScorePlugin]:
        return self._at("preScore")

    @cached_property
    def scores(self) -> list[Any]:
        """The Score plugins in the order of the profile. Some are also NormalizeScore plugins."""
        return self._at("score")

    @cached_property
    def reserves(self) -> list[ReservePlugin]:
        return self._at("reserve")

    @cached_property
    def permits(self) -> list[PermitPlugin]:
        return self._at("permit")

    @cached_property
    def pre_binds(self) -> list[PreBindPlugin]:
        return self._at("preBind")

    @cached_property
    def binds(self) -> list[BindPlugin]:
        return self._at("bind")

    @cached_property
    def post_binds(self) -> list[PostBindPlugin]:
        return self._at("postBind")

    def over(self, snapshot: Snapshot) -> Framework:
        return Framework(snapshot, self.profile)

    def run_pre_enqueue_plugins(self, pod: Pod) -> Status | None:
        """Return the status of the first plugin of the profile that keeps the Pod out of the queue, or None."""
        return run_pre_enqueue_plugins(self.pre_enqueues, pod)

    def run_pre_filter_plugins(
        self, state: CycleState, pod: Pod, plugins: Sequence[PreFilterPlugin] | None = None
    ) -> tuple[PreFilterResult, tuple[str, ...]]:
        """Return (result with the nodes that no plugin excludes, names of the plugins that exclude nodes).

        `plugins`: run only these; None: all of the profile. Adds plugins that skip the Pod to `state.skip_filter`.
        Source: upstream `RunPreFilterPlugins`.
        """
        nodes = self.snapshot.node_infos
        names: frozenset[str] | None = None
        with_nodes: list[str] = []
        rejected: Status | None = None
        for plugin in self.pre_filters if plugins is None else plugins:
            result = plugin.pre_filter(state, pod, nodes)
            if result.status is not None:
                if result.status.code is Code.SKIP:
                    state.skip_filter.add(plugin.name)
                    continue
                status = result.status.of(plugin.name)
                if not status.rejected:
                    status = status.while_running(f'running PreFilter plugin "{plugin.name}"', plugin.name)
                if status.code is not Code.UNSCHEDULABLE:
                    return PreFilterResult(None, status), ()
                rejected = status
                continue
            if result.names is None:
                continue
            with_nodes.append(plugin.name)
            names = result.names if names is None else names & result.names
            if not names:
                return PreFilterResult(names, unresolvable(_unsatisfied(with_nodes))), tuple(with_nodes)
        return PreFilterResult(names, rejected), tuple(with_nodes)

    def run_filter_plugins(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Return the status of the first plugin that rejects the node, or None. Source: upstream `RunFilterPlugins`."""
        for name, passes in self.filters:
            if name in state.skip_filter:
                continue
            status = passes(state, pod, node_info)
            if status is not None:
                if status.rejected:
                    return Status(status.code, status.reasons, name)
                return status.while_running(f'running "{name}" filter plugin', name)
        return None

    def run_filter_plugins_with_nominated_pods(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Run the filters twice: with the nominated Pods of equal or higher priority on the node, then without. Return
        the first rejection or None.

        Source: `RunFilterPluginsWithNominatedPods`.
        """
        nominated = self._ge_nominated_pods(pod, node_info)
        if nominated:
            state_out, node_info_out = state.clone(), node_info.clone()
            charge(len(nominated) * FILTERS)
            for other in nominated:
                node_info_out.add_pod(other)
                self.run_add_pod(state_out, pod, other, node_info_out)
            status = self.run_filter_plugins(state_out, pod, node_info_out)
            if status is not None:
                return status
        return self.run_filter_plugins(state, pod, node_info)

    def _ge_nominated_pods(self, pod: Pod, node_info: NodeInfo) -> list[Pod]:
        nominated = self.snapshot.nominated_pods(node_info.name)
        if not nominated:
            return []
        priority, identity = pod.effective_priority, pod.identity
        return [p for p in nominated if p.effective_priority >= priority and p.identity != identity]

    def run_add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        """Update the states of PreFilter plugins after `added` was added to the node.

        Source: upstream `RunPreFilterExtensionAddPod`.
        """
        for plugin in self.extensions:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod, added, node_info)

    def run_remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        """Update the states of PreFilter plugins after `removed` was removed.

        Source: upstream `RunPreFilterExtensionRemovePod`.
        """
        for plugin in self.extensions:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod, removed, node_info)

    def run_post_filter_plugins(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus
    ) -> tuple[PostFilterResult, dict[str, PostFilterResult]]:
        """Return (the final result, plugin -> result of each plugin that ran).

        No further plugin runs after one that succeeds, fails, or returns another code than Unschedulable. Source:
        upstream `RunPostFilterPlugins`.
        """
        results: dict[str, PostFilterResult] = {}
        reasons: list[str] = []
        for plugin in self.post_filters:
            result = results[plugin.name] = plugin.post_filter(state, pod, statuses)
            if result.status is None or result.status.code is not Code.UNSCHEDULABLE:
                return result, results
            reasons += result.status.reasons
        return PostFilterResult(unschedulable(*reasons)), results

    def prioritize_nodes(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> dict[str, dict[str, int]] | Status:
        """Return node -> plugin -> weighted score, with the sum as `total`; a Status if a plugin fails.

        Source: upstream `prioritizeNodes`.
        """
        return self.run_pre_score_plugins(state, pod, nodes) or self.run_score_plugins(state, pod, nodes)

    def run_pre_score_plugins(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Run PreScore plugins; return the Status of the first that fails, or None. Source: upstream
        `RunPreScorePlugins`.

        Adds plugins that skip the Pod to `state.skip_score`.
        """
        for plugin in self.pre_scores:
            status = plugin.pre_score(state, pod, nodes)
            if status is None:
                continue
            if status.code is Code.SKIP:
                state.skip_score.add(plugin.name)
            else:
                return status.while_running(f'running PreScore plugin "{plugin.name}"', plugin.name)
        return None

    def run_score_plugins(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> dict[str, dict[str, int]] | Status:
        """Return node -> plugin -> weighted score, with the sum as `total`; a Status if a plugin fails.

        Source: upstream `RunScorePlugins`.
        """
        table: dict[str, dict[str, int]] = {node.name: {} for node in nodes}
        weights = self.profile.weights
        for plugin in self.scores:
            name = plugin.name
            if name in state.skip_score:
                continue
            lacking = self._missing_for_score(plugin)
            if lacking:
                return failed(lacking).while_running(f'plugin "{name}" failed with', name)
            for node_name, score in run_score_plugin(plugin, state, pod, nodes).items():
                table[node_name][name] = score * weights[name]
        for row in table.values():
            row["total"] = sum(row.values())
        return table

    def _missing_for_score(self, plugin: Any) -> str:
        """Return upstream's error for a plugin that cannot score because the profile lacks its PreScore or
        PreFilter; otherwise "".
        """
        before = {"preScore": plugin.needs_pre_score, "preFilter": plugin.scores_what_pre_filter_found}
        return next(
            (reason for point, reason in before.items() if reason and plugin.name not in self.profile.at(point)),
            "",
        )


def run_pre_enqueue_plugins(plugins: Iterable[PreEnqueuePlugin], pod: Pod) -> Status | None:
    """Return the status of the first plugin that keeps the Pod out of the queue, or None.

    Source: scheduling queue `runPreEnqueuePluginsForPod`.
    """
    for plugin in plugins:
        status = plugin.pre_enqueue(pod)
        if status is not None:
            return status.of(plugin.name)
    return None


def run_score_plugin(plugin: Any, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
    """Return node -> normalized score of one plugin, without its weight."""
    work, scores = meter(), dict[str, int]()
    for node in nodes:
        work.charge(1)
        scores[node.name] = plugin.score(state, pod, node)
    if isinstance(plugin, NormalizeScorePlugin):
        plugin.normalize_score(state, pod, scores)
    return scores


def _unsatisfied(plugins: list[str]) -> str:
    short = f"no node satisfies {' and '.join(sorted(plugins))}"
    if len(plugins) == 1:
        return Reason(f"node(s) didn't satisfy plugin {plugins[0]}", short)
    return Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously", f"{short} together")


def _failing(reason: str) -> Callable[[CycleState, Pod, NodeInfo], Status | None]:
    status = failed(reason)
    return lambda state, pod, node_info: status  # noqa: ARG005
