"""The API server's response to a request: accepted or rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn.policies.kube_apiserver.priority import Resolved
    from forewarn.policies.kube_apiserver.validation.field_errors import FieldError
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota

REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    422: "Invalid",
    500: "InternalError",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's response: `code` is the HTTP status, `message` is "" for an accepted request.

    `errors`: the errors of a 422. `resolved`: the priority fields of an accepted Pod. `stored`: the stored spec of an
    accepted PodGroup or Workload. `quotas`: the quotas of the namespace, with the usage of an accepted object.
    """

    allowed: bool
    code: int
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    resolved: Resolved | None = None
    quotas: tuple[ResourceQuota, ...] = ()
    stored: ApiObject | None = None
    is_unknown_kind: bool = False
    """True if the server does not serve the kind in this version."""

    @property
    def reason(self) -> str:
        """The reason of the Status; "" for an accepted request."""
        return REASONS.get(self.code, "")

    def to_dict(self) -> dict[str, Any]:
        """The response as JSON, without the list of errors."""
        resolved = self.resolved and {
            "priorityClassName": self.resolved.priority_class_name or None,
            "priority": self.resolved.priority,
            "preemptionPolicy": self.resolved.preemption_policy,
        }
        answer = {"allowed": self.allowed, "code": self.code, "message": self.message, "resolved": resolved}
        return answer if self.stored is None else {**answer, "stored": self.stored}


class RequestRejected(Exception):
    """Raised by a stage that rejects the request. `answer`: the response."""

    def __init__(
        self, code: int, message: str, errors: Iterable[FieldError] = (), *, is_unknown_kind: bool = False
    ) -> None:
        self.answer = Answer(False, code, message, tuple(errors), is_unknown_kind=is_unknown_kind)
        super().__init__(message)
