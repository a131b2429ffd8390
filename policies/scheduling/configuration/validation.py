"""Validate a decoded configuration as kube-scheduler does.

Source: kubernetes `pkg/scheduler/apis/config/validation/validation.go`, component-base `config/validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, duplicate, go_quote, invalid, required
from forewarn.policies.kube_apiserver.validation.names import qualified_name
from forewarn.policies.kube_apiserver.validation.resources import is_extended
from forewarn.policies.metering import each
from forewarn.policies.scheduling.configuration.schema import ALL, API_VERSION, MULTI_POINT, POINTS, PluginSet, seconds
from forewarn.policies.scheduling.framework import extends
from forewarn.policies.scheduling.plugin import MAX_NODE_SCORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics


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


_MAX_TOTAL_SCORE: Final = 2**63 - 1


class Expansion:
    """The plugins of one profile, expanded. `points`: extension point -> plugin names in order; empty after an error.

    `faults`: errors with which kube-scheduler would not start. `name`: the scheduler name of the profile.
    """

    def __init__(
        self, name: str, sets: Mapping[str, PluginSet], plugins: Mapping[str, Any], semantics: Semantics, path: Path
    ) -> None:
        self._name, self._sets, self._plugins = name, sets, plugins
        self._semantics, self._path = semantics, path
        self.faults: list[FieldError] = []
        self.points: dict[str, tuple[str, ...]] = {}
        for point in POINTS:
            self._check_enabled(point)
        if not self.faults:
            self.points = {point: self._expand(point) for point in POINTS}
            self._check_needed()
            self._check_weights()

    def weights(self) -> dict[str, int]:
        """Return Score plugin -> weight, explicitly configured plugins first. The default weight is 1."""
        weights: dict[str, int] = {}
        for name, weight in (*self._sets["score"].enabled, *self._sets[MULTI_POINT].enabled):
            if name in self._plugins and self._extends(name, "score"):
                weights.setdefault(name, weight or 1)
        return weights

    def _extends(self, name: str, point: str) -> bool:
        return extends(self._plugins[name], point, self._semantics)

    def _check_enabled(self, point: str) -> None:
        seen: set[str] = set()
        for index, (name, _) in enumerate(self._sets[point].enabled):
            path = (*self._path, "plugins", point, "enabled", index)
            if name not in self._plugins:
                self.faults.append(FieldError(path, f"{_interface(point)} {go_quote(name)} does not exist"))
            elif not self._extends(name, point):
                self.faults.append(
                    FieldError(path, f"plugin {go_quote(name)} does not extend {_interface(point)} plugin")
                )
            elif name in seen:
                self._twice(name, point, path)
            seen.add(name)

    def _expand(self, point: str) -> tuple[str, ...]:
        own, multi = self._sets[point], self._sets[MULTI_POINT]
        here = [name for name, _ in own.enabled]
        if ALL in own.disabled or not multi.enabled:
            return tuple(here)
        overriding, from_multi = [], list[str]()
        for index, (name, _) in enumerate(multi.enabled):
            path = (*self._path, "plugins", MULTI_POINT, "enabled", index)
            if name not in self._plugins:
                self.faults.append(FieldError(path, f"{_interface(point)} {go_quote(name)} does not exist"))
            elif not self._extends(name, point) or name in own.disabled:
                continue
            elif name in here:
                overriding.append(name)
            elif name in from_multi:
                self._twice(name, point, path)
            else:
                from_multi.append(name)
        first = [name for name in here if name in overriding]
        return (*first, *from_multi, *(name for name in here if name not in overriding))

    def _twice(self, name: str, point: str, path: Path) -> None:
        text = f"plugin {go_quote(name)} already registered as {go_quote(_interface(point))}"
        self.faults.append(FieldError(path, text))

    def _check_needed(self) -> None:
        path = (*self._path, "plugins")
        sorting = len(self.points["queueSort"])
        profile = f"for profile with scheduler name {go_quote(self._name)}"
        if sorting != 1:
            self.faults.append(
                FieldError((*path, "queueSort"), f"only one queue sort plugin required {profile}, but got {sorting}")
            )
        if not self.points["bind"]:
            self.faults.append(FieldError((*path, "bind"), f"at least one bind plugin is needed {profile}"))

    def _check_weights(self) -> None:
        """Add an error if the total score can overflow. As in upstream, a negative sum counts as an overflow."""
        total = 0
        for weight in self.weights().values():
            if weight * MAX_NODE_SCORE > _as_int64(_MAX_TOTAL_SCORE - total):
                path = (*self._path, "plugins", "score")
                self.faults.append(FieldError(path, "score plugins: total score of Score plugins could overflow"))
                return
            total += weight * MAX_NODE_SCORE


def _as_int64(number: int) -> int:
    """Return the number as Go's int64 would hold it after an overflow."""
    return (number + 2**63) % 2**64 - 2**63


def _interface(point: str) -> str:
    return f"{point[0].upper()}{point[1:]}Plugin"
