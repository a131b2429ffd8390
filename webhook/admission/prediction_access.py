"""How much of a prediction the readers of a response see, by their permissions and the prediction budget.

forewarn always computes the complete prediction for denials, audit annotations, logs and accuracy.

Warnings and denials are for the requester. All users of the object's namespace can read the annotation, and, in
Events, responses to controllers.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cached_property
from heapq import nsmallest
from io import BufferedReader, RawIOBase
from math import inf
from threading import Lock, RLock, local
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.disclosure import EXACT, Disclose, Shown
from forewarn.policies.base.findings import Action, Finding, Severity, Text
from forewarn.policies.base.forks import limit_memory, without_streams
from forewarn.policies.base.metering import CutShort
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, has_controller
from forewarn.policies.kubernetes.objects.pod import ALL_NAMESPACES, other_namespaces
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject, User
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.webhook.admission.impact_annotation import ABOUT_PREDICTIONS, PREDICTING
from forewarn.webhook.admission.lanes import Cost, Lane, QueueFull, Step, T, Where
from forewarn.webhook.logs import silence

if TYPE_CHECKING:
    from concurrent.futures import Future
    from datetime import datetime

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.linting.config.model import Budget, Config
    from forewarn.policies.linting.rules.support.predictions import Recall
    from forewarn.policies.prediction.forecast.impact import Impact
    from forewarn.webhook.admission.access_reviews import AccessReviews
    from forewarn.webhook.admission.review import AdmissionRequest, Hook


Confirm = Callable[[], Mapping[str, PriorityClass]]
"""Returns the PriorityClasses by name from one live GET to the API server. Raises OSError if the request fails."""

AnnotationLookup = Callable[[ReviewedObject, Callable[[], str | None]], str | None]
"""Returns the impact annotation of an object: a recent one, or the result of the function."""


class LiveRead(NamedTuple):
    """The PriorityClasses from the API server; None if there is no response, or time is up."""

    classes: Mapping[str, PriorityClass] | None


def read_classes(confirm: Confirm, expired: Callable[[], bool]) -> LiveRead:
    """Read the PriorityClasses from the API server."""
    with suppress(OSError):
        return LiveRead(None if expired() else confirm())
    return LiveRead(None)


class Time(NamedTuple):
    """The time of an evaluation (UTC). `expired`: returns whether the time for predictions is used up.

    `staleness`: a message about the age of the cluster state, "" if it is recent enough. `clock`: seconds from any
    start; the default measures nothing.
    """

    now: datetime
    expired: Callable[[], bool]
    staleness: str = ""
    clock: Callable[[], float] = lambda: 0.0


class ReviewContext(NamedTuple):
    """An admission request with the inputs of its decision.

    `cluster`: None if unknown, or if the caller has no token of the webhook. `live`: the PriorityClasses that confirm
    findings that depend on the cache; None before they are read. `recall`: returns the annotation that an earlier call
    of `/mutate` computed for the same object. `impacts`: the cache of predictions. `shown`: how much of a prediction
    the requester may see; called after the prediction.
    """

    request: AdmissionRequest
    hook: Hook
    cluster: ClusterSnapshot | None
    config: Config
    time: Time
    live: LiveRead | None = None
    recall: AnnotationLookup = lambda _, compute: compute()
    impacts: Recall | None = None
    shown: Callable[[], Shown] = lambda: EXACT


MORE_MEMORY: Final = 384 * 1024 * 1024
"""Maximum bytes of memory for a prediction, without the shared memory."""
GRACE_SECONDS: Final = 0.03
"""Seconds after its deadline at which a process without an answer is killed."""
LINGER_SECONDS: Final = 0.5
"""Seconds that a process waits for another request: /validate follows /mutate, and reuses its results."""
_FORK_SECONDS: Final = 1.0
_NICE: Final = 5
"""The niceness of a prediction process, so that the webhook's main process gets the CPU first."""
_INSTANT: Final = 0.001
_MAX_DESCRIPTOR: Final = 1 << 16
"""A number above all open descriptors, whatever the limit is; an old kernel closes all numbers below it one by one."""


class Unanswered(Exception):
    """The error if the prediction process gave no answer; the message contains the reason."""


