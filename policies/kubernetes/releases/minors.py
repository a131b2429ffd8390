"""The known minors of Kubernetes 1, and the patch release of each against which predictions were tested.

A separate module because options and `--version` need only these numbers.
"""

from __future__ import annotations

from typing import Final

KNOWN_MINORS: Final = range(34, 38)
"""Minors that are predicted and compared with the code of kube-scheduler."""
PREVIEW_MINORS: Final = range(38, 39)
"""Minors that are predicted from merged pull requests. Nothing is compared, so predictions are unverified."""
PREDICTED_MINORS: Final = range(KNOWN_MINORS.start, PREVIEW_MINORS.stop)
PREVIEW: Final = "preview, unverified"
"""Text beside the version of a preview."""
RECORDED_MINOR: Final = 36
"""The minor whose recorded answers are in the repository: the default of --batch."""
CHECKED_WITH: Final = {34: "1.34.10", 35: "1.35.8", 36: "1.36.4", 37: "1.37.1"}
"""Minor -> the newest patch release whose code the predictions are compared with."""
NEWEST: Final = KNOWN_MINORS[-1]
"""The default minor if neither a cluster nor an option names one."""
