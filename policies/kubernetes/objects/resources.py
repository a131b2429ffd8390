"""The requests of a Pod: the sum for containers, sidecars, init containers and the Pod itself.

Source: component-helpers `resource/helpers.go`, kubernetes `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import FEW, charge, meter
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, mapping, ref_of
from forewarn.policies.kubernetes.objects.resource_list import Amount, add_to
from forewarn.policies.kubernetes.quantity import NANO, InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path

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
"""The request assumed for a container without requests when nodes are scored.

Source: pkg/scheduler/util/pod_resources.go.
"""


class Counting(NamedTuple):
    """How a release counts Pods with an in-place resize.

    `pod_level`: whether the status of Pod-level resources counts. `by_pod`: whether the result is the maximum of three
    sums, and not the sum of the maximum for each container.
    """

    pod_level: bool = True
    by_pod: bool = False


USUAL: Final = Counting()
OTHER_COUNTINGS: Final = (Counting(False, False), Counting(True, True), Counting(False, True))


@dataclass(frozen=True, slots=True)
class Resource:
    """Amounts in kube-scheduler's units: cpu in thousandths, others in units, each rounded up once per Pod."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalars: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodResource:
    """The resources of a Pod on a node. `non_zero_cpu`, `non_zero_memory`: with defaults for missing requests, for
    scores.

    Source: upstream `PodInfo.CalculateResource`.
    """

    resource: Resource = field(default_factory=Resource)
    non_zero_cpu: int = 0
    non_zero_memory: int = 0
    elsewhere: tuple[tuple[Counting, PodResource], ...] = ()
    """Different results under other releases' rules, during a resize."""

    def counted(self, counting: tuple[bool, bool]) -> PodResource:
        """Return the resources as counted by a release. `counting`: its Counting."""
        return next((amounts for way, amounts in self.elsewhere if way == counting), self)


NOTHING_OCCUPIED: Final = PodResource()


class Running(NamedTuple):
    """The resources in the kubelet's status of a container or Pod; None if absent.

    `actuated`: the requests in `resources`. `allocated`: `allocatedResources`. `reported`: whether the status has
    `resources`.
    """

    actuated: ResourceList | None = None
    allocated: ResourceList | None = None
    reported: bool = False


SILENT: Final = Running()


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """The requests of one container, with its resources during an in-place resize."""

    requests: ResourceList
    running: Running = SILENT
    restartable_init: bool = False


@dataclass(frozen=True, slots=True)
class PodRequests:
    """All parts of a Pod's requests. `infeasible`: whether the requested in-place resize is infeasible."""

    containers: tuple[ContainerRequests, ...] = ()
    init_containers: tuple[ContainerRequests, ...] = ()
    pod_level: ResourceList = field(default_factory=dict)
    running: Running = SILENT
    infeasible: bool = False
    overhead: ResourceList = field(default_factory=dict)

    @property
    def pod_level_set(self) -> bool:
        return any(map(is_pod_level, self.pod_level))

    @property
    def resizing(self) -> bool:
        """Whether the kubelet's status has resources, so that the requests may differ between releases."""
        return (
            self.infeasible
            or self.running != SILENT
            or any(c.running != SILENT for c in (*self.containers, *self.init_containers))
        )

    def total(
        self,
        *,
        use_status: bool,
        counting: Counting = USUAL,
        skip_pod_level: bool = False,
        non_missing: ResourceList | None = None,
    ) -> ResourceList:
        """Return the requests of the whole Pod. Source: component-helpers `PodRequests`.

        `use_status`: include resources that the kubelet has allocated in a resize. `counting`: of the release.
        `skip_pod_level`: ignore Pod-level requests. `non_missing`: requests for containers without them.
        """
        missing = non_missing or {}
        if use_status and counting.by_pod:
            # The maximum of the sums. Source: component-helpers since 1.37, `AggregateContainerRequests`.
            pod = self.running
            if counting.pod_level and pod.allocated is not None and pod.actuated is not None:
                allocated, actuated = pod.allocated, pod.actuated
            else:
                allocated, actuated = self._sum(self._allocated, missing), self._sum(self._actuated, missing)
            spec = {} if self.infeasible else self._sum(_requested, missing)
            total = largest_of((spec, actuated, allocated))
        else:
            total = self._sum(self._effective if use_status else _requested, missing)
        if not skip_pod_level and self.pod_level_set:
            raised = use_status and counting.pod_level and self.running.reported
            effective = self._pod_level_effective if raised else self.pod_level
            for name in effective if counting.by_pod else self.pod_level:
                if is_pod_level(name):
                    total[name] = effective.get(name, 0)
        add_to(total, self.overhead)
        return total

    @property
    def _pod_level_effective(self) -> ResourceList:
        spec = {} if self.infeasible else self.pod_level
        return largest_of((spec, self.running.actuated or {}, self.running.allocated or {}))

    def _effective(self, container: ContainerRequests, init: bool) -> ResourceList:
        """Return the maximum of spec and status. Source: component-helpers up to 1.36 `determineEffectiveRequests`."""
        running = container.running
        if not running.reported or (init and not container.restartable_init):
            return container.requests
        spec = {} if self.infeasible else container.requests
        return largest_of((spec, running.actuated or {}, running.allocated or {}))

    def _allocated(self, container: ContainerRequests, init: bool) -> ResourceList:  # noqa: ARG002
        if container.running.allocated is not None:
            return container.running.allocated
        return {} if self.infeasible else container.requests

    def _actuated(self, container: ContainerRequests, init: bool) -> ResourceList:
        actuated = container.running.actuated
        return self._allocated(container, init) if actuated is None else actuated

    def _sum(self, request: Callable[[ContainerRequests, bool], ResourceList], missing: ResourceList) -> ResourceList:
        """Return the containers' requests. `request`: of one container. `missing`: for containers without requests."""
        return sum_of_containers(
            (_non_missing(request(container, False), missing) for container in self.containers),
            (
                (_non_missing(request(container, True), missing), container.restartable_init)
                for container in self.init_containers
            ),
        )


