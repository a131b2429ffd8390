"""Admission requests, from the bytes of a request to the bytes of its response.

A response to an AdmissionReview has HTTP status 200; any other response is a metav1.Status. An internal error has
status 500 and never `allowed: false`, so `failurePolicy` decides.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from hashlib import blake2b
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from forewarn.policies.base.disclosure import EXACT, Disclose, Shown
from forewarn.policies.base.findings import Action, Finding, Severity, Text, one_line
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.linting.config.model import Config, DiscloseTo, RepeatedWarnings
from forewarn.webhook.accuracy import Expectation, Outcome
from forewarn.webhook.admission import impact_annotation, prediction_access
from forewarn.webhook.admission.admitted_pods import AUDIT_KEY as NOT_COUNTED
from forewarn.webhook.admission.admitted_pods import Admitted, AdmittedPods, Arriving, key_of_object
from forewarn.webhook.admission.answer_cache import AnswerCache, Answered, Key, key_of
from forewarn.webhook.admission.decide import (
    decide,
    decide_unread,
    default_candidate_of,
    deny_default,
    evaluate_review,
    exemption_of,
    needs_reservation,
    subject_of,
)
from forewarn.webhook.admission.decision import (
    BEST,
    MAX_WARNINGS,
    Decision,
    audit_of,
    name_of,
    passed,
    shortened,
    unredacted,
    warnings_of,
    worst_first,
)
from forewarn.webhook.admission.impact_annotation import Impacts, ReinvocationCache, cost_of
from forewarn.webhook.admission.lanes import Attempt, Cost, Deadline, QueueFull, Run, Step, Where, parse_timeout
from forewarn.webhook.admission.review import (
    BROKEN,
    EVERYBODY,
    HEAD,
    MAX_DECODED,
    MAX_QUICK,
    MAX_SMALL,
    NO_TIME,
    NOT_IN_TIME,
    NOT_RESERVED,
    NOT_VERIFIED,
    STOPPING,
    TOO_DEEP,
    TOO_LARGE,
    TOO_LONG,
    TOO_MANY,
    TOO_SLOW,
    UNKNOWN_CALLER,
    BadReview,
    Callers,
    Hook,
    Reply,
    TooDeep,
    decoded_size,
    parse_head,
    parse_review,
    rejection,
    with_uid,
)
from forewarn.webhook.logs import LOGGER, RareEvents, log_event
from forewarn.webhook.metrics import KINDS, OTHER, Metrics, RejectionReason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.webhook.admission.access_reviews import AccessReviews
    from forewarn.webhook.admission.decide import DefaultCandidate, Reserve
    from forewarn.webhook.admission.prediction_access import Confirm, Predictors
    from forewarn.webhook.admission.review import AdmissionCall, AdmissionRequest, Gate, Grant
    from forewarn.webhook.workload_accuracy import WorkloadExpectation


SECONDS: Final = 60.0
FULL: Final = 3
"""Number of full warnings for one rule and user within SECONDS; later ones are short."""
TOGETHER: Final = 10.0
"""Maximum seconds between two requests of a user that belong together."""
REMEMBERED: Final = 4096
"""Maximum number of users, and of pairs of user and rule (about 500 bytes each). The least recently used is dropped."""
_REJECTED_OR_PENDING: Final = frozenset({"fits-nowhere", "system-class-blocked-by-quota"})
"""Rules about Pods that will not run, although their findings are not errors."""


_Value = TypeVar("_Value")
_REASON: Final = {
    TOO_MANY: RejectionReason.OVERLOAD,
    STOPPING: RejectionReason.STOPPING,
    NOT_RESERVED: RejectionReason.RESERVATION,
    UNKNOWN_CALLER: RejectionReason.CLIENT,
    NOT_VERIFIED: RejectionReason.CLIENT,
}


class WarningCount(NamedTuple):
    """The times of the latest full warnings within SECONDS, and the number of short warnings since the first one."""

    times: tuple[float, ...] = ()
    shortened: int = 0

    def next(self, now: float) -> WarningCount:
        """Return the counts after one more warning. Short warnings do not extend the time."""
        times = tuple(time for time in self.times if time > now - SECONDS)
        if len(times) < FULL:
            return WarningCount((*times, now))
        return WarningCount(times, self.shortened + 1)


class _LastRequest(NamedTuple):
    """The object and time of a user's last request, and the time of the last request about another object."""

    object: bytes
    time: float
    of_another: float