class _Answers(RawIOBase):
    """The bytes that a socket receives before the time `until` on the monotonic clock; then it raises TimeoutError."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self.until = connection, 0.0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Receive some bytes. `socket.makefile` would limit the time of each read instead of the whole answer."""
        if (left := self.until - monotonic()) <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class PredictionProcess:
    """One forked process, used by one thread."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        """Fork the process. Raises OSError. `run`: computes the answer to a question; both must be picklable."""
        ours, theirs = socket.socketpair()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # about other threads: see `_become_a_process`
                self.pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if self.pid == 0:
            _serve(theirs, run)
        theirs.close()
        self._socket, self._timed = ours, _Answers(ours)
        self._answers = BufferedReader(self._timed)

    def ask(self, question: object, until: float) -> Any:
        """Return the process's answer to a question. `until`: deadline on the monotonic clock. Raises Unanswered."""
        self._timed.until = until + GRACE_SECONDS
        try:
            self._socket.settimeout(max(self._timed.until - monotonic(), _INSTANT))
            self._socket.sendall(pickle.dumps(question, pickle.HIGHEST_PROTOCOL))
            return pickle.load(self._answers)  # the data come from a fork of this process
        except TimeoutError:
            raise Unanswered("timed out") from None
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            why = error if isinstance(error, OSError) else "the process sent no more data"
            raise Unanswered(f"the prediction process exited: {why}") from None

    def end(self) -> None:
        """Kill the process."""
        self._answers.close()
        self._socket.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Predictors:
    """Prediction processes for the current state: at most `processes`, with at most `limit` queued questions.
    Thread-safe.

    `evaluating`: the queue whose thread forks.
    """

    def __init__(self, evaluating: Lane, processes: int = 1, limit: int = 16) -> None:
        self._evaluating = evaluating
        self._local = local()
        self.lane = Lane("prediction", limit, threads=processes, idle=self._end, idle_seconds=LINGER_SECONDS)
        """The queue of questions; its functions may call `ask`."""

    def ask(self, question: object, until: float, state: tuple[object, ...], run: Callable[[Any], Any]) -> Any:
        """Return the answer to a question, from a process that was forked with this state. Raises Unanswered.

        Forks a process if necessary. States are compared by identity. Call only from the threads of `lane`.
        """
        process = self._process(state, run, until)
        try:
            return process.ask(question, until)
        except Unanswered:
            self._end()
            raise

    def _process(self, state: tuple[object, ...], run: Callable[[Any], Any], until: float) -> PredictionProcess:
        current: PredictionProcess | None = getattr(self._local, "process", None)
        if current is not None:
            if all(a is b for a, b in zip(self._local.state, state, strict=True)):
                return current
            self._end()
        if monotonic() >= until:
            raise Unanswered("timed out in the queue")
        process = forked_by(self._evaluating, run)
        self._local.process, self._local.state = process, state
        return process

    def _end(self) -> None:
        process = getattr(self._local, "process", None)
        if process is not None:
            self._local.process = self._local.state = None
            process.end()


def forked_by(evaluating: Lane, run: Callable[[Any], Any], seconds: float = _FORK_SECONDS) -> PredictionProcess:
    """Return a process that the evaluating thread forks between two requests. Raises Unanswered after `seconds`."""
    forked: Future[PredictionProcess] | None = evaluating.submit(Cost.RULES, lambda: PredictionProcess(run))
    if forked is None:
        raise Unanswered("the queue is full")
    try:
        return forked.result(seconds)
    except Exception as error:
        forked.add_done_callback(_end_unused)
        raise Unanswered(f"cannot fork a process: {error}") from error


def _end_unused(forked: Future[PredictionProcess]) -> None:
    """Kill a process that was forked too late for its caller."""
    if not forked.cancelled() and forked.exception() is None:
        forked.result().end()


def _serve(requests: socket.socket, run: Callable[[Any], Any]) -> None:
    """Answer questions until the webhook closes the socket: the main loop of the forked process. Never returns."""
    status = 1
    try:
        _become_a_process(requests.fileno())
        questions = requests.makefile("rb")
        while True:
            requests.sendall(pickle.dumps(run(pickle.load(questions)), pickle.HIGHEST_PROTOCOL))
    except EOFError:
        status = 0
    finally:
        os._exit(status)


