"""Plugins that look at the node alone: names, taints, labels, host ports, images, declared features."""

from typing import Any

from tests.policies.scheduling.reference.framework import CannotAnswer, Plugin, default_normalize_score
from tests.policies.scheduling.reference.node_info import NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import (
    SKIP,
    SUCCESS,
    Obj,
    Status,
    affinity,
    containers,
    init_containers,
    spec,
    status,
    unresolvable,
    unschedulable,
    volumes,
)
from tests.policies.scheduling.reference.selectors import (
    InvalidSelector,
    has_untolerated_taint,
    required_node_affinity_matches,
    term_matches,
    tolerated,
)


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if spec(node.node).get("unschedulable") and not tolerated(spec(pod.pod).get("tolerations"), taint):
            return unresolvable("node(s) were unschedulable")
        return SUCCESS


class NodeName(Plugin):
    name = "NodeName"

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        wanted = spec(pod.pod).get("nodeName")
        if wanted and wanted != node.name:
            return unresolvable("node(s) didn't match the requested node name")
        return SUCCESS


class TaintToleration(Plugin):
    name = "TaintToleration"
    weight = 3

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        if has_untolerated_taint(node.node, pod.pod):
            return unresolvable("node(s) had untolerated taint(s)")
        return SUCCESS

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        given = spec(pod.pod).get("tolerations") or []
        return SUCCESS, [t for t in given if not t.get("effect") or t["effect"] == "PreferNoSchedule"]

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        taints = spec(node.node).get("taints") or []
        return sum(t.get("effect") == "PreferNoSchedule" and not tolerated(state, t) for t in taints)

    def normalize(self, state: Any, scores: dict[str, int]) -> dict[str, int]:
        return default_normalize_score(scores, reverse=True)


class NodeAffinity(Plugin):
    name = "NodeAffinity"
    weight = 2

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        if _required(pod.pod) is None and spec(pod.pod).get("nodeSelector") is None:
            return SKIP, None
        if self.node_names(pod) == set():
            return unresolvable("pod affinity terms conflict"), None
        return SUCCESS, None

    def node_names(self, pod: PodInfo) -> set[str] | None:
        names: set[str] = set()
        terms = (_required(pod.pod) or {}).get("nodeSelectorTerms") or []
        for term in terms:
            of_term: set[str] | None = None
            for field in term.get("matchFields") or []:
                if field["key"] == "metadata.name" and field["operator"] == "In":
                    values = set(field.get("values") or [])
                    of_term = values if of_term is None else of_term & values
            if of_term is None:
                return None
            names |= of_term
        return names if terms else None

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        if not required_node_affinity_matches(pod.pod, node.node):
            return unresolvable("node(s) didn't match Pod's node affinity/selector")
        return SUCCESS

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        terms = affinity(pod.pod, "nodeAffinity", "preferred")
        return (SKIP, None) if terms is None else (SUCCESS, terms)

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        total = 0
        for term in state:
            try:
                if term.get("weight", 0) and term_matches(term.get("preference") or {}, node.node):
                    total += term["weight"]
            except InvalidSelector as e:
                raise CannotAnswer(f"a preferred node affinity term does not parse: {e}") from e
        return total

    def normalize(self, state: Any, scores: dict[str, int]) -> dict[str, int]:
        return default_normalize_score(scores, reverse=False)


def _required(pod: Obj) -> Obj | None:
    given = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    return given.get("requiredDuringSchedulingIgnoredDuringExecution")


class NodePorts(Plugin):
    name = "NodePorts"

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        return (SUCCESS, None) if pod.host_ports else (SKIP, None)

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        for address, protocol, port in pod.host_ports:
            for used_address, used_protocol, used_port in node.used_ports:
                same = (protocol, port) == (used_protocol, used_port)
                if same and (address == used_address or "0.0.0.0" in (address, used_address)):
                    return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return SUCCESS


class ImageLocality(Plugin):
    name = "ImageLocality"
    weight = 1

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        wanted = [c.get("image", "") for c in init_containers(pod.pod) + containers(pod.pod)]
        threshold = 1000 * 1024 * 1024 * len(wanted)
        lowest = 23 * 1024 * 1024
        wanted += [v["image"].get("reference", "") for v in volumes(pod.pod) if v.get("image") is not None]
        total = sum(self._image_score(_normalized(image), node) for image in wanted)
        return 100 * (max(lowest, min(total, threshold)) - lowest) // (threshold - lowest)

    def _image_score(self, image: str, node: NodeInfo) -> int:
        size: int | None = None
        for found in status(node.node).get("images") or []:
            if image in (found.get("names") or []):
                size = self._first_size(image)
                break
        if size is None:
            return 0
        everywhere = sum(
            any(image in (found.get("names") or []) for found in status(n.node).get("images") or [])
            for n in self.cluster.nodes
        )
        return int(float(size) * (float(everywhere) / float(len(self.cluster.nodes))))

    def _first_size(self, image: str) -> int:
        """The cache keeps the size that the first node told it."""
        for node in self.cluster.nodes:
            for found in status(node.node).get("images") or []:
                if image in (found.get("names") or []):
                    return int(found.get("sizeBytes", 0))
        return 0


def _normalized(image: str) -> str:
    return f"{image}:latest" if image.rfind(":") <= image.rfind("/") else image


class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        wanted = set()
        rules = [r for c in init_containers(pod.pod) + containers(pod.pod) for r in c.get("restartPolicyRules") or []]
        if any(r.get("action") == "RestartAllContainers" for r in rules):
            wanted.add("RestartAllContainersOnContainerExits")
        if spec(pod.pod).get("hostNetwork") and spec(pod.pod).get("hostUsers") is False:
            wanted.add("UserNamespacesHostNetworkSupport")
        return (SUCCESS, wanted) if wanted else (SKIP, None)

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        if state <= set(status(node.node).get("declaredFeatures") or []):
            return SUCCESS
        return unresolvable("node(s) didn't match Pod's required features")
