"""The order in which kube-scheduler evaluates nodes, and its choice among nodes with the same score.

Source: kubernetes `pkg/scheduler/backend/cache/node_tree.go`, `schedule_one.go` (`nodeScoreHeap`).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.node import Node

_ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeTree:
    """The names of nodes by zone. Zones and nodes are in the order of creation."""

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[str, None]] = {}
        self._zone_of: dict[str, tuple[str, str]] = {}
        self._listed: list[str] | None = None

    def put(self, node: Node) -> None:
        """Add or change a node. A node that changes its zone becomes the last node of the new zone."""
        zone = _first(node, _REGION), _first(node, _ZONE)
        if self._zone_of.get(node.name) == zone:
            return
        self.remove(node.name)
        self._zones.setdefault(zone, {})[node.name] = None
        self._zone_of[node.name] = zone

    def remove(self, name: str) -> None:
        """Remove a node; a zone without nodes is removed, too."""
        self._listed = None
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        nodes = self._zones[zone]
        del nodes[name]
        if not nodes:
            del self._zones[zone]

    def list(self) -> Sequence[str]:
        """Return the names of the nodes, one of each zone in turn."""
        if self._listed is None:
            rounds = zip_longest(*self._zones.values())
            self._listed = [name for names in rounds for name in names if name is not None]
        return self._listed


def _first(node: Node, keys: Sequence[str]) -> str:
    return next((node.labels[key] for key in keys if key in node.labels), "")


def top_place(best: Sequence[int] | NDArray[np.intp]) -> int:
    """Return the index of the equally best element that is on top of the heap in the end. `best`: indices, ascending.

    `heap.Init` sifts down from the last parent to the first, and swaps only if a child is better; the right child only
    if it is better than the left. So a parent remains above equal children, and the left child moves up first: the
    first element in preorder. The path to index p is the binary number p + 1 without its first digit. With zeros
    appended to equal length, the paths have preorder, and of equal ones the shorter is first.
    """
    if best[0] == 0 or len(best) == 1:
        return int(best[0])
    numbers = np.asarray(best, np.int64) + 1
    digits = np.frexp(numbers)[1]
    return int(numbers[np.argmin(numbers << (digits[-1] - digits))]) - 1
