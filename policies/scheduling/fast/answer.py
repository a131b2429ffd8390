"""The nodes that fit, else the node that preemption would empty: the answer without its reasons, in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policies.metering import VECTOR, charge, meter
from policies.objects.priority_class import PREEMPT_NEVER
from policies.scheduling.fast.cutoff import Cutoff, cutoff_of
from policies.scheduling.fast.greedy import Row, cheapest, victims_on
from policies.scheduling.fast.problem import NodeFitProblem, NotValid
from policies.scheduling.fast.tables import tables_of
from policies.scheduling.preemption import Candidate, by_importance, potential_victims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.framework import Framework


class FastAnswer(NamedTuple):
    """`feasible`: names of the nodes that can run the pod. Else `selected`, the nodes that may be nominated, and the
    first of them with its victims."""

    feasible: list[str]
    selected: list[str]
    candidate: Candidate | None


def fast_answer(framework: Framework, pod: Pod) -> FastAnswer | None:
    """What `schedule_one` comes to, over every node. None where this cannot tell.

    Valid where all plugins of the profile say how they look in columns, for pods without required affinity to pods,
    claims and disks; nominated pods may be anywhere. All that pods on a node take up then only gets less when one goes,
    and nothing else depends on them.
    """
    if framework.without_columns:
        return None
    snapshot = framework.snapshot
    with snapshot.shelf.taken():
        tables = tables_of(snapshot)
        try:
            question = Question(snapshot, pod, tables, framework)
        except NotValid:
            return None
        return question.answer()


class Question(NodeFitProblem):
    """What becomes of the pod."""

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """The nodes that can run it now."""
        charge(len(self.demands) * self.row)
        full = np.zeros(len(self.possible), np.bool_)
        for demand in self.demands:
            full |= demand.present > demand.limit
        return self.open & ~full

    def answer(self) -> FastAnswer:
        """Over every node."""
        infos = self.snapshot.node_infos
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return FastAnswer([infos[row].name for row in feasible.tolist()], [], None)
        if not self._may_preempt:
            return FastAnswer([], [], None)
        cutoff = cutoff_of(self.tables, self.snapshot, self.pod.effective_priority)
        nodes = np.flatnonzero(self.open & (cutoff.count > 0))
        found = cheapest(self._rows(cutoff), nodes, cutoff, self.tables.kinds.priority.values())
        if found is None:
            return FastAnswer([], [], None)
        names = [infos[row].name for row in found.nodes.tolist()]
        victims = self._victims(cutoff, int(found.nodes[0]), np.flatnonzero(found.victims[:, 0]))
        return FastAnswer([], names, Candidate(names[0], victims, found.violations))

    def candidates(self, nodes: NDArray[np.intp]) -> Iterator[Candidate]:
        """Who would have to go on each of these nodes, which are open but full; nothing where that does not help."""
        if not self.framework.preempts or self.pod.preemption_policy == PREEMPT_NEVER:
            return
        cutoff = cutoff_of(self.tables, self.snapshot, self.pod.effective_priority)
        rows, nodes = self._rows(cutoff), nodes[cutoff.count[nodes] > 0]
        for row in rows:
            nodes = nodes[row.base[nodes] <= row.limit[nodes]]
        if not len(nodes):
            return
        goes = victims_on(rows, nodes, cutoff)
        violations = (goes & cutoff.violates[: len(goes), nodes]).sum(axis=0)
        work = meter()
        for column, place in enumerate(nodes.tolist()):
            work.charge(10)
            victims = self._victims(cutoff, place, np.flatnonzero(goes[:, column]))
            yield Candidate(self.snapshot.node_infos[place].name, victims, int(violations[column]))

    @property
    def _may_preempt(self) -> bool:
        return self.framework.preempts and self.pod.preemption_policy != PREEMPT_NEVER and not self.waits()

    def waits(self) -> bool:
        """Whether victims of an earlier preemption are leaving. Source: upstream `PodEligibleToPreemptOthers`."""
        row = self.snapshot.rows.get(self.pod.nominated_node_name)
        if row is None or not (self.possible[row] and self.resolvable[row]):
            return False
        lower = potential_victims(self.pod, self.snapshot.node_infos[row])
        return any(other.terminating and other.preempted for other in lower)

    def _rows(self, cutoff: Cutoff) -> list[Row]:
        rows = []
        for demand in self.demands:
            bounds = None
            charge(cutoff.kind.size // VECTOR)
            if demand.constraint is None:
                amounts = cutoff.amounts(demand.resource, self.tables)
                if len(cutoff.levels):
                    bounds = cutoff.bounds(demand.resource, self.tables)
            else:
                amounts = cutoff.amounts_at(demand.constraint.per_kind, demand.constraint.counts)
            rows.append(Row(amounts, demand.present, demand.limit, bounds))
        return rows

    def _victims(self, cutoff: Cutoff, row: int, ranks: NDArray[np.intp]) -> tuple[Pod, ...]:
        """Source: upstream orders victims anew where pods of both groups could have had to go."""
        victims = cutoff.pods(row, ranks, self.snapshot.node_infos[row])
        both = 0 < cutoff.violating[row] < cutoff.count[row]
        return tuple(by_importance(victims, self.snapshot.semantics) if both else victims)
