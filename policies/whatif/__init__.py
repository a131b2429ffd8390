"""The simulations of `forewarn whatif`: a question as arrivals, and the cluster before and after it."""

from __future__ import annotations

from typing import Final

EVERY: Final = {
    "node": "each node is lost",
    "zone": "each zone is lost",
    "class": "each class is deleted",
}
"""The questions of a sweep, by name."""
