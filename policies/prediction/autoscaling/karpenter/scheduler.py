"""Karpenter's scheduler: Pods on existing nodes, on NodeClaims of this round, and on new NodeClaims.

Sources, of sigs.k8s.io/karpenter v1.14.0: provisioning/scheduling/scheduler.go, nodeclaim.go, existingnode.go,
queue.go. Devices (DRA) are ignored, which is Karpenter's default.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.node import PREFER_NO_SCHEDULE
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY, ExactAmounts, largest_of
from forewarn.policies.prediction.autoscaling.karpenter import requirements as label
from forewarn.policies.prediction.autoscaling.karpenter.instance_types import (
    LAUNCHED,
    NODES,
    DaemonGroup,
    NodePool,
    Offering,
    Reservations,
    filtered,
    min_values_text,
    unsatisfied_min_values,
)
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    KarpenterPod,
    Problem,
    Requirement,
    Requirements,
    conflicts,
    fits,
    ports_of,
    requests_of,
    sum_of,
    untolerated,
)
from forewarn.policies.prediction.autoscaling.karpenter.topology import Choices, Topology

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod
    from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import ClusterState, StateNode
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import InstanceType

    VolumesOf = Callable[[Pod], dict[str, set[str]]]


_MAX_CACHED: Final = 1_000
"""Maximum number of different requirements for which suitable instance types are cached."""
PLACEHOLDER: Final = "hostname-placeholder"


class Options(NamedTuple):
    """Karpenter's settings: `preferences` (preference-policy Respect), `best_effort` (min-values-policy BestEffort)."""

    preferences: bool = True
    best_effort: bool = False


class Failure(Exception):
    """The Pod does not fit. `problem`: writes the message. `reserved`: a later round may find a reservation."""

    def __init__(self, problem: Problem, *, reserved: bool = False) -> None:
        super().__init__()
        self.problem, self.reserved = problem, reserved


class Asked(NamedTuple):
    """A Pod with its demands. `strict`: requirements without preferences. `places`: places of its volumes."""

    pod: KarpenterPod
    requests: ExactAmounts
    requirements: Requirements
    strict: Requirements
    places: Sequence[Requirements]


class Place(NamedTuple):
    """The state of a NodeClaim after a Pod is added."""

    requirements: Requirements
    instance_types: list[InstanceType]
    reserved: list[Offering]


def _clash(ports: Iterable[tuple[str, tuple[HostPort, ...]]], pod: Pod) -> bool:
    return bool(pod.spec.host_ports) and any(
        key != pod.key and conflicts(own, other) for key, used in ports for other in used for own in ports_of(pod)
    )


class ExistingNode:
    """A node, or a NodeClaim that is not a node yet, with the Pods that Karpenter expects on it."""

    def __init__(
        self, state: StateNode, daemons: Sequence[KarpenterPod], topology: Topology, volumes_of: VolumesOf
    ) -> None:
        self.state, self.pods, self.taints = state, list[KarpenterPod](), state.taints()
        self._topology, self._limits = topology, state.limits
        wanted, present = sum_of(requests_of(daemon.pod) for daemon in daemons), state.daemon_requests
        missing = {name: max(wanted.get(name, 0) - present.get(name, 0), 0) for name in wanted.keys() | present}
        self._free = {name: amount - missing.get(name, 0) for name, amount in state.available.items()}
        self._requirements = state.requirements.copy()
        self._requirements.add((Requirement.from_entry(label.HOSTNAME, "In", (state.hostname,)),))
        self._ports = state.ports()
        self._volumes: dict[str, set[str]] = {}
        if self._limits:
            for pod in state.pods:
                _merge(self._volumes, volumes_of(pod))
        topology.register(state.hostname)

    def add(self, asked: Asked, volumes: Mapping[str, set[str]]) -> bool:
        """Add the Pod if it fits."""
        pod = asked.pod
        if not fits(asked.requests, self._free) or untolerated(self.taints, pod.tolerations):
            return False
        if self._exceeds_limit(volumes) or _clash(self._ports, pod.pod):
            return False
        if self._requirements.compatible(asked.requirements):
            return False
        base = self._requirements.copy()
        base.add(asked.requirements.values())
        for place in asked.places or (Requirements(),):
            requirements = base.copy()
            if requirements.compatible(place):
                continue
            requirements.add(place.values())
            restricted = self._topology.add_requirements(pod, self.taints, asked.strict, requirements)
            if isinstance(restricted, Requirements) and not requirements.compatible(restricted):
                requirements.add(restricted.values())
                self.pods.append(asked.pod)
                self._free = {
                    name: self._free.get(name, 0) - asked.requests.get(name, 0) for name in self._free | asked.requests
                }
                self._requirements = requirements
                self._topology.record(asked.pod, self.taints, requirements)
                self._ports.append((asked.pod.pod.key, ports_of(asked.pod.pod)))
                _merge(self._volumes, volumes)
                return True
        return False

    def _exceeds_limit(self, volumes: Mapping[str, set[str]]) -> bool:
        used = {driver: len(self._volumes.get(driver, set()) | volumes.get(driver, set())) for driver in self._limits}
        return any(used[driver] > limit for driver, limit in self._limits.items() if used[driver])


