"""The services that the evaluation of a request uses, and the responses to a request."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from threading import Lock
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from forewarn.policies.config import Config, RepeatedWarnings
from forewarn.policies.config.model import DiscloseTo
from forewarn.policies.copies import replace
from forewarn.policies.disclosure import EXACT, Disclose, Shown
from forewarn.policies.documents import Hidden, in_json, to_dict
from forewarn.policies.findings import Action, Finding, Severity, Text, cut, one_line
from forewarn.policies.objects.fields import at
from forewarn.webhook.admission import impact_annotation, replies
from forewarn.webhook.admission.admitted_pods import AUDIT_KEY as NOT_COUNTED
from forewarn.webhook.admission.admitted_pods import Admitted, AdmittedPods, Arriving
from forewarn.webhook.admission.answer_cache import AnswerCache, Answered
from forewarn.webhook.admission.decide import decide, decide_unread
from forewarn.webhook.admission.decision import (
    BEST,
    MAX_WARNINGS,
    audit_of,
    name_of,
    shortened,
    warnings_of,
    worst_first,
)
from forewarn.webhook.admission.impact_annotation import Impacts, ReinvocationCache
from forewarn.webhook.admission.lanes import Cost, Deadline
from forewarn.webhook.admission.prediction_access import PredictionBudget, ReviewContext, Time, given
from forewarn.webhook.admission.review import (
    EVERYBODY,
    HEAD,
    BadReview,
    Callers,
    Hook,
    parse_head,
    parse_review,
    with_uid,
)
from forewarn.webhook.logs import LOGGER, MAX_TEXT, RareEvents, log_event
from forewarn.webhook.metrics import KINDS, OTHER, Metrics

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.webhook.accuracy import Expectation
    from forewarn.webhook.admission.access_reviews import AccessReviews
    from forewarn.webhook.admission.decision import Decision
    from forewarn.webhook.admission.global_default import Reserve
    from forewarn.webhook.admission.prediction_access import Confirm, Predictors
    from forewarn.webhook.admission.replies import Gate
    from forewarn.webhook.admission.review import AdmissionCall, AdmissionRequest
    from forewarn.webhook.workload_accuracy import WorkloadExpectation

MAX_DECISIONS: Final = 500
_MAX_RESPONSE: Final = 16 * 1024
"""Bytes of a stored response with its full texts; the texts of a larger one are not shown."""


class RecentDecision(NamedTuple):
    """A decision of the webhook. `at`: seconds since 1970. `resource`: group, version and name.

    Without the permission to list everything, `user` is null, and `rules`, `messages` and `withheld` are empty.
    `withheld`: full texts that the requester did not see.
    """

    at: float
    resource: Sequence[str]
    kind: str
    namespace: str
    name: str
    operation: str
    user: str | None
    dry_run: bool
    verdict: str
    rules: Mapping[str, str]
    withheld: Sequence[str]
    response: Hidden[bytes]

    @in_json
    def messages(self) -> Sequence[str]:
        """Warnings, or the reason of a denial."""
        response = json.loads(self.response) if self.response else {}
        denial = at(response, "status", "message")
        return [*response.get("warnings", ()), *([denial] if denial else ())]


class RecentDecisions:
    """Safe from any thread. `clock`: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._decided: deque[RecentDecision] = deque(maxlen=MAX_DECISIONS)

    def add(self, hook: Hook, request: AdmissionRequest, answered: Answered) -> None:
        """Store a decision. Ignores exempt requests, and admissions of `/mutate`: `/validate` follows."""
        if answered.verdict == "exempt" or (hook is not Hook.VALIDATE and answered.verdict != "denied"):
            return
        resource = request.resource
        size = len(answered.body) + sum(len(text) for _, text in answered.withheld)
        has_texts = size <= _MAX_RESPONSE
        self._decided.append(
            RecentDecision(
                self._clock(),
                (cut(resource.group, MAX_TEXT), cut(resource.version, MAX_TEXT), cut(resource.resource, MAX_TEXT)),
                cut(request.kind.kind, MAX_TEXT),
                cut(request.namespace, MAX_TEXT),
                cut(request.name, MAX_TEXT),
                request.operation.value,
                cut(request.user.name, MAX_TEXT),
                request.dry_run,
                answered.verdict,
                dict(answered.findings),
                [text for _, text in answered.withheld] if has_texts else (),
                answered.body if has_texts else b"",
            )
        )

    def table(self) -> list[dict[str, Any]]:
        """The decisions as JSON data, newest first."""
        return [to_dict(item) for item in reversed(list(self._decided))]


SECONDS: Final = 60.0
FULL: Final = 3
"""The number of full warnings for one rule and user within SECONDS; short ones follow."""
TOGETHER: Final = 10.0
"""Seconds in which two requests of a user belong together."""
REMEMBERED: Final = 4096
"""Maximum number of users, and of pairs of user and rule, about 500 bytes each; the least recently used is dropped."""
_REJECTED_OR_PENDING: Final = frozenset({"fits-nowhere", "system-class-blocked-by-quota"})
"""Rules about Pods that will not run, although their findings are not errors."""


