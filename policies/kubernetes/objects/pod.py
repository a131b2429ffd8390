"""Pod, with the fields that rules and kube-scheduler read. Equal specs, most of all Pods, are decoded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from forewarn.policies.base.copies import Shared, replace, shared_labels
from forewarn.policies.base.metering import TooLarge, charge, limited
from forewarn.policies.kubernetes import selectors
from forewarn.policies.kubernetes.objects import pod_resources
from forewarn.policies.kubernetes.objects.extent import TooLargeToRetain, is_omitted
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    OBJECT,
    PREFERRED,
    REQUIRED,
    ApiObject,
    at,
    boolean,
    int32,
    items,
    list_at,
    mapping,
    sequence,
    string_map,
    strings,
    text,
    texts,
    timestamp,
    within,
)
from forewarn.policies.kubernetes.objects.node import (
    Node,
    NodeAffinity,
    Toleration,
    read_tolerations,
    untolerated_taint,
)
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY, Resource, as_resource, mask, to_nano
from forewarn.policies.kubernetes.objects.view import NAME, NAMESPACE, Namespaced, View, by
from forewarn.policies.kubernetes.objects.volumes import Volume, read_volumes

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.releases.semantics import Semantics


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """A topology spread constraint.

    `selector`: None (missing) matches no Pod. `error`: why the constraint is invalid, or "".
    """

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    selector: selectors.LabelSelector | None = None
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
    error: str = ""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.matches(labels)

    def includes(self, node: Node, spec: PodSpec) -> bool:
        """Report whether the constraint of a Pod with this spec counts the Pods on a node
        (`matchNodeInclusionPolicies`).
        """
        if self.node_affinity_policy == "Honor" and not spec.node_affinity.matches(node.labels, node.name):
            return False
        return self.node_taints_policy != "Honor" or untolerated_taint(node.taints, spec.tolerations) is None

    def counts_pods(self, semantics: Semantics) -> bool:
        """Report whether kube-scheduler counts Pods for the constraint. Up to 1.37, an empty selector counts no
        Pods.
        """
        return self.selector is not None and (semantics.empty_selectors_count or not self.selector.empty)


def read_topology_spread(pod: ApiObject) -> tuple[TopologySpreadConstraint, ...]:
    """Parse a Pod's `spec.topologySpreadConstraints`. Raises InvalidObject."""
    return tuple(_constraint(c) for c in items(pod, "spec", "topologySpreadConstraints"))


def _constraint(constraint: ApiObject) -> TopologySpreadConstraint:
    selector, error = selectors.selector_or_error(constraint.get("labelSelector"))
    min_domains = int32(constraint, "minDomains")
    return TopologySpreadConstraint(
        max_skew=int32(constraint, "maxSkew") or 0,
        topology_key=text(constraint, "topologyKey"),
        when_unsatisfiable=text(constraint, "whenUnsatisfiable"),
        selector=selector,
        min_domains=1 if min_domains is None else min_domains,
        node_affinity_policy=text(constraint, "nodeAffinityPolicy", default="Honor"),
        node_taints_policy=text(constraint, "nodeTaintsPolicy", default="Ignore"),
        match_label_keys=strings(constraint, "matchLabelKeys"),
        error=error,
    )


def _selector(obj: ApiObject) -> Mapping[str, str] | None:
    return None if at(obj, "spec", "selector") is None else string_map(obj, "spec", "selector")


@dataclass(frozen=True, slots=True)
class Service(View):
    """A stored Service. `selector`: None (missing) matches no Pod, an empty selector every Pod."""

    namespace: str = field(metadata=NAMESPACE)
    name: str = field(metadata=NAME)
    selector: Mapping[str, str] | None = field(metadata=by(_selector))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and all(labels.get(key) == value for key, value in self.selector.items())


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of Pod affinity. `namespaces`: None for the namespace of the Pod with the term.

    `selector`: None (missing) matches no Pod.
    """

    topology_key: str
    selector: selectors.LabelSelector | None
    namespaces: frozenset[str] | None
    namespace_selector: selectors.LabelSelector | None

    def matches(
        self, owner_namespace: str, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Report whether the term matches a Pod. Source: upstream `AffinityTerm.Matches`.

        `owner_namespace`: of the Pod with the term. `namespace`, `labels`, `namespace_labels`: of the other Pod; the
        last are labels of its namespace.
        """
        named = namespace == owner_namespace if self.namespaces is None else namespace in self.namespaces
        if not named and (self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)):
            return False
        return self.selector is not None and self.selector.matches(labels)


