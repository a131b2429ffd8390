"""The nodes that fit, else the node that preemption would empty: the answer without its reasons, in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.metering import VECTOR, charge, meter
from policies.objects.priority_class import PREEMPT_NEVER
from policies.scheduling.fast.constraints import Constraint, NotValid, constraints_of
from policies.scheduling.fast.cutoff import Cutoff, cutoff_of
from policies.scheduling.fast.greedy import Row, cheapest, victims_on
from policies.scheduling.fast.tables import tables_of
from policies.scheduling.preemption import Candidate, by_importance, potential_victims

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.columns import Columns
    from policies.scheduling.fast.tables import Tables
    from policies.scheduling.snapshot import Snapshot

MOST: Final = 2**60
"""Amounts above this are left to Python's integers."""


class FastAnswer(NamedTuple):
    """`feasible`: names of the nodes that can run the pod. Else `selected`, the nodes that may be nominated, and the
    first of them with its victims."""

    feasible: list[str]
    selected: list[str]
    candidate: Candidate | None


def fast_answer(snapshot: Snapshot, pod: Pod) -> FastAnswer | None:
    """What `schedule_one` comes to, over every node. None where this cannot tell.

    Valid for pods without required affinity to pods, claims, disks and required node features; nominated pods may be
    anywhere. All that pods on a node take up then only gets less when one goes, and nothing else depends on them.
    """
    with snapshot.shelf.taken():
        tables = tables_of(snapshot)
        try:
            question = Question(snapshot, pod, tables)
        except NotValid:
            return None
        return question.answer()


class Demand(NamedTuple):
    """What takes up room: of a resource, or by a constraint. `present` counts nominated pods too."""

    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    resource: str = ""
    constraint: Constraint | None = None


class Question:
    """One pod on one snapshot."""

    def __init__(self, snapshot: Snapshot, pod: Pod, tables: Tables) -> None:
        self.snapshot, self.pod, self.tables = snapshot, pod, tables
        columns = snapshot.columns
        self._row = len(columns.serials) // VECTOR
        """Units that a few operations on one number a node cost."""
        if columns.requested.max(initial=0) >= MOST:
            raise NotValid
        self._nominated = _nominated(snapshot, pod, tables)
        self._possible = tables.nodes.static(pod.spec)
        self._resolvable = self._possible
        self.demands = list(self._resources(columns))
        constraints = constraints_of(pod, tables, snapshot)
        if constraints and pod.nominated_node_name:
            raise NotValid
        for constraint in constraints:
            nominated = np.where(constraint.concerned, self._of_nominated(constraint.per_kind), 0)
            self.demands.append(Demand(constraint.present + nominated, constraint.limit, constraint=constraint))
            if constraint.possible is not None:
                self._possible = self._possible & constraint.possible

    def _resources(self, columns: Columns) -> list[Demand]:
        """Source: upstream `fitsRequest`; what is not requested is not looked at."""
        request = self.pod.spec.request
        wanted = {
            "cpu": request.milli_cpu,
            "memory": request.memory,
            "ephemeral-storage": request.ephemeral_storage,
            "pods": 1,
            **request.scalars,
        }
        demands = []
        for resource, amount in wanted.items():
            charge(1 + self._row)
            if amount >= MOST:
                raise NotValid
            if not amount:
                continue
            if resource not in columns.resources:
                self._resolvable = np.zeros_like(self._possible)
                continue
            index = columns.resources.index(resource)
            present = columns.requested[index]
            if len(self._nominated[0]):
                present = present + self._of_nominated(self.tables.kinds.amounts(resource))
            limit = columns.allocatable[index] - amount
            if resource != "pods":
                self._resolvable = self._resolvable & (limit >= 0)
            demands.append(Demand(present, limit, resource))
        return demands

    def _of_nominated(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(len(self._possible), np.int64)
        rows, kinds = self._nominated
        np.add.at(total, rows, per_kind[kinds])
        if total.max(initial=0) >= MOST:
            raise NotValid
        return total

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """The nodes that can run it now."""
        charge(len(self.demands) * self._row)
        full = np.zeros(len(self._possible), np.bool_)
        for demand in self.demands:
            full |= demand.present > demand.limit
        return self.open & ~full

    def answer(self) -> FastAnswer:
        """Over every node."""
        infos = self.snapshot.node_infos
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return FastAnswer([infos[row].name for row in feasible.tolist()], [], None)
        if self.pod.preemption_policy == PREEMPT_NEVER or self.waits():
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
        if self.pod.preemption_policy == PREEMPT_NEVER:
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
    def open(self) -> NDArray[np.bool_]:
        """The nodes on which there is room for the pod, or would be if nobody else were there."""
        return self._possible & self._resolvable

    def waits(self) -> bool:
        """Whether victims of an earlier preemption are leaving. Source: upstream `PodEligibleToPreemptOthers`."""
        row = self.snapshot.rows.get(self.pod.nominated_node_name)
        if row is None or not (self._possible[row] and self._resolvable[row]):
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
        return tuple(by_importance(victims) if both else victims)


class Nominations(NamedTuple):
    """The nominated pods of one table of them: node, kind, priority and identity of each."""

    table: object
    nodes: object
    rows: NDArray[np.intp]
    kinds: NDArray[np.intp]
    priorities: NDArray[np.int64]
    identities: list[str]


def _nominated(snapshot: Snapshot, pod: Pod, tables: Tables) -> tuple[Sequence[int], NDArray[np.intp]]:
    """(node, kind) of the pods that are nominated and count. Source: upstream `addGENominatedPods`."""
    table = snapshot.objects.nominated
    known: Nominations | None = tables.nominations
    if known is None or known.table is not table or known.nodes is not snapshot.rows:
        known = tables.nominations = _nominations(snapshot, tables)
    count = known.priorities >= pod.effective_priority
    if pod.identity in known.identities:
        count[known.identities.index(pod.identity)] = False
    return known.rows[count], known.kinds[count]  # type: ignore[return-value]


def _nominations(snapshot: Snapshot, tables: Tables) -> Nominations:
    table, rows = snapshot.objects.nominated, snapshot.rows
    found = [(rows[name], other) for name, pods in table.items() if name in rows for other in pods]
    charge(len(found))
    return Nominations(
        table,
        rows,
        np.array([row for row, _ in found], np.intp),
        np.array([tables.kinds.number(other) for _, other in found], np.intp),
        np.array([other.effective_priority for _, other in found], np.int64),
        [other.identity for _, other in found],
    )