def _merge(into: dict[str, set[str]], volumes: Mapping[str, set[str]]) -> None:
    for driver, claims in volumes.items():
        into[driver] = into.get(driver, set()) | claims


class Template(NamedTuple):
    """What a NodePool offers. `groups`: its instance types by their DaemonSet Pods."""

    pool: NodePool
    instance_types: list[InstanceType]
    groups: list[DaemonGroup]


class NewNodeClaim:
    """A NodeClaim that Karpenter adds."""

    def __init__(
        self, template: Template, instance_types: list[InstanceType], scheduler: Scheduler, number: int
    ) -> None:
        self.pool, self.instance_types, self._scheduler = template.pool, instance_types, scheduler
        self.hostname = f"{PLACEHOLDER}-{number:04}"
        self.requirements = template.pool.template.copy()
        self.requirements.add((Requirement.from_entry(label.HOSTNAME, "In", (self.hostname,)),))
        self.pods: list[KarpenterPod] = []
        self.requests: ExactAmounts = {}
        self._groups = [replace(group, ports=[*group.ports]) for group in template.groups]
        self._reserved: list[Offering] = []
        self._largest: ExactAmounts | None = None

    def is_full(self, requests: ExactAmounts) -> bool:
        """Report whether no instance type has enough resources for further requests."""
        if self._largest is None:
            self._largest = largest_of(instance_type.allocatable for instance_type in self.instance_types)
        return any(self.requests.get(n, 0) + amount > self._largest.get(n, 0) for n, amount in requests.items())

    def place(self, asked: Asked, *, relax_min_values: bool = False) -> Place:
        """Return the state of the NodeClaim after a Pod is added. Raises Failure."""
        if problem := untolerated(self.pool.taints, asked.pod.tolerations):
            raise Failure(problem)
        if problem := self.requirements.compatible(asked.requirements, label.WELL_KNOWN):
            raise Failure(_prefixed("incompatible requirements, ", problem))
        base = self.requirements.copy()
        base.add(asked.requirements.values())
        failure: Failure | None = None
        for volumes in asked.places or (Requirements(),):
            try:
                return self._place(asked, base, volumes, relax_min_values=relax_min_values)
            except Failure as problem_of_place:
                failure = problem_of_place
        assert failure is not None
        raise failure

    def _place(self, asked: Asked, base: Requirements, volumes: Requirements, *, relax_min_values: bool) -> Place:
        requirements = base.copy()
        if problem := requirements.compatible(volumes, label.WELL_KNOWN):
            raise Failure(_prefixed("incompatible volume requirements, ", problem))
        requirements.add(volumes.values())
        restricted = self._scheduler.topology.add_requirements(asked.pod, self.pool.taints, asked.strict, requirements)
        if not isinstance(restricted, Requirements):
            raise Failure(restricted)
        if problem := requirements.compatible(restricted, label.WELL_KNOWN):
            raise Failure(problem)
        requirements.add(restricted.values())
        usable = [group for group in self._groups if not _clash(group.ports, asked.pod.pod)]
        requests = asked.requests, sum_of((self.requests, asked.requests))
        suitable = self._scheduler.suitable(requirements)
        types = self.instance_types
        result = filtered(types, requirements, usable, requests, suitable, relax_min_values=relax_min_values)
        if relax_min_values:
            for key, count in result.unsatisfied.items():
                requirements[key].min_values = count
        if not result.remaining:
            raise Failure(result.explanation)
        return Place(requirements, result.remaining, self._reservable(result.remaining, requirements))

    def _reservable(self, types: Iterable[InstanceType], requirements: Requirements) -> list[Offering]:
        """Return the reserved offerings that the NodeClaim can hold. Source: `offeringsToReserve`. Raises Failure."""
        offered = [
            offering
            for type_ in types
            if type_.has_reserved
            for offering in type_.offerings
            if offering.capacity_type == label.RESERVED and offering.suits(requirements)
        ]
        reserved = [o for o in offered if self._scheduler.reservations.available(self.hostname, o)]
        if offered and not reserved:
            raise Failure(lambda: _NOT_RESERVED, reserved=True)
        if self._reserved and not reserved:
            raise Failure(lambda: _NONE_LEFT, reserved=True)
        return reserved

    def add(self, asked: Asked, place: Place) -> None:
        """Add a Pod."""
        self.pods.append(asked.pod)
        self.requirements, self.instance_types, self._reserved = place
        self._largest = None
        self.requests = sum_of((self.requests, asked.requests))
        topology = self._scheduler.topology
        topology.register(self.hostname)
        topology.record(asked.pod, self.pool.taints, self.requirements)
        for group in self._groups:
            group.ports.append((asked.pod.pod.key, ports_of(asked.pod.pod)))
        self._scheduler.reservations.hold(self.hostname, self._reserved)

    def finish(self, choices: Choices) -> None:
        """Add the requests of DaemonSet Pods, and the reservations to the requirements. Source: `FinalizeScheduling`.

        Upstream combines the requests of groups in any order.
        """
        self.requirements.pop(label.HOSTNAME, None)
        if self._reserved:
            self.requirements[label.CAPACITY_TYPE] = Requirement.from_entry(
                label.CAPACITY_TYPE, "In", (label.RESERVED,)
            )
            self.requirements.add(
                (Requirement(label.RESERVATION_ID, frozenset(o.reservation for o in self._reserved)),)
            )
        remaining, least = set(self.instance_types), dict[str, int]()
        groups = [group.requests for group in self._groups if not remaining.isdisjoint(group.instance_types)]
        choices.arbitrary = choices.arbitrary or len({frozenset(group.items()) for group in groups}) > 1
        for requests in choices.order(groups):
            least = {n: min(a, requests[n]) for n, a in least.items() if n in requests} if least else requests
        self.requests = sum_of((self.requests, least))

    def truncate(self, *, best_effort: bool) -> str | None:
        """Keep the cheapest instance types; return why minValues do not allow this, or None."""
        self.instance_types.sort(key=lambda item: (item.price(self.requirements), item.name))
        kept = self.instance_types[:LAUNCHED]
        if not best_effort and (missing := unsatisfied_min_values(kept, self.requirements)):
            return (
                "pod didn\u2019t schedule because NodePool couldn\u2019t meet minValues requirements, "
                f"validating minValues, {min_values_text(missing)} (NodePool={self.pool.name})"
            )
        self.instance_types = kept
        return None


