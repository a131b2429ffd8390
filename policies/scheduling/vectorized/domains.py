"""The number of equal Pods that fit, if zones or other topology domains have limits besides those of nodes.

There are two kinds of limits. Anti-affinity allows one Pod in a domain. Topology spread constraints allow a domain a
number of Pods above the minimum of all domains: the limit grows until the domain with the minimum is full. For limits
that do not grow, the order of Pods does not matter if each domain of one limit lies within one domain of the next
(nodes within zones): the capacities of the smaller domains are added, and cut at the limit.
There may be one growing limit, for the largest domains: the domain that is full first, at the lowest count, limits the
others. Or there may be two, for zones and their nodes, if nodes may differ by one Pod: then all nodes get one more Pod
before any gets a second, and the number of Pods that a zone gets in each such round does not depend on the order
either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.vectorized.constraints import NotValid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.scheduling.vectorized.constraints import Skew

_MAX_BOUNDS: Final = 16
_MAX_ROUNDS: Final = 1000
"""The maximum number of Pods on each node if both zones and nodes are spread."""


class Capacity:
    """The number of equal Pods that fit one after the other, regardless of which feasible node each of them gets.

    `by_node`: node name -> number of Pods in the end; None if this depends on the order. `total`: the sum.
    """

    __slots__ = ("_added", "_names", "by_node", "total")

    def __init__(self, names: Sequence[str], added: NDArray[np.int64], tiers: Sequence[_Tier], total: int) -> None:
        """`added`: [domain of the last tier, or node if there are no tiers], number of Pods. `names`: [node].

        `tiers`: from nodes to larger domains.
        """
        self._names, self._added, self.total = names, (added, tiers), total
        self.by_node: dict[str, int] | None = None if tiers else self.in_one_order()

    def in_one_order(self) -> dict[str, int]:
        """Return node name -> number of Pods, for one possible order: Pods are spread evenly over the parts of
        each domain.
        """
        added, tiers = self._added
        for tier in reversed(tiers):
            added = tier.dealt(added)
        return {self._names[row]: int(added[row]) for row in np.flatnonzero(added).tolist()}


class Spread(NamedTuple):
    """A topology spread constraint. `concerned`: [node], bool: whether the constraint counts the node.

    `present`: [node], number of matching Pods in the node's domain.
    """

    concerned: NDArray[np.bool_]
    present: NDArray[np.int64]
    skew: Skew


class _Tier(NamedTuple):
    """Domains of one size, which consist of parts: nodes, or domains of the tier below.

    `parent`: [part], the domain of the part. `capacity`: [part], the number of Pods that fit.
    """

    parent: NDArray[np.int64]
    capacity: NDArray[np.int64]

    def sums(self, size: int) -> NDArray[np.int64]:
        """Return [domain]: the sum of the capacities of the domain's parts. `size`: the number of domains."""
        return np.bincount(self.parent, self.capacity, size).astype(np.int64)

    def dealt(self, added: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [part]: the number of Pods for each part, if each domain gets `added` ([domain]) Pods."""
        found = np.zeros(len(self.capacity), np.int64)
        order = np.argsort(self.parent, kind="stable")
        ends = np.searchsorted(self.parent[order], np.arange(len(added) + 1))
        for domain in np.flatnonzero(added).tolist():
            charge(1)
            parts = order[ends[domain] : ends[domain + 1]]
            found[parts] = _evenly(int(added[domain]), self.capacity[parts])
        return found


class _Domains:
    """The topology domains of one limit. `of`: [node], the domain of each node, -1 for none."""

    def __init__(self, of: NDArray[np.int64]) -> None:
        self.of = of
        self.size = int(of.max(initial=-1)) + 2  # the last one stays empty: where nodes without a domain look

    def free(self, by_node: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [domain]: the sum of `by_node`, the capacities of the domain's nodes."""
        inside = self.of >= 0
        return np.bincount(self.of[inside], by_node[inside], self.size).astype(np.int64)


class _Moving(_Domains):
    """The domains of a topology spread constraint.

    `count`: [domain], number of Pods; -1 if the domain does not exist.
    """

    def __init__(self, spread: Spread, by_node: NDArray[np.int64]) -> None:
        domains = spread.skew.domains
        inside = spread.concerned & (domains >= 0)
        if by_node[~inside].any():
            raise NotValid  # a node that is left out counts nowhere
        super().__init__(np.where(inside, domains, -1))
        self.few, self.max_skew = spread.skew.few, spread.skew.max_skew
        self.count = np.full(self.size, -1, np.int64)
        self.count[self.of[inside]] = spread.present[inside]
        self.exists = self.count >= 0
        self.least = 0 if self.few or not self.exists.any() else int(self.count[self.exists].min())

    def is_constant(self, free: NDArray[np.int64]) -> bool:
        """Report whether the minimum count of all domains cannot grow. `free`: [domain], capacity."""
        return self.few or not self.exists.any() or bool((free[self.exists & (self.count == self.least)] == 0).any())

    def added(self, free: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [domain]: the number of Pods that fit. `free`: [domain], capacity without the constraint.

        The domain that is full first limits the others.
        """
        full = self.count + free
        least = 0 if self.few or not self.exists.any() else int(full[self.exists].min())
        return np.where(self.exists, np.minimum(full, np.maximum(self.count, least + self.max_skew)) - self.count, 0)


class _Fixed(NamedTuple):
    """A limit on the Pods of each domain that does not grow. `capacity`: [domain], the maximum number of Pods."""

    domains: _Domains
    capacity: NDArray[np.int64]


def capacity_in_domains(
    names: Sequence[str],
    by_node: NDArray[np.int64],
    apart: Sequence[NDArray[np.int64]],
    spread: Sequence[Spread],
) -> Capacity:
    """Return how many equal Pods fit on nodes if domains have limits, too.

    `names`: [node]. `by_node`: [node], number of Pods that fit on each node alone. `apart`: for each anti-affinity
    constraint, [node], the node's domain (-1: none); a domain holds one Pod. `spread`: topology spread constraints.
    Raises NotValid if the result may depend on the order, or for too many limits.
    """
    if len(apart) + len(spread) > _MAX_BOUNDS:
        raise NotValid
    moving = [_Moving(each, by_node) for each in spread]
    fixed = []
    for of in apart:
        alone = np.cumsum(of < 0) + int(of.max(initial=-1))  # a node without the label is bound by nothing
        domains = _Domains(np.where(of < 0, alone, of))
        fixed.append(
            _Fixed(domains, np.where(np.arange(domains.size) <= of.max(initial=-1), 1, np.iinfo(np.int64).max))
        )
    found = True
    while found:
        found = False
        for domains in moving:
            charge(8 * len(by_node) // VECTOR)
            if domains.is_constant(domains.free(by_node)):
                capacity = np.where(domains.exists, np.maximum(domains.least + domains.max_skew - domains.count, 0), 0)
                by_node = np.where(domains.of >= 0, np.minimum(by_node, capacity[domains.of]), 0)
                moving, found = [each for each in moving if each is not domains], True
                if not are_nodes(domains.of):
                    fixed.append(_Fixed(domains, capacity))
                break
    tiers, capacity = _nested(by_node, fixed)
    if not moving:
        return Capacity(names, capacity, tiers, int(capacity.sum()))
    first, *others = sorted(moving, key=lambda each: each.size)
    if not others:
        tiers, free = _within(tiers, capacity, by_node, first)
        added = first.added(free)
    elif len(others) == 1 and others[0].max_skew == 1 and not tiers:
        tiers, added = _in_rounds(by_node, first, others[0])
    else:
        raise NotValid
    if len(tiers) == 1 and are_nodes(first.of):
        return Capacity(names, tiers[0].dealt(added), (), int(added.sum()))
    return Capacity(names, added, tiers, int(added.sum()))


def are_nodes(domains: NDArray[np.int64]) -> bool:
    """Report whether each domain has only one node. `domains`: [node], -1: none."""
    return bool(np.bincount(domains[domains >= 0], minlength=1).max() <= 1)


def _nested(by_node: NDArray[np.int64], fixed: Sequence[_Fixed]) -> tuple[list[_Tier], NDArray[np.int64]]:
    """Return (the tiers of limits that do not grow, [domain of the last tier, or node]: capacity)."""
    tiers: list[_Tier] = []
    capacity = by_node
    for bound in sorted(fixed, key=lambda bound: -bound.domains.size):
        tiers, free = _within(tiers, capacity, by_node, bound.domains)
        capacity = np.minimum(free, bound.capacity)
    return tiers, capacity


def _within(
    tiers: list[_Tier], capacity: NDArray[np.int64], by_node: NDArray[np.int64], domains: _Domains
) -> tuple[list[_Tier], NDArray[np.int64]]:
    """Return (`tiers` with a tier for `domains` added, [domain]: the sum of the capacities of its parts).

    `capacity`: [part of the new tier]. Raises NotValid if a part of a tier lies in two of the domains.
    """
    charge(8 * len(by_node) // VECTOR)
    some = np.flatnonzero(by_node)
    part = some
    for tier in tiers:
        part = tier.parent[part]
    parent = np.zeros(len(capacity), np.int64)
    parent[part] = domains.of[some]
    if (parent[part] != domains.of[some]).any():
        raise NotValid
    tier = _Tier(parent, capacity)
    return [*tiers, tier], tier.sums(domains.size)


def _in_rounds(by_node: NDArray[np.int64], zones: _Moving, nodes: _Moving) -> tuple[list[_Tier], NDArray[np.int64]]:
    """Return (tiers, [zone]: the number of Pods that fit), if the minimum counts of both zones and nodes grow.

    No node may have two Pods more than another node. In a round, each node with the minimum count gets one Pod, if the
    limit of its zone allows one. After all nodes have got their Pod, the next round starts.
    """
    tiers, _ = _within([], by_node, by_node, nodes)
    free = nodes.free(by_node)
    (_, above), _ = _within(tiers, free, by_node, zones)
    placed, more = np.zeros(zones.size, np.int64), np.zeros(nodes.size, np.int64)
    count = zones.count.copy()
    for _ in range(_MAX_ROUNDS):
        charge(8 * len(by_node) // VECTOR)
        at_least = nodes.exists & (nodes.count + more == (nodes.count + more)[nodes.exists].min())
        places = np.where(at_least & (free > more), 1, 0)
        wanted = _Tier(above.parent, places).sums(zones.size)
        zones.count = count + np.where(zones.exists, placed, 0)
        added = zones.added(wanted)
        placed += added
        if (added < wanted).any() or not places[at_least].all():
            last = _Tier(above.parent, places).dealt(added)
            return [tiers[0], _Tier(above.parent, more + last)], placed
        more += places
    raise NotValid


def _evenly(total: int, capacity: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [part]: `total` Pods spread as evenly as possible over parts with these capacities.

    The capacity must be enough for all Pods. No part gets two Pods more than another part with free capacity.
    """
    sizes = np.sort(capacity)
    others = len(sizes) - np.arange(len(sizes))
    before = np.cumsum(sizes) - sizes
    filled = int(np.searchsorted(before + sizes * others, total, side="right"))
    if filled == len(sizes):
        return capacity
    level, rest = divmod(total - int(before[filled]), int(others[filled]))
    found = np.minimum(capacity, level)
    found[np.flatnonzero(capacity > level)[:rest]] += 1
    return found
