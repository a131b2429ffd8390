"""Texts about PriorityClasses that some requesters may not know."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Text, cut, listed, plural, quote
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS, naming

if TYPE_CHECKING:
    from forewarn.policies.base.disclosure import Audience
    from forewarn.policies.linting.rules.support.details import (
        ClassInUse,
        PreemptingClasses,
        UncoveredClass,
        UnknownClass,
    )

_FEW: Final = 3
_LONGEST: Final = 40
_MAX: Final = 10
"""Maximum number of PriorityClasses in the JSON."""


def in_use(details: ClassInUse, audience: Audience) -> Text:
    """Return the text for a deleted class, for example `Deployment team/web and 2 more still use this class; …`.

    Names only what the audience may see, otherwise numbers.
    """
    objects = [*details.workloads, *details.pods_without_owner]
    keep = "keeps its" if details.pods == 1 else "keep their"
    pods = f" ({plural(details.pods, 'running Pod')} {keep} priority)" if details.pods else ""
    after = f" still {'uses' if len(objects) == 1 else 'use'} this class; new Pods will be rejected{pods}"
    named = [str(ref) for ref in objects if audience.may_name(ref.namespace)]
    problem = naming("", named, len(objects), after) if named else f"{plural(len(objects), 'object')}{after}"
    return Text(problem, "move these workloads to another class first")


def unknown(details: UnknownClass, audience: Audience) -> Text:
    """The text for a missing class: `PriorityClass "gald" not found; the Pod will be rejected.

    Did you mean "gold"?`.
    """
    meant = details.meant or (details.known.nearest(details.name, audience) if details.known else "")
    return Text(
        f"PriorityClass {quote(cut(details.name, details.longest))} not found{details.consequence}",
        details.fix or _class_fix(details, audience, meant),
        (f"Did you mean {quote(meant)}?",) if meant else (),
    )


def _class_fix(details: UnknownClass, audience: Audience, meant: str) -> str:
    """The fix, with the class that is meant, or the PriorityClasses that the audience may know."""
    if details.meant:
        return f"use {quote(meant)}"
    names = [meant] if meant else list(details.known.sorted) if details.known else []
    names = [quote(name) for name in names if meant or audience.sees_all or audience.knows(name)]
    use = [f"use {' or '.join(names) if len(names) < _FEW else listed(names)}"] if names else []
    if not names and not audience.sees_all:
        use = ["use one that exists"]
    if details.is_reserved:
        first, rest = "correct the name", use or ["create a class of another name"]
    else:
        first, rest = "create it", [*use, *([] if details.is_certain else ["pass --cluster"])]
    *most, last = [first, *rest]
    return f"{', '.join(most)}, or {last}" if most else last


def unknown_document(details: UnknownClass) -> dict[str, Any]:
    """The name, and the probably intended name, as JSON."""
    return {"class": details.name, **({"meant": details.suggestion} if details.suggestion else {})}


def preempting(details: PreemptingClasses, audience: Audience) -> Text:
    """Return the text for lower classes that preempt: `never preempts, but lower class "web" (500) does and can take
    its capacity`.

    A number replaces names that the audience may not see.
    """
    classes, count, lowest = details.classes, len(details.classes) - details.start, details.classes[-1]
    below = (classes[index] for index in range(details.start, len(classes)))
    examples = [f"{quote(c.name)} ({c.value})" for c in islice((c for c in below if audience.knows(c.name)), 3)]
    after = f" {'does' if count == 1 else 'do'} and can take its capacity"
    fix = f"set value below {lowest.value if audience.knows(lowest.name) else 'those of the classes that preempt'}"
    if not examples:
        return Text(f"never preempts, but {plural(count, 'lower class', 'lower classes')}{after}", fix)
    lower = "lower class" if count == 1 else "lower classes"
    return Text(naming(f"never preempts, but {lower} ", examples, count, after), fix)


def preempting_document(details: PreemptingClasses) -> dict[str, Any]:
    """The number of PriorityClasses and the highest of them, as JSON."""
    shown = details.classes[details.start : details.start + _MAX]
    return {"classes": [c.name for c in shown], "count": len(details.classes) - details.start}


def uncovered(details: UncoveredClass, audience: Audience) -> Text:
    """The text for an uncovered class, for example `allows class "gold" under limitedResources without naming it`."""
    shown = "a limited class" if details.name else "all other classes"
    if details.name and (details.is_in_quota or audience.knows(details.name)):
        shown = f"class {quote(cut(details.name, _LONGEST))}"
    start = f"allows {shown} under limitedResources"
    return Text(cut(f"{start} {details.why}", MAX_CHARACTERS), details.fix, shorter=(start,))
