"""The workloads of a change set that a label selector selects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.light import NamedTuple
from forewarn.policies.objects.fields import InvalidObject, mapping
from forewarn.policies.selectors import InvalidSelector, parse_label_selector

if TYPE_CHECKING:
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate
    from forewarn.policies.rules.support.context import Context

MAX_WORKLOADS: Final = 1_000
"""Maximum workloads that one selector is compared with."""


class Labelled(NamedTuple):
    """A workload or Pod, and the labels of its Pods."""

    subject: ReviewedObject
    template: PodTemplate
    labels: Mapping[str, Any]


def _by_namespace(context: Context) -> Mapping[str, Sequence[Labelled]]:
    """The workloads and Pods of a change set, by namespace."""
    labelled = defaultdict[str, list[Labelled]](list)
    for subject in context.change_set.subjects:
        with suppress(InvalidObject):
            template = None if subject.part else context.template(subject)
            if template:
                labels = mapping(template.object, "metadata", "labels") or {}
                labelled[subject.effective_namespace].append(Labelled(subject, template, labels))
    return labelled


def workloads_in(namespaces: Collection[str], context: Context) -> Iterator[Labelled]:
    """Yield the first workloads and Pods of the change set in these namespaces."""
    by_namespace = context.once(_by_namespace)
    return islice((w for namespace in namespaces for w in by_namespace.get(namespace, ())), MAX_WORKLOADS)


def selected(selector: Any, namespaces: Collection[str], context: Context) -> list[Labelled]:
    """Return the workloads and Pods that a label selector selects. An empty or invalid selector selects none."""
    try:
        parsed = parse_label_selector(selector)
    except (InvalidObject, InvalidSelector):
        return []
    return [w for w in workloads_in(namespaces, context) if parsed and w.labels and parsed.matches(w.labels)]
