"""The scheduling framework: runs the plugins of a profile at every extension point, as upstream does.

Source: kubernetes `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol
from weakref import proxy

import numpy as np

from forewarn.policies.base.findings import nearest_word
from forewarn.policies.base.metering import charge, meter
from forewarn.policies.kubernetes.scheduling.reasons import Reason

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Always
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.releases.semantics import Profile, Semantics
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


NOT_FOUND: Final = "not found"
"""The error of upstream's CycleState for a missing key."""


class Code(StrEnum):
    """The result code of a plugin for a Pod, or for a Pod on a node. Success has no Status (None)."""

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class Status:
    """The result of a scheduling plugin, other than success."""

    code: Code
    reasons: Always[tuple[str, ...]] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the status is a rejection, not an error. Source: upstream `IsRejected`."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def with_plugin(self, plugin: str) -> Status:
        return Status(self.code, self.reasons, plugin)

    def while_running(self, what: str, plugin: str) -> Status:
        """Return an error status with the framework's prefix: `running "X" filter plugin: …`."""
        return Status(Code.ERROR, (f"{what}: {', '.join(self.reasons)}",), plugin)


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a rejection that preemption may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a rejection that preemption cannot resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def failed(*reasons: str) -> Status:
    """Return an error status, which ends the scheduling cycle (upstream retries the Pod later)."""
    return Status(Code.ERROR, reasons)


class CycleState:
    """The state of plugins during one cycle.

    `data`: by plugin name. `skip_filter`, `skip_score`, `skip_pre_bind`: names of plugins that skip these extension
    points.
    """

    __slots__ = ("data", "in_columns", "skip_filter", "skip_pre_bind", "skip_score")

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.in_columns: Any = None
        """The complete answer in columns (`Cycle`), if columns apply."""

    def clone(self) -> CycleState:
        """Return a copy. Values of `data` with a `clone` method are cloned; everything else is shared."""
        copy = CycleState()
        copy.data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self.data.items()}
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        return copy


class PreFilterResult(NamedTuple):
    """The result of PreFilter. `names`: the only nodes to evaluate; None for all."""

    names: frozenset[str] | None = None
    status: Status | None = None


class PostFilterResult(NamedTuple):
    """The result of PostFilter.

    `status` None: the Pod is nominated to the node. `details`: a result specific to the plugin.
    """

    status: Status | None = None
    nominated_node_name: str = ""
    details: Any = None


class PermitResult(NamedTuple):
    """The result of Permit. `status` None: the Pod may be bound.

    With WAIT, the Pod waits for at most `timeout` seconds and at most 15 minutes.
    """

    status: Status | None = None
    timeout: float = 0.0


