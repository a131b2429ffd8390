"""Admission requests, from the bytes of a request to the bytes of its response.

A response to an AdmissionReview has HTTP status 200; any other response is a metav1.Status. An internal error has
status 500 and never `allowed: false`, so `failurePolicy` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.copies import replace
from forewarn.policies.metering import CutShort, metered
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.admission import replies
from forewarn.webhook.admission.admitted_pods import AUDIT_KEY as NOT_COUNTED
from forewarn.webhook.admission.admitted_pods import Admitted, key_of_object
from forewarn.webhook.admission.answer_cache import Answered, Key, key_of
from forewarn.webhook.admission.decide import evaluate_review, exemption_of, subject_of
from forewarn.webhook.admission.decision import Decision, in_full, passed
from forewarn.webhook.admission.global_default import default_candidate_of, deny_default, needs_reservation
from forewarn.webhook.admission.impact_annotation import cost_of
from forewarn.webhook.admission.lanes import Attempt, Cost, Deadline, Guard, Step, Steps, Where, advance, parse_timeout
from forewarn.webhook.admission.prediction_access import (
    PredictionAccess,
    RequestAccess,
    ReviewContext,
    Time,
    Unanswered,
    given,
)
from forewarn.webhook.admission.review import (
    MAX_DECODED,
    MAX_QUICK,
    MAX_SMALL,
    BadReview,
    Hook,
    TooDeep,
    decoded_size,
    parse_review,
)
from forewarn.webhook.admission.services import PredictionJob, Services
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.policies.disclosure import Shown
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.webhook.admission.global_default import DefaultCandidate
    from forewarn.webhook.admission.review import AdmissionCall, AdmissionRequest, Grant


_ATTEMPT_SECONDS: Final = {Cost.RULES: 0.025, Cost.POD: 0.025, Cost.PODS: 0.004}
"""CPU time of a prediction on the evaluating thread; a longer prediction continues in a prediction process.