def merge_namespaces(term: AffinityTerm, namespaces: Mapping[tuple[str, str], Namespace]) -> AffinityTerm:
    """Return the term of a new Pod with the namespaces that its namespaceSelector matches now, by (namespace, name).

    In contrast to upstream, the result retains the selector, which is then evaluated without the labels of other Pods'
    namespaces: a selector that matches absent labels, such as NotIn, matches every namespace. Source: upstream
    `mergeAffinityTermNamespacesIfNotEmpty`.
    """
    selector = term.namespace_selector
    if selector is None or selector.empty:
        return term
    charge(1 + len(namespaces))
    selected = {n.name for n in namespaces.values() if selector.matches(n.labels)}
    return replace(term, namespaces=frozenset(selected | (term.namespaces or frozenset())))


@dataclass(frozen=True, slots=True)
class WeightedAffinityTerm:
    """A preferred term of Pod affinity with its weight."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """The four lists of affinity terms of a Pod. A list that is invalid is empty, with an entry in `errors`, as
    upstream.

    `present`: whether podAffinity or podAntiAffinity exists, even without terms.
    """

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    present: bool = False
    has_required_anti_affinity: bool = False
    has_preferred: bool = False
    errors: tuple[str, ...] = ()

    @property
    def attracting(self) -> list[AffinityTerm]:
        """The terms of a Pod on a node that affect the score of other Pods."""
        weighted = *self.preferred_affinity, *self.preferred_anti_affinity
        return [*self.required_affinity, *(item.term for item in weighted)]

    @classmethod
    def from_api(cls, pod: ApiObject, labels: Mapping[str, str]) -> PodAffinity:
        """Read an API object's Pod affinity. `labels`: the result of `merged_labels`. Raises InvalidObject."""
        affinity = ("spec", "affinity", "podAffinity")
        anti_affinity = ("spec", "affinity", "podAntiAffinity")
        if at(pod, *affinity) is None and at(pod, *anti_affinity) is None:
            return NO_POD_AFFINITY
        errors: list[str] = []
        term, weighted = partial(_term, labels=labels), partial(_weighted, labels=labels)
        preferred, preferred_anti = (list(items(pod, *path, PREFERRED)) for path in (affinity, anti_affinity))
        required, required_anti = (items(pod, *path, REQUIRED) for path in (affinity, anti_affinity))
        return cls(
            required_affinity=_valid(map(term, required), "requiredAffinityTerms", errors),
            required_anti_affinity=_valid(map(term, required_anti), "requiredAntiAffinityTerms", errors),
            preferred_affinity=_valid(map(weighted, preferred), "preferredAffinityTerms", errors),
            preferred_anti_affinity=_valid(map(weighted, preferred_anti), "preferredAntiAffinityTerms", errors),
            present=True,
            has_required_anti_affinity=bool(sequence(pod, *anti_affinity, REQUIRED)),
            has_preferred=bool(preferred or preferred_anti),
            errors=tuple(errors),
        )


NO_POD_AFFINITY = PodAffinity()
ALL_NAMESPACES: Final = ""
_MAX_TERMS: Final = 64
_MAX_NAMES: Final = 1_000


def other_namespaces(spec: ApiObject, namespace: str) -> frozenset[str]:
    """Return the namespaces in a Pod's affinity terms besides `namespace`; ALL_NAMESPACES stands for a
    namespaceSelector.

    Also contains ALL_NAMESPACES if there are more terms, or names in a term, than forewarn predicts
    (`policies.kubernetes.objects.extent`). Ignores invalid values, because forewarn predicts no Pod with them.
    """
    others: set[str] = set()
    for term in _terms_of(spec.get("affinity")):
        names = list_at(term, "namespaces")
        if term.get("namespaceSelector") is not None or len(names) > _MAX_NAMES:
            others.add(ALL_NAMESPACES)
        others.update(name for name in names[:_MAX_NAMES] if isinstance(name, str) and name != namespace)
    return frozenset(others)


def _terms_of(affinity: object) -> Iterator[ApiObject]:
    """Yield all terms of affinity and anti-affinity; of a list with too many, also a term for all namespaces."""
    kinds = [affinity.get(kind) for kind in ("podAffinity", "podAntiAffinity")] if isinstance(affinity, dict) else []
    for lists in (kind for kind in kinds if isinstance(kind, dict)):
        for how in (REQUIRED, PREFERRED):
            entries = list_at(lists, how)
            if len(entries) > _MAX_TERMS:
                yield {"namespaceSelector": {}}
            for entry in entries[:_MAX_TERMS]:
                term = entry.get("podAffinityTerm") if how == PREFERRED and isinstance(entry, dict) else entry
                if isinstance(term, dict):
                    yield term


