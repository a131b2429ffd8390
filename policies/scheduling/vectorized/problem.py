"""One pod on one snapshot, in columns: what it takes up, where it may be, and what keeps it away.

Each plugin says of itself what it comes to (`in_columns`, `static_filter`, `beyond_columns`); a profile with one that
does not is none for columns. Constraints beside resources are as if they were resources: amounts of pods, and a limit
for every node. Valid because each of them only gets harder with every pod that stays on the node, so that "amount ≤
limit" says it all: anti-affinity and host ports have the limit 0; for a spread constraint the counts of all other
domains stand still.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.cow_table import FrozenTable
from policies.metering import VECTOR, charge
from policies.scheduling.vectorized.nodes import StaticFilter

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.framework import Framework
    from policies.scheduling.snapshot import Snapshot
    from policies.scheduling.vectorized.pod_matrix import PodMatrix

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
    that, where pods are spread."""

    per_kind: NDArray[np.int64]
    concerned: NDArray[np.bool_]
    counts: NDArray[np.intp]
    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    possible: NDArray[np.bool_] | None = None
    domains: NDArray[np.int64] | None = None
    skew: Skew | None = None


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
        if pod.node_name or columns.requested.max(initial=0) >= MOST:
            raise NotValid("the pod names its node, or what is requested is beyond all measure")
        if pod.nominated_node_name and any(p.static_filter(pod) for p in framework.late_static_plugins):
            # Whether its node may ever do is asked after whether it does now.
            raise NotValid("the pod is nominated, and the profile asks other plugins first")
        self._nominated = _nominated(snapshot, pod, matrix)
        self.demands: list[CapacityConstraint] = []
        self.static = self.possible = self._static()
        """Where all plugins pass that look at the node alone."""
        self.resolvable = self.possible
        for plugin in framework.column_plugins:
            try:
                plugin.in_columns(self)
            except NotValid as fault:
                text = str(fault) or "to which more than the pods of a node matters for such a pod"
                raise NotValid(f"of plugin {plugin.name}, {text}") from None

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
        if framework.has_foreign_columns:  # kube-scheduler's own plugins look at the spec alone
            whose = whose, pod.namespace, pod.priority_class_name, pod.effective_priority, *sorted(pod.labels.items())
        return self.matrix.nodes.static(whose, pod.spec, filters)

    def add(self, constraint: Constraint) -> None:
        """One more constraint; a pod that is nominated itself is none for these."""
        if self.pod.nominated_node_name:
            raise NotValid("as the pod is nominated itself")
        nominated = np.where(constraint.concerned, self._of_nominated(constraint.per_kind), 0)
        self.demands.append(CapacityConstraint(constraint.present + nominated, constraint.limit, constraint=constraint))
        if constraint.possible is not None:
            self.possible = self.possible & constraint.possible

    def with_nominated(self, present: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        """[node]: what is requested of a resource, with what nominated pods will."""
        if len(self._nominated[0]):
            return present + self._of_nominated(self.matrix.kinds.amounts(resource))
        return present

    def _of_nominated(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(len(self.possible), np.int64)
        rows, kinds = self._nominated
        np.add.at(total, rows, per_kind[kinds])
        if total.max(initial=0) >= MOST:
            raise NotValid
        return total

    @property
    def open(self) -> NDArray[np.bool_]:
        """[node]: whether there is room for the pod, or would be if nobody else were there."""
        return self.possible & self.resolvable


class Nominated(NamedTuple):
    """The nominated pods of one part of a table: `columns` with node, kind and priority of each, and its place in them
    by identity.

    `by_node`: the same of each of its nodes, beside the pods that it was made of.
    """

    columns: NDArray[np.int64]
    places: Mapping[str, int]
    by_node: Mapping[str, tuple[tuple[Pod, ...], Nominated]]


_NOBODY: Final = Nominated(np.zeros((3, 0), np.int64), {}, {})


class Nominations(NamedTuple):
    """The nominated pods of one table of them, and its parts, of which most stay as they are from table to table.
    `filled`: the parts with pods."""

    table: object
    nodes: object
    shards: tuple[Mapping[str, tuple[Pod, ...]], ...]
    parts: list[Nominated]
    filled: list[Nominated]
    columns: NDArray[np.int64]

    def place(self, identity: str) -> int | None:
        """Where a pod is in the columns; None where it is not nominated."""
        before = 0
        for part in self.filled:
            if identity in part.places:
                return before + part.places[identity]
            before += part.columns.shape[1]
        return None


def _nominated(snapshot: Snapshot, pod: Pod, matrix: PodMatrix) -> tuple[Sequence[int], NDArray[np.intp]]:
    """(node, kind) of the pods that are nominated and count. Source: upstream `addGENominatedPods`."""
    table = snapshot.objects.nominated
    shards = table.shards if isinstance(table, FrozenTable) else (table,)
    known: Nominations | None = matrix.nominations.get(len(shards))
    if known is None or known.table is not table or known.nodes is not snapshot.rows:
        known = matrix.nominations[len(shards)] = _nominations(snapshot, matrix, shards, known)
    rows, kinds, priorities = known.columns
    count = priorities >= pod.effective_priority
    own = known.place(pod.identity)
    if own is not None:
        count[own] = False
    return rows[count], kinds[count]


def _nominations(
    snapshot: Snapshot,
    matrix: PodMatrix,
    shards: tuple[Mapping[str, tuple[Pod, ...]], ...],
    known: Nominations | None,
) -> Nominations:
    """The nominated pods as columns; of parts that are as they were, what is known of them. `known` has as many."""
    nodes = snapshot.rows
    same = known is not None and known.nodes is nodes
    parts: list[Nominated] = []
    for number, shard in enumerate(shards):
        before = known.parts[number] if known is not None and same else _NOBODY
        unchanged = known is not None and same and known.shards[number] is shard
        parts.append(before if unchanged else _part(snapshot, matrix, shard, before))
    filled = [part for part in parts if part.places]
    columns = np.concatenate([part.columns for part in filled or [_NOBODY]], axis=1)
    return Nominations(snapshot.objects.nominated, nodes, shards, parts, filled, columns)


def _part(snapshot: Snapshot, matrix: PodMatrix, shard: Mapping[str, tuple[Pod, ...]], known: Nominated) -> Nominated:
    """`known`: what was made of this part before; of nodes whose pods are the very same, it holds."""
    if not shard:
        return _NOBODY
    by_node: dict[str, tuple[tuple[Pod, ...], Nominated]] = {}
    for name, pods in shard.items():
        if name in snapshot.rows:
            there = known.by_node.get(name)
            by_node[name] = (
                there if there is not None and there[0] is pods else (pods, _of_node(snapshot, name, matrix))
            )
    found = [of_node for _, of_node in by_node.values()]
    columns = np.concatenate([part.columns for part in found] or [_NOBODY.columns], axis=1)
    identities = chain.from_iterable(part.places for part in found)
    return Nominated(columns, {identity: place for place, identity in enumerate(identities)}, by_node)


def _of_node(snapshot: Snapshot, name: str, matrix: PodMatrix) -> Nominated:
    pods = snapshot.nominated_pods(name)
    charge(len(pods))
    kinds = [matrix.kinds.number(pod) for pod in pods]
    priorities = [pod.effective_priority for pod in pods]
    columns = np.array(([snapshot.rows[name]] * len(pods), kinds, priorities), np.int64)
    return Nominated(columns, {pod.identity: place for place, pod in enumerate(pods)}, {})
