"""Where text and cluster state come from: files, directories, standard input, and what other packages add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.sources.errors import SourceError, status_of
from policies.sources.files import find_files, read_file

if TYPE_CHECKING:
    from policies.sources.cluster import load_cluster

__all__ = ["SourceError", "find_files", "load_cluster", "read_file", "status_of"]


def __getattr__(name: str) -> Any:
    """Import `load_cluster` on use (PEP 562): a linter without a cluster does not wait for it."""
    if name != "load_cluster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from policies.sources.cluster import load_cluster

    return load_cluster
