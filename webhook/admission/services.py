"""The services that the evaluation of a request uses, and the responses to a request."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.policies.config.model import DiscloseTo
from forewarn.policies.disclosure import Disclose
from forewarn.webhook.admission.admitted_pods import AUDIT_KEY as NOT_COUNTED
from forewarn.webhook.admission.admitted_pods import AdmittedPods, Arriving
from forewarn.webhook.admission.answer_cache import AnswerCache, Answered
from forewarn.webhook.admission.call import Hook
from forewarn.webhook.admission.callers import EVERYBODY, Callers
from forewarn.webhook.admission.context import ReviewContext, Time, given
from forewarn.webhook.admission.deadlines import Deadline
from forewarn.webhook.admission.decide import decide, decide_unread
from forewarn.webhook.admission.impact_annotation import Impacts, ReinvocationCache
from forewarn.webhook.admission.prediction_budget import PredictionBudget
from forewarn.webhook.admission.repeated_warnings import WarningLimiter
from forewarn.webhook.admission.replies import (
    NOT_IN_TIME,
    TOO_DEEP,
    TOO_LARGE,
    TOO_LONG,
    TOO_SLOW,
    Reply,
    reason_of,
    rejection,
)
from forewarn.webhook.admission.review import BadReview, parse_head, parse_review, with_uid
from forewarn.webhook.admission.sizes import HEAD
from forewarn.webhook.logs import LOGGER, RareEvents, log_event
from forewarn.webhook.metrics import KINDS, OTHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.webhook.admission.access_reviews import AccessReviews
    from forewarn.webhook.admission.admitted_pods import Admitted
    from forewarn.webhook.admission.call import AdmissionCall
    from forewarn.webhook.admission.context import Confirm
    from forewarn.webhook.admission.decision import Decision
    from forewarn.webhook.admission.gate import Gate
    from forewarn.webhook.admission.global_default import Reserve
    from forewarn.webhook.admission.lanes import Cost
    from forewarn.webhook.admission.prediction_job import PredictionJob
    from forewarn.webhook.admission.prediction_process import Predictors
    from forewarn.webhook.admission.review import AdmissionRequest
    from forewarn.webhook.expectations import Expectation
    from forewarn.webhook.metrics import Metrics
    from forewarn.webhook.workload_expectations import WorkloadExpectation

_MILLISECONDS: Final = 1_000.0


def ignore(hook: Hook, request: AdmissionRequest, answered: Answered) -> None:
    """Store nothing of a decision: the default without the operators' pages."""


