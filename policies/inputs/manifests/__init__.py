"""YAML and JSON text as kubectl reads it: objects with the position of every field, and problems of the text."""

from forewarn.policies.inputs.manifests.documents import NOT_TEXT, Fault
from forewarn.policies.inputs.manifests.object_finder import NO_KIND, filled_in, items_of
from forewarn.policies.inputs.manifests.reading import BROKEN, MAX_FILE, UNUSABLE, Reading, only_found, read
from forewarn.policies.inputs.manifests.sniff import is_definition, is_typed, may_be_typed, named_kinds
from forewarn.policies.inputs.manifests.values import Value, first_value, values

__all__ = [
    "BROKEN",
    "MAX_FILE",
    "NO_KIND",
    "NOT_TEXT",
    "UNUSABLE",
    "Fault",
    "Reading",
    "Value",
    "filled_in",
    "first_value",
    "is_definition",
    "is_typed",
    "items_of",
    "may_be_typed",
    "named_kinds",
    "only_found",
    "read",
    "values",
]
