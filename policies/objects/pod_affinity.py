"""Pod affinity and anti-affinity. Source: kube-scheduler `framework/types.go`, `AffinityTerm`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.metering import charge
from forewarn.policies.objects.fields import NOTHING, ApiObject, at, int32, items, mapping, string_map, strings, text
from forewarn.policies.selectors import InvalidSelector, LabelSelector, parse_label_selector, with_label_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.objects.namespace import Namespace


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of Pod affinity. `namespaces`: None for the namespace of the Pod with the term.

    `selector`: None (missing) matches no Pod.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    namespace_selector: LabelSelector | None

    def matches(
        self, owner_namespace: str, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Report whether the term matches a Pod. Source: upstream `AffinityTerm.Matches`.

        `owner_namespace`: of the Pod with the term. `namespace`, `labels`, `namespace_labels`: of the other Pod; the
        last are labels of its namespace.
        """
        named = namespace == owner_namespace if self.namespaces is None else namespace in self.namespaces
        if not named and (self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)):
            return False
        return self.selector is not None and self.selector.matches(labels)


def merge_namespaces(term: AffinityTerm, namespaces: Mapping[tuple[str, str], Namespace]) -> AffinityTerm:
    """Return the term of a new Pod with the namespaces that its namespaceSelector matches now, by (namespace, name).

    In contrast to upstream, the result retains the selector, which is then evaluated without the labels of other Pods'
    namespaces: a selector that matches absent labels, such as NotIn, matches every namespace. Source: upstream
    `mergeAffinityTermNamespacesIfNotEmpty`.
    """
    selector = term.namespace_selector
    if selector is None or selector.empty:
        return term
    charge(1 + len(namespaces))
    selected = {n.name for n in namespaces.values() if selector.matches(n.labels)}
    return replace(term, namespaces=frozenset(selected | (term.namespaces or frozenset())))


@dataclass(frozen=True, slots=True)
class WeightedAffinityTerm:
    """A preferred term of Pod affinity with its weight."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """The four lists of affinity terms of a Pod. A list that is invalid is empty, with an entry in `errors`, as
    upstream.

    `present`: whether podAffinity or podAntiAffinity exists, even without terms.
    """

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    present: bool = False
    has_required_anti_affinity: bool = False
    has_preferred: bool = False
    errors: tuple[str, ...] = ()

    @classmethod
    def from_api(cls, pod: ApiObject, labels: Mapping[str, str]) -> PodAffinity:
        """Read the Pod affinity of a Pod's API object.

        `labels`: the result of `merged_labels`. Raises InvalidObject.
        """
        if (
            at(pod, "spec", "affinity", "podAffinity") is None
            and at(pod, "spec", "affinity", "podAntiAffinity") is None
        ):
            return NO_POD_AFFINITY
        errors: list[str] = []
        affinity = ("spec", "affinity", "podAffinity")
        anti_affinity = ("spec", "affinity", "podAntiAffinity")
        weighted = [list(items(pod, *path, _PREFERRED)) for path in (affinity, anti_affinity)]
        return cls(
            required_affinity=_terms(pod, affinity, "requiredAffinityTerms", errors, labels),
            required_anti_affinity=_terms(pod, anti_affinity, "requiredAntiAffinityTerms", errors, labels),
            preferred_affinity=_weighted(weighted[0], "preferredAffinityTerms", errors, labels),
            preferred_anti_affinity=_weighted(weighted[1], "preferredAntiAffinityTerms", errors, labels),
            present=True,
            has_required_anti_affinity=any(True for _ in items(pod, *anti_affinity, _REQUIRED)),
            has_preferred=any(weighted),
            errors=tuple(errors),
        )


NO_POD_AFFINITY = PodAffinity()
ALL_NAMESPACES: Final = ""
_MAX_TERMS: Final = 64
_MAX_NAMES: Final = 1_000


def other_namespaces(spec: ApiObject, namespace: str) -> frozenset[str]:
    """Return the namespaces in a Pod's affinity terms besides `namespace`; ALL_NAMESPACES stands for a
    namespaceSelector.

    Also contains ALL_NAMESPACES if there are more terms, or names in a term, than forewarn predicts
    (`policies.objects.extent`). Ignores invalid values, because forewarn predicts no Pod with them.
    """
    others: set[str] = set()
    for term in _terms_of(spec.get("affinity")):
        names = term.get("namespaces")
        names = names if isinstance(names, list) else []
        if term.get("namespaceSelector") is not None or len(names) > _MAX_NAMES:
            others.add(ALL_NAMESPACES)
        others.update(name for name in names[:_MAX_NAMES] if isinstance(name, str) and name != namespace)
    return frozenset(others)


def _terms_of(affinity: object) -> Iterator[ApiObject]:
    """Yield the terms of affinity and anti-affinity, required and preferred.

    For a list with too many terms, also yields a term with a namespaceSelector for all namespaces.
    """
    kinds = [affinity.get(kind) for kind in ("podAffinity", "podAntiAffinity")] if isinstance(affinity, dict) else []
    for lists in (kind for kind in kinds if isinstance(kind, dict)):
        for how in (_REQUIRED, _PREFERRED):
            entries = lists.get(how)
            entries = entries if isinstance(entries, list) else []
            if len(entries) > _MAX_TERMS:
                yield {"namespaceSelector": {}}
            for entry in entries[:_MAX_TERMS]:
                term = entry.get("podAffinityTerm") if how == _PREFERRED and isinstance(entry, dict) else entry
                if isinstance(term, dict):
                    yield term


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def merged_labels(pod: ApiObject) -> Mapping[str, str]:
    """Return the labels from which matchLabelKeys and mismatchLabelKeys of a new Pod add requirements to selectors.

    Empty for a Pod with a uid: the API server has added the requirements, and labels may have changed since. Source:
    pkg/registry/core/pod/strategy.go, `mutatePodAffinity`. Raises InvalidObject.
    """
    return NOTHING if at(pod, "metadata", "uid") else string_map(pod, "metadata", "labels")


def _terms(
    pod: ApiObject, path: tuple[str, ...], what: str, errors: list[str], labels: Mapping[str, str]
) -> tuple[AffinityTerm, ...]:
    try:
        return tuple(_term(term, labels) for term in items(pod, *path, _REQUIRED))
    except InvalidSelector as error:
        errors.append(f"{what}: {error}")
        return ()


def _weighted(
    entries: list[ApiObject], what: str, errors: list[str], labels: Mapping[str, str]
) -> tuple[WeightedAffinityTerm, ...]:
    try:
        return tuple(
            WeightedAffinityTerm(int32(e, "weight") or 0, _term(mapping(e, "podAffinityTerm"), labels)) for e in entries
        )
    except InvalidSelector as error:
        errors.append(f"{what}: {error}")
        return ()


def _term(term: ApiObject, labels: Mapping[str, str]) -> AffinityTerm:
    namespaces = strings(term, "namespaces")
    selector = parse_label_selector(term.get("labelSelector"))
    for key, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        selector = with_label_keys(selector, operator, strings(term, key), labels)
    namespace_selector = term.get("namespaceSelector")
    return AffinityTerm(
        topology_key=text(term, "topologyKey"),
        selector=selector,
        namespaces=None if not namespaces and namespace_selector is None else frozenset(namespaces),
        namespace_selector=parse_label_selector(namespace_selector),
    )
