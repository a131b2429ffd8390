"""The files and directories from which charts and kustomizations are rendered, to render only what a change affects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.manifests import Fault, values
from forewarn.policies.sources import SourceError, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MAX_STEPS: Final = 10_000


def is_affected(directory: str, changed: Sequence[str]) -> bool:
    """Report whether a chart or kustomization may depend on one of these files (real paths).

    Every text in a kustomization that is the path of a file or directory counts as a dependency, because generators,
    transformers and plugins name files in their own fields.
    """
    prefixes = [os.path.join(place, "") for place in _places(directory)]
    return any(f"{path}{os.sep}".startswith(prefix) for path in changed for prefix in prefixes)


def _places(directory: str) -> set[str]:
    """The directory, and the files and directories that its kustomization names, with those that they name."""
    to_do, places = [os.path.realpath(directory)], set[str]()
    while to_do and len(places) < _MAX_STEPS:
        place = to_do.pop()
        if place in places:
            continue
        places.add(place)
        for name in _KUSTOMIZATIONS:
            path = os.path.join(place, name)
            if os.path.isfile(path):
                to_do += [named for text in _texts(path) if os.path.exists(named := _joined(place, text))]
    return places


def _joined(directory: str, text: str) -> str:
    return os.path.realpath(os.path.join(directory, text)) if 0 < len(text) < 1_000 and "\0" not in text else ""


def _texts(path: str) -> Iterator[str]:
    """Yield all strings in a file of YAML; none if it cannot be read, because it cannot be rendered either."""
    try:
        to_do: list[Any] = [texts.value for texts in values(read_file(path), path)]
    except (Fault, SourceError):
        return
    while to_do:
        value = to_do.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            to_do += value.values()
        elif isinstance(value, list):
            to_do += value
