"""Pods as Karpenter schedules them: requests, requirements, and preferences that it relaxes.

Sources: pkg/scheduling/requirements.go, taints.go, hostportusage.go, provisioning/scheduling/preferences.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeVar

from forewarn.policies.kubernetes.objects.node import PREFER_NO_SCHEDULE, Taint, Toleration
from forewarn.policies.kubernetes.objects.resource_list import in_nano
from forewarn.policies.kubernetes.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resource, ResourceList
from forewarn.policies.kubernetes.quantity import NANO, Format, Quantity
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    NODE_POOL,
    Problem,
    Requirement,
    Requirements,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import NodeSelectorTerm, PreferredSchedulingTerm
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod, TopologySpreadConstraint, WeightedAffinityTerm

_TOLERATE_PREFERENCES: Final = Toleration("", "Exists", "", PREFER_NO_SCHEDULE)
_MILLI: Final = NANO // 1000
_BINARY: Final = (MEMORY, EPHEMERAL_STORAGE, "hugepages-")

Weighted = TypeVar("Weighted", "PreferredSchedulingTerm", "WeightedAffinityTerm")


@dataclass(frozen=True, slots=True)
class KarpenterPod:
    """A Pod with the parts of its spec that relaxation changes."""

    pod: Pod
    required: tuple[NodeSelectorTerm, ...]
    preferred: tuple[PreferredSchedulingTerm, ...]
    preferred_affinity: tuple[WeightedAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...]
    spread: tuple[TopologySpreadConstraint, ...]
    tolerations: tuple[Toleration, ...]

    @classmethod
    def from_pod(cls, pod: Pod) -> KarpenterPod:
        """Return a Pod before relaxation."""
        node, other_pods = pod.spec.node_affinity, pod.spec.pod_affinity
        return cls(
            pod=pod,
            required=node.required.terms if node.required else (),
            preferred=_heaviest_first(node.preferred or ()),
            preferred_affinity=_heaviest_first(other_pods.preferred_affinity),
            preferred_anti_affinity=_heaviest_first(other_pods.preferred_anti_affinity),
            spread=pod.spec.topology_spread,
            tolerations=pod.spec.tolerations,
        )

    def requirements(self, *, preferences: bool) -> Requirements:
        """Return the requirements on labels: those of the first required term, and of the heaviest preference."""
        requirements = Requirements.of_labels(self.pod.spec.node_affinity.node_selector or {})
        if preferences and self.preferred:
            requirements.add(requirements_of(self.preferred[0].term))
        if self.required:
            requirements.add(requirements_of(self.required[0]))
        return requirements

    def relaxed(self, *, tolerate_preferences: bool) -> KarpenterPod | None:
        """Return the Pod without one of its preferences, or None. Source: `Relax`.

        `tolerate_preferences`: whether a NodePool has a taint with the effect PreferNoSchedule.
        """
        if len(self.required) > 1:
            return replace(self, required=self.required[1:])
        for name in ("preferred_affinity", "preferred_anti_affinity", "preferred"):
            if terms := getattr(self, name):
                return replace(self, **{name: terms[1:]})
        for index, constraint in enumerate(self.spread):
            if constraint.when_unsatisfiable == "ScheduleAnyway":
                spread = [*self.spread]
                spread[index] = spread[-1]
                return replace(self, spread=tuple(spread[:-1]))
        return self.tolerating_preferences() if tolerate_preferences else None

    def tolerating_preferences(self) -> KarpenterPod | None:
        """Return the Pod with a toleration for PreferNoSchedule; None if it has this toleration."""
        if any(toleration[:4] == _TOLERATE_PREFERENCES[:4] for toleration in self.tolerations):
            return None
        return replace(self, tolerations=(*self.tolerations, _TOLERATE_PREFERENCES))


def _heaviest_first(terms: Sequence[Weighted]) -> tuple[Weighted, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))


def requirements_of(term: NodeSelectorTerm) -> Iterator[Requirement]:
    """Return the requirements of a term. Karpenter checks only the required terms of Pending Pods."""
    return (Requirement.from_entry(*expression) for expression in term.unchecked or term.expressions)


def shuns_karpenter(requirements: Requirements) -> bool:
    """Report whether a Pod must not run on Karpenter's nodes."""
    return NODE_POOL in requirements and requirements[NODE_POOL].operator == "DoesNotExist"


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Problem | None:
    """Return the taints that a Pod does not tolerate; in contrast to kube-scheduler, PreferNoSchedule counts."""
    left = [taint for taint in taints if not any(_tolerates(toleration, taint) for toleration in tolerations)]
    return (lambda: "; ".join(f"did not tolerate taint (taint={taint})" for taint in left)) if left else None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.operator not in ("Lt", "Gt"):
        return toleration.tolerates(taint)
    if not toleration._replace(operator="Exists").tolerates(taint):
        return False
    try:
        bound, amount = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return amount < bound if toleration.operator == "Lt" else amount > bound


def ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of a Pod; in contrast to kube-scheduler, those of sidecars do not count."""
    return pod.spec.host_ports[pod.spec.num_sidecar_ports :]


def conflicts(port: HostPort, other: HostPort) -> bool:
    """Report whether two Pods with these host ports conflict on a node."""
    if (port.protocol, port.port) != (other.protocol, other.port):
        return False
    try:
        one, two = ip_address(port.ip), ip_address(other.ip)
    except ValueError:
        return port.ip == other.ip
    return one == two or one.is_unspecified or two.is_unspecified


def requests_of(pod: Pod) -> ResourceList:
    """Return the requests of a Pod, including one of the resource `pods`."""
    if pod.occupies is pod.spec.occupies:
        return {**in_nano(pod.spec.resources.total_requests(use_status=False)), PODS: NANO}
    return {**exact(pod.occupies.resource), PODS: NANO}


def exact(amounts: Resource) -> ResourceList:
    """Return amounts in kube-scheduler's units as exact amounts."""
    units = {MEMORY: amounts.memory, EPHEMERAL_STORAGE: amounts.ephemeral_storage, PODS: amounts.allowed_pod_number}
    return {CPU: amounts.milli_cpu * _MILLI, **{n: a * NANO for n, a in (*units.items(), *amounts.scalars.items())}}


def sum_of(lists: Iterable[Mapping[str, int]]) -> ResourceList:
    """Return the sum of amounts by resource."""
    total: ResourceList = {}
    for amounts in lists:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def fits(requests: Mapping[str, int], available: Mapping[str, int]) -> bool:
    """Report whether requests fit; nothing fits where a resource is overcommitted. Source: `Fits`."""
    return all(amount <= available.get(name, 0) for name, amount in requests.items()) and (
        not available or min(available.values()) >= 0
    )


def texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as quantities in their usual notation."""
    return {
        name: str(Quantity(amount, Format.BINARY_SI if name.startswith(_BINARY) else Format.DECIMAL_SI))
        for name, amount in sorted(amounts.items())
    }


def is_provisionable(pod: Pod) -> bool:
    """Report whether Karpenter considers a Pod that kube-scheduler has marked Unschedulable."""
    return not pod.nominated_node_name and pod.owner_kind not in ("apps/DaemonSet", "/Node")
