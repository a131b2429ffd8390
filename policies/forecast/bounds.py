"""Limits on the work for the forecast of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.new_pods import replicas_of
from forewarn.policies.metering import TooLarge, limited
from forewarn.policies.objects.fields import InvalidObject, at
from forewarn.policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.reviewed_object import ReviewedObject


MAX_PREEMPTIONS: Final = 500
"""Maximum preemptions by the Pods of one object if work is limited."""
MAX_DAEMONS: Final = 2_000
"""Maximum preemptions by the Pods of a DaemonSet, which are predicted together."""
MAX_VICTIMS: Final = 3_000
"""Maximum victims of one object if work is limited."""
MAX_PLACED: Final = 20_000
"""Maximum Pods of one object that are added to the snapshot together."""
MAX_REHEARSED: Final = 100
"""Maximum Pods of a simulated rollout; of a larger one, only the first Pods are predicted."""
MAX_REHEARSAL_WORK: Final = 200_000
"""Maximum units of work for the simulation of a rollout, if work is limited."""


def check_extents(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> None:
    """Raise CutShort if the Pod template, the metadata, the selector or the volume claim templates are too large."""
    from forewarn.policies.objects.extent import (
        MAX_REQUIREMENTS,
        MAX_VOLUMES,
        check_extent,
        check_metadata_extent,
        exceeds,
    )

    template = pod_template_of(subject.object, paths)
    if template is None:
        return
    check_extent(template.spec)
    check_metadata_extent(template.object.get("metadata"))
    if template.is_template:
        check_metadata_extent(subject.object.get("metadata"))
    if limited() and template.is_template:
        selector = at(subject.object, "spec", "selector")
        conditions = at(selector, "matchExpressions") if isinstance(selector, dict) else None
        labels = at(selector, "matchLabels") if isinstance(selector, dict) else None
        conditions_of_it = (
            (part, "requirements in its selector", MAX_REQUIREMENTS) for part in (selector, conditions, labels)
        )
        claims = at(subject.object, "spec", "volumeClaimTemplates")
        for part, what, most in (*conditions_of_it, (claims, "volumeClaimTemplates", MAX_VOLUMES)):
            if isinstance(part, list | dict) and len(part) > most:
                raise exceeds("the object", len(part), what, most)


def new_pods_of(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> int:
    """The number of new Pods of an object that is too large to read; 0 if it has no Pods or is invalid."""
    try:
        template = pod_template_of(subject.object, paths)
        if template is None:
            return 0
        return replicas_of(subject.object) if template.is_template else 1
    except TooLarge:
        return 1
    except InvalidObject:
        return 0


def too_many_pods(most: int) -> TooLarge:
    """Return the error for an object with more Pods than `most`."""
    return TooLarge(f"the object asks for more Pods than forewarn evaluates, which is {most}", "ask for fewer Pods")


def too_many_preemptions(most: int) -> TooLarge:
    """Return the error for an object whose Pods cause more than `most` preemptions, or too many victims."""
    victims = f"or {MAX_VICTIMS} victims"
    return TooLarge(f"forewarn evaluates at most {most} preemptions {victims} of one object", "ask for fewer Pods")
