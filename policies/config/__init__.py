"""The configuration: severities and actions of rules, their options, and exemptions."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forewarn.policies.config.load import load_config, load_limited_resources, read_config
    from forewarn.policies.config.model import Annotate, Config, ConfigError, DiscloseTo, Exemption, RepeatedWarnings

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

NAME: Final = ".forewarn.yaml"
_HOMES: Final = {
    "load_config": "load",
    "read_config": "load",
    "load_limited_resources": "admission_configuration",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use (PEP 562), because a linter without a configuration file needs no parser."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'model')}"), name)


def find_config(start: str) -> str | None:
    """Return the path of `.forewarn.yaml` in this directory or above, up to the repository's root; None if there is
    none.

    A link to a file outside its directory is ignored, so that a repository cannot make forewarn read other files.
    """
    from forewarn.policies.sources.files import is_inside

    directory = os.path.abspath(start)
    while True:
        candidate = os.path.join(directory, NAME)
        if os.path.isfile(candidate) and (not os.path.islink(candidate) or is_inside(candidate, directory)):
            return candidate
        parent = os.path.dirname(directory)
        if parent == directory or os.path.exists(os.path.join(directory, ".git")):
            return None
        directory = parent
