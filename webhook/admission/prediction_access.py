"""How much of a prediction the readers of an answer are shown: by what they may read, and how often they have asked.

The prediction itself is always made: denials, audit annotations, the log and the comparison with what happens go by it.

Warnings and denials are for the requester. The annotation is for everybody in the object's namespace, and so is what
controllers are answered, which they pass on in Events.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.disclosure import EXACT, Disclose, Shown
from policies.findings import Action, Finding, RequesterText, Severity
from policies.metering import CutShort
from policies.objects.fields import InvalidObject, at
from policies.objects.pod_affinity import ALL_NAMESPACES, other_namespaces
from policies.objects.reviewed_object import Operation
from policies.objects.workload import pod_template_of
from webhook.admission.impact_annotation import PREDICTING
from webhook.admission.prediction_budget import Level
from webhook.admission.unchanged import asks_for_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.config.model import Budget
    from policies.objects.fields import ApiObject
    from policies.objects.reviewed_object import ReviewedObject, User
    from policies.rules.support.impact import Impact, Recall
    from webhook.admission.access_reviews import AccessReviews
    from webhook.admission.prediction_budget import PredictionBudget
    from webhook.admission.review import AdmissionRequest

UNREADABLE: Final = "the Pod's affinity refers to namespaces that you can't read"
OF_OTHERS: Final = "the Pod's affinity refers to other namespaces"
SPENT: Final = "predictionBudget for the last hour is used up"
_MOST_ASKED: Final = 4
"""Namespaces whose Pods a requester is asked about one by one; of more, all namespaces are."""
_SERVICE_ACCOUNTS: Final = "system:serviceaccount:"
_CONTROLLERS: Final = f"{_SERVICE_ACCOUNTS}kube-system:"
_CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
_SPOKEN: Final = (Action.DENY, Action.WARN)
_FIRST: Final = "preempts-running-pods"
"""The rule under which a requester reads that nothing is predicted, where it speaks at all."""


def is_on_behalf(user: User, obj: ApiObject) -> bool:
    """Whether a request is made for somebody else: by a controller, or of an object that one controls."""
    if user.name.startswith(_CONTROLLERS) or user.name == _CONTROLLER_MANAGER:
        return True
    owners = at(obj, "metadata", "ownerReferences")
    owners = owners if isinstance(owners, list) else []
    return any(isinstance(owner, dict) and owner.get("controller") is True for owner in owners)


class PredictionAccess(NamedTuple):
    """What all requests share. `counted` is told how much of a prediction is shown (`webhook.metrics.DETAILS`)."""

    budget: PredictionBudget
    counted: Callable[[str], object]
    reviews: AccessReviews | None = None


class RequestAccess:
    """What the readers of one answer are shown. It takes from the budget once, when there is a prediction."""

    def __init__(self, shared: PredictionAccess, request: AdmissionRequest, config: Config, *, annotates: bool) -> None:
        """`annotates`: whether predictions are for the annotation, and not for the requester."""
        self._shared, self._user, self._namespace = shared, request.user, request.namespace
        self._config = config
        self._on_behalf = is_on_behalf(request.user, request.object)
        self._annotates, self._for_namespace = annotates, annotates or self._on_behalf
        self._asked, self._shown = False, EXACT
        self.is_settled = False
        self.to_ask: tuple[str, ...] = ()
        """The namespaces of which it has to be asked whether the requester may list Pods; then: decide again."""

    @cached_property
    def _is_covered(self) -> bool:
        return self._config.disclose_to.covers(self._user)

    @cached_property
    def _sees_all(self) -> bool:
        return self._config.disclose is Disclose.NAMES or (self._is_covered and not self._annotates)

    def shown(self) -> Shown:
        """How much is shown; before there is a prediction, everything."""
        return self._shown

    def recalling(self, impacts: Recall) -> Recall:
        """Gives predictions out of `impacts`; none where rights have to be asked about first."""
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
        """Decide how much is shown, and take it from the budget; the first time."""
        if not self.is_settled:
            self._shown, detail = self._settled(subject)
            self.is_settled = True
            self._shared.counted(detail)
        return self._shown

    def ask(self, expired: Callable[[], bool]) -> None:
        """Ask about the rights, until one is missing. Waits for the API server."""
        reviews = self._shared.reviews
        for namespace in self.to_ask if reviews else ():
            if expired() or not (reviews and reviews.ask(self._user, namespace)):
                break
        self.go_on()

    def go_on(self) -> None:
        """Decide by what is known: what could not be asked is not allowed."""
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
        """The rights that decide how much is shown, and are not known; none where one is known to be missing."""
        reviews = self._shared.reviews
        if self._sees_all or self._on_behalf or reviews is None:
            return ()
        namespaces = self._namespaces(subject)
        if namespaces and (self._annotates or self._may_list(namespaces) is False):
            return ()
        buckets = self._buckets()
        if buckets and self._shared.budget.level(buckets) is not Level.EXACT:
            namespaces = (*namespaces, ALL_NAMESPACES)
        return tuple(name for name in dict.fromkeys(namespaces) if reviews.known(self._user, name) is None)

    def _may_list(self, namespaces: Sequence[str]) -> bool | None:
        """Whether it is known that the requester may list Pods in all of these; None: not known."""
        reviews = self._shared.reviews
        if self._on_behalf or reviews is None:
            return False
        known = [reviews.known(self._user, namespace) for namespace in namespaces]
        return False if False in known else None if None in known else True

    def _namespaces(self, subject: ReviewedObject) -> tuple[str, ...]:
        """What the affinity of a subject's Pods refers to beside their own namespace."""
        try:
            template = pod_template_of(subject.object, self._config.options.pod_template_paths)
            found = other_namespaces(template.spec, self._namespace) if template else frozenset()
        except InvalidObject:
            return ()  # nothing is predicted of it
        if ALL_NAMESPACES in found or len(found) > _MOST_ASKED:
            return (ALL_NAMESPACES,)
        return tuple(sorted(found))

    def _buckets(self) -> Mapping[str, Budget]:
        """Whose budget this takes from, and how large each is; empty for a requester who may see everything.

        The namespace has a bucket apart for what controllers write on its objects, and service accounts that may list
        all Pods: its people can make these ask, but what they ask for themselves is not used up by it.
        """
        budget, namespace = self._config.prediction_budget, self._namespace
        on_behalf = self._on_behalf
        if not on_behalf and (self._is_covered or self._may_list((ALL_NAMESPACES,))):
            if self._is_covered or not (self._annotates and self._user.name.startswith(_SERVICE_ACCOUNTS)):
                return {}
            on_behalf = True
        if on_behalf:
            return {f"for namespace {namespace}": budget.namespace}
        return {f"namespace {namespace}": budget.namespace, f"user {self._user.name}": budget.user}


