"""Scheduler plugins that are not part of kube-scheduler: written in Python, or only named in a profile.

A plugin that raises an error, misses the deadline or returns an invalid value causes a PluginFault with its name:
forewarn does not predict outcomes that depend on the plugin. A plugin that is only named in a profile causes a
PluginFault at the first call. Other distributions provide plugins by the entry-point group
`forewarn.scheduler_plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, wraps
from types import new_class
from typing import Any, Final

from forewarn.policies.base.findings import cut
from forewarn.policies.base.metering import CutShort, check_time
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    METHODS,
    InvalidPlugin,
    PermitResult,
    Plugin,
    PluginFault,
    PostFilterResult,
    PreFilterResult,
    StaticFilterPlugin,
    Status,
    check_plugin,
)
from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE

GROUP: Final = "forewarn.scheduler_plugins"
_MAX_MESSAGE: Final = 200
"""Maximum characters of a plugin's message."""
UNKNOWN: Final = "is not one of kube-scheduler's own, and no Python plugin of that name is given"


def with_installed() -> dict[str, type]:
    """Return name -> class of the plugins of kube-scheduler and of installed distributions. Raises InvalidPlugin."""
    from importlib.metadata import entry_points

    result: dict[str, type] = dict(IN_TREE)
    for entry_point in entry_points(group=GROUP):
        try:
            plugin = entry_point.load()
        except Exception as error:
            raise InvalidPlugin(
                f"{entry_point.value}: {type(error).__name__}: {cut(str(error), _MAX_MESSAGE)}"
            ) from None
        guarded_plugin = guarded(plugin)
        if guarded_plugin.name in result:
            raise InvalidPlugin(f"{entry_point.value}: there is a plugin {guarded_plugin.name} already")
        result[guarded_plugin.name] = guarded_plugin
    return result


def guarded(plugin: Any) -> Any:
    """Return a subclass that raises PluginFault for errors, and for late or invalid results. Raises InvalidPlugin."""
    check_plugin(plugin)
    checks = {name: check for name, check in _CHECKS.items() if hasattr(plugin, name)}
    if "score" in checks and "normalize_score" not in checks:
        checks["score"] = _final_score
    body: dict[str, Any] = {
        name: _watched(getattr(plugin, name), plugin.name, name, check) for name, check in checks.items()
    }
    bases = [plugin] if issubclass(plugin, Plugin) else [plugin, Plugin]
    if "static_filter" in body:
        body["static_filter"] = _static_filter(body["static_filter"], plugin.name)
        bases.append(StaticFilterPlugin)
    body["__init__"] = _watched(plugin.__init__, plugin.name, "__init__", None)
    body |= {"foreign": True, "reads_whole_pod": True}
    return new_class(plugin.__name__, tuple(bases), exec_body=lambda namespace: namespace.update(body))


@lru_cache(256)
def named_only(name: str, points: frozenset[str]) -> Any:
    """Return a plugin class for a plugin without code: each call at these extension points raises PluginFault."""

    def reject(self: Any, *_: Any) -> Any:  # noqa: ARG001
        raise PluginFault(name, UNKNOWN)

    methods = (method for point in points for method in METHODS[point])
    body: dict[str, Any] = dict.fromkeys(methods, reject)
    return type("NamedOnly", (Plugin,), {**body, "name": name, "foreign": True})


def _watched(
    method: Callable[..., Any], name: str, what: str, check: Callable[[Any, tuple[Any, ...]], str] | None
) -> Any:
    """Return a wrapper of the method that raises PluginFault for errors, missed deadlines and invalid results.

    `name`: the plugin's name. `what`: the method's name. `check(answer, arguments)`: returns what is wrong with a
    result, or "".
    """

    @wraps(method)
    def run(self: Any, *args: Any) -> Any:
        try:
            answer = method(self, *args)
        except (CutShort, PluginFault):
            raise
        except Exception as error:
            text = cut(str(error), _MAX_MESSAGE)
            raise PluginFault(name, f"raised {type(error).__name__}{': ' + text if text else ''}") from error
        try:
            check_time()
        except CutShort:
            raise PluginFault(name, "was still at it when time was up") from None
        wrong = check(answer, args) if check else ""
        if wrong:
            raise PluginFault(name, f"answered nonsense: {what} {wrong}")
        return answer

    return run


def _static_filter(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a wrapper of `static_filter`; the filter that it returns raises PluginFault as other methods do."""

    def run(self: Any, pod: Any) -> Any:
        passes = method(self, pod)
        return passes and (lambda node: _watched(lambda _, info: passes(info), name, "static_filter", None)(None, node))

    return run


def _is(*kinds: type) -> Callable[[Any, tuple[Any, ...]], str]:
    def check(answer: Any, _: tuple[Any, ...]) -> str:
        if isinstance(answer, kinds):
            return ""
        wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        return f"must give {wanted}, not {type(answer).__name__}"

    return check


def _pre_filter(answer: Any, _: tuple[Any, ...]) -> str:
    if not isinstance(answer, PreFilterResult):
        return f"must give PreFilterResult, not {type(answer).__name__}"
    names_fit = answer.names is None or _are_texts(answer.names)
    status_fits = answer.status is None or isinstance(answer.status, Status)
    return "" if names_fit and status_fits else "must give names of nodes or None, and a Status or None"


def _score(answer: Any, _: tuple[Any, ...]) -> str:
    fits = isinstance(answer, int) and not isinstance(answer, bool) and -(2**63) <= answer < 2**63
    return "" if fits else f"must give a whole number, not {cut(repr(answer), 40)}"


def _final_score(answer: Any, _: tuple[Any, ...]) -> str:
    """Check a score that the scheduler uses as it is. Source: upstream `RunScorePlugins`."""
    if wrong := _score(answer, ()):
        return wrong
    return "" if 0 <= answer <= MAX_NODE_SCORE else f"must give scores from 0 to {MAX_NODE_SCORE}, not {answer}"


def _normalized(_: Any, args: tuple[Any, ...]) -> str:
    return next(filter(None, (_final_score(value, ()) for value in args[2].values())), "")


def _are_texts(names: Any) -> bool:
    return isinstance(names, Iterable) and not isinstance(names, str) and all(isinstance(name, str) for name in names)


_STATUS: Final = _is(Status, type(None))
_NOTHING: Final = _is(type(None))
_CHECKS: Final[Mapping[str, Callable[[Any, tuple[Any, ...]], str]]] = {
    "pre_enqueue": _STATUS,
    "less": _is(bool),
    "pre_filter": _pre_filter,
    "add_pod": _NOTHING,
    "remove_pod": _NOTHING,
    "filter": _STATUS,
    "post_filter": _is(PostFilterResult),
    "pre_score": _STATUS,
    "score": _score,
    "normalize_score": _normalized,
    "reserve": _STATUS,
    "unreserve": _NOTHING,
    "permit": _is(PermitResult),
    "pre_bind_pre_flight": _STATUS,
    "pre_bind": _STATUS,
    "bind": _STATUS,
    "post_bind": _NOTHING,
    "static_filter": lambda answer, _: "" if answer is None or callable(answer) else "must give a function or None",
}
