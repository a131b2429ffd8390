"""Which minors of Kubernetes 1 are known. A module of its own: options name them before anything else is needed."""

from __future__ import annotations

from typing import Final

KNOWN_MINORS: Final = range(34, 38)
"""Those whose scheduler is predicted."""
RECORDED_MINOR: Final = 36
"""The one whose recorded answers are in the repository: taken where nobody names one."""
