"""The complete outcome for one Pod: the rejection of each node, and the victims on each. Computed by numpy for all
nodes at once.

The result equals that of `find_nodes_that_fit_pod` and `preempt`, which run each plugin on each node; tests compare
them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.filtering import Filtered, excluded_reason
from forewarn.policies.scheduling.preemption import NO_VICTIMS, Preemption
from forewarn.policies.scheduling.status import Code, NodeToStatus, Status, unresolvable
from forewarn.policies.scheduling.vectorized.candidates import candidates_on
from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.node_fit import NodeFit
from forewarn.policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.scheduling.vectorized.problem import NotValid
from forewarn.policies.scheduling.vectorized.rejections import (
    Present,
    first_rejections,
    static_rejections,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.problem import CapacityConstraint, NodeFitProblem, RequiredAffinity


class FullPrediction:
    """The outcome of one Pod on one Snapshot, computed with numpy instead of running plugins node by node."""

    def __init__(self, framework: Framework, pod: Pod, fit: NodeFit | None = None) -> None:
        """`fit`: the Pod's NodeFit, if known. Raises NotValid if the plugins have to run on each node."""
        self._framework, self._pod = framework, pod
        _check_plugins(framework, pod)
        snapshot = framework.snapshot
        with snapshot.derived.locked():
            fit = self._fit = fit or NodeFit(snapshot, pod, pod_matrix_of(snapshot), framework)
            self._left_by_pre_filter, self._restricting, self._static = static_rejections(fit)
            self._found = first_rejections(fit, self._static, Present())

    @cached_property
    def filtered(self) -> Filtered:
        """The nodes that pass the filters, and why the others do not. Source: upstream `findNodesThatFitPod`."""
        infos, statuses = self._framework.snapshot.node_infos, NodeToStatus()
        if self._restricting:
            statuses.absent = unresolvable(excluded_reason(self._restricting))
        passing = self._found.codes < 0
        nodes = [infos[row] for row in np.flatnonzero(passing & self._left_by_pre_filter).tolist()]
        rows = np.flatnonzero(~passing & self._left_by_pre_filter).tolist()
        charge(len(rows) // 8)
        names = [infos[row].node.name for row in rows]
        statuses.by_node = dict(zip(names, self._found.of(rows), strict=True))
        return Filtered(nodes, statuses, restricting=self._restricting)

    def preempt(self) -> Preemption:
        """Run a dry run of preemption on every node that other Pods keep from fitting.

        Source: upstream `Preempt`, `DryRunPreemption`.
        """
        framework, pod, snapshot = self._framework, self._pod, self._framework.snapshot
        potential = self._found.where(Code.UNSCHEDULABLE) & self._left_by_pre_filter
        rows = np.flatnonzero(potential)
        with snapshot.derived.locked():
            matrix = pod_matrix_of(snapshot)  # it may have been another snapshot's meanwhile
            fit = self._fit if self._fit.is_valid(matrix) else NodeFit(snapshot, pod, matrix, framework)
            lower = lower_priority_pods_of(matrix, snapshot, pod.effective_priority)
            lower.settle(rows, matrix, snapshot)
            without_lower = first_rejections(fit, self._static, WithoutLower(lower, matrix))
            helps = potential & (lower.count > 0) & (without_lower.codes < 0)
            nodes = np.flatnonzero(helps)
            candidates = candidates_on(snapshot, matrix, fit.rows(lower), lower, nodes) if len(nodes) else None
        dropped: dict[str, Status] = {}
        for row in rows[~helps[rows]].tolist():
            code = int(without_lower.codes[row])
            status = without_lower.statuses[code] if lower.count[row] else NO_VICTIMS
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
    """The amounts in use on each node if all Pods with lower priority were removed."""

    def __init__(self, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        self._lower, self._matrix = lower, matrix

    def of(self, demand: CapacityConstraint) -> NDArray[np.int64]:
        """Return [node]: the amount of a resource in use, or the count of Pods for a constraint."""
        if demand.constraint is None:
            return demand.present - self._lower.total(demand.resource, self._matrix)
        constraint = demand.constraint
        return demand.present - self._lower.amounts_at(constraint.per_kind, constraint.counts).total

    def affinity_met(self, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """Return [node], bool: whether the Pod's required affinity is satisfied."""
        return affinity.when_removed(np.arange(len(affinity.now)), self._lower.kind)

    def affinity_met_with_nominated(self, problem: NodeFitProblem, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """Return the same as `affinity_met`, but with the Pods nominated to each node."""
        nominated = problem.of_nominated(affinity.per_kind) > 0
        return self.affinity_met(affinity) | (affinity.labelled & nominated)


def _check_plugins(framework: Framework, pod: Pod) -> None:
    """Raise NotValid if a plugin of the profile cannot report its rejections for all nodes at once."""
    if framework.without_columns:
        raise NotValid
    if any(plugin.static_filter(pod) for plugin in framework.late_static_plugins):
        raise NotValid
