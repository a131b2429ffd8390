"""The rejection of a Pod by each node, computed with numpy for all nodes at once, one plugin after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import VECTOR, charge, meter
from forewarn.policies.scheduling.status import CycleState
from forewarn.policies.scheduling.vectorized.constraints import NotValid
from forewarn.policies.scheduling.vectorized.nodes import is_large

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.status import Code, Status
    from forewarn.policies.scheduling.vectorized.constraints import CapacityConstraint, RequiredAffinity
    from forewarn.policies.scheduling.vectorized.node_fit import NodeFit

PASSES: Final = -1
_CACHE_SIZE: Final = 64
"""Maximum number of cached static rejections, one for each set of node constraints."""


class Rejections(NamedTuple):
    """The results of one plugin. `codes`: [node], an index of `statuses`, or PASSES."""

    codes: NDArray[np.int64]
    statuses: Sequence[Status]


def rejected(where: NDArray[np.bool_], status: Status) -> Rejections:
    """Return rejections with one status for all nodes in the mask `where`."""
    return Rejections(np.where(where, 0, PASSES), (status,))


class Present:
    """The amounts in use on each node, including nominated Pods. Subclasses assume that some Pods are removed."""

    def of(self, demand: CapacityConstraint) -> NDArray[np.int64]:
        """Return [node]: the amount of a resource in use, or the count of Pods for a constraint."""
        return demand.present

    def affinity_met(self, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node satisfies the Pod's required affinity."""
        return affinity.now

    def affinity_met_with_nominated(self, problem: NodeFit, affinity: RequiredAffinity) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return the same as `affinity_met`, but with the Pods nominated to each node. Raises NotValid."""
        return affinity.with_nominated

    def exceeded(self, demand: CapacityConstraint) -> NDArray[np.bool_]:
        """Return [node], bool: whether the amount in use on the node exceeds the limit."""
        charge(len(demand.limit) // VECTOR)
        return demand._replace(present=self.of(demand)).exceeded


class FirstRejections:
    """The first rejection of each node: as in upstream, no plugin evaluates a node that an earlier plugin rejected."""

    def __init__(self, nodes: int) -> None:
        self.codes: NDArray[np.int64] = np.full(nodes, PASSES, np.int64)
        """[node]: an index of `statuses`, or PASSES."""
        self.statuses: list[Status] = []

    def add(self, rejections: Rejections, plugin: str) -> None:
        """Record the rejections of the next plugin, for nodes that passed all earlier plugins."""
        charge(2 + len(self.codes) // VECTOR)
        new = (self.codes < 0) & (rejections.codes >= 0)
        if new.any():
            self.codes[new] = rejections.codes[new] + len(self.statuses)
            self.statuses += [status.of(plugin) for status in rejections.statuses]

    def where(self, code: Code) -> NDArray[np.bool_]:
        """Return [node], bool: whether the status of the node has this code."""
        has = np.array([*(status.code is code for status in self.statuses), False])
        return has[self.codes]

    def of(self, rows: Sequence[int]) -> list[Status]:
        """Return the statuses of these nodes, all of which must be rejected. `rows`: row numbers."""
        return [self.statuses[code] for code in self.codes[rows].tolist()]


def first_rejections(problem: NodeFit, static: Rejections, amounts: Present) -> FirstRejections:
    """Return the first rejection of each node.

    `static`: the rejections that do not depend on Pods. `amounts`: the amounts in use. Raises NotValid. The filters run
    with nominated Pods, then without: only required affinity can fail in the second run alone. Source: upstream
    `RunFilterPluginsWithNominatedPods`.
    """
    result = FirstRejections(len(problem.possible))
    result.codes, result.statuses = static.codes.copy(), list(static.statuses)
    for plugin in problem.framework.column_plugins:
        for rejections in plugin.rejections_in_columns(problem, amounts):
            result.add(rejections, plugin.name)
    for plugin in problem.framework.column_plugins:
        for rejections in plugin.rejections_without_nominated(problem, amounts):
            result.add(rejections, plugin.name)
    return result


def count_rejections(
    rejections: FirstRejections | Rejections,
    nodes: NDArray[np.bool_],
    plugins: set[str],
    reasons: Counter[str],
) -> None:
    """Add the rejections of some nodes to `plugins` and to `reasons` (reason -> number of nodes).

    `nodes`: [node], bool: which nodes to count.
    """
    counts = np.bincount(rejections.codes[nodes & (rejections.codes >= 0)], minlength=len(rejections.statuses))
    for code in np.flatnonzero(counts).tolist():
        status = rejections.statuses[code]
        plugins.add(status.plugin)
        for reason in status.reasons:
            reasons[reason] += int(counts[code])


class _Known:
    """Cached static rejections.

    `codes` of a node is valid as long as the NodeInfo's node is the same object as in `nodes`.
    """

    def __init__(self, nodes: int, keep: object) -> None:
        self.keep = keep
        self.max_statuses = 2 * nodes
        self.nodes: list[Any] = [None] * nodes
        self.codes: NDArray[np.int64] = np.full(nodes, PASSES, np.int64)
        self.statuses: dict[Status, int] = {}


class StaticRejections(NamedTuple):
    """The rejections by plugins that read only the node, and that run before those that read Pods.

    `left`: [node], bool, the nodes that PreFilter does not exclude. `restricting`: the PreFilter plugins that exclude
    nodes.
    """

    left: NDArray[np.bool_]
    restricting: tuple[str, ...]
    found: Rejections


def static_rejections(fit: NodeFit) -> StaticRejections:
    """Return the rejections by plugins that read only the node. Runs their PreFilter, and Filter on the rejected nodes.

    Raises NotValid if PreFilter rejects the Pod.
    """
    state, framework, rows = CycleState(), fit.framework, fit.snapshot.rows
    static = {plugin.name for plugin in framework.static_plugins}
    prepared = [plugin for plugin in framework.pre_filters if plugin.name in static]
    result, restricting = framework.run_pre_filter_plugins(state, fit.pod, prepared)
    if result.status is not None:
        raise NotValid
    left = np.ones(len(rows), np.bool_)
    if result.names is not None:
        left[:] = False
        left[[rows[name] for name in result.names if name in rows]] = True
    return StaticRejections(left, restricting, _filtered(fit, state))


def _filtered(fit: NodeFit, state: CycleState) -> Rejections:
    """Return the first rejection of each node by a plugin that reads only the node. Raises NotValid."""
    matrix, pod, key = fit.matrix, fit.pod, fit.static_key
    status: _Known | None = matrix.static_statuses.get(key)
    if status is None or len(status.statuses) > status.max_statuses:
        if len(matrix.static_statuses) >= _CACHE_SIZE:
            matrix.static_statuses.clear()
        status = _Known(len(fit.static), pod.spec)
        if not is_large(pod.spec):
            matrix.static_statuses[key] = status
    rows = np.flatnonzero(~fit.static)
    codes = np.full(len(fit.static), PASSES, np.int64)
    charge(len(rows) // 16)
    infos, nodes, work = fit.snapshot.node_infos, status.nodes, meter()
    late = {plugin.name for plugin in fit.framework.late_static_plugins}
    skipped = late | state.skip_filter
    plugins = [plugin for plugin in fit.framework.static_plugins if plugin.name not in skipped]
    for row in rows.tolist():
        info = infos[row]
        if nodes[row] is not info.node:
            work.charge(3)
            status.codes[row] = status.statuses.setdefault(_first(plugins, state, pod, info), len(status.statuses))
            nodes[row] = info.node
    codes[rows] = status.codes[rows]
    return Rejections(codes, list(status.statuses))


def _first(plugins: Sequence[Any], state: CycleState, pod: Pod, info: NodeInfo) -> Status:
    """Return the status of the first plugin that rejects the node. Raises NotValid."""
    for plugin in plugins:
        status: Status | None = plugin.filter(state, pod, info)
        if status is not None:
            if not status.rejected:
                raise NotValid
            return status.of(plugin.name)
    raise NotValid  # a plugin that contradicts what it says of itself in columns
