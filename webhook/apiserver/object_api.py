"""The requests to the API server, as a protocol: objects are raw JSON, errors have types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject


class ObjectApiError(OSError):
    """A request failed or was rejected: the request, and why."""


class NotFound(ObjectApiError):
    """404: there is no such object."""


class Conflict(ObjectApiError):
    """409: the object has changed since it was read, or is there already."""


class Forbidden(ObjectApiError):
    """401 or 403: the service account may not do this."""


class ObjectApi(Protocol):
    """`path` is a URL's path, as /api/v1/namespaces/forewarn/secrets/forewarn-ca. Every method raises ApiError."""

    def get(self, path: str) -> dict[str, Any]:
        """The object, or the list, at a path; as etcd has it, not as a cache does."""

    def create(self, path: str, obj: ApiObject) -> dict[str, Any]:
        """Create an object in a collection; returns what was stored."""

    def replace(self, path: str, obj: ApiObject) -> dict[str, Any]:
        """Put an object in place of the one with the same resourceVersion; returns what was stored."""
