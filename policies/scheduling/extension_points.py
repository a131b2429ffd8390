"""The extension points of the scheduling framework, and a check whether a plugin implements them correctly.

Source: kube-scheduler `framework/interface.go`. A plugin is a class with a `name`; its methods determine its extension
points. A method that nearly has the name of an extension point's method, or that does not accept the arguments, is an
error.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.status import (
        CycleState,
        NodeToStatus,
        PermitResult,
        PostFilterResult,
        PreFilterResult,
        Status,
    )

MAX_PERMIT_TIMEOUT: Final = 15 * 60.0
"""Maximum seconds for which a Pod waits at Permit. Source: upstream `maxTimeout`."""


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Decides whether a Pod may enter the queue. A class may be a plugin too, if its method is static."""

    @property
    def name(self) -> str:
        """The plugin's name, a class attribute."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return None to let the Pod enter the queue, or the reason for its rejection."""


@runtime_checkable
class QueueSortPlugin(Protocol):
    """The order of the queue; a profile has exactly one."""

    name: ClassVar[str]

    def less(self, first: Any, second: Any) -> bool:
        """True if the first queued Pod is popped before the second.

        Queued Pods have the attributes `pod` and `timestamp`.
        """


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Checks the Pod and all nodes before the nodes are filtered."""

    name: ClassVar[str]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Return the nodes to filter, or a rejection. With SKIP, this plugin's Filter does not run in this cycle."""


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Updates the plugin's PreFilter state when preemption adds and removes Pods in a dry run."""

    name: ClassVar[str]

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        """Update `state` after `added` was added to the node."""

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        """Update `state` after `removed` was removed from the node."""


@runtime_checkable
class FilterPlugin(Protocol):
    """Decides whether a node can run the Pod."""

    name: ClassVar[str]

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Return None if the node can run the Pod, or the reason for its rejection."""


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Acts if no node can run the Pod, for example by preemption."""

    name: ClassVar[str]

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Return the result of the action. `statuses`: why each node was rejected."""


@runtime_checkable
class PreScorePlugin(Protocol):
    """Checks the feasible nodes before they are scored."""

    name: ClassVar[str]

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Return None, or an error. With SKIP, this plugin's Score does not run in this cycle."""


@runtime_checkable
class ScorePlugin(Protocol):
    """Scores a node for the Pod."""

    name: ClassVar[str]

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Return the score of the node: higher is better, 0 to 100 after NormalizeScore."""


@runtime_checkable
class NormalizeScorePlugin(Protocol):
    """Scales the scores of all nodes to 0…100."""

    name: ClassVar[str]

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """Change `scores` (node name -> score) in place."""


@runtime_checkable
class ReservePlugin(Protocol):
    """Reserves resources for a Pod on its selected node, and releases them if the Pod is not bound."""

    name: ClassVar[str]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve resources and return None, or return the reason why the plugin cannot."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Release the resources. Also called for a Pod for which `reserve` was never called."""


@runtime_checkable
class PermitPlugin(Protocol):
    """Decides whether a Pod may be bound: yes, no, or later."""

    name: ClassVar[str]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:
        """Return the decision. WAIT holds the Pod until a plugin allows or rejects the Pod, or until the timeout."""


@runtime_checkable
class PreBindPlugin(Protocol):
    """Prepares the binding of a Pod."""

    name: ClassVar[str]

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return SKIP if `pre_bind` has nothing to do for this Pod. Must be quick and change nothing."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Prepare the binding and return None, or return the reason for the failure."""


@runtime_checkable
class BindPlugin(Protocol):
    """Binds the Pod to its node."""

    name: ClassVar[str]

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind the Pod and return None. With SKIP, the next Bind plugin runs."""


@runtime_checkable
class PostBindPlugin(Protocol):
    """Runs after a Pod was bound."""

    name: ClassVar[str]

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
_OWN: Final = ("also_at", "static_filter", "not_in", "scores_in_columns")
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
    return point in plugin.also_at(semantics)


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
    matches = get_close_matches(method.replace("_", "").lower(), plain, 1, 0.85)
    return plain[matches[0]] if matches else ""


def _check_signature(what: str, method: Any, protocol: Any) -> None:
    wanted = list(inspect.signature(protocol).parameters)[1:]
    try:
        is_static = isinstance(method, staticmethod)
        inspect.signature(method).bind(*([None] * (len(wanted) + (not is_static))))
    except (TypeError, ValueError):
        text = f"{what} must take ({', '.join(['self', *wanted])})"
        raise InvalidPlugin(text) from None
