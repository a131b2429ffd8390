"""What a pod asks of a node: requests of containers, sidecars, init containers and the pod itself, added up.

Source: component-helpers `resource/helpers.go`, kubernetes `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from policies.metering import FEW, charge, meter
from policies.objects.fields import InvalidObject, mapping, ref_of
from policies.quantity import NANO, InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.findings import Path
    from policies.objects.fields import ApiObject

ResourceList = dict[str, int]
"""Resource name -> exact amount in billionths."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
_INT64_MAX: Final = 2**63 - 1
_QUALIFIED: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)

NON_ZERO_DEFAULTS: Final[ResourceList] = {CPU: 100 * NANO // 1000, MEMORY: 200 * 1024 * 1024 * NANO}
"""What a container without a request counts as when nodes are scored. Source: pkg/scheduler/util/pod_resources.go."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Amounts as the scheduler adds them: cpu in thousandths, the rest in units, each rounded up once per pod."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalars: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodResource:
    """What a pod on a node occupies; `non_zero_*` is for scoring. Source: upstream `PodInfo.CalculateResource`."""

    resource: Resource = field(default_factory=Resource)
    non_zero_cpu: int = 0
    non_zero_memory: int = 0


NOTHING_OCCUPIED: Final = PodResource()


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """The requests of one container; `effective` has what an in-place resize makes of them while it runs."""

    requests: ResourceList
    effective: ResourceList
    restartable_init: bool = False


@dataclass(frozen=True, slots=True)
class PodRequests:
    """Everything that a pod's requests are made of."""

    containers: tuple[ContainerRequests, ...] = ()
    init_containers: tuple[ContainerRequests, ...] = ()
    pod_level: ResourceList = field(default_factory=dict)
    pod_level_effective: ResourceList | None = None
    overhead: ResourceList = field(default_factory=dict)

    @property
    def pod_level_set(self) -> bool:
        """Whether the pod itself requests a resource that may be requested so."""
        return any(map(_supports_pod_level, self.pod_level))

    def total(
        self,
        *,
        use_status: bool,
        skip_pod_level: bool = False,
        non_missing: ResourceList | None = None,
    ) -> ResourceList:
        """The requests of the whole pod. Source: component-helpers `PodRequests`.

        `use_status`: count what the kubelet has allocated in a resize. `non_missing`: stands in for requests that
        a container does not make.
        """
        total = self._aggregate(use_status, non_missing or {})
        if not skip_pod_level and self.pod_level_set:
            effective = self.pod_level_effective if use_status else None
            for name, amount in self.pod_level.items():
                if _supports_pod_level(name):
                    total[name] = amount if effective is None else effective.get(name, 0)
        _add(total, self.overhead)
        return total

    def _aggregate(self, use_status: bool, non_missing: ResourceList) -> ResourceList:
        """Containers and sidecars together, or the largest init container, whichever is more."""
        total: ResourceList = {}
        for container in self.containers:
            _add(total, _non_missing(container.effective if use_status else container.requests, non_missing))
        sidecars: ResourceList = {}
        largest: ResourceList = {}
        for container in self.init_containers:
            own = _non_missing(
                container.effective if use_status and container.restartable_init else container.requests, non_missing
            )
            if container.restartable_init:
                _add(total, own)
                _add(sidecars, own)
                raise_to(largest, sidecars)
            else:
                use = dict(own)
                _add(use, sidecars)
                raise_to(largest, use)
        raise_to(total, largest)
        return total


def pod_resource(requests: PodRequests) -> PodResource:
    """What a pod on a node occupies. Source: upstream `PodInfo.CalculateResource`."""
    amounts = requests.total(use_status=True)
    missing = {n: a for n, a in NON_ZERO_DEFAULTS.items() if not requests.pod_level_set or n not in amounts}
    non_zero = requests.total(use_status=True, non_missing=missing) if missing else amounts
    return PodResource(as_resource(amounts), _milli(non_zero.get(CPU, 0)), _units(non_zero.get(MEMORY, 0)))


def as_resource(amounts: ResourceList) -> Resource:
    """The amounts that the scheduler looks at, in its units. Source: upstream `Resource.Add`."""
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
    """Extended, hugepages, `*kubernetes.io/` and attachable-volumes resources. Source: pkg/scheduler/util/utils.go."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return not name.startswith("requests.") and len(name) <= 253 and _QUALIFIED.fullmatch(name) is not None


def read_resource_list(obj: ApiObject, path: Path, root: ApiObject, base: Path = ()) -> ResourceList:
    """Quantities by resource name at `path` in `obj`; errors name `root` and `base` + `path`. Raises InvalidObject."""
    amounts: ResourceList = {}
    work = meter()
    for name, value in mapping(obj, *path).items():
        work.charge(2)
        try:
            quantity = parse_quantity(value)
        except InvalidQuantity as error:
            raise InvalidObject(f"{value!r}: {error}", (*base, *path, name), ref_of(root)) from None
        if quantity.nano < 0:
            raise InvalidObject(f"{value} is negative", (*base, *path, name), ref_of(root))
        amounts[name] = quantity.nano
    return amounts


def raise_to(amounts: ResourceList, least: ResourceList) -> None:
    """Make every amount at least what `least` says. Source: component-helpers `maxResourceList`."""
    if len(least) > FEW:
        charge(len(least) // 8)
    for name, amount in least.items():
        if name not in amounts or amount > amounts[name]:
            amounts[name] = amount


def largest_of(lists: Iterable[ResourceList]) -> ResourceList:
    """The largest amount of every resource."""
    result: ResourceList = {}
    for amounts in lists:
        raise_to(result, amounts)
    return result


def _add(amounts: ResourceList, more: ResourceList) -> None:
    if len(more) > FEW:
        charge(len(more) // 8)
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _non_missing(requests: ResourceList, defaults: ResourceList) -> ResourceList:
    return {**defaults, **requests} if defaults else requests


def _supports_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _milli(nano: int) -> int:
    return min(-(-nano // (NANO // 1000)), _INT64_MAX)


def _units(nano: int) -> int:
    return min(-(-nano // NANO), _INT64_MAX)
