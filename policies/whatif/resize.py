"""Predict an in-place resize: kube-apiserver's checks, then the kubelet's, then preemption.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePodResize`), `plugin/pkg/admission/podresize` (since 1.36),
`plugin/pkg/admission/limitranger` (`SupportsAttributes`), `pkg/quota/v1/evaluator/core/pods.go` (`Handles`),
`pkg/kubelet/allocation`, `pkg/kubelet/lifecycle/predicate.go`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from forewarn.policies.cluster.admission import predict
from forewarn.policies.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.findings import quote
from forewarn.policies.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kube_apiserver.defaults import with_limit_range_defaults
from forewarn.policies.kube_apiserver.quota import RemainingQuota
from forewarn.policies.kube_apiserver.validation.resources import read_pod_resources, validate_limits
from forewarn.policies.kubelet.admission import admit, request_of
from forewarn.policies.kubelet.pods import GUARANTEED, KubeletPod, read_pod
from forewarn.policies.objects.fields import NOTHING, ApiObject, InvalidInput, at, items, text
from forewarn.policies.objects.pod import MIRROR_ANNOTATION, Pod
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.objects.resources import CPU, MEMORY
from forewarn.policies.quantity import InvalidQuantity, parse_quantity
from forewarn.policies.scheduling.reasons import insufficient

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.documents import Always
    from forewarn.policies.scheduling.node_info import NodeInfo

Verdict = Literal["accepted", "deferred", "infeasible", "rejected", "not-evaluated"]
GATE: Final = "InPlacePodVerticalScalingSchedulerPreemption"
_STATIC_MANAGERS: Final = "infeasible if the kubelet uses the CPU or Memory Manager policy static (Guaranteed Pod)"
_SWAP: Final = "infeasible if the container uses swap"


class Wanted(NamedTuple):
    """The requested resources of a container; `container` "" for all containers.

    Amounts by resource, as quantity text.
    """

    container: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]


class Resized(NamedTuple):
    """The result of an in-place resize of one Pod.

    `insufficient`: the missing amounts of resources, cpu in thousandths, memory in bytes. `evicted`: Pods that the
    kubelet evicts for a critical Pod. `preempted`: Pods that kube-scheduler preempts. `inTheWay`: Pods that use the
    missing resources, if kube-scheduler does not preempt. `dependsOn`: settings of the kubelet that change the verdict.
    """

    pod: str
    node: str
    verdict: Verdict
    reason: Always[str] = ""
    insufficient: Always[Mapping[str, int]] = NOTHING
    evicted: Always[Sequence[str]] = ()
    preempted: Always[Sequence[str]] = ()
    in_the_way: Always[Sequence[str]] = ()
    depends_on: Always[Sequence[str]] = ()


class StoredPods:
    """A cluster, with the API objects of some namespaces' Pods, and the nodes without resize preemption."""

    def __init__(self, namespaces: Iterable[str]) -> None:
        self.cache = Cache(collect=self._collect)
        self._namespaces = {*namespaces}
        self.stored: dict[tuple[str, str], ApiObject] = {}
        """By namespace and name."""
        self.without_preemption: set[str] = set()

    def _collect(self, obj: ApiObject) -> None:
        namespace = text(obj, "metadata", "namespace", default="default") if obj.get("kind") == "Pod" else ""
        if namespace in self._namespaces:
            self.stored[namespace, text(obj, "metadata", "name")] = obj
        if obj.get("kind") == "Node" and at(obj, "spec", "podPreemptionPolicy", "disableResizePreemption"):
            self.without_preemption.add(text(obj, "metadata", "name"))


def resize(pods: StoredPods, keys: Iterable[tuple[str, str]], wanted: Wanted, *, preempts: bool) -> Iterator[Resized]:
    """Yield the results in the order in which a kubelet evaluates resizes; each accepted resize affects the following,
    for ResourceQuotas also each deferred one.

    `keys`: of stored Pods. `preempts`: true if the feature gate GATE is on. Raises InvalidInput.
    """
    cluster = pods.cache.snapshot()
    quotas = RemainingQuota(cluster.quotas_of)
    resizes = [(obj, _defaulted(changed(obj, wanted), cluster)) for obj in (pods.stored[key] for key in keys)]
    for old, new in sorted(resizes, key=lambda pair: _order(*pair)):
        result = _result(pods, old, new, quotas, preempts=preempts)
        if result.verdict == "accepted":
            pods.cache.add(_allocated(new))
        yield result


