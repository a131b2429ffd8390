"""Affinity and anti-affinity between pods. Source: kube-scheduler `framework/types.go`, `AffinityTerm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.objects.fields import ApiObject, at, int32, mapping, text
from policies.objects.items import items, strings
from policies.selectors import InvalidSelector, LabelSelector, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Which pods, and on which topology. `namespaces` None: those of the pod that has the term. A nil selector (None)
    matches nothing."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    namespace_selector: LabelSelector | None

    def matches(
        self, owner_namespace: str, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Whether it matches a pod of `namespace` with `labels`. Source: upstream `AffinityTerm.Matches`."""
        named = namespace == owner_namespace if self.namespaces is None else namespace in self.namespaces
        if not named and (self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)):
            return False
        return self.selector is not None and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class WeightedAffinityTerm:
    """A preference, and what it is worth."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """A pod's four lists of terms. A list that cannot be read is empty and in `errors`, as upstream's PodInfo has it.

    `present`: one of podAffinity and podAntiAffinity is there, even without terms.
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
    def from_api(cls, pod: ApiObject) -> PodAffinity:
        """Read a pod's `spec.affinity`. Raises InvalidObject."""
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
            required_affinity=_terms(pod, affinity, "requiredAffinityTerms", errors),
            required_anti_affinity=_terms(pod, anti_affinity, "requiredAntiAffinityTerms", errors),
            preferred_affinity=_weighted(weighted[0], "preferredAffinityTerms", errors),
            preferred_anti_affinity=_weighted(weighted[1], "preferredAntiAffinityTerms", errors),
            present=True,
            has_required_anti_affinity=any(True for _ in items(pod, *anti_affinity, _REQUIRED)),
            has_preferred=any(weighted),
            errors=tuple(errors),
        )


NO_POD_AFFINITY = PodAffinity()
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _terms(pod: ApiObject, path: tuple[str, ...], what: str, errors: list[str]) -> tuple[AffinityTerm, ...]:
    try:
        return tuple(_term(term) for term in items(pod, *path, _REQUIRED))
    except InvalidSelector as error:
        errors.append(f"{what}: {error}")
        return ()


def _weighted(entries: list[ApiObject], what: str, errors: list[str]) -> tuple[WeightedAffinityTerm, ...]:
    try:
        return tuple(
            WeightedAffinityTerm(int32(e, "weight") or 0, _term(mapping(e, "podAffinityTerm"))) for e in entries
        )
    except InvalidSelector as error:
        errors.append(f"{what}: {error}")
        return ()


def _term(term: ApiObject) -> AffinityTerm:
    namespaces = strings(term, "namespaces")
    namespace_selector = term.get("namespaceSelector")
    return AffinityTerm(
        topology_key=text(term, "topologyKey"),
        selector=parse_label_selector(term.get("labelSelector")),
        namespaces=None if not namespaces and namespace_selector is None else frozenset(namespaces),
        namespace_selector=parse_label_selector(namespace_selector),
    )
