"""The nodes on which a Pod fits, or the node and victims of preemption, computed by numpy in milliseconds,
without reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.preemption import Decision, pod_eligible_to_preempt_others
from forewarn.policies.scheduling.status import Code, unresolvable
from forewarn.policies.scheduling.vectorized.candidates import candidates_on, candidates_with
from forewarn.policies.scheduling.vectorized.constraints import (
    MAX,
    CapacityConstraint,
    NotValid,
    Unsupported,
    attempt,
    with_nominated,
)
from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.nodes import read_by_filters
from forewarn.policies.scheduling.vectorized.nominations import nominations_of
from forewarn.policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.scheduling.vectorized.rejections import Present, first_rejections, rejected
from forewarn.policies.scheduling.vectorized.victim_selection import Occupancy, cheapest

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.plugin import StaticFilter
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.constraints import Constraint, RequiredAffinity
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.rejections import Rejections


class NodeNames(Sequence[str]):
    """The names of the nodes with these row numbers (`rows`), read only when needed."""

    __slots__ = ("_infos", "rows")

    def __init__(self, infos: Sequence[NodeInfo], rows: NDArray[np.intp]) -> None:
        self._infos, self.rows = infos, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        """The name, or a list of names for a slice."""
        if isinstance(place, slice):
            return [self._infos[row].name for row in self.rows[place].tolist()]
        return self._infos[self.rows[place]].name

    def __iter__(self) -> Iterator[str]:
        return (self._infos[row].name for row in self.rows.tolist())


def decide(framework: Framework, pod: Pod) -> Decision:
    """Return the decision about a Pod, by numpy over all nodes. Raises NotValid.

    Condition: the numpy implementation supports all plugins of the profile. There may be nominated Pods on any node.
    Then the removal of a Pod only reduces amounts in use, and nothing else depends on Pods except required affinity,
    which is also evaluated without all lower-priority Pods.
    """
    if framework.without_columns:
        raise NotValid(framework.without_columns)
    snapshot = framework.snapshot
    with snapshot.derived.locked():
        return NodeFit(snapshot, pod, pod_matrix_of(snapshot), framework).decide()


class NodeFit:
    """The constraints of one Pod on one Snapshot, to which the plugins of its profile add theirs, and the decision.

    `possible`: [node], bool, the nodes that static filters and constraints do not exclude. `resolvable`: those of
    `possible` with sufficient allocatable resources. `row`: the cost of a few numpy operations on a [node] array, in
    units of work. Raises NotValid if the numpy implementation does not support the Pod.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix, framework: Framework) -> None:
        self.snapshot, self.pod, self.matrix, self.framework = snapshot, pod, matrix, framework
        columns = snapshot.columns
        self.row = len(columns.serials) // VECTOR
        if pod.node_name or columns.largest >= MAX:
            raise NotValid("the pod names its node, or what is requested is beyond all measure")
        if pod.nominated_node_name and any(p.static_filter(pod) for p in framework.late_static_plugins):
            # Whether its node may ever do is asked after whether it does now.
            raise NotValid("the pod is nominated, and the profile asks other plugins first")
        self._nominations, self._kinds = nominations_of(snapshot, matrix), matrix.kinds
        self.demands: list[CapacityConstraint] = []
        self.added: dict[str, list[CapacityConstraint]] = {}
        """Plugin -> the constraints that it added."""
        self.affinity: RequiredAffinity | None = None
        self.static = self.possible = self._static()
        """[node], bool: whether the node passes all static filters."""
        self.resolvable = self.possible
        self.tried_in_vain: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node], bool: rejected for good, but preemption evaluates the node."""
        self.undecided: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node], bool: columns cannot determine the victims there."""
        self.rejections: dict[str, Rejections] = {}
        """Plugin -> static rejections, for plugins that call `narrow`."""
        for plugin in framework.column_plugins:
            before = len(self.demands)
            result = attempt(plugin.in_columns, self)
            if isinstance(result, Unsupported):
                why = result.why or "to which more than the pods of a node matters for such a pod"
                raise NotValid(f"of plugin {plugin.name}, {why}")
            self.added[plugin.name] = self.demands[before:]

    def _static(self) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node passes all static filters.

        Sets `static_key`, the key of the cached result.
        """
        framework, pod = self.framework, self.pod

        def filters() -> list[StaticFilter]:
            columns = (plugin.static_filter_in_columns(pod) for plugin in framework.static_plugins)
            return [static for static in columns if static is not None]

        whose, constraints = read_by_filters(pod, whole=framework.plan.reads_whole_pod)
        whose = framework.profile, self.snapshot.semantics, *whose
        self.static_key: Hashable = whose, id(pod.spec) if constraints is None else constraints
        return self.matrix.nodes.static(whose, pod.spec, filters, constraints)

    def is_valid(self, matrix: PodMatrix) -> bool:
        """Report whether the problem still belongs to these tables, which may have been replaced by new ones."""
        return self._kinds is matrix.kinds and self._nominations is nominations_of(self.snapshot, matrix)

    def add(self, constraint: Constraint) -> None:
        """Add a constraint of the plugin that is currently evaluated."""
        self.demands.append(self.counted(constraint))
        if constraint.possible is not None:
            self.possible = self.possible & constraint.possible

    def counted(self, constraint: Constraint) -> CapacityConstraint:
        """Return the constraint as an amount and a limit on each node."""
        nominated = np.where(constraint.concerned, self.of_nominated(constraint.per_kind), 0)
        return CapacityConstraint(constraint.present + nominated, constraint.limit, constraint=constraint)

    def narrow(self, plugin: str, rejections: Rejections) -> None:
        """Exclude the nodes that a plugin rejects, with any Pods on them.

        kube-scheduler tries preemption on such a node if the first plugin that rejects the node does not call it
        unresolvable, although preemption cannot help. Raises NotValid if the Pod is nominated to an excluded node.
        """
        charge(self.row)
        rejected = rejections.codes >= 0
        closed = self.open & rejected
        self.rejections[plugin] = rejections
        if not closed.any():
            return
        own = self.snapshot.rows.get(self.pod.nominated_node_name)
        if own is not None and closed[own]:
            raise NotValid("as the pod is nominated to a node that will not do")
        full = self.full(self.demands)
        tried = np.array([*(status.code is Code.UNSCHEDULABLE for status in rejections.statuses), False])[
            rejections.codes
        ]
        self.tried_in_vain = self.tried_in_vain | (closed & (full | tried))
        self.possible = self.possible & ~rejected

    def full(self, demands: Sequence[CapacityConstraint]) -> NDArray[np.bool_]:
        """Return [node], bool: whether one of the constraints in `demands` is exceeded."""
        charge(len(demands) * self.row)
        full = np.zeros(len(self.possible), np.bool_)
        for demand in demands:
            full |= demand.exceeded
        return full

    def with_nominated(self, present: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        """Return `with_nominated` for the Pod, without its own nomination. Raises NotValid for very large amounts."""
        total = with_nominated(present, self._nominations, resource, self.pod.effective_priority)
        if (own := self._nominations.of(self.pod)) is not None:
            total[own.row] -= self.matrix.kinds.amounts(resource)[own.kind]
        return total

    def of_nominated(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [node]: the sum of `per_kind` ([class]) over the Pods nominated to the node with at least the Pod's
        priority.

        Raises NotValid for very large sums.
        """
        total = np.zeros(len(self.possible), np.int64)
        if self._nominations:
            rows, kinds = self._nominations.columns(self.pod.effective_priority)
            np.add.at(total, rows, per_kind[kinds])
            if (own := self._nominations.of(self.pod)) is not None:
                total[own.row] -= per_kind[own.kind]
        if total.max(initial=0) >= MAX:
            raise NotValid
        return total

    @property
    def open(self) -> NDArray[np.bool_]:
        """[node], bool: whether the Pod may fit if all other Pods were removed. Ignores required affinity."""
        return self.possible & self.resolvable

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """[node], bool: whether the node can run the Pod now."""
        fits = self.open & ~self.full(self.demands)
        return fits if self.affinity is None else fits & self.affinity.now

    @property
    def _potential(self) -> NDArray[np.bool_]:
        """[node], bool: whether preemption evaluates the node of an unschedulable Pod."""
        if self.affinity is None:
            return self.open
        before = self.full(self.demands[: self.affinity.after])
        return self.open & (before | (self.affinity.with_nominated & self.full(self.demands)))

    def decide(self) -> Decision:
        """Return the decision over all nodes. Raises NotValid."""
        infos = self.snapshot.node_infos
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return Decision(NodeNames(infos, feasible))
        if not self.framework.plan.preempts or self.ineligible_reason:
            return Decision()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self.clearable()
        if not len(nodes):
            return Decision()
        selected = cheapest(rows, nodes, lower, self.matrix.kinds.priority.values())
        names = [infos[row].name for row in selected.nodes.tolist()]
        candidate = candidates_with(
            self.snapshot, lower, selected.nodes[:1], selected.victims[:, :1], selected.costs[:, :1]
        )[0]
        return Decision((), names, candidate, self._is_sampled(len(nodes)))

    def _is_sampled(self, candidates: int) -> bool:
        """Report whether kube-scheduler evaluates only a part of the nodes for preemption, if there are this many
        candidates.
        """
        if "DefaultPreemption" not in self.framework.profile.plugins:
            return False
        args: DefaultPreemptionArgs = self.framework.plugin("DefaultPreemption").args
        most, least = len(self.possible), int(np.count_nonzero(self._potential | self.tried_in_vain))
        if candidates > args.num_candidates(most) or candidates <= args.num_candidates(least):
            return candidates > args.num_candidates(most)
        return candidates > args.num_candidates(int(np.count_nonzero(self._unschedulable())))

    def _unschedulable(self) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node's first rejection is one that preemption may resolve (code
        Unschedulable).

        Raises NotValid.
        """
        rejections = first_rejections(self, rejected(~self.static, unresolvable()), Present())
        return rejections.where(Code.UNSCHEDULABLE)

    def candidates(self, nodes: NDArray[np.intp]) -> Sequence[Candidate]:
        """Return the preemption candidates among these nodes.

        `nodes`: row numbers; only Pods may prevent scheduling on them.
        """
        if not self.framework.plan.preempts or self.ineligible_reason:
            return ()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self._clearable(lower, nodes[lower.count[nodes] > 0])
        return candidates_on(self.snapshot, self.matrix, rows, lower, nodes) if len(nodes) else ()

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or "". Raises NotValid."""
        rows = self.snapshot.rows
        return pod_eligible_to_preempt_others(
            self.pod, self.snapshot, lambda name: not self._unschedulable()[rows[name]]
        )

    def clearable(self) -> tuple[list[Occupancy], NDArray[np.intp]]:
        """Return (the amounts of each constraint, the row numbers of nodes on which the Pod fits without all
        lower-priority Pods).
        """
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        return self._clearable(lower, np.flatnonzero(self.open & (lower.count > 0)))

    def _clearable(self, lower: LowerPriorityPods, nodes: NDArray[np.intp]) -> tuple[list[Occupancy], NDArray[np.intp]]:
        """Return (the amounts of each constraint, those of `nodes` on which the Pod fits without all lower-priority
        Pods).

        Sorts the Pods of the returned nodes. Raises NotValid.
        """
        if self.affinity is not None:
            nodes = nodes[self._potential[nodes]]
            nodes = nodes[self.affinity.when_removed(nodes, lower.kind)]
        for demand in self.demands:
            if demand.constraint is None:  # what pods occupy in all does not depend on their order
                charge(self.row)
                nodes = nodes[demand.fits_without(lower.total(demand.resource, self.matrix))[nodes]]
        if self.undecided[nodes].any():
            raise NotValid("of plugin NodeVolumeLimits, as pods of lower priority take a node to its limit of volumes")
        lower.settle(nodes, self.matrix, self.snapshot)
        rows = self.rows(lower)
        for demand, row in zip(self.demands, rows, strict=True):
            if demand.constraint is not None:
                charge(self.row)
                nodes = nodes[row.base[nodes] <= row.limit[nodes]]
        return rows, nodes

    def rows(self, lower: LowerPriorityPods) -> list[Occupancy]:
        """Return the amounts of each constraint: those in use, the limit, and those of lower-priority Pods."""
        rows = []
        for demand in self.demands:
            charge(lower.kind.size // VECTOR)
            if demand.constraint is not None:
                few = lower.amounts_at(demand.constraint.per_kind, demand.constraint.counts)
                rows.append(Occupancy(few, demand.present, demand.limit))
                continue
            amounts = lower.amounts(demand.resource, self.matrix)
            bounds = lower.bounds(demand.resource, self.matrix) if len(lower.levels) else None
            rows.append(Occupancy(amounts, demand.present, demand.limit, bounds))
        return rows
