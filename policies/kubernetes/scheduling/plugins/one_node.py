"""Plugins that compare a Pod with one node, without the Pods of other nodes: NodeName, NodeUnschedulable,
NodeDeclaredFeatures, NodeAffinity, TaintToleration, NodePorts and ImageLocality.

Source: upstream `plugins/nodename`, `plugins/nodeunschedulable`, `plugins/nodedeclaredfeatures`,
`plugins/nodeaffinity`, `plugins/tainttoleration`, `plugins/nodeports`, `plugins/imagelocality`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.objects.node import (
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    Node,
    tolerations_tolerate_taint,
    untolerated_taint,
)
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    SKIP,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    StaticFilter,
    StaticFilterPlugin,
    Status,
    default_normalize_score,
    default_normalized,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.reasons import UNCORDON, Reason
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
    Constraint,
    NodeFit,
    Present,
    Rejections,
    rejected,
)
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import NodeTables, PodMatrix, allowed, matching
from forewarn.policies.kubernetes.scheduling.vectorized.scores import ScorePluginInColumns

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import NodeSelector, PreferredSchedulingTerm, Toleration
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod, PodSpec
    from forewarn.policies.kubernetes.scheduling.arguments import NodeAffinityArgs
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows


NAME_REASON: Final = unresolvable(
    Reason("node(s) didn't match the requested node name", "not the node that the Pod names")
)


class NodeName(Plugin, StaticFilterPlugin):
    """Rejects every node except the one in `spec.nodeName`."""

    name: ClassVar[str] = "NodeName"
    pre_filters_deferred_resizes: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        return None if fits(pod, node_info) else NAME_REASON

    def static_filter(self, pod: Pod) -> None:
        """Return None: all nodes pass, because the numpy implementation only gets Pods without `spec.nodeName`."""


def fits(pod: Pod, node_info: NodeInfo) -> bool:
    """Report whether the Pod names the node or no node. Source: upstream `Fits`, which the kubelet also calls."""
    return not pod.node_name or pod.node_name == node_info.name


FEATURES_REASON: Final = unresolvable(
    Reason("node(s) didn't match Pod's required features", "no feature there that the Pod requires")
)


class NodeDeclaredFeatures(Plugin, StaticFilterPlugin):
    """Rejects nodes without the features that the Pod needs in `status.declaredFeatures`."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    since: ClassVar[int] = 35
    needs_pre_filter: ClassVar[str] = f'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: {NOT_FOUND}'

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Find the features that the Pod needs. Upstream `PreFilter`."""
        state.data[self.name] = required = self._needed(pod)
        return PreFilterResult(status=None if required else SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node with missing features. Upstream `Filter`."""
        required: frozenset[str] = state.data[self.name]
        return None if required <= node_info.node.declared_features else FEATURES_REASON

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, regardless of its Pods; None if all nodes pass."""
        needed = self._needed(pod)
        return (lambda node: needed <= node.declared_features) if needed else None

    def _needed(self, pod: Pod) -> frozenset[str]:
        if not self.semantics.declared_features_are_checked:
            return frozenset()
        return pod.spec.required_features & self.semantics.schedulable_features


_IS_UNSCHEDULABLE: Final = attrgetter("unschedulable")
UNSCHEDULABLE_REASON: Final = unresolvable(Reason("node(s) were unschedulable", "cordoned", UNCORDON))


class NodeUnschedulable(Plugin, StaticFilterPlugin):
    """Rejects nodes with `spec.unschedulable`, unless the Pod tolerates the corresponding taint."""

    name: ClassVar[str] = "NodeUnschedulable"
    pre_filters_deferred_resizes: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a cordoned node. Upstream `Filter`."""
        if not node_info.node.unschedulable or tolerations_tolerate_taint(pod.spec.tolerations, UNSCHEDULABLE_TAINT):
            return None
        return UNSCHEDULABLE_REASON

    def static_filter(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the node passes, regardless of its Pods."""
        tolerations = pod.spec.tolerations
        return lambda node: not node.unschedulable or tolerations_tolerate_taint(tolerations, UNSCHEDULABLE_TAINT)

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter:
        return StaticFilter(self.static_filter(pod), _IS_UNSCHEDULABLE)


CHANGE_SELECTOR: Final = "change nodeSelector or nodeAffinity"
SELECTOR_REASON: Final = unresolvable(
    Reason(
        "node(s) didn't match Pod's node affinity/selector",
        "node selector or node affinity does not match",
        CHANGE_SELECTOR,
    )
)
ENFORCED: Final = unresolvable(
    Reason("node(s) didn't match scheduler-enforced node affinity", "node affinity of the profile does not match")
)
CONFLICT: Final = unresolvable("pod affinity terms conflict")


class NodeAffinity(Plugin, StaticFilterPlugin):
    """Rejects nodes that do not match the Pod's nodeSelector and required affinity; scores preferred terms.

    The profile's addedAffinity counts too, for every Pod.
    """

    name: ClassVar[str] = "NodeAffinity"
    args: NodeAffinityArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Return the nodes that the terms name, if all terms name nodes. Upstream `PreFilter`."""
        affinity = pod.spec.node_affinity
        if affinity.required is None and affinity.node_selector is None and self.args.required is None:
            return PreFilterResult(status=SKIP)
        names = named_nodes(affinity.required)
        if names is not None and not names:
            return PreFilterResult(status=CONFLICT)
        return PreFilterResult(names)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node that does not match. Upstream `Filter`."""
        added = self.args.required
        if added is not None and not added.matches(node_info.node.labels, node_info.name):
            return ENFORCED
        return None if pod.spec.node_affinity.matches(node_info.node.labels, node_info.name) else SELECTOR_REASON

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        return SKIP if pod.spec.node_affinity.preferred is None and self.args.preferred is None else None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        return preference(self._preferred(pod), node_info.node)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:  # noqa: ARG002
        default_normalize_score(scores, reverse=False)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        preferred = self._preferred(pod)
        if not preferred:
            return 0
        about = "preferred", self.args.preferred
        weights = matrix.nodes.values(about, pod.spec, partial(preference, preferred), int)
        return default_normalized(weights[rows], reverse=False)

    def _preferred(self, pod: Pod) -> Sequence[PreferredSchedulingTerm]:
        return *(self.args.preferred or ()), *(pod.spec.node_affinity.preferred or ())

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, regardless of its Pods; None if all nodes pass."""
        own, added = pod.spec.node_affinity, self.args.required
        if own.required is None and own.node_selector is None:
            return None if added is None else lambda node: added.matches(node.labels, node.name)
        if added is None:
            return lambda node: own.matches(node.labels, node.name)
        return lambda node: added.matches(node.labels, node.name) and own.matches(node.labels, node.name)

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter | None:
        """Return `static_filter` for all nodes at once."""
        passes = self.static_filter(pod)
        return None if passes is None else StaticFilter(passes, in_columns=partial(self._passing, pod))

    def _passing(self, pod: Pod, nodes: NodeTables) -> Mask:
        mask, added = allowed(nodes, pod.spec.node_affinity), self.args.required
        return mask if added is None else mask & matching(nodes, added, with_fields=True)


def preference(preferred: Sequence[PreferredSchedulingTerm], node: Node) -> int:
    return sum(p.weight for p in charging(preferred, 1) if p.term.matches(node.labels, node.name))


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the nodes that required terms name; None without terms, or if a term names no node."""
    if required is None or not required.terms:
        return None
    if any(term.names is None for term in charging(required.terms)):
        return None
    return frozenset(name for term in charging(required.terms, 2) for name in term.names or ())


ADD_TOLERATION: Final = "add a toleration"
TAINT_REASON: Final = unresolvable(Reason("node(s) had untolerated taint(s)", "untolerated taint", ADD_TOLERATION))


class TaintToleration(ScorePluginInColumns, StaticFilterPlugin):
    """Rejects nodes by untolerated NoSchedule and NoExecute taints; scores fewer PreferNoSchedule taints higher."""

    name: ClassVar[str] = "TaintToleration"
    pre_filters_deferred_resizes: ClassVar[bool] = True
    needs_pre_score: ClassVar[str] = f'failed to read "PreScoreTaintToleration" from cycleState: {NOT_FOUND}'

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node with an untolerated taint. Upstream `Filter`."""
        taints = node_info.node.taints
        return TAINT_REASON if taints and untolerated_taint(taints, pod.spec.tolerations) else None

    def static_filter(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the node passes, regardless of its Pods."""
        tolerations = pod.spec.tolerations
        return lambda node: not node.taints or untolerated_taint(node.taints, tolerations) is None

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter:
        """Return `static_filter` for all nodes at once, evaluated once for each set of taints."""
        return StaticFilter(self.static_filter(pod), in_columns=partial(self._passing, pod))

    def _passing(self, pod: Pod, nodes: NodeTables) -> Mask:
        passes, result = self.static_filter(pod), ~nodes.node_mask(Node.has_taints)
        taints, results = nodes.known_nodes(), dict[object, bool]()
        for row in charging(np.flatnonzero(~result).tolist(), 0.2):
            node = taints[row]
            if node.taints not in results:
                results[node.taints] = passes(node)
            result[row] = results[node.taints]
        return result

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        spec, nodes = pod.spec, matrix.nodes
        if (
            not nodes.anywhere(Node.has_prefer_no_schedule)
            or not nodes.node_mask(Node.has_prefer_no_schedule)[rows].any()
        ):
            return MAX_NODE_SCORE
        count = partial(untolerated_preferences, spec.tolerations)
        return default_normalized(nodes.values("avoided", spec, count, int)[rows], reverse=True)


def untolerated_preferences(tolerations: Sequence[Toleration], node: Node) -> int:
    """Return the number of PreferNoSchedule taints that the tolerations do not tolerate.

    Source: upstream `countIntolerableTaintsPreferNoSchedule`.
    """
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerations_tolerate_taint(tolerations, taint)
        for taint in node.taints
    )


PORTS_REASON: Final = unschedulable(
    Reason("node(s) didn't have free ports for the requested pod ports", "host port in use", of_pods=True)
)
ALL_ADDRESSES: Final = "0.0.0.0"


class NodePorts(Plugin, FilterInColumns):
    """Rejects nodes where a host port of the Pod is in use."""

    name: ClassVar[str] = "NodePorts"
    reads_one_node: ClassVar[bool] = True
    needs_pre_filter: ClassVar[str] = f'reading "PreFilterNodePorts" from cycleState: {NOT_FOUND}'

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Read the host ports of the Pod. Upstream `PreFilter`."""
        if not pod.spec.host_ports:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = WantedPorts(pod.spec.host_ports)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node with a port conflict. Upstream `Filter`."""
        wanted: WantedPorts = state.data[self.name]
        return PORTS_REASON if wanted.conflicts(node_info.used_ports) else None

    def in_columns(self, problem: NodeFit) -> None:
        """Add a constraint for the host ports to `problem`.

        Raises NotValid if two Pods of a node use one port: upstream frees the port when the first of the two Pods is
        removed.
        """
        spec = problem.pod.spec
        if not spec.host_ports:
            return
        wanted = WantedPorts(spec.host_ports)
        matrix = problem.matrix
        per_kind = matrix.cached(("ports", id(spec)), spec, lambda other: wanted.conflicts(set(other.spec.host_ports)))
        present = matrix.present(per_kind)
        for row in np.flatnonzero(present > 1).tolist():
            if wanted.conflicts(problem.snapshot.node_infos[row].used_ports) != present[row]:
                raise NotValid
        everywhere, none = np.ones(len(present), np.bool_), np.zeros(len(present), np.int64)
        here = np.arange(len(present))
        problem.add(Constraint(per_kind, everywhere, np.flatnonzero(present), present, none, domains=here))

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield the nodes on which a port is in use."""
        for demand in problem.added[self.name]:
            yield rejected(amounts.exceeded(demand), PORTS_REASON)


def ports_fit(pod: Pod, node_info: NodeInfo) -> bool:
    """Report whether the host ports of the Pod are free on the node. Source: upstream `Fits`, for the kubelet."""
    return not WantedPorts(pod.spec.host_ports).conflicts(node_info.used_ports)


class WantedPorts:
    """The host ports of a Pod, indexed for comparison. Source: kube-scheduler `HostPortInfo.CheckConflict`.

    The cost of a comparison grows with the ports in use on the node, not with the ports of the Pod.
    """

    def __init__(self, ports: Iterable[HostPort]) -> None:
        wanted = list(ports)
        self._ports = Counter(wanted)
        self._on_any_address = Counter((port.protocol, port.port) for port in wanted)

    def conflicts(self, used: Collection[HostPort]) -> int:
        """Return the number of conflicts: pairs of a requested port and one of the distinct used ports of a node."""
        charge(len(used) // 4)
        return sum(self._count_conflicts(port) for port in used)

    def _count_conflicts(self, used: HostPort) -> int:
        at_all = self._on_any_address.get((used.protocol, used.port), 0)
        if not at_all or used.ip == ALL_ADDRESSES:
            return at_all
        return self._ports[used] + self._ports[used._replace(ip=ALL_ADDRESSES)]


MIN_THRESHOLD: Final = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD: Final = 1000 * 1024 * 1024


class ImageLocality(Plugin):
    """Scores a node by the size of the Pod's images there, each scaled by the share of nodes that have it."""

    name: ClassVar[str] = "ImageLocality"

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Return 0 to 100 by the scaled size of the images. Upstream `Score`."""
        spec = pod.spec
        total = sum(self._scaled(name, node_info) for name in self._names(spec))
        mounted = len(_mounted(spec)) if self.semantics.image_volumes_raise_the_threshold else 0
        largest = MAX_CONTAINER_THRESHOLD * (spec.container_count + mounted)
        total = min(max(total, MIN_THRESHOLD), largest)
        return MAX_NODE_SCORE * (total - MIN_THRESHOLD) // (largest - MIN_THRESHOLD)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes, 0 without any of the images; see `Plugin.scores_in_columns`."""
        if not matrix.nodes.anywhere(Node.has_images):
            return 0
        names, state, infos = frozenset(self._names(pod.spec)), CycleState(), self.snapshot.node_infos
        scores = np.zeros(len(rows), np.int64)
        for place in np.flatnonzero(matrix.nodes.node_mask(Node.has_images)[rows]).tolist():
            info = infos[rows[place]]
            if not names.isdisjoint(info.node.images):
                scores[place] = self.score(state, pod, info)
        return scores

    def _names(self, spec: PodSpec) -> list[str]:
        mounted = _mounted(spec) if self.semantics.image_volumes_count_for_locality else ()
        names = (*spec.images, *mounted)
        return [name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names]

    def _scaled(self, name: str, node_info: NodeInfo) -> int:
        """Return the image's bytes times the share of nodes with it; 0 if absent. Upstream `scaledImageScore`."""
        if name not in node_info.node.images:
            return 0
        size, nodes = self.snapshot.image_states[name]
        return int(float(size) * (float(nodes) / float(len(self.snapshot.node_infos))))


def _mounted(spec: PodSpec) -> list[str]:
    return [volume.image for volume in spec.volumes if volume.image]
