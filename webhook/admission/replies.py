"""HTTP responses without an AdmissionReview: a metav1.Status with the reason."""

from __future__ import annotations

from http import HTTPStatus
from threading import Lock
from typing import Final, NamedTuple

from forewarn.webhook.admission.review import MAX_DECODED, MAX_SMALL, MAX_WIRE, status_body
from forewarn.webhook.metrics import RejectionReason

JSON: Final = (("content-type", "application/json"),)
_CLOSE: Final = (("connection", "close"),)
_RETRY: Final = (("retry-after", "0"), *_CLOSE)
_REASONS: Final = {408: "Timeout", 413: "RequestEntityTooLarge", 500: "InternalError"}
"""The metav1.StatusReason by HTTP status code, if it is not the phrase of the status."""


class Reply(NamedTuple):
    """An HTTP response: status, body and headers."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = JSON


def rejection(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """Return a response without an AdmissionReview: a metav1.Status."""
    reason = _REASONS.get(status) or HTTPStatus(status).phrase.replace(" ", "")
    return Reply(status, status_body(status, reason, message), JSON + headers)


TOO_LARGE: Final = rejection(413, f"the body is larger than {MAX_WIRE} bytes", _CLOSE)
TOO_LARGE_FOR_A_STRANGER: Final = rejection(
    413, f"without an API server token the body is limited to {MAX_SMALL} bytes", _CLOSE
)
TOO_MANY: Final = rejection(503, "too many requests in flight; try again", _RETRY)
STOPPING: Final = rejection(503, "the webhook is shutting down; try again", _RETRY)
TOO_DEEP: Final = "the JSON is nested too deeply"
TOO_LONG: Final = f"the JSON is larger than {MAX_DECODED} bytes"
NO_MEMORY: Final = "forewarn has no memory left for a request of this size"
NO_TIME: Final = "forewarn has no time left for a request of this size"
NOT_IN_TIME: Final = "the request body did not arrive in time"
"""The reason if forewarn does not evaluate an AdmissionReview."""
TOO_SLOW: Final = rejection(408, "the request body did not arrive in time", _CLOSE)
NOT_RESERVED: Final = rejection(
    503, "cannot reserve the global default: the API server does not answer; try again", (("retry-after", "1"),)
)
UNKNOWN_CALLER: Final = rejection(
    503,
    "only API servers with the token of the webhook configuration can reserve the global default; try again if the "
    "token has just changed",
    (("retry-after", "1"),),
)
NOT_VERIFIED: Final = rejection(
    503,
    "cannot verify the caller: the API server does not return the webhook configurations; try again",
    (("retry-after", "1"),),
)
NO_TOKEN: Final = rejection(401, "the request has no valid API server token", _CLOSE)
BROKEN: Final = rejection(500, "internal error; see the webhook's log")
_REASON: Final = {
    TOO_MANY: RejectionReason.OVERLOAD,
    STOPPING: RejectionReason.STOPPING,
    NOT_RESERVED: RejectionReason.RESERVATION,
    UNKNOWN_CALLER: RejectionReason.CLIENT,
    NOT_VERIFIED: RejectionReason.CLIENT,
}


def reason_of(reply: Reply) -> RejectionReason:
    return _REASON.get(reply) or RejectionReason.from_status(reply.status)


class Gate:
    """Counts the requests in flight, and rejects requests above the limit. Safe from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit, self._lock = limit, Lock()
        self.inside = 0
        self.stopping = False

    def enter(self) -> Reply | None:
        """Count one request; return None, or the rejection. The caller of a counted request must call `leave`."""
        with self._lock:
            if self.stopping:
                return STOPPING
            if self.inside >= self._limit:
                return TOO_MANY
            self.inside += 1
            return None

    def leave(self) -> None:
        """Count one request less."""
        with self._lock:
            self.inside -= 1