_NOT_RESERVED: Final = (
    "one or more instance types with compatible reserved offerings are available, but could not be reserved"
)
_NONE_LEFT: Final = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"
_NO_TEMPLATE: Final = "nodepool requirements filtered out all available instance types"
_DEVICES: Final = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"


def _prefixed(prefix: str, problem: Problem) -> Problem:
    return lambda: prefix + problem()


class Scheduler:
    """One round of scheduling."""

    def __init__(
        self,
        state: ClusterState,
        pools: Mapping[NodePool, list[InstanceType]],
        pods: Sequence[Pod],
        options: Options,
        choices: Choices,
    ) -> None:
        """Set up a round. `pools`: NodePools with their instance types, the preferred one first."""
        self._state, self._options, self._choices = state, options, choices
        self._suitable: dict[Hashable, dict[InstanceType, tuple[bool, bool]]] = {}
        self._pods = [KarpenterPod.from_pod(pod) for pod in pods]
        located = [(pod, state.storage.alternatives(pod.pod)) for pod in self._pods]
        self._places = {pod.pod.identity: places for pod, places in located if places is not None}
        own_types = [pod for pod, places in located if places is not None]
        offered = {pool: types for pool, types in pools.items() if types}
        self.topology = Topology(state, state.active, offered, own_types, choices, preferences=options.preferences)
        self._tolerate = any(taint.effect == PREFER_NO_SCHEDULE for pool in pools for taint in pool.taints)
        self.reservations = Reservations(known for types in pools.values() for known in types)
        daemons = [KarpenterPod.from_pod(pod) for pod in state.daemons if not pod.spec.claims_devices]
        self._templates = self._usable_templates(pools, daemons)
        self._remaining = {pool.name: dict(pool.limits) for pool in pools if pool.limits is not None}
        self.existing = [self._existing(node, daemons) for node in state.active]
        self.existing.sort(key=lambda node: (not node.state.initialized, node.state.name))
        self.new: list[NewNodeClaim] = []
        self.errors: dict[str, Problem] = {}
        self._number = 0

    def suitable(self, requirements: Requirements) -> dict[InstanceType, tuple[bool, bool]]:
        """Return the cached results of `InstanceType.suits` for requirements with the same signature."""
        if len(self._suitable) > _MAX_CACHED:
            self._suitable.clear()
        return self._suitable.setdefault(requirements.signature, {})

    def _usable_templates(
        self, pools: Mapping[NodePool, list[InstanceType]], daemons: list[KarpenterPod]
    ) -> list[Template]:
        """Return the templates of NodePools that have instance types."""
        relax, nothing = self._options.best_effort, ExactAmounts()
        templates = []
        for pool, types in pools.items():
            everywhere = [DaemonGroup(types, nothing, [])]
            left = filtered(types, pool.template, everywhere, (nothing, nothing), {}, relax_min_values=relax).remaining
            if left:
                templates.append(Template(pool, left, _daemon_groups(pool, left, daemons)))
        return templates

    def _existing(self, state: StateNode, daemons: Iterable[KarpenterPod]) -> ExistingNode:
        taints, labels = state.taints(), state.requirements
        on_node = [
            daemon
            for daemon in daemons
            if untolerated(taints, daemon.tolerations) is None
            and labels.compatible(daemon.requirements(preferences=False)) is None
        ]
        limits, capacity = self._remaining.get(state.labels.get(label.NODE_POOL, ""), {}), state.capacity()
        for name in limits:
            limits[name] -= capacity.get(name, 0)
        return ExistingNode(state, on_node, self.topology, self._state.storage.used_by)

    def solve(self) -> None:
        """Schedule the Pods, largest first, as long as there is progress. Source: `Solve`."""
        asked = {pod.pod.identity: self._asked(pod) for pod in self._pods}
        queue = deque(sorted(self._pods, key=lambda pod: _order(pod.pod, asked[pod.pod.identity].requests)))
        length_after_push: dict[str, int] = {}
        while queue and length_after_push.get(queue[0].pod.identity) != len(queue):
            pod = queue.popleft()
            identity = pod.pod.identity
            failure = self._try(pod, asked[identity])
            if failure is None:
                self.errors.pop(pod.pod.key, None)
                continue
            self.errors[pod.pod.key] = failure.problem
            self.topology.update(pod)
            queue.append(pod)
            length_after_push[identity] = len(queue)
        for claim in self.new:
            claim.finish(self._choices)
        self._truncate()

    def _truncate(self) -> None:
        kept = []
        for claim in self.new:
            problem = claim.truncate(best_effort=self._options.best_effort)
            if problem:
                self.errors |= dict.fromkeys((pod.pod.key for pod in claim.pods), partial(str, problem))
            else:
                kept.append(claim)
        self.new = kept

    def _asked(self, pod: KarpenterPod) -> Asked:
        requirements = pod.requirements(preferences=self._options.preferences)
        strict = pod.requirements(preferences=False) if pod.preferred else requirements
        return Asked(pod, requests_of(pod.pod), requirements, strict, self._places.get(pod.pod.identity, ()))

    def _try(self, pod: KarpenterPod, asked: Asked) -> Failure | None:
        """Schedule a Pod, without its preferences if necessary; return why this failed. Source: `trySchedule`."""
        if pod.pod.spec.claims_devices:
            return Failure(lambda: _DEVICES)
        volumes = self._state.storage.used_by(pod.pod)
        while True:
            failure = self._add(asked, volumes)
            if failure is None or failure.reserved:
                return failure
            relaxed = asked.pod.relaxed(tolerate_preferences=self._tolerate)
            if relaxed is None:
                return failure
            self.topology.update(relaxed)
            asked = self._asked(relaxed)

    def _add(self, asked: Asked, volumes: Mapping[str, set[str]]) -> Failure | None:
        charge(4 * len(self.existing) + 2 * len(self.new))
        if any(node.add(asked, volumes) for node in self.existing):
            return None
        # Above 12 claims, Go's sort is not stable: upstream may then try equal claims in another order.
        self.new.sort(key=lambda claim: len(claim.pods))
        for claim in self.new:
            if claim.is_full(asked.requests):
                continue
            try:
                claim.add(asked, claim.place(asked))
            except Failure:
                continue
            return None
        if not self._templates:
            return Failure(lambda: _NO_TEMPLATE)
        return self._add_to_new(asked)

    def _add_to_new(self, asked: Asked) -> Failure | None:
        failures: list[Failure] = []
        for template in self._templates:
            try:
                types = self._affordable_types(template)
                self._number += 1
                claim = NewNodeClaim(template, types, self, self._number)
                place = claim.place(asked, relax_min_values=self._options.best_effort)
            except Failure as failure:
                failures.append(failure)
                if failure.reserved:
                    break
                continue
            claim.add(asked, place)
            self.new.append(claim)
            remaining = self._remaining.get(template.pool.name, {})
            # The largest instance type may be the one that is launched. Source: `subtractMax`.
            for name in remaining:
                remaining[name] -= max(type_.capacity.get(name, 0) for type_ in claim.instance_types)
            return None
        messages = [failure.problem for failure in failures]
        reserved = any(failure.reserved for failure in failures)
        return Failure(lambda: "; ".join(message() for message in messages), reserved=reserved)

    def _affordable_types(self, template: Template) -> list[InstanceType]:
        """Return the instance types that do not exceed the limits of the NodePool. Raises Failure."""
        remaining, name = self._remaining.get(template.pool.name), template.pool.name
        if remaining is None:
            return template.instance_types
        if remaining.get(NODES) == 0:
            raise Failure(lambda: f"node limits have been exhausted for nodepool (NodePool={name})")
        left = [t for t in template.instance_types if all(t.capacity.get(n, 0) <= a for n, a in remaining.items())]
        if not left:
            raise Failure(lambda: f"all available instance types exceed limits for nodepool (NodePool={name})")
        return left


