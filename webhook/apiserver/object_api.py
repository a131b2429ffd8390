"""The requests to the API server as a protocol: objects are raw JSON, and errors have types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject


class ObjectApiError(OSError):
    """A request failed or was rejected. The message contains the request and the reason."""


class NotFound(ObjectApiError):
    """HTTP status 404: the object does not exist."""


class Conflict(ObjectApiError):
    """HTTP status 409: the object has changed since it was read, or already exists."""


class Forbidden(ObjectApiError):
    """HTTP status 401 or 403: the service account does not have the permission."""


class ObjectApi(Protocol):
    """Read and write objects. All methods raise ObjectApiError.

    `path`: a URL path, for example /api/v1/namespaces/forewarn/secrets/forewarn-ca.
    """

    def get(self, path: str) -> dict[str, Any]:
        """Return the object or list at a path, read from etcd and not from a cache."""

    def create(self, path: str, obj: ApiObject) -> dict[str, Any]:
        """Create an object in a collection, and return the stored object."""

    def replace(self, path: str, obj: ApiObject) -> dict[str, Any]:
        """Replace the object with the same resourceVersion, and return the stored object."""
