"""The plugins of a profile by extension point, before multiPoint is expanded: the defaults and the configured plugins.

Source: kubernetes `pkg/scheduler/apis/config/v1/default_plugins.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.scheduling.configuration.schema import MULTI_POINT, POINTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.releases.semantics import Semantics

ALL = "*"


class EnabledPlugin(NamedTuple):
    """A plugin at an extension point. `weight` 0: not set."""

    name: str
    weight: int = 0


class PluginSet(NamedTuple):
    """The enabled and disabled plugins of an extension point."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


def default_plugins(semantics: Semantics) -> tuple[EnabledPlugin, ...]:
    """Return the default plugins of a release, all at multiPoint. Source: upstream `getDefaultPlugins`."""
    unschedulable, name = EnabledPlugin("NodeUnschedulable"), EnabledPlugin("NodeName")
    plugins = [
        EnabledPlugin("SchedulingGates"),
        EnabledPlugin("PrioritySort"),
        *((name, unschedulable) if semantics.node_names_are_checked_first else (unschedulable, name)),
        EnabledPlugin("TaintToleration", 3),
        EnabledPlugin("NodeAffinity", 2),
        EnabledPlugin("NodePorts"),
        EnabledPlugin("NodeResourcesFit", 1),
        EnabledPlugin("VolumeRestrictions"),
        EnabledPlugin("NodeVolumeLimits"),
        EnabledPlugin("VolumeBinding"),
        EnabledPlugin("VolumeZone"),
        EnabledPlugin("PodTopologySpread", 2),
        EnabledPlugin("InterPodAffinity", 2),
        *(
            [EnabledPlugin("DynamicResources", 2 if semantics.devices_are_scored else 0)]
            if semantics.devices_are_allocated
            else []
        ),
        EnabledPlugin("DefaultPreemption"),
        EnabledPlugin("NodeResourcesBalancedAllocation", 1),
        EnabledPlugin("ImageLocality", 1),
        EnabledPlugin("DefaultBinder"),
    ]
    if semantics.declared_features_are_checked:
        plugins.append(EnabledPlugin("NodeDeclaredFeatures"))
    if semantics.groups_are_preempted_together:  # without its gate, no Pod has a PodGroup, and it does nothing
        plugins.append(EnabledPlugin("GangScheduling"))
    return tuple(plugins)


def plugin_sets(given: Mapping[str, Any], semantics: Semantics) -> dict[str, PluginSet]:
    """Return extension point -> its configured plugins; multiPoint also has the default plugins. `given`: `plugins` of
    a profile.

    Source: upstream `mergePlugins`.
    """
    merged = {MULTI_POINT: _merged(default_plugins(semantics), _read(given.get(MULTI_POINT)))}
    return merged | {point: _merged((), _read(given.get(point))) for point in POINTS}


def _read(given: Mapping[str, Any] | None) -> PluginSet:
    given = given or {}
    enabled = tuple(
        EnabledPlugin((plugin or {}).get("name") or "", (plugin or {}).get("weight") or 0)
        for plugin in given.get("enabled") or ()
    )
    return PluginSet(enabled, tuple((plugin or {}).get("name") or "" for plugin in given.get("disabled") or ()))


def _merged(defaults: tuple[EnabledPlugin, ...], custom: PluginSet) -> PluginSet:
    """Return the defaults merged with configured plugins: a configured plugin replaces its default in place; other
    plugins follow.

    Source: upstream `mergePluginSet`.
    """
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled: list[EnabledPlugin] = []
    if ALL not in custom.disabled:
        for plugin in defaults:
            if plugin.name in custom.disabled:
                continue
            if plugin.name in last:
                replaced.add(last[plugin.name])
                enabled.append(custom.enabled[last[plugin.name]])
            else:
                enabled.append(plugin)
    enabled += [plugin for index, plugin in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(tuple(enabled), custom.disabled)
