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

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from forewarn.policies.scheduling.vectorized.nominations import Nominations

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
        """Whether more Pods like this one do not change the domains, because they join existing matching Pods."""
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
