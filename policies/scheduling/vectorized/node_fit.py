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
from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.scheduling.vectorized.problem import NodeFitProblem, NotValid
from forewarn.policies.scheduling.vectorized.rejections import Present, first_rejections, rejected
from forewarn.policies.scheduling.vectorized.victim_selection import Occupancy, cheapest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.preemption import Candidate


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


class NodeFit(NodeFitProblem):
    """The outcome of one Pod on one Snapshot, computed by numpy for all nodes at once."""

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """[node], bool: whether the node can run the Pod now."""
        fits = self.open & ~self.full(self.demands)
        return fits if self.affinity is None else fits & self.affinity.now

    @property
    def _potential(self) -> NDArray[np.bool_]:
        """[node], bool: whether preemption evaluates the node of an unschedulable Pod.

        Nodes whose first rejection is by required affinity are excluded.
        """
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
        if not self.framework.preempts or self.ineligible_reason:
            return Decision()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self.clearable()
        if not len(nodes):
            return Decision()
        found = cheapest(rows, nodes, lower, self.matrix.kinds.priority.values())
        names = [infos[row].name for row in found.nodes.tolist()]
        candidate = candidates_with(self.snapshot, lower, found.nodes[:1], found.victims[:, :1], found.costs[:, :1])[0]
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
        if not self.framework.preempts or self.ineligible_reason:
            return ()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self._clearable(lower, nodes[lower.count[nodes] > 0])
        return candidates_on(self.snapshot, self.matrix, rows, lower, nodes) if len(nodes) else ()

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or "". Raises NotValid.

        If two plugins reject the nominated node, the first decides whether preemption may resolve the rejection.
        """
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
