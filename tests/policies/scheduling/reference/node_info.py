"""framework.NodeInfo and PodInfo, and everything else of a case that plugins list."""

from dataclasses import dataclass, field

from tests.policies.scheduling.reference.objects import (
    Obj,
    affinity,
    annotations,
    containers,
    init_containers,
    key,
    labels,
    name,
    namespace,
    priority,
    restartable,
    spec,
    status,
    uid,
    volumes,
)
from tests.policies.scheduling.reference.resources import (
    Options,
    Resource,
    non_zero_requests,
    pod_requests,
    resource_list,
)
from tests.policies.scheduling.reference.selectors import InvalidSelector, Selector, label_selector

ON_NODE = Options(use_status=True, resize_pod_level=True)
# InterPodAffinityArgs.hardPodAffinityWeight: what a required term of a pod that is there counts when scoring.
HARD_POD_AFFINITY_WEIGHT = 1


@dataclass
class AffinityTerm:
    """fwk.AffinityTerm, with the weight it has when scoring."""

    namespaces: set[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector
    weight: int

    def matches(self, pod: Obj, namespace_labels: dict[str, str] | None) -> bool:
        if namespace(pod) in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels(pod))
        return False


def affinity_terms(pod: Obj, kind: str, strength: str) -> list[AffinityTerm]:
    """The parsed terms; InvalidSelector where one does not parse."""
    terms = []
    for given in affinity(pod, kind, strength) or []:
        term = given["podAffinityTerm"] if strength == "preferred" else given
        names = set(term.get("namespaces") or [])
        if not names and term.get("namespaceSelector") is None:
            names = {namespace(pod)}
        terms.append(
            AffinityTerm(
                names,
                label_selector(term.get("labelSelector")),
                term.get("topologyKey", ""),
                label_selector(term.get("namespaceSelector")),
                given.get("weight", 0) if strength == "preferred" else HARD_POD_AFFINITY_WEIGHT,
            )
        )
    return terms