def merged_labels(pod: ApiObject) -> Mapping[str, str]:
    """Return the labels from which matchLabelKeys and mismatchLabelKeys of a new Pod add requirements to selectors.

    Empty for a Pod with a uid: the API server has added the requirements, and labels may have changed since. Source:
    pkg/registry/core/pod/strategy.go, `mutatePodAffinity`. Raises InvalidObject.
    """
    return NOTHING if at(pod, "metadata", "uid") else string_map(pod, "metadata", "labels")


_Term = TypeVar("_Term", AffinityTerm, WeightedAffinityTerm)


def _valid(terms: Iterable[_Term], what: str, errors: list[str]) -> tuple[_Term, ...]:
    """Return the terms; if one is invalid, return none and add the reason to `errors`."""
    try:
        return tuple(terms)
    except selectors.InvalidSelector as error:
        errors.append(f"{what}: {error}")
        return ()


def _weighted(entry: ApiObject, labels: Mapping[str, str]) -> WeightedAffinityTerm:
    return WeightedAffinityTerm(int32(entry, "weight") or 0, _term(mapping(entry, "podAffinityTerm"), labels))


def _term(term: ApiObject, labels: Mapping[str, str]) -> AffinityTerm:
    namespaces = strings(term, "namespaces")
    selector = selectors.parse_label_selector(term.get("labelSelector"))
    for key, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        selector = selectors.with_label_keys(selector, operator, strings(term, key), labels)
    namespace_selector = term.get("namespaceSelector")
    return AffinityTerm(
        topology_key=text(term, "topologyKey"),
        selector=selector,
        namespaces=None if not namespaces and namespace_selector is None else frozenset(namespaces),
        namespace_selector=selectors.parse_label_selector(namespace_selector),
    )


MAX_TEXT: Final = 64 * 1024
"""Maximum characters of the spec fields that forewarn reads, if work is metered."""


class HostPort(NamedTuple):
    """A host port that a Pod uses."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodResource:
    """The resources of a Pod on a node. `non_zero_cpu`, `non_zero_memory`: with defaults for missing requests, for
    scores.

    Source: upstream `PodInfo.CalculateResource`.
    """

    resource: Resource = field(default_factory=Resource)
    non_zero_cpu: int = 0
    non_zero_memory: int = 0
    elsewhere: tuple[tuple[tuple[bool, bool], PodResource], ...] = ()
    """During a resize: (rules of other releases (`Counting`), the resources if these rules give a different result)."""

    def counted(self, counting: tuple[bool, bool]) -> PodResource:
        """Return the resources as counted by a release. `counting`: its `Counting`."""
        return next((amounts for way, amounts in self.elsewhere if way == counting), self)


NOTHING_OCCUPIED: Final = PodResource()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodSpec:
    """The fields of a Pod's spec that kube-scheduler reads.

    `request`: resources of a Pod to schedule. `occupies`: resources of a Pod on a node. `gated`: whether the Pod has
    scheduling gates.
    """

    resources: pod_resources.PodResources = field(default_factory=pod_resources.PodResources)
    request: Resource = field(default_factory=Resource)
    occupies: PodResource = NOTHING_OCCUPIED
    host_ports: tuple[HostPort, ...] = ()
    """The host ports of the containers, those of sidecars first."""
    num_sidecar_ports: int = 0
    images: tuple[str, ...] = ()
    container_count: int = 0
    tolerations: tuple[Toleration, ...] = ()
    node_affinity: NodeAffinity = field(default_factory=NodeAffinity)
    pod_affinity: PodAffinity = NO_POD_AFFINITY
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    local_volumes: tuple[str, ...] = ()
    """Names of the volumes on a node's disk."""
    scheduler_name: str = ""
    gated: bool = False
    claims_devices: bool = False
    required_features: frozenset[str] = frozenset()
    termination_grace_period: int = 30
    pod_group: str = ""
    """The name of the Pod's PodGroup: `schedulingGroup`, in 1.35 `workloadRef`."""
    size: int = field(default=0, compare=False)
    """Number of characters of the text from which the spec was read."""
    too_large: str = ""
    """The reason why a stored Pod is not predicted: parts of its spec are too large to store (`stored_pod`)."""
    hides: bool = False
    """True if the spec has placeholders in fields that predictions of other Pods read."""

    @property
    def has_storage(self) -> bool:
        return any(v.claim_name is not None or v.ephemeral or v.disk or v.migrated for v in self.volumes)

    @property
    def attachable_volumes(self) -> int:
        """The number of volumes that may be attached."""
        return sum(v.claim_name is not None or v.ephemeral or v.migrated is not None for v in self.volumes)


NO_SPEC: Final = PodSpec()
_SPECS: Final[Shared[str, PodSpec]] = Shared()
_RESOURCES: Final[Shared[str, PodResource]] = Shared()