def _become_a_process(descriptor: int) -> None:
    """Make the forked process independent: no logs, default signals, and no file descriptor except `descriptor`.

    Otherwise the webhook's connections would stay open after the webhook closes them.
    """
    silence()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    without_streams()
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, _MAX_DESCRIPTOR)
    gc.freeze()  # a collection would copy shared memory pages
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    limit_memory(MORE_MEMORY)
    for attribute in _cached_properties():
        if hasattr(attribute, "lock"):
            attribute.lock = RLock()  # a lock of Python 3.11 that a thread of the parent process may have held


def _cached_properties() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith("forewarn."):
            for classes in list(vars(module).values()):
                if isinstance(classes, type) and classes.__module__ == name:
                    yield from (value for value in vars(classes).values() if isinstance(value, cached_property))


_HOW_MANY: Final = ("replicas", "parallelism", "completions", "suspend", "paused")
"""Fields of a workload that determine the number of its Pods."""


def without_repeats(
    subject: ReviewedObject,
    findings: list[Finding],
    paths: Mapping[str, tuple[str, ...]],
    evaluate: Callable[[ReviewedObject], list[Finding]],
) -> list[Finding]:
    """Return the findings, with warnings that the stored object would also get as audit annotations.

    An update that changes the Pods or their number keeps its warnings, because the update creates Pods. `evaluate`:
    returns the findings about another object. Denials do not change.
    """
    if subject.operation is not Operation.UPDATE or not subject.old:
        return findings
    if all(finding.action is not Action.WARN for finding in findings) or changes_pods(subject, paths):
        return findings
    stood = {_finding_key(finding) for finding in evaluate(subject._replace(object=subject.old))}
    return [
        finding._replace(action=Action.AUDIT)
        if finding.action is Action.WARN and _finding_key(finding) in stood
        else finding
        for finding in findings
    ]


