"""Views of API objects whose fields name the functions that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final, Self

from forewarn.policies.kubernetes.objects.fields import ApiObject, text, timestamp

Reader = Mapping[str, Callable[[ApiObject], Any]]
"""Metadata of a field."""


def by(read: Callable[..., Any], *path: str, **more: Any) -> Reader:
    """Return the metadata of a field that `read` reads from the path of an API object."""
    return {"read": lambda obj: read(obj, *path, **more)}


def text_or_default(obj: ApiObject, *path: str, default: str) -> str:
    """Return a string field; `default` also for "". Raises InvalidObject for other types."""
    return text(obj, *path) or default


NAME: Final = by(text, "metadata", "name")
NAMESPACE: Final = by(text, "metadata", "namespace", default="default")
CREATED: Final = by(lambda obj: timestamp(obj, "metadata", "creationTimestamp") or 0)
"""The time of creation in seconds since 1970; 0 if it is absent."""


class View:
    """The base class of dataclasses whose fields all have a Reader."""

    __slots__ = ()

    @classmethod
    def from_api(cls, obj: ApiObject) -> Self:
        """Read an API object. Raises InvalidObject."""
        of: Any = cls
        view: Self = of(*(read(obj) for read in _readers(of)))
        return view


class Namespaced:
    """The base class of dataclasses for namespaced objects."""

    __slots__ = ()
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """The object as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


@cache
def _readers(view: Any) -> tuple[Callable[[ApiObject], Any], ...]:
    return tuple(each.metadata["read"] for each in fields(view))
