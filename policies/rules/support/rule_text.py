"""Texts and lookups that several rules share."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Location, Problem, cut
from forewarn.policies.kube_apiserver.priority import Forbidden, Resolved, class_by_namespace, establish_priority
from forewarn.policies.objects.fields import INT32, at
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.rules.support.context import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate
    from forewarn.policies.rules.support.context import Context


def name_of(subject: ReviewedObject) -> str:
    """The object's name, empty where it has none that can be read."""
    return text_at(subject.object, "metadata", "name")


def completed(subject: ReviewedObject) -> ApiObject:
    """The object with its namespace, and a name if one is generated. Its metadata must decode."""
    metadata = dict(subject.object.get("metadata") or {})
    metadata["namespace"] = subject.effective_namespace
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName'][:58]}xxxxx"
    return {**subject.object, "metadata": metadata}


def text_at(obj: ApiObject, *path: str) -> str:
    """The string at a path, empty where there is none."""
    value = at(obj, *path)
    return value if isinstance(value, str) else ""


def integer(value: Any) -> int | None:
    """The value if it is an int32, else None: a value that cannot be decoded is reported once, by its own rule."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value in INT32 else None


def class_of(subject: ReviewedObject) -> PriorityClass:
    """The subject as a class. Raises InvalidObject."""
    return PriorityClass.from_api(subject.object)


def class_name(template: PodTemplate) -> str:
    """The class that a pod or template names."""
    return text_at(template.spec, "priorityClassName")


def is_template_variable(name: str, subject: ReviewedObject, context: Context) -> bool:
    """Whether a name in a file is a variable of a template ({{ … }}, ${X}, @X@, %X%), and no name yet."""
    in_file = context.phase is Phase.LINT and bool(_VARIABLE.search(name))
    return in_file and bool(subject.locate(()).line)  # a stored object is what it will be


_VARIABLE: Final = re.compile(r"\{\{|\$\{.|\$\(.|\$[A-Za-z_]|<%|@[A-Za-z_][\w.-]*@|%[A-Za-z_][\w.-]*%")


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
    """` (classes.yaml:3)`; empty for what is not in a file."""
    return f" ({location})" if location.line else ""


MOST_CHARACTERS: Final = 120
"""Characters of a message: a line of a terminal, and half of what kube-apiserver passes on of a warning."""
_SHORTEST_NAME: Final = 20
"""Characters that the first name of a list keeps, however long the rest is."""


def naming(before: str, names: Sequence[str], count: int, after: str = "", limit: int = 3) -> str:
    """`before`, `a, b and 2 more` of `count` things, `after`.

    As many of the first `limit` names as MOST_CHARACTERS leave room for, at least one, which is cut if need be.
    """
    room = MOST_CHARACTERS - len(before) - len(after)
    for shown in range(min(limit, len(names)), 0, -1):
        listed = listed_of(names, count, shown)
        if len(listed) <= room:
            return f"{before}{listed}{after}"
    rest = f" and {count - 1} more" if count > 1 else ""
    return f"{before}{cut(names[0], max(room - len(rest), _SHORTEST_NAME)) if names else ''}{rest}{after}"


def listed_of(named: Sequence[str], count: int, limit: int = 3) -> str:
    """The first `limit` names of `count` things, and how many more there are: `a, b and 2 more`."""
    shown = named[:limit]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def priorities_of(pods: Sequence[Pod]) -> str:
    """`100` or `100 or 200`: the priority values of Pods, the most frequent first."""
    return " or ".join(str(value) for value, _ in Counter(p.priority or 0 for p in pods).most_common(3))


def is_earlier_than_the_default(template: PodTemplate, context: Context) -> bool:
    """Whether a new pod has what the Priority plugin gives without a default: no class, and 0.

    The plugin's own cache may not have a default yet that was just created.
    """
    given = template.spec.get("priority")
    return context.phase is Phase.VALIDATE and not template.is_template and given == 0 and not class_name(template)


def resolved(template: PodTemplate, context: Context) -> Resolved | None:
    """What the Priority plugin would write into this pod; None if that is not known or the class does not exist."""
    name = class_name(template)
    if not name and context.cluster is None and not context.classes_known:
        return None  # a real cluster may have a default
    try:
        return establish_priority(name, context.classes)
    except Forbidden:
        return None


def diagnostics(rule: str, context: Context) -> Iterator[Problem]:
    """The problems of this rule that reading the files of this apply has found."""
    for diagnostic in context.change_set.diagnostics:
        if diagnostic.rule == rule:
            yield Problem(
                diagnostic.message, (), diagnostic.remediation, location=diagnostic.location, object=diagnostic.object
            )
