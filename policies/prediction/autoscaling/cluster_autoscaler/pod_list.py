"""The Pods for which cluster-autoscaler looks for nodes. Source: core/podlistprocessor, core/utils/expendable.go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, MutableMapping, Sequence
from typing import TYPE_CHECKING

from forewarn.policies.kubernetes.scheduling.not_predicted import not_predicted
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import (
    Prepared,
    group_by_scheduling_properties,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


def is_expendable(pod: Pod, cutoff: int) -> bool:
    """Report whether cluster-autoscaler ignores the Pod because of its priority. Source: `IsExpendablePod`."""
    return pod.priority is not None and pod.priority < cutoff


def without_expendable(snapshot: Snapshot, cutoff: int) -> Snapshot:
    """Return the Snapshot as cluster-autoscaler counts Pods: without Pods below the cutoff, with nominated Pods on
    their nodes.

    Source: core/static_autoscaler.go, `nonExpendableAllocatedPods`.
    """
    expendable = [pod for info in snapshot.node_infos for pod in info.pods if is_expendable(pod, cutoff)]
    nominated = [
        snapshot.bound(pod, node)
        for node, pods in snapshot.objects.nominated.items()
        if node in snapshot.rows
        for pod in pods
        if not is_expendable(pod, cutoff)
    ]
    return snapshot.with_pods(nominated, expendable) if expendable or nominated else snapshot


def filter_out_schedulable(
    snapshot: Snapshot, pods: Sequence[Pod], hints: dict[str, str] | None = None
) -> tuple[Snapshot, list[Pod]]:
    """Return the cluster with the Pods that fit on existing nodes placed, and the Pods that do not fit.

    Tries the Pods with the highest priority first. If one Pod does not fit, equal ones are not tried. Each search
    starts after the node of the last Pod. `hints`: Pod -> its node in the previous scan, which is tried first; this
    call updates it. Source: `filterOutSchedulableByPacking`, `HintingSimulator`, `NewLastIndexOrderMapping(1)`.
    """
    pods = sorted(pods, key=lambda pod: -pod.effective_priority)
    equal_to, packing = _equal(pods), _Packing(snapshot)
    unschedulable, hopeless = list["Pod"](), set[int]()
    hints = {} if hints is None else hints
    for pod in pods:
        which, key = equal_to[id(pod)], pod.uid or pod.key
        node = packing.place(pod, which, hints.get(key)) if which not in hopeless or key in hints else None
        if node:
            hints[key] = node
        else:
            hopeless.add(which)
            unschedulable.append(pod)
    return packing.packed_snapshot(), unschedulable


def with_all_placed(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    nodes: Container[str],
    removed: Sequence[int],
    hints: MutableMapping[str, str],
    last: int,
) -> tuple[Snapshot | None, int]:
    """Return the cluster with all Pods placed on some of its nodes, or None if a Pod does not fit; and the index of the
    node found last.

    Tries the Pods in their order. `hints`: as in `filter_out_schedulable`. `last`: the index after which the search
    starts; indexes skip the rows in `removed`, which is sorted. Source: `TrySchedulePods`.
    """
    equal_to, packing = _equal(pods), _Packing(snapshot, nodes, removed, last)
    for pod in pods:
        key = pod.uid or pod.key
        node = packing.place_on(pod, hints[key]) if key in hints else None
        if not (node := node or packing.place(pod, equal_to[id(pod)], None)):
            return None, packing.last
        hints[key] = node
    return packing.packed_snapshot(), packing.last


def _equal(pods: Sequence[Pod]) -> dict[int, int]:
    """Return a number for each Pod (by its id) that is the same for equal Pods."""
    groups = group_by_scheduling_properties(pods)
    return {id(pod): id(group) for group in groups for pod in group.pods}


class _Suitable:
    """The nodes (rows) on which equal Pods fit, if each placed Pod affects only the free resources and ports of its
    node. `checked`: number of placed Pods that `rows` considers.
    """

    def __init__(self, rows: list[int], prepared: Prepared, checked: int) -> None:
        self.rows, self.prepared, self.checked = rows, prepared, checked


class _Packing:
    """Places Pods on the nodes of a Snapshot."""

    def __init__(
        self, snapshot: Snapshot, nodes: Container[str] | None = None, removed: Sequence[int] = (), last: int = 0
    ) -> None:
        """Set up the search. `nodes`: where to place Pods; None for all. `removed`, `last`: see `with_all_placed`."""
        self._snapshot, self._nodes, self._removed, self.last = snapshot, nodes, removed, last
        self._suitable: dict[int, _Suitable] = {}
        self._unprepared = set[int]()
        """Numbers (see `_equal`) of Pods whose PreFilter results depend on other Pods, and are therefore not cached."""
        self._taken: list[int] = []
        """The rows of the placed Pods."""
        self._infos: dict[int, NodeInfo] = {}
        """Row -> the node, including placed Pods that the Snapshot does not contain yet."""
        self._bound: list[Pod] = []

    def packed_snapshot(self) -> Snapshot:
        """Return the cluster with the placed Pods."""
        if self._bound:
            self._snapshot = self._snapshot.with_pods(self._bound, ())
            self._bound, self._infos = [], {}
        return self._snapshot

    def place(self, pod: Pod, which: int, hint: str | None) -> str | None:
        """Place a Pod on `hint` or the next node on which it fits; return the node or None. `which`: see `_equal`."""
        suitable = self._suitable.get(which)
        rows = self._search(pod, which) if suitable is None else self._update(suitable, pod)
        if not rows:
            return None
        row = self._snapshot.rows.get(hint or "", -1)
        place = bisect_left(rows, row)
        if place == len(rows) or rows[place] != row:
            place = bisect_left(rows, self._start())
            row = rows[place if place < len(rows) else 0]
            self.last = row - bisect_left(self._removed, row)
        return self._bind(pod, row)

    def _start(self) -> int:
        """Return the row at which the next search starts."""
        row = (self.last + 1) % (len(self._snapshot.node_infos) - len(self._removed))
        for gone in self._removed:
            row += gone <= row
        return row

    def place_on(self, pod: Pod, node: str) -> str | None:
        """Place a Pod on this node, if it fits; return the node, or None."""
        snapshot = self.packed_snapshot()
        row = snapshot.rows.get(node)
        if row is None or not self._is_acceptable(snapshot.node_infos[row]):
            return None
        rejected = Prepared(snapshot, pod).rejection(pod, snapshot.node_infos[row])
        return self._bind(pod, row) if rejected is None else None

    def _bind(self, pod: Pod, row: int) -> str:
        self._taken.append(row)
        if row not in self._infos:
            self._infos[row] = self._snapshot.node_infos[row].clone()
        self._bound.append(self._snapshot.bound(pod, self._infos[row].name))
        self._infos[row].add_pod(self._bound[-1])
        return self._infos[row].name

    def _search(self, pod: Pod, which: int) -> list[int]:
        snapshot = self.packed_snapshot()
        if not_predicted(pod, snapshot):
            return []
        found = (snapshot.rows[name] for name in Prediction(snapshot, pod).feasible)
        rows = sorted(row for row in found if self._is_acceptable(snapshot.node_infos[row]))
        if rows and which not in self._unprepared and not any(snapshot.objects.nominated.values()):
            prepared = Prepared(snapshot, pod)
            if prepared.holds:
                self._suitable[which] = _Suitable(rows, prepared, len(self._taken))
            else:
                self._unprepared.add(which)
        return rows

    def _is_acceptable(self, info: NodeInfo) -> bool:
        return not info.node.unschedulable and (self._nodes is None or info.name in self._nodes)

    def _update(self, suitable: _Suitable, pod: Pod) -> list[int]:
        rows = suitable.rows
        for row in {*self._taken[suitable.checked :]}:
            place = bisect_left(rows, row)
            if place < len(rows) and rows[place] == row:
                info = self._infos.get(row) or self._snapshot.node_infos[row]
                if suitable.prepared.rejection(pod, info) is not None:
                    del rows[place]
        suitable.checked = len(self._taken)
        return rows
