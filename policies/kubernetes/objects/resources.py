"""Amounts in kube-scheduler's units (kubernetes `pkg/scheduler/framework/types.go`), and exact ones in billionths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.base.metering import FEW, charge
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject
from forewarn.policies.kubernetes.objects.resource_list import Amount, amounts_at, in_nano
from forewarn.policies.kubernetes.quantity import NANO

ResourceList = dict[str, int]
"""Resource name -> exact amount in billionths."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES: Final = "hugepages-"
_INT64_MAX: Final = 2**63 - 1
_QUALIFIED: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class Resource(NamedTuple):
    """Amounts in kube-scheduler's units: cpu in thousandths, others in units, each rounded up once per Pod."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalars: Mapping[str, int] = NOTHING


def as_resource(amounts: ResourceList) -> Resource:
    """Return the amounts (in billionths) in kube-scheduler's units. Source: upstream `Resource.Add`."""
    if len(amounts) > FEW:
        charge(len(amounts))
    return Resource(
        milli_cpu=_milli(amounts.get(CPU, 0)),
        memory=_units(amounts.get(MEMORY, 0)),
        ephemeral_storage=_units(amounts.get(EPHEMERAL_STORAGE, 0)),
        allowed_pod_number=_units(amounts.get(PODS, 0)),
        scalars={name: _units(amount) for name, amount in amounts.items() if is_scalar_resource_name(name)},
    )


def is_scalar_resource_name(name: str) -> bool:
    """Report whether it is extended, hugepages, `*kubernetes.io/` or attachable-volumes. Source: scheduler/util."""
    if name.startswith((HUGE_PAGES, "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return not name.startswith("requests.") and len(name) <= 253 and _QUALIFIED.fullmatch(name) is not None


def read_resource_list(obj: ApiObject, *path: str) -> ResourceList:
    """Return the quantities at a path by resource name, in billionths. Raises InvalidObject, also for negative ones."""
    return in_nano(amounts_at(obj, *path, accept_negative=False))


def raise_to(amounts: dict[str, Amount], least: Mapping[str, Amount]) -> None:
    """Raise each amount in place to at least the amount in `least`."""
    if len(least) > FEW:
        charge(len(least) // 8)
    for name, amount in least.items():
        if name not in amounts or amounts[name] < amount:
            amounts[name] = amount


def largest_of(lists: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    """Return the maximum amount of each resource. Source: component-helpers `maxResourceList`."""
    result: dict[str, Amount] = {}
    for amounts in lists:
        raise_to(result, amounts)
    return result


def is_huge_page(name: str) -> bool:
    """True for huge pages (upstream `IsHugePageResourceName`)."""
    return name.startswith(HUGE_PAGES)


def is_pod_level(name: str) -> bool:
    """Report whether a Pod itself may request a resource. Source: component-helpers `IsSupportedPodLevelResource`."""
    return name in (CPU, MEMORY) or is_huge_page(name)


def _milli(nano: int) -> int:
    return min(-(-nano // (NANO // 1000)), _INT64_MAX)


def _units(nano: int) -> int:
    return min(-(-nano // NANO), _INT64_MAX)
