"""The texts and the JSON of details, for an audience. Only this package decides which names a message contains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.linting.rules.support import details
from forewarn.policies.linting.rules.wording import impact, objects

if TYPE_CHECKING:
    from forewarn.policies.base.disclosure import Audience
    from forewarn.policies.base.findings import Details, Text

_MAX: Final = 100
"""Maximum number of workloads in the JSON."""
_WORDING: Final[Mapping[type, tuple[Callable[[Any, Audience], Text], Callable[[Any], dict[str, Any]]]]] = {
    details.Preemption: (impact.preemption, impact.preemption_document),
    details.NotPredicted: (impact.not_predicted, impact.document),
    details.StaysPending: (impact.stays_pending, impact.pending_document),
    details.GroupPreemption: (objects.group_preemption, impact.document),
    details.GroupPending: (objects.group_pending, impact.document),
    details.PlaceholdersPreempted: (
        objects.placeholders_preempted,
        lambda some: {"workloads": [*map(str, some.workloads[:_MAX])]},
    ),
    details.PodsOfMissingClass: (objects.missing_class, lambda some: {"class": some.name, "pods": len(some.pods)}),
    details.PodsWithPriority: (objects.with_priority, objects.priority_document),
    details.ClassInUse: (
        objects.class_in_use,
        lambda some: {"workloads": [*map(str, some.workloads)], "pods": some.pods},
    ),
    details.UnknownClass: (objects.unknown, objects.unknown_document),
    details.PreemptingClasses: (objects.preempting, objects.preempting_document),
    details.UncoveredClass: (objects.uncovered, lambda some: {"class": some.name}),
}
"""The functions that write the text and the JSON for each type of details."""


_PREDICTED: Final = (details.Preemption, details.NotPredicted, details.StaysPending)
_LATER: Final = "if it ran now, "


def text_of(details: Details, audience: Audience, *, runs_later: bool = False) -> Text:
    """The text of details, with the names that the audience may see. `runs_later`: the object is a CronJob."""
    text = _WORDING[type(details)][0](details, audience)
    if not runs_later or not isinstance(details, _PREDICTED):
        return text
    return text._replace(problem=f"{_LATER}{text.problem}", shorter=tuple(f"{_LATER}{some}" for some in text.shorter))


def document_of(details: Details) -> dict[str, Any]:
    return _WORDING[type(details)][1](details)
