"""Limits on the parts of a Pod's spec that a prediction or a quota check reads.

Real Pods are far below these limits. If work is metered (`policies.metering`), these limits are checked first, so that
a Pod above the limits is rejected at low cost. Offline commands have no limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from forewarn.policies.metering import TooLarge, limited
from forewarn.policies.objects.fields import OBJECT, PREFERRED, REQUIRED, ApiObject

MAX_CONTAINERS: Final = 500
"""Maximum containers of a Pod, including init containers."""
MAX_AMOUNTS: Final = 2_000
"""Maximum requests and limits of all containers together."""
MAX_RESOURCES: Final = 64
"""Maximum different resource names in requests and limits."""
MAX_PORTS: Final = 500
MAX_VOLUMES: Final = 500
MAX_TOLERATIONS: Final = 500
MAX_SPREAD: Final = 16
"""Maximum topology spread constraints."""
MAX_POD_TERMS: Final = 32
"""Maximum terms of Pod affinity and anti-affinity, required and preferred."""
MAX_NODE_TERMS: Final = 100
"""Maximum terms of node affinity, required and preferred."""
MAX_REQUIREMENTS: Final = 1_000
"""Maximum requirements in all selectors of a Pod together."""
MAX_VALUES: Final = 5_000
"""Maximum values in all these requirements."""

MAX_LABELS: Final = 500
MAX_CHARACTERS: Final = 64 * 1024
"""Maximum characters of all labels, and of a name."""
MAX_QUOTA_RESOURCES: Final = 500
"""Maximum resources that a ResourceQuota limits."""
MAX_SCOPES: Final = 100
"""Maximum scopes of a ResourceQuota, and expressions in its scopeSelector."""
MAX_SCOPE_VALUES: Final = 2_000
"""Maximum names of PriorityClasses in these scopes."""

MAX_QUOTAS: Final = 200
"""Maximum ResourceQuotas of a namespace, because each Pod is compared with each of them."""


def check_counts(holder: str, counts: Iterable[tuple[str, int, int]]) -> None:
    """Raise TooLarge for the first (name, number, maximum) with a number above the maximum. `holder`: as text."""
    for what, count, most in counts:
        if count > most:
            raise TooLarge(f"{holder} has {count} {what}; forewarn evaluates at most {most}", f"remove {what}")


def check_extent(spec: Any) -> None:
    """Raise TooLarge if work is metered and a Pod's spec exceeds a limit."""
    if limited():
        check_counts("the Pod", _counts(_object(spec)))


def check_metadata_extent(metadata: Any) -> None:
    """Raise TooLarge if work is metered and the labels or the name of an object exceed a limit."""
    if not limited():
        return
    labels, name = _object(_object(metadata).get("labels")), _object(metadata).get("name")
    check_counts("the Pod", [("labels", len(labels), MAX_LABELS)])
    texts = (*labels, *labels.values(), name)
    characters = sum(len(text) for text in texts if isinstance(text, str))
    check_counts("the Pod", [("characters of labels", characters, MAX_CHARACTERS)])


def check_quotas(count: int) -> None:
    """Raise TooLarge if a namespace has too many ResourceQuotas; also in offline commands."""
    check_counts("the namespace", [("ResourceQuotas", count, MAX_QUOTAS)])


def check_quota_extent(spec: Any, name: str = "") -> None:
    """Raise TooLarge if work is metered and the spec of a ResourceQuota exceeds a limit.

    `name`: of a stored quota that is not the evaluated object.
    """
    if not limited():
        return
    scopes, selector = _list(_object(spec).get("scopes")), _object(_object(spec).get("scopeSelector"))
    expressions = _list(selector.get("matchExpressions"))
    values = sum(len(_list(_object(e).get("values"))) for e in expressions[:MAX_SCOPES])
    counts = (
        ("resources", len(_object(_object(spec).get("hard"))), MAX_QUOTA_RESOURCES),
        ("scopes", len(scopes) + len(expressions), MAX_SCOPES),
        ("names of classes", values, MAX_SCOPE_VALUES),
    )
    check_counts(f"ResourceQuota {name}" if name else "the ResourceQuota", counts)


