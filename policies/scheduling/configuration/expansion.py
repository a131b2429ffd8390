"""Expand the plugins of a profile (`multiPoint` and each extension point) to the ordered plugins of every extension
point.

Source: kubernetes `pkg/scheduler/framework/runtime/framework.go` (`NewFramework`, `updatePluginList`,
`expandMultiPointPlugins`, `getValidScoreWeights`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, go_quote
from forewarn.policies.scheduling.configuration.plugin_sets import ALL, PluginSet
from forewarn.policies.scheduling.configuration.schema import MULTI_POINT, POINTS
from forewarn.policies.scheduling.framework import extends
from forewarn.policies.scheduling.plugin import MAX_NODE_SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.findings import Path
    from forewarn.policies.releases.semantics import Semantics

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
