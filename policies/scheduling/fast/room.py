"""Many pods at once: how many like one still fit, and what becomes of one that each node gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.objects.pod import TOPOLOGY_LABELS
from policies.scheduling.fast.answer import Question
from policies.scheduling.fast.constraints import NotValid
from policies.scheduling.fast.tables import tables_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.fast.answer import Demand
    from policies.scheduling.preemption import Candidate
    from policies.scheduling.snapshot import Snapshot
    from policies.selectors import LabelSelector

_PLENTY: Final = 2**31


class Room(NamedTuple):
    """How many pods fit one after the other, whichever of the nodes that fit each of them is put on.

    `by_node`: how many there are then on each node, by name; None where that depends on the order.
    """

    total: int
    by_node: dict[str, int] | None


class OnEachNode(NamedTuple):
    """What becomes of a pod that each node gets: it fits, or a candidate says who would have to go for it.

    It stays pending on all other nodes.
    """

    fits: frozenset[str]
    candidates: dict[str, Candidate]


def room_for(snapshot: Snapshot, pod: Pod) -> Room | None:
    """Room for pods like this one. None where this cannot tell.

    Every pod takes the same from whatever node it is put on, and nothing from others; so the order does not matter.
    """
    with snapshot.shelf.lock:
        tables = tables_of(snapshot)
        own = tables.kinds.number(pod)
        try:
            question = Question(snapshot, pod, tables)
            if pod.nominated_node_name or _changes_when_bound(pod):
                return None
            return _room(question, own)
        except NotValid:
            return None


def _room(question: Question, own: int) -> Room:
    """Raises NotValid."""
    by_node = np.where(question.open, _PLENTY, 0)
    together = None
    for demand in question.demands:
        by_node = np.minimum(by_node, _fitting(demand, question, own))
        domains = None if demand.constraint is None else demand.constraint.domains
        if demand.constraint is None or not demand.constraint.per_kind[own]:
            continue
        if domains is None:
            raise NotValid
        if np.bincount(domains[domains >= 0], minlength=1).max() <= 1:  # every node is a domain of its own
            by_node = np.where(domains >= 0, np.minimum(by_node, 1), by_node)
        elif together is None:
            together = domains
        else:
            raise NotValid
    if together is None:
        rows = np.flatnonzero(by_node).tolist()
        infos = question.snapshot.node_infos
        return Room(int(by_node.sum()), {infos[row].name: int(by_node[row]) for row in rows})
    alone = together < 0
    return Room(int(by_node[alone].sum()) + len(np.unique(together[~alone & (by_node > 0)])), None)


def _fitting(demand: Demand, question: Question, own: int) -> NDArray[np.int64]:
    """How many fit on each node, as far as this is concerned."""
    free = demand.limit - demand.present
    if demand.constraint is not None:
        return np.where(free >= 0, _PLENTY, 0)
    each = int(question.tables.kinds.amounts(demand.resource)[own])
    if not each:
        return np.where(free >= 0, _PLENTY, 0)
    fitting: NDArray[np.int64] = np.clip(free // each + 1, 0, _PLENTY)
    return fitting


def _changes_when_bound(pod: Pod) -> bool:
    """Whether a pod's own constraints look at labels that it gets from its node."""
    selectors: list[LabelSelector | None] = [c.selector for c in pod.spec.topology_spread]
    selectors += [term.selector for term in pod.spec.pod_affinity.required_anti_affinity]
    return any(r.key in TOPOLOGY_LABELS for selector in selectors if selector for r in selector.requirements)


def on_each_node(snapshot: Snapshot, pod: Pod) -> OnEachNode | None:
    """What becomes of a pod on each node, if each gets one that may run nowhere else. None where this cannot tell.

    Valid where only what is on the node itself decides: resources and ports.
    """
    with snapshot.shelf.lock:
        try:
            question = Question(snapshot, pod, tables_of(snapshot))
        except NotValid:
            return None
        constraints = [d.constraint for d in question.demands if d.constraint is not None]
        keeps_apart = bool(pod.spec.pod_affinity.required_anti_affinity)
        if len(constraints) > bool(pod.spec.host_ports) or keeps_apart or pod.nominated_node_name:
            return None
        fits, infos = question.open.copy(), snapshot.node_infos
        for demand in question.demands:
            fits &= demand.present <= demand.limit
        named = frozenset(infos[row].name for row in np.flatnonzero(fits).tolist())
        candidates = question.candidates(np.flatnonzero(question.open & ~fits))
        return OnEachNode(named, {candidate.node_name: candidate for candidate in candidates})
