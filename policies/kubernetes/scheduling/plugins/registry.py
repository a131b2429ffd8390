"""The registry of kube-scheduler's plugins. Source: kubernetes `pkg/scheduler/framework/plugins/registry.go`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from forewarn.policies.base.light import modules_in
from forewarn.policies.kubernetes.scheduling import plugins
from forewarn.policies.kubernetes.scheduling.framework import Plugin


def _plugins() -> Iterator[type[Plugin]]:
    """Yield the classes of all plugins in the modules of this package, without a list."""
    for name in modules_in(plugins.__path__):
        for value in vars(import_module(f"{plugins.__name__}.{name}")).values():
            if isinstance(value, type) and issubclass(value, Plugin) and hasattr(value, "name"):
                yield value


IN_TREE: Final = {plugin.name: plugin for plugin in _plugins()}
"""Name -> class of each plugin of kube-scheduler."""
