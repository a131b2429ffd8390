"""Known minors of Kubernetes 1 and the patch release of each that predictions are checked with.

A module of its own: options and `--version` need it before anything else.
"""

from __future__ import annotations

from typing import Final

KNOWN_MINORS: Final = range(34, 38)
"""Those whose scheduler is predicted, and whose own code the answers are compared with."""
PREVIEW_MINORS: Final = range(38, 39)
"""Those that are predicted from merged pull requests alone: nothing is compared, so the answers are unverified."""
PREDICTED_MINORS: Final = range(KNOWN_MINORS.start, PREVIEW_MINORS.stop)
PREVIEW: Final = "preview, unverified"
"""What is printed beside the version of a preview."""
RECORDED_MINOR: Final = 36
"""The one whose recorded answers are in the repository: the default of --batch."""
CHECKED_WITH: Final = {34: "1.34.10", 35: "1.35.8", 36: "1.36.4", 37: "1.37.1"}
"""Minor -> the newest patch release whose own code the answers are compared with."""
NEWEST: Final = KNOWN_MINORS[-1]
"""The default where neither a cluster nor an option names a minor."""