A single Pod gets more time, because its prediction may update data that all predictions share.
"""
_SHORT_SECONDS: Final = 0.003
"""CPU time of a prediction on the event loop; a longer prediction starts again on the evaluating thread."""
_UPKEEP_SECONDS: Final = 0.01
"""CPU time to update data that all predictions share, before a prediction."""
_LEAST_SECONDS: Final = 0.02
"""Minimum remaining seconds for using a prediction process."""
_STALE_SECONDS: Final = 0.3
"""Time for the response of a prediction process after its deadline, if the API server waits that long: on a busy
machine the process has to wait for a CPU before it can stop."""


class _Attempted(NamedTuple):
    """The decision of an attempt on the evaluating thread. `used_up`: the attempt's time limit stopped the
    prediction.
    """

    decision: Decision
    used_up: bool


@dataclass(slots=True)
class Evaluation:
    """One request that needs an evaluation.

    `request` has no objects (`is_stripped`) if the body is large: an evaluation parses the body again when its turn
    is there. `first`: the result of the attempt that ran while a large body was parsed. `staleness`: see
    `Time`. `key`: of the answer cache; None if the response must not be cached.
    """

    services: Services
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
    access: RequestAccess
    admitted: tuple[Admitted, ...] = ()
    confirmed: bool = False
    classes: Mapping[str, PriorityClass] | None = None
    first: _Attempted | None = None

    def steps(self) -> Steps[replies.Reply]:
        """The steps of the evaluation, up to the response."""
        services, request = self.services, self.request
        decision = yield from self._evaluated()
        if not isinstance(decision, str) and decision.unconfirmed and services.confirm is not None:
            self.classes = yield Step(self._live_classes, Where.REQUEST)
            self.confirmed = True
            decision = yield from self._evaluated()
        if isinstance(decision, str):
            return services.not_evaluated(self.call, decision)
        if decision.withholds:
            may_read = services.reviews.known(request.user) if services.reviews else False
            if may_read is None:
                seconds = self.deadline.seconds()
                may_read = yield Step(self._may_read, Where.REQUEST, self.cost, lambda: False, seconds)
            decision = in_full(request, decision) if may_read else replace(decision, withholds=False)
        candidate = default_candidate_of(request, self.call.hook, self.config) if services.reserve else None
        if candidate is None or not needs_reservation(decision):
            return self._finished(decision)
        if not self.grant.covers(*request.resource_parts):
            return services.rejected(self.call.hook, replies.UNKNOWN_CALLER, client=self.call.client, name=request.name)
        reserved = yield Step(partial(self._reserved, candidate, decision), Where.REQUEST)
        if isinstance(reserved, str):
            return services.rejected(self.call.hook, replies.NOT_RESERVED, why=reserved, client=self.call.client)
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
            self._update_shared(self.cluster)
        return self._attempt(request, self._time(_ATTEMPT_SECONDS[self.cost]))

    def _short_attempt(self) -> _Attempted:
        """Compute the decision on the event loop, with a very short prediction."""
        return self._attempt(self.request, Attempt(_SHORT_SECONDS, self.deadline))

    def _attempt(self, request: AdmissionRequest, attempt: Attempt) -> _Attempted:
        decision = self._decide(request, attempt.expired, lambda: attempt.used_up).cut_short_if(attempt.used_up)
        return _Attempted(decision, attempt.used_up)

    @property
    def _lacks_shared(self) -> bool:
        """Whether a prediction must first update data that all predictions share."""
        return self.cost is not Cost.RULES and self.cluster is not None and not self.cluster.is_prepared

    def _evaluated(self) -> Steps[Decision | str]:
        """Yield the steps to the decision, with a complete prediction if time allows.

        A returned string is the reason why forewarn cannot evaluate the request.
        """
        attempted = self.first or (yield from self._attempted())
        self.first = None
        while self.access.to_ask:
            ask = partial(self.access.ask, self.deadline.expired)
            yield Step(ask, Where.REQUEST, self.cost, self.access.go_on, self.deadline.seconds())
            attempted = yield from self._attempted()
        left, decision = self.deadline.seconds(), attempted.decision
        if not attempted.used_up or left < _LEAST_SECONDS:
            return decision
        carried = self.services.memory.recent(self.request.subject)
        predict = partial(self._predicted, decision, carried, self.access.settle(self.request.subject), monotonic())
        skipped = replace(decision, outcome=decision.outcome and Outcome.SKIPPED)
        predicted: Decision | str = yield Step(predict, Where.PREDICT, self.cost, lambda: skipped, left)
        return predicted

    def _attempted(self) -> Steps[_Attempted]:
        """Yield the steps of an attempt: on the event loop if likely short, otherwise on the evaluating thread."""
        is_short = self.cost is not Cost.PODS and not self._lacks_shared and self.services.predictors is not None
        if is_short and not self.request.is_stripped:
            attempted: _Attempted = yield Step(self._short_attempt, Where.LOOP, self.cost)
            if not attempted.used_up or self.deadline.expired():
                return attempted
        attempted = yield Step(self.attempt, cost=self.cost, holds_up=len(self.call.body) > MAX_QUICK)
        return attempted

    def _time(self, seconds: float) -> Attempt:
        return Attempt(seconds, self.deadline, lambda: self.services.give_way(self.cost))

    def _update_shared(self, cluster: ClusterSnapshot) -> None:
        """Update data that all predictions share; in a forked process, the update would be lost."""
        with suppress(CutShort), metered(self._time(_UPKEEP_SECONDS).expired):
            cluster.prepare()

    def _decide(
        self, full_request: AdmissionRequest, expired: Callable[[], bool], was_up: Callable[[], bool]
    ) -> Decision:
        """Return the decision. `was_up`: whether `expired` has been true; predictions are then not cached."""
        services = self.services
        arriving = services.arriving(self.cluster, self.admitted, expired)
        review = ReviewContext(
            request=full_request,
            hook=self.call.hook,
            cluster=arriving.cluster,
            config=self.config,
            time=Time(datetime.now(UTC), expired, self.staleness, monotonic),
            confirm=partial(given, self.classes) if self.confirmed else None,
            recall=services.memory.recall,
            impacts=self.access.recalling(
                partial(services.impacts.of, time_is_up=was_up, is_last=self.call.hook is Hook.VALIDATE)
            ),
            shown=self.access.shown,
        )
        return evaluate_review(review).audited(NOT_COUNTED, arriving.not_counted)

    def _predicted(self, cut: Decision, carried: str | None, shown: Shown, since: float) -> Decision | str:
        """Return the decision of a prediction process: `cut` (the incomplete decision) without an answer, a string if
        the evaluation failed.

        `carried`: the annotation that `/mutate` wrote. `since`: when the request began to wait for the process.
        """
        services, call = self.services, self.call
        assert services.predictors is not None
        services.metrics.prediction_queue_duration.observe(monotonic() - since)
        latest = Deadline.after(call.received, parse_timeout(call.timeout)).at
        until = max(self.deadline.at, min(latest, self.deadline.at + _STALE_SECONDS))
        job = PredictionJob(
            call, self.deadline.at, self.staleness, carried, self.confirmed, self.classes, shown, self.admitted
        )
        state = (self.cluster, self.config)
        try:
            answer: Decision | str = services.predictors.ask(job, until, state, services.frozen(*state).predict)
        except Unanswered as fault:
            log_event("prediction abandoned", {"uid": self.request.uid, "reason": str(fault)}, logging.WARNING)
            return cut
        return answer

    def _live_classes(self) -> Mapping[str, PriorityClass] | None:
        """The PriorityClasses from the API server; None without an answer."""
        assert self.services.confirm is not None
        try:
            return None if self.deadline.expired() else self.services.confirm()
        except OSError:
            return None

    def _may_read(self) -> bool:
        """True if an access review allows the requester to read all names."""
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

    def _finished(self, decision: Decision, *, keep: bool = True) -> replies.Reply:
        """Record the decision, and build the response. `keep`: the answer cache may store the response."""
        services = self.services
        services.count_prediction(decision)
        services.remember(self.request, decision, self.started)
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
        answered = Answered.of(decision)
        if keep and self.key is not None and not (self.confirmed or decision.unconfirmed or decision.is_cut_short):
            services.answers.put(self.key, (self.cluster, self.config), answered)
        return services.respond(self.call.hook, self.request, answered, self.started)


_MAX_SECONDS: Final = {Cost.RULES: 30.0, Cost.POD: 1.0, Cost.PODS: 3.0}
"""Maximum seconds for a prediction, even with a longer API server timeout: a user waits for `kubectl apply`."""


@dataclass(frozen=True, slots=True)
class Endpoint(Services):
    """Answers admission requests: parses, authenticates and classifies a request; webhook.admission.endpoint does
    the rest.
    """

    def answer(self, call: AdmissionCall) -> replies.Reply | Step:
        """The response, or the next step towards it. Never raises."""
        guard = partial(self._guarded, call)
        return guard(partial(self._begun, call, guard))

    def _begun(self, call: AdmissionCall, guard: Guard) -> replies.Reply | Step:
        if len(call.body) > MAX_SMALL:
            return advance(self._of_large(call), guard)
        parsed = self._parsed(call)
        return parsed if isinstance(parsed, replies.Reply) else advance(parsed.steps(), guard)

    def _of_large(self, call: AdmissionCall) -> Steps[replies.Reply]:
        # Parse on the evaluating thread, in turn.
        yield Step(lambda: None, cost=Cost.PODS, holds_up=len(call.body) > MAX_QUICK)
        if Deadline.after(call.received, parse_timeout(call.timeout)).expired():
            return self.not_evaluated(call, replies.NO_TIME)
        parsed = self._parsed(call)
        return parsed if isinstance(parsed, replies.Reply) else (yield from parsed.steps())

    def _parsed(self, call: AdmissionCall) -> replies.Reply | Evaluation:
        """The response if the request needs no evaluation; otherwise the evaluation.

        Evaluates a large request immediately, so that only one request at a time has its large objects in memory.
        """
        started = monotonic()
        if decoded_size(call.body) > MAX_DECODED:
            return self.not_evaluated(call, replies.TOO_LONG)
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
            return grant, None, config
        return grant, cluster, self.without_names(config) if grant.is_shown else config

    def _access(self, hook: Hook, request: AdmissionRequest, config: Config) -> RequestAccess:
        """The access of the requester to predictions, for one request."""
        count = partial(self.metrics.count, self.metrics.predictions_shown)
        shared = PredictionAccess(self.budget, count, self.reviews)
        return RequestAccess(shared, request, config, annotates=hook is Hook.MUTATE)

    def _admitted(
        self, request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config
    ) -> tuple[Admitted, ...]:
        """Recently admitted objects whose Pods count for this request."""
        if cluster is None or not self.admitted_pods:
            return ()
        subject = subject_of(request, cluster, config)
        if subject is None:
            return ()
        return self.admitted_pods.of(request.user.name, key_of_object(subject), cluster)

    def unsupported_headers(self, content_type: str, content_encoding: str) -> replies.Reply | None:
        """Return the rejection of invalid headers, or None. A missing content type counts as JSON."""
        if content_type.partition(";")[0].strip().lower() not in ("", "application/json"):
            return replies.rejection(415, f'the content type must be application/json, not "{content_type[:80]}"')
        if content_encoding.lower() not in ("", "identity"):
            return replies.rejection(415, f'the content encoding must be identity, not "{content_encoding[:80]}"')
        return None

    def _guarded(self, call: AdmissionCall, run: Callable[[], replies.Reply | Step]) -> replies.Reply | Step:
        """Run a function; turn each exception into a reply."""
        try:
            return run()
        except (TooDeep, RecursionError):
            return self.not_evaluated(call, replies.TOO_DEEP)
        except BadReview as fault:
            is_known, why = self.callers.are_known(call.tokens), str(fault)
            return self.rejected(call.hook, replies.rejection(400, why), known=is_known, why=why, client=call.client)
        except Exception:
            return self._broken(call)

    def _broken(self, call: AdmissionCall) -> replies.Reply:
        LOGGER.exception("internal error")
        return self.rejected(call.hook, replies.BROKEN, client=call.client)


@lru_cache(maxsize=64)
def _passed(exemption: str) -> Answered:
    """The cached response for an exemption, without a uid."""
    return Answered.of(passed("", exemption))