def as_pod_resource(pod: pod_resources.PodResources) -> PodResource:
    """Return the resources of a Pod on a node. Source: upstream `PodInfo.CalculateResource`."""
    usual = _sum_resources(pod, pod_resources.USUAL)
    if not pod.resizing:
        return usual
    others = ((way, _sum_resources(pod, way)) for way in pod_resources.OTHER_COUNTINGS)
    return replace(usual, elsewhere=tuple((way, amounts) for way, amounts in others if amounts != usual))


def _sum_resources(pod: pod_resources.PodResources, counting: pod_resources.Counting) -> PodResource:
    amounts = pod.total_requests(use_status=True, counting=counting)
    missing = {
        name: q for name, q in pod_resources.NON_ZERO_DEFAULTS.items() if not pod.sets_pod_level or name not in amounts
    }
    non_zero = amounts
    if missing:
        non_zero = pod.total_requests(use_status=True, counting=counting, non_missing=missing)
    scored = as_resource(to_nano(mask(non_zero, (CPU, MEMORY))))
    return PodResource(as_resource(to_nano(amounts)), scored.milli_cpu, scored.memory)


def read_pod_spec(pod: ApiObject) -> PodSpec:
    """Return the spec of a Pod's API object; equal Pods share one PodSpec. Raises InvalidObject and TooLarge."""
    text = _spec_text(pod)
    if len(text) > MAX_TEXT and limited():
        problem = f"the Pod's spec has {len(text)} characters that count; forewarn evaluates at most {MAX_TEXT}"
        raise TooLarge(problem, "shorten the Pod's spec")
    return _SPECS.get(text, lambda: _read_spec(pod, len(text)), len(text))


def read_pod_resource(pod: ApiObject, spec: PodSpec, conditions: Mapping[str, ApiObject]) -> PodResource:
    """Return the resources of a Pod on a node, including those of an in-place resize. Raises InvalidObject.

    `conditions`: the first condition of each type.
    """
    # Source: component-helpers `IsPodResizeInfeasible`.
    infeasible = conditions.get("PodResizePending", NOTHING).get("reason") == "Infeasible"
    if not infeasible and not _resize_matters(pod):
        return spec.occupies
    status = mapping(pod, "status")
    statuses = [_resources_of(sequence(pod, "status", key)) for key in ("containerStatuses", "initContainerStatuses")]
    cache_key = repr((_spec_text(pod), statuses, status.get("resources"), status.get("allocatedResources"), infeasible))
    return _RESOURCES.get(
        cache_key, lambda: as_pod_resource(pod_resources.read_pod_resources(pod, accept_negative=False)), len(cache_key)
    )


def _spec_text(pod: ApiObject) -> str:
    """Return the spec's fields as text, the key of the shared PodSpec; with labels if affinity terms use them."""
    text = _spec_text_alone(pod.get("spec"))
    return text + repr(merged_labels(pod)) if _LABEL_KEYS in text else text


def _spec_text_alone(spec: Any) -> str:
    if not isinstance(spec, dict):
        return repr(spec)
    kept = {key: value for key, value in spec.items() if key in _SPEC_KEYS}
    for key, shortened in _SHORTENED:
        if values := spec.get(key):
            kept[key] = [shortened(value) for value in values] if isinstance(values, list) else values
    return repr(kept)


_SPEC_KEYS: Final = frozenset({
    "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "overhead", "resources", "schedulerName",
    "schedulingGates", "resourceClaims", "hostNetwork", "hostUsers", "terminationGracePeriodSeconds",
    "schedulingGroup", "workloadRef",
})  # fmt: skip
_LABEL_KEYS: Final = "atchLabelKeys"
_CONTAINER_KEYS: Final = frozenset({"name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules"})
_PLAIN_VOLUMES: Final = frozenset({"name", "configMap", "secret", "projected", "downwardAPI"})


