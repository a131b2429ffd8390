"""Limits on the size of objects: on the parts of a Pod's spec that are read, and on the parts that are stored.

Real Pods are far below these limits. If work is metered (`base/metering.py`), these limits are checked first, so that
a Pod above the limits is rejected at low cost. Offline commands have no limits.

Of a large object, the parts within the limit are stored, and placeholders for the other parts. A placeholder can be
copied and compared. Reading a placeholder raises TooLargeToRetain, which names the object: no prediction or rule uses
missing parts. The memory of parsed JSON is estimated: 3 bytes of text, `{},`, can become 72 bytes of Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from sys import getsizeof
from typing import Any, Final, NoReturn

from forewarn.policies.base.metering import TooLarge, limited
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, POD
from forewarn.policies.kubernetes.objects.fields import (
    PREFERRED,
    REQUIRED,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    list_at,
    mapping_at,
    ref_of,
)

MAX_RETAINED: Final = 64 * 1024
"""Maximum bytes of memory of a stored workload or Pod."""
_MAX_IN_NAMESPACE: Final = 256 * 1024
_MAX_IN_CLUSTER: Final = 4 * 1024 * 1024
"""Maximum bytes of memory of other cluster-scoped objects: a ResourceSlice may have 128 devices."""
_MAX_PARTS: Final = 64
"""Maximum number of fields or items of a part that are stored separately; a part with more is replaced as a whole."""
_LEAST: Final = 384
"""Minimum bytes of memory for each part of an object.

With less, the whole part is replaced, because a placeholder needs almost as much.
"""


class TooLargeToRetain(TooLarge, InvalidObject):
    """The error if a prediction or rule reads a part of a stored object that was too large to store.

    Commands handle the error as an unreadable object, rules as an exceeded limit.
    """

    def __init__(self, what: str, limit: int = MAX_RETAINED) -> None:
        super().__init__(f"{what} exceeds what forewarn keeps ({limit // 1024} KiB)", "make it smaller")


class _Omitted:
    """A placeholder for a part that is not stored, equal to every list or object with the same JSON text."""

    def __init__(self, what: str, digest: bytes, limit: int = MAX_RETAINED) -> None:
        """`what`: names the object. `digest`: hash of the part. `limit`: maximum stored bytes of the object."""
        super().__init__()
        self.what, self.digest, self.most = what, digest, limit

    def _fail(self, *_: object) -> NoReturn:
        raise TooLargeToRetain(self.what, self.most)

    __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = __repr__ = __or__ = __ror__ = __add__ = _fail
    __setitem__ = __delitem__ = keys = values = items = get = copy = _fail

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, _Omitted):
            return self.digest == other.digest
        return isinstance(other, list | dict) and _digest(other) == self.digest

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.digest, self.most)

    def __deepcopy__(self, _: object) -> _Omitted:
        return self


class OmittedList(_Omitted, list[Any]):
    """A placeholder for a list that is too large to store. Reading the placeholder raises TooLargeToRetain."""


class OmittedObject(_Omitted, dict[str, Any]):
    """A placeholder for an object or map that is too large to store. Reading it raises TooLargeToRetain."""


def _digest(value: object) -> bytes:
    from hashlib import sha256  # only for objects that are too large

    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).digest()


def is_omitted(value: object) -> bool:
    """Report whether a part of an object is a placeholder."""
    return isinstance(value, _Omitted)


def max_retained(kind: str) -> int:
    """Return the maximum bytes of memory of a stored object of a `group/Kind`."""
    spec = BY_GROUP_KIND.get(kind)
    if spec is None or spec.template or kind == POD:
        return MAX_RETAINED
    return _MAX_IN_NAMESPACE if spec.namespaced else _MAX_IN_CLUSTER


def retained_part(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the object with placeholders for the parts that exceed the limit of its kind."""
    return bounded(obj, max_retained(group_kind(obj)))


def bounded(obj: dict[str, Any], limit: int = MAX_RETAINED) -> dict[str, Any]:
    """Return the object; if it exceeds `limit` bytes of memory, with placeholders for its largest parts."""
    if memory_of(obj, limit) <= limit:
        return obj
    ref = ref_of(obj)
    what = f"{ref.kind} {ref.namespace}/{ref.name}" if ref.namespace else f"{ref.kind} {ref.name}"

    def omitted(value: Any) -> Any:
        return (OmittedObject if isinstance(value, dict) else OmittedList)(what, _digest(value), limit)

    kept: dict[str, Any] = _bounded(obj, limit, omitted)
    return kept