def _requested(container: ContainerRequests, init: bool) -> ResourceList:  # noqa: ARG001
    return container.requests


def pod_resource(requests: PodRequests) -> PodResource:
    """Return the resources of a Pod on a node. Source: upstream `PodInfo.CalculateResource`."""
    usual = _counted(requests, USUAL)
    if not requests.resizing:
        return usual
    others = ((way, _counted(requests, way)) for way in OTHER_COUNTINGS)
    return replace(usual, elsewhere=tuple((way, amounts) for way, amounts in others if amounts != usual))


def _counted(requests: PodRequests, counting: Counting) -> PodResource:
    amounts = requests.total(use_status=True, counting=counting)
    missing = {n: a for n, a in NON_ZERO_DEFAULTS.items() if not requests.pod_level_set or n not in amounts}
    non_zero = requests.total(use_status=True, counting=counting, non_missing=missing) if missing else amounts
    return PodResource(as_resource(amounts), _milli(non_zero.get(CPU, 0)), _units(non_zero.get(MEMORY, 0)))


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
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return not name.startswith("requests.") and len(name) <= 253 and _QUALIFIED.fullmatch(name) is not None


def read_resource_list(obj: ApiObject, path: Path, root: ApiObject, base: Path = ()) -> ResourceList:
    """Return the quantities at `path` in `obj` by resource name, in billionths.

    Raises InvalidObject, which names the object `root` and the path `base` + `path`.
    """
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


def sum_of_containers(
    containers: Iterable[Mapping[str, Amount]], init_containers: Iterable[tuple[Mapping[str, Amount], bool]]
) -> dict[str, Amount]:
    """Return the sum for containers and sidecars, or the largest need of an init container if that is more.

    `init_containers`: the amounts of each, and whether it is a sidecar. Source: component-helpers
    `AggregateContainerRequests`, `AggregateContainerLimits`.
    """
    total: dict[str, Amount] = {}
    for amounts in containers:
        add_to(total, amounts)
    sidecars: dict[str, Amount] = {}
    largest: dict[str, Amount] = {}
    for amounts, is_sidecar in init_containers:
        if is_sidecar:
            add_to(total, amounts)
            add_to(sidecars, amounts)
            raise_to(largest, sidecars)
        else:
            use = dict(amounts)
            add_to(use, sidecars)
            raise_to(largest, use)
    raise_to(total, largest)
    return total


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


def _non_missing(requests: ResourceList, defaults: ResourceList) -> ResourceList:
    return {**defaults, **requests} if defaults else requests


def is_pod_level(name: str) -> bool:
    """Report whether a Pod itself may request a resource. Source: component-helpers `IsSupportedPodLevelResource`."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _milli(nano: int) -> int:
    return min(-(-nano // (NANO // 1000)), _INT64_MAX)


def _units(nano: int) -> int:
    return min(-(-nano // NANO), _INT64_MAX)