def changed(pod: ApiObject, wanted: Wanted) -> ApiObject:
    """Return a copy of the Pod with the requested resources. Raises InvalidInput if the Pod has no such container."""
    new: Any = deepcopy(dict(pod))
    spec = new["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    containers = [*spec.get("containers", ()), *sidecars]
    matches = [c for c in containers if wanted.container in ("", c.get("name"))]
    if not matches:
        names = ", ".join(str(c.get("name")) for c in containers)
        raise InvalidInput(f"no container {quote(wanted.container)} that can be resized; known: {names}")
    for container in matches:
        resources = container.setdefault("resources", {})
        for field, amounts in (("requests", wanted.requests), ("limits", wanted.limits)):
            if amounts:
                resources[field] = {**(resources.get(field) or {}), **amounts}
    return new  # type: ignore[no-any-return]


def _defaulted(pod: ApiObject, cluster: ClusterSnapshot) -> ApiObject:
    """Return the Pod with the defaults of LimitRanges, which the plugin also sets on a resize."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "uid"}  # as that of a new Pod
    ranges = cluster.limit_ranges_of(_namespace(pod))
    return {
        **with_limit_range_defaults({**pod, "metadata": metadata}, ranges, cluster.semantics),
        "metadata": pod["metadata"],
    }


def _namespace(pod: ApiObject) -> str:
    return text(pod, "metadata", "namespace", default=DEFAULT_NAMESPACE)


def _order(old: ApiObject, new: ApiObject) -> tuple[bool, int, bool, str]:
    """Return the sort key of pending resizes. Source: upstream `sortPendingResizes`.

    Upstream finally sorts by time, this function by name.
    """
    was, will = read_pod(old), read_pod(new)
    increases = any(will.requests.get(name, 0) > was.requests.get(name, 0) for name in (CPU, MEMORY))
    return increases, -will.priority, will.qos != GUARANTEED, will.key


def _result(pods: StoredPods, old: ApiObject, new: ApiObject, quotas: RemainingQuota, *, preempts: bool) -> Resized:
    pod, node = read_pod(_without_status(new)), text(old, "spec", "nodeName")
    semantics = pods.cache.semantics
    at_node = (pod.key, node)
    info = pods.cache.snapshot().scheduling.get(node) if node else None
    if at(old, "status", "phase") in ("Succeeded", "Failed") or at(old, "metadata", "deletionTimestamp"):
        return Resized(*at_node, "not-evaluated", "the Pod terminates or has terminated")
    if info is None:
        return Resized(*at_node, "not-evaluated", "the Pod has no known node")
    if at(old, "spec", "resources"):
        return Resized(*at_node, "not-evaluated", "Pods with spec.resources are not supported")
    exceeds = _exceeds(pod, info)
    fault = _fault(old, new)
    if not fault and semantics.resizes_are_checked_at_admission:
        fault = exceeds if info.node.operating_system == "linux" else "the node does not run Linux"
    if fault := fault or _forbidden(new, old, pods.cache.snapshot(), quotas):
        return Resized(*at_node, "rejected", fault)
    if exceeds:
        return Resized(*at_node, "infeasible", exceeds)
    pods.cache.remove(old)
    try:
        return _of_kubelet(pods, new, pod, node, preempts=preempts)._replace(depends_on=_depends(old, new, pod))
    finally:
        pods.cache.add(old)


def _exceeds(pod: KubeletPod, info: NodeInfo) -> str:
    limits = {CPU: info.node.allocatable.milli_cpu, MEMORY: info.node.allocatable.memory}
    exceeding = [name for name, most in limits.items() if request_of(pod, name) > most]
    return f"the requests exceed the node's allocatable {' and '.join(exceeding)}" if exceeding else ""


def _forbidden(new: ApiObject, old: ApiObject, cluster: ClusterSnapshot, quotas: RemainingQuota) -> str:
    """Return why a LimitRange or ResourceQuota rejects the resize; otherwise "", and `quotas` includes the resize."""
    for limit_range in cluster.limit_ranges_of(_namespace(new)):
        for error in validate_limits(read_pod_resources(new), limit_range):
            return f"{error.text} (LimitRange {limit_range.name})"
    return quotas.rejection(_namespace(new), new, old)


def _of_kubelet(pods: StoredPods, new: ApiObject, pod: KubeletPod, node: str, *, preempts: bool) -> Resized:
    """Return the kubelet's result. `pod`: the Pod after the resize, which the cluster of `pods` does not contain."""
    cluster = pods.cache.snapshot()
    info = cluster.scheduling.get(node)
    assert info is not None
    others = (read_pod(_as_stored(pods, other.namespace, other.name, other)) for other in info.pods)
    admission = admit(pod, Pod.from_api(new), info, others, may_preempt=not preempts)
    requirements, rejection = admission.insufficient, admission.rejection
    if rejection is None:
        evicted = tuple(sorted(other.key for other in admission.preempted))
        reason = f"critical Pod: the kubelet evicts Pods{admission.instead}" if evicted else ""
        return Resized(pod.key, node, "accepted", reason, requirements, evicted)
    if pod.critical and not preempts and not admission.failed:
        return Resized(pod.key, node, "deferred", rejection.message, requirements)
    lacking = [insufficient(requirements)] if requirements else []
    reason = "; ".join([*(item.message for item in admission.failed), *lacking])
    if not requirements:
        return Resized(pod.key, node, "deferred", reason)
    if preempts and node in pods.without_preemption:
        return Resized(pod.key, node, "deferred", f"{reason}; the node disables preemption for resizes", requirements)
    victims, why = _victims(cluster, _bound_to(new, node), node)
    result = Resized(pod.key, node, "deferred", f"{reason}{why}", requirements)
    return result._replace(preempted=victims) if preempts else result._replace(in_the_way=victims)


def _victims(cluster: ClusterSnapshot, pod: ApiObject, node: str) -> tuple[Sequence[str], str]:
    """Return the Pods whose removal makes the Pod fit, and text that says why there are none."""
    prediction = predict(cluster, pod, reasons=True)
    candidate = next((item for item in prediction.candidates if item.node_name == node), None)
    victims = tuple(sorted(f"{v.namespace}/{v.name}" for v in candidate.victims)) if candidate else ()
    if prediction.not_predicted:
        return victims, f"; preemption is not predicted: {prediction.not_predicted}"
    if prediction.pod.preemption_policy == PREEMPT_NEVER:
        return victims, "; may not preempt (preemptionPolicy: Never)"
    return victims, "" if victims else "; no Pods of lower priority free enough resources"


def _as_stored(pods: StoredPods, namespace: str, name: str, view: Any) -> ApiObject:
    if (stored := pods.stored.get((namespace, name))) is not None:
        return stored
    amounts = view.occupies.resource
    others = {"memory": amounts.memory, "ephemeral-storage": amounts.ephemeral_storage, **amounts.scalars}
    requests = {"cpu": f"{amounts.milli_cpu}m", **{name: str(amount) for name, amount in others.items()}}
    containers = [{"name": "all", "resources": {"requests": requests}}]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"priority": view.effective_priority, "containers": containers},
    }


