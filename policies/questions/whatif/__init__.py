"""Simulate what-if questions (`forewarn whatif`): the cluster before and after events such as the loss of a node."""

from __future__ import annotations

from typing import Final

EVERY: Final = {"node": "each node is lost", "zone": "each zone is lost"}
"""The questions of a sweep, by name."""
MAX_UNTIL: Final = 31 * 86400.0
"""Maximum seconds of a simulation."""
