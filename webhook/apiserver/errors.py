"""What can go wrong between here and an API server."""

from __future__ import annotations

from typing import Final

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
EXPIRED: Final = 410


class ApiError(OSError):
    """An API server that does not answer, or not as asked: the HTTP status (0: no answer), and what it said.

    `retry_after`: seconds that it asks to be left alone for. `continue_token`: how a list that expired may go on.
    """

    def __init__(self, status: int, problem: str, retry_after: float = 0.0, continue_token: str = "") -> None:
        super().__init__(f"{problem} ({status})" if status else problem)
        self.status, self.problem = status, problem
        self.retry_after, self.continue_token = retry_after, continue_token

    @property
    def refused(self) -> bool:
        """Whether it knows who asks and does not allow it, or does not know who asks."""
        return self.status in (UNAUTHORIZED, FORBIDDEN)


class UnknownContext(ApiError):
    """A context that the kubeconfig does not have."""


class Expired(ApiError):
    """The resource version or the rest of a list is no longer kept: list anew."""


class Silent(ApiError):
    """A watch on which nothing came for longer than bookmarks are apart: the connection is dead."""


def error_of(status: int, problem: str, retry_after: float = 0.0, continue_token: str = "") -> ApiError:
    """The error of an HTTP status, or of a Status that a watch sent."""
    return (Expired if status == EXPIRED else ApiError)(status, problem, retry_after, continue_token)
