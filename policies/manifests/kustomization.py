"""The files that a kustomization.yaml names. Source: kustomize api/types/kustomization.go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.manifests.documents import Fault
from forewarn.policies.manifests.groups import Kustomization
from forewarn.policies.manifests.values import values
from forewarn.policies.objects.fields import text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

_RESOURCES: Final = ("resources", "bases", "components")
_PATCHES: Final = ("patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "configurations")
_MAX: Final = 10_000
"""The maximum number of entries of one list."""


def read_kustomization(text: bytes, path: str) -> Kustomization | None:
    """Return the kustomization in a file; None for other or invalid files (the linter reports the error elsewhere)."""
    try:
        found = next((v.value for v in values(text, path)), None)
    except Fault:
        return None
    if not isinstance(found, dict):
        return None
    directory = os.path.realpath(os.path.dirname(path) or os.curdir)
    namespace = found.get("namespace")
    return Kustomization(
        directory,
        tuple(_real(directory, p) for p in _paths(found, _RESOURCES)),
        tuple(_real(directory, p) for p in _paths(found, _PATCHES)),
        namespace if isinstance(namespace, str) else "",
        os.path.dirname(os.path.normpath(path)),
        (text_at(found, "namePrefix"), text_at(found, "nameSuffix")),
    )


def _real(directory: str, path: str) -> str:
    """Return the real path of an entry of a kustomization.

    `directory` is a real path, so only the steps of the entry itself can be links.
    """
    current = directory
    for step in () if os.path.isabs(path) else path.split(os.sep):
        if step == os.pardir:
            current = os.path.dirname(current)
        elif step not in ("", os.curdir):
            current = os.path.join(current, step)
            if os.path.islink(current):
                return os.path.realpath(os.path.join(directory, path))
    return os.path.realpath(path) if os.path.isabs(path) else current


def _paths(found: dict[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the local paths in these lists of a kustomization: strings, or the `path` of entries."""
    for key in keys:
        entries = found.get(key)
        for entry in entries[:_MAX] if isinstance(entries, list) else ():
            path = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(path, str) and path and "\n" not in path and "\0" not in path and "://" not in path:
                yield path
