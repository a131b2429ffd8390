"""Compare the tables that a snapshot updates incrementally with a rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import LowerPriorityPods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.scheduling.snapshot import Columns
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import NodeTables, PodMatrix


def check(snapshot: Snapshot) -> None:
    """Raises AssertionError if a derived value of a snapshot differs from a rebuild."""
    fresh = Snapshot._rebuild(snapshot.objects, {})
    assert [i.name for i in snapshot.node_infos] == [i.name for i in fresh.node_infos], "nodes"
    assert snapshot.rows == fresh.rows, "rows"
    assert snapshot.pdbs == fresh.pdbs, "PDBs"
    for have, want in zip(snapshot.node_infos, fresh.node_infos, strict=True):
        for field in set(NodeInfo.__slots__) - {"serial", "scalars"}:
            assert getattr(have, field) == getattr(want, field), f"{have.name}: {field}"
        scalars = [{k: v for k, v in info.scalars.items() if v} for info in (have, want)]
        assert scalars[0] == scalars[1], f"{have.name}: scalars"
    _check_columns(snapshot, fresh.columns)
    with snapshot.derived.lock:
        matrix = snapshot.derived.matrix
        if matrix is not None:
            matrix.sync(snapshot)
            _check_matrix(matrix, snapshot)


def _check_columns(snapshot: Snapshot, fresh: Columns) -> None:
    """Rows of resources that no node has may remain: a Pod that requests one fits nowhere either way."""
    columns = snapshot.columns
    for row, name in enumerate(columns.resources):
        for kind in ("allocatable", "requested"):
            have = getattr(columns, kind)[row]
            if name in fresh.resources:
                assert np.array_equal(have, getattr(fresh, kind)[fresh.resources.index(name)]), f"{kind} {name}"
            elif kind == "allocatable":
                assert not have.any(), f"{name} of no node"
    assert np.array_equal(columns.non_zero, fresh.non_zero), "non-zero requests"
    assert columns.largest >= fresh.largest, "largest request"
    assert [info.serial for info in snapshot.node_infos] == columns.serials.tolist(), "serials"
    assert set(fresh.resources) <= set(columns.resources), "resources without a row"


def _check_matrix(matrix: PodMatrix, snapshot: Snapshot) -> None:
    for row, info in enumerate(snapshot.node_infos):
        kinds, pods = matrix.kind[:, row].tolist(), info.pods
        assert kinds[: len(pods)] == [matrix.kinds.number(pod) for pod in pods], f"pods on node {row}"
        starts = [pod.start for pod in pods]
        assert matrix.start[: len(pods), row].tolist() == starts, f"starts of pods on node {row}"
        assert not any(kinds[len(pods) :]), f"places without a pod on node {row}"
    _check_nodes(matrix.nodes, snapshot.node_infos)
    for lower in matrix.lower_priority.values():
        _check_lower(lower, matrix, snapshot)
    for counts in matrix._counts.values():
        assert counts.here.tolist() == [sum(map(counts.of, info.pods)) for info in snapshot.node_infos], "counts"
    if matrix.storage is not None:
        anew = [sum(pod.spec.attachable_volumes for pod in info.pods) for info in snapshot.node_infos]
        assert matrix.storage.used(matrix).tolist() == anew, "volumes of pods"


def _check_nodes(nodes: NodeTables, node_infos: Sequence[NodeInfo]) -> None:
    for row, info in enumerate(node_infos):
        assert nodes.nodes[row] is info.node, f"node {info.name}"
    for amounts in nodes._values.values():
        assert amounts.values.tolist() == [amounts._of(node) for node in nodes.known_nodes()], "numbers of nodes"
    for key, topology in nodes._topologies.items():
        by_number: dict[int, str] = {}
        for row, info in enumerate(node_infos):
            value, number = info.node.labels.get(key), int(topology.values[row])
            assert (value is None) == (number < 0), f"{key} of {info.name}"
            assert value is None or by_number.setdefault(number, value) == value, f"{key} of {info.name}"


def _check_lower(lower: LowerPriorityPods, matrix: PodMatrix, snapshot: Snapshot) -> None:
    lower.sync(matrix)
    lower.settle(np.arange(len(matrix.serials)), matrix, snapshot)
    fresh = LowerPriorityPods(lower.priority, matrix)
    fresh._pdbs = snapshot.pdbs
    fresh.sync(matrix)
    fresh.settle(np.arange(len(matrix.serials)), matrix, snapshot)
    ranks = min(len(lower.kind), len(fresh.kind))
    for name in ("kind", "violates"):
        have, want = getattr(lower, name), getattr(fresh, name)
        assert np.array_equal(have[:ranks], want[:ranks]), f"{name} below {lower.priority}"
        assert not have[ranks:].any(), f"{name} below {lower.priority}"
        assert not want[ranks:].any(), f"{name} below {lower.priority}"
    known = fresh.kind[:ranks] > 0
    for name in ("start", "place"):
        assert np.array_equal(getattr(lower, name)[:ranks][known], getattr(fresh, name)[:ranks][known]), name
    for resource, amounts in lower._amounts.items():
        anew = fresh.amounts(resource, matrix)
        assert np.array_equal(amounts.total, anew.total), resource
        assert np.array_equal(amounts.violating, anew.violating), resource
        assert np.array_equal(amounts.by_rank[:ranks], anew.by_rank[:ranks]), resource
    fresh.levels = lower.levels
    for resource, bounds in lower._bounds.items():
        for have_bound, want_bound in zip(bounds, fresh.bounds(resource, matrix), strict=True):
            assert np.array_equal(have_bound, want_bound), f"bounds of {resource}"
