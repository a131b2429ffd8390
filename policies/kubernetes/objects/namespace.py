"""Namespace: its labels and annotations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.objects.fields import ApiObject, moment_of, string_map, text

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with the namespace's name, which the API server sets on each namespace."""
DEFAULT_CLASS_ANNOTATION: Final = "forewarn.dev/default-priority-class"
EXEMPT_UNTIL_ANNOTATION: Final = "forewarn.dev/exempt-until"


class Namespace(NamedTuple):
    """A stored Namespace. `annotations`: only those with the prefix `forewarn.dev/`."""

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


def not_honoured(text: str, now: datetime, longest: timedelta) -> str:
    """Return why forewarn does not accept the end of an exemption; "" if forewarn does, or if the end is past.

    `text`: the annotation. `longest`: maximum time until the end.
    """
    end = moment_of(text)
    if end is None:
        return "exempts nothing: it is not a time such as 2026-01-02T12:00:00Z"
    if end - now <= longest:
        return ""
    return f"exempts nothing: it ends in more than {longest / timedelta(hours=1):g} hours"


def namespace_not_found(name: str) -> str:
    """Return kube-apiserver's message about an object of a missing Namespace."""
    return f'namespaces "{name}" not found'
