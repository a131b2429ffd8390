"""Where text and cluster state come from: files, directories, standard input, and what other packages add."""

from policies.sources.cluster import load_cluster
from policies.sources.errors import SourceError
from policies.sources.files import find_files, read_file

__all__ = ["SourceError", "find_files", "load_cluster", "read_file"]
