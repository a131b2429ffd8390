"""One pod on one snapshot, in columns: what it takes up, where it may be, and what keeps it away.

Each plugin says of itself what it comes to (`in_columns`, `static_filter`, `beyond_columns`); a profile with one that
does not is none for columns. Constraints beside resources are as if they were resources: amounts of pods, and a limit
for every node. Valid because each of them only gets harder with every pod that stays on the node, so that "amount ≤
limit" says it all: anti-affinity and host ports have the limit 0; for a spread constraint the counts of all other
domains stand still. Required affinity gets easier: it is told apart from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.metering import VECTOR, charge
from policies.scheduling.status import Code
from policies.scheduling.vectorized.nodes import StaticFilter, said_of_nodes
from policies.scheduling.vectorized.nominations import nominations_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.framework import Framework
    from policies.scheduling.snapshot import Snapshot
    from policies.scheduling.vectorized.pod_matrix import PodMatrix
    from policies.scheduling.vectorized.rejections import Rejections

MOST: Final = 2**60
"""Amounts above this are left to Python's integers."""


class NotValid(Exception):
    """The question is none for a fast path. Its text, where there is one, says why."""


class Skew(NamedTuple):
    """A spread constraint: no domain may have more than `most` pods above the least one; `few` domains: above none."""

    most: int
    few: bool
    domains: NDArray[np.int64]


class Constraint(NamedTuple):
    """`per_kind`: what a pod of each kind counts, on the nodes that are `concerned`; on `counts` are such pods.
    `present`: the count of every node now, pods elsewhere included. `possible`: nodes not out of the question.
    `domains`: a number for every node (-1: none); one pod that counts shuts all nodes of its number. `skew`: instead of
    that, where pods are spread. `own`: of anti-affinity, `per_kind` by the pod's own terms, None where it has none."""

    per_kind: NDArray[np.int64]
    concerned: NDArray[np.bool_]
    counts: NDArray[np.intp]
    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    possible: NDArray[np.bool_] | None = None
    domains: NDArray[np.int64] | None = None
    skew: Skew | None = None
    own: NDArray[np.int64] | None = None


