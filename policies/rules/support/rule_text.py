"""Small pieces that several rules say or read in the same way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from policies.disclosure import Disclose, count_range, priority_range
from policies.findings import Location, Problem, plural
from policies.kube_apiserver.priority import Forbidden, Resolved, class_by_namespace, establish_priority
from policies.objects.fields import INT32, at
from policies.objects.priority_class import PriorityClass
from policies.rules.support.context import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.disclosure import Audience
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject
    from policies.objects.workload import PodTemplate
    from policies.rules.support.context import Context


def name_of(subject: ReviewedObject) -> str:
    """The object's name, empty where it has none that can be read."""
    return text_at(subject.object, "metadata", "name")


def text_at(obj: ApiObject, *path: str) -> str:
    """The string at a path, empty where there is none."""
    value = at(obj, *path)
    return value if isinstance(value, str) else ""


def integer(value: Any) -> int | None:
    """The value if it is an int32, None otherwise: what cannot be decoded is reported once, by its own rule."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value in INT32 else None


def class_of(subject: ReviewedObject) -> PriorityClass:
    """The subject as a class. Raises InvalidObject."""
    return PriorityClass.from_api(subject.object)


def class_name(template: PodTemplate) -> str:
    """The class that a pod or template names."""
    return text_at(template.spec, "priorityClassName")


def class_to_be(template: PodTemplate, namespace: str, context: Context) -> str:
    """The class that new pods have in the end: the one that they name, else what their namespace gives them.

    Empty where the global default counts. A pod that admission has changed already has what it has.
    """
    name = class_name(template)
    if context.phase is Phase.VALIDATE and not template.is_template:
        return name
    given = class_by_namespace(name, context.namespace(namespace), context.classes)
    return given if given in context.classes or (given and not context.classes_known) else name


def elsewhere(location: Location) -> str:
    """` (classes.yaml:3)`, or nothing for what is not in a file."""
    return f" ({location})" if location.line else ""


def summary_of_pods(pods: list[Pod], audience: Audience) -> str:
    """`12 pods (team/web-1, team/web-2 and 10 more)`; `12 pods` where the reader is told of none of them."""
    from heapq import nsmallest  # only when there is something to say

    named = nsmallest(2, (f"{p.namespace}/{p.name}" for p in pods if audience.is_told_of(p.namespace)))
    return f"{plural(len(pods), 'pod')}{f' ({listed_of(named, len(pods), 2)})' if named else ''}"


def listed_of(named: list[str], count: int, limit: int = 3) -> str:
    """Those of `count` things that are named, the first few, and how many more there are."""
    shown = named[:limit]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def counted(count: int, noun: str, audience: Audience, many: str = "") -> str:
    """`2 pods`; `1 to 5 pods` or `more than 5 pods` for a reader of ranges."""
    if not audience.coarse or count == 0:
        return plural(count, noun, many)
    lowest, highest = count_range(count)
    return f"{f'{lowest} to {highest}' if highest else f'more than {(lowest or 0) - 1}'} {many or f'{noun}s'}"


def in_other_namespaces(pods: Sequence[Pod], audience: Audience) -> str:
    """`2 pods of other namespaces, priority 100 to 500`: pods that are counted; `2 pods, …` for who is told of none."""
    numbers = sorted({pod.effective_priority for pod in pods})
    if audience.coarse:
        elsewhere = " of other namespaces" if audience.disclose is Disclose.OWN_NAMESPACE else ""
        return f"{counted(len(pods), 'pod', audience)}{elsewhere}, priority {_band(numbers[0], numbers[-1])}"
    band = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    where = ""
    if audience.disclose is Disclose.OWN_NAMESPACE:
        where = " of another namespace" if len({pod.namespace for pod in pods}) == 1 else " of other namespaces"
    return f"{plural(len(pods), 'pod')}{where}, priority {band}"


def _band(lowest: int, highest: int) -> str:
    band = priority_range(lowest, highest)
    if band.lowest is None:
        return "below 0" if band.highest == -1 else "of any value" if band.highest is None else f"up to {band.highest}"
    return f"{band.lowest} or more" if band.highest is None else f"{band.lowest} to {band.highest}"


def priorities_of(pods: list[Pod]) -> str:
    """`100` or `100 or 200`: the numbers that pods carry, the most frequent first."""
    return " or ".join(str(value) for value, _ in Counter(p.priority or 0 for p in pods).most_common(3))


def is_earlier_than_the_default(template: PodTemplate, context: Context) -> bool:
    """Whether a new pod has what the Priority plugin gives without a default: no class, and 0.

    The API server's own plugin may not have heard yet of a default that has just come.
    """
    given = template.spec.get("priority")
    return context.phase is Phase.VALIDATE and not template.is_template and given == 0 and not class_name(template)


def resolved(template: PodTemplate, context: Context) -> Resolved | None:
    """What the Priority plugin would write into this pod; None where that is not known or the class is missing."""
    name = class_name(template)
    if not name and context.cluster is None and not context.classes_known:
        return None  # a real cluster may have a default
    try:
        return establish_priority(name, context.classes)
    except Forbidden:
        return None


def diagnostics(rule: str, context: Context) -> Iterator[Problem]:
    """What reading the files of this apply has brought to light under this rule."""
    for diagnostic in context.change_set.diagnostics:
        if diagnostic.rule == rule:
            yield Problem(
                diagnostic.message, (), diagnostic.remediation, location=diagnostic.location, object=diagnostic.object
            )