class WarningLimiter:
    """The recent requests of each user, and their warnings by rule, in bounded memory. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: OrderedDict[bytes, WarningCount] = OrderedDict()
        self._requests: OrderedDict[bytes, _LastRequest] = OrderedDict()
        self._lock = Lock()

    def count(self, user: str, rule: str, dry_run: bool = False) -> int:
        """Count a warning; return 0 to show it in full, or the number of short ones in a row. Dry runs are separate."""
        key = _digest(rule, str(dry_run), user)
        with self._lock:
            count = self._counts.pop(key, WarningCount()).next(self._clock())
            _remember(self._counts, key, count)
        return count.shortened

    def is_one_of_several(self, request: AdmissionRequest) -> bool:
        """Record the request. Return whether its user changed another object in the preceding seconds."""
        user, changed = _digest(request.user.name), _digest(*request.resource, request.namespace, request.name)
        with self._lock:
            now = self._clock()
            last = self._requests.pop(user, _LastRequest(changed, now, now - TOGETHER))
            of_another = last.of_another if last.object == changed else last.time
            _remember(self._requests, user, _LastRequest(changed, now, of_another))
        return now - of_another < TOGETHER

    def with_limited_warnings(self, request: AdmissionRequest, decision: Decision, config: Config) -> Decision:
        """Return the decision with warnings named and shortened, depending on the recent requests of the user."""
        if config.repeated_warnings is RepeatedWarnings.FULL:
            return decision
        several = self.is_one_of_several(request)
        warned = [finding for finding in decision.findings if finding.action is Action.WARN and finding.is_shown]
        if not warned or not decision.response.allowed:
            return decision
        limited = {finding.rule for finding in warned if not will_not_run(finding)}
        counts = {rule: self.count(request.user.name, rule, request.dry_run) for rule in limited}

        def is_short(finding: Finding) -> bool:
            return counts.get(finding.rule, 0) > 0 and not will_not_run(finding)

        short = worst_first(finding for finding in warned if is_short(finding))
        full = [finding for finding in warned if not is_short(finding)]
        warnings = warnings_of(full, lambda finding: several or will_not_run(finding))
        if short:
            annotated = impact_annotation.wanted(request.subject, config)
            warnings = (*warnings, _short(short, sum(counts.values()), annotated))
        audit = {**audit_of(short), **decision.response.audit}
        return replace(decision, response=replace(decision.response, warnings=warnings, audit=audit))


def will_not_run(finding: Finding) -> bool:
    """Report whether Pods of the object will be rejected or stay Pending, or the object is invalid."""
    return finding.severity is Severity.ERROR or finding.rule in _REJECTED_OR_PENDING


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=16).digest()


def _remember(memory: OrderedDict[bytes, _Value], key: bytes, value: _Value) -> None:
    memory[key] = value
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _short(findings: Sequence[Finding], count: int, annotated: bool) -> str:
    """Return one line for all short warnings of a request: `Deployment shop/web: would preempt 1 Pod (14 warnings
    shortened; see annotation) [preempts-running-pods]`.

    `count`: the user's short warnings within SECONDS. `annotated`: whether forewarn writes the impact annotation on the
    object.
    """
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    is_predicted = annotated and any(rule in impact_annotation.ABOUT_PREDICTIONS for rule in rules)
    how = "see annotation" if is_predicted else "see forewarn lint"
    tail = f" ({count} shortened; {how})"
    worst = findings[0].as_shown
    text, name = worst.text, name_of(worst)
    named = Text(f"{name}{one_line(text.problem)}", shorter=tuple(f"{name}{version}" for version in text.shorter))
    return f"{shortened(named, BEST - len(tail))}{tail} [{', '.join(rules[:MAX_WARNINGS])}]"


_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Answers admission requests, with the state, caches, limits and metrics that evaluations use.

    `config`, `cluster`: return the current ones. `confirm`: reads the live PriorityClasses. `reserve`: reserves the
    global default. `staleness`: how old the cluster state is, as a message, if it is too old. `predictors`: prediction
    processes; without them, the evaluating thread completes all predictions. `give_way`: evaluates cheaper requests
    first. `callers`: who may send requests and reserve the global default. `reviews`: what requesters may read.
    `patience`: which warnings to omit. `budget`: how many predictions a requester may see. `expect`: receives the
    predictions about admitted objects, with the start of the request (monotonic clock). `admitted_pods`: admitted
    objects whose Pods are not in the cluster state yet.
    """

    cluster: Callable[[], ClusterSnapshot | None]
    config: Callable[[], Config]
    metrics: Metrics
    gate: Gate
    confirm: Confirm | None = None
    reserve: Reserve | None = None
    staleness: Callable[[], str] = lambda: ""
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
    without_names: Callable[[Config], Config] = field(default_factory=lambda: _WithoutNames())
    budget: prediction_access.PredictionBudget = field(
        default_factory=lambda: prediction_access.PredictionBudget(monotonic)
    )
    admitted_pods: AdmittedPods = field(default_factory=lambda: AdmittedPods(monotonic))

    def arriving(
        self, cluster: ClusterSnapshot | None, admitted: tuple[Admitted, ...], expired: Callable[[], bool]
    ) -> Arriving:
        """Return the cluster state with the expected Pods of recently admitted objects."""
        if cluster is None or not admitted:
            return Arriving(cluster)
        return self.admitted_pods.placed(cluster, admitted, self.config().options.pod_template_paths, expired)

    def frozen(self, cluster: ClusterSnapshot | None, config: Config) -> Endpoint:
        """Return the services with this state and configuration fixed, for a prediction process."""
        return replace(self, cluster=lambda: cluster, config=lambda: config)

    def predict(self, job: PredictionJob) -> Decision | str:
        """Return the decision on a request, in a prediction process; a string with the reason if it cannot be
        evaluated.
        """
        call, deadline = job.call, Deadline(job.at)
        try:
            arriving = self.arriving(self.cluster(), job.admitted, deadline.expired)
            review = prediction_access.ReviewContext(
                request=parse_review(call.body),
                hook=call.hook,
                cluster=arriving.cluster,
                config=self.config(),
                time=prediction_access.Time(datetime.now(UTC), deadline.expired, job.staleness, monotonic),
                live=job.live,
                recall=lambda _, compute: job.carried or compute(),
                impacts=partial(
                    self.impacts.impact_of, time_is_up=deadline.expired, is_last=call.hook is Hook.VALIDATE
                ),
                shown=lambda: job.shown,
            )
            return decide(review).audited(NOT_COUNTED, arriving.not_counted).cut_short_if(deadline.expired()).plain()
        except RecursionError:
            return TOO_DEEP

    def rejected(self, hook: Hook, reply: Reply, *, is_known: bool = False, **fields: object) -> Reply:
        """Count and log a response without an AdmissionReview, and return the response.

        `is_known`: whether the caller is an API server. `fields`: more fields of the log line.
        """
        self.metrics.count(self.metrics.requests, hook.value, OTHER, OTHER, str(reply.status))
        reason = _REASON.get(reply) or RejectionReason.from_status(reply.status)
        self.metrics.reject(reason)
        if is_known and reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self.metrics.count(self.metrics.rejected_api_servers, reason)
        present = {name: value for name, value in fields.items() if value}
        event = {"phase": hook.value, "status": reply.status, **present}
        if is_known:
            log_event("request rejected", event, logging.WARNING)
        else:
            self.of_strangers.log("request rejected", event)
        return reply

    def not_evaluated(self, call: AdmissionCall, why: str) -> Reply:
        """Return the response to a review that forewarn cannot evaluate: a denial if a rule could deny the request.

        With an HTTP error, `failurePolicy: Ignore` would admit the request. `call.body` may have only the first
        bytes.
        """
        started, grant = monotonic(), self.callers.grant(call.tokens)
        try:
            request = parse_head(call.body[:HEAD])
        except BadReview as fault:
            reply = {TOO_LONG: TOO_LARGE, NOT_IN_TIME: TOO_SLOW}.get(why) or rejection(400, str(fault))
            is_known = self.callers.are_known(call.tokens)
            return self.rejected(call.hook, reply, is_known=is_known, why=why, client=call.client)
        cluster = self.cluster() if grant.covers(*request.resource_parts) else None
        decision = decide_unread(request, call.hook, cluster, self.config(), datetime.now(UTC), why)
        return self.respond(call.hook, request, Answered.from_decision(decision), started)

    def respond(self, hook: Hook, request: AdmissionRequest, answered: Answered, started: float) -> Reply:
        """Count and log a response, and build its bytes."""
        seconds = monotonic() - started
        kind = KINDS.get(request.kind.group_kind, OTHER)
        self.metrics.count(self.metrics.requests, hook.value, request.operation.value, kind, answered.verdict)
        self.metrics.took(hook.value, seconds)
        for rule, action in answered.findings:
            self.metrics.count(self.metrics.findings, rule, action)
        if LOGGER.isEnabledFor(logging.INFO):
            milliseconds = int(seconds * _MICROSECONDS) / 1000
            log_event("decision", {**answered.fields_of(hook, request), "milliseconds": milliseconds})
        return Reply(200, with_uid(answered.body, request.uid))

    async def answer(self, call: AdmissionCall, run: Run) -> Reply:
        """Return the response to a request. `run`: runs a step, and returns its result. Raises only QueueFull."""
        try:
            if len(call.body) <= MAX_SMALL:
                parsed = self._parsed(call)
            else:  # on the evaluating thread, one after the other
                parse = partial(self._parsed_in_time, call)
                parsed = await run(Step(parse, cost=Cost.PODS, holds_up=len(call.body) > MAX_QUICK))
            return parsed if isinstance(parsed, Reply) else await parsed.reply(run)
        except QueueFull:
            raise
        except (TooDeep, RecursionError):
            return self.not_evaluated(call, TOO_DEEP)
        except BadReview as fault:
            is_known, why = self.callers.are_known(call.tokens), str(fault)
            return self.rejected(call.hook, rejection(400, why), is_known=is_known, why=why, client=call.client)
        except Exception:
            return self._broken(call)

    def _parsed_in_time(self, call: AdmissionCall) -> Reply | Evaluation:
        if Deadline.after(call.received, parse_timeout(call.timeout)).expired():
            return self.not_evaluated(call, NO_TIME)
        return self._parsed(call)

    def _parsed(self, call: AdmissionCall) -> Reply | Evaluation:
        """Return the response if the request needs no evaluation; otherwise the evaluation.

        Evaluates a large request immediately, so that only one request at a time has its large objects in memory.
        """
        started = monotonic()
        if decoded_size(call.body) > MAX_DECODED:
            return self.not_evaluated(call, TOO_LONG)
        request = parse_review(call.body)
        grant, cluster, config = self._authenticated(call, request)
        exemption = exemption_of(request, cluster, config, datetime.now(UTC))
        if exemption is not None:
            return self.respond(call.hook, request, _passed(exemption), started)
        is_large, staleness = len(call.body) > MAX_SMALL, self.staleness()
        cost = Cost.PODS if is_large else cost_of(request, cluster, config, len(call.body))
        admitted = self._admitted(request, cluster, config) if cost is not Cost.RULES else ()
        key = (
            None if staleness or cluster is None or is_large or grant.is_shown else key_of(call.hook, request, admitted)
        )
        if key is not None and (answer := self.answers.get(key, (cluster, config))) is not None:
            return self.respond(call.hook, request, answer, started)
        evaluation = Evaluation(
            services=self,
            call=call,
            request=request.stripped() if is_large else request,
            started=started,
            deadline=Deadline.after(call.received, parse_timeout(call.timeout)).within(_MAX_SECONDS[cost]),
            cost=cost,
            cluster=cluster,
            config=config,
            staleness=staleness,
            key=key,
            grant=grant,
            access=self._access(call.hook, request, config),
            admitted=admitted,
        )
        if is_large:
            evaluation.first = evaluation.attempt(request)
        return evaluation

    def _authenticated(
        self, call: AdmissionCall, request: AdmissionRequest
    ) -> tuple[Grant, ClusterSnapshot | None, Config]:
        """Return the caller's grant, with the cluster state and configuration that the grant allows.

        A caller without a valid token may claim any requester, so the cluster state is None for it. For a token that
        requesters can read, the configuration shows no names.
        """
        grant, cluster, config = self.callers.grant(call.tokens), self.cluster(), self.config()
        if not grant.covers(*request.resource_parts):
            self.metrics.unauthenticated.inc()
            self.of_strangers.log("unknown caller", {"phase": call.hook.value, "client": call.client})
            return grant, None, config
        return grant, cluster, self.without_names(config) if grant.is_shown else config

    def _access(self, hook: Hook, request: AdmissionRequest, config: Config) -> prediction_access.RequestAccess:
        """Return the access of the requester to predictions, for one request."""
        count = partial(self.metrics.count, self.metrics.predictions_shown)
        shared = prediction_access.PredictionAccess(self.budget, count, self.reviews)
        return prediction_access.RequestAccess(shared, request, config, annotates=hook is Hook.MUTATE)

    def _admitted(
        self, request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config
    ) -> tuple[Admitted, ...]:
        """Return the recently admitted objects whose Pods count for this request."""
        if cluster is None or not self.admitted_pods:
            return ()
        subject = subject_of(request, cluster, config)
        if subject is None:
            return ()
        return self.admitted_pods.admitted_for(request.user.name, key_of_object(subject), cluster)

    def unsupported_headers(self, content_type: str, content_encoding: str) -> Reply | None:
        """Return the rejection of invalid headers, or None. A missing content type counts as JSON."""
        if content_type.partition(";")[0].strip().lower() not in ("", "application/json"):
            return rejection(415, f'the content type must be application/json, not "{content_type[:80]}"')
        if content_encoding.lower() not in ("", "identity"):
            return rejection(415, f'the content encoding must be identity, not "{content_encoding[:80]}"')
        return None

    def _broken(self, call: AdmissionCall) -> Reply:
        LOGGER.exception("internal error")
        return self.rejected(call.hook, BROKEN, client=call.client)


