"""The API server's answer, accepted or refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kube_apiserver.priority import Resolved
    from policies.kube_apiserver.validation.field_errors import FieldError
    from policies.objects.resource_quota import ResourceQuota

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
    """The API server's answer: `code` as in HTTP, `message` empty where it accepts.

    `errors`: the faults behind a 422. `resolved`: what an accepted pod is stored with. `quotas`: those of its
    namespace, charged with an accepted object.
    """

    allowed: bool
    code: int
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    resolved: Resolved | None = None
    quotas: tuple[ResourceQuota, ...] = ()

    @property
    def reason(self) -> str:
        """The Status' reason, empty where it accepts."""
        return REASONS.get(self.code, "")

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without the faults one by one."""
        resolved = self.resolved and {
            "priorityClassName": self.resolved.priority_class_name or None,
            "priority": self.resolved.priority,
            "preemptionPolicy": self.resolved.preemption_policy,
        }
        return {"allowed": self.allowed, "code": self.code, "message": self.message, "resolved": resolved}


class Refused(Exception):
    """A stage objects: the answer that ends the chain."""

    def __init__(self, code: int, message: str, errors: Iterable[FieldError] = ()) -> None:
        self.answer = Answer(False, code, message, tuple(errors))
        super().__init__(message)
