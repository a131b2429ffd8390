"""Where the configuration file is."""

from __future__ import annotations

import os
from typing import Final

from policies.sources.files import is_inside

NAME: Final = ".forewarn.yaml"


def find_config(start: str) -> str | None:
    """`.forewarn.yaml` in this directory or above, up to the repository's root (the one that has `.git`).

    A link out of its directory is none: a repository need not be told what is in other places.
    """
    directory = os.path.abspath(start)
    while True:
        candidate = os.path.join(directory, NAME)
        if os.path.isfile(candidate) and (not os.path.islink(candidate) or is_inside(candidate, directory)):
            return candidate
        parent = os.path.dirname(directory)
        if parent == directory or os.path.exists(os.path.join(directory, ".git")):
            return None
        directory = parent
