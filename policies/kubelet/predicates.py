"""The predicates of the kubelet: why a node rejects a Pod that kube-scheduler has not scheduled.

The kubelet calls the filters of kube-scheduler's plugins, without the arguments of a profile. Source: kubernetes
`pkg/kubelet/lifecycle/predicate.go`, `pkg/scheduler/eventhandlers.go` (`AdmissionCheck`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kube_apiserver.validation.resources import is_extended
from forewarn.policies.objects.node import LABEL_OS
from forewarn.policies.objects.taints import NO_EXECUTE, untolerated_taint
from forewarn.policies.scheduling.plugins import node_affinity, node_name, node_ports
from forewarn.policies.scheduling.plugins.node_resources_fit import InsufficientResource, insufficient_resources
from forewarn.policies.scheduling.plugins.taint_toleration import TaintToleration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from forewarn.policies.kubelet.pods import KubeletPod
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.node_info import NodeInfo

_NOT_TOLERATED: Final = "node(s) had taints that the pod didn't tolerate"
"""Only the kubelet has this reason. Source: upstream `ErrReasonNotMatch`."""


class Rejection(NamedTuple):
    """The status of a rejected Pod: `status.reason` and `status.message`."""

    reason: str
    message: str


_OTHER_LABEL: Final = Rejection(
    "PodOSSelectorNodeLabelDoesNotMatch",
    "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
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
    known = node_info.node.allocatable.scalars
    return {name for name in pod.spec.request.scalars if is_extended(name) and name not in known}


def _failed(predicate: str, reason: str) -> Rejection:
    """Return the failure of a predicate. Source: upstream `PredicateFailureError`."""
    return Rejection(predicate, f"Predicate {predicate} failed: {reason}")
