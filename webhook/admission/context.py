"""One admission request, with all inputs of its decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.disclosure import EXACT, Shown
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.objects.reviewed_object import ReviewedObject

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.policies.rules.support.predictions import Recall
    from forewarn.webhook.admission.review import AdmissionRequest, Hook

Confirm = Callable[[], Mapping[str, PriorityClass]]
"""The PriorityClasses by name, read from the API server by one live GET. Raises OSError if the request fails."""

AnnotationLookup = Callable[[ReviewedObject, Callable[[], str | None]], str | None]
"""The impact annotation of an object: a recent one, or the result of the function."""


def computed(_: ReviewedObject, compute: Callable[[], str | None]) -> str | None:
    """Return the result of `compute`: an AnnotationLookup without cache."""
    return compute()


def given(classes: Mapping[str, PriorityClass] | None) -> Mapping[str, PriorityClass]:
    """Return PriorityClasses that an earlier step read from the API server. Raises OSError for None: no answer."""
    if classes is None:
        raise OSError("the API server does not answer")
    return classes


class Time(NamedTuple):
    """The time of an evaluation (UTC). `expired`: returns whether the time for predictions is used up.

    `staleness`: a message about the age of the cluster state, "" if recent enough. `clock`: seconds from any start;
    the default measures nothing.
    """

    now: datetime
    expired: Callable[[], bool]
    staleness: str = ""
    clock: Callable[[], float] = lambda: 0.0


class ReviewContext(NamedTuple):
    """An admission request with the inputs of its decision.

    `cluster`: None if unknown, or if the caller has no token of the webhook. `confirm`: reads the live
    PriorityClasses, to confirm findings that depend on the cache. `recall`: returns the annotation that an earlier
    call of `/mutate` computed for the same object. `impacts`: the cache of predictions. `shown`: how much of a
    prediction the requester may see; called after the prediction.
    """

    request: AdmissionRequest
    hook: Hook
    cluster: ClusterSnapshot | None
    config: Config
    time: Time
    confirm: Confirm | None = None
    recall: AnnotationLookup = computed
    impacts: Recall | None = None
    shown: Callable[[], Shown] = lambda: EXACT

    def live_classes(self) -> Mapping[str, PriorityClass] | None:
        """The PriorityClasses from the API server; None without a response or if the time is up. Needs `confirm`."""
        assert self.confirm is not None
        try:
            return None if self.time.expired() else self.confirm()
        except OSError:
            return None
