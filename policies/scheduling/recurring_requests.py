"""Results that Pods with equal requests share: the nodes with sufficient resources, now and after preemption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.scheduling.plugins.node_resources_fit import NodeResourcesFit, reason_of
from forewarn.policies.scheduling.vectorized.problem import MAX, NotValid

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.scheduling.columns import Columns
    from forewarn.policies.scheduling.vectorized.cost_cache import CostCache
    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.nominations import Nominated, Nominations
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_CACHED_CHANGES: Final = 4096
_FEW: Final = 16
"""The number of nodes below which a Python loop is faster than numpy over all nodes."""
_AGAIN: Final = 8
"""Maximum number of changes for each changed node: a node with nominated Pods changes for each of these Pods."""


class Demand(NamedTuple):
    """A resource that a Pod requests.

    `row`: index of the resource in `Columns.resources`. `limit`: [node], the largest amount that other Pods may use so
    that the Pod fits.
    """

    resource: str
    row: int
    limit: NDArray[np.int64]


class Spec(NamedTuple):
    """The results that depend on a Pod's spec and the nodes alone, not on other Pods.

    `open`: [node], bool: the node fits without other Pods. `plugins`, `reasons`: rejections by plugins, and reason ->
    number of nodes. `allowed`: [node], bool: no such rejection.
    """

    spec: PodSpec
    request: Hashable
    demands: list[Demand]
    open: NDArray[np.bool_]
    plugins: frozenset[str]
    reasons: Counter[str]
    allowed: NDArray[np.bool_]
    leaves: int
    """A number that is equal for all specs with the same `open`, `allowed` and static rejections."""
    nominated: bool
    """Whether columns support a nominated Pod with this spec."""
    has_foreign: bool
    """Whether a plugin that is not kube-scheduler's own may reject nodes."""
    preemption: DefaultPreemptionArgs | None
    """The arguments of DefaultPreemption, if it is in the profile."""
    constrained: bool
    """Whether constraints other than resources may reject nodes. Their filters run after resources."""
    reached: NDArray[np.bool_]
    """[node], bool: whether the Pod's bound volumes can be mounted there."""
    is_reached: bool
    """Whether the volumes can be mounted on one of the `open` nodes."""
    percentage: int
    """percentageOfNodesToScore of the profile."""