def _fault(old: ApiObject, new: ApiObject) -> str:
    """Return why kube-apiserver rejects the resize; "" if the resize is accepted.

    Source: upstream `ValidatePodResize`.
    """
    if at(old, "metadata", "annotations", MIRROR_ANNOTATION) is not None:
        return "static Pods cannot be resized"
    if at(old, "spec", "os", "name") == "windows":
        return "Windows Pods cannot be resized"
    for container in (*new["spec"].get("containers", ()), *(new["spec"].get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name in (CPU, MEMORY):
            request, limit = ((resources.get(field) or {}).get(name) for field in ("requests", "limits"))
            try:
                exceeds = None not in (request, limit) and parse_quantity(request).nano > parse_quantity(limit).nano
            except InvalidQuantity as fault:
                return str(fault)
            if exceeds:
                return f"container {container.get('name')}: the {name} request exceeds the limit"
    was, will = read_pod(old).qos, read_pod(_without_status(new)).qos
    return f"the QoS class would change from {was} to {will}" if was != will else ""


def _depends(old: ApiObject, new: ApiObject, pod: KubeletPod) -> tuple[str, ...]:
    """Return facts of the kubelet's configuration that would change the result; the API does not show these facts."""
    notes = [_STATIC_MANAGERS] if pod.qos == GUARANTEED else []
    for was, will in zip(old["spec"].get("containers", ()), new["spec"].get("containers", ()), strict=True):
        memory = [((c.get("resources") or {}).get("requests") or {}).get(MEMORY) for c in (was, will)]
        policies = {p.get("resourceName"): p.get("restartPolicy") for p in items(was, "resizePolicy")}
        if memory[0] != memory[1] and policies.get(MEMORY) != "RestartContainer" and _SWAP not in notes:
            notes.append(_SWAP)
    return tuple(notes)


def _without_status(pod: ApiObject) -> ApiObject:
    """Return the Pod without resources and QoS class in its status."""
    status = {key: value for key, value in (pod.get("status") or {}).items() if key == "extendedResourceClaimStatus"}
    return {**pod, "status": status}


def _allocated(pod: ApiObject) -> ApiObject:
    """Return the Pod after an accepted resize: the status no longer has the resources from before the resize."""
    kept = ("phase", "startTime", "qosClass")
    status = {key: value for key, value in (pod.get("status") or {}).items() if key in kept}
    return {**pod, "status": status}


def _bound_to(pod: ApiObject, node: str) -> ApiObject:
    """Return the Pod for kube-scheduler's evaluation of a deferred resize: restricted to `node`, tolerating all
    taints.
    """
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {**(at(pod, "spec", "affinity") or {})}
    affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "nodeSelector")}
    return {**_without_status(pod), "spec": {**spec, "affinity": affinity, "tolerations": [{"operator": "Exists"}]}}
