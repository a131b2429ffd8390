"""Results that Pods with equal requests share: the nodes with sufficient resources, now and after preemption."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from forewarn.policies.scheduling.plugins.node_resources_fit import NodeResourcesFit, reason_of
from forewarn.policies.scheduling.vectorized.constraints import CapacityConstraint, with_nominated

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
    preemption: DefaultPreemptionArgs | None
    """The arguments of DefaultPreemption, if it is in the profile."""
    constrained: bool
    """Whether constraints other than resources may reject nodes for a Pod with this spec. Their filters run later."""
    reached: NDArray[np.bool_]
    """[node], bool: whether the Pod's bound volumes can be mounted there."""
    is_reached: bool
    """Whether the volumes can be mounted on one of the `open` nodes."""
    percentage: int
    """percentageOfNodesToScore of the profile."""


class Request:
    """The requests of a Pod at one priority, and the nodes with insufficient resources for them."""

    def __init__(self, demands: Sequence[Demand], priority: int) -> None:
        self._demands, self._priority = demands, priority
        self._columns: Columns | None = None
        self._nominations: Nominations | None = None
        self._nominated = -1
        self.version = 0
        """Increases with each change of the arrays."""
        self.fitting_nodes: dict[int, FittingNodes] = {}
        self.helped: dict[int, Helped] = {}
        self.constraints: list[CapacityConstraint] = []
        """The constraint of each demand, with all nominated Pods."""
        self.insufficient: list[NDArray[np.bool_]] = []
        """One [node] bool array for each demand: whether the resource is insufficient."""
        self.full: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.costs: CostCache | None = None

    def sync(self, columns: Columns, nominations: Nominations) -> None:
        """Update the arrays for these columns and nominations. Raises NotValid for very large amounts."""
        if self._columns is columns and self._nominations is nominations and self._nominated == nominations.version:
            return
        self.constraints = [self._constraint(demand, columns, nominations) for demand in self._demands]
        self.insufficient = [constraint.exceeded for constraint in self.constraints]
        self.full = np.zeros(len(columns.serials), np.bool_)
        for lacks in self.insufficient:
            self.full |= lacks
        self.version += 1
        self._columns, self._nominations, self._nominated = columns, nominations, nominations.version

    def _constraint(self, demand: Demand, columns: Columns, nominations: Nominations) -> CapacityConstraint:
        requested = columns.requested[demand.row]
        present = with_nominated(requested, nominations, demand.resource, self._priority)
        if present is requested:
            present = requested.copy()  # the next columns may use this array
        return CapacityConstraint(present, demand.limit, demand.resource)


class FittingNodes:
    """The nodes on which a request fits, among the nodes that a spec allows, and the numbers of nodes with
    insufficient resources.
    """

    def __init__(self) -> None:
        self._seen = 0
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
        """Update the counts to the current state of `request`."""
        if self._seen == request.version:
            return
        self.nodes = int(np.count_nonzero(spec.open & ~request.full))
        self.insufficient_counts = [int(np.count_nonzero(spec.allowed & lacks)) for lacks in request.insufficient]
        self._seen = request.version


class Helped:
    """The nodes on which a request fits if all Pods of lower priority were removed, among the nodes that a spec
    allows.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._nodes: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """Row numbers of the nodes."""

    def rows_but(self, row: int, *, helps: bool) -> NDArray[np.intp]:
        """Return `rows`, but with the node `row` included if `helps` is true, and excluded if not."""
        if bool(self._nodes[row]) == helps:
            return self.rows
        nodes = self._nodes.copy()
        nodes[row] = helps
        return np.flatnonzero(nodes)

    def sync(self, request: Request, spec: Spec, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        """Update the nodes to the current state of `request`. Raises CutShort without any change.

        `lower`: the Pods with lower priority than the request.
        """
        if self._seen == request.version:
            return
        totals = [lower.total(constraint.resource, matrix) for constraint in request.constraints]
        self._nodes = spec.open & (lower.count > 0)
        for constraint, total in zip(request.constraints, totals, strict=True):
            self._nodes &= constraint.fits_without(total)
        self.rows, self._seen = np.flatnonzero(self._nodes), request.version


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

    `constraints`: of this node alone. `insufficient`: [demand], whether the resource is insufficient.
    """

    def __init__(self, nominated: Nominated, request: Request, matrix: PodMatrix) -> None:
        self.row, here = nominated.row, slice(nominated.row, nominated.row + 1)
        self.constraints = [
            CapacityConstraint(present[here] - matrix.kinds.amounts(resource)[nominated.kind], limit[here], resource)
            for present, limit, resource, _ in request.constraints
        ]
        self.insufficient = [bool(constraint.exceeded[0]) for constraint in self.constraints]
        self.full = any(self.insufficient)
