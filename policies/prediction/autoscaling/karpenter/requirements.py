"""Karpenter's algebra of requirements on labels, and Pods as Karpenter schedules them: requests, requirements, and
preferences that it relaxes.

Sources: pkg/scheduling/requirement.go, requirements.go, taints.go, hostportusage.go,
provisioning/scheduling/preferences.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeVar

from forewarn.policies.kubernetes.objects.node import PREFER_NO_SCHEDULE, Taint, Toleration
from forewarn.policies.kubernetes.objects.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    ExactAmounts,
    Resource,
    to_nano,
)
from forewarn.policies.kubernetes.quantity import NANO, Format, Quantity

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import NodeSelectorTerm, PreferredSchedulingTerm
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod, TopologySpreadConstraint, WeightedAffinityTerm


GROUP: Final = "karpenter.sh"
NODE_POOL: Final = f"{GROUP}/nodepool"
CAPACITY_TYPE: Final = f"{GROUP}/capacity-type"
INITIALIZED: Final = f"{GROUP}/initialized"
REGISTERED: Final = f"{GROUP}/registered"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
RESERVED: Final = "reserved"
SIMULATED: Final = (REGISTERED, INITIALIZED)
"""Labels of a template that only decide which DaemonSet Pods run on the node."""

_PROVIDER: Final = tuple(
    f"karpenter.k8s.aws/instance-{what}" for what in ("category", "family", "generation", "size", "cpu", "memory")
)
WELL_KNOWN: Final = frozenset(
    {NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, RESERVATION_ID, *_PROVIDER}
    | {"node.kubernetes.io/windows-build"}
)
NORMALIZED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
CAPACITY_TYPES: Final = ("on-demand", "reserved", "spot")


def restricted(key: str) -> str | None:
    """Return why Pods and NodePools must not require a label; None if they may. Source: `IsRestrictedLabel`."""
    domain = key.partition("/")[0] if "/" in key else ""
    if key in WELL_KNOWN or (key != HOSTNAME and domain != GROUP and not domain.endswith(f".{GROUP}")):
        return None
    return (
        f"using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well "
        f"known label: [{' '.join(sorted(WELL_KNOWN))}], or a custom label that does not use a restricted domain: "
        f"[{GROUP}]"
    )


Problem = Callable[[], str]
"""Writes upstream's message about a rejection. Only few rejections are shown, so most messages are never written."""

_MAX_INT: Final = 2**63 - 1
_MIN_INT: Final = -(2**63)
_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)
_DIGITS: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NOT: Final = ("NotIn", "DoesNotExist")
_SHOWN: Final = 5


def _integer(text: str) -> int | None:
    """Return a number as strconv.Atoi reads it, None for other texts."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and _MIN_INT <= number <= _MAX_INT else None


def _unchecked(text: str) -> int:
    """Return the number that strconv.Atoi returns together with an error: 0, or the nearest number in its range."""
    number = _integer(text)
    if number is not None or not _DIGITS.fullmatch(text):
        return number or 0
    return _MIN_INT if text.startswith("-") else _MAX_INT


@dataclass(slots=True, eq=False)
class Requirement:
    """The values that a label may have: those in `values`, or (`complement`) all others, within bounds.

    `min_values`: the number of different values that the instance types must have. It is mutable, as upstream: if
    minValues are relaxed, all requirements that share the object change.
    """

    key: str
    values: frozenset[str] = frozenset()
    complement: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @classmethod
    def from_entry(
        cls, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
    ) -> Requirement:
        """Return the requirement of a selector's entry. Source: `NewRequirementWithFlexibility`."""
        key = NORMALIZED.get(key, key)
        if operator in ("In", "NotIn"):
            return cls(key, frozenset(values), operator == "NotIn", min_values=min_values)
        gte = lte = None
        if operator in ("Gt", "Lt", "Gte", "Lte"):
            number = _unchecked(next(iter(values), ""))
            if operator == "Gt" and number == _MAX_INT:
                return cls(key)
            number += {"Gt": 1, "Lt": -1}.get(operator, 0)
            number = _MAX_INT if number < _MIN_INT else number  # upstream overflows
            gte, lte = (number, None) if operator in ("Gt", "Gte") else (None, number)
        return cls(key, frozenset(), operator != "DoesNotExist", gte, lte, min_values)

    @property
    def operator(self) -> str:
        """The operator of an equal selector entry; Exists for bounds."""
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    def _bounds(self, other: Requirement) -> tuple[int | None, int | None]:
        return _limit(max, self.gte, other.gte), _limit(min, self.lte, other.lte)

    def intersection(self, other: Requirement) -> Requirement:
        """Return the requirement that both fulfil."""
        gte, lte = self._bounds(other)
        min_values = _limit(max, self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, min_values=min_values)
        if self.complement:
            values = self.values | other.values if other.complement else other.values - self.values
        else:
            values = self.values - other.values if other.complement else self.values & other.values
        if gte is not None or lte is not None:
            values = frozenset(value for value in values if _is_within(value, gte, lte))
        if self.complement and other.complement:
            return Requirement(self.key, values, True, gte, lte, min_values)
        return Requirement(self.key, values, min_values=min_values)

    def intersects(self, other: Requirement) -> bool:
        """Report whether a value fulfils both."""
        both = self.intersection(other)
        return both.complement or bool(both.values)

    def has(self, value: str) -> bool:
        return (value in self.values) != self.complement and _is_within(value, self.gte, self.lte)

    def __str__(self) -> str:
        text = f"{self.key} {self.operator}"
        if self.values:
            values = sorted(self.values)
            others = [f"and {len(values) - _SHOWN} others"] if len(values) > _SHOWN else []
            text += f" [{' '.join(values[:_SHOWN] + others)}]"
        for sign, amount in ((">=", self.gte), ("<=", self.lte), ("minValues ", self.min_values)):
            text += "" if amount is None else f" {sign}{amount}"
        return text