class Request:
    """The requests of a Pod at one priority, and the nodes with insufficient resources for them."""

    def __init__(self, demands: Sequence[Demand], priority: int) -> None:
        self.demands, self._priority = demands, priority
        self._columns: Columns | None = None
        self._serials: NDArray[np.int64] = np.zeros(0, np.int64)
        self._nominations: Nominations | None = None
        self._nominated = -1
        self._age = 0
        """Number of evaluations of all nodes."""
        self._changes: list[int] = []
        """Row numbers of the nodes that changed since the last evaluation of all nodes."""
        self.fitting_nodes: dict[int, FittingNodes] = {}
        self.helped: dict[int, Helped] = {}
        self.present: list[NDArray[np.int64]] = []
        """One [node] array for each demand: the requested amount there, with nominated Pods."""
        self.insufficient: list[NDArray[np.bool_]] = []
        """One [node] bool array for each demand: whether the resource is insufficient."""
        self.full: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.costs: CostCache | None = None

    def sync(self, columns: Columns, nominations: Nominations) -> None:
        """Update the arrays for these columns and nominations. Raises NotValid for very large amounts."""
        if self._columns is columns and self._nominations is nominations and self._nominated == nominations.version:
            return
        rows = self._changed(columns, nominations)
        self._columns = None
        if rows is None:
            self._go_through(columns, nominations)
        else:
            for row in rows:
                self._update(row, columns, nominations)
            self._changes += rows
        self._serials, self._columns = columns.serials.copy(), columns  # the columns may be used up by the next ones
        self._nominations, self._nominated = nominations, nominations.version

    def _changed(self, columns: Columns, nominations: Nominations) -> list[int] | None:
        """Return the rows that changed since the last update; None if all nodes must be evaluated."""
        if self._columns is None or self._nominations is not nominations or len(self._changes) > _CACHED_CHANGES:
            return None
        changes = nominations.changed_since(self._nominated)
        if changes is None or len(changes) > _AGAIN * _FEW:
            return None
        nominated = dict.fromkeys(changes)
        if len(nominated) > _FEW:
            return None
        if self._columns is columns:
            return list(nominated)
        rows = (self._serials != columns.serials).nonzero()[0]
        return list({*rows.tolist(), *nominated}) if len(rows) <= _FEW else None

    def _go_through(self, columns: Columns, nominations: Nominations) -> None:
        """Evaluate all nodes. Reuses the arrays if the number of nodes is the same."""
        if not self.present or len(self.full) != len(columns.serials):
            shape = len(columns.serials)
            self.present = [np.zeros(shape, np.int64) for _ in self.demands]
            self.insufficient = [np.zeros(shape, np.bool_) for _ in self.demands]
            self.full = np.zeros(shape, np.bool_)
        self._age += 1
        self._changes = []
        self.full[:] = False
        for demand, present, lacks in zip(self.demands, self.present, self.insufficient, strict=True):
            self._count_present(demand, columns, nominations, present)
            np.greater(present, demand.limit, out=lacks)
            np.logical_or(self.full, lacks, out=self.full)

    def _update(self, row: int, columns: Columns, nominations: Nominations) -> None:
        full = False
        for demand, all_present, all_lacks in zip(self.demands, self.present, self.insufficient, strict=True):
            present = int(columns.requested[demand.row, row])
            if nominations:
                added = int(nominations.amounts(demand.resource, self._priority)[row])
                if added >= MAX:
                    raise NotValid
                present += added
            lacks = present > int(demand.limit[row])
            all_present[row], all_lacks[row] = present, lacks
            full = full or lacks
        self.full[row] = full

    def changes_since(self, seen: tuple[int, int]) -> tuple[Sequence[int] | None, tuple[int, int]]:
        """Return (the row numbers of nodes that changed since `seen`, or None for too many; the value of `seen`
        for the next call).
        """
        age, count = seen
        now = self._age, len(self._changes)
        if age != self._age or now[1] - count > _AGAIN * _FEW:
            return None, now
        rows = dict.fromkeys(self._changes[count:])
        return (list(rows) if len(rows) <= _FEW else None), now

    def _count_present(
        self, demand: Demand, columns: Columns, nominations: Nominations, present: NDArray[np.int64]
    ) -> None:
        requested = columns.requested[demand.row]
        if not nominations:
            present[:] = requested
            return
        added = nominations.amounts(demand.resource, self._priority)
        if nominations.may_reach(demand.resource, MAX) and added.max(initial=0) >= MAX:
            raise NotValid
        np.add(requested, added, out=present)