def host_ports(pod: Obj) -> list[tuple[str, str, int]]:
    """schedutil.GetHostPorts: address, protocol and port, with the defaults of HostPortInfo.sanitize."""
    found = []
    for container in [c for c in init_containers(pod) if restartable(c)] + containers(pod):
        found += [
            (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
            for port in container.get("ports") or []
            if port.get("hostPort", 0) > 0
        ]
    return found


class PodInfo:
    """A pod with what NodeInfo adds up and with its parsed (anti-)affinity terms."""

    def __init__(self, pod: Obj):
        self.pod = pod
        self.uid = uid(pod)
        self.key = key(pod)
        self.priority = priority(pod)
        requests = pod_requests(pod, ON_NODE)
        self.requests = Resource.of(requests)
        self.non_zero = non_zero_requests(pod, requests, ON_NODE)
        self.host_ports = host_ports(pod)
        self.claims = [
            f"{namespace(pod)}/{v['persistentVolumeClaim'].get('claimName', '')}"
            for v in volumes(pod)
            if v.get("persistentVolumeClaim") is not None
        ]
        self.parse_error = False
        self.required_affinity = self._terms("podAffinity", "required")
        self.required_anti_affinity = self._terms("podAntiAffinity", "required")
        self.preferred_affinity = self._terms("podAffinity", "preferred")
        self.preferred_anti_affinity = self._terms("podAntiAffinity", "preferred")
        given = spec(pod).get("affinity") or {}
        self.has_affinity = given.get("podAffinity") is not None or given.get("podAntiAffinity") is not None

    def _terms(self, kind: str, strength: str) -> list[AffinityTerm]:
        try:
            return affinity_terms(self.pod, kind, strength)
        except InvalidSelector:
            self.parse_error = True
            return []


class NodeInfo:
    """A node and the pods on it, in upstream's order: appended when added, the last put in the place of one removed."""

    def __init__(self, node: Obj):
        self.node = node
        self.name = name(node)
        self.pods: list[PodInfo] = []
        self.used_ports: set[tuple[str, str, int]] = set()
        self.requested = Resource()
        self.non_zero_requested = [0, 0]
        self.allocatable = Resource.of(resource_list(status(node).get("allocatable")))

    def add_pod(self, pod: PodInfo) -> None:
        self.pods.append(pod)
        self._update(pod, 1)
        self.used_ports.update(pod.host_ports)

    def remove_pod(self, pod: PodInfo) -> None:
        at = next(i for i, p in enumerate(self.pods) if p.uid == pod.uid)
        removed = self.pods[at]
        self.pods[at] = self.pods[-1]
        self.pods.pop()
        self._update(removed, -1)
        # A set, not a count: the port of a pod that stays is freed too.
        self.used_ports.difference_update(removed.host_ports)

    def _update(self, pod: PodInfo, sign: int) -> None:
        self.requested.add(pod.requests, sign)
        for i, value in enumerate(pod.non_zero):
            self.non_zero_requested[i] += sign * value

    def clone(self) -> "NodeInfo":
        copy = object.__new__(NodeInfo)
        copy.node, copy.name, copy.allocatable = self.node, self.name, self.allocatable
        copy.pods = list(self.pods)
        copy.used_ports = set(self.used_ports)
        copy.requested = self.requested.clone()
        copy.non_zero_requested = list(self.non_zero_requested)
        return copy


def by_key(objects: list[Obj] | None) -> dict[str, Obj]:
    return {key(obj): obj for obj in objects or []}


def by_name(objects: list[Obj] | None) -> dict[str, Obj]:
    return {name(obj): obj for obj in objects or []}


@dataclass
class Cluster:
    """What the scheduler knows: its snapshot, its nominator and the listers of its plugins."""

    nodes: list[NodeInfo]
    nominated: dict[str, list[PodInfo]]
    pdbs: list[Obj]
    namespaces: dict[str, Obj]
    claims: dict[str, Obj]
    volumes: dict[str, Obj]
    storage_classes: dict[str, Obj]
    csi_nodes: dict[str, Obj]
    csi_drivers: dict[str, Obj]
    storage_capacities: list[Obj]
    volume_attachments: list[Obj]
    services: list[Obj]
    owners: dict[str, dict[str, Obj]]
    used_claims: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, case: Obj) -> "Cluster":
        infos = {name(node): NodeInfo(node) for node in case.get("nodes") or []}
        nominated: dict[str, list[PodInfo]] = {}
        claims = by_key(case.get("pvcs"))
        for pod in case.get("pods") or []:
            if status(pod).get("phase") in ("Succeeded", "Failed"):
                continue
            at = spec(pod).get("nodeName") or being_bound_to(pod, claims)
            if at and at in infos:
                infos[at].add_pod(PodInfo(pod))
            elif not at and status(pod).get("nominatedNodeName"):
                nominated.setdefault(status(pod)["nominatedNodeName"], []).append(PodInfo(pod))
        return cls(
            nodes=list(infos.values()),
            nominated=nominated,
            pdbs=case.get("pdbs") or [],
            namespaces=by_name(case.get("namespaces")),
            claims=claims,
            volumes=by_name(case.get("pvs")),
            storage_classes=by_name(case.get("storageClasses")),
            csi_nodes=by_name(case.get("csiNodes")),
            csi_drivers=by_name(case.get("csiDrivers")),
            storage_capacities=case.get("csiStorageCapacities") or [],
            volume_attachments=case.get("volumeAttachments") or [],
            services=case.get("services") or [],
            owners={
                "v1/ReplicationController": by_key(case.get("replicationControllers")),
                "apps/v1/ReplicaSet": by_key(case.get("replicaSets")),
                "apps/v1/StatefulSet": by_key(case.get("statefulSets")),
            },
            used_claims={claim for info in infos.values() for pod in info.pods for claim in pod.claims},
        )

    def namespace_labels(self, of: str) -> dict[str, str] | None:
        """GetNamespaceLabelsSnapshot: an unknown namespace has no labels."""
        found = self.namespaces.get(of)
        return None if found is None else dict(labels(found))


def being_bound_to(pod: Obj, claims: dict[str, Obj]) -> str:
    """The node on which the scheduler holds a pod while its volumes are bound: WillPreBind, BindPodVolumes."""
    nominated = str(status(pod).get("nominatedNodeName") or "")
    for volume in volumes(pod):
        source = volume.get("persistentVolumeClaim")
        made = f"{name(pod)}-{volume['name']}" if volume.get("ephemeral") is not None else ""
        claim = claims.get(f"{namespace(pod)}/{made or (source or {}).get('claimName', '')}")
        if claim is None or (spec(claim).get("volumeName") and "pv.kubernetes.io/bind-completed" in annotations(claim)):
            continue
        if nominated and annotations(claim).get("volume.kubernetes.io/selected-node") == nominated:
            return nominated
    return ""
