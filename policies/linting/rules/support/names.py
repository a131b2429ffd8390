"""Known names, and the known name that a misspelled one probably means. Of very many names, only some are compared."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import OPEN, Audience
from forewarn.policies.base.findings import grouped, listed, quote
from forewarn.policies.base.light import later
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.kinds.registry import (
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    NAMESPACE,
    RESOURCE_FLAVOR,
    RESOURCE_QUOTA,
    WORKLOAD_PRIORITY_CLASS,
)
from forewarn.policies.kubernetes.kube_apiserver.priority import is_recommended
from forewarn.policies.kubernetes.objects.fields import group_kind, text_at
from forewarn.policies.kubernetes.objects.priority_class import (
    HOSTED_CLASSES,
    SERVED_VERSION,
    SYSTEM_CLASSES,
    SYSTEM_PRIORITY_CLASS_PREFIX,
)
from forewarn.policies.kubernetes.selectors import is_subdomain
from forewarn.policies.linting.rules.support.allowed_classes import is_allowed

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.linting.rules.support.context import Context


_MAX_LENGTH: Final = 253
"""Maximum characters of a name for which a similar name is suggested."""
_MAX_CANDIDATES: Final = 100
_MAX_COMPARED: Final = 1_500
"""Maximum characters of the candidates for one name: a comparison takes time with the square of the length."""
_MAX_LOOKUPS: Final = 250
"""Maximum number of different names that are looked up for one change set."""

_MAX_LISTED: Final = 5
_SHORT_NAME: Final = 5
"""Names with up to this number of characters count as different if two letters differ."""
_SHORT_PART: Final = 3
"""Minimum characters of a part between separators that can be misspelled."""
_DIGITS: Final = later(r"[0-9]+")
_SEPARATOR: Final = later(r"[-._]")


class Lookups:
    """How many more names are looked up for a change set, however many `Names` it has."""

    def __init__(self, _: Context | None = None) -> None:
        self.left = _MAX_LOOKUPS


class Names:
    """Known names, for lookups of similar names."""

    def __init__(self, names: Iterable[str], lookups: Lookups | None = None) -> None:
        self._known, self._lookups = names, lookups or Lookups()
        self._found: dict[str, str] = {}
        self._meant: dict[str, str] = {}

    @cached_property
    def sorted(self) -> list[str]:
        return sorted(self._known)

    @cached_property
    def _all(self) -> Collection[str]:
        return frozenset(self._known)

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def __bool__(self) -> bool:
        """Whether any name is known."""
        return bool(self._all)

    @cached_property
    def _sort_by_length(self) -> Sequence[tuple[int, str]]:
        return sorted((len(name), name) for name in self._known)

    def nearest(self, name: str, audience: Audience = OPEN) -> str:
        """Return the most similar name that the audience may know; "" if there is none.

        Names that the audience may not know are not compared, because a suggestion would reveal them.
        """
        return self.nearest_name(name) if audience.sees_all else _nearest(name, filter(audience.knows, self._known))

    def similar(self, name: str, audience: Audience = OPEN) -> list[str]:
        """Return the names that may be meant: the one of which this is a misspelling; otherwise the longest one with
        which this one begins, as prod in production, and the most similar one.
        """
        near = self.nearest(name, audience)
        if near and is_misspelt(name, near):
            return [near]
        starts = (other for other in self._known if len(other) >= _SHORT_PART and name.startswith(other))
        begins = max((other for other in starts if audience.sees_all or audience.knows(other)), key=len, default="")
        return [*filter(None, dict.fromkeys((begins, near)))]

    def nearest_name(self, name: str) -> str:
        """The known name that is most similar to this one; "" if none is similar."""
        if name not in self._found:
            if self._lookups.left == 0:
                return ""
            self._lookups.left -= 1
            self._found[name] = _nearest(name, self._candidates(name))
        return self._found[name]

    def meant(self, name: str) -> str:
        """The known name that a name is a misspelling of, or the only one that contains it or is a part of it; "" if
        there is none.
        """
        near = self.nearest_name(name)
        if name in self._found and name not in self._meant:
            related = [other for other in self._candidates(name) if is_part(name, other)]
            only = related[0] if len(related) == 1 else ""
            self._meant[name] = near if near and is_misspelt(name, near) else only
        return self._meant.get(name, "")

    def _candidates(self, name: str) -> Iterable[str]:
        """The names to compare: all, or of very many only those of about the same length and near in the alphabet."""
        names = self._sort_by_length
        if len(names) <= _MAX_CANDIDATES:
            return self._known
        near, share = set[str](), _MAX_CANDIDATES // 6
        for length in (len(name) - 1, len(name), len(name) + 1):
            at = bisect_left(names, (length, name))
            near.update(other for _, other in names[max(at - share, 0) : at + share])
        return near.intersection(self._known)


def nearest(name: str, names: Iterable[str]) -> str:
    """The suggestion `; did you mean "high"?` from these names; "" if none is similar."""
    meant = _nearest(name, names)
    return f"; did you mean {quote(meant)}?" if meant else ""


def suggested(name: str, candidates: Iterable[str]) -> str:
    """The suggestion of a similar name, `; did you mean "high"?`, or a list of the first names, `; known: a, b`."""
    return "".join(suggestion(name, candidates))


def suggestion(name: str, candidates: Iterable[str]) -> tuple[str, str]:
    """Return (the suggestion of a similar name, a list of the first names) as in `suggested`; one of them is ""."""
    names = sorted(candidates)
    meant = Names(names).similar(name)
    if not meant or (len(names) <= _MAX_LISTED and not is_misspelt(name, meant[0])):
        return "", f"; known: {listed(names, _MAX_LISTED)}" if names else ""
    return f"; did you mean {' or '.join(map(quote, meant))}?", ""


def is_impossible_name(name: str) -> bool:
    """Report whether no class can have a name. Source: ValidatePriorityClassName, a DNS subdomain."""
    return bool(name) and not is_subdomain(name)


def is_reserved(name: str) -> bool:
    return name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX)


def is_misspelt(name: str, meant: str, *, edits: int = 2) -> bool:
    """Report whether `name` is a misspelling of `meant`: at most `edits` letters are wrong, missing, added or swapped.

    Names that differ in a number or in a short part (web-1 and web-2, web-eu and web-us) are different names.
    """
    if len(name) > _MAX_LENGTH or _DIGITS.findall(name) != _DIGITS.findall(meant):
        return False
    parts, others = _SEPARATOR.split(name), _SEPARATOR.split(meant)
    if len(parts) == len(others) > 1:
        differing = [(a, b) for a, b in zip(parts, others, strict=True) if a != b]
        if any(min(len(a), len(b)) < _SHORT_PART for a, b in differing):
            return False
    most = 1 if max(len(name), len(meant)) <= _SHORT_NAME else edits
    return _edits(name, meant, most) <= most


def is_part(name: str, other: str) -> bool:
    """Report whether one name is a part of the other, between separators: worker is a part of queue-worker."""
    part, whole = sorted((_SEPARATOR.sub("-", name), _SEPARATOR.sub("-", other)), key=len)
    is_within = _SHORT_PART <= len(part) < len(whole) <= _MAX_LENGTH and f"-{part}-" in f"-{whole}-"
    return is_within and _DIGITS.findall(part) == _DIGITS.findall(whole)


def _edits(one: str, other: str, limit: int) -> int:
    """Return the number of wrong, missing, added or swapped letters (optimal string alignment distance).

    If the distance exceeds `limit`, returns a number above `limit`.
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before, last = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [limit + 1] * (len(other) + 1)  # more than `limit` letters are missing or added
        row[0] = i
        for j in range(max(i - limit, 1), min(i + limit, len(other)) + 1):
            b = other[j - 1]
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row[j] = cost
        if min(row) > limit:
            break
        before, last = last, row
    return row[-1] if one else last[-1]


