"""The whole answer for one pod over all nodes, in columns: why each cannot run it, and who would have to go on each.

The same as `find_nodes_that_fit_pod` and `preempt` come to plugin by plugin and node by node; tests hold them to each
other.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from policies.metering import charge, meter
from policies.scheduling.filtering import Filtered
from policies.scheduling.preemption import NO_VICTIMS, Preemption
from policies.scheduling.status import Code, NodeToStatus, Status, unresolvable
from policies.scheduling.vectorized.candidates import candidates_on
from policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, lower_priority_pods_of
from policies.scheduling.vectorized.node_fit import NodeFit
from policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from policies.scheduling.vectorized.problem import NotValid
from policies.scheduling.vectorized.rejections import PASSES, Present, Rejections, first_rejections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.framework import Framework
    from policies.scheduling.node_info import NodeInfo
    from policies.scheduling.status import CycleState
    from policies.scheduling.vectorized.pod_matrix import PodMatrix
    from policies.scheduling.vectorized.problem import CapacityConstraint, NodeFitProblem, RequiredAffinity

LEAST_NODES: Final = 16
"""On fewer nodes the plugins themselves are as quick."""
_KEPT: Final = 64


def pays(nodes: int) -> bool:
    """Whether columns are quicker than the plugins themselves."""
    return nodes >= LEAST_NODES


class WholeAnswer:
    """One pod on one snapshot."""

    def __init__(self, framework: Framework, state: CycleState, pod: Pod) -> None:
        """Raises NotValid: the plugins must be asked one by one."""
        self._framework, self._pod = framework, pod
        _check_plugins(framework, pod)
        snapshot = framework.snapshot
        static = {plugin.name for plugin in framework.static_plugins}
        prepared = [plugin for plugin in framework.pre_filters if plugin.name in static]
        result, self._restricting = framework.run_pre_filter_plugins(state, pod, prepared)
        if result.status is not None:
            raise NotValid
        infos = snapshot.node_infos
        with snapshot.derived.taken():
            fit = NodeFit(snapshot, pod, pod_matrix_of(snapshot), framework)
            self._static = _static_rejections(fit, state)
            self._found = first_rejections(fit, self._static, Present())
        self._left_by_pre_filter: NDArray[np.bool_] = np.ones(len(infos), np.bool_)
        if result.names is not None:
            self._left_by_pre_filter[:] = False
            self._left_by_pre_filter[[snapshot.rows[name] for name in result.names if name in snapshot.rows]] = True

    @cached_property
    def filtered(self) -> Filtered:
        """What the filters leave. Source: upstream `findNodesThatFitPod`."""
        infos, statuses = self._framework.snapshot.node_infos, NodeToStatus()
        if self._restricting:
            statuses.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self._restricting))}]")
        passing = self._found.codes < 0
        nodes = [infos[row] for row in np.flatnonzero(passing & self._left_by_pre_filter).tolist()]
        rows = np.flatnonzero(~passing & self._left_by_pre_filter).tolist()
        charge(len(rows) // 8)
        names = [infos[row].node.name for row in rows]
        statuses.by_node = dict(zip(names, self._found.of(rows), strict=True))
        return Filtered(nodes, statuses, restricting=self._restricting)

    def preempt(self) -> Preemption:
        """A dry run on every node where other pods are in its way. Source: upstream `Preempt`, `DryRunPreemption`."""
        framework, pod, snapshot = self._framework, self._pod, self._framework.snapshot
        potential = self._found.where(Code.UNSCHEDULABLE) & self._left_by_pre_filter
        rows = np.flatnonzero(potential)
        with snapshot.derived.taken():
            matrix = pod_matrix_of(snapshot)  # it may have been another snapshot's meanwhile
            fit = NodeFit(snapshot, pod, matrix, framework)
            lower = lower_priority_pods_of(matrix, snapshot, pod.effective_priority)
            lower.settle(rows, matrix, snapshot)
            gone = first_rejections(fit, self._static, WithoutLower(lower, matrix))
            helps = potential & (lower.count > 0) & (gone.codes < 0)
            nodes = np.flatnonzero(helps)
            candidates = candidates_on(fit, lower, nodes) if len(nodes) else None
        dropped: dict[str, Status] = {}
        for row in rows[~helps[rows]].tolist():
            code = int(gone.codes[row])
            status = gone.statuses[code] if lower.count[row] else NO_VICTIMS
            dropped[snapshot.node_infos[row].node.name] = status
        if candidates is None:
            return Preemption(statuses=dropped, potential_nodes=len(rows))
        return Preemption(
            candidates=candidates,
            statuses=dropped,
            best_candidates=candidates.best(),
            potential_nodes=len(rows),
        )


class WithoutLower(Present):
    """What is taken up on each node with every pod of lower priority gone from it."""

    def __init__(self, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        self._lower, self._matrix = lower, matrix

    def of(self, demand: CapacityConstraint) -> NDArray[np.int64]:
        """[node]: of a resource, or as a constraint counts."""
        if demand.constraint is None:
            return demand.present - self._lower.total(demand.resource, self._matrix)
        constraint = demand.constraint
        return demand.present - self._lower.amounts_at(constraint.per_kind, constraint.counts).total

    def affinity_met(self, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """[node]: whether the pod finds there those that it must be near."""
        return affinity.when_gone(np.arange(len(affinity.now)), self._lower.kind)

    def affinity_met_with_nominated(self, problem: NodeFitProblem, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """[node]: the same. Raises NotValid: a nominated pod is one that the pod must be near."""
        if problem.of_nominated(affinity.per_kind).any():
            raise NotValid
        return self.affinity_met(affinity)


def _check_plugins(framework: Framework, pod: Pod) -> None:
    """Raises NotValid: one of them does not say of all nodes at once why it rejects them, or these are few."""
    if not pays(len(framework.snapshot.node_infos)) or framework.without_columns:
        raise NotValid
    if any(plugin.static_filter(pod) for plugin in framework.late_static_plugins):
        raise NotValid
    if not all(hasattr(plugin, "rejections_in_columns") for plugin in framework.column_plugins):
        raise NotValid


class _Known:
    """What plugins that look at nodes alone say of each of them: `codes` hold where `nodes` are still the same."""

    def __init__(self, nodes: int, keep: object) -> None:
        self.keep = keep
        self.most = 2 * nodes
        self.nodes: list[Any] = [None] * nodes
        self.codes: NDArray[np.int64] = np.full(nodes, PASSES, np.int64)
        self.statuses: dict[Status, int] = {}


def _static_rejections(fit: NodeFit, state: CycleState) -> Rejections:
    """Of plugins that look at nodes alone. Raises NotValid."""
    matrix, pod, key = fit.matrix, fit.pod, fit.static_key
    known: _Known | None = matrix.static_statuses.get(key)
    if known is None or len(known.statuses) > known.most:
        if len(matrix.static_statuses) >= _KEPT:
            matrix.static_statuses.clear()
        known = matrix.static_statuses[key] = _Known(len(fit.static), pod.spec)
    rows = np.flatnonzero(~fit.static)
    codes = np.full(len(fit.static), PASSES, np.int64)
    charge(len(rows) // 16)
    infos, nodes, work = fit.snapshot.node_infos, known.nodes, meter()
    plugins = [plugin for plugin in fit.framework.static_plugins if plugin.name not in state.skip_filter]
    for row in rows.tolist():
        info = infos[row]
        if nodes[row] is not info.node:
            work.charge(3)
            known.codes[row] = known.statuses.setdefault(_first(plugins, state, pod, info), len(known.statuses))
            nodes[row] = info.node
    codes[rows] = known.codes[rows]
    return Rejections(codes, list(known.statuses))


def _first(plugins: Sequence[Any], state: CycleState, pod: Pod, info: NodeInfo) -> Status:
    """What the first of the plugins says that rejects the node. Raises NotValid."""
    for plugin in plugins:
        status: Status | None = plugin.filter(state, pod, info)
        if status is not None:
            if not status.rejected:
                raise NotValid
            return status.of(plugin.name)
    raise NotValid  # a plugin that contradicts what it says of itself in columns
