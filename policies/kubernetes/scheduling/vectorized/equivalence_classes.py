"""Equivalence classes of Pods: Pods that differ only in name and start time have the same number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.metering import Meter, charge, meter
from forewarn.policies.kubernetes.scheduling.node_info import Ints, footprint

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import AffinityTerm, Pod
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.selectors import LabelSelector

Scope = tuple[str, ...]
"""The Pods of a namespace, or those of them with a label: (namespace,) or (namespace, key, value)."""
_LARGE: Final = 2 * 1024
"""Number of characters of a spec that count as one more class."""
_SOME: Final = 64
"""Number of classes for which a value is computed at a time."""
_SPARE: Final = 4
"""A table that grows gets a quarter more entries than it needs; not more, because thousands of tables are cached."""
_MAX_INDEXED: Final = 64
"""Maximum number of label keys by which classes are indexed."""


def scope_of(namespace: str, selector: LabelSelector | None) -> Scope:
    """Return a scope with all Pods of a namespace that a selector matches."""
    label = None if selector is None else selector.label
    return (namespace,) if label is None else (namespace, *label)


def scopes_of(pod: Pod) -> Iterator[Scope]:
    """Yield the scopes that contain a Pod."""
    yield (pod.namespace,)
    for label in pod.labels.items():
        yield pod.namespace, *label


class EquivalenceClasses:
    """The equivalence classes of Pods, numbered from 1; 0 means no Pod."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._numbers: dict[tuple[int, str, int, bool, int, int], int] = {}
        self.members: list[Pod | None] = [None]
        """[class]: a Pod of the class, None for class 0.

        The Pod keeps in memory the labels, spec and amounts whose ids identify the class.
        """
        self._of_namespace: dict[str, list[int]] = {}
        """Namespace -> the numbers of its classes, in ascending order."""
        self._of_label: dict[str, dict[tuple[str, str], list[int]]] = {}
        """Key of a label -> (namespace, value of the label) -> the numbers of the classes, in ascending order."""
        self.weight = 1
        """Number of classes; a large spec counts as several, because each class keeps its spec in memory."""
        self.lowest_priority = 2**31
        """Lowest priority of all classes so far."""
        self.priority = PerClass(self, lambda pod: pod.effective_priority)
        self._amounts: dict[str, PerClass] = {}

    def __len__(self) -> int:
        return len(self.members)

    def number(self, pod: Pod) -> int:
        """Return the number of a Pod's equivalence class. A new class gets the next number."""
        labels, spec, occupies = id(pod.labels), id(pod.spec), id(pod.occupies)
        key = pod.priority or 0, pod.namespace, labels, pod.terminating, spec, occupies
        result = self._numbers.get(key)
        if result is None:
            result = self._numbers[key] = len(self.members)
            self.members.append(pod)
            self._of_namespace.setdefault(pod.namespace, []).append(result)
            for label, table in self._of_label.items():
                _enter(table, label, result, pod)
            self.weight += 1 + pod.spec.size // _LARGE
            self.lowest_priority = min(self.lowest_priority, pod.effective_priority)
        return result

    def forget(self) -> None:
        """Clear the tables. The tables refer to each other: otherwise only garbage collection would free them."""
        self._numbers.clear()
        self.members.clear()
        self._of_namespace.clear()
        self._of_label.clear()

    def classes_in_scope(self, scope: Scope) -> Sequence[int]:
        """Return the numbers of the classes in a scope, in ascending order."""
        namespace, *label = scope
        if not label:
            return self._of_namespace.get(namespace, ())
        key, value = label
        table = self._of_label.get(key)
        if table is None:
            charge(len(self.members) // 8)
            if len(self._of_label) >= _MAX_INDEXED:
                self._of_label.clear()
            table = self._of_label[key] = {}
            for number, pod in enumerate(self.members):
                if pod is not None:
                    _enter(table, key, number, pod)
        return table.get((namespace, value), ())

    def amounts(self, resource: str) -> Ints:
        """Return [class]: the amount that a Pod uses, in the units of `Columns` (`pods`: 1)."""
        of = self._amounts
        return cached_in(of, resource, lambda: PerClass(self, _amount_of(resource, self._semantics))).values()


class PerClass:
    """A number for each equivalence class, computed once; 0 for class 0, which means no Pod.

    `of`: Pod -> number. `scope`: classes outside have 0; None: no restriction.
    """

    def __init__(self, kinds: EquivalenceClasses, value_of: Callable[[Pod], int], scope: Scope | None = None) -> None:
        self._kinds, self._of, self._scope = kinds, value_of, scope
        self._filled = 1
        self._looked_at = 0
        """Number of evaluated classes of the scope."""
        self._values = np.zeros(64, np.int64)

    def values(self) -> Ints:
        """Return [class]: the numbers. Do not modify the array. Raises CutShort; the next call continues."""
        members = self._kinds.members
        if self._filled < len(members):
            if len(members) > len(self._values):
                grown = np.zeros(len(members) + len(members) // _SPARE + 1, np.int64)
                grown[: self._filled] = self._values[: self._filled]
                self._values = grown
            work = meter()
            if self._scope is not None:
                self._fill_of(self._scope, work)
                self._filled = len(members)
            while self._filled < len(members):
                some = members[self._filled : self._filled + _SOME]
                work.charge(len(some) // 2)
                new = [self._of(pod) for pod in some if pod is not None]
                self._values[self._filled : self._filled + len(new)] = new
                self._filled += len(new)
        return self._values

    def _fill_of(self, scope: Scope, work: Meter) -> None:
        """Compute the numbers of the classes of one scope. Raises CutShort; the next call continues."""
        numbers = self._kinds.classes_in_scope(scope)
        while self._looked_at < len(numbers):
            some = numbers[self._looked_at : self._looked_at + _SOME]
            work.charge(len(some) // 2)
            for number in some:
                pod = self._kinds.members[number]
                if pod is not None:
                    self._values[number] = self._of(pod)
            self._looked_at += len(some)


class KindsWithTerms:
    """The equivalence classes of Pods with affinity terms, also by a label that a term requires of other Pods.

    `terms`: Pod -> its terms.
    """

    def __init__(self, kinds: EquivalenceClasses, terms: Callable[[Pod], Iterable[AffinityTerm]]) -> None:
        self._kinds, self._terms = kinds, terms
        self._known = 1
        self._numbers: list[int] = []
        self._by_label: dict[tuple[str, str] | None, list[int]] = {}

    def numbers(self) -> list[int]:
        """Return the numbers of the classes, in ascending order. Do not modify the list."""
        members = self._kinds.members
        for number in range(self._known, len(members)):
            pod = members[number]
            terms = () if pod is None else self._terms(pod)
            labels = {term.selector and term.selector.label for term in terms}
            for label in labels:
                self._by_label.setdefault(label, []).append(number)
            if labels:
                self._numbers.append(number)
        self._known = len(members)
        return self._numbers

    @property
    def last(self) -> int:
        """The highest number; 0 if there are no such classes."""
        numbers = self.numbers()
        return numbers[-1] if numbers else 0

    def near(self, labels: Mapping[str, str], after: int) -> Iterator[int]:
        """Yield the numbers above `after` of classes whose terms may match these labels, in ascending order."""
        if after == self.last:
            return
        every = [self._by_label[label] for label in (None, *labels.items()) if label in self._by_label]
        yield from sorted({number for numbers in every for number in numbers[bisect_right(numbers, after) :]})


def _enter(table: dict[tuple[str, str], list[int]], key: str, number: int, pod: Pod) -> None:
    value = pod.labels.get(key)
    if value is not None:
        table.setdefault((pod.namespace, value), []).append(number)


_FIELDS: Final = {"cpu": "milli_cpu", "memory": "memory", "ephemeral-storage": "ephemeral_storage"}


def _amount_of(resource: str, semantics: Semantics) -> Callable[[Pod], int]:
    if resource == "pods":
        return lambda pod: 1  # noqa: ARG005
    if resource in _FIELDS:
        return lambda pod: int(getattr(footprint(pod, semantics).resource, _FIELDS[resource]))
    return lambda pod: footprint(pod, semantics).resource.scalars.get(resource, 0)
