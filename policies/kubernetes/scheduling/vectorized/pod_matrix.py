"""Pods as a table: a column for each node, a row for each position in `NodeInfo.pods`. Updated by NodeInfo serials.

Updates count as work of the prediction that triggers them, although every prediction benefits: the first prediction
after many changes must not miss its deadline. An interrupted update continues node by node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.metering import FEW, VECTOR, CutShort, charge, charging, meter, unmetered
from forewarn.policies.kubernetes.scheduling.snapshot import Columns, NotValid, Snapshot, picked
from forewarn.policies.kubernetes.scheduling.vectorized.equivalence_classes import (
    EquivalenceClasses,
    KindsWithTerms,
    PerClass,
    Scope,
    scopes_of,
)
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, MatchingPdbs
from forewarn.policies.kubernetes.selectors import Requirement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.objects.node import Node, NodeAffinity, NodeSelector
    from forewarn.policies.kubernetes.objects.pod import Pod, PodSpec
    from forewarn.policies.kubernetes.objects.storage import CSINode
    from forewarn.policies.kubernetes.objects.volumes import Disk
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.framework import StaticFilter
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows

NODES_CACHE_SIZE: Final = 256
"""Maximum number of cached values of nodes, and of cached topologies."""

T = TypeVar("T")

_LARGE: Final = 8 * 1024
"""Number of characters above which a spec is large."""


class Column:
    """A value for each node, updated when nodes change. `values`: [node]. `_of`: node -> value."""

    values: NDArray[Any]
    _of: Callable[[Node], int]
    _any: bool | None = None

    @property
    def any(self) -> bool:
        """Whether the value is not 0 for any node."""
        if self._any is None:
            self._any = bool(self.values.any())
        return self._any

    def set(self, row: int, node: Node) -> None:
        """Compute the value for the node that is now at index `row`."""
        self.values[row] = self._of(node)
        self._any = None

    def rearrange(self, origin: Rows) -> None:
        """Rearrange to other nodes, see `picked`. Call `set` for each new node before the values are read."""
        self.values = picked(self.values, origin)
        self._any = None


class Values(Column):
    """The results of a function of the node. `keep`: an object that must stay alive. `values`: the results if known."""

    def __init__(
        self,
        value_of: Callable[[Node], int],
        keep: object,
        values: NDArray[Any] | None,
        nodes: Sequence[Node],
        kind: type,
    ) -> None:
        self._of, self.keep = value_of, keep
        self.values = np.fromiter(map(value_of, charging(nodes, 0.8)), kind) if values is None else values


class Topology(Column):
    """The domain of each node by a label.

    `values`: [node], an integer that identifies the label's value, even after nodes are removed; -1 without the label.
    """

    values: Ints

    def __init__(self, nodes: Sequence[Node], key: str) -> None:
        self._key = key
        self._numbers: dict[str, int] = {}
        self.values = np.fromiter(map(self._of, charging(nodes)), np.int64)

    def _of(self, node: Node) -> int:
        value = node.labels.get(self._key)
        return -1 if value is None else self._numbers.setdefault(value, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    def one_of(self, values: Collection[str]) -> Mask:
        """Return [node], bool: whether the node's value of the label is one of `values`."""
        charge((len(values) + len(self._numbers)) // VECTOR)
        if len(values) == 1:
            number = self._numbers.get(next(iter(values)))
            return np.zeros(len(self.values), np.bool_) if number is None else self.values == number
        return self.numbered(dict.fromkeys(values, 1))[self.values] > 0

    def spread_to_nodes(self, holds: Callable[[str], bool]) -> Mask:
        """Return [node], bool: whether `holds` is true for the node's value of the label; False without the label."""
        numbers = np.fromiter(map(holds, charging(list(self._numbers), 0.3)), np.bool_, len(self))
        return np.append(numbers, False)[self.values]

    def numbered(self, weights: Mapping[str, int]) -> Ints:
        """Return [number of a value]: the value's weight, or 0. The last entry is 0, for nodes without the label."""
        by_number = np.zeros(len(self) + 1, np.int64)
        for value, weight in weights.items():
            number = self._numbers.get(value)
            if number is not None:
                by_number[number] = weight
        return by_number

    @property
    def present(self) -> Mask:
        """[node], bool: whether the node has the label."""
        return self.values >= 0

    def sums(self, amounts: Ints) -> Ints:
        """Return [node]: the sum of `amounts` ([node]) over all nodes with the same value; 0 without the label."""
        return np.where(self.present, self.sums_by_value(amounts)[self.values], 0)

    def sums_by_value(self, amounts: Ints) -> Ints:
        """Return [number of a value]: the sum of `amounts` ([node]); a last entry 0 for nodes without the label."""
        present = self.present
        return np.bincount(self.values[present], amounts[present], len(self) + 1).astype(np.int64)


def is_large(spec: PodSpec) -> bool:
    """Report whether a spec is so large that it would be too expensive to update its mask at every change of a node."""
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
        self._values: dict[tuple[Hashable, Hashable], Values] = {}
        self._may_reject: dict[Callable[[Node], bool], Values] = {}
        """One for each function of a node alone."""
        self._topologies: dict[str, Topology] = {}
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

    def _every(self) -> Iterator[Column]:
        yield from self._may_reject.values()
        yield from self._values.values()
        yield from self._topologies.values()

    def rearrange(self, origin: Rows) -> None:
        """Rearrange to other nodes, see `picked`. Call `set` for each new node before the tables are read."""
        self.nodes = [None if row < 0 else self.nodes[row] for row in origin.tolist()]
        for table in self._every():
            table.rearrange(origin)

    def cost(self, row: int, node: Node) -> int:
        """Return the cost of `set` with these arguments, in units of work."""
        tables = len(self._may_reject) + 2 * len(self._values) + len(self._topologies)
        return 0 if self.nodes[row] is node else tables

    def static(self, key: tuple[Hashable, Hashable]) -> Mask | None:
        """Return [node], bool: whether the static filters of this key pass; None if the result is not cached.

        Key: everything but the spec, and the fields of the spec that the filters read, or the id of the spec.
        """
        cached = self._values.get(key)
        return None if cached is None else cached.values

    def add_static(
        self, key: tuple[Hashable, Hashable], spec: PodSpec, filters: Sequence[StaticFilter], passing: Mask
    ) -> Mask:
        """Cache the result of static filters, unless the spec is large, and update it when nodes change."""

        def passes(node: Node) -> bool:
            for one in filters:  # noqa: SIM110  (a generator would cost as much as the filters)
                if not one.passes(node):
                    return False
            return True

        return self._cached(key, spec, lambda: Values(passes, spec, passing, (), bool))

    def _cached(self, key: tuple[Hashable, Hashable], spec: PodSpec, make: Callable[[], Values]) -> NDArray[Any]:
        return (make() if is_large(spec) else cached_in(self._values, key, make, NODES_CACHE_SIZE)).values

    def node_mask(self, concerns: Callable[[Node], bool]) -> Mask:
        """Return [node], bool: the cached results of `concerns`, which may depend only on the node."""
        return self._evaluate(concerns).values

    def anywhere(self, concerns: Callable[[Node], bool]) -> bool:
        """Report whether a function that depends only on the node is true for any node; cached."""
        return self._evaluate(concerns).any

    def _evaluate(self, concerns: Callable[[Node], bool]) -> Values:
        return cached_in(self._may_reject, concerns, lambda: Values(concerns, None, None, self.known_nodes(), bool))

    def values(self, what: Hashable, spec: PodSpec, value_of: Callable[[Node], int], kind: type) -> NDArray[Any]:
        """Return [node]: `value_of`, which depends only on `what`, the spec and the node; cached. Do not modify."""
        return self._cached((what, id(spec)), spec, lambda: Values(value_of, spec, None, self.known_nodes(), kind))

    def topology(self, key: str) -> Topology:
        """Return the domains of the nodes by the label `key`; cached."""
        return cached_in(self._topologies, key, lambda: Topology(self.known_nodes(), key), NODES_CACHE_SIZE)

    def named(self, names: Collection[str] | None) -> Mask:
        """Return [node], bool: whether the node has one of these names; None: any name."""
        if names is None:
            return np.ones(len(self.nodes), np.bool_)
        charge(len(self.nodes) // 16)
        return np.fromiter((node.name in names for node in self.known_nodes()), np.bool_, len(self.nodes))

    def known_nodes(self) -> list[Node]:
        return [node for node in self.nodes if node is not None]


def with_label(nodes: NodeTables, requirement: Requirement) -> Mask:
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
    return topology.spread_to_nodes(lambda value: requirement.matches({key: value}))


def selected(nodes: NodeTables, requirements: Iterable[Requirement]) -> Mask:
    """Return [node], bool: whether the node's labels satisfy all requirements."""
    mask = np.ones(len(nodes.nodes), np.bool_)
    for requirement in requirements:
        mask &= with_label(nodes, requirement)
        if not mask.any():
            break
    return mask


def reached(nodes: NodeTables, affinity: NodeSelector | None) -> Mask:
    """Return [node], bool: whether the node can mount a volume with this node affinity (None: all nodes)."""
    return np.ones(len(nodes.nodes), np.bool_) if affinity is None else matching(nodes, affinity, with_fields=False)


def allowed(nodes: NodeTables, affinity: NodeAffinity) -> Mask:
    """Return [node], bool: whether nodeSelector and required affinity match the node. See `NodeAffinity.matches`."""
    wanted = (affinity.node_selector or {}).items()
    mask = selected(nodes, (Requirement(key, "In", frozenset((value,))) for key, value in wanted))
    return mask if affinity.required is None else mask & matching(nodes, affinity.required, with_fields=True)


def matching(nodes: NodeTables, selector: NodeSelector, *, with_fields: bool) -> Mask:
    """Return [node], bool: whether one of the terms matches the node. `with_fields`: compare fields of nodes, too."""
    mask = np.zeros(len(nodes.nodes), np.bool_)
    for term in charging(selector.terms, 1):
        if (term.expressions or term.fields) and not term.error:
            matches = selected(nodes, term.expressions)
            if with_fields and term.fields:
                matches &= nodes.named(term.names)
                labels = nodes.known_nodes()
                for row in charging(np.flatnonzero(matches).tolist(), 0.4):
                    matches[row] = all(one.matches(labels[row].name) for one in charging(term.fields))
            mask |= matches
    return mask


class Selectors:
    """A collection of node selectors, which counts for each node how many of the selectors match."""

    def __init__(self) -> None:
        self._everywhere = 0
        self._by_key: dict[str, Counter[str]] = {}
        self._numbered: dict[str, tuple[Topology, Ints]] = {}
        """Label key -> (the topology of the last call, [number of a value]: how many selectors match)."""
        self._others: list[tuple[tuple[Requirement, ...], ...]] = []
        """The terms of each other selector, one of which must hold."""

    def add(self, *terms: tuple[Requirement, ...]) -> None:
        """Add a selector. `terms`: the requirements of each; a node matches if all of one term hold."""
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

    def counts(self, nodes: NodeTables) -> Ints:
        """Return [node]: how many selectors match the node."""
        totals = np.full(len(nodes.nodes), self._everywhere, np.int64)
        for key, weights in self._by_key.items():
            if key in nodes.keys:
                totals += self._weights_by_value(nodes.topology(key), key, weights)
        for terms in self._others:
            totals += np.logical_or.reduce([selected(nodes, requirements) for requirements in terms])
        return totals

    def _weights_by_value(self, topology: Topology, key: str, weights: Mapping[str, int]) -> Ints:
        """Return [node]: the sum of `weights` (label value -> number of selectors) for the node's value of `key`."""
        charge(1 + len(topology.values) // VECTOR)
        cached = self._numbered.get(key)
        if cached is None or cached[0] is not topology or len(cached[1]) != len(topology) + 1:
            charge(len(weights) // 4)
            cached = self._numbered[key] = topology, topology.numbered(weights)
        return cached[1][topology.values]


_CACHE_SIZE: Final = 64
"""Maximum number of cached columns, and of cached values of each table."""
_TABLES: Final = 4
"""Maximum number of tables with cached values."""
_CACHED_ENTRIES: Final = 2**18
_MIN_CACHED: Final = 4
"""Number of values that are cached even for a very large table: each may be as long as the table."""
NO_LIMIT: Final = 2**62
MANY: Final = 10_000
"""Maximum number of exactly counted volumes of one Pod: the sums have two bytes for each Pod."""


class Users:
    """The Pods that use each PersistentVolumeClaim and each disk, as numbers of their equivalence classes."""

    def __init__(self) -> None:
        self._claims: dict[str, list[int]] = {}
        """Name of a claim -> the classes that use it, once for each of their volumes."""
        self._disks: dict[tuple[str, tuple[str, ...]], list[tuple[int, Disk]]] = {}
        """The identity of a disk -> (equivalence class, its disk)."""
        self.ephemeral: list[int] = []
        """Classes with ephemeral claims, whose names contain the name of the Pod."""
        self.faulty: list[int] = []
        """Classes with a volume for which NodeVolumeLimits may return an error."""
        self._known = 1

    def learn(self, kinds: EquivalenceClasses) -> None:
        """Evaluate the classes that were added since the last call. Raises CutShort; the next call continues."""
        members, work = kinds.members, meter()
        while self._known < len(members):
            pod = members[self._known]
            volumes = () if pod is None else pod.spec.volumes
            work.charge(1 + len(volumes))
            if volumes:
                kind = self._known
                ephemeral, faulty = False, False
                for volume in volumes:
                    if volume.claim_name is not None:
                        self._claims.setdefault(volume.claim_name, []).append(kind)
                    if volume.disk:
                        self._disks.setdefault((volume.disk.kind, volume.disk.id), []).append((kind, volume.disk))
                    ephemeral = ephemeral or volume.ephemeral
                    faulty = faulty or volume.claim_name == "" or bool(volume.migrated and not volume.migrated.handle)
                if ephemeral:
                    self.ephemeral.append(kind)
                if faulty:
                    self.faulty.append(kind)
            self._known += 1

    def claim_counts(self, matrix: PodMatrix, names: Iterable[str]) -> Ints:
        """Return [class]: the number of volumes of a Pod with claims of these names, in any namespace.

        Raises NotValid for more volumes than can be summed up.
        """
        mask = np.zeros(len(matrix.kinds), np.int64)
        for name in charging(tuple(names), 1):
            kinds = self._claims.get(name, ())
            charge(len(kinds) // 4)
            for kind in kinds:
                mask[kind] += 1
        if mask.max() > MANY:
            raise NotValid
        return mask

    def used_claims(self, matrix: PodMatrix, namespace: str, names: Iterable[str]) -> int:
        """Return how many claims of a namespace with these names are used by Pods on nodes."""
        members = matrix.kinds.members
        own_kinds, of_claim = set[int](), []
        for name in charging(tuple(names), 1):
            kinds = self._claims.get(name, ())
            charge(len(kinds) // 4)
            own = [kind for kind in kinds if (pod := members[kind]) is not None and pod.namespace == namespace]
            own_kinds.update(own)
            of_claim.append(own)
        if len(own_kinds) <= FEW:
            charge(len(own_kinds) * (matrix.kind.size // VECTOR))
            present = {kind for kind in own_kinds if (matrix.kind == kind).any()}
        else:
            charge(2 * matrix.kind.size // VECTOR)
            mask = np.zeros(len(members), np.bool_)
            mask[list(own_kinds)] = True
            present = set(matrix.kind[mask[matrix.kind]].tolist())
        return sum(not present.isdisjoint(own) for own in of_claim)

    def with_disks(self, matrix: PodMatrix, disks: Iterable[Disk]) -> Ints:
        """Return [class]: 1 if a Pod of the class has a disk that conflicts with `disks` on its node, else 0."""
        amounts = np.zeros(len(matrix.kinds), np.int64)
        for disk in charging(tuple(disks), 1):
            same = self._disks.get((disk.kind, disk.id), ())
            charge(len(same) // 2)
            for kind, other in same:
                if disk.conflicts(other):
                    amounts[kind] = 1
        return amounts


class StorageColumns:
    """The CSINodes of the nodes of a Snapshot, and the volumes in use on the nodes, as arrays."""

    def __init__(self) -> None:
        self._table: object = None
        self.csi_nodes: list[CSINode | None] = []
        """[node]: its CSINode, or None."""
        self.has_csi_node: Mask = np.zeros(0, np.bool_)
        """[node], bool: whether the node has a CSINode."""
        self.limited: Mask = np.zeros(0, np.bool_)
        """[node], bool: whether the CSINode has a limit for any driver."""
        self._columns: dict[tuple[str, str], Ints] = {}
        self._users = Users()
        self._serials: Ints = np.zeros(0, np.int64)
        self._used: Ints = np.zeros(0, np.int64)
        self._cached: dict[int, tuple[object, dict[Hashable, Any]]] = {}
        """id of a table -> (the table, values that depend on it)."""

    def sync(self, snapshot: Snapshot) -> None:
        """Update the columns to the CSINodes of a Snapshot. Raises CutShort."""
        table = snapshot.objects.csi_nodes
        if table is self._table:
            return
        charge(len(snapshot.rows) // 2)
        self._table = None
        self.csi_nodes = [table.get(("", name)) for name in snapshot.rows] if table else [None] * len(snapshot.rows)
        self._columns = {}
        self.has_csi_node = self._csi_node_values(lambda _: 1, 0) > 0
        self.limited = self._csi_node_values(lambda node: bool(node.limits), 0) > 0
        self._table = table

    def migrated(self, plugin: str) -> Mask:
        """Return [node], bool: whether the CSINode lists the in-tree plugin as migrated."""
        return self._column(("migrated", plugin), lambda node: plugin in node.migrated_plugins, 0) > 0

    def installed(self, driver: str) -> Mask:
        """Return [node], bool: whether the CSINode lists the driver."""
        return self._column(("installed", driver), lambda node: driver in node.drivers, 0) > 0

    def limit(self, driver: str) -> Ints:
        """Return [node]: the maximum number of volumes of a driver; NO_LIMIT if the CSINode has no limit."""
        return self._column(("limit", driver), lambda node: node.limits.get(driver, NO_LIMIT), NO_LIMIT)

    def _column(self, key: tuple[str, str], value_of: Callable[[CSINode], int], without: int) -> Ints:
        return cached_in(self._columns, key, lambda: self._csi_node_values(value_of, without), _CACHE_SIZE)

    def _csi_node_values(self, value_of: Callable[[CSINode], int], without: int) -> Ints:
        values = (without if node is None else value_of(node) for node in charging(self.csi_nodes, 0.2))
        return np.fromiter(values, np.int64, len(self.csi_nodes))

    def attached(self, snapshot: Snapshot, driver: str) -> Ints:
        """Return [node]: the number of VolumeAttachments of a driver for the node."""
        table = snapshot.objects.attachments

        def compute() -> Ints:
            totals = np.zeros(len(snapshot.rows), np.int64)
            for attachment in charging(tuple(table.values()), 0.2):
                row = snapshot.rows.get(attachment.node_name) if attachment.attacher == driver else None
                if row is not None:
                    totals[row] += 1
            return totals

        return self.cached(table, driver, compute)

    def users(self, matrix: PodMatrix) -> Users:
        """Return the classes that use claims and disks, up to date. Raises CutShort."""
        self._users.learn(matrix.kinds)
        return self._users

    def used(self, matrix: PodMatrix) -> Ints:
        """Return [node]: the number of volumes of the node's Pods that may be attached. Do not modify."""
        if len(self._serials) != len(matrix.serials):
            self._serials, self._used = np.full(len(matrix.serials), -1), np.zeros(len(matrix.serials), np.int64)
        rows, per_kind = np.flatnonzero(self._serials != matrix.serials), volumes_of_kinds(matrix)
        if len(rows):
            charge(len(matrix.kind) * len(rows) // VECTOR)
            self._used[rows] = per_kind[matrix.kind[:, rows]].sum(axis=0)
            self._serials[rows] = matrix.serials[rows]
        return self._used

    def cached(self, table: Sized, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which depends only on a table and a key; cached."""
        _, answers = cached_in(self._cached, id(table), lambda: (table, dict[Hashable, Any]()), _TABLES)
        most = min(max(_CACHED_ENTRIES // max(len(table), 1), _MIN_CACHED), _CACHE_SIZE)
        result: T = cached_in(answers, key, compute, most)
        return result


def volumes_of_kinds(matrix: PodMatrix) -> Ints:
    """Return [class]: the number of volumes of a Pod of the class that may be attached."""
    return matrix.cached("volumes", None, lambda pod: pod.spec.attachable_volumes)


def storage_of(matrix: PodMatrix, snapshot: Snapshot) -> StorageColumns:
    """Return the storage of the Snapshot's nodes, up to date. Raises CutShort."""
    if matrix.storage is None:
        matrix.storage = StorageColumns()
    matrix.storage.sync(snapshot)
    return matrix.storage


CACHE_SIZE: Final = 64
"""Number of arrays by class that can at least be cached; `_CACHED_NUMBERS` may allow more (`cache_size`)."""
_CACHED_NUMBERS: Final = 2**22
_MAX_CACHED: Final = 4096
MAX_NEW_KINDS: Final = 1024
"""Number of new equivalence classes, beyond twice the initial number, above which those without Pods are removed."""
_OF_NODES: Final = ("kind", "start", "serials", "_columns", "_pods", "nodes", "_scores")
"""Tables of the nodes and their Pods. All others contain results by equivalence class, or ids of specs of classes."""
_CACHED_SUMS: Final = 256
"""Number of sums by node that can at least be cached: 80 kB each at 5,000 nodes; see `cache_size`."""
_NODE: Final = 14
"""Units of work for a node, and two more for each of its Pods."""


class PodCounts:
    """The number of Pods on each node that match a condition.

    `here`: [node]. `of`: the number for one Pod, usually 1 or 0. `keep`: objects that must stay alive for `of`.
    """

    __slots__ = ("here", "keep", "of")

    def __init__(self, here: Ints, value_of: Callable[[Pod], int], keep: object) -> None:
        self.here, self.of, self.keep = here, value_of, keep

    def add(self, row: int, amount: int) -> None:
        """Add `amount` to the count of a node; negative for a removed Pod."""
        if not self.here.flags.writeable:
            self.here = self.here.copy()
        self.here[row] += amount


class PodMatrix:
    """The tables of the nodes of a Snapshot: Pods, labels, and the order of victims for each priority."""

    def __init__(self, nodes: int, semantics: Semantics) -> None:
        self.semantics = semantics
        self.kinds = EquivalenceClasses(semantics)
        self.max_kinds = 0
        """Number of classes above which those without Pods are removed; 0 before the first snapshot."""
        self.kind: NDArray[np.int32] = np.zeros((8, nodes), np.int32)
        self.start: Ints = np.zeros((8, nodes), np.int64)
        self.serials: Ints = np.zeros(nodes, np.int64)
        self._columns: Columns | None = None
        """The columns of the snapshot that the tables show; None during an update."""
        self._pods: list[Sequence[Pod]] = [()] * nodes
        """[node]: its Pods, as they are in the tables."""
        self.nodes = NodeTables(nodes)
        self.lower_priority: dict[int, LowerPriorityPods] = {}
        self.matches: dict[Hashable, tuple[PerClass, object]] = {}
        """Key of a constraint -> (a number for each class, the objects that the key identifies by id and that must stay
        alive).
        """
        self.against: dict[Hashable, tuple[Any, object]] = {}
        """Key of a Pod -> (the anti-affinity of Pods on nodes against it, objects that must stay alive)."""
        self._zeros = _read_only_zeros(nodes)
        """[node]: the counts of all conditions that no Pod matches, such as the selectors of new workloads."""
        self._counts: dict[Hashable, PodCounts] = {}
        self._counts_of: dict[Scope | None, list[PodCounts]] = {}
        """Scope -> its counts; None -> the counts of all Pods."""
        self._counting: dict[int, list[tuple[PodCounts, int]]] = {}
        """Equivalence class -> the counts that include it, with its amount."""
        self.pdbs: dict[Hashable, tuple[PerClass, object]] = {}
        """(namespace, id of a selector) -> the equivalence classes that a PDB matches, and the PDB, which keeps the
        selector alive.
        """
        self.matching_pdbs = MatchingPdbs(self.kinds)
        self.nominations: dict[int, Any] = {}
        """Number of shards of a table -> its nominated Pods (node_fit.py).

        The table of the cluster has many shards, the table after a hypothetical preemption has one.
        """
        self.static_statuses: dict[Hashable, Any] = {}
        """Static fields of specs -> the reasons of the static rejections (vectorized_cycle.py)."""
        self.repelling = KindsWithTerms(self.kinds, lambda pod: pod.spec.pod_affinity.required_anti_affinity)
        """Classes whose required anti-affinity affects other Pods."""
        self.attractive = KindsWithTerms(self.kinds, lambda pod: pod.spec.pod_affinity.attracting)
        """Classes whose Pod affinity affects the scores of other Pods."""
        self._scores: dict[Hashable, tuple[Ints, Ints]] = {}
        self.storage: StorageColumns | None = None
        """The claims, volumes and drivers."""

    def sync(self, snapshot: Snapshot) -> None:
        """Update the tables to this Snapshot. Raises CutShort; the next call continues."""
        if self.kinds.weight > self.max_kinds > 0:
            self._remove_unused_kinds()
        if self._columns is snapshot.columns:
            return
        self._columns = None
        serials, work = snapshot.columns.serials, meter()
        for row in (self.serials != serials).nonzero()[0].tolist():
            info = snapshot.node_infos[row]
            work.charge(_NODE + 2 * len(info.pods) + self.nodes.cost(row, info.node))
            self.serials[row] = 0  # invalid until the update of the node is complete
            matched = self._set(row, info)
            self.serials[row] = serials[row]
            work.charge(matched)
        self._columns = snapshot.columns
        self.max_kinds = self.max_kinds or 2 * self.kinds.weight + MAX_NEW_KINDS

    def _remove_unused_kinds(self) -> None:
        """Remove the equivalence classes without Pods, and all results by class; retain the tables of the nodes."""
        retained = {name: getattr(self, name) for name in _OF_NODES}
        members = [*self.kinds.members]
        self.kinds.forget()
        self.__init__(len(self.serials), self.semantics)  # type: ignore[misc]
        self.__dict__.update(retained)
        numbers = np.zeros(len(members), np.int32)
        for number in np.flatnonzero(np.bincount(self.kind.ravel())).tolist():
            pod = members[number]
            numbers[number] = 0 if pod is None else self.kinds.number(pod)
        self.kind = numbers[self.kind]
        self.max_kinds = 2 * self.kinds.weight + MAX_NEW_KINDS

    def _set(self, row: int, info: NodeInfo) -> int:
        """Set the Pods of a node. Return the number of selectors with which new classes were compared."""
        pods, number = info.pods, self.kinds.number
        count = len(pods)
        if count > len(self.kind):
            more = ((0, count + 4 - len(self.kind)), (0, 0))
            self.kind, self.start = np.pad(self.kind, more), np.pad(self.start, more)
        before = self._pods[row]
        new = [place for place, (old, pod) in enumerate(zip(before, pods, strict=False)) if old is not pod]
        new += range(len(before), count)
        places = new if len(before) <= count else [*new, *range(count, len(before))]
        old_kinds, kinds = self.kind[places, row].tolist(), [number(pods[place]) for place in new]
        if self.nodes.nodes[row] is not info.node:
            with unmetered():  # already charged, and must not stop halfway
                self.nodes.set(row, info.node)
        self._pods[row] = pods
        if len(before) > count:
            self.kind[count:, row] = 0
        self.kind[new, row] = kinds
        self.start[new, row] = [pods[place].start for place in new]
        if not self._counts or old_kinds == kinds:
            return 0
        gained = Counter(kinds)  # minus the old classes: Pods after a removed Pod only change their position
        gained.subtract(old_kinds)
        try:
            return sum(self._count(row, kind, pods_more) for kind, pods_more in gained.items() if kind and pods_more)
        except CutShort:  # in the evaluation of a long selector: only some of the Pods are counted
            self._forget_counts()
            raise

    def rearrange(self, origin: Rows) -> None:
        """Rearrange to other nodes, see `picked`. The next `sync` sets the values of new ones; others do not change."""
        self.kind, self.start = picked(self.kind, origin), picked(self.start, origin)
        self.serials, self._columns = picked(self.serials, origin), None
        self._pods = [() if row < 0 else self._pods[row] for row in origin.tolist()]
        self.nodes.rearrange(origin)
        if (origin < 0).any():
            self.lower_priority.clear()
        for lower in self.lower_priority.values():
            lower.keep_only(origin)
        self._forget_results()

    def _forget_results(self) -> None:
        """Clear what depends on the set of nodes."""
        self.nominations.clear()
        self._forget_counts()
        self._zeros = _read_only_zeros(len(self.serials))
        self.static_statuses.clear()
        self.storage = None
        self._scores.clear()

    def cached(self, key: Hashable, keep: object, value_of: Callable[[Pod], int], scope: Scope | None = None) -> Ints:
        """Return [class]: the result of `value_of`, which depends only on `key` and the class; cached.

        `keep`: the objects that the key identifies by id, which must stay alive. `scope`: classes outside have 0; None:
        no restriction.
        """
        most = cache_size(CACHE_SIZE, len(self.kinds))
        return cached_in(self.matches, key, lambda: (PerClass(self.kinds, value_of, scope), keep), most)[0].values()

    def counts(self, key: Hashable, keep: object, value_of: Callable[[Pod], int], scope: Scope | None) -> PodCounts:
        """Return the sums of `value_of` by node for the Pods of a scope (None: all); cached, and kept current.

        `value_of` depends only on `key` and the Pod's class. `keep`: as in `cached`.
        """
        totals = self._counts.get(key)
        if totals is None:
            if len(self._counts) >= cache_size(_CACHED_SUMS, len(self.serials)):
                self._forget_counts()
            was_known = key in self.matches
            per_kind = self.cached(key, keep, value_of, scope)
            charge(self.kind.size // VECTOR)
            kind = self.kind
            here: Ints
            counted = np.flatnonzero(per_kind)
            if len(counted) == 1:  # for example Pods of one workload: 20 times as fast as a lookup for each Pod
                number = int(counted[0])
                narrow = np.int8 if len(kind) <= np.iinfo(np.int8).max else np.int64
                here = (kind == number).sum(axis=0, dtype=narrow).astype(np.int64) * per_kind[number]
            else:
                here = per_kind[kind].sum(axis=0)
            if not was_known:
                del self.matches[key]  # only the sums are used again
            if not here.any():
                here = self._zeros
            totals = self._counts[key] = PodCounts(here, value_of, keep)
            self._counts_of.setdefault(scope, []).append(totals)
            self._counting.clear()
        return totals

    def counts_once(self, keep: object, value_of: Callable[[Pod], int], scope: Scope | None) -> PodCounts:
        """Return the number of Pods on each node as `counts` does, but do not cache it."""
        charge(self.kind.size // VECTOR)
        per_kind = PerClass(self.kinds, value_of, scope).values()
        return PodCounts(per_kind[self.kind].sum(axis=0), value_of, keep)

    def counted(self, key: Hashable) -> PodCounts | None:
        """Return the numbers of Pods on each node that are cached under this key, or None."""
        return self._counts.get(key)

    def _forget_counts(self) -> None:
        for table in (self._counts, self._counts_of, self._counting):
            table.clear()

    def _count(self, row: int, kind: int, number: int) -> int:
        """Add Pods of a class on a node; a negative `number` removes them. Return the number of matched selectors."""
        counting, matched = self._counting.get(kind), 0
        if counting is None:
            pod = self.kinds.members[kind]
            scopes = (None, *scopes_of(pod)) if pod is not None else ()
            every = [counts for scope in scopes for counts in self._counts_of.get(scope, ())]
            amounts = [] if pod is None else [(counts, counts.of(pod)) for counts in every]
            counting = self._counting[kind] = [(counts, amount) for counts, amount in amounts if amount]
            matched = len(every)
        for counts, amount in counting:
            counts.add(row, number * amount)
        return matched

    def scores(self, key: Hashable) -> tuple[Ints, Ints]:
        """Return ([node], cached scores; [node], the serials of the scored states, -1 for none), to be updated.

        `key`: what scores depend on, besides the node and its Pods.
        """
        most = cache_size(_CACHED_SUMS, len(self.serials))
        return cached_in(self._scores, key, lambda: (np.zeros_like(self.serials), np.full_like(self.serials, -1)), most)

    def present(self, per_kind: Ints) -> Ints:
        """Return [node]: the sum of `per_kind` ([class], small numbers) over the Pods of the node."""
        charge(self.kind.size // VECTOR)
        total: Ints = per_kind.astype(np.int16)[self.kind].sum(axis=0, dtype=np.int64)
        return total


def _read_only_zeros(count: int) -> Ints:
    zeros = np.zeros(count, np.int64)
    zeros.flags.writeable = False
    return zeros


def cache_size(least: int, size: int) -> int:
    """Return the maximum number of cached tables with `size` entries each; at least `least`."""
    return min(max(least, _CACHED_NUMBERS // max(size, 1)), _MAX_CACHED)


def pod_matrix_of(snapshot: Snapshot) -> PodMatrix:
    """Return the tables of a Snapshot, up to date. Raises CutShort.

    Hold `snapshot.derived.locked()` during the call and while you use the result.
    """
    derived = snapshot.derived
    if derived.matrix is None:
        derived.matrix = PodMatrix(len(snapshot.node_infos), snapshot.semantics)
    matrix: PodMatrix = derived.matrix
    matrix.sync(snapshot)
    return matrix


def pods_of_template(snapshot: Snapshot, like: Pod) -> list[Pod]:
    """Return the Pods on nodes that share the spec and namespace of a Pod. Raises CutShort."""
    with snapshot.derived.locked():
        matrix = pod_matrix_of(snapshot)
        numbers = matrix.kinds.classes_in_scope((like.namespace,))
        charge(len(numbers) // 4 + matrix.kind.size // VECTOR)
        pods = [(number, matrix.kinds.members[number]) for number in numbers]
        kinds = [number for number, pod in pods if pod is not None and pod.spec is like.spec]
        rows = np.flatnonzero(np.isin(matrix.kind, kinds).any(axis=0)).tolist()
    pods_there = (pod for row in rows for pod in snapshot.node_infos[row].pods)
    return [pod for pod in pods_there if pod.spec is like.spec and pod.namespace == like.namespace]
