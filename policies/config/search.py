"""The search for the configuration file."""

from __future__ import annotations

import os
from typing import Final

from forewarn.policies.sources.files import is_inside

NAME: Final = ".forewarn.yaml"


def find_config(start: str) -> str | None:
    """Return the path of `.forewarn.yaml` in this directory or above, up to the repository's root; None if there is
    none.

    A link to a file outside its directory is ignored, so that a repository cannot make forewarn read other files.
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
