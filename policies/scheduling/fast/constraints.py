"""Constraints beside resources, as if they were resources: amounts of pods, and a limit for every node.

Valid because each of them only gets harder with every pod that stays on the node, so that "amount ≤ limit" says it all:
anti-affinity and host ports have the limit 0; for a spread constraint the counts of all other domains stand still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from policies.metering import VECTOR, charge, each
from policies.objects.taints import untolerated_taint
from policies.scheduling.fast.kinds import PerKind
from policies.scheduling.plugins.inter_pod_affinity import NO_LABELS, merge_namespaces
from policies.scheduling.plugins.node_ports import WantedPorts
from policies.scheduling.plugins.pod_topology_spread import do_not_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from numpy.typing import NDArray

    from policies.objects.node import Node
    from policies.objects.pod import Pod
    from policies.objects.pod_affinity import AffinityTerm
    from policies.objects.topology_spread import TopologySpreadConstraint
    from policies.scheduling.fast.tables import Tables
    from policies.scheduling.snapshot import Snapshot

KEPT: Final = 64
_MOST_HITS: Final = 100
"""Terms of one pod that count: one is enough to keep another away."""
_MAX_INT32: Final = 2**31 - 1


class NotValid(Exception):
    """The question is none for a fast path."""


class Skew(NamedTuple):
    """A spread constraint: no domain may have more than `most` pods above the least one; `few` domains: above none."""

    most: int
    few: bool
    domains: NDArray[np.int64]


class Constraint(NamedTuple):
    """`per_kind`: what a pod of each kind counts, on the nodes that are `concerned`; on `counts` are such pods.
    `present`: the count of every node now, pods elsewhere included. `possible`: nodes not out of the question.
    `domains`: a number for every node (-1: none); one pod that counts shuts all nodes of its number. `skew`: instead of
    that, where pods are spread."""

    per_kind: NDArray[np.int64]
    concerned: NDArray[np.bool_]
    counts: NDArray[np.intp]
    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    possible: NDArray[np.bool_] | None = None
    domains: NDArray[np.int64] | None = None
    skew: Skew | None = None


def constraints_of(pod: Pod, tables: Tables, snapshot: Snapshot) -> list[Constraint]:
    """Everything beside resources that pods on nodes decide. Raises NotValid: affinity, volumes, what is unreadable."""
    spec = pod.spec
    affinity = spec.pod_affinity
    if affinity.errors or affinity.required_affinity or spec.required_features:
        raise NotValid
    if any(v.claim_name is not None or v.ephemeral or v.disk or v.migrated for v in spec.volumes):
        raise NotValid
    found = list(_anti_affinity(pod, tables, snapshot))
    found += _spread(pod, tables)
    if spec.host_ports:
        found.append(_ports(pod, tables, snapshot))
    return found


def _kept(tables: Tables, key: Hashable, keep: object, of: Callable[[Pod], int]) -> NDArray[np.int64]:
    """A number of every kind that depends on `key` alone; `keep` is what the key names by identity."""
    found = tables.matches.get(key)
    if found is None:
        if len(tables.matches) >= KEPT:
            tables.matches.clear()
        found = tables.matches[key] = (PerKind(tables.kinds, of), keep)
    return found[0].values()


def _present(tables: Tables, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum over the pods of every node."""
    charge(tables.kind.size // VECTOR)
    if not per_kind.any():
        return np.zeros(tables.kind.shape[1], np.int64)
    total: NDArray[np.int64] = per_kind.astype(np.int16)[tables.kind].sum(axis=0, dtype=np.int64)
    return total


def _anti_affinity(pod: Pod, tables: Tables, snapshot: Snapshot) -> Iterator[Constraint]:
    """The pod's own, and that of pods on nodes, one for each topology. Source: upstream `interpodaffinity`."""
    own = tuple(merge_namespaces(t, snapshot) for t in pod.spec.pod_affinity.required_anti_affinity)
    known = _kinds_with_anti_affinity(tables)
    if not own and not known:
        return
    about = pod.namespace, id(pod.labels), id(pod.spec), id(snapshot.objects.namespaces)
    keep = pod.labels, pod.spec, snapshot.objects.namespaces
    theirs = _against(pod, tables, snapshot) if known else {}
    found = []
    for key in dict.fromkeys([*(t.topology_key for t in own), *theirs]):
        if key not in tables.nodes.keys:
            continue  # no node is in such a topology
        charge(1 + len(own) // 8)
        terms = [t for t in own if t.topology_key == key]

        def hits(other: Pod, terms: list[AffinityTerm] = terms) -> int:
            return sum(t.matches(pod.namespace, other.namespace, other.labels, NO_LABELS) for t in each(terms, 1))

        per_kind = np.zeros(len(tables.kinds), np.int64)
        if terms:
            per_kind += _kept(tables, ("anti-affinity", *about, key), keep, hits)[: len(per_kind)]
        for kind, count in theirs.get(key, {}).items():
            per_kind[kind] += count
        np.minimum(per_kind, _MOST_HITS, out=per_kind)
        if per_kind.any():
            topology = tables.nodes.topology(key)
            here = _present(tables, per_kind)
            present, none = topology.sums(here), np.zeros(len(here), np.int64)
            counts = np.flatnonzero(topology.present & (here > 0))
            found.append(Constraint(per_kind, topology.present, counts, present, none, domains=topology.values))
    # Without terms of its own, and nobody's that matches, upstream skips the plugin, for nominated pods too.
    if own or any(constraint.present.any() for constraint in found):
        yield from found


def _kinds_with_anti_affinity(tables: Tables) -> list[int]:
    """The kinds of pods that have required anti-affinity."""
    members = tables.kinds.members
    for number in range(tables.anti_affinity_known, len(members)):
        pod = members[number]
        assert pod is not None
        if pod.spec.pod_affinity.required_anti_affinity:
            tables.anti_affinity_kinds.append(number)
    tables.anti_affinity_known = len(members)
    return tables.anti_affinity_kinds


class Against:
    """What other pods' required anti-affinity has against one: topology -> kind -> number of terms.

    Worked out once for a kind, term by term: whoever has a thousand terms must not cost others a thousand times that.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        self.keys, self.by_key = keys, dict[str, dict[int, int]]()
        self._known = 0

    def learn(self, pod: Pod, tables: Tables, namespace_labels: Mapping[str, str]) -> None:
        """Look at the kinds that have come since."""
        for number in tables.anti_affinity_kinds[self._known :]:
            other = tables.kinds.members[number]
            assert other is not None
            hits: dict[str, int] = {}
            for term in each(other.spec.pod_affinity.required_anti_affinity, 0.7):
                if term.topology_key in self.keys and term.matches(
                    other.namespace, pod.namespace, pod.labels, namespace_labels
                ):
                    hits[term.topology_key] = hits.get(term.topology_key, 0) + 1
            charge(1)
            for key, count in hits.items():
                self.by_key.setdefault(key, {})[number] = count
            self._known += 1


def _against(pod: Pod, tables: Tables, snapshot: Snapshot) -> Mapping[str, Mapping[int, int]]:
    """What pods on nodes have against this one, by topology."""
    key = pod.namespace, id(pod.labels), id(snapshot.objects.namespaces)
    found, _ = tables.against.get(key, (None, None))
    if found is None or found.keys is not tables.nodes.keys:
        if len(tables.against) >= KEPT:
            tables.against.clear()
        found = Against(tables.nodes.keys)
        tables.against[key] = found, (pod.labels, snapshot.objects.namespaces)
    found.learn(pod, tables, snapshot.namespace_labels(pod.namespace))
    return found.by_key


def _spread(pod: Pod, tables: Tables) -> Iterator[Constraint]:
    """DoNotSchedule constraints. Source: upstream `podtopologyspread`."""
    if any(c.error and c.when_unsatisfiable == "DoNotSchedule" for c in pod.spec.topology_spread):
        raise NotValid
    constraints = do_not_schedule(pod)
    possible = None
    for number, constraint in enumerate(constraints):
        if constraint.max_skew < 1:
            raise NotValid
        if possible is None:
            possible = np.logical_and.reduce([tables.nodes.topology(c.topology_key).present for c in constraints])
        yield _spread_constraint(pod, tables, number, constraint, possible)


def _spread_constraint(
    pod: Pod, tables: Tables, number: int, constraint: TopologySpreadConstraint, possible: NDArray[np.bool_]
) -> Constraint:
    """Upstream's count leaves out terminating pods and empty selectors; its AddPod and RemovePod do not."""
    empty = constraint.selector is None or constraint.selector.empty

    def changes(other: Pod) -> int:
        return other.namespace == pod.namespace and constraint.matches(other.labels)

    def counted(other: Pod) -> int:
        return not empty and not other.terminating and changes(other)

    about = pod.namespace, id(pod.labels), id(pod.spec), number
    keep = pod.labels, pod.spec
    per_kind = _kept(tables, ("spread", *about), keep, changes)
    included = possible & _included(constraint, pod, tables)
    of_counted = _kept(tables, ("counted", *about), keep, counted)
    changing = _present(tables, per_kind)
    same = np.array_equal(per_kind[: len(tables.kinds)], of_counted[: len(tables.kinds)])
    topology = tables.nodes.topology(constraint.topology_key)
    present = topology.sums(np.where(included, changing if same else _present(tables, of_counted), 0))
    others, domains = _least_elsewhere(topology.values, included, present, len(topology))
    least = others if domains >= constraint.min_domains else np.zeros(len(present), np.int64)
    limit = least + (constraint.max_skew - constraint.matches(pod.labels))
    # What an empty selector matches is never counted, but moves a count that is there.
    skew = None if empty else Skew(constraint.max_skew, domains < constraint.min_domains, topology.values)
    counts = np.flatnonzero(included & (changing > 0))
    return Constraint(per_kind, included, counts, present, limit, possible, skew=skew)


def matching_kinds(pod: Pod, constraint: TopologySpreadConstraint, tables: Tables) -> NDArray[np.int64]:
    """Of every kind whether its pods count for the defaults of a pod that spreads by its controller's selector."""

    def counted(other: Pod) -> int:
        return other.namespace == pod.namespace and not other.terminating and constraint.matches(other.labels)

    return _kept(tables, ("defaults", pod.namespace, constraint.selector), constraint.selector, counted)


def included_nodes(constraint: TopologySpreadConstraint, pod: Pod, tables: Tables) -> NDArray[np.bool_]:
    """The nodes that a constraint looks at."""
    return _included(constraint, pod, tables)


def _included(constraint: TopologySpreadConstraint, pod: Pod, tables: Tables) -> NDArray[np.bool_]:
    """Source: upstream `matchNodeInclusionPolicies`."""
    spec = pod.spec

    def included(node: Node) -> bool:
        if constraint.node_affinity_policy == "Honor" and not spec.node_affinity.matches(node.labels, node.name):
            return False
        return constraint.node_taints_policy != "Honor" or untolerated_taint(node.taints, spec.tolerations) is None

    policies = f"{constraint.node_affinity_policy} {constraint.node_taints_policy}"
    return tables.nodes.mask(policies, spec, included)


def _least_elsewhere(
    domain: NDArray[np.int64], included: NDArray[np.bool_], present: NDArray[np.int64], values: int
) -> tuple[NDArray[np.int64], int]:
    """(for every node the least count of the other domains, the number of domains)."""
    by_value = np.full(values + 1, _MAX_INT32, np.int64)
    by_value[domain[included]] = present[included]
    domains = int(np.count_nonzero(by_value != _MAX_INT32))
    if not domains:
        return np.full(len(domain), _MAX_INT32, np.int64), 0
    first, next_one = np.argpartition(by_value, 1)[:2]
    if by_value[next_one] < by_value[first]:
        first, next_one = next_one, first
    second = by_value[next_one]
    return np.where(domain == first, second, by_value[first]), domains


def _ports(pod: Pod, tables: Tables, snapshot: Snapshot) -> Constraint:
    """Ports of the host. Raises NotValid where two pods of a node have one: the first that goes frees it upstream."""
    wanted = WantedPorts(pod.spec.host_ports)

    def taken(other: Pod) -> int:
        return wanted.conflicts(set(other.spec.host_ports))

    per_kind = _kept(tables, ("ports", id(pod.spec)), pod.spec, taken)
    present = _present(tables, per_kind)
    for row in np.flatnonzero(present > 1).tolist():
        info = snapshot.node_infos[row]
        if wanted.conflicts(info.used_ports) != present[row]:
            raise NotValid
    everywhere, none = np.ones(len(present), np.bool_), np.zeros(len(present), np.int64)
    here = np.arange(len(present))
    return Constraint(per_kind, everywhere, np.flatnonzero(present), present, none, domains=here)
