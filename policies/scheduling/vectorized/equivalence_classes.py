"""Equivalence classes of Pods: Pods that differ only in name and start time have the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import meter
from forewarn.policies.scheduling.node_info import footprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from forewarn.policies.metering import Meter
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics


_LARGE: Final = 2 * 1024
"""Number of characters of a spec that count as one more class."""
_SOME: Final = 64
"""Number of classes for which a value is computed at a time."""


class EquivalenceClasses:
    """The equivalence classes of Pods, numbered from 1; 0 means no Pod."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._numbers: dict[tuple[int, str, int, bool, int, int], int] = {}
        self.members: list[Pod | None] = [None]
        """[class]: a Pod of the class, None for class 0.

        It keeps the labels, spec and amounts in memory by whose ids a class is identified.
        """
        self.of_namespace: dict[str, list[int]] = {}
        """Namespace -> the numbers of its classes, in ascending order."""
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
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.members)
            self.members.append(pod)
            self.of_namespace.setdefault(pod.namespace, []).append(found)
            self.weight += 1 + pod.spec.size // _LARGE
            self.lowest_priority = min(self.lowest_priority, pod.effective_priority)
        return found

    def forget(self) -> None:
        """Clear the tables. The tables refer to each other: otherwise only garbage collection would free them."""
        self._numbers.clear()
        self.members.clear()
        self.of_namespace.clear()

    def amounts(self, resource: str) -> NDArray[np.int64]:
        """Return [class]: the amount of a resource that a Pod of the class uses, in the units of `Columns`
        (`pods`: 1).
        """
        if resource not in self._amounts:
            self._amounts[resource] = PerClass(self, _amount_of(resource, self._semantics))
        return self._amounts[resource].values()


class PerClass:
    """A number for each equivalence class, computed once; 0 for class 0, which means no Pod.

    `of`: Pod -> number. `namespace`: classes of other namespaces have 0; None: no restriction.
    """

    def __init__(self, kinds: EquivalenceClasses, of: Callable[[Pod], int], namespace: str | None = None) -> None:
        self._kinds, self._of, self._namespace = kinds, of, namespace
        self._filled = 1
        self._looked_at = 0
        """Number of evaluated classes of the namespace."""
        self._values = np.zeros(64, np.int64)

    def values(self) -> NDArray[np.int64]:
        """Return [class]: the numbers. Do not modify the array. Raises CutShort; the next call continues."""
        members = self._kinds.members
        if self._filled < len(members):
            if len(members) > len(self._values):
                grown = np.zeros(2 * len(members), np.int64)
                grown[: self._filled] = self._values[: self._filled]
                self._values = grown
            work = meter()
            if self._namespace is not None:
                self._fill_of(self._namespace, work)
                self._filled = len(members)
            while self._filled < len(members):
                some = members[self._filled : self._filled + _SOME]
                work.charge(len(some) // 2)
                new = [self._of(pod) for pod in some if pod is not None]
                self._values[self._filled : self._filled + len(new)] = new
                self._filled += len(new)
        return self._values

    def _fill_of(self, namespace: str, work: Meter) -> None:
        """Compute the numbers of the classes of one namespace. Raises CutShort; the next call continues."""
        numbers = self._kinds.of_namespace.get(namespace, [])
        while self._looked_at < len(numbers):
            some = numbers[self._looked_at : self._looked_at + _SOME]
            work.charge(len(some) // 2)
            for number in some:
                pod = self._kinds.members[number]
                if pod is not None:
                    self._values[number] = self._of(pod)
            self._looked_at += len(some)


def _amount_of(resource: str, semantics: Semantics) -> Callable[[Pod], int]:
    if resource == "cpu":
        return lambda pod: footprint(pod, semantics).resource.milli_cpu
    if resource == "memory":
        return lambda pod: footprint(pod, semantics).resource.memory
    if resource == "ephemeral-storage":
        return lambda pod: footprint(pod, semantics).resource.ephemeral_storage
    if resource == "pods":
        return lambda pod: 1  # noqa: ARG005
    return lambda pod: footprint(pod, semantics).resource.scalars.get(resource, 0)