class FittingNodes:
    """The nodes on which a request fits, among the nodes that a spec allows, and the numbers of nodes with
    insufficient resources.
    """

    def __init__(self) -> None:
        self._seen = -1, 0
        self._open: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._insufficient: list[NDArray[np.bool_]] = []
        self.nodes = 0
        """Number of nodes on which the request fits."""
        self.insufficient_counts: list[int] = []
        """[demand]: number of nodes with an insufficient amount of the resource."""
        self._last_rejection: tuple[Sequence[int], tuple[frozenset[str], Counter[str]]] | None = None
        """(`insufficient_counts`, result) of the last call of `rejection`."""

    def rejection(self, spec: Spec) -> tuple[frozenset[str], Counter[str]]:
        """Return (plugins that reject the spec, reason -> number of nodes). Do not modify the result."""
        if self._last_rejection is None or self._last_rejection[0] != self.insufficient_counts:
            self._last_rejection = [*self.insufficient_counts], rejection_of(spec, self.insufficient_counts)
        return self._last_rejection[1]

    def sync(self, request: Request, spec: Spec) -> None:
        """Update the counts for the nodes that changed in `request` since the last call."""
        rows, self._seen = request.changes_since(self._seen)
        if rows is None:
            self._open = spec.open & ~request.full
            self._insufficient = [spec.allowed & lacks for lacks in request.insufficient]
            self.nodes = int(np.count_nonzero(self._open))
            self.insufficient_counts = [int(np.count_nonzero(lacks)) for lacks in self._insufficient]
            return
        for row in rows:
            fits = bool(spec.open[row]) and not request.full[row]
            self.nodes += fits - bool(self._open[row])
            self._open[row] = fits
            if spec.allowed[row]:
                for number, (mine, lacks) in enumerate(zip(self._insufficient, request.insufficient, strict=True)):
                    now = bool(lacks[row])
                    self.insufficient_counts[number] += now - bool(mine[row])
                    mine[row] = now


class Helped:
    """The nodes on which a request fits if all Pods of lower priority were removed, among the nodes that a spec
    allows.
    """

    def __init__(self) -> None:
        self._seen = -1, 0
        self._nodes: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.count = 0

    @property
    def rows(self) -> NDArray[np.intp]:
        """Row numbers of the nodes."""
        return np.flatnonzero(self._nodes) if self.count else np.zeros(0, np.intp)

    def rows_but(self, row: int, *, helps: bool) -> NDArray[np.intp]:
        """Return `rows`, but with the node `row` included if `helps` is true, and excluded if not."""
        if bool(self._nodes[row]) == helps:
            return self.rows
        nodes = self._nodes.copy()
        nodes[row] = helps
        return np.flatnonzero(nodes)

    def sync(self, request: Request, spec: Spec, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        """Update the nodes for those that changed in `request` since the last call. Raises CutShort without any change.

        `lower`: the Pods with lower priority than the request.
        """
        totals = [lower.total(demand.resource, matrix) for demand in request.demands]
        rows, self._seen = request.changes_since(self._seen)
        demands = list(zip(request.demands, request.present, totals, strict=True))
        if rows is None:
            nodes = spec.open & (lower.count > 0)
            for demand, present, total in demands:
                nodes &= present - total <= demand.limit
            self._nodes, self.count = nodes, int(np.count_nonzero(nodes))
            return
        for row in rows:
            helps = bool(spec.open[row]) and bool(lower.count[row] > 0)
            helps = helps and all(
                bool(present[row] - total[row] <= demand.limit[row]) for demand, present, total in demands
            )
            self.count += helps - bool(self._nodes[row])
            self._nodes[row] = helps


def rejection_of(spec: Spec, lacking: Sequence[int]) -> tuple[frozenset[str], Counter[str]]:
    """Return (plugins that reject the spec, reason -> number of nodes).

    `lacking`: [demand], number of nodes with an insufficient amount of the resource.
    """
    reasons, plugins = spec.reasons.copy(), spec.plugins
    for demand, count in zip(spec.demands, lacking, strict=True):
        if count:
            reasons[reason_of(demand.resource)] += count
            plugins |= {NodeResourcesFit.name}
    return plugins, reasons


class Own:
    """The node that the Pod itself is nominated to, without this nomination.

    `present`, `insufficient`: [demand], the requested amount on the node, and whether the resource is insufficient.
    """

    def __init__(self, nominated: Nominated, request: Request, matrix: PodMatrix) -> None:
        row = self.row = nominated.row
        self.present, self.insufficient = list[int](), list[bool]()
        for demand, present in zip(request.demands, request.present, strict=True):
            self.present.append(int(present[row] - matrix.kinds.amounts(demand.resource)[nominated.kind]))
            self.insufficient.append(self.present[-1] > int(demand.limit[row]))
        self.full = any(self.insufficient)
