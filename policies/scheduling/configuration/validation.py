"""Validate a decoded configuration as kube-scheduler does.

Source: kubernetes `pkg/scheduler/apis/config/validation/validation.go`, component-base `config/validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, duplicate, invalid, required
from forewarn.policies.kube_apiserver.validation.names import qualified_name
from forewarn.policies.kube_apiserver.validation.resources import is_extended
from forewarn.policies.metering import each
from forewarn.policies.scheduling.configuration.duration import seconds
from forewarn.policies.scheduling.configuration.schema import API_VERSION, POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.scheduling.configuration.plugin_sets import PluginSet

REMOVED_PLUGINS: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins that were removed from kube-scheduler."""
_LEASES: Final = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}


def validate(
    config: ApiObject, profiles: Sequence[ApiObject], sets: Sequence[Mapping[str, PluginSet]]
) -> Iterator[FieldError]:
    """Yield the errors of a decoded configuration. `sets`: the plugins of each profile, including the defaults."""
    yield from _of_leader_election(config.get("leaderElection") or {})
    if (config.get("clientConnection") or {}).get("burst", 0) < 0:
        burst = config["clientConnection"]["burst"]
        yield invalid(("clientConnection", "burst"), burst, "must be non-negative")
    parallelism = config.get("parallelism")
    if parallelism is not None and parallelism <= 0:
        yield invalid(("parallelism",), parallelism, "should be an integer value greater than zero")
    yield from _of_percentage(config, ())
    yield from _of_backoff(config)
    yield from _of_profiles(profiles, sets)
    yield from _of_extenders(config.get("extenders") or ())


def _of_profiles(profiles: Sequence[ApiObject], sets: Sequence[Mapping[str, PluginSet]]) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for number, profile in enumerate(profiles):
        path: Path = ("profiles", number)
        name = profile.get("schedulerName") or ""
        if not name:
            yield required((*path, "schedulerName"))
        if name in seen:
            yield duplicate((*path, "schedulerName"), name)
        seen[name] = number
        yield from _of_percentage(profile, path)
        yield from _of_plugins(sets[number], path)
        yield from _of_plugin_config(profile.get("pluginConfig") or (), path)
        if sets[number]["queueSort"] != sets[0]["queueSort"]:
            yield FieldError((*path, "plugins", "queueSort"), "must be the same for all profiles")
    if len(sets[0]["queueSort"].enabled) > 1:
        text = "only one queue sort plugin can be enabled"
        yield invalid(("profiles", 0, "plugins", "queueSort"), len(sets[0]["queueSort"].enabled), text)


def _of_plugins(sets: Mapping[str, PluginSet], path: Path) -> Iterator[FieldError]:
    for point in POINTS:
        for index, (name, _) in enumerate(sets[point].enabled):
            if name in REMOVED_PLUGINS:
                yield _removed_plugin(name, (*path, "plugins", point, "enabled", index))


def _of_plugin_config(plugin_config: Sequence[Any], path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, plugin in enumerate(plugin_config):
        place = (*path, "pluginConfig", index)
        name = (plugin or {}).get("name") or ""
        if name in seen:
            yield duplicate(place, name)
        seen.add(name)
        if name in REMOVED_PLUGINS:
            yield _removed_plugin(name, place)
        if name == "NodeResourcesFitArgs":
            yield FieldError((*place, "args"), "has to match plugin args")


def _removed_plugin(name: str, path: Path) -> FieldError:
    text = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, text)


def _of_percentage(holder: ApiObject, path: Path) -> Iterator[FieldError]:
    percentage = holder.get("percentageOfNodesToScore")
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid((*path, "percentageOfNodesToScore"), percentage, "not in valid range [0-100]")


def _of_backoff(config: ApiObject) -> Iterator[FieldError]:
    initial, most = backoff(config)
    if initial <= 0:
        yield invalid(("podInitialBackoffSeconds",), initial, "must be greater than 0")
    if most < initial:
        yield invalid(("podMaxBackoffSeconds",), most, "must be greater than or equal to PodInitialBackoffSeconds")


def backoff(config: ApiObject) -> tuple[int, int]:
    """Return (podInitialBackoffSeconds, podMaxBackoffSeconds) with defaults."""
    initial, most = config.get("podInitialBackoffSeconds"), config.get("podMaxBackoffSeconds")
    return 1 if initial is None else initial, 10 if most is None else most


def _of_leader_election(election: ApiObject) -> Iterator[FieldError]:
    """Yield the errors of `leaderElection`. Leader election is on unless `leaderElect` is false."""
    times = {key: election.get(key) or default for key, default in _LEASES.items()}
    found = {key: seconds(text) for key, text in times.items()}
    for key, value in found.items():
        if value is None:
            yield invalid(("leaderElection", key), times[key], "must be a duration, as in 15s")
    if election.get("leaderElect") is False or None in found.values():
        return
    for key, value in found.items():
        if value is not None and value <= 0:
            yield invalid(("leaderElection", key), times[key], "must be greater than zero")
    if (found["leaseDuration"] or 0) <= (found["renewDeadline"] or 0):
        yield invalid(
            ("leaderElection", "leaseDuration"), times["leaseDuration"], "must be greater than `RenewDeadline`"
        )
    lock = election.get("resourceLock") or "leases"
    if lock != "leases":
        yield invalid(("leaderElection", "resourceLock"), lock, 'resourceLock value must be "leases"')


def _of_extenders(extenders: Sequence[Any]) -> Iterator[FieldError]:
    binders, seen = 0, set[str]()
    for index, extender in enumerate(each(extenders, 1)):
        path: Path = ("extenders", index)
        extender = extender or {}
        if extender.get("prioritizeVerb") and (extender.get("weight") or 0) <= 0:
            yield invalid((*path, "weight"), extender.get("weight") or 0, "must have a positive weight applied to it")
        binders += bool(extender.get("bindVerb"))
        if extender.get("httpTimeout") and seconds(extender["httpTimeout"]) is None:
            yield invalid((*path, "httpTimeout"), extender["httpTimeout"], "must be a duration, as in 5s")
        for place, resource in enumerate(each(extender.get("managedResources") or (), 1)):
            name = (resource or {}).get("name") or ""
            of_name = (*path, "managedResources", place, "name")
            faults = qualified_name(name)
            yield from (invalid(of_name, name, fault) for fault in faults)
            if not faults and not is_extended(name):
                yield invalid(of_name, name, "is an invalid extended resource name")
            if name in seen:
                yield invalid(of_name, name, "duplicate extender managed resource name")
            seen.add(name)
    if binders > 1:
        text = "only one extender can implement bind"
        yield invalid(("extenders",), f"found {binders} extenders implementing bind", text)
