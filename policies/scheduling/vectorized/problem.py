"""The constraints of one Pod on one Snapshot, as arrays over all nodes: amounts in use, limits, and the possible nodes.

Each plugin adds its part (`in_columns`, `static_filter`); profiles with a plugin without these
methods are not supported. Constraints other than resources are treated like resources: amounts of Pods, and a limit for
each node. This is valid because such a constraint only becomes stricter with every Pod that stays on the node, so
"amount ≤ limit" is the whole condition: anti-affinity and host ports have the limit 0; for a topology spread
constraint, the counts of all other domains do not change. Required affinity is separate, because more Pods make it
easier to satisfy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.status import Code
from forewarn.policies.scheduling.vectorized.nodes import node_constraints_of
from forewarn.policies.scheduling.vectorized.nominations import nominations_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.plugin import StaticFilter
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.nominations import Nominations
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.rejections import Rejections

P = ParamSpec("P")
T = TypeVar("T")
MAX: Final = 2**60
"""Amounts from here on are not supported by columns; the plugins use Python's integers."""


class NotValid(Exception):
    """The error if the numpy implementation does not support the Pod or its profile.

    The text, if any, is the reason. Only `attempt` catches it.
    """


class Unsupported(NamedTuple):
    """The result of `attempt` if the numpy implementation does not support the Pod, with the reason."""

    why: str = ""


