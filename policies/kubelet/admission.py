"""Choose the Pods that the kubelet preempts to admit a critical Pod.

A static Pod, or a Pod with a node name, reaches the kubelet without kube-scheduler. If only resources are insufficient,
the kubelet terminates other Pods for a critical one, regardless of PodDisruptionBudgets. Source: kubernetes
`pkg/kubelet/preemption/preemption.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.kubelet.pods import BEST_EFFORT, BURSTABLE, CPU, GUARANTEED, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.kubelet.pods import KubeletPod
    from forewarn.policies.scheduling.node_info import NodeInfo

Lacks = dict[str, int]
"""Resource -> missing amount: cpu in thousandths, `pods` in Pods, others in units."""


class NotEnough(ValueError):
    """Terminating all eligible Pods would not free enough resources."""


def pods_to_preempt(admitted: KubeletPod, pods: Sequence[KubeletPod], lacks: Mapping[str, int]) -> list[KubeletPod]:
    """Return the Pods that the kubelet preempts: as few Guaranteed Pods as possible, then Burstable, then BestEffort
    ones.

    `admitted`: the new Pod. `pods`: the Pods on the node. `lacks`: resource -> missing amount, in the units of
    `request_of`. Raises NotEnough.
    """
    able = [pod for pod in pods if _preemptable(admitted, pod)]
    best_effort, burstable, guaranteed = ([p for p in able if p.qos == q] for q in (BEST_EFFORT, BURSTABLE, GUARANTEED))
    wanted = dict(lacks)
    if _less(wanted, [*best_effort, *burstable, *guaranteed]):
        raise NotEnough("preempting every eligible Pod would not free enough")
    ended = _by_distance(guaranteed, _less(wanted, [*best_effort, *burstable]))
    then = _by_distance(burstable, _less(wanted, [*best_effort, *ended]))
    last = _by_distance(best_effort, _less(wanted, [*then, *ended]))
    return [*last, *then, *ended]


def request_of(pod: KubeletPod, resource: str) -> int:
    """Return the request of a Pod: cpu in thousandths, 1 for `pods`, others in units. Source: `GetResourceRequest`."""
    if resource == "pods":
        return 1
    return -(-pod.requests.get(CPU, 0) // 1_000_000) if resource == CPU else pod.request(resource)


def insufficient_on(info: NodeInfo, admitted: KubeletPod) -> Lacks:
    """The insufficient resources of a node for a Pod (cpu in thousandths). Source: `GeneralPredicates`."""
    allocatable = info.node.allocatable
    free = {
        "pods": allocatable.allowed_pod_number - len(info.pods),
        "cpu": allocatable.milli_cpu - info.milli_cpu,
        "memory": allocatable.memory - info.memory,
        "ephemeral-storage": allocatable.ephemeral_storage - info.ephemeral_storage,
    }
    asked = {name: request_of(admitted, name) for name in free}
    return {name: asked[name] - left for name, left in free.items() if asked[name] and asked[name] > left}


def _preemptable(admitted: KubeletPod, pod: KubeletPod) -> bool:
    if admitted.critical and not pod.critical:
        return True
    return admitted.has_priority and pod.has_priority and admitted.priority > pod.priority


def _less(lacks: Lacks, pods: Iterable[KubeletPod]) -> Lacks:
    """Return the amounts that are still missing after the termination of these Pods, without zeros."""
    gone = list(pods)
    left = {name: amount - sum(request_of(pod, name) for pod in gone) for name, amount in lacks.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _by_distance(pods: Sequence[KubeletPod], lacks: Lacks) -> list[KubeletPod]:
    """Return the Pods to preempt, chosen one after the other until nothing is missing. Raises NotEnough.

    Each is the Pod that leaves the smallest missing amounts; of several, the one with the smallest request.
    """
    left: list[KubeletPod] = list(pods)
    chosen: list[KubeletPod] = []
    while lacks:
        if not left:
            raise NotEnough("preempting every eligible Pod would not free enough")
        best, least = 0, float(len(lacks) + 1)
        for index, pod in enumerate(left):
            distance = _distance(pod, lacks)
            if distance < least or (distance == least and _size(pod) <= _size(left[best])):
                best, least = index, distance
        lacks = _less(lacks, [left[best]])
        chosen.append(left[best])
        left[best] = left[-1]
        left.pop()
    return chosen


def _distance(pod: KubeletPod, lacks: Lacks) -> float:
    total = 0.0
    for name, amount in lacks.items():
        left = float(amount - request_of(pod, name))
        if left > 0:
            total += (left / float(amount)) ** 2
    return total


def _size(pod: KubeletPod) -> tuple[int, int]:
    return request_of(pod, MEMORY), request_of(pod, CPU)
