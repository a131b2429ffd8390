"""The latest decisions, bounded in number and size, for the operators' pages."""

from __future__ import annotations

import json
from collections import deque
from time import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut
from forewarn.policies.objects.fields import at
from forewarn.webhook.admission.call import Hook
from forewarn.webhook.logs import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.admission.answer_cache import Answered
    from forewarn.webhook.admission.review import AdmissionRequest

MAX_DECISIONS: Final = 500
_MAX_RESPONSE: Final = 16 * 1024
"""Bytes of a stored response with its full texts; the texts of a larger one are not shown."""
_EXEMPT: Final = "exempt"


class _Decided(NamedTuple):
    at: float
    resource: tuple[str, str, str]
    """Group, version and name in the API."""
    kind: str
    namespace: str
    name: str
    operation: str
    user: str
    dry_run: bool
    verdict: str
    rules: tuple[tuple[str, str], ...]
    withheld: tuple[tuple[str, str], ...]
    response: bytes


class RecentDecisions:
    """Safe from any thread. `clock`: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._decided: deque[_Decided] = deque(maxlen=MAX_DECISIONS)

    def add(self, hook: Hook, request: AdmissionRequest, answered: Answered) -> None:
        """Store a decision. Ignores exempt requests, and admissions of `/mutate`: `/validate` follows."""
        if answered.verdict == _EXEMPT or (hook is not Hook.VALIDATE and answered.verdict != "denied"):
            return
        resource = request.resource
        size = len(answered.body) + sum(len(text) for _, text in answered.withheld)
        has_texts = size <= _MAX_RESPONSE
        self._decided.append(
            _Decided(
                self._clock(),
                (cut(resource.group, MAX_TEXT), cut(resource.version, MAX_TEXT), cut(resource.resource, MAX_TEXT)),
                cut(request.kind.kind, MAX_TEXT),
                cut(request.namespace, MAX_TEXT),
                cut(request.name, MAX_TEXT),
                request.operation.value,
                cut(request.user.name, MAX_TEXT),
                request.dry_run,
                answered.verdict,
                answered.findings,
                answered.withheld if has_texts else (),
                answered.body if has_texts else b"",
            )
        )

    def table(self) -> list[dict[str, Any]]:
        """The decisions as JSON data, newest first. `messages`: warnings, or the reason of a denial; then the full
        texts that the requester did not see.
        """
        return [_row(item) for item in reversed(list(self._decided))]


def _row(decided: _Decided) -> dict[str, Any]:
    response = json.loads(decided.response) if decided.response else {}
    denial = at(response, "status", "message")
    messages = [*response.get("warnings", ()), *([denial] if denial else ())]
    return {
        "at": decided.at,
        "resource": list(decided.resource),
        "kind": decided.kind,
        "namespace": decided.namespace,
        "name": decided.name,
        "operation": decided.operation,
        "user": decided.user,
        "dryRun": decided.dry_run,
        "verdict": decided.verdict,
        "rules": dict(decided.rules),
        "messages": messages,
        "withheld": [text for _, text in decided.withheld],
    }