class _WithoutNames:
    """Returns a configuration in which requesters may see no names; cached for the last configuration."""

    def __init__(self) -> None:
        self._last: tuple[Config | None, Config | None] = (None, None)

    def __call__(self, config: Config) -> Config:
        source, without_names = self._last
        if source is not config or without_names is None:
            without_names = config._replace(disclose=Disclose.COUNTS, disclose_to=DiscloseTo(()))
            self._last = config, without_names
        return without_names


class PredictionJob(NamedTuple):
    """A request for a prediction process, with the state of its evaluation.

    `at`: the deadline (monotonic clock). `staleness`: see `Time`. `carried`: the annotation that `/mutate`
    wrote; None if unknown. `live`: see `ReviewContext`. `shown`: how much of the prediction the requester may see.
    `admitted`: recently admitted objects whose Pods are not in the cluster state yet.
    """

    call: AdmissionCall
    at: float
    staleness: str
    carried: str | None
    live: prediction_access.LiveRead | None = None
    shown: Shown = EXACT
    admitted: tuple[Admitted, ...] = ()


_ATTEMPT_SECONDS: Final = {Cost.RULES: 0.025, Cost.POD: 0.025, Cost.PODS: 0.004}
"""CPU seconds of a prediction on the evaluating thread; a longer prediction continues in a prediction process. A single
Pod gets more time, because its prediction may update data that all predictions share.
"""
_UPKEEP_SECONDS: Final = 0.01
"""CPU seconds to update data that all predictions share, before a prediction."""
_MIN_SECONDS: Final = 0.02
"""Minimum remaining seconds with which a prediction process is used."""
_STALE_SECONDS: Final = 0.3
"""Seconds that a prediction process has for its response after its deadline, if the API server waits that long: on a
busy machine, the process waits for a CPU before it can stop.
"""


