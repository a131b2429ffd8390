"""Read a KubeSchedulerConfiguration v1 as strictly as kube-scheduler does, and expand its profiles."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, aggregate, go_quote
from forewarn.policies.releases.profiles import DEFAULT_SCHEDULER, Extender, Profile, SchedulerConfiguration
from forewarn.policies.scheduling.configuration.plugin_arguments import (
    READERS,
    REMOVED_PLUGINS,
    Expansion,
    backoff,
    validate,
)
from forewarn.policies.scheduling.configuration.schema import (
    API_VERSION,
    KIND,
    MULTI_POINT,
    POINTS,
    PluginSet,
    decoding_faults,
    plugin_sets,
)
from forewarn.policies.scheduling.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics

_ANYWHERE: Final = frozenset(POINTS) - {"queueSort", "bind"}
"""Extension points of multiPoint plugins without code: queueSort and bind excluded, which have plugins in each
profile.
"""
_KNOWN: Final = 64
"""Maximum number of cached default configurations, one for each release with its gates."""


class InvalidConfiguration(Exception):
    """The error for a configuration with which kube-scheduler would not start. `faults`: the errors with field
    paths.
    """

    def __init__(self, faults: Sequence[FieldError]) -> None:
        super().__init__(aggregate(faults))
        self.faults = tuple(faults)


def scheduler_configuration(
    config: Any,
    semantics: Semantics,
    plugins: Mapping[str, Any] = IN_TREE,
    source: str = "",
    unknown: Callable[[str, frozenset[str]], Any] | None = None,
) -> SchedulerConfiguration:
    """Return the effective configuration: `config` (a KubeSchedulerConfiguration, decoded from YAML) with the defaults
    of the release.

    `plugins`: name -> class of all known plugins. `unknown`: creates a plugin class from the name and extension points
    of an unknown plugin; None: such a plugin is an error. Raises InvalidConfiguration.
    """
    _raise(decoding_faults(config))
    given = [profile or {} for profile in config.get("profiles") or ()] or [{}]
    if len(given) == 1 and given[0].get("schedulerName") is None:
        given[0] = {**given[0], "schedulerName": DEFAULT_SCHEDULER}
    sets = [plugin_sets(profile.get("plugins") or {}, semantics) for profile in given]
    faults = list(validate(config, given, sets))
    if unknown is not None:
        plugins = {**_unknown(sets, plugins, unknown), **plugins}
    args = [_arguments(profile, number, sets[number], semantics, faults) for number, profile in enumerate(given)]
    _raise(faults)
    extenders = tuple(sorted(map(_extender, config.get("extenders") or ()), key=lambda e: e.ignorable))
    profiles: dict[str, Profile] = {}
    for number, profile in enumerate(given):
        new_profile = _profile(profile, number, sets[number], args[number], plugins, semantics, faults)
        profiles[new_profile.scheduler_name] = _without_ignored(new_profile, extenders, faults)
    _raise(faults)
    initial, most = backoff(config)
    percentage = config.get("percentageOfNodesToScore") or 0
    return SchedulerConfiguration(profiles, extenders, percentage, initial, most, source)


def configuration_of(semantics: Semantics) -> SchedulerConfiguration:
    """Return the configuration of a cluster's scheduler: the given one, or the default of the release."""
    return semantics.scheduler or _default(semantics)


@lru_cache(_KNOWN)
def _default(semantics: Semantics) -> SchedulerConfiguration:
    return scheduler_configuration({"apiVersion": API_VERSION, "kind": KIND}, semantics)


def _raise(faults: Sequence[FieldError]) -> None:
    if faults:
        raise InvalidConfiguration(faults)


