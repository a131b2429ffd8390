"""How much of a prediction the readers of a response see, by their permissions and the prediction budget.

forewarn always computes the complete prediction for denials, audit annotations, logs and accuracy.

Warnings and denials are for the requester. All users of the object's namespace can read the annotation, and, in
Events, responses to controllers.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property, partial
from heapq import nsmallest
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.disclosure import EXACT, Disclose, Shown
from forewarn.policies.findings import Action, Finding, Severity, Text
from forewarn.policies.metering import CutShort
from forewarn.policies.objects.fields import InvalidObject, at, has_controller
from forewarn.policies.objects.pod_affinity import ALL_NAMESPACES, other_namespaces
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.objects.workload import pod_template_of
from forewarn.webhook.admission.impact_annotation import ABOUT_PREDICTIONS, PREDICTING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.policies.config.model import Budget
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject, User
    from forewarn.policies.rules.support.predictions import Recall
    from forewarn.webhook.admission.access_reviews import AccessReviews
    from forewarn.webhook.admission.review import AdmissionRequest

_HOW_MANY: Final = ("replicas", "parallelism", "completions", "suspend", "paused")
"""Fields of a workload that determine the number of its Pods."""


def without_repeats(
    subject: ReviewedObject,
    findings: list[Finding],
    paths: Mapping[str, tuple[str, ...]],
    evaluate: Callable[[ReviewedObject], list[Finding]],
) -> list[Finding]:
    """Return the findings; warnings that the stored object would also get become audit annotations.

    An update that changes the Pods or their number keeps its warnings, because the update creates Pods. `evaluate`
    returns the findings on another object. Denials do not change.
    """
    if subject.operation is not Operation.UPDATE or not subject.old:
        return findings
    if all(finding.action is not Action.WARN for finding in findings) or changes_pods(subject, paths):
        return findings
    stood = {_what(finding) for finding in evaluate(subject._replace(object=subject.old))}
    return [
        finding._replace(action=Action.AUDIT) if finding.action is Action.WARN and _what(finding) in stood else finding
        for finding in findings
    ]


def _what(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.path, finding.message


def changes_pods(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> bool:
    """True if the update of a workload changes its Pods or their number."""
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
"""Maximum number of buckets, about 300 bytes each. Above it, the eighth that recovers first is removed."""
_HOUR: Final = 3600.0


class Level(IntEnum):
    """The detail of predictions that the budget allows."""

    EXACT = 0
    COARSE = 1
    NOTHING = 2


class _Bucket(NamedTuple):
    """The use of one budget: the shown predictions that have not recovered at the time `at`.

    `full_at`: the time at which the whole budget is available again.
    """

    exact: float = 0.0
    coarse: float = 0.0
    at: float = 0.0
    full_at: float = 0.0

    def recovered(self, budget: Budget, now: float) -> _Bucket:
        """The bucket at a later time. Predictions recover evenly over the hour."""
        hours = max(now - self.at, 0.0) / _HOUR
        exact, coarse = self.exact - budget.exact * hours, self.coarse - budget.coarse * hours
        return _Bucket(max(exact, 0.0), max(coarse, 0.0), now, self.full_at)

    def level(self, budget: Budget) -> Level:
        """The level that the remaining budget allows."""
        if self.exact + COST <= budget.exact:
            return Level.EXACT
        return Level.COARSE if self.coarse + COST <= budget.coarse else Level.NOTHING

    def after_call(self, level: Level, budget: Budget) -> _Bucket:
        """Return the bucket after one more prediction. A coarse prediction uses the exact budget if the coarse budget
        is empty.
        """
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

    def __len__(self) -> int:
        return len(self._buckets)

    def level(self, wanted: Mapping[str, Budget]) -> Level:
        """Return the level that all of these buckets allow. `wanted`: bucket key -> its budget."""
        with self._lock:
            return self._level(self._now(wanted), wanted)

    def take(self, wanted: Mapping[str, Budget]) -> Level:
        """Take one prediction from each of these buckets, and return the level that all of them allow.

        `wanted`: bucket key -> its budget.
        """
        with self._lock:
            buckets = self._now(wanted)
            level = self._level(buckets, wanted)
            if level is not Level.NOTHING:
                self._buckets |= {key: buckets[key].after_call(level, budget) for key, budget in wanted.items()}
                if len(self._buckets) > self._remembered:
                    self._forget()
        return level

    def _now(self, wanted: Mapping[str, Budget]) -> dict[str, _Bucket]:
        now = self._clock()
        return {key: self._buckets.get(key, _FULL).recovered(budget, now) for key, budget in wanted.items()}

    @staticmethod
    def _level(buckets: Mapping[str, _Bucket], wanted: Mapping[str, Budget]) -> Level:
        return max(buckets[key].level(budget) for key, budget in wanted.items())

    def _forget(self) -> None:
        buckets = self._buckets
        for key in nsmallest(max(self._remembered // 8, 1), buckets, key=lambda key: buckets[key].full_at):
            del buckets[key]


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
    """True if a controller may write the response into Events of the namespace.

    Any requester can write the owner references of an object, so they may only reduce what the response shows.
    """
    return _is_controller(user) or has_controller(obj)


def _is_controller(user: User) -> bool:
    service_accounts, process = _CONTROLLERS
    return user.name.startswith(service_accounts) or user.name == process


class PredictionAccess(NamedTuple):
    """The services that all requests share.

    `counted`: called for each prediction, with the detail that was shown (see `webhook.metrics.DETAILS`).
    """

    budget: PredictionBudget
    counted: Callable[[str], object]
    reviews: AccessReviews | None = None


class RequestAccess:
    """How much of predictions the readers of one response see. Only the first prediction takes from the budget."""

    def __init__(self, shared: PredictionAccess, request: AdmissionRequest, config: Config, *, annotates: bool) -> None:
        """Prepare the access for one request. `annotates`: true if predictions are for the annotation instead of the
        requester.
        """
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

    def recalling(self, impacts: Recall) -> Recall:
        """Wrap `impacts`, the lookup of known predictions: the result finds none while an access review is
        necessary.
        """
        return partial(self._recall, impacts)

    def _recall(
        self,
        impacts: Recall,
        subject: ReviewedObject,
        cluster: ClusterSnapshot,
        work_out: Callable[[], Impact | None],
        /,
    ) -> Impact | None:
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
        """Send the access reviews for `to_ask`, until one is denied. Blocks for the API server."""
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
        return tuple(name for name in dict.fromkeys(namespaces) if reviews.known(self._user, name) is None)

    def _may_list(self, namespaces: Sequence[str]) -> bool | None:
        """True if the requester may list Pods in all these namespaces, by cached access reviews; None if unknown."""
        reviews = self._shared.reviews
        if self._is_controller or reviews is None:
            return False
        answers = [reviews.known(self._user, namespace) for namespace in namespaces]
        return False if False in answers else None if None in answers else True

    def _namespaces(self, subject: ReviewedObject) -> tuple[str, ...]:
        """Return the other namespaces that the affinity of the object's Pods refers to; ALL_NAMESPACES if all or too
        many.
        """
        try:
            template = pod_template_of(subject.object, self._config.options.pod_template_paths)
            namespaces = other_namespaces(template.spec, self._namespace) if template else frozenset()
        except InvalidObject:
            return ()  # nothing is predicted of it
        if ALL_NAMESPACES in namespaces or len(namespaces) > _MAX_REVIEWS:
            return (ALL_NAMESPACES,)
        return tuple(sorted(namespaces))

    def _buckets(self) -> Mapping[str, Budget]:
        """The budget buckets to take from, with their sizes; empty for a requester with access to all namespaces.

        Users of the namespace read the answers to controllers. Without access to all namespaces, a controller outside
        kube-system counts as a user, because users could claim to be one.
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
    """Return the findings for a requester without access to the prediction: the same warnings for any prediction.

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
