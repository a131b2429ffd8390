"""Predict whether the kubelet admits a Pod, and which Pods the kubelet preempts for a critical Pod.

A static Pod, or a Pod with a node name, reaches the kubelet without kube-scheduler. If only resources are insufficient,
the kubelet terminates other Pods for a critical one, regardless of PodDisruptionBudgets. Source: kubernetes
`pkg/kubelet/preemption/preemption.go`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, in_json
from forewarn.policies.base.findings import listed
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    is_extended,
)
from forewarn.policies.kubernetes.kubelet.pods import KubeletPod
from forewarn.policies.kubernetes.objects.node import LABEL_OS, NO_EXECUTE, Node, untolerated_taint
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY
from forewarn.policies.kubernetes.scheduling.plugins import node_affinity, node_name, node_ports
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import (
    InsufficientResource,
    insufficient_resources,
)
from forewarn.policies.kubernetes.scheduling.plugins.taint_toleration import TaintToleration

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo


_NOT_TOLERATED: Final = "node(s) had taints that the pod didn't tolerate"
"""Only the kubelet has this reason. Source: upstream `ErrReasonNotMatch`."""


class Rejection(NamedTuple):
    """The status of a rejected Pod: `status.reason` and `status.message`."""

    reason: str
    message: str


_OTHER_LABEL: Final = Rejection(
    "PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
)
_OTHER_OS: Final = Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
_NOT_STRICT: Final = Rejection(
    "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
)


def check_support(admitted: KubeletPod, pod: Pod, node: Node) -> Rejection | None:
    """Return why the node cannot run the Pod, whatever Pods it runs; None if it can.

    The kubelet replaces another value of the node's own label by its operating system. Source: upstream
    `rejectPodAdmissionBasedOnOSSelector`, `rejectPodAdmissionBasedOnOSField`,
    `rejectPodAdmissionBasedOnSupplementalGroupsPolicy`.
    """
    if pod.labels.get(LABEL_OS, node.operating_system) != node.operating_system:
        return _OTHER_LABEL
    if admitted.os not in ("", node.operating_system):
        return _OTHER_OS
    return _NOT_STRICT if admitted.strict_groups and not node.supplemental_groups_policy else None


def general_filter(
    pod: Pod, node_info: NodeInfo, *, static: bool, by_claims: Collection[str] = ()
) -> Iterator[InsufficientResource | Rejection]:
    """Yield why the node rejects the Pod: insufficient resources first. Source: upstream `generalFilter`.

    `static`: NoExecute taints do not apply to static Pods. `by_claims`: extended resources that ResourceClaims of the
    Pod provide.
    """
    yield from insufficient_resources(pod, node_info, {*by_claims, *_missing_extended_resources(pod, node_info)})
    node = node_info.node
    if not pod.spec.node_affinity.matches(node.labels, node.name):
        yield _failed(node_affinity.NodeAffinity.name, *node_affinity.REASON.reasons)
    if not node_name.fits(pod, node_info):
        yield _failed(node_name.NodeName.name, *node_name.REASON.reasons)
    if not node_ports.fits(pod, node_info):
        yield _failed(node_ports.NodePorts.name, *node_ports.REASON.reasons)
    taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
    if not static and untolerated_taint(taints, pod.spec.tolerations):
        yield _failed(TaintToleration.name, _NOT_TOLERATED)


def rejection_of(failure: InsufficientResource | Rejection) -> Rejection:
    """Return the status of a Pod that a predicate rejects. Source: upstream `InsufficientResourceError`."""
    if isinstance(failure, Rejection):
        return failure
    name, requested, used, capacity = failure
    amounts = f"{name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {amounts}")


def _missing_extended_resources(pod: Pod, node_info: NodeInfo) -> set[str]:
    """Return the requested extended resources that the node does not know. Upstream `removeMissingExtendedResources`.

    The kubelet admits the Pod without them, because resources of the whole cluster or of DRA are unknown to nodes.
    """
    scalars = node_info.node.allocatable.scalars
    return {name for name in pod.spec.request.scalars if is_extended(name) and name not in scalars}


def _failed(predicate: str, reason: str) -> Rejection:
    """Return the failure of a predicate. Source: upstream `PredicateFailureError`."""
    return Rejection(predicate, f"Predicate {predicate} failed: {reason}")


Requirements = dict[str, int]
"""Resource -> missing amount: cpu in thousandths, `pods` in Pods, others in units."""
_RECOVERY_FAILED: Final = "Unexpected error while attempting to recover from admission failure: preemption"


class NotEnough(ValueError):
    """Terminating all eligible Pods would not free enough resources. The text is upstream's."""

    def __init__(self, missing: Mapping[str, int]) -> None:
        amounts = "".join(f"(res: {name}, q: {amount}), " for name, amount in missing.items())
        super().__init__(f"no set of running pods found to reclaim resources: [{amounts}]")


class Admission(NamedTuple):
    """The kubelet's admission of a Pod.

    `insufficient`: the missing amounts of resources, cpu in thousandths, memory in bytes. `rejection`: the status of
    the rejected Pod; None if the kubelet admits the Pod. `failed`: the predicates other than resources that reject the
    Pod; the kubelet then preempts no Pods. `preempted`: the Pods that the kubelet preempts first. `equal`: Pods that it
    may preempt instead of some of these. `reason`, `message`: those in the status of a rejected Pod.
    """

    admitted: Hidden[KubeletPod]
    insufficient: Requirements
    rejection: Hidden[Rejection | None] = None
    failed: Hidden[Sequence[Rejection]] = ()
    preempted: Hidden[Sequence[KubeletPod]] = ()
    equal: Sequence[str] = ()

    @in_json
    def pod(self) -> str:
        return self.admitted.key

    @in_json
    def rejected(self) -> bool:
        return self.rejection is not None

    @in_json
    def reason(self) -> str:
        return self.rejection.reason if self.rejection else ""

    @in_json
    def message(self) -> str:
        return self.rejection.message if self.rejection else ""

    @in_json
    def preempted_(self) -> list[str]:
        return [pod.key for pod in self.preempted]

    @property
    def instead(self) -> str:
        """A phrase with the Pods that the kubelet may preempt instead; "" without any."""
        return f" (or {listed([*self.equal])} with equal requests)" if self.equal else ""


