"""The API server's answer, accepted or refused."""

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
    """The API server's answer: `code` as in HTTP, `message` empty where it accepts.

    `errors`: the faults behind a 422. `resolved`: what an accepted pod is stored with. `stored`: the spec of an
    accepted PodGroup or Workload, as it is stored. `quotas`: those of its namespace, charged with an accepted object.
    """

    allowed: bool
    code: int
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    resolved: Resolved | None = None
    quotas: tuple[ResourceQuota, ...] = ()
    stored: ApiObject | None = None
    is_unknown_kind: bool = False
    """The server does not serve the kind in this version."""

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
        answer = {"allowed": self.allowed, "code": self.code, "message": self.message, "resolved": resolved}
        return answer if self.stored is None else {**answer, "stored": self.stored}


class Refused(Exception):
    """A stage objects: the answer that ends the chain."""

    def __init__(
        self, code: int, message: str, errors: Iterable[FieldError] = (), *, is_unknown_kind: bool = False
    ) -> None:
        self.answer = Answer(False, code, message, tuple(errors), is_unknown_kind=is_unknown_kind)
        super().__init__(message)