def without_prediction(
    findings: Iterable[Finding], subject: ReviewedObject, config: Config, why: str
) -> tuple[Finding, ...]:
    """The findings where a requester is not shown what is predicted: the same warnings, whatever that is.

    What the prediction denies stays denied. Only the requester's texts change; an empty one is not shown.
    """
    told = tuple(
        finding
        if finding.rule not in PREDICTING or finding.action not in _SPOKEN
        else finding._replace(
            for_requester=RequesterText(
                f"{_DENIED} prediction not shown: {why}" if finding.action is Action.DENY else ""
            )
        )
        for finding in findings
    )
    spoken = [rule for rule in PREDICTING if config.actions.get(rule, Action.WARN) in _SPOKEN]
    paths = config.options.pod_template_paths
    if not spoken or (subject.operation is Operation.UPDATE and not asks_for_pods(subject, paths)):
        return told
    rule = _FIRST if _FIRST in spoken else min(spoken)
    not_shown = Finding(
        subject.locate(()),
        Severity.WARNING,
        rule,
        subject.ref,
        f"the prediction was not shown to the requester: {why}",
        for_requester=RequesterText(f"not predicted: {why}", _FIXES.get(why, "")),
    )
    return (*told, not_shown)


_FIXES: Final = {UNREADABLE: "ask for permission to list Pods there", SPENT: "try again later"}
_DENIED: Final = "denied by this rule because of the prediction;"
