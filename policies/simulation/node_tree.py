"""The order in which the scheduler goes through nodes, and which of equally good ones it takes.

Source: kubernetes `pkg/scheduler/backend/cache/node_tree.go`, `schedule_one.go` (`nodeScoreHeap`).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policies.objects.node import Node

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)


class Scores(Protocol[K_contra]):
    """What nodes are worth, by whatever stands for them."""

    def __getitem__(self, key: K_contra, /) -> Any:
        """Of one."""


_ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeTree:
    """Nodes by zone, zones and nodes in the order in which they came."""

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[str, None]] = {}
        self._zone_of: dict[str, tuple[str, str]] = {}
        self._listed: list[str] | None = None

    def put(self, node: Node) -> None:
        """A node comes, or changes: in another zone it is the last."""
        zone = _first(node, _REGION), _first(node, _ZONE)
        if self._zone_of.get(node.name) == zone:
            return
        self.remove(node.name)
        self._zones.setdefault(zone, {})[node.name] = None
        self._zone_of[node.name] = zone

    def remove(self, name: str) -> None:
        """A node goes; a zone without nodes is forgotten."""
        self._listed = None
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        nodes = self._zones[zone]
        del nodes[name]
        if not nodes:
            del self._zones[zone]

    def list(self) -> Sequence[str]:
        """The names, one of each zone in turn."""
        if self._listed is None:
            rounds = zip_longest(*self._zones.values())
            self._listed = [name for names in rounds for name in names if name is not None]
        return self._listed


def _first(node: Node, keys: Sequence[str]) -> str:
    return next((node.labels[key] for key in keys if key in node.labels), "")


def top_of_heap(order: Sequence[K], scores: Scores[K]) -> K:
    """The node that upstream pops first: the best, and of several best ones what Go's `heap.Init` leaves on top.

    `order`: the nodes in the order in which they were found feasible.
    """
    worth = [scores[key] for key in order]
    best = max(worth)
    return order[top_place([place for place, score in enumerate(worth) if score == best])]


def top_place(best: Sequence[int] | NDArray[np.intp]) -> int:
    """Which of the places of equally best elements ends on top.

    `heap.Init` sifts down from the last parent to the first, and swaps only where a child is better, the right one only
    where it is better than the left. So a parent stays above equal children, and what comes up is from the left where
    that has it: the first in preorder. The path to place p is the binary number p + 1 without its first digit: made
    equally long with zeros, these are in that order, and of equal ones the shorter is first. `best`: ascending.
    """
    if best[0] == 0 or len(best) == 1:
        return int(best[0])
    numbers = np.asarray(best, np.int64) + 1
    digits = np.frexp(numbers)[1]
    return int(numbers[np.argmin(numbers << (digits[-1] - digits))]) - 1
