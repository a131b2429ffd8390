"""The nodes as arrays: cached results of static filters, amounts and topology domains for each node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import FEW, VECTOR, charge, each
from forewarn.policies.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.node_selector import NodeAffinity, NodeSelector
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.scheduling.framework import StaticFilter


CACHE_SIZE: Final = 128
"""Maximum number of cached masks, and of cached topologies."""


_LARGE: Final = 8 * 1024
"""Number of characters above which a spec is large."""


class Mask:
    """Whether a condition holds for each node, updated when nodes change.

    `keep`: an object that must stay alive. `values`: [node], bool, the initial values if known.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        holds: Callable[[Node], bool],
        keep: object,
        values: NDArray[np.bool_] | None = None,
    ) -> None:
        self._holds, self.keep = holds, keep
        if values is None:
            values = np.fromiter(map(holds, each(nodes, 0.7)), np.bool_)
        self.values: NDArray[np.bool_] = values
        self._any: bool | None = None

    @property
    def any(self) -> bool:
        """Whether the condition holds for any node."""
        if self._any is None:
            self._any = bool(self.values.any())
        return self._any

    def set(self, row: int, node: Node) -> None:
        """Evaluate the condition for the node that is now at index `row`."""
        self.values[row] = self._holds(node)
        self._any = None

    def insert(self, places: NDArray[np.intp]) -> None:
        self.values = np.insert(self.values, places, False)
        self._any = None

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Remove the nodes at these indices."""
        self.values = np.delete(self.values, rows)
        self._any = None


class Amounts:
    """A number for each node, updated when nodes change.

    `of`: node -> number. `keep`: an object that must stay alive.
    """

    def __init__(self, nodes: Sequence[Node], of: Callable[[Node], int], keep: object) -> None:
        self._of, self.keep = of, keep
        self.values: NDArray[np.int64] = np.fromiter(map(of, each(nodes, 1)), np.int64)

    def set(self, row: int, node: Node) -> None:
        """Compute the number of the node that is now at index `row`."""
        self.values[row] = self._of(node)

    def insert(self, places: NDArray[np.intp]) -> None:
        self.values = np.insert(self.values, places, 0)

    def remove(self, rows: NDArray[np.intp]) -> None:
        self.values = np.delete(self.values, rows)


class Topology:
    """The domain of each node by a label.

    `values`: [node], an integer that identifies the label's value; -1 without the label.
    """

    def __init__(self, nodes: Sequence[Node], key: str) -> None:
        self._key = key
        self._numbers: dict[str, int] = {}
        self.values: NDArray[np.int64] = np.fromiter(map(self._number, each(nodes)), np.int64)

    def _number(self, node: Node) -> int:
        value = node.labels.get(self._key)
        return -1 if value is None else self._numbers.setdefault(value, len(self._numbers))

    def set(self, row: int, node: Node) -> None:
        """Update the domain of the node that is now at index `row`."""
        self.values[row] = self._number(node)

    def insert(self, places: NDArray[np.intp]) -> None:
        self.values = np.insert(self.values, places, -1)

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Remove the nodes at these indices. The integers that identify values do not change."""
        self.values = np.delete(self.values, rows)

    def __len__(self) -> int:
        return len(self._numbers)

    def one_of(self, values: Collection[str]) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node's value of the label is one of `values`."""
        charge((len(values) + len(self._numbers)) // VECTOR)
        if len(values) == 1:
            number = self._numbers.get(next(iter(values)))
            return np.zeros(len(self.values), np.bool_) if number is None else self.values == number
        return self.numbered(dict.fromkeys(values, 1))[self.values] > 0

    def where(self, holds: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return [node], bool: whether `holds` is true for the node's value of the label; False without the label."""
        numbers = np.fromiter(map(holds, each(list(self._numbers), 0.3)), np.bool_, len(self))
        return np.append(numbers, False)[self.values]

    def numbered(self, weights: Mapping[str, int]) -> NDArray[np.int64]:
        """Return [number of a value]: the value's weight, or 0. The last entry is 0, for nodes without the label."""
        by_number = np.zeros(len(self) + 1, np.int64)
        for value, weight in weights.items():
            number = self._numbers.get(value)
            if number is not None:
                by_number[number] = weight
        return by_number

    @property
    def present(self) -> NDArray[np.bool_]:
        """[node], bool: whether the node has the label."""
        return self.values >= 0

    def sums(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [node]: the sum of `amounts` ([node]) over all nodes with the same value; 0 without the label."""
        return np.where(self.present, self.by_value(amounts)[self.values], 0)

    def by_value(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [number of a value]: the sum of `amounts` ([node]) over nodes with the value; a last entry 0 for
        nodes without the label.
        """
        present = self.present
        return np.bincount(self.values[present], amounts[present], len(self) + 1).astype(np.int64)


def is_large(spec: PodSpec) -> bool:
    """Report whether a spec is so large that a mask for it would be too expensive to update on every change of a
    node.
    """
    if spec.size > _LARGE:
        return True
    affinity = spec.node_affinity
    terms = affinity.required.terms if affinity.required is not None else ()
    preferred = affinity.preferred or ()
    terms = (*terms[: 2 * FEW + 1], *(item.term for item in preferred[: 2 * FEW + 1]))
    conditions = sum(len(term.expressions) for term in terms[: 2 * FEW])
    return max(len(terms), conditions, len(spec.tolerations), len(affinity.node_selector or ())) > 2 * FEW


def node_constraints_of(spec: PodSpec) -> Hashable | None:
    """Return the fields of a spec that kube-scheduler's plugins compare with nodes; None for large specs."""
    if is_large(spec):
        return None
    affinity = spec.node_affinity
    selector = None if affinity.node_selector is None else frozenset(affinity.node_selector.items())
    return spec.tolerations, spec.required_features, selector, affinity.required


def read_by_filters(pod: Pod, *, whole: bool) -> tuple[tuple[Hashable, ...], Hashable | None]:
    """Return what static filters read of a Pod: (what is not in its spec, the fields of its spec; None: all fields).

    `whole`: `Plan.reads_whole_pod` of the profile.
    """
    if not whole:
        return (), node_constraints_of(pod.spec)
    return (pod.namespace, pod.priority_class_name, pod.effective_priority, *sorted(pod.labels.items())), None


class NodeTables:
    """Cached masks, topologies and amounts of the nodes in their current state."""

    def __init__(self, nodes: int) -> None:
        self.nodes: list[Node | None] = [None] * nodes
        self._masks: dict[tuple[Hashable, Hashable], Mask] = {}
        self._may_reject: dict[Callable[[Node], bool], Mask] = {}
        """One for each function of a node alone."""
        self._topologies: dict[str, Topology] = {}
        self._amounts: dict[tuple[Hashable, Hashable], Amounts] = {}
        self.keys: frozenset[str] = frozenset()
        """All label keys that nodes have or had. A new object after each addition."""

    def set(self, row: int, node: Node) -> None:
        """Update all tables for the node that is now at index `row`."""
        if self.nodes[row] is node:
            return
        for table in self._every():
            table.set(row, node)
        if not self.keys.issuperset(node.labels):
            self.keys = self.keys.union(node.labels)
        self.nodes[row] = node

    def _every(self) -> Iterator[Mask | Topology | Amounts]:
        yield from self._may_reject.values()
        yield from self._masks.values()
        yield from self._topologies.values()
        yield from self._amounts.values()

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Remove the nodes at these indices."""
        removed = set(rows.tolist())
        self.nodes = [node for row, node in enumerate(self.nodes) if row not in removed]
        for table in self._every():
            table.remove(rows)

    def insert(self, places: NDArray[np.intp]) -> None:
        """Make room for nodes before these indices. Call `set` for each of them before the tables are read."""
        for place in places[::-1].tolist():
            self.nodes.insert(place, None)
        for table in self._every():
            table.insert(places)

    def cost(self, row: int, node: Node) -> int:
        """Return the cost of `set` with these arguments, in units of work."""
        masks = len(self._may_reject) + 2 * len(self._masks) + 2 * len(self._amounts)
        return 0 if self.nodes[row] is node else masks + len(self._topologies)

    def static(
        self,
        what: Hashable,
        spec: PodSpec,
        filters: Callable[[], Sequence[StaticFilter]],
        constraints: Hashable | None = None,
    ) -> NDArray[np.bool_]:
        """Return [node], bool: whether all filters pass; cached.

        `what`: the key for everything but the spec. `filters`: returns the filters; called only if the result is
        unknown. `constraints`: the fields of the spec that the filters read; None: any field.
        """
        key = what, id(spec) if constraints is None else constraints
        cached = self._masks.get(key)
        if cached is not None:
            return cached.values
        every = filters()

        def passes(node: Node) -> bool:
            for one in every:  # noqa: SIM110  (a generator would cost as much as the filters)
                if not one.passes(node):
                    return False
            return True

        mask = Mask(self.known(), passes, spec, self._passing(every))
        return mask.values if is_large(spec) else self._keep(key, mask).values

    def _passing(self, filters: Sequence[StaticFilter]) -> NDArray[np.bool_]:
        """Return [node], bool: whether all filters pass.

        Filters in columns run first. Each other filter evaluates only nodes that its `may_reject` includes and that the
        earlier filters pass.
        """
        nodes = self.known()
        passing = np.ones(len(nodes), np.bool_)
        for one in sorted(filters, key=lambda one: one.in_columns is None):
            if one.in_columns is not None:
                passing &= one.in_columns(self)
                continue
            evaluated = passing if one.may_reject is None else passing & self.where(one.may_reject)
            rows = np.flatnonzero(evaluated)
            some = nodes if len(rows) == len(nodes) else [nodes[row] for row in rows.tolist()]
            passing[rows] = np.fromiter(map(one.passes, each(some, 0.4)), np.bool_, len(rows))
        return passing

    def where(self, concerns: Callable[[Node], bool]) -> NDArray[np.bool_]:
        """Return [node], bool: the results of a function that depends only on the node, for example a plugin's
        `may_reject`; cached.
        """
        return self._where(concerns).values

    def anywhere(self, concerns: Callable[[Node], bool]) -> bool:
        """Report whether a function that depends only on the node is true for any node; cached."""
        return self._where(concerns).any

    def _where(self, concerns: Callable[[Node], bool]) -> Mask:
        mask = self._may_reject.get(concerns)
        if mask is None:
            mask = self._may_reject[concerns] = Mask(self.known(), concerns, None)
        return mask

    def mask(self, what: Hashable, spec: PodSpec, holds: Callable[[Node], bool]) -> NDArray[np.bool_]:
        """Return [node], bool: whether `holds` is true, which depends only on `what`, the Pod's spec and the
        node; cached.
        """
        if is_large(spec):
            return Mask(self.known(), holds, spec).values
        cached = self._masks.get((what, id(spec)))
        return (cached or self._keep((what, id(spec)), Mask(self.known(), holds, spec))).values

    def amounts(self, what: Hashable, spec: PodSpec, of: Callable[[Node], int]) -> NDArray[np.int64]:
        """Return [node]: the number `of`, which depends only on `what`, the Pod's spec and the node; cached.

        Do not modify.
        """
        if is_large(spec):
            return Amounts(self.known(), of, spec).values
        totals = self._amounts.get((what, id(spec)))
        if totals is None:
            if len(self._amounts) >= CACHE_SIZE:
                self._amounts.clear()
            totals = self._amounts[what, id(spec)] = Amounts(self.known(), of, spec)
        return totals.values

    def _keep(self, key: tuple[Hashable, Hashable], mask: Mask) -> Mask:
        if len(self._masks) >= CACHE_SIZE:
            self._masks.clear()
        self._masks[key] = mask
        return mask

    def topology(self, key: str) -> Topology:
        """Return the domains of the nodes by the label `key`; cached."""
        result = self._topologies.get(key)
        if result is None:
            if len(self._topologies) >= CACHE_SIZE:
                self._topologies.clear()
            result = self._topologies[key] = Topology(self.known(), key)
        return result

    def named(self, names: Collection[str] | None) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node has one of these names; None: any name."""
        if names is None:
            return np.ones(len(self.nodes), np.bool_)
        charge(len(self.nodes) // 16)
        return np.fromiter((node.name in names for node in self.known()), np.bool_, len(self.nodes))

    def known(self) -> list[Node]:
        return [node for node in self.nodes if node is not None]


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
    mask = np.ones(len(nodes.nodes), np.bool_)
    for requirement in requirements:
        mask &= with_label(nodes, requirement)
        if not mask.any():
            break
    return mask


def reached(nodes: NodeTables, affinity: NodeSelector | None) -> NDArray[np.bool_]:
    """Return [node], bool: whether the node can mount a volume with this node affinity (None: all nodes)."""
    return np.ones(len(nodes.nodes), np.bool_) if affinity is None else matching(nodes, affinity, with_fields=False)


def allowed(nodes: NodeTables, affinity: NodeAffinity) -> NDArray[np.bool_]:
    """Return [node], bool: whether nodeSelector and required affinity match the node. See `NodeAffinity.matches`."""
    wanted = (affinity.node_selector or {}).items()
    mask = selected(nodes, (Requirement(key, "In", frozenset((value,))) for key, value in wanted))
    return mask if affinity.required is None else mask & matching(nodes, affinity.required, with_fields=True)


def matching(nodes: NodeTables, selector: NodeSelector, *, with_fields: bool) -> NDArray[np.bool_]:
    """Return [node], bool: whether one of the terms matches the node. `with_fields`: compare fields of nodes, too."""
    mask = np.zeros(len(nodes.nodes), np.bool_)
    for term in each(selector.terms, 1):
        if (term.expressions or term.fields) and not term.error:
            matches = selected(nodes, term.expressions)
            if with_fields and term.fields:
                matches &= nodes.named(term.names)
                labels = nodes.known()
                for row in each(np.flatnonzero(matches).tolist(), 0.4):
                    matches[row] = all(one.matches(labels[row].name) for one in each(term.fields))
            mask |= matches
    return mask


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
        totals = np.full(len(nodes.nodes), self._everywhere, np.int64)
        for key, weights in self._by_key.items():
            if key in nodes.keys:
                totals += self._of_values(nodes.topology(key), key, weights)
        for terms in self._others:
            totals += np.logical_or.reduce([selected(nodes, requirements) for requirements in terms])
        return totals

    def _of_values(self, topology: Topology, key: str, weights: Mapping[str, int]) -> NDArray[np.int64]:
        """Return [node]: the sum of `weights` (label value -> number of selectors) for the node's value of the
        label `key`.
        """
        charge(1 + len(topology.values) // VECTOR)
        cached = self._numbered.get(key)
        if cached is None or cached[0] is not topology or len(cached[1]) != len(topology) + 1:
            charge(len(weights) // 4)
            cached = self._numbered[key] = topology, topology.numbered(weights)
        return cached[1][topology.values]
