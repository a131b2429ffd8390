"""The configuration: which rules say what, what they may be told, and whom they leave alone."""

from __future__ import annotations

from policies.config.load import ConfigError, find_config, load_config, read_config
from policies.config.model import Annotate, Config, Exemption

__all__ = ["Annotate", "Config", "ConfigError", "Exemption", "find_config", "load_config", "read_config"]
