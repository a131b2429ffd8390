"""Repeated scheduling cycles, mostly of unschedulable Pods: Pods with equal specs or requests share results.

A scheduler with many Pending Pods mostly retries these, in a cluster that has changed on few nodes. So the rejections
that depend on a spec and the nodes alone are cached, Pods with equal requests share the nodes with insufficient
resources, and preemption costs are recomputed only for changed nodes. The result equals that of `Cycle` (tests compare
them). Source: kubernetes `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.scheduling.plugins.inter_pod_affinity_columns import terms_against
from forewarn.policies.scheduling.plugins.node_resources_fit import reason_of
from forewarn.policies.scheduling.preemption import NO_VICTIMS, NOT_HELPFUL, pod_eligible_to_preempt_others
from forewarn.policies.scheduling.recurring_requests import FittingNodes, Helped, Own, Request, Spec, rejection_of
from forewarn.policies.scheduling.recurring_specs import read_spec, storage_of
from forewarn.policies.scheduling.responsible import framework_in_columns
from forewarn.policies.scheduling.vectorized.candidates import candidates_on
from forewarn.policies.scheduling.vectorized.constraints import MAX, NotValid, Unsupported, attempt
from forewarn.policies.scheduling.vectorized.cost_cache import CostCache
from forewarn.policies.scheduling.vectorized.lower_priority_pods import lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.nominations import nominations_of
from forewarn.policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.scheduling.vectorized.victim_selection import Occupancy
from forewarn.policies.scheduling.vectorized_cycle import Cycle, Found, found_in_order
from forewarn.policies.scheduling.vectorized_scores import Scores

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.constraints import CapacityConstraint
    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.nominations import Nominations
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_CACHE_SIZE: Final = 4096
"""Maximum number of cached specs."""
_CACHED_REQUESTS: Final = 256
"""Maximum number of cached requests, each at one priority: about 400 kB each at 5,000 nodes."""
_STATIC_TABLES: Final = "nodes", "csi_nodes", "csi_drivers", "storage_classes", "device_classes", "semantics"
"""The inputs of static results, besides the spec, its claims and their volumes."""
_static_tables: Final = attrgetter(*_STATIC_TABLES)


class RecurringCycles:
    """Cached results for the cycles of one scheduler, or of the schedulers of several simulations that start from
    one Snapshot.
    """

    def __init__(self) -> None:
        self._tables: Sequence[object] = (None,) * len(_STATIC_TABLES)
        self._specs: dict[tuple[int, str], tuple[PodSpec, Sequence[object], Spec | None]] = {}
        """id of a spec, and the namespace of its claims -> (the spec, the claims and volumes that PreFilter plugins
        read, its static result)."""
        self._requests: dict[tuple[int, Hashable], Request] = {}
        self._left: dict[Hashable, int] = {}
        """Static result of a spec for all nodes -> a number that identifies it."""

    def cycle(self, snapshot: Snapshot, pod: Pod) -> RecurringCycle | None:
        """Return the cycle of a Pod; None if this class does not support the Pod. Hold `snapshot.derived.locked()`
        while you use the cycle.

        If static filters and resources reject all nodes, no later filter runs: constraints of the Pod, and constraints
        of other Pods against the Pod, do not matter until preemption finds a node with enough resources.
        """
        tables = _static_tables(snapshot.objects)
        if any(map(is_not, tables, self._tables)):
            self._tables = tables
            self._specs.clear()
            self._requests.clear()
            self._left.clear()
        matrix = pod_matrix_of(snapshot)
        spec = self._spec(snapshot, pod)
        if spec is None or pod.node_name or (pod.nominated_node_name and not spec.nominated):
            return None
        if snapshot.columns.largest >= MAX:
            return None
        request = self._request(spec, pod.effective_priority)
        nominations = nominations_of(snapshot, matrix)
        if isinstance(attempt(request.sync, snapshot.columns, nominations), Unsupported):
            return None
        cycle = RecurringCycle(snapshot, pod, matrix, spec, request, nominations)
        return None if cycle.nodes and cycle.constrained else cycle

    def _spec(self, snapshot: Snapshot, pod: Pod) -> Spec | None:
        has_storage = pod.spec.has_storage
        key = id(pod.spec), pod.namespace if has_storage else ""
        known = self._specs.get(key)
        storage = storage_of(snapshot, pod) if has_storage else ()
        if known is None or any(map(is_not, known[1], storage)):
            if len(self._specs) >= _CACHE_SIZE:
                self._specs.clear()
            known = self._specs[key] = pod.spec, storage, read_spec(snapshot, pod, self._left)
        return known[2]

    def _request(self, spec: Spec, priority: int) -> Request:
        key = priority, spec.request
        found = self._requests.get(key)
        if found is None:
            if len(self._requests) >= _CACHED_REQUESTS:
                self._requests.clear()
            found = self._requests[key] = Request(spec.demands, priority)
        return found


def recurring_cycles_of(snapshot: Snapshot) -> RecurringCycles:
    """Return the cached cycles that all simulations of the same nodes share.

    Hold `snapshot.derived.locked()` while you use them.
    """
    derived = snapshot.derived
    with derived.locked():
        if derived.recurring is None:
            derived.recurring = RecurringCycles()
        found: RecurringCycles = derived.recurring
    return found


class RecurringCycle:
    """The scheduling cycle of one Pod on one Snapshot, for a profile with preemption.

    Results are valid within the limits of `__init__`.
    """

    preempts = True

    def __init__(
        self,
        snapshot: Snapshot,
        pod: Pod,
        matrix: PodMatrix,
        spec: Spec,
        request: Request,
        nominations: Nominations,
    ) -> None:
        """Update the shared results for this Snapshot.

        The cycle is valid if no node has enough resources (`nodes` is 0), or if no other constraint exists (see
        `constrained`).
        """
        self.snapshot, self.pod = snapshot, pod
        self._matrix, self._spec, self._request = matrix, spec, request
        own = nominations.of(pod)
        self._own = None if own is None else Own(own, request, matrix)
        """The node that the Pod itself is nominated to, without this nomination; None for a Pod without a nomination.

        Only this Pod's cycle sees the node in this state.
        """
        fitting_nodes = request.fitting_nodes.get(spec.leaves)
        if fitting_nodes is None:
            fitting_nodes = request.fitting_nodes[spec.leaves] = FittingNodes()
        fitting_nodes.sync(request, spec)
        self._is_sampled = False
        self._fitting, self.nodes = fitting_nodes, fitting_nodes.nodes
        """Number of nodes that pass static filters and have enough resources."""
        if self._own is not None and spec.open[self._own.row]:
            self.nodes += bool(request.full[self._own.row]) - self._own.full

    @cached_property
    def constrained(self) -> bool:
        """Whether filters after NodeResourcesFit may reject nodes, for constraints of the Pod or of other Pods
        against the Pod.
        """
        if self._spec.constrained:
            return True
        return bool(terms_against(self.pod, self._matrix, self.snapshot))

    @cached_property
    def _cycle(self) -> Cycle:
        """The cycle of the Pod evaluated without shared results, with all constraints. Raises NotValid."""
        return Cycle(self.snapshot, self.pod)

    def fits_on(self, name: str) -> bool:
        """Report whether the Pod fits on the node with this name; False if the node does not exist."""
        row = self.snapshot.rows.get(name)
        if row is None or not self._spec.open[row]:
            return False
        return not (self._own.full if self._own is not None and self._own.row == row else self._request.full[row])

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """[node], bool: whether the node can run the Pod now."""
        found = self._spec.open & ~self._request.full
        if self._own is not None:
            found[self._own.row] = self._spec.open[self._own.row] and not self._own.full
        return found

    def find(self, order: NDArray[np.intp]) -> Found:
        """Return the feasible nodes that kube-scheduler finds before it stops.

        `order`: row numbers of the nodes in the order of the search.
        """
        if not self.nodes:
            return Found(order[:0], len(order))
        return found_in_order(self.feasible, order, self._spec.percentage)

    def scores(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return Scores(framework_in_columns(self.snapshot, self.pod), self.pod, self._matrix).of(rows)

    def rejection(self) -> tuple[frozenset[str], Counter[str]]:
        """Return (plugins that reject the Pod, reason -> number of nodes). Do not modify the result."""
        own = self._own
        if own is None or not self._spec.allowed[own.row]:
            return self._fitting.rejection(self._spec)
        counts = zip(self._fitting.insufficient_counts, self._request.insufficient, own.insufficient, strict=True)
        return rejection_of(self._spec, [count - bool(lacks[own.row]) + mine for count, lacks, mine in counts])

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or ""."""
        rows = self.snapshot.rows
        return pod_eligible_to_preempt_others(self.pod, self.snapshot, lambda name: not self._spec.open[rows[name]])

    def best_nodes(self) -> list[str]:
        """Return the names of the nodes that preemption may nominate; empty if preemption does not help. Raises
        NotValid.
        """
        matrix, snapshot, priority = self._matrix, self.snapshot, self.pod.effective_priority
        if snapshot.may_preempt_groups(priority):  # the priority of a PodGroup may be lower than that of its Pods
            raise NotValid("of Pods that belong to PodGroups")
        if matrix.kinds.lowest_priority >= priority or not self._spec.is_reached:
            return []
        lower = lower_priority_pods_of(matrix, snapshot, priority)
        nodes = self._helped(lower)
        if not self._spec.reached[nodes].any():
            return []
        if self.constrained:
            return self._cycle.best_nodes()
        lower.settle(nodes, matrix, snapshot)
        args, potential = self._spec.preemption, int(np.count_nonzero(self._spec.open))
        self._is_sampled = args is not None and len(nodes) > args.num_candidates(potential)
        costs = self._request.costs
        if costs is None or costs.lower is not lower:
            costs = self._request.costs = CostCache(lower, len(self._spec.demands))
        best = costs.best(self._occupancy(lower), nodes, matrix).tolist()
        return [snapshot.node_infos[row].name for row in best]

    @property
    def is_sampled(self) -> bool:
        """Whether kube-scheduler evaluates only a part of the nodes for preemption.

        Call `best_nodes` first.
        """
        if self.constrained:
            return self._cycle.is_sampled
        return self._is_sampled

    def unhelped(self) -> Mapping[str, int]:
        """Return why preemption helps on no node: reason -> number of nodes. Raises NotValid.

        Filters after resources do not matter if every node lacks resources even without Pods of lower priority.
        """
        lower = lower_priority_pods_of(self._matrix, self.snapshot, self.pod.effective_priority)
        if len(self._helped(lower)):
            return self._cycle.unhelped()
        tried = self._spec.open & (lower.count > 0)
        potential = int(np.count_nonzero(self._spec.open))
        victims = int(np.count_nonzero(tried))
        reasons = {NOT_HELPFUL: len(tried) - potential, NO_VICTIMS.reasons[0]: potential - victims}
        for constraint in self._constraints():
            lacking = tried & ~constraint.fits_without(lower.total(constraint.resource, self._matrix))
            reasons[reason_of(constraint.resource)] = int(np.count_nonzero(lacking))
        return {reason: nodes for reason, nodes in reasons.items() if nodes}

    def _helped(self, lower: LowerPriorityPods) -> NDArray[np.intp]:
        """Return the row numbers of the nodes with enough resources if all Pods of lower priority were removed."""
        helped = self._request.helped.get(self._spec.leaves)
        if helped is None:
            helped = self._request.helped[self._spec.leaves] = Helped()
        helped.sync(self._request, self._spec, lower, self._matrix)
        if self._own is None:
            return helped.rows
        return helped.rows_but(self._own.row, helps=self._helps_on_its_own(lower, self._own))

    def _helps_on_its_own(self, lower: LowerPriorityPods, own: Own) -> bool:
        row, here = own.row, slice(own.row, own.row + 1)
        return bool(self._spec.open[row] and lower.count[row] > 0) and all(
            bool(constraint.fits_without(lower.total(constraint.resource, self._matrix)[here])[0])
            for constraint in own.constraints
        )

    def _constraints(self) -> Sequence[CapacityConstraint]:
        """The constraints of the request, without the nomination of the Pod itself."""
        every = self._request.constraints
        if self._own is not None:
            every = [constraint._replace(present=constraint.present.copy()) for constraint in every]
            for constraint, own in zip(every, self._own.constraints, strict=True):
                constraint.present[self._own.row] = own.present[0]
        return every

    def _occupancy(self, lower: LowerPriorityPods) -> list[Occupancy]:
        return [Occupancy(lower.amounts(c.resource, self._matrix), c.present, c.limit) for c in self._constraints()]

    def candidate_on(self, name: str) -> Candidate:
        """Return the preemption candidate on the node `name`, with its victims.

        The node must be one that may be nominated.
        """
        if self.constrained:
            return self._cycle.candidate_on(name)
        snapshot, matrix = self.snapshot, self._matrix
        lower = lower_priority_pods_of(matrix, snapshot, self.pod.effective_priority)
        row = np.array([snapshot.rows[name]])
        return candidates_on(snapshot, matrix, self._occupancy(lower), lower, row)[0]