def _bounded(value: Any, limit: int, omitted: Callable[[Any], Any]) -> Any:
    """Return the part within `limit` bytes: its smallest children completely, the others as far as the limit allows.

    `omitted`: returns the placeholder of a value.
    """
    parts = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if len(value) <= _MAX_PARTS else []
    )
    if not 0 < len(parts) <= _MAX_PARTS or limit < _LEAST * len(parts):
        return omitted(value)
    sizes = sorted(((memory_of(part, limit), place) for place, (_, part) in enumerate(parts)))
    kept: dict[int, Any] = {}
    room = limit - memory_of(dict.fromkeys(value) if isinstance(value, dict) else [None] * len(parts), limit)
    for left, (size, place) in zip(range(len(parts), 0, -1), sizes, strict=True):
        part, share = parts[place][1], max(room, 0) // left
        if size > share and not isinstance(part, dict | list):
            return omitted(value)
        kept[place] = part if size <= share else _bounded(part, share, omitted)
        room -= min(size, share)
    if isinstance(value, dict):
        return {key: kept[place] for place, (key, _) in enumerate(parts)}
    return [kept[place] for place in range(len(parts))]


_SMALL: Final = range(-5, 257)
"""Integers that the interpreter caches, so that they need no memory."""
_TEXT: Final = getsizeof("")


def max_memory_of(text: str, start: int = 0, end: int | None = None) -> int:
    """Return an upper bound, in bytes, of the memory of the JSON in `text[start:end]` after parsing.

    Only counts characters, braces, brackets, quotes, commas and colons; does not parse.
    """
    count = text.count
    length = len(text) - start if end is None else end - start
    entries = count(",", start, end) + count(":", start, end) + 1
    containers = 184 * count("{", start, end) + 88 * count("[", start, end)
    return containers + 32 * count('"', start, end) + 64 * entries + (1 if text.isascii() else 4) * length


def memory_of(value: Any, limit: int) -> int:
    """Return the bytes of memory of a parsed JSON value; each distinct key counts once.

    Stops when the sum exceeds `limit`: a result above `limit` means only that the value is larger. Only follows the
    types that a JSON parser creates, no subclasses.
    """
    total = 0
    keys: set[str] = set()
    left: list[Any] = [[value]]
    total -= getsizeof(left[0])
    while left and total <= limit:
        objects = left.pop()
        total += getsizeof(objects)
        if total > limit:
            break
        if objects.__class__ is dict:
            keys.update(objects)
            objects = objects.values()
        for part in objects:
            kind = part.__class__
            if kind is str:
                if len(part) > 1:  # the interpreter caches shorter texts
                    total += _TEXT + len(part) if part.isascii() else getsizeof(part)
            elif kind is dict or kind is list:
                left.append(part)
            elif part is not None and kind is not bool and not (kind is int and part in _SMALL):
                total += getsizeof(part)
    return total + sum(map(getsizeof, keys)) if total <= limit else total


MAX_CONTAINERS: Final = 500
"""Maximum number of containers of a Pod, including init containers."""
MAX_AMOUNTS: Final = 2_000
"""Maximum number of requests and limits of all containers together."""
MAX_RESOURCES: Final = 64
"""Maximum number of different resource names in requests and limits."""
MAX_PORTS: Final = 500
MAX_VOLUMES: Final = 500
MAX_TOLERATIONS: Final = 500
MAX_SPREAD: Final = 16
"""Maximum number of topology spread constraints of a Pod."""
MAX_POD_TERMS: Final = 32
"""Maximum number of terms of Pod affinity and anti-affinity, required and preferred."""
MAX_NODE_TERMS: Final = 100
"""Maximum number of terms of node affinity, required and preferred."""
MAX_REQUIREMENTS: Final = 1_000
"""Maximum number of requirements in all selectors of a Pod together."""
MAX_VALUES: Final = 5_000
"""Maximum number of values in all these requirements."""

MAX_LABELS: Final = 500
MAX_CHARACTERS: Final = 64 * 1024
"""Maximum characters of all labels, and of a name."""
MAX_QUOTA_RESOURCES: Final = 500
"""Maximum number of resources that a ResourceQuota limits."""
MAX_SCOPES: Final = 100
"""Maximum number of scopes of a ResourceQuota, and of expressions in its scopeSelector."""
MAX_SCOPE_VALUES: Final = 2_000
"""Maximum number of names of PriorityClasses in these scopes."""

MAX_QUOTAS: Final = 200
"""Maximum number of ResourceQuotas of a namespace, because each Pod is compared with each of them."""
MAX_LIMIT_RANGES: Final = 50
"""Maximum number of LimitRanges of a namespace, for the same reason."""


def check_counts(holder: str, counts: Iterable[tuple[str, int, int]]) -> None:
    """Raise TooLarge for the first (name, number, maximum) with a number above the maximum. `holder`: as text."""
    for what, count, most in counts:
        if count > most:
            raise TooLarge(f"{holder} has {count} {what}; forewarn evaluates at most {most}", f"remove {what}")


def check_extent(spec: Any) -> None:
    """Raise TooLarge if work is metered and a Pod's spec exceeds a limit."""
    if limited():
        check_counts("the Pod", _counts(spec))