def admit(admitted: KubeletPod, pod: Pod, node_info: NodeInfo, pods: Iterable[KubeletPod]) -> Admission:
    """Return the kubelet's admission of a Pod. Source: upstream `Admit`, `HandleAdmissionFailure`.

    `pod`: the same Pod as kube-scheduler's plugins read it. `node_info`, `pods`: the node without this Pod, and the
    Pods there, which are read only for preemption.
    """
    if unsupported := check_support(admitted, pod, node_info.node):
        return Admission(admitted, {}, unsupported, [unsupported])
    failures = list(general_filter(pod, node_info, static=admitted.static, by_claims=admitted.by_claims))
    failed = [failure for failure in failures if isinstance(failure, Rejection)]
    insufficient = {failure.resource: failure.missing for failure in failures if not isinstance(failure, Rejection)}
    if not failures:
        return Admission(admitted, insufficient)
    if not admitted.critical:
        return Admission(admitted, insufficient, rejection_of(failures[0]), failed)
    if failed:
        return Admission(admitted, insufficient, failed[0], failed)
    try:
        preempted, others = pods_to_preempt(admitted, list(pods), insufficient)
        return Admission(admitted, insufficient, preempted=preempted, equal=[pod.key for pod in others])
    except NotEnough as fault:
        message = f"{_RECOVERY_FAILED}: error finding a set of pods to preempt: {fault}"
        return Admission(admitted, insufficient, Rejection("UnexpectedAdmissionError", message))


def pods_to_preempt(
    admitted: KubeletPod, pods: Sequence[KubeletPod], requirements: Mapping[str, int]
) -> tuple[list[KubeletPod], list[KubeletPod]]:
    """Return the Pods that the kubelet preempts: as few Guaranteed Pods as possible, then Burstable, then BestEffort
    ones; and the others that it may preempt instead, because it reads its Pods in random order.

    `admitted`: the new Pod. `pods`: the Pods on the node. `requirements`: resource -> missing amount, in the units of
    `request_of`. Raises NotEnough.
    """
    able = [pod for pod in pods if _preemptable(admitted, pod)]
    best_effort, burstable, guaranteed = ([p for p in able if p.qos == q] for q in (BEST_EFFORT, BURSTABLE, GUARANTEED))
    wanted = dict(requirements)
    if missing := _subtract(wanted, [*best_effort, *burstable, *guaranteed]):
        raise NotEnough(missing)
    ended, like_ended = _by_distance(guaranteed, _subtract(wanted, [*best_effort, *burstable]))
    then, like_then = _by_distance(burstable, _subtract(wanted, [*best_effort, *ended]))
    last, like_last = _by_distance(best_effort, _subtract(wanted, [*then, *ended]))
    return [*last, *then, *ended], [*like_last, *like_then, *like_ended]


def request_of(pod: KubeletPod, resource: str) -> int:
    """Return the request of a Pod: cpu in thousandths, 1 for `pods`, others in units. Source: `GetResourceRequest`."""
    if resource == "pods":
        return 1
    return -(-pod.requests.get(CPU, 0) // 1_000_000) if resource == CPU else pod.request(resource)


def _preemptable(admitted: KubeletPod, pod: KubeletPod) -> bool:
    if admitted.critical and not pod.critical:
        return True
    return admitted.has_priority and pod.has_priority and admitted.priority > pod.priority


def _subtract(requirements: Requirements, pods: Iterable[KubeletPod]) -> Requirements:
    """Return the amounts that are still missing after the termination of these Pods, without zeros."""
    removed = list(pods)
    left = {name: amount - sum(request_of(pod, name) for pod in removed) for name, amount in requirements.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _by_distance(pods: Sequence[KubeletPod], requirements: Requirements) -> tuple[list[KubeletPod], list[KubeletPod]]:
    """Return the Pods to preempt, chosen one after the other until nothing is missing, and the others that equal one of
    them. Raises NotEnough.

    Each is the Pod that leaves the smallest missing amounts; of several, the one with the smallest request.
    """
    sizes = {pod.key: (request_of(pod, MEMORY), request_of(pod, CPU)) for pod in pods}
    candidates, chosen, equal = list(pods), list[KubeletPod](), set[str]()
    while requirements:
        if not candidates:
            raise NotEnough(requirements)
        costs = [(_distance(pod, requirements), sizes[pod.key]) for pod in candidates]
        least = min(costs)
        *others, best = (index for index, cost in enumerate(costs) if cost == least)
        requirements = _subtract(requirements, [candidates[best]])
        equal.update(candidates[index].key for index in others)
        chosen.append(candidates[best])
        candidates[best] = candidates[-1]
        candidates.pop()
    return chosen, [pod for pod in candidates if pod.key in equal]


def _distance(pod: KubeletPod, requirements: Requirements) -> float:
    left = ((float(amount - request_of(pod, name)), float(amount)) for name, amount in requirements.items())
    return sum((missing / amount) ** 2 for missing, amount in left if missing > 0)
