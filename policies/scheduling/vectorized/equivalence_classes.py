"""Kinds of pods: pods that differ in name and start time alone are one kind, with one number."""

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
"""Characters of a spec that count as one more kind."""
_SOME: Final = 64
"""Kinds of which a number is worked out at a time."""


class EquivalenceClasses:
    """The numbers of equivalence classes, from 1; 0 means no Pod."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._numbers: dict[tuple[int, str, int, bool, int, int], int] = {}
        self.members: list[Pod | None] = [None]
        """A Pod of each equivalence class.

        It keeps the labels, spec and amounts alive whose identities identify the class.
        """
        self.of_namespace: dict[str, list[int]] = {}
        """The kinds of each namespace, in ascending order."""
        self.weight = 1
        """Their number, a large one counted as several: each keeps its spec alive."""
        self.lowest_priority = 2**31
        """Of all kinds that there have been."""
        self.priority = PerClass(self, lambda pod: pod.effective_priority)
        self._amounts: dict[str, PerClass] = {}
        self._non_zero = (
            PerClass(self, lambda pod: footprint(pod, semantics).non_zero_cpu),
            PerClass(self, lambda pod: footprint(pod, semantics).non_zero_memory),
        )

    def __len__(self) -> int:
        return len(self.members)

    def number(self, pod: Pod) -> int:
        """The number of a pod's kind."""
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
        """Let all pods go. Kinds and what is worked out of them name each other: else only a collection would."""
        self._numbers.clear()
        self.members.clear()
        self.of_namespace.clear()

    def amounts(self, resource: str) -> NDArray[np.int64]:
        """[kind]: what a pod of it occupies of a resource (`pods`: 1), in the units of the columns."""
        if resource not in self._amounts:
            self._amounts[resource] = PerClass(self, _amount_of(resource, self._semantics))
        return self._amounts[resource].values()

    def non_zero(self, index: int) -> NDArray[np.int64]:
        """[kind]: what scoring takes a pod of it for, in cpu (0) or memory (1)."""
        return self._non_zero[index].values()


class PerClass:
    """A number for every kind, worked out once; 0 for no pod. `namespace`: where it is 0 for kinds of all others."""

    def __init__(self, kinds: EquivalenceClasses, of: Callable[[Pod], int], namespace: str | None = None) -> None:
        self._kinds, self._of, self._namespace = kinds, of, namespace
        self._filled = 1
        self._looked_at = 0
        """The number of classes of its namespace that were evaluated."""
        self._values = np.zeros(64, np.int64)

    def values(self) -> NDArray[np.int64]:
        """[kind]: its number. Not to be changed. Raises CutShort: those up to there are known."""
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
        """Those of one namespace. Raises CutShort: those up to there are known."""
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
