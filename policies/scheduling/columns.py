"""The allocatable and requested resources of nodes as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import VECTOR, meter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.scheduling.node_info import NodeInfo

BASE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_INT64: Final = 2**63 - 1
_IMMENSE: Final = 2**60


class Columns:
    """The allocatable and requested resources of nodes as int64 arrays of shape [resource, node].

    Resources: cpu (millicores), memory and ephemeral-storage (bytes), pods (number), then all other resources of nodes.
    A request for another resource fits on no node, unless it is zero. `non_zero`: [2, node], cpu and memory as scores
    count them. `serials`: [node], serials of the NodeInfos. `largest`: an upper bound of all requested amounts.
    """

    __slots__ = ("allocatable", "largest", "non_zero", "requested", "resources", "serials")

    def __init__(
        self,
        resources: tuple[str, ...],
        allocatable: NDArray[np.int64],
        requested: NDArray[np.int64],
        non_zero: NDArray[np.int64],
        serials: NDArray[np.int64],
    ) -> None:
        self.resources, self.largest = resources, 0
        self.allocatable, self.requested, self.non_zero = allocatable, requested, non_zero
        self.serials = serials

    @classmethod
    def build(cls, node_infos: Sequence[NodeInfo]) -> Columns:
        """Return the columns of these nodes."""
        scalars = {name for info in node_infos for name in info.node.allocatable.scalars}
        resources = (*BASE_RESOURCES, *sorted(scalars))
        shape = (len(resources), len(node_infos))
        columns = cls(resources, *(np.zeros(size, np.int64) for size in (shape, shape, (2, shape[1]), shape[1])))
        for index, info in enumerate(node_infos):
            columns._set(index, info)
        return columns

    def updated(self, changed: Iterable[tuple[int, NodeInfo]], *, in_place: bool = False) -> Columns | None:
        """Return columns with changed nodes, given as (index, NodeInfo); None if a node has a resource that these
        columns lack.

        `in_place`: the new columns take over the arrays, and these columns must not be used afterwards.
        """
        names = set(self.resources)
        work = meter()
        if in_place:
            columns = Columns(self.resources, *self._tables())
        else:
            columns = Columns(self.resources, *(table.copy() for table in self._tables()))
            work.charge(self.requested.size // VECTOR)
        columns.largest = self.largest
        for index, info in changed:
            work.charge(6 + len(names) // 4)
            if not names.issuperset(info.node.allocatable.scalars):
                return None
            columns._set(index, info)
        if columns.largest >= _IMMENSE:  # it may be gone
            columns.largest = int(columns.requested.max(initial=0))
        return columns

    def without(self, rows: NDArray[np.intp]) -> Columns:
        """Return columns without the nodes at these indices."""
        columns = Columns(self.resources, *(np.delete(table, rows, axis=-1) for table in self._tables()))
        columns.largest = self.largest
        return columns

    def _tables(self) -> tuple[NDArray[np.int64], ...]:
        return self.allocatable, self.requested, self.non_zero, self.serials

    def with_more(self, node_infos: Sequence[NodeInfo], places: NDArray[np.intp] | None = None) -> Columns | None:
        """Return columns with more nodes; None if a node has a resource that these columns lack.

        `places`: in ascending order, the indices of the present nodes before which the new ones are inserted; None: at
        the end.
        """
        if not {*self.resources}.issuperset(name for info in node_infos for name in info.node.allocatable.scalars):
            return None
        at = np.full(len(node_infos), len(self.serials)) if places is None else places
        columns = Columns(self.resources, *(np.insert(table, at, 0, axis=-1) for table in self._tables()))
        columns.largest = self.largest
        for index, info in zip((at + np.arange(len(at))).tolist(), node_infos, strict=True):
            columns._set(index, info)
        return columns

    def _set(self, index: int, info: NodeInfo) -> None:
        has = info.node.allocatable
        self.serials[index] = info.serial
        self.allocatable[:4, index] = has.milli_cpu, has.memory, has.ephemeral_storage, has.allowed_pod_number
        requested = info.milli_cpu, info.memory, info.ephemeral_storage, len(info.pods)
        self.requested[:4, index] = [min(amount, _INT64) for amount in requested]
        self.non_zero[:, index] = min(info.non_zero_cpu, _INT64), min(info.non_zero_memory, _INT64)
        self.largest = max(self.largest, *requested)
        for row, name in enumerate(self.resources[4:], 4):
            amount = info.scalars.get(name, 0)
            self.allocatable[row, index] = has.scalars.get(name, 0)
            self.requested[row, index] = min(amount, _INT64)
            self.largest = max(self.largest, amount)


class NotValid(Exception):
    """The error if the numpy implementation does not support the Pod or its profile.

    The text, if any, is the reason. Only `attempt` catches it.
    """