class _Attempted(NamedTuple):
    """The decision of an attempt on the evaluating thread. `used_up`: whether its time limit stopped the prediction."""

    decision: Decision
    used_up: bool


@dataclass(slots=True)
class Evaluation:
    """One request that needs an evaluation.

    `request` has no objects (`is_stripped`) if the body is large: an evaluation parses the body again when its turn
    comes. `first`: the result of the attempt that ran while a large body was parsed. `staleness`: see `Time`. `key`:
    the key in the answer cache; None if the response must not be cached. `live`: see `ReviewContext`.
    """

    services: Endpoint
    call: AdmissionCall
    request: AdmissionRequest
    started: float
    deadline: Deadline
    cost: Cost
    cluster: ClusterSnapshot | None
    config: Config
    staleness: str
    key: Key | None
    grant: Grant
    access: prediction_access.RequestAccess
    admitted: tuple[Admitted, ...] = ()
    live: prediction_access.LiveRead | None = None
    first: _Attempted | None = None

    async def reply(self, run: Run) -> Reply:
        """Return the response. `run`: runs a step, and returns its result."""
        services, request = self.services, self.request
        decision = await self._evaluated(run)
        if not isinstance(decision, str) and decision.unconfirmed and services.confirm is not None:
            read = partial(prediction_access.read_classes, services.confirm, self.deadline.expired)
            self.live = await run(Step(read, Where.REQUEST))
            decision = await self._evaluated(run)
        if isinstance(decision, str):
            return services.not_evaluated(self.call, decision)
        if decision.withholds:
            may_read = services.reviews.cached_answer(request.user) if services.reviews else False
            if may_read is None:
                seconds = self.deadline.seconds()
                may_read = await run(Step(self._may_read, Where.REQUEST, self.cost, lambda: False, seconds))
            decision = unredacted(request, decision) if may_read else replace(decision, withholds=False)
        candidate = default_candidate_of(request, self.call.hook, self.config) if services.reserve else None
        if candidate is None or not needs_reservation(decision):
            return self._finished(decision)
        if not self.grant.covers(*request.resource_parts):
            return services.rejected(self.call.hook, UNKNOWN_CALLER, client=self.call.client, name=request.name)
        reserved = await run(Step(partial(self._reserved, candidate, decision), Where.REQUEST))
        if isinstance(reserved, str):
            return services.rejected(self.call.hook, NOT_RESERVED, why=reserved, client=self.call.client)
        return self._finished(reserved, keep=False)  # The next request with these bytes must reserve, too.

    def attempt(self, request: AdmissionRequest | None = None) -> _Attempted:
        """Compute the decision on the evaluating thread, with a prediction of at most a few milliseconds.

        `request`: the request with its objects; None: parse the body again if necessary.
        """
        if request is None:
            request = parse_review(self.call.body) if self.request.is_stripped else self.request
        if self.services.predictors is None:
            decision = self._decide(request, self.deadline.expired, self.deadline.expired)
            return _Attempted(decision.cut_short_if(self.deadline.expired()), used_up=False)
        if self._lacks_shared and self.cluster is not None:
            # All predictions share this data; in a forked process, the update would be lost.
            with suppress(CutShort), metered(self._time(_UPKEEP_SECONDS).expired):
                self.cluster.prepare()
        attempt = self._time(_ATTEMPT_SECONDS[self.cost])
        decision = self._decide(request, attempt.expired, lambda: attempt.used_up).cut_short_if(attempt.used_up)
        return _Attempted(decision, attempt.used_up)

    @property
    def _lacks_shared(self) -> bool:
        """Report whether a prediction must first update data that all predictions share."""
        return self.cost is not Cost.RULES and self.cluster is not None and not self.cluster.is_prepared

    async def _evaluated(self, run: Run) -> Decision | str:
        """Return the decision, with a complete prediction if time allows; a string gives the reason why forewarn
        cannot evaluate the request.
        """
        attempted = self.first or await self._attempted(run)
        self.first = None
        while self.access.to_ask:
            ask = partial(self.access.ask, self.deadline.expired)
            await run(Step(ask, Where.REQUEST, self.cost, self.access.go_on, self.deadline.seconds()))
            attempted = await self._attempted(run)
        left, decision = self.deadline.seconds(), attempted.decision
        if not attempted.used_up or left < _MIN_SECONDS:
            return decision
        carried = self.services.memory.recent(self.request.subject)
        predict = partial(self._predicted, decision, carried, self.access.settle(self.request.subject), monotonic())
        skipped = replace(decision, outcome=decision.outcome and Outcome.SKIPPED)
        return await run(Step(predict, Where.PREDICT, self.cost, lambda: skipped, left))

    async def _attempted(self, run: Run) -> _Attempted:
        return await run(Step(self.attempt, cost=self.cost, holds_up=len(self.call.body) > MAX_QUICK))

    def _time(self, seconds: float) -> Attempt:
        return Attempt(seconds, self.deadline, lambda: self.services.give_way(self.cost))

    def _decide(
        self, full_request: AdmissionRequest, expired: Callable[[], bool], was_up: Callable[[], bool]
    ) -> Decision:
        """Return the decision. `was_up`: returns whether `expired` has been true; predictions are then not cached."""
        services = self.services
        arriving = services.arriving(self.cluster, self.admitted, expired)
        impacts = partial(services.impacts.impact_of, time_is_up=was_up, is_last=self.call.hook is Hook.VALIDATE)
        review = prediction_access.ReviewContext(
            request=full_request,
            hook=self.call.hook,
            cluster=arriving.cluster,
            config=self.config,
            time=prediction_access.Time(datetime.now(UTC), expired, self.staleness, monotonic),
            live=self.live,
            recall=services.memory.recall,
            impacts=partial(self.access.recall, impacts),
            shown=self.access.shown,
        )
        return evaluate_review(review).audited(NOT_COUNTED, arriving.not_counted)

    def _predicted(self, cut: Decision, carried: str | None, shown: Shown, since: float) -> Decision | str:
        """Return the decision of a prediction process: `cut` (the incomplete decision) if there is no answer, a string
        if the evaluation failed.

        `carried`: the annotation that `/mutate` wrote. `since`: when the request began to wait for the process.
        """
        services, call = self.services, self.call
        assert services.predictors is not None
        services.metrics.prediction_queue_duration.observe(monotonic() - since)
        latest = Deadline.after(call.received, parse_timeout(call.timeout)).at
        until = max(self.deadline.at, min(latest, self.deadline.at + _STALE_SECONDS))
        job = PredictionJob(call, self.deadline.at, self.staleness, carried, self.live, shown, self.admitted)
        state = (self.cluster, self.config)
        try:
            answer: Decision | str = services.predictors.ask(job, until, state, services.frozen(*state).predict)
        except prediction_access.Unanswered as fault:
            log_event("prediction abandoned", {"uid": self.request.uid, "reason": str(fault)}, logging.WARNING)
            return cut
        return answer

    def _may_read(self) -> bool:
        """Report whether an access review allows the requester to read all names."""
        assert self.services.reviews is not None
        return not self.deadline.expired() and self.services.reviews.ask(self.request.user)

    def _reserved(self, candidate: DefaultCandidate, decision: Decision) -> Decision | str:
        """Reserve the global default; return the decision, or a string if the API server does not answer."""
        assert self.services.reserve is not None
        try:
            why = self.services.reserve(candidate, self.deadline.seconds())
        except OSError as error:
            return str(error)
        return deny_default(self.request, decision, why) if why else decision

    def _finished(self, decision: Decision, *, keep: bool = True) -> Reply:
        """Record the decision, and build the response. `keep`: whether the answer cache may store the response."""
        services = self.services
        if decision.outcome:
            services.metrics.prediction_duration.observe(decision.predicting)
            services.metrics.count(services.metrics.predictions, decision.outcome)
            if services.expect and decision.response.allowed and not self.request.dry_run:
                services.expect(decision.expected, self.started)
        is_real = decision.response.allowed and not (self.request.dry_run or self.grant.is_shown)
        if decision.brings and is_real:
            subject = subject_of(self.request, self.cluster, self.config)
            if subject is not None:
                services.admitted_pods.note(subject, self.request.user.name, decision.brings, len(self.call.body))
        if decision.written is not None:
            services.memory.note(decision.written)
        decision = services.patience.with_limited_warnings(self.request, decision, self.config)
        if self.grant.is_shown:
            decision = replace(decision, response=replace(decision.response, audit={}))
        answered = Answered.from_decision(decision)
        if keep and self.key is not None and not (self.live or decision.unconfirmed or decision.is_cut_short):
            services.answers.put(self.key, (self.cluster, self.config), answered)
        return services.respond(self.call.hook, self.request, answered, self.started)


_MAX_SECONDS: Final = {Cost.RULES: 30.0, Cost.POD: 1.0, Cost.PODS: 3.0}
"""Maximum seconds for a prediction, whatever the API server's timeout is: a user waits for `kubectl apply`."""


@lru_cache(maxsize=64)
def _passed(exemption: str) -> Answered:
    """Return the cached response for an exemption, without a uid."""
    return Answered.from_decision(passed("", exemption))