class RequiredAffinity(NamedTuple):
    """Where a pod finds the pods that it must be near: pods that match all of its terms, in every topology of these.

    More such pods on a node never take it away, so preemption need not look at it again when pods come back.
    `now`: where it is met; `with_nominated`: where it is, with the nominated pods of each node on it. `after`: how many
    demands are asked before it. `labelled`: nodes with the labels of all terms. `per_kind`: 1 for matching pods;
    `here`: of the nodes, how many there are; `least`: how many in the domain with fewest of a node; `total`: in all
    topologies together. `itself`: whether the pod is one of them: where there are none, it may be the first.
    Source: upstream `satisfyPodAffinity`.
    """

    now: NDArray[np.bool_]
    with_nominated: NDArray[np.bool_]
    after: int
    labelled: NDArray[np.bool_]
    per_kind: NDArray[np.int64]
    here: NDArray[np.int64]
    least: NDArray[np.int64]
    total: int
    itself: bool

    @property
    def settled(self) -> bool:
        """Whether more pods like this one leave it met where it is, and nowhere else: they are put beside such as are
        there. Not so of the first of a group: where it goes the others must go."""
        return self.total > 0 or not self.itself

    def when_gone(self, nodes: NDArray[np.intp], kind: NDArray[np.int32]) -> NDArray[np.bool_]:
        """[place in `nodes`]: whether it is met there once pods of that node alone are gone. `kind`: [place, node] of
        all nodes, theirs."""
        met = self.now[nodes]
        places = np.flatnonzero(self.here[nodes])
        few = nodes[places]
        charge(len(kind) * len(few) // VECTOR)
        gone = self.per_kind[kind[:, few]].sum(axis=0)
        met[places] = self.labelled[few] & ((self.least[few] > gone) | (self.itself & (gone == self.total)))
        return met


class CapacityConstraint(NamedTuple):
    """What takes up room: of a resource, or by a constraint. `present` counts nominated pods too."""

    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    resource: str = ""
    constraint: Constraint | None = None


class NodeFitProblem:
    """One pod on one snapshot, as the plugins of its profile put it.

    `possible`: the nodes on which the pod may be whoever else is there; `resolvable`: those of them that have enough of
    everything when nobody else is there. `row`: units that a few operations on one number a node cost.
    Raises NotValid where columns cannot tell.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix, framework: Framework) -> None:
        self.snapshot, self.pod, self.matrix, self.framework = snapshot, pod, matrix, framework
        columns = snapshot.columns
        self.row = len(columns.serials) // VECTOR
        beyond = framework.beyond_columns(pod)
        if beyond:
            raise NotValid(f"of plugin {beyond}, to which more than the pods of a node matters for such a pod")
        if pod.node_name or columns.largest >= MOST:
            raise NotValid("the pod names its node, or what is requested is beyond all measure")
        if pod.nominated_node_name and any(p.static_filter(pod) for p in framework.late_static_plugins):
            # Whether its node may ever do is asked after whether it does now.
            raise NotValid("the pod is nominated, and the profile asks other plugins first")
        self._nominations = nominations_of(snapshot, matrix)
        self.demands: list[CapacityConstraint] = []
        self.added: dict[str, list[CapacityConstraint]] = {}
        """Those of each plugin."""
        self.affinity: RequiredAffinity | None = None
        self.static = self.possible = self._static()
        """Where all plugins pass that look at the node alone."""
        self.resolvable = self.possible
        self.tried_in_vain: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node]: out of the question, but preemption looks at it all the same."""
        self.undecided: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node]: where columns cannot tell who would have to go."""
        self.rejections: dict[str, Rejections] = {}
        """What plugins say of nodes whoever is on them, of those that `narrow`."""
        self.narrowed = False
        """Whether a node that would do otherwise is out of the question for the sake of more than its spec."""
        for plugin in framework.column_plugins:
            before = len(self.demands)
            try:
                plugin.in_columns(self)
            except NotValid as fault:
                text = str(fault) or "to which more than the pods of a node matters for such a pod"
                raise NotValid(f"of plugin {plugin.name}, {text}") from None
            self.added[plugin.name] = self.demands[before:]

    def _static(self) -> NDArray[np.bool_]:
        """Where all plugins pass that look at the node alone."""
        framework, pod = self.framework, self.pod

        def filters() -> list[StaticFilter]:
            found = ((plugin.static_filter(pod), plugin) for plugin in framework.static_plugins)
            return [
                StaticFilter(passes, getattr(plugin, "static_concern", None))
                for passes, plugin in found
                if passes is not None
            ]

        whose: Hashable = framework.profile, self.snapshot.semantics
        said = None
        if framework.has_foreign_columns:
            whose = whose, pod.namespace, pod.priority_class_name, pod.effective_priority, *sorted(pod.labels.items())
        else:  # kube-scheduler's own plugins look at the spec alone
            said = said_of_nodes(pod.spec)
        self.static_key: Hashable = whose, id(pod.spec) if said is None else said
        return self.matrix.nodes.static(whose, pod.spec, filters, said)

    def add(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.demands.append(self.counted(constraint))
        if constraint.possible is not None:
            self.possible = self.possible & constraint.possible

    def counted(self, constraint: Constraint) -> CapacityConstraint:
        """A constraint, with the pods that are nominated to each node."""
        nominated = np.where(constraint.concerned, self.of_nominated(constraint.per_kind), 0)
        return CapacityConstraint(constraint.present + nominated, constraint.limit, constraint=constraint)

    def narrow(self, plugin: str, found: Rejections) -> None:
        """Leave out the nodes that a plugin rejects, whoever is on them.

        Preemption looks at a node that the first plugin to reject it does not call unresolvable, though it cannot help.
        Raises NotValid: the pod is nominated to one of these nodes.
        """
        charge(self.row)
        rejected = found.codes >= 0
        closed = self.open & rejected
        self.rejections[plugin] = found
        if not closed.any():
            return
        own = self.snapshot.rows.get(self.pod.nominated_node_name)
        if own is not None and closed[own]:
            raise NotValid("as the pod is nominated to a node that will not do")
        full = self.full(self.demands)
        tried = np.array([*(status.code is Code.UNSCHEDULABLE for status in found.statuses), False])[found.codes]
        self.tried_in_vain = self.tried_in_vain | (closed & (full | tried))
        self.narrowed = self.narrowed or bool((closed & ~full).any())
        self.possible = self.possible & ~rejected

    def full(self, demands: Sequence[CapacityConstraint]) -> NDArray[np.bool_]:
        """[node]: whether there is too little for one of these."""
        charge(len(demands) * self.row)
        full = np.zeros(len(self.possible), np.bool_)
        for demand in demands:
            full |= demand.present > demand.limit
        return full

    def with_nominated(self, present: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        """[node]: what is requested of a resource, with what nominated pods will. Source: `addGENominatedPods`."""
        if not self._nominations:
            return present
        added = self._nominations.amounts(resource, self.pod.effective_priority)
        if added.max(initial=0) >= MOST:
            raise NotValid
        total = present + added
        own = self._nominations.of(self.pod)
        if own is not None and own.priority >= self.pod.effective_priority:
            total[own.row] -= self.matrix.kinds.amounts(resource)[own.kind]
        return total

    def of_nominated(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        """[node]: what the pods that are nominated to it count, by their kinds."""
        total = np.zeros(len(self.possible), np.int64)
        if self._nominations:
            rows, kinds = self._nominations.columns(self.pod.effective_priority)
            np.add.at(total, rows, per_kind[kinds])
            own = self._nominations.of(self.pod)
            if own is not None and own.priority >= self.pod.effective_priority:
                total[own.row] -= per_kind[own.kind]
        if total.max(initial=0) >= MOST:
            raise NotValid
        return total

    @property
    def open(self) -> NDArray[np.bool_]:
        """[node]: whether there is room for the pod, or would be if nobody else were there; whoever it must be near."""
        return self.possible & self.resolvable