@dataclass(frozen=True, slots=True)
class Services:
    """The state, caches, limits and metrics that evaluations use.

    `config`, `cluster`: the current ones. `confirm`: reads the live PriorityClasses. `reserve`: reserves the global
    default. `staleness`: how old the cluster state is, as a message, if it is too old. `predictors`: prediction
    processes; without them, the evaluating thread completes all predictions. `give_way`: evaluates cheaper requests
    first. `callers`: who may send requests and reserve the global default. `reviews`: what requesters may read.
    `record`: receives each response. `patience`: which warnings to omit. `budget`: how many predictions a requester
    may see. `expect`: receives the predictions about admitted objects, with the start of the request (monotonic
    clock). `admitted_pods`: admitted objects whose Pods are not in the cluster state yet.
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
    record: Callable[[Hook, AdmissionRequest, Answered], object] = ignore
    of_strangers: RareEvents = field(default_factory=RareEvents)
    without_names: Callable[[Config], Config] = field(default_factory=lambda: _WithoutNames())
    budget: PredictionBudget = field(default_factory=lambda: PredictionBudget(monotonic))
    admitted_pods: AdmittedPods = field(default_factory=lambda: AdmittedPods(monotonic))

    def arriving(
        self, cluster: ClusterSnapshot | None, admitted: tuple[Admitted, ...], expired: Callable[[], bool]
    ) -> Arriving:
        """The cluster state with the expected Pods of recently admitted objects."""
        if cluster is None or not admitted:
            return Arriving(cluster)
        return self.admitted_pods.placed(cluster, admitted, self.config().options.pod_template_paths, expired)

    def frozen(self, cluster: ClusterSnapshot | None, config: Config) -> Services:
        """Return the services with this cluster state and configuration instead of the current ones, for a prediction
        process.
        """
        return replace(self, cluster=lambda: cluster, config=lambda: config)

    def predict(self, job: PredictionJob) -> Decision | str:
        """The decision on a request, in a prediction process; a string with the reason if it cannot be evaluated."""
        call, deadline = job.call, Deadline(job.at)
        try:
            arriving = self.arriving(self.cluster(), job.admitted, deadline.expired)
            review = ReviewContext(
                request=parse_review(call.body),
                hook=call.hook,
                cluster=arriving.cluster,
                config=self.config(),
                time=Time(datetime.now(UTC), deadline.expired, job.staleness, monotonic),
                confirm=partial(given, job.classes) if job.confirmed else None,
                recall=lambda _, compute: job.carried or compute(),
                impacts=partial(self.impacts.of, time_is_up=deadline.expired, is_last=call.hook is Hook.VALIDATE),
                shown=lambda: job.shown,
            )
            decision = decide(review).audited(NOT_COUNTED, arriving.not_counted)
            return decision.cut_short_if(deadline.expired()).plain()
        except RecursionError:
            return TOO_DEEP

    def rejected(self, hook: Hook, reply: Reply, *, known: bool = False, **fields: object) -> Reply:
        """Count and log a response without an AdmissionReview, and return the response.

        `known`: the caller is an API server. `fields`: more fields of the log line.
        """
        verdict = str(reply.status)
        self.metrics.count(self.metrics.requests, hook.value, OTHER, OTHER, verdict)
        reason = reason_of(reply)
        self.metrics.reject(reason)
        if known and reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self.metrics.count(self.metrics.rejected_api_servers, reason)
        present = {name: value for name, value in fields.items() if value}
        event = {"phase": hook.value, "status": reply.status, **present}
        if known:
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
            known = self.callers.are_known(call.tokens)
            return self.rejected(call.hook, reply, known=known, why=why, client=call.client)
        cluster = self.cluster() if grant.covers(*request.resource_parts) else None
        decision = decide_unread(request, call.hook, cluster, self.config(), datetime.now(UTC), why)
        return self.respond(call.hook, request, Answered.of(decision), started)

    def count_prediction(self, decision: Decision) -> None:
        """Count the prediction of a decision, if it has one."""
        if decision.outcome:
            self.metrics.prediction_duration.observe(decision.predicting)
            self.metrics.count(self.metrics.predictions, decision.outcome)

    def remember(self, request: AdmissionRequest, decision: Decision, started: float) -> None:
        """Report the prediction about an admitted object to `expect`, which compares it with kube-scheduler's
        decisions.
        """
        if self.expect and decision.outcome and decision.response.allowed and not request.dry_run:
            self.expect(decision.expected, started)

    def respond(self, hook: Hook, request: AdmissionRequest, answered: Answered, started: float) -> Reply:
        """Count and log a response, and build its bytes."""
        seconds = monotonic() - started
        kind = KINDS.get(request.kind.group_kind, OTHER)
        self.metrics.count(self.metrics.requests, hook.value, request.operation.value, kind, answered.verdict)
        self.metrics.took(hook.value, seconds)
        for rule, action in answered.findings:
            self.metrics.count(self.metrics.findings, rule, action)
        self.record(hook, request, answered)
        if LOGGER.isEnabledFor(logging.INFO):
            log_event(
                "decision", {**answered.fields_of(hook, request), "milliseconds": round(seconds * _MILLISECONDS, 3)}
            )
        return Reply(200, with_uid(answered.body, request.uid))


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
