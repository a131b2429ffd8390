"""Cycles of pods that find no place, again and again: what pods that are alike have in common is worked out once.

A scheduler under pressure mostly tries pods that it has tried before, on a cluster that has changed on a few nodes. So
what a pod's spec says of the nodes is kept, what a request lacks is shared by all that ask for as much, and what
preemption costs is looked up but where something has changed. It comes to the same as `Cycle` (tests hold them to each
other). Source: kubernetes `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.scheduling.large_cycle import Cycle, Found, Scores, found_in_order
from policies.scheduling.plugins.inter_pod_affinity_columns import kinds_with_anti_affinity, terms_against
from policies.scheduling.plugins.node_resources_fit import NodeResourcesFit, reason_of
from policies.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE
from policies.scheduling.preemption import Candidate, potential_victims
from policies.scheduling.vectorized.kept_costs import KeptCosts, ranks_that_go
from policies.scheduling.vectorized.lower_priority_pods import lower_priority_pods_of
from policies.scheduling.vectorized.node_fit import candidate_of
from policies.scheduling.vectorized.nominations import nominations_of
from policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from policies.scheduling.vectorized.problem import MOST, NotValid
from policies.scheduling.vectorized.victim_selection import Occupancy

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.objects.pod_spec import PodSpec
    from policies.scheduling.columns import Columns
    from policies.scheduling.snapshot import Snapshot
    from policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from policies.scheduling.vectorized.nominations import Nominated, Nominations
    from policies.scheduling.vectorized.pod_matrix import PodMatrix

_KEPT: Final = 4096
"""Specs that are remembered at most."""
_KEPT_CHANGES: Final = 4096
_FEW: Final = 16
"""Nodes that Python goes through sooner than numpy goes through all."""
_AGAIN: Final = 8
"""How often each of them may have changed: a node with nominated pods does so for each of them."""
_KEPT_REQUESTS: Final = 256
"""Requests, each at one priority: some 400 kB each at 5,000 nodes."""


class _Demand(NamedTuple):
    """Some of a resource. `row`: its place in the columns; `limit`: [node], what may be requested beside it."""

    resource: str
    row: int
    limit: NDArray[np.int64]


class _Spec(NamedTuple):
    """What a spec says of the nodes. `open`: [node], with room if nobody else were there; `plugins`, `reasons`: who
    rejects nodes whatever runs there, and why; `left`: [node], the others."""

    spec: PodSpec
    request: Hashable
    demands: list[_Demand]
    open: NDArray[np.bool_]
    plugins: frozenset[str]
    reasons: Counter[str]
    left: NDArray[np.bool_]
    leaves: int
    """The number of what it leaves: the same for all specs with the same `open` and `left`."""
    nominated: bool
    """Whether a pod that is nominated is one for columns."""


class _Request:
    """A request at one priority, on the nodes as they are now. What it says of a node changes when the node does."""

    def __init__(self, demands: Sequence[_Demand], priority: int) -> None:
        self.demands, self._priority = demands, priority
        self._columns: Columns | None = None
        self._serials: NDArray[np.int64] = np.zeros(0, np.int64)
        self._nominations: Nominations | None = None
        self._nominated = -1
        self._age = 0
        """How often all nodes were gone through."""
        self._changes: list[int] = []
        """The nodes that have changed since, as rows."""
        self.rooms: dict[int, _Room] = {}
        self.helped: dict[int, _Helped] = {}
        self.present: list[NDArray[np.int64]] = []
        """[node] of each demand: what is requested there, nominated pods included."""
        self.lacks: list[NDArray[np.bool_]] = []
        """[node] of each demand: whether there is too little."""
        self.full: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.costs: KeptCosts | None = None

    def sync(self, columns: Columns, nominations: Nominations) -> None:
        """Become those of these nodes. Raises NotValid."""
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
        """The rows that differ from what is known; None where these are many."""
        if self._columns is None or self._nominations is not nominations or len(self._changes) > _KEPT_CHANGES:
            return None
        changes = nominations.changed_since(self._nominated)
        if changes is None or len(changes) > _AGAIN * _FEW:
            return None
        nominated = dict.fromkeys(changes)
        if len(nominated) > _FEW:
            return None
        if self._columns is columns:
            return list(nominated)
        rows = np.flatnonzero(self._serials != columns.serials)
        return list({*rows.tolist(), *nominated}) if len(rows) <= _FEW else None

    def _go_through(self, columns: Columns, nominations: Nominations) -> None:
        """In the arrays that are there, if they are of as many nodes: to make new ones takes as long."""
        if not self.present or len(self.full) != len(columns.serials):
            shape = len(columns.serials)
            self.present = [np.zeros(shape, np.int64) for _ in self.demands]
            self.lacks = [np.zeros(shape, np.bool_) for _ in self.demands]
            self.full = np.zeros(shape, np.bool_)
        self._age += 1
        self._changes = []
        self.full[:] = False
        for demand, present, lacks in zip(self.demands, self.present, self.lacks, strict=True):
            self._count_present(demand, columns, nominations, present)
            np.greater(present, demand.limit, out=lacks)
            np.logical_or(self.full, lacks, out=self.full)

    def _update(self, row: int, columns: Columns, nominations: Nominations) -> None:
        full = False
        for demand, all_present, all_lacks in zip(self.demands, self.present, self.lacks, strict=True):
            present = int(columns.requested[demand.row, row])
            if nominations:
                added = int(nominations.amounts(demand.resource, self._priority)[row])
                if added >= MOST:
                    raise NotValid
                present += added
            lacks = present > int(demand.limit[row])
            all_present[row], all_lacks[row] = present, lacks
            full = full or lacks
        self.full[row] = full

    def changes_since(self, seen: tuple[int, int]) -> tuple[Sequence[int] | None, tuple[int, int]]:
        """(the rows that have changed since then, None where these are many; what to ask with next time)."""
        age, count = seen
        now = self._age, len(self._changes)
        if age != self._age or now[1] - count > _AGAIN * _FEW:
            return None, now
        rows = dict.fromkeys(self._changes[count:])
        return (list(rows) if len(rows) <= _FEW else None), now

    def _count_present(
        self, demand: _Demand, columns: Columns, nominations: Nominations, present: NDArray[np.int64]
    ) -> None:
        requested = columns.requested[demand.row]
        if not nominations:
            present[:] = requested
            return
        added = nominations.amounts(demand.resource, self._priority)
        if nominations.may_reach(demand.resource, MOST) and added.max(initial=0) >= MOST:
            raise NotValid
        np.add(requested, added, out=present)


class _Room:
    """Where a request has room, of the nodes that a spec leaves, and what it lacks."""

    def __init__(self) -> None:
        self._seen = -1, 0
        self._open: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._lacks: list[NDArray[np.bool_]] = []
        self.nodes = 0
        """How many have room."""
        self.lacking: list[int] = []
        """Of each demand, how many have too little."""

    def sync(self, request: _Request, spec: _Spec) -> None:
        """Become that of the nodes as the request has them."""
        rows, self._seen = request.changes_since(self._seen)
        if rows is None:
            self._open = spec.open & ~request.full
            self._lacks = [spec.left & lacks for lacks in request.lacks]
            self.nodes = int(np.count_nonzero(self._open))
            self.lacking = [int(np.count_nonzero(lacks)) for lacks in self._lacks]
            return
        for row in rows:
            fits = bool(spec.open[row]) and not request.full[row]
            self.nodes += fits - bool(self._open[row])
            self._open[row] = fits
            if spec.left[row]:
                for number, (mine, lacks) in enumerate(zip(self._lacks, request.lacks, strict=True)):
                    now = bool(lacks[row])
                    self.lacking[number] += now - bool(mine[row])
                    mine[row] = now


class _Helped:
    """Which nodes would have room for a request without all pods of lower priority, of those that a spec leaves."""

    def __init__(self) -> None:
        self._seen = -1, 0
        self._nodes: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.count = 0

    @property
    def rows(self) -> NDArray[np.intp]:
        """The nodes as rows of the columns."""
        return np.flatnonzero(self._nodes) if self.count else np.zeros(0, np.intp)

    def sync(self, request: _Request, spec: _Spec, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        """Become those of the nodes as the request, and the tables of the pods below its priority, have them."""
        rows, self._seen = request.changes_since(self._seen)
        totals = [lower.total(demand.resource, matrix) for demand in request.demands]
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


class RecurringCycles:
    """Of one scheduler of the default profile. Its snapshots differ in nodes, pods, budgets and workloads alone."""

    def __init__(self) -> None:
        self._nodes: object = None
        self._specs: dict[int, tuple[PodSpec, _Spec | None]] = {}
        self._requests: dict[tuple[int, Hashable], _Request] = {}
        self._left: dict[tuple[bytes, bytes], int] = {}
        """What specs leave -> its number."""

    def cycle(self, snapshot: Snapshot, pod: Pod) -> RecurringCycle | None:
        """A cycle of a pod; None where `Cycle` or the plugins must be asked. Use it with `snapshot.derived.taken()`."""
        if self._nodes is not snapshot.objects.nodes:
            self._nodes = snapshot.objects.nodes
            self._specs.clear()
            self._requests.clear()
            self._left.clear()
        matrix = pod_matrix_of(snapshot)
        try:
            spec = self._spec(snapshot, pod)
            if spec is None or pod.node_name:
                return None
            if kinds_with_anti_affinity(matrix) and terms_against(pod, matrix, snapshot):
                return None
            if pod.nominated_node_name and not spec.nominated:
                return None
            if snapshot.columns.largest >= MOST:
                return None
            request = self._request(spec, pod.effective_priority)
            nominations = nominations_of(snapshot, matrix)
            request.sync(snapshot.columns, nominations)
        except NotValid:
            return None
        return RecurringCycle(snapshot, pod, matrix, spec, request, nominations)

    def _spec(self, snapshot: Snapshot, pod: Pod) -> _Spec | None:
        known = self._specs.get(id(pod.spec))
        if known is None:
            if len(self._specs) >= _KEPT:
                self._specs.clear()
            known = self._specs[id(pod.spec)] = pod.spec, self._read(snapshot, pod)
        return known[1]

    def _read(self, snapshot: Snapshot, pod: Pod) -> _Spec | None:
        """None where something other than resources may decide, on these nodes or on others."""
        spec = pod.spec
        affinity = spec.pod_affinity
        if spec.host_ports or affinity.required_affinity or affinity.required_anti_affinity:
            return None
        spread = any(each.when_unsatisfiable == DO_NOT_SCHEDULE for each in spec.topology_spread)
        if spread or snapshot.extended_resources or spec.has_storage:  # claims and volumes change beside the nodes
            return None
        try:
            cycle = Cycle(snapshot, replace(pod, nominated_node_name=""))
            plugins, reasons, left = cycle.static_rejections()
        except NotValid:
            return None
        fit = cycle.node_fit
        known = snapshot.columns.resources
        if any(amount and resource not in known for resource, amount in spec.request.scalars.items()):
            return None
        if any(demand.constraint is not None for demand in fit.demands):
            return None
        demands = [_Demand(demand.resource, known.index(demand.resource), demand.limit) for demand in fit.demands]
        amounts = spec.request
        base = amounts.milli_cpu, amounts.memory, amounts.ephemeral_storage
        request = base, tuple(sorted(amounts.scalars.items()))
        late = any(plugin.static_filter(pod) for plugin in cycle.framework.late_static_plugins)
        leaves = self._left.setdefault((fit.open.tobytes(), left.tobytes()), len(self._left))
        return _Spec(spec, request, demands, fit.open.copy(), frozenset(plugins), reasons, left, leaves, not late)

    def _request(self, spec: _Spec, priority: int) -> _Request:
        key = priority, spec.request
        found = self._requests.get(key)
        if found is None:
            if len(self._requests) >= _KEPT_REQUESTS:
                self._requests.clear()
            found = self._requests[key] = _Request(spec.demands, priority)
        return found


class RecurringCycle:
    """One pod on one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        pod: Pod,
        matrix: PodMatrix,
        spec: _Spec,
        request: _Request,
        nominations: Nominations,
    ) -> None:
        self.snapshot, self.pod = snapshot, pod
        self._matrix, self._spec, self._request = matrix, spec, request
        self._present, self._lacks, self._full = request.present, request.lacks, request.full
        own = nominations.of(pod)
        self._alone = own is not None and own.priority >= pod.effective_priority
        """Whether it is among the nominated pods: so no other pod sees the nodes as it does."""
        if own is not None and self._alone:
            self._leave_out(own)

    def _leave_out(self, own: Nominated) -> None:
        """To itself the pod is not there."""
        row = own.row
        self._present = [present.copy() for present in self._present]
        self._lacks, self._full = [lacks.copy() for lacks in self._lacks], self._full.copy()
        self._full[row] = False
        for demand, present, lacks in zip(self._spec.demands, self._present, self._lacks, strict=True):
            present[row] -= self._matrix.kinds.amounts(demand.resource)[own.kind]
            lacks[row] = present[row] > demand.limit[row]
            self._full[row] |= lacks[row]

    def fits_on(self, name: str) -> bool:
        """Whether a node, which need not exist, can run it."""
        row = self.snapshot.rows.get(name)
        return row is not None and bool(self._spec.open[row] and not self._full[row])

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """[node]: whether it can run the pod now."""
        return self._spec.open & ~self._full

    def find(self, order: NDArray[np.intp]) -> Found:
        """The nodes that the scheduler finds, going through them in this order; none where it finds none."""
        room = self._room()
        if room is not None and not room.nodes:
            return Found(order[:0], len(order))
        return found_in_order(self.feasible, order)

    def _room(self) -> _Room | None:
        if self._alone:
            return None
        rooms = self._request.rooms
        room = rooms.get(self._spec.leaves)
        if room is None:
            room = rooms[self._spec.leaves] = _Room()
        room.sync(self._request, self._spec)
        return room

    def scores(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """What the nodes are worth, less what all have in common. Raises NotValid."""
        return Scores(self.snapshot, self.pod, self._matrix).of(rows)

    def rejection(self) -> tuple[frozenset[str], Counter[str]]:
        """(who rejects it, reasons and of how many nodes)."""
        reasons, left = self._spec.reasons.copy(), self._spec.left
        lacking, room = False, self._room()
        counts = room.lacking if room else (int(np.count_nonzero(left & lacks)) for lacks in self._lacks)
        for demand, count in zip(self._spec.demands, counts, strict=True):
            if count:
                reasons[reason_of(demand.resource)] += count
                lacking = True
        return self._spec.plugins | ({NodeResourcesFit.name} if lacking else frozenset()), reasons

    def waits(self) -> bool:
        """Whether victims of an earlier preemption are leaving. Source: upstream `PodEligibleToPreemptOthers`."""
        row = self.snapshot.rows.get(self.pod.nominated_node_name)
        if row is None or not self._spec.open[row]:
            return False
        return any(o.terminating and o.preempted for o in potential_victims(self.pod, self.snapshot.node_infos[row]))

    def best_nodes(self) -> list[str]:
        """The nodes that may be nominated, by name; none where preemption does not help."""
        matrix, snapshot = self._matrix, self.snapshot
        if matrix.kinds.lowest_priority >= self.pod.effective_priority:
            return []
        lower = lower_priority_pods_of(matrix, snapshot, self.pod.effective_priority)
        nodes = self._helped(lower)
        if not len(nodes):
            return []
        lower.settle(nodes, matrix, snapshot)
        costs = self._request.costs
        if costs is None or costs.lower is not lower:
            costs = self._request.costs = KeptCosts(lower, len(self._spec.demands))
        best = costs.best(self._occupancy(lower), nodes, matrix)
        return [snapshot.node_infos[row].name for row in best.nodes.tolist()]

    def _helped(self, lower: LowerPriorityPods) -> NDArray[np.intp]:
        """The nodes that have room without all pods of lower priority."""
        matrix, spec = self._matrix, self._spec
        if self._alone:
            nodes = np.flatnonzero(spec.open & (lower.count > 0))
            for demand, present in zip(spec.demands, self._present, strict=True):
                base = present - lower.total(demand.resource, matrix)
                nodes = nodes[base[nodes] <= demand.limit[nodes]]
            return nodes
        helped = self._request.helped.get(spec.leaves)
        if helped is None:
            helped = self._request.helped[spec.leaves] = _Helped()
        helped.sync(self._request, spec, lower, matrix)
        return helped.rows

    def _occupancy(self, lower: LowerPriorityPods) -> list[Occupancy]:
        demands = zip(self._spec.demands, self._present, strict=True)
        return [Occupancy(lower.amounts(d.resource, self._matrix), present, d.limit) for d, present in demands]

    def candidate_on(self, name: str) -> Candidate:
        """Who would have to go on a node that may be nominated."""
        snapshot, matrix = self.snapshot, self._matrix
        row = snapshot.rows[name]
        lower = lower_priority_pods_of(matrix, snapshot, self.pod.effective_priority)
        ranks = ranks_that_go(self._occupancy(lower), row, lower)
        return candidate_of(lower, row, np.array(ranks, np.intp), snapshot)