def _counts(spec: ApiObject) -> Iterator[tuple[str, int, int]]:
    """Yield (name, number, maximum) for each limited part of a Pod's spec, the cheapest to count first."""
    containers, inits = _list(spec.get("containers")), _list(spec.get("initContainers"))
    yield "containers", len(containers) + len(inits), MAX_CONTAINERS
    yield "volumes", len(_list(spec.get("volumes"))), MAX_VOLUMES
    yield "tolerations", len(_list(spec.get("tolerations"))), MAX_TOLERATIONS
    yield from _of_resources([spec, *map(_object, containers), *map(_object, inits)])
    yield "ports", sum(len(_list(_object(c).get("ports"))) for c in (*containers, *inits)), MAX_PORTS
    selectors: list[ApiObject] = [{"matchLabels": spec.get("nodeSelector")}]
    spread = _list(spec.get("topologySpreadConstraints"))
    yield "topology spread constraints", len(spread), MAX_SPREAD
    selectors += [_object(_object(constraint).get("labelSelector")) for constraint in spread]
    affinity = _object(spec.get("affinity"))
    if affinity:
        yield from _of_node_affinity(_object(affinity.get("nodeAffinity")), selectors)
        yield from _of_pod_affinity(affinity, selectors)
    yield from _of_selectors(selectors)


def _of_resources(holders: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    lists = [_object(spec_of.get("overhead")) for spec_of in holders[:1]]
    for holder in holders:
        resources = holder.get("resources")
        if isinstance(resources, OBJECT):
            lists += [_object(resources.get("requests")), _object(resources.get("limits"))]
    amounts = sum(map(len, lists))
    yield "requests and limits", amounts, MAX_AMOUNTS
    if amounts > MAX_RESOURCES:
        yield "resources", len({name for amounts_of in lists for name in amounts_of}), MAX_RESOURCES


def _of_node_affinity(affinity: ApiObject, selectors: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    required = _list(_object(affinity.get(REQUIRED)).get("nodeSelectorTerms"))
    preferred = _list(affinity.get(PREFERRED))
    yield "terms of node affinity", len(required) + len(preferred), MAX_NODE_TERMS
    selectors += [*map(_object, required), *(_object(_object(term).get("preference")) for term in preferred)]


def _of_pod_affinity(affinity: ApiObject, selectors: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    lists = [
        _list(_object(affinity.get(kind)).get(how))
        for kind in ("podAffinity", "podAntiAffinity")
        for how in (REQUIRED, PREFERRED)
    ]
    yield "terms of Pod affinity", sum(map(len, lists)), MAX_POD_TERMS
    for place, terms in enumerate(lists):
        for entry in terms:
            term = _object(_object(entry).get("podAffinityTerm")) if place % 2 else _object(entry)
            selectors += [_object(term.get("labelSelector")), _object(term.get("namespaceSelector"))]
            named = sum(len(_list(term.get(key))) for key in ("namespaces", "matchLabelKeys", "mismatchLabelKeys"))
            yield "names in a term of affinity", named, MAX_REQUIREMENTS


def _of_selectors(selectors: list[ApiObject]) -> Iterator[tuple[str, int, int]]:
    lists = [_list(s.get(key)) for s in selectors for key in ("matchExpressions", "matchFields")]
    labels = sum(len(_object(s.get("matchLabels"))) for s in selectors)
    yield "requirements in selectors", labels + sum(map(len, lists)), MAX_REQUIREMENTS
    values = sum(len(_list(_object(entry).get("values"))) for entries in lists for entry in entries)
    yield "values in selectors", values, MAX_VALUES


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> ApiObject:
    return value if value is not None and isinstance(value, OBJECT) else {}