def check_metadata_extent(metadata: Any) -> None:
    """Raise TooLarge if work is metered and the labels or the name of an object exceed a limit."""
    if not limited():
        return
    labels, name = mapping_at(metadata, "labels"), at(metadata, "name")
    check_counts("the Pod", [("labels", len(labels), MAX_LABELS)])
    texts = (*labels, *labels.values(), name)
    characters = sum(len(text) for text in texts if isinstance(text, str))
    check_counts("the Pod", [("characters of labels", characters, MAX_CHARACTERS)])


def check_quotas(quotas: Collection[Any]) -> None:
    """Raise TooLarge for too many ResourceQuotas of a namespace, also in offline commands, or for a large one."""
    check_counts("the namespace", [("ResourceQuotas", len(quotas), MAX_QUOTAS)])
    for quota in quotas:
        check_quota_extent(quota.spec, quota.name)


def check_limit_ranges(count: int) -> None:
    """Raise TooLarge if a namespace has too many LimitRanges; also in offline commands."""
    check_counts("the namespace", [("LimitRanges", count, MAX_LIMIT_RANGES)])


def check_quota_extent(spec: Any, name: str = "") -> None:
    """Raise TooLarge if work is metered and the spec of a ResourceQuota exceeds a limit.

    `name`: of a stored quota that is not the evaluated object.
    """
    if not limited():
        return
    scopes, expressions = list_at(spec, "scopes"), list_at(spec, "scopeSelector", "matchExpressions")
    values = sum(len(list_at(expression, "values")) for expression in expressions[:MAX_SCOPES])
    counts = (
        ("resources", len(mapping_at(spec, "hard")), MAX_QUOTA_RESOURCES),
        ("scopes", len(scopes) + len(expressions), MAX_SCOPES),
        ("names of classes", values, MAX_SCOPE_VALUES),
    )
    check_counts(f"ResourceQuota {name}" if name else "the ResourceQuota", counts)


def _counts(spec: ApiObject) -> Iterator[tuple[str, int, int]]:
    """Yield (name, number, maximum) for each limited part of a Pod's spec, the cheapest to count first."""
    containers = [*list_at(spec, "containers"), *list_at(spec, "initContainers")]
    yield "containers", len(containers), MAX_CONTAINERS
    yield "volumes", len(list_at(spec, "volumes")), MAX_VOLUMES
    yield "tolerations", len(list_at(spec, "tolerations")), MAX_TOLERATIONS
    yield from _resource_sizes(spec, containers)
    yield "ports", sum(len(list_at(container, "ports")) for container in containers), MAX_PORTS
    selectors: list[ApiObject] = [{"matchLabels": at(spec, "nodeSelector")}]
    spread = list_at(spec, "topologySpreadConstraints")
    yield "topology spread constraints", len(spread), MAX_SPREAD
    selectors += [mapping_at(constraint, "labelSelector") for constraint in spread]
    affinity = mapping_at(spec, "affinity")
    if affinity:
        yield from _node_affinity_sizes(affinity, selectors)
        yield from _pod_affinity_sizes(affinity, selectors)
    yield from _selector_sizes(selectors)


def _resource_sizes(spec: ApiObject, containers: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    holders = (spec, *containers)
    lists = [mapping_at(holder, "resources", part) for holder in holders for part in ("requests", "limits")]
    lists.append(mapping_at(spec, "overhead"))
    amounts = sum(map(len, lists))
    yield "requests and limits", amounts, MAX_AMOUNTS
    if amounts > MAX_RESOURCES:
        yield "resources", len({name for amounts_of in lists for name in amounts_of}), MAX_RESOURCES


def _node_affinity_sizes(affinity: ApiObject, selectors: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    required = list_at(affinity, "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    preferred = list_at(affinity, "nodeAffinity", PREFERRED)
    yield "terms of node affinity", len(required) + len(preferred), MAX_NODE_TERMS
    selectors += [*required, *(mapping_at(term, "preference") for term in preferred)]


def _pod_affinity_sizes(affinity: ApiObject, selectors: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    kinds = ("podAffinity", "podAntiAffinity")
    lists = [list_at(affinity, kind, how) for kind in kinds for how in (REQUIRED, PREFERRED)]
    yield "terms of Pod affinity", sum(map(len, lists)), MAX_POD_TERMS
    for place, terms in enumerate(lists):
        for entry in terms:
            term = mapping_at(entry, "podAffinityTerm") if place % 2 else entry
            selectors += [mapping_at(term, "labelSelector"), mapping_at(term, "namespaceSelector")]
            named = sum(len(list_at(term, key)) for key in ("namespaces", "matchLabelKeys", "mismatchLabelKeys"))
            yield "names in a term of affinity", named, MAX_REQUIREMENTS


def _selector_sizes(selectors: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    lists = [list_at(s, key) for s in selectors for key in ("matchExpressions", "matchFields")]
    labels = sum(len(mapping_at(s, "matchLabels")) for s in selectors)
    yield "requirements in selectors", labels + sum(map(len, lists)), MAX_REQUIREMENTS
    values = sum(len(list_at(entry, "values")) for entries in lists for entry in entries)
    yield "values in selectors", values, MAX_VALUES
