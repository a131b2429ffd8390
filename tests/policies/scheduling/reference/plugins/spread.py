"""PodTopologySpread: filtering.go, scoring.go, common.go, and helper.DefaultSelector."""

import math
from dataclasses import dataclass
from typing import Any

from tests.policies.scheduling.reference.framework import CannotAnswer, Plugin
from tests.policies.scheduling.reference.node_info import Cluster, NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import (
    SKIP,
    SUCCESS,
    Obj,
    Status,
    controller_of,
    labels,
    namespace,
    spec,
    terminating,
    unresolvable,
    unschedulable,
)
from tests.policies.scheduling.reference.selectors import (
    InvalidSelector,
    Selector,
    from_set,
    has_untolerated_taint,
    label_selector,
    required_node_affinity_matches,
)

HOSTNAME = "kubernetes.io/hostname"
MISMATCH = "node(s) didn't match pod topology spread constraints"
MAX_INT32 = 2**31 - 1
SYSTEM_DEFAULTS: list[Obj] = [
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 3},
    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 5},
]


@dataclass
class Constraint:
    """topologySpreadConstraint."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def counts_node(self, pod: Obj, node: Obj) -> bool:
        """matchNodeInclusionPolicies."""
        if self.honor_affinity and not required_node_affinity_matches(pod, node):
            return False
        return not (self.honor_taints and has_untolerated_taint(node, pod))


def constraints_of(given: list[Obj] | None, pod: Obj, action: str) -> list[Constraint]:
    """filterTopologySpreadConstraints."""
    result = []
    for c in given or []:
        if c["whenUnsatisfiable"] != action:
            continue
        try:
            selector = label_selector(c.get("labelSelector"))
        except InvalidSelector as e:
            raise CannotAnswer(f"topology spread constraint: {e}") from e
        own = {key: labels(pod)[key] for key in c.get("matchLabelKeys") or [] if key in labels(pod)}
        if own and selector.requirements is not None:
            selector = Selector((from_set(own).requirements or ()) + selector.requirements)
        minimum = c.get("minDomains")
        result.append(
            Constraint(
                c["maxSkew"],
                c["topologyKey"],
                selector,
                1 if minimum is None else minimum,
                c.get("nodeAffinityPolicy", "Honor") == "Honor",
                c.get("nodeTaintsPolicy", "Ignore") == "Honor",
            )
        )
    return result


def has_all_keys(node: Obj, constraints: list[Constraint]) -> bool:
    return all(c.topology_key in labels(node) for c in constraints)


def count_pods(pods: list[PodInfo], selector: Selector, of_namespace: str) -> int:
    """countPodsMatchSelector: not terminating ones, and none for an empty selector."""
    if selector.empty:
        return 0
    return sum(
        not terminating(p.pod) and namespace(p.pod) == of_namespace and selector.matches(labels(p.pod)) for p in pods
    )


class CriticalPaths:
    """criticalPaths: the two smallest counts, as (topology value, count)."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, int]] = [("", MAX_INT32), ("", MAX_INT32)]

    def update(self, value: str, count: int) -> None:
        p = self.paths
        if value in (p[0][0], p[1][0]):
            p[0 if value == p[0][0] else 1] = (value, count)
            if p[0][1] > p[1][1]:
                p.reverse()
        elif count < p[0][1]:
            self.paths = [(value, count), p[0]]
        elif count < p[1][1]:
            p[1] = (value, count)


class SpreadState:
    """preFilterState: by constraint, the count of each topology value and the critical paths."""

    def __init__(self, constraints: list[Constraint]):
        self.constraints = constraints
        self.counts: list[dict[str, int]] = [{} for _ in constraints]
        self.critical = [CriticalPaths() for _ in constraints]

    def __copy__(self) -> "SpreadState":
        made = SpreadState(self.constraints)
        made.counts = [dict(counts) for counts in self.counts]
        for mine, theirs in zip(made.critical, self.critical, strict=True):
            mine.paths = list(theirs.paths)
        return made

    def minimum(self, i: int) -> int:
        if len(self.counts[i]) < self.constraints[i].min_domains:
            return 0
        return self.critical[i].paths[0][1]


@dataclass
class SpreadScores:
    """preScoreState."""

    constraints: list[Constraint]
    ignored: set[str]
    counts: list[dict[str, int]]
    weights: list[float]


