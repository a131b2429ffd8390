"""One function for both routes, bytes in and bytes out: `/mutate` and `/validate` without any HTTP library.

An answer is HTTP 200 as soon as there is an AdmissionReview; everything else is a metav1.Status with its own code. An
internal error is a 500 and never `allowed: false`: only then does failurePolicy decide.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache, partial
from http import HTTPStatus
from math import inf
from threading import Lock
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.config.model import DiscloseTo
from policies.disclosure import EXACT, Disclose
from policies.metering import CutShort, holding, metered
from webhook.admission.answer_cache import AnswerCache, Answered, Key, key_of
from webhook.admission.callers import EVERYBODY, Callers
from webhook.admission.deadlines import Deadline, parse_timeout
from webhook.admission.decision import (
    Decision,
    Hook,
    Time,
    audited,
    decide,
    default_candidate_of,
    exemption_of,
    in_full,
    look_at,
    may_stand,
    not_evaluated,
    passed,
    refuse_default,
    subject_of,
)
from webhook.admission.impact_annotation import Impacts, ReinvocationCache, cost_of
from webhook.admission.lanes import Cost
from webhook.admission.pods_to_come import AUDIT_KEY as NOT_COUNTED
from webhook.admission.pods_to_come import Admitted, Arriving, PodsToCome, key_of_object
from webhook.admission.prediction_access import PredictionAccess, RequestAccess
from webhook.admission.prediction_budget import PredictionBudget
from webhook.admission.prediction_process import Unanswered
from webhook.admission.repeated_warnings import WarningLimiter
from webhook.admission.review import (
    AdmissionRequest,
    BadReview,
    TooDeep,
    parse_head,
    parse_review,
    status_body,
    with_uid,
)
from webhook.admission.sizes import HEAD, MAX_DECODED, MAX_SMALL, MAX_WIRE, decoded_size
from webhook.logs import LOGGER, RareEvents, log_event
from webhook.metrics import KINDS, OTHER, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.disclosure import Shown
    from policies.objects.priority_class import PriorityClass
    from webhook.accuracy import Expectation
    from webhook.admission.access_reviews import AccessReviews
    from webhook.admission.callers import Grant
    from webhook.admission.decision import Confirm, DefaultCandidate, Reserve
    from webhook.admission.prediction_process import Predictors
    from webhook.metrics import Metrics
    from webhook.workload_accuracy import WorkloadExpectation

PATHS: Final = {f"/{hook}": hook for hook in Hook}
"""Beside these, `/validate/TOKEN`: see webhook.admission.callers."""
JSON: Final = (("content-type", "application/json"),)
_CLOSE: Final = (("connection", "close"),)
_RETRY: Final = (("retry-after", "0"), *_CLOSE)
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
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
_ATTEMPT_SECONDS: Final = {Cost.RULES: 0.025, Cost.POD: 0.025, Cost.PODS: 0.004}
"""How long a prediction may keep the thread that judges; then it goes on in a process of its own. For one pod it is
longer, as it may have to bring up to date what all predictions share."""
_UPKEEP_SECONDS: Final = 0.01
"""How long a request, at most, brings up to date what all predictions share, before its own is begun."""
_LEAST_SECONDS: Final = 0.02
"""With less time than that no process is asked."""
_AT_MOST: Final = {Cost.RULES: 30.0, Cost.POD: 1.0, Cost.PODS: 3.0}
"""Seconds that are spent on a prediction, whatever the API server would wait: somebody waits for his apply."""

_LATE_SECONDS: Final = 0.3
"""How long a prediction process may still take to answer once its time is up, if the API server waits that long: on a
busy machine it has to wait for its turn to stop."""


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = JSON


class Where(Enum):
    """What runs a piece of work that the event loop must not wait for."""

    JUDGE = "judge"
    """The thread that judges, by cost: no request keeps it for longer than a few milliseconds."""
    ASK = "ask"
    """A thread that may wait for the API server."""
    PREDICT = "predict"
    """A process of its own, for a prediction that takes long."""


class Later(NamedTuple):
    """An answer that is not there yet: `run` it where it belongs, never on the event loop.

    `within`: seconds in which its turn must come. `otherwise`: what is done at once where there is no room for it;
    without it the request is told to come again.
    """

    run: Callable[[], Reply | Later]
    where: Where = Where.JUDGE
    cost: Cost = Cost.RULES
    otherwise: Callable[[], Reply | Later] | None = None
    within: float = inf


class AdmissionCall(NamedTuple):
    """A request whose body has come. `received`: when its first byte did (monotonic clock); `timeout`: `?timeout=`;
    `client`: the address that it came from, for the log of refusals; `tokens`: what its caller may be known by.
    """

    hook: Hook
    body: bytes
    received: float
    timeout: str = ""
    client: str = ""
    tokens: tuple[str, ...] = ()


def route(path: str) -> tuple[Hook | None, str]:
    """The webhook that a path names, None where it is none, and the token in it: `/validate`, `/validate/TOKEN`."""
    hook = PATHS.get(path)
    if hook is not None:
        return hook, ""
    base, _, token = path.rpartition("/")
    return (PATHS.get(base), token) if token else (None, "")


def refusal(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """An answer that is no AdmissionReview."""
    reason = _REASONS.get(status) or HTTPStatus(status).phrase.replace(" ", "")
    return Reply(status, status_body(status, reason, message), JSON + headers)


TOO_LARGE: Final = refusal(413, f"the body is larger than {MAX_WIRE} bytes", _CLOSE)
TOO_LARGE_FOR_A_STRANGER: Final = refusal(
    413, f"without an API server token the body is limited to {MAX_SMALL} bytes", _CLOSE
)
TOO_MANY: Final = refusal(503, "too many requests in flight; try again", _RETRY)
STOPPING: Final = refusal(503, "the webhook is shutting down; try again", _RETRY)
TOO_DEEP: Final = "the JSON is nested too deeply"
TOO_LONG: Final = f"the JSON is larger than {MAX_DECODED} bytes"
NO_MEMORY: Final = "forewarn has no memory left for a request of this size"
NOT_IN_TIME: Final = "the request body did not arrive in time"
"""Why a review is not evaluated though it is one."""
TOO_SLOW: Final = refusal(408, "the request body did not arrive in time", _CLOSE)
NOT_RESERVED: Final = refusal(
    503, "cannot reserve the global default: the API server does not answer; try again", (("retry-after", "1"),)
)
UNKNOWN_CALLER: Final = refusal(
    503,
    "only API servers with the token of the webhook configuration can reserve the global default; try again if the "
    "token has just changed",
    (("retry-after", "1"),),
)
NO_TOKEN: Final = refusal(401, "the request has no valid API server token", _CLOSE)
BROKEN: Final = refusal(500, "internal error; see the webhook's log")
_CLOSER: Final = {
    TOO_MANY: Refusal.OVERLOAD,
    STOPPING: Refusal.STOPPING,
    NOT_RESERVED: Refusal.RESERVATION,
    UNKNOWN_CALLER: Refusal.CLIENT,
}
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


class PredictionJob(NamedTuple):
    """What a prediction process is asked: one request, by the state that it was forked with.

    `at`: the deadline; `carried`: the annotation that the object has from us; `classes`: the live ones, None where they
    could not be had; `shown`: how much of the prediction is shown; `admitted`: what counts beside that state.
    """

    call: AdmissionCall
    at: float
    late: str
    carried: str | None
    confirmed: bool = False
    classes: Mapping[str, PriorityClass] | None = None
    shown: Shown = EXACT
    admitted: tuple[Admitted, ...] = ()


class _Attempt:
    """Time for a prediction on the thread that judges, which gives way to what is cheaper.

    It is the thread's own processor time: a machine that is busy with others makes no prediction dear.
    """

    def __init__(self, seconds: float, deadline: Deadline, give_way: Callable[[], bool]) -> None:
        self._deadline, self._begun, self._give_way = deadline, thread_time(), give_way
        self._seconds = seconds
        self.used_up = False

    def expired(self) -> bool:
        """Whether the time is used up; from then on it is."""
        if not self.used_up:
            took = thread_time() - self._begun
            self.used_up = took >= self._seconds or self._deadline.expired()
            if not (self.used_up or holding()) and self._give_way():
                self._begun = thread_time() - took
        return self.used_up


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Answers admission requests. `config` and `cluster` give what is in force now.

    Where there is an API server to ask, `confirm` gives the live classes and `reserve` the place of the global default.
    `late`: what answers say of cluster state that is older than it should be; empty while it is not. `predictors`:
    where predictions go that take long; without them each is worked out where it is asked. `give_way` judges first what
    is cheaper and waits. `callers`: who may ask, and who may reserve. `reviews` tells who may read what, `patience` who
    has been warned often enough, `budget` who has been shown enough predictions; `expect` is told what was predicted of
    what is admitted, and when it was asked (monotonic clock). `to_come` remembers what was admitted and whose
    Pods are not all there yet.
    """

    cluster: Callable[[], ClusterSnapshot | None]
    config: Callable[[], Config]
    metrics: Metrics
    gate: Gate
    confirm: Confirm | None = None
    reserve: Reserve | None = None
    late: Callable[[], str] = lambda: ""
    memory: ReinvocationCache = field(default_factory=lambda: ReinvocationCache(monotonic))
    predictors: Predictors | None = None
    give_way: Callable[[Cost], bool] = lambda _: False
    callers: Callers = EVERYBODY
    impacts: Impacts = field(default_factory=Impacts)
    answers: AnswerCache = field(default_factory=lambda: AnswerCache(monotonic))
    reviews: AccessReviews | None = None
    patience: WarningLimiter = field(default_factory=lambda: WarningLimiter(monotonic))
    expect: Callable[[Expectation | WorkloadExpectation | None, float], object] | None = None
    of_strangers: RareEvents = field(default_factory=RareEvents)
    reticent: Callable[[Config], Config] = field(default_factory=lambda: _Reticent())
    budget: PredictionBudget = field(default_factory=lambda: PredictionBudget(monotonic))
    to_come: PodsToCome = field(default_factory=lambda: PodsToCome(monotonic))

    def refuse(self, content_type: str, content_encoding: str) -> Reply | None:
        """The answer to a request whose headers alone reject it; None for any other. No content type counts as JSON."""
        if content_type.partition(";")[0].strip().lower() not in ("", "application/json"):
            return refusal(415, f'the content type must be application/json, not "{content_type[:80]}"')
        if content_encoding.lower() not in ("", "identity"):
            return refusal(415, f'the content encoding must be identity, not "{content_encoding[:80]}"')
        return None

    def refused(self, hook: Hook, reply: Reply, *, known: bool = False, **fields: object) -> Reply:
        """Count and log an answer without an AdmissionReview. `known`: whether the caller is an API server."""
        verdict = str(reply.status)
        self.metrics.count(self.metrics.requests, hook.value, OTHER, OTHER, verdict)
        reason = _CLOSER.get(reply) or Refusal.of(reply.status)
        self.metrics.refuse(reason)
        if known and reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self.metrics.count(self.metrics.refused_api_servers, reason)
        told = {name: value for name, value in fields.items() if value}
        event = {"phase": hook.value, "status": reply.status, **told}
        if known:
            log_event("request rejected", event, logging.WARNING)
        else:
            self.of_strangers.log("request rejected", event)
        return reply

    def answer(self, call: AdmissionCall) -> Reply | Later:
        """The answer, or the work that leads to it. Raises nothing."""
        if len(call.body) > MAX_SMALL:
            return Later(self.guarded(call, lambda: self._read(call)), cost=Cost.PODS)
        return self.guarded(call, lambda: self._read(call))()

    def answer_now(self, call: AdmissionCall) -> Reply:
        """The answer, on this thread."""
        reply = self.answer(call)
        while isinstance(reply, Later):
            reply = reply.run()
        return reply

    def not_evaluated(self, call: AdmissionCall, why: str) -> Reply:
        """The answer to a review that can't be evaluated: denied where a rule could deny it.

        An HTTP error would let `failurePolicy: Ignore` admit it. `call.body` may be no more than its first bytes.
        """
        started, grant = monotonic(), self.callers.grant(call.tokens)
        try:
            request = parse_head(call.body[:HEAD])
        except BadReview as fault:
            reply = {TOO_LONG: TOO_LARGE, NOT_IN_TIME: TOO_SLOW}.get(why) or refusal(400, str(fault))
            known = self.callers.are_known(call.tokens)
            return self.refused(call.hook, reply, known=known, why=why, client=call.client)
        cluster = self.cluster() if _covers(grant, request) else None
        decision = not_evaluated(request, call.hook, cluster, self.config(), datetime.now(UTC), why)
        return self.tell(call.hook, request, Answered.of(decision), started)

    def _read(self, call: AdmissionCall) -> Reply | Later:
        """Answer what needs no evaluation, or as a moment ago; evaluate anything else.

        A large body is parsed here, in its turn on the thread that judges, and evaluated at once: only one at a time
        takes the memory of its objects.
        """
        started = monotonic()
        if decoded_size(call.body) > MAX_DECODED:
            return self.not_evaluated(call, TOO_LONG)
        request = parse_review(call.body)
        config, cluster, late = self.config(), self.cluster(), self.late()
        grant = self.callers.grant(call.tokens)
        if not _covers(grant, request):
            cluster = None  # what it says of itself, that it is an administrator, may be a lie
            self.metrics.unauthenticated.inc()
        elif grant.is_shown:
            config = self.reticent(config)
        exemption = exemption_of(request, cluster, config, datetime.now(UTC))
        if exemption is not None:
            return self.tell(call.hook, request, _passed(exemption), started)
        is_large = len(call.body) > MAX_SMALL
        cost = Cost.PODS if is_large else cost_of(request, cluster, config, len(call.body))
        admitted = self._admitted(request, cluster, config) if cost is not Cost.RULES else ()
        key = None if late or cluster is None or is_large or grant.is_shown else key_of(call.hook, request, admitted)
        if key is not None and (known := self.answers.get(key, (cluster, config))) is not None:
            return self.tell(call.hook, request, known, started)
        deadline = Deadline.after(call.received, parse_timeout(call.timeout))
        held = request.stripped() if is_large else request
        access = self._access(call.hook, request, config)
        within = deadline.within(_AT_MOST[cost])
        state = _State(self, call, held, started, within, cost, cluster, config, late, key, grant, access, admitted)
        if is_large:
            return state.judge(request)
        return Later(self.guarded(call, state.judge), cost=cost)

    def _access(self, hook: Hook, request: AdmissionRequest, config: Config) -> RequestAccess:
        """What this request is shown of predictions."""
        count = partial(self.metrics.count, self.metrics.predictions_shown)
        shared = PredictionAccess(self.budget, count, self.reviews)
        return RequestAccess(shared, request, config, annotates=hook is Hook.MUTATE)

    def _admitted(
        self, request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config
    ) -> tuple[Admitted, ...]:
        """What was admitted a moment ago and counts for this request."""
        subject = None if cluster is None else subject_of(request, cluster, config)
        if cluster is None or subject is None:
            return ()
        return self.to_come.of(request.user.name, key_of_object(subject), cluster)

    def guarded(self, call: AdmissionCall, run: Callable[[], Reply | Later]) -> Callable[[], Reply | Later]:
        """The same, with an answer for whatever goes wrong."""

        def guarded() -> Reply | Later:
            try:
                return run()
            except (TooDeep, RecursionError):
                return self.not_evaluated(call, TOO_DEEP)
            except BadReview as fault:
                known = self.callers.are_known(call.tokens)
                return self.refused(
                    call.hook, refusal(400, str(fault)), known=known, why=str(fault), client=call.client
                )
            except NotReserved as fault:
                return self.refused(call.hook, NOT_RESERVED, why=str(fault), client=call.client)
            except Exception:
                return self._broken(call)

        return guarded

    def predict(self, question: PredictionJob) -> Decision | str:
        """The decision on a request, with all the time that there is: what a prediction process answers.

        A string says why it can't be evaluated.
        """
        call = question.call
        try:
            request, deadline = parse_review(call.body), Deadline(question.at)
            time = Time(datetime.now(UTC), deadline.expired, question.late, monotonic)
            confirm = partial(_given, question.classes) if question.confirmed else None

            def recall(_: object, work_out: Callable[[], str | None]) -> str | None:
                return question.carried or work_out()

            impacts = partial(self.impacts.of, time_is_up=deadline.expired)
            config, arriving = self.config(), self.arriving(self.cluster(), question.admitted, deadline.expired)
            decision = decide(
                request,
                call.hook,
                arriving.cluster,
                config,
                time,
                confirm,
                recall,
                impacts,
                lambda: question.shown,
            )
            decision = audited(decision, NOT_COUNTED, arriving.not_counted)
            return decision.cut_short_if(deadline.expired()).plain()
        except RecursionError:
            return TOO_DEEP

    def arriving(
        self, cluster: ClusterSnapshot | None, admitted: tuple[Admitted, ...], expired: Callable[[], bool]
    ) -> Arriving:
        """The cluster state with the Pods to come of what was admitted a moment ago."""
        if cluster is None or not admitted:
            return Arriving(cluster)
        return self.to_come.placed(cluster, admitted, self.config().options.pod_template_paths, expired)

    def count_prediction(self, decision: Decision) -> None:
        """Count what was predicted, if anything was."""
        if decision.outcome:
            self.metrics.prediction_duration.observe(decision.predicting)
            self.metrics.count(self.metrics.predictions, decision.outcome)

    def remember(self, request: AdmissionRequest, decision: Decision, started: float) -> None:
        """Let what was predicted be compared with what happens, where it is to happen."""
        if self.expect and decision.outcome and decision.response.allowed and not request.dry_run:
            self.expect(decision.expected, started)

    def take_place(
        self, candidate: DefaultCandidate, request: AdmissionRequest, decision: Decision, deadline: Deadline
    ) -> Decision:
        """The decision once the place of the global default is reserved, or taken. Raises NotReserved."""
        assert self.reserve is not None
        try:
            why = self.reserve(candidate, deadline.seconds())
        except OSError as error:
            raise NotReserved(str(error)) from error
        return refuse_default(request, decision, why) if why else decision

    def tell(self, hook: Hook, request: AdmissionRequest, answered: Answered, started: float) -> Reply:
        """Count it, log it, send it."""
        seconds = monotonic() - started
        kind = KINDS.get(request.kind.group_kind, OTHER)
        self.metrics.count(self.metrics.requests, hook.value, request.operation.value, kind, answered.verdict)
        self.metrics.took(hook.value, seconds)
        for rule, action in answered.findings:
            self.metrics.count(self.metrics.findings, rule, action)
        if LOGGER.isEnabledFor(logging.INFO):
            log_event(
                "decision", {**answered.fields_of(hook, request), "milliseconds": round(seconds * _MILLISECONDS, 3)}
            )
        return Reply(200, with_uid(answered.body, request.uid))

    def _broken(self, call: AdmissionCall) -> Reply:
        LOGGER.exception("internal error")
        return self.refused(call.hook, BROKEN, client=call.client)


