"""Texts about PriorityClasses, stored Pods and PodGroups, of which some requesters may not know all."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.disclosure import Audience, shown_count, shown_pods
from forewarn.policies.base.findings import Text, cut, listed, plural, quote
from forewarn.policies.linting.rules.support.rule_text import api_text, naming, priorities_of
from forewarn.policies.linting.rules.wording.forecasts import unfinished
from forewarn.policies.linting.rules.wording.impact import capitalized
from forewarn.policies.linting.rules.wording.phrases import (
    counted,
    first_keys,
    namespaces_phrase,
    pods_text,
    priorities,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.linting.rules.support.details import (
        ClassInUse,
        GroupPending,
        GroupPreemption,
        PlaceholdersPreempted,
        PodsOfMissingClass,
        PodsWithPriority,
        PreemptingClasses,
        UncoveredClass,
        UnknownClass,
    )
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast

_FEW: Final = 3
_MAX_LENGTH: Final = 40
_MAX_GROUP_LENGTH: Final = 30
"""Maximum number of characters of the PodGroup's name at the start of a message."""
_MAX: Final = 10
"""Maximum number of PriorityClasses in the JSON."""


def class_in_use(details: ClassInUse, audience: Audience) -> Text:
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
    similar = details.known.similar(details.name, audience) if details.known else []
    meant = [details.meant] if details.meant else similar
    return Text(
        f"PriorityClass {quote(cut(details.name, details.longest))} not found{details.consequence}",
        details.fix or _class_fix(details, audience, meant),
        (f"Did you mean {' or '.join(map(quote, meant))}?",) if meant else (),
    )


def _class_fix(details: UnknownClass, audience: Audience, meant: Sequence[str]) -> str:
    """The fix, with the classes that may be meant, or the PriorityClasses that the audience may know."""
    if details.meant:
        return f"use {quote(details.meant)}"
    names = meant or list(details.known.sorted) if details.known else []
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
        shown = f"class {quote(cut(details.name, _MAX_LENGTH))}"
    start = f"allows {shown} under limitedResources"
    return Text(f"{start} {details.why}", details.fix, shorter=(start,))


def with_priority(details: PodsWithPriority, audience: Audience) -> Text:
    """The text, for example `1 Pod (team/web-1) of this class has priority 7, not 1000`."""
    return Text(pods_text(details.pods, audience, details.after, in_namespace=details.is_in_namespace), details.fix)


def priority_document(details: PodsWithPriority) -> dict[str, Any]:
    return {"pods": len(details.pods), **({} if details.expected is None else {"value": details.expected})}


def missing_class(details: PodsOfMissingClass, audience: Audience) -> Text:
    """The text for a deleted class that Pods still use."""
    pods, names = details.pods, first_keys(details.pods, audience)
    if len(pods) == 1:
        after = " still uses it; a replacement with this class will be rejected"
        problem = naming("deleted, but ", names, 1, after) if names else f"deleted, but 1 Pod{after}"
    else:
        after = " still use it; replacements with this class will be rejected"
        problem = f"deleted, but {pods_text(pods, audience, after)}"
    return Text(problem, f"recreate with value {priorities_of(pods)}, or change the template")


def placeholders_preempted(details: PlaceholdersPreempted, audience: Audience) -> Text:
    """The text: `restarts of 2 workloads (team/a, team/b) would preempt at most 3 placeholder Pods each`."""
    count, most = len(details.workloads), plural(details.most, "placeholder Pod")
    named = [f"{ref.namespace}/{ref.name}" for ref in details.workloads if audience.may_name(ref.namespace)]
    before, after = f"restarts of {plural(count, 'workload')}", f" would preempt {most}"
    if count > 1:
        after = f" would preempt at most {most} each"
    problem = naming(f"{before} (", named, count, f"){after}") if named else f"{before}{after}"
    return Text(problem, "none needed: placeholder Pods reserve this capacity")


def group_preemption(details: GroupPreemption, audience: Audience) -> Text:
    """The text: `PodGroup trainer (minCount 8): would preempt 2 PodGroups (16 Pods): ml/a, ml/b (priority 100)`."""
    group, more = details.group, capitalized(unfinished(details.impact, audience))
    whole = [unit for unit in group.units if len(unit.pods) > 1]
    in_whole = sum(len(unit.pods) for unit in whole)
    others = len(group.victims) - in_whole
    what = []
    if whole:
        pods = counted(shown_count(in_whole, audience), "Pod")
        what.append(f"{counted(shown_count(len(whole), audience), 'PodGroup')} ({pods})")
    if others:
        what.append(counted(shown_count(others, audience), "other Pod" if whole else "Pod"))
    shown = shown_pods(group.victims, audience)
    facts = [priorities(shown.priorities), *(["violates a PDB"] if group.num_pdb_violations else [])]
    start, behind = f"{_group_head(group)}would preempt {' and '.join(what)}", f" ({', '.join(facts)})"
    firsts = [(unit.pods[0], len(unit.pods) > 1) for unit in group.units]
    names = [
        f"{first.namespace}/{first.spec.pod_group}" if is_whole else first.key
        for first, is_whole in firsts
        if audience.may_name(first.namespace)
    ]
    if names:
        problem = naming(f"{start}: ", names, len(group.units), behind)
    else:
        problem = f"{start}{namespaces_phrase(shown)}{behind}"
    return Text(problem, details.fix, more, (start,))


def group_pending(details: GroupPending, audience: Audience) -> Text:
    """The text of a Pending group, for example `PodGroup trainer (minCount 8): waits for 3 more Pods`."""
    group = details.group
    if group.missing:
        missing = counted(shown_count(group.missing, audience), "more Pod")
        return Text(f"{_group_head(group)}waits for {missing}", group.fix)
    start = f"{_group_head(group)}stays Pending"
    why, fix = ("", "") if audience.coarse else (f": {api_text(group.message)}", group.fix)
    fix = fix or "run `forewarn predict`, or lower requests or minCount"
    return Text(f"{start}{why}", fix, shorter=(start,))


def _group_head(group: GroupForecast) -> str:
    return f"PodGroup {cut(group.group.name, _MAX_GROUP_LENGTH)} ({group.policy}): "
