"""YAML and JSON text as kubectl reads it: objects with the position of every field, and what is odd about the text."""

from policies.manifests.reading import Reading, read

__all__ = ["Reading", "read"]
