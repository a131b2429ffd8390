"""The sources of text and cluster state: files, directories, standard input, and sources of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.sources.errors import SourceError, status_of
from forewarn.policies.sources.files import find_files, read_file

if TYPE_CHECKING:
    from forewarn.policies.sources.cluster import load_cluster

__all__ = ["SourceError", "find_files", "load_cluster", "read_file", "status_of"]


def __getattr__(name: str) -> Any:
    """Import `load_cluster` on first use (PEP 562), because a linter without a cluster does not need it."""
    if name != "load_cluster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from forewarn.policies.sources.cluster import load_cluster

    return load_cluster