def _container_key(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    kept = {key: value for key, value in container.items() if key in _CONTAINER_KEYS}
    return (kept, True) if _binds_with_options(container) else kept


def _binds_with_options(container: ApiObject) -> bool:
    if container.get("volumeMounts") is None:
        return False
    return any(
        isinstance(mount, dict) and mount.get("bindMountOptions") for mount in sequence(container, "volumeMounts")
    )


def _volume_key(volume: Any) -> Any:
    return None if isinstance(volume, dict) and volume.keys() <= _PLAIN_VOLUMES else volume


_SHORTENED: Final = (("containers", _container_key), ("initContainers", _container_key), ("volumes", _volume_key))


def _read_spec(pod: ApiObject, size: int) -> PodSpec:
    if at(pod, "spec", "affinity", "nodeAffinity") is not None:  # the Pods of a DaemonSet share the rest
        affinity = {**mapping(pod, "spec", "affinity"), "nodeAffinity": None}
        rest = read_pod_spec({**pod, "spec": {**mapping(pod, "spec"), "affinity": affinity}})
        with within(pod, "spec", "affinity"):
            return replace(rest, node_affinity=NodeAffinity.from_api(pod), size=size)
    resources = pod_resources.read_pod_resources(pod, use_status=False, accept_negative=False)
    containers = list(items(pod, "spec", "containers"))
    inits = list(items(pod, "spec", "initContainers"))
    labels = merged_labels(pod)
    with within(pod, "spec", "affinity"):
        node_affinity, pod_affinity = NodeAffinity.from_api(pod), PodAffinity.from_api(pod, labels)
    with within(pod, "spec", "tolerations"):
        tolerations = read_tolerations(pod, "spec", "tolerations")
    with within(pod, "spec", "topologySpreadConstraints"):
        topology_spread = read_topology_spread(pod)
    with within(pod, "spec", "volumes"):
        volumes = read_volumes(pod)
    grace = at(pod, "spec", "terminationGracePeriodSeconds")
    return PodSpec(
        size=size,
        resources=resources,
        occupies=as_pod_resource(resources),
        request=as_resource(to_nano(resources.total_requests(use_status=False))),
        host_ports=_host_ports(pod, (*filter(_restartable, inits), *containers)),
        num_sidecar_ports=len(_host_ports(pod, filter(_restartable, inits))),
        images=tuple(str(c.get("image") or "") for c in (*inits, *containers)),
        container_count=len(inits) + len(containers),
        tolerations=tolerations,
        node_affinity=node_affinity,
        pod_affinity=pod_affinity,
        topology_spread=topology_spread,
        volumes=volumes,
        local_volumes=tuple(str(volume.get("name")) for volume in items(pod, "spec", "volumes") if _is_local(volume)),
        scheduler_name=text(pod, "spec", "schedulerName"),
        gated=bool(sequence(pod, "spec", "schedulingGates")),
        claims_devices=bool(sequence(pod, "spec", "resourceClaims")),
        required_features=_required_features(pod, (*inits, *containers)),
        termination_grace_period=grace if isinstance(grace, int) and grace >= 0 else 30,
        pod_group=text(pod, "spec", "schedulingGroup", "podGroupName") or text(pod, "spec", "workloadRef", "name"),
    )


def _restartable(container: ApiObject) -> bool:
    return container.get("restartPolicy") == "Always"


def _is_local(volume: ApiObject) -> bool:
    """Report whether a volume is on the disk of the node. Source: cluster-autoscaler `isLocalVolume`."""
    directory = volume.get("emptyDir")
    on_disk = isinstance(directory, dict) and directory.get("medium") != "Memory"
    return on_disk or volume.get("hostPath") is not None


def _host_ports(pod: ApiObject, containers: Iterable[ApiObject]) -> tuple[HostPort, ...]:
    """Return the host ports: with hostNetwork, all container ports (defaulting). Source: upstream `GetHostPorts`."""
    host_network = boolean(pod, "spec", "hostNetwork")
    ports = []
    for container in containers:
        with within(pod, "spec", "containers", str(container.get("name", "")), "ports"):
            for port in items(container, "ports"):
                number = int32(port, "hostPort") or (int32(port, "containerPort") if host_network else 0) or 0
                if number > 0:
                    ip = text(port, "hostIP") or "0.0.0.0"
                    ports.append(HostPort(ip, text(port, "protocol") or "TCP", number))
    return tuple(ports)


def _required_features(pod: ApiObject, containers: tuple[ApiObject, ...]) -> frozenset[str]:
    """Return the `status.declaredFeatures` that a Pod requires. Source: nodedeclaredfeatures `InferForScheduling`."""
    features = set()
    for container in containers:
        if any(rule.get("action") == "RestartAllContainers" for rule in items(container, "restartPolicyRules")):
            features.add("RestartAllContainersOnContainerExits")
        if _binds_with_options(container):
            features.add("VolumeBindMountOptions")
    if boolean(pod, "spec", "hostNetwork") and at(pod, "spec", "hostUsers") is False:
        features.add("UserNamespacesHostNetworkSupport")
    return frozenset(features)


def _resize_matters(pod: ApiObject) -> bool:
    """Report whether the status has resources that may differ from those of the spec."""
    status = mapping(pod, "status")
    return status.get("resources") is not None or any(
        not _as_requested(entry, sequence(pod, "spec", kind))
        for of, kind in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers"))
        if of in status
        for entry in sequence(pod, "status", of)
    )


def _as_requested(entry: Any, containers: Any) -> bool:
    """Report whether a container's status has no resources, or exactly those of the spec."""
    if not isinstance(entry, dict) or (entry.get("resources") is None and entry.get("allocatedResources") is None):
        return True
    for container in containers:
        if container.get("name") == entry.get("name"):
            requests = at(container, "resources", "requests")
            resources = (entry.get("allocatedResources"), at(entry, "resources", "requests"))
            return bool(
                all(amounts is None or amounts == requests for amounts in resources) and resources != (None, None)
            )
    return True


def _resources_of(entries: Iterable[Any]) -> list[Any]:
    return [
        (e.get("name"), e.get("resources"), e.get("allocatedResources")) if isinstance(e, dict) else e for e in entries
    ]


TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_MAX_LENGTH: Final = 253
NOW: Final = 2**62
"""The start time of a Pod without one in comparisons: upstream uses the current time."""


_interned: Final = lru_cache(maxsize=16384)(str)


def once(text: str) -> str:
    """Return an equal, shared string. The cache is bounded, while `sys.intern` is permanent in Python 3.12."""
    return _interned(text) if len(text) <= _MAX_LENGTH else text


@lru_cache(maxsize=256)
def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


class Owner(NamedTuple):
    """The controller of an object (`metadata.ownerReferences` with controller: true)."""

    kind: str
    name: str
    uid: str
    api_version: str = ""

    @property
    def group_kind(self) -> str:
        """The `group/Kind` of the controller; the group is empty for core kinds."""
        return f"{_group(self.api_version)}/{self.kind}"

    @classmethod
    def from_api(cls, obj: ApiObject) -> Owner | None:
        """Return the controller of an object; None if the object has none. Source: apimachinery `GetControllerOf`."""
        for reference in sequence(obj, "metadata", "ownerReferences"):
            if isinstance(reference, dict) and reference.get("controller"):
                kind, name, uid, version = (once(text(reference, key)) for key in ("kind", "name", "uid", "apiVersion"))
                return cls(kind, name, uid, version)
        return None


class PodClaim(NamedTuple):
    """An entry of a Pod's `spec.resourceClaims`.

    `claim`: the name of the ResourceClaim; None if no claim is needed, or (not `resolved`) if it is not created yet.
    `template`: the ResourceClaimTemplate; "" for a claim that the Pod names.
    """

    name: str
    claim: str | None
    template: str = ""
    resolved: bool = True


_DAEMON_POD: Final = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_SAFE_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


@dataclass(frozen=True, slots=True)
class Pod(Namespaced):
    """A Pod, reduced to the fields that matter for scheduling.

    `priority`: None if admission never set it, which counts as 0. `start_time`: in seconds since 1970.
    """

    namespace: str
    name: str
    uid: str = ""
    phase: str = ""
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    start_time: int | None = None
    owner: Owner | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: PodSpec = NO_SPEC
    occupies: PodResource = NOTHING_OCCUPIED
    nominated_node_name: str = ""
    device_claims: tuple[PodClaim, ...] = ()
    created: int | None = None
    """Creation time in seconds since 1970; None for a Pod with a node."""
    annotated_daemon: bool = False
    """True if an annotation makes cluster-autoscaler treat the Pod as a DaemonSet Pod."""
    safe_to_evict: str = ""
    """The annotation safe-to-evict of cluster-autoscaler: true, false or on-completion; otherwise ""."""
    has_local_storage: bool = False
    """True if a local volume of the Pod prevents cluster-autoscaler from removing its node."""
    terminating: bool = False
    preempted: bool = False
    """True if the first DisruptionTarget condition has the reason PreemptionByScheduler."""
    ready: bool = True
    """True if PDBs count the Pod as healthy. Running Pods without a Ready condition (in snapshots) also count."""

    @property
    def healthy(self) -> bool:
        """Whether PDBs count the Pod as healthy. Source: pkg/controller/disruption, `countHealthyPods`."""
        return self.ready and not self.terminating

    @property
    def owner_kind(self) -> str:
        """The `group/Kind` of the Pod's controller; "" without one."""
        return "" if self.owner is None else self.owner.group_kind

    @classmethod
    def from_api(cls, obj: ApiObject) -> Pod:
        """Read an API object. Raises InvalidObject."""
        spec, conditions = read_pod_spec(obj), first_conditions(obj)
        name, uid = texts(obj, "metadata", "name", "uid")
        node_name, priority_class, policy = texts(obj, "spec", "nodeName", "priorityClassName", "preemptionPolicy")
        phase, nominated = texts(obj, "status", "phase", "nominatedNodeName")
        metadata = mapping(obj, "metadata")
        annotations = metadata.get("annotations")
        annotations = annotations if isinstance(annotations, OBJECT) else NOTHING
        # Without the condition Ready, a Pod that is not Pending is ready (`IsPodReady`).
        ready = conditions.get("Ready")
        return cls(
            namespace=once(text(obj, "metadata", "namespace", default="default")),
            name=name,
            uid=uid,
            phase=once(phase),
            node_name=once(node_name),
            priority=int32(obj, "spec", "priority"),
            priority_class_name=once(priority_class),
            preemption_policy=once(policy),
            start_time=timestamp(obj, "status", "startTime"),
            owner=Owner.from_api(obj),
            labels=shared_labels(string_map(obj, "metadata", "labels")),
            spec=spec,
            occupies=read_pod_resource(obj, spec, conditions),
            nominated_node_name=once(nominated),
            device_claims=_device_claims(obj) if spec.claims_devices else (),
            created=None if node_name else timestamp(obj, "metadata", "creationTimestamp"),
            annotated_daemon=annotations.get(_DAEMON_POD) == "true",
            safe_to_evict=_safe_to_evict(annotations.get(_SAFE_TO_EVICT)),
            has_local_storage=bool(spec.local_volumes) and _has_local_storage(spec, annotations.get(_SAFE_VOLUMES)),
            terminating=metadata.get("deletionTimestamp") is not None,
            preempted=_preempted(conditions),
            ready=phase != "Pending" if ready is None else ready.get("status") == "True",
        )

    def to_api(self) -> ApiObject:
        """Return the priority fields and the PodGroup of the Pod as an API object, for comparison with an update."""
        spec: dict[str, object] = {
            "priorityClassName": self.priority_class_name,
            "priority": self.priority,
            "preemptionPolicy": self.preemption_policy or None,
        }
        if self.spec is not NO_SPEC:
            spec["schedulingGroup"] = {"podGroupName": self.spec.pod_group} if self.spec.pod_group else None
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    @property
    def terminal(self) -> bool:
        """Whether the Pod has terminated: the Pod uses no resources, and kube-scheduler ignores the Pod."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def start(self) -> int:
        """The start time in comparisons: NOW for a Pod without one."""
        return NOW if self.start_time is None else self.start_time

    @property
    def effective_priority(self) -> int:
        """The priority value; 0 if admission never set it.

        Source: component-helpers `PodPriority`.
        """
        return self.priority or 0

    def __repr__(self) -> str:
        return f"<Pod {self.key}>"

    @property
    def identity(self) -> str:
        """The uid of the Pod; `namespace/name` if it has none."""
        return self.uid or self.key

    def bound_to(self, node_name: str, node_labels: Mapping[str, str]) -> Pod:
        """Return the Pod bound to a node. As the API server does, copies the node's zone and region to the Pod's
        labels.
        """
        topology = {key: node_labels[key] for key in TOPOLOGY_LABELS if key in node_labels}
        labels = shared_labels({**self.labels, **topology})
        return replace(self, node_name=node_name, nominated_node_name="", labels=labels, created=None)

    def as_terminating(self) -> Pod:
        """Return the Pod as terminating, after kube-scheduler has evicted it. Source: upstream `prepareCandidate`."""
        if self.terminating:
            return self
        # A preemption has dozens of victims, and `replace` costs three times as much.
        ending: tuple[Any, ...] = (*_BEFORE_TERMINATION(self), True, True, self.ready)
        return Pod(*ending)


_BEFORE_TERMINATION: Final = attrgetter(*(f.name for f in fields(Pod)[:-3]))
"""Getter of all fields of a Pod in order, except the last three: terminating, preempted, ready."""


def wait_seconds(victims: Iterable[Pod]) -> int:
    """Return the seconds until the last Pod has terminated, if all terminate at the same time within their grace
    periods.
    """
    return max((pod.spec.termination_grace_period for pod in victims), default=0)


def _device_claims(obj: ApiObject) -> tuple[PodClaim, ...]:
    """Return the entries of a Pod's `spec.resourceClaims`. Source: dynamic-resource-allocation `resourceclaim.Name`."""
    generated = {
        text(entry, "name"): at(entry, "resourceClaimName") for entry in items(obj, "status", "resourceClaimStatuses")
    }
    claims = []
    for entry in items(obj, "spec", "resourceClaims"):
        name, claim, template = (text(entry, key) for key in ("name", "resourceClaimName", "resourceClaimTemplateName"))
        if claim:
            claims.append(PodClaim(name, claim))
        else:
            claims.append(PodClaim(name, generated.get(name), template, name in generated))
    return tuple(claims)


def first_conditions(obj: ApiObject) -> Mapping[str, ApiObject]:
    """Map each type to its first condition, which is the one that upstream uses."""
    conditions = [*items(obj, "status", "conditions")]
    return {kind: condition for condition in reversed(conditions) if isinstance(kind := condition.get("type"), str)}


def _preempted(conditions: Mapping[str, ApiObject]) -> bool:
    """Report whether kube-scheduler has preempted the Pod.

    Source: upstream `podTerminatingByPreemption`, without the check of the deletion timestamp.
    """
    target = conditions.get("DisruptionTarget", NOTHING)
    return target.get("status") == "True" and target.get("reason") == "PreemptionByScheduler"


def _safe_to_evict(value: object) -> str:
    return once(value) if isinstance(value, str) and value in ("true", "false", "on-completion") else ""


def _has_local_storage(spec: PodSpec, safe: object) -> bool:
    """Report whether a Pod has a local volume that its annotation does not name. Source: `HasBlockingLocalStorage`."""
    named = safe.split(",") if isinstance(safe, str) and safe else ()
    return any(name not in named for name in spec.local_volumes)


MAX_RETAINED_TEXT: Final = 8 * 1024
"""Maximum characters of the spec fields of a stored Pod; decoded, they need about ten times as much memory."""
TOO_LARGE: Final = "the Pod exceeds what forewarn keeps of one"
_PLAIN: Final = (
    "nodeName", "priority", "priorityClassName", "preemptionPolicy", "schedulerName", "terminationGracePeriodSeconds",
)  # fmt: skip
_REQUESTS: Final = ("containers", "initContainers", "overhead", "resources")
_OF_A_CONTAINER: Final = ("name", "resources", "ports", "restartPolicy")


def stored_pod(obj: ApiObject) -> Pod:
    """Read a Pod for storage in memory. Raises InvalidObject.

    If the Pod's scheduling constraints are too large, they are omitted (`PodSpec.too_large`): forewarn does not predict
    the Pod itself, but its requests, labels, ports, volumes and (anti-)affinity to Pods count for others. If these are
    too large as well, predictions of other Pods may be wrong (`PodSpec.hides`).
    """
    try:
        pod = Pod.from_api(obj)
        if pod.spec.size <= MAX_RETAINED_TEXT:
            return pod
    except TooLargeToRetain:
        pass
    for hides, reduced in ((False, _without_wishes), (True, _with_requests), (True, _bare)):
        if (smaller := _read(obj, reduced)) is not None:
            spec = replace(
                smaller.spec, too_large=TOO_LARGE, hides=hides, gated=smaller.spec.gated or not smaller.node_name
            )
            return replace(smaller, spec=spec)
    return Pod.from_api(_bare(obj))


def _read(obj: ApiObject, reduced: Callable[[ApiObject], ApiObject]) -> Pod | None:
    try:
        pod = Pod.from_api(reduced(obj))
    except TooLargeToRetain:
        return None
    return pod if pod.spec.size <= MAX_RETAINED_TEXT else None


def _without_wishes(obj: ApiObject) -> ApiObject:
    """Return the Pod without fields for its own scheduling: node affinity, tolerations, spread constraints, images."""
    spec = _spec(obj, *_PLAIN, *_REQUESTS, "volumes", "resourceClaims", "hostNetwork")
    affinity = {key: at(obj, "spec", "affinity", key) for key in ("podAffinity", "podAntiAffinity")}
    if any(value is not None for value in affinity.values()):
        spec["affinity"] = affinity
    return {**obj, "spec": _with_slim_containers(spec)}


def _with_requests(obj: ApiObject) -> ApiObject:
    return {**obj, "spec": _with_slim_containers(_spec(obj, *_PLAIN, *_REQUESTS))}


def _bare(obj: ApiObject) -> ApiObject:
    kept = {
        "metadata": ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"),
        "spec": _PLAIN,
        "status": ("phase", "startTime", "nominatedNodeName"),
    }
    bare: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}
    for part, keys in kept.items():
        holder = obj.get(part)
        bare[part] = {} if is_omitted(holder) else {key: at(obj, part, key) for key in keys}
    return bare


def _spec(obj: ApiObject, *keys: str) -> dict[str, Any]:
    return {key: value for key in keys if (value := at(obj, "spec", key)) is not None}


def _with_slim_containers(spec: dict[str, Any]) -> dict[str, Any]:
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [{name: c[name] for name in _OF_A_CONTAINER if name in c} for c in spec[key]]
    return spec


def without_requests(pod: Pod) -> Pod:
    """Return a copy of the Pod that needs no capacity, to find the constraints that remain with unlimited capacity."""
    return replace(pod, spec=replace(pod.spec, request=Resource()), preemption_policy=PREEMPT_NEVER)
