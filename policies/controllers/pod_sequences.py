"""Sequences of Pods that are created on access, so that memory does not grow with a number in a manifest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, overload

from forewarn.policies.controllers.daemon_set import on_node
from forewarn.policies.copies import replace
from forewarn.policies.objects.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class DaemonPods(Sequence[Pod]):
    """The Pods of a DaemonSet, each created on access.

    `nodes`: the names of their nodes, in order. `anywhere`: the Pod without affinity to a node.
    """

    def __init__(self, anywhere: Pod, nodes: Sequence[str]) -> None:
        self.anywhere, self.nodes = anywhere, nodes

    def __len__(self) -> int:
        return len(self.nodes)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> DaemonPods: ...

    def __getitem__(self, index: int | slice, /) -> Pod | DaemonPods:
        if isinstance(index, slice):
            return DaemonPods(self.anywhere, self.nodes[index])
        return self.of(self.nodes[index])

    def of(self, node: str) -> Pod:
        return on_node(self.named_for(node), node)

    def named_for(self, node: str) -> Pod:
        """Return the Pod for a node without affinity to the node, for use after scheduling."""
        return replace(self.anywhere, name=self.anywhere.name + node)


class NumberedPods(Sequence[Pod]):
    """The Pods `stem-0`, `stem-1`… of a workload, without names in use, each created on access.

    `finish`: returns a Pod with fields that depend on its name; None if the Pods differ only in their names.
    """

    def __init__(
        self, like: Pod, numbers: FreeNumbers, indexes: range, finish: Callable[[Pod], Pod] | None = None
    ) -> None:
        self.like, self.numbers, self._indexes, self._finish = like, numbers, indexes, finish

    @property
    def is_uniform(self) -> bool:
        return self._finish is None

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> NumberedPods: ...

    def __getitem__(self, index: int | slice, /) -> Pod | NumberedPods:
        if isinstance(index, slice):
            return NumberedPods(self.like, self.numbers, self._indexes[index], self._finish)
        pod = replace(self.like, name=self.numbers.name(self._indexes[index]))
        return pod if self._finish is None else self._finish(pod)


class Same(Sequence[Pod]):
    """A Pod, `count` times. All but the first have another uid."""

    def __init__(self, pod: Pod, count: int) -> None:
        self._pod, self._places = pod, range(min(count, 2**31))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> Same: ...

    def __getitem__(self, index: int | slice, /) -> Pod | Same:
        if isinstance(index, slice):
            return Same(self._pod, len(self._places[index]))
        place = self._places[index]
        return replace(self._pod, uid=f"{self._pod.identity}+{place}") if place else self._pod


class FreeNumbers:
    """The names `stem-first`, `stem-first+1`… except those of existing Pods (`present`)."""

    def __init__(self, stem: str, first: int, present: Iterable[str]) -> None:
        self._stem, self._first = stem, first
        taken = sorted(number for name in present if (number := _number_in(name, stem)) is not None and number >= first)
        self._before = [number - place for place, number in enumerate(taken)]

    def name(self, index: int) -> str:
        """Return the free name with this index, from 0."""
        least = self._first + index
        return f"{self._stem}-{least + bisect_right(self._before, least)}"


def _number_in(name: str, stem: str) -> int | None:
    """Return the number after `stem-` in the name of a Pod; None without a number, or with leading zeros."""
    text = name[len(stem) + 1 :]
    if not name.startswith(f"{stem}-") or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return None
    return int(text) if text == "0" or text[0] != "0" else None


_DIGITS: Final = 12


class Chained(Sequence[Pod]):
    """The Pods of one sequence, followed by those of another."""

    def __init__(self, first: Sequence[Pod], then: Sequence[Pod]) -> None:
        self._first, self._then = first, then

    def __len__(self) -> int:
        return min(len(self._first) + len(self._then), 2**31)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> Chained: ...

    def __getitem__(self, index: int | slice, /) -> Pod | Chained:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            split = len(self._first)
            first = self._first[start : min(stop, split)]
            return Chained(first, self._then[max(start - split, 0) : max(stop - split, 0)])
        place = range(len(self))[index]
        return self._first[place] if place < len(self._first) else self._then[place - len(self._first)]
