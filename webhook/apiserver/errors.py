"""Errors of requests to an API server."""

from __future__ import annotations

from typing import Final

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
EXPIRED: Final = 410


class ApiError(OSError):
    """No response, or an error response: the HTTP status (0 for no response) and the message.

    `retry_after`: seconds to wait before a retry, as the server requests. `continue_token`: continues an expired
    list.
    """

    def __init__(self, status: int, problem: str, retry_after: float = 0.0, continue_token: str = "") -> None:
        super().__init__(f"{problem} ({status})" if status else problem)
        self.status, self.problem = status, problem
        self.retry_after, self.continue_token = retry_after, continue_token

    @property
    def rejected(self) -> bool:
        """Whether the credentials are invalid, or do not have the permission."""
        return self.status in (UNAUTHORIZED, FORBIDDEN)


class UnknownContext(ApiError):
    """A context that the kubeconfig does not have."""


class Expired(ApiError):
    """The resource version or the continue token is too old: the client must list again."""


class Silent(ApiError):
    """A watch without events for longer than the interval of bookmarks: the connection is dead."""


def error_of(status: int, problem: str, retry_after: float = 0.0, continue_token: str = "") -> ApiError:
    """Return the error for an HTTP status, or for the Status of a watch's ERROR event."""
    return (Expired if status == EXPIRED else ApiError)(status, problem, retry_after, continue_token)