class Requirements(dict[str, Requirement]):
    """Requirements by label key."""

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        super().__init__()
        self.add(requirements)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Requirements:
        return cls(Requirement.from_entry(key, "In", (value,)) for key, value in labels.items())

    def copy(self) -> Requirements:
        """Return a copy that shares the requirements."""
        copied = Requirements()
        copied.update(self)
        return copied

    def add(self, requirements: Iterable[Requirement]) -> None:
        """Restrict these requirements by others."""
        for requirement in requirements:
            present = super().get(requirement.key)
            self[requirement.key] = requirement if present is None else requirement.intersection(present)

    def on(self, key: str) -> Requirement:
        """Return the requirement on a label; without one, any value is allowed."""
        present = super().get(key)
        return Requirement(key, complement=True) if present is None else present

    def compatible(self, others: Requirements, allow_undefined: Collection[str] = ()) -> Problem | None:
        """Return why a node with these requirements cannot fulfil `others`; None if it can."""
        for key, other in others.items():
            if key not in self and key not in allow_undefined and other.operator not in _NOT:
                return partial(_unknown, self, key, allow_undefined)
        return self.conflict(others)

    def conflict(self, others: Requirements) -> Problem | None:
        """Return why no node can fulfil both these requirements and `others`; None if one can. Source: `Intersects`."""
        return None if next(self.conflicts(others), None) is None else partial(_conflicting, self, others)

    def conflicts(self, others: Requirements) -> Iterator[str]:
        """Yield the labels for which no value fulfils both."""
        fewer = self if len(self) <= len(others) else others
        for key in fewer:
            own, other = super().get(key), others.get(key)
            if own is None or other is None or own.intersects(other):
                continue
            if other.operator not in _NOT or own.operator not in _NOT:
                yield key

    @property
    def signature(self) -> Hashable:
        """What instance types with equal results have in common: all but the hostname and minValues."""
        return frozenset((key, r.complement, r.values, r.gte, r.lte) for key, r in self.items() if key != HOSTNAME)

    @property
    def has_min_values(self) -> bool:
        return any(requirement.min_values is not None for requirement in self.values())

    def __str__(self) -> str:
        return ", ".join(sorted(str(requirement) for key, requirement in self.items() if key != HOSTNAME))

    __repr__ = __str__


def _unknown(own: Requirements, key: str, allow_undefined: Collection[str]) -> str:
    suffix = key.partition("/")[2] or key
    for candidate in (*sorted(allow_undefined), *sorted(own)):
        if key in candidate or candidate.endswith(suffix):
            return f'label "{key}" does not have known values (typo of "{candidate}"?)'
    return f'label "{key}" does not have known values'


def _conflicting(own: Requirements, others: Requirements) -> str:
    keys = sorted(own.conflicts(others))
    return "; ".join(f"key {key}, {others.on(key)} not in {own.on(key)}" for key in keys)


def _is_within(value: str, gte: int | None, lte: int | None) -> bool:
    if gte is None and lte is None:
        return True
    number = _integer(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)


def _limit(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else choose(one, other)


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
        requirements = Requirements.from_labels(self.pod.spec.node_affinity.node_selector or {})
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
    """Report whether the requirements keep a Pod off Karpenter's nodes."""
    return NODE_POOL in requirements and requirements[NODE_POOL].operator == "DoesNotExist"


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Problem | None:
    """Return the problem if a Pod does not tolerate a taint. Unlike in kube-scheduler, PreferNoSchedule counts."""
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


def requests_of(pod: Pod) -> ExactAmounts:
    """Return the requests of a Pod, including one of the resource `pods`."""
    if pod.occupies is pod.spec.occupies:
        return {**to_nano(pod.spec.resources.total_requests(use_status=False)), PODS: NANO}
    return {**exact(pod.occupies.resource), PODS: NANO}


def exact(amounts: Resource) -> ExactAmounts:
    """Return amounts in kube-scheduler's units as exact amounts."""
    units = {MEMORY: amounts.memory, EPHEMERAL_STORAGE: amounts.ephemeral_storage, PODS: amounts.allowed_pod_number}
    return {CPU: amounts.milli_cpu * _MILLI, **{n: a * NANO for n, a in (*units.items(), *amounts.scalars.items())}}


def sum_of(lists: Iterable[Mapping[str, int]]) -> ExactAmounts:
    """Return the sum of amounts by resource."""
    total: ExactAmounts = {}
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