def _order(pod: Pod, requests: ExactAmounts) -> tuple[int, int, int, str]:
    """Return the sort key of the queue: most cpu, then most memory, then the oldest."""
    return -requests.get(CPU, 0), -requests.get(MEMORY, 0), pod.created or 0, pod.uid


def _daemon_groups(pool: NodePool, types: list[InstanceType], daemons: list[KarpenterPod]) -> list[DaemonGroup]:
    """Return the instance types of a NodePool by the DaemonSet Pods that run on them.

    Relaxation changes `daemons` for later instance types, templates and nodes, as upstream. Source:
    `buildDaemonOverheadGroups`.
    """
    groups: dict[tuple[int, ...], DaemonGroup] = {}
    for type_ in types:
        present = tuple(i for i in range(len(daemons)) if _runs_on(pool, type_, daemons, i))
        if present in groups:
            groups[present].instance_types.append(type_)
            continue
        pods = [daemons[index].pod for index in present]
        ports = [(pod.key, ports_of(pod)) for pod in pods]
        groups[present] = DaemonGroup([type_], sum_of(map(requests_of, pods)), ports)
    return list(groups.values())


def _runs_on(pool: NodePool, instance_type: InstanceType, daemons: list[KarpenterPod], index: int) -> bool:
    daemons[index] = daemons[index].tolerating_preferences() or daemons[index]
    if untolerated(pool.taints, daemons[index].tolerations):
        return False
    while True:
        daemon = daemons[index]
        requirements = daemon.requirements(preferences=False)
        if not pool.template.compatible(requirements, label.WELL_KNOWN) and not instance_type.requirements.conflict(
            requirements
        ):
            return True
        if len(daemon.required) < 2:
            return False
        daemons[index] = KarpenterPod.relaxed(daemon, tolerate_preferences=False) or daemon