def attempt(compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Unsupported:
    """Return what `compute` returns, or Unsupported."""
    try:
        return compute(*args, **kwargs)
    except NotValid as fault:
        return Unsupported(str(fault))


class Skew(NamedTuple):
    """A topology spread constraint: no domain may have more than `max_skew` Pods above the minimum.

    `few`: there are fewer domains than minDomains, so the minimum is 0. `domains`: [node], number of the domain, -1 for
    none.
    """

    max_skew: int
    few: bool
    domains: NDArray[np.int64]


class Constraint(NamedTuple):
    """A constraint of a Pod other than a resource. Arrays are by node unless stated otherwise.

    `per_kind`: [class], what a Pod counts. `concerned`: nodes whose Pods count; `counts`: indices of nodes with such
    Pods. `present`: the current count, including Pods on other nodes; `limit`: its maximum. `possible`: nodes that the
    constraint does not exclude. `domains`: number of the domain, -1 for none; one Pod that counts excludes all nodes of
    the domain. `skew`: set instead of `domains` for topology spread. `own`: for anti-affinity, `per_kind` by the Pod's
    own terms; None without terms.
    """

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
    """The domains that satisfy required Pod affinity: for the topology key of each term, the domains with Pods that
    match all terms.

    More such Pods never remove a domain, so preemption need not evaluate the affinity again when Pods are reprieved.
    Arrays are [node] unless stated otherwise. `now`: the nodes that satisfy the affinity; `with_nominated`: the same
    with the nominated Pods of each node. `after`: the number of constraints whose plugins run before. `labelled`: nodes
    with the labels of all terms. `per_kind`: [class], 1 for matching Pods; `here`: number of matching Pods on the node;
    `least`: their number in the domain of the node with the fewest; `total`: their number in all topologies together.
    `matches_itself`: whether the Pod matches its own terms: if no other Pod matches, the Pod may be the first. Source:
    upstream `satisfyPodAffinity`.
    """

    now: NDArray[np.bool_]
    with_nominated: NDArray[np.bool_]
    after: int
    labelled: NDArray[np.bool_]
    per_kind: NDArray[np.int64]
    here: NDArray[np.int64]
    least: NDArray[np.int64]
    total: int
    matches_itself: bool

    @property
    def settled(self) -> bool:
        """Whether more Pods like this one do not change the domains, because they join existing matching Pods.

        False for the first Pod of a group, because the other Pods have to follow it.
        """
        return self.total > 0 or not self.matches_itself

    def when_removed(self, nodes: NDArray[np.intp], kind: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return [index in `nodes`], bool: whether the node satisfies the affinity without those of its Pods that are
        in `kind`.

        `kind`: [position, node], equivalence classes of the removed Pods of all nodes.
        """
        met = self.now[nodes]
        places = np.flatnonzero(self.here[nodes])
        few = nodes[places]
        charge(len(kind) * len(few) // VECTOR)
        removed = self.per_kind[kind[:, few]].sum(axis=0)
        met[places] = self.labelled[few] & (
            (self.least[few] > removed) | (self.matches_itself & (removed == self.total))
        )
        return met


class CapacityConstraint(NamedTuple):
    """The amount of a resource, or of another constraint, on each node, and its limit.

    `present`, `limit`: [node]. `present` includes nominated Pods. `resource`: "" for a constraint.
    """

    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    resource: str = ""
    constraint: Constraint | None = None

    @property
    def exceeded(self) -> NDArray[np.bool_]:
        """[node], bool: whether the Pod does not fit because of this constraint."""
        return self.present > self.limit

    def fits_without(self, removed: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return [node], bool: whether the Pod fits if Pods with these amounts ([node]) were removed."""
        return self.present - removed <= self.limit


def with_nominated(
    present: NDArray[np.int64], nominations: Nominations, resource: str, priority: int
) -> NDArray[np.int64]:
    """Return [node]: `present` plus the amount of a resource for the nominated Pods of at least this priority; without
    nominated Pods, `present` itself.

    Raises NotValid for very large amounts. Source: `addGENominatedPods`.
    """
    if not nominations:
        return present
    added = nominations.amounts(resource, priority)
    if nominations.may_reach(resource, MAX) and added.max(initial=0) >= MAX:
        raise NotValid
    return present + added


class NodeFitProblem:
    """One Pod on one Snapshot, for the plugins of its profile to add their constraints.

    `possible`: [node], bool, the nodes that static filters and constraints do not exclude. `resolvable`: those of
    `possible` with sufficient allocatable resources. `row`: the cost of a few numpy operations on a [node] array, in
    units of work. Raises NotValid if the numpy implementation does not support the Pod.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix, framework: Framework) -> None:
        self.snapshot, self.pod, self.matrix, self.framework = snapshot, pod, matrix, framework
        columns = snapshot.columns
        self.row = len(columns.serials) // VECTOR
        if pod.node_name or columns.largest >= MAX:
            raise NotValid("the pod names its node, or what is requested is beyond all measure")
        if pod.nominated_node_name and any(p.static_filter(pod) for p in framework.late_static_plugins):
            # Whether its node may ever do is asked after whether it does now.
            raise NotValid("the pod is nominated, and the profile asks other plugins first")
        self._nominations, self._kinds = nominations_of(snapshot, matrix), matrix.kinds
        self.demands: list[CapacityConstraint] = []
        self.added: dict[str, list[CapacityConstraint]] = {}
        """Plugin -> the constraints that it added."""
        self.affinity: RequiredAffinity | None = None
        self.static = self.possible = self._static()
        """[node], bool: whether the node passes all static filters."""
        self.resolvable = self.possible
        self.tried_in_vain: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node], bool: rejected for good, but preemption evaluates the node."""
        self.undecided: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node], bool: columns cannot determine the victims there."""
        self.rejections: dict[str, Rejections] = {}
        """Plugin -> static rejections, for plugins that call `narrow`."""
        for plugin in framework.column_plugins:
            before = len(self.demands)
            result = attempt(plugin.in_columns, self)
            if isinstance(result, Unsupported):
                why = result.why or "to which more than the pods of a node matters for such a pod"
                raise NotValid(f"of plugin {plugin.name}, {why}")
            self.added[plugin.name] = self.demands[before:]

    def _static(self) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node passes all static filters.

        Sets `static_key`, the key of the cached result.
        """
        framework, pod = self.framework, self.pod

        def filters() -> list[StaticFilter]:
            found = (plugin.static_filter_in_columns(pod) for plugin in framework.static_plugins)
            return [static for static in found if static is not None]

        whose: Hashable = framework.profile, self.snapshot.semantics
        constraints = None
        if framework.has_foreign_columns:
            whose = whose, pod.namespace, pod.priority_class_name, pod.effective_priority, *sorted(pod.labels.items())
        else:  # kube-scheduler's own plugins look at the spec alone
            constraints = node_constraints_of(pod.spec)
        self.static_key: Hashable = whose, id(pod.spec) if constraints is None else constraints
        return self.matrix.nodes.static(whose, pod.spec, filters, constraints)

    def is_valid(self, matrix: PodMatrix) -> bool:
        """Report whether the problem still belongs to these tables, which may have been replaced by new ones."""
        return self._kinds is matrix.kinds and self._nominations is nominations_of(self.snapshot, matrix)

    def add(self, constraint: Constraint) -> None:
        """Add a constraint of the plugin that is currently evaluated."""
        self.demands.append(self.counted(constraint))
        if constraint.possible is not None:
            self.possible = self.possible & constraint.possible

    def counted(self, constraint: Constraint) -> CapacityConstraint:
        """Return the constraint as an amount and a limit on each node.

        The amount includes the Pods nominated to the node.
        """
        nominated = np.where(constraint.concerned, self.of_nominated(constraint.per_kind), 0)
        return CapacityConstraint(constraint.present + nominated, constraint.limit, constraint=constraint)

    def narrow(self, plugin: str, rejections: Rejections) -> None:
        """Exclude the nodes that a plugin rejects, with any Pods on them.

        kube-scheduler tries preemption on such a node if the first plugin that rejects the node does not call it
        unresolvable, although preemption cannot help. Raises NotValid if the Pod is nominated to an excluded node.
        """
        charge(self.row)
        rejected = rejections.codes >= 0
        closed = self.open & rejected
        self.rejections[plugin] = rejections
        if not closed.any():
            return
        own = self.snapshot.rows.get(self.pod.nominated_node_name)
        if own is not None and closed[own]:
            raise NotValid("as the pod is nominated to a node that will not do")
        full = self.full(self.demands)
        tried = np.array([*(status.code is Code.UNSCHEDULABLE for status in rejections.statuses), False])[
            rejections.codes
        ]
        self.tried_in_vain = self.tried_in_vain | (closed & (full | tried))
        self.possible = self.possible & ~rejected

    def full(self, demands: Sequence[CapacityConstraint]) -> NDArray[np.bool_]:
        """Return [node], bool: whether one of the constraints in `demands` is exceeded."""
        charge(len(demands) * self.row)
        full = np.zeros(len(self.possible), np.bool_)
        for demand in demands:
            full |= demand.exceeded
        return full

    def with_nominated(self, present: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        """Return `with_nominated` for the Pod, without its own nomination. Raises NotValid for very large amounts."""
        total = with_nominated(present, self._nominations, resource, self.pod.effective_priority)
        if (own := self._nominations.of(self.pod)) is not None:
            total[own.row] -= self.matrix.kinds.amounts(resource)[own.kind]
        return total

    def of_nominated(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [node]: the sum of `per_kind` ([class]) over the Pods nominated to the node with at least the Pod's
        priority.

        Raises NotValid for very large sums.
        """
        total = np.zeros(len(self.possible), np.int64)
        if self._nominations:
            rows, kinds = self._nominations.columns(self.pod.effective_priority)
            np.add.at(total, rows, per_kind[kinds])
            if (own := self._nominations.of(self.pod)) is not None:
                total[own.row] -= per_kind[own.kind]
        if total.max(initial=0) >= MAX:
            raise NotValid
        return total

    @property
    def open(self) -> NDArray[np.bool_]:
        """[node], bool: whether the Pod may fit if all other Pods were removed. Ignores required affinity."""
        return self.possible & self.resolvable
