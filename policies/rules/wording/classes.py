"""Texts about PriorityClasses that some requesters may not know."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Text, cut, plural, quote
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS, listed_of, naming

if TYPE_CHECKING:
    from forewarn.policies.disclosure import Audience
    from forewarn.policies.rules.support.details import ClassInUse, PreemptingClasses, UncoveredClass, UnknownClass

_FEW: Final = 3
_LONGEST: Final = 40
_MAX: Final = 10
"""Maximum number of PriorityClasses in the JSON."""


def in_use(found: ClassInUse, audience: Audience) -> Text:
    """Return the text for a deleted class, for example `Deployment team/web and 2 more still use this class; …`.

    Names only what the audience may see, otherwise numbers.
    """
    objects = [*found.workloads, *found.pods_without_owner]
    keep = "keeps its" if found.pods == 1 else "keep their"
    pods = f" ({plural(found.pods, 'running Pod')} {keep} priority)" if found.pods else ""
    after = f" still {'uses' if len(objects) == 1 else 'use'} this class; new Pods will be rejected{pods}"
    named = [str(ref) for ref in objects if audience.may_name(ref.namespace)]
    problem = naming("", named, len(objects), after) if named else f"{plural(len(objects), 'object')}{after}"
    return Text(problem, "move these workloads to another class first")


def in_use_document(found: ClassInUse) -> dict[str, Any]:
    """The workloads and the number of Pods, as JSON."""
    return {"workloads": [str(ref) for ref in found.workloads], "pods": found.pods}


def unknown(found: UnknownClass, audience: Audience) -> Text:
    """The text for a missing class: `PriorityClass "gald" not found; the Pod will be rejected.

    Did you mean "gold"?`.
    """
    meant = found.known.nearest(found.name, audience) if found.known else ""
    more = (f"Did you mean {quote(meant)}?",) if meant else ()
    return Text(
        f"PriorityClass {quote(cut(found.name, found.longest))} not found{found.consequence}",
        found.fix or _class_fix(found, audience),
        more,
    )


def _class_fix(found: UnknownClass, audience: Audience) -> str:
    """The fix, with the PriorityClasses that the audience may know."""
    known = list(found.known.sorted) if found.known else []
    known = known if audience.sees_all else list(filter(audience.knows, known))
    use = [f"use {' or '.join(known) if len(known) < _FEW else listed_of(known, len(known))}"] if known else []
    if not known and not audience.sees_all:
        use = ["use one that exists"]
    if found.is_reserved:
        first, rest = "correct the name", use or ["create a class of another name"]
    else:
        first, rest = "create it", [*use, *([] if found.is_certain else ["pass --cluster"])]
    *most, last = [first, *rest]
    return f"{', '.join(most)}, or {last}" if most else last


def unknown_document(found: UnknownClass) -> dict[str, Any]:
    """The name, and the probably intended name, as JSON."""
    return {"class": found.name, **({"meant": found.suggestion} if found.suggestion else {})}


def preempting(found: PreemptingClasses, audience: Audience) -> Text:
    """Return the text for lower classes that preempt: `never preempts, but lower class "web" (500) does and can take
    its capacity`.

    A number replaces names that the audience may not see.
    """
    classes, count, lowest = found.classes, len(found.classes) - found.start, found.classes[-1]
    below = (classes[index] for index in range(found.start, len(classes)))
    known = [f"{quote(c.name)} ({c.value})" for c in islice((c for c in below if audience.knows(c.name)), 3)]
    after = f" {'does' if count == 1 else 'do'} and can take its capacity"
    fix = f"set value below {lowest.value if audience.knows(lowest.name) else 'those of the classes that preempt'}"
    if not known:
        return Text(f"never preempts, but {plural(count, 'lower class', 'lower classes')}{after}", fix)
    lower = "lower class" if count == 1 else "lower classes"
    return Text(naming(f"never preempts, but {lower} ", known, count, after), fix)


def preempting_document(found: PreemptingClasses) -> dict[str, Any]:
    """The number of PriorityClasses and the highest of them, as JSON."""
    shown = found.classes[found.start : found.start + _MAX]
    return {"classes": [c.name for c in shown], "count": len(found.classes) - found.start}


def uncovered(found: UncoveredClass, audience: Audience) -> Text:
    """The text for an uncovered class, for example `allows class "gold" under limitedResources without naming it`."""
    shown = "a limited class" if found.name else "all other classes"
    if found.name and (found.is_in_quota or audience.knows(found.name)):
        shown = f"class {quote(cut(found.name, _LONGEST))}"
    start = f"allows {shown} under limitedResources"
    return Text(cut(f"{start} {found.why}", MAX_CHARACTERS), found.fix, shorter=(start,))


def uncovered_document(found: UncoveredClass) -> dict[str, Any]:
    """The PriorityClass as JSON; "" for all other classes."""
    return {"class": found.name}
