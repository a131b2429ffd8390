"""Find the nodes that label selectors match, from tables of the nodes' labels.

A function of labels is called once for each value of a label, not for each node. Selectors of a single label value, as
for local volumes, are counted together.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from forewarn.policies.metering import VECTOR, charge, each
from forewarn.policies.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from forewarn.policies.objects.node_selector import NodeAffinity, NodeSelector
    from forewarn.policies.scheduling.vectorized.nodes import NodeTables, Topology


def with_label(nodes: NodeTables, requirement: Requirement) -> NDArray[np.bool_]:
    """Return [node], bool: whether the node's labels satisfy one requirement. See `Requirement.matches`."""
    key, operator, values = requirement
    charge(1 + 2 * len(nodes.nodes) // VECTOR)
    if key not in nodes.keys:
        return np.full(len(nodes.nodes), operator in ("NotIn", "DoesNotExist"))
    topology = nodes.topology(key)
    if operator == "In":
        return topology.one_of(values)
    if operator == "NotIn":
        return ~topology.one_of(values)
    if operator == "Exists":
        return topology.present
    if operator == "DoesNotExist":
        return ~topology.present
    return topology.where(lambda value: requirement.matches({key: value}))


def selected(nodes: NodeTables, requirements: Iterable[Requirement]) -> NDArray[np.bool_]:
    """Return [node], bool: whether the node's labels satisfy all requirements."""
    found = np.ones(len(nodes.nodes), np.bool_)
    for requirement in requirements:
        found &= with_label(nodes, requirement)
        if not found.any():
            break
    return found


def reached(nodes: NodeTables, affinity: NodeSelector | None) -> NDArray[np.bool_]:
    """Return [node], bool: whether the node can mount a volume with this node affinity (None: all nodes). Ignores
    fields of nodes.

    See `NodeSelector.matches` without a name.
    """
    return np.ones(len(nodes.nodes), np.bool_) if affinity is None else matching(nodes, affinity, with_fields=False)


def allowed(nodes: NodeTables, affinity: NodeAffinity) -> NDArray[np.bool_]:
    """Return [node], bool: whether nodeSelector and required affinity match the node. See `NodeAffinity.matches`."""
    wanted = (affinity.node_selector or {}).items()
    found = selected(nodes, (Requirement(key, "In", frozenset((value,))) for key, value in wanted))
    return found if affinity.required is None else found & matching(nodes, affinity.required, with_fields=True)


def matching(nodes: NodeTables, selector: NodeSelector, *, with_fields: bool) -> NDArray[np.bool_]:
    """Return [node], bool: whether one of the terms matches the node. `with_fields`: compare fields of nodes, too."""
    found = np.zeros(len(nodes.nodes), np.bool_)
    for term in each(selector.terms, 1):
        if (term.expressions or term.fields) and not term.error:
            matches = selected(nodes, term.expressions)
            if with_fields and term.fields:
                matches &= nodes.named(term.names)
                known = nodes.known()
                for row in each(np.flatnonzero(matches).tolist(), 0.4):
                    matches[row] = all(one.matches(known[row].name) for one in each(term.fields))
            found |= matches
    return found


class Selectors:
    """A collection of node selectors, which counts for each node how many of the selectors match."""

    def __init__(self) -> None:
        self._everywhere = 0
        self._by_key: dict[str, Counter[str]] = {}
        self._numbered: dict[str, tuple[Topology, NDArray[np.int64]]] = {}
        """Label key -> (the topology of the last call, [number of a value]: how many selectors match)."""
        self._others: list[tuple[tuple[Requirement, ...], ...]] = []
        """The terms of each other selector, one of which must hold."""

    def add(self, *terms: tuple[Requirement, ...]) -> None:
        """Add a selector. `terms`: the requirements of each term; a node matches if all requirements of one term
        hold.
        """
        if len(terms) == 1 and len(terms[0]) <= 1:
            if not terms[0]:
                self._everywhere += 1
                return
            ((key, operator, values),) = terms[0]
            if operator == "In":
                charge(len(values) // 8)
                self._by_key.setdefault(key, Counter()).update(values)
                return
        if terms:
            self._others.append(terms)

    def add_affinity(self, affinity: NodeSelector | None) -> None:
        """Add the node affinity of a volume as a selector; None matches all nodes."""
        if affinity is None:
            self.add(())
            return
        self.add(*(t.expressions for t in affinity.terms if (t.expressions or t.fields) and not t.error))

    def counts(self, nodes: NodeTables) -> NDArray[np.int64]:
        """Return [node]: how many selectors match the node."""
        found = np.full(len(nodes.nodes), self._everywhere, np.int64)
        for key, weights in self._by_key.items():
            if key in nodes.keys:
                found += self._of_values(nodes.topology(key), key, weights)
        for terms in self._others:
            found += np.logical_or.reduce([selected(nodes, requirements) for requirements in terms])
        return found

    def _of_values(self, topology: Topology, key: str, weights: Mapping[str, int]) -> NDArray[np.int64]:
        """Return [node]: the sum of `weights` (label value -> number of selectors) for the node's value of the
        label `key`.
        """
        charge(1 + len(topology.values) // VECTOR)
        known = self._numbered.get(key)
        if known is None or known[0] is not topology or len(known[1]) != len(topology) + 1:
            charge(len(weights) // 4)
            known = self._numbered[key] = topology, topology.numbered(weights)
        return known[1][topology.values]
