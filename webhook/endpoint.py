"""One function for both routes, bytes in and bytes out: `/mutate` and `/validate` without any HTTP library.

An answer is HTTP 200 as soon as there is an AdmissionReview; everything else is a metav1.Status with its own code. An
internal error is a 500 and never `allowed: false`: only then does failurePolicy decide.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from webhook.admission import Decision, Hook, Time, claim_of, decide, may_stand, refuse_default, worked_out
from webhook.deadlines import Deadline, parse_timeout
from webhook.impact import outcome_of
from webhook.logs import LOGGER, say
from webhook.metrics import KINDS, OTHER, Refusal
from webhook.review import BadReview, Request, parse_review, status_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.rules.impact import Impact
    from webhook.admission import Claim, Confirm, Recall, Reserve
    from webhook.metrics import Metrics

MAX_BODY: Final = 7 * 1024 * 1024
"""Bytes: two objects of the API server's 3 MiB, and what is around them."""
PATHS: Final = {f"/{hook}": hook for hook in Hook}
JSON: Final = (("content-type", "application/json"),)
_CLOSE: Final = (("connection", "close"),)
_RETRY: Final = (("retry-after", "0"), *_CLOSE)
_REASONS: Final = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""metav1.StatusReason of the codes that are answered without an AdmissionReview."""
_MILLISECONDS: Final = 1_000.0


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = JSON


class Later(NamedTuple):
    """An answer that takes long: `run` on a worker thread, never on the event loop."""

    run: Callable[[], Reply]


class Call(NamedTuple):
    """A request whose body has come. `received`: when its first byte did (monotonic clock); `timeout`: `?timeout=`."""

    hook: Hook
    body: bytes
    received: float
    timeout: str = ""


def refusal(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """An answer that is no AdmissionReview."""
    reason = _REASONS.get(status) or HTTPStatus(status).phrase.replace(" ", "")
    return Reply(status, status_body(status, reason, message), JSON + headers)


TOO_LARGE: Final = refusal(413, f"the body is larger than {MAX_BODY} bytes", _CLOSE)
TOO_MANY: Final = refusal(503, "too many requests are in flight; try again", _RETRY)
STOPPING: Final = refusal(503, "the webhook is stopping; try again", _RETRY)
_DEEP: Final = "the body is nested too deeply"
TOO_DEEP: Final = refusal(400, _DEEP)
TOO_SLOW: Final = refusal(408, "the body did not come in time", _CLOSE)
NOT_RESERVED: Final = refusal(
    503, "the place of the global default cannot be reserved: the API server does not answer", (("retry-after", "1"),)
)
BROKEN: Final = refusal(500, "internal error; the webhook's log says more")
_CLOSER: Final = {TOO_MANY: Refusal.OVERLOAD, STOPPING: Refusal.STOPPING, NOT_RESERVED: Refusal.RESERVATION}
"""What is known of a refusal beyond its status."""


class NotReserved(Exception):
    """The place of the global default could not be reserved: why."""


class Gate:
    """Counts the requests in flight, and lets no more in than it was told."""

    def __init__(self, limit: int) -> None:
        self._limit, self._inside, self._lock = limit, 0, Lock()
        self.stopping = False

    @property
    def inside(self) -> int:
        """Requests in flight."""
        return self._inside

    def enter(self) -> Reply | None:
        """Let one request in (None), or say why not. Whoever was let in must leave."""
        with self._lock:
            if self.stopping:
                return STOPPING
            if self._inside >= self._limit:
                return TOO_MANY
            self._inside += 1
            return None

    def leave(self) -> None:
        """One request has been answered."""
        with self._lock:
            self._inside -= 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Answers admission requests. `config` and `cluster` give what is in force now.

    Where there is an API server to ask, `confirm` gives the live classes and `reserve` the place of the global default.
    `takes_long`: whether judging a request may take long enough to hold up others; such requests are judged on a
    worker. `late`: what answers say of cluster state that is older than it should be; empty while it is not.
    """

    cluster: Callable[[], ClusterSnapshot | None]
    config: Callable[[], Config]
    metrics: Metrics
    gate: Gate
    confirm: Confirm | None = None
    reserve: Reserve | None = None
    takes_long: Callable[[Request, Hook], bool] = lambda _request, _hook: False
    late: Callable[[], str] = lambda: ""
    recall: Recall = worked_out

    def refuse(self, content_type: str, content_encoding: str, content_length: str) -> Reply | None:
        """What the headers alone are refused for; None where they are in order. No content type counts as JSON."""
        if content_type.partition(";")[0].strip().lower() not in ("", "application/json"):
            return refusal(415, f'the content type must be application/json, not "{content_type[:80]}"')
        if content_encoding.lower() not in ("", "identity"):
            return refusal(415, f'the content encoding must be identity, not "{content_encoding[:80]}"')
        if content_length.isdecimal() and int(content_length[:20]) > MAX_BODY:
            return TOO_LARGE
        return None

    def refused(self, hook: Hook, reply: Reply, **fields: object) -> Reply:
        """Count and log an answer without an AdmissionReview."""
        verdict = str(reply.status)
        self.metrics.count(self.metrics.requests, hook.value, OTHER, OTHER, verdict)
        self.metrics.refuse(_CLOSER.get(reply) or Refusal.of(reply.status))
        say("request refused", {"phase": hook.value, "status": reply.status, **fields}, logging.WARNING)
        return reply

    def answer(self, call: Call) -> Reply | Later:
        """The answer, or the work that leads to it. Raises nothing."""
        try:
            if len(call.body) > MAX_BODY:
                return self.refused(call.hook, TOO_LARGE)
            return self._answer(call)
        except BadReview as fault:
            return self.refused(call.hook, refusal(400, str(fault)), why=str(fault))
        except RecursionError:
            return self._too_deep(call)
        except Exception:
            return self._broken(call)

    def answer_now(self, call: Call) -> Reply:
        """The answer, on this thread."""
        reply = self.answer(call)
        return reply.run() if isinstance(reply, Later) else reply

    def _answer(self, call: Call) -> Reply | Later:
        started = monotonic()
        request = parse_review(call.body)
        config, cluster = self.config(), self.cluster()
        deadline = Deadline.after(call.received, parse_timeout(call.timeout))

        def decided(confirm: Confirm | None) -> Decision:
            time = Time(datetime.now(UTC), deadline.expired, self.late(), monotonic)
            return decide(request, call.hook, cluster, config, time, confirm, self.recall)

        claim = claim_of(request, call.hook, config) if self.reserve else None

        def later() -> Reply:
            try:
                decision = decided(self.confirm)
                if decision.impact:
                    self._predicted(decision.impact, decision.predicting)
                if claim and may_stand(decision):
                    decision = self._reserve(claim, request, decision, deadline)
                return self._reply(call.hook, request, decision, started)
            except NotReserved as fault:
                return self.refused(call.hook, NOT_RESERVED, why=str(fault))
            except RecursionError:
                return self._too_deep(call)
            except Exception:
                return self._broken(call)

        if claim or self.takes_long(request, call.hook):
            return Later(later)
        decision = decided(None)
        if decision.unconfirmed and self.confirm is not None:
            return Later(later)
        return self._reply(call.hook, request, decision, started)

    def _predicted(self, impact: Impact, seconds: float) -> None:
        self.metrics.prediction_duration.observe(seconds)
        self.metrics.count(self.metrics.predictions, outcome_of(impact))

    def _reserve(self, claim: Claim, request: Request, decision: Decision, deadline: Deadline) -> Decision:
        """The decision once the place of the global default is reserved, or taken. Raises NotReserved."""
        assert self.reserve is not None
        try:
            why = self.reserve(claim, deadline.seconds())
        except OSError as error:
            raise NotReserved(str(error)) from error
        return refuse_default(request, decision, why) if why else decision

    def _reply(self, hook: Hook, request: Request, decision: Decision, started: float) -> Reply:
        body = decision.response.to_bytes()
        seconds = monotonic() - started
        kind = KINDS.get(request.kind.group_kind, OTHER)
        labels = (hook.value, request.operation.value, kind, decision.verdict.value)
        self.metrics.count(self.metrics.requests, *labels)
        self.metrics.duration.labels(hook.value).observe(seconds)
        for finding in decision.findings:
            self.metrics.count(self.metrics.findings, finding.rule, finding.action.value)
        if LOGGER.isEnabledFor(logging.INFO):
            say("decision", {**_told(hook, request, decision), "milliseconds": round(seconds * _MILLISECONDS, 3)})
        return Reply(200, body)

    def _too_deep(self, call: Call) -> Reply:
        """What could be read, but not be looked through."""
        return self.refused(call.hook, TOO_DEEP, why=_DEEP)

    def _broken(self, call: Call) -> Reply:
        LOGGER.exception("internal error")
        return self.refused(call.hook, BROKEN)


def _told(hook: Hook, request: Request, decision: Decision) -> dict[str, object]:
    """What the log says of a decision."""
    told: dict[str, object] = {
        "phase": hook.value,
        "uid": request.uid,
        "operation": request.operation.value,
        "kind": request.kind.group_kind.removeprefix("/"),
        "namespace": request.namespace,
        "name": request.name,
        "user": request.user.name,
        "verdict": decision.verdict.value,
        "rules": {finding.rule: finding.action.value for finding in decision.findings},
    }
    if request.subresource:
        told["subresource"] = request.subresource
    if request.dry_run:
        told["dry_run"] = True
    if decision.exemption:
        told["exemption"] = decision.exemption
    return told
