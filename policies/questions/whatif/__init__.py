"""Simulate what-if questions (`forewarn whatif`): the cluster before and after events such as the loss of a node."""

from __future__ import annotations

from typing import Final

EVERY: Final = {"node": "each node is lost", "zone": "each zone is lost"}
"""The questions of a sweep, by name."""
MAX_UNTIL: Final = 31 * 86400.0
"""Maximum seconds of a simulation."""
DEFAULT_UNTIL: Final = 3600.0
"""Default duration of a simulation in seconds."""
DEFAULT_AWAY: Final = 120.0
"""Seconds until an upgraded node returns."""
MAX_ADDED: Final = 1_000
"""Maximum number of nodes that are added."""
