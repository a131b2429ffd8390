"""The search for the configuration file."""

from __future__ import annotations

import os
from typing import Final

from forewarn.policies.sources.files import is_inside

NAME: Final = ".forewarn.yaml"


def find_config(start: str) -> str | None:
    """The path of `.forewarn.yaml` in this directory or above, up to the repository's root (with `.git`); None if
    missing.

    A link to a file outside of its directory is ignored, so that a repository cannot use files of other places.
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