_Value = TypeVar("_Value")


class WarningCount(NamedTuple):
    """The times of the latest full warnings within SECONDS, and the number of short warnings since the first one."""

    times: tuple[float, ...] = ()
    shortened: int = 0

    def next(self, now: float) -> WarningCount:
        """The counts after one more warning. Short warnings do not extend the time."""
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
        """Count a warning; return 0 to show it in full, or the number of short ones in a row. Dry runs count apart."""
        key = _digest(rule, str(dry_run), user)
        with self._lock:
            count = self._counts.pop(key, WarningCount()).next(self._clock())
            _remember(self._counts, key, count)
        return count.shortened

    def is_one_of_several(self, request: AdmissionRequest) -> bool:
        """Record the request, and return whether its user changed another object in the seconds before."""
        user, changed = _digest(request.user.name), _digest(*request.resource, request.namespace, request.name)
        with self._lock:
            now = self._clock()
            last = self._requests.pop(user, _LastRequest(changed, now, now - TOGETHER))
            of_another = last.of_another if last.object == changed else last.time
            _remember(self._requests, user, _LastRequest(changed, now, of_another))
        return now - of_another < TOGETHER

    def with_limited_warnings(self, request: AdmissionRequest, decision: Decision, config: Config) -> Decision:
        """Return the decision with warnings named and shortened, by the recent requests of the user."""
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
    """Whether Pods of the object will be rejected or stay Pending, or the object is invalid."""
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

    `count`: the user's short warnings within SECONDS. `annotated`: forewarn writes the impact annotation on the object.
    """
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    is_predicted = annotated and any(rule in impact_annotation.ABOUT_PREDICTIONS for rule in rules)
    how = "see annotation" if is_predicted else "see forewarn lint"
    tail = f" ({count} shortened; {how})"
    worst = findings[0].as_shown
    text, name = worst.text, name_of(worst)
    versions = tuple(f"{name}{version}" for version in text.shorter)
    named = Text(f"{name}{one_line(text.problem)}", shorter=versions)
    return f"{shortened(named, BEST - len(tail))}{tail} [{', '.join(rules[:MAX_WARNINGS])}]"


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
        """Return the services with this state and configuration fixed, for a prediction process."""
        return dataclasses.replace(self, cluster=lambda: cluster, config=lambda: config)

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
            return replies.TOO_DEEP

    def rejected(self, hook: Hook, reply: replies.Reply, *, known: bool = False, **fields: object) -> replies.Reply:
        """Count and log a response without an AdmissionReview, and return the response.

        `known`: the caller is an API server. `fields`: more fields of the log line.
        """
        self.metrics.count(self.metrics.requests, hook.value, OTHER, OTHER, str(reply.status))
        reason = replies.reason_of(reply)
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

    def not_evaluated(self, call: AdmissionCall, why: str) -> replies.Reply:
        """Return the response to a review that forewarn cannot evaluate: a denial if a rule could deny the request.

        With an HTTP error, `failurePolicy: Ignore` would admit the request. `call.body` may have only the first
        bytes.
        """
        started, grant = monotonic(), self.callers.grant(call.tokens)
        try:
            request = parse_head(call.body[:HEAD])
        except BadReview as fault:
            reply = {replies.TOO_LONG: replies.TOO_LARGE, replies.NOT_IN_TIME: replies.TOO_SLOW}.get(
                why
            ) or replies.rejection(400, str(fault))
            is_known = self.callers.are_known(call.tokens)
            return self.rejected(call.hook, reply, known=is_known, why=why, client=call.client)
        cluster = self.cluster() if grant.covers(*request.resource_parts) else None
        decision = decide_unread(request, call.hook, cluster, self.config(), datetime.now(UTC), why)
        return self.respond(call.hook, request, Answered.of(decision), started)

    def count_prediction(self, decision: Decision) -> None:
        """Count the prediction of a decision, if it has one."""
        if decision.outcome:
            self.metrics.prediction_duration.observe(decision.predicting)
            self.metrics.count(self.metrics.predictions, decision.outcome)

    def remember(self, request: AdmissionRequest, decision: Decision, started: float) -> None:
        """Report an admitted object's prediction to `expect`, which compares it with kube-scheduler."""
        if self.expect and decision.outcome and decision.response.allowed and not request.dry_run:
            self.expect(decision.expected, started)

    def respond(self, hook: Hook, request: AdmissionRequest, answered: Answered, started: float) -> replies.Reply:
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
        return replies.Reply(200, with_uid(answered.body, request.uid))


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
    wrote; None if unknown. `classes`: the live PriorityClasses if `confirmed`; None without an answer. `shown`: how
    much of the prediction the requester may see. `admitted`: recently admitted objects whose Pods are not in the
    cluster state yet.
    """

    call: AdmissionCall
    at: float
    staleness: str
    carried: str | None
    confirmed: bool = False
    classes: Mapping[str, PriorityClass] | None = None
    shown: Shown = EXACT
    admitted: tuple[Admitted, ...] = ()