@lru_cache(maxsize=64)
def _passed(exemption: str) -> Answered:
    """What is answered where no object is looked at: the same each time, so it is made once."""
    return Answered.of(passed("", exemption))


def _covers(grant: Grant, request: AdmissionRequest) -> bool:
    """Whether the token that this was granted for belongs to a webhook that is asked such reviews."""
    return grant.covers(request.resource.group, request.resource.resource, request.subresource)


class _Reticent:
    """A configuration under which nobody is told a name: the same object for the same configuration, as caches go by
    its identity."""

    def __init__(self) -> None:
        self._made: tuple[Config | None, Config | None] = (None, None)

    def __call__(self, config: Config) -> Config:
        of, made = self._made
        if of is not config or made is None:
            made = config._replace(disclose=Disclose.COUNTS, disclose_to=DiscloseTo(()))
            self._made = config, made
        return made


def _given(classes: Mapping[str, PriorityClass] | None) -> Mapping[str, PriorityClass]:
    """The live classes as they were asked for before. Raises OSError where they could not be had."""
    if classes is None:
        raise OSError("the API server does not answer")
    return classes


@dataclass(frozen=True, slots=True)
class _State:
    """One request on its way through the lanes.

    `request` is stripped where the body is large: what needs its objects parses the body again, in its turn.
    """

    endpoint: Endpoint
    call: AdmissionCall
    request: AdmissionRequest
    started: float
    deadline: Deadline
    cost: Cost
    cluster: ClusterSnapshot | None
    config: Config
    late: str
    key: Key | None
    grant: Grant
    access: RequestAccess
    admitted: tuple[Admitted, ...] = ()
    confirmed: bool = False
    classes: Mapping[str, PriorityClass] | None = None

    def judge(self, whole: AdmissionRequest | None = None) -> Reply | Later:
        """On the thread that judges: the decision, or as much of it as there is time for here.

        `whole`: the request with its objects, where they have just been parsed.
        """
        endpoint = self.endpoint
        if whole is None:
            whole = parse_review(self.call.body) if self.request.is_stripped else self.request
        if endpoint.predictors is None:
            decision = self._decide(whole, self.deadline.expired, self.deadline.expired)
            decision = decision.cut_short_if(self.deadline.expired())
            return self._asking() if self.access.to_ask else self.decided(decision)
        if self.cost is not Cost.RULES and self.cluster is not None:
            self._keep_up(self.cluster)
        attempt = self._attempt(_ATTEMPT_SECONDS[self.cost])
        decision = self._decide(whole, attempt.expired, lambda: attempt.used_up).cut_short_if(attempt.used_up)
        if self.access.to_ask:
            return self._asking()
        left, since = self.deadline.seconds(), monotonic()
        if not attempt.used_up or left < _LEAST_SECONDS:
            return self.decided(decision)
        carried, shown = endpoint.memory.recent(whole.subject), self.access.settle(whole.subject)
        return Later(
            self._guarded(lambda: self._predict(decision, carried, shown, since)),
            Where.PREDICT,
            self.cost,
            self._guarded(lambda: self.decided(replace(decision, outcome=decision.outcome and "skipped"))),
            left,
        )

    def _asking(self) -> Later:
        """Ask whether the requester may read what the prediction is about, then judge again."""

        def again() -> Later:
            return Later(self._guarded(self.judge), cost=self.cost)

        def asked() -> Later:
            self.access.ask(self.deadline.expired)
            return again()

        def not_asked() -> Later:
            self.access.go_on()
            return again()

        return Later(self._guarded(asked), Where.ASK, self.cost, self._guarded(not_asked), self.deadline.seconds())

    def _attempt(self, seconds: float) -> _Attempt:
        return _Attempt(seconds, self.deadline, lambda: self.endpoint.give_way(self.cost))

    def _keep_up(self, cluster: ClusterSnapshot) -> None:
        """Bring up to date what all predictions share: a process forked for one could keep it for itself alone."""
        with suppress(CutShort), metered(self._attempt(_UPKEEP_SECONDS).expired):
            cluster.prepare()

    def _decide(self, whole: AdmissionRequest, expired: Callable[[], bool], was_up: Callable[[], bool]) -> Decision:
        """The decision. `was_up`: whether `expired` has said that time is up; what is predicted then is not kept."""
        endpoint = self.endpoint
        time = Time(datetime.now(UTC), expired, self.late, monotonic)
        confirm = partial(_given, self.classes) if self.confirmed else None
        arriving = endpoint.arriving(self.cluster, self.admitted, expired)
        decision = look_at(
            whole,
            self.call.hook,
            arriving.cluster,
            self.config,
            time,
            confirm,
            endpoint.memory.recall,
            self.access.recalling(partial(endpoint.impacts.of, time_is_up=was_up)),
            self.access.shown,
        )
        return audited(decision, NOT_COUNTED, arriving.not_counted)

    def _predict(self, cut: Decision, carried: str | None, shown: Shown, since: float) -> Reply | Later:
        """On a thread that asks a prediction process: its decision, or the one that was cut short.

        `carried`, `shown`: as in PredictionJob; `since`: when it began to wait for that.
        """
        endpoint = self.endpoint
        assert endpoint.predictors is not None
        endpoint.metrics.prediction_queue_duration.observe(monotonic() - since)
        call = self.call
        latest = Deadline.after(call.received, parse_timeout(call.timeout)).at
        until = max(self.deadline.at, min(latest, self.deadline.at + _LATE_SECONDS))
        question = PredictionJob(
            call, self.deadline.at, self.late, carried, self.confirmed, self.classes, shown, self.admitted
        )
        try:
            answer = endpoint.predictors.ask(
                question, until, (self.cluster, self.config), _asked_of(endpoint, self.cluster, self.config)
            )
        except Unanswered as fault:
            log_event("prediction abandoned", {"uid": self.request.uid, "reason": str(fault)}, logging.WARNING)
            return self.decided(cut)
        return endpoint.not_evaluated(call, answer) if isinstance(answer, str) else self.decided(answer)

    def decided(self, decision: Decision) -> Reply | Later:
        """Whatever still has to be asked of the API server, then the answer."""
        endpoint = self.endpoint
        if decision.unconfirmed and endpoint.confirm is not None and not self.confirmed:
            return Later(self._guarded(self._confirm), Where.ASK)
        if decision.withholds:
            allowed = endpoint.reviews.known(self.request.user) if endpoint.reviews else False
            if allowed is not None:
                return self._seen(decision, allowed)
            run, otherwise = self._guarded(lambda: self._reviewed(decision)), lambda: self._seen(decision, False)
            return Later(run, Where.ASK, self.cost, self._guarded(otherwise), self.deadline.seconds())
        candidate = default_candidate_of(self.request, self.call.hook, self.config) if endpoint.reserve else None
        if candidate and may_stand(decision):
            if not _covers(self.grant, self.request):
                return endpoint.refused(self.call.hook, UNKNOWN_CALLER, client=self.call.client, name=self.request.name)
            return Later(self._guarded(lambda: self._reserved(candidate, decision)), Where.ASK)
        return self._finished(decision)

    def _reviewed(self, decision: Decision) -> Reply | Later:
        """Ask whether the user may see everything."""
        assert self.endpoint.reviews is not None
        return self._seen(decision, not self.deadline.expired() and self.endpoint.reviews.ask(self.request.user))

    def _seen(self, decision: Decision, allowed: bool) -> Reply | Later:
        """The decision in full, or as it is for everybody else."""
        return self.decided(in_full(self.request, decision) if allowed else replace(decision, withholds=False))

    def _confirm(self) -> Later:
        """Ask for the live classes, and judge by them."""
        assert self.endpoint.confirm is not None
        try:
            classes = None if self.deadline.expired() else self.endpoint.confirm()
        except OSError:
            classes = None
        again = replace(self, confirmed=True, classes=classes)
        return Later(self._guarded(again.judge), cost=self.cost)

    def _reserved(self, candidate: DefaultCandidate, decision: Decision) -> Reply:
        """What is reserved is never answered from memory: another request of the same bytes has to reserve too."""
        decided = self.endpoint.take_place(candidate, self.request, decision, self.deadline)
        return self._finished(decided, keep=False)

    def _finished(self, decision: Decision, *, keep: bool = True) -> Reply:
        endpoint = self.endpoint
        endpoint.count_prediction(decision)
        endpoint.remember(self.request, decision, self.started)
        is_real = decision.response.allowed and not (self.request.dry_run or self.grant.is_shown)
        if decision.brings and is_real:
            subject = subject_of(self.request, self.cluster, self.config)
            if subject is not None:
                endpoint.to_come.note(subject, self.request.user.name, decision.brings, len(self.call.body))
        if decision.written is not None:
            endpoint.memory.note(decision.written)
        decision = endpoint.patience.told(self.request, decision, self.config)
        if self.grant.is_shown:
            decision = replace(decision, response=replace(decision.response, audit={}))
        answered = Answered.of(decision)
        if keep and self.key is not None and not (self.confirmed or decision.unconfirmed or decision.is_cut_short):
            endpoint.answers.put(self.key, (self.cluster, self.config), answered)
        return endpoint.tell(self.call.hook, self.request, answered, self.started)

    def _guarded(self, run: Callable[[], Reply | Later]) -> Callable[[], Reply | Later]:
        return self.endpoint.guarded(self.call, run)


def _asked_of(endpoint: Endpoint, cluster: ClusterSnapshot | None, config: Config) -> Callable[[PredictionJob], object]:
    """What a prediction process does: the endpoint's own work, by this state."""
    return replace(endpoint, cluster=lambda: cluster, config=lambda: config).predict