def _nearest(name: str, candidates: Iterable[str]) -> str:
    if len(name) > _MAX_LENGTH:
        return ""
    from difflib import SequenceMatcher, get_close_matches  # only when something is wrong

    names = sorted(o for o in candidates if len(o) <= _MAX_LENGTH and not _is_another_number(name, o))
    most = min(max(_MAX_COMPARED // max(len(name), 1), 1), _MAX_CANDIDATES)
    if len(names) > most:
        names = sorted(nsmallest(most, names, key=lambda other: _distance(name, other)))
    return max(
        sorted(get_close_matches(name, names, n=_MAX_CANDIDATES, cutoff=0.6)),
        key=lambda other: (SequenceMatcher(None, other, name).ratio(), _same_start(name, other)),
        default="",
    )


def _is_another_number(name: str, other: str) -> bool:
    """Report whether names differ only in numbers: prod-1 and prod-2 are two names."""
    return name != other and _DIGITS.sub("0", name) == _DIGITS.sub("0", other)


def _distance(name: str, other: str) -> tuple[bool, int, int, str]:
    """Return the sort key of a candidate: names with the same start and about the same length are first."""
    return name[:2] != other[:2], abs(len(name) - len(other)), -_same_start(name, other), other


def _same_start(name: str, other: str) -> int:
    return sum(1 for _ in takewhile(bool, map(eq, name, other)))


_OFTEN = 2
"""Minimum uses of a name in the input that is no misspelling of another name."""


def meant_system_class(name: str, context: Context) -> str:
    """The class of every such cluster that a name is a misspelling of; "" if there is none."""
    classes = (*SYSTEM_CLASSES, *HOSTED_CLASSES.get(context.options.preset, ()))
    return next((c.name for c in classes if is_misspelt(name, c.name)), "")


def meant_elsewhere(name: str, context: Context) -> str:
    """The class that a name is a misspelling of, among those of other directories, or the more frequent names of the
    input; "" if there is none.
    """
    options = context.options
    if name in options.input_classes:
        return ""
    meant = context.once(_defined).nearest_name(name)
    if meant and is_misspelt(name, meant):
        return meant
    often = context.once(_used).nearest_name(name)
    is_rarer = options.class_uses.get(name, 0) < options.class_uses.get(often, 0)
    return often if often and is_rarer and is_misspelt(name, often, edits=1) else ""


def _defined(context: Context) -> Names:
    """The classes that other directories of the input define."""
    return Names(context.options.input_classes - context.classes.keys(), context.once(Lookups))


def _used(context: Context) -> Names:
    """The names that the input uses several times."""
    often = {name for name, count in context.options.class_uses.items() if count >= _OFTEN}
    return Names(often, context.once(Lookups))


class Recommended:
    """The PriorityClasses of the change set and the cluster that may be recommended for a subject."""

    def __init__(self, context: Context) -> None:
        self._context = context
        rejected = _rejected(context)
        classes = charging(sorted(context.classes.values()))
        self._classes = [c for c in classes if is_recommended(c) and c.name not in rejected]
        self._lookups = context.once(Lookups)
        self._to_all = Names([c.name for c in self._classes], self._lookups)
        self._of_namespace: dict[str, Names] = {}

    def names_for(self, subject: ReviewedObject) -> Names:
        """The names of classes that allowedClasses and limitedResources permit for a subject."""
        options = self._context.options
        if options.limited_resources and group_kind(subject.object) not in (NAMESPACE, RESOURCE_QUOTA):
            covered = [c.name for c in charging(self._classes, 20) if self._is_covered(c, subject)]
            return Names(covered, self._lookups)
        if not options.allowed_classes:
            return self._to_all
        namespace = _namespace_of(subject)
        if namespace not in self._of_namespace:
            allowed = [c.name for c in charging(self._classes) if self._is_allowed(c, subject)]
            self._of_namespace[namespace] = Names(allowed, self._lookups)
        return self._of_namespace[namespace]

    def _is_allowed(self, priority_class: PriorityClass, subject: ReviewedObject) -> bool:
        return is_allowed(subject, priority_class.name, _namespace_of(subject), self._context) is not False

    def _is_covered(self, priority_class: PriorityClass, subject: ReviewedObject) -> bool:
        """Whether allowedClasses permits the class, and quotas cover what limitedResources requires for the class."""
        from forewarn.policies.linting.rules.support.quota_use import (
            uncovered_of,  # late: ask for it only where something is limited
        )

        context = self._context
        return self._is_allowed(priority_class, subject) and not uncovered_of(
            subject, context, context.options.limited_resources, priority_class.name
        )


def _rejected(context: Context) -> set[str]:
    if not context.defined:
        return set()
    from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import (  # not for Pods
        decode_error,
        validate_priority_class,
    )

    rejected, accepted = set[str](), set(context.stored_classes)
    for subject, defined in context.defined:
        new, obj, other = defined.priority_class, subject.object, context.default_before(subject)
        is_second_default = new.global_default and other is not None and other.priority_class.name != new.name
        is_served = obj.get("apiVersion") == SERVED_VERSION
        is_rejected = not is_served or is_second_default or decode_error(obj) or validate_priority_class(obj)
        (rejected if is_rejected else accepted).add(new.name)
    return rejected - accepted


def recommended_to(subject: ReviewedObject, context: Context) -> Names:
    return context.once(Recommended).names_for(subject)


def _namespace_of(subject: ReviewedObject) -> str:
    return subject.ref.name if group_kind(subject.object) == NAMESPACE else subject.effective_namespace


def workload_classes(context: Context) -> Names:
    """Return the names of Kueue's WorkloadPriorityClasses in the change set."""
    return context.once(kueue_names).get((WORKLOAD_PRIORITY_CLASS, ""), Names(()))


def kueue_names(context: Context) -> Mapping[tuple[str, str], Names]:
    """Return the names of Kueue's objects by kind and namespace ("" for none): those of the change set, and of the
    cluster.
    """
    names = []
    stored = context.cluster.kueue if context.cluster is not None else {}
    for kind in (RESOURCE_FLAVOR, COHORT, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS):
        for subject in context.of_kind(kind):
            namespace = subject.effective_namespace if kind == LOCAL_QUEUE else ""
            names.append(((kind, namespace), text_at(subject.object, "metadata", "name")))
        names += (((kind, namespace), name) for namespace, name in stored.get(kind, ()))
    return {place: Names(found, context.once(Lookups)) for place, found in grouped(names).items()}
