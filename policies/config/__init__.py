"""The configuration: severities and actions of rules, their options, and exemptions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forewarn.policies.config.admission_configuration import load_limited_resources
    from forewarn.policies.config.load import load_config, read_config
    from forewarn.policies.config.model import Annotate, Config, ConfigError, DiscloseTo, Exemption, RepeatedWarnings
    from forewarn.policies.config.search import find_config

__all__ = [
    "Annotate",
    "Config",
    "ConfigError",
    "DiscloseTo",
    "Exemption",
    "RepeatedWarnings",
    "find_config",
    "load_config",
    "load_limited_resources",
    "read_config",
]

_HOMES: Final = {
    "load_config": "load",
    "read_config": "load",
    "find_config": "search",
    "load_limited_resources": "admission_configuration",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use (PEP 562), because a linter without a configuration file needs no parser."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'model')}"), name)
