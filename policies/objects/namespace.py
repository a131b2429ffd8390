"""Namespace: its labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.objects.fields import string_map, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.objects.fields import ApiObject

DEFAULT_CLASS_ANNOTATION: Final = "forewarn.dev/default-priority-class"
EXEMPT_UNTIL_ANNOTATION: Final = "forewarn.dev/exempt-until"


class Namespace(NamedTuple):
    """A namespace in a cluster."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @classmethod
    def from_api(cls, obj: ApiObject) -> Namespace:
        """Read an API object. Raises InvalidObject."""
        annotations = string_map(obj, "metadata", "annotations")
        return cls(
            name=text(obj, "metadata", "name"),
            labels=string_map(obj, "metadata", "labels"),
            annotations={key: value for key, value in annotations.items() if key.startswith("forewarn.dev/")},
        )