class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
    weight = 2

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        constraints = constraints_of(spec(pod.pod).get("topologySpreadConstraints"), pod.pod, "DoNotSchedule")
        if not constraints:
            return SKIP, None
        state = SpreadState(constraints)
        for node in self.cluster.nodes:
            if not has_all_keys(node.node, constraints):
                continue
            for i, c in enumerate(constraints):
                if c.counts_node(pod.pod, node.node):
                    value = labels(node.node)[c.topology_key]
                    count = count_pods(node.pods, c.selector, namespace(pod.pod))
                    state.counts[i][value] = state.counts[i].get(value, 0) + count
        for counts, critical in zip(state.counts, state.critical, strict=True):
            for value, count in counts.items():
                critical.update(value, count)
        self._preemptor = pod.pod
        return SUCCESS, state

    def update_state(self, state: Any, other: PodInfo, node: Obj, sign: int) -> None:
        # Neither a terminating pod nor an empty selector is left out here.
        if namespace(other.pod) != namespace(self._preemptor) or not has_all_keys(node, state.constraints):
            return
        for i, c in enumerate(state.constraints):
            if c.selector.matches(labels(other.pod)) and c.counts_node(self._preemptor, node):
                value = labels(node)[c.topology_key]
                state.counts[i][value] = state.counts[i].get(value, 0) + sign
                state.critical[i].update(value, state.counts[i][value])

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        for i, c in enumerate(state.constraints):
            value = labels(node.node).get(c.topology_key)
            if value is None:
                return unresolvable(f"{MISMATCH} (missing required label)")
            own = 1 if c.selector.matches(labels(pod.pod)) else 0
            if state.counts[i].get(value, 0) + own - state.minimum(i) > c.max_skew:
                return unschedulable(MISMATCH)
        return SUCCESS

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        given = spec(pod.pod).get("topologySpreadConstraints")
        if given:
            constraints = constraints_of(given, pod.pod, "ScheduleAnyway")
        else:
            constraints = default_constraints(self.cluster, pod.pod)
        if not constraints:
            return SKIP, None
        state = self._topologies(constraints, nodes, require_all=bool(given))
        for node in self.cluster.nodes:
            if given and not has_all_keys(node.node, constraints):
                continue
            for i, c in enumerate(constraints):
                value = labels(node.node).get(c.topology_key, "")
                if c.counts_node(pod.pod, node.node) and value in state.counts[i]:
                    state.counts[i][value] += count_pods(node.pods, c.selector, namespace(pod.pod))
        return SUCCESS, state

    def _topologies(self, constraints: list[Constraint], nodes: list[NodeInfo], *, require_all: bool) -> SpreadScores:
        """initPreScoreState."""
        ignored: set[str] = set()
        counts: list[dict[str, int]] = [{} for _ in constraints]
        for node in nodes:
            if require_all and not has_all_keys(node.node, constraints):
                ignored.add(node.name)
                continue
            for i, c in enumerate(constraints):
                if c.topology_key != HOSTNAME:
                    counts[i][labels(node.node).get(c.topology_key, "")] = 0
        weights = []
        for c, found in zip(constraints, counts, strict=True):
            size = len(nodes) - len(ignored) if c.topology_key == HOSTNAME else len(found)
            weights.append(math.log(float(size + 2)))
        return SpreadScores(constraints, ignored, counts, weights)

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        if node.name in state.ignored:
            return 0
        total = 0.0
        for i, c in enumerate(state.constraints):
            value = labels(node.node).get(c.topology_key)
            if value is None:
                continue
            if c.topology_key == HOSTNAME:
                count = count_pods(node.pods, c.selector, namespace(pod.pod))
            else:
                count = state.counts[i][value]
            total += float(count) * state.weights[i] + float(c.max_skew - 1)
        return math.floor(total + 0.5)

    def normalize(self, state: Any, scores: dict[str, int]) -> dict[str, int]:
        counted = {name: score for name, score in scores.items() if name not in state.ignored}
        lowest = min(counted.values(), default=2**63 - 1)
        highest = max([0, *counted.values()])
        result = {}
        for node, score in scores.items():
            if node in state.ignored:
                result[node] = 0
            elif highest == 0:
                result[node] = 100
            else:
                result[node] = 100 * (highest + lowest - score) // highest
        return result


def default_constraints(cluster: Cluster, pod: Obj) -> list[Constraint]:
    """buildDefaultConstraints with the system's defaults."""
    selector = default_selector(cluster, pod)
    if selector.empty:
        return []
    constraints = constraints_of(SYSTEM_DEFAULTS, pod, "ScheduleAnyway")
    for c in constraints:
        c.selector = selector
    return constraints


def default_selector(cluster: Cluster, pod: Obj) -> Selector:
    """helper.DefaultSelector: what services and the controller of the pod select."""
    chosen: dict[str, str] = {}
    for service in cluster.services:
        wanted = spec(service).get("selector")
        if namespace(service) == namespace(pod) and wanted is not None and from_set(wanted).matches(labels(pod)):
            chosen.update(wanted)
    selector = from_set(chosen)
    owner = controller_of(pod)
    if owner is None:
        return selector
    owners = cluster.owners.get(f"{owner.get('apiVersion')}/{owner.get('kind')}", {})
    found = owners.get(f"{namespace(pod)}/{owner.get('name')}")
    if found is None:
        return selector
    if owner.get("kind") == "ReplicationController":
        return from_set({**chosen, **(spec(found).get("selector") or {})})
    try:
        other = label_selector(spec(found).get("selector")).requirements
    except InvalidSelector:
        return selector
    return selector if other is None else Selector((selector.requirements or ()) + other)