def _finding_key(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.path, finding.message


def changes_pods(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> bool:
    """Report whether the update of a workload changes its Pods or their number."""
    try:
        new, old = pod_template_of(subject.object, paths), pod_template_of(subject.old or {}, paths)
    except InvalidObject:
        return True
    if new is None and old is None:
        return False
    if new is None or old is None or new.object != old.object:
        return True
    return any(at(subject.object, "spec", key) != at(subject.old or {}, "spec", key) for key in _HOW_MANY)


COST: Final = 0.5
"""Cost of one webhook call. Each created or changed object causes two calls, one for each webhook."""
REMEMBERED: Final = 8_192
"""Maximum number of buckets (about 300 bytes each). Above it, the eighth of them that recovers first is removed."""
_HOUR: Final = 3600.0


class Level(IntEnum):
    """The detail of predictions that the budget allows."""

    EXACT = 0
    COARSE = 1
    NOTHING = 2


class _Bucket(NamedTuple):
    """The use of one budget: the shown predictions that have not recovered by the time `at`.

    `full_at`: the time at which the whole budget is available again.
    """

    exact: float = 0.0
    coarse: float = 0.0
    at: float = 0.0
    full_at: float = 0.0

    def recovered(self, budget: Budget, now: float) -> _Bucket:
        """Return the bucket at a later time. Predictions recover evenly over the hour."""
        hours = max(now - self.at, 0.0) / _HOUR
        exact, coarse = self.exact - budget.exact * hours, self.coarse - budget.coarse * hours
        return _Bucket(max(exact, 0.0), max(coarse, 0.0), now, self.full_at)

    def level(self, budget: Budget) -> Level:
        """Return the level that the remaining budget allows."""
        if self.exact + COST <= budget.exact:
            return Level.EXACT
        return Level.COARSE if self.coarse + COST <= budget.coarse else Level.NOTHING

    def charge(self, level: Level, budget: Budget) -> _Bucket:
        """Return the bucket after one more prediction; a coarse one uses the exact budget if its own is used up."""
        takes_exact = level is Level.EXACT or self.coarse + COST > budget.coarse
        exact = min(self.exact + COST * takes_exact, budget.exact)
        coarse = min(self.coarse + COST * (not takes_exact), budget.coarse)
        hours = max(exact / max(budget.exact, 1), coarse / max(budget.coarse, 1))
        return _Bucket(exact, coarse, self.at, self.at + _HOUR * hours)


_FULL: Final = _Bucket()


class PredictionBudget:
    """Token buckets of the prediction budget, by key (user or namespace). Thread-safe.

    Above the maximum number of buckets, the buckets that recover first are removed.
    """

    def __init__(self, clock: Callable[[], float], remembered: int = REMEMBERED) -> None:
        self._clock, self._remembered = clock, remembered
        self._buckets: dict[str, _Bucket] = {}
        self._lock = Lock()

    def level(self, wanted: Mapping[str, Budget]) -> Level:
        """Return the most detailed level that all of these buckets allow. `wanted`: bucket key -> its budget."""
        with self._lock:
            return self._level(self._now(wanted), wanted)

    def take(self, wanted: Mapping[str, Budget]) -> Level:
        """Take a prediction from these buckets; return the level that all allow. `wanted`: bucket key -> its budget."""
        with self._lock:
            buckets = self._now(wanted)
            level = self._level(buckets, wanted)
            if level is not Level.NOTHING:
                self._buckets |= {key: buckets[key].charge(level, budget) for key, budget in wanted.items()}
                if len(self._buckets) > self._remembered:
                    eighth = max(self._remembered // 8, 1)
                    for key in nsmallest(eighth, self._buckets, key=lambda key: self._buckets[key].full_at):
                        del self._buckets[key]
        return level

    def _now(self, wanted: Mapping[str, Budget]) -> dict[str, _Bucket]:
        now = self._clock()
        return {key: self._buckets.get(key, _FULL).recovered(budget, now) for key, budget in wanted.items()}

    @staticmethod
    def _level(buckets: Mapping[str, _Bucket], wanted: Mapping[str, Budget]) -> Level:
        return max(buckets[key].level(budget) for key, budget in wanted.items())


UNREADABLE: Final = "the Pod's affinity refers to namespaces that you can't read"
OF_OTHERS: Final = "the Pod's affinity refers to other namespaces"
SPENT: Final = "predictionBudget for the last hour is used up"
_MAX_REVIEWS: Final = 4
"""Maximum number of namespaces with a separate access review; with more, the review is about all namespaces."""
_SERVICE_ACCOUNTS: Final = "system:serviceaccount:"
_CONTROLLERS: Final = (f"{_SERVICE_ACCOUNTS}kube-system:", "system:kube-controller-manager")
_SPOKEN: Final = (Action.DENY, Action.WARN)
_FIRST: Final = "preempts-running-pods"
"""The rule that reports a hidden prediction, if its action is visible."""


def is_on_behalf(user: User, obj: ApiObject) -> bool:
    """Report whether a controller may write the response into Events of the namespace.

    Any requester can write the owner references of an object, so they may only reduce what the response shows.
    """
    return _is_controller(user) or has_controller(obj)


def _is_controller(user: User) -> bool:
    service_accounts, process = _CONTROLLERS
    return user.name.startswith(service_accounts) or user.name == process


class PredictionAccess(NamedTuple):
    """The services that all requests share.

    `counted`: called for each prediction with the level of detail shown (see `webhook.metrics.DETAILS`).
    """

    budget: PredictionBudget
    counted: Callable[[str], object]
    reviews: AccessReviews | None = None


class RequestAccess:
    """How much of predictions the readers of one response see. Only the first prediction takes from the budget."""

    def __init__(self, shared: PredictionAccess, request: AdmissionRequest, config: Config, *, annotates: bool) -> None:
        """Decide nothing yet. `annotates`: true if predictions are for the annotation instead of the requester."""
        self._shared, self._user, self._namespace = shared, request.user, request.namespace
        self._config = config
        self._is_controller = _is_controller(request.user)
        self._on_behalf = is_on_behalf(request.user, request.object)
        self._annotates, self._for_namespace = annotates, annotates or self._on_behalf
        self._asked, self._shown = False, EXACT
        self.is_settled = False
        self.to_ask: tuple[str, ...] = ()
        """Namespaces that need an access review for listing Pods before the next evaluation."""

    @cached_property
    def _is_covered(self) -> bool:
        return self._config.disclose_to.covers(self._user)

    @cached_property
    def _sees_all(self) -> bool:
        return self._config.disclose is Disclose.NAMES or (self._is_covered and not self._annotates)

    def shown(self) -> Shown:
        """Return how much of a prediction is shown; EXACT before the first prediction."""
        return self._shown

    def recall(
        self,
        impacts: Recall,
        subject: ReviewedObject,
        cluster: ClusterSnapshot,
        work_out: Callable[[], Impact | None],
        /,
    ) -> Impact | None:
        """Look up a known prediction in `impacts`; return None while an access review is necessary."""
        if not (self.is_settled or self._asked):
            self.to_ask = self._unknown(subject)
            if self.to_ask:
                return None
        try:
            impact = impacts(subject, cluster, work_out)
        except CutShort:
            self.settle(subject)
            raise
        if impact is not None:
            self.settle(subject)
        return impact

    def settle(self, subject: ReviewedObject) -> Shown:
        """Decide how much of a prediction is shown, and take from the budget; only the first call has an effect."""
        if not self.is_settled:
            self._shown, detail = self._settled(subject)
            self.is_settled = True
            self._shared.counted(detail)
        return self._shown

    def ask(self, expired: Callable[[], bool]) -> None:
        """Send the access reviews for `to_ask` until one is denied. Blocks until the API server answers."""
        reviews = self._shared.reviews
        for namespace in self.to_ask if reviews else ():
            if expired() or not (reviews and reviews.ask(self._user, namespace)):
                break
        self.go_on()

    def go_on(self) -> None:
        """Decide without further access reviews: unknown permissions count as denied."""
        self._asked, self.to_ask = True, ()

    def _settled(self, subject: ReviewedObject) -> tuple[Shown, str]:
        if self._sees_all:
            return EXACT, "exact"
        namespaces = self._namespaces(subject)
        if namespaces and (self._for_namespace or not self._may_list(namespaces)):
            return Shown(True, OF_OTHERS if self._for_namespace else UNREADABLE), "affinity"
        buckets = self._buckets()
        level = self._shared.budget.take(buckets) if buckets else Level.EXACT
        if level is Level.NOTHING:
            return Shown(True, SPENT), "budget"
        return (Shown(coarse=True), "coarse") if level is Level.COARSE else (EXACT, "exact")

    def _unknown(self, subject: ReviewedObject) -> tuple[str, ...]:
        """Return the namespaces for which an access review is necessary; empty if known answers already decide."""
        reviews = self._shared.reviews
        if self._sees_all or self._is_controller or reviews is None:
            return ()
        namespaces = self._namespaces(subject)
        if namespaces and (self._for_namespace or self._may_list(namespaces) is False):
            return ()
        buckets = self._buckets()
        if buckets and self._shared.budget.level(buckets) is not Level.EXACT:
            namespaces = (*namespaces, ALL_NAMESPACES)
        return tuple(name for name in dict.fromkeys(namespaces) if reviews.cached_answer(self._user, name) is None)

    def _may_list(self, namespaces: Sequence[str]) -> bool | None:
        """Report whether the requester may list Pods in all these namespaces, by cached access reviews; None if
        unknown.
        """
        reviews = self._shared.reviews
        if self._is_controller or reviews is None:
            return False
        answers = [reviews.cached_answer(self._user, namespace) for namespace in namespaces]
        return False if False in answers else None if None in answers else True

    def _namespaces(self, subject: ReviewedObject) -> tuple[str, ...]:
        """Return other namespaces that the Pods' affinity selects; ALL_NAMESPACES if it selects all or too many."""
        try:
            template = pod_template_of(subject.object, self._config.options.pod_template_paths)
            namespaces = other_namespaces(template.spec, self._namespace) if template else frozenset()
        except InvalidObject:
            return ()  # invalid objects are not predicted
        if ALL_NAMESPACES in namespaces or len(namespaces) > _MAX_REVIEWS:
            return (ALL_NAMESPACES,)
        return tuple(sorted(namespaces))

    def _buckets(self) -> Mapping[str, Budget]:
        """Return the budget buckets to take from, with their sizes; empty for a requester with access to all
        namespaces. Users of the namespace read the answers to controllers. Without access to all namespaces, a
        controller outside kube-system counts as a user, because users could claim to be one.
        """
        budget, namespace = self._config.prediction_budget, self._namespace
        if not (self._is_controller or self._is_covered or self._may_list((ALL_NAMESPACES,))):
            return {f"namespace {namespace}": budget.namespace, f"user {self._user.name}": budget.user}
        is_account = self._user.name.startswith(_SERVICE_ACCOUNTS) and not self._is_covered
        if self._on_behalf or (self._annotates and is_account):
            return {f"for namespace {namespace}": budget.namespace}
        return {}


def without_prediction(
    findings: Iterable[Finding], subject: ReviewedObject, config: Config, why: str
) -> tuple[Finding, ...]:
    """Return the findings for a requester without access to the prediction: the warnings are the same whatever the
    prediction is.

    `why`: the reason that the requester sees.
    """
    shown = tuple(
        finding
        if finding.rule not in ABOUT_PREDICTIONS or finding.action not in _SPOKEN
        else finding._replace(
            for_requester=Text(f"{_DENIED} prediction not shown: {why}" if finding.action is Action.DENY else "")
        )
        for finding in findings
    )
    spoken = [rule for rule in PREDICTING if config.actions.get(rule, Action.WARN) in _SPOKEN]
    paths = config.options.pod_template_paths
    if not spoken or (subject.operation is Operation.UPDATE and not changes_pods(subject, paths)):
        return shown
    rule = _FIRST if _FIRST in spoken else min(spoken)
    not_shown = Finding(
        subject.locate(()),
        Severity.WARNING,
        rule,
        subject.ref,
        Text(f"the prediction was not shown to the requester: {why}"),
        for_requester=Text(f"not predicted: {why}", _FIXES.get(why, "")),
    )
    return (*shown, not_shown)


_FIXES: Final = {UNREADABLE: "ask for permission to list Pods there", SPENT: "try again later"}
_DENIED: Final = "denied by this rule because of the prediction;"

_WAITING: Final = 1024
_REQUESTING: Final = 8
"""Number of threads that may block for the API server."""
_UNAWAITED_SECONDS: Final = 10.0
"""Maximum seconds to wait for a process that runs a task for which no request waits."""


class Workers:
    """The threads and processes beside the event loop. `processes`: the number of prediction processes; if 0, the
    evaluating thread completes all predictions.
    """

    def __init__(self, processes: int = 0) -> None:
        self.evaluating = Lane("evaluate", _WAITING)
        self._requesting = Lane("request", _WAITING, threads=_REQUESTING)
        self.predictors = Predictors(self.evaluating, processes) if processes else None

    def fork(self, run: Callable[[Any], Any]) -> PredictionProcess:
        """Fork a process for a task that no request waits for. Raises Unanswered."""
        return forked_by(self.evaluating, run, _UNAWAITED_SECONDS)

    @property
    def predictions(self) -> int:
        """The number of predictions that wait for a process."""
        return self.predictors.lane.length if self.predictors else 0

    async def run(self, step: Step[T]) -> T:
        """Run a step on its thread or process, and return its result. Raises QueueFull if it has no `otherwise`."""
        lane, within = self._requesting if step.where is Where.REQUEST else self.evaluating, inf
        if step.where is Where.PREDICT and self.predictors is not None:
            lane, within = self.predictors.lane, step.within
        future = lane.submit(step.cost, step.run, within, holds_up=step.holds_up)
        if future is not None:
            try:
                return await asyncio.wrap_future(future)
            finally:
                del future  # the traceback of an error in it would refer to the error itself
        if step.otherwise is None:
            raise QueueFull
        return step.otherwise()

    def stop(self) -> None:
        """Accept no more steps."""
        for lane in (self.evaluating, self._requesting):
            lane.stop()
        if self.predictors is not None:
            self.predictors.lane.stop()