def _arguments(
    profile: ApiObject, number: int, sets: Mapping[str, PluginSet], semantics: Semantics, faults: list[FieldError]
) -> dict[str, Any]:
    """Return plugin -> its arguments, and add errors to `faults`. `number`: index of the profile. `sets`: extension
    point -> plugins.

    As in upstream, NodeResourcesFit is validated only if the plugin is enabled.
    """
    enabled = {name for plugins in sets.values() for name, _ in plugins.enabled}
    arguments: dict[str, Any] = {name: READERS[name]({}, (), [], semantics) for name in READERS if name in enabled}
    for index, plugin in enumerate(profile.get("pluginConfig") or ()):
        name, args = (plugin or {}).get("name") or "", (plugin or {}).get("args")
        if name not in READERS:
            arguments[name] = {} if args is None else args
            continue
        checked = faults if name in enabled or name != "NodeResourcesFit" else []
        path = ("profiles", number, "pluginConfig", index, "args")
        arguments[name] = READERS[name](args or {}, path, checked, semantics)
    return arguments


def _profile(
    profile: ApiObject,
    number: int,
    sets: Mapping[str, PluginSet],
    args: Mapping[str, Any],
    plugins: Mapping[str, Any],
    semantics: Semantics,
    faults: list[FieldError],
) -> Profile:
    name = profile.get("schedulerName") or ""
    expansion = Expansion(name, sets, plugins, semantics, ("profiles", number))
    faults += expansion.faults
    points = {point: names for point, names in expansion.points.items() if names}
    used = {name: plugins[name] for names in points.values() for name in names if name in plugins}
    return Profile(name, points, expansion.weights(), args, used, profile.get("percentageOfNodesToScore"))


def _unknown(
    sets: Sequence[Mapping[str, PluginSet]],
    plugins: Mapping[str, Any],
    make: Callable[[str, frozenset[str]], Any],
) -> dict[str, Any]:
    """Return name -> class of unknown plugins, created by `make` for the extension points that list the plugin."""
    at: dict[str, set[str]] = {}
    for point, plugin_set in (entry for profile in sets for entry in profile.items()):
        points = _ANYWHERE if point == MULTI_POINT else {point}
        for name, _ in plugin_set.enabled:
            if name not in plugins and name not in REMOVED_PLUGINS:
                at.setdefault(name, set()).update(points)
    return {name: make(name, frozenset(points)) for name, points in at.items()}


def _extender(given: ApiObject | None) -> Extender:
    given = given or {}
    managed = [resource or {} for resource in given.get("managedResources") or ()]
    return Extender(
        url_prefix=given.get("urlPrefix") or "",
        filter_verb=given.get("filterVerb") or "",
        prioritize_verb=given.get("prioritizeVerb") or "",
        preempt_verb=given.get("preemptVerb") or "",
        ignorable=bool(given.get("ignorable")),
        managed_resources=frozenset(r.get("name") or "" for r in managed),
        ignored_resources=frozenset(r.get("name") or "" for r in managed if r.get("ignoredByScheduler")),
    )


def _without_ignored(profile: Profile, extenders: Sequence[Extender], faults: list[FieldError]) -> Profile:
    """Return the profile whose `ignored_resources` are the resources that extenders mark as `ignoredByScheduler`, if
    there are any.

    These resources replace configured ones, as in upstream `buildExtenders`. Adds an error to `faults` if
    NodeResourcesFit has no arguments.
    """
    ignored = frozenset(name for extender in extenders for name in extender.ignored_resources)
    args = profile.args.get("NodeResourcesFit")
    if not ignored:
        return profile
    if args is None:
        text = f"profile {go_quote(profile.scheduler_name)}: can't find NodeResourcesFitArgs in plugin config"
        faults.append(FieldError(("extenders",), text))
        return profile
    return replace(profile, args={**profile.args, "NodeResourcesFit": replace(args, ignored_resources=ignored)})


_HEADER: Final = {"apiVersion": API_VERSION, "kind": KIND}
_ALL: Final = {"disabled": [{"name": "*"}]}

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": _HEADER,
    "openshift-low-node-utilization": _HEADER,
    "openshift-high-node-utilization": {
        **_HEADER,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "score": {
                        "enabled": [{"name": "NodeResourcesFit", "weight": 5}],
                        "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                    }
                },
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
            }
        ],
    },
    "openshift-no-scoring": {
        **_HEADER,
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"preScore": _ALL, "score": _ALL}}],
    },
}
"""Name -> KubeSchedulerConfiguration."""