class NodeToStatus:
    """The status of each rejected node. Nodes without an entry share the status `absent`."""

    def __init__(self, absent: Status | None = None) -> None:
        self.by_node: dict[str, Status] = {}
        self.absent = absent or unresolvable()

    def get(self, name: str) -> Status:
        """Return the status of a node; `absent` for a node without an entry."""
        return self.by_node.get(name, self.absent)

    def is_unresolvable(self, name: str) -> bool:
        """Report whether preemption cannot help on a node."""
        return self.get(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


MAX_PERMIT_TIMEOUT: Final = 15 * 60.0
"""Maximum seconds for which a Pod waits at Permit. Source: upstream `maxTimeout`."""


class _Named(Protocol):
    name: ClassVar[str]


class PreEnqueuePlugin(Protocol):
    """Decides whether a Pod may enter the queue. A class may be a plugin too, if its method is static."""

    @property
    def name(self) -> str:
        """The plugin's name, a class attribute."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return None to let the Pod enter the queue, or the reason for its rejection."""


class QueueSortPlugin(_Named, Protocol):
    """The order of the queue; a profile has exactly one."""

    def less(self, first: Any, second: Any) -> bool:
        """Report whether the first queued Pod is popped before the second.

        Queued Pods have the attributes `pod` and `timestamp`.
        """


class PreFilterPlugin(_Named, Protocol):
    """Checks the Pod and all nodes before the nodes are filtered."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Return the nodes to filter, or a rejection. With SKIP, this plugin's Filter does not run in this cycle."""


class PreFilterExtensions(_Named, Protocol):
    """Updates the plugin's PreFilter state when preemption adds and removes Pods in a dry run."""

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        """Update `state` after `added` was added to the node."""

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        """Update `state` after `removed` was removed from the node."""


class FilterPlugin(_Named, Protocol):
    """Decides whether a node can run the Pod."""

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Return None if the node can run the Pod, or the reason for its rejection."""


class PostFilterPlugin(_Named, Protocol):
    """Acts if no node can run the Pod, for example by preemption."""

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Return the result of the action. `statuses`: why each node was rejected."""


class PreScorePlugin(_Named, Protocol):
    """Checks the feasible nodes before they are scored."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Return None, or an error. With SKIP, this plugin's Score does not run in this cycle."""


class ScorePlugin(_Named, Protocol):
    """Scores a node for the Pod."""

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Return the score of the node: higher is better, 0 to 100 after NormalizeScore."""


class NormalizeScorePlugin(_Named, Protocol):
    """Scales the scores of all nodes to 0…100."""

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """Change `scores` (node name -> score) in place."""


class ReservePlugin(_Named, Protocol):
    """Reserves resources for a Pod on its selected node, and releases them if the Pod is not bound."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve resources and return None, or return the reason why the plugin cannot."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Release the resources. Also called for a Pod for which `reserve` was never called."""


class PermitPlugin(_Named, Protocol):
    """Decides whether a Pod may be bound: yes, no, or later."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:
        """Return the decision. WAIT holds the Pod until a plugin allows or rejects the Pod, or until the timeout."""


class PreBindPlugin(_Named, Protocol):
    """Prepares the binding of a Pod."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return SKIP if `pre_bind` has nothing to do for this Pod. Must be quick and change nothing."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Prepare the binding and return None, or return the reason for the failure."""


class BindPlugin(_Named, Protocol):
    """Binds the Pod to its node."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind the Pod and return None. With SKIP, the next Bind plugin runs."""


class PostBindPlugin(_Named, Protocol):
    """Runs after a Pod was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run after the binding."""


EXTENSION_POINTS: Final[dict[str, type]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
}
"""Name of an extension point in a configuration -> the protocol of its plugins."""
_EXTENSIONS: Final = (PreFilterExtensions, NormalizeScorePlugin)
"""Optional extensions of PreFilter and Score."""
_OWN: Final = ("static_filter", "not_in", "scores_in_columns")
"""Methods that a plugin may have besides those of its extension points."""


def _methods(protocol: type) -> tuple[str, ...]:
    return tuple(name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_")


METHODS: Final = {point: _methods(protocol) for point, protocol in EXTENSION_POINTS.items()}
"""Extension point -> the names of its methods."""
_KNOWN: Final = {
    name: getattr(protocol, name)
    for protocol in (*EXTENSION_POINTS.values(), *_EXTENSIONS)
    for name in _methods(protocol)
}


class InvalidPlugin(Exception):
    """The error for a class that cannot be a plugin, with the reason."""


def implements(plugin: Any, protocol: type) -> bool:
    return all(hasattr(plugin, method) for method in _methods(protocol))


def extends(plugin: Any, point: str, semantics: Semantics) -> bool:
    """Return whether a plugin class has the extension point `point` in this release."""
    if implements(plugin, EXTENSION_POINTS[point]):
        return point not in plugin.not_in(semantics)
    pre_filters = plugin.pre_filters_deferred_resizes and semantics.deferred_resizes_have_pre_filters
    return bool(pre_filters) and point == "preFilter"


def check_plugin(plugin: Any) -> None:
    """Raise InvalidPlugin for a class without a name, or with a misspelt, incomplete or no extension point."""
    where = f"plugin {getattr(plugin, '__qualname__', plugin)!s}"
    name = getattr(plugin, "name", None)
    if not isinstance(plugin, type) or not isinstance(name, str) or not name:
        raise InvalidPlugin(f"{where}: must be a class with a `name`")
    public = [name for name in dir(plugin) if name[0] != "_" and callable(getattr(plugin, name))]
    for method in public:
        if method in _KNOWN:
            _check_signature(f"{where}: {method}", inspect.getattr_static(plugin, method), _KNOWN[method])
        elif method not in _OWN and (near := _nearest(method)):
            raise InvalidPlugin(
                f"{where}: {method} is no method of an extension point (did you mean {near}? "
                "The name of a method of your own starts with an underscore)"
            )
    for protocol in (*EXTENSION_POINTS.values(), *_EXTENSIONS):
        methods = _methods(protocol)
        missing = [name for name in methods if name not in public]
        if missing and len(missing) < len(methods):
            raise InvalidPlugin(f"{where}: has {', '.join(set(methods) - set(missing))} without {', '.join(missing)}")
    if not any(name in public for names in METHODS.values() for name in names):
        raise InvalidPlugin(f"{where}: extends nothing: it has none of {', '.join(_KNOWN)}")


def _nearest(method: str) -> str:
    plain = {name.replace("_", ""): name for name in _KNOWN}
    return plain.get(nearest_word(method.replace("_", "").lower(), plain, 0.85), "")


def _check_signature(what: str, method: Any, protocol: Any) -> None:
    wanted = list(inspect.signature(protocol).parameters)[1:]
    try:
        is_static = isinstance(method, staticmethod)
        inspect.signature(method).bind(*([None] * (len(wanted) + (not is_static))))
    except (TypeError, ValueError):
        raise InvalidPlugin(f"{what} must take ({', '.join(['self', *wanted])})") from None


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
    since: ClassVar[int] = 0
    """The first minor of Kubernetes whose kube-scheduler has the plugin. Source: its registry.go."""
    needs_pre_filter: ClassVar[str] = ""
    needs_pre_score: ClassVar[str] = ""
    scores_what_pre_filter_found: str = ""
    """Upstream's error at Score if the plugin's PreFilter is not in the profile; "" if Score works without."""
    foreign: ClassVar[bool] = False
    """True for plugins that are not part of kube-scheduler."""
    reads_whole_pod: ClassVar[bool] = False
    """Whether `static_filter` reads more of the Pod than `node_constraints_of` returns: labels, namespace, priority or
    other fields of the spec. Pods for which these fields are equal share the results.
    """
    reads_one_node: ClassVar[bool] = False
    """Whether Filter reads only the Pod, one node and its Pods, so that the result of PreFilter is valid for all equal
    Pods. A StaticFilterPlugin always does.
    """
    pre_filters_deferred_resizes: ClassVar[bool] = False
    """Whether upstream's plugin has a PreFilter for Pods with a deferred resize, which forewarn does not predict. A
    profile may enable the plugin there.
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

    def scores_in_columns(
        self,
        pod: Pod,
        rows: Rows,
        matrix: Any,
    ) -> Ints | int:
        """Return [index in `rows`]: the normalized scores of PreScore, Score and NormalizeScore for these nodes,
        given as row numbers; an integer if all nodes have the same score.

        `matrix`: the PodMatrix of the Snapshot; hold `snapshot.derived.locked()`.
        """
        raise NotImplementedError


def default_normalize_score(scores: dict[str, int], *, reverse: bool) -> None:
    """Scale scores as `default_normalized` does, in place."""
    values = default_normalized(np.fromiter(scores.values(), np.int64, len(scores)), reverse=reverse)
    scores.update(zip(scores, values.tolist(), strict=True))


def default_normalized(scores: Ints, *, reverse: bool) -> Ints:
    """Return scores scaled to 0…100, or to 100…0 with `reverse`. Source: upstream `helper.DefaultNormalizeScore`."""
    scaled = MAX_NODE_SCORE * scores // max(int(scores.max(initial=0)), 1)
    return MAX_NODE_SCORE - scaled if reverse else scaled


class StaticFilter(NamedTuple):
    """The filter of a plugin for one Pod that reads only the node, not its Pods.

    `may_reject`: True for the nodes that the plugin may reject for any Pod (for example, nodes with taints); None: all.
    `in_columns`: the NodeTables -> `passes` of all nodes, as [node], bool; None: call `passes` for each node.
    """

    passes: Callable[[Node], bool]
    may_reject: Callable[[Node], bool] | None = None
    in_columns: Callable[[Any], Mask] | None = None


class StaticFilterPlugin(Protocol):
    """A Filter plugin that reads only the node, not its Pods. Results are cached: see `Plugin.reads_whole_pod`."""

    name: ClassVar[str]

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, regardless of its Pods; None if all nodes pass."""

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

    def rejections_in_columns(self, problem: Any, amounts: Any) -> Iterator[Any]:  # noqa: ARG002
        """Yield the Rejections of nodes in the order of the plugin's checks, by default those of `in_columns`, which do
        not depend on the Pods of the nodes. Raises NotValid.
        """
        if self.name in problem.rejections:
            yield problem.rejections[self.name]

    def rejections_without_nominated(self, problem: Any, amounts: Any) -> Iterator[Any]:  # noqa: ARG002
        """Yield the Rejections that occur only if nominated Pods do not count. Raises NotValid."""
        return iter(())


class Plan(NamedTuple):
    """What the plugins of a profile implement besides their extension points, and how the numpy implementation
    (`vectorized`) evaluates them.

    `pre_filters`, `extensions`: the PreFilter plugins that implement PreFilter and PreFilterExtensions. `without`: the
    plugin that `vectorized` does not support; "" if it supports the profile. `columns`, `static`: the plugins with the
    protocols FilterInColumns and StaticFilterPlugin; `late_static`: those of `static` that follow a plugin in
    `columns`. `reads_whole_pod`: whether any Filter plugin sets `Plugin.reads_whole_pod`. `preempts`: whether a
    PostFilter plugin preempts. `scores`: whether `vectorized` supports the Score plugins.
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
    return tuple(name for name in profile.plugins_at(point) if profile.plugins[name].foreign)


@lru_cache(64)
def plan_of(profile: Profile) -> Plan:
    """Return what the plugins of a profile implement; cached for each profile."""
    plugins, before = profile.plugins, profile.plugins_at("preFilter")
    pre_filters = tuple(name for name in before if implements(plugins[name], PreFilterPlugin))
    extensions = tuple(name for name in before if implements(plugins[name], PreFilterExtensions))
    without = _without_columns(profile)
    if without:
        return Plan(pre_filters, extensions, without)
    filters = profile.plugins_at("filter")
    columns = tuple(name for name in filters if implements(plugins[name], FilterInColumns))
    static = tuple(name for name in filters if implements(plugins[name], StaticFilterPlugin))
    first = next((place for place, name in enumerate(filters) if name in columns), len(filters))
    late = tuple(name for name in static if filters.index(name) >= first)
    whole = any(plugins[name].reads_whole_pod for name in filters)
    preempts = any(plugins[name].frees_capacity_in_columns for name in profile.plugins_at("postFilter"))
    return Plan(pre_filters, extensions, "", columns, static, late, whole, preempts, _scores_in_columns(profile))


def _without_columns(profile: Profile) -> str:
    plugins, before, filters = profile.plugins, profile.plugins_at("preFilter"), profile.plugins_at("filter")
    for name in (*profile.plugins_at("preScore"), *profile.plugins_at("score")):
        if _lacking_for_score(plugins[name], name, profile):
            return name
    for name in dict.fromkeys((*filters, *before)):
        is_halved = (implements(plugins[name], PreFilterPlugin) and name not in before) or name not in filters
        if is_halved or not any(implements(plugins[name], form) for form in (FilterInColumns, StaticFilterPlugin)):
            return name
    return next(
        (name for name in profile.plugins_at("postFilter") if plugins[name].frees_capacity_in_columns is None), ""
    )


def _lacking_for_score(plugin: Any, name: str, profile: Profile) -> str:
    """Return upstream's error if the profile lacks PreScore or PreFilter of a plugin that needs it; "" otherwise."""
    before = {"preScore": plugin.needs_pre_score, "preFilter": plugin.scores_what_pre_filter_found}
    return next((error for point, error in before.items() if error and name not in profile.plugins_at(point)), "")


def _scores_in_columns(profile: Profile) -> bool:
    before = profile.plugins_at("preScore")
    plugins = {name: profile.plugins[name] for name in (*before, *profile.plugins_at("score"))}
    return not any(
        plugin.foreign or (name not in before and implements(plugin, PreScorePlugin))
        for name, plugin in plugins.items()
    )


FILTERS: Final = 6
"""Units of work for the filters of one node, without costs that grow with the Pod, which plugins charge themselves."""


def _plugins(names: Callable[[Framework], Iterable[str]]) -> cached_property[list[Any]]:
    """Return a property of `Framework`: the plugins with these names."""
    return cached_property(lambda framework: [framework.plugin(name) for name in names(framework)])


def _plugins_at(point: str) -> cached_property[list[Any]]:
    """Return a property of `Framework`: the plugins of an extension point in the order of the profile."""
    return _plugins(lambda framework: framework.profile.plugins_at(point))


class Framework:
    """The plugins of one profile over one Snapshot, created on first use and run in the order of the profile.

    Plugins get a weak reference to this object as their handle, so Python frees both without a garbage collection.
    """

    pre_enqueues: cached_property[list[PreEnqueuePlugin]] = _plugins_at("preEnqueue")
    post_filters: cached_property[list[PostFilterPlugin]] = _plugins_at("postFilter")
    pre_scores: cached_property[list[PreScorePlugin]] = _plugins_at("preScore")
    _filters: cached_property[list[Any]] = _plugins_at("filter")
    scores: cached_property[list[Any]] = _plugins_at("score")
    """Some are also NormalizeScore plugins."""
    reserves: cached_property[list[ReservePlugin]] = _plugins_at("reserve")
    permits: cached_property[list[PermitPlugin]] = _plugins_at("permit")
    pre_binds: cached_property[list[PreBindPlugin]] = _plugins_at("preBind")
    binds: cached_property[list[BindPlugin]] = _plugins_at("bind")
    post_binds: cached_property[list[PostBindPlugin]] = _plugins_at("postBind")
    pre_filters: cached_property[list[PreFilterPlugin]] = _plugins(lambda framework: framework.plan.pre_filters)
    """The PreFilter plugins in the order of the profile, without those that have no `pre_filter` method."""
    extensions: cached_property[list[PreFilterExtensions]] = _plugins(lambda framework: framework.plan.extensions)
    """The PreFilter plugins with `add_pod` and `remove_pod` (PreFilterExtensions), which track dry runs."""
    column_plugins: cached_property[list[FilterInColumns]] = _plugins(lambda framework: framework.plan.columns)
    """The plugins that filter all nodes at once by the Pods on the nodes."""
    static_plugins: cached_property[list[StaticFilterPlugin]] = _plugins(lambda framework: framework.plan.static)
    late_static_plugins: cached_property[list[StaticFilterPlugin]] = _plugins(lambda it: it.plan.late_static)
    """The plugins of `static_plugins` that run after a plugin of `column_plugins`."""

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

    @cached_property
    def reads_one_node(self) -> frozenset[str]:
        """The Filter plugins that read only one node: see `Plugin.reads_one_node`."""
        return frozenset(plugin.name for plugin in self._filters if plugin.reads_one_node).union(self.plan.static)

    @cached_property
    def filters(self) -> list[tuple[str, Callable[[CycleState, Pod, NodeInfo], Status | None]]]:
        """(name, Filter method) in the order of the profile.

        The method of a plugin that needs its PreFilter, but whose PreFilter is not in the profile, returns an error, as
        in upstream.
        """
        prepared = self.profile.plugins_at("preFilter")
        result = []
        for plugin in self._filters:
            lacks = plugin.needs_pre_filter and plugin.name not in prepared
            result.append((plugin.name, _failing(plugin.needs_pre_filter) if lacks else plugin.filter))
        return result

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
                status = result.status.with_plugin(plugin.name)
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
                self.run_extensions(state_out, pod, other, node_info_out, 1)
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

    def run_extensions(self, state: CycleState, pod: Pod, changed: Pod, node_info: NodeInfo, sign: int) -> None:
        """Update the plugins' states after the Pod `changed` joined (`sign` 1) or left (-1) the node.

        Source: upstream `RunPreFilterExtensionAddPod`, `RunPreFilterExtensionRemovePod`.
        """
        for plugin in self.extensions:
            if plugin.name not in state.skip_filter:
                (plugin.add_pod if sign > 0 else plugin.remove_pod)(state, pod, changed, node_info)

    def run_post_filter_plugins(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus
    ) -> tuple[PostFilterResult, dict[str, PostFilterResult]]:
        """Return (the final result, plugin -> result of each plugin that ran).

        No further plugin runs after one that succeeds, fails, or returns a code other than Unschedulable. Source:
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
        """Return node -> plugin -> weighted score, and `total`; a Status on failure. Source: `prioritizeNodes`."""
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
        """Return node -> plugin -> weighted score, and `total`; a Status on failure. Source: `RunScorePlugins`."""
        table: dict[str, dict[str, int]] = {node.name: {} for node in nodes}
        weights = self.profile.weights
        for plugin in self.scores:
            name = plugin.name
            if name in state.skip_score:
                continue
            if lacking := _lacking_for_score(plugin, name, self.profile):
                return failed(lacking).while_running(f'plugin "{name}" failed with', name)
            for node_name, score in run_score_plugin(plugin, state, pod, nodes).items():
                table[node_name][name] = score * weights[name]
        for row in table.values():
            row["total"] = sum(row.values())
        return table


def run_pre_enqueue_plugins(plugins: Iterable[PreEnqueuePlugin], pod: Pod) -> Status | None:
    """Return the first Status that keeps the Pod out of the queue, or None. Source: `runPreEnqueuePluginsForPod`."""
    for plugin in plugins:
        status = plugin.pre_enqueue(pod)
        if status is not None:
            return status.with_plugin(plugin.name)
    return None


def run_score_plugin(plugin: Any, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
    """Return node -> the normalized score of one plugin, without its weight."""
    work, scores = meter(), dict[str, int]()
    for node in nodes:
        work.charge(1)
        scores[node.name] = plugin.score(state, pod, node)
    if implements(plugin, NormalizeScorePlugin):
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
