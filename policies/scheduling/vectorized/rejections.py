"""Why nodes cannot run a pod, a plugin at a time over all nodes, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.metering import VECTOR, charge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policies.scheduling.status import Code, Status
    from policies.scheduling.vectorized.problem import CapacityConstraint, NodeFitProblem, RequiredAffinity

PASSES: Final = -1


class Rejections(NamedTuple):
    """What one plugin says of every node. `codes`: [node], a place in `statuses`, or PASSES."""

    codes: NDArray[np.int64]
    statuses: Sequence[Status]


def rejected(where: NDArray[np.bool_], status: Status) -> Rejections:
    """The nodes of a mask for the same reason."""
    return Rejections(np.where(where, 0, PASSES), (status,))


class Present:
    """What is taken up on each node as it is now, nominated pods included."""

    def of(self, demand: CapacityConstraint) -> NDArray[np.int64]:
        """[node]: of a resource, or as a constraint counts."""
        return demand.present

    def affinity_met(self, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """[node]: whether the pod finds there those that it must be near."""
        return affinity.now

    def affinity_met_with_nominated(self, problem: NodeFitProblem, affinity: RequiredAffinity) -> NDArray[np.bool_]:  # noqa: ARG002
        """[node]: the same with the pods that are nominated to the node. Raises NotValid."""
        return affinity.with_nominated

    def exceeded(self, demand: CapacityConstraint) -> NDArray[np.bool_]:
        """[node]: whether the pod does not fit beside it."""
        charge(len(demand.limit) // VECTOR)
        return self.of(demand) > demand.limit


class FirstRejections:
    """The first status of every node, as upstream has it: a plugin that rejects a node is the last that is asked."""

    def __init__(self, nodes: int) -> None:
        self.codes: NDArray[np.int64] = np.full(nodes, PASSES, np.int64)
        """[node]: a place in `statuses`, or PASSES."""
        self.statuses: list[Status] = []

    def add(self, found: Rejections, plugin: str) -> None:
        """What the next plugin says of the nodes that all before it let pass."""
        charge(2 + len(self.codes) // VECTOR)
        new = (self.codes < 0) & (found.codes >= 0)
        if new.any():
            self.codes[new] = found.codes[new] + len(self.statuses)
            self.statuses += [status.of(plugin) for status in found.statuses]

    def where(self, code: Code) -> NDArray[np.bool_]:
        """[node]: which have a status of this code."""
        has = np.array([*(status.code is code for status in self.statuses), False])
        return has[self.codes]

    def of(self, rows: Sequence[int]) -> list[Status]:
        """The statuses of rejected nodes."""
        return [self.statuses[code] for code in self.codes[rows].tolist()]


def first_rejections(problem: NodeFitProblem, static: Rejections, amounts: Present) -> FirstRejections:
    """The first status of every node. `static`: what plugins say that look at nodes alone; `amounts`: of whom the pods
    count. Raises NotValid.

    The filters run with nominated pods, then without: nothing but required affinity can fail the second time only.
    Source: upstream `RunFilterPluginsWithNominatedPods`.
    """
    found = FirstRejections(len(problem.possible))
    found.codes, found.statuses = static.codes.copy(), list(static.statuses)
    for plugin in problem.framework.column_plugins:
        for rejections in plugin.rejections_in_columns(problem, amounts):
            found.add(rejections, plugin.name)
    for plugin in problem.framework.column_plugins:
        if hasattr(plugin, "rejections_without_nominated"):
            for rejections in plugin.rejections_without_nominated(problem, amounts):
                found.add(rejections, plugin.name)
    return found
