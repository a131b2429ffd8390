"""One request for a prediction process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.disclosure import EXACT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.disclosure import Shown
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.webhook.admission.admitted_pods import Admitted
    from forewarn.webhook.admission.call import AdmissionCall


class PredictionJob(NamedTuple):
    """A request for a prediction process, with the state of its evaluation.

    `at`: the deadline (monotonic clock). `staleness`: see `context.Time`. `carried`: the annotation that `/mutate`
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
