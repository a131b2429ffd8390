"""What becomes of a cluster if something happens to it: a question as arrivals of a simulation, and the two states."""

from __future__ import annotations

from typing import Final

EVERY: Final = {
    "node": "each node is lost",
    "zone": "each zone is lost",
    "class": "each class is deleted",
}
"""What a sweep asks, by name."""
